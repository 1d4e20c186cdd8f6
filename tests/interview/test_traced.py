"""Trace drills on many moments of several runs; each right answer is found again in another way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interview.drills import Choice, Drill
from interview.errors import DrillError
from interview.phrases import phrases
from interview.traced.kinds import TRACE_KINDS, make
from interview.traced.runs import SAMPLE, TRACES
from tests.tracing.conftest import RunFolder
from tests.workbench.toy_run import make_toy_run
from tracing import open_run
from tracing.reader import Run, state_at

SEEDS = range(8)
KINDS = {kind.name: kind for kind in TRACE_KINDS}
PREEMPTIONS = (501, 502, 503)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """The sample, and a crowded run of the toy engine without token ids of prompts."""
    folder = RunFolder(tmp_path_factory.mktemp("toy") / "run")
    toy = make_toy_run(folder.recorder("core"), folder.recorder("api"), seed=4, num_blocks=50)
    toy.watch_pool = False
    toy.run(220, load=(0, 1, 1))
    toy.drain()
    opened: dict[str, Run] = {"toy": folder.finished_store(), SAMPLE: open_run(TRACES / SAMPLE)}
    yield opened
    for run in opened.values():
        run.close()


def rows(run: Run, sql: str) -> list[dict[str, Any]]:
    return run.sql(sql).dicts()


def right(drill: Drill) -> str:
    assert isinstance(drill.answer, Choice)
    return drill.answer.options[drill.answer.right].en


def phrase_of(text: str, prefix: str, names: list[str]) -> str:
    """Which of the statements prefix_name this is."""
    fixed = {name: phrases()[f"{prefix}_{name}"].en.split("{")[-1].split("}")[-1] for name in names}
    (found,) = [name for name, tail in fixed.items() if text.endswith(tail)]
    return found


def number_of(label: str) -> int:
    """#7 as the id of a request of front end 1."""
    return (1 << 32) + int(label.removeprefix("#"))


def check_budget(run: Run, drill: Drill) -> None:
    moment = drill.moment
    assert moment is not None
    where = f"engine_id = {moment.engine} AND step = {moment.step}"
    (step,) = rows(run, f"SELECT token_budget FROM step WHERE {where}")
    left = step["token_budget"]
    for row in rows(run, f"FROM step_request WHERE {where} ORDER BY row"):
        gets = min(left, row["num_tokens"] - row["num_computed_tokens"])
        if row["request_id"] == moment.request_id:
            assert right(drill) == str(gets)
            return
        left -= gets
    pytest.fail("the request has no row")


def check_cached(run: Run, drill: Drill) -> None:
    moment = drill.moment
    assert moment is not None
    shared = rows(
        run,
        f"""SELECT sum(abs(num_blocks)) * (SELECT block_size FROM run) AS n FROM kv_event
            WHERE code = 602 AND step = {moment.step} AND request_id = {moment.request_id}""",
    )
    assert right(drill) == str(int(shared[0]["n"]))


def check_first_token(run: Run, drill: Drill) -> None:
    moment = drill.moment
    assert moment is not None
    who = f"request_id = {moment.request_id}"
    (times,) = rows(
        run,
        f"""SELECT (SELECT arrival_ns FROM request WHERE {who}) AS arrival,
                   (SELECT min(start_ns) FROM step JOIN step_request USING (engine_id, step)
                    WHERE {who}) AS admitted,
                   (SELECT ts_ns FROM token WHERE {who} AND k = 0) AS first""",
    )
    waited, computed = times["admitted"] - times["arrival"], times["first"] - times["admitted"]
    names = ["queue", "prefill", "preempted", "front"]
    said = phrase_of(right(drill), "first", names)
    assert said == ("queue" if waited > computed else "prefill")


def check_waits(run: Run, drill: Drill) -> None:
    moment = drill.moment
    assert moment is not None
    card = run.query(
        "why_card", engine=moment.engine, step=moment.step, request=moment.request_id
    ).dicts()
    stops = {row["code"] for row in card if row["kind"] == "stop"}
    classes = {"memory": {404, 405}, "budget": {401}, "places": {402}, "preempted": {408}}
    said = phrase_of(right(drill), "waits", [*classes, "overtaken"])
    assert stops & classes[said]
    for name, codes in classes.items():
        assert name == said or not stops & codes
    assert f"step = {moment.step}" not in right(drill)


