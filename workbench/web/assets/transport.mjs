/* Buttons, clock, badge, and what keys do: the page's controls, bound to the one cursor. */

import { bindKeys } from './keys.mjs';
import { nameOf } from './paint.mjs';
import { count, t } from './words.mjs';

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 100];
const BANNER_MS = 3000;

export class Transport {
  constructor(root, page) {
    Object.assign(this, { root, page, run: page.run, state: page.state, go: page.go });
    this.bound = new AbortController();
    const { signal } = this.bound;
    this.texts = Object.fromEntries([...root.querySelectorAll('[data-clock]')].map((node) => [node.dataset.clock, node]));
    this.badge = root.querySelector('.badge');
    this.banner = root.querySelector('.banner.lost');
    this.restart = root.querySelector('.banner.restart');
    const act = this.actions();
    root.addEventListener('click', (event) => this.onClick(event, act), { signal });
    root.addEventListener('change', (event) => this.onChange(event), { signal });
    if (!root.dataset.compact) bindKeys(act, signal);
    document.addEventListener('cutaway:theme', () => this.state.touch('theme'), { signal });
    document.addEventListener('cutaway:find', (event) => this.find(event.detail), { signal });
    this.texts.of.textContent = t('clock.of', { n: count(this.run.last - this.run.first + 1) });
    this.texts.unit.textContent = this.run.config.clock === 'modelled' ? t('clock.modelled') : t('clock.seconds');
    this.tellEngines();
    this.state.onChange((changed) => this.onState(changed));
    this.onState(new Set(['playing', 'speed', 'kind', 'axis', 'sort', 'only', 'following', 'from', 'req']));
  }

  stop() { this.bound.abort(); clearTimeout(this.bannerTimer); }

