/* To another page of the workbench without loading everything again, as Dash's own links do it.
 *
 * The address is set first and Dash is told that it changed. The other way round, by setting the properties of
 * Dash's Location, fails: it remembers the address as it was before the replay page wrote its cursor into it.
 */

export function visit(href) {
  history.pushState(null, '', href);
  window.dispatchEvent(new CustomEvent('_dashprivate_pushstate'));
  window.scrollTo(0, 0);
}
