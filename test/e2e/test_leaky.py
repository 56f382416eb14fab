"""The leaky bucket's queue: positions, order, clients that disconnect, and rate.

Positions depend on the wall clock, which is that of the test: it stands still while requests arrive, so each request
is told an exact delay. In most tests two positions are an hour apart, and the test moves the clock from one to the next.
nginx reads the clock when the timer of the first request in a queue expires, and whenever a request joins or leaves
the queue. After a step of the clock the tests let one request join and leave (`look`), so no test waits for a timer.

Pace in real time is asserted from below only: the k-th request that leaves a queue does so no earlier than k intervals
after the first request was *sent*, for it cannot have been decided before that. That holds however slow the machine is.
SLACK_NS allows for the clock being adjusted: the module reads CLOCK_REALTIME, the tests CLOCK_MONOTONIC, and these may
be slewed against each other by 500 ppm; a millisecond is ten times that.
"""

import contextlib
import os
import re
import signal
import time

import pytest
from weirtest import (H2, TERMINATED, WRAP, Client, Nginx, Traffic, by_user, count_statuses, full, message, send_at_once,
                      wait_for)

SLACK_NS = 1_000_000
MS = 1_000_000
HOUR = 3600

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
    """Returns rules with a leaky bucket for each user."""
    return by_user(f"{{unit: second, requests_per_unit: {per_second}, algorithm: leaky_bucket, "
                   f"queue_size: {queue}}}")


def hourly(queue=4):
    """Returns rules with a leaky bucket for each user whose positions are an hour apart."""
    return by_user(f"{{unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: {queue}}}")


class AcceptedConnections:
    """Connections that nginx has accepted already. Requests on them arrive in order, since epoll returns sockets in the
    order in which they became readable."""

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
        """Returns when all requests are decided: the response to a later request has arrived."""
        for i, c in enumerate(self.clients):
            self.sent_ns.append(time.monotonic_ns())
            c.send("GET", target.format(i), {"X-User": user})
        assert self.nginx.get("/warm").status == 200

    def read(self):
        return [c.read() for c in self.clients]


def join(nginx, user, target):
    """Sends a request on its own connection and waits until it is decided. Returns the connection if the request waits
    in the queue, and None if it was refused."""
    delayed, refused = (rf'weir: {verdict}.*"GET {re.escape(target)} ' for verdict in ("delayed", "refused"))
    before = nginx.logged(delayed), nginx.logged(refused)
    client = Client(nginx.port)
    client.send("GET", target, {"X-User": user})
    wait_for(lambda: (nginx.logged(delayed), nginx.logged(refused)) != before, f"a decision about {target}", every=0.002)
    if nginx.logged(delayed) > before[0]:
        return client
    assert client.read().status == 429
    client.close()
    return None


def join_when_free(nginx, user, target):
    """Repeats join() until nginx has noticed the end of a connection with waiting streams."""
    return wait_for(lambda: join(nginx, user, target), "a free position in the queue", every=0)


def leave(nginx, client, target, how="reset"):
    """Disconnects the client of a waiting request. Returns when nginx has noticed."""
    gone = rf'client prematurely closed connection.*"GET {re.escape(target)} '
    before = nginx.logged(gone)
    client.vanish() if how == "reset" else client.close()
    wait_for(lambda: nginx.logged(gone) > before, f"nginx to notice that {target} left", every=0.002)


def make_nginx_read_the_clock(nginx, user):
    """Makes nginx look at the clock for this queue, which has a free position: a request joins it and leaves again."""
    leave(nginx, join(nginx, user, "/look"), "/look")


def check_rate(records, sent_ns, interval_ns):
    """Checks that every prefix of the forwarded requests keeps the rate. `sent_ns` is when the first request was
    sent."""
    for k, record in enumerate(records):
        earliest = sent_ns + k * interval_ns - SLACK_NS
        assert record.ns >= earliest, f"request {k} left {(earliest - record.ns) / MS} ms early"


