/* The card of the block map: the canvas, and under it the same pool as numbers. */

import { touched } from './pool.mjs';
import { BlocksView } from './view_blocks.mjs';
import { outline } from './timeline.mjs';
import { fit, hueOf, mix, nameOf, palette } from './paint.mjs';
import { count, t } from './words.mjs';

const MAX_HEIGHT = 330, HOLD_MS = 150;

export class MapCard {
  constructor(root, run, state) {
    Object.assign(this, { root, run, state });
    this.view = new BlocksView(run);
    this.plot = root.querySelector('[data-plot=blocks]');
    Object.assign(this.view, { plot: this.plot, base: this.plot.querySelector('.base'), over: this.plot.querySelector('.over') });
    this.note = root.querySelector('[data-note=blocks]');
    this.texts = Object.fromEntries([...root.querySelectorAll('.pool [data-text]')].map((node) => [node.dataset.text, node]));
    this.bar = root.querySelector('.usebar');
    this.next = root.querySelector('.nextout');
  }

  measure() {
    const width = this.plot.clientWidth;
    if (!width || (width === this.width && this.view.num === this.run.numBlocks)) return;
    this.width = width;
    this.view.num = this.run.numBlocks;
    this.view.arrange(width, MAX_HEIGHT);
    this.plot.style.height = `${this.view.height}px`;
  }

  /** Draw the pool after the cursor's step; while it is on its way the last picture stays, and says whose it is. */
  draw() {
    const n = this.state.get('step'), step = this.run.step(n);
    if (this.run.numBlocks < 2 || (step && step.level !== null && step.level < 3)) { this.notRecorded(step); return; }
    const pool = this.run.pool(n);
    if (!pool) { this.say(this.shown === undefined ? '' : t('blocks.older', { n: count(this.shown) })); return; }
    this.run.numBlocks = Math.max(this.run.numBlocks, pool.num);
    this.measure();
    const g = fit(this.view.base, this.width, this.view.height);
    if (!g) return;
    this.view.draw(g, pool, step, this.hold(touched(step, pool, this.run.blockSize)), this.state);
    this.shown = n;
    this.say('');
    this.root.classList.remove('unrecorded');
    this.numbers(pool);
  }

  /** While playing, ring and corner stay for 150 ms, over however many steps: nothing may flash. */
  hold(marks) {
    const now = performance.now();
    this.trail = this.state.get('playing') ? (this.trail || []).filter((old) => now - old.at < HOLD_MS) : [];
    for (const old of this.trail) for (const kind of ['written', 'lost']) for (const b of old.marks[kind]) marks[kind].add(b);
    this.trail.push({ at: now, marks: { written: new Set(marks.written), lost: new Set(marks.lost) } });
    return marks;
  }

  say(text) { if (this.note.textContent !== text) this.note.textContent = text; }

  notRecorded(step) {
    this.root.classList.add('unrecorded');
    if (step) {
      this.texts.used.textContent = count(step.used);
      this.texts.cached.textContent = count(step.cachedFree);
      this.texts.free.textContent = count(step.free);
      this.texts.unfilled.textContent = '–';
    }
  }

  numbers(pool) {
    const n = pool.count(this.run.blockSize), total = Math.max(1, pool.num - 1);
    const told = { used: n.used, cached: n.cached, free: n.free, unfilled: n.unfilled, shared: n.shared };
    for (const [name, value] of Object.entries(told)) {
      if (this.texts[name]) this.texts[name].textContent = count(value);
    }
    const [used, cached, free] = this.bar.children;
    used.style.flexGrow = n.used / total;
    cached.style.flexGrow = n.cached / total;
    free.style.flexGrow = n.free / total;
    const queue = this.view.queue.slice(0, 6).join();
    if (queue === this.queued) return;
    this.queued = queue;
    if (queue) this.next.replaceChildren(...this.view.queue.slice(0, 6).map((b) => this.nextCell(pool, b)));
    else this.next.textContent = '–';  // all are in use
  }

  nextCell(pool, b) {
    const cell = document.createElement('span');
    cell.textContent = `#${b}`;
    const owner = pool.owner[b], isCached = pool.state[b] === 1;
    if (isCached && owner >= 0) {
      cell.style.background = mix(hueOf(owner), palette().s1, 0.16);
      cell.style.borderColor = mix(hueOf(owner), palette().s1, 0.55);
      cell.title = t('tip.was', { who: nameOf(owner) });
    }
    return cell;
  }

  drawOver() {
    if (!this.width) return;
    const g = fit(this.view.over, this.width, this.view.height), p = palette();
    const hover = this.state.get('hover'), mark = this.state.get('card');
    if (!g || !this.view.pool) return;
    if (hover?.view === 'blocks') outline(g, this.view.rect(hover), p.ink, 1, 1, null);
    if (mark?.kind === 'block') outline(g, this.view.rect(mark), p.ink, 2, 1, p.s1);
  }
}

