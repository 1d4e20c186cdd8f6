"""Runs of the experiments on a tiny model, made once each and completed without a recorder."""

import importlib.util
import json
import secrets
import shutil
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import tracing
from lessons.content import load_lessons
from lessons.lab import Lab
from tracing.reader import Run
from tracing.record import Level
from tracing.recording import RunHandle
from tracing.runs import RunInfo

RunOf = Callable[..., Path]
"""(number, wrong=False) -> folder of a run of the lesson's experiment."""


def load_program(path: Path) -> ModuleType:
    """A program of a lesson as a module; these lie outside any package."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def handle_of(folder: Path) -> RunHandle:
    """A new run that nobody records: whoever opens it completes it."""
    folder.mkdir(parents=True)
    info = RunInfo.new(tokens_recorded=True)
    info.save(folder)
    return RunHandle(
        run_dir=str(folder),
        run_id=info.run_id,
        level=Level.KERNELS,
        record_tokens=True,
        epoch_offset_ns=info.epoch_offset_ns,
        hash_key=secrets.token_hex(32),
    )


@pytest.fixture(scope="session")
def smol_shaped(
    tiny_model: Callable[..., Path], chat_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A tiny model whose keys and values have the shape of SmolLM2-135M's: 30 layers, 3 heads of 64."""
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    shape = {"num_hidden_layers": 30, "num_key_value_heads": 3, "head_dim": 64}
    weights = tiny_model("Llama", vocab_size=400, **shape, **special)
    folder = tmp_path_factory.mktemp("models") / "smol-shaped"
    shutil.copytree(weights, folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(chat_model / name, folder / name)
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 30
    return folder


@pytest.fixture(scope="session")
def run_of(chat_model: Path, smol_shaped: Path, tmp_path_factory: pytest.TempPathFactory) -> RunOf:
    root = tmp_path_factory.mktemp("lesson-runs")
    lessons = {lesson.number: lesson for lesson in load_lessons()}

    @cache
    def make(number: int, wrong: bool = False) -> Path:
        lesson = lessons[number]
        folder = root / f"{lesson.name}-{wrong}"
        model = smol_shaped if number == 3 else chat_model
        experiment = load_program(lesson.folder / "experiment.py").experiment
        experiment(Lab(handle_of(folder), str(model), wrong))
        return folder

    return make


@pytest.fixture
def opened(run_of: RunOf) -> Generator[Callable[..., Run]]:
    """(number, wrong=False) -> the run, opened; closed after the test."""
    runs: list[Run] = []

    def open_(number: int, wrong: bool = False) -> Run:
        runs.append(tracing.open_run(run_of(number, wrong)))
        return runs[-1]

    yield open_
    for run in runs:
        run.close()
