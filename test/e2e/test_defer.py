"""Orders above their limit are deferred and delivered later: the responses to the client, and the requests to the
API."""

import calendar
import hashlib
import json
import os
import re
import stat
import time

import pytest

from weirtest import H2, free_port, full, wait_for
from weirtest.deferring import UNLIMITED, DeferringGateway, rules
from weirtest.orders import Orders, check_copies, check_pace, reason_of

API = Orders  # the server of the fixture `api`

TICKET = re.compile(r"[0-9a-f]{32}$")
FAST = rules("{unit: second, requests_per_unit: 1000")  # burst 1
SLOW = rules()  # one order an hour


def test_acceptance_24_refused_orders_are_delivered_later_in_order_at_the_allowed_rate(clock):
    with Orders() as api, DeferringGateway(api.port, rules=FAST) as gateway:
        began = clock.now()
        answers = [gateway.order("ann", n, body=b"order %d" % n) for n in range(30)]
        assert [a.status for a in answers] == [200] + [202] * 29
        assert len(api.seen()) == 1
        for n in range(2, 31):
            clock.advance(0.001)
            assert len(api.wait_seen(n)) == n
        seen = api.seen()
        assert [one.order for one in seen] == [("ann", n) for n in range(30)], "in order, each once"
        assert [one.sha256 for one in seen] == [hashlib.sha256(b"order %d" % n).hexdigest() for n in range(30)]
        check_pace(seen, began, 0.001)
        check_copies(seen)
        assert [one.is_deferred for one in seen] == [False] + [True] * 29
        for answer in answers[1:]:
            gateway.wait_ticket(answer, "delivered")
        assert len(api.seen()) == 30


def test_response_202_has_ticket_position_and_delay(api, clock):
    """Two orders wait an hour each: their positions are 1 and 2, their delays one and two hours."""
    del clock
    with DeferringGateway(api.port, rules=SLOW) as gateway:
        assert gateway.order("ann", 0).status == 200
        first, second = gateway.order("ann", 1), gateway.order("ann", 2)
        for position, answer in ((1, first), (2, second)):
            assert answer.status == 202
            ticket = answer.get("x-weir-ticket")
            assert TICKET.match(ticket)
            assert answer.get("location") == f"/.weir/tickets/{ticket}"
            assert answer.get("content-type") == "application/json"
            assert answer.get("cache-control") == "no-store"
            output = json.loads(answer.body)
            assert (output["ticket"], output["status"], output["position"]) == (ticket, "waiting", position)
            assert output["expected_delay"] == position * 3600
        assert first.get("x-weir-ticket") != second.get("x-weir-ticket")
        assert api.seen()[1:] == []


def test_ticket_reports_the_result_of_the_delivery(api):
    """Tickets show the position while an order waits, then the API's status, or the reason why the order is dead."""
    with DeferringGateway(api.port, rules=rules(defer="max_tries: 1")) as gateway:
        api.plan("/orders/ann/1", 201)
        api.plan("/orders/ann/2", 500)
        answers = [gateway.order("ann", n) for n in range(4)]
        assert [a.status for a in answers] == [200, 202, 202, 202]
        assert [gateway.ticket(a)["position"] for a in answers[1:]] == [1, 2, 3]
        assert {gateway.ticket(a)["status"] for a in answers[1:]} == {"waiting"}
        gateway.raise_limit(rules(UNLIMITED, "max_tries: 1"))
        assert gateway.wait_ticket(answers[1], "delivered")["http_status"] == 201
        dead = gateway.wait_ticket(answers[2], "dead")
        assert "500" in dead["reason"]
        gateway.wait_ticket(answers[3], "delivered")


