"""Which addresses are this machine: the one question that both servers here ask about a request.

Invariant: what is no address at all is none of this machine's; asking never fails.
"""

from urllib.parse import urlsplit

LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}


def is_local(address: str) -> bool:
    """Whether `host`, `host:port` or `[::1]:port`, as a Host header has it, names this machine."""
    try:
        return urlsplit(f"//{address}").hostname in LOCAL_HOSTS
    except ValueError:  # a bracket that nobody closes
        return False


def address_of(origin: str) -> str:
    """The address in an Origin header, as the Host header of that server would have it; "": there is none."""
    return origin.partition("://")[2]
