/* A run that is still going on: the recorder's stream, fed into the same Run that a replay draws.
 *
 *   keyframe   names the columns and the last step; what is missing before it is fetched as chunks
 *   frame      rows of new steps, requests that came, requests that ended
 *   gap        we were too slow: nothing to do, a keyframe follows, and the hole is fetched when looked at
 *   end        the run is sealed: from here on it is a replay
 *
 * A core that died and was started again is another engine in the trace, whose steps count from 0. The Run is of one
 * engine; that another one is there now is told.
 *
 * Invariant: a step is drawn when its step row has come, and never twice.
 * Source: `tracing/stream.py`.
 */

import { CHUNK, VICTIM } from './run.mjs';

const RETRY_MS = [500, 1000, 2000, 3000];
const MAX_COARSE = 4000;

export class Live {
  constructor(run, state, tell) {
    Object.assign(this, { run, state, tell, cursor: null, failures: 0, turn: Promise.resolve() });
    this.connect();
  }

  stop() { this.stopped = true; this.source?.close(); clearTimeout(this.timer); }

  connect() {
    if (this.stopped) return;
    const query = this.cursor ? `?after=${encodeURIComponent(this.cursor)}` : '';
    this.source = new EventSource(this.run.path('stream') + query);
    const on = (name, use) => this.source.addEventListener(name, (event) => {
      this.failures = 0;
      this.cursor = event.lastEventId || this.cursor;
      this.tell(this.newer ?? { status: 'live' });
      // One after the other: a keyframe has to fetch what is missing before the frames behind it count.
      this.turn = this.turn.then(() => (this.stopped ? null : use(JSON.parse(event.data))));
    });
    on('keyframe', (data) => this.onKeyframe(data));
    on('frame', (data) => this.onFrame(data));
    on('gap', () => this.run.dropUnfinished());
    on('end', () => { this.stop(); this.run.live = false; this.tell({ status: 'ended', step: this.run.last }); });
    this.source.onerror = () => this.retry();
  }

  retry() {
    this.source.close();
    const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures += 1;
    this.since ??= performance.now();
    this.tell({ status: 'lost', seconds: Math.round(wait / 1000) || 1, step: this.run.last });
    this.timer = setTimeout(() => this.connect(), wait);
  }

  async onKeyframe({ columns, state, run: row }) {
    const { run } = this;
    if (row) run.describe(row);
    this.columns = columns;
    if (state.engine_id === null || state.engine_id === undefined) return;  // no core has said hello yet
    if (run.last < run.first) this.begin(state);
    this.onCore(state.engine_id, state.step >= 0);
    if (state.engine_id !== run.engine) return;
    run.last = Math.max(run.last, state.step);
    try { await run.load(); } catch { /* the line is down: another keyframe will come */ }
    run.last = Math.max(run.last, run.coarse?.at(-1)?.last_step ?? -1);
    run.changed('steps');
  }

  /** The first step of a run that had none when the page was opened. */
  begin(state) {
    this.run.use(state.engine_id);
    const row = state.step_row || {};
    this.run.budget = row.token_budget || this.run.config.max_num_batched_tokens || 0;
    this.run.maxSeqs = row.max_num_seqs || this.run.config.max_num_seqs || 0;
  }

  /** A core is there, and may have taken a step. If it is newer than ours, ours takes none any more. */
  onCore(engine, hasStep) {
    const { run, newer } = this;
    if (engine <= run.engine || engine < newer?.engine || (engine === newer?.engine && newer.hasStep >= hasStep)) return;
    if (run.last < run.first) { run.use(engine); return; }  // nobody saw a step of the one before
    run.live = false;
    this.newer = { status: 'restarted', engine, hasStep, step: run.last };
    this.tell(this.newer);
  }

