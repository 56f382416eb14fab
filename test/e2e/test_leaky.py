"""The leaky bucket's queue: order, pace, places, and clients that do not wait.

Pace is asserted from below only: the k-th request that leaves a queue does so no earlier than k intervals
after the first request was *sent*, for it cannot have been decided before that. That holds however slow the
machine is. SLACK_NS allows for the clock being adjusted: the module reads CLOCK_REALTIME, the tests
CLOCK_MONOTONIC, and these may be slewed against each other by 500 ppm; a millisecond is ten times that.
"""

import math
import os
import signal
import time

import pytest
from weirtest import H2, WRAP, Client, Nginx, Traffic, by_user, message, patience, tally, volley, wait_for

SLACK_NS = 1_000_000
MS = 1_000_000
# How often something is tried again that the machine was too slow for.
TRIES = 20

# Places a second in the tests that count who gets one. Slower under a wrapper: everything must have been
# decided before the second place falls due, or there is room for more.
PLACES = {"": 4, "asan": 3, "valgrind": 1}[WRAP]
INTERVAL_NS = 1000 * MS // PLACES

# X-Left is when nginx let the request go, by the time of that turn of its loop.
SERVER = """
	proxy_set_header Connection "";
	proxy_set_header Host $http_host;
	proxy_set_header X-Left $msec;
	location / { weir on; add_header X-Result $weir_result always; add_header X-Delay $weir_delay always;
		proxy_pass http://api; }
	location /warm { add_header X-Worker $pid always; alias {prefix}/html/index.html; }
	location /dry { weir on; weir_dry_run on; add_header X-Result $weir_result always; proxy_pass http://api; }
"""


def leaky(per_second, queue):
    return by_user(f"{{unit: second, requests_per_unit: {per_second}, algorithm: leaky_bucket, "
                   f"queue_size: {queue}}}")


class Row:
    """Connections that nginx has accepted already; asking on them one after the other makes requests
    arrive in that order, since epoll hands out sockets in the order they became readable."""

    def __init__(self, nginx, count):
        self.nginx = nginx
        self.clients = [Client(nginx.port) for _ in range(count)]
        for c in self.clients:
            assert c.get("/warm").status == 200
        self.sent_ns = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for c in self.clients:
            c.close()

    def ask(self, user, target="/r/{}"):
        for i, c in enumerate(self.clients):
            self.sent_ns.append(time.monotonic_ns())
            c.send("GET", target.format(i), {"X-User": user})

    def decided(self):
        """All that was asked is, for sure: an answer to something that was sent later is here."""
        assert self.nginx.get("/warm").status == 200

    def was_prompt(self):
        """Whether all that was asked was decided within an interval of the first."""
        self.decided()
        return time.monotonic_ns() < self.sent_ns[0] + INTERVAL_NS

    def read(self):
        return [c.read() for c in self.clients]


def never_early(records, sent_ns, interval_ns):
    """Every prefix of what left keeps the rate; `sent_ns` is when the first request was sent."""
    for k, record in enumerate(records):
        earliest = sent_ns + k * interval_ns - SLACK_NS
        assert record.ns >= earliest, f"request {k} left {(earliest - record.ns) / MS} ms early"


def number(record):
    """At the end of its target."""
    return int(record.target.rsplit("/", 1)[1])


def left_at(record):
    """In seconds."""
    return float(record.get("X-Left"))


def by_leaving(records):
    """In the order in which nginx let them go. Of a worker that the machine held up several leave in one turn, on
    connections of their own, of which the API may read any first: those are in the order of their numbers."""
    return sorted(records, key=lambda r: (left_at(r), number(r)))


def order(records):
    """The numbers at the end of the targets, in the order in which nginx let them go."""
    return [number(r) for r in by_leaving(records)]


def ten_at_once(nginx, api):
    """Sends ten, with another user each time until the machine was quick enough to be judged: all were decided within
    an interval, and refusals were read before the last waiter could leave."""
    for attempt in range(TRIES):
        api.reset()
        with Row(nginx, 10) as row:
            row.ask(f"user-{attempt}")
            prompt = row.was_prompt()
            last = [c.read() for c in row.clients[5:]]
            refused_ns = time.monotonic_ns()
            first = [c.read() for c in row.clients[:5]]
        if prompt and refused_ns < row.sent_ns[0] + 4 * INTERVAL_NS - SLACK_NS:
            return row.sent_ns[0], first + last, refused_ns
    raise AssertionError(f"the machine was too slow {TRIES} times")


