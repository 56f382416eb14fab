"""Ports nobody else uses: below the range of which the kernel gives client sockets theirs, and
locked, so that suites that run at the same time do not choose the same one."""

import fcntl
import os
import random
import socket
import tempfile

_FIRST, _LAST = 12000, 31999
_held = []


def _lock(port):
    where = os.path.join(tempfile.gettempdir(), f"weirtest-ports-{os.getuid()}")
    os.makedirs(where, mode=0o700, exist_ok=True)
    f = open(os.path.join(where, str(port)), "w", encoding="ascii")
    try:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        f.close()
        return None
    return f


def _is_free(port):
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with socket.socket(family) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                s.bind((host, port))
                s.listen(1)
            except OSError:
                return False
    return True


def free_port():
    """A port that is free on every address; it is ours until this process ends."""
    for _ in range(2000):
        port = random.randint(_FIRST, _LAST)
        if (lock := _lock(port)) is None:
            continue
        if _is_free(port):
            _held.append(lock)
            return port
        lock.close()
    raise RuntimeError(f"no free port between {_FIRST} and {_LAST}")
