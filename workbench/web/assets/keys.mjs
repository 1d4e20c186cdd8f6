/* The keyboard: every action has a key, none needs more than Shift, and all are off while somebody types.
 *
 * `?` shows this list; its texts are `web.key.<name>`.
 */

export const KEYS = [
  ['play', 'Space'], ['step', '← →'], ['tensteps', '⇧← ⇧→'], ['marks', '↑ ↓'], ['card', 'Enter'], ['close', 'Esc'],
  ['events', '[ ]'], ['kind', 'e'], ['ends', 'Home End'], ['speed', '< >'], ['zoom', '+ −'], ['axis', 't'],
  ['goto', 'g'], ['live', 'l'], ['follow', 'f'], ['find', '/'], ['view', '1 2 3 5'], ['theme', 'd'], ['help', '?'],
];
const VIEWS = { 1: 'batch', 2: 'lives', 3: 'blocks', 5: 'stall' };

/** Whether keys go into a field, or to a dialogue. */
export function isTyping(event) {
  const at = event.target;
  return event.ctrlKey || event.metaKey || event.altKey
    || at.closest?.('input:not([type=checkbox]), textarea, select, dialog, [contenteditable], [role=dialog], .ag-root-wrapper');
}

/** Keys of the replay page: `on` has one function per action. */
export function bindKeys(on, signal) {
  const table = {
    ' ': on.play, Enter: on.card, Escape: on.close, '[': () => on.event(true), ']': () => on.event(false),
    e: on.kind, Home: on.home, End: on.end, '<': () => on.speed(-1), '>': () => on.speed(1),
    ',': () => on.speed(-1), '.': () => on.speed(1), '+': () => on.zoom(0.8), '=': () => on.zoom(0.8),
    '-': () => on.zoom(1.25), t: on.axis, g: on.goto, l: on.live, f: on.follow,
    ArrowUp: () => on.mark(-1), ArrowDown: () => on.mark(1),
  };
  document.addEventListener('keydown', (event) => {
    if (isTyping(event)) return;
    const isButton = event.target.closest?.('button, a[href], summary, label');
    if (isButton && (event.key === ' ' || event.key === 'Enter')) return;  // it has its own meaning there
    let act = table[event.key];
    if (event.key === 'ArrowLeft') act = () => on.step(event.shiftKey ? -10 : -1);
    if (event.key === 'ArrowRight') act = () => on.step(event.shiftKey ? 10 : 1);
    if (VIEWS[event.key]) act = () => on.view(VIEWS[event.key]);
    if (!act) return;
    event.preventDefault();
    act();
  }, { signal });
}
