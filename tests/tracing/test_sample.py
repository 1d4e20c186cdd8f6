"""The sample run in the repository can be asked like any other, and holds what it is there to show."""

from pathlib import Path

import tracing

SAMPLE = Path(__file__).parents[2] / "traces" / "sample"


def test_it_is_small_and_answers():
    assert sum(file.stat().st_size for file in SAMPLE.iterdir()) < 2_000_000
    run = tracing.open_run(SAMPLE)
    (total,) = run.query("summary").dicts()
    assert total["requests"] == 21
    assert total["preemptions"] > 0
    assert total["kernel_launches"] > 10_000
    told = run.query("telling_decisions", n=5, lang="zh").rows
    assert len(told) == 5
    run.close()


def test_it_shows_chunks_hits_preemption_eviction_and_a_client_that_left():
    run = tracing.open_run(SAMPLE)
    codes = {
        row[0]
        for row in run.sql(
            "SELECT name FROM reason JOIN (SELECT code FROM decision UNION SELECT code FROM kv_event"
            " UNION SELECT code FROM request_end UNION SELECT code FROM step_request) USING (code)"
        ).rows
    }
    assert codes >= {
        *("RUN_CHUNK", "HIT_PART", "HIT_OWN", "PREEMPT_LAST", "STOP_FULL_PROMPT", "KV_EVICT"),
        *("ABORT_DISCONNECT", "END_EOS", "END_LENGTH", "CUT_BUDGET", "ADMIT_RESUMED"),
    }
    run.close()
