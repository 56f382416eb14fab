"""Nodes of a fleet: each is a `weir serve` with its own table and a common Redis. Load generators count the admitted
requests."""

import collections
import json
import math
import threading
import time

from . import env, programs
from .http1 import fetch
from .resp import Error, Resp, command
from .serve import Serve
from .waiting import wait_for


class Node(Serve):
    """A Serve with --redis. `url` comes from Redis.url() etc. The `timeout` of questions is so long that a
    busy machine does not exceed it.

    .ask(key, value)       one question over RESP: its answer as a dict
    .store()               the state of Redis in /v1/status, up to a second old
    .wait_up()             waits until Redis answers: the status reports it, and a question about a new value of
                           the key `probe`, whose rule denies without Redis, is admitted
    """

    def __init__(self, url, rules, timeout="10s", args=(), probe="five", **kwargs):
        self.probe = probe
        # The table is in memory, as in production: on a busy disk, writing a page may take long.
        self.shared = programs.temp_folder("table", "/dev/shm")
        kwargs.setdefault("table", self.shared)
        kwargs = {"resp": True, "admin": True, **kwargs}
        args = ["--redis", url, "--redis-timeout", timeout, "--refunds", "127.0.0.0/8", *args]
        super().__init__(rules=rules, args=args, **kwargs)

    def _end(self):
        programs.remove_folder(self.shared)
        return super()._end()

    def connect(self):
        """Returns a RESP connection to the node."""
        return Resp(self.resp_port or self._path("resp"))

    def _path(self, name):
        """Returns the path of a port that is a Unix socket."""
        return self.addresses[name].removeprefix("unix:")

    def ask(self, *words, domain="api", connection=None):
        if connection:
            return answer(connection.call("WEIR.CHECK", domain, *words))
        with self.connect() as fresh:
            return answer(fresh.call("WEIR.CHECK", domain, *words))

    def verdicts(self, *words, times):
        """Sends `times` questions one after the other. Returns [True, True, False] …"""
        with self.connect() as connection:
            return [self.ask(*words, connection=connection)["verdict"] == "admit" for _ in range(times)]

    def status(self):
        """Returns the JSON of /v1/status."""
        found = fetch(self.admin_port or self._path("admin"), "GET", "/v1/status")
        assert found.status == 200, found
        return json.loads(found.body)

    def store(self):
        return self.status()["store"]

    def faults(self):
        """Returns {kind: count} of faults, without `noscript`, which the first question always causes."""
        return {kind: n for kind, n in self.store()["faults"].items() if kind != "noscript"}

    def is_up(self):
        """Returns whether the node reaches Redis and knows the fleet's secret."""
        store = self.store()
        return store["state"] == "up" and store["secret"] != "unknown"

    def wait_up(self, seconds=30):
        wait_for(lambda: self.is_up() and self.ask(self.probe, f"probe-{time.monotonic_ns()}")["verdict"] == "admit",
                 "Redis to be up", seconds, every=0.02)

    def wait_fault(self, kind, seconds=30):
        """Waits until the node has counted a fault of this kind."""
        wait_for(lambda: self.faults().get(kind), f"a fault {kind!r}", seconds, every=0.02)


def answer(reply):
    """Returns a reply to WEIR.CHECK as a dict. Any other reply is a failed request."""
    if isinstance(reply, Error) or not isinstance(reply, list):
        raise AssertionError(f"no decision: {reply!r}")
    return dict(zip(reply[::2], reply[1::2]))


def order(node, what, **body):
    """Sends an operator's order: get, reset, grant, ban. Returns the JSON of the response."""
    done = fetch(node.admin_port, "POST", f"/v1/key/{what}", {"Content-Type": "application/json"},
                 json.dumps(body).encode())
    assert done.status == 200, done
    return json.loads(done.body)


def alternate(nodes, *words, times):
    """Sends `times` questions to the nodes in turn. Returns [True, …]."""
    lines = [node.connect() for node in nodes]
    try:
        return [nodes[i % len(nodes)].ask(*words, connection=lines[i % len(nodes)])["verdict"] == "admit"
                for i in range(times)]
    finally:
        for line in lines:
            line.close()


def wait_exact(nodes, limit=5, key="five"):
    """Waits until a new value of the key is admitted `limit` times and then refused, over all nodes in turn. Fails if
    a value is admitted more often. It may be admitted less often while a node does not reach Redis, or is late."""
    def exact():
        verdicts = alternate(nodes, key, f"exact-{time.monotonic_ns()}", times=limit + 3)
        assert sum(verdicts) <= limit, verdicts
        return verdicts == [True] * limit + [False] * 3
    wait_for(exact, f"the limit of {limit} to hold for all nodes together", 20)


