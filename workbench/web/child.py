"""The workbench as a child of another command: `serve --web` and `demo` start it and print its address.

It is a process of its own, not a part of the recorder: it shows many runs and outlives each of them, it loads
slowly and may be asked a lot, and none of that may be felt where records are written.

Invariant: it ends with the block that started it, and by itself if that process is killed.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import PIPE, Popen, TimeoutExpired

from tracing.errors import TraceError

PORT = 8050
"""Where the workbench is found, unless somebody else has it."""
STOP_SECONDS = 5.0


class WebError(TraceError):
    """The workbench did not start."""


@contextmanager
def web_process(runs: Sequence[str] = (), *, port: int = PORT) -> Iterator[str]:
    """The workbench for these runs, served until the block ends; yields its address.

    Raises WebError with its own words if it does not start.
    """
    command = [sys.executable, "-P", "-m", "workbench.cli", "web", *runs]
    command += ["--port", str(port), "--parent", str(os.getpid())]
    # A group of its own: Ctrl-C reaches whoever started it, who ends it in order.
    process = Popen(command, stdout=PIPE, text=True, process_group=0)
    assert process.stdout is not None
    try:
        said = process.stdout.readline().strip()
        if not said:
            raise WebError(f"the workbench did not start (exit status {process.wait()})")
        yield said.split()[-1]
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
