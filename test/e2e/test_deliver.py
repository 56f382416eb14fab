"""The deliverer of `weir serve`: requests deferred by WEIR.DEFER reach the API server in order and at the rule's rate.
The response of the API server decides whether a request is delivered, retried or dead. nginx has no part in this;
test_defer*.py include it."""

import contextlib
import json
import subprocess
import time

import pytest

from weirtest import WEIR, fetch, full, wait_for
from weirtest.clock import for_weir, wall_ns
from weirtest.queueserver import RULES, QueueServer, linked
from weirtest.fleet import answer
from weirtest.orders import Orders, check_pace, check_rate
from weirtest.redis import Redis
from weirtest.resp import Error, Resp, command
from weirtest.scrape import Metrics
from weirtest.serve import Serve

API = Orders  # the server of the fixture `api`


def numbers(api, key):
    """Returns the numbers of the orders of this key that the API has received, in order of arrival."""
    return [s.order[1] for s in api.seen(f"/orders/{key}/")]


# ---- delivery ----

def test_request_arrives_unchanged(api):
    """Path, query, body and end-to-end fields arrive as stored; hop-by-hop fields do not arrive."""
    body = bytes(range(256)) * 300
    fields = [("Content-Type", "application/x-order"), ("X-Note", ""), ("Accept", "text/plain"), ("accept", "*/*"),
              ("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Transfer-Encoding", "chunked"), ("TE", "trailers"),
              ("Content-Length", "5"), ("Expect", "100-continue"), ("Upgrade", "h2c"), ("Idempotency-Key", "mine-7")]
    with QueueServer(api) as service:
        ticket, position, expected = service.defer("/orders/7/1?x=%2F..%2F&y=a+b", body=body, fields=fields, method="PUT")
        assert (len(ticket), position, expected) == (32, 1, 0)
        reported = service.wait_ticket(ticket, "delivered")
        assert reported["http_status"] == 200 and reported["tries"] == 0 and reported["ticket"] == ticket
        [seen] = api.seen()
        assert (seen.method, seen.target, seen.bytes) == ("PUT", "/orders/7/1?x=%2F..%2F&y=a+b", len(body))
        sent = sorted((k.lower(), v) for k, v in seen.headers)
        assert [k for k, _ in sent] == ["accept", "accept", "content-length", "content-type", "host", "idempotency-key",
                                        "x-note", "x-weir-deferred"]
        assert seen.get("host") == "shop.example" and seen.get("idempotency-key") == "mine-7"
        assert seen.get("content-length") == str(len(body)) and seen.get("x-note") == ""
        assert seen.get("x-weir-deferred") == reported["accepted"]


def test_methods_without_a_body_are_delivered(api):
    """Each request has its own Idempotency-Key, and no header fields that the client did not send."""
    with QueueServer(api) as service:
        for number, method in enumerate(["POST", "PUT", "PATCH", "DELETE"]):
            service.wait_ticket(service.defer(f"/orders/7/{number}", method=method, body=b"")[0], "delivered")
    assert [s.method for s in api.seen()] == ["POST", "PUT", "PATCH", "DELETE"]
    assert [s.get("content-length") for s in api.seen()] == ["0", "0", "0", None]
    keys = {s.get("idempotency-key") for s in api.seen()}
    assert len(keys) == 4 and all(len(k) >= 16 for k in keys)
    assert all(s.get("content-type") is None and s.get("accept") is None and s.get("user-agent") is None
               for s in api.seen())


def test_order_of_each_key_is_preserved(api):
    """600 requests of 20 users arrive in order for each user, and the metrics count them."""
    users = [f"u{i}" for i in range(20)]
    with QueueServer(api) as service:
        link = service.connect()
        for number in range(30):
            for user in users:
                link.send(command(*service.words(f"/orders/{user}/{number}", value=user)))
        for _ in range(600):
            assert len(link.read()) == 3
        link.close()
        api.wait_seen(600)
        assert all(numbers(api, user) == list(range(30)) for user in users)
        wait_for(lambda: service.stats()["totals"]["delivered"] == 600, "all deliveries to be recorded")
        metrics = Metrics(service.serve.admin_port)
        assert metrics.value("weir_queue_stored_total") == 600
        assert metrics.value("weir_queue_delivered_total") == 600