def number(record):
    """Returns the number at the end of the target."""
    return int(record.target.rsplit("/", 1)[1])


def left_at(record):
    """Returns the time in seconds at which nginx forwarded the request."""
    return float(record.get("X-Left"))


def order(records):
    """Returns the numbers at the end of the targets, in the order in which nginx forwarded them. Requests forwarded in
    one turn of its loop use separate connections, and the API may read them in any order: these are sorted by
    number."""
    return [number(r) for r in sorted(records, key=lambda r: (left_at(r), number(r)))]


def schedule(api, prefix, start):
    """Returns [(number, hours after `start` at which nginx forwarded it)], in that order."""
    records = [r for r in api.records() if r.target.startswith(prefix)]
    return sorted(((number(r), (left_at(r) - start) / HOUR) for r in records), key=lambda pair: pair[::-1])


# ---- positions ----

def test_3_of_ten_at_once_one_leaves_four_wait_five_are_refused(clock, api):
    """ACCEPTANCE 3: queue 4, one per 250 ms, ten at once: 1 is forwarded, 4 wait, 5 are refused at once, while the
    clock stands still. The positions are 250 ms apart."""
    with Nginx(rules=leaky(4, 4), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 10) as row:
        row.ask("a")
        refused = [c.read() for c in row.clients[5:]]
        answers = []
        for c in row.clients[:5]:
            answers.append(c.read())
            clock.advance(0.25)
    assert [r.status for r in answers + refused] == [200] * 5 + [429] * 5
    assert [r.get("X-Result") for r in answers + refused] == ["ADMITTED"] + ["DELAYED"] * 4 + ["REFUSED"] * 5
    assert [r.get("X-Delay") for r in answers] == ["0.000", "0.250", "0.500", "0.750", "1.000"]
    assert {r.get("Retry-After") for r in refused} == {"1"}  # a position is free in 250 ms
    assert order(api.records()) == [0, 1, 2, 3, 4]


def test_each_request_is_forwarded_when_due(clock, api):
    """One queue per user. User b's queue is ten seconds ahead of a's. At each hour of b's queue its next request
    leaves, and none of a's; ten seconds later a's next request leaves. (A real timer of ten seconds does not expire in
    between.)"""
    with Nginx(rules=hourly(5), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 5) as a, AcceptedConnections(nginx, 5) as b:
        start = clock.now()
        b.ask("b", "/b/{}")
        clock.advance(10)
        a.ask("a", "/a/{}")
        for position in range(5):
            if position:
                clock.set(start + position * HOUR)
                make_nginx_read_the_clock(nginx, "a")  # too early
                make_nginx_read_the_clock(nginx, "b")
            assert b.clients[position].read().get("X-Delay") == f"{position * HOUR}.000"
            if position:
                clock.advance(10)
                make_nginx_read_the_clock(nginx, "a")
            assert a.clients[position].read().get("X-Delay") == f"{position * HOUR}.000"
    assert schedule(api, "/b/", start) == [(k, k) for k in range(5)]
    assert schedule(api, "/a/", start + 10) == [(k, k) for k in range(5)]


def test_each_key_has_its_own_queue(clock, api):
    """A user with an empty queue does not wait for others."""
    with Nginx(rules=hourly(), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 3) as row:
        row.ask("a")
        assert nginx.get("/r/9", {"X-User": "b"}).get("X-Result") == "ADMITTED"
        assert row.clients[0].read().get("X-Result") == "ADMITTED"
        assert sorted(order(api.records())) == [0, 9]
        clock.advance(2 * HOUR)
        make_nginx_read_the_clock(nginx, "a")
        assert [c.read().get("X-Result") for c in row.clients[1:]] == ["DELAYED"] * 2