  onFrame({ rows }) {
    const { run } = this;
    if (!this.columns) return;
    this.each(rows, 'proc', (row) => { if (row.role === 'core') this.onCore(row.engine_id, false); });
    const who = this.columns.step.indexOf('engine_id');
    for (const row of rows.step || []) this.onCore(row[who], true);
    if (this.newer) { this.each(rows, 'request_end', (row) => this.onEnd(row)); return; }
    this.each(rows, 'run', (row) => run.describe(row));
    this.each(rows, 'request', (row) => run.addLife(row));
    this.each(rows, 'request_end', (row) => this.onEnd(row));
    run.addRows(this.columns, rows);
    const done = (rows.step || []).map((row) => row[this.columns.step.indexOf('step')])
      .filter((n) => run.step(n)?.done).sort((m, n) => m - n);
    for (const n of done) this.onStep(run.step(n));
    if (done.length || rows.request || rows.request_end) run.changed('steps');
  }

  each(rows, table, use) {
    for (const row of rows[table] || []) use(Object.fromEntries(this.columns[table].map((name, i) => [name, row[i]])));
  }

  onEnd(row) {
    const life = this.run.lifeOf.get(row.request_id);
    if (!life) return;
    Object.assign(life, { end: this.run.ms(row.end_ns), code: row.code, output: row.num_output_tokens ?? life.output,
      cached: row.num_cached_tokens, recomputed: row.num_recomputed_tokens || 0 });
  }

  onStep(step) {
    const { run } = this, n = step.step;
    run.last = Math.max(run.last, n);
    run.budget ||= step.budget || 0;
    this.extend(step);
    const i = Math.floor(n / CHUNK);
    if (!run.chunks.has(i) && run.chunks.get(i - 1)?.upTo === n - 1) run.chunks.set(i, { upTo: n - 1, pool: null });
    const chunk = run.chunks.get(i);
    if (chunk && chunk.upTo === n - 1) chunk.upTo = n;
    for (const row of step.rows) this.onRow(row, n);
    for (const d of step.decisions) if (VICTIM.has(d.code)) this.onLost(run.lifeOf.get(d.id), n);
    for (const { id, k } of step.tokens) {
      const life = run.lifeOf.get(id);
      if (life && k === 0) Object.assign(life, { firstToken: n, firstTokenMs: step.collected });
    }
    for (let j = run.lives.length - 1; j >= 0 && run.lives[j].arrivalStep === null; j -= 1) {
      if (run.lives[j].arrival <= step.start) run.lives[j].arrivalStep = n;
    }
  }

  onLost(life, n) { if (life && !life.preempted.includes(n)) life.preempted.push(n); }

  onRow(row, n) {
    const life = this.run.lifeOf.get(row.id);
    if (!life) return;  // its request row is on its way
    life.firstRow ??= n;
    life.lastRow = Math.max(life.lastRow ?? n, n);
    if (row.code === 104 && !life.resumed.includes(n)) life.resumed.push(n);
    life.cached ??= row.cached;
  }

  /** One more column for the whole-run views; old ones are folded when there are too many. */
  extend(step) {
    if (step.step <= (this.run.coarse.at(-1)?.last_step ?? -1)) return;
    const decode = step.num - step.prefill;
    this.run.coarse.push({
      step: step.step, last_step: step.step, start: step.start, end: step.end, prefill: step.prefill, decode,
      tokens: step.num, prefill_tokens: step.prefill, running: step.running, waiting: step.waiting,
      preempted: step.preempted, slowest: step.end - step.start });
    if (this.run.coarse.length > MAX_COARSE) this.fold();
  }

  fold() {
    const { coarse } = this.run, most = (name, x, y) => Math.max(x[name] || 0, y[name] || 0);
    const folded = [];
    for (let i = 0; i < coarse.length; i += 2) {
      const x = coarse[i], y = coarse[i + 1] || x, both = y === x ? 0 : 1;
      folded.push({
        step: x.step, last_step: y.last_step, start: x.start, end: y.end,
        ...Object.fromEntries(['prefill', 'decode', 'running', 'waiting', 'slowest'].map((name) => [name, most(name, x, y)])),
        ...Object.fromEntries(['tokens', 'prefill_tokens', 'preempted'].map((name) => [name, (x[name] || 0) + both * (y[name] || 0)])) });
    }
    this.run.coarse = folded;
  }
}
