"""What a prefix hit saves: request R, the same prompt twice, a shared prefix.

One rule makes all of it: a hit is cut to whole units, and at least the last token is computed again, because
only a forward pass gives the logits that the first new token is sampled from.
Source: vLLM 0.33 `KVCacheManager.get_computed_blocks` (golden t16, t17); SGLang 0.5.23 matches at most
length − 1 tokens in pages.
"""

from interview.numbers.worked import Derivation, Example, Param, Worked
from interview.text import Text


def cached(length: int, common: int, unit: int) -> int:
    """Tokens reused of a prompt of `length` whose first `common` tokens were computed before."""
    return min(common, length - 1) // unit * unit


def request_r(*, prompt: int, common: int, unit: int) -> Worked:
    """Request R: what its first step computes, and when each KV is written."""
    d = Derivation()
    hit = d.add(
        "cached",
        Text(f"cached, in units of {unit}", f"命中，单位 {unit}"),
        f"⌊min({common}, {prompt} − 1) / {unit}⌋ × {unit}",
        cached(prompt, common, unit),
        "tokens",
    )
    d.add(
        "computed",
        Text("computed in the first step", "第一步计算"),
        f"{prompt} − {hit:g}",
        prompt - hit,
        "tokens",
    )
    last = d.add(
        "logits_from",
        Text("position whose logits give X", "由哪个位置的 logits 得到 X"),
        f"{prompt} − 1",
        prompt - 1,
        "",
    )
    d.add(
        "x_position",
        Text("position of X", "X 的位置"),
        f"{last:g} + 1",
        prompt,
        "",
    )
    d.add(
        "x_written",
        Text(
            "step that writes X's own KV: X is an input only then",
            "写入 X 的 KV 的步：那时 X 才是输入",
        ),
        "1 + 1",
        2,
        "",
    )
    d.add(
        "cached_16",
        Text("with 16-token blocks instead: cached", "若用 16-token 的 block：命中"),
        f"⌊min({common}, {prompt} − 1) / 16⌋ × 16",
        cached(prompt, common, 16),
        "tokens",
    )
    return d.done()


def repeat(*, lengths: tuple[int, ...], block_size: int) -> Worked:
    """The same prompt sent again: cached and computed tokens for each length."""
    d = Derivation()
    for n in lengths:
        hit = d.add(
            f"cached_{n}",
            Text(f"{n} tokens again: cached", f"{n} 个 token 再发一次：命中"),
            f"⌊({n} − 1) / {block_size}⌋ × {block_size}",
            cached(n, n, block_size),
            "tokens",
        )
        d.add(
            f"computed_{n}",
            Text("  computed", "  计算"),
            f"{n} − {hit:g}",
            n - hit,
            "tokens",
        )
    return d.done()


def shared(*, common: int, own: int, block_size: int, requests: int) -> Worked:
    """A prefix that several requests share, followed by some tokens of their own."""
    d = Derivation()
    length = common + own
    blocks = d.add(
        "blocks",
        Text("whole blocks of the common prefix", "公共前缀的整块数"),
        f"⌊min({common:,}, {length:,} − 1) / {block_size}⌋",
        cached(length, common, block_size) // block_size,
        "blocks",
    )
    hit = d.add(
        "reused",
        Text("reused by hash blocks", "按 block 哈希复用"),
        f"{blocks:,.0f} × {block_size}",
        blocks * block_size,
        "tokens",
    )
    d.add(
        "computed", Text("  computed", "  计算"), f"{length:,} − {hit:,.0f}", length - hit, "tokens"
    )
    d.add(
        "reused_page1",
        Text("reused by pages of 1", "按 1-token 页复用"),
        f"min({common:,}, {length:,} − 1)",
        cached(length, common, 1),
        "tokens",
    )
    d.add(
        "total_without",
        Text(f"{requests} requests in turn, no cache", f"{requests} 个请求依次到来，无缓存"),
        f"{requests} × {length:,}",
        requests * length,
        "tokens",
    )
    d.add(
        "total_with",
        Text("  with hash blocks: the first computes all", "  有 block 缓存：第一个全算"),
        f"{length:,} + {requests - 1} × {length - hit:,.0f}",
        length + (requests - 1) * (length - hit),
        "tokens",
    )
    return d.done()


BLOCK = Param("block_size", 16, "tokens", Text("tokens of a block", "每个 block 的 token 数"))

EXAMPLES = (
    Example(
        "request-r",
        Text("When is a token's KV written?", "token 的 KV 何时写入？"),
        Text(
            "A sampled token has no KV yet; its own step writes it.",
            "刚采样的 token 还没有 KV，下一步把它作为输入时才写入。",
        ),
        (
            Param("prompt", 6, "tokens", Text("prompt of R", "R 的 prompt")),
            Param("common", 4, "tokens", Text("of it computed before", "其中算过的"), 0),
            Param("unit", 2, "tokens", Text("unit of the cache", "缓存单位")),
        ),
        request_r,
        "computed",
        {},
    ),
    Example(
        "repeat",
        Text("The same prompt twice", "同一 prompt 发两次"),
        Text(
            "A full hit gives up its last block: 64 tokens compute 16 again, 65 compute 1.",
            "全命中要让出最后一块：64 个 token 重算 16 个，65 个只算 1 个。",
        ),
        (
            Param("lengths", (15, 31, 63, 64, 65), "tokens", Text("prompt lengths", "prompt 长度")),
            BLOCK,
        ),
        repeat,
        "computed_64",
        {},
    ),
    Example(
        "shared-prefix",
        Text("A prefix that requests share", "请求间的公共前缀"),
        Text(
            "Blocks and single-token pages differ only by the tail that fills no block.",
            "按块与按单 token 页只差不足一块的尾巴。",
        ),
        (
            Param("common", 2000, "tokens", Text("common prefix", "公共前缀"), 0),
            Param("own", 100, "tokens", Text("own tokens of each", "各自的 token"), 0),
            BLOCK,
            Param("requests", 4, "", Text("requests", "请求数")),
        ),
        shared,
        "reused",
        {"odd": {"common": 2007}, "long": {"common": 3000}},
    ),
)
