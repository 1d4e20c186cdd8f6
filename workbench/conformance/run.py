"""Which replay a golden file needs, and the table of how equal we are."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import ConfigError
from workbench.conformance import hash_chain, sglang, vllm
from workbench.conformance.report import CaseResult


@dataclass(slots=True)
class Report:
    """All results of a folder."""

    results: list[CaseResult] = field(default_factory=list)
    not_covered: list[tuple[str, str]] = field(default_factory=list)
    """(file, why)."""

    @property
    def differences(self) -> list[CaseResult]:
        """Cases that went another way."""
        return [result for result in self.results if result.difference is not None]

    def by_mechanism(self) -> dict[str, list[CaseResult]]:
        """Results grouped for the table, in order of appearance."""
        groups: dict[str, list[CaseResult]] = {}
        for result in self.results:
            groups.setdefault(result.mechanism, []).append(result)
        return groups


def replay_folder(folder: Path) -> Report:
    """Replay every golden file below a folder. Raises ConfigError when there is none."""
    files = sorted(path for path in folder.rglob("*.json") if path.name != "index.json")
    if not files:
        raise ConfigError(f"no golden files (*.json) below {folder}")
    report = Report()
    for path in files:
        try:
            case = json.loads(path.read_text())
        except ValueError as error:
            raise ConfigError(f"{path} is not a golden file: {error}") from error
        result = replay_case(case)
        if isinstance(result, str):
            report.not_covered.append((str(path.relative_to(folder)), result))
        else:
            report.results.append(result)
    return report


def replay_case(case: dict[str, Any]) -> CaseResult | str:
    """The result, or why this kind of case is not covered."""
    if "algorithms" in case:
        return hash_chain.replay(case)
    if "engine" in case and "steps" in case:
        if case["engine"]["async_scheduling"]:
            return "asynchronous scheduling"
        return vllm.replay(case)
    if "sglang" in case:
        return sglang.replay_case(case)
    return "unknown kind of file"