def test_workers_share_one_queue(clock, api):
    """Four workers, queue 20, one per 25 ms, 31 at once: exactly 21 are forwarded and 10 are refused. No two get the
    same position, whichever workers they wait in."""
    with Nginx(rules=leaky(40, 20), workers=4, reuseport=True, conf_server=SERVER.replace(
            "add_header X-Result", "add_header X-Worker $pid always; add_header X-Result"),
            api=api) as nginx, AcceptedConnections(nginx, 31) as row:
        seen = set()
        wait_for(lambda: seen.add(nginx.get("/warm").get("X-Worker")) or len(seen) == 4,
                 "an answer of each worker", every=0)
        row.ask("a")
        nginx.wait_logged("weir: (delayed|refused)", 30)
        clock.advance(0.5)
        answers = row.read()
        assert [r.status for r in answers].count(200) == 21
        assert [r.status for r in answers].count(429) == 10
        assert sorted(r.get("X-Delay") for r in answers if r.status == 200) == [f"{k * 0.025:.3f}" for k in range(21)]
        assert len({r.get("X-Worker") for r in answers}) >= 3
    assert api.count("/r/") == 21


# ---- clients that disconnect ----

@pytest.mark.parametrize("who, how", [(1, "reset"), (2, "closed"), (3, "reset"), (4, "reset")])
def test_later_requests_move_up_when_a_client_disconnects(clock, api, who, how):
    """The position of a disconnected client is used: the requests behind it move up by one each, in order, and the last
    position is free. The queue of another user does not change."""
    with Nginx(rules=hourly(), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 5) as a, AcceptedConnections(nginx, 5) as b:
        start = clock.now()
        a.ask("a", "/a/{}")
        b.ask("b", "/b/{}")
        assert join(nginx, "a", "/a/9") is None
        leave(nginx, a.clients.pop(who), f"/a/{who}", how)
        a.clients.append(join(nginx, "a", "/a/9"))
        assert join(nginx, "a", "/a/10") is None
        for position in range(5):
            if position:
                clock.advance(HOUR)
                make_nginx_read_the_clock(nginx, "a")
                make_nginx_read_the_clock(nginx, "b")
            answer = a.clients[position].read()
            assert (answer.status, answer.get("X-Delay")) == (200, f"{position * HOUR}.000")
            answer = b.clients[position].read()
            assert (answer.status, answer.get("X-Delay")) == (200, f"{position * HOUR}.000")
    rest = [i for i in range(5) if i != who]
    assert schedule(api, "/a/", start) == [(n, k) for k, n in enumerate([*rest, 9])]
    assert schedule(api, "/b/", start) == [(k, k) for k in range(5)]


# A limit beside the queue, which five waiting requests have used up, and the step of the clock after which it is free
# again.
BESIDE = [pytest.param("{unit: minute, requests_per_unit: 5}", 29.5, 1, id="fixed_window"),
          pytest.param("{unit: second, requests_per_unit: 1, burst: 5, algorithm: token_bucket}", 0, 10, id="token_bucket")]


def rules_with_queue(limit):
    """Requests with X-Door wait in its queue. All count under the limit of X-User."""
    return by_user(limit).replace("requests:\n", "requests:\n  - descriptor: [{key: door, from: header.x-door}]\n") + """\
  - key: door
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 9}
"""


@pytest.mark.parametrize("limit, before, step", BESIDE)
def test_disconnected_client_returns_no_units_of_a_later_window(clock, api, limit, before, step):
    """Five requests wait in the queue and have used up their limit. Time passes: the next window has begun, or the
    bucket is full again. Five others use that up. Then the waiting clients disconnect, and no request is admitted for
    their earlier units."""
    user = {"X-User": "a"}
    with Nginx(rules=rules_with_queue(limit), conf_server=SERVER, api=api) as nginx, contextlib.ExitStack() as stack:
        clock.advance(before)
        assert nginx.get("/first", {"X-User": "b", "X-Door": "1"}).status == 200  # the requests behind it wait
        waiters = [stack.enter_context(contextlib.closing(Client(nginx.port))) for _ in range(5)]
        for i, c in enumerate(waiters):
            c.send("GET", f"/wait/{i}", {**user, "X-Door": "1"})
        nginx.wait_logged("weir: delayed", 5)
        assert nginx.get("/", user).status == 429
        clock.advance(step)
        assert nginx.get("/warm").status == 200
        assert [nginx.get("/", user).status for _ in range(6)] == [200] * 5 + [429]
        for i, c in enumerate(waiters):
            leave(nginx, c, f"/wait/{i}")
        assert [nginx.get("/", user).status for _ in range(5)] == [429] * 5
    assert api.count("/wait/") == 0


