"""A queue in Redis that several gateways share."""

import contextlib
import time

from weirtest import full, scaled, wait_for
from weirtest.deferring import UNLIMITED, DeferringGateway, rules
from weirtest.orders import OrderClients, Orders, check_copies, check_none_lost, check_order, check_rate
from weirtest.proxy import Proxy
from weirtest.redis import Redis

PER_SECOND = 50


def rules_that_deny(rate):
    """Returns rules with counters in Redis for all gateways together. Without Redis they deny."""
    return rules(f"{rate}, on_store_failure: deny", "max_waiting: 100000")


@contextlib.contextmanager
def gateways(count=2, rate=f"{{unit: second, requests_per_unit: {PER_SECOND}", options=(), **redis):
    """Starts an API server, a Redis and `count` gateways."""
    with contextlib.ExitStack() as stack:
        api = stack.enter_context(Orders())
        store = stack.enter_context(Redis(aof=True, **redis))
        instances = [stack.enter_context(DeferringGateway(api.port, "--redis", store.url(), "--redis-timeout", "10s", *options,
                                          queue=store.url(), rules=rules_that_deny(rate)))
                 for _ in range(count)]
        for gateway in instances:
            wait_counted(gateway)
        yield api, store, instances


def wait_counted(gateway):
    """Waits until the gateway counts orders: it has reached Redis."""
    wait_for(lambda: gateway.order(f"probe-{time.monotonic_ns()}", 0).status == 200, "Redis to count", 30)


def order(gateway, user, number, status):
    """Sends an order until it has that status. A worker without a connection to Redis refuses it, and counts
    nothing."""
    def sent():
        answer = gateway.order(user, number)
        assert answer.status in (status, 429), answer
        return answer if answer.status == status else None
    return wait_for(sent, f"order {number} to get {status}", 30)


def raise_limits(*instances):
    """As DeferringGateway.raise_limit, for gateways with one queue."""
    for gateway in instances:
        gateway.raise_limit(rules_that_deny(UNLIMITED), retry=False)
    instances[0].weir("queue", "retry", "--all")


@full("hundreds of orders at 50 a second; test_deliver.py has a quick test")
def test_two_gateways_keep_the_order_of_each_key():
    """Clients send the orders of each key to both gateways in turn: nothing is lost, and order and rate hold."""
    with gateways() as (api, _, instances):
        keys = ["ann", "bob", "cyd", "dan"]
        since = time.monotonic_ns()
        with OrderClients([s.port for s in instances], keys, scaled(200)) as clients:
            clients.wait()
        accepted = clients.accepted()
        wait_for(lambda: {one.order for one in api.seen() if one.answered_ns} >= set(accepted), "all orders to be answered", 60)
        seen = [one for one in api.seen() if one.order[0] in keys]
        check_none_lost(seen, accepted)
        check_order(seen, clients.sent, statuses=(202,))
        check_rate(seen, since, 1, PER_SECOND)
        check_copies(seen)


def test_ticket_is_known_to_all_gateways():
    """Each gateway answers queries for tickets of the other."""
    with gateways(rate="{unit: hour, requests_per_unit: 1") as (api, _, (a, b)):
        order(a, "ann", 0, 200)
        first, second = order(a, "ann", 1, 202), order(b, "ann", 2, 202)
        assert b.ticket(first)["position"] == 1
        assert a.ticket(second)["position"] == 2
        raise_limits(a, b)
        for gateway in (a, b):
            for answer in (first, second):
                gateway.wait_ticket(answer, "delivered")
        assert [one.order[1] for one in api.seen("/orders/ann/")] == [0, 1, 2]


def test_other_gateway_delivers_after_a_kill():
    with gateways(rate="{unit: hour, requests_per_unit: 1", options=("--queue-timeout", "5s")) as (api, _, (a, b)):
        order(a, "ann", 0, 200)
        answers = [order(a, "ann", n, 202) for n in range(1, 6)]
        a.kill_all()
        raise_limits(b)
        for answer in answers:
            b.wait_ticket(answer, "delivered", 60)
        assert [one.order[1] for one in api.seen("/orders/ann/")] == [0, 1, 2, 3, 4, 5]
        a.start()