def test_3_ten_at_once(api):
    """ACCEPTANCE 3: queue 4, one per 250 ms, ten at once: 1 leaves, 4 wait, 5 are refused at once: they
    know before the last waiter has left. (Under a wrapper an interval is longer.)"""
    with Nginx(rules=leaky(PLACES, 4), conf_server=SERVER, api=api) as nginx:
        sent_ns, answers, refused_ns = ten_at_once(nginx, api)
    assert [r.status for r in answers] == [200] * 5 + [429] * 5
    assert [r.get("X-Result") for r in answers] == ["ADMITTED"] + ["DELAYED"] * 4 + ["REFUSED"] * 5
    records = api.records()
    assert order(records) == [0, 1, 2, 3, 4]
    never_early(records, sent_ns, INTERVAL_NS)
    assert refused_ns < records[4].ns
    # The first did not wait, the others did: places are an interval apart, and they came within one.
    # Told in ms, rounded up.
    delays = [float(r.get("X-Delay")) * 1000 for r in answers[:5]]
    assert delays[0] == 0
    for k, delay in enumerate(delays):
        assert (k - 1) * INTERVAL_NS / MS < delay <= math.ceil(k * 1000 / PLACES) + 0.001


@pytest.mark.parametrize("pattern", ["at once", "pipelined", "trickling", "bursts"])
def test_the_rate_is_never_exceeded(api, pattern):
    """However requests arrive, 20 ms lie between two that leave, on the whole way."""
    with Nginx(rules=leaky(50, 40), conf_server=SERVER, api=api) as nginx:
        start = time.monotonic_ns()
        if pattern == "at once":
            shots = volley(nginx.port, [("GET", f"/r/{i}", {"X-User": "a"}) for i in range(30)])
            assert tally(shots) == {200: 30}
        elif pattern == "pipelined":
            with nginx.client() as c:
                for i in range(10):
                    c.send("GET", f"/r/{i}", {"X-User": "a"})
                assert [c.read().status for _ in range(10)] == [200] * 10
            assert order(api.records()) == list(range(10))
        elif pattern == "trickling":
            with nginx.client() as c:
                for i in range(15):
                    assert c.get(f"/r/{i}", {"X-User": "a"}).status == 200
        else:
            for _ in range(3):
                shots = volley(nginx.port, [("GET", f"/r/{i}", {"X-User": "a"}) for i in range(8)])
                assert tally(shots) == {200: 8}
        never_early(api.records(), start, 20 * MS)


def test_a_worker_that_was_held_up_lets_nobody_go_early(api):
    """Two requests of one turn of nginx's loop, two and a half seconds apart: between them it is held up by a log
    that nobody reads. The second one's wait is counted from when it was decided, not from when the turn began."""
    rules = by_user("{period: 4s, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 4}")
    server = SERVER + "location /logged { access_log {prefix}/log.pipe; alias {prefix}/html/index.html; }"
    with Nginx(rules=rules, conf_server=server, api=api, start=False) as nginx:
        os.mkfifo(nginx.prefix / "log.pipe")
        pipe = os.open(nginx.prefix / "log.pipe", os.O_RDWR | os.O_NONBLOCK)
        try:
            nginx.start()
            full = fill(pipe)
            start = time.monotonic_ns()
            assert nginx.get("/r/0", {"X-User": "a"}).status == 200
            with nginx.client() as c:
                c.raw(message("GET", "/logged") + message("GET", "/r/1", {"X-User": "a"}))
                assert c.read().status == 200
                time.sleep(2.5)
                assert len(os.read(pipe, full)) == full
                assert c.read().status == 200
        finally:
            os.close(pipe)
    never_early(api.records(), start, 4000 * MS)
    assert order(api.records()) == [0, 1]


def fill(pipe):
    """Writes until nothing more fits; returns how much that was."""
    written = 0
    try:
        while True:
            written += os.write(pipe, bytes(4096))
    except BlockingIOError:
        return written


