"""Nothing that a test starts outlives it.

`start` runs a program in a session of its own, so that `stop` finds every process that came of it
(nginx's workers, the new binary of an upgrade) wherever it went in the tree. A keeper process, which
nobody's tree contains, waits for the end of this one: however that comes (a ctest timeout kills
with -9), it then kills the sessions that are left and removes their folders.
"""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time

_keeper = None

# A thousand connections, each with two ends in nginx and one here.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(16384, _hard), _hard))


def _tell(*words):
    global _keeper
    if _keeper is None or _keeper[0] != os.getpid():
        _keeper = (os.getpid(), _launch())
    os.write(_keeper[1], (" ".join(words) + "\n").encode())


def _launch():
    """Forks the keeper twice, so that it belongs to init, and returns the pipe it listens to."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(write)
        _keep(read)
        os._exit(0)
    os.close(read)
    os.waitpid(child, 0)
    return write


def _keep(read):
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, read)
    os.closerange(read + 1, 4096)
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    said = b""
    while piece := os.read(read, 4096):
        said += piece
    sessions, folders = set(), set()
    for line in said.decode().splitlines():
        verb, what = line.split(" ", 1)
        held = sessions if verb.endswith("session") else folders
        held.discard(what) if verb.startswith("-") else held.add(what)
    for sid in sessions:
        kill_session(int(sid))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def session(sid):
    """The living processes of a session: {pid: name}. Zombies are not living, unless a thread of theirs is
    and still holds what they had open."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        comm, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        gone = fields[0] in "ZX" and int(fields[17]) <= 1
        if int(fields[3]) == sid and not gone:
            found[int(name)] = comm
    return found


def kill_session(sid, patience_s=5.0):
    """Kills every process of the session, each by its pid, until none is left."""
    deadline = time.monotonic() + patience_s
    while pids := session(sid):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def start(argv, **kwargs):
    """subprocess.Popen in a new session that the keeper knows. End it with `stop`."""
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    process = subprocess.Popen([str(a) for a in argv], start_new_session=True, **kwargs)
    _tell("+session", str(process.pid))
    return process


def stop(process):
    """Kills what is left of the session that `start` began."""
    kill_session(process.pid)
    process.wait()
    _tell("-session", str(process.pid))


def folder(prefix, where=None):
    """A temporary folder that workers who are not root may enter; `forget` removes it."""
    path = tempfile.mkdtemp(prefix=f"weirtest-{prefix}-", dir=where)
    os.chmod(path, 0o755)
    _tell("+folder", path)
    return path


def forget(path):
    shutil.rmtree(path, ignore_errors=True)
    _tell("-folder", path)
