"""What is happening to a request: the only mutable state besides the block pool.

All of scheduling is one subtraction, `num_tokens - num_computed_tokens`: a prompt is catching up, a decode is
one behind, a prefix hit starts ahead, a preemption falls back to 0. There are no prefill and decode modes.
Source: vLLM 0.33 `vllm/v1/request.py`.
"""

from enum import Enum, auto

from engine.kv.block_pool import Block
from engine.request import Request
from tracing.record import Phase

PhaseSpan = tuple[int, int, int]
"""(phase, start_ns, first step or -1); it ends where the next begins."""


class Status(Enum):
    """Where a sequence stands."""

    WAITING = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    FINISHED = auto()


class Sequence:
    """A request on its way, its tokens and its place in the KV cache."""

    __slots__ = (
        "block_hashes",
        "block_table",
        "draft_token_ids",
        "max_computed_tokens",
        "num_cached_blocks",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "num_recomputed_tokens",
        "phases",
        "request",
        "status",
        "token_ids",
    )

    def __init__(self, request: Request, now_ns: int) -> None:
        self.request = request
        self.status = Status.WAITING
        self.token_ids = list(request.prompt_token_ids)
        """Prompt and output so far."""
        self.num_prompt_tokens = len(self.token_ids)
        self.num_computed_tokens = 0
        """Tokens whose KV is written, or will be by the step in flight."""
        self.draft_token_ids: list[int] = []
        """Proposed next tokens, to be verified together with the last one."""
        self.block_table: list[Block] = []
        self.block_hashes: list[bytes] = []
        """Chain hash of each full block of token_ids; grows with them."""
        self.num_cached_blocks = 0
        """How many blocks of block_table have been entered in the prefix cache."""
        self.num_cached_tokens: int | None = None
        """Prefix hit at first admission; None: not admitted yet."""
        self.num_preemptions = 0
        self.max_computed_tokens = 0
        """The furthest it ever got: computing below this line again is a preemption's bill."""
        self.num_recomputed_tokens = 0
        self.phases: list[PhaseSpan] = [(Phase.TO_CORE, request.sent_ns or now_ns, -1)]
        self.enter(Phase.QUEUE, now_ns)

    @property
    def request_id(self) -> int:
        """Id of the request."""
        return self.request.request_id

    @property
    def num_tokens(self) -> int:
        """Prompt and output so far; drafts do not count."""
        return len(self.token_ids)

    @property
    def num_tokens_with_drafts(self) -> int:
        """What the next step may compute up to."""
        return len(self.token_ids) + len(self.draft_token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Tokens sampled so far."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def is_finished(self) -> bool:
        """True once it ended in any way."""
        return self.status is Status.FINISHED

    @property
    def is_prefilling(self) -> bool:
        """It has sampled nothing since it was admitted: it computes prompt, or output that was lost."""
        return self.phases[-1][0] == Phase.PREFILL

    def enter(self, phase: Phase, start_ns: int, step: int = -1) -> None:
        """Begin a phase of life, ending the one before."""
        if self.phases[-1][0] != phase:
            self.phases.append((phase, start_ns, step))