def test_delivery_follows_the_rate_of_the_rule(clock):
    """5 a second with a burst of 1: one request at once, and one more in each fifth of a second of the test's clock."""
    with Orders() as api, QueueServer(api) as service:
        since = clock.now()
        for number in range(4):
            service.defer(f"/orders/slow/{number}", key="slow")
        for number in range(1, 4):
            assert len(api.wait_seen(number)) == number
            clock.advance(0.2)
        seen = api.wait_seen(4)
        assert numbers(api, "slow") == list(range(4))
        check_pace(seen, since, 0.2)


@full("waits for two seconds of the limit")
def test_delivery_is_never_faster_than_the_rule(api):
    """5 a second with a burst of 1: the last of twelve arrives 11/5 s after the start at the earliest."""
    with QueueServer(api) as service:
        since = time.monotonic_ns()
        for number in range(12):
            service.defer(f"/orders/slow/{number}", key="slow")
        seen = api.wait_seen(12)
    assert numbers(api, "slow") == list(range(12))
    check_rate(seen, since, burst=1, per_second=5)


def test_request_above_its_limit_waits(api):
    """A request of another limit is delivered, while this one waits."""
    with QueueServer(api) as service:
        ticket, _, _ = service.defer("/orders/shut/1", key="shut")
        service.wait_ticket(service.defer("/orders/7/1")[0], "delivered")
        reported = service.ticket(ticket)
        assert reported["status"] == "waiting" and reported["position"] == 1
        assert numbers(api, "shut") == []


# ---- responses of the API server ----

FINAL = [200, 204, 301, 302, 400, 401, 404, 409, 422, 499]
NOT_FINAL = [408, 425, 429, 500, 502, 503, 504]
ABSENT = [502, 503, 504]  # the API server does not run: the delivery does not count as a try


def test_final_responses_end_the_delivery(api):
    """Each response has its own user."""
    for status in FINAL:
        api.plan(f"/orders/u{status}/", {"status": status, "headers": {"Location": f"http://127.0.0.1:{api.port}/elsewhere"}})
    with QueueServer(api) as service:
        tickets = {s: [service.defer(f"/orders/u{s}/{n}", value=f"u{s}")[0] for n in (1, 2)] for s in FINAL}
        for status, both in tickets.items():
            assert [service.wait_ticket(t, "delivered")["http_status"] for t in both] == [status] * 2
            assert numbers(api, f"u{status}") == [1, 2]
        assert not api.seen("/elsewhere")


def check_tried_again(seen):
    """Checks that order 1 was sent twice with the same Idempotency-Key before order 2."""
    assert [s.order[1] for s in seen] == [1, 1, 2]
    assert seen[0].get("idempotency-key") == seen[1].get("idempotency-key") != seen[2].get("idempotency-key")


def test_other_responses_are_retried(api):
    """Each response has its own user. The test does not wait for the back-off."""
    for status in NOT_FINAL:
        api.plan(f"/orders/u{status}/", status, 201)
    with QueueServer(api) as service:
        tickets = {s: [service.defer(f"/orders/u{s}/{n}", value=f"u{s}")[0] for n in (1, 2)] for s in NOT_FINAL}
        for status, (first, second) in tickets.items():
            reported = service.retry_until_ticket(first, "delivered")
            assert (reported["http_status"], reported["tries"]) == (201, int(status not in ABSENT))
            service.wait_ticket(second, "delivered")
            check_tried_again(api.seen(f"/orders/u{status}/"))


@full("waits for the back-off")
@pytest.mark.parametrize("status", NOT_FINAL)
def test_retry_waits_for_its_back_off(api, status):
    """After a response that is not final, the next try comes after at least half of the first back-off."""
    api.plan("/orders/", status, 201)
    with QueueServer(api) as service:
        first, second = service.defer("/orders/7/1")[0], service.defer("/orders/7/2")[0]
        reported = service.wait_ticket(first, "delivered")
        assert (reported["http_status"], reported["tries"]) == (201, int(status not in ABSENT))
        service.wait_ticket(second, "delivered")
        seen = api.seen("/orders/7/")
        check_tried_again(seen)
        assert (seen[1].ns - seen[0].ns) / 1e9 >= 0.5 - 0.05  # at least half of the first back-off


