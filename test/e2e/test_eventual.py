"""Limits with `consistency: eventual`: nodes decide from their own tables and exchange counts through one Redis."""

import time

import pytest

from weirtest import Clock, full, wait_for
from weirtest.eventual import KEYS, LIMIT, hash_of, take_until_known, left, take_one_each, node, nodes, take, wait_reported
from weirtest.http1 import fetch
from weirtest.redis import Redis

pytestmark = full("nodes exchange once a second of real time")


@pytest.fixture(scope="module", autouse=True)
def clock():
    """The wall clock runs from half a minute after noon: no day, week or year ends during a test."""
    with Clock() as running:
        running.run()
        yield running


@pytest.mark.parametrize("key", KEYS)
def test_nodes_count_together(key):
    """Each node takes units and learns the units of the other. The total exceeds the limit by a few units at most."""
    with Redis() as redis, nodes(redis, 2) as (a, b):
        take_one_each(redis, key, a, b)
        total = 2
        assert take(a, key, "u", 58) == 58
        total += 58
        wait_reported(redis, key, total)
        total += take_until_known(b, key, "u", LIMIT - total)
        remaining = left(b, key, "u")
        assert LIMIT - total <= remaining <= LIMIT - total + 2
        assert take(b, key, "u", 50) == remaining
        total += remaining
        wait_reported(redis, key, total)
        total += take_until_known(a, key, "u", 0)
        assert take(a, key, "u", 5) == take(b, key, "u", 5) == 0
        assert LIMIT <= total <= LIMIT + 5
        # Other clients are not affected.
        assert left(b, key, "v") == LIMIT
        name = hash_of(redis)
        assert redis.client().hlen(name) == 2
        assert 0 < redis.client().ttl(name) <= 15 * 86400


@pytest.mark.parametrize("key", ["fixed", "counter"])
def test_late_node_learns_earlier_counts(key):
    """A node that starts later knows the used units after its first exchanges."""
    with Redis() as redis, nodes(redis, 1) as (a,):
        assert take(a, key, "u", 70) == 70
        wait_reported(redis, key, 70)
        with node(redis) as late:
            late.wait_up()
            taken = take_until_known(late, key, "u", LIMIT - 71)
            assert take(late, key, "u", 50) == LIMIT - 70 - taken


@pytest.mark.parametrize("key", KEYS)
def test_restarted_node_keeps_its_counts(key):
    """Reported and unreported counts are both in the node's table."""
    with Redis() as redis, nodes(redis, 2) as (a, b):
        take_one_each(redis, key, a, b)
        total = 2
        assert take(a, key, "u", 47) == 47
        a.kill()
        a.start()
        a.wait_up()
        wait_reported(redis, key, 49)
        total += 47 + take_until_known(b, key, "u", LIMIT - total - 47)
        wait_for(lambda: left(a, key, "u") in range(LIMIT - total, LIMIT - 48), "the counts of the other node", 20)
        name = hash_of(redis)
        assert redis.client().hlen(name) == 2


@pytest.mark.seconds(120)
def test_flushed_redis_admits_at_most_one_more_limit():
    """The counts are in the nodes' tables. The nodes report them again, and at most one more limit is admitted."""
    totals = {}
    with Redis() as redis, nodes(redis, 2) as (a, b):
        for key in KEYS:
            take_one_each(redis, key, a, b)
            totals[key] = 39
            assert take(a, key, "u", 37) == 37
            wait_reported(redis, key, 39)
            totals[key] += take_until_known(b, key, "u", LIMIT - 39)
        redis.flush()
        for key, total in totals.items():
            total += take_until_known(a, key, "u", LIMIT - 42)
            total += take_until_known(b, key, "u", LIMIT - 43)
            total += take(b, key, "u", 2 * LIMIT)
            total += take_until_known(a, key, "u", 0)
            assert take(a, key, "u", 5) == 0
            assert LIMIT <= total <= LIMIT + 10


def test_node_without_redis_uses_its_share():
    """Without Redis for three intervals, each of two nodes admits half of the limit."""
    with Redis() as redis, nodes(redis, 2) as (a, b):
        wait_for(lambda: a.store()["nodes"] == 2 and b.store()["nodes"] == 2, "both nodes to be counted", 20)
        redis.kill()

        # For three intervals the node continues as before.
        for one, key in ((a, "fixed"), (b, "bucket"), (b, "counter")):
            wait_for(lambda one=one, key=key: take(one, key, f"alone-{time.monotonic_ns()}", LIMIT) == LIMIT // 2,
                     "the node to keep to its share", 60, every=0.1)
        redis.start()
        for one in (a, b):
            one.wait_up()
        # The nodes exchange again.
        assert take(a, "fixed", "after", 60) >= 50
        take_until_known(b, "fixed", "after", LIMIT - 50)


def test_metrics_of_the_exchange():
    """The status and /metrics show exchanges and the possible excess."""
    with Redis() as redis, nodes(redis, 2) as (a, b):
        take(a, "fixed", "u", 30)
        take_until_known(b, "fixed", "u", LIMIT - 30)
        take_until_known(a, "fixed", "u", LIMIT - 31)
        wait_for(lambda: a.store()["counts"]["exchanges"] > 0 and a.store()["overshoot_ppm"] > 0, "the exchanges to be counted", 20)
        # One other node may have admitted as many since: at most twice the limit in total.
        assert a.store()["overshoot_ppm"] <= 1000000
        assert a.store()["regions"] == 0

        def metrics():
            return fetch(a.admin_port, "GET", "/metrics").body.decode()
        wait_for(lambda: "\nweir_exchanges_total " in metrics() and "\nweir_overshoot_ratio 0." in metrics(), "metrics", 20)
