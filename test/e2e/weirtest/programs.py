"""Programs under test: starting them, and cleaning up after them, however the test run ends.

`start` runs a program in its own session, so that `stop` finds all its descendants (nginx's workers, the new binary of an
upgrade). A cleanup process outside the process tree waits for the end of the test run. It then kills the remaining
sessions and removes their folders, even if a ctest timeout has ended the run with kill -9."""

import contextlib
import glob
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from . import clock, env

_cleanup = None
_born = {}  # the start times of the leaders of known sessions

# Enough for a thousand connections, each with two descriptors in nginx and one in the test.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(16384, _hard), _hard))


def _register(*words):
    """Writes an order to the cleanup process; starts that process if needed."""
    global _cleanup
    if _cleanup is None or _cleanup[0] != os.getpid():
        _cleanup = (os.getpid(), _launch())
    os.write(_cleanup[1], (" ".join(words) + "\n").encode())


def _launch():
    """Starts the cleanup process with two forks, so that its parent is init. Returns the pipe that it reads. It has no
    other descriptor open when this function returns: a port that the test closes is closed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        _close_all_but(read)
        if os.fork():
            os._exit(0)
        _clean_up(read)
        os._exit(0)
    os.close(read)
    os.waitpid(child, 0)
    return write


def _close_all_but(kept):
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, kept)
    os.closerange(kept + 1, 16384)


def _clean_up(read):
    """Reads orders until the test run ends, then kills the remaining sessions and removes their folders."""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    received = b""
    while piece := os.read(read, 4096):
        received += piece
    held = {"session": set(), "folder": set(), "files": set()}
    for line in received.decode().splitlines():
        verb, what = line.split(" ", 1)
        kind = held[verb[1:]]
        kind.discard(what) if verb.startswith("-") else kind.add(what)
    for sid, born in (map(int, words.split()) for words in held["session"]):
        _born[sid] = born
        kill_session(sid)
    for path in held["folder"]:
        shutil.rmtree(path, ignore_errors=True)
    for pattern in held["files"]:
        _remove(pattern)


def _remove(pattern):
    """Removes the files and folders that a glob pattern finds."""
    for path in glob.glob(pattern):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _stat(pid):
    """Returns the name of a process and the fields of its stat file from the state on; ("", []) if there is no such
    process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            comm, _, rest = f.read().partition("(")[2].rpartition(")")
    except OSError:
        return "", []
    return comm, rest.split()


def _began(pid):
    """Returns the start time of a process in ticks since boot; 0 if it has exited."""
    fields = _stat(pid)[1]
    return int(fields[19]) if fields else 0


def session(sid):
    """Returns the living processes of a session: {pid: name}. A zombie counts as living while a thread of it is alive
    and holds its descriptors. The session number is reused only after all members have exited, so a leader with
    another start time means that the session has ended."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        comm, fields = _stat(name)
        if not fields or int(fields[3]) != sid:
            continue
        if int(name) == sid and int(fields[19]) != _born.get(sid, int(fields[19])):
            return {}
        if fields[0] not in "ZX" or int(fields[17]) > 1:
            found[int(name)] = comm
    return found


def kill_session(sid, patience_s=30.0):
    """Kills every process of the session by its pid until none is left. AssertionError if some do not exit."""
    deadline = time.monotonic() + patience_s
    while pids := session(sid):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise AssertionError(f"these processes do not end after kill -9: {pids}")
        time.sleep(0.01)


def start(argv, **kwargs):
    """subprocess.Popen in a new session that is registered for the cleanup. End it with `stop`. Passes on the clock in
    use."""
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    argv = [str(a) for a in argv]
    if clock.current:
        ours = env.WRAP == "asan" and any(os.path.basename(a) == env.WEIR.name for a in argv)
        kwargs["env"] = clock.current.variables(kwargs.get("env"), sanitized=ours)
    process = subprocess.Popen(argv, start_new_session=True, **kwargs)
    watch(process.pid)
    return process


def watch(sid):
    """Registers a session that another program has started."""
    _born[sid] = _began(sid)
    _register("+session", str(sid), str(_born[sid]))


def unwatch(sid):
    """Removes a session that has ended."""
    _register("-session", str(sid), str(_born.pop(sid, 0)))


def stop(process):
    """Kills the remaining processes of the session that `start` began."""
    if process.pid in _born:  # not stopped before; otherwise the number may belong to another session by now
        kill_session(process.pid)
    process.wait()
    unwatch(process.pid)


def temp_folder(prefix, where=None):
    """Creates a temporary folder that workers without root rights may enter; `remove_folder` removes it."""
    path = tempfile.mkdtemp(prefix=f"weirtest-{prefix}-", dir=where)
    os.chmod(path, 0o755)
    _register("+folder", path)
    return path


def remove_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    _register("-folder", path)


def register_files(pattern):
    """Registers files outside the test's folders that a program is about to create; `remove_files` removes them."""
    _register("+files", pattern)


def remove_files(pattern):
    _remove(pattern)
    _register("-files", pattern)