def test_retry_after_a_lost_response_has_the_same_idempotency_key(api):
    api.plan("/orders/", {"drop": True}, 200)
    with QueueServer(api) as service:
        service.retry_until_ticket(service.defer("/orders/7/1")[0], "delivered")
    assert len({s.get("idempotency-key") for s in api.seen()}) == 1 and len(api.seen()) >= 2


def test_slow_response_times_out_and_is_retried(api):
    """A response that takes longer than --queue-timeout counts as a failed try."""
    api.plan("/orders/", {"hold": "never"}, 200)
    with QueueServer(api, "--queue-timeout", "300ms") as service:
        reported = service.retry_until_ticket(service.defer("/orders/7/1")[0], "delivered", 60)
        # One more try for each time that the second response was late as well.
        assert numbers(api, "7") == [1] * (reported["tries"] + 1) and reported["tries"] >= 1


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_sets_the_time_of_the_next_try(clock, form):
    """The API asks for 3,000 seconds, longer than any back-off, which is at most five minutes. An operator's retry does
    not wait for it."""
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(clock.now() + 3000))
    with Orders() as api, QueueServer(api) as service:
        api.plan("/orders/", {"status": 503, "headers": {"Retry-After": "3000" if form == "seconds" else date}}, 200)
        ticket = service.defer("/orders/7/1")[0]
        wait_for(lambda: service.waiting()[0]["http_status"] == 503, "the first try")
        [waiting] = service.waiting()
        assert 2000 < waiting["due_at"] - clock.now() <= 3000
        assert service.retry_until_ticket(ticket, "delivered")["http_status"] == 200
        assert numbers(api, "7") == [1, 1]


@full("waits for seconds of a Retry-After")
def test_retry_after_in_seconds(api):
    api.plan("/orders/", {"status": 503, "headers": {"Retry-After": "3"}}, 200)
    with QueueServer(api) as service:
        service.wait_ticket(service.defer("/orders/7/1")[0], "delivered", 60)
    first, second = api.seen()
    assert (second.ns - first.ns) / 1e9 >= 3 - 0.05


@full("waits for seconds of a Retry-After")
def test_retry_after_as_a_date(api):
    when = wall_ns() // 10**9 + 6
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(when))
    api.plan("/orders/", {"status": 503, "headers": {"Retry-After": date}}, 200)
    with QueueServer(api) as service:
        service.wait_ticket(service.defer("/orders/7/1")[0], "delivered", 60)
    arrived = api.seen()[-1].ns + wall_ns() - time.monotonic_ns()
    assert arrived / 1e9 >= when - 0.05


def test_long_response_body_is_discarded(api):
    """A response body of six megabytes does not disturb the next deliveries."""
    api.plan("/orders/", {"status": 201, "bytes": 6 << 20})
    with QueueServer(api) as service:
        for number in range(3):
            assert service.wait_ticket(service.defer(f"/orders/7/{number}")[0], "delivered")["http_status"] == 201
    assert numbers(api, "7") == [0, 1, 2]


# ---- dead requests ----

def test_request_that_always_fails_becomes_dead_and_others_are_delivered(api):
    """The next request of the key is delivered. A retry of the dead request succeeds when the API is fixed."""
    api.plan("/orders/bad/1", 500)
    with QueueServer(api) as service:
        poison = service.defer("/orders/bad/1", value="bad", max_tries=2)[0]
        behind = service.defer("/orders/bad/2", value="bad")[0]
        other = service.defer("/orders/good/1", value="good")[0]
        service.wait_ticket(other, "delivered")
        reported = service.retry_until_ticket(poison, "dead")
        assert (reported["http_status"], reported["tries"], reported["reason"]) == (500, 2, "HTTP status 500")
        service.wait_ticket(behind, "delivered")
        assert numbers(api, "bad") == [1, 1, 2]
        wait_for(lambda: service.stats()["dead"] == 1, "the dead one to be counted")
        assert Metrics(service.serve.admin_port).value("weir_queue_dead_total") == 1
        api.plan("/orders/bad/1")  # the API server has been fixed
        [dead] = service.admin("GET", "/v1/queue/requests?state=dead")[1]["requests"]
        assert service.weir("retry", str(dead["id"])) == (0, "1 to be retried\n", "")
        assert service.wait_ticket(poison, "delivered")["http_status"] == 200