def test_queues_are_by_key(api):
    """Who has a queue of his own does not wait for others."""
    with Nginx(rules=leaky(2, 4), conf_server=SERVER, api=api) as nginx:
        for attempt in range(TRIES):
            api.reset()
            with Row(nginx, 3) as row:
                row.ask(f"a{attempt}")
                assert nginx.get("/r/9", {"X-User": f"b{attempt}"}).get("X-Result") == "ADMITTED"
                prompt = time.monotonic_ns() < row.sent_ns[0] + 900 * MS
                assert [r.status for r in row.read()] == [200] * 3
            if prompt:  # before the last of the others could leave
                break
        assert prompt, f"the machine was too slow {TRIES} times"
        arrived = order(api.records())  # the first of each may have met on the way
        assert [n for n in arrived if n != 9] == [0, 1, 2] and arrived.index(9) < 3


def test_across_workers_the_outflow_is_one(api):
    """Four workers, queue 20, one per 25 ms, 31 at once: 21 leave, 10 are refused."""
    with Nginx(rules=leaky(40, 20), workers=4, reuseport=True, conf_server=SERVER.replace(
            "add_header X-Result", "add_header X-Worker $pid always; add_header X-Result"),
            api=api) as nginx:
        seen = set()
        wait_for(lambda: seen.add(nginx.get("/warm").get("X-Worker")) or len(seen) == 4,
                 "an answer of each worker", every=0)
        start = time.monotonic_ns()
        shots = volley(nginx.port, [("GET", f"/r/{i}", {"X-User": "a"}) for i in range(31)])
        # When the last of them was decided, at the latest: who was delayed was decided so much earlier.
        took_ns = max(s.done_ns - int(float(s.response.get("X-Delay") or 0) * 1000 - 1) * MS for s in shots) - start
        # A machine so slow that places became free while requests arrived admits that many more.
        free_again = took_ns // (25 * MS)
        counts = tally(shots)
        assert 21 <= counts[200] <= 21 + free_again
        assert sum(counts.values()) == counts[200] + counts.get(429, 0) == 31
        assert len({s.response.get("X-Worker") for s in shots}) >= 3
        never_early(api.records(), start, 25 * MS)


# ---- clients that leave ----

def leaving(api, who, leave):
    """Two users have queues that are alike, each 1 + 4 requests; of `a`, the waiter `who` leaves. Then
    `a` asks once more, and must get the free place before the queue has moved by itself: if that took
    longer than an interval, it says nothing and is tried again. `b` is the measure: nothing of `b` may
    have changed. Returns what left of each."""
    for _ in range(TRIES):
        api.reset()
        with Nginx(rules=leaky(PLACES, 4), conf_server=SERVER, api=api) as nginx:
            with Row(nginx, 5) as left, Row(nginx, 5) as stays:
                start = time.monotonic_ns()
                left.ask("a", "/a/{}")
                stays.ask("b", "/b/{}")
                full = nginx.get("/a/9", {"X-User": "a"}).status == 429
                assert full or time.monotonic_ns() > start + INTERVAL_NS
                leave(left.clients[who])
                asked_ns = wait_for_place(nginx)
                for i, c in enumerate(left.clients):
                    if i != who:
                        assert c.read().status == 200
                assert [r.status for r in stays.read()] == [200] * 5
        a = [r for r in api.records() if r.target.startswith("/a/")]
        b = [r for r in api.records() if r.target.startswith("/b/")]
        never_early(a, start, INTERVAL_NS)
        never_early(b, start, INTERVAL_NS)
        if asked_ns < start + INTERVAL_NS:
            return by_leaving(a), by_leaving(b)
    raise AssertionError(f"no place became free before the queue moved, {TRIES} times")


def wait_for_place(nginx):
    """Asks until it is let in and served: the place of the one who left is free once nginx noticed.
    Returns when the request was sent that got it."""
    def ask():
        sent_ns = time.monotonic_ns()
        return sent_ns if nginx.get("/a/9", {"X-User": "a"}).status == 200 else None
    return wait_for(ask, "a free place", every=0)


@pytest.mark.parametrize("who, how", [(1, "reset"), (2, "closed"), (3, "reset")])
def test_later_waiters_move_up(api, who, how):
    """The place of a client that left is not left empty: those behind it go one place earlier each, in
    order, and the last place is free for somebody new."""
    a, b = leaving(api, who, lambda c: c.vanish() if how == "reset" else c.close())
    rest = [i for i in range(5) if i != who]
    assert order(a) == rest + [9]
    assert order(b) == [0, 1, 2, 3, 4]
    # Whoever stood behind the leaver went a place earlier than his neighbour in the untouched queue.
    for place in range(who, 4):
        assert left_at(a[place]) <= left_at(b[place + 1]), f"{a[place].target} did not move up"


