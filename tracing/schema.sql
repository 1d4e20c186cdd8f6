-- A run as tables. This file is the documentation: what a column means stands beside it.
--
-- Conventions
--   *_ns       BIGINT, nanoseconds since the Unix epoch on the run's clock; durations say so
--   num_*      a count; *_id an identity; *_bytes memory
--   NULL       not applicable or not recorded, as the comment says; never "zero"
--   step       facts outside a step (an abort between two steps) belong to the step scheduled next
--   seq        sequence number of the record within its process; span id = proc.span_base + seq
--   appended only, in the order of time; there is no UPDATE of facts and no index
--   state      rows of blocks and cache nodes carry the state AFTER the event:
--              "the pool at step n" is the last row of each block (sql/kv_at.sql)

-- 1. Who and what -------------------------------------------------------------------------------------

CREATE TABLE run (                 -- one row; there from the moment the core has described itself
    run_id UUID,
    format SMALLINT,               -- of this file and of the spool
    clock VARCHAR,                 -- wall
    created_ns BIGINT,             -- zero of the time axis
    policy VARCHAR,                -- vllm | static; NULL: no core described itself (so all below)
    cache_kind VARCHAR,            -- hash | none | reserve
    block_size INTEGER,            -- tokens per KV block
    num_blocks INTEGER,            -- of the pool, with block 0, which is never given out
    tokens_recorded BOOLEAN,       -- whether token ids were allowed into the trace
    model VARCHAR,
    config JSON                    -- the effective configuration, and whatever else the core said of itself
);

CREATE TABLE proc (                -- one row per life of a process that recorded
    proc_id SMALLINT,
    engine_id SMALLINT,            -- one life of one engine core; NULL: a front end
    role VARCHAR,                  -- api | core | worker | supervisor
    pid INTEGER,
    span_base UBIGINT,             -- random, so that span ids of two processes never meet
    trace_hi UBIGINT,              -- trace of its step-level spans
    trace_lo UBIGINT,
    started_ns BIGINT,
    level TINYINT                  -- at its start; changes are events of code 1003
);

CREATE TABLE dict (                -- texts that records refer to by number
    kind VARCHAR,                  -- kernel | namespace | token | text
    id INTEGER,                    -- proc_id * 2^20 + the process's own number
    text VARCHAR
);

CREATE TABLE reason (              -- why: the closed list of codes, copied from reasons.toml into each run
    code SMALLINT,
    name VARCHAR,
    kind VARCHAR,                  -- row cut skip stop order victim kv node lookup miss end fault control
    policy VARCHAR,                -- v vLLM, s SGLang, t static, * all
    args VARCHAR,                  -- meaning of a0, a1, a2, a3, parted by commas
    rule VARCHAR,                  -- where upstream decides it
    en VARCHAR,
    zh VARCHAR
);

CREATE TABLE clock (               -- pairs of one moment on both clocks: at start and about each minute
    proc_id SMALLINT,
    raw_ns BIGINT,                 -- monotonic
    wall_ns BIGINT                 -- Unix epoch, as the wall clock said
);

CREATE TABLE ingest (              -- how far each spool file is in these tables: committed with the rows
    proc_id SMALLINT,
    segment INTEGER,
    offset_bytes BIGINT,           -- the next block starts here
    lost_records BIGINT,           -- gaps in seq: dropped by the writer, or in damaged bytes
    torn_bytes BIGINT,             -- tail that was never completed
    sealed BOOLEAN,                -- nothing more will come
    PRIMARY KEY (proc_id, segment)
);

CREATE TABLE event (               -- faults (9xx) and control acts (10xx)
    engine_id SMALLINT,            -- NULL: of a front end, or of the recorder
    proc_id SMALLINT,              -- whom it concerns; NULL: the run
    seq BIGINT,                    -- NULL: noted by the recorder, not by the process
    ts_ns BIGINT,
    code SMALLINT,
    request_id UBIGINT,            -- NULL: none
    step INTEGER,                  -- NULL: outside steps
    a0 BIGINT, a1 BIGINT, a2 BIGINT, a3 BIGINT   -- by code, NULL: unused
);

