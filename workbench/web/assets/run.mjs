/* One run in the browser: what is known of it, step by step, and how to learn more.
 *
 * Steps come in chunks of 32 from the server, or one by one from the live stream; both carry the rows of the
 * tables under their own names, and both end up in `addRows`. So every view draws a live run and a recorded one
 * by the same code (`rows.mjs`).
 *
 * Invariant: a step in `steps` is complete; times are milliseconds since the run began.
 */

import { ask } from './fetch.mjs';
import { Pool, VICTIM } from './pool.mjs';
import { addRows } from './rows.mjs';

export const CHUNK = 32;
const MAX_CHUNKS = 256, MAX_AT_ONCE = 16;
const COARSE = 1600;
const EARLY_MS = 100;  // the stream is ahead of the tables by a commit, a quarter of a second at most

export class Run {
  constructor(name, overview) {
    this.name = name;
    this.facts = overview.facts;
    this.info = overview.run;
    this.config = JSON.parse(overview.run?.config || '{}');
    this.engines = overview.engines;
    this.live = overview.live;
    this.baseNs = overview.facts.start_ns ?? null;  // null: nothing has happened yet
    this.blockSize = overview.facts.block_size || 16;
    this.numBlocks = overview.facts.num_blocks || 0;
    this.steps = new Map();
    this.chunks = new Map();
    this.coarse = [];
    this.lives = [];
    this.lifeOf = new Map();
    this.listeners = new Set();
    this.asking = 0;
    this.later = null;
    this.version = 0;  // counts what was learnt, so that a view knows when its picture is old
    this.use(overview.engines[0]?.engine_id ?? 0);
  }

  /** Ask for the run's facts. One that goes on opens at its newest core, unless another one is named. Throws Refused. */
  static async open(name, engine = null) {
    const run = new Run(name, await ask(`/data/runs/${encodeURIComponent(name)}/overview`));
    if (engine !== null && run.engines.some((e) => e.engine_id === engine)) run.use(engine);
    else if (run.live && run.engines.length) run.use(run.engines.at(-1).engine_id);
    return run;
  }

  /** What the core says of itself; not known before it has started. */
  describe(row) {
    this.info = row;
    this.config = typeof row.config === 'string' ? JSON.parse(row.config) : row.config || {};
    this.blockSize = row.block_size || this.blockSize;
    this.numBlocks = row.num_blocks || this.numBlocks;
  }

  use(engine) {
    const found = this.engines.find((e) => e.engine_id === engine);
    this.engine = engine;
    this.first = found?.first_step ?? 0;
    this.last = found?.last_step ?? -1;
    this.budget = found?.token_budget ?? 0;
    this.maxSeqs = found?.max_num_seqs ?? 0;
    this.level = found?.min_level ?? null;
  }

  path(what) { return `/data/runs/${encodeURIComponent(this.name)}/${what}`; }
  /** A run begins with its first arrival or step, whichever comes first. */
  ms(ns) {
    if (ns === null || ns === undefined) return null;
    this.baseNs ??= ns;
    return (ns - this.baseNs) / 1e6;
  }
  onChange(listener) { this.listeners.add(listener); return () => this.listeners.delete(listener); }
  changed(what) { this.version += 1; for (const listener of this.listeners) listener(what); }

  /** What the whole-run views need: coarse columns and requests. */
  async load() {
    if (this.last < this.first) return;
    const [bins, lives] = await Promise.all([
      this.askBins(this.first, this.last, COARSE), ask(this.path('lives'), { engine: this.engine })]);
    const came = objects(lives);
    this.ms(Math.min(...[bins[0]?.start_ns, came[0]?.arrival_ns].filter((ns) => ns !== undefined)));
    this.coarse = bins.map((bin) => this.timed(bin));
    for (const life of came) this.addLife(life);
    this.isCut = lives.rows.length >= 20000;
    this.changed('load');
  }

  async bins(a, b, most) { return (await this.askBins(a, b, most)).map((bin) => this.timed(bin)); }
  async askBins(a, b, most) { return objects(await ask(this.path('bins'), { engine: this.engine, a, b, most })); }
  timed(bin) { return { ...bin, start: this.ms(bin.start_ns), end: this.ms(bin.end_ns), slowest: bin.slowest_ns / 1e6 }; }

  // -- steps ---------------------------------------------------------------------------------------

  step(n) { return this.steps.get(n); }
  /** Whether step n is here, or its chunk is and there is no such step. */
  knows(n) {
    const chunk = this.chunks.get(Math.floor(n / CHUNK));
    return Boolean(this.steps.get(n)?.done || (chunk && !chunk.loading && chunk.upTo >= n));
  }

