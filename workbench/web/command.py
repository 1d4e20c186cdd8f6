"""`cutaway web`: the workbench in the browser, one address printed.

    cutaway web                     all runs at hand, live ones included
    cutaway web last                straight to a run
    cutaway web ./some/run other    runs that lie elsewhere

Without a token it listens on this machine only; with one, wherever --host says.

Invariant: the address is printed once it answers.
"""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import quote

import click
import uvicorn

from tracing.local import LOCAL_HOSTS
from tracing.runs import find_run
from workbench.web.child import PORT, WebError


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--port", default=PORT, show_default=True, help="The next free one if it is taken; 0: any."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Another needs --token.")
@click.option(
    "--token",
    envvar="CUTAWAY_TOKEN",
    help="Whoever asks must have it (or $CUTAWAY_TOKEN); `new` makes one.",
)
@click.option("--parent", type=int, hidden=True, help="End when this process does.")
def web(runs: tuple[str, ...], port: int, host: str, token: str | None, parent: int | None) -> None:
    """Replay runs in the browser, or watch a live one.

    \b
    Examples:
      cutaway web               the start page: runs, live servers
      cutaway web last          the newest run
      cutaway web --host 0.0.0.0 --token new
    """
    token = secrets.token_urlsafe(24) if token == "new" else token
    if host not in LOCAL_HOSTS and not token:
        raise WebError(f"{host} is more than this machine: give --token new as well")
    listener = listen(host, port)
    from workbench.web.app import make_app  # Dash takes a second: errors above come at once

    app = make_app(runs, token=token)
    url = f"http://{host}:{listener.getsockname()[1]}{_first_page(runs)}"
    if token:
        url += f"?token={token}"
    serve(app, listener, lambda: click.echo(f"workbench at {url}"), parent)


def serve(
    app: Callable[..., object],
    listener: socket.socket,
    on_ready: Callable[[], None],
    parent: int | None = None,
) -> None:
    """Serve until Ctrl-C, SIGTERM, or the end of `parent`; `on_ready` is called once it answers."""

    class Server(uvicorn.Server):
        """Says when it answers."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",  # in it, Dash would claim every path that nobody else has
        timeout_graceful_shutdown=1,
    )
    server = Server(config)
    # An open page holds a stream, which ends with us: cutting it off is no error worth a line.
    logging.getLogger("uvicorn.error").addFilter(lambda line: "running task(s)" not in line.msg)
    if parent is not None:
        threading.Thread(target=_outlive_nobody, args=(server, parent), daemon=True).start()
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """The port asked for, or one of the next few. Raises WebError."""
    for candidate in [port] if port == 0 else range(port, port + 20):
        try:
            listener = socket.create_server((host, candidate))
        except OSError as error:
            reason = error
        else:
            # Inherited by connections. Without it an answer's body waits for the other end to acknowledge its
            # head, which takes 40 ms; asyncio sets it only where a socket says that its protocol is TCP.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
    raise WebError(f"no port from {port} on is free at {host}: {reason.strerror}")


def _first_page(runs: Sequence[str]) -> str:
    return f"/replay/{quote(find_run(runs[0]).resolve().name)}" if len(runs) == 1 else "/"


def _outlive_nobody(server: uvicorn.Server, parent: int) -> None:
    """Stop when the process that started this one is gone."""
    done = threading.Event()
    while not done.wait(0.5):
        if os.getppid() != parent:
            server.should_exit = True
            return
