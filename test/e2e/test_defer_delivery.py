"""Delivery of deferred orders while the API fails, sends Retry-After, or is down for long."""

import json

import pytest

from weirtest import full, wait_for
from weirtest.deferring import DeferringGateway, rules
from weirtest.orders import Orders

API = Orders  # the server of the fixture `api`


def waiting(gateway, user, count):
    """Sends an order that is admitted, and `count` orders that wait for an hour. Returns the responses."""
    assert gateway.order(user, 0).status == 200
    answers = [gateway.order(user, n) for n in range(1, count + 1)]
    assert {a.status for a in answers} == {202}
    return answers


FINAL = [200, 201, 204, 302, 400, 404, 409, 422]


def test_response_2xx_3xx_or_4xx_is_final(api):
    """A 4xx is final too: the same request would get it again. A redirect is not followed."""
    with DeferringGateway(api.port) as gateway:
        answers = {status: waiting(gateway, f"u{status}", 1)[0] for status in FINAL}
        for status in FINAL:
            api.plan(f"/orders/u{status}/", {"status": status, "headers": {"Location": f"/orders/u{status}/99"}})
        gateway.raise_limit()
        for status in FINAL:
            assert gateway.wait_ticket(answers[status], "delivered")["http_status"] == status
            assert [one.order[1] for one in api.seen(f"/orders/u{status}/")] == [0, 1]


FAILURES = [[500], [503], [429], [408], [425], [{"drop": True}], [500, {"drop": True}]]


def check_tried_again(seen, answers):
    """Checks that an order got `answers` before its 200, and that the order behind it came after that."""
    assert [one.order[1] for one in seen] == [1] * (len(answers) + 1) + [2]
    assert len({one.get("idempotency-key") for one in seen[:-1]}) == 1
    assert seen[-1].get("idempotency-key") != seen[0].get("idempotency-key")


def test_retry_has_the_same_idempotency_key(api):
    """The test does not wait for the back-off."""
    with DeferringGateway(api.port) as gateway:
        pairs = [waiting(gateway, f"u{n}", 2) for n in range(len(FAILURES))]
        for n, answers in enumerate(FAILURES):
            api.plan(f"/orders/u{n}/1", *answers, 200)
        gateway.raise_limit()
        for n, (first, second) in enumerate(pairs):
            gateway.retry_until_ticket(second, "delivered")
            check_tried_again(api.seen(f"/orders/u{n}/")[1:], FAILURES[n])
            assert gateway.ticket(first)["http_status"] == 200


@full("waits for the back-off")
@pytest.mark.parametrize("answers", FAILURES)
def test_failure_is_retried_after_a_back_off(api, answers):
    """An order that fails is sent again with pauses, and the next order of its key comes after it."""
    with DeferringGateway(api.port) as gateway:
        first, second = waiting(gateway, "ann", 2)
        api.plan("/orders/ann/1", *answers, 200)
        gateway.raise_limit()
        gateway.wait_ticket(second, "delivered", 60)
        seen = api.seen()[1:]
        check_tried_again(seen, answers)
        gaps = [(b.ns - a.ns) / 1e9 for a, b in zip(seen, seen[1:len(answers) + 1])]
        assert all(gap >= 0.4 for gap in gaps), f"no back-off: {gaps}"
        assert gateway.ticket(first)["http_status"] == 200


def test_retry_after_sets_the_time_of_the_next_try(api):
    """Retry-After is longer than any back-off, which is at most five minutes. An operator's retry does not wait for
    it."""
    with DeferringGateway(api.port) as gateway:
        answers = {status: waiting(gateway, f"u{status}", 1)[0] for status in (503, 429)}
        for status in answers:
            api.plan(f"/orders/u{status}/1", {"status": status, "headers": {"Retry-After": "3000"}}, 200)
        gateway.raise_limit()
        for status in answers:
            wait_for(lambda uri=f"/orders/u{status}/1", of=status: gateway.listed(uri)["http_status"] == of, "the first try")
            [first] = api.seen(f"/orders/u{status}/1")
            assert gateway.listed(f"/orders/u{status}/1")["due_at"] - first.wall_ns / 1e9 > 2000
        for status, answer in answers.items():
            gateway.retry_until_ticket(answer, "delivered")
            assert len(api.seen(f"/orders/u{status}/1")) == 2


