"""Limits whose counters are in Redis: nginx asks `weir serve` over a socket while the request is parked. The service
is a fake (weirtest/fakeserve.py) that can be late, send invalid replies, send half a reply, close, and stay silent.
The wall clock stands still, so no window ends within a test. Timeouts are real, and the tests wait for them."""

import contextlib
import os
import signal

import pytest
from weirtest import (H2, TERMINATED, WRAP, Nginx, Traffic, by_user, check_conf, count_statuses, full, patience,
                      send_at_once, send_pipelined, wait_for)
from weirtest.fakeserve import ADMITTED, FakeServe, answer, bulk

pytestmark = pytest.mark.usefixtures("clock")

FIVE = "{unit: year, requests_per_unit: 5}"
# A timeout that the tests wait for: longer than a busy machine delays a reply.
SHORT = f"{max(1000, int(patience(0.3) * 1000))}ms"

BACK = '"weir_central" is back'

SERVER = """
	keepalive_requests 100000;
	location / {
		weir on;
		add_header X-Result $weir_result always;
		add_header X-Remaining $weir_remaining always;
		add_header X-Limit $weir_limit always;
		add_header X-Delay $weir_delay always;
		proxy_pass http://api;
	}
	location /free { alias {prefix}/html/index.html; }
"""


def policy(on_store_failure, limit=5):
    """Returns rules with one limit per user and this on_store_failure."""
    return by_user(f"{{unit: year, requests_per_unit: {limit}, on_store_failure: {on_store_failure}}}")


def ready(nginx, workers=1):
    """Waits until every worker has the secret."""
    nginx.wait_logged('"weir_central" is (up|back)', workers)  # available, if its first reply was slow


def nginx_with(store, rules, **kwargs):
    return Nginx(rules=rules, conf_http=store.conf, conf_server=SERVER, **kwargs)


def parked(store, count):
    """Waits until the service has received this many questions."""
    wait_for(lambda: len(store.asked) >= count, f"{count} questions")


def test_reply_of_the_service_decides(api):
    """The client's response and the variables show the reply."""
    with FakeServe() as store, nginx_with(store, by_user(FIVE), api=api) as nginx:
        ready(nginx)
        store.reply = lambda message, usual: bulk(answer([(ADMITTED, 5, 3, 0, 0)]))
        r = nginx.get("/", {"X-User": "7"})
        assert (r.status, r.get("X-Result"), r.get("X-Limit"), r.get("X-Remaining")) == (
            200, "ADMITTED", "5", "3")
        assert r.get("X-Ratelimit-Remaining") == "3"
        store.reply = lambda message, usual: bulk(answer([(0, 5, 0, 90 * 10 ** 9, 0)]))
        r = nginx.get("/", {"X-User": "7"})
        assert (r.status, r.get("X-Result"), r.get("Retry-After")) == (429, "REFUSED", "90")
        assert api.count() == 1
        item = store.asked[0].items[0]
        assert (item.cost, item.limit, item.id) == (1, 5, "fixed_window/365d")
        assert store.asked[1].items[0].key == item.key
        assert store.messages == []


def test_two_nginx_share_one_limit(api):
    """Two nginx ask about the same counter and together admit five requests."""
    with FakeServe() as store:
        with nginx_with(store, by_user(FIVE), api=api) as one, nginx_with(store, by_user(FIVE), api=api) as two:
            ready(one)
            ready(two)
            statuses = [n.get("/", {"X-User": "7"}).status for n in (one, two) * 4]
            assert statuses == [200] * 5 + [429] * 3
            assert len({m.items[0].key for m in store.asked}) == 1


def test_local_rules_ask_no_question(api):
    """The service is asked neither for local rules nor for requests that a local limit refuses."""
    rules = by_user("{unit: year, requests_per_unit: 2, consistency: local}") + """\
  - key: ip
    rate_limit: {unit: year, requests_per_unit: 9}
"""
    rules = rules.replace("requests:\n", "requests:\n  - descriptor: [{key: ip, from: remote_address}]\n")
    with FakeServe() as store:
        with nginx_with(store, by_user("{unit: year, requests_per_unit: 2, consistency: local}"), api=api) as nginx:
            ready(nginx)
            assert count_statuses(send_at_once(nginx.port, [("GET", "/", {"X-User": "7"})] * 5)) == {200: 2, 429: 3}
            assert store.asked == []
        with nginx_with(store, rules, api=api) as nginx:
            ready(nginx)
            assert [nginx.get("/", {"X-User": "7"}).status for _ in range(4)] == [200, 200, 429, 429]
            assert len(store.asked) == 2


