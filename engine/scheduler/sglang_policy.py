"""The order of the waiting queue: eight policies, four of which look at the prefix cache first.

The idea of `lpm` (longest prefix match): serve first who shares most with what is cached, while it still is;
so one prompt after another reuses the same nodes, and the cache is walked nearly depth first. Its cost is a
lookup per waiting request, so above 128 of them it is first come first served.

The in-batch rule: of waiting requests that begin alike and find little in the cache, only the first keeps its
place. The others are set back to the end, where they will find what the first one has computed.

Looking refreshes recency and may cut edges, also for requests that are not admitted. Policies that do not
look refresh the prefixes of the first 128 now and then, so that they are not evicted under them.

Source: SGLang 0.5.23 `sglang/srt/managers/schedule_policy.py` (SchedulePolicy, p01-p21).
"""

import random
from collections import Counter

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.kv.radix import RadixKV, namespace_of
from engine.kv.radix_tree import Match, Namespace, Node
from engine.scheduler.sglang_queue import SglangQueue
from engine.sequence import Sequence
from tracing.record import Code, Recorder

CACHE_AWARE = ("lpm", "dfs-weight", "hrrn", "shortest-prefill-first")
MAX_MATCHED = 128
"""Waiting requests whose prefixes are looked up (lpm, hrrn) or refreshed."""
REFRESH_INTERVAL = 32
"""Passes between refreshes."""
IN_BATCH_TOKENS = 32
"""So many tokens in common set a request back, if it finds no more than so many in the cache."""


