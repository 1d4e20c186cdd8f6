"""The waiting queue: first come first served, or by priority.

A preempted sequence comes back to the *front* under fcfs; under priority its own key decides.
Source: vLLM 0.33 `vllm/v1/core/sched/request_queue.py`.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from engine.sequence import Sequence


class WaitingQueue(Protocol):
    """What a scheduler needs of a queue."""

    def __len__(self) -> int:
        """How many wait."""
        ...

    def __iter__(self) -> Iterator[Sequence]:
        """In the order in which they would be admitted."""
        ...

    def head(self) -> Sequence:
        """Who is next."""
        ...

    def add(self, seq: Sequence) -> None:
        """A new arrival."""
        ...

    def put_back(self, seq: Sequence) -> None:
        """A preempted sequence."""
        ...

    def remove(self, seq: Sequence) -> None:
        """It was admitted or aborted."""
        ...


class FcfsQueue(deque[Sequence]):
    """First come, first served."""

    def head(self) -> Sequence:
        """Who has waited longest."""
        return self[0]

    def add(self, seq: Sequence) -> None:
        """To the back."""
        self.append(seq)

    def put_back(self, seq: Sequence) -> None:
        """To the front: it has been served before."""
        self.appendleft(seq)


def urgency(seq: Sequence) -> tuple[int, int, int]:
    """Sort key under priority scheduling: smallest first served, largest first preempted."""
    return seq.request.priority, seq.request.arrival_ns, seq.request_id


class PriorityQueue(list[Sequence]):
    """Sorted by (priority, arrival, id)."""

    def head(self) -> Sequence:
        """The most urgent."""
        return self[0]

    def add(self, seq: Sequence) -> None:
        """To its place."""
        insort(self, seq, key=urgency)

    def put_back(self, seq: Sequence) -> None:
        """To its place, which its priority decides."""
        self.add(seq)