def test_parked_requests_share_a_connection(api):
    """Many requests wait on one connection per worker, while other requests are served."""
    with FakeServe() as store, nginx_with(store, policy("deny", 30), api=api, workers=2,
                                      reuseport=True) as nginx:
        ready(nginx, 2)
        store.hold()
        with Traffic(nginx.port, ["/"], connections=40, headers={"X-User": "7"}) as traffic:
            parked(store, 40)
            assert nginx.get("/free").status == 200
            assert not traffic.answers
            store.release()
            traffic.wait(40)
        assert set(traffic.statuses) == {200, 429} and not traffic.lost
        assert traffic.statuses[200] == 30 == api.count()
        assert store.connections == 2
        assert store.messages == []


EACH_POLICY = """\
domain: api
requests:
  - when: {path: /local}
    descriptor: [{key: local, from: header.x-user}]
  - when: {path: /allow}
    descriptor: [{key: allow, from: header.x-user}]
  - when: {path: /deny}
    descriptor: [{key: deny, from: header.x-user}]
descriptors:
  - key: local
    rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: local}
  - key: allow
    rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: allow}
  - key: deny
    rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: deny}
"""


def test_question_timeout_applies_the_fallback(clock, api):
    """No reply within the timeout: the rule's on_store_failure decides. While a reply is overdue the service is not
    asked. All requests that were admitted locally are reported. When the service replies again, it gets one report of
    the takes that were answered too late, and no unit is returned."""
    statuses = {"/local": 200, "/allow": 200, "/deny": 429}
    user = {"X-User": "7"}
    with FakeServe(timeout=SHORT) as store, nginx_with(store, EACH_POLICY, api=api, h2c=True) as nginx:
        ready(nginx)
        store.hold()
        with H2(nginx.h2c_port) as h2:
            streams = h2.send_together([("GET", target, user) for target in statuses])  # all are sent before one is overdue
            assert [h2.read(stream).status for stream in streams] == list(statuses.values())
        parked(store, 3)
        for target, status in statuses.items():
            assert [nginx.get(target, user).status for _ in range(3)] == [status] * 3
        assert len(store.asked) == 3
        assert nginx.logged("no reply from") == 1
        store.release()
        wait_for(lambda: nginx.get("/deny", {"X-User": "8"}).status == 200, "the central store to be asked again")
        assert len(store.asked) > 3
        wait_for(lambda: store.reported() >= 4, "reports")
        wait_for(lambda: len(store.late()) >= 3, "the report of late replies")
        assert store.late() == [(1, clock.now_ns() // 1000)] * 3
        assert store.reported() == 4 and store.returned() == []


def test_fallback_share_includes_earlier_admissions(api):
    """Of a limit of 8 each of two nodes has a share of 4. The node's share counts units that the service admitted
    before: 3 are used, so one more request is admitted."""
    conf = lambda store: store.conf[:-1] + " fleet=2;"  # noqa: E731
    with FakeServe() as store:
        with Nginx(rules=policy("local", 8), conf_http=conf(store), conf_server=SERVER, api=api) as nginx:
            ready(nginx)
            assert [nginx.get("/", {"X-User": "7"}).status for _ in range(3)] == [200] * 3
            store.stop()
            wait_for(lambda: nginx.logged("closed by the service"), "the loss")
            assert [nginx.get("/", {"X-User": "7"}).status for _ in range(3)] == [200, 429, 429]
            r = nginx.get("/", {"X-User": "8"})
            assert (r.get("X-Limit"), r.get("X-Remaining")) == ("4", "3")
            # Kept until the service is available, and reported once.
            store.listen()
            nginx.wait_logged(BACK)
            wait_for(lambda: store.reported() >= 2, "reports")
            assert nginx.get("/", {"X-User": "7"}).get("X-Remaining") == "4"
            assert store.reported() == 2


def test_grant_of_a_disconnected_client_is_returned(clock, api):
    """The unit of a client that disconnected is returned once, with the time of the decision, and not before it was
    granted."""
    with FakeServe() as store, nginx_with(store, by_user(FIVE), api=api) as nginx:
        ready(nginx)
        store.hold()
        with nginx.client() as client:
            client.send("GET", "/", {"X-User": "7"})
            parked(store, 1)
            client.vanish()
        with nginx.client() as stays:
            stays.send("GET", "/", {"X-User": "7"})
            parked(store, 2)
            assert store.returned() == []
            store.release()
            assert stays.read().status == 200
        wait_for(store.returned, "a give-back")
        (cost, decided_us), = store.returned()
        assert (cost, decided_us) == (-1, clock.now_ns() // 1000)
        assert api.count() == 1


def test_stream_is_cancelled(api):
    """The unit of an HTTP/2 stream that is reset while it waits for Redis is returned. Another stream continues."""
    with FakeServe() as store, nginx_with(store, by_user(FIVE), api=api, h2c=True) as nginx:
        ready(nginx)
        store.hold()
        with H2(nginx.h2c_port) as h2:
            gone = h2.send("GET", "/", {"x-user": "7"})
            stays = h2.send("GET", "/", {"x-user": "7"})
            parked(store, 2)
            h2.cancel(gone)
            # nginx has read the reset once it answers the request that was sent after it.
            assert h2.get("/free").status == 200
            store.release()
            assert h2.read(stays).status == 200
        wait_for(store.returned, "a give-back")
        assert [cost for cost, _ in store.returned()] == [-1]
        assert api.count() == 1


def test_lost_connection_is_logged_and_restored(api):
    """All waiting requests continue. The loss and the return are each logged once."""
    with FakeServe() as store, nginx_with(store, policy("deny"), api=api) as nginx:
        ready(nginx)
        for times in (1, 2):
            store.hold()
            clients = [nginx.client() for _ in range(20)]
            before = len(store.asked)
            for i, client in enumerate(clients):
                client.send("GET", "/", {"X-User": str(i)})
            parked(store, before + 20)
            store.cut()
            assert [client.read().status for client in clients] == [429] * 20
            for client in clients:
                client.close()
            store.release()
            nginx.wait_logged(BACK, times)
            assert nginx.get("/", {"X-User": f"back-{times}"}).status == 200
            assert nginx.logged('"weir_central" lost: closed by the service') == times
        assert store.connections == 3


def test_nginx_starts_without_the_service(api):
    """nginx starts and serves without the service. It logs this once, however often it tries, and connects later."""
    with FakeServe() as store:
        store.stop()
        os.unlink(store.path)
        with nginx_with(store, policy("local", 2), api=api) as nginx:
            nginx.wait_logged('"weir_central" lost: connect')
            assert [nginx.get("/", {"X-User": "7"}).status for _ in range(3)] == [200, 200, 429]
            # The worker reads changed rules at its next look, a quarter of a second after its start or after the
            # previous look. Its timers expire in order: by then it has tried to connect again after 50, 100 and 200
            # ms.
            for n in (1, 2):
                nginx.write_rules(policy("local", 2) + f"# {n}\n")
                nginx.wait_logged("generation", n)
            assert nginx.logged('"weir_central" lost: connect') == 1
            assert nginx.logged(r"connect\(\)") == 0
            store.listen()
            nginx.wait_logged(BACK)
            assert nginx.get("/", {"X-User": "8"}).get("X-Remaining") == "1"
            assert len(store.asked) == 1


NONSENSE = {
    "a word": b"hello\r\n",
    "no line": b"x" * 2000,
    "an array": b"*1\r\n$1\r\na\r\n",
    "a length": b"$abc\r\n",
    "a huge bulk": b"$999999999\r\n",
    "a bulk that does not end": b"$3\r\nabcdefg",
    "a lone line feed": b"+OK\n+OK\n",
    "one more": b"$-1\r\n$-1\r\n",
}


@pytest.mark.parametrize("what", [
    pytest.param(what, marks=full("nginx notices at its next poll, after a second")) if what == "a lone line feed" else what
    for what in NONSENSE])
def test_invalid_reply_reopens_the_connection(api, what):
    """After any invalid reply the connection is closed and opened again."""
    with FakeServe() as store, nginx_with(store, policy("deny"), api=api) as nginx:
        ready(nginx)
        store.reply = lambda message, usual: NONSENSE[what]
        assert nginx.get("/", {"X-User": "7"}).status == 429
        nginx.wait_logged("lost: invalid reply")
        store.reply = None
        nginx.wait_logged(BACK)
        assert nginx.get("/", {"X-User": "7"}).status == 200
        assert store.connections == 2


@pytest.mark.parametrize("reply", [b"$-1\r\n", b"-ERR no\r\n", b"$0\r\n\r\n", bulk(b"nonsense"),
                                   bulk(answer([(ADMITTED, 5, 4, 0, 0)] * 2)),
                                   bulk(answer([(ADMITTED, 5, 6, 0, 0)])),
                                   bulk(answer([(64, 5, 4, 0, 0)]))])
def test_error_reply_fails_only_its_request(api, reply):
    """The question fails for its request alone. The connection stays open."""
    with FakeServe() as store, nginx_with(store, policy("deny"), api=api) as nginx:
        ready(nginx)
        store.reply = lambda message, usual: reply
        assert nginx.get("/", {"X-User": "7"}).status == 429
        store.reply = None
        assert nginx.get("/", {"X-User": "7"}).status == 200
        assert store.connections == 1


def test_replies_in_pieces_and_half_replies(api):
    """Replies that arrive byte by byte, and half replies before the connection breaks."""
    with FakeServe() as store, nginx_with(store, policy("deny"), api=api) as nginx:
        ready(nginx)
        store.piece = 1
        assert count_statuses(send_at_once(nginx.port, [("GET", "/", {"X-User": "7"})] * 8)) == {200: 5, 429: 3}
        store.piece = None

        def half(message, usual):
            store.reply = lambda *_: None
            return usual[:len(usual) // 2]

        store.reply = half
        results = send_at_once(nginx.port, [("GET", "/", {"X-User": str(i)}) for i in range(6)])
        assert count_statuses(results) == {429: 6}
        store.reply = None
        nginx.wait_logged(BACK)
        # The connection may have been restored and lost again while the six were still arriving.
        wait_for(lambda: nginx.get("/", {"X-User": "8"}).status == 200, "the central store to be asked")


def test_secret_that_becomes_known_later(api):
    """The service does not know the secret yet: the fallback is local. Later nginx asks Redis, without a reload."""
    with FakeServe(secret=None) as store, nginx_with(store, policy("local", 3), api=api) as nginx:
        wait_for(lambda: store.fleets, "nginx to connect")
        assert nginx.get("/", {"X-User": "7"}).status == 200
        assert store.asked == []
        store.secret = bytes(range(1, 193))
        wait_for(lambda: nginx.get("/", {"X-User": "8"}).status and store.asked, "a question")
        key = store.asked[0].items[0].key
        # Another secret names other counters.
        store.secret = bytes(range(3, 195))
        wait_for(lambda: nginx.get("/", {"X-User": "8"}).status and store.asked[-1].items[0].key != key,
                 "the new secret")


def test_refused_by_the_service(api):
    """A server that refuses the question for the secret is logged once. It is asked again on the same connection."""
    class Stranger(FakeServe):
        def _reply(self, command):
            return b"-NOPERM this is not for you\r\n"

    with Stranger() as store, nginx_with(store, policy("local"), api=api) as nginx:
        nginx.wait_logged('refused WEIR.FLEET: "NOPERM this is not for you"')
        assert nginx.get("/", {"X-User": "7"}).status == 200
        wait_for(lambda: store.fleets_answered >= 2, "another question for the secret")
        assert nginx.get("/", {"X-User": "7"}).status == 200  # nginx has read the second reply before this request
        assert nginx.logged("NOPERM") == 1
        assert store.connections == 1


@full("waits for the timeout of a silent connection, 3 s and more")
def test_silent_connection_is_closed_after_the_timeout(api):
    """A connection without any reply is closed. No request waits longer than the timeout."""
    with FakeServe(timeout=SHORT) as store, nginx_with(store, policy("allow"), api=api) as nginx:
        ready(nginx)
        store.hold()
        with Traffic(nginx.port, ["/"], connections=4, headers={"X-User": "7"}, pause=0.02) as traffic:
            nginx.wait_logged("lost: no reply", seconds=20)
            store.release()
            nginx.wait_logged(BACK, seconds=20)
        assert set(traffic.statuses) == {200} and not traffic.lost


def test_reload_refuses_no_request(api):
    """New workers have the secret before they decide: no request is refused, though the rule denies without Redis. Old
    workers exit, though they are connected."""
    with FakeServe() as store, nginx_with(store, policy("deny", 100000), api=api, workers=2) as nginx:
        ready(nginx, 2)
        with Traffic(nginx.port, ["/"], connections=6, headers={"X-User": "7"}, keep=False) as traffic:
            for _ in range(3):
                traffic.wait(30)
                nginx.reload()
            traffic.wait(30)
        assert set(traffic.statuses) == {200} and not traffic.lost
        assert nginx.logged('"weir_central" (?!is up)') == 0


def test_new_worker_parks_only_requests_that_need_the_secret(api):
    """Until a new worker has the secret, only requests that need it wait."""
    rules = policy("deny") + """\
  - key: ip
    rate_limit: {unit: year, requests_per_unit: 1000, consistency: local}
"""
    rules = rules.replace("requests:\n", "requests:\n  - descriptor: [{key: ip, from: remote_address}]\n")
    with FakeServe() as store:
        store.hold()
        with nginx_with(store, rules, api=api) as nginx, nginx.client() as waits, nginx.client() as leaves:
            wait_for(lambda: store.fleets, "nginx to connect")
            waits.send("GET", "/", {"X-User": "7"})
            leaves.send("GET", "/", {"X-User": "7"})
            assert nginx.get("/").get("X-Result") == "ADMITTED"
            leaves.vanish()
            assert nginx.get("/").status == 200
            assert store.asked == []
            store.release()
            assert waits.read().get("X-Remaining") == "4"


@pytest.mark.skipif(WRAP != "", reason="4,352 requests at once are too many under a wrapper")
def test_questions_in_flight_are_limited(api):
    """4,096 questions may be in flight. Further questions fail at once, and the others are answered."""
    streams, connections = 128, 34
    with FakeServe(timeout="60s") as store, nginx_with(store, policy("allow", 10 ** 6), api=api, h2c=True) as nginx:
        ready(nginx)
        fleets = store.hold_all()
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(H2(nginx.h2c_port)) for _ in range(connections)]
            sent = [(c, c.send("GET", "/", {"x-user": "7"})) for c in clients for _ in range(streams)]
            wait_for(lambda: api.count() >= streams * connections - 4096, "the requests without a question")

            def asked():
                """Returns the questions in flight. nginx also asks from time to time whether the secret has changed."""
                return len(store.asked) + store.fleets - fleets
            wait_for(lambda: asked() >= 4096, "the questions in flight", 30)
            assert asked() == 4096
            store.release()
            assert {c.read(stream).status for c, stream in sent} == {200}
        assert api.count() == streams * connections and not nginx.logged("lost|no reply")


def test_pending_reports_are_limited(api):
    """nginx keeps up to a megabyte of reports while the service is unavailable, and logs a line beyond that."""
    with FakeServe() as store, nginx_with(store, policy("local", 10 ** 6), api=api) as nginx:
        ready(nginx)
        store.stop()
        nginx.wait_logged("closed by the service")
        count = 6500 if not WRAP else 10
        head = b"GET /nothing HTTP/1.1\r\nHost: x\r\nX-User: 7\r\n\r\n"
        send_pipelined(nginx.port, [head] * count)
        assert nginx.logged("reports to .* are dropped") == (not WRAP)
        store.listen()
        nginx.wait_logged(BACK)
        wait_for(lambda: nginx.get("/", {"X-User": "8"}).get("X-Remaining") == "999999" and store.asked, "the central store")
        item = 8 + 8 + 152 + len("fixed_window/365d")
        wait_for(lambda: store.reported() >= min(count, 2 ** 20 // item), "the reports")
        assert store.reported() == min(count, 2 ** 20 // item)


def test_quit_waits_for_parked_requests_and_term_does_not(api):
    """QUIT lets parked requests finish; TERM does not wait for them. Neither leaks memory or connections."""
    with FakeServe() as store, nginx_with(store, by_user(FIVE), api=api) as nginx:
        ready(nginx)
        store.hold()
        with nginx.client() as client:
            client.send("GET", "/", {"X-User": "7"})
            parked(store, 1)
            os.kill(nginx.master, signal.SIGQUIT)
            nginx.wait_logged("gracefully shutting down")
            store.release()
            assert client.read().status == 200
        wait_for(lambda: not nginx.processes(), "nginx to end")
    with FakeServe() as store, nginx_with(store, by_user(FIVE), api=api, allow=TERMINATED) as nginx:
        ready(nginx)
        store.hold()
        with nginx.client() as client:
            client.send("GET", "/", {"X-User": "7"})
            parked(store, 1)
            os.kill(nginx.master, signal.SIGTERM)
            wait_for(lambda: not nginx.processes(), "nginx to end")


def test_leaky_bucket_delay_from_redis(clock, api):
    """The reply may be a delay: the request continues when it is due. The position of a client that leaves while its
    request waits is returned, with its time."""
    rules = by_user("{unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 9}")
    hour_ns = 3600 * 10 ** 9
    with FakeServe() as store, nginx_with(store, rules, api=api) as nginx, nginx.client() as one, nginx.client() as two:
        ready(nginx)
        store.reply = lambda message, usual: bulk(answer([(ADMITTED, 10, 8, 0, hour_ns)]))
        one.send("GET", "/one", {"X-User": "7"})
        nginx.wait_logged("delayed by 3600000ms")
        clock.advance(3600)
        two.send("GET", "/two", {"X-User": "7"})  # joins the queue, so nginx looks at the clock
        r = one.read()
        assert (r.status, r.get("X-Result"), r.get("X-Delay")) == (200, "DELAYED", "3600.000")
        nginx.wait_logged("delayed by 3600000ms", 2)
        two.vanish()
        wait_for(store.returned, "the position to be given back")
        item, = store.messages[-1].items
        assert (item.cost, item.delay_ns, item.decided_us) == (-1, hour_ns, clock.now_ns() // 1000)
    assert api.count("/one") == 1 and api.count("/two") == 0


AUTH = """
	location / {
		weir on; weir_auth /_auth; add_header X-Result $weir_result always; proxy_pass http://api;
	}
	location /_auth { internal; proxy_pass http://api/auth; }
"""


def test_limits_are_peeked_before_authentication(api):
    """nginx peeks at the limit first, so that a flood does not reach the authentication service. The unit is taken
    afterwards."""
    rules = """\
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
  - descriptor: [{key: user, from: identity}]
descriptors:
  - key: ip
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 9}
"""
    with FakeServe() as store:
        with Nginx(rules=rules, conf_http=store.conf, conf_server=AUTH, api=api) as nginx:
            ready(nginx)
            assert [nginx.get("/x").status for _ in range(5)] == [200] * 3 + [429] * 2
            assert api.count("/auth") == 3 and api.count("/x") == 3
            looks = [m for m in store.asked if all(i.cost == 0 for i in m.items)]
            assert len(looks) == 5


def test_client_that_leaves_during_authentication_is_counted_as_unknown(api):
    """A client that leaves while the authentication service is asked is counted in Redis with an unknown identity."""
    rules = by_user(FIVE.replace("5", "3")).replace("header.x-user", "remote_address")
    server = AUTH.replace("http://api/auth", "http://api/auth?hold=auth")
    with FakeServe() as store:
        with Nginx(rules=rules, conf_http=store.conf, conf_server=server, api=api) as nginx:
            ready(nginx)
            for n in range(1, 4):
                client = nginx.client()
                client.send("GET", "/x")
                wait_for(lambda n=n: api.count("/auth") == n, "the service to be asked")
                client.vanish()
                wait_for(lambda n=n: len([m for m in store.asked if m.items[0].cost == 1]) == n, "the request to be counted")
            assert nginx.get("/x").status == 429
            assert (api.count("/auth"), api.count("/x")) == (3, 0)
            api.release("auth")


def test_configuration_of_weir_central():
    """nginx -t accepts a good directive without connecting, and refuses wrong arguments."""
    rules = by_user(FIVE)
    with FakeServe() as store:
        code, output = check_conf(http=store.conf, rules=rules)
        assert code == 0, output
        assert store.connections == 0
    wrong = {
        "weir_central 127.0.0.1:6380;": "invalid socket",
        "weir_central unix:relative;": "invalid socket",
        "weir_central unix:/a timeout=0;": 'invalid parameter "timeout=0"',
        "weir_central unix:/a timeout=61s;": 'invalid parameter "timeout=61s"',
        "weir_central unix:/a fleet=0;": 'invalid parameter "fleet=0"',
        "weir_central unix:/a tries=3;": 'invalid parameter "tries=3"',
        f"weir_central unix:/{'x' * 200};": "too long path",
        "weir_central unix:/a; weir_central unix:/b;": "is duplicate",
    }
    for line, text in wrong.items():
        code, output = check_conf(http=line, rules=rules)
        assert code == 1 and text in output, (line, output)


def test_dry_run_counts_in_redis(api):
    """A dry run asks Redis and refuses nothing."""
    server = "location / { weir on; weir_dry_run on; add_header X-Result $weir_result always; proxy_pass http://api; }"
    with FakeServe() as store:
        with Nginx(rules=by_user("{unit: year, requests_per_unit: 1}"), conf_http=store.conf, conf_server=server,
                   api=api) as nginx:
            ready(nginx)
            results = [nginx.get("/", {"X-User": "7"}).get("X-Result") for _ in range(2)]
            assert results == ["ADMITTED", "REFUSED_DRY_RUN"]
            assert list(store.used.values()) == [1]