class QueuePolicy:
    """Puts the waiting queue in order, in place."""

    def __init__(self, config: EngineConfig, kv: RadixKV, recorder: Recorder) -> None:
        self.config = config.sglang
        self.policy = self.config.schedule_policy
        if not config.enable_prefix_caching and self.policy in CACHE_AWARE:
            if self.policy == "shortest-prefill-first":
                raise ConfigError("schedule_policy shortest-prefill-first needs the radix cache")
            self.policy = "fcfs"
        self._kv = kv
        self._recorder = recorder
        self._random = random.Random(config.seed)
        self._num_passes = 0
        self._refreshes = config.enable_prefix_caching and (
            self.config.radix_eviction_policy == "lru"
        )
        self._fell_back = False

    def active(self, num_waiting: int) -> str:
        """The policy in force for a queue of this length."""
        if self.policy in ("lpm", "hrrn") and num_waiting > MAX_MATCHED:
            return "fcfs"
        return self.policy

    def sort(self, waiting: SglangQueue, running: list[Sequence]) -> set[int]:
        """Order the queue for this pass. Returns the requests that the in-batch rule set back."""
        active = self.active(len(waiting))
        self._record_fallback(active, len(waiting))
        if active in CACHE_AWARE:
            return self._sort_by_cache(active, waiting)
        sign = 1 if self.config.schedule_low_priority_values_first else -1
        by_priority = self.config.enable_priority_scheduling
        match active:
            case "lof":
                waiting.sort(
                    key=lambda seq: (
                        seq.request.priority * sign if by_priority else 0,
                        -(seq.request.params.max_tokens or 0),
                    )
                )
            case "random":
                self._random.shuffle(waiting)
            case "routing-key":
                _sort_by_routing_key(waiting, running)
            case _ if self.policy == "fcfs" and by_priority:
                # The queue is in order of arrival within each priority, and sorting keeps it so.
                waiting.sort(key=lambda seq: seq.request.priority * sign)
        self._refresh(waiting)
        return set()

    def chunk_limit(
        self, chunked: Sequence, waiting: SglangQueue, budget: int | None, page_size: int
    ) -> int | None:
        """shortest-prefill-first: leave room in the chunk budget for waiting prompts that are shorter."""
        if self.policy != "shortest-prefill-first" or budget is None or budget < 2 * page_size:
            return None
        remaining = chunked.num_tokens - chunked.num_computed_tokens
        reserved = 0
        for seq in waiting:
            work = _prefill_work(seq, waiting)
            charge = -(-work // page_size) * page_size
            if work >= remaining or reserved + charge > budget - page_size:
                break
            reserved += charge
        return (budget - reserved) // page_size * page_size if reserved else None

    # -- policies that look at the cache -----------------------------------------------------------

    def _sort_by_cache(self, active: str, waiting: SglangQueue) -> set[int]:
        matches, set_back = self._look_up(waiting)

        def is_back(seq: Sequence) -> bool:
            return seq.request_id in set_back

        def matched(seq: Sequence) -> int:
            return _counted_match(seq, waiting)

        match active:
            case "lpm":
                waiting.sort(key=lambda seq: (is_back(seq), 0 if is_back(seq) else -matched(seq)))
            case "dfs-weight":
                nodes = [match.node for match in matches]
                order = _dfs_weight_order(self._kv.cache.root, nodes)
                waiting[:] = [waiting[i] for i in order]
            case "hrrn":
                waiting.sort(key=lambda seq: _response_ratio(seq, waiting, is_back(seq)))
            case _:
                waiting.sort(
                    key=lambda seq: (
                        is_back(seq),
                        _prefill_work(seq, waiting),
                        waiting.ticket(seq).number,
                    )
                )
        self._record_keys(waiting, set_back)
        return set_back

    def _look_up(self, waiting: SglangQueue) -> tuple[list[Match], set[int]]:
        """Match everybody, in queue order, and apply the in-batch rule."""
        matches: list[Match] = []
        set_back: set[int] = set()
        seen: set[tuple[Namespace, tuple[int, ...]]] = set()
        for seq in waiting:
            hit = self._kv.match(seq, seq.num_tokens)
            waiting.ticket(seq).num_matched_tokens = hit.num_tokens
            matches.append(hit)
            if hit.num_tokens > IN_BATCH_TOKENS or seq.num_tokens < IN_BATCH_TOKENS:
                continue
            # Upstream keeps a throw-away tree; who has so many tokens in common begins with the same ones.
            start = namespace_of(seq), tuple(seq.token_ids[:IN_BATCH_TOKENS])
            if start in seen:
                set_back.add(seq.request_id)
            seen.add(start)
        return matches, set_back

    def _refresh(self, waiting: SglangQueue) -> None:
        """Make the prefixes of the first waiting requests recent, the head's last."""
        if not waiting or not self._refreshes:
            return
        if self._num_passes % REFRESH_INTERVAL == 0:
            for seq in reversed(waiting[:MAX_MATCHED]):
                self._kv.match(seq, seq.num_tokens)
        self._num_passes += 1

    # -- what the trace needs ----------------------------------------------------------------------

    def _record_keys(self, waiting: SglangQueue, set_back: set[int]) -> None:
        for place, seq in enumerate(waiting):
            key = _counted_match(seq, waiting), seq.request_id in set_back
            ticket = waiting.ticket(seq)
            if ticket.order_key != key:
                ticket.order_key = key
                self._recorder.decision(Code.ORDER_KEY, seq.request_id, *key, place)

    def _record_fallback(self, active: str, num_waiting: int) -> None:
        """Once, when it begins."""
        fell_back = active != self.policy
        if fell_back and not self._fell_back:
            self._recorder.decision(Code.ORDER_FALLBACK, None, num_waiting, MAX_MATCHED)
        self._fell_back = fell_back


def _counted_match(seq: Sequence, waiting: SglangQueue) -> int:
    """Cached tokens that spare work: the last token is computed in any case."""
    return min(waiting.ticket(seq).num_matched_tokens, max(seq.num_tokens - 1, 0))


def _prefill_work(seq: Sequence, waiting: SglangQueue) -> int:
    return max(1, seq.num_tokens - _counted_match(seq, waiting))


def _response_ratio(seq: Sequence, waiting: SglangQueue, is_back: bool) -> tuple[float, int]:
    """Highest response ratio next: waiting time over own work, both in prefill tokens."""
    if is_back:
        return float("inf"), seq.request_id
    uncached = seq.num_prompt_tokens - _counted_match(seq, waiting)
    if uncached <= 0:
        return -float("inf"), seq.request_id
    waited = waiting.clock_tokens - waiting.ticket(seq).joined_at_tokens
    return -waited / uncached, seq.request_id


def _sort_by_routing_key(waiting: SglangQueue, running: list[Sequence]) -> None:
    """First the keys that run most often; those that do not run keep out of the way, sorted by key."""
    keys = [seq.request.routing_key or "" for seq in running]
    counts = Counter(key for key in keys if key)
    if counts:
        waiting.sort(
            key=lambda seq: (
                seq.request.routing_key not in counts,
                -counts[seq.request.routing_key or ""],
                seq.request.routing_key or "",
            )
        )


def _dfs_weight_order(root: Node, nodes: list[Node]) -> list[int]:
    """Depth first through the tree, heavier subtrees first, older ones among equals.

    A request's weight is put on the node where its prefix ends and on all above; those that end on an inner
    node come after everybody below it. Returns indices into `nodes`.
    """
    ending: dict[Node, list[int]] = {}
    weights: Counter[Node] = Counter()
    for i, node in enumerate(nodes):
        ending.setdefault(node, []).append(i)
        weights.update(node.path())
    children: dict[Node | None, list[Node]] = {}
    for node in weights:
        children.setdefault(node.parent, []).append(node)
    order: list[int] = []
    stack = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order += ending.get(node, ())
            continue
        stack.append((node, True))
        below = sorted(children.get(node, ()), key=lambda child: (-weights[child], child.created))
        stack += [(child, False) for child in reversed(below)]
    return order
