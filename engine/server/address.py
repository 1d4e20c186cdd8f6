"""Where the server listens, and whether anybody but this machine can reach it there."""

import socket
from ipaddress import ip_address

from engine.errors import ConfigError

FOLDER_PREFIX = "cutaway-"
"""Of private folders for sockets, among other people's temporary files."""


def listen(host: str = "127.0.0.1", port: int = 8000) -> socket.socket:
    """Claim a port; 0 takes a free one. Raises ConfigError if it is taken, or no port."""
    if not 0 <= port < 2**16:
        raise ConfigError(f"{port} is no port: choose one up to 65535, or 0 for a free one")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. Without it a small piece waits until the one before was acknowledged: 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another port, or 0 for a free one"
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """How clients on this machine reach it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
