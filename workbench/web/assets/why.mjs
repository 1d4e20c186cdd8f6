/* From a mark to its card: the server knows the reasons, so the mark goes there and a laid-out card comes back.
 *
 * `dash_clientside.set_props` puts the mark into a store; the callback of `views/why_card.py` answers it.
 */

let timer = null;

export function setWhy(run, mark) {
  clearTimeout(timer);
  // While somebody walks quickly from mark to mark, only the last one is asked about.
  timer = setTimeout(() => {
    window.dash_clientside?.set_props('why-mark', { data: mark ? { run: run.name, engine: run.engine, ...mark } : null });
  }, 30);
}
