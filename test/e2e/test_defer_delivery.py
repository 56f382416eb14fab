"""Delivery of what was kept: when the API fails, says to wait, or is not there for long."""

import json

import pytest

from weirtest import full, wait_for
from weirtest.deferring import Shop, rules
from weirtest.orders import Orders

API = Orders  # the server of the fixture `api`


def waiting(shop, user, count):
    """An order that goes through, and `count` that wait for an hour: their answers."""
    assert shop.order(user, 0).status == 200
    answers = [shop.order(user, n) for n in range(1, count + 1)]
    assert {a.status for a in answers} == {202}
    return answers


FINAL = [200, 201, 204, 302, 400, 404, 409, 422]


def test_an_answer_is_final(api):
    """Also a 4xx: the same request would meet it again. A redirect is not followed."""
    with Shop(api.port) as shop:
        answers = {status: waiting(shop, f"u{status}", 1)[0] for status in FINAL}
        for status in FINAL:
            api.plan(f"/orders/u{status}/", {"status": status, "headers": {"Location": f"/orders/u{status}/99"}})
        shop.raise_limit()
        for status in FINAL:
            assert shop.wait_ticket(answers[status], "delivered")["http_status"] == status
            assert [one.order[1] for one in api.seen(f"/orders/u{status}/")] == [0, 1]


FAILURES = [[500], [503], [429], [408], [425], [{"drop": True}], [500, {"drop": True}]]


def check_tried_again(seen, answers):
    """One order that met `answers` before a 200, and the one behind it."""
    assert [one.order[1] for one in seen] == [1] * (len(answers) + 1) + [2]
    assert len({one.get("idempotency-key") for one in seen[:-1]}) == 1
    assert seen[-1].get("idempotency-key") != seen[0].get("idempotency-key")


def test_a_failure_is_tried_again_with_the_same_key(api):
    """The next try is not waited for."""
    with Shop(api.port) as shop:
        pairs = [waiting(shop, f"u{n}", 2) for n in range(len(FAILURES))]
        for n, answers in enumerate(FAILURES):
            api.plan(f"/orders/u{n}/1", *answers, 200)
        shop.raise_limit()
        for n, (first, second) in enumerate(pairs):
            shop.hurry_ticket(second, "delivered")
            check_tried_again(api.seen(f"/orders/u{n}/")[1:], FAILURES[n])
            assert shop.ticket(first)["http_status"] == 200


@full("waits for the back-off")
@pytest.mark.parametrize("answers", FAILURES)
def test_a_failure_is_tried_again_after_a_while(api, answers):
    with Shop(api.port) as shop:
        first, second = waiting(shop, "ann", 2)
        api.plan("/orders/ann/1", *answers, 200)
        shop.raise_limit()
        shop.wait_ticket(second, "delivered", 60)
        seen = api.seen()[1:]
        check_tried_again(seen, answers)
        gaps = [(b.ns - a.ns) / 1e9 for a, b in zip(seen, seen[1:len(answers) + 1])]
        assert all(gap >= 0.4 for gap in gaps), f"no back-off: {gaps}"
        assert shop.ticket(first)["http_status"] == 200


def test_retry_after_says_when_the_next_try_is(api):
    """Later than any back-off, of which none is longer than five minutes. An operator need not wait for it."""
    with Shop(api.port) as shop:
        answers = {status: waiting(shop, f"u{status}", 1)[0] for status in (503, 429)}
        for status in answers:
            api.plan(f"/orders/u{status}/1", {"status": status, "headers": {"Retry-After": "3000"}}, 200)
        shop.raise_limit()
        for status in answers:
            wait_for(lambda uri=f"/orders/u{status}/1", of=status: shop.listed(uri)["http_status"] == of, "the first try")
            [first] = api.seen(f"/orders/u{status}/1")
            assert shop.listed(f"/orders/u{status}/1")["due_at"] - first.wall_ns / 1e9 > 2000
        for status, answer in answers.items():
            shop.hurry_ticket(answer, "delivered")
            assert len(api.seen(f"/orders/u{status}/1")) == 2


@full("waits for seconds of a Retry-After")
@pytest.mark.parametrize("status", [503, 429])
def test_retry_after_is_heeded(api, status):
    with Shop(api.port) as shop:
        [answer] = waiting(shop, "ann", 1)
        api.plan("/orders/ann/1", {"status": status, "headers": {"Retry-After": "4"}}, 200)
        shop.raise_limit()
        shop.wait_ticket(answer, "delivered", 60)
        first, second = api.seen("/orders/ann/1")
        assert (second.ns - first.ns) / 1e9 >= 4


def test_a_poisonous_order_holds_up_its_own_key_alone(api):
    with Shop(api.port) as shop:
        poison, after = waiting(shop, "ann", 2)
        others = waiting(shop, "bob", 5)
        api.plan("/orders/ann/1", 500)
        shop.raise_limit()
        for answer in others:
            shop.wait_ticket(answer, "delivered")
        shop.hurry(lambda: len(api.seen("/orders/ann/1")) >= 3, "three tries")
        wait_for(lambda: shop.ticket(poison)["status"] == "waiting", "it to wait again")
        assert shop.ticket(poison)["status"] == shop.ticket(after)["status"] == "waiting"
        assert shop.ticket(poison)["tries"] >= 2


