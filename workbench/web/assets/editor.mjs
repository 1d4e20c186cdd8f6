/* The SQL editor: a plain text field with a coloured copy behind it. Tab indents, Ctrl+Enter runs.
 *
 * The copy is made of text nodes, so whatever is typed or pasted stays text. Questions are numbered by the clicks
 * that asked them, and an answer says whose it is.
 *
 * Invariant: who waits for the last answer sees so, and can stop.
 */

const WORDS = new Set(`select from where group by order limit as and or not null is in on join left right full asof using with case when
  then else end having distinct union all between like desc asc filter over partition qualify exists describe show
  tables explain cast interval true false offset values unnest semi anti`.split(/\s+/));

const MAX_ADDRESS = 8000;

export class Editor {
  constructor(root) {
    this.root = root;
    this.field = root.querySelector('textarea');
    this.copy = root.querySelector('pre');
    this.bound = new AbortController();
    const on = (name, use) => this.field.addEventListener(name, use, { signal: this.bound.signal });
    on('input', () => this.paint());
    on('scroll', () => { this.copy.scrollTop = this.field.scrollTop; this.copy.scrollLeft = this.field.scrollLeft; });
    on('keydown', (event) => this.key(event));
    root.ownerDocument.addEventListener('click', (event) => {
      const at = event.target.closest('[data-insert]');
      if (at) this.insert(at.dataset.insert);
    }, { signal: this.bound.signal });
    this.asked = 0;  // the page itself asks once
    this.answer = document.getElementById('sql-answer');
    this.stopper = document.getElementById('sql-stop');
    document.getElementById('sql-run').addEventListener('click', () => { this.asked += 1; this.tell(); }, { signal: this.bound.signal });
    this.answers = new MutationObserver(() => this.tell());
    this.answers.observe(this.answer, { attributeFilter: ['data-answered'] });
    // Nobody waits for an answer any more: by the button, or because the page is left.
    this.stopper.addEventListener('click', () => this.putAside(), { signal: this.bound.signal });
    addEventListener('pagehide', () => this.putAside(), { signal: this.bound.signal });
    // Dash may set the text from the server: a saved query, a link.
    this.watch = setInterval(() => { if (this.field.value !== this.painted) this.paint(); }, 150);
    this.tell();
    this.paint();
  }

  stop() { this.bound.abort(); this.answers.disconnect(); clearInterval(this.watch); clearTimeout(this.timer); this.putAside(); }

  tell() {
    const isWaiting = Number(this.answer.dataset.answered ?? -1) < this.asked;
    this.stopper.hidden = !isWaiting;
    this.answer.classList.toggle('asked', isWaiting);
  }

  putAside() { navigator.sendBeacon(`/data/asked/${this.root.dataset.asker}/stop`); }

  /** The address asks what is asked here; at most once in a while, because browsers punish more. */
  remember() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const q = this.field.value, query = q.length <= MAX_ADDRESS ? `?${new URLSearchParams({ q })}` : '';
      history.replaceState(history.state, '', location.pathname + query);
    }, 300);
  }

  key(event) {
    if (event.key === 'Tab' && !event.shiftKey && !event.altKey && !event.ctrlKey) { event.preventDefault(); this.insert('  '); }
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); document.getElementById('sql-run').click(); }
  }

  insert(text) {
    this.field.focus();
    this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, 'end');
    // React listens to the setter of the prototype only.
    const { set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value');
    set.call(this.field, this.field.value);
    this.field.dispatchEvent(new Event('input', { bubbles: true }));
  }

  paint() {
    if (this.painted !== undefined && this.field.value !== this.painted) this.remember();
    this.painted = this.field.value;
    const parts = this.painted.split(/(--[^\n]*|'(?:[^']|'')*'|\b[A-Za-z_]\w*\b|\b\d+(?:\.\d+)?\b)/);
    this.copy.replaceChildren(...parts.map((part) => {
      const kind = part.startsWith('--') ? 'c' : part.startsWith("'") ? 's' : WORDS.has(part.toLowerCase()) ? 'k' : /^\d/.test(part) ? 'n' : '';
      return kind ? Object.assign(document.createElement('span'), { className: kind, textContent: part }) : document.createTextNode(part);
    }), document.createTextNode('\n'));
  }
}
