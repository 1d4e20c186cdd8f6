"""The tree alone: what is found, what is shared, what may go, and a naive model that must agree with it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config_sglang import SglangConfig
from engine.kv.block_pool import Block
from engine.kv.radix_cache import RadixCache
from engine.kv.radix_tree import Namespace, Node, shared_length
from tracing.record import NO_RECORDER

PLAIN: Namespace = (None, None)


class Tree:
    """A cache, and fresh blocks for whoever inserts."""

    def __init__(self, page_size: int = 1, **config: object) -> None:
        self.cache = RadixCache(page_size, SglangConfig(**config), NO_RECORDER)  # type: ignore[arg-type]
        self.page_size = page_size
        self.num_blocks = 0

    def insert(self, tokens: list[int], namespace: Namespace = PLAIN, **how: int) -> list[int]:
        """Returns the ids of the duplicates."""
        num = len(tokens) // self.page_size
        blocks = [Block(self.num_blocks + i + 1) for i in range(num)]
        self.num_blocks += num
        done = self.cache.insert(tokens, blocks, namespace, **how)
        return [block.block_id for run in done.duplicates for block in run]

    def match(self, tokens: list[int], namespace: Namespace = PLAIN) -> list[int]:
        """Ids of the blocks found."""
        hit = self.cache.match(tokens, len(tokens), namespace)
        assert hit.num_tokens == len(hit.blocks()) * self.page_size
        return [block.block_id for block in hit.blocks()]

    def node(self, tokens: list[int]) -> Node:
        hit = self.cache.match(tokens, len(tokens), PLAIN)
        assert hit.num_tokens == len(tokens)
        return hit.node

    def edges(self) -> list[list[int]]:
        return [node.tokens for node in nodes(self.cache)]


def nodes(cache: RadixCache) -> list[Node]:
    found, stack = [], list(cache.root.children.values())
    while stack:
        node = stack.pop()
        found.append(node)
        stack += node.children.values()
    return sorted(found, key=lambda node: node.node_id)


def test_the_first_copy_stays_and_the_second_is_handed_back():
    tree = Tree()
    assert tree.insert([1, 2, 3, 4]) == []
    assert tree.insert([1, 2, 9]) == [5, 6]
    assert tree.match([1, 2, 9, 9]) == [1, 2, 7]
    assert tree.match([1, 2, 3, 4]) == [1, 2, 3, 4]


def test_what_the_caller_got_from_the_tree_is_no_duplicate():
    tree = Tree()
    tree.insert([1, 2, 3, 4])
    assert tree.insert([1, 2, 3, 4, 5], num_owned=3) == [8]


def test_a_lookup_that_ends_inside_an_edge_cuts_it():
    tree = Tree()
    tree.insert([1, 2, 3, 4])
    tree.match([1, 2, 8])
    assert tree.edges() == [[3, 4], [1, 2]]
    upper = tree.node([1, 2])
    assert (upper.node_id, upper.hits) == (2, 1)


def test_only_whole_pages_are_found_and_kept():
    tree = Tree(page_size=4)
    tree.insert(list(range(10)))
    assert tree.edges() == [list(range(8))]
    assert tree.match([0, 1, 2, 3, 4, 5, 6, 9]) == [1]
    assert tree.match([0, 1, 2]) == []


def test_namespaces_share_nothing():
    tree = Tree()
    tree.insert([1, 2], (None, "salt"))
    tree.insert([1, 2], ("adapter", None))
    assert tree.match([1, 2]) == []
    assert tree.match([1, 2], (None, "salt")) == [1, 2]
    assert tree.match([1, 2], ("adapter", None)) == [3, 4]


def test_a_sequence_counts_each_node_once_and_lookups_count_nothing():
    tree = Tree()
    tree.insert([1, 2, 3])
    tree.match([1, 2, 3])
    tree.insert([1, 2, 3, 4, 5], num_counted=3)
    assert [node.hits for node in nodes(tree.cache)] == [1, 1]
    tree.insert([1, 2, 3])
    assert [node.hits for node in nodes(tree.cache)] == [2, 1]


def test_locked_paths_are_not_evicted_and_an_edge_cut_later_stays_locked():
    tree = Tree()
    tree.insert([1, 2, 3, 4])
    tree.insert([7, 8])
    node = tree.node([1, 2, 3, 4])
    tree.cache.lock(node)
    tree.match([1, 2, 9])
    assert (tree.cache.num_evictable, tree.cache.num_protected) == (2, 4)
    assert [gone.tokens for gone in tree.cache.evict(100)] == [[7, 8]]
    tree.cache.unlock(node)
    assert [gone.tokens for gone in tree.cache.evict(100)] == [[3, 4], [1, 2]]
    assert (tree.cache.num_evictable, tree.cache.num_protected) == (0, 0)


def test_whole_leaves_go_until_enough_is_free_and_parents_follow_their_last_child():
    tree = Tree()
    tree.insert([1, 2, 3])
    tree.insert([1, 2, 3, 4, 5])
    assert [gone.tokens for gone in tree.cache.evict(1)] == [[4, 5]]
    assert [gone.tokens for gone in tree.cache.evict(1)] == [[1, 2, 3]]
    assert tree.cache.evict(1) == []


def test_cutting_an_edge_makes_the_unasked_tail_recent():
    tree = Tree()
    tree.insert([1, 2, 3, 4])
    tree.insert([5, 6])
    tree.match([1, 2])
    assert [gone.tokens for gone in tree.cache.evict(1)] == [[5, 6]]


def test_the_output_of_a_prompt_can_go_without_it():
    tree = Tree(radix_eviction_policy="priority")
    tree.insert([1, 2, 3, 50, 51], priority=4)
    tree.cache.cut([1, 2, 3], PLAIN, 5)
    assert [(node.tokens, node.priority) for node in nodes(tree.cache)] == [
        ([50, 51], 4),
        ([1, 2, 3], 5),
    ]
    assert [gone.tokens for gone in tree.cache.evict(1)] == [[50, 51]]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("lru", "bcad"),  # a was looked up after b and c were inserted
        ("lfu", "cadb"),  # b was inserted three times, the others once
        ("slru", "cadb"),
        ("priority", "cadb"),  # b has priority 3
        ("fifo", "abcd"),
        ("filo", "dcba"),
        ("mru", "dacb"),
        ("tlru", "dbca"),  # d's last token could be computed in time
    ],
)
def test_who_goes_first(policy, order):
    config = {"tlru_threshold": 1} if policy == "tlru" else {}
    tree = Tree(radix_eviction_policy=policy, **config)
    stems = {"a": [1, 1], "b": [2, 2], "c": [3, 3]}
    for stem in stems.values():
        tree.insert(stem)
    tree.insert(stems["b"])
    tree.insert(stems["b"], priority=3)
    tree.insert(stems["c"], num_counted=2)
    tree.match(stems["a"])
    tree.insert([4, 4])
    if policy == "tlru":
        tree.insert([4, 4, 5])
    names = {1: "a", 2: "b", 3: "c", 4: "d", 5: "d"}
    gone = [names[node.tokens[0]] for _ in range(5) for node in tree.cache.evict(1)]
    assert "".join(dict.fromkeys(gone)) == order


def test_the_heap_of_leaves_stays_small_however_often_a_leaf_is_used():
    tree = Tree()
    for stem in range(10):
        tree.insert([stem, stem])
    for i in range(2000):
        tree.match([i % 10, i % 10])
    entries = tree.cache.leaves._heap
    assert len(entries) <= 2 * 10 + 64 + 1
    assert [node.tokens[0] for node in tree.cache.evict(100)] == list(range(10))


@given(st.lists(st.integers(0, 1), max_size=40), st.integers(0, 40), st.sampled_from([1, 2, 4]))
def test_edges_are_compared_by_slices_as_by_tokens(edge, cut, page_size):
    tokens = [7, 7, *edge[:cut], 2, *edge[cut:]]
    agreed = 0
    for left, right in zip(edge, tokens[2:], strict=False):
        if left != right:
            break
        agreed += 1
    want = agreed // page_size * page_size
    assert shared_length(edge, tokens, 2, len(tokens), page_size) == want


OPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "insert", "match", "lock", "unlock", "evict"]),
        st.lists(st.integers(0, 2), min_size=1, max_size=12),
        st.sampled_from([PLAIN, PLAIN, (None, "s")]),
        st.integers(0, 12),
    ),
    max_size=60,
)


class Model:
    """The cache as a dictionary from every whole-page prefix to the block that holds its last page."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.blocks: dict[tuple[Namespace, tuple[int, ...]], int] = {}

    def prefixes(self, tokens: list[int], namespace: Namespace):
        size = self.page_size
        ends = range(size, len(tokens) // size * size + 1, size)
        return [(namespace, tuple(tokens[:end])) for end in ends]

    def match(self, tokens: list[int], namespace: Namespace) -> list[int]:
        found = []
        for prefix in self.prefixes(tokens, namespace):
            if prefix not in self.blocks:
                break
            found.append(self.blocks[prefix])
        return found

    def insert(self, tokens: list[int], namespace: Namespace, first_id: int) -> list[int]:
        duplicates = []
        for i, prefix in enumerate(self.prefixes(tokens, namespace)):
            if self.blocks.setdefault(prefix, first_id + i) != first_id + i:
                duplicates.append(first_id + i)
        return duplicates

    def evict(self, ids: set[int]) -> None:
        self.blocks = {prefix: i for prefix, i in self.blocks.items() if i not in ids}
        for namespace, tokens in self.blocks:
            above = tokens[: -self.page_size]
            assert not above or (namespace, above) in self.blocks, "a prefix lost its beginning"


@settings(max_examples=300, deadline=None)
@given(
    OPS,
    st.sampled_from([1, 2]),
    st.sampled_from(["lru", "lfu", "slru", "priority", "tlru", "fifo", "mru", "filo"]),
)
def test_the_tree_agrees_with_a_dictionary_of_prefixes(ops, page_size, policy):
    tree, model = Tree(page_size, radix_eviction_policy=policy), Model(page_size)
    locked: list[Node] = []
    for op, tokens, namespace, number in ops:
        match op:
            case "insert":
                first = tree.num_blocks + 1
                got = tree.insert(tokens, namespace, priority=number)
                assert got == model.insert(tokens, namespace, first)
            case "match":
                assert tree.match(tokens, namespace) == model.match(tokens, namespace)
            case "lock":
                node = tree.cache.match(tokens, len(tokens), namespace).node
                tree.cache.lock(node)
                locked.append(node)
            case "unlock" if locked:
                tree.cache.unlock(locked.pop(number % len(locked)))
            case "evict":
                gone = tree.cache.evict(number)
                held = {above for node in locked for above in node.path()}
                assert not held & set(gone)
                assert sum(len(n.tokens) for n in gone) >= number or tree.cache.num_evictable == 0
                model.evict({block.block_id for node in gone for block in node.blocks})
        check(tree.cache, locked, model)


def check(cache: RadixCache, locked: list[Node], model: Model) -> None:
    """Sizes, lock counts, leaves and keys are what the nodes themselves say."""
    found = nodes(cache)
    locks = dict.fromkeys(found, 0)
    for node in locked:
        for above in node.path():
            locks[above] += 1
    assert {node: node.locks for node in found} == locks
    protected = sum(len(node.blocks) for node in found if node.locks)
    assert cache.num_protected == protected
    assert cache.num_evictable == sum(len(node.blocks) for node in found) - protected
    assert set(cache.leaves) == {n for n in found if not n.locks and not n.children}
    assert sorted(b.block_id for n in found for b in n.blocks) == sorted(model.blocks.values())
    for node in found:
        assert node.parent is not None
        assert node.depth == node.parent.depth + len(node.parent.tokens)
        assert len(node.tokens) == len(node.blocks) * cache.page_size > 0
        assert node.access <= max(n.access for n in found)
