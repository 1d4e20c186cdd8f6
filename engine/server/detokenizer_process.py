"""Detokenisation in a process of its own, between the core and the API: SGLang's split.

    one process less (vLLM)      core ──tokens──► API: text, stop strings, HTTP
    this file (SGLang)           core ──tokens──► detokeniser ──text──► API: HTTP

The API's event loop then spends nothing on text, at the price of one more hop per step. What is done is the
same `AnswerText`; only where changes. The API says what it needs to know of a request (`OpenText`) on a line
of its own, which may be slower than the core, so outputs wait here until it has come.

Invariant: outputs of one request leave in the order in which they came, each with its piece of text.

Source: SGLang 0.5.23 `managers/detokenizer_manager.py`.
"""

import multiprocessing
import signal
import time
from pathlib import Path

import zmq

from engine.messages import OpenText, Shutdown, StepOutputs, TextOutputs, TextReady
from engine.server.core_process import Addresses, connect, leave, obey_parent_only
from engine.server.wire import decode, encode
from engine.text.answer_text import AnswerText
from engine.text.tokenizer import Tokenizer

IDENTITY = b"text"
"""Its name on the front end's socket."""


def run_detokenizer(model_dir: str, addresses: Addresses) -> None:
    """Main function of the process. Ends when told, or when its parent has gone."""
    obey_parent_only()
    assert addresses.detokenizer is not None
    context = zmq.Context()
    try:
        texts = Texts(Tokenizer.load(Path(model_dir)))
        core = context.socket(zmq.DEALER)
        core.set_hwm(0)
        core.bind(addresses.detokenizer)
        frontend = connect(context, addresses.frontend, IDENTITY)
        frontend.send_multipart(encode(TextReady()))
        _serve(texts, core, frontend)
    finally:
        signal.signal(
            signal.SIGTERM, signal.SIG_IGN
        )  # it is ending already, and should do so in order
        leave(context, addresses)


class Texts:
    """Texts in the making, by request id."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, AnswerText] = {}
        self._early: list[StepOutputs] = []
        """Outputs of requests that are not known yet, and everything that came after them."""

    def open(self, message: OpenText) -> list[TextOutputs]:
        """A request is known from now on; outputs that had waited for it."""
        text = AnswerText(self._tokenizer, message.prompt_tail, message.params)
        self._texts[message.request_id] = text
        early, self._early = self._early, []
        return [done for outputs in early for done in self.feed(outputs)]

    def feed(self, step: StepOutputs) -> list[TextOutputs]:
        """The text of a step's outputs; nothing while a request of it, or of one before, is not known."""
        if self._early or any(o.request_id not in self._texts for o in step.outputs):
            self._early.append(step)
            return []
        pieces = []
        for output in step.outputs:
            code = None if output.end is None else output.end.code
            pieces.append(self._texts[output.request_id].feed(output.token_ids, code))
            if output.end is not None:
                del self._texts[output.request_id]
        return [TextOutputs(step.outputs, pieces, step.stats, time.perf_counter_ns())]


def _serve(texts: Texts, core: zmq.Socket[bytes], frontend: zmq.Socket[bytes]) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "the detokeniser runs as a child of the server"
    poller = zmq.Poller()
    for source in (core, frontend, parent.sentinel):
        poller.register(source, zmq.POLLIN)
    while True:
        events = dict(poller.poll())
        if parent.sentinel in events:
            return
        if frontend in events:
            asked = decode(frontend.recv_multipart())
            if isinstance(asked, Shutdown):
                return
            assert isinstance(asked, OpenText), f"{asked} is not for the detokeniser"
            _send(frontend, texts.open(asked))
        if core in events:
            step = decode(core.recv_multipart())
            assert isinstance(step, StepOutputs), f"{step} is not for the detokeniser"
            _send(frontend, texts.feed(step))


def _send(frontend: zmq.Socket[bytes], done: list[TextOutputs]) -> None:
    for outputs in done:
        frontend.send_multipart(encode(outputs))
