"""Files that weir creates at its default paths: tables, runtime folders, queues. All of them are removed.

Suites that run at the same time share the parent folders (/run/weir, /var/lib/weir, /tmp/weir-UID). The last suite to end
removes the folders that did not exist before the first suite began."""

import atexit
import contextlib
import fcntl
import os
import tempfile

from . import programs

_NOBODY = 65534
_SHARED = ["/run/weir", "/var/lib/weir", f"/tmp/weir-{os.geteuid()}", f"/tmp/weir-{_NOBODY}"]
_used = None  # a lock that this process holds while it uses the shared folders


def table(name):
    """Returns the default path of a table of that name, without its version number. XDG_RUNTIME_DIR is not set for
    programs under test."""
    if os.geteuid() == 0 or os.access("/run/weir", os.W_OK | os.X_OK):
        return f"/run/weir/{name}"
    return f"/dev/shm/weir-{os.geteuid()}-{name}"


def _patterns(name, uid):
    return [f"/run/weir/{name}[.-]*", f"/dev/shm/weir-{uid}-{name}[.-]*"]


def register(name, uid=None):
    """Registers the table of a program that is about to start. `remove` or the cleanup process removes it, however the
    test ends."""
    _use()
    for pattern in _patterns(name, os.geteuid() if uid is None else uid):
        programs.register_files(pattern)


def remove(name, uid=None):
    for pattern in _patterns(name, os.geteuid() if uid is None else uid):
        programs.remove_files(pattern)


# ---- shared folders ----

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
    """Records which shared folders do not exist, unless a running suite has done so."""
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
