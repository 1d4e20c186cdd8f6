"""The live stream, alone and out of a real recorder."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import tracing
from tests.tracing.sim import Sim
from tests.tracing.test_recording import kill_recorder
from tracing import stream as stream_module
from tracing.follow import StreamEvent, follow
from tracing.keyframe import keyframe_at
from tracing.record import Code
from tracing.recording import Recording
from tracing.rows import Rows
from tracing.runs import recorder_url
from tracing.stream import Stream


def step_rows(step: int, size: int = 1) -> Rows:
    """Rows as a fold brings them; only their number and the step matter here."""
    return Rows({"step": [(0, step)], "decision": [(0, step, "x" * size)], "kernel": [(0, step)]})


def parse(data: bytes) -> StreamEvent:
    head, _, body = data.decode().partition("data: ")
    fields = dict(line.split(": ") for line in head.splitlines())
    return StreamEvent(fields["event"], json.loads(body), fields.get("id"))


async def take(events: AsyncGenerator[bytes], n: int) -> list[StreamEvent]:
    """The next n events; those that were there at once come in one piece."""
    found: list[StreamEvent] = []
    while len(found) < n:
        piece = await asyncio.wait_for(anext(events), 20)
        found += [parse(event) for event in piece.split(b"\n\n") if event]
    return found


def keyframe_of(stream: Stream) -> Any:
    return lambda: (stream.publish(), {"state": "whole"})


def test_a_viewer_gets_a_keyframe_and_then_each_frame_once() -> None:
    async def main() -> None:
        stream = Stream()
        stream.add(step_rows(1))
        stream.publish()
        async with aclosing(stream.follow(None, keyframe_of(stream))) as events:
            (first,) = await take(events, 1)
            assert (first.kind, first.data["state"]) == ("keyframe", "whole")
            stream.add(step_rows(2))
            stream.add(step_rows(3))
            stream.publish()
            stream.add(step_rows(4))
            stream.publish()
            stream.publish()  # nothing new
            frames = await take(events, 2)
            assert [f.kind for f in frames] == ["frame", "frame"]
            spans = [(f.data["first_step"], f.data["last_step"]) for f in frames]
            assert spans == [(2, 3), (4, 4)]
            assert frames[0].data["rows"]["step"] == [[0, 2], [0, 3]]
            assert "kernel" not in frames[0].data["rows"]
            stream.end()
            assert (await take(events, 1))[0].kind == "end"
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    asyncio.run(main())


def test_a_viewer_that_comes_back_goes_on_behind_its_cursor() -> None:
    async def main() -> None:
        stream = Stream()
        async with aclosing(stream.follow(None, keyframe_of(stream))) as events:
            await take(events, 1)
            stream.add(step_rows(1))
            stream.publish()
            (seen,) = await take(events, 1)
        stream.add(step_rows(2))  # nobody is there, but somebody was
        stream.publish()
        async with aclosing(stream.follow(seen.cursor, keyframe_of(stream))) as events:
            (missed,) = await take(events, 1)
            assert (missed.kind, missed.data["first_step"]) == ("frame", 2)

    asyncio.run(main())


@pytest.mark.parametrize("cursor", ["ffffffff.1", "nonsense", "1", ".", "{life}.99", "{life}.-1"])
def test_a_cursor_that_cannot_be_continued_is_a_gap_and_a_keyframe(cursor: str) -> None:
    async def main() -> None:
        stream = Stream()
        cursor_ = cursor.format(life=stream._life)
        async with aclosing(stream.follow(cursor_, keyframe_of(stream))) as events:
            gap, keyframe = await take(events, 2)
            assert (gap.kind, gap.data["from"], gap.data["count"]) == ("gap", cursor_, None)
            assert keyframe.kind == "keyframe"

    asyncio.run(main())


def test_a_state_that_takes_long_to_tell_does_not_silence_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A viewer that hears nothing for long would leave, come back, and ask for the state again."""
    monkeypatch.setattr(stream_module, "ALIVE_SECONDS", 0.02)

    async def main() -> None:
        stream, go_on = Stream(), threading.Event()

        def tell() -> tuple[int, dict[str, Any]]:
            go_on.wait(20)
            return stream.publish(), {"state": "late"}

        async with aclosing(stream.follow(None, tell)) as events:
            for _ in range(2):
                assert await asyncio.wait_for(anext(events), 20) == b": alive\n\n"
            go_on.set()
            while (said := await asyncio.wait_for(anext(events), 20)).startswith(b":"):
                pass
            assert parse(said).data["state"] == "late"

    asyncio.run(main())


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_slow_viewer_is_told_what_it_missed(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number of frames, and by their bytes."""
    monkeypatch.setattr(stream_module, "MAX_FRAMES", 8)
    monkeypatch.setattr(stream_module, "MAX_BYTES", 500_000)

    async def main() -> None:
        stream = Stream()
        async with aclosing(stream.follow(None, keyframe_of(stream))) as events:
            await take(events, 1)
            for step in range(20):
                stream.add(step_rows(step, size))
                stream.publish()
            assert len(stream._frames) <= 8
            assert stream._num_bytes <= 500_000
            gap, keyframe = await take(events, 2)
            assert (gap.kind, gap.data["count"]) == ("gap", 20)
            assert gap.data["to"] == keyframe.cursor
            stream.add(step_rows(20))
            stream.publish()
            (frame,) = await take(events, 1)
            assert frame.data["first_step"] == 20

    asyncio.run(main())


def test_rows_that_came_while_nobody_watched_cannot_be_continued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "LINGER_SECONDS", 0.0)

    async def main() -> None:
        stream = Stream()
        async with aclosing(stream.follow(None, keyframe_of(stream))) as events:
            (first,) = await take(events, 1)
        stream.add(step_rows(1))  # not kept
        async with aclosing(stream.follow(first.cursor, keyframe_of(stream))) as events:
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            stream.add(step_rows(2))
            stream.publish()
            assert parse(await waiting).kind == "gap"

    asyncio.run(main())


# -- out of a recorder ---------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    made = tracing.start(tmp_path / "run")
    yield made
    made.close()


class Viewer:
    """Follows a run in a thread of its own and keeps the events."""

    def __init__(self, recording: Recording, after: str | None = None) -> None:
        self.events: list[StreamEvent] = []
        self._run_dir, self._after = recording.run_dir, after
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._follow()))
        self._thread.start()

    async def _follow(self) -> None:
        reading = asyncio.ensure_future(self._read())
        while not self._stop.is_set() and not reading.done():
            await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        async with aclosing(follow(lambda: recorder_url(self._run_dir), self._after)) as events:
            async for event in events:
                self.events.append(event)

    def wait_for(self, kind: str, number: int = 1) -> StreamEvent:
        """The n-th event of a kind."""
        deadline = time.monotonic() + 60
        while True:
            found = [event for event in self.events if event.kind == kind]
            if len(found) >= number:
                return found[number - 1]
            assert time.monotonic() < deadline, [event.kind for event in self.events]
            time.sleep(0.01)

    def steps(self) -> list[int]:
        """Steps that frames brought, in order."""
        place = {}
        steps = []
        for event in self.events:
            if event.kind == "keyframe":
                place = {n: i for i, n in enumerate(event.data["columns"]["step"])}
            elif event.kind == "frame":
                steps += [row[place["step"]] for row in event.data["rows"].get("step", [])]
        return steps

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + 60
        while not self.steps() or self.steps()[-1] < step:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def watch(recording: Recording) -> Iterator[Any]:
    made: list[Viewer] = []

    def start(after: str | None = None) -> Viewer:
        assert recording.url
        made.append(Viewer(recording, after))
        return made[-1]

    yield start
    for viewer in made:
        viewer.stop()


def drive(sim: Sim, n: int, pause_s: float = 0.0) -> None:
    for _ in range(n):
        sim.run_step()
        sim.recorder.flush()
        time.sleep(pause_s)


def test_frames_bring_every_step_and_the_columns_of_the_tables(
    recording: Recording, watch: Any
) -> None:
    sim = Sim(recording.recorder("core"), seed=2)
    drive(sim, 10)
    recording.sync()
    viewer = watch()
    keyframe = viewer.wait_for("keyframe").data
    assert keyframe["run"]["num_blocks"] == sim.num_blocks
    assert keyframe["state"]["step"] == 9
    drive(sim, 40, 0.005)
    viewer.wait_for_step(49)
    assert viewer.steps() == list(range(10, 50))
    recording.sync()
    frames = [event.data for event in viewer.events if event.kind == "frame"]
    for table in ("step", "step_request", "kv_event", "cache_event", "decision", "token"):
        streamed = [row for frame in frames for row in frame["rows"].get(table, [])]
        stored = recording.sql(f"FROM {table} WHERE step >= 10")
        assert list(stored.columns) == keyframe["columns"][table]
        assert sorted(streamed, key=str) == sorted(map(list, stored.rows), key=str), table


def test_a_keyframe_is_what_a_query_says(recording: Recording, watch: Any) -> None:
    sim = Sim(recording.recorder("core"), seed=4)
    drive(sim, 30)
    recording.sync()
    streamed = watch().wait_for("keyframe").data["state"]
    asked = keyframe_at(recording._recorder_process())
    assert streamed == json.loads(json.dumps(asked))


def test_a_recorder_that_dies_and_comes_back_is_a_gap(recording: Recording, watch: Any) -> None:
    sim = Sim(recording.recorder("core"), seed=2)
    drive(sim, 5)
    recording.sync()
    viewer = watch()
    viewer.wait_for("keyframe")
    drive(sim, 5, 0.01)
    viewer.wait_for_step(9)
    kill_recorder(recording)
    viewer.wait_for("lost")
    drive(sim, 5)  # nobody listens
    recording.sync()  # starts another recorder
    assert viewer.wait_for("gap").data["count"] is None
    assert viewer.wait_for("keyframe", 2).data["state"]["step"] == 14
    drive(sim, 5, 0.01)
    viewer.wait_for_step(19)
    recording.close()
    viewer.wait_for("end")


def test_a_viewer_that_does_not_read_holds_up_nobody(recording: Recording, watch: Any) -> None:
    sim = Sim(recording.recorder("core"), seed=2)
    drive(sim, 1)
    scattered = range(1000, 17_000, 2)  # no two are neighbours, so each is a row of 100 bytes
    address = urlsplit(recording.url)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**17)
        deaf.connect((address.hostname, address.port))
        deaf.sendall(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        viewer = watch()
        viewer.wait_for("keyframe")
        for step in range(1, 25):  # more than the ring and both sockets hold
            sim.recorder.blocks(Code.KV_ALLOC, scattered, 5, idx=0)
            drive(sim, 1)
            recording.sync()
            viewer.wait_for_step(step)
        deaf.settimeout(30)
        heard = b""
        while b"event: gap" not in heard:
            piece = deaf.recv(2**20)
            assert piece
            heard += piece


def test_neither_a_deaf_viewer_nor_a_deaf_question_holds_up_the_seal(
    tmp_path: Path,
) -> None:
    recording = tracing.start(tmp_path / "run")
    sim = Sim(recording.recorder("core"), seed=2)
    drive(sim, 1)
    address = urlsplit(recording.url)
    endless = (
        "SELECT len(list_distinct(range(10000000)))"  # one value: no interrupt is heeded inside
    )
    body = json.dumps({"sql": endless}).encode()
    head = b"host: localhost\r\ncontent-type: application/json\r\n"
    with socket.socket() as viewer, socket.socket() as question:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for deaf in (viewer, question):
            deaf.connect((address.hostname, address.port))
        viewer.sendall(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n")
        viewer.recv(1)
        length = f"content-length: {len(body)}\r\n\r\n".encode()
        question.sendall(b"POST /query HTTP/1.1\r\n" + head + length + body)
        for _ in range(5):
            sim.recorder.blocks(Code.KV_ALLOC, range(1000, 17_000, 2), 5, idx=0)
            drive(sim, 1)
        recording.close()  # raises if it is not sealed
    opened = tracing.open_run(recording.run_dir)
    assert opened.sql("SELECT count(*) FROM step").rows == [(6,)]
    opened.close()


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_strangers_are_refused(recording: Recording, headers: dict[str, str]) -> None:
    answer = httpx.get(f"{recording.url}/stream", headers=headers, trust_env=False)
    assert answer.status_code == 403
