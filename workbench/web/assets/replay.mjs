/* The replay page: one run, one cursor, four views, in one loop.
 *
 * Whatever changes ends up in `State`; `draw` looks at which keys changed and redraws the least that is needed:
 *
 *   window, rows, size, theme, filter   timelines, scrubber         cursor   two boxes, block map, clock, words
 *   pointed at, selected                outlines                    all of it at most once per animation frame
 */

import { Describer } from './describe.mjs';
import { Go } from './go.mjs';
import { Live } from './live.mjs';
import { MapCard } from './mapcard.mjs';
import { repaint } from './paint.mjs';
import { Player } from './play.mjs';
import { Pointer } from './pointer.mjs';
import { Run, VICTIM } from './run.mjs';
import { Scrubber } from './scrubber.mjs';
import { State, packMark, readAddress, unpackMark } from './state.mjs';
import { Timeline } from './timeline.mjs';
import { Transport } from './transport.mjs';
import { Why } from './why.mjs';
import { loadWords, t } from './words.mjs';

const BASE = ['a', 'b', 'axis', 'rows', 'size', 'theme', 'sort', 'only', 'req', 'from', 'to', 'card', 'scrolled'];
const AGAIN_MS = 200;
const any = (changed, names) => names.some((name) => changed.has(name));

export class Replay {
  constructor(root) {
    this.root = root;
    this.stopped = false;
    this.parts = [];
    this.start();
  }

  async start() {
    const { root } = this;
    await loadWords();
    const asked = root.dataset.compact ? {} : readAddress();
    try {
      this.run = await Run.open(root.dataset.run, asked.engine ?? null);
      this.isNamed = asked.engine !== undefined;  // then it stays with this engine
      await this.run.load();
    } catch (error) { this.fail(error.message); return; }
    if (this.stopped) return;
    if (this.run.last < this.run.first && !this.run.live) { this.show('empty'); return; }
    this.show(this.run.last < this.run.first ? 'waiting' : 'ready');
    if (this.run.live) this.follow();
    if (this.run.last >= this.run.first) this.begin(asked);
  }

  show(state) { this.root.dataset.state = state; }

  fail(message) {
    this.show('error');
    this.root.querySelector('[data-text=error]').textContent = message || t('state.offline');
  }

  follow() {
    this.live = new Live(this.run, null, (told) => this.onLive(told));
    this.parts.push(this.live);
    this.run.onChange(() => { if (!this.state && this.run.last >= this.run.first) this.begin(readAddress()); });
  }

  onLive(told) {
    this.told = told;
    if (told.status === 'ended' && !this.state) this.show('empty');
    if (told.status === 'restarted') this.onNewer(told);
    this.transport?.onLive(told);
  }

  /** The engine was started again: whoever follows goes over to its new core, as soon as there is something to see. */
  onNewer({ engine, hasStep }) {
    if (this.isNamed) this.state?.set({ following: false });
    else if (hasStep && this.state?.get('following')) this.goOver(engine);
  }

  async goOver(engine) {
    if (this.isGoing) return;
    this.isGoing = true;
    let run = null;
    while (!this.stopped && run?.engine !== engine) {  // the stream is ahead of the tables by a moment
      await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
      run = await Run.open(this.run.name, engine).catch(() => null);
    }
    await run?.load().catch(() => null);
    this.isGoing = false;
    if (this.stopped || !this.state.get('following')) return;
    const before = { engine: this.run.engine, step: this.run.last }, { axis, sort, only, kind } = this.state.values;
    for (const part of this.parts) part.stop?.();
    Object.assign(this, { run, before, parts: [], told: null, watched: null });
    this.follow();
    this.begin({ axis, sort, only, kind });
  }

  /** To the live end, wherever that is now. */
  goLive() {
    const { state, run, told } = this;
    if (!run.live && told?.status !== 'restarted') return;
    this.isNamed = false;
    state.set({ following: true, playing: false });
    if (run.live) this.toEnd(); else this.onNewer(told);
  }

  begin(asked) {
    const { run, root } = this;
    this.show('ready');
    const engine = run.live || run.engines.length > 1 ? run.engine : undefined;  // an address means the same later
    this.state = new State({ ...this.firstWindow(asked), ...pick(asked), engine });
    const { state } = this;
    Object.assign(state, {
      isDimmed: (id) => this.dimmed?.(id) ?? false,
      named: () => this.named() });
    if (root.dataset.compact) state.stopped = true;  // a guest on another page: the address is not its own
    this.go = new Go(run, state);
    this.timeline = new Timeline(root.querySelector('.timelines'), run, state);
    this.map = new MapCard(root.querySelector('.map'), run, state);
    this.scrubber = new Scrubber(root.querySelector('.scrubber'), run, state, this.go);
    this.player = new Player(run, state, this.go);
    this.pointer = new Pointer(root, this.timeline, this.map, state, this.go);
    this.describer = new Describer(root, run, state);
    this.why = new Why(root, run, state);
    this.transport = new Transport(root, this);
    this.parts.push(this.scrubber, this.player, this.pointer, this.describer, this.why, this.transport, state);
    state.onChange((changed) => this.draw(changed));
    run.onChange((what) => { state.touch(what === 'pool' ? 'lit' : 'rows'); if (state.get('following')) this.toEnd(); });
    this.watchSize();
    if (this.told) this.transport.onLive(this.told);
    if (asked.mark) state.set({ card: unpackMark(asked.mark) });
    for (const name of ['size', 'step', 'req']) state.touch(name);  // everything is new
    if (this.watched) this.watch(this.watched);
  }

