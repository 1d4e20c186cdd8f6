/* Two of the replay's views, standing still: what the start page shows a newcomer. The same code draws them. */

import { Run } from './run.mjs';
import { State } from './state.mjs';
import { Timeline } from './timeline.mjs';
import { repaint } from './paint.mjs';
import { loadWords } from './words.mjs';

export class Preview {
  constructor(root) {
    this.root = root;
    this.bound = new AbortController();
    document.addEventListener('cutaway:theme', () => { repaint(); this.draw(); }, { signal: this.bound.signal });
    this.sizes = new ResizeObserver(() => this.draw());
    this.start();
  }

  stop() { this.bound.abort(); this.sizes.disconnect(); this.state?.stop(); }

  async start() {
    await loadWords();
    try {
      this.run = await Run.open(this.root.dataset.run);
      await this.run.load();
      await this.run.ensure(this.run.first, this.run.last);
    } catch { return; }  // the card's words stand without the picture
    if (!this.root.isConnected) return;
    const away = this.run.lives.flatMap((life) => life.preempted)[0] ?? this.run.first;
    this.state = new State({ step: away, a: this.run.first, b: this.run.last });
    this.state.stopped = true;  // the address is the page's own
    Object.assign(this.state, { isDimmed: () => false, named: () => new Set() });
    this.timeline = new Timeline(this.root, this.run, this.state);
    this.sizes.observe(this.root);
    this.draw();
  }

  draw() {
    if (!this.timeline || !this.root.clientWidth) return;
    this.timeline.measure(0);
    this.timeline.draw();
    this.timeline.moveCursor();
    const mark = { view: 'lives', kind: 'preempt', step: this.state.get('step'), request: this.run.lives.find((life) => life.preempted.length)?.id };
    this.state.values.card = mark;
    this.timeline.drawOver();
    this.root.dataset.drawn = 'true';
  }
}