CREATE TABLE second (              -- what levels 0 and 1 keep of the steps
    engine_id SMALLINT,
    ts_ns BIGINT,                  -- when it began
    num_steps INTEGER,
    prefill_tokens INTEGER,
    decode_tokens INTEGER,
    running INTEGER,               -- these three: at its end
    waiting INTEGER,
    used_blocks INTEGER
);

-- 2. Requests (level >= 1) ----------------------------------------------------------------------------

CREATE TABLE request (
    request_id UBIGINT,            -- proc_id of the front end * 2^32 + its counter
    parent_request UBIGINT,        -- n > 1: the request that asked for n answers; NULL: itself
    proc_id SMALLINT,              -- the front end
    external_id VARCHAR,           -- the client's id, untrusted; NULL: none
    operation VARCHAR,             -- chat | text_completion
    trace_hi UBIGINT,              -- trace and span of the GenAI span
    trace_lo UBIGINT,
    span_id UBIGINT,
    server_span UBIGINT,           -- HTTP SERVER span; NULL: in-process
    arrival_ns BIGINT,
    stream BOOLEAN,
    num_prompt_tokens INTEGER,     -- NULL: rejected before it was known
    max_tokens INTEGER,            -- NULL: no limit but the model's
    priority INTEGER,
    namespace_id INTEGER,          -- dict namespace of its cache salt; 0: none
    temperature FLOAT,             -- this and the next three, NULL: not given
    top_p FLOAT,
    top_k INTEGER,
    seed BIGINT
);

CREATE TABLE request_end (         -- exactly one per request once the run is sealed
    request_id UBIGINT,
    end_ns BIGINT,                 -- last byte handed to the transport
    code SMALLINT,                 -- 8xx; 833: still open when the run ended
    http_status SMALLINT,          -- NULL: in-process
    num_output_tokens INTEGER,
    num_cached_tokens INTEGER,     -- prefix hit at first admission; NULL: never admitted
    num_recomputed_tokens INTEGER, -- computed again after preemptions
    num_preemptions SMALLINT,
    first_token_ns BIGINT,         -- NULL: none
    last_token_ns BIGINT,          -- NULL: none
    first_byte_ns BIGINT,          -- first content handed to the transport; NULL: none
    detokenise_ns BIGINT,          -- duration, CPU time inside other phases; NULL: not known
    a0 BIGINT                      -- argument of code
);

CREATE TABLE request_phase (       -- phases tile [arrival, end) without gap or overlap
    request_id UBIGINT,
    phase VARCHAR,                 -- receive tokenise to_core queue prefill decode preempted detokenise to_api deliver
    start_ns BIGINT,
    end_ns BIGINT,                 -- half open
    first_step INTEGER,            -- NULL: not in the core
    last_step INTEGER
);

CREATE TABLE prompt (              -- only where tokens_recorded
    request_id UBIGINT,
    token_ids INTEGER[]
);

CREATE TABLE prompt_block (        -- full blocks of the prompt (level >= 3)
    request_id UBIGINT,
    i INTEGER,                     -- place in the prompt, in blocks
    hash UBIGINT,                  -- keyed chain hash = node_id in the cache tables
    content UBIGINT                -- the same without the salt: "same text, other salt" can be told
);

CREATE TABLE token (               -- output tokens
    engine_id SMALLINT,
    step INTEGER,                  -- NULL: steps are not recorded (level 1)
    request_id UBIGINT,
    k INTEGER,                     -- place in the output, from 0
    ts_ns BIGINT,                  -- when the step's output was in hand
    gap_ns BIGINT,                 -- duration since the token before (ITL); NULL for k = 0
    token_id INTEGER               -- NULL: tokens are not recorded
);

-- 3. Steps and decisions (level >= 2) -----------------------------------------------------------------