def test_unknown_tickets_get_the_same_response(api):
    """Other, invalid and empty tickets get one and the same 404. DELETE gets 405."""
    with DeferringGateway(api.port, rules=SLOW) as gateway:
        gateway.order("ann", 0)
        answer = gateway.order("ann", 1)
        ticket = answer.get("x-weir-ticket")
        other = ("0" if ticket[0] != "0" else "1") + ticket[1:]
        wrong = [gateway.get(f"/.weir/tickets/{t}") for t in (other, "0" * 32, "x", "", ticket.upper() + "0")]
        assert {r.status for r in wrong} == {404}
        assert len({r.body for r in wrong}) == 1
        assert gateway.get(f"/.weir/tickets/{ticket}").status == 200
        assert gateway.request("DELETE", f"/.weir/tickets/{ticket}").status == 405


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_safe_methods_are_refused_and_not_deferred(api, clock, method):
    del clock
    with DeferringGateway(api.port, rules=SLOW) as gateway:
        listed = gateway.weir("queue", "list")
        assert gateway.order("ann", 0, method=method, body=None).status == 200
        answer = gateway.order("ann", 1, method=method, body=None)
        assert answer.status == 429
        assert answer.get("x-weir-ticket") is None
        assert int(answer.get("retry-after")) == 3600
        assert gateway.weir("queue", "list") == listed


@full("tries of an unavailable API are seconds apart; test_gateway_defer.py has an API that does not answer")
def test_new_orders_queue_behind_waiting_ones(api):
    """The limit admits new orders while an earlier one waits for the API. They must not overtake it."""
    with DeferringGateway(api.port, rules=rules("{unit: second, requests_per_unit: 1")) as gateway:
        api.kill()
        assert gateway.order("ann", 0).status == 502  # admitted, but the API does not run
        wait_for(lambda: gateway.order("ann", 1).status == 202, "an order to be over the limit")
        gateway.raise_limit(rules("{unit: second, requests_per_unit: 100"))
        waiting = [gateway.order("ann", n) for n in range(2, 12)]
        assert {a.status for a in waiting} == {202}, "though a hundred a second are allowed"
        assert gateway.order("bob", 0).status == 502, "others are not concerned"
        api.start()
        for answer in waiting:
            gateway.wait_ticket(answer, "delivered", 60)
        seen = api.seen("/orders/ann/")
        numbers = [one.order[1] for one in seen if one.is_deferred]
        assert numbers == sorted(numbers) and set(range(2, 12)) <= set(numbers)
        wait_for(lambda: gateway.order("ann", 20).status == 200, "orders to be let through again")


def test_bodies_arrive_unchanged(api, clock):
    with DeferringGateway(api.port, rules=FAST) as gateway:
        bodies = [b"", os.urandom(1), bytes(range(256)) * 40, os.urandom(1 << 20), b"\0" * 70000]
        held = [gateway.order("ann", n, {"Content-Type": "application/octet-stream"}, body)
                for n, body in enumerate([b"first", *bodies])]
        chunked = gateway.order("ann", 9, body=bodies[2], chunked=1000)
        assert [a.status for a in (*held, chunked)] == [200] + [202] * 6
        clock.run()
        seen = {one.order[1]: one for one in api.wait_seen(7)}
        for n, body in enumerate(bodies, 1):
            assert (seen[n].bytes, seen[n].sha256) == (len(body), hashlib.sha256(body).hexdigest())
            assert seen[n].get("content-type") == "application/octet-stream"
        assert seen[9].sha256 == hashlib.sha256(bodies[2]).hexdigest()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_method_and_query_are_stored(api, clock, method):
    with DeferringGateway(api.port, rules=FAST) as gateway:
        gateway.order("ann", 0)
        answer = gateway.order("ann", 1, method=method, body=None if method == "DELETE" else b"x", query="?a=%20b&c")
        assert answer.status == 202
        clock.run()
        seen = api.wait_seen(2)[1]
        assert (seen.method, seen.target) == (method, "/orders/ann/1?a=%20b&c")