def test_request_older_than_max_age_is_dead_after_a_restart(api, clock):
    """The service is down until a minute before the end of max_age, and again until a minute after it."""
    api.plan("/orders/", 500)
    with QueueServer(api) as service:
        ticket = service.defer("/orders/7/1", max_age_s=3600)[0]
        wait_for(lambda: service.ticket(ticket)["tries"] == 1, "the first try")
        for away, status in ((3540, "waiting"), (120, "dead")):
            service.again()
            service.serve.stop()
            clock.advance(away)
            service.serve.start()
            reported = service.retry_until_ticket(ticket, status)
        assert reported["tries"] >= 1 and "too old" in reported["reason"]


@full("waits for six seconds")
def test_request_older_than_max_age_is_dead(api):
    api.plan("/orders/", 500)
    with QueueServer(api) as service:
        reported = service.wait_ticket(service.defer("/orders/7/1", max_age_s=6)[0], "dead", 60)
        assert reported["tries"] >= 1


@full("tries of an unavailable API server are seconds apart")
def test_unavailable_api_server_makes_no_request_dead():
    """While no connection is possible, no try is counted, even with max_tries of 1."""
    with Orders(start=False) as api, QueueServer(api) as service:
        ticket = service.defer("/orders/7/1", max_tries=1)[0]
        for number in range(2, 40):
            service.defer(f"/orders/u{number}/1", value=f"u{number}", max_tries=1)
        wait_for(lambda: service.stats()["target_up"] is False, "the target to be missed")
        wait_for(lambda: Metrics(service.serve.admin_port).value("weir_queue_target_up") == 0, "that to be in the table")
        assert service.ticket(ticket)["tries"] == 0
        api.start()
        service.wait_ticket(ticket, "delivered", 60)
        api.wait_seen(39, seconds=60)
        wait_for(lambda: service.stats()["target_up"] is True, "the target to be reached again")
        assert len(api.seen()) == 39


def test_load_balancer_without_api_server_makes_no_request_dead(api):
    """A load balancer answers in place of the API server, more often than max_tries. The limit gets its unit back each
    time, so the last try is delivered under a limit of one a day."""
    api.plan("/orders/", 200, *[503, 502, 504] * 4, 200)
    with QueueServer(api) as service:
        service.wait_ticket(service.defer("/orders/first/1", value="first")[0], "delivered")
        ticket = service.defer("/orders/7/1", key="daily", max_tries=2)[0]
        reported = service.retry_until_ticket(ticket, "delivered")
        assert (reported["http_status"], reported["tries"]) == (200, 0)
        assert len(api.seen("/orders/7/")) == 13
        assert answer(service.call("WEIR.PEEK", "shop", "daily", "7"))["remaining"] == 0


@pytest.mark.parametrize("status", ABSENT)
def test_tries_count_while_the_api_server_answers_other_requests(api, status):
    """The API server answers other requests between the tries, so it is available. All tries of the request but the
    first count."""
    api.plan("/orders/bad/", status)
    with QueueServer(api) as service:
        poison = service.defer("/orders/bad/1", value="bad", max_tries=3)[0]
        for number in range(1, 5):
            api.wait_seen(number, "/orders/bad/")
            wait_for(lambda tries=number - 1: service.ticket(poison)["tries"] == tries, "its try to be noted")
            service.wait_ticket(service.defer(f"/orders/good/{number}", value="good")[0], "delivered")
            service.retry()
        reported = service.wait_ticket(poison, "dead")
        assert (reported["http_status"], reported["tries"]) == (status, 3)
        assert numbers(api, "bad") == [1, 1, 1, 1]


def test_tries_without_an_api_server_return_their_units():
    """Tries that cannot connect take no unit: a limit of one a day is left for the try that connects."""
    with Orders(start=False) as api, QueueServer(api) as service:
        ticket = service.defer("/orders/7/1", key="daily", max_tries=1)[0]
        wait_for(lambda: service.stats()["target_up"] is False, "the target to be missed")
        api.start()
        reported = service.wait_ticket(ticket, "delivered", 60)
        assert (reported["http_status"], reported["tries"]) == (200, 0)


def test_unreachable_api_reported_by_a_gateway_is_logged(api):
    """A 502 with X-Weir-Unreachable means that there was no connection: no try is counted, and the log says so."""
    api.plan("/orders/", {"status": 502, "headers": {"X-Weir-Unreachable": "1"}}, 200)
    with QueueServer(api) as service:
        reported = service.wait_ticket(service.defer("/orders/7/1", max_tries=1)[0], "delivered")
        assert (reported["http_status"], reported["tries"]) == (200, 0)
        service.serve.wait_logged("is unreachable (HTTP status 502)")
        service.serve.wait_logged("is reachable again")


