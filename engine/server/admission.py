"""May a request come in? What is asked before it is read, and before it joins the queue.

    before reading   is there an engine, is the server not about to stop, is it JSON
    before queueing  does the queue have room: --max-waiting, else 429 and Retry-After

How many wait is known without asking the core: what is open and did not run in its last step. If nobody
waited then, those slots of a batch that were empty count as room too, so that a limit of 0 still lets an
idle server work.

Source: vLLM 0.33 refuses with 503 in the front end (`max_num_queued_reqs`); 429 is what OpenAI's clients
back off from.
"""

from starlette.requests import Request

from engine.server.api_error import ApiError
from engine.server.client import CoreClient
from engine.server.link import CoreError
from engine.server.settings import ServerSettings

RETRY_AFTER_S = 1


class QueueFull(ApiError):
    """Too many requests wait."""

    def __init__(self, num_waiting: int, max_waiting: int) -> None:
        super().__init__(
            429,
            f"{num_waiting} requests wait already, the limit is {max_waiting}: try again later",
            code="queue_full",
            retry_after_s=RETRY_AFTER_S,
        )
        self.num_waiting = num_waiting


class Admission:
    """The door of one API process."""

    def __init__(
        self,
        client: CoreClient,
        settings: ServerSettings,
        max_num_seqs: int,
        *,
        has_priorities: bool,
    ) -> None:
        self._client = client
        self._settings = settings
        self._max_num_seqs = max_num_seqs
        self._has_priorities = has_priorities

    def check_open(self) -> None:
        """Raises ApiError while no request can be served at all."""
        if self._client.is_draining:
            raise ApiError(503, "the server is shutting down", code="shutting_down")
        if self._client.failure is not None:
            raise engine_error(self._client.failure, self._client.state)

    def check_json(self, request: Request) -> None:
        """Raises ApiError: a web page of another origin can post plain text unasked, but not JSON."""
        content_type = request.headers.get("content-type", "")
        if content_type.split(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "send the request as application/json")

    def check_priority(self, priority: int) -> None:
        """Raises ApiError: a priority that nobody looks at would be a silent lie."""
        if priority and not self._has_priorities:
            raise ApiError(
                400,
                "this server runs requests in their order of arrival: leave priority out, or start it "
                "with --scheduling-policy priority (sglang: --enable-priority-scheduling)",
                param="priority",
            )

    def check_room(self, num_new: int) -> None:
        """Raises QueueFull, or ApiError 400 if so many could never be taken at once."""
        stats, limit = self._client.stats, self._settings.max_waiting
        if num_new > limit + self._max_num_seqs:
            raise ApiError(
                400,
                f"the request asks for {num_new} answers at once; this server takes at most "
                f"{limit + self._max_num_seqs}: send fewer prompts or a smaller n",
            )
        num_waiting = self._client.frontend.num_open - stats.num_running
        num_slots = 0 if stats.num_waiting else self._max_num_seqs - stats.num_running
        if num_waiting + num_new > limit + max(num_slots, 0):
            raise QueueFull(num_waiting, limit)

    def cache_salt(self, request: Request, asked: str | None) -> str | None:
        """The salt of a request: the client's, or the operator's where the operator sets it.

        Raises ApiError when a client tries to choose, or the proxy has not set, an operator's salt.
        """
        header = self._settings.trusted_salt_header
        if header is None:
            return asked
        if asked is not None:
            raise ApiError(
                400, "cache_salt is set by this server's operator: leave it out", param="cache_salt"
            )
        salts = request.headers.getlist(header)
        if len(salts) != 1 or not salts[0]:
            raise ApiError(400, f"the header {header} must be set, once, by the proxy in front")
        return salts[0]


def engine_error(error: CoreError, state: str = "restarting") -> ApiError:
    """What clients are told while there is no engine."""
    retry_after_s = None if state == "over" else RETRY_AFTER_S
    code = "engine_starting" if state == "starting" else "engine_lost"
    return ApiError(503, str(error), code=code, retry_after_s=retry_after_s)