  /** Fetch what is missing of steps a..b; returns a promise, and calls listeners when it has arrived. */
  ensure(a, b) {
    const wanted = [], missing = [];
    const lo = Math.max(a, this.first), hi = Math.min(b, this.last);
    for (let i = Math.floor(lo / CHUNK); i * CHUNK <= hi; i += 1) {
      const chunk = this.chunks.get(i);
      const need = Math.min(i * CHUNK + CHUNK - 1, this.last);
      if (chunk) { this.chunks.delete(i); this.chunks.set(i, chunk); }  // most recently used last
      if (chunk?.loading) wanted.push(chunk.loading);
      else if (!chunk || chunk.upTo < need) missing.push(i);
    }
    while (missing.length) {  // neighbours in one request
      const run = [missing.shift()];
      while (missing[0] === run.at(-1) + 1 && run.length < MAX_AT_ONCE) run.push(missing.shift());
      wanted.push(this.fetchChunks(run[0], run.at(-1)));
    }
    return Promise.all(wanted);
  }

  fetchChunks(i, j) {
    const a = i * CHUNK, b = j * CHUNK + CHUNK - 1, upTo = Math.min(b, this.last);
    const chunks = [];
    for (let k = i; k <= j; k += 1) {
      const chunk = this.chunks.get(k) || { upTo: k * CHUNK - 1, pool: null };
      this.chunks.set(k, chunk);
      chunks.push([chunk, k * CHUNK, Math.min(k * CHUNK + CHUNK - 1, upTo)]);
    }
    const loading = ask(this.path('steps'), { engine: this.engine, a, b }).then((answer) => {
      this.addRows(answer.columns, answer.rows);
      for (const [chunk, from, to] of chunks) {
        Object.assign(chunk, { upTo: this.completeUpTo(from, to), loading: null, failed: null, at: null });
      }
      if (chunks.at(-1)[0].upTo < upTo) this.again(j);
      this.forget();
      this.changed('steps');
    }, (error) => {
      for (const [chunk, , to] of chunks) Object.assign(chunk, { upTo: to, loading: null, failed: error.message });
      this.changed('error');
    });
    for (const [chunk] of chunks) chunk.loading = loading;
    return loading;
  }

  /** How far steps a.. are all here. In a sealed run one that is not has never been. */
  completeUpTo(a, upTo) {
    if (!this.live) return upTo;
    let n = a - 1;
    while (n < upTo && this.steps.get(n + 1)?.done) n += 1;
    return n;
  }

  /** The stream may be ahead of the tables by a moment: ask once more a little later. */
  again(i) {
    clearTimeout(this.retrying);
    this.retrying = setTimeout(() => this.fetchChunks(i, i), 300);
  }

  forget() {
    for (const i of this.chunks.keys()) {
      if (this.chunks.size <= MAX_CHUNKS) break;
      this.chunks.delete(i);
      for (let s = i * CHUNK; s < (i + 1) * CHUNK; s += 1) this.steps.delete(s);
    }
  }

  /** Rows by table, as the server and the stream have them, into steps. */
  addRows(columns, rows) { addRows(this, columns, rows); }

  /** After a gap, the beginning of a step may be missing: forget what there is of it. */
  dropUnfinished() { for (const [n, step] of this.steps) if (!step.done) this.steps.delete(n); }

  // -- pool ----------------------------------------------------------------------------------------

  /** The block pool after step n; null while something is missing (then it is fetched). */
  pool(n) {
    const i = Math.floor(n / CHUNK), chunk = this.chunks.get(i);
    if (!chunk?.pool) this.wantPool(i, n);
    if (!chunk?.pool || !this.steps.get(n)?.done) return null;
    if (!chunk.at || chunk.at.step > n) chunk.at = { step: i * CHUNK - 1, pool: chunk.pool.clone() };
    while (chunk.at.step < n) {
      chunk.at.step += 1;
      const step = this.steps.get(chunk.at.step);
      if (step) chunk.at.pool.apply(step);
    }
    return chunk.at.pool;
  }

  /** Fetch what pool(n) needs, rows and keyframe at once. Who scrubs wildly gets the last place he asked for. */
  wantPool(i, n) {
    if (n < this.first || n > this.last || this.chunks.get(i)?.poolLoading) return;
    if (this.asking >= 2) { this.later = n; return; }
    if (!this.chunks.has(i)) this.fetchChunks(i, i);
    const chunk = this.chunks.get(i), before = this.chunks.get(i - 1);
    if (before?.pool && before.upTo >= i * CHUNK - 1 && this.steps.has(i * CHUNK - 1)) {
      chunk.pool = this.pool(i * CHUNK - 1)?.clone() ?? null;  // played over the border
      if (chunk.pool) return;
    }
    this.asking += 1;
    chunk.poolLoading = this.fetchPool(chunk, Math.max(-1, i * CHUNK - 1)).finally(() => {
      this.asking -= 1;
      chunk.poolLoading = null;
      const { later } = this;
      this.later = null;
      if (later !== null) this.pool(later);
    });
  }

