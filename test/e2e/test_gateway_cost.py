"""weir gateway: costs, reservations, counting by the answer, and limits on concurrent requests, with two workers."""

import os
import signal
from urllib.parse import quote

from weirtest import Client, count_statuses, free_port, send_at_once, wait_for
from weirtest.gateway import Gateway, Listener, shout
from weirtest.redis import Redis

RULES = """
domain: api
requests:
  - when: {path: /chat}
    descriptor: [{key: tenant, from: header.x-tenant}]
    cost:
      reserve: {from: header.x-max-tokens, default: 600, max: 16000}
      actual: {from: response.json./usage/total_tokens, default: reserved}
  - when: {path: /login}
    descriptor: [{key: login_from, from: remote_address}]
    count: {status: [401, 403]}
  - when: {path: /v1/*}
    descriptor: [{key: user, from: header.x-tenant}]
    count: {except: [5xx]}
  - when: {path: /slots}
    descriptor: [{key: slots, from: header.x-tenant}]
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 10000, name: tokens}
  - key: login_from
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: slots
    rate_limit: {concurrent: 20, max_hold: 2m, name: in-flight}
"""

TENANT = {"X-Tenant": "t"}


def chat(tokens, **options):
    body = '{"usage": {"total_tokens": %d}}' % tokens
    return "/chat?" + "&".join(f"{k}={quote(str(v))}" for k, v in {"body": body, **options}.items())


def start(port, *options, **kwargs):
    return Gateway(port, *options, rules=RULES, **kwargs)


def wait_left(gateway, tokens):
    """Waits until this many tokens are left, with requests that use none."""
    wait_for(lambda: gateway.get(chat(0), TENANT).get("x-ratelimit-remaining") == str(tokens - 600), f"{tokens} left")


def test_debt_is_charged_in_redis(api, clock):
    """A request reserves 600 and uses 12,000 of 10,000. The debt is charged through the service."""
    with Redis() as redis, start(api.port, "--redis", redis.url(), "--redis-timeout", "20s") as gateway:
        wait_for(lambda: gateway.get(chat(0), {"X-Tenant": "probe"}).status == 200 and redis.keys("weir:1:{*"),
                 "the gateway to ask Redis", 30)
        gateway.renew_workers()
        assert gateway.get(chat(12000), TENANT).status == 200
        wait_for(lambda: gateway.get(chat(0), TENANT).status == 429, "the debt")
        refused = gateway.get(chat(0), TENANT)
        assert (refused.status, refused.get("x-ratelimit-remaining")) == (429, "0")


def test_fifty_clients_never_use_more_than_the_limit(api, clock):
    """Each request reserves 600 and uses 500 of 10,000. 19 fit: after 19 × 500, no 600 are left."""
    with start(api.port) as gateway:
        answered = 0
        for _ in range(6):
            sent = count_statuses(send_at_once(gateway.port, [("GET", chat(500), TENANT)] * 50))
            assert set(sent) <= {200, 429}
            answered += sent.get(200, 0)
            assert answered * 500 <= 10000

        def fill():
            nonlocal answered
            answered += gateway.get(chat(500), TENANT).status == 200
            return answered >= 19
        wait_for(fill, "19 answers")  # a request can be settled a moment after the client has read its response
        assert [gateway.get(chat(500), TENANT).status for _ in range(5)] == [429] * 5
        assert answered == 19
        clock.advance(60)
        assert gateway.get(chat(500), TENANT).get("x-ratelimit-remaining") == "9400"


def test_a_reservation_that_is_too_small(api, clock):
    """10 requests in flight reserve 100 and use 1,800 each. The overshoot is what was in flight: 8,000 of debt."""
    with start(api.port) as gateway:
        clients = [gateway.client() for _ in range(10)]
        try:
            for client in clients:
                client.send("GET", chat(1800, hold="a"), {**TENANT, "X-Max-Tokens": "100"})
            wait_for(lambda: api.count("/chat") == 10, "10 requests at the API")
            assert gateway.get(chat(0), TENANT).get("x-ratelimit-remaining") == "8400"
            api.release("a")
            assert [c.read().status for c in clients] == [200] * 10
        finally:
            for client in clients:
                client.close()
        wait_for(lambda: gateway.get(chat(0), TENANT).status == 429, "the requests to be settled")
        refused = gateway.get(chat(0), TENANT)
        assert refused.get("x-ratelimit-remaining") == "0"
        assert refused.get("retry-after") == "30"
        clock.advance(29)
        assert gateway.get(chat(0), TENANT).status == 429
        clock.advance(1)
        assert gateway.get(chat(0), TENANT).get("x-ratelimit-remaining") == "9400"