# ---- restart ----

@pytest.mark.parametrize("kill", [True, False])
def test_stored_requests_survive_a_restart(api, kill):
    """After a kill or a shutdown all requests are delivered in order; after a kill the first one is sent twice."""
    api.plan("/orders/", {"hold": "all"})
    with QueueServer(api) as service:
        tickets = [service.defer(f"/orders/7/{number}")[0] for number in range(5)]
        api.wait_seen(1)
        api.plan("/orders/")
        service.again()
        if kill:
            service.serve.kill()
        else:
            api.release("all")
            service.serve.stop()
        service.serve.start()
        for ticket in tickets:
            service.wait_ticket(ticket, "delivered")
        expected = [0] + list(range(5)) if kill else list(range(5))
        assert numbers(api, "7") == expected
        assert api.seen()[0].get("idempotency-key") == api.seen()[len(expected) - 5].get("idempotency-key")


def test_shutdown_waits_for_deliveries_in_flight(api):
    api.plan("/orders/", {"hold": "all"})
    with QueueServer(api) as service:
        ticket = service.defer("/orders/7/1")[0]
        api.wait_seen(1)
        service.again()
        service.serve.process.terminate()
        wait_for(lambda: "ports closed" in service.serve.log(), "the end to begin")
        assert service.serve.process.poll() is None
        api.release("all")
        assert service.serve.process.wait(60) == 0
        service.serve.start()
        assert service.ticket(ticket)["status"] == "delivered"
    assert numbers(api, "7") == [1]


@full("a service looks once a second for requests of other services in Redis")
def test_killed_service_resumes_its_deliveries_after_restart(api):
    """The restarted service resumes its deliveries at once, long before --queue-timeout is over. Another service waits
    for that timeout."""
    with Redis(aof=True) as redis, QueueServer(api, "--queue-timeout", "1h", queue=redis.url()) as one, \
            QueueServer(api, "--queue-timeout", "1h", queue=redis.url()) as other:
        api.plan("/orders/", {"hold": "all"})
        tickets = [one.defer(f"/orders/7/{n}")[0] for n in range(3)]
        api.wait_seen(1)
        holder = wait_for(lambda: next((c for c in (one, other) if c.stats()["sending"]), None), "a service to report a delivery in flight", 60)
        holder.serve.kill()
        holder.again()
        api.plan("/orders/")
        holder.serve.start()
        for ticket in tickets:
            holder.wait_ticket(ticket, "delivered", 60)
        assert numbers(api, "7") == [0, 0, 1, 2]


def test_two_services_on_one_redis_keep_the_order(api):
    with Redis(aof=True) as redis, QueueServer(api, queue=redis.url()) as one, QueueServer(api, queue=redis.url()) as other:
        for number in range(20):
            for user in range(5):
                (one if number % 2 else other).defer(f"/orders/u{user}/{number}", value=f"u{user}")
        api.wait_seen(100)
        for user in range(5):
            assert numbers(api, f"u{user}") == list(range(20))
        ticket = one.defer("/orders/7/1")[0]
        assert other.wait_ticket(ticket, "delivered")["http_status"] == 200
        wait_for(lambda: other.stats()["totals"]["delivered"] == 101, "all requests to be counted")


# ---- tickets, limits and operators ----

def test_redis_without_config_command_needs_assume_durable(api):
    """Managed Redis services do not allow CONFIG. A Redis without CONFIG is refused unless --queue-assume-durable is
    set."""
    with Redis("rename-command CONFIG ''", aof=True) as redis:
        with QueueServer(api, queue=redis.url()) as service:
            service.serve.wait_logged("see --queue-assume-durable")
            refused = service.call(*service.words("/orders/7/1"))
            assert isinstance(refused, Error) and "not_persistent" in str(refused)
        with QueueServer(api, "--queue-assume-durable", queue=redis.url()) as service:
            service.serve.wait_logged("--queue-assume-durable assumes that it loses nothing")
            service.wait_ticket(service.defer("/orders/7/1")[0], "delivered")


