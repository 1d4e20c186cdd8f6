/* The time that is left for an answer: `data-seconds` down to zero, then up again as overtime. It stops by itself
 * when the answer is given, which is when the form has gone. Nothing depends on it: the server takes its own time. */

export class Countdown {
  constructor(root) {
    this.root = root;
    this.end = performance.now() + 1000 * Number(root.dataset.seconds);
    this.timer = setInterval(() => this.draw(), 250);
    this.draw();
  }

  stop() { clearInterval(this.timer); }

  draw() {
    if (!document.querySelector('#drill-body :is(textarea, input[type=text], button.option)')) { this.stop(); return; }
    const left = Math.round((this.end - performance.now()) / 1000), s = Math.abs(left);
    this.root.textContent = `${left < 0 ? '+' : ''}${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
    this.root.classList.toggle('late', left < 0);
  }
}
