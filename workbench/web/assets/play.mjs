/* The replay clock: recorded time, faster or slower, one whole step at a time.
 *
 * It runs on requestAnimationFrame and stops with the tab. Idle time of the engine is skipped. Where a step is not
 * loaded yet the clock waits for it; where playing is too fast for single steps, the window widens so that the eye
 * has something to follow, and narrows again afterwards.
 *
 * Invariant: the cursor only ever shows whole steps, and none is smoothed over.
 */

const IDLE_MS = 1000, FAST = 240, AHEAD_S = 3;

export class Player {
  constructor(run, state, go) {
    Object.assign(this, { run, state, go, frames: 0 });
    state.onChange((changed) => {
      if (changed.has('playing')) this.onPlaying();
      if (changed.has('speed')) this.widen();
    });
    this.onHidden = () => { if (document.hidden && !this.state.get('following')) this.state.set({ playing: false }); };
    document.addEventListener('visibilitychange', this.onHidden);
  }

  stop() { cancelAnimationFrame(this.frame); document.removeEventListener('visibilitychange', this.onHidden); }

  /** Steps per second at the present speed, on average over the run. */
  rate() {
    const n = this.run.last - this.run.first + 1;
    const total = this.run.endOf(this.run.last) - this.run.startOf(this.run.first);
    return (n / Math.max(1e-3, total)) * 1000 * this.state.get('speed');
  }

  onPlaying() {
    cancelAnimationFrame(this.frame);
    if (this.state.get('playing')) {
      if (this.state.get('step') >= this.run.last) this.go.step(this.run.first);
      this.state.set({ following: false });
      this.time = this.run.startOf(this.state.get('step'));
      this.before = performance.now();
      this.frame = requestAnimationFrame((now) => this.tick(now));
    }
    this.widen();
  }

  tick(now) {
    if (!this.state.get('playing')) return;
    this.frames += 1;
    const step = this.state.get('step');
    if (step !== this.shown) { this.time = this.run.startOf(step); this.shown = step; }  // moved by hand
    this.time += Math.min(250, now - this.before) * this.state.get('speed');
    this.before = now;
    let next = Math.max(step, this.run.stepAt(this.time));
    const start = this.run.startOf(step + 1);
    if (next === step && step < this.run.last && start - this.time > IDLE_MS && this.time > this.run.endOf(step)) next = step + 1;
    if (next !== step) this.advance(step, next);
    if (this.state.get('step') >= this.run.last) { this.state.set({ playing: false }); return; }
    this.frame = requestAnimationFrame((after) => this.tick(after));
  }

  advance(step, next) {
    let to = next;
    if (this.rate() < FAST) {
      this.run.ensure(next, next + Math.ceil(this.rate() * AHEAD_S));
      while (to > step && !this.run.knows(to)) to -= 1;
      if (to < next) this.time = this.run.startOf(to);  // the clock waits for what is on its way
    }
    if (to === step) return;
    this.shown = to;
    this.time = Math.max(this.time, this.run.startOf(to));  // over idle time, it jumped
    this.go.play(to);
  }

  widen() {
    const isFast = this.state.get('playing') && this.rate() > FAST;
    if (isFast && this.narrow === undefined) this.narrow = this.go.length;
    if (isFast) {
      const size = Math.max(this.narrow, Math.ceil(this.rate() * 4));
      this.state.set(this.go.around(this.state.get('step'), 0.2, size));
    } else if (this.narrow !== undefined) {
      this.state.set(this.go.around(this.state.get('step'), 0.35, this.narrow));
      this.narrow = undefined;
    }
  }
}
