"""How many replicas a load needs, and why a queue must not be asked for all that a server can do.

Source: M/D/1 mean wait ρs / 2(1 − ρ) (Pollaczek 1930, Khinchine 1932); open and closed loops after
Schroeder, Wierman, Harchol-Balter 2006, "Open versus closed: a cautionary tale".
"""

import heapq
import math
import random

from interview.numbers.worked import Derivation, Example, Param, Worked
from interview.text import Text


def fleet(*, rate: float, per_gpu: float, target: float, spare: int) -> Worked:
    """GPUs for a peak rate when each may run at `target` of what it sustains within the SLO."""
    d = Derivation()
    needed = d.add(
        "exact",
        Text(
            "peak rate / (rate of one within the SLO × target)",
            "峰值 /（单卡达标速率 × 目标利用率）",
        ),
        f"{rate:g} / ({per_gpu:g} × {target:g})",
        rate / (per_gpu * target),
        "GPUs",
    )
    # 7 replicas at exactly the target are 7, not 8, whatever the last bit of the division says.
    whole = d.add(
        "rounded",
        Text("rounded up", "向上取整"),
        f"⌈{needed:.3f}⌉",
        math.ceil(needed - 1e-9),
        "GPUs",
    )
    total = d.add(
        "fleet", Text("with spares", "加上备用"), f"{whole:g} + {spare}", whole + spare, "GPUs"
    )
    cases = (
        ("use", Text("utilisation without the spare", "不含备用的利用率"), whole),
        ("use_all", Text("utilisation with it", "含备用的利用率"), total),
        ("use_lost", Text("after losing one, without a spare", "无备用且坏一张时"), whole - 1),
    )
    for key, text, gpus in cases:
        if gpus > 0:
            how = f"{rate:g} / ({gpus:g} × {per_gpu:g})"
            d.add(key, text, how, 100 * rate / (gpus * per_gpu), "%")
    return d.done()


def open_loop(rng: random.Random, rate: float, service: float, requests: int) -> list[float]:
    """Latencies when arrivals do not care how long the queue is (Poisson, one server)."""
    now = free = 0.0
    latencies = []
    for _ in range(requests):
        now += rng.expovariate(rate)
        free = max(now, free) + service
        latencies.append(free - now)
    return latencies


def closed_loop(users: int, service: float, requests: int) -> list[float]:
    """Latencies when each user sends the next request on receiving the answer."""
    ready, free = [0.0] * users, 0.0
    latencies = []
    for _ in range(requests):
        sent = heapq.heappop(ready)
        free = max(sent, free) + service
        latencies.append(free - sent)
        heapq.heappush(ready, free)
    return latencies


def percentile(values: list[float], share: float) -> float:
    """The value at rank `share` of the way from the smallest to the largest, no interpolation."""
    return sorted(values)[round(share * (len(values) - 1))]


def loops(
    *,
    rates: tuple[float, ...],
    users: tuple[int, ...],
    service_s: float,
    requests: int,
    seed: int,
) -> Worked:
    """The same server under open and closed load; one generator feeds the open rows in order."""
    d = Derivation()
    rng = random.Random(seed)
    for rate in rates:
        latencies = open_loop(rng, rate, service_s, requests)
        _row(d, f"open_{rate:g}", Text(f"open, {rate:g}/s", f"开环 {rate:g}/s"), latencies)
        _open_theory(d, rate, service_s, requests)
    for number in users:
        latencies = closed_loop(number, service_s, requests)
        name = Text(f"closed, {number} users", f"闭环 {number} 个用户")
        _row(d, f"closed_{number}", name, latencies)
        theory = Text("  theory: users × service", "  理论：用户数 × 服务时间")
        how = f"{number} × {service_s:g}"
        d.add(f"closed_{number}_theory", theory, how, number * service_s, "s")
    return d.done()


def _row(d: Derivation, key: str, name: Text, latencies: list[float]) -> None:
    d.add(f"{key}_mean", Text(f"{name.en}: mean", f"{name.zh}：均值"), "", _mean(latencies), "s")
    for label, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        text = Text(f"  {label}", f"  {label}")
        d.add(f"{key}_{label}", text, "", percentile(latencies, share), "s")


def _open_theory(d: Derivation, rate: float, service_s: float, requests: int) -> None:
    load = rate * service_s
    if load < 1:
        wait = load * service_s / (2 * (1 - load))
        text = Text("  theory: M/D/1 mean", "  理论：M/D/1 均值")
        d.add(f"open_{rate:g}_theory", text, f"{service_s:g} + {wait:g}", service_s + wait, "s")
        return
    length = requests / rate
    growth = rate - 1 / service_s
    text = Text("  theory: wait of the last, by the backlog", "  理论：积压使最后一个等待")
    how = f"{growth:g}/s × {length:.0f} s × {service_s:g} s"
    d.add(f"open_{rate:g}_theory", text, how, growth * length * service_s, "s")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


EXAMPLES = (
    Example(
        "fleet",
        Text("GPUs for a peak", "峰值需要多少 GPU"),
        Text(
            "Divide by what one serves within the SLO at a utilisation with headroom, then add the spare.",
            "用单卡在 SLO 内、留有余量的速率去除，再加备用。",
        ),
        (
            Param("rate", 20.0, "req/s", Text("peak rate", "峰值速率"), 0.001),
            Param(
                "per_gpu", 4, "req/s", Text("rate of one GPU within the SLO", "单卡达标速率"), 0.001
            ),
            Param("target", 0.7, "", Text("target utilisation", "目标利用率"), 0.01, 1),
            Param("spare", 1, "GPUs", Text("spares", "备用"), 0),
        ),
        fleet,
        "fleet",
        {},
    ),
    Example(
        "loops",
        Text("Open and closed loop", "开环与闭环"),
        Text(
            "Past capacity an open queue grows as long as the test lasts; a closed one only slows its users.",
            "超过容量后，开环的队列随测试时长增长；闭环只会让用户变慢。",
        ),
        (
            Param(
                "rates", (3.0, 4.5, 5.0), "req/s", Text("open arrival rates", "开环到达率"), 0.001
            ),
            Param("users", (4, 16), "", Text("closed users", "闭环用户数")),
            Param("service_s", 0.25, "s", Text("service time", "服务时间"), 0.001),
            Param("requests", 4000, "", Text("requests per row", "每行请求数")),
            Param("seed", 1, "", Text("seed", "随机种子"), 0),
        ),
        loops,
        "open_4.5_p99",
        {},
    ),
)
