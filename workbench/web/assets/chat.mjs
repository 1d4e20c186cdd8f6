/* Chat with the served model, and follow the request through the pictures beside it.
 *
 * The answer comes as Server-Sent Events of the OpenAI API, passed on by our own server. Its first event names the
 * request; as soon as that request is in the trace, the pictures follow it.
 */

import { ask } from './fetch.mjs';
import { duration } from './scale.mjs';
import { chip, loadWords, t } from './words.mjs';

export class Chat {
  constructor(root) {
    this.root = root;
    this.log = root.querySelector('.chatlog');
    this.field = root.querySelector('textarea');
    this.history = [];
    this.bound = new AbortController();
    const { signal } = this.bound;
    root.querySelector('form').addEventListener('submit', (event) => { event.preventDefault(); this.send(); }, { signal });
    this.field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.send(); }
    }, { signal });
    root.querySelector('[data-do=stopanswer]').addEventListener('click', () => this.request?.abort(), { signal });
    root.querySelector('[data-do=newchat]').addEventListener('click', () => { this.history = []; this.log.replaceChildren(); this.field.focus(); }, { signal });
    // Served again under the same number, it may be talked to again.
    document.addEventListener('cutaway:servers', (event) => this.onServers(event.detail), { signal });
    loadWords();
  }

  stop() { this.bound.abort(); this.request?.abort(); }

  onServers(servers) {
    const isGone = !servers.some((server) => String(server.pid) === this.root.dataset.server);
    this.root.querySelector('.gone').hidden = !isGone;
    this.root.querySelector('[type=submit]').disabled = isGone;
  }
  report() { return { busy: Boolean(this.request), turns: this.history.length, followed: this.followed ?? null }; }

  line(kind, text) {
    const p = document.createElement('div');
    p.className = `turn ${kind}`;
    const body = Object.assign(document.createElement('div'), { className: 'body', textContent: text });
    p.append(body);
    this.log.append(p);
    this.log.scrollTop = this.log.scrollHeight;
    return body;
  }

  async send() {
    const text = this.field.value.trim();
    if (!text || this.request) return;
    this.field.value = '';
    this.line('user', text);
    this.history.push({ role: 'user', content: text });
    const body = this.line('assistant', '');
    this.request = new AbortController();
    this.root.classList.add('busy');
    const began = performance.now();
    this.facts = { first: null, tokens: 0 };
    try {
      await this.stream(body, began);
      this.history.push({ role: 'assistant', content: body.textContent });
    } catch (error) {
      if (error.name === 'AbortError') this.note(body, t('chat.stopped'));
      else if (error instanceof TypeError) { this.history.pop(); this.note(body, t('chat.broken'), 'alarm'); }  // the browser's own words
      else { this.history.pop(); this.note(body, error.message || t('state.offline'), 'alarm'); }
    }
    this.request = null;
    this.root.classList.remove('busy');
    this.summary(body, performance.now() - began);
  }

  async stream(body, began) {
    const { server, model } = this.root.dataset;
    const number = (name) => Number(this.root.querySelector(`[data-set=${name}]`).value);
    const response = await fetch(`/data/servers/${server}/chat`, {
      method: 'POST', signal: this.request.signal, headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: this.history, stream: true, temperature: number('temperature'), max_completion_tokens: number('max_tokens') }) });
    if (!response.ok) {
      const said = await response.json().catch(() => ({}));
      throw new Error(said.error?.message || said.error || `status ${response.status}`);
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line.startsWith('data: ') && line !== 'data: [DONE]') this.take(JSON.parse(line.slice(6)), body, began);
    }
  }

  take(chunk, body, began) {
    if (chunk.error) throw new Error(chunk.error.message);
    if (chunk.id && chunk.id !== this.external) { this.external = chunk.id; this.follow(chunk.id, body); }
    const text = chunk.choices?.[0]?.delta?.content;
    if (!text) return;
    this.facts.first ??= performance.now() - began;
    this.facts.tokens += 1;
    body.append(text);
    this.log.scrollTop = this.log.scrollHeight;
  }

  /** Find the request in the trace by the id that the client got, and let the pictures follow it. */
  async follow(external, body) {
    const run = this.root.dataset.run;
    for (let tries = 0; run && tries < 40; tries += 1) {
      const found = await ask(`/data/runs/${encodeURIComponent(run)}/request`, { external }).catch(() => null);
      if (found?.request_id) {
        this.followed = found.request_id;
        body.parentElement.prepend(chip(found.request_id));
        window.cutaway.get('replay')?.watch(found.request_id);
        return;
      }
      await new Promise((resolve) => { setTimeout(resolve, 250); });
    }
  }

  note(body, text, kind = '') { body.parentElement.append(Object.assign(document.createElement('p'), { className: `note ${kind}`, textContent: text })); }

  summary(body, ms) {
    const { first, tokens } = this.facts;
    if (first !== null) this.note(body, t('chat.facts', { first: duration(first), tokens, rate: (tokens / Math.max(0.001, (ms - first) / 1000)).toFixed(1) }));
  }
}