CREATE TABLE step (
    engine_id SMALLINT,
    step INTEGER,
    seq BIGINT,                    -- of the record that closed it
    start_ns BIGINT,               -- planning began
    scheduled_ns BIGINT,
    submitted_ns BIGINT,
    collected_ns BIGINT,           -- output in hand; NULL (as all that follow): interrupted
    end_ns BIGINT,                 -- tokens handed out
    mode VARCHAR,                  -- empty | prefill | decode | mixed | dummy
    num_rows INTEGER,
    num_tokens INTEGER,
    num_prefill_tokens INTEGER,    -- decode tokens = num_tokens - this - drafts
    num_draft_tokens INTEGER,
    num_padded_tokens INTEGER,     -- rows the kernels ran beyond num_tokens
    token_budget INTEGER,
    max_num_seqs INTEGER,
    num_running INTEGER,           -- this and the next four: after the step
    num_waiting INTEGER,
    used_blocks INTEGER,
    cached_free_blocks INTEGER,    -- free, but known to the prefix cache
    free_blocks INTEGER,           -- neither; used + cached_free + free = num_blocks - 1
    num_preempted INTEGER,
    num_finished INTEGER,
    new_token_ratio FLOAT,         -- sglang; else NULL
    in_flight SMALLINT,            -- steps submitted and not collected when this one was planned
    level TINYINT                  -- what was recorded of it
);

CREATE TABLE step_request (        -- one row per sequence in the step
    engine_id SMALLINT,
    step INTEGER,
    row SMALLINT,                  -- schedule order
    request_id UBIGINT,
    code SMALLINT,                 -- 1xx: how it came in
    num_scheduled_tokens INTEGER,  -- drafts included
    num_computed_tokens INTEGER,   -- before the step; at admission = the prefix hit
    num_tokens INTEGER,            -- its length before the step
    is_prefill BOOLEAN,
    num_cached_tokens INTEGER,     -- prefix hit if admitted here, else 0
    num_recomputed_tokens INTEGER, -- of the scheduled ones, computed before and lost by preemption
    num_draft_tokens SMALLINT,
    num_accepted_tokens SMALLINT,
    num_sampled_tokens SMALLINT,
    output_dropped BOOLEAN         -- it ended or was preempted while the step ran
);

CREATE TABLE decision (            -- why: cuts 2xx, skips 3xx, stops 4xx, victims 5xx, prefix lookups 7xx
    engine_id SMALLINT,
    step INTEGER,
    seq BIGINT,
    ts_ns BIGINT,
    code SMALLINT,
    request_id UBIGINT,            -- about whom; NULL: the step
    other_id UBIGINT,              -- who caused it, or gains; NULL: nobody
    a0 BIGINT, a1 BIGINT, a2 BIGINT, a3 BIGINT   -- by code, NULL: unused
);

-- 4. KV blocks and the prefix cache (level >= 3) -------------------------------------------------------

CREATE TABLE kv_event (            -- runs of neighbouring blocks; view kv_block has one row per block
    engine_id SMALLINT,
    step INTEGER,
    seq BIGINT,                    -- of the first block; block j has seq + j
    ts_ns BIGINT,
    code SMALLINT,                 -- 60x, 61x; 622, 625: a tree node was cut or unlocked, and its blocks with it
    block_id INTEGER,              -- of the first
    num_blocks INTEGER,            -- ids go up; negative: they go down
    request_id UBIGINT,            -- whose block table; NULL: nobody's
    other_id UBIGINT,              -- eviction: for whom
    idx INTEGER,                   -- place of the first in the block table, block j: + j; NULL: not said
    state VARCHAR,                 -- used | cached | free
    ref_count INTEGER,             -- requests whose block table holds it
    node_id UBIGINT,               -- its cache entry, node of cache_event; 0: none
    free_key BIGINT,               -- place in the free queue, block j: + j; smallest goes next; NULL: not in it
    idle_steps INTEGER             -- eviction: steps since it was used; else NULL
);

CREATE TABLE kv_snapshot (         -- keyframes: every 1,000 steps or 200,000 kv_event rows, and at the end
    engine_id SMALLINT,
    step INTEGER,
    seq BIGINT,                    -- the state after all records up to this one
    block_id INTEGER,              -- blocks never touched have no row: free, at the place of their id
    state VARCHAR,
    ref_count INTEGER,
    node_id UBIGINT,
    free_key BIGINT,
    holders UBIGINT[],             -- requests
    idxs INTEGER[],                -- place in each holder's block table
    touched_step INTEGER
);

