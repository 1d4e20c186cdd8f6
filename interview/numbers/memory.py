"""Where memory goes: weights per card, experts per card, KV per token.

Source: `num_layers` ... of each model's config.json; layouts as vLLM 0.33 `vllm/config/parallel.py` defines
TP, DP and EP.
"""

from interview.numbers.worked import KIB, MIB, Derivation, Example, Param, Worked
from interview.text import Text


def _powers_of_two(limit: int) -> list[int]:
    return [2**i for i in range(limit.bit_length()) if limit % 2**i == 0]


def layouts(*, weights_gib: float, card_gib: float, cards: int) -> Worked:
    """Weights per card for every split of `cards` into TP groups of a power of two."""
    d = Derivation()
    for tp in reversed(_powers_of_two(cards)):
        name, groups = f"TP{tp} × {cards // tp}", cards // tp
        card = d.add(
            f"card_tp{tp}",
            Text(f"{name}: weights on a card", f"{name}：每卡权重"),
            f"{weights_gib:g} / {tp}",
            weights_gib / tp,
            "GiB",
        )
        d.add(
            f"left_tp{tp}",
            Text("  left for KV and work space", "  留给 KV 与工作区"),
            f"{card_gib:g} − {card:g}",
            card_gib - card,
            "GiB",
        )
        d.add(
            f"all_tp{tp}",
            Text("  weights over all cards", "  所有卡合计权重"),
            f"{card:g} × {cards}",
            card * cards,
            "GiB",
        )
        d.add(
            f"groups_tp{tp}",
            Text("  groups that serve on their own", "  独立服务的组"),
            f"{cards} / {tp}",
            groups,
            "groups",
        )
    return d.done()


def experts(*, dense_gib: float, expert_gib: float, cards: int) -> Worked:
    """A mixture of experts: experts split over all cards, the rest over TP only."""
    d = Derivation()
    share = d.add(
        "experts",
        Text("routed experts on a card", "每卡的路由专家"),
        f"{expert_gib:g} / {cards}",
        expert_gib / cards,
        "GiB",
    )
    first = 0.0
    for tp in _powers_of_two(cards):
        name = f"TP{tp} × DP{cards // tp}"
        card = d.add(
            f"card_tp{tp}",
            Text(f"{name}: on a card", f"{name}：每卡"),
            f"{dense_gib:g} / {tp} + {share:g}",
            dense_gib / tp + share,
            "GiB",
        )
        d.add(
            f"all_tp{tp}",
            Text("  over all cards", "  所有卡合计"),
            f"{card:g} × {cards}",
            card * cards,
            "GiB",
        )
        if tp == 1:
            first = card
            continue
        d.add(
            f"saved_tp{tp}",
            Text("  less on a card than TP1", "  每卡比 TP1 少"),
            f"{first:g} − {card:g}",
            first - card,
            "GiB",
        )
    d.add(
        "copy",
        Text("a full copy on each card, without EP", "不用 EP，每卡一份完整副本"),
        f"{dense_gib:g} + {expert_gib:g}",
        dense_gib + expert_gib,
        "GiB",
    )
    return d.done()


