/* The pictures in words, for those who do not see them: a summary on each canvas, a table of the cursor's step,
 * and a polite announcement, at most once a second and only when nothing plays.
 */

import { VICTIM } from './pool.mjs';
import { nameOf } from './paint.mjs';
import { t, count } from './words.mjs';

export class Describer {
  constructor(root, run, state) {
    Object.assign(this, { root, run, state, said: '' });
    this.status = root.querySelector('[data-say]');
    this.table = root.querySelector('[data-table=step] tbody');
  }

  /** Tell what the cursor's step shows. */
  tell() {
    const step = this.run.step(this.state.get('step'));
    if (!step?.done) return;
    const text = this.summary(step);
    if (text === this.said) return;
    this.said = text;
    for (const canvas of this.root.querySelectorAll('canvas[role=img]')) canvas.setAttribute('aria-label', text);
    this.rows(step);
    clearTimeout(this.timer);
    if (!this.state.get('playing')) this.timer = setTimeout(() => { this.status.textContent = text; }, 1000);
  }

  summary(step) {
    const decode = step.rows.filter((row) => !row.prefill).length;
    const away = step.decisions.filter((d) => VICTIM.has(d.code)).map((d) => nameOf(d.id));
    return t('say.step', {
      n: step.step, decode, prefill: step.rows.length - decode, away: away.length ? away.join(', ') : t('say.none'),
      free: count((step.free || 0) + (step.cachedFree || 0)), waiting: count(step.waiting) });
  }

  rows(step) {
    this.table.replaceChildren(...step.rows.map((row) => {
      const tr = document.createElement('tr');
      for (const text of [nameOf(row.id), row.prefill ? t('batch.prefill') : t('batch.decode'), row.n, row.computed]) {
        tr.append(Object.assign(document.createElement('td'), { textContent: text }));
      }
      return tr;
    }));
  }

  stop() { clearTimeout(this.timer); }
}
