"""Orders: an API server that keeps its record through kill -9, clients that send orders, and checks of the delivered
orders."""

import collections
import json
import os
import re
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import env, programs
from .http1 import Client, Closed
from .ports import free_port
from .waiting import wait_for


@dataclass
class Seen:
    """A request as the API server received it. `wall_ns` is the wall clock, or the test's clock. `answered_ns` is 0 if
    the server sent no response."""
    serial: str
    ns: int
    wall_ns: int
    method: str
    target: str
    bytes: int
    sha256: str
    headers: list = field(default_factory=list)
    answered_ns: int = 0

    def get(self, name):
        """Returns the value of a header field, or None. Several values are joined by `, `."""
        values = [v for k, v in self.headers if k.lower() == name.lower()]
        return ", ".join(values) if values else None

    @property
    def order(self):
        """Returns (key, number) of /orders/KEY/NUMBER."""
        _, _, key, number = self.target.split("?")[0].split("/")
        return key, int(number)

    @property
    def is_deferred(self):
        return self.get("x-weir-deferred") is not None


class Orders:
    """`with Orders() as api:` is an API server on a port of its own; orderserver.py lists its options.

    .port                        the same after a restart
    .seen(prefix="")             the requests in order of arrival (Seen)
    .wait_seen(n, prefix="")     waits for this many requests
    .wait_read()                 waits until it has read all bytes sent to it
    .plan(prefix, *answers)      its responses to targets with this prefix, in order; the last one is repeated:
                                 a status or a dict; without answers the default applies again
    .release(name)               answers the requests that {"hold": name} holds
    .kill(), .start()            kill -9; a restart keeps the record but not the plans
    .reset()                     for the next test of a file: the server runs, without records and plans
    """

    def __init__(self, start=True):
        self.folder = programs.temp_folder("orders")
        self.port = free_port()
        self.process = None
        self.wants_start = start
        self._lines, self._at, self._rest = {}, 0, b""
        self._lock = threading.Lock()

    def __enter__(self):
        try:
            if self.wants_start:
                self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.kill()
        programs.remove_folder(self.folder)

    def start(self):
        here = str(Path(__file__).resolve().parents[1])
        self.process = programs.start(
            ["/usr/bin/python3", "-B", "-m", "weirtest.orderserver", self.folder, self.port],
            env={**os.environ, "PYTHONPATH": here}, stdout=sys.stderr)
        wait_for(self._is_up, "the order server to start")

    def _is_up(self):
        assert self.process.poll() is None, "the order server has ended"
        try:
            return self._order(do="ping")
        except OSError:
            return False

    def kill(self):
        if self.process:
            programs.stop(self.process)
            self.process = None

    def reset(self):
        """Call it after all gateways of the earlier test have exited."""
        if not self.process:
            self.start()
        self.wait_read()
        self._order(do="forget")
        with self._lock:
            self._lines, self._at = {}, 0

    def _order(self, **order):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(env.patience(20))
            s.connect(f"{self.folder}/control.sock")
            s.sendall(json.dumps(order).encode() + b"\n")
            return json.loads(s.makefile("rb").readline())

    def plan(self, prefix, *answers):
        self._order(do="plan", prefix=prefix, answers=[{"status": a} if isinstance(a, int) else a for a in answers])

    def release(self, name):
        self._order(do="release", name=name)

    def seen(self, prefix=""):
        with self._lock:
            self._read()
            return [one for one in self._lines.values() if one.target.startswith(prefix)]

    def wait_seen(self, count, prefix="", seconds=30):
        wait_for(lambda: len(self.seen(prefix)) >= count, f"{count} orders {prefix} to arrive", seconds)
        return self.seen(prefix)

    def wait_read(self, seconds=30):
        """Waits until the server has read all bytes, including bytes of peers that have exited: these bytes wait in the
        kernel while the server is slow."""
        def is_read():
            rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
            return all(int(row[4].split(":")[1], 16) == 0 for row in rows if int(row[1].split(":")[1], 16) == self.port)

        wait_for(is_read, "the order server to read all bytes", seconds)
        self._order(do="ping")  # the record now contains everything that the server has read

    def _read(self):
        path = Path(self.folder, "record")
        if not path.exists():
            return
        with open(path, "rb") as f:
            f.seek(self._at)
            data = f.read()
        end = data.rfind(b"\n") + 1
        self._at += end
        for line in data[:end].splitlines():
            try:
                one = json.loads(line)
            except ValueError:  # the server was killed while it wrote this line, so it has not answered
                continue
            if one.pop("do") == "seen":
                self._lines[one["serial"]] = Seen(**one)
            elif one["serial"] in self._lines:  # a request of this test
                self._lines[one["serial"]].answered_ns = one["ns"]