def check_evicted(run: Run, drill: Drill) -> None:
    """The owner by walking through the block's events; the pool of the step before agrees on the order."""
    moment = drill.moment
    assert moment is not None
    block = int(drill.question.en.split("takes block ")[1].split(",")[0])
    owner = None
    for event in rows(
        run, f"FROM kv_block WHERE block_id = {block} AND step <= {moment.step} ORDER BY seq"
    ):
        if event["code"] == 608 and event["step"] == moment.step:
            break
        if event["code"] in (601, 602):
            owner = event["request_id"]
    said = right(drill).split("#")[1].split(" ")[0].rstrip(".")
    assert owner == number_of(said)
    before = state_at(run, "kv_at", engine=moment.engine, step=moment.step - 1).dicts()
    cached = [row for row in before if row["state"] == "cached"]
    (mine,) = [row for row in before if row["block_id"] == block]
    if mine["state"] == "cached":  # else it was let go in this very step
        assert sum(row["eviction_place"] < mine["eviction_place"] for row in cached) <= 12


def check_itl(run: Run, drill: Drill) -> None:
    moment = drill.moment
    assert moment is not None
    tokens = rows(run, f"FROM token WHERE request_id = {moment.request_id} ORDER BY k")
    (i,) = [i for i, token in enumerate(tokens) if token["step"] == moment.step]
    steps = range(tokens[i - 1]["step"] + 1, moment.step + 1)
    assert tokens[i]["gap_ns"] >= 2 * sorted(t["gap_ns"] for t in tokens[1:])[len(tokens) // 2 - 1]
    lost = absent = chunk = redo = 0
    for step in steps:
        batch = rows(run, f"FROM step_request WHERE step = {step}")
        own = [row for row in batch if row["request_id"] == moment.request_id]
        absent += not own
        for row in batch:
            if row["request_id"] != moment.request_id and row["code"] != 101:
                redo += row["num_recomputed_tokens"]
                chunk += row["num_scheduled_tokens"] - row["num_recomputed_tokens"]
        victims = rows(
            run, f"SELECT request_id FROM decision WHERE step = {step} AND code IN {PREEMPTIONS}"
        )
        lost += moment.request_id in {row["request_id"] for row in victims}
    happened = {"lost": lost, "absent": absent, "chunk": chunk, "redo": redo}
    names = ["lost", "absent", "chunk", "redo", "evict", "rows"]
    said = phrase_of(right(drill), "itl", names)
    assert happened[said] > 0
    assert said in ("lost", "absent") or happened["chunk" if said == "redo" else "redo"] == 0
    assert isinstance(drill.answer, Choice)
    for option in drill.answer.options:
        name = phrase_of(option.en, "itl", names)
        assert name == said or not happened.get(name, 0), f"{name} happened too"


def check_miss(run: Run, drill: Drill) -> None:
    """Counts missed blocks by what the cache had done with their hash before the request came."""
    moment = drill.moment
    assert moment is not None
    (look,) = rows(
        run,
        f"""SELECT a0, a3 FROM decision WHERE request_id = {moment.request_id} AND step = {moment.step}
            AND code BETWEEN 701 AND 703""",
    )
    own = f"request_id = {moment.request_id} OR other_id = {moment.request_id}"
    (first,) = rows(run, f"SELECT min(seq) AS seq FROM kv_event WHERE {own}")
    gone = new = 0
    for block in rows(run, f"FROM prompt_block WHERE request_id = {moment.request_id} ORDER BY i"):
        if block["i"] * look["a3"] < look["a0"]:
            continue
        life = rows(
            run,
            f"""SELECT alive FROM cache_event WHERE node_id = {block["hash"]} AND seq < {first["seq"]}
                ORDER BY seq DESC LIMIT 1""",
        )
        gone += bool(life) and not life[0]["alive"]
        new += not life
    names = ["evicted", "chain", "salt", "late", "full", "new"]
    said = phrase_of(right(drill), "miss", names)
    if said == "evicted":
        assert gone > 0
    if said in ("new", "salt", "late"):
        assert new > gone


def check_victim(run: Run, drill: Drill) -> None:
    """Who gained is who got the next block that was given out; nobody did if the victim was short itself."""
    moment = drill.moment
    assert moment is not None
    (lost,) = rows(
        run,
        f"""SELECT seq FROM decision WHERE step = {moment.step} AND request_id = {moment.request_id}
            AND code IN {PREEMPTIONS}""",
    )
    if right(drill).startswith("Nobody else"):
        given = rows(
            run,
            f"""SELECT 1 FROM kv_event WHERE code = 601 AND step = {moment.step} AND seq > {lost["seq"]}
                AND request_id = {moment.request_id}""",
        )
        assert not given
        return
    gainer = number_of(right(drill).split(",")[0])
    given = rows(
        run,
        f"""SELECT request_id FROM kv_event WHERE code = 601 AND step = {moment.step}
            AND seq > {lost["seq"]} ORDER BY seq LIMIT 1""",
    )
    more = rows(
        run,
        f"""SELECT 1 FROM decision WHERE step = {moment.step} AND other_id = {gainer}
            AND seq > {lost["seq"]} AND code IN {PREEMPTIONS}""",
    )
    assert more or given[0]["request_id"] == gainer


CHECKS = {
    "budget": check_budget,
    "cached": check_cached,
    "first-token": check_first_token,
    "waits": check_waits,
    "evicted": check_evicted,
    "itl": check_itl,
    "miss": check_miss,
    "victim": check_victim,
}


def test_there_are_at_least_six_kinds():
    assert set(CHECKS) == set(KINDS)
    assert len(KINDS) >= 6


@pytest.mark.parametrize("name", CHECKS)
def test_the_right_answer_is_what_happened(name: str, runs: dict[str, Run]):
    asked = set()
    for run_name, run in runs.items():
        for seed in SEEDS:
            drill = make(KINDS[name], seed, run_name, run)
            CHECKS[name](run, drill)
            asked.add((run_name, drill.moment))
    assert len({run_name for run_name, _ in asked}) == 2
    assert len(asked) >= 6, "seeds should give different moments"


@pytest.mark.parametrize("name", CHECKS)
def test_a_drill_is_complete_and_points_to_its_moment(name: str, runs: dict[str, Run]):
    places = set()
    for seed in SEEDS:
        drill = make(KINDS[name], seed, "toy", runs["toy"])
        assert drill == make(KINDS[name], seed, "toy", runs["toy"])
        choice, moment = drill.answer, drill.moment
        assert isinstance(choice, Choice)
        assert moment is not None
        assert len(choice.options) == len(set(choice.options)) == len(choice.replies) >= 3
        for text in (drill.question, *choice.options, *choice.replies):
            for half in (text.en, text.zh):
                assert "{" not in half
                assert "None" not in half.replace("None of", ""), "a value was missing"
        assert moment.run == "toy"
        assert drill.evidence[0] == f"cutaway trace show toy --step {moment.step}"
        assert drill.proof
        assert len(rows(runs["toy"], f"FROM step WHERE step = {moment.step}")) == 1
        places.add(choice.right)
    assert len(places) > 1, "the right one must not always stand in one place"


def test_a_run_without_such_a_moment_says_so(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    toy = make_toy_run(folder.recorder("core"), folder.recorder("api"), num_blocks=33)
    toy.arrive([1, 2, 3], 2)
    toy.drain()
    with folder.finished_store() as run:
        for kind in TRACE_KINDS:
            if kind.name not in ("first-token", "miss"):
                with pytest.raises(DrillError, match=f"no moment for trace/{kind.name}"):
                    make(kind, 1, "quiet", run)


def test_a_table_names_the_step_that_it_is_of(runs: dict[str, Run]) -> None:
    for name, before in (("victim", 1), ("budget", 0)):
        drill = make(KINDS[name], 0, "toy", runs["toy"])
        assert drill.moment is not None
        assert drill.moment.step is not None
        for lines, step in (
            (drill.picture, drill.moment.step - before),
            (drill.proof, drill.moment.step),
        ):
            assert lines[0].split()[0] == "step"
            assert {line.split()[0] for line in lines[1:]} == {str(step)}