def test_unknown_ticket_is_not_found(api):
    with QueueServer(api) as service:
        for ticket in ("0" * 32, "", "x", "F" * 32, "0" * 31, "0" * 64):
            assert service.call("WEIR.TICKET", ticket) is None


def test_full_queue_refuses_requests(api):
    """Each refusal has its reason, in the reply, in the statistics and in the metrics."""
    with QueueServer(api, "--queue-max", "3", target=f"http://127.0.0.1:{api.port}") as service:
        words = lambda n, **more: service.words(f"/orders/shut/{n}", key="shut", **more)
        assert service.call(*words(1, max_waiting=1))[1] == 1
        full = service.call(*words(2, max_waiting=1))
        assert isinstance(full, Error) and full.startswith("DEFER key_full ")
        assert service.call(*words(2))[1] == 2 and service.call(*words(3))[1] == 3
        full = service.call(*words(4))
        assert isinstance(full, Error) and full.startswith("DEFER full ")
        secret = service.call(*words(5, fields=[("Authorization", "Bearer x")]))
        assert isinstance(secret, Error) and secret.startswith("DEFER no_key ")
        metrics = Metrics(service.serve.admin_port)
        for reason in ("key_full", "full", "no_key"):
            assert metrics.value("weir_queue_refused_total", reason=reason) == 1
        assert service.stats()["refused"] == {"key_full": 1, "full": 1, "no_key": 1}


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_key_cannot_use_more_than_its_share_of_the_queue(api, kind):
    """A key has its share of the bytes, whatever its rule's max_waiting is. Dead requests do not count towards the
    share."""
    api.plan("/orders/", 500)
    with contextlib.ExitStack() as stack:
        where = {"queue": stack.enter_context(Redis(aof=True)).url()} if kind == "redis" else {}
        service = stack.enter_context(QueueServer(api, "--queue-bytes", "1M", "--queue-line-bytes", "100K",
                                              "--queue-dead-max", "2", **where))
        mine = [service.call(*service.words(f"/orders/7/{n}", body=b"x" * 30000)) for n in range(4)]
        assert [isinstance(reported, Error) for reported in mine] == [False, False, False, True]
        assert mine[3].startswith("DEFER key_bytes_full ")
        other = service.defer("/orders/8/1", value="8", body=b"x" * 30000, max_tries=1)[0]
        service.wait_ticket(other, "dead")
        for number in range(2, 5):
            service.wait_ticket(service.defer(f"/orders/8/{number}", value="8", max_tries=1)[0], "dead")
        wait_for(lambda: service.stats()["dead"] == 2, "the oldest dead ones to go")
        assert service.ticket(other) is None
        service.serve.wait_logged("too many dead letters")
        bounds = {name: value for name, value in service.stats().items() if name.startswith("max_")}
        assert bounds == {"max_requests": 100000, "max_bytes": 1 << 20, "max_line_bytes": 100 << 10, "max_dead": 2,
                          "max_dead_bytes": 1 << 18}


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_operator_retry_respects_the_limits(api, kind):
    """A dead request stays dead while the queue is full, and is queued again when there is room."""
    api.plan("/orders/8/", 500)
    with contextlib.ExitStack() as stack:
        where = {"queue": stack.enter_context(Redis(aof=True)).url()} if kind == "redis" else {}
        service = stack.enter_context(QueueServer(api, "--queue-max", "1", **where))
        dead = service.defer("/orders/8/1", value="8", max_tries=1)[0]
        service.wait_ticket(dead, "dead")
        service.defer("/orders/shut/1", key="shut")
        assert service.weir("retry", "--state", "dead") == (
            0, "0 to be retried\n1 stay dead: the queue has no room for them\n", "")
        status, reported = service.admin("POST", "/v1/queue/retry", {"id": 1})
        assert status == 503 and "--queue-max" in reported["detail"]
        assert service.ticket(dead)["status"] == "dead"
        assert drop_all(service, "shop/shut") == 1
        api.plan("/orders/8/")
        assert service.weir("retry", "1") == (0, "1 to be retried\n", "")
        service.wait_ticket(dead, "delivered")


