"""Faults put into a running engine: visible in their trace, absent in a sane one of the same load."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import torch

from engine import LLM
from interview.traced.faults import SANE, SUSPICIONS, proof_sql, verdict
from tests.tracing.conftest import RunFolder
from tracing import open_run
from tracing.record import Level
from tracing.store import Store
from workbench.faults.inject import Fault, inject
from workbench.faults.load import ENGINE, make_load, play
from workbench.faults.record import RUNS, record

SUSPICION: dict[Fault | None, str] = {
    None: SANE,
    "off-by-one": "full-hit",
    "salt": "salt",
    "starved": "starved",
}


class FolderTrace:
    """A run folder as the trace of an engine, without a recorder process."""

    def __init__(self, folder: RunFolder) -> None:
        from opentelemetry.sdk.trace import TracerProvider

        self.folder = folder
        self.tracer_provider = TracerProvider()
        self.epoch_offset_ns = folder.info.epoch_offset_ns

    def recorder(self, role: str):
        return self.folder.recorder(role, level=Level.BLOCKS)


@pytest.fixture(scope="module")
def played(
    chat_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Fault | None, tuple[Store, list[list[int]]]]]:
    """The load on a tiny model, with each fault and with none: the trace, and the answers' tokens."""
    torch.set_num_threads(1)
    made: dict[Fault | None, tuple[Store, list[list[int]]]] = {}
    for fault in SUSPICION:
        folder = RunFolder(tmp_path_factory.mktemp("fault") / "run")
        with LLM(str(chat_model), trace=FolderTrace(folder), **ENGINE) as llm:
            if fault is not None:
                inject(llm, fault)
            answers = play(llm, make_load())
        tokens = [answer.choices[0].token_ids for answer in answers]
        made[fault] = (folder.finished_store(), tokens)
    yield made
    for store, _ in made.values():
        store.close()


def test_there_is_a_suspicion_and_a_recorded_run_for_each_fault():
    assert set(SUSPICION) == {None, *get_args(Fault)} == set(RUNS.values())
    assert set(SUSPICION.values()) <= {SANE, *SUSPICIONS}


@pytest.mark.parametrize("fault", SUSPICION)
def test_a_fault_is_found_by_its_query_and_by_no_other(fault, played):
    store, _ = played[fault]
    found = {name for name in SUSPICIONS if store.sql(proof_sql(name)).rows}
    assert found == {SUSPICION[fault]} - {SANE}
    assert verdict(store).guilty == SUSPICION[fault]


@pytest.mark.parametrize("fault", get_args(Fault))
def test_no_answer_betrays_the_fault(fault, played):
    """Rule 2 holds even here: what differs is when, and from whose memory; so only the trace can tell."""
    assert played[fault][1] == played[None][1]


@pytest.mark.parametrize("name", RUNS)
def test_the_recorded_runs_are_of_this_load(name, played):
    """Decisions do not depend on the model: the committed run has the same rows, step by step."""
    asked = "SELECT step, row, label(request_id), code, num_scheduled_tokens FROM step_request ORDER BY ALL"
    committed = open_run(Path(__file__).parents[2] / "traces" / name)
    try:
        assert committed.sql(asked).rows == played[RUNS[name]][0].sql(asked).rows
    finally:
        committed.close()


def test_a_run_is_recorded_as_a_folder_that_opens(
    chat_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workbench.faults.record.make_load", lambda: make_load()[:3])
    record(tmp_path / "salty", "salt", str(chat_model))
    run = open_run(tmp_path / "salty")
    try:
        assert run.sql("SELECT count(*) FROM request_end").rows == [(3,)]
        assert run.sql("SELECT tokens_recorded FROM run").rows == [(True,)]
    finally:
        run.close()