CREATE TABLE cache_event (         -- the prefix cache, as a tree of nodes
    -- hash cache: a node is one content, the keyed hash of a full block and of all before it; parent: block before
    -- radix tree: a node is an edge of the tree, by the engine's own number
    engine_id SMALLINT,
    step INTEGER,
    seq BIGINT,
    ts_ns BIGINT,
    code SMALLINT,                 -- hash: 606-608, 611; radix: 62x
    node_id UBIGINT,
    parent_id UBIGINT,             -- 0: the root
    alive BOOLEAN,                 -- whether it is still in the cache
    num_tokens INTEGER,            -- hash: block_size; NULL: the core did not say
    depth INTEGER,                 -- tokens above it
    num_copies INTEGER,            -- blocks that hold this content; radix: 1
    lock_count INTEGER,            -- running requests whose path holds it; this and the next four NULL: hash cache
    hits INTEGER,
    priority INTEGER,
    access BIGINT,                 -- recency: the smallest was used longest ago
    namespace_id INTEGER,          -- dict namespace; 0: none
    is_reached BOOLEAN,            -- an ancestor of the node that the act was about, which it reached too
    request_id UBIGINT,            -- who caused it; NULL: eviction, reset
    other_id UBIGINT               -- eviction: for whom; split: the node that is the other half
);

CREATE TABLE cache_snapshot (      -- nodes alive, at the same moments as kv_snapshot
    engine_id SMALLINT,
    step INTEGER,
    seq BIGINT,
    node_id UBIGINT,
    parent_id UBIGINT,
    num_tokens INTEGER,
    depth INTEGER,
    num_copies INTEGER,
    lock_count INTEGER,
    hits INTEGER,
    priority INTEGER,
    access BIGINT,
    namespace_id INTEGER
);

-- 5. Ranks and kernels (rank_step from level 2, kernel from 4) ------------------------------------------

CREATE TABLE rank_step (           -- one rank's forward pass in a step
    engine_id SMALLINT,
    proc_id SMALLINT,
    step INTEGER,
    seq BIGINT,
    start_ns BIGINT,               -- inputs in hand
    end_ns BIGINT,
    wait_batch_ns BIGINT,          -- duration before start: no batch from the core
    wait_upstream_ns BIGINT,       -- duration before start: waiting for the stage above
    wait_downstream_ns BIGINT,     -- duration after end: the send was blocked
    first_layer SMALLINT,
    num_layers SMALLINT,
    num_tokens INTEGER
);

CREATE TABLE kernel (              -- launches
    engine_id SMALLINT,
    proc_id SMALLINT,
    step INTEGER,
    seq BIGINT,
    start_ns BIGINT,
    dur_ns BIGINT,                 -- to the begin of the next one
    kernel_id INTEGER,             -- dict kernel
    layer SMALLINT,                -- -1: outside layers
    num_tokens INTEGER,
    clock VARCHAR                  -- host | device
);

-- 6. Spans of the OpenTelemetry SDK (level >= 1) -------------------------------------------------------

CREATE TABLE span (                -- a span that began and never ended appears when its run is sealed
    proc_id SMALLINT,
    seq BIGINT,
    trace_hi UBIGINT,
    trace_lo UBIGINT,
    span_id UBIGINT,
    parent_id UBIGINT,             -- NULL: root
    name VARCHAR,
    kind TINYINT,                  -- as in OTLP: 1 internal, 2 server, 3 client, 4 producer, 5 consumer
    start_ns BIGINT,
    end_ns BIGINT,                 -- NULL: never ended
    status TINYINT,                -- 0 unset, 1 ok, 2 error
    request_id UBIGINT,            -- NULL: belongs to none
    body JSON                      -- attributes, events, links, resource, scope, status_text
);

-- 7. Views -------------------------------------------------------------------------------------------

CREATE VIEW request_life AS        -- a request and its end, if it has one
SELECT r.*, e.* EXCLUDE (request_id) FROM request r LEFT JOIN request_end e USING (request_id);

