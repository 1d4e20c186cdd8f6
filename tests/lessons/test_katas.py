"""Katas: the stub fails, the oracle agrees with the engine, and a common mistake meets its smallest case."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lessons import runner
from lessons.content import Lesson, find_lesson, load_lessons
from lessons.runner import check_kata, kata_path
from tests.lessons.conftest import load_program
from tracing.reader import Run

LESSONS = load_lessons()
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.name for lesson in LESSONS])

MISTAKES = {
    1: (
        "def first_token_steps(outputs, together):\n"
        "    return [0 if together else sum(outputs[:i + 1]) for i in range(len(outputs))]\n",
        "first_token_steps([1], False) returned [1]; it should return [0]",
    ),
    3: (  # half a cache: keys without values
        "def kv_bytes(layers, kv_heads, head_dim, number_bytes, num_tokens, block_size):\n"
        "    blocks = -(-num_tokens // block_size)\n"
        "    return layers * kv_heads * head_dim * number_bytes * blocks * block_size\n",
        "kv_bytes(1, 1, 2, 1, 1, 1) returned 2; it should return 4",
    ),
    4: (  # the sampled token is written at once
        "def plan(num_prompt, num_cached, max_tokens):\n"
        "    first = [(num_cached, num_prompt - num_cached, num_prompt)]\n"
        "    return first + [(num_prompt + i + 1, 1, num_prompt + i + 1) for i in range(max_tokens - 1)]\n",
        "plan(1, 0, 2) returned",
    ),
    6: (  # static batches sorted by length
        "def rounds(outputs, slots):\n"
        "    o = sorted(outputs)\n"
        "    static = sum(max(o[i:i + slots]) for i in range(0, len(o), slots))\n"
        "    places = [0] * slots\n"
        "    for n in outputs:\n"
        "        places.sort()\n"
        "        places[0] += n\n"
        "    return static, max(places)\n",
        "rounds([2, 2, 1], 2) returned (4, 3); it should return (3, 3)",
    ),
    7: (  # tokens instead of whole blocks
        "def fit(num_blocks, block_size, requests):\n"
        "    def count(sizes):\n"
        "        room = num_blocks * block_size\n"
        "        for i, size in enumerate(sizes):\n"
        "            room -= size\n"
        "            if room < 0:\n"
        "                return i\n"
        "        return len(sizes)\n"
        "    return count([m for _, _, m in requests]), count([w for _, w, _ in requests])\n",
        "fit(1, 2, [(1, 1, 1), (1, 1, 1)]) returned (2, 2); it should return (1, 1)",
    ),
    9: (  # each prompt begins a step of its own
        "def chunks(prompts, num_decodes, budget):\n"
        "    room, steps = budget - num_decodes, []\n"
        "    for i, left in enumerate(prompts):\n"
        "        while left:\n"
        "            steps.append([(i, min(room, left))])\n"
        "            left -= min(room, left)\n"
        "    return steps\n",
        "chunks([1, 1], 0, 3) returned [[(0, 1)], [(1, 1)]]; it should return [[(0, 1), (1, 1)]]",
    ),
    11: (  # the first one goes
        "def preempt(lengths, num_blocks, block_size):\n"
        "    held = sum(-(-n // block_size) for n in lengths)\n"
        "    short = [n for n in lengths if n % block_size == 0]\n"
        "    if len(short) <= num_blocks - held:\n"
        "        return [], 0\n"
        "    return [0], lengths[0]\n",
        "preempt([",
    ),
    12: (  # all full blocks, the last token not kept back
        "def cached_tokens(stored, prompt, block_size):\n"
        "    found = 0\n"
        "    for tokens in stored:\n"
        "        n = 0\n"
        "        while n + block_size <= len(prompt):\n"
        "            n += block_size\n"
        "            if tokens[:n] != prompt[:n]:\n"
        "                n -= block_size\n"
        "                break\n"
        "        found = max(found, n)\n"
        "    return found\n",
        "cached_tokens([[1]], [1], 1) returned 1; it should return 0",
    ),
}


@each_lesson
def test_the_stub_fails_and_says_that_it_is_one(lesson: Lesson) -> None:
    result = check_kata(lesson, lesson.folder / "kata.py", "en")
    assert not result.passed
    assert "not written yet" in result.said


@each_lesson
def test_the_oracle_answers_itself(lesson: Lesson) -> None:
    result = check_kata(lesson, lesson.folder / "kata_oracle.py", "en")
    assert result.passed, result.said
    assert "agrees" in result.said


@each_lesson
def test_a_common_mistake_meets_its_smallest_case(lesson: Lesson, tmp_path: Path) -> None:
    text, said = MISTAKES[lesson.number]
    kata = tmp_path / "kata.py"
    kata.write_text(text)
    result = check_kata(lesson, kata, "en")
    assert not result.passed
    assert said in result.said
    assert "应返回" in check_kata(lesson, kata, "zh").said


def rows(run: Run, *lines: str) -> list[tuple[Any, ...]]:
    """Rows of a query that is written over several lines."""
    return run.sql(" ".join(lines)).rows


# -- the oracles say what the engine did -----------------------------------------------------------------


def oracle(number: int) -> Callable[..., object]:
    lesson = find_lesson(str(number))
    module = load_program(lesson.folder / "kata_oracle.py")
    names = [
        name for name in vars(module) if f"def {name}(" in (lesson.folder / "kata.py").read_text()
    ]
    function: Callable[..., object] = getattr(module, names[0])
    return function


def test_first_tokens_come_when_the_oracle_says(opened: Callable[..., Run]) -> None:
    outputs = [8, 40, 12, 24, 8, 32, 16, 20]
    first = {0: list[int](), 1: list[int]()}
    for engine, _, step in rows(
        opened(1),
        "SELECT engine_id, request_id & 15, min(step) FROM token GROUP BY ALL ORDER BY 1, 2",
    ):
        first[engine].append(step)
    assert oracle(1)(outputs, False) == first[0]
    assert oracle(1)(outputs, True) == first[1]


def test_bytes_held_are_what_the_oracle_says(opened: Callable[..., Run]) -> None:
    ((blocks, block_bytes),) = rows(
        opened(3),
        "SELECT (SELECT max(used_blocks) FROM step),",
        "(config->>'$.ledger.kv')::BIGINT // num_blocks FROM run",
    )
    assert oracle(3)(30, 3, 64, 2, 159, 16) == blocks * block_bytes


def test_steps_are_what_the_oracle_plans(opened: Callable[..., Run]) -> None:
    assert oracle(4)(6, 4, 3) == rows(
        opened(4),
        "SELECT num_computed_tokens, num_scheduled_tokens, num_tokens FROM step_request",
        "WHERE request_id & 15 = 2 ORDER BY step",
    )


def test_rounds_are_what_the_oracle_counts(opened: Callable[..., Run]) -> None:
    counted = rows(opened(6), "SELECT count(*) FROM step GROUP BY engine_id ORDER BY engine_id")
    assert [oracle(6)([2, 5, 3], 2)] == list(zip(*counted, strict=True))


def test_what_fits_is_what_the_oracle_says(opened: Callable[..., Run]) -> None:
    most = rows(opened(7), "SELECT max(num_rows) FROM step GROUP BY engine_id ORDER BY engine_id")
    assert [oracle(7)(32, 16, [(20, 40, 128)] * 8)] == list(zip(*most, strict=True))


@pytest.mark.parametrize(("engine", "budget"), [(0, 1024), (1, 128)])
def test_chunks_are_cut_as_the_oracle_cuts(
    opened: Callable[..., Run], engine: int, budget: int
) -> None:
    steps: dict[int, list[tuple[int, int]]] = {}
    for step, n, tokens in rows(
        opened(9),
        "SELECT step, request_id & 15, num_scheduled_tokens FROM step_request",
        f"WHERE engine_id = {engine} AND request_id & 15 > 1 ORDER BY step, row",
    ):
        steps.setdefault(step, []).append((n - 2, tokens))
    assert oracle(9)([700, 700, 700], 1, budget) == list(steps.values())


def test_the_victim_is_the_oracles(opened: Callable[..., Run]) -> None:
    ((victim, lost),) = rows(
        opened(11),
        "SELECT (request_id & 15) - 1, a1 FROM decision WHERE engine_id = 0 AND code = 501",
    )
    assert oracle(11)([64, 64, 64], 12, 16) == ([victim], lost)


def test_hits_are_what_the_oracle_finds(opened: Callable[..., Run]) -> None:
    seen = rows(
        opened(12),
        "SELECT num_tokens, num_cached_tokens FROM step_request",
        "WHERE request_id & 1 = 0 ORDER BY 1",
    )
    found = [oracle(12)([list(range(n))], list(range(n)), 16) for n, _ in seen]
    assert found == [cached for _, cached in seen] == [0, 16, 48, 48, 64]


# -- anybody's code --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def rounds(outputs, slots):\n    return outputs[9]\n", "IndexError"),
        ("def rounds(outputs:\n", "SyntaxError"),
        ("x = 1\n", "AttributeError"),
        ("def rounds(outputs, slots):\n    outputs.clear()\n    return 0, 0\n", "rounds([1], 1)"),
    ],
)
def test_a_kata_that_breaks_is_told(tmp_path: Path, text: str, said: str) -> None:
    kata = tmp_path / "kata.py"
    kata.write_text(text)
    result = check_kata(find_lesson("6"), kata, "en")
    assert not result.passed
    assert said in result.said
    assert "Traceback" not in result.said


ROUNDS = "def rounds(outputs, slots):\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit()\n", "cannot be loaded: SystemExit"),
        ("raise SystemExit(0)\n", "cannot be loaded: SystemExit: 0"),
        (f"import sys\n{ROUNDS}    sys.exit(0)\n", "rounds([1], 1) raised SystemExit: 0 (line 3"),
        (f"import os\n{ROUNDS}    os._exit(0)\n", "ended the program (exit status 0)"),
        ("import os\nos._exit(3)\n", "ended the program (exit status 3)"),
        (f"{ROUNDS}    raise GeneratorExit\n", "raised GeneratorExit (line 2"),
    ],
)
def test_a_kata_that_exits_has_not_passed(tmp_path: Path, text: str, said: str) -> None:
    kata = tmp_path / "kata.py"
    kata.write_text(text)
    result = check_kata(find_lesson("6"), kata, "en")
    assert not result.passed
    assert said in result.said


def test_what_a_kata_prints_stays_apart(tmp_path: Path) -> None:
    lesson = find_lesson("6")
    oracle = (lesson.folder / "kata_oracle.py").read_text()
    kata = tmp_path / "kata.py"
    kata.write_text(f"print('loaded')\n{oracle.replace('__main__', '__never__')}")
    right = check_kata(lesson, kata, "en")
    assert right.passed
    assert right.said.startswith("agrees with the oracle on")
    assert "\n" not in right.said
    assert right.printed == "loaded"
    lines = "    for n in range(20):\n        print('line', n)\n"
    kata.write_text(f"import os\n{ROUNDS}{lines}    os.write(1, b'raw')\n    return 0, 0\n")
    wrong = check_kata(lesson, kata, "en")
    assert not wrong.passed
    assert "line" not in wrong.said.replace("(line", "")
    assert "raw" in wrong.printed
    assert "line 19" in wrong.printed
    assert len(wrong.printed.splitlines()) == runner.PRINTED_LINES, "the last lines are enough"


def test_a_kata_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "KATA_SECONDS", 2)
    kata = tmp_path / "kata.py"
    kata.write_text("def rounds(outputs, slots):\n    while True:\n        pass\n")
    result = check_kata(find_lesson("6"), kata, "en")
    assert not result.passed
    assert result.said == "no end within 2 s"
    assert check_kata(find_lesson("6"), kata, "zh").said == "2 秒内没有结束"


def test_the_learners_kata_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path))
    lesson = find_lesson("6")
    path = kata_path(lesson)
    assert path.read_text() == (lesson.folder / "kata.py").read_text()
    path.write_text("mine")
    assert kata_path(lesson).read_text() == "mine"


def test_lessons_load_neither_torch_nor_the_engine() -> None:
    modules = "content, grading, lab, oracle, picture, progress, runner, text"
    show = "import sys; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    code = f"from lessons import {modules}\nimport workbench.learn\n{show}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "transformers", "engine", "interview"} & set(done.stdout.split())
