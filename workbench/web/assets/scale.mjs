/* Where a step is on the x-axis: by number or by time. One loop computes it, so plots align to the pixel.
 *
 * Invariant: x2(n) of the step axis is x(n + 1); both are whole css pixels.
 */

export const GUTTER = 60, MARGIN = 12;

export class Scale {
  /** Steps a..b (inclusive) of a run over a plot `width` px wide that begins at `left`. */
  constructor(run, a, b, axis, left, width) {
    Object.assign(this, { run, a, b, axis, left, width });
    this.w = width / (b - a + 1);
    this.isWide = this.w < 2;  // too many steps to draw one by one
    if (axis === 'time') {
      this.t0 = run.startOf(a);
      this.t1 = Math.max(this.t0 + 1e-6, run.endOf(b));
    }
  }

  exact(n) {
    if (this.axis === 'step') return this.left + (n - this.a) * this.w;
    return this.ofTime(n > this.run.last ? this.run.endOf(this.run.last) : this.run.startOf(n));
  }

  x(n) { return Math.round(this.exact(n)); }
  x2(n) { return Math.round(this.axis === 'step' ? this.exact(n + 1) : this.ofTime(this.run.endOf(n))); }
  ofTime(ms) { return this.left + ((ms - this.t0) / (this.t1 - this.t0)) * this.width; }
  /** Where a moment lies on either axis. */
  ofMoment(ms) {
    if (this.axis === 'time') return this.ofTime(ms);
    const n = this.run.stepAt(ms);
    const start = this.run.startOf(n), end = Math.max(start + 1e-9, this.run.startOf(n + 1));
    return this.exact(n + Math.max(0, Math.min(1, (ms - start) / (end - start))));
  }

  /** The step at a pixel. */
  at(px) {
    const share = (px - this.left) / this.width;
    const n = this.axis === 'step'
      ? this.a + Math.floor(share * (this.b - this.a + 1))
      : this.run.stepAt(this.t0 + share * (this.t1 - this.t0));
    return Math.max(this.a, Math.min(this.b, n));
  }

  /** Ticks as [px, text]: every 2, 4, 8, ... steps, or round times, at least 64 px apart. */
  ticks() {
    const ticks = [];
    if (this.axis === 'step') {
      let every = 1;
      while (every * this.w < 64) every *= 2;
      for (let n = Math.ceil(this.a / every) * every; n <= this.b; n += every) {
        ticks.push([this.left + (n - this.a + 0.5) * this.w, String(n)]);
      }
      return ticks;
    }
    const every = niceAbove((64 / this.width) * (this.t1 - this.t0));
    for (let t = Math.ceil(this.t0 / every) * every; t <= this.t1; t += every) ticks.push([this.ofTime(t), seconds(t, every)]);
    return ticks;
  }
}

/** The next of 1, 2, 5, 10, 20, ... at or above a number. */
export function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * power).find((v) => v >= value * 0.999999);
}

function seconds(ms, every) {
  const digits = every >= 1000 ? 0 : every >= 100 ? 1 : every >= 10 ? 2 : 3;
  return `${(ms / 1000).toFixed(digits)} s`;
}

/** A duration as people say it: 49 ms, 1.13 s, 2.6 min. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms < 1) return `${Number((ms * 1000).toPrecision(2))} µs`;
  if (ms < 10) return `${Number(ms.toFixed(1))} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${Number((ms / 1000).toPrecision(3))} s`;
  return `${(ms / 60000).toFixed(1)} min`;
}
