"""Replay of SGLang's golden decisions: which replay a file needs, and the comparison, step by step.

Each kind of file has a module that plays its steps and yields (theirs, ours) as values of one form; so
"equal" means equal dictionaries. What is not compared is what their format calls each side's own business:
node numbers (a node is called by its tokens) and the order of siblings. Slot numbers are compared where the
files have them, because both sides give slots out in the same order.
"""

from types import ModuleType
from typing import Any

from workbench.conformance import (
    sglang_adder,
    sglang_policy,
    sglang_radix,
    sglang_request,
    sglang_retract,
    sglang_trace,
)
from workbench.conformance.report import CaseResult, Difference

KINDS: dict[str, ModuleType] = {
    "radix": sglang_radix,
    "request": sglang_request,
    "policy": sglang_policy,
    "adder": sglang_adder,
    "retract": sglang_retract,
    "ratio": sglang_retract,
    "trace": sglang_trace,
}


def replay_case(case: dict[str, Any]) -> CaseResult | str:
    """The result, or why this case is not covered."""
    return not_covered(case) or replay(case)


def not_covered(case: dict[str, Any]) -> str | None:
    """Why a case is not replayed; None if it is."""
    config = case["config"]
    if case["kind"] == "events":
        return "published KV events"
    if case["kind"] not in KINDS:
        return f"unknown kind {case['kind']}"
    if config.get("bigram_keys"):
        return "bigram keys (speculative decoding)"
    if config.get("overlap"):
        return "overlapped scheduling"
    return None


def replay(case: dict[str, Any]) -> CaseResult:
    """Replay one case until its first difference."""
    kind = KINDS[case["kind"]]
    name, total = case["name"], kind.num_steps(case)
    for i, (theirs, ours) in enumerate(kind.steps(case)):
        for field in [*theirs, *(field for field in ours if field not in theirs)]:
            a, b = theirs.get(field), ours.get(field)
            if a != b:
                rule = kind.RULES.get(field, kind.MECHANISM)
                return CaseResult(name, kind.MECHANISM, total, i, Difference(i, field, a, b, rule))
    return CaseResult(name, kind.MECHANISM, total, total)
