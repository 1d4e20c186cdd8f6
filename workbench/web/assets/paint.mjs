/* Colours, textures and small shapes that every view shares.
 *
 * A request owns its hue: number of arrival modulo 12, with pinstripes for the second and third round. Nothing
 * here keeps state but caches, and the caches go when the theme changes.
 *
 * Invariant: red is for preemption and errors, hatching for waste, ink outlines for what is selected.
 */

export const NUM_HUES = 12;
const NAMES = ['bg', 's1', 's2', 's3', 'cur', 'line', 'line2', 'ink', 'ink2', 'ink3', 'focus', 'red', 'redbg',
  'live', 'code'];
const tiles = new Map();
let cached = null;

/** The palette of the current theme: {bg, s1, ..., dark, hues: [...]}. */
export function palette() {
  if (cached) return cached;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  cached = Object.fromEntries(NAMES.map((name) => [name, read(name)]));
  cached.dark = document.documentElement.dataset.theme === 'dark';
  cached.hues = Array.from({ length: NUM_HUES }, (_, i) => read(`hue${i}`));
  cached.font = style.getPropertyValue('--font').trim();
  return cached;
}

/** Forget cached colours: the theme has changed. */
export function repaint() { cached = null; tiles.clear(); }

/** The number of a request, as people say it: 22 of r22. */
export const numberOf = (id) => id % 4294967296;
/** r22, or r3.22 if it came in by another front end than process 1. */
export function nameOf(id) {
  const front = Math.floor(id / 4294967296);
  return front <= 1 ? `r${numberOf(id)}` : `r${front}.${numberOf(id)}`;
}
/** What fits into a block: the number alone. */
export const shortName = (id) => nameOf(id).slice(1);
export const hueOf = (id) => palette().hues[numberOf(id) % NUM_HUES];
export const stripesOf = (id) => Math.floor(numberOf(id) / NUM_HUES) % 3;

function channels(hex) {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}
/** t of a colour, 1 - t of a surface, in sRGB bytes. */
export function mix(colour, surface, t) {
  const a = channels(colour), b = channels(surface);
  const hex = a.map((v, i) => Math.round(v * t + b[i] * (1 - t)).toString(16).padStart(2, '0'));
  return `#${hex.join('')}`;
}
function luminance(hex) {
  const [r, g, b] = channels(hex).map((v) => {
    const c = v / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const inks = new Map();
/** Text on a hue: near-black or white, whichever contrasts more. */
export function inkOn(hex) {
  if (!inks.has(hex)) {
    const l = luminance(hex) + 0.05;
    inks.set(hex, l / (luminance('#15181c') + 0.05) > 1.05 / l ? '#15181c' : '#ffffff');
  }
  return inks.get(hex);
}

/** A repeating texture; `paint(g, size)` draws one tile of size x size css px. */
function tile(key, size, paint) {
  const dpr = devicePixelRatio || 1;
  const name = `${key}@${dpr}`;
  if (!tiles.has(name)) {
    const canvas = new OffscreenCanvas(Math.round(size * dpr), Math.round(size * dpr));
    const g = canvas.getContext('2d');
    g.scale(canvas.width / size, canvas.width / size);
    paint(g, size);
    const pattern = g.createPattern(canvas, 'repeat');
    pattern.setTransform(new DOMMatrix().scale(size / canvas.width));
    tiles.set(name, pattern);
  }
  return tiles.get(name);
}
/** Prefill: dots of a colour. */
export function dots(fg, bg) {
  return tile(`dots${fg}${bg}`, 4, (g) => {
    g.fillStyle = bg; g.fillRect(0, 0, 4, 4);
    g.fillStyle = fg; g.fillRect(1, 0, 1, 1); g.fillRect(3, 2, 1, 1);
  });
}
/** Waste: diagonal lines, 4 px apart (5 for room that nobody owns). */
export function hatch(fg, bg, pitch = 4) {
  return tile(`hatch${pitch}${fg}${bg}`, pitch, (g, s) => {
    g.fillStyle = bg; g.fillRect(0, 0, s, s);
    g.strokeStyle = fg; g.lineWidth = 1.1;
    g.beginPath();
    for (const o of [-s, 0, s]) { g.moveTo(o - 1, s + 1); g.lineTo(o + s + 1, -1); }
    g.stroke();
  });
}
/** How a request's prefill and its recomputed work look. */
export function prefillFill(id) {
  const p = palette(), hue = hueOf(id);
  return dots(mix(hue, p.s1, p.dark ? 0.72 : 0.66), mix(hue, p.s1, 0.38));
}
export function recomputedFill(id) {
  const p = palette(), hue = hueOf(id);
  return hatch(hue, mix(hue, p.s1, 0.14));
}
/** Pinstripes along a bar: the second and third dozen of requests. */
export function stripeBar(g, id, x, y, w, h) {
  const n = stripesOf(id);
  if (!n || h < 7 || w < 2) return;
  const p = palette();
  g.fillStyle = mix(hueOf(id), p.s1, 0.38);
  for (let i = 1; i <= n; i += 1) g.fillRect(x, Math.round(y + (h * i) / (n + 1) - 0.5), w, 1);
}
/** Pinstripes at the bottom of a cell. */
export function stripeCell(g, id, x, y, w, h) {
  const n = stripesOf(id);
  if (!n || h < 14) return;
  const p = palette();
  g.fillStyle = mix(hueOf(id), p.s1, 0.38);
  for (let i = 0; i < n; i += 1) g.fillRect(x + 1, y + h - 4 - i * 3, w - 2, 1);
}
/** A red triangle pointing right: preempted. */
export function triangle(g, x, y, w, h) {
  g.fillStyle = palette().red;
  g.beginPath(); g.moveTo(x, y); g.lineTo(x + w, y + h / 2); g.lineTo(x, y + h); g.fill();
}

/** A canvas made as sharp as the screen; returns its context, or null while it has no size. */
export function fit(canvas, width, height) {
  const dpr = devicePixelRatio || 1;
  const w = Math.round(width * dpr), h = Math.round(height * dpr);
  if (w <= 0 || h <= 0) return null;
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w; canvas.height = h;
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
  }
  const g = canvas.getContext('2d');
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}
export function label(g, text, x, y, { align = 'left', colour, bold = false, size = 11 } = {}) {
  const p = palette();
  g.font = `${bold ? 600 : 400} ${size}px ${p.font}`;
  g.fillStyle = colour || p.ink3;
  g.textAlign = align;
  g.textBaseline = 'middle';
  g.fillText(text, x, y);
}