  actions() {
    const { state, go, run, page } = this;
    return {
      play: () => state.set({ playing: !state.get('playing') }),
      step: (n) => { state.set({ playing: false }); go.step(state.get('step') + n); },
      home: () => go.step(run.first), end: () => go.step(run.last),
      speed: (by) => state.set({ speed: SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(state.get('speed')) + by))] }),
      zoom: (factor) => go.zoom(factor),
      axis: () => state.set({ axis: state.get('axis') === 'step' ? 'time' : 'step' }),
      live: () => page.goLive(),
      follow: () => { const id = state.get('card')?.request; if (id) this.followRequest(id); },
      event: (back) => this.jump(back),
      kind: () => this.field('kind')?.focus(),
      goto: () => this.askStep(),
      close: () => {
        if (state.get('card')) state.set({ card: null });
        else state.set({ from: null, to: null, req: null, only: 'all' });
      },
      card: () => { const mark = state.get('hover'); if (mark) state.set({ card: mark }); },
      mark: (by) => this.walk(by),
      view: (name) => { state.set({ view: name }); page.root.querySelector(`[data-plot=${name}]`)?.focus(); },
    };
  }

  /** The next mark of the focused view at the cursor. */
  walk(by) {
    const views = [...this.page.timeline.views, this.page.map.view];
    const view = views.find((v) => v.name === (this.state.get('view') || 'lives'));
    const marks = view.marksAt(this.state.get('step')), hover = this.state.get('hover');
    if (!marks.length) return;
    const at = marks.findIndex((m) => hover && m.request === hover.request && m.block === hover.block && m.kind === hover.kind);
    const mark = marks[(at + by + marks.length) % marks.length];
    this.state.set({ hover: mark, lit: mark.request ?? null });
    this.page.pointer.hide();
    this.page.pointer.show(mark, view, 0);
  }

  followRequest(id) {
    this.state.set({ req: this.state.get('req') === id ? null : id, scrolled: false });
  }

  async jump(back) {
    const kind = this.state.get('kind');
    this.state.set({ playing: false });
    try {
      const event = await this.go.event(kind, back);
      this.say(event ? '' : t(back ? 'jump.nonebefore' : 'jump.noneafter', { kind: t(`kind.${kind}`) }));
    } catch (error) { this.say(error.message || t('state.offline')); }
  }

  say(text) { const node = this.root.querySelector('[data-text=said]'); if (node) node.textContent = text; }

  /** A field for a step's number, as long as it is needed. */
  askStep() {
    const field = Object.assign(document.createElement('input'), {
      type: 'number', placeholder: t('play.goto'), min: this.run.first, max: this.run.last });
    field.setAttribute('aria-label', t('play.goto'));
    field.addEventListener('change', () => { if (field.value !== '') this.go.step(Number(field.value)); field.blur(); });
    field.addEventListener('blur', () => field.remove());
    this.root.querySelector('.goto').replaceChildren(field);
    field.focus();
  }

  field(name) { return this.root.querySelector(`[data-do=${name}]`); }

  onClick(event, act) {
    const at = event.target.closest('[data-do], [data-act]');
    if (!at || !this.root.contains(at)) return;
    const { state } = this;
    switch (at.dataset.do || at.dataset.act) {
      case 'back': act.step(-1); break;
      case 'forward': act.step(1); break;
      case 'play': act.play(); break;
      case 'jump': this.jump(false); break;
      case 'previous': this.jump(true); break;
      case 'axis-step': state.set({ axis: 'step' }); break;
      case 'axis-time': state.set({ axis: 'time' }); break;
      case 'live': act.live(); break;
      case 'close': state.set({ card: null }); break;
      case 'clear': state.set({ from: null, to: null, req: null, only: 'all' }); break;
      case 'zoomto': this.go.window(state.get('from'), state.get('to')); state.set({ from: null, to: null }); break;
      case 'follow': this.followRequest(Number(at.dataset.request)); break;
      case 'goto-step': this.go.step(Number(at.dataset.step)); break;
      default:
    }
  }

  onChange(event) {
    const { name, value } = { name: event.target.dataset.do, value: event.target.value };
    if (name === 'speed') this.state.set({ speed: Number(value) });
    else if (['kind', 'sort', 'only'].includes(name)) this.state.set({ [name]: value });
    else if (name === 'engine') { location.href = this.pathOf(Number(value)); return; }
    if (event.target.tagName === 'SELECT') event.target.blur();
  }

  /** The page of one engine of this run. */
  pathOf(engine) { return `/replay/${encodeURIComponent(this.run.name)}?engine=${engine}`; }

  // -- what is told ------------------------------------------------------------------------------------

  /** A core that was started again is another engine in the trace: choose which to look at. */
  tellEngines() {
    const { run } = this, menu = this.field('engine'), { before } = this.page;
    menu.replaceChildren(...run.engines.map((e) => Object.assign(document.createElement('option'), {
      value: e.engine_id, textContent: t('fact.engine', { n: e.engine_id, a: e.first_step, b: e.last_step }) })));
    menu.value = String(run.engine);
    menu.parentElement.hidden = run.engines.length < 2;
    if (before) this.tellRestart(t('state.restarted_here', { n: before.step }), t('state.restarted_before'), before.engine);
  }

  /** That the engine was started again, and where the steps are that are not in this picture. */
  tellRestart(text, go, engine) {
    const [said, link] = this.restart.querySelectorAll('span, a');
    if (said.textContent === text) return;
    this.restart.hidden = false;
    said.textContent = text;
    Object.assign(link, { textContent: go, href: this.pathOf(engine), hidden: !go });
    this.state.touch('size');  // it takes room from the pictures
  }

  onState(changed) {
    const { state } = this, has = (name) => changed.has(name);
    if (has('playing')) {
      const button = this.field('play');
      button.dataset.playing = state.get('playing');
      button.setAttribute('aria-label', t(state.get('playing') ? 'play.pause' : 'play.play'));
    }
    for (const name of ['speed', 'kind', 'sort', 'only']) {
      const field = this.field(name);
      if (has(name) && field && field.value !== String(state.get(name))) field.value = String(state.get(name));
    }
    if (has('axis')) {
      for (const name of ['step', 'time']) this.field(`axis-${name}`).setAttribute('aria-pressed', String(state.get('axis') === name));
    }
    if (has('following') || has('step')) this.tellBadge();
    if (has('from') || has('to') || has('req') || has('only')) this.tellFilter();
  }

  tell() {
    const n = this.state.get('step');
    this.texts.step.textContent = count(n);
    this.texts.time.textContent = (this.run.startOf(n) / 1000).toFixed(3);
    if (this.run.live) this.tellLength();
    const card = this.state.get('card'), pinned = this.root.querySelector('.why .pinned');
    const isAway = card && (card.step < this.state.get('a') || card.step > this.state.get('b'));
    if (pinned) pinned.textContent = isAway ? t('why.pinned') : '';
    this.tellBadge();
  }

  /** A run that goes on: its length and its preemptions so far. */
  tellLength() {
    const n = count(this.run.last - this.run.first + 1), away = this.run.coarse.reduce((sum, bin) => sum + (bin.preempted || 0), 0);
    this.texts.of.textContent = t('clock.of', { n });
    this.root.querySelector('[data-text=numsteps]').textContent = t('scrub.steps', { n });
    this.root.querySelector('[data-text=numpreempted]').textContent = away ? t('scrub.preemptions', { n: count(away) }) : '';
  }

  tellFilter() {
    const bar = this.root.querySelector('.filter'), { state } = this;
    const [from, to, req] = [state.get('from'), state.get('to'), state.get('req')];
    const said = [];
    if (from !== null && to !== null) said.push(t('filter.steps', { from, to }));
    if (req !== null) said.push(t('filter.request', { who: nameOf(req) }));
    if (state.get('only') === 'preempted') said.push(t('filter.preempted'));
    if (bar.hidden !== !said.length) state.touch('size');  // the bar takes room from the pictures
    bar.hidden = !said.length;
    bar.querySelector('span').textContent = said.join(' · ');
    bar.querySelector('[data-do=zoomto]').hidden = from === null;
  }

  onLive(told) {
    this.told = told;
    clearTimeout(this.bannerTimer);
    if (told.status === 'lost') {
      this.bannerTimer = setTimeout(() => { this.banner.hidden = false; this.banner.querySelector('span').textContent = t('state.lost', { n: told.step }); }, this.lostBefore ? 0 : BANNER_MS);
      this.lostBefore = true;
    } else { this.banner.hidden = true; this.lostBefore = false; }
    if (told.status === 'restarted') {
      const { engine, hasStep, step } = told;
      this.tellRestart(t(hasStep ? 'state.restarted' : 'state.restarted_idle', { n: step }), hasStep ? t('state.restarted_go') : '', engine);
    }
    this.tellBadge();
  }

  tellBadge() {
    const { badge, told, state, run } = this;
    let kind = 'replay', text = t('badge.replay');
    if (told?.status === 'ended' || told?.status === 'restarted') { kind = 'ended'; text = t('badge.ended', { n: count(told.step) }); }
    else if (told?.status === 'lost') { kind = 'lost'; text = t('badge.lost', { n: told.seconds }); }
    else if (run.live && state.get('following')) { kind = 'live'; text = t('badge.live'); }
    else if (run.live) {
      const behind = (run.endOf(run.last) - run.endOf(state.get('step'))) / 1000;
      kind = 'behind'; text = t('badge.behind', { n: behind < 10 ? behind.toFixed(1) : Math.round(behind) });
    }
    if (badge.dataset.kind !== kind) badge.dataset.kind = kind;
    const label = badge.querySelector('span');
    if (label.textContent !== text) label.textContent = text;
  }

  /** A request or a step that was typed into the search field. */
  find(text) {
    const number = Number(text.replace(/^[r#]\s*/i, ''));
    const isRequest = /^[r#]/i.test(text);
    const life = isRequest && this.run.lives.find((found) => nameOf(found.id) === `r${text.replace(/^[r#]\s*/i, '')}`);
    if (life) {
      const step = life.firstRow ?? this.run.span(life)[0];
      this.go.step(step);
      this.state.set({ req: life.id, scrolled: false, card: { view: 'lives', kind: 'row', step, request: life.id } });
    } else if (!isRequest && text !== '' && Number.isFinite(number)) this.go.step(number);
    else this.say(t('find.nothing', { text }));
  }
}
