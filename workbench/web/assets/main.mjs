/* The only script that the page names; it finds what Dash has laid out and brings it to life.
 *
 * An element with `data-mount` gets an object of that class as long as it is in the page. Dash puts pages in and
 * takes them out; one observer sees both. No global but `window.cutaway`, for tests and for the curious.
 */

import { Chat } from './chat.mjs';
import { Drill } from './drill.mjs';
import { Editor } from './editor.mjs';
import { Find } from './find.mjs';
import { KEYS, isTyping } from './keys.mjs';
import { Preview } from './preview.mjs';
import { Awaiting, Pulse } from './pulse.mjs';
import { Replay } from './replay.mjs';
import { RunPicture } from './picture.mjs';
import { Legend } from './legend.mjs';
import { loadWords, t } from './words.mjs';

const CLASSES = { replay: Replay, preview: Preview, picture: RunPicture, legend: Legend, editor: Editor, chat: Chat, find: Find, drill: Drill,
  pulse: Pulse, awaiting: Awaiting };
const mounted = new Map();

function look() {
  // Dash's links take no attributes of this kind.
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.classList.contains('here')) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  }
  for (const [element, thing] of mounted) {
    if (!element.isConnected) { mounted.delete(element); thing.stop(); }
  }
  for (const element of document.querySelectorAll('[data-mount]')) {
    if (!mounted.has(element)) mounted.set(element, new CLASSES[element.dataset.mount](element));
  }
}
let waiting = null;
// By timer, not by animation frame: a page may be laid out in a tab that nobody looks at.
const lookSoon = () => { waiting ??= setTimeout(() => { waiting = null; look(); }); };
new MutationObserver(lookSoon).observe(document.documentElement, { childList: true, subtree: true });
lookSoon();

// -- what every page has ---------------------------------------------------------------------------------

function setTheme(theme) {
  const root = document.documentElement;
  root.dataset.theme = theme;
  root.setAttribute('data-mantine-color-scheme', theme);
  try { localStorage.setItem('cutaway-theme', theme); } catch { /* storage may be switched off */ }
  document.cookie = `cutaway_theme=${theme}; path=/; max-age=31536000; samesite=strict`;
  document.dispatchEvent(new Event('cutaway:theme'));
  window.dash_clientside?.set_props('theme', { data: theme });
}

function setLanguage(lang) {
  document.cookie = `cutaway_lang=${lang}; path=/; max-age=31536000; samesite=strict`;
  const here = new URL(location.href);
  here.searchParams.delete('lang');
  history.replaceState(null, '', here);
  location.reload();
}

async function showHelp() {
  await loadWords();
  const dialog = document.getElementById('help');
  const rows = KEYS.map(([name, keys]) => {
    const row = document.createElement('div');
    row.append(...keys.split(' ').map((key) => Object.assign(document.createElement('kbd'), { textContent: key })),
      Object.assign(document.createElement('span'), { textContent: t(`key.${name}`) }));
    return row;
  });
  dialog.querySelector('.keys').replaceChildren(...rows);
  dialog.showModal();
}

const otherTheme = () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
const DO = {
  theme: otherTheme,
  lang: (node) => setLanguage(node.dataset.lang),
  help: showHelp,
  'close-help': () => document.getElementById('help').close(),
};
/** Rows of a question as a file. */
async function download({ run, sql, download: format }) {
  const response = await fetch(`/data/runs/${encodeURIComponent(run)}/download`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ sql, format }) });
  if (!response.ok) return;
  const link = Object.assign(document.createElement('a'), {
    href: URL.createObjectURL(await response.blob()), download: `${run}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

document.addEventListener('click', (event) => {
  const at = event.target.closest('[data-global]');
  if (at) DO[at.dataset.global]?.(at);
  const file = event.target.closest('[data-download]');
  if (file) download(file.dataset);
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && event.target.matches?.('input, select')) event.target.blur();
  if (isTyping(event)) return;
  if (event.key === 'd') otherTheme();
  else if (event.key === '?') showHelp();
  else if (event.key === '/') document.getElementById('find')?.focus();
  else return;
  event.preventDefault();
});

window.cutaway = {
  /** The state of whatever is mounted under that name. */
  report: (name = 'replay') => [...mounted].find(([element]) => element.dataset.mount === name)?.[1].report?.() ?? null,
  get: (name = 'replay') => [...mounted].find(([element]) => element.dataset.mount === name)?.[1] ?? null,
};
