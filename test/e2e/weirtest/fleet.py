"""Nodes of a fleet, each a `weir serve` with a table of its own on a common Redis, and load that counts what they admit."""

import collections
import json
import math
import threading
import time

from . import env, keeper
from .http1 import fetch
from .resp import Error, Resp, command
from .serve import Serve
from .waiting import wait_for


class Node(Serve):
    """A Serve with --redis. `url` as Redis.url() and the others give it; `timeout` of questions is so long that a
    busy machine is no fault, unless a test is about timeouts.

    .ask(key, value)       one question over RESP: its answer as a dict
    .store()               what /v1/status says of Redis, up to a second old
    .wait_up()             until Redis is asked and answers: the status says so, and a question about a new value of
                           the key `probe`, whose rule denies without Redis, is admitted
    """

    def __init__(self, url, rules, timeout="10s", args=(), probe="five", **kwargs):
        self.probe = probe
        # In memory, as everywhere but in tests: a page of a table on a disk that is busy may be long in writing.
        self.shared = keeper.folder("table", "/dev/shm")
        kwargs.setdefault("table", self.shared)
        kwargs = {"resp": True, "admin": True, **kwargs}
        args = ["--redis", url, "--redis-timeout", timeout, "--refunds", "127.0.0.0/8", *args]
        super().__init__(rules=rules, args=args, **kwargs)

    def _end(self):
        keeper.forget(self.shared)
        return super()._end()

    def connect(self):
        return Resp(self.resp_port or self._path("resp"))

    def _path(self, name):
        """Of a port that is a Unix socket."""
        return self.addresses[name].removeprefix("unix:")

    def ask(self, *words, domain="api", connection=None):
        if connection:
            return answer(connection.call("WEIR.CHECK", domain, *words))
        with self.connect() as fresh:
            return answer(fresh.call("WEIR.CHECK", domain, *words))

    def verdicts(self, *words, times):
        """Of so many questions, one after the other: [True, True, False] …"""
        with self.connect() as connection:
            return [self.ask(*words, connection=connection)["verdict"] == "admit" for _ in range(times)]

    def status(self):
        found = fetch(self.admin_port or self._path("admin"), "GET", "/v1/status")
        assert found.status == 200, found
        return json.loads(found.body)

    def store(self):
        return self.status()["store"]

    def faults(self):
        """{kind: how many} of those that happened, but for the script that the first one has to send."""
        return {kind: n for kind, n in self.store()["faults"].items() if kind != "noscript"}

    def is_up(self):
        store = self.store()
        return store["state"] == "up" and store["secret"] != "unknown"

    def wait_up(self, seconds=30):
        wait_for(lambda: self.is_up() and self.ask(self.probe, f"probe-{time.monotonic_ns()}")["verdict"] == "admit",
                 "Redis to be up", seconds, every=0.02)

    def wait_fault(self, kind, seconds=30):
        wait_for(lambda: self.faults().get(kind), f"a fault {kind!r}", seconds, every=0.02)


def answer(reply):
    """A reply to WEIR.CHECK as a dict; anything else is a failed request."""
    if isinstance(reply, Error) or not isinstance(reply, list):
        raise AssertionError(f"no decision: {reply!r}")
    return dict(zip(reply[::2], reply[1::2]))


def order(node, what, **body):
    """An operator's: reset, grant, ban."""
    done = fetch(node.admin_port, "POST", f"/v1/key/{what}", {"Content-Type": "application/json"},
                 json.dumps(body).encode())
    assert done.status == 200, done


def alternate(nodes, *words, times):
    """So many questions, each to the next node in turn; [True, …]."""
    lines = [node.connect() for node in nodes]
    try:
        return [nodes[i % len(nodes)].ask(*words, connection=lines[i % len(nodes)])["verdict"] == "admit"
                for i in range(times)]
    finally:
        for line in lines:
            line.close()


def wait_exact(nodes, limit=5, key="five"):
    """Until a new value of the key is admitted `limit` times and then refused, over all nodes in turn. Never more; fewer
    only as long as a node does not reach Redis, or was too late because the machine was busy."""
    def exact():
        verdicts = alternate(nodes, key, f"exact-{time.monotonic_ns()}", times=limit + 3)
        assert sum(verdicts) <= limit, verdicts
        return verdicts == [True] * limit + [False] * 3
    wait_for(exact, f"the limit of {limit} to hold for all nodes together", 20)


class Hammer:
    """Asks nodes about the values `u0` … of a key, in turn, until the end of the block.

    turns           each thread asks so many questions and then halts until it is told to go on: whoever has to do something
                    before all is used up can be held up as long as it takes
    .go_on()        on for ever; .go_on(n): each thread asks n more
    .round()        each thread asks about every value once more, and halts; returns when all have
    .wait(n)        until n more answers have come, or all threads have halted
    .admitted       {value: how many}
    .answers        how many came; .failures those that did not, or were no decision
    .slow           answers that took longer than HANG: (when it was asked, value, seconds, node's port)
    """

    HANG = env.patience(10)  # seconds. Timeouts are a fraction of it, and the rest is for a busy machine

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
        """Waits for its turn; False at the end."""
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

    `slow_from`: once so many are admitted, each thread asks one at a time, ten a second, until `go_on`: what a test does
    in the middle of a limit happens there, however long it is held up, and leases are in use meanwhile."""

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
        """kill -9."""
        self.killed.append(node)
        node.kill()

    def go_on(self, slow_from=None):
        self.slow_from = slow_from

    def total(self):
        return sum(self.admitted)

    def wait(self, admitted, seconds=60):
        wait_for(lambda: self.total() >= admitted or self.errors, f"{admitted} to be admitted", seconds)

    def wait_refused(self, more=50, seconds=60):
        """Until nobody has been admitted for a while, at any node: one may have a lease that its clients, whom the machine
        keeps waiting, have not spent."""
        def over():
            before, asked = self.total(), list(self.asked)
            wait_for(lambda: self.errors or all(now >= then + more for now, then, node in zip(self.asked, asked, self.nodes)
                                                if node not in self.killed), f"{more} more answers of each", seconds)
            return self.total() == before
        wait_for(over, "the limit to be reached", seconds)
