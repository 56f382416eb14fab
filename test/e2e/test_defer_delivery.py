"""Delivery of what was kept: when the API fails, says to wait, or is not there for long."""

import json

import pytest

from weirtest import full, wait_for
from weirtest.deferring import DeferringGateway, rules
from weirtest.orders import Orders

API = Orders  # the server of the fixture `api`


def waiting(gateway, user, count):
    """An order that goes through, and `count` that wait for an hour: their answers."""
    assert gateway.order(user, 0).status == 200
    answers = [gateway.order(user, n) for n in range(1, count + 1)]
    assert {a.status for a in answers} == {202}
    return answers


FINAL = [200, 201, 204, 302, 400, 404, 409, 422]


def test_an_answer_is_final(api):
    """Also a 4xx: the same request would meet it again. A redirect is not followed."""
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
    """One order that met `answers` before a 200, and the one behind it."""
    assert [one.order[1] for one in seen] == [1] * (len(answers) + 1) + [2]
    assert len({one.get("idempotency-key") for one in seen[:-1]}) == 1
    assert seen[-1].get("idempotency-key") != seen[0].get("idempotency-key")


def test_a_failure_is_tried_again_with_the_same_key(api):
    """The next try is not waited for."""
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
def test_a_failure_is_tried_again_after_a_while(api, answers):
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


def test_retry_after_says_when_the_next_try_is(api):
    """Later than any back-off, of which none is longer than five minutes. An operator need not wait for it."""
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
def test_retry_after_is_heeded(api, status):
    with DeferringGateway(api.port) as gateway:
        [answer] = waiting(gateway, "ann", 1)
        api.plan("/orders/ann/1", {"status": status, "headers": {"Retry-After": "4"}}, 200)
        gateway.raise_limit()
        gateway.wait_ticket(answer, "delivered", 60)
        first, second = api.seen("/orders/ann/1")
        assert (second.ns - first.ns) / 1e9 >= 4


def test_a_poisonous_order_holds_up_its_own_key_alone(api):
    with DeferringGateway(api.port) as gateway:
        poison, after = waiting(gateway, "ann", 2)
        others = waiting(gateway, "bob", 5)
        api.plan("/orders/ann/1", 500)
        gateway.raise_limit()
        for answer in others:
            gateway.wait_ticket(answer, "delivered")
        gateway.retry_until(lambda: len(api.seen("/orders/ann/1")) >= 3, "three tries")
        wait_for(lambda: gateway.ticket(poison)["status"] == "waiting", "it to wait again")
        assert gateway.ticket(poison)["status"] == gateway.ticket(after)["status"] == "waiting"
        assert gateway.ticket(poison)["tries"] >= 2


def test_a_poisonous_order_is_given_up_after_max_tries(api):
    with DeferringGateway(api.port, rules=rules(defer="max_tries: 2")) as gateway:
        poison, after = waiting(gateway, "ann", 2)
        api.plan("/orders/ann/1", 500)
        gateway.raise_limit()
        gateway.retry_until_ticket(after, "delivered")
        dead = gateway.ticket(poison)
        assert dead["status"] == "dead" and "500" in dead["reason"]
        assert [one.order[1] for one in api.seen()] == [0, 1, 1, 2]
        wait_for(lambda: gateway.stats()["dead"] == 1, "it to be counted")
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


def test_a_service_that_is_away_is_not_given_up_because_another_one_answers(api):
    """Behind one load balancer: the service of the orders is away, that of the mails answers."""
    with DeferringGateway(api.port, rules=TWO_RULES.format(rate="{unit: hour, requests_per_unit: 1")) as gateway:
        [order] = waiting(gateway, "ann", 1)
        for n in range(7):
            assert gateway.request("POST", f"/mails/{n}", [("X-User", "bob")], b"hello").status == (202 if n else 200)
        api.plan("/orders/ann/1", 503)
        gateway.raise_limit(TWO_RULES.format(rate="{unit: second, requests_per_unit: 100000"), retry=False)
        for n in range(1, 7):
            gateway.retry_until(lambda more=n: len(api.seen("/orders/ann/1")) >= more, "another try of the order")
            gateway.retry_until(lambda more=n: len(api.seen("/mails/")) > more, "a mail to be delivered")
        wait_for(lambda: gateway.ticket(order)["status"] == "waiting", "it to wait again")
        assert gateway.ticket(order)["tries"] == 0
        api.plan("/orders/ann/1")
        assert gateway.retry_until_ticket(order, "delivered")["http_status"] == 200