  async fetchPool(chunk, step) {
    const asked = { engine: this.engine, step };
    try {
      let answer = await ask(this.path('pool'), asked);
      for (; answer.early; answer = await ask(this.path('pool'), asked)) {
        if (!this.live) return;  // an end without an end: that step never came
        await new Promise((resolve) => { setTimeout(resolve, EARLY_MS); });
      }
      chunk.pool = Pool.from(answer, this.numBlocks);
      this.changed('pool');
      // Whose a cached block was is not needed for the first picture.
      const { owners } = await ask(this.path('owners'), asked);
      for (const [b, id] of Object.entries(owners)) if (id !== null) chunk.pool.owner[b] = id;
      chunk.at = null;
      this.changed('pool');
    } catch (error) { chunk.poolFailed = error.message; this.changed('error'); }
  }

  // -- requests ------------------------------------------------------------------------------------

  addLife(row) {
    const known = this.lifeOf.get(row.request_id);
    const life = known || { id: row.request_id, preempted: [], resumed: [], firstRow: null, lastRow: null,
      firstToken: null, arrivalStep: null, output: 0, end: null, code: null };
    Object.assign(life, {
      arrival: this.ms(row.arrival_ns), end: this.ms(row.end_ns), code: row.code, prompt: row.num_prompt_tokens,
      maxTokens: row.max_tokens, cached: row.num_cached_tokens, recomputed: row.num_recomputed_tokens || 0 });
    if (!known || row.first_row !== undefined) {
      Object.assign(life, {
        output: row.num_output_tokens ?? life.output, arrivalStep: row.arrival_step ?? life.arrivalStep,
        firstRow: row.first_row ?? life.firstRow, lastRow: row.last_row ?? life.lastRow,
        firstToken: row.first_token ?? life.firstToken, firstTokenMs: this.ms(row.first_token_ns),
        preempted: row.preempted ?? life.preempted, resumed: row.resumed ?? life.resumed });
    }
    if (known) return known;
    this.lifeOf.set(life.id, life);
    // Arrivals come nearly in order: walk back from the end.
    let at = this.lives.length;
    while (at > 0 && this.lives[at - 1].arrival > life.arrival) at -= 1;
    this.lives.splice(at, 0, life);
    return life;
  }

  /** First and last step of a life; the last is the run's while it is open. */
  span(life) {
    const from = life.arrivalStep ?? life.firstRow ?? this.stepAt(life.arrival);
    const to = life.end === null ? this.last : life.lastRow ?? this.stepAt(life.end);
    return [from, Math.max(from, to)];
  }

  // -- time ----------------------------------------------------------------------------------------

  /** When a step began, exactly if it is loaded, else between its neighbours in the coarse columns. */
  startOf(n) {
    const step = this.steps.get(n);
    if (step?.done) return step.start;
    const bin = this.binAt((bin) => bin.step <= n);
    if (!bin) return 0;
    const share = (n - bin.step) / (bin.last_step - bin.step + 1);
    return bin.start + Math.min(1, share) * (bin.end - bin.start);
  }

  endOf(n) { return this.steps.get(n)?.end ?? this.startOf(n + 1); }

  /** The step that was going on at a time. */
  stepAt(ms) {
    const bin = this.binAt((bin) => bin.start <= ms);
    if (!bin) return this.first;
    const share = (ms - bin.start) / Math.max(1e-9, bin.end - bin.start);
    let n = Math.min(bin.last_step, Math.floor(bin.step + share * (bin.last_step - bin.step + 1)));
    while (this.steps.get(n)?.start > ms && n > bin.step) n -= 1;
    while (this.steps.get(n + 1)?.start <= ms && n < bin.last_step) n += 1;
    return n;
  }

  binAt(isBefore) {
    let lo = 0, hi = this.coarse.length - 1, found = null;
    while (lo <= hi) {
      const mid = (lo + hi) >> 1;
      if (isBefore(this.coarse[mid])) { found = this.coarse[mid]; lo = mid + 1; } else hi = mid - 1;
    }
    return found || this.coarse[0] || null;
  }
}

/** Rows as objects by column name. */
export function objects({ columns, rows }) {
  return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
}

export { VICTIM };