def test_queue_is_empty_after_all_clients_disconnect(clock, api):
    """All waiting clients disconnect. The queue is empty and accepts four again, not five."""
    with Nginx(rules=hourly(), conf_server=SERVER, api=api) as nginx:
        with AcceptedConnections(nginx, 5) as row:
            row.ask("a")
            for i, c in enumerate(row.clients[1:], 1):
                leave(nginx, c, f"/r/{i}")
            assert row.clients[0].read().status == 200
            four_join(nginx, clock, api)
        assert order(api.records()) == [0, 9, 9, 9, 9]


def four_join(nginx, clock, api):
    """Four requests of user a get a position, and a fifth is refused. Each of the four is served at its hour."""
    start, served = clock.now(), api.count()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(join_when_free(nginx, "a", "/r/9"))) for _ in range(4)]
        assert join(nginx, "a", "/r/10") is None
        for position, c in enumerate(clients, 1):
            clock.set(start + position * HOUR)
            make_nginx_read_the_clock(nginx, "a")
            assert c.read().get("X-Delay") == f"{position * HOUR}.000"
            assert api.count() == served + position


def test_http2_streams_wait_and_a_reset_frees_the_position(clock, api):
    """Streams of one connection wait like connections do. A stream that is reset frees its position."""
    user = {"X-User": "a"}
    with Nginx(rules=hourly(), conf_server=SERVER, api=api, h2c=True) as nginx, H2(nginx.h2c_port) as c:
        start = clock.now()
        ids = [c.send("GET", f"/a/{i}", user) for i in range(6)]
        assert c.read(ids[5]).status == 429
        c.cancel(ids[2])
        assert c.get("/warm").status == 200
        again = c.send("GET", "/a/9", user)
        assert c.request("GET", "/a/10", user).status == 429
        for position, stream in enumerate((*ids[:2], *ids[3:5], again)):
            if position:
                clock.advance(HOUR)
                make_nginx_read_the_clock(nginx, "a")
            answer = c.read(stream)
            assert (answer.status, answer.get("X-Delay")) == (200, f"{position * HOUR}.000")
    assert schedule(api, "/a/", start) == [(0, 0), (1, 1), (3, 2), (4, 3), (9, 4)]


def test_closed_http2_connection_frees_all_positions(clock, api):
    """All four positions become free: four more requests are accepted."""
    with Nginx(rules=hourly(), conf_server=SERVER, api=api, h2c=True) as nginx:
        c = H2(nginx.h2c_port)
        ids = [c.send("GET", f"/a/{i}", {"X-User": "a"}) for i in range(5)]
        assert c.read(ids[0]).status == 200
        nginx.wait_logged("weir: delayed", 4)
        assert join(nginx, "a", "/r/8") is None
        c.close()
        four_join(nginx, clock, api)
    assert api.count("/a/") == 1


def test_waiting_client_may_pipeline_its_next_request(api):
    """Pipelined bytes behind a waiting request do not count as a disconnect. The waits are in real time."""
    with Nginx(rules=leaky(25, 4), conf_server=SERVER, api=api) as nginx, nginx.client() as c:
        for i in range(4):
            c.send("POST", f"/r/{i}", {"X-User": "a"}, b"body %d" % i)
        assert [c.read().status for _ in range(4)] == [200] * 4
        assert order(api.records()) == [0, 1, 2, 3]


