"""`weir gateway` as a user starts it, in a folder and on a port of its own."""

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

from . import certificate, clock, env, keeper, places, tokens
from .http1 import Client, fetch
from .nginx import _BAD
from .ports import free_port
from .serve import where_it_hangs
from .waiting import wait_for

# Everything is limited, but so widely that only tests who mean it meet a limit. Years, whose end no test meets.
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

# What a new nginx says while workers of one that was killed still listen; it tries again for 2.5 s.
STILL_BOUND = [r"bind\(\) to \S+ failed \(98: Address already in use\)"]


def variables(folder, **more):
    """The environment for `weir gateway`: nothing of the test run's own WEIR_…. Under asan its nginx is a
    script that preloads the runtime; `nginx -t` frees nothing, so leaks are looked for in `weir` alone,
    and in nginx by the module's tests. Reports are in folder/reports."""
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
        # By its own name, which nginx runs again when it is upgraded, without its environment.
        script.write_text(f'#!/bin/bash\n{exports}exec -a "$0" {env.NGINX} "$@"\n', encoding="ascii")
        script.chmod(0o755)
        clean["WEIR_NGINX"] = str(script)
    return {**clean, **wrapped, **more}


class Gateway:
    """`with Gateway(api.port) as gateway:` runs `weir gateway` before an API server; options are given as
    a user would write them.

    .port, .folder, .output()          where it is, what it said
    .get, .request, .client()          as Nginx has them
    .master(), .workers()              nginx's processes; .pid is the gateway's own
    .wait_workers(count)               nginx's master says that it runs before it has started them
    .renew_workers()                   a reload, until all workers are new ones
    .signal(number), .wait(seconds)    to the gateway; its exit code
    At the end it gets SIGTERM and must be gone with all its processes. With start=False nothing is started before .start().
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
        self.bare = bare  # options as they are, none added
        self.wants_start = start
        self.prefix = []  # before the command line
        self.table = f"weirtest-{self.port}"
        self.process = None
        self.sessions = set()

    def __enter__(self):
        self.folder = Path(keeper.folder("gateway"))
        self.rules = self.folder / "rules.yaml"
        self.rules.write_text(self.rules_text, encoding="utf-8")
        self.runtime = self.folder / "run"
        self.reports = self.folder / "reports"
        self.variables()
        places.begin(self.table)
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
            print(f"weir gateway, beside the failure above, said:\n{self.said[-8000:]}", file=sys.stderr)
        if kind is None:
            assert code in (0, None), f"weir gateway ended with {code}:\n{self.said}"
            assert not left, f"left behind: {left}\n{self.said}"
            assert not trouble, trouble

    def left(self, failed):
        """What outlives the gateway. Workers that it has killed, or told to end since their master was gone, may take a
        moment."""
        def living():
            return {s: found for s in self.sessions if (found := keeper.session(s))}
        if not failed:
            with contextlib.suppress(AssertionError):
                wait_for(lambda: not living(), "all processes to end")
        return living()

    def _clean(self):
        self.said = self.output()
        for session in self.sessions:
            keeper.kill_session(session)
            keeper.unwatch(session)
        if self.process:
            keeper.stop(self.process)
        places.end(self.table)
        keeper.forget(str(self.folder))

    def command(self):
        if self.bare:
            return [env.WEIR, "gateway", *self.options]
        return [*self.prefix, env.WEIR, "gateway", "--upstream", self.upstream, "--listen", self.listen, "--rules",
                self.rules, "--runtime", self.runtime, "--table", self.table, "--memory",
                "1M", "--workers", "2", *self.user(), *self.options]

    def user(self):
        """Where root runs the tests, the service and nginx's workers are somebody else: --user, which is to be had on
        every machine."""
        return [] if os.geteuid() != 0 or "--user" in self.options else ["--user", "nobody"]

    def variables(self):
        return variables(self.folder, **self.environment)

    def start(self):
        """Starts it, anew if need be, and waits until it is ready."""
        before = len(self.output())
        with open(self.folder / "output", "ab") as out:
            self.process = keeper.start(self.command(), stdout=out, stderr=out, cwd=self.folder,
                                        env=self.variables())
        wait_for(lambda: self.process.poll() is not None
                 or "weir gateway is ready" in self.output()[before:], "the gateway to be ready", 30)
        assert self.process.poll() is None, self.output()
        tokens.learn(self.output())
        self.note_session()

    def note_session(self):
        """nginx has a session of its own, which the keeper must know."""
        session = os.getsid(self.master())
        if session not in self.sessions:
            keeper.watch(session)
            self.sessions.add(session)

    def run(self, *options):
        """Runs it to its end, as when it cannot start: (exit code, output)."""
        self.options += [str(o) for o in options]
        done = subprocess.run([str(c) for c in self.command()], capture_output=True, text=True,
                              timeout=env.patience(30), cwd=self.folder, env=self.variables(), check=False)
        return done.returncode, done.stdout + done.stderr

    # ---- looking ----

    @property
    def pid(self):
        return self.process.pid

    def master(self, other_than=None):
        """The pid in nginx.pid, and not `other_than`. nginx creates the file before it writes the pid, and the gateway
        removes the file of an nginx that died."""
        def written():
            try:
                text = (self.runtime / "nginx.pid").read_text(encoding="ascii").strip()
            except FileNotFoundError:
                return None
            return text if text != str(other_than) else None
        return int(wait_for(written, "nginx.pid to be written"))

    def workers(self):
        """Of the nginx that runs now, in its session."""
        master = self.master()
        return {pid for pid in keeper.session(os.getsid(master)) if pid != master}

    def wait_workers(self, count=2):
        wait_for(lambda: len(self.workers()) == count, f"{count} workers")

    def renew_workers(self):
        before = self.workers()
        times = len(re.findall("nginx loads the new configuration", self.output()))
        self.signal(signal.SIGHUP)
        self.wait_said("nginx loads the new configuration", times + 1)
        wait_for(lambda: (now := self.workers()) and not now & before, "new workers")

    def output(self):
        path = self.folder / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_said(self, pattern, times=1, seconds=20):
        wait_for(lambda: len(re.findall(pattern, self.output())) >= times, f"{pattern!r} to be said",
                 seconds)

    def tables(self):
        found = re.findall(r"^  table     (/\S+),", self.output(), re.M)
        return [Path(p) for p in set(found)]

    def trouble(self):
        lines = [line for line in self.output().splitlines()
                 if _BAD.search(line) and not any(re.search(a, line) for a in self.allow)]
        for report in sorted(self.reports.iterdir()):
            text = report.read_text(errors="replace")
            if text.strip():
                lines.append(f"{report.name}:\n{text}")
        return "\n".join(lines[:30])

    # ---- acting ----

    def write_rules(self, text):
        """Replaces the file in one step: whoever watches it never finds half of it."""
        fresh = self.rules.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(self.rules)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self, seconds=30):
        try:
            return self.process.wait(env.patience(seconds))
        except subprocess.TimeoutExpired:
            hangs = [where_it_hangs(pid) for s in (self.pid, *self.sessions) for pid in keeper.session(s)]
            raise AssertionError(f"the gateway does not end:\n{self.output()}{''.join(hangs)}") from None

    def client(self, **kwargs):
        return Client(self.port, tls=self.tls, **kwargs)

    def get(self, target="/", headers=(), **kwargs):
        return self.request("GET", target, headers, **kwargs)

    def request(self, method, target, headers=(), body=None, **kwargs):
        return fetch(self.port, method, target, headers, body, tls=self.tls, **kwargs)


class Listener:
    """A TCP server for one behaviour that Api has not: `serve(connection)` runs in a thread for each
    connection. `with Listener(serve) as server:` … server.port"""

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
        self.thread.join()  # else it might go on with a socket of the same number
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


def read_head(connection):
    """The head of a request, as text, and what came behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError("no request")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin-1"), rest


def authority(folder, names="DNS:api.test"):
    """ca.pem, and a certificate for api.test, or other names, signed by it: api.pem, api-key.pem."""
    certificate.authority(folder)
    certificate.signed(folder, "api", names)