# ---- clients ----

@dataclass
class SentOrder:
    """The result of an order: its last status, or None if the connection broke and the result is unknown."""
    key: str
    number: int
    status: int
    ns: int
    ticket: str = ""


class OrderClients:
    """`with OrderClients(ports, keys, each) as clients:` has a thread for each key, which sends `each` orders, one
    after the other, to the ports in turn. An order that is refused (429: the queue is full) or cannot connect is sent
    again. An order without a response is not sent again, since it may have arrived. Neither is an order refused with
    the reason `away`, since a broken connection between a worker and the service has the same reason.

    .sent         list of SentOrder
    .allow(n)     lets each thread send its first n orders (`first` sets n at the start)
    .wait()       waits until all orders have been sent; .wait_sent(n): waits until n orders have a result
    .refusals     {reason of a 429: count}"""

    def __init__(self, ports, keys, each, body=b"one, please", pause_s=0.02, first=None):
        self.ports, self.each, self.body, self.pause_s = list(ports), each, body, pause_s
        self._allowed, self._more = each if first is None else first, threading.Condition()
        self.sent, self.refusals = [], collections.Counter()
        self.began_ns = time.monotonic_ns()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(key, i), daemon=True) for i, key in enumerate(keys)]
        self.failure = None

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self.allow(self.each)
        for thread in self._threads:
            thread.join(env.patience(30))

    def allow(self, count):
        with self._more:
            self._allowed = count
            self._more.notify_all()

    def wait(self, seconds=60):
        wait_for(lambda: self.failure or self.is_over(), "all orders to be sent", seconds, every=0.05)
        assert not self.failure, self.failure

    def is_over(self):
        """Returns whether all orders have been sent and have a result."""
        return not any(t.is_alive() for t in self._threads)

    def wait_sent(self, count, seconds=60):
        wait_for(lambda: self.failure or len(self.sent) >= count, f"{count} orders to be answered", seconds)
        assert not self.failure, self.failure

    def accepted(self):
        """Returns the orders with a 202: {(key, number): SentOrder}."""
        return {(b.key, b.number): b for b in list(self.sent) if b.status == 202}

    def _run(self, key, turn):
        clients = {}
        try:
            for number in range(self.each):
                with self._more:
                    self._more.wait_for(lambda number=number: number < self._allowed)
                while not self._stop.is_set():
                    port = self.ports[turn % len(self.ports)]
                    turn += 1
                    if self._one(clients, port, key, number):
                        break
                    self._stop.wait(self.pause_s)
        except BaseException as e:  # an exception of a thread would otherwise be lost
            self.failure = repr(e)
            raise
        finally:
            for client in clients.values():
                client.close()

    def _one(self, clients, port, key, number):
        """Sends an order. Returns True if it has a final result."""
        try:
            client = clients.get(port) or clients.setdefault(port, Client(port))
        except OSError:
            return False
        status, ticket = None, ""
        try:
            response = client.request("POST", f"/orders/{key}/{number}", {"X-User": key}, self.body)
            status, ticket = response.status, response.get("x-weir-ticket", "")
        except (Closed, OSError):
            pass
        if status is None or response.get("connection", "").lower() == "close":
            clients.pop(port).close()
        if status == 429:
            reason = reason_of(response)
            with self._lock:
                self.refusals[reason] += 1
            if reason != "away":
                return False
            self._stop.wait(self.pause_s)
        with self._lock:
            self.sent.append(SentOrder(key, number, status, time.monotonic_ns(), ticket))
        return True