def test_bodies_of_waiting_requests_arrive_complete(clock, api):
    """The body that a client sends while it waits reaches the API unchanged. The clock starts to run when all four are
    decided."""
    with Nginx(rules=leaky(25, 4), conf_server="client_max_body_size 4m;" + SERVER, api=api) as nginx, \
            contextlib.ExitStack() as stack:
        clients = [stack.enter_context(nginx.client()) for _ in range(4)]
        for c in clients:
            c.send("POST", "/r/0?echo=1", {"X-User": "a"}, b"x" * 300000)
        nginx.wait_logged("weir: delayed", 3)
        clock.run()
        answers = [c.read() for c in clients]
        assert sorted(r.get("X-Delay") for r in answers) == ["0.000", "0.040", "0.080", "0.120"]
        assert all(r.status == 200 and b'"body_bytes": 300000' in r.body for r in answers)


def test_dry_run_delays_no_request(clock, api):
    """The first is counted as admitted, four as delayed, the sixth as refused. All of them are served at once, though
    positions are an hour apart."""
    del clock
    with Nginx(rules=hourly(), conf_server=SERVER, api=api) as nginx:
        seen = [nginx.get(f"/dry/{i}", {"X-User": "a"}) for i in range(7)]
    assert [r.status for r in seen] == [200] * 7
    assert [r.get("X-Result") for r in seen] == [
        "ADMITTED", *["DELAYED_DRY_RUN"] * 4, *["REFUSED_DRY_RUN"] * 2]
    assert api.count("/dry") == 7


# ---- nginx exits or reloads while requests wait ----

def test_quit_lets_waiting_requests_finish(clock, api):
    """The clock runs from the moment that the worker is shutting down."""
    with Nginx(rules=leaky(25, 8), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 8) as row:
        row.ask("a")
        os.kill(nginx.master, signal.SIGQUIT)
        nginx.wait_logged("gracefully shutting down")
        clock.run()
        answers = row.read()
        assert [r.status for r in answers] == [200] * 8
        assert [r.get("X-Delay") for r in answers] == [f"{k * 0.04:.3f}" for k in range(8)]
        assert order(api.records()) == list(range(8))


def test_requests_of_old_and_new_workers_share_a_queue(clock, api):
    """The waiting requests of the old and the new worker share a queue: new positions are behind the eight."""
    with Nginx(rules=leaky(25, 20), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 8) as row:
        row.ask("a")
        nginx.reload()
        with AcceptedConnections(nginx, 4) as new:
            new.ask("a", "/n/{}")
            clock.run()
            answers = row.read() + new.read()
            assert [r.status for r in answers] == [200] * 12
            assert [r.get("X-Delay") for r in answers] == [f"{k * 0.04:.3f}" for k in range(12)]
        assert order([r for r in api.records() if r.target.startswith("/r/")]) == list(range(8))
        assert order([r for r in api.records() if r.target.startswith("/n/")]) == list(range(4))


def test_sigterm_closes_waiting_requests(clock, api):
    """SIGTERM does not wait; the clients' connections are closed, and nothing else happens."""
    del clock
    with Nginx(rules=hourly(8), conf_server=SERVER, api=api, allow=TERMINATED) as nginx, AcceptedConnections(nginx, 5) as row:
        row.ask("a")
        assert row.clients[0].read().status == 200
        os.kill(nginx.master, signal.SIGTERM)
        wait_for(lambda: not nginx.processes(), "nginx to end")
        assert all(c.at_end() for c in row.clients[1:])
    assert api.count() == 1


def test_waiting_requests_keep_their_positions_when_rules_change(api):
    """Requests keep their positions when the rules change, however often."""
    with Nginx(rules=leaky(25, 10), conf_server=SERVER, api=api) as nginx:
        with Traffic(nginx.port, ["/r/1"], connections=6, headers={"X-User": "a"}) as traffic:
            for n in range(4):
                traffic.wait(2)
                before = nginx.logged("generation")
                nginx.write_rules(leaky(25, 10) + f"# {n}\n" + f"  - key: other{n}\n    rate_limit: {{unit: hour, requests_per_unit: 1}}\n")
                wait_for(lambda: nginx.logged("generation") > before, "new rules")
        assert traffic.lost == []
        assert set(traffic.statuses) == {200}
        assert api.count("/r/") == sum(traffic.statuses.values())