def test_the_last_waiter_leaves(api):
    a, b = leaving(api, 4, lambda c: c.vanish())
    assert order(a) == [0, 1, 2, 3, 9]
    assert order(b) == [0, 1, 2, 3, 4]


def test_all_leave(api):
    """Everybody in the queue leaves; the queue is empty and takes four again."""
    with Nginx(rules=leaky(2, 4), conf_server=SERVER, api=api) as nginx:
        for attempt in range(TRIES):
            api.reset()
            user = {"X-User": f"user-{attempt}"}
            with Row(nginx, 5) as row:
                row.ask(user["X-User"])
                for c in row.clients[1:]:
                    c.vanish()
                nginx.get("/warm")  # nginx has seen it
                prompt = time.monotonic_ns() < row.sent_ns[0] + 500 * MS
                refused, served = four_wait(nginx, user)
            if prompt:  # before the first of them could leave the queue
                break
        assert prompt, f"the machine was too slow {TRIES} times"
        assert set(refused) <= {429} and served == [200] * len(served)
        assert order(api.records())[:1] == [0]
        assert order(api.records()).count(9) == len(served) >= 4
        assert not {1, 2, 3, 4} & set(order(api.records()))


def four_wait(nginx, user):
    """Asks one by one until four new ones have been let in: the statuses of those who were refused, and of the others."""
    refused, waiting = [], []

    def ask():
        c = Client(nginx.port)
        c.send("GET", "/r/9", user)
        nginx.get("/warm")  # this was sent later: a refusal is there by now
        c.socket.settimeout(0.01)
        try:
            status = c.read().status
        except TimeoutError:
            status = None
        if status in (None, 200):
            waiting.append((c, status))
        else:
            refused.append(status)
            c.close()
        return sum(status is None for _, status in waiting) == 4
    wait_for(ask, "four places in the queue", every=0)
    served = []
    for c, status in waiting:
        c.socket.settimeout(patience(20))
        served.append(status or c.read().status)
        c.close()
    return refused, served


def test_h2_streams_wait_and_leave(api):
    """Streams of one connection wait like connections do; one that is reset gives up its place."""
    with Nginx(rules=leaky(PLACES, 4), conf_server=SERVER, api=api, h2c=True) as nginx:
        for attempt in range(TRIES):
            api.reset()
            user = {"X-User": f"user-{attempt}"}
            with H2(nginx.h2c_port) as c:
                start = time.monotonic_ns()
                ids = [c.send("GET", f"/a/{i}", user) for i in range(6)]
                c.get("/warm")
                prompt = time.monotonic_ns() < start + INTERVAL_NS
                sixth = c.read(ids[5]).status
                c.cancel(ids[2])
                c.get("/warm")
                prompt = prompt and time.monotonic_ns() < start + INTERVAL_NS
                c.read(again := c.send("GET", "/a/9", user))
                served = [c.read(i).status for i in (*ids[:2], *ids[3:5], again)]
            if prompt:
                break
    assert prompt, f"the machine was too slow {TRIES} times"
    assert sixth == 429
    assert served == [200] * 5
    assert order(api.records()) == [0, 1, 3, 4, 9]


def test_a_connection_with_waiting_streams_vanishes(api):
    """All four places are free at once: four more get in where otherwise none would."""
    with Nginx(rules=leaky(PLACES, 4), conf_server=SERVER, api=api, h2c=True) as nginx:
        for attempt in range(TRIES):
            api.reset()
            user = {"X-User": f"user-{attempt}"}
            c = H2(nginx.h2c_port)
            start = time.monotonic_ns()
            ids = [c.send("GET", f"/a/{i}", user) for i in range(5)]
            assert c.read(ids[0]).status == 200
            c.close()
            nginx.get("/warm")
            with H2(nginx.h2c_port) as c:
                ids = [c.send("GET", f"/b/{i}", user) for i in range(4)]
                c.get("/warm")
                prompt = time.monotonic_ns() < start + INTERVAL_NS
                statuses = [c.read(i).status for i in ids]
            if prompt:
                break
    assert prompt, f"the machine was too slow {TRIES} times"
    assert statuses == [200] * 4
    assert api.count("/a/") == 1 and api.count("/b/") >= 4


def test_a_waiter_may_send_its_next_request(api):
    """Pipelined bytes behind a waiting request are no sign of a client that left."""
    with Nginx(rules=leaky(10, 4), conf_server=SERVER, api=api) as nginx, nginx.client() as c:
        for i in range(4):
            c.send("POST", f"/r/{i}", {"X-User": "a"}, b"body %d" % i)
        assert [c.read().status for _ in range(4)] == [200] * 4
        assert order(api.records()) == [0, 1, 2, 3]


