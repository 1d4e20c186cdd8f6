"""Every screen, every key, on a recorded run."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from tests.tracing.test_engine_agreement import Told
from tests.workbench.toy_run import ToyRun
from tests.workbench.tui.conftest import STEP, Top, drive, top
from tracing.keyframe import describe, keyframe_at
from tracing.reader import Run, open_run, state_at
from workbench.look.palette import label_of
from workbench.look.words import Words
from workbench.replay_state import State
from workbench.tui.causes import gap_entry, gaps
from workbench.tui.command import top as command
from workbench.tui.decisions import Decisions
from workbench.tui.dialogs import Ask, Choose, Show
from workbench.tui.keys import KEYS
from workbench.tui.mode import Mode

FIRST = 1 << 32


def request(number: int) -> int:
    return FIRST + number


def test_digits_and_question_mark_lead_to_the_screens(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            for key, screen, word in (
                ("2", "batch", f"Step {STEP}"),
                ("3", "blocks", "48 blocks of 4 tokens"),
                ("4", "requests", "out/max"),
                ("5", "request", "Why, in order"),
                ("6", "decisions", "preempt"),
                ("question_mark", "help", "Everywhere"),
                ("1", "overview", "Latency"),
            ):
                await t.press(key)
                assert t.place == screen
                assert word in t.text, t.text

    drive(main)


def test_overview_tells_what_the_engine_was_doing(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, (120, 36)) as t:
            model = t.app.desk.session.model
            assert model is not None
            state = model.state
            assert len(state.running) == 8
            assert len(state.waiting) == 3
            for who in (*state.running, *state.waiting):
                assert label_of(who) in t.text
            row = state.step_row
            assert row is not None
            assert f"{row['used_blocks']} of 48" in t.text
            assert f"{state.totals['preemptions']} preempted" in t.text

    drive(main)


def test_down_to_the_request_the_step_the_block_and_back(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            await t.press("enter")
            assert (t.place, t.step) == ("batch", STEP)
            await t.press("down", "enter")
            assert t.place == "request"
            who = t.app.desk.places.here.request_id
            assert who is not None
            assert f"{label_of(who)}" in t.text
            await t.press("up", "up", "enter")
            assert t.place == "batch"
            assert t.step < STEP
            await t.press("b")
            assert t.place == "blocks"
            assert "‹ Batch" in t.text or t.app.desk.places.before is not None
            for expected in ("batch", "request", "batch", "overview"):
                await t.press("escape")
                assert t.place == expected
            await t.press("escape")  # the top: nothing happens
            assert t.place == "overview"

    drive(main)


def test_arrows_move_through_time_and_the_state_is_the_recorders(run_dir: Path) -> None:
    async def main() -> None:
        run = open_run(run_dir)
        try:
            async with top(run_dir) as t:
                for keys, step in (
                    (["right"], STEP + 1),
                    (["shift+right"], STEP + 11),
                    (["left"], STEP + 10),
                    (["shift+left"], STEP),
                    (["g"], 0),
                    (["left"], 0),
                    (["G"], 279),
                    (["right"], 279),
                ):
                    await t.press(*keys)
                    assert t.step == step
                    model = t.app.desk.session.model
                    assert model is not None
                    asked = keyframe_at(run, step=step)
                    assert model.state.running == asked["running"]
                    assert model.state.waiting == asked["waiting"]
        finally:
            run.close()

    drive(main)


def test_space_plays_and_stops_and_the_end_stops_by_itself(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, step=250) as t:
            session = t.app.desk.session
            await t.press("minus", "minus", "minus", "minus")
            assert session.speed == 0.1
            await t.pilot.press("space")
            assert session.is_playing
            await t.pilot.press("space")
            assert not session.is_playing
            for _ in range(12):
                await t.press("plus")
            assert session.speed == 100
            await t.pilot.press("space")
            for _ in range(400):
                await t.pilot.pause(0.02)
                if not session.is_playing:
                    break
            assert t.step == 279
            assert not session.is_playing

    drive(main)


def test_brackets_find_the_next_event_of_the_kind(run_dir: Path) -> None:
    async def main() -> None:
        run = open_run(run_dir)
        found = run.sql("SELECT DISTINCT step FROM decision WHERE code = 501 ORDER BY 1").rows
        steps = [row[0] for row in found]
        run.close()
        async with top(run_dir) as t:
            after = next(s for s in steps if s > STEP)
            before = [s for s in steps if s < STEP][-1]
            await t.press("right_square_bracket")
            assert t.step == after
            await t.press("left_square_bracket")
            assert t.step == before
            await t.press("k")
            assert isinstance(t.app.screen, Choose)
            await t.pilot.press("home", "enter")  # arrive
            await t.press("right_square_bracket")
            assert t.app.kind == "arrive"
            await t.press("g", "left_square_bracket")
            assert t.app.desk.session.notice is not None
            assert t.step == 0

    drive(main)


@pytest.mark.parametrize(
    ("typed", "step"),
    [("42", 42), ("step 42", 42), ("1 s", None), ("00:02", None), ("9999", 279)],
)
def test_colon_goes_to_a_step_or_a_time(run_dir: Path, typed: str, step: int | None) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            await t.pilot.press("colon")
            assert isinstance(t.app.screen, Ask)
            await t.type(typed)
            model = t.app.desk.session.model
            assert model is not None
            if step is not None:
                assert t.step == step
            else:
                seconds = 1 if typed == "1 s" else 2
                behind_ns = model.created_ns + seconds * 10**9 - model.now_ns
                assert 0 <= behind_ns < 50_000_000

    drive(main)


def test_find_knows_requests_blocks_steps_and_words(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            await t.pilot.press("slash")
            await t.type("r89")
            assert (t.place, t.app.desk.places.here.request_id) == ("request", request(89))
            await t.pilot.press("slash")
            await t.type("b12")
            assert (t.place, t.app.desk.places.here.block_id) == ("blocks", 12)
            await t.pilot.press("slash")
            await t.type("token budget")
            assert t.step < STEP
            await t.pilot.press("slash")
            await t.type("no such thing")
            assert t.app.desk.session.notice is not None
            assert "no such thing" in t.text

    drive(main)


def test_a_dialog_left_with_escape_changes_nothing(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            for key in ("colon", "slash", "k"):
                await t.pilot.press(key)
                assert len(t.app.screen_stack) == 2
                await t.press("escape")
                assert len(t.app.screen_stack) == 1
            assert (t.step, t.place) == (STEP, "overview")

    drive(main)


def test_blocks_selection_zoom_ages_order_and_logical_order(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, (120, 36)) as t:
            await t.press("3")
            assert "In logical order" in t.text
            await t.press("right", "down")
            assert t.app.desk.places.here.block_id == 9
            assert "Block 9" in t.text
            assert t.step == STEP, "plain arrows move the block, not the time"
            await t.press("shift+right")
            assert t.step == STEP + 10
            await t.press("h")
            assert "In logical order" not in t.text
            before = t.text
            assert "out 1" in before
            await t.press("e")
            assert "out 1" not in t.text
            await t.press("a", "z", "enter")
            assert t.place == "request"

    drive(main)


def test_the_story_of_a_block_is_the_traces(run_dir: Path) -> None:
    async def main() -> None:
        run = open_run(run_dir)
        story = run.query("block_story", engine=0, block=7, n_seq=2**62, limit=99).dicts()
        run.close()
        async with top(run_dir, (120, 36), step=279) as t:
            await t.press("3")
            t.app.desktop.action_open_block(7)
            await t.settle()
            given = next(act for act in story if act["name"] == "KV_ALLOC")
            line = f"{given['step']} + given to {label_of(given['request_id'])}"
            assert line in t.text

    drive(main)


def test_requests_sort_filter_and_selection(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            await t.press("4")
            assert "sort state" in t.text
            await t.press("down", "down")
            assert t.app.desk.places.here.request_id == request(84)
            await t.press("s")
            assert "sort arrival" in t.text
            rows = [line for line in t.text.splitlines() if "/" in line and "r" in line[:3]]
            numbers = [int(line.split()[0].lstrip("▌").lstrip("r")) for line in rows]
            assert numbers == sorted(numbers)
            for expected in ("running", "waiting", "done", "preempted", "live + last done"):
                await t.press("f")
                assert f"filter {expected}" in t.text
            await t.press("enter")
            assert t.place == "request"

    drive(main)


def test_request_neighbours_tokens_and_reasons(run_dir: Path) -> None:
    async def main() -> None:
        run = open_run(run_dir)
        story = run.query("request_story", request=request(80), lang="en").dicts()
        run.close()
        async with top(run_dir, (120, 36)) as t:
            await t.press("5")
            t.app.desktop.action_open_request(request(80))
            await t.settle()
            assert "19 tokens, one bar each" in t.text
            for line in story:
                if line["step"] <= STEP and line["name"].startswith(("ADMIT", "HIT")):
                    assert line["sentence"].split(":")[0] in t.text
            assert "preempted for r69" in t.text
            await t.press("n")
            assert t.app.desk.places.here.request_id == request(81)
            await t.press("N", "N")
            assert t.app.desk.places.here.request_id == request(79)

    drive(main)


def test_decisions_filter_select_and_explain(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            await t.press("6")
            view = t.app.desktop.query_one(Decisions)
            assert "STOP_FULL_PROMPT" in t.text
            await t.pilot.press("f")
            assert isinstance(t.app.screen, Choose)
            await t.pilot.press("down", "down", "down", "down", "enter")  # skip: off
            await t.pilot.pause(0.1)
            await t.press("escape")
            assert "skip" in view.hidden
            assert "its whole 29 tokens" not in t.text
            view.hidden.update({"evict", "admit", "resume", "chunk", "finish"})
            await t.press("up", "down")
            assert view.selected is not None
            assert view.selected.kind == "preempt"
            assert "PREEMPT" in t.text
            assert "resumed at step" in t.text
            chosen = view.selected
            await t.press("r")
            assert t.app.desk.places.here.request_id == chosen.request_id
            await t.press("escape", "t")
            assert (t.place, t.step) == ("batch", chosen.step)

    drive(main)


def test_theme_language_copy_and_picture(run_dir: Path, tmp_path: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            copied: list[str] = []
            t.app.copy_to_clipboard = copied.append  # type: ignore[method-assign]  # the terminal's edge
            seen = [t.app.desk.theme.name]
            for _ in range(4):
                await t.press("T")
                seen.append(t.app.desk.theme.name)
            assert seen == ["dark", "light", "contrast", "safe", "mono"]
            await t.press("l")
            assert "等待" in t.text
            await t.press("c")
            assert copied == ["step 150"]
            await t.press("S")
            (picture,) = tmp_path.glob("*.svg")
            assert picture.read_text().startswith("<svg")
        kept = json.loads((tmp_path / "config" / "cutaway" / "top.json").read_text())
        assert kept == {"theme": "mono", "lang": "zh"}
        async with top(run_dir) as t:
            assert (t.app.desk.theme.name, t.app.desk.words.lang) == ("mono", "zh")

    drive(main)


def test_the_palette_offers_every_key_and_explains_numbers(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            from workbench.tui.palette import TopCommands

            offered = [text for text, _ in TopCommands(t.app.screen)._actions()]
            words = t.app.desk.words
            for key in KEYS:
                if key.action and key.shown and "palette" not in key.action:
                    assert words(f"tui.help.key_{key.word}") in offered
            await t.pilot.press("ctrl+p")
            await t.pilot.pause(0.3)
            assert len(t.app.screen_stack) == 2
            await t.press("escape")
            t.app.explain("rates_between")
            await t.pilot.pause(0.1)
            assert isinstance(t.app.screen, Show)
            await t.press("escape")
            copied: list[str] = []
            t.app.copy_to_clipboard = copied.append  # type: ignore[method-assign]  # the terminal's edge
            t.app.copy_as_sql()
            assert copied[0].startswith(f'cutaway trace sql {run_dir.name} "FROM step WHERE')
            for key in "236":
                await t.press(key)
                t.app.copy_as_sql()
                (statement,) = re.findall('"(.*)"', copied[-1])
                run = open_run(run_dir)
                lives = {row["engine_id"] for row in run.sql(statement).dicts()}
                run.close()
                assert lives <= {0}
                assert f"WHERE engine_id = 0 AND step = {STEP} " in statement

    drive(main)


def test_small_terminals_get_a_line_and_resizing_keeps_the_place(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, (60, 10)) as t:
            assert "80 x 24 shows more" in t.text
            assert "running 8" in t.text
            await t.pilot.resize_terminal(120, 36)
            await t.press("4", "down")
            await t.pilot.resize_terminal(200, 60)
            await t.settle()
            assert t.place == "requests"
            assert t.app.desk.places.here.request_id == request(83)

    drive(main)


OTHER_SIZES = [(100, 30), (120, 36), (81, 70), (300, 24)]


@pytest.mark.parametrize(
    "size",
    [(80, 24), (200, 60), *(pytest.param(size, marks=pytest.mark.slow) for size in OTHER_SIZES)],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_screen_fits_any_size(run_dir: Path, size: tuple[int, int], lang: str) -> None:
    async def main() -> None:
        async with top(run_dir, size, lang=lang) as t:
            for key in "123456?":
                await t.press("question_mark" if key == "?" else key)
                view = t.app.desktop.view
                assert len(view._strips) == view.size.height
                assert {strip.cell_length for strip in view._strips} == {size[0]}
                for strip in view._strips:
                    assert sum(segment.cell_length for segment in strip) == size[0]

    drive(main)


def test_the_mouse_opens_what_it_points_at(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, (120, 36)) as t:
            await t.pilot.click("#overview", offset=(27, 2))
            await t.settle()
            assert t.place == "request"
            assert t.app.desk.places.here.request_id == request(80)

    drive(main)


def test_without_a_run_it_says_what_would_help() -> None:
    async def main() -> None:
        async with top(None) as t:
            await t.pilot.pause(0.1)
            assert t.app.desk.session.mode is Mode.EMPTY
            assert "cutaway serve" in t.text
            await t.pilot.press("question_mark")
            await t.pilot.pause(0.1)
            assert "go down: request, step, block" in t.text

    drive(main)


def test_ascii_means_ascii(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, (120, 36), ascii_only=True, theme="mono") as t:
            for key in "123456":
                await t.press(key)
                for strip in t.app.desktop.view._strips:
                    assert strip.text.isascii(), strip.text

    drive(main)


def test_at_the_last_step_figures_and_log_know_what_was_told_after_it(run_dir: Path) -> None:
    async def main() -> None:
        run = open_run(run_dir)
        wanted = {row["metric"]: row["n"] for row in run.query("latency_percentiles").dicts()}
        run.close()
        async with top(run_dir, (120, 36), step=278) as t:
            for key in ("right", "left", "G"):  # by rows, and by a query
                await t.press(key)
            model = t.app.desk.session.model
            assert model is not None
            told = {metric: row["n"] for metric, row in model.figures.latency.items()}
            assert told["ttft_ns"] == wanted["ttft_ns"]
            assert model.state.totals["ended"] == model.state.totals["requests"]
            ends = [e for e in model.timeline.entries(model.step, 999) if e.kind == "finish"]
            assert ends
            assert all(entry.took_ns is not None for entry in ends)
            assert "after –" not in t.text
            await t.press("left")
            await t.press("right")
            assert t.step == 279
            assert model.state.totals["ended"] == model.state.totals["requests"]

    drive(main)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_request_tells_why_tokens_missed_and_why_some_came_late(run_dir: Path, lang: str) -> None:
    async def main() -> None:
        run = open_run(run_dir)
        causes = run.query("why_miss", request=request(80), lang=lang).dicts()
        (hit,) = [row["tokens"] for row in causes if row["name"] == "HIT_PART"]
        assert sum(row["tokens"] for row in causes) - hit > 0
        run.close()
        async with top(run_dir, (120, 36), lang=lang) as t:
            await t.press("5")
            t.app.desktop.action_open_request(request(80))
            await t.settle()
            for cause in causes:
                if cause["name"] != "HIT_PART":
                    assert cause["sentence"] in t.text
            late = {
                "en": "token 9 after 43.3 ms: preempted at step 138, back at step 140",
                "zh": "第 9 个 token 隔 43.3 ms：第 138 步被抢占，第 140 步恢复",
            }
            assert late[lang] in t.text
            assert {"en": "receive", "zh": "接收"}[lang] in t.text

    drive(main)


def test_a_long_gap_names_the_prompt_that_shared_its_step(run_dir: Path) -> None:
    run = open_run(run_dir)
    try:
        ids = [row[0] for row in run.sql("SELECT request_id FROM request ORDER BY 1").rows]
        found = [(who, row) for who in ids for row in gaps(run, who)]
        assert found
        shared = [(who, row) for who, row in found if row["prefill_tokens"]]
        who, row = shared[0]
        rows = run.query("step_rows", engine=0, step=row["slow_step"], lang="en").dicts()
        others = [r for r in rows if r["is_prefill"] and r["request_id"] != who]
        assert row["prefill_tokens"] == sum(r["num_scheduled_tokens"] for r in others)
        assert set(row["prefill_of"]) == {r["request_id"] for r in others}
        assert row["num_rows"] == len(rows)
        told = row | {"preempted_step": None, "slow_ns": row["gap_ns"]}
        line = gap_entry(told, who, Words("en"))
        assert line.step == row["slow_step"]
        assert f"{row['prefill_tokens']} prompt tokens of r" in (line.text or "")
    finally:
        run.close()


def test_no_color_means_no_colour_at_all(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def main() -> None:
        async with top(run_dir) as t:
            for keys in ((), ("k",), ("escape",), ("colon",), ("escape", "T"), ("l",)):
                await t.pilot.press(*keys)
                await t.pilot.pause(0.2)
                for strip in t.app.screen._compositor.render_strips():
                    for segment in strip:
                        assert segment.style is not None
                        for colour in (segment.style.color, segment.style.bgcolor):
                            assert colour is None or colour.is_default
            assert t.app.desk.theme.is_mono
        kept = json.loads((tmp_path / "config" / "cutaway" / "top.json").read_text())
        assert kept == {"theme": "dark", "lang": "zh"}, "no colours today, not for ever"

    drive(main)


def test_once_speaks_the_language_that_was_asked_for(run_dir: Path) -> None:
    def said(*words: str) -> str:
        result = CliRunner().invoke(command, [str(run_dir), "--once", *words])
        assert result.exit_code == 0, result.output
        return result.output

    chinese = said("--lang", "zh", "--step", "150")
    for word in ("请求", "运行", "等待", "延迟", "预填充", "抢占"):
        assert word in chinese
    for word in ("requests", "running", "waiting", "latency", "prefill"):
        assert word in said("--step", "150")
        assert word not in chinese
    assert all(cell_len(line) <= 80 for line in chinese.splitlines())
    refused = CliRunner().invoke(command, [str(run_dir), "--once", "--step", "-3"])
    assert refused.exit_code == 2


def test_at_each_step_the_screen_says_what_the_engine_was(
    recorded: tuple[Path, ToyRun], run_dir: Path
) -> None:
    """Forwards, backwards, by jumps: the viewer's state = the recorder's answer = the engine's own account.

    The browser's model is held to the recorder's answer too (tests/workbench/web/test_replay.py).
    """
    toy = recorded[1]
    run = open_run(run_dir)

    def check(t: Top) -> None:
        model = t.app.desk.session.model
        assert model is not None
        seen = toy.seen[t.step]
        assert model.state.running == seen.running
        assert model.state.waiting == seen.waiting
        assert told_by_viewer(model.state) == seen.pool
        assert told_by_recorder(run, t.step) == seen.pool
        assert f"step {t.step:>6} / 279" in t.text

    async def main() -> None:
        async with top(run_dir, step=100) as t:
            check(t)
            for key in ("right",) * 5 + ("left",) * 2 + ("shift+right",) * 2 + ("shift+left",):
                await t.press(key)
                check(t)
            for step in (0, 279, 199):
                await t.pilot.press("colon")
                await t.type(str(step))
                assert t.step == step
                check(t)

    try:
        drive(main)
    finally:
        run.close()


def told_by_viewer(state: State) -> Told:
    """Block -> its state, its place in the free queue, who holds it where."""
    place = {block.block_id: i + 1 for i, block in enumerate(state.pool.eviction_order())}
    return {
        i: (block.state, place.get(i), {who: idx or 0 for who, idx in block.holders.items()})
        for i, block in state.blocks.items()
    }


def told_by_recorder(run: Run, step: int) -> Told:
    """The same from `kv_at.sql`."""
    return {
        row["block_id"]: (
            row["state"],
            row["eviction_place"],
            dict(zip(row["holders"], row["idxs"], strict=True)),
        )
        for row in state_at(run, "kv_at", engine=0, step=step).dicts()
    }


def test_describe_and_keyframe_are_plain_values(run_dir: Path) -> None:
    run = open_run(run_dir)
    said = {**describe(run), "state": keyframe_at(run, step=3)}
    run.close()
    assert json.loads(json.dumps(said)) == said