# ---- rate in real time ----

@full("measures the rate of a queue in real time")
@pytest.mark.parametrize("pattern", ["at once", "pipelined", "trickling", "bursts", "four workers"])
def test_rate_is_never_exceeded(api, pattern):
    """However requests arrive, 20 ms lie between two that are forwarded."""
    workers = 4 if pattern == "four workers" else 1
    with Nginx(rules=leaky(50, 40), conf_server=SERVER, api=api, workers=workers, reuseport=True) as nginx:
        start = time.monotonic_ns()
        if pattern in ("at once", "four workers"):
            results = send_at_once(nginx.port, [("GET", f"/r/{i}", {"X-User": "a"}) for i in range(30)])
            assert count_statuses(results) == {200: 30}
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
                results = send_at_once(nginx.port, [("GET", f"/r/{i}", {"X-User": "a"}) for i in range(8)])
                assert count_statuses(results) == {200: 8}
        check_rate(api.records(), start, 20 * MS)


@full("measures the rate of a queue in real time")
def test_rate_holds_over_a_reload(api):
    """The rate holds for the waiting requests of the old and the new worker together. The interval is longer under a
    wrapper, so that there is a queue when the new requests come."""
    rate = {"": 10, "asan": 5, "valgrind": 2}[WRAP]
    interval_ns = 1000 * MS // rate
    with Nginx(rules=leaky(rate, 20), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 8) as row:
        row.ask("a")
        nginx.reload()
        results = send_at_once(nginx.port, [("GET", f"/r/{i}", {"X-User": "a"}) for i in range(8, 12)])
        assert count_statuses(results) == {200: 4}
        assert [r.status for r in row.read()] == [200] * 8
        records = api.records()
        check_rate(records, row.sent_ns[0], interval_ns)
        new = [r for r in records if number(r) >= 8]
        check_rate(new, row.sent_ns[0] + 8 * interval_ns, interval_ns)


@full("measures the rate of a queue in real time")
def test_rate_holds_while_nginx_quits(api):
    with Nginx(rules=leaky(5, 8), conf_server=SERVER, api=api) as nginx, AcceptedConnections(nginx, 8) as row:
        row.ask("a")
        os.kill(nginx.master, signal.SIGQUIT)
        assert [r.status for r in row.read()] == [200] * 8
        assert order(api.records()) == list(range(8))
        check_rate(api.records(), row.sent_ns[0], 200 * MS)


@full("delays a worker for 2.5 s of real time")
def test_delayed_worker_forwards_no_request_early(api):
    """Two requests of one turn of nginx's loop, two and a half seconds apart: between them a blocked log delays the
    worker. The wait of the second one begins at its decision, not at the beginning of the turn."""
    rules = by_user("{period: 4s, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 4}")
    server = SERVER + "location /logged { access_log {prefix}/log.pipe; alias {prefix}/html/index.html; }"
    with Nginx(rules=rules, conf_server=server, api=api, start=False) as nginx:
        os.mkfifo(nginx.prefix / "log.pipe")
        pipe = os.open(nginx.prefix / "log.pipe", os.O_RDWR | os.O_NONBLOCK)
        try:
            nginx.start()
            filled = fill(pipe)
            start = time.monotonic_ns()
            assert nginx.get("/r/0", {"X-User": "a"}).status == 200
            with nginx.client() as c:
                c.raw(message("GET", "/logged") + message("GET", "/r/1", {"X-User": "a"}))
                assert c.read().status == 200
                time.sleep(2.5)
                assert len(os.read(pipe, filled)) == filled
                assert c.read().status == 200
        finally:
            os.close(pipe)
    check_rate(api.records(), start, 4000 * MS)
    assert order(api.records()) == [0, 1]


def fill(pipe):
    """Writes until the pipe is full. Returns the number of bytes."""
    written = 0
    try:
        while True:
            written += os.write(pipe, bytes(4096))
    except BlockingIOError:
        return written