  /** Follow a request at the live end; before the first step, as soon as there is one. */
  watch(request) {
    this.watched = request;
    this.state?.set({ req: request, scrolled: false });
    this.transport?.actions().live();
  }

  firstWindow(asked) {
    const { run } = this, total = run.last - run.first + 1;
    const width = this.root.querySelector('.timelines').clientWidth - 72;
    const wide = Math.max(24, Math.round(width / 13)), isLive = run.live && asked.step === undefined;
    const size = isLive ? wide : Math.max(1, Math.min(total, wide));  // a live run will fill it
    const step = Math.max(run.first, Math.min(run.last, asked.step ?? (isLive ? run.last : run.first)));
    if (isLive) return { step, ...this.atEnd(size), following: true };
    const fits = asked.a !== undefined && asked.b !== undefined && asked.a <= step && asked.b >= step && asked.b <= run.last + size;
    const { a, b } = fits ? asked : new Go(run, { get: () => 0 }).around(step, 0.35, size);
    return { step, a: Math.max(run.first, a), b: Math.min(b, run.last), following: false };
  }

  /** A window of so many steps, in which the newest stands at 80 %. */
  atEnd(size) {
    const a = Math.max(this.run.first, this.run.last - Math.round(size * 0.8));
    return { a, b: a + size - 1 };
  }

  toEnd() {
    const size = this.go.length, { a, b } = this.state.values, n = this.run.last;
    const from = Math.max(this.run.first, n - Math.round(size * 0.2));
    this.state.set(n > b || n < a ? { step: n, a: from, b: from + size - 1 } : { step: n });
  }

  watchSize() {
    const observer = new ResizeObserver(() => this.state.touch('size'));
    observer.observe(this.root);
    observer.observe(this.map.plot);
    observer.observe(this.scrubber.root);  // the badge beside it says more at times
    this.parts.push({ stop: () => observer.disconnect() });
  }

  /** The height that the timeline card may take: what the window has left between header and transport. */
  room() {
    const top = this.timeline.root.getBoundingClientRect().top + window.scrollY;
    const below = this.root.querySelector('.transport').offsetHeight + 12;
    // Where the cards stand under each other the page scrolls anyway, and the timelines need no more than this.
    const most = window.innerWidth <= 1180 ? 640 : 1100;
    const room = Math.max(560, Math.min(window.innerHeight - top - below, most));
    this.root.style.setProperty('--room', `${room}px`);
    return room;
  }

  draw(changed) {
    const { state } = this, began = performance.now();
    if (changed.has('theme')) repaint();
    if (any(changed, ['from', 'to', 'req'])) this.dimmed = this.filter();
    if (changed.has('size')) { this.timeline.measure(this.room()); this.map.measure(); }
    const isAway = changed.has('step') && !state.get('scrolled') && this.timeline.lives.isAway(state);
    const base = isAway || any(changed, BASE);
    if (base && changed.has('step')) { this.timeline.makeScale(); this.run.pool(state.get('step')); }  // asked first: answers come while we draw
    if (base) this.timeline.draw();
    if (base || changed.has('step')) { this.timeline.moveCursor(); this.scrubber.draw(); this.transport.tell(); this.describer.tell(); }
    if (base || any(changed, ['step', 'lit'])) this.map.draw();
    if (base || any(changed, ['hover', 'step', 'lit'])) { this.timeline.drawOver(); this.map.drawOver(); }
    if (changed.has('card')) this.why.show(state.get('card'));
    state.values.mark = packMark(state.get('card'));
    this.drawn = (this.drawn || 0) + 1;
    this.cost = performance.now() - began;
  }

  /** Requests that stand out: the followed one, the card's, and whoever caused what the card is about. */
  named() {
    const card = this.state.get('card'), ids = new Set([this.state.get('req'), card?.request ?? null]);
    if (card?.kind === 'preempt') {
      const why = this.run.step(card.step)?.decisions.find((d) => VICTIM.has(d.code) && d.id === card.request);
      if (why) ids.add(why.other);
    }
    ids.delete(null);
    return ids;
  }

  /** A brushed range keeps the requests that ran in it; everybody else steps back. */
  filter() {
    const [from, to] = [this.state.get('from'), this.state.get('to')];
    if (from === null || to === null) return null;
    const kept = new Set();
    for (let n = from; n <= to; n += 1) for (const row of this.run.step(n)?.rows || []) kept.add(row.id);
    for (const life of this.run.lives) if (life.firstRow !== null && life.firstRow <= to && life.lastRow >= from) kept.add(life.id);
    return (id) => !kept.has(id);
  }

  stop() {
    this.stopped = true;
    for (const part of this.parts) part.stop?.();
  }

  /** For tests and the curious: where everything stands. */
  report() {
    const { state, run } = this;
    if (!state) return { state: this.root.dataset.state };
    const step = run.step(state.get('step')), pool = step?.done ? run.pool(step.step) : null;
    return {
      state: this.root.dataset.state, ...Object.fromEntries(['step', 'a', 'b', 'axis', 'playing', 'speed', 'following', 'req', 'from', 'to', 'card'].map((name) => [name, state.get(name)])),
      engine: run.engine, last: run.last, drawn: this.drawn, cost: this.cost, frames: this.player.frames,
      rows: step?.rows.map((row) => [row.id, row.n]) ?? null,
      blocks: pool ? pool.count(run.blockSize) : null, shown: this.map.shown ?? null,
      lives: this.timeline.lives.rows.map((life) => life.id), loading: [...run.chunks.values()].some((chunk) => chunk.loading) };
  }
}

const pick = ({ axis, req, sort, only, kind, from, to }) =>
  Object.fromEntries(Object.entries({ axis, req, sort, only, kind, from, to }).filter(([, value]) => value !== undefined));
