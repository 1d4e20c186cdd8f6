"""`cutaway serve --show-config`: what would run here, and how that differs from each preset and from
upstream.

Nothing is loaded: the memory ledger is made from the model's config, as at a real start.
"""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from engine.build import plan_memory
from engine.config import EngineConfig
from engine.memory import render
from engine.presets import NOT_REPEATED, TITLES, Policy, differences, flat
from engine.server.settings import ServerSettings


def show_config(
    console: Console, config: EngineConfig, settings: ServerSettings, folder: Path
) -> None:
    """Print it. Raises ConfigError or CapacityError, as a start with these settings would."""
    ledger, dtype, device = plan_memory(config, folder)
    resolved = config.resolve(num_blocks=ledger.num_blocks, max_model_len=ledger.max_model_len)
    preset = flat(EngineConfig(policy=config.policy))
    console.print("[bold]Engine[/bold]")
    table = _table("setting", "value", f"preset {config.policy}")
    for name, value in flat(resolved).items():
        if config.policy != "sglang" and name.startswith("sglang."):
            continue
        table.add_row(name, str(value), "" if value == preset[name] else str(preset[name]))
    table.add_row("on", f"{device}, {dtype}", "")
    console.print(table)
    console.print("\n[bold]Server[/bold]")
    table = _table("setting", "value")
    for name, value in settings.shown().items():
        table.add_row(name, str(value))
    console.print(table)
    console.print("\n[bold]Memory[/bold]")
    console.print(render(ledger), highlight=False)
    console.print(f"\n{ledger.explain()}", highlight=False, soft_wrap=True)
    console.print("\n[bold]Against each preset[/bold]")
    for policy, title in TITLES.items():
        _show_preset(console, config, policy, title)


def _show_preset(console: Console, config: EngineConfig, policy: Policy, title: str) -> None:
    """Where this server, and where the preset itself, is not what upstream is."""
    console.print(f"\n{title}" + ("  (chosen)" if policy == config.policy else ""))
    table = _table("setting", "here", "preset", "why")
    for difference in differences(config, policy):
        here, theirs = str(difference.here), str(difference.preset)
        table.add_row(difference.field, here, theirs, difference.why)
    for entry in NOT_REPEATED:
        if entry.policy == policy:
            value = str(flat(EngineConfig(policy=policy))[entry.field])
            table.add_row(entry.field, value, f"upstream: {entry.theirs}", entry.why)
    if table.row_count:
        console.print(table)
    else:
        console.print("  no difference")


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False, padding=(0, 2), header_style="dim")
