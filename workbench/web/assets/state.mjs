/* What the user looks at: one cursor, one window, one selection, shared by all views and kept in the address.
 *
 * Setting something tells the listeners which keys changed; they draw in the next animation frame, once, however
 * many changes came.
 *
 * Invariant: window a..b contains the cursor `step`, and lies inside the run.
 */

const IN_ADDRESS = {
  step: Number, a: Number, b: Number, engine: Number, axis: String, req: Number, sort: String, only: String,
  kind: String, from: Number, to: Number, mark: String,
};
const DEFAULTS = { axis: 'step', sort: 'arrival', only: 'all', kind: 'preemption' };

export class State {
  constructor(values) {
    this.values = { playing: false, speed: 1, following: false, hover: null, view: null, ...DEFAULTS, ...values };
    this.listeners = new Set();
    this.pending = new Set();
    this.bound = new AbortController();
    // A click may lead to another page, and back should lead to where we are now.
    document.addEventListener('click', () => { if (this.timer) this.writeAddress(); }, { capture: true, signal: this.bound.signal });
  }

  get(name) { return this.values[name] ?? null; }

  set(patch) {
    for (const [name, value] of Object.entries(patch)) {
      if (this.values[name] === value) continue;
      this.values[name] = value;
      this.pending.add(name);
    }
    if (this.pending.size && !this.frame) this.frame = requestAnimationFrame(() => this.tell());
  }

  /** Ask for a redraw although nothing was set: new rows came. */
  touch(name) { this.pending.add(name); if (!this.frame) this.frame = requestAnimationFrame(() => this.tell()); }

  tell() {
    this.frame = null;
    const changed = this.pending;
    this.pending = new Set();
    for (const listener of this.listeners) listener(changed);
    this.remember();
  }

  onChange(listener) { this.listeners.add(listener); }

  /** Write the address, at most twice a second: browsers punish more. */
  remember() {
    if (this.timer) return;
    this.timer = setTimeout(() => this.writeAddress(), 500);
  }

  writeAddress() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.stopped) return;
    const query = new URLSearchParams();
    for (const name of Object.keys(IN_ADDRESS)) {
      const value = this.values[name];
      if (value !== null && value !== undefined && value !== DEFAULTS[name]) query.set(name, value);
    }
    history.replaceState(history.state, '', `${location.pathname}?${query}`);
  }

  stop() { this.stopped = true; this.bound.abort(); clearTimeout(this.timer); cancelAnimationFrame(this.frame); this.listeners.clear(); }
}

/** What an address asks for. */
export function readAddress() {
  const query = new URLSearchParams(location.search);
  const values = {};
  for (const [name, as] of Object.entries(IN_ADDRESS)) {
    if (!query.has(name)) continue;
    const value = as(query.get(name));
    if (as !== Number || Number.isFinite(value)) values[name] = value;
  }
  return values;
}

/** A mark as one word, for the address: kind.step.request.block, 0 for nothing. */
export const packMark = (m) => (m ? [m.kind, m.step, m.request ?? 0, m.block ?? 0].join('.') : null);
export function unpackMark(text) {
  const [kind, step, request, block] = (text || '').split('.');
  if (!kind || !/^[a-z_]+$/.test(kind) || !Number.isInteger(Number(step))) return null;
  return { kind, step: Number(step), request: Number(request) || null, block: Number(block) || null };
}
