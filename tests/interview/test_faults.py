"""The runs of the fault drills: which rule each breaks, by the drill's own queries and by other means."""

from pathlib import Path

import pytest

from interview.deck import make
from interview.drills import Choice
from interview.phrases import phrases
from interview.traced.faults import SANE, SUSPICIONS, proof_sql, verdict
from interview.traced.runs import SAMPLE, TRACES, fault_runs
from tracing import open_run

GUILTY = {"amber": "starved", "birch": SANE, "cedar": "full-hit", "delta": "salt"}
FOLDERS = {**{name: TRACES / "faults" / name for name in GUILTY}, SAMPLE: TRACES / SAMPLE}
MAX_BYTES = 300_000


def test_all_runs_are_there_and_small():
    assert set(fault_runs()) == set(GUILTY)
    for folder in FOLDERS.values():
        assert sum(file.stat().st_size for file in folder.iterdir()) < MAX_BYTES


@pytest.mark.parametrize("name", FOLDERS)
def test_each_query_finds_its_fault_and_no_other(name: str):
    expected = GUILTY.get(name, SANE)
    run = open_run(FOLDERS[name])
    try:
        found = {suspicion: run.sql(proof_sql(suspicion)).rows for suspicion in SUSPICIONS}
        assert {suspicion for suspicion, rows in found.items() if rows} == {expected} - {SANE}
        assert verdict(run).guilty == expected
        assert not run.sql("FROM event WHERE code = 911").rows, "the run must not say it itself"
    finally:
        run.close()


def counts(folder: Path) -> dict[str, tuple[int, int]]:
    """Per request, from tables that the proofs do not read: cached tokens, and steps of decoding."""
    run = open_run(folder)
    try:
        rows = run.sql(
            """SELECT label(request_id), num_cached_tokens,
                      (SELECT max(last_step) - min(first_step) FROM request_phase p
                       WHERE p.request_id = e.request_id AND phase = 'decode')
               FROM request_end e"""
        ).rows
    finally:
        run.close()
    return {label: (cached, steps) for label, cached, steps in rows}


def test_the_faults_show_beside_a_sane_run_of_the_same_load():
    sane, starved = counts(FOLDERS["birch"]), counts(FOLDERS["amber"])
    short, unsalted = counts(FOLDERS["cedar"]), counts(FOLDERS["delta"])
    assert starved["#1"][1] > sane["#1"][1] + 5, "sixty tokens take more steps than sixty"
    assert min(short[r][0] - sane[r][0] for r in sane) == -16, "a block given up for nothing"
    # The form was computed under "north"; "south" asks for the same text.
    assert sane["#7"][0] == 0
    assert unsalted["#7"][0] == 96


def test_the_sane_runs_agree():
    assert counts(FOLDERS["birch"]) == counts(FOLDERS[SAMPLE])


@pytest.mark.parametrize("name", GUILTY)
def test_the_drill_computes_who_is_guilty(name: str):
    places = set()
    for seed in range(6):
        drill = make(f"fault/{name}", seed)
        choice = drill.answer
        assert isinstance(choice, Choice)
        assert len(choice.options) == len(SUSPICIONS) + 1
        assert choice.options[choice.right] == phrases()[f"fault_{GUILTY[name]}"]
        assert f"trace show {drill.evidence[0].split()[3]}" in drill.question.en
        assert bool(drill.proof) == (GUILTY[name] != SANE)
        for reply in choice.replies:
            assert "{" not in reply.en + reply.zh
        places.add(choice.right)
    assert len(places) > 1


def test_the_question_does_not_give_the_answer_away():
    """Nothing shown before the answer names a fault but the options, which are the same for all runs."""
    shown = {name: make(f"fault/{name}", 1) for name in GUILTY}
    assert len({frozenset(d.answer.options) for d in shown.values()}) == 1
    questions = {d.question.en.replace(name, "") for name, d in shown.items()}
    assert len(questions) == 1
