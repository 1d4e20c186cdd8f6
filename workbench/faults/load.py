"""The load of the fault drills: a small office of two tenants, the same in every run.

Arrivals are counted in steps, not seconds, and every answer has a fixed length; so a run with a fault and one
without it differ by the fault alone. Prompts are cut to a number of tokens, whatever the tokenizer: a form is
sent again and again, ending with a block or one token after it.
"""

from dataclasses import dataclass

from engine import LLM, SamplingParams
from engine.generation import Arrival, Generation

FORM = 97
"""Tokens of the form: six blocks of 16 and one more."""
MEMO = 600
"""Tokens of a long memo: several steps' budgets."""
ENGINE: dict[str, object] = {
    "dtype": "float32",
    "block_size": 16,
    "num_blocks": 90,
    "max_model_len": 1024,
    "max_num_batched_tokens": 128,
    "max_num_seqs": 8,
}
GOODS = ("rope", "tea", "lamps", "salt fish", "copper wire", "window glass", "maps", "oil", "wool")
PORTS = ("Bergen", "Porto", "Galle", "Hobart", "Odessa", "Muscat", "Valparaiso")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of the load."""

    step: int
    """It arrives before this step."""
    text: str
    """Its prompt; cut to num_tokens."""
    num_tokens: int
    max_tokens: int
    salt: str | None = None


def ledger(ship: str, num_lines: int = 60) -> str:
    """A text as long as one likes, different for each ship from its first word on."""
    lines = (
        f"{ship}, entry {i}: {3 * i + len(ship)} crates of {GOODS[(i * i + len(ship)) % len(GOODS)]} "
        f"for {PORTS[(i + 2 * len(ship)) % len(PORTS)]}."
        for i in range(1, num_lines + 1)
    )
    return "\n".join(lines)


def make_load() -> list[Ask]:
    """All requests in the order of their arrival."""
    form = ledger("Harbour office form")
    house = ledger("House rules of the port")
    load = [
        Ask(0, house + " A", 74, 60),
        Ask(0, ledger("Alcyone"), 41, 60),
        Ask(1, form, FORM, 6, "north"),
        Ask(4, form, FORM, 6),
        Ask(9, ledger("Bellatrix"), MEMO, 4),
        Ask(10, ledger("Castor"), MEMO - 112, 4),
        Ask(12, form, FORM, 6, "south"),
        Ask(24, form, FORM, 6, "north"),
        Ask(26, form, FORM - 1, 6),
        Ask(30, house, 70, 12),
        Ask(48, form, FORM, 6, "south"),
        Ask(50, ledger("Deneb"), MEMO, 4),
    ]
    names = ("Electra", "Fomalhaut", "Gemma", "Hadar", "Izar", "Kochab", "Mira")
    load += [Ask(62 + i, ledger(name), 130 + 9 * i, 60) for i, name in enumerate(names)]
    load += [Ask(104, house, 90, 12), Ask(108, form, FORM, 6, "north")]
    return sorted(load, key=lambda ask: ask.step)


def play(llm: LLM, load: list[Ask]) -> list[Generation]:
    """Send the load to an engine and step until all is done; returns the answers in order."""
    answers: list[Generation] = []
    due = list(load)
    while due or llm.has_work:
        while due and (due[0].step <= llm.core.scheduler.num_steps or not llm.has_work):
            answers.append(_send(llm, due.pop(0)))
        llm.step()
    return answers


def _send(llm: LLM, ask: Ask) -> Generation:
    token_ids = llm.frontend.tokenizer.encode(ask.text)[: ask.num_tokens]
    assert len(token_ids) == ask.num_tokens, f"{ask.text[:20]} is too short"
    generation = llm.frontend.submit(
        token_ids,
        SamplingParams(temperature=0, max_tokens=ask.max_tokens, ignore_eos=True),
        Arrival(arrival_ns=llm.frontend.clock()),
        cache_salt=ask.salt,
    )
    for request in generation.requests:
        llm.core.add(request)
    return generation