def reason_of(response):
    """Returns the reason why a refused order was not deferred; "" if there is none."""
    try:
        return json.loads(response.body).get("not-deferred", "")
    except ValueError:
        return ""


# ---- checks ----

def by_key(seen):
    """Returns the requests of each key: {key: [Seen]}."""
    sorted_out = collections.defaultdict(list)
    for one in seen:
        sorted_out[one.order[0]].append(one)
    return sorted_out


def check_none_lost(seen, accepted):
    """Checks that the API has answered every accepted order."""
    answered, arrived = {one.order for one in seen if one.answered_ns}, {one.order for one in seen}
    lost = sorted(set(accepted) - answered)
    assert not lost, (f"{len(lost)} of {len(accepted)} accepted orders were never answered by the API: {lost[:10]}, "
                      f"{len(set(lost) & arrived)} of them have arrived there")


def check_order(seen, bought, statuses=(202, 2)):
    """Checks that the orders of each key arrive in the order of sending. This covers orders with a 202, and orders
    that were forwarded at once: they must not overtake a queued order. The result of other orders is unknown. An order
    may arrive again, but not after its successor."""
    known = {(b.key, b.number) for b in bought if b.status and (b.status in statuses or b.status // 100 in statuses)}
    for key, arrivals in by_key(seen).items():
        numbers = [one.order[1] for one in arrivals if one.order in known]
        wrong = [(a, b) for a, b in zip(numbers, numbers[1:]) if b < a]
        assert not wrong, f"orders of {key} out of order: {wrong[:10]} in {numbers}; {story(arrivals, wrong[0])}"


def story(arrivals, numbers):
    """Returns the history of some orders, for the message of a failure."""
    return [(one.order[1], one.ns, "kept" if one.is_deferred else "direct", one.get("idempotency-key"))
            for one in arrivals if one.order[1] in numbers]


def check_rate(seen, since_ns, burst, per_second):
    """Checks that at every moment no more requests of a key have arrived than its token bucket has admitted. A request
    arrives after its admission, so this holds at every moment on any machine."""
    for key, arrivals in by_key(seen).items():
        for count, one in enumerate(arrivals, 1):
            most = burst + per_second * (one.ns - since_ns) / 1e9
            assert count <= most, f"{key}: {count} orders after {(one.ns - since_ns) / 1e9:.3f} s, at most {most:.1f}"


def check_pace(seen, since, interval):
    """Checks that of each key one request arrives at once and at most one more in each interval, by the test's clock
    in seconds."""
    for key, arrivals in by_key(seen).items():
        for count, one in enumerate(arrivals):
            passed_us = one.wall_ns // 1000 - round(since * 1e6)
            assert count * round(interval * 1e6) <= passed_us, f"{key}: {count + 1} orders after {passed_us / 1e6} s"


def check_copies(seen, faults=(), at_a_time=0):
    """Checks that all copies of an order have the same Idempotency-Key, and no other order has it. The API did not
    answer any copy but the last, or a fault hit a process that had to receive or record the answer. So each fault
    causes at most `at_a_time` copies of answered orders. A fault is (start, end, …) in ns."""
    owners, copies = {}, collections.defaultdict(list)
    for one in seen:
        if one.is_deferred:
            name = one.get("idempotency-key")
            assert name and owners.setdefault(name, one.order) == one.order, f"{one.order} and {owners.get(name)}: {name}"
            copies[one.order].append(one)
    answered = 0
    for order, times in copies.items():
        assert len({one.get("idempotency-key") for one in times}) == 1, f"{order}: keys differ"
        assert len({one.sha256 for one in times}) == 1, f"{order}: bodies differ"
        for one, after in zip(times, times[1:]):
            if one.answered_ns:
                answered += 1
                assert any(fault[0] <= after.ns and fault[1] >= one.ns for fault in faults), \
                    f"{order} came {len(times)} times though it was answered and nothing failed"
    assert answered <= at_a_time * len(faults), f"{answered} copies of answered orders, {len(faults)} faults"


TICKET = re.compile(r"[0-9a-f]{32}|[A-Za-z0-9_-]{22}")
