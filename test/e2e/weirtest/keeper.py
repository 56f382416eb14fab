"""Nothing that a test starts outlives it.

`start` runs a program in a session of its own, so that `stop` finds every process that came of it
(nginx's workers, the new binary of an upgrade) wherever it went in the tree. A keeper process, which
nobody's tree contains, waits for the end of this one: however that comes (a ctest timeout kills
with -9), it then kills the sessions that are left and removes their folders.
"""

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

_keeper = None
_born = {}  # sessions we know: when their leaders began

# A thousand connections, each with two ends in nginx and one here.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(16384, _hard), _hard))


def _tell(*words):
    global _keeper
    if _keeper is None or _keeper[0] != os.getpid():
        _keeper = (os.getpid(), _launch())
    os.write(_keeper[1], (" ".join(words) + "\n").encode())


def _launch():
    """Forks the keeper twice, so that it belongs to init, and returns the pipe it listens to. It has nothing
    else open when this returns: a port that we close is closed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        _close_all_but(read)
        if os.fork():
            os._exit(0)
        _keep(read)
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


def _keep(read):
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    said = b""
    while piece := os.read(read, 4096):
        said += piece
    held = {"session": set(), "folder": set(), "files": set()}
    for line in said.decode().splitlines():
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
    """The name of a process and the fields behind it, from the state on; ("", []): there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            comm, _, rest = f.read().partition("(")[2].rpartition(")")
    except OSError:
        return "", []
    return comm, rest.split()


def _began(pid):
    """In ticks since the machine did; 0: it is gone."""
    fields = _stat(pid)[1]
    return int(fields[19]) if fields else 0


def session(sid):
    """The living processes of a session: {pid: name}. Zombies are not living, unless a thread of theirs is
    and still holds what they had open. A number that another leader has by now is not the session that we knew:
    the kernel gives it to nobody as long as a session has members."""
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
    """Kills every process of the session, each by its pid, until none is left. AssertionError when some do not end."""
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
    """subprocess.Popen in a new session that the keeper knows. End it with `stop`. A clock in use is handed on."""
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    argv = [str(a) for a in argv]
    if clock.current:
        ours = env.WRAP == "asan" and any(os.path.basename(a) == env.WEIR.name for a in argv)
        kwargs["env"] = clock.current.variables(kwargs.get("env"), sanitized=ours)
    process = subprocess.Popen(argv, start_new_session=True, **kwargs)
    watch(process.pid)
    return process


def watch(sid):
    """Makes a session known that something else began."""
    _born[sid] = _began(sid)
    _tell("+session", str(sid), str(_born[sid]))


def unwatch(sid):
    """It has ended."""
    _tell("-session", str(sid), str(_born.pop(sid, 0)))


def stop(process):
    """Kills what is left of the session that `start` began."""
    if process.pid in _born:  # not stopped before: the number may be another's by now
        kill_session(process.pid)
    process.wait()
    unwatch(process.pid)


def folder(prefix, where=None):
    """A temporary folder that workers who are not root may enter; `forget` removes it."""
    path = tempfile.mkdtemp(prefix=f"weirtest-{prefix}-", dir=where)
    os.chmod(path, 0o755)
    _tell("+folder", path)
    return path


def forget(path):
    shutil.rmtree(path, ignore_errors=True)
    _tell("-folder", path)


def files(pattern):
    """Files outside of a folder of ours, which a program is about to make: `forget_files` removes them."""
    _tell("+files", pattern)


def forget_files(pattern):
    _remove(pattern)
    _tell("-files", pattern)
