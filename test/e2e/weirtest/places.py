"""Where weir keeps its files when a test does not say where: tables, runtime folders, queues. All of them are removed.

The folders of them all (/run/weir, /var/lib/weir, /tmp/weir-UID) are shared with suites that run at the same time. The last
suite to end removes those that were not there before the first began.
"""

import atexit
import contextlib
import fcntl
import os
import tempfile

from . import keeper

_NOBODY = 65534
_SHARED = ["/run/weir", "/var/lib/weir", f"/tmp/weir-{os.geteuid()}", f"/tmp/weir-{_NOBODY}"]
_used = None  # the lock that says so, while this process runs


def table(name):
    """The path of a table of that name, without the number of its version, as weir chooses it. XDG_RUNTIME_DIR is not
    set for programs under test."""
    if os.geteuid() == 0 or os.access("/run/weir", os.W_OK | os.X_OK):
        return f"/run/weir/{name}"
    return f"/dev/shm/weir-{os.geteuid()}-{name}"


def _patterns(name, uid):
    return [f"/run/weir/{name}[.-]*", f"/dev/shm/weir-{uid}-{name}[.-]*"]


def begin(name, uid=None):
    """A program that uses a table of that name is about to start: however the test ends, `end` or the keeper removes it."""
    _use()
    for pattern in _patterns(name, os.geteuid() if uid is None else uid):
        keeper.files(pattern)


def end(name, uid=None):
    for pattern in _patterns(name, os.geteuid() if uid is None else uid):
        keeper.forget_files(pattern)


# ---- folders of them all ----

def _open(name):
    where = os.path.join(tempfile.gettempdir(), f"weirtest-places-{os.geteuid()}")
    os.makedirs(where, mode=0o700, exist_ok=True)
    return open(os.path.join(where, name), "a+", encoding="ascii")


def _try_lock(file):
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _use():
    """Notes which folders are not there, unless a suite that is running has done so."""
    global _used
    if _used:
        return
    with _open("record") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        _used = _open("used")
        if _try_lock(_used):
            record.write("".join(f"{path}\n" for path in _SHARED if not os.path.exists(path)))
            record.flush()
        fcntl.flock(_used, fcntl.LOCK_SH)
    atexit.register(_leave)


def _leave():
    with _open("record") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        if _try_lock(_used):
            record.seek(0)
            for path in record.read().split():
                with contextlib.suppress(OSError):
                    os.rmdir(path)
            record.truncate(0)
        _used.close()