class Hammer:
    """Asks nodes about the values `u0` … of a key, in turn, until the end of the block.

    turns           each thread asks this many questions and then pauses until go_on(). A test can act before
                    the limit is used up, however slow the machine is
    .go_on()        ends the pauses; .go_on(n): each thread asks n more questions
    .round()        each thread asks about every value once more and pauses; returns when all threads have done so
    .wait(n)        waits until n more answers have arrived, or all threads have paused
    .admitted       {value: count}
    .answers        the number of decisions; .failures: errors, and answers that are not decisions
    .slow           answers that took longer than HANG: (time of the question, value, seconds, node's port)
    """

    HANG = env.patience(10)  # seconds; a multiple of all timeouts, so that a busy machine does not exceed it

    def __init__(self, nodes, key, users=20, threads=4, pause=0.001, turns=math.inf):
        self.nodes, self.key, self.users, self.pause, self.turns = nodes, key, users, pause, turns
        self.admitted = collections.Counter()
        self.answers = 0
        self.slow = []
        self.failures = []
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._done = [0] * threads
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self.go_on()
        for thread in self._threads:
            thread.join(env.patience(30))

    def go_on(self, turns=math.inf):
        with self._changed:
            self.turns += turns
            self._changed.notify_all()

    def round(self, seconds=30):
        self.go_on(self.users)
        wait_for(lambda: self._halts() or self.failures, "all to have been asked about", seconds)

    def wait(self, more, seconds=30):
        target = self.answers + more
        wait_for(lambda: self.answers >= target or self._halts() or self.failures, f"{more} more answers", seconds)

    def total(self):
        with self._changed:
            return sum(self.admitted.values())

    def _halts(self):
        return min(self._done) >= self.turns

    def _may_go(self, number):
        """Waits until the thread may ask. Returns False at the end of the block."""
        with self._changed:
            self._changed.wait_for(lambda: self._done[number] < self.turns)
        return not self._stop.is_set()

    def _run(self, number):
        node = self.nodes[number % len(self.nodes)]
        turn = number
        with node.connect() as connection:
            while self._may_go(number):
                turn += 1
                value = f"u{turn % self.users}"
                began = time.monotonic()
                try:
                    admitted = node.ask(self.key, value, connection=connection)["verdict"] == "admit"
                except (AssertionError, OSError, EOFError) as e:
                    self.failures.append(repr(e))
                    return
                took = time.monotonic() - began
                with self._changed:
                    self.answers += 1
                    self.admitted[value] += admitted
                    self._done[number] += 1
                if took > self.HANG:
                    self.slow.append((time.strftime("%T"), value, round(took, 3), node.resp_port))
                self._stop.wait(self.pause)


class Load:
    """Asks nodes for one key in short pipelines until the end of the block: .admitted, .asked (lists by node).

    `slow_from`: after this many admissions, each thread asks one question at a time, ten a second, until `go_on`. A test
    acts in this phase, in the middle of a limit: leases are in use, and a slow machine does not use up the limit."""

    def __init__(self, nodes, *words, threads=2, depth=4, slow_from=None):
        self.nodes, self.words, self.depth, self.slow_from = nodes, words, depth, slow_from
        self.killed = []
        self.admitted, self.asked, self.errors = [0] * len(nodes), [0] * len(nodes), []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(i % len(nodes),), daemon=True)
                         for i in range(threads * len(nodes))]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(env.patience(60))
        if kind is None:
            assert not self.errors, self.errors

    def _run(self, number):
        one = command("WEIR.CHECK", "api", *self.words)
        try:
            with self.nodes[number].connect() as line:
                while not self._stop.is_set():
                    slow = self.slow_from is not None and self.total() >= self.slow_from
                    depth = 1 if slow else self.depth
                    line.send(one * depth)
                    verdicts = [answer(line.read())["verdict"] for _ in range(depth)]
                    with self._lock:
                        self.asked[number] += depth
                        self.admitted[number] += verdicts.count("admit")
                    if slow:
                        self._stop.wait(0.1)
        except (AssertionError, OSError, EOFError) as e:
            if self.nodes[number] not in self.killed:
                self.errors.append(repr(e))

    def kill(self, node):
        """Ends the node with kill -9."""
        self.killed.append(node)
        node.kill()

    def go_on(self, slow_from=None):
        self.slow_from = slow_from

    def total(self):
        return sum(self.admitted)

    def wait(self, admitted, seconds=60):
        wait_for(lambda: self.total() >= admitted or self.errors, f"{admitted} to be admitted", seconds)

    def wait_refused(self, more=50, seconds=60):
        """Waits until no node has admitted a request for a while. A node may still have a lease that its delayed
        clients have not used up."""
        def over():
            before, asked = self.total(), list(self.asked)
            wait_for(lambda: self.errors or all(now >= then + more for now, then, node in zip(self.asked, asked, self.nodes)
                                                if node not in self.killed), f"{more} more answers of each", seconds)
            return self.total() == before
        wait_for(over, "the limit to be reached", seconds)