def check_too_old(dead):
    assert "age" in dead["reason"] or "old" in dead["reason"]
    assert 0 < dead["tries"] < 1000


def test_an_order_that_is_too_old_is_given_up(api, clock):
    """The limit lets it pass in time; the API does not take it, and then the gateway is away for two hours, all but a
    minute, and for that minute. While it runs, it goes by a clock that the test does not move."""
    api.plan("/orders/ann/1", 500)
    with DeferringGateway(api.port, rules=rules("{period: 1h, requests_per_unit: 1", "max_age: 2h, max_tries: 1000")) as gateway:
        [answer] = waiting(gateway, "ann", 1)
        gateway.raise_limit()
        wait_for(lambda: gateway.ticket(answer)["tries"] >= 1, "the first try")
        for away, status in ((7140, "waiting"), (60, "dead")):
            gateway.kill_all()
            clock.advance(away)
            gateway.start()
            told = gateway.retry_until_ticket(answer, status)
        check_too_old(told)


@full("waits for fifteen seconds")
def test_an_order_that_grows_too_old_is_given_up(api):
    api.plan("/orders/ann/1", 500)
    with DeferringGateway(api.port, rules=rules("{period: 10s, requests_per_unit: 1", "max_age: 15s, max_tries: 1000")) as gateway:
        [answer] = waiting(gateway, "ann", 1)
        gateway.raise_limit()
        check_too_old(gateway.wait_ticket(answer, "dead", 60))


def test_an_order_that_would_be_too_late_is_refused(api):
    """One in two hours, and none is kept for longer than an hour: no ticket, and the reason."""
    with DeferringGateway(api.port, rules=rules("{period: 2h, requests_per_unit: 1", "max_age: 1h")) as gateway:
        answers = [gateway.order("ann", n) for n in range(2)]
        assert [a.status for a in answers] == [200, 429]
        assert answers[1].get("x-weir-not-deferred") == "too_late"
        assert json.loads(gateway.weir("queue", "list", "--json"))["requests"] == []


def test_a_line_that_is_too_long_for_its_age(api):
    """One in ten minutes, kept for fifty: of five and a full bucket at both ends more could not be delivered."""
    with DeferringGateway(api.port, rules=rules("{period: 10m, requests_per_unit: 1", "max_age: 50m")) as gateway:
        answers = [gateway.order("ann", n) for n in range(10)]
        assert [a.status for a in answers] == [200] + [202] * 8 + [429]
        assert answers[-1].get("x-weir-not-deferred") == "too_late"
        assert gateway.order("bob", 0).status == 200 and gateway.order("bob", 1).status == 202


@full("tries of an API that is away are seconds apart; test_deliver.py has a quick one")
def test_an_api_that_is_away_for_long(api):
    with DeferringGateway(api.port) as gateway:
        answers = [a for user in ("ann", "bob", "cyd") for a in waiting(gateway, user, 3)]
        api.kill()
        gateway.raise_limit()
        wait_for(lambda: not gateway.stats()["target_up"], "it to be missed")
        assert {(t["status"], t["tries"]) for t in map(gateway.ticket, answers)} == {("waiting", 0)}, \
            "nobody is there to refuse them: nothing is held against them"
        api.start()
        gateway.weir("queue", "retry", "--all")
        for answer in answers:
            gateway.wait_ticket(answer, "delivered", 60)
        assert [len(api.seen(f"/orders/{user}/")) for user in ("ann", "bob", "cyd")] == [4, 4, 4]


def test_dropped_ones_are_not_delivered(api):
    with DeferringGateway(api.port) as gateway:
        first, second, third = waiting(gateway, "ann", 3)
        [number] = [line.split()[0] for line in gateway.weir("queue", "list").splitlines() if "/orders/ann/2" in line]
        gateway.weir("queue", "drop", number)
        assert gateway.ticket(second)["status"] == "dropped"
        gateway.raise_limit()
        for answer in (first, third):
            gateway.wait_ticket(answer, "delivered")
        assert [one.order[1] for one in api.seen()] == [0, 1, 3]
