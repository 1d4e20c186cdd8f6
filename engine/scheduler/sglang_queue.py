"""SGLang's waiting queue: a list that the policy puts in order before each admission pass.

A retracted sequence comes back to the *tail*. What policies need to know of each request beyond its tokens
is on its ticket, which it keeps while it runs, because a push-out looks at when it joined.

Source: SGLang 0.5.23 `sglang/srt/managers/scheduler.py` (_add_request_to_queue).
"""

from dataclasses import dataclass

from engine.sequence import Sequence


@dataclass(slots=True)
class Ticket:
    """When a sequence last joined the queue, and how it looked when it was last looked at."""

    number: int
    """Counts who joins."""
    joined_at_tokens: int
    """The queue's clock by then."""
    num_seen_tokens: int = 0
    """Its length when it was last tried for admission; 0: never. Stays over a retraction, as upstream."""
    num_matched_tokens: int = 0
    """Its cached prefix when it was last looked up."""
    order_key: tuple[int, bool] | None = None
    """(matched, set back) as last recorded."""


class SglangQueue(list[Sequence]):
    """The waiting sequences, in the order in which they would be admitted."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets: dict[int, Ticket] = {}
        """Of all unfinished requests, by request id."""
        self.clock_tokens = 0
        """By which `hrrn` ages: tokens of all prefills, and with each decode once more those of the prefill
        with which the running batch began."""
        self._num_joined = 0

    def head(self) -> Sequence:
        """Who is next."""
        return self[0]

    def add(self, seq: Sequence) -> None:
        """To the tail."""
        old = self.tickets.get(seq.request_id)
        self._num_joined += 1
        ticket = Ticket(self._num_joined, self.clock_tokens)
        if old is not None:
            ticket.num_seen_tokens, ticket.order_key = old.num_seen_tokens, old.order_key
        self.tickets[seq.request_id] = ticket
        self.append(seq)

    def put_back(self, seq: Sequence) -> None:
        """A retracted one: to the tail as well."""
        self.add(seq)

    def ticket(self, seq: Sequence) -> Ticket:
        """The ticket of an unfinished sequence."""
        return self.tickets[seq.request_id]

    def forget(self, seq: Sequence) -> None:
        """It has ended."""
        del self.tickets[seq.request_id]
