"""`weir gateway` as a user starts it, in its own folder and on its own port."""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from . import certificate, clock, env, programs, runtime_paths, tokens
from .http1 import Client, fetch
from .nginx import _BAD
from .ports import free_port
from .serve import thread_states
from .waiting import wait_for

# Every path has a limit. Only tests of limits reach it. The unit is a year, so that no window ends during a test.
RULES = """
domain: api
requests:
  - descriptor: [{key: everyone, value: together}]
  - when: {path: "/few/*"}
    descriptor: [{key: client, from: remote_address}]
  - when: {path: "/mine/*"}
    descriptor: [{key: user, from: identity, missing: deny}]
descriptors:
  - key: everyone
    value: together
    rate_limit: {unit: year, requests_per_unit: 1000000}
  - key: client
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
"""

# The message of a new nginx while workers of a killed nginx still listen. nginx retries for 2.5 s.
STILL_BOUND = [r"bind\(\) to \S+ failed \(98: Address already in use\)"]


def variables(folder, **more):
    """Returns the environment for `weir gateway`, without the WEIR_… variables of the test run. Under asan its nginx
    is a script that preloads the runtime. `nginx -t` frees no memory, so the leak check covers only `weir` here; the
    module's tests cover nginx. Reports are in folder/reports."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("WEIR_", "XDG_"))}
    reports = Path(folder) / "reports"
    reports.mkdir(exist_ok=True)
    reports.chmod(0o777)
    wrapped = env.wrapper(reports)[1]
    script = Path(folder) / "nginx"
    if preload := wrapped.pop("LD_PRELOAD", None):
        words = {**wrapped, "ASAN_OPTIONS": wrapped["ASAN_OPTIONS"] + ":detect_leaks=0", "LD_PRELOAD": preload}
        if clock.current:
            words = clock.current.variables(words)
        exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in words.items())
        # nginx executes this name again at an upgrade, without its environment, so the script passes its own name.
        script.write_text(f'#!/bin/bash\n{exports}exec -a "$0" {env.NGINX} "$@"\n', encoding="ascii")
        script.chmod(0o755)
        clean["WEIR_NGINX"] = str(script)
    return {**clean, **wrapped, **more}


class Gateway:
    """`with Gateway(api.port) as gateway:` runs `weir gateway` in front of an API server; options are given as
    a user would write them.

    .port, .folder, .output()          its port, its folder, its output
    .get, .request, .client()          as in Nginx
    .master(), .workers()              nginx's processes; .pid is the gateway's own
    .wait_workers(count)               waits until so many workers run; nginx is ready before they run
    .renew_workers()                   reloads and waits until all workers are new
    .signal(number), .wait(seconds)    signals the gateway; waits and returns its exit code
    At the end it gets SIGTERM and must exit with all its processes. With start=False, .start() starts it.
    """

    def __init__(self, upstream, *options, rules=RULES, listen=None, environment=None, tls=False,
                 allow=(), bare=False, start=True):
        self.upstream = f"http://127.0.0.1:{upstream}" if isinstance(upstream, int) else upstream
        self.options = [str(o) for o in options]
        self.rules_text = rules
        self.port = free_port()
        self.listen = listen or f"127.0.0.1:{self.port}"
        self.environment = environment or {}
        self.tls = tls
        self.allow = list(allow)
        self.bare = bare  # use `options` unchanged
        self.wants_start = start
        self.prefix = []  # words before the command line
        self.table = f"weirtest-{self.port}"
        self.process = None
        self.sessions = set()

    def __enter__(self):
        self.folder = Path(programs.temp_folder("gateway"))
        self.rules = self.folder / "rules.yaml"
        self.rules.write_text(self.rules_text, encoding="utf-8")
        self.runtime = self.folder / "run"
        self.reports = self.folder / "reports"
        self.variables()
        runtime_paths.register(self.table)
        try:
            if self.wants_start:
                self.start()
        except BaseException:
            self._clean()
            raise
        return self

    def __exit__(self, kind, *_):
        code, left, trouble = None, {}, ""
        try:
            if self.process and self.process.poll() is None:
                self.signal(signal.SIGTERM)
                code = self.wait()
            left = self.left(kind)
            trouble = self.trouble()
        finally:
            self._clean()
        if kind is not None:
            print(f"weir gateway, beside the failure above:\n{self.last_output[-8000:]}", file=sys.stderr)
        if kind is None:
            assert code in (0, None), f"weir gateway ended with {code}:\n{self.last_output}"
            assert not left, f"left behind: {left}\n{self.last_output}"
            assert not trouble, trouble

    def left(self, failed):
        """Returns the processes that outlive the gateway. Workers that it has killed, or has ended after their master
        died, may take a moment to exit."""
        def living():
            return {s: found for s in self.sessions if (found := programs.session(s))}
        if not failed:
            with contextlib.suppress(AssertionError):
                wait_for(lambda: not living(), "all processes to end")
        return living()

    def _clean(self):
        self.last_output = self.output()
        for session in self.sessions:
            programs.kill_session(session)
            programs.unwatch(session)
        if self.process:
            programs.stop(self.process)
        runtime_paths.remove(self.table)
        programs.remove_folder(str(self.folder))

    def command(self):
        """Returns the command line of the gateway."""
        if self.bare:
            return [env.WEIR, "gateway", *self.options]
        return [*self.prefix, env.WEIR, "gateway", "--upstream", self.upstream, "--listen", self.listen, "--rules",
                self.rules, "--runtime", self.runtime, "--table", self.table, "--memory",
                "1M", "--workers", "2", *self.user(), *self.options]

    def user(self):
        """Returns the --user option if root runs the tests. The service and nginx's workers then run as a user that
        exists on every machine."""
        return [] if os.geteuid() != 0 or "--user" in self.options else ["--user", "nobody"]

    def variables(self):
        return variables(self.folder, **self.environment)

    def start(self):
        """Starts or restarts the gateway and waits until it is ready."""
        before = len(self.output())
        with open(self.folder / "output", "ab") as out:
            self.process = programs.start(self.command(), stdout=out, stderr=out, cwd=self.folder,
                                        env=self.variables())
        wait_for(lambda: self.process.poll() is not None
                 or "weir gateway is ready" in self.output()[before:], "the gateway to be ready", 30)
        assert self.process.poll() is None, self.output()
        tokens.read_from(self.output())
        self.register_session()

    def register_session(self):
        """Registers nginx's own session for the cleanup."""
        session = os.getsid(self.master())
        if session not in self.sessions:
            programs.watch(session)
            self.sessions.add(session)

    def run(self, *options):
        """Runs the command until it exits, for starts that fail. Returns (exit code, output)."""
        self.options += [str(o) for o in options]
        done = subprocess.run([str(c) for c in self.command()], capture_output=True, text=True,
                              timeout=env.patience(30), cwd=self.folder, env=self.variables(), check=False)
        return done.returncode, done.stdout + done.stderr

    # ---- observe ----

    @property
    def pid(self):
        return self.process.pid

    def master(self, other_than=None):
        """Returns the pid in nginx.pid. Waits until the file exists, has a pid, and the pid differs from `other_than`:
        nginx creates the file before it writes the pid, and the gateway removes the file of an nginx that died."""
        def written():
            try:
                text = (self.runtime / "nginx.pid").read_text(encoding="ascii").strip()
            except FileNotFoundError:
                return None
            return text if text != str(other_than) else None
        return int(wait_for(written, "nginx.pid to be written"))

    def workers(self):
        """Returns the workers of the current nginx, by its session."""
        master = self.master()
        return {pid for pid in programs.session(os.getsid(master)) if pid != master}

    def wait_workers(self, count=2):
        wait_for(lambda: len(self.workers()) == count, f"{count} workers")

    def renew_workers(self):
        before = self.workers()
        times = len(re.findall("nginx loads the new configuration", self.output()))
        self.signal(signal.SIGHUP)
        self.wait_output("nginx loads the new configuration", times + 1)
        wait_for(lambda: (now := self.workers()) and not now & before, "new workers")

    def output(self):
        path = self.folder / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_output(self, pattern, times=1, seconds=20):
        """Waits until the output matches the pattern this many times."""
        wait_for(lambda: len(re.findall(pattern, self.output())) >= times, f"{pattern!r} in the output",
                 seconds)

    def tables(self):
        """Returns the paths of the tables that the output names."""
        found = re.findall(r"^  table     (/\S+),", self.output(), re.M)
        return [Path(p) for p in set(found)]

    def trouble(self):
        """Returns unexpected messages of the output and reports of sanitizers."""
        lines = [line for line in self.output().splitlines()
                 if _BAD.search(line) and not any(re.search(a, line) for a in self.allow)]
        for report in sorted(self.reports.iterdir()):
            text = report.read_text(errors="replace")
            if text.strip():
                lines.append(f"{report.name}:\n{text}")
        return "\n".join(lines[:30])

    # ---- act ----

    def write_rules(self, text):
        """Replaces the file in one step, so that a watcher never reads half of it."""
        fresh = self.rules.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(self.rules)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self, seconds=30):
        try:
            return self.process.wait(env.patience(seconds))
        except subprocess.TimeoutExpired:
            hangs = [thread_states(pid) for s in (self.pid, *self.sessions) for pid in programs.session(s)]
            raise AssertionError(f"the gateway does not end:\n{self.output()}{''.join(hangs)}") from None

    def client(self, **kwargs):
        return Client(self.port, tls=self.tls, **kwargs)

    def get(self, target="/", headers=(), **kwargs):
        return self.request("GET", target, headers, **kwargs)

    def request(self, method, target, headers=(), body=None, **kwargs):
        return fetch(self.port, method, target, headers, body, tls=self.tls, **kwargs)


class Listener:
    """A TCP server for a behaviour that Api does not have: `serve(connection)` runs in a thread for each connection.

        `with Listener(serve) as server:` … server.port"""

    def __init__(self, serve, wrap=None, port=0):
        self.serve = serve
        self.wrap = wrap
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.socket.listen(64)
        self.port = self.socket.getsockname()[1]
        self.connections = []

    def __enter__(self):
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()  # the thread could otherwise use a new socket with the same descriptor
        self.socket.close()
        for connection in self.connections:
            connection.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        try:
            with (self.wrap(connection) if self.wrap else connection) as c:
                c.settimeout(env.patience(20))
                self.serve(c)
        except OSError:
            pass


def shout(connection):
    """For Listener: accepts a WebSocket, and sends all bytes back in upper case, until they are `bye`."""
    read_head(connection)
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    while (data := connection.recv(4096)) and data != b"bye":
        connection.sendall(data.upper())


def read_head(connection):
    """Returns the head of a request as text, and the bytes after it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError("no request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


def authority(folder, names="DNS:api.test"):
    """Creates ca.pem, and a certificate for api.test or other names, signed by it: api.pem, api-key.pem."""
    certificate.authority(folder)
    certificate.signed(folder, "api", names)