def test_bodies_of_waiters_arrive_whole(api):
    """What a client sends while it waits reaches the API as it was sent."""
    with Nginx(rules=leaky(10, 4), conf_server="client_max_body_size 4m;" + SERVER, api=api) as nginx:
        shots = volley(nginx.port, [("POST", "/r/0?echo=1", {"X-User": "a"}, b"x" * 300000)] * 4)
        assert tally(shots) == {200: 4}
        assert all(b'"body_bytes": 300000' in s.response.body for s in shots)


def test_dry_run_delays_nobody(api):
    """Counted as if: the first admitted, four delayed, the sixth refused, and all of them served though
    an hour lies between two places."""
    rules = by_user("{unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 4}")
    with Nginx(rules=rules, conf_server=SERVER, api=api) as nginx:
        seen = [nginx.get(f"/dry/{i}", {"X-User": "a"}) for i in range(7)]
    assert [r.status for r in seen] == [200] * 7
    assert [r.get("X-Result") for r in seen] == [
        "ADMITTED", *["DELAYED_DRY_RUN"] * 4, *["REFUSED_DRY_RUN"] * 2]
    assert api.count("/dry") == 7


# ---- nginx ends or changes while requests wait ----

def test_quit_lets_waiters_finish(api):
    with Nginx(rules=leaky(5, 8), conf_server=SERVER, api=api) as nginx, Row(nginx, 8) as row:
        row.ask("a")
        row.decided()  # a connection whose request nginx has not read yet is idle, and would be closed
        os.kill(nginx.master, signal.SIGQUIT)
        answers = row.read()
        assert [r.status for r in answers] == [200] * 8
        assert order(api.records()) == list(range(8))
        never_early(api.records(), row.sent_ns[0], 200 * MS)


def test_reload_lets_waiters_finish_in_one_queue_with_the_new(api):
    """The old worker's waiters and the new worker's share a queue: the rate holds over both, and the new
    ones' places are behind the eight. Slower under a wrapper, so that there is a queue when they come."""
    rate = {"": 10, "asan": 5, "valgrind": 2}[WRAP]
    interval_ns = 1000 * MS // rate
    with Nginx(rules=leaky(rate, 20), conf_server=SERVER, api=api) as nginx, Row(nginx, 8) as row:
        row.ask("a")
        row.decided()
        nginx.reload()
        shots = volley(nginx.port, [("GET", f"/r/{i}", {"X-User": "a"}) for i in range(8, 12)])
        assert tally(shots) == {200: 4}
        assert [r.status for r in row.read()] == [200] * 8
        records = api.records()
        never_early(records, row.sent_ns[0], interval_ns)
        # Each worker keeps the order; which of them was held up is not theirs to say.
        old, new = ([r for r in records if (number(r) >= 8) == is_new] for is_new in (False, True))
        assert order(old) == list(range(8))
        assert sorted(order(new)) == [8, 9, 10, 11]
        never_early(new, row.sent_ns[0] + 8 * interval_ns, interval_ns)


def test_terminate_with_waiters(api):
    """SIGTERM does not wait; the clients see their connections end, and nothing else happens."""
    with Nginx(rules=leaky(1, 8), conf_server=SERVER, api=api) as nginx, Row(nginx, 5) as row:
        row.ask("a")
        row.decided()
        os.kill(nginx.master, signal.SIGTERM)
        wait_for(lambda: not nginx.processes(), "nginx to end")


def test_waiting_under_changing_rules(api):
    """Requests that wait keep their places when rules change under them, however often."""
    with Nginx(rules=leaky(10, 10), conf_server=SERVER, api=api) as nginx:
        with Traffic(nginx.port, ["/r/1"], connections=6, headers={"X-User": "a"}) as traffic:
            for n in range(4):
                traffic.wait(2)
                before = nginx.logged("generation")
                nginx.write_rules(leaky(10, 10) + f"# {n}\n" + f"  - key: other{n}\n    rate_limit: {{unit: hour, requests_per_unit: 1}}\n")
                wait_for(lambda: nginx.logged("generation") > before, "new rules")
        assert traffic.lost == []
        assert set(traffic.statuses) == {200}
        assert api.count("/r/") == sum(traffic.statuses.values())