def test_tokens_of_plain_and_streamed_answers(api, clock):
    with start(api.port) as gateway:
        answer = gateway.get(chat(500), TENANT)
        assert (answer.status, answer.get("x-ratelimit-remaining")) == (200, "9400")
        wait_left(gateway, 9500)
        with gateway.client() as client:
            client.send("GET", chat(400, events=2, step="s"), TENANT)
            for n, text in enumerate([b'{"n": 0}', b'{"n": 1}', b'"total_tokens": 400', b"[DONE]"]):
                assert text not in client.parser.buffer
                api.release(f"s{n}")
                while text not in client.parser.buffer:
                    client.parser.buffer += client.socket.recv(65536)
            assert client.read().status == 200
        wait_left(gateway, 9100)
        gateway.get(chat(300, gzip="ask"), {**TENANT, "Accept-Encoding": "gzip"})
        wait_left(gateway, 8800)
        gateway.get(chat(300, gzip=1), TENANT)
        wait_left(gateway, 8200)
        gateway.get("/chat?body=nothing", {**TENANT, "X-Max-Tokens": "1000"})
        wait_left(gateway, 7200)


def test_only_failed_logins_count(api, clock):
    with start(api.port, "--workers", 1) as gateway:
        assert [gateway.get("/login?status=200").status for _ in range(10)] == [200] * 10
        assert [gateway.get("/login?status=401").status for _ in range(4)] == [401] * 3 + [429]
        assert gateway.get("/login?status=200").status == 429


def test_an_api_that_is_down_costs_nothing(clock):
    with start(free_port(), "--workers", 1) as gateway:
        assert [gateway.get("/v1/x", TENANT).status for _ in range(10)] == [502] * 10


def hold(gateway, api, count, name, headers=TENANT):
    """Returns clients whose requests the API holds until api.release(name)."""
    before = api.count("/slots")
    clients = [Client(gateway.port) for _ in range(count)]
    for c in clients:
        c.send("GET", f"/slots?hold={name}", headers)
    wait_for(lambda: api.count("/slots") == before + count, f"{count} requests at the API")
    return clients


def test_slots_of_killed_workers_come_back_after_max_hold(api, clock):
    """kill -9 of the workers with 20 slots taken: none is usable before max_hold has passed, all 20 after that."""
    with start(api.port, allow=["exited on signal 9"]) as gateway:
        clients = hold(gateway, api, 20, "a")
        refused = gateway.get("/slots", TENANT)
        assert (refused.status, refused.get("x-ratelimit-limit")) == (429, "20")
        assert int(refused.get("retry-after")) >= 1
        before = gateway.workers()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(now := gateway.workers()) == 2 and not now & before, "new workers")
        assert gateway.get("/slots", TENANT).status == 429
        clock.advance(119)
        assert gateway.get("/slots", TENANT).status == 429
        clock.advance(1.001)
        clients += hold(gateway, api, 20, "b")
        assert gateway.get("/slots", TENANT).status == 429
        api.release("a")
        api.release("b")
        assert [c.read().status for c in clients[20:]] == [200] * 20
        for c in clients:
            c.close()


def test_a_websocket_holds_its_slot(api):
    hello = {**TENANT, "Upgrade": "websocket", "Connection": "Upgrade"}
    with Listener(shout) as server, start(server.port) as gateway:
        clients = [gateway.client() for _ in range(20)]
        for client in clients:
            client.send("GET", "/slots", hello)
            assert client.read(interim=True).status == 101
            client.raw(b"hello")
            assert client.socket.recv(100) == b"HELLO"
        assert gateway.get("/slots", hello).status == 429
        clients.pop().close()

        def is_admitted():
            with gateway.client() as client:
                client.send("GET", "/slots", hello)
                return client.read(interim=True).status == 101
        wait_for(is_admitted, "the slot of the closed connection")
        for client in clients:
            client.close()
