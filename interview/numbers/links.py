"""What crosses a link, and whether moving KV beats computing it again.

Source: PP hands on one hidden state per token (vLLM 0.33 `IntermediateTensors`); TP reduces twice a layer
(Shoeybi et al. 2019, Megatron-LM, section 3).
"""

from interview.numbers.worked import GIB, KIB, MIB, Derivation, Example, Param, Worked
from interview.text import Text


def boundary(
    *,
    hidden: int,
    value_bytes: int,
    sequences: int,
    prefill_tokens: int,
    chunk: int,
    link_gib_s: float,
    layers: int,
) -> Worked:
    """Activations over one pipeline boundary: decode, prefill, one chunk; and TP for contrast."""
    d = Derivation()
    token = d.add(
        "token",
        Text("hidden state of one token", "一个 token 的隐藏状态"),
        f"{hidden:,} × {value_bytes}",
        hidden * value_bytes,
        "B",
    )
    cases = (
        ("decode", Text("decode step", "一步 decode"), sequences),
        ("prefill", Text("prefill", "prefill"), prefill_tokens),
        ("chunk", Text("one chunk", "一个 chunk"), chunk),
    )
    for key, text, tokens in cases:
        size = d.add(key, text, f"{tokens:,} × {token / KIB:g} KiB", tokens * token, "B")
        seconds = size / (link_gib_s * GIB)
        scale, unit = (1e6, "µs") if seconds < 1e-3 else (1e3, "ms")
        amount = f"{size / MIB:g} MiB" if size >= MIB else f"{size / KIB:g} KiB"
        d.add(
            f"{key}_time",
            Text("  on the link", "  在链路上"),
            f"{amount} / {link_gib_s:g} GiB/s",
            seconds * scale,
            unit,
        )
    d.add(
        "tp",
        Text(
            "TP instead: two all-reduces a layer, per token, before the ring factor 2(n−1)/n",
            "若用 TP：每层两次 all-reduce，每 token，未乘环形因子 2(n−1)/n",
        ),
        f"{layers} × 2 × {token / KIB:g} KiB",
        layers * 2 * token,
        "B",
    )
    return d.done()


def restore(*, recompute_ms: float, transfer_ms: float, load_ms: float) -> Worked:
    """Bring KV back from another tier, or prefill again."""
    d = Derivation()
    back = d.add(
        "restore",
        Text("restore: transfer and load", "恢复：传输加载入"),
        f"{transfer_ms:g} + {load_ms:g}",
        transfer_ms + load_ms,
        "ms",
    )
    d.add(
        "saved",
        Text("saved against recomputing", "相比重算节省"),
        f"{recompute_ms:g} − {back:g}",
        recompute_ms - back,
        "ms",
    )
    d.add(
        "break_even",
        Text("transfer time at which both are equal", "两者相等的传输时间"),
        f"{recompute_ms:g} − {load_ms:g}",
        recompute_ms - load_ms,
        "ms",
    )
    return d.done()


EXAMPLES = (
    Example(
        "boundary",
        Text("Bytes over a pipeline boundary", "流水线边界上的字节"),
        Text(
            "A pipeline sends one hidden state per token and boundary: little in decode, a lot in prefill.",
            "流水线每个边界每 token 只传一个隐藏状态：decode 很少，prefill 很多。",
        ),
        (
            Param("hidden", 3072, "", Text("hidden size", "hidden size")),
            Param(
                "value_bytes", 2, "B", Text("bytes of a value (bf16: 2)", "每个数的字节（bf16:2）")
            ),
            Param("sequences", 8, "", Text("sequences that decode", "decode 中的序列数")),
            Param("prefill_tokens", 32768, "tokens", Text("prefill tokens", "prefill token 数")),
            Param("chunk", 512, "tokens", Text("tokens of a chunk", "chunk 的 token 数")),
            Param("link_gib_s", 12.0, "GiB/s", Text("the link", "链路带宽"), 0.001),
            Param("layers", 36, "", Text("layers, for the TP line", "层数，用于 TP 一行")),
        ),
        boundary,
        "decode",
        {"chunk-2048": {"chunk": 2048}},
    ),
    Example(
        "restore",
        Text("Restore KV or compute it again", "恢复 KV 还是重算"),
        Text(
            "A hit in a slow tier can lose: compare times, not hit rates.",
            "慢层的命中也会亏：要比时间，而不是比命中率。",
        ),
        (
            Param("recompute_ms", 80.0, "ms", Text("prefill again", "重新 prefill"), 0),
            Param("transfer_ms", 30.0, "ms", Text("transfer", "传输"), 0),
            Param("load_ms", 5.0, "ms", Text("load into the pool", "载入 KV 池"), 0),
        ),
        restore,
        "saved",
        {"slow": {"transfer_ms": 100.0}},
    ),
)
