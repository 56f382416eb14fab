"""Free ports: outside the kernel's range for client sockets, and locked, so that suites that run at the same time do
not choose the same port."""

import fcntl
import os
import random
import socket
import tempfile

from .env import machine

_held = []
_ADDRESSES = [(socket.AF_INET, "0.0.0.0")]
if machine.CAPABILITIES["ipv6"][1]():
    _ADDRESSES.append((socket.AF_INET6, "::"))


def _candidates():
    """Returns the ports that the kernel does not choose for client sockets."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first, last = map(int, f.read().split())
    for some in (range(12000, 32000), range(2000, 65536)):  # most programs use fixed ports below 12000
        if len(found := [p for p in some if not first <= p <= last]) > 2000:
            return found
    return range(12000, 65536)  # the kernel's range covers all ports: another program may take a port meanwhile


_CANDIDATES = _candidates()


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
    """Returns whether no program listens on this port, on any address."""
    for family, host in _ADDRESSES:
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
    """Returns a port that is free on every address. It stays reserved until this process ends."""
    for _ in range(2000):
        port = random.choice(_CANDIDATES)
        if (lock := _lock(port)) is None:
            continue
        if _is_free(port):
            _held.append(lock)
            return port
        lock.close()
    raise RuntimeError(f"no free port between {_CANDIDATES[0]} and {_CANDIDATES[-1]}")