def test_stored_header_fields(api, clock):
    """The fields of the default list and Host are stored; credentials, hop-by-hop and other fields are not."""
    fields = [("Content-Type", "application/json"), ("Content-Language", "de"), ("Accept", "a/b"), ("User-Agent", "till/1"),
              ("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
              ("Idempotency-Key", "my-own"), ("X-Secret", "not on the list"), ("Authorization", "Bearer abc"),
              ("Cookie", "session=1"), ("Connection", "x-hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"),
              ("TE", "trailers"), ("Host", "shop.example")]
    with DeferringGateway(api.port, rules=SLOW) as gateway:
        gateway.order("ann", 0)
        answer = gateway.order("ann", 1, fields)
        assert answer.status == 202
        gateway.raise_limit()
        seen = api.wait_seen(2)[1]
        kept = {k.lower(): v for k, v in seen.headers}
        for name, value in fields[:6]:
            assert kept[name.lower()] == value
        assert kept["host"] == "shop.example"
        assert kept["content-length"] == "11"
        assert abs(clock.now() - from_iso(kept["x-weir-deferred"])) < 600
        for name in ("x-secret", "authorization", "cookie", "x-hop", "keep-alive", "te", "x-user", "expect"):
            assert name not in kept, name


def from_iso(text):
    """Returns an ISO time as seconds since 1970."""
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def test_credentials_named_by_the_rule_are_stored_encrypted(api, tmp_path):
    key = tmp_path / "key"
    key.write_text(os.urandom(32).hex() + "\n", encoding="ascii")
    key.chmod(0o600)
    text = rules(defer="headers: [content-type, authorization, cookie]")
    with DeferringGateway(api.port, "--queue-key", key, rules=text) as gateway:
        gateway.order("ann", 0)
        answer = gateway.order("ann", 1, {"Authorization": "Bearer tell-nobody-1", "Cookie": "s=tell-nobody-2"})
        assert answer.status == 202
        stored = b"".join(p.read_bytes() for p in gateway.queue.rglob("*") if p.is_file())
        assert b"/orders/ann/1" in stored and b"tell-nobody" not in stored
        assert "tell-nobody" not in gateway.weir("queue", "list") + gateway.weir("queue", "list", "--json")
        gateway.raise_limit()
        seen = api.wait_seen(2)[1]
        assert seen.get("authorization") == "Bearer tell-nobody-1"
        assert seen.get("cookie") == "s=tell-nobody-2"


def test_credentials_are_not_stored_without_a_key(api):
    """Without --queue-key an order with credentials is refused, and an order without them is deferred."""
    with DeferringGateway(api.port, rules=rules(defer="headers: [authorization]")) as gateway:
        gateway.order("ann", 0)
        answer = gateway.order("ann", 1, {"Authorization": "Bearer x"})
        assert (answer.status, reason_of(answer)) == (429, "no_key")
        assert gateway.order("ann", 2).status == 202


def test_queue_files_are_private(api):
    """All files of the queue have mode 0600, and its folder has mode 0700."""
    with DeferringGateway(api.port, rules=SLOW) as gateway:
        gateway.order("ann", 0)
        assert gateway.order("ann", 1).status == 202
        files = [p for p in gateway.queue.rglob("*") if p.is_file()]
        assert len(files) >= 2  # including SQLite's log
        assert {stat.S_IMODE(p.stat().st_mode) for p in files} == {0o600}
        assert stat.S_IMODE(gateway.queue.stat().st_mode) == 0o700


def test_http2_orders_are_deferred(api):
    port = free_port()
    with DeferringGateway(api.port, "--h2c", f"127.0.0.1:{port}", rules=SLOW) as gateway:
        with H2(port) as client:
            first = client.request("POST", "/orders/ann/0", {"x-user": "ann"}, b"one")
            second = client.request("POST", "/orders/ann/1", {"x-user": "ann"}, b"x" * 200000)
            assert (first.status, second.status) == (200, 202)
            assert client.get(second.get("location")).status == 200
        gateway.raise_limit()
        assert api.wait_seen(2)[1].bytes == 200000
