"""`cutaway bench`: measurements that a reader can repeat."""

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table


@click.group()
def bench() -> None:
    """Measure the engine and the cost of tracing.

    \b
    Examples:
      cutaway bench offline               tokens/s beside Hugging Face generate
      cutaway bench tracing --rounds 9    what recording costs, level by level
    """


@bench.command()
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--rounds", default=3, show_default=True, help="Alternations between the two sides.")
@click.option("--new-tokens", default=32, show_default=True, help="Output tokens per request.")
def offline(model: str, rounds: int, new_tokens: int) -> None:
    """Tokens/s at 1, 8 and 32 concurrent requests beside Hugging Face `generate`."""
    from workbench.bench.offline import measure

    table = Table("concurrent", "cutaway tok/s", "HF generate tok/s", "ratio", box=None)
    for m in measure(model, rounds=rounds, new_tokens=new_tokens):
        table.add_row(
            str(m.concurrency), f"{m.ours:.1f}", f"{m.hugging_face:.1f}", f"{m.ratio:.2f}"
        )
    Console().print(table)


@bench.command()
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Rounds over all levels.")
def tracing(model: str, rounds: int) -> None:
    """The cost of recording at each level, in one interleaved run."""
    from workbench.bench.tracing_cost import measure

    table = Table(
        "level", "throughput / off", "spread", "engine thread ms/step", box=None, pad_edge=False
    )
    for cost in measure(model, rounds=rounds):
        table.add_row(
            cost.level.name.lower(),
            f"{cost.throughput:.3f}",
            f"{cost.low:.3f} .. {cost.high:.3f}",
            f"{cost.thread_ms:.2f}",
        )
    Console().print(table)


@bench.command()
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Alternations between the two.")
@click.option("--concurrency", default=16, show_default=True, help="Streams at once.")
def detokenizer(model: str, rounds: int, concurrency: int) -> None:
    """The cost of making text in the API's process or in one of its own."""
    from workbench.bench.detokenizer import measure

    columns = ("where", "tokens/s", "API us/token", "detokeniser us/token", "gap ms")
    table = Table(*columns, box=None, pad_edge=False)
    for cost in measure(model, rounds, concurrency):
        table.add_row(
            cost.mode,
            f"{cost.tokens_per_s:.0f}",
            f"{cost.api_us:.0f}",
            f"{cost.detokenizer_us:.0f}",
            f"{cost.gap_ms:.1f}",
        )
    Console().print(table)


@bench.command()
@click.option("--seqs", default=64, show_default=True, help="Running requests.")
@click.option("--step-ms", default=45.0, show_default=True, help="Work of a step.")
@click.option("--rounds", default=3, show_default=True, help="Alternations between the two.")
@click.option("--seconds", default=20.0, show_default=True, help="Of each half of a round.")
def top(seqs: int, step_ms: float, rounds: int, seconds: float) -> None:
    """The cost of watching: processor time of `cutaway top`, and steps per second with and without it."""
    from workbench.bench.top_cost import measure

    cost = measure(num_seqs=seqs, step_s=step_ms / 1000, rounds=rounds, seconds=seconds)
    table = Table("viewer, of one core", "steps/s alone", "watched", "ratio", box=None)
    table.add_row(
        f"{cost.cpu_share:.1%}",
        f"{cost.steps_per_s_alone:.2f}",
        f"{cost.steps_per_s_watched:.2f}",
        f"{cost.ratio:.4f}",
    )
    Console().print(table)


@bench.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--vllm-python",
    help="A Python with vLLM 0.33.0 (see workbench/bench/vllm-requirements.txt); none: only ours.",
)
@click.option("--rounds", default=5, show_default=True)
def scheduler(folder: Path, vllm_python: str | None, rounds: int) -> None:
    """Scheduling time per step without a model, beside the real vLLM scheduler.

    FOLDER holds vLLM's golden files, e.g. tests/golden/vllm.
    """
    from workbench.bench.scheduler import measure

    table = Table("case", "cutaway us/step", "vLLM us/step", "ratio", box=None, pad_edge=False)
    for m in measure(folder, vllm_python, rounds):
        theirs = ("-", "-") if m.ratio is None else (f"{m.vllm_us:.0f}", f"{m.ratio:.2f}")
        table.add_row(m.case, f"{m.ours_us:.0f}", *theirs)
    Console().print(table)


@bench.command()
@click.option("--windows", default=6, show_default=True)
@click.option("--requests", default=500, show_default=True, help="Requests per window.")
def scaling(windows: int, requests: int) -> None:
    """A lookup of a 32k-token prompt, and steps as finished requests accumulate; no model."""
    from workbench.bench.scaling import POLICIES, measure_lookups, measure_steps

    lookups = Table("block size", "edges on the path", "lookup ms", box=None, pad_edge=False)
    for lookup in measure_lookups(rounds=21):
        lookups.add_row(str(lookup.block_size), str(lookup.num_edges), f"{lookup.ms:.2f}")
    Console().print(lookups)
    columns = ("ended requests", *(f"{name} us/step" for name in POLICIES))
    steps = Table(*columns, box=None, pad_edge=False)
    for row in zip(*(measure_steps(name, windows, requests) for name in POLICIES), strict=True):
        steps.add_row(str(row[0].num_finished), *(f"{window.us_per_step:.0f}" for window in row))
    Console().print(steps)