@full("waits for seconds of a Retry-After")
@pytest.mark.parametrize("status", [503, 429])
def test_retry_after_is_respected(api, status):
    with DeferringGateway(api.port) as gateway:
        [answer] = waiting(gateway, "ann", 1)
        api.plan("/orders/ann/1", {"status": status, "headers": {"Retry-After": "4"}}, 200)
        gateway.raise_limit()
        gateway.wait_ticket(answer, "delivered", 60)
        first, second = api.seen("/orders/ann/1")
        assert (second.ns - first.ns) / 1e9 >= 4


def test_failing_order_delays_only_its_own_key(api):
    """Orders of another key are delivered while an order is tried again and again. The order behind it waits."""
    with DeferringGateway(api.port) as gateway:
        poison, after = waiting(gateway, "ann", 2)
        others = waiting(gateway, "bob", 5)
        api.plan("/orders/ann/1", 500)
        gateway.raise_limit()
        for answer in others:
            gateway.wait_ticket(answer, "delivered")
        gateway.retry_until(lambda: len(api.seen("/orders/ann/1")) >= 3, "three tries")
        wait_for(lambda: gateway.ticket(poison)["status"] == "waiting", "the order to wait again")
        assert gateway.ticket(poison)["status"] == gateway.ticket(after)["status"] == "waiting"
        assert gateway.ticket(poison)["tries"] >= 2


def test_failing_order_is_dead_after_max_tries(api):
    """The next order of the key is delivered. An operator's retry delivers the dead order with the same
    Idempotency-Key."""
    with DeferringGateway(api.port, rules=rules(defer="max_tries: 2")) as gateway:
        poison, after = waiting(gateway, "ann", 2)
        api.plan("/orders/ann/1", 500)
        gateway.raise_limit()
        gateway.retry_until_ticket(after, "delivered")
        dead = gateway.ticket(poison)
        assert dead["status"] == "dead" and "500" in dead["reason"]
        assert [one.order[1] for one in api.seen()] == [0, 1, 1, 2]
        wait_for(lambda: gateway.stats()["dead"] == 1, "the dead order to be counted")
        listed = gateway.weir("queue", "list", "--state", "dead")
        assert "/orders/ann/1" in listed and "/orders/ann/2" not in listed
        api.plan("/orders/ann/1")
        gateway.weir("queue", "retry", "--state", "dead")
        assert gateway.wait_ticket(poison, "delivered")["http_status"] == 200
        assert len({one.get("idempotency-key") for one in api.seen("/orders/ann/1")}) == 1


TWO_RULES = """
domain: shop
requests:
  - when: {{path: "/orders/*"}}
    descriptor: [{{key: user, from: header.x-user}}]
  - when: {{path: "/mails/*"}}
    descriptor: [{{key: mail, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {rate}, algorithm: token_bucket, burst: 1, on_limit: defer, defer: {{max_age: 366d, max_tries: 2}}}}
  - key: mail
    rate_limit: {rate}, algorithm: token_bucket, burst: 1, on_limit: defer, defer: {{max_age: 366d, max_tries: 2}}}}
"""


def test_unavailable_service_behind_a_load_balancer_makes_no_order_dead(api):
    """Behind one load balancer the service of the orders is down, and that of the mails answers."""
    with DeferringGateway(api.port, rules=TWO_RULES.format(rate="{unit: hour, requests_per_unit: 1")) as gateway:
        [order] = waiting(gateway, "ann", 1)
        for n in range(7):
            assert gateway.request("POST", f"/mails/{n}", [("X-User", "bob")], b"hello").status == (202 if n else 200)
        api.plan("/orders/ann/1", 503)
        gateway.raise_limit(TWO_RULES.format(rate="{unit: second, requests_per_unit: 100000"), retry=False)
        for n in range(1, 7):
            gateway.retry_until(lambda more=n: len(api.seen("/orders/ann/1")) >= more, "another try of the order")
            gateway.retry_until(lambda more=n: len(api.seen("/mails/")) > more, "a mail to be delivered")
        wait_for(lambda: gateway.ticket(order)["status"] == "waiting", "the order to wait again")
        assert gateway.ticket(order)["tries"] == 0
        api.plan("/orders/ann/1")
        assert gateway.retry_until_ticket(order, "delivered")["http_status"] == 200