CREATE VIEW kv_block AS            -- kv_event, one row per block
SELECT e.* EXCLUDE (seq, block_id, num_blocks, idx, free_key),
       e.seq + j AS seq,
       (e.block_id + sign(e.num_blocks) * j)::INTEGER AS block_id,
       (e.idx + j)::INTEGER AS idx,
       e.free_key + j AS free_key
FROM kv_event e, unnest(range(abs(e.num_blocks)::BIGINT)) AS u(j);

CREATE VIEW latency AS             -- per ended request; all durations in ns
SELECT request_id, code,
       first_token_ns - arrival_ns AS ttft_ns,
       first_byte_ns - arrival_ns AS ttft_delivered_ns,
       CASE WHEN code <> 833 THEN end_ns - arrival_ns END AS e2e_ns,   -- NULL: its end was never seen
       -- time per output token: the mean gap; NULL for a single token
       (last_token_ns - first_token_ns) / nullif(num_output_tokens - 1, 0) AS tpot_ns,
       (SELECT sum(p.end_ns - p.start_ns)::BIGINT FROM request_phase p
        WHERE p.request_id = l.request_id AND p.phase = 'queue') AS queue_ns
FROM request_life l WHERE end_ns IS NOT NULL;

CREATE VIEW slice AS               -- steps as tiles of engine time, also when they overlap
SELECT engine_id, step, lo_ns,     -- [lo, run) planning, [run, hi) the batch
       least(greatest(submitted_ns, lo_ns), collected_ns) AS run_ns, collected_ns AS hi_ns,
       num_tokens, num_prefill_tokens
FROM (SELECT *, coalesce(lag(collected_ns) OVER (PARTITION BY engine_id ORDER BY step), start_ns) AS lo_ns
      FROM step WHERE collected_ns IS NOT NULL);

-- A request's id as people say it: #7, or #3.7 if it came in by another front end than process 1.
CREATE MACRO label(id) AS
    CASE WHEN id IS NULL THEN '?' WHEN id >> 32 <= 1 THEN '#' || (id & 4294967295)
         ELSE '#' || (id >> 32) || '.' || (id & 4294967295) END;

-- A reason's sentence with its arguments filled in.
CREATE MACRO say(t, a0, a1, a2, a3, req, oth) AS
    replace(replace(replace(replace(replace(replace(t,
        '{a0}', coalesce(a0::VARCHAR, '?')), '{a1}', coalesce(a1::VARCHAR, '?')),
        '{a2}', coalesce(a2::VARCHAR, '?')), '{a3}', coalesce(a3::VARCHAR, '?')),
        '{req}', label(req)), '{oth}', label(oth));

-- Everything as OpenTelemetry spans. Step-level facts get their ids here (span_base + seq); steps link to
-- the request spans of their rows and carry decisions as events.
CREATE VIEW otel_spans AS
WITH core AS (SELECT engine_id, span_base, trace_hi, trace_lo FROM proc WHERE role = 'core'),
s AS (SELECT s.*, (core.span_base + s.seq)::UBIGINT AS id, core.span_base, core.trace_hi, core.trace_lo
      FROM step s JOIN core USING (engine_id)),
links AS (SELECT x.engine_id, x.step, to_json(list({'trace_hi': q.trace_hi, 'trace_lo': q.trace_lo,
              'span_id': q.span_id} ORDER BY x.row)) AS links
          FROM step_request x JOIN request q USING (request_id) GROUP BY ALL),
events AS (SELECT d.engine_id, d.step, to_json(list({'name': 'decision', 'ts_ns': d.ts_ns,
               'cutaway.reason': v.name, 'cutaway.request': d.request_id, 'cutaway.other': d.other_id,
               'cutaway.args': [d.a0, d.a1, d.a2, d.a3]} ORDER BY d.seq)) AS events
           FROM decision d JOIN reason v USING (code) GROUP BY ALL),
r AS (SELECT r.*, (p.span_base + r.seq)::UBIGINT AS id, p.role
      FROM rank_step r JOIN proc p USING (proc_id)),
forward AS (SELECT proc_id, step, min(id) AS id FROM r GROUP BY ALL)   -- parent of the step's kernels
SELECT trace_hi, trace_lo, span_id, parent_id, name, kind, start_ns, end_ns, status, 'span' AS source,
       json_extract(body, '$.attributes') AS attributes, json_extract(body, '$.links') AS links,
       json_extract(body, '$.events') AS events
