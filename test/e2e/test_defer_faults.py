"""No 202 for a request that is not durable, and no loss of a request with a 202."""

import itertools
import os
import signal

import pytest

from weirtest import full, needs, wait_for
from weirtest.deferring import Disk, DeferringGateway, rules
from weirtest.orders import Orders, reason_of
from weirtest.redis import Redis

API = Orders  # the server of the fixture `api`


def assert_refused(answer, reason):
    """Checks that an order was refused with this reason and has no ticket."""
    assert (answer.status, reason_of(answer)) == (429, reason), answer
    assert answer.get("x-weir-ticket") is None and answer.get("location") is None
    assert int(answer.get("retry-after")) >= 1


def wait_deferred(gateway, user, number, **kwargs):
    """Sends an order until it is deferred. nginx answers `away` until it has connected to the service."""
    wait_for(lambda: gateway.order(user, number, **kwargs).status == 202, "an order to be kept")


# ---- killed after the 202 ----

@pytest.mark.parametrize("victims, rounds", [("kill_all", 1), pytest.param("kill", 5, marks=full("kills it five times")),
                                             pytest.param("kill_all", 5, marks=full("kills them five times"))])
def test_killed_right_after_the_202(api, victims, rounds):
    """Orders with a 202 are delivered in order after kills of the gateway, or of the gateway and nginx."""
    with DeferringGateway(api.port) as gateway:
        gateway.order("ann", 0)
        for round_ in range(rounds):
            for n in (1, 2, 3):  # each worker has to connect to the service again
                wait_deferred(gateway, "ann", 10 * round_ + n)
            getattr(gateway, victims)()
            gateway.start()
        gateway.raise_limit()
        seen = api.wait_seen(1 + 3 * rounds)
        assert [one.order[1] for one in seen] == [0] + [10 * r + n for r in range(rounds) for n in range(1, 4)]


@full("a killed gateway tries again after a back-off; test_deliver.py has a quick test")
def test_delivery_of_a_killed_gateway_is_repeated_with_the_same_key(api):
    """The API has the request and has not answered. It gets the request again with the same key."""
    with DeferringGateway(api.port) as gateway:
        gateway.order("ann", 0)
        answer = gateway.order("ann", 1)
        api.plan("/orders/ann/1", {"hold": "first"}, 200)
        gateway.raise_limit()
        api.wait_seen(2)
        gateway.kill_all()
        gateway.start()
        gateway.wait_ticket(answer, "delivered", 60)
        first, second = api.seen("/orders/ann/1")
        assert first.get("idempotency-key") == second.get("idempotency-key")


def test_shutdown_waits_for_a_delivery_in_flight(api):
    """After SIGTERM the service waits for the answer and records it: the request is sent once."""
    with DeferringGateway(api.port) as gateway:
        gateway.order("ann", 0)
        gateway.order("ann", 1)
        api.plan("/orders/ann/1", {"hold": "slow"}, 200)
        gateway.raise_limit()
        api.wait_seen(2)
        gateway.signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in gateway.output() or "drain" in gateway.output(), "the shutdown to begin")
        api.release("slow")
        assert gateway.wait() == 0
        gateway.start()
        wait_for(lambda: gateway.stats()["totals"]["delivered"] == 1, "the order to be delivered")
        assert len(api.seen("/orders/ann/1")) == 1


# ---- not durable: 429 with a reason ----

def test_order_is_refused_without_the_service(api):
    """The gateway is killed. nginx keeps running, cannot defer anything, and gives the reason."""
    with DeferringGateway(api.port) as gateway:
        gateway.order("ann", 0)
        assert gateway.order("ann", 1).status == 202
        gateway.kill()
        assert_refused(gateway.order("ann", 2), "away")
        gateway.start()
        wait_deferred(gateway, "ann", 3)


def test_order_is_refused_without_a_queue(api):
    """Without a configured queue the order gets an ordinary refusal."""
    with DeferringGateway(api.port, queue="off") as gateway:
        gateway.order("ann", 0)
        assert_refused(gateway.order("ann", 1), "")


@pytest.mark.parametrize("option, defer, reason", [
    (("--queue-max", "3"), "", "full"),
    (("--queue-bytes", "64K"), "", "bytes_full"),
    ((), "max_waiting: 3", "key_full"),
])
def test_full_queue_refuses_orders(api, option, defer, reason):
    """Above a limit of the queue, orders are refused with the reason. When the queue is empty, orders are deferred
    again."""
    with DeferringGateway(api.port, *option, rules=rules(defer=defer)) as gateway:
        answers = [gateway.order("ann", n, body=b"x" * 20000) for n in range(8)]
        assert [a.status for a in answers] == [200] + [202] * 3 + [429] * 4
        for answer in answers[4:]:
            assert_refused(answer, reason)
        assert gateway.order("bob", 0).status == 200
        assert gateway.order("bob", 1, body=b"x" * 20000).status == (202 if reason == "key_full" else 429)
        gateway.raise_limit()
        wait_for(lambda: gateway.is_idle(), "all orders to be delivered")
        gateway.rules.write_text(rules(defer=defer), encoding="utf-8")
        wait_deferred(gateway, "cyd", 0)