def test_position_and_expected_delay_of_a_request(api):
    """The expected delay is the wait of the limit plus one interval for each request before it."""
    with QueueServer(api) as service:
        reported = [service.defer(f"/orders/shut/{n}", key="shut", wait_ns=2 * 10**9, interval_ns=10**9) for n in range(3)]
        assert [(p, round(e, 3)) for _, p, e in reported] == [(1, 2.0), (2, 3.0), (3, 4.0)]
        status = service.ticket(reported[2][0])
        assert status["position"] == 3 and 2 <= status["expected_delay"] <= 65


def test_credentials_are_stored_encrypted_and_delivered(api, tmp_path):
    """Neither the files nor the admin API contain the credentials; the API receives them."""
    key = tmp_path / "key"
    key.write_text("00112233445566778899aabbccddeeff" * 2 + "\n")
    key.chmod(0o600)
    secret = "Bearer very-secret-indeed"
    with QueueServer(api, "--queue-key", key) as service:
        fields = [("Authorization", secret), ("Cookie", "a=very-secret-too")]
        first = service.defer("/orders/shut/1", key="shut", fields=fields)[0]
        service.wait_ticket(service.defer("/orders/7/1", fields=fields)[0], "delivered")
        [seen] = api.seen()
        assert seen.get("authorization") == secret and seen.get("cookie") == "a=very-secret-too"
        assert service.ticket(first)["status"] == "waiting"
        for file in (service.serve.folder / "queue").rglob("*"):
            assert file.stat().st_mode & 0o077 == 0, file
            assert b"very-secret" not in file.read_bytes()
        [one] = service.admin("GET", "/v1/queue/requests?state=waiting")[1]["requests"]
        shown = service.admin("GET", f"/v1/queue/request?id={one['id']}")[1]
        sealed = {f["name"]: (f["value"], f["sealed"]) for f in shown["fields"]}
        assert sealed == {"host": ("shop.example", False), "Authorization": (None, True), "Cookie": (None, True)}
        assert "very-secret" not in service.weir("show", str(one["id"]))[1]


def drop_all(service, rule):
    """Drops requests until none waits. Returns their number. A request that the limiter is deciding on is not dropped,
    so several calls may be needed."""
    dropped = 0

    def none_left():
        nonlocal dropped
        dropped += json.loads(service.weir("drop", "--rule", rule, "--json")[1])["changed"]
        return json.loads(service.weir("list", "--state", "waiting", "--json")[1])["requests"] == []

    wait_for(none_left, "all requests to be dropped")
    return dropped


def test_operators_list_retry_and_drop_requests(api):
    """Lists are paged and filtered; retry and drop work by id, rule and state."""
    with QueueServer(api) as service:
        assert service.weir("list")[1] == "none\n"
        for number in range(5):
            service.defer(f"/orders/shut/{number}", key="shut")
        status, page = service.admin("GET", "/v1/queue/requests?count=2&rule=shop/shut")
        assert status == 200 and [r["uri"] for r in page["requests"]] == ["/orders/shut/0", "/orders/shut/1"]
        page = service.admin("GET", f"/v1/queue/requests?count=10&after={page['next']}")[1]
        assert [r["uri"] for r in page["requests"]] == [f"/orders/shut/{n}" for n in (2, 3, 4)]
        assert page["next"] is None
        assert service.admin("GET", "/v1/queue/requests?count=2&rule=shop/none")[1] == {
            "requests": [], "next": None, "end": page["end"]}
        page = service.admin("GET", "/v1/queue/requests?count=4&rule=shop/shut")[1]
        page = service.admin("GET", f"/v1/queue/requests?count=4&rule=shop/shut&after={page['next']}")[1]
        assert [r["uri"] for r in page["requests"]] == ["/orders/shut/4"] and page["next"] is None
        page = service.admin("GET", "/v1/queue/requests?after=2")[1]
        first = page["requests"][0]
        code, out, _ = service.weir("show", str(first["id"]))
        assert code == 0 and "POST /orders/shut/2" in out and "one, please" in out and "host: shop.example" in out
        assert "/orders/shut/4" in service.weir("list", "--state", "waiting", "--key", first["key"])[1]
        assert json.loads(service.weir("list", "--json")[1])["end"] == page["end"]
        assert service.weir("drop", str(first["id"])) == (0, "1 dropped\n", "")
        code, out, err = service.weir("drop", str(first["id"]))
        assert (code, out) == (1, "0 dropped\n") and "no such request" in err
        assert service.weir("show", "999999")[0] == 1
        assert service.weir("drop")[0] == 2 and service.weir("retry", "x")[0] == 2
        assert drop_all(service, "shop/shut") == 4
        service.weir("retry", "--state", "dead", "--key", first["key"])
        for reported in (f"drop {first['id']}", 'drop all of rule "shop/shut"', f"retry all that are dead of key {first['key']}"):
            service.serve.wait_logged(f"queue {reported}\n")
        assert numbers(api, "shut") == []


