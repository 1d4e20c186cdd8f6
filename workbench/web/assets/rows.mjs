/* Rows of the trace's tables, as the server and the live stream send them, made into steps.
 *
 * Columns have the names of `tracing/schema.sql`. A step is complete when its own row has come; what is complete
 * stays as it is, so rows may arrive twice, by a chunk and by the stream, and count once.
 */

/** Put rows ({table: [[value, ...], ...]} with {table: [name, ...]}) into `run.steps`. */
export function addRows(run, columns, rows) {
  const fresh = new Set();  // steps that these rows complete
  const each = (table, use) => {
    const names = columns[table];
    if (!names || !rows[table]) return;
    const at = Object.fromEntries(names.map((name, i) => [name, i]));
    for (const row of rows[table]) {
      const n = row[at.step], v = (name) => row[at[name]];
      if (n === null || (at.engine_id !== undefined && row[at.engine_id] !== run.engine)) continue;
      if (run.steps.get(n)?.done && !fresh.has(n)) continue;
      const step = blank(run, n);
      if (table === 'step') fresh.add(n);
      // Rows of a step may come before its own: an abort between two steps belongs to the next one, and the
      // tables may be asked just while a step is written.
      else if (isKnown(step, table, v)) continue;
      use(step, v);
    }
  };
  each('step', (step, v) => fillStep(run, step, v));
  each('step_request', (step, v) => step.rows.push({
    id: v('request_id'), code: v('code'), n: v('num_scheduled_tokens'), computed: v('num_computed_tokens'),
    len: v('num_tokens'), prefill: Boolean(v('is_prefill')), cached: v('num_cached_tokens') || 0,
    recomputed: v('num_recomputed_tokens') || 0 }));
  each('decision', (step, v) => step.decisions.push({
    code: v('code'), seq: v('seq'), id: v('request_id'), other: v('other_id'),
    a: [v('a0'), v('a1'), v('a2'), v('a3')] }));
  each('kv_event', (step, v) => step.kv.push({
    code: v('code'), block: v('block_id'), num: v('num_blocks'), id: v('request_id'), other: v('other_id'),
    idx: v('idx'), state: v('state'), key: v('free_key') }));
  each('token', (step, v) => step.tokens.push({
    id: v('request_id'), k: v('k'), gap: v('gap_ns') === null ? null : v('gap_ns') / 1e6 }));
  for (const n of fresh) if (run.steps.get(n).done) run.steps.get(n).seen = {};  // nothing more is taken for it
}

/** Whether this row came before; from now on it has. */
function isKnown(step, table, v) {
  const seq = v('seq');
  if (seq !== undefined) {  // they come in this order
    if (seq <= (step.seen[table] ?? -1)) return true;
    step.seen[table] = seq;
    return false;
  }
  const known = step.seen[table] ||= new Set(), key = table === 'token' ? `${v('request_id')} ${v('k')}` : v('request_id');
  return known.has(key) || !known.add(key);
}

function blank(run, n) {
  let step = run.steps.get(n);
  if (!step) {
    step = { step: n, done: false, seen: {}, rows: [], decisions: [], kv: [], tokens: [] };
    run.steps.set(n, step);
  }
  return step;
}

function fillStep(run, step, v) {
  const start = run.ms(v('start_ns')), end = run.ms(v('end_ns'));
  Object.assign(step, {
    start, end: end ?? start, done: end !== null, collected: run.ms(v('collected_ns')) ?? start,
    num: v('num_tokens') || 0, prefill: v('num_prefill_tokens') || 0, budget: v('token_budget'),
    running: v('num_running'), waiting: v('num_waiting'), used: v('used_blocks'),
    cachedFree: v('cached_free_blocks'), free: v('free_blocks'), preempted: v('num_preempted') || 0,
    finished: v('num_finished'), level: v('level') });
}