def kv(
    *,
    layers: int,
    kv_heads: int,
    head_size: int,
    value_bytes: int,
    block_size: int,
    pool_mib: float,
) -> Worked:
    """Bytes that one token leaves in the KV cache, and what a pool holds."""
    d = Derivation()
    token = d.add(
        "token",
        Text(
            "one token: K and V × layers × KV heads × head size × bytes",
            "一个 token：K 与 V × 层 × KV 头 × 头维 × 字节",
        ),
        f"2 × {layers} × {kv_heads} × {head_size} × {value_bytes}",
        2 * layers * kv_heads * head_size * value_bytes,
        "B",
    )
    block = d.add(
        "block",
        Text("one block", "一个 block"),
        f"{block_size} × {token / KIB:g} KiB",
        block_size * token,
        "B",
    )
    blocks = d.add(
        "blocks",
        Text("whole blocks in the pool", "池中的整块数"),
        f"⌊{pool_mib:g} MiB / {block / KIB:g} KiB⌋",
        pool_mib * MIB // block,
        "blocks",
    )
    d.add(
        "tokens",
        Text("tokens in the pool", "池中可存的 token"),
        f"{blocks:g} × {block_size}",
        blocks * block_size,
        "tokens",
    )
    given_out = d.add(
        "given_out",
        Text(
            "  given out: block 0 stands where a block table is empty (vLLM and this engine)",
            "  可分配的：block 0 只在 block table 的空位上占位（vLLM 与本引擎）",
        ),
        f"{blocks:g} − 1",
        max(0, blocks - 1),
        "blocks",
    )
    d.add(
        "usable",
        Text("  tokens in these", "  这些 block 可存的 token"),
        f"{given_out:g} × {block_size}",
        given_out * block_size,
        "tokens",
    )
    return d.done()


def _shape(layers: int, kv_heads: int, head_size: int) -> dict[str, int]:
    return {"layers": layers, "kv_heads": kv_heads, "head_size": head_size}


MODELS = {
    "smollm2-135m": _shape(30, 3, 64),
    "qwen3-0.6b": _shape(28, 8, 128),
    "qwen3-1.7b": _shape(28, 8, 128),
    "qwen3-4b": _shape(36, 8, 128),
    "qwen2.5-1.5b": _shape(28, 2, 128),
    "llama-2-7b": _shape(32, 32, 128),
    "llama-2-13b": _shape(40, 40, 128),
    "llama-3-8b": _shape(32, 8, 128),
    "llama-3-70b": _shape(80, 8, 128),
}
"""Layers, KV heads and head size of each model's config.json."""

EXAMPLES = (
    Example(
        "layouts",
        Text("Dense weights on several cards", "稠密模型的权重放到多张卡"),
        Text(
            "TP divides the weights once; replicas multiply them.",
            "TP 把权重分成一份；副本把权重变成多份。",
        ),
        (
            Param("weights_gib", 16.0, "GiB", Text("weights of the model", "模型权重"), 0),
            Param("card_gib", 24.0, "GiB", Text("memory of a card", "单卡显存"), 0),
            Param("cards", 8, "cards", Text("cards", "卡数")),
        ),
        layouts,
        "left_tp1",
        {},
    ),
    Example(
        "experts",
        Text("A mixture of experts on four cards", "四张卡上的 MoE"),
        Text(
            "EP splits the experts over all cards whatever TP is; TP only changes the dense share.",
            "无论 TP 多大，EP 都把专家分到所有卡；TP 只改变非专家部分。",
        ),
        (
            Param(
                "dense_gib", 6, "GiB", Text("attention and shared part", "注意力等非专家部分"), 0
            ),
            Param("expert_gib", 42.0, "GiB", Text("routed experts", "路由专家"), 0),
            Param("cards", 4, "cards", Text("cards, one expert group", "卡数，同一个专家组")),
        ),
        experts,
        "card_tp1",
        {},
    ),
    Example(
        "kv",
        Text("KV cache per token", "每个 token 的 KV cache"),
        Text(
            "Layers, KV heads and head size set it; the hidden size does not appear.",
            "由层数、KV 头数和头维决定，公式里没有 hidden size。",
        ),
        (
            Param("layers", 28, "", Text("layers", "层数")),
            Param("kv_heads", 8, "", Text("KV heads", "KV 头数")),
            Param("head_size", 128, "", Text("head size", "头维")),
            Param(
                "value_bytes", 2, "B", Text("bytes of a value (bf16: 2)", "每个数的字节（bf16:2）")
            ),
            Param("block_size", 16, "tokens", Text("tokens of a block", "每个 block 的 token 数")),
            Param("pool_mib", 64.0, "MiB", Text("KV pool", "KV 池"), 0),
        ),
        kv,
        "token",
        MODELS,
    ),
)