FROM span
UNION ALL
SELECT s.trace_hi, s.trace_lo, s.id, NULL, 'step', 1, s.start_ns, s.end_ns,
       CASE WHEN s.end_ns IS NULL THEN 2 ELSE 0 END, 'step',
       to_json({'cutaway.engine': s.engine_id, 'cutaway.step': s.step, 'cutaway.mode': s.mode,
                'cutaway.rows': s.num_rows, 'cutaway.tokens': s.num_tokens,
                'cutaway.budget': s.token_budget}),
       links.links, events.events
FROM s LEFT JOIN links USING (engine_id, step) LEFT JOIN events USING (engine_id, step)
UNION ALL
SELECT coalesce(s.trace_hi, p.trace_hi), coalesce(s.trace_lo, p.trace_lo), r.id, s.id, 'forward', 1,
       r.start_ns - coalesce(r.wait_upstream_ns, 0), r.end_ns + coalesce(r.wait_downstream_ns, 0), 0,
       'rank_step',
       to_json({'cutaway.step': r.step, 'cutaway.process': r.proc_id, 'cutaway.first_layer': r.first_layer,
                'cutaway.layers': r.num_layers, 'cutaway.tokens': r.num_tokens,
                'cutaway.wait_batch_ns': r.wait_batch_ns, 'cutaway.wait_upstream_ns': r.wait_upstream_ns}),
       NULL, NULL
FROM r JOIN proc p USING (proc_id) LEFT JOIN s ON s.engine_id = r.engine_id AND s.step = r.step
UNION ALL
SELECT coalesce(s.trace_hi, p.trace_hi), coalesce(s.trace_lo, p.trace_lo),
       (p.span_base + k.seq)::UBIGINT, coalesce(f.id, s.id), 'kernel ' || d.text, 1, k.start_ns,
       k.start_ns + k.dur_ns, 0, 'kernel',
       to_json({'cutaway.step': k.step, 'cutaway.layer': k.layer, 'cutaway.tokens': k.num_tokens,
                'cutaway.kernel.clock': k.clock}),
       NULL, NULL
FROM kernel k JOIN proc p USING (proc_id) JOIN dict d ON d.kind = 'kernel' AND d.id = k.kernel_id
LEFT JOIN forward f ON f.proc_id = k.proc_id AND f.step = k.step
LEFT JOIN s ON s.engine_id = k.engine_id AND s.step = k.step
UNION ALL
SELECT core.trace_hi, core.trace_lo, (core.span_base + b.seq)::UBIGINT,
       CASE WHEN b.ts_ns >= s.start_ns THEN s.id END, 'kv ' || lower(v.name), 1,
       b.ts_ns, b.ts_ns, 0, 'kv_event',
       to_json({'cutaway.step': b.step, 'cutaway.block': b.block_id, 'cutaway.request': b.request_id,
                'cutaway.other': b.other_id, 'cutaway.index': b.idx, 'cutaway.refs': b.ref_count}),
       NULL, NULL
FROM kv_block b JOIN reason v USING (code) JOIN core USING (engine_id)
LEFT JOIN s ON s.engine_id = b.engine_id AND s.step = b.step WHERE v.kind = 'kv'
UNION ALL
SELECT core.trace_hi, core.trace_lo, (core.span_base + e.seq)::UBIGINT,
       CASE WHEN e.ts_ns >= s.start_ns THEN s.id END, 'cache ' || lower(v.name), 1,
       e.ts_ns, e.ts_ns, 0, 'cache_event',
       to_json({'cutaway.step': e.step, 'cutaway.node': e.node_id, 'cutaway.parent': e.parent_id,
                'cutaway.tokens': e.num_tokens, 'cutaway.request': e.request_id}),
       NULL, NULL
FROM cache_event e JOIN reason v USING (code) JOIN core USING (engine_id)
LEFT JOIN s ON s.engine_id = e.engine_id AND s.step = e.step WHERE v.kind = 'node' AND NOT e.is_reached;
