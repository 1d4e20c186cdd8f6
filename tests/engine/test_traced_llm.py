"""An engine in this process, traced: the tables must say what the engine itself counted, and nothing else.

Most checks are queries that may give no row; they are the invariants of the trace, on a run with chunks,
prefix hits, evictions, preemptions and an abort.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

import tracing
from engine import LLM, SamplingParams
from tracing.reader import Run


@dataclass(frozen=True)
class Counted:
    """What the engine counted itself."""

    run: Run
    steps: int
    output_tokens: int
    used_blocks_at_each_step: list[int]
    preemptions: int


@pytest.fixture(scope="module")
def counted(chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    folder = tmp_path_factory.mktemp("runs") / "in-process"
    stem = list(range(40, 120))
    prompts = [[*stem[: 8 * i], 150 + i, 7] for i in range(10)] * 2
    with tracing.start(folder, record_tokens=True) as trace:
        llm = LLM(
            str(chat_model),
            trace=trace,
            dtype="float32",
            num_blocks=17,
            max_model_len=128,
            block_size=8,
            max_num_batched_tokens=40,
            max_num_seqs=6,
        )
        params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
        used = []
        generations = [llm.add(prompt, params) for prompt in prompts]
        left = llm.add(stem, SamplingParams(temperature=0, max_tokens=40, ignore_eos=True))
        while llm.has_work:
            before = llm.core.scheduler.num_steps
            llm.step()
            if llm.core.scheduler.num_steps > before:
                used.append(llm.core.scheduler.kv.num_used)
            if left.choices[0].token_ids:
                llm.abort(left)
        outputs = [generation.output().outputs[0] for generation in generations]
        tokens = sum(len(output.token_ids) for output in outputs) + len(left.choices[0].token_ids)
        steps = llm.core.scheduler.num_steps
        llm.close()
    run = tracing.open_run(folder)
    (preemptions,) = run.sql("SELECT sum(num_preempted) FROM step").rows[0]
    return Counted(run, steps, tokens, used, preemptions)


def test_steps_and_tokens_are_those_that_the_engine_counted(counted: Counted) -> None:
    assert counted.run.sql("SELECT count(*), max(step) + 1 FROM step").rows == [
        (counted.steps,) * 2
    ]
    assert counted.run.sql("SELECT count(*) FROM token").rows == [(counted.output_tokens,)]
    assert counted.preemptions > 0


def test_blocks_in_use_are_what_was_given_out_minus_what_came_back(counted: Counted) -> None:
    used = counted.run.sql("SELECT used_blocks FROM step ORDER BY step").rows
    assert [row[0] for row in used] == counted.used_blocks_at_each_step
    held = counted.run.sql(
        """SELECT (SELECT coalesce(sum(CASE WHEN code IN (601, 602) THEN 1 ELSE -1 END), 0)
                   FROM kv_block b WHERE b.seq <= s.seq AND code BETWEEN 601 AND 605)
           FROM step s ORDER BY step"""
    ).rows
    shared = counted.run.sql("SELECT count(*) FROM kv_block WHERE code = 603").rows[0][0]
    assert shared > 0, "the run shares no block, so this test would not see much"
    # A block in two tables is held twice and used once, so what is held is never below what is used.
    assert all(row[0] >= n for row, n in zip(held, counted.used_blocks_at_each_step, strict=True))
    assert held[-1] == (0,)


NO_ROWS = {
    "rows add up to the step's tokens, within the budget": """
        SELECT s.step FROM step s JOIN step_request r USING (engine_id, step) GROUP BY s.step, s.num_tokens,
        s.token_budget, s.num_rows, s.max_num_seqs
        HAVING sum(r.num_scheduled_tokens) <> s.num_tokens OR s.num_tokens > s.token_budget
        OR count(*) <> s.num_rows OR s.num_rows > s.max_num_seqs""",
    "used, cached and free blocks are the pool": """
        SELECT step FROM step, run WHERE used_blocks + cached_free_blocks + free_blocks <> num_blocks - 1""",
    "tokens sampled in rows are rows of token": """
        SELECT step FROM (SELECT step, sum(num_sampled_tokens) AS n FROM step_request GROUP BY 1)
        FULL JOIN (SELECT step, count(*) AS m FROM token GROUP BY 1) USING (step)
        WHERE coalesce(n, 0) <> coalesce(m, 0)""",
    "output indexes run from 0 without a gap": """
        SELECT request_id FROM token GROUP BY 1 HAVING count(*) <> max(k) + 1 OR min(k) <> 0""",
    "phases tile a life from arrival to end": """
        SELECT request_id FROM request_life l JOIN request_phase p USING (request_id)
        GROUP BY request_id, l.arrival_ns, l.end_ns
        HAVING sum(p.end_ns - p.start_ns) <> l.end_ns - l.arrival_ns
        OR min(p.start_ns) <> l.arrival_ns OR max(p.end_ns) <> l.end_ns""",
    "every request has exactly one end": """
        SELECT r.request_id FROM request r LEFT JOIN request_end e USING (request_id)
        GROUP BY 1 HAVING count(e.code) <> 1""",
    "every admission has one lookup": """
        SELECT step, request_id FROM step_request r WHERE code IN (103, 104) AND 1 <> (
          SELECT count(*) FROM decision d WHERE d.step = r.step AND d.request_id = r.request_id
          AND d.code BETWEEN 701 AND 706)""",
    "the lookup's hit is the row's": """
        SELECT step FROM step_request r JOIN decision d USING (step, request_id)
        WHERE r.code IN (103, 104) AND d.code BETWEEN 701 AND 706 AND d.a0 <> r.num_cached_tokens""",
    "a preemption is followed by a resumption or an end": """
        SELECT step, request_id FROM decision d WHERE code BETWEEN 501 AND 504 AND NOT EXISTS (
          FROM step_request r WHERE r.request_id = d.request_id AND r.step > d.step AND r.code = 104)
        AND NOT EXISTS (FROM request_end e WHERE e.request_id = d.request_id AND e.code >= 811)""",
    "at most one stop a step": """
        SELECT step FROM decision WHERE code BETWEEN 401 AND 420 GROUP BY 1 HAVING count(*) > 1""",
    "computed goes on where the step before left it": """
        SELECT request_id, step FROM (SELECT *, lag(num_computed_tokens + num_scheduled_tokens) OVER w AS was
          FROM step_request WINDOW w AS (PARTITION BY request_id ORDER BY step))
        WHERE code IN (101, 102) AND was <> num_computed_tokens""",
    "each code is in the list": """
        SELECT code FROM (SELECT code FROM decision UNION SELECT code FROM step_request
          UNION SELECT code FROM kv_event UNION SELECT code FROM request_end)
        WHERE code NOT IN (SELECT code FROM reason)""",
    "span ids are unique": """
        SELECT span_id FROM otel_spans GROUP BY 1 HAVING count(*) > 1""",
    "a span encloses its children": """
        SELECT c.name FROM otel_spans c JOIN otel_spans p ON p.span_id = c.parent_id
        WHERE c.start_ns < p.start_ns OR c.end_ns > p.end_ns""",
    "request spans nest too": """
        SELECT c.name FROM span c JOIN span p ON p.span_id = c.parent_id
        WHERE c.start_ns < p.start_ns OR c.end_ns > p.end_ns""",
}


@pytest.mark.parametrize("name", NO_ROWS)
def test_the_trace_holds_together(counted: Counted, name: str) -> None:
    assert counted.run.sql(NO_ROWS[name]).rows == []


def test_every_kind_of_kernel_was_launched_in_every_layer(counted: Counted) -> None:
    found = counted.run.sql(
        "SELECT text, count(DISTINCT layer) FROM kernel k JOIN dict d ON d.id = k.kernel_id"
        " AND d.kind = 'kernel' WHERE layer >= 0 GROUP BY 1"
    ).rows
    names = {"norm", "qkv", "rope", "kv_write", "attention", "o_proj", "mlp"}
    assert dict(found) == dict.fromkeys(names, 2)
    outside = counted.run.sql(
        "SELECT DISTINCT text FROM kernel k JOIN dict d ON d.id = k.kernel_id"
        " AND d.kind = 'kernel' WHERE layer < 0"
    ).rows
    assert {row[0] for row in outside} == {"embed", "norm", "head", "sample"}


def test_what_happened_has_its_reason(counted: Counted) -> None:
    tables = ("decision", "step_request", "kv_event", "request_end")
    union = " UNION ".join(f"SELECT code FROM {table}" for table in tables)
    names = counted.run.sql(f"SELECT name FROM reason JOIN ({union}) USING (code)").rows
    assert {row[0] for row in names} >= {
        *("ADMIT_NEW", "ADMIT_RESUMED", "RUN_DECODE", "RUN_CHUNK"),
        *("CUT_BUDGET", "STOP_PREEMPTED", "PREEMPT_LAST", "HIT_PART", "HIT_OWN"),
        *(
            "KV_ALLOC",
            "KV_HIT",
            "KV_UNREF",
            "KV_FREE_BACK",
            "KV_FREE_FRONT",
            "KV_CACHED",
            "KV_EVICT",
        ),
        *("END_LENGTH", "ABORT_CALL"),
    }