def test_a_poisonous_order_is_given_up_after_max_tries(api):
    with Shop(api.port, rules=rules(defer="max_tries: 2")) as shop:
        poison, after = waiting(shop, "ann", 2)
        api.plan("/orders/ann/1", 500)
        shop.raise_limit()
        shop.hurry_ticket(after, "delivered")
        dead = shop.ticket(poison)
        assert dead["status"] == "dead" and "500" in dead["reason"]
        assert [one.order[1] for one in api.seen()] == [0, 1, 1, 2]
        wait_for(lambda: shop.stats()["dead"] == 1, "it to be counted")
        listed = shop.weir("queue", "list", "--state", "dead")
        assert "/orders/ann/1" in listed and "/orders/ann/2" not in listed
        api.plan("/orders/ann/1")
        shop.weir("queue", "retry", "--state", "dead")
        assert shop.wait_ticket(poison, "delivered")["http_status"] == 200
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
    with Shop(api.port, rules=TWO_RULES.format(rate="{unit: hour, requests_per_unit: 1")) as shop:
        [order] = waiting(shop, "ann", 1)
        for n in range(7):
            assert shop.request("POST", f"/mails/{n}", [("X-User", "bob")], b"hello").status == (202 if n else 200)
        api.plan("/orders/ann/1", 503)
        shop.raise_limit(TWO_RULES.format(rate="{unit: second, requests_per_unit: 100000"), retry=False)
        for n in range(1, 7):
            shop.hurry(lambda more=n: len(api.seen("/orders/ann/1")) >= more, "another try of the order")
            shop.hurry(lambda more=n: len(api.seen("/mails/")) > more, "a mail to be delivered")
        wait_for(lambda: shop.ticket(order)["status"] == "waiting", "it to wait again")
        assert shop.ticket(order)["tries"] == 0
        api.plan("/orders/ann/1")
        assert shop.hurry_ticket(order, "delivered")["http_status"] == 200


def check_too_old(dead):
    assert "age" in dead["reason"] or "old" in dead["reason"]
    assert 0 < dead["tries"] < 1000


def test_an_order_that_is_too_old_is_given_up(api, clock):
    """The limit lets it pass in time; the API does not take it, and then the gateway is away for two hours, all but a
    minute, and for that minute. While it runs, it goes by a clock that the test does not move."""
    api.plan("/orders/ann/1", 500)
    with Shop(api.port, rules=rules("{period: 1h, requests_per_unit: 1", "max_age: 2h, max_tries: 1000")) as shop:
        [answer] = waiting(shop, "ann", 1)
        shop.raise_limit()
        wait_for(lambda: shop.ticket(answer)["tries"] >= 1, "the first try")
        for away, status in ((7140, "waiting"), (60, "dead")):
            shop.kill_all()
            clock.advance(away)
            shop.start()
            told = shop.hurry_ticket(answer, status)
        check_too_old(told)


@full("waits for fifteen seconds")
def test_an_order_that_grows_too_old_is_given_up(api):
    api.plan("/orders/ann/1", 500)
    with Shop(api.port, rules=rules("{period: 10s, requests_per_unit: 1", "max_age: 15s, max_tries: 1000")) as shop:
        [answer] = waiting(shop, "ann", 1)
        shop.raise_limit()
        check_too_old(shop.wait_ticket(answer, "dead", 60))


def test_an_order_that_would_be_too_late_is_refused(api):
    """One in two hours, and none is kept for longer than an hour: no ticket, and the reason."""
    with Shop(api.port, rules=rules("{period: 2h, requests_per_unit: 1", "max_age: 1h")) as shop:
        answers = [shop.order("ann", n) for n in range(2)]
        assert [a.status for a in answers] == [200, 429]
        assert answers[1].get("x-weir-not-deferred") == "too_late"
        assert json.loads(shop.weir("queue", "list", "--json"))["requests"] == []


def test_a_line_that_is_too_long_for_its_age(api):
    """One in ten minutes, kept for fifty: of five and a full bucket at both ends more could not be delivered."""
    with Shop(api.port, rules=rules("{period: 10m, requests_per_unit: 1", "max_age: 50m")) as shop:
        answers = [shop.order("ann", n) for n in range(10)]
        assert [a.status for a in answers] == [200] + [202] * 8 + [429]
        assert answers[-1].get("x-weir-not-deferred") == "too_late"
        assert shop.order("bob", 0).status == 200 and shop.order("bob", 1).status == 202


@full("tries of an API that is away are seconds apart; test_drain.py has a quick one")
def test_an_api_that_is_away_for_long(api):
    with Shop(api.port) as shop:
        answers = [a for user in ("ann", "bob", "cyd") for a in waiting(shop, user, 3)]
        api.kill()
        shop.raise_limit()
        wait_for(lambda: not shop.stats()["target_up"], "it to be missed")
        assert {(t["status"], t["tries"]) for t in map(shop.ticket, answers)} == {("waiting", 0)}, \
            "nobody is there to refuse them: nothing is held against them"
        api.start()
        shop.weir("queue", "retry", "--all")
        for answer in answers:
            shop.wait_ticket(answer, "delivered", 60)
        assert [len(api.seen(f"/orders/{user}/")) for user in ("ann", "bob", "cyd")] == [4, 4, 4]


def test_dropped_ones_are_not_delivered(api):
    with Shop(api.port) as shop:
        first, second, third = waiting(shop, "ann", 3)
        [number] = [line.split()[0] for line in shop.weir("queue", "list").splitlines() if "/orders/ann/2" in line]
        shop.weir("queue", "drop", number)
        assert shop.ticket(second)["status"] == "dropped"
        shop.raise_limit()
        for answer in (first, third):
            shop.wait_ticket(answer, "delivered")
        assert [one.order[1] for one in api.seen()] == [0, 1, 3]