def check_too_old(dead):
    """Checks that a dead ticket names its age as the reason."""
    assert "age" in dead["reason"] or "old" in dead["reason"]
    assert 0 < dead["tries"] < 1000


def test_order_older_than_max_age_is_dead(api, clock):
    """The limit admits the order in time. The API does not accept it, then the gateway is down for two hours but a
    minute, and for that minute. While it runs, it uses a clock that the test does not move."""
    api.plan("/orders/ann/1", 500)
    with DeferringGateway(api.port, rules=rules("{period: 1h, requests_per_unit: 1", "max_age: 2h, max_tries: 1000")) as gateway:
        [answer] = waiting(gateway, "ann", 1)
        gateway.raise_limit()
        wait_for(lambda: gateway.ticket(answer)["tries"] >= 1, "the first try")
        for away, status in ((7140, "waiting"), (60, "dead")):
            gateway.kill_all()
            clock.advance(away)
            gateway.start()
            reported = gateway.retry_until_ticket(answer, status)
        check_too_old(reported)


@full("waits for fifteen seconds")
def test_order_that_exceeds_max_age_while_waiting_is_dead(api):
    api.plan("/orders/ann/1", 500)
    with DeferringGateway(api.port, rules=rules("{period: 10s, requests_per_unit: 1", "max_age: 15s, max_tries: 1000")) as gateway:
        [answer] = waiting(gateway, "ann", 1)
        gateway.raise_limit()
        check_too_old(gateway.wait_ticket(answer, "dead", 60))


def test_order_that_would_exceed_max_age_is_refused(api):
    """One order in two hours, and max_age is an hour: no ticket, and the reason in the response."""
    with DeferringGateway(api.port, rules=rules("{period: 2h, requests_per_unit: 1", "max_age: 1h")) as gateway:
        answers = [gateway.order("ann", n) for n in range(2)]
        assert [a.status for a in answers] == [200, 429]
        assert answers[1].get("x-weir-not-deferred") == "too_late"
        assert json.loads(gateway.weir("queue", "list", "--json"))["requests"] == []


def test_queue_of_a_key_is_limited_by_max_age(api):
    """One order in ten minutes, max_age of fifty minutes: more than five and a full bucket at both ends could not be
    delivered."""
    with DeferringGateway(api.port, rules=rules("{period: 10m, requests_per_unit: 1", "max_age: 50m")) as gateway:
        answers = [gateway.order("ann", n) for n in range(10)]
        assert [a.status for a in answers] == [200] + [202] * 8 + [429]
        assert answers[-1].get("x-weir-not-deferred") == "too_late"
        assert gateway.order("bob", 0).status == 200 and gateway.order("bob", 1).status == 202


@full("tries of an unavailable API are seconds apart; test_deliver.py has a quick test")
def test_orders_are_delivered_after_a_long_outage_of_the_api(api):
    """While no connection is possible no try is counted; afterwards all orders are delivered."""
    with DeferringGateway(api.port) as gateway:
        answers = [a for user in ("ann", "bob", "cyd") for a in waiting(gateway, user, 3)]
        api.kill()
        gateway.raise_limit()
        wait_for(lambda: not gateway.stats()["target_up"], "the loss of the API to be noticed")
        assert {(t["status"], t["tries"]) for t in map(gateway.ticket, answers)} == {("waiting", 0)}, \
            "nobody is there to refuse them: nothing is held against them"
        api.start()
        gateway.weir("queue", "retry", "--all")
        for answer in answers:
            gateway.wait_ticket(answer, "delivered", 60)
        assert [len(api.seen(f"/orders/{user}/")) for user in ("ann", "bob", "cyd")] == [4, 4, 4]


def test_dropped_orders_are_not_delivered(api):
    with DeferringGateway(api.port) as gateway:
        first, second, third = waiting(gateway, "ann", 3)
        [number] = [line.split()[0] for line in gateway.weir("queue", "list").splitlines() if "/orders/ann/2" in line]
        gateway.weir("queue", "drop", number)
        assert gateway.ticket(second)["status"] == "dropped"
        gateway.raise_limit()
        for answer in (first, third):
            gateway.wait_ticket(answer, "delivered")
        assert [one.order[1] for one in api.seen()] == [0, 1, 3]
