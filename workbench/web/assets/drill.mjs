/* One drill: the time that is left, letters for options, the focus where the next act is, and a draft that survives
 * a change of language. Nothing depends on it: the server takes its own time, and everything can be clicked.
 *
 *   form ─► (marks to set right) ─► verdict with "Next"      Dash replaces what is inside #drill-body
 */

import { isTyping } from './keys.mjs';

const LETTERS = 'abcdefgh';
const TEXT = { type: 'drill-text', name: 'text' };

export class Drill {
  constructor(root) {
    this.body = root.querySelector('#drill-body');
    this.clock = document.querySelector('.countdown');
    this.end = performance.now() + 1000 * Number(root.dataset.seconds);
    this.draft = `drill ${location.pathname}${location.search}`;
    this.bound = new AbortController();
    const signal = this.bound.signal;
    // Before the page's own keys: `d` is an option here, not the theme.
    document.addEventListener('keydown', (event) => this.press(event), { signal, capture: true });
    this.body.addEventListener('input', (event) => this.keep(event.target), { signal });
    this.watch = new MutationObserver(() => this.turn());
    this.watch.observe(this.body, { childList: true });
    this.timer = setInterval(() => this.draw(), 250);
    this.turn();
    this.draw();
  }

  stop() { clearInterval(this.timer); this.watch.disconnect(); this.bound.abort(); }

  get options() { return [...this.body.querySelectorAll('button.option')]; }

  /** The form, the marks or the verdict is there: the next key goes to it. */
  turn() {
    const next = this.body.querySelector('a.primary');
    const field = this.body.querySelector('textarea, input[type=text]');
    if (next) sessionStorage.removeItem(this.draft);
    const kept = sessionStorage.getItem(this.draft);
    if (field?.matches('textarea') && kept && !field.value) window.dash_clientside.set_props(TEXT, { value: kept });
    (next ?? field ?? this.options[0] ?? this.body.querySelector('input'))?.focus({ preventScroll: true });
  }

  press(event) {
    const option = isTyping(event) ? null : this.options[LETTERS.indexOf(event.key)];
    if (!option) return;
    event.stopImmediatePropagation();
    option.click();
  }

  keep(field) { if (field.matches('textarea')) sessionStorage.setItem(this.draft, field.value); }

  draw() {
    if (!this.options.length && !this.body.querySelector('textarea, input[type=text]')) { clearInterval(this.timer); return; }
    const left = Math.round((this.end - performance.now()) / 1000), s = Math.abs(left);
    this.clock.textContent = `${left < 0 ? '+' : ''}${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
    this.clock.classList.toggle('late', left < 0);
  }
}
