/* The why card: a mark goes to the server, which knows the reasons; the story that comes back is laid out here.
 *
 * A sentence is a list of parts: text, {who: request}, {code, rule}. Each becomes a node of its own, so whatever a
 * client sent stays text.
 */

import { ask } from './fetch.mjs';
import { hueOf, nameOf } from './paint.mjs';
import { visit } from './visit.mjs';
import { chip, count, lang, t } from './words.mjs';

const WORDS = new Set(['select', 'from', 'where', 'and', 'or', 'order', 'by', 'limit', 'join', 'in', 'as', 'desc', 'between', 'least', 'greatest']);

/** An element with attributes and children; strings become text. */
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export class Why {
  constructor(root, run, state) {
    Object.assign(this, { run, state, body: root.querySelector('.whybody'), asked: 0, asking: false });
    this.show(null);
  }

  /** Explain a mark; null: nothing is chosen. */
  show(mark) {
    this.asked += 1;
    if (!mark) { this.body.replaceChildren(...this.empty()); return; }
    this.mark = mark;
    if (!this.asking) this.load();
  }

  /** One question at a time: who walks quickly from mark to mark gets the last one he came to. */
  async load() {
    this.asking = true;
    let turn, shown;
    do {
      turn = this.asked;
      shown = await this.ask(this.mark);
    } while (turn !== this.asked && this.state.get('card'));
    this.asking = false;
    if (this.state.get('card')) this.body.replaceChildren(...shown);
  }

  /** What the server tells of a mark, laid out. */
  async ask(mark) {
    const { kind, step, request, block } = mark;
    const asked = Object.fromEntries(Object.entries({ kind, step, request, block }).filter(([, v]) => v !== null && v !== undefined));
    try {
      return this.layOut(await ask(this.run.path('why'), { engine: this.run.engine, lang: lang(), ...asked }), mark);
    } catch (error) {
      return [this.bar(), make('div', { class: 'statebox alarm' }, make('p', null, error.message || t('state.offline')))];
    }
  }

  empty() {
    return [make('header', null, make('b', null, t('why.name'))), make('h2', null, t('why.choose')),
      make('p', null, t('why.choose_how')), make('p', { class: 'note' }, t('why.choose_keys'))];
  }

  bar() {
    return make('header', null, make('b', null, t('why.name')), make('span', { class: 'pinned' }),
      make('button', { 'data-do': 'previous', title: t('play.previous') }, make('kbd', null, '[')),
      make('button', { 'data-do': 'jump', title: t('play.jump') }, make('kbd', null, ']')),
      make('button', { 'data-do': 'close', title: t('why.close'), class: 'x' }, '×'));
  }

  layOut(story, mark) {
    const sections = ['what', 'why', 'who'].map((name) => this.section(name, story[name]));
    const bill = this.section('bill', story.bill);
    if (bill && story.costs) bill.querySelector('h3').after(this.costs(story.costs, mark.request));
    return [this.bar(), make('h2', null, story.is_alarm ? make('i', { class: 'triangle' }) : null, ...this.parts(story.title)),
      make('p', { class: 'where' }, story.place), ...sections.filter(Boolean), ...(bill ? [bill] : []),
      this.evidence(story), this.buttons(story, mark)];
  }

  section(name, sentences) {
    if (!sentences.length) return null;
    return make('section', null, make('h3', null, t(`why.${name}`)), ...sentences.map((parts) => make('p', null, ...this.parts(parts))));
  }

  parts(parts) {
    return parts.map((part) => {
      if (typeof part === 'string') return part;
      return part.who !== undefined ? chip(part.who) : make('code', { title: part.rule }, part.code);
    });
  }

  /** What was kept and what had to be computed again, to scale. */
  costs([kept, again], request) {
    const bar = make('div', { class: 'bill', 'aria-hidden': 'true' }, make('i'), make('i'));
    bar.style.setProperty('--hue', hueOf(request));
    bar.firstChild.style.flexGrow = kept;
    bar.lastChild.style.flexGrow = again;
    return bar;
  }

  evidence(story) {
    const pre = make('pre', { class: 'sql' });
    for (const word of story.sql.split(/([a-z_]+)/)) pre.append(WORDS.has(word) ? make('b', null, word) : word);
    return make('section', null, make('h3', null, t('why.evidence'), make('small', null, t('why.rows', { n: story.num_rows }))), pre);
  }

  buttons(story, mark) {
    const footer = make('footer');
    if (mark.request !== null && mark.request !== undefined) {
      footer.append(make('button', { class: 'primary', 'data-act': 'follow', 'data-request': mark.request }, t('why.follow', { who: nameOf(mark.request) })));
    }
    const path = `/sql/${encodeURIComponent(this.run.name)}`, query = `?${new URLSearchParams({ q: story.sql })}`;
    const link = make('a', { class: 'button', href: path + query }, t('why.opensql'));
    link.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;  // into another tab
      event.preventDefault();
      visit(path + query);
    });
    footer.append(link);
    if (story.place_of) footer.append(make('small', null, t('why.place', { place: count(story.place_of[0]), count: count(story.place_of[1]) })));
    return footer;
  }
}