@full("the queue is counted once a second")
def test_operators_see_the_counts(api):
    """`weir queue stats`, the admin API and `weir top` show the counts of the queue."""
    with QueueServer(api) as service:
        for number in range(5):
            service.defer(f"/orders/shut/{number}", key="shut")
        wait_for(lambda: service.stats()["waiting"] == 5, "five to be counted")
        code, out, _ = service.weir("stats")
        assert code == 0 and "5 stored, 0 delivered" in out and f"http://127.0.0.1:{api.port}" in out
        assert drop_all(service, "shop/shut") == 5
        wait_for(lambda: service.stats()["waiting"] == 0, "all requests to be dropped")
        assert service.stats()["totals"]["dropped"] == 5
        top = [WEIR, "top", "--dir", service.serve.table]
        wait_for(lambda: "queue      0 waiting" in subprocess.run(top, capture_output=True, text=True, check=True,
                                                                  env=for_weir()).stdout,
                 "that to be in the table")


def test_invalid_operator_orders_are_refused(api):
    with QueueServer(api) as service:
        for path, status in [("/v1/queue/requests?state=gone", 400), ("/v1/queue/requests?count=0", 400),
                             ("/v1/queue/requests?key=12", 400), ("/v1/queue/request", 400),
                             ("/v1/queue/request?id=x", 400), ("/v1/queue/request?id=5", 404)]:
            assert service.admin("GET", path)[0] == status, path
        for body in ({}, {"id": "5"}, {"what": 1}, {"all": "yes"}, {"state": "gone"}):
            answer = fetch(service.serve.admin_port, "POST", "/v1/queue/drop", [("Content-Type", "application/json")],
                           json.dumps(body).encode())
            assert answer.status == 400, body


def test_service_without_a_queue_refuses_deferred_requests():
    """Commands of the queue get the reason `off`, and there are no metrics of a queue."""
    with Serve(rules=RULES, resp="unix:{folder}/weir.sock", admin=True, args=["--link-key", "{folder}/link.key"]) as serve:
        with linked(serve) as link:
            reported = link.call(*QueueServer.words("/orders/7/1"))
            assert isinstance(reported, Error) and reported.startswith("DEFER off ")
            assert link.call("WEIR.TICKET", "0" * 32).startswith("DEFER off ")
        answer = fetch(serve.admin_port, "GET", "/v1/queue")
        assert json.loads(answer.body)["queue"] is None
        assert fetch(serve.admin_port, "GET", "/v1/queue/requests").status == 404
        assert "weir_queue_" not in Metrics(serve.admin_port).text


@pytest.mark.parametrize("args, output", [
    (["--queue", "ftp://x"], "--queue"),
    (["--queue", "file:/tmp/x", "--queue-target", "127.0.0.1:80"], "--queue-target"),
    (["--queue", "file:/tmp/x", "--queue-target", "http://x/path"], "--queue-target"),
    (["--queue", "file:/tmp/x", "--queue-key", "/does/not/exist"], "/does/not/exist"),
    (["--queue", "file:/tmp/x", "--queue-target-ca", "/etc/passwd"], "--queue-target-ca needs"),
    (["--queue", "file:/tmp/x", "--queue-target", "http://x", "--queue-target-ca", "/etc/passwd"], "https://"),
    (["--queue", "file:/tmp/x", "--queue-target", "https://x", "--queue-target-ca", "/etc/passwd"], "PEM"),
    (["--queue", "file:/tmp/x", "--queue-connections", "0"], "--queue-connections"),
])
def test_invalid_queue_options_prevent_the_start(args, output, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    args = [a.replace("/tmp/x", str(tmp_path / "q")) for a in args]
    done = subprocess.run([WEIR, "serve", "--rules", rules, "--table-dir", tmp_path, "--grpc", "off", "--http", "off",
                           "--resp", "off", "--admin", f"unix:{tmp_path}/a", "--memory", "1M", *args],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (1, 2) and output in done.stderr, done