def test_gateway_is_killed_during_a_delivery(clock):
    """The requests of the key wait until the delivery lease has expired, and are then delivered in order. Leases use
    the clock of Redis."""
    with gateways(rate="{unit: hour, requests_per_unit: 1", options=("--queue-timeout", "5s")) as (api, _, (a, b)):
        order(a, "ann", 0, 200)
        answers = [order(a, "ann", n, 202) for n in (1, 2)]
        api.plan("/orders/ann/1", {"hold": "for ever"}, 200)
        raise_limits(a, b)
        api.wait_seen(1, "/orders/ann/1")
        a.kill_all()
        b.kill_all()
        b.start()
        clock.advance(5 + 20)  # --queue-timeout, and the time to start
        for answer in answers:
            b.retry_until_ticket(answer, "delivered")
        numbers = [one.order[1] for one in api.seen("/orders/ann/")]
        assert numbers == [0, 1, 1, 2]
        assert len({one.get("idempotency-key") for one in api.seen("/orders/ann/1")}) == 1
        a.start()


@full("kills Redis three times")
def test_orders_survive_kills_of_redis():
    """Before each kill some orders have been sent since the last restart. Others are sent while Redis is down."""
    some = scaled(25, 10)
    with gateways(1) as (api, redis, [gateway]):
        since = time.monotonic_ns()
        with OrderClients([gateway.port], ["ann", "bob"], 6 * some, first=0) as clients:
            for done in (0, 2 * some, 4 * some):
                clients.allow(done + some)
                clients.wait_sent(2 * done + some)  # of twice as many: there are two clients
                redis.kill()
                wait_for(lambda: gateway.order("eve", 0).status == 429, "an order to be refused")
                clients.allow(done + 2 * some)
                redis.start()
            clients.wait(90)
        assert len(clients.sent) == 2 * 6 * some
        accepted = clients.accepted()
        wait_for(lambda: {one.order for one in api.seen() if one.answered_ns} >= set(accepted), "all orders to arrive", 60)
        seen = [one for one in api.seen() if one.order[0] in ("ann", "bob")]
        check_order(seen, clients.sent, statuses=(202,))
        check_rate(seen, since, 1, PER_SECOND)


def test_no_secrets_in_redis():
    """Stored requests are named by a hash of the ticket, and the password of the URL is in no log."""
    with gateways(1, rate="{unit: hour, requests_per_unit: 1") as (_, redis, [gateway]):
        order(gateway, "ann", 0, 200)
        ticket = order(gateway, "ann", 1, 202).get("x-weir-ticket")
        everything = b"".join((p.read_bytes() for p in redis.folder.rglob("*") if p.is_file()))
        assert b"/orders/ann/1" in everything
        assert ticket.encode() not in everything and bytes.fromhex(ticket) not in everything


@full("a closed connection to Redis is retried after a second, five times")
def test_lost_replies_of_redis_delay_nothing():
    """Redis has assigned requests to a gateway that did not receive the reply. They are assigned again on its next
    connection, not at the end of their lease 75 seconds later."""
    keys = [f"u{n}" for n in range(20)]
    lost = []

    def lose(piece):
        if b"/orders/u" in piece and len(lost) < 5:
            lost.append(piece)
            raise ConnectionResetError("the connection ends with an answer on its way")
        return piece

    with Orders() as api, Redis(aof=True) as redis, Proxy(redis.port) as proxy, \
            DeferringGateway(api.port, queue=f"redis://127.0.0.1:{proxy.port}") as gateway:
        wait_for(lambda: gateway.order("probe", 0).status == 202, "orders to be kept")
        with OrderClients([gateway.port], keys, 6) as clients:
            clients.wait()
        accepted = clients.accepted()
        assert len(accepted) == 20 * 5
        gateway.raise_limit(retry=False)
        proxy.spoil(lose)
        wait_for(lambda: gateway.weir("queue", "retry", "--all", check=False)[0] == 0, "Redis to be reached")
        wait_for(lambda: len(lost) == 5, "answers with orders to be lost")
        wait_for(lambda: {one.order for one in api.seen()} >= set(accepted), "all orders to arrive", 45)
        check_order(api.seen("/orders/u"), clients.sent)
