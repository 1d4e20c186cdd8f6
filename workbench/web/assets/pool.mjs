/* The block pool after a step: a keyframe from the server, and the step's own events applied to it.
 *
 *   used     held by at least one block table      cached   held by nobody, but a hit takes it back
 *   free     free, and worth nothing               key      place in the queue of free blocks: smallest goes next
 *
 * The same events come from a recorded run and from the live stream, so this is the one place that knows them.
 *
 * Invariant: pool(step) does not depend on the step one started from.
 * Source: the rules of `tracing.kv_mirror`; codes of `tracing.codes`.
 */

export const FREE = 0, CACHED = 1, USED = 2;
const STATES = { free: FREE, cached: CACHED, used: USED };
const TAKES = new Set([601, 602, 610]);
const LETS_GO = new Set([603, 604, 605, 609, 625]);
export const VICTIM = new Set([501, 502, 503, 504, 505, 506, 509]);

export class Pool {
  constructor(numBlocks) {
    this.num = numBlocks;  // ids run from 1; block 0 is never given out
    this.state = new Uint8Array(numBlocks);
    this.key = Float64Array.from({ length: numBlocks }, (_, i) => i);
    this.owner = new Float64Array(numBlocks).fill(-1);
    this.holders = new Array(numBlocks).fill(null);  // [[request, place in its table], ...], replaced on change
    this.computed = new Map();
  }

  /** From the answer of /pool. */
  static from(answer, numBlocks) {
    const pool = new Pool(answer.num_blocks || numBlocks);
    const at = Object.fromEntries(answer.columns.map((name, i) => [name, i]));
    for (const row of answer.rows) {
      const b = row[at.block_id];
      if (b >= pool.num) pool.grow(b + 1);
      pool.state[b] = STATES[row[at.state]];
      pool.key[b] = row[at.free_key] ?? NaN;
      const holders = row[at.holders];
      pool.holders[b] = holders.length ? holders.map((id, i) => [id, row[at.idxs][i]]) : null;
      if (holders.length) pool.owner[b] = holders[holders.length - 1];
    }
    for (const [id, n] of Object.entries(answer.computed || {})) pool.computed.set(Number(id), n);
    return pool;
  }

  clone() {
    const copy = Object.create(Pool.prototype);
    copy.num = this.num;
    copy.state = this.state.slice();
    copy.key = this.key.slice();
    copy.owner = this.owner.slice();
    copy.holders = this.holders.slice();
    copy.computed = new Map(this.computed);
    return copy;
  }

  grow(num) {
    const wider = new Pool(num);
    wider.state.set(this.state); wider.key.set(this.key); wider.owner.set(this.owner);
    this.holders.forEach((h, i) => { wider.holders[i] = h; });
    wider.computed = this.computed;
    Object.assign(this, wider);
  }

  /** Make this the pool after the given step. */
  apply(step) {
    for (const event of step.kv) this.act(event);
    for (const row of step.rows) this.computed.set(row.id, row.computed + row.n);
    for (const d of step.decisions) if (VICTIM.has(d.code)) this.computed.set(d.id, 0);
  }

  act(event) {
    const sign = Math.sign(event.num) || 1;
    for (let j = 0; j < Math.abs(event.num); j += 1) {
      const b = event.block + sign * j;
      if (b >= this.num) this.grow(b + 1);
      if (event.code === 601 || event.code === 610) this.holders[b] = null;
      if (TAKES.has(event.code)) {
        this.holders[b] = [...(this.holders[b] || []), [event.id, event.idx === null ? null : event.idx + j]];
        this.owner[b] = event.id;
      } else if (LETS_GO.has(event.code) && this.holders[b]) {
        const left = this.holders[b].filter(([id]) => id !== event.id);
        this.holders[b] = left.length ? left : null;
      }
      this.state[b] = STATES[event.state];
      this.key[b] = event.key === null ? NaN : event.key + j;
    }
  }

  /** Free blocks in the order in which they will be given out. */
  queue() {
    const free = [];
    for (let b = 1; b < this.num; b += 1) if (this.state[b] !== USED && this.key[b] === this.key[b]) free.push(b);
    return free.sort((x, y) => this.key[x] - this.key[y]);
  }

  /** Tokens of a holder in the block at that place of its table. */
  fill(id, idx, blockSize) {
    const computed = this.computed.get(id);
    if (computed === undefined || idx === null) return blockSize;
    return Math.max(0, Math.min(blockSize, computed - idx * blockSize));
  }

  /** A request's blocks in logical order. */
  tableOf(id) {
    const table = [];
    for (let b = 1; b < this.num; b += 1) {
      const held = this.holders[b]?.find(([who]) => who === id);
      if (held) table.push([held[1] ?? table.length, b]);
    }
    return table.sort((x, y) => x[0] - y[0]).map(([, b]) => b);
  }

  /** {used, cached, free, shared, unfilled}: counts of blocks, and of slots that nobody has filled. */
  count(blockSize) {
    const n = { used: 0, cached: 0, free: 0, shared: 0, unfilled: 0 };
    for (let b = 1; b < this.num; b += 1) {
      if (this.state[b] === USED) {
        n.used += 1;
        const held = this.holders[b] || [];
        if (held.length > 1) n.shared += 1;
        n.unfilled += blockSize - Math.max(0, ...held.map(([id, idx]) => this.fill(id, idx, blockSize)));
      } else if (this.state[b] === CACHED) n.cached += 1;
      else n.free += 1;
    }
    return n;
  }
}

/** What a step did to blocks, for the marks on the map: written, lost by preemption, taken, evicted. */
export function touched(step, pool, blockSize) {
  const victims = new Set(step.decisions.filter((d) => VICTIM.has(d.code)).map((d) => d.id));
  const marks = { written: new Set(), lost: new Set(), taken: new Set(), evicted: new Set() };
  for (const event of step.kv) {
    const sign = Math.sign(event.num) || 1;
    for (let j = 0; j < Math.abs(event.num); j += 1) {
      const b = event.block + sign * j;
      if (TAKES.has(event.code)) marks.taken.add(b);
      if (event.code === 608) marks.evicted.add(b);
      if (LETS_GO.has(event.code) && victims.has(event.id)) marks.lost.add(b);
    }
  }
  const spans = new Map(step.rows.map((r) => [r.id, [
    Math.floor(r.computed / blockSize), Math.floor((r.computed + r.n - 1) / blockSize)]]));
  for (let b = 1; b < pool.num; b += 1) {
    for (const [id, idx] of pool.holders[b] || []) {
      const span = spans.get(id);
      if (span && idx !== null && idx >= span[0] && idx <= span[1]) marks.written.add(b);
    }
  }
  return marks;
}
