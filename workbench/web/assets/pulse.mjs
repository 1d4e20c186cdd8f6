/* Whether the workbench itself still answers, and which servers run: asked every few seconds on every page.
 *
 *   no answer   a line at the top of whatever page is open, until there is one again
 *   an answer   the event `cutaway:servers`, for the pages that wait for a server or fear for theirs
 *
 * Only while the page is looked at.
 */

import { ask } from './fetch.mjs';
import { loadWords, t } from './words.mjs';

const EVERY_MS = 2000;

export class Pulse {
  constructor(root) {
    this.root = root;
    this.bound = new AbortController();
    document.addEventListener('visibilitychange', () => this.beat(), { signal: this.bound.signal });
    this.beat();
  }

  stop() { this.stopped = true; this.bound.abort(); clearTimeout(this.timer); }

  async beat() {
    clearTimeout(this.timer);
    if (this.stopped || document.hidden) return;
    await loadWords().catch(() => null);
    try {
      const servers = await ask('/data/servers');
      this.root.hidden = true;
      document.dispatchEvent(new CustomEvent('cutaway:servers', { detail: servers }));
    } catch {
      this.root.textContent = t('state.offline');
      this.root.hidden = false;
    }
    clearTimeout(this.timer);
    if (!this.stopped) this.timer = setTimeout(() => this.beat(), EVERY_MS);
  }
}

/** A page that has nobody to talk to goes on by itself as soon as there is somebody. */
export class Awaiting {
  constructor() {
    this.bound = new AbortController();
    document.addEventListener('cutaway:servers', (event) => { if (event.detail.length) location.reload(); }, { signal: this.bound.signal });
  }

  stop() { this.bound.abort(); }
}