def test_too_large_body_is_refused(api):
    """A body of max_body is deferred, one byte more is refused, with Content-Length and chunked."""
    with DeferringGateway(api.port, rules=rules(defer="max_body: 64KiB")) as gateway:
        gateway.order("ann", 0)
        assert gateway.order("ann", 1, body=b"x" * 65536).status == 202
        assert_refused(gateway.order("ann", 2, body=b"x" * 65537), "too_large")
        assert_refused(gateway.order("ann", 3, body=b"x" * 65537, chunked=5000), "too_large")
        assert gateway.order("ann", 4, body=b"x" * 65536, chunked=5000).status == 202


@needs("mounts")
def test_full_disk_refuses_orders(api):
    """While the disk is full, orders are refused as no_space. Earlier and later orders are delivered."""
    with Disk("32m") as disk, DeferringGateway(api.port, disk=disk) as gateway:
        gateway.order("ann", 0)
        body = b"x" * 100000
        assert gateway.order("ann", 1, body=body).status == 202
        disk.fill()
        for n in range(2, 6):
            assert_refused(gateway.order("ann", n, body=body), "no_space")
        disk.empty()
        wait_deferred(gateway, "ann", 6, body=body)
        gateway.raise_limit()
        seen = api.wait_seen(3)
        assert [one.order[1] for one in seen] == [0, 1, 6]


@full("a queue that cannot be opened is retried after seconds")
@needs("mounts")
def test_read_only_disk_refuses_orders(api):
    with Disk("32m") as disk, DeferringGateway(api.port, disk=disk) as gateway:
        gateway.order("ann", 0)
        assert gateway.order("ann", 1).status == 202
        gateway.kill()
        disk.remount("ro")
        gateway.start()
        wait_for(lambda: reason_of(gateway.order("ann", 2)) == "read_only", "the message about the disk")
        disk.remount("rw")
        wait_deferred(gateway, "ann", 3)
        gateway.raise_limit()
        assert [one.order[1] for one in api.wait_seen(3)] == [0, 1, 3]


def test_damaged_queue_file_is_renamed(api):
    """The damaged file is kept under another name, the damage is logged, and new orders are deferred."""
    with DeferringGateway(api.port, allow=["DAMAGED"]) as gateway:
        gateway.order("ann", 0)
        assert gateway.order("ann", 1).status == 202
        gateway.kill_all()
        (gateway.queue / "queue.db-wal").unlink()
        garbage = os.urandom(20000)
        (gateway.queue / "queue.db").write_bytes(garbage)
        gateway.start()
        gateway.wait_output("THE QUEUE'S FILE WAS DAMAGED")
        wait_deferred(gateway, "ann", 2)
        [aside] = gateway.queue.glob("queue.db.corrupt-*")
        assert aside.read_bytes() == garbage


def test_redis_without_persistence_is_refused(api):
    with Redis() as redis, DeferringGateway(api.port, queue=redis.url()) as gateway:
        gateway.order("ann", 0)
        assert_refused(gateway.order("ann", 1), "not_persistent")


def test_redis_that_evicts_is_refused(api):
    with Redis("maxmemory 50mb", "maxmemory-policy allkeys-lru", aof=True) as redis, \
            DeferringGateway(api.port, queue=redis.url()) as gateway:
        gateway.order("ann", 0)
        assert_refused(gateway.order("ann", 1), "not_persistent")


@full("an unavailable Redis is retried after seconds")
def test_unavailable_redis_refuses_orders(api):
    """While the queue's Redis is down, orders are refused as away. Earlier and later orders are delivered."""
    with Redis(aof=True) as redis, DeferringGateway(api.port, queue=redis.url()) as gateway:
        gateway.order("ann", 0)
        wait_deferred(gateway, "ann", 1)
        redis.kill()
        wait_for(lambda: reason_of(gateway.order("ann", 2)) == "away", "the loss of Redis to be noticed")
        assert_refused(gateway.order("ann", 3), "away")
        redis.start()
        wait_deferred(gateway, "ann", 4)
        gateway.raise_limit()
        api.wait_seen(1, "/orders/ann/4")
        # an order whose reply from Redis was late was stored, and was sent again
        assert [number for number, _ in itertools.groupby(one.order[1] for one in api.seen())] == [0, 1, 4]
