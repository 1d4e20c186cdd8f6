"""What halving the weights brings: the part of a step that reads them, and the part that stays.

Source: single-stream decode rates of a published comparison (66 tok/s in bf16, 100 in fp8); the arithmetic
is done here.
"""

from interview.numbers.worked import Derivation, Example, Param, Worked
from interview.text import Text


def halved_weights(*, weights_gb: float, before_tok_s: float, after_tok_s: float) -> Worked:
    """Split a decode step into reading weights and the rest, from two rates."""
    d = Derivation()
    d.add(
        "speed_up",
        Text("speed-up", "加速"),
        f"{after_tok_s:g} / {before_tok_s:g}",
        after_tok_s / before_tok_s,
        "",
    )
    before = d.add(
        "before",
        Text("a token before", "之前每 token"),
        f"1000 / {before_tok_s:g}",
        1000 / before_tok_s,
        "ms",
    )
    after = d.add(
        "after",
        Text("a token after", "之后每 token"),
        f"1000 / {after_tok_s:g}",
        1000 / after_tok_s,
        "ms",
    )
    d.add(
        "bandwidth",
        Text("bytes read a second before, at least", "之前每秒至少读取"),
        f"{before_tok_s:g} × {weights_gb:g} GB",
        before_tok_s * weights_gb,
        "GB/s",
    )
    d.add(
        "bandwidth_after",
        Text("  after, with half the bytes", "  之后，字节减半"),
        f"{after_tok_s:g} × {weights_gb / 2:g} GB",
        after_tok_s * weights_gb / 2,
        "GB/s",
    )
    saved = before - after
    reading = d.add(
        "reading",
        Text("reading weights before: twice what was saved", "之前读权重：节省量的两倍"),
        f"2 × ({before:.2f} − {after:.2f})",
        2 * saved,
        "ms",
    )
    d.add(
        "fixed",
        Text("what does not shrink", "不随之缩短的部分"),
        f"{before:.2f} − {reading:.2f}",
        before - reading,
        "ms",
    )
    return d.done()


EXAMPLES = (
    Example(
        "fp8",
        Text("Half the weight bytes, not twice the speed", "权重字节减半，速度不翻倍"),
        Text(
            "Only the time that reads weights is halved; launches, KV and sampling stay.",
            "只有读权重的时间减半；启动开销、KV 与采样不变。",
        ),
        (
            Param("weights_gb", 3.28, "GB", Text("weights in bf16", "bf16 权重"), 0.001),
            Param("before_tok_s", 66.0, "tok/s", Text("rate in bf16", "bf16 速率"), 0.001),
            Param("after_tok_s", 100.0, "tok/s", Text("rate in fp8", "fp8 速率"), 0.001),
        ),
        halved_weights,
        "speed_up",
        {},
    ),
)
