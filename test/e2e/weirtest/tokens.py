"""Tokens that services create at their start. `Serve` and `Gateway` read them from the dashboard's address in the
output. The clients of the harness (Client, fetch, Browser) send them; `fetch(…, anonymous=True)` sends none."""

import functools
import re
from pathlib import Path

from . import programs

_ADDRESS = re.compile(r"http://\S*?:(\d+)/#token=([0-9a-f]{64})")
_by_port = {}


def read_from(output):
    """Reads tokens from a service's output. A restarted service has a new token: the last one applies."""
    for port, token in _ADDRESS.findall(output):
        _by_port[int(port)] = token


def of(where):
    """Returns the token of a port, or of a (host, port); None if no token is known."""
    return _by_port.get(where[1] if isinstance(where, tuple) else where)


@functools.cache
def _folder():
    return Path(programs.temp_folder("tokens"))


def file(port):
    """Returns a file with the token of a port, for `--token-file` of weir's commands."""
    path = _folder() / str(port)
    path.write_text(of(port) + "\n", encoding="ascii")
    path.chmod(0o600)
    return str(path)


def flags(port):
    return ["--admin", f"127.0.0.1:{port}", "--token-file", file(port)]


def variables(port):
    return {"WEIR_ADMIN": f"127.0.0.1:{port}", "WEIR_ADMIN_TOKEN_FILE": file(port)}
