"""Kernel launches as time stamps: one after each named group of ops, one list append each.

A launch ends where the next begins, so n launches are n + 1 stamps and a forward pass of 30 layers costs some
250 clock reads (10 us). Below level 4 the forward pass calls `unmarked` instead, which does nothing.
Times are host times: on a GPU they say when a kernel was handed over, not when it ran.

    begin   embed   norm    qkv     rope   ...   head    sample
      |-------|-------|-------|-------|-----------|---------|      <- stamps; names sit on their ends

Source: the idea of `torch.profiler.record_function` ranges, without its 2 us a range.
"""

from collections.abc import Callable

from tracing.record import Level, Recorder

Mark = Callable[[str, int], None]
"""Called after a group of ops with its name and its layer, -1 outside the layers."""


def unmarked(name: str, layer: int) -> None:
    """The mark of a pass that nobody watches."""


class Launches:
    """The launches of one forward pass on one rank, from `Launches(...)` to `write`."""

    __slots__ = ("_clock", "_names", "_recorder", "_stamps_ns", "mark")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._clock = recorder.clock
        self._names: list[tuple[str, int]] = []
        self._stamps_ns = [self._clock()]
        self.mark: Mark = self._mark if recorder.level >= Level.KERNELS else unmarked

    def write(self, num_tokens: int) -> None:
        """Hand the launches to the recorder. `num_tokens` is what the pass computed."""
        self._recorder.kernels(self._names, self._stamps_ns, num_tokens)

    def _mark(self, name: str, layer: int) -> None:
        self._names.append((name, layer))
        self._stamps_ns.append(self._clock())
