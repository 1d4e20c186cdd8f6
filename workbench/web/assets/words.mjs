/* What the page says, in its language: whole sentences by key, placeholders filled in.
 *
 * Sentences name requests; `parts` cuts them so that each request becomes a chip, and everything else stays text.
 * Nothing here makes HTML of a string.
 */

import { ask } from './fetch.mjs';
import { hueOf, nameOf, palette, mix, stripesOf } from './paint.mjs';

let texts = null;
export const lang = () => (document.documentElement.lang.startsWith('zh') ? 'zh' : 'en');

export async function loadWords() {
  texts ||= await ask('/data/words', { lang: lang() });
  return texts;
}

/** The text of `web.<key>` with its placeholders filled in. */
export function t(key, values = {}) {
  const text = texts?.[`web.${key}`];
  if (text === undefined) { console.error(`no text web.${key}`); return key; }
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export const count = (n) => (n ?? 0).toLocaleString('en-US');

/** A request's chip: a square in its hue with its pinstripes, and its name. */
export function chip(id) {
  const span = document.createElement('span');
  span.className = 'chip';
  span.dataset.act = 'follow';
  span.dataset.request = id;
  span.append(swatch(id), Object.assign(document.createElement('b'), { textContent: nameOf(id) }));
  return span;
}

/** The square alone, drawn as a background so that it needs no canvas. */
export function swatch(id) {
  const i = document.createElement('i');
  paintSwatch(i, id);
  return i;
}
export function paintSwatch(i, id) {
  const hue = hueOf(id), stripe = mix(hue, palette().s1, 0.38), n = stripesOf(id);
  const at = n === 1 ? [45] : n === 2 ? [30, 60] : [];
  i.style.background = at.length
    ? `linear-gradient(${at.map((p) => `transparent ${p}%, ${stripe} ${p}%, ${stripe} ${p + 12}%, transparent ${p + 12}%`)
      .join('),linear-gradient(')}), ${hue}`
    : hue;
}
