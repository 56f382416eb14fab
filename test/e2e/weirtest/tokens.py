"""Tokens that services made at their start. `Serve` and `Gateway` learn them from the dashboard's address, and the
clients of the harness show them: Client, fetch, Browser. `fetch(…, anonymous=True)` shows none."""

import functools
import re
from pathlib import Path

from . import keeper

_ADDRESS = re.compile(r"http://\S*?:(\d+)/#token=([0-9a-f]{64})")
_by_port = {}


def learn(said):
    """From what a service wrote. One that was started anew has another token: the last counts."""
    for port, token in _ADDRESS.findall(said):
        _by_port[int(port)] = token


def of(where):
    """The token of a port, or of a (host, port); None: there is none, or it is not known."""
    return _by_port.get(where[1] if isinstance(where, tuple) else where)


@functools.cache
def _folder():
    return Path(keeper.folder("tokens"))


def file(port):
    """A file with the token of a port, for `--token-file` of weir's commands."""
    path = _folder() / str(port)
    path.write_text(of(port) + "\n", encoding="ascii")
    path.chmod(0o600)
    return str(path)


def flags(port):
    return ["--admin", f"127.0.0.1:{port}", "--token-file", file(port)]


def variables(port):
    return {"WEIR_ADMIN": f"127.0.0.1:{port}", "WEIR_ADMIN_TOKEN_FILE": file(port)}
