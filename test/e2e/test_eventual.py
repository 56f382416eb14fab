"""Limits that are eventual: nodes decide by their own tables and tell each other, in one region and in three."""

import contextlib

import pytest

from weirtest import wait_for
from weirtest.fleet import Node, answer
from weirtest.http1 import fetch
from weirtest.netns import Network
from weirtest.redis import Redis
from weirtest.serve import Serve

LIMIT = 100

# Within a week no token comes back while a test runs, and hardly ever a window ends.
RULES = f"""
domain: api
descriptors:
  - key: fixed
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: fixed_window, consistency: eventual}}
  - key: counter
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: sliding_window_counter, consistency: eventual}}
  - key: bucket
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: token_bucket, consistency: eventual}}
  - key: whole
    rate_limit: {{unit: day, requests_per_unit: {LIMIT}, algorithm: fixed_window, consistency: eventual}}
  - key: five
    rate_limit: {{unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}}
"""

# A node that has not exchanged for three intervals is on its own: long enough for a machine that is busy.
SYNC = ["--sync-interval", "1s"]
KEYS = ["fixed", "counter", "bucket"]


def node(redis, *args, **kwargs):
    url = redis if isinstance(redis, str) else redis.url()
    return Node(url, RULES, timeout="10s", args=[*SYNC, *args], **kwargs)


@contextlib.contextmanager
def nodes(redis, count):
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(node(redis)) for _ in range(count)]
        for one in made:
            one.wait_up()
            wait_together(one)
        yield made


def wait_together(one):
    """Until it has the whole limit: a node that does not exchange has its share."""
    def has_all():
        has_all.number += 1
        return take(one, "whole", f"together-{one.folder}-{has_all.number}", LIMIT) == LIMIT
    has_all.number = 0
    wait_for(has_all, "the node to exchange", 20, every=0.1)


def hash_of(redis, of=""):
    """What nodes have told of the one counter that is used, but for those of wait_together."""
    return next((name for name in redis.keys("weir:1:*:e:*") if of in name and not name.endswith("/1d")), None)


def left(one, key, value):
    """What the node thinks is left."""
    with one.connect() as connection:
        return answer(connection.call("WEIR.PEEK", "api", key, value))["remaining"]


def take(one, key, value, times=1):
    """How many of so many were admitted."""
    return sum(one.verdicts(key, value, times=times))


def learn(one, key, value, most):
    """A node hears of others where it is asked itself: a request now and then, until it knows that no more than so many
    are left. How many were admitted."""
    taken = 0

    def knows():
        nonlocal taken
        taken += take(one, key, value)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: left(one, key, value) <= most, "it to be heard", 3)
            return True
        return False
    wait_for(knows, f"no more than {most} to be left of {key}, {left(one, key, value)} are", 30)
    return taken


def meet(redis, key, *those):
    """Each takes one and has told so: from then on it counts what others take from a bucket."""
    for one in those:
        assert take(one, key, "u") == 1
    algorithm = {"fixed": "fixed_window", "counter": "sliding_window_counter", "bucket": "token_bucket"}[key]

    def told():
        name = hash_of(redis, algorithm)
        return name and redis.client().hlen(name) == len(those)
    wait_for(told, "all to have told", 20)


@pytest.mark.parametrize("key", KEYS)
def test_nodes_count_together(key):
    with Redis() as redis, nodes(redis, 2) as (a, b):
        meet(redis, key, a, b)
        total = 2
        assert take(a, key, "u", 58) == 58
        total += 58
        total += learn(b, key, "u", LIMIT - total)
        remaining = left(b, key, "u")
        assert LIMIT - total <= remaining <= LIMIT - total + 2
        assert take(b, key, "u", 50) == remaining
        total += remaining + learn(a, key, "u", 0)
        assert take(a, key, "u", 5) == take(b, key, "u", 5) == 0
        assert LIMIT <= total <= LIMIT + 5
        # Other clients have nothing to do with it.
        assert left(b, key, "v") == LIMIT
        name = hash_of(redis)
        assert redis.client().hlen(name) == 2
        assert 0 < redis.client().ttl(name) <= 15 * 86400


@pytest.mark.parametrize("key", ["fixed", "counter"])
def test_a_node_that_comes_later_counts_what_was(key):
    with Redis() as redis, nodes(redis, 1) as (a,):
        assert take(a, key, "u", 70) == 70
        wait_for(lambda: hash_of(redis), "it to be told", 20)
        with node(redis) as late:
            late.wait_up()
            taken = learn(late, key, "u", LIMIT - 71)
            assert take(late, key, "u", 50) == LIMIT - 70 - taken


@pytest.mark.parametrize("key", KEYS)
def test_killed_and_started_again(key):
    """What it had told and what it had not: both are in its table."""
    with Redis() as redis, nodes(redis, 2) as (a, b):
        meet(redis, key, a, b)
        total = 2
        assert take(a, key, "u", 47) == 47
        a.kill()
        a.start()
        a.wait_up()
        total += 47 + learn(b, key, "u", LIMIT - total - 47)
        assert left(a, key, "u") in range(LIMIT - total, LIMIT - 48)
        name = hash_of(redis)
        assert redis.client().hlen(name) == 2


def test_redis_forgets_everything():
    """What nodes have is in their tables: they say it again, and no more passes than one limit."""
    totals = {}
    with Redis() as redis, nodes(redis, 2) as (a, b):
        for key in KEYS:
            meet(redis, key, a, b)
            totals[key] = 39
            assert take(a, key, "u", 37) == 37
            totals[key] += learn(b, key, "u", LIMIT - 39)
        redis.flush()
        for key, total in totals.items():
            total += learn(a, key, "u", LIMIT - 42)
            total += learn(b, key, "u", LIMIT - 43)
            total += take(b, key, "u", 2 * LIMIT)
            total += learn(a, key, "u", 0)
            assert take(a, key, "u", 5) == 0
            assert LIMIT <= total <= LIMIT + 10


def test_without_redis_a_node_keeps_to_its_share():
    with Redis() as redis, nodes(redis, 2) as (a, b):
        wait_for(lambda: a.store()["nodes"] == 2 and b.store()["nodes"] == 2, "both to be counted", 20)
        redis.kill()

        # For three intervals it goes on as before.
        def on_its_own():
            on_its_own.number += 1
            return take(a, "fixed", f"alone-{on_its_own.number}", LIMIT) == LIMIT // 2
        on_its_own.number = 0
        wait_for(on_its_own, "the node to keep to its share", 60, every=0.1)
        wait_for(lambda: take(b, "bucket", f"alone-{b.store()['counts']['failed']}", LIMIT) <= LIMIT // 2,
                 "the other one to do so", 60, every=0.1)
        redis.start()
        for one in (a, b):
            one.wait_up()
        # Together again.
        assert take(a, "fixed", "after", 60) >= 50
        learn(b, "fixed", "after", LIMIT - 50)


def test_how_it_fares():
    with Redis() as redis, nodes(redis, 2) as (a, b):
        take(a, "fixed", "u", 30)
        learn(b, "fixed", "u", LIMIT - 30)
        learn(a, "fixed", "u", LIMIT - 31)
        wait_for(lambda: a.store()["counts"]["exchanges"] > 0 and a.store()["overshoot_ppm"] > 0, "it to be counted", 20)
        # One other node may have admitted as much since: at most as much again as the limit.
        assert a.store()["overshoot_ppm"] <= 1000000
        assert a.store()["regions"] == 0

        def metrics():
            return fetch(a.admin_port, "GET", "/metrics").body.decode()
        wait_for(lambda: "\nweir_exchanges_total " in metrics() and "\nweir_overshoot_ratio 0." in metrics(), "metrics", 20)


# ---- regions ----

SECRET = "0123456789abcdef0123456789abcdef"


class Regions:
    """`count` regions, each a namespace with a Redis and a node."""

    def __init__(self, *names):
        self.names = names

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.net = stack.enter_context(Network(*self.names))
            self.redis = {n: stack.enter_context(Redis(host=self.net[n].address, prefix=self.net[n].prefix, port=6379))
                          for n in self.names}
            self.nodes = {n: self._node(n) for n in self.names}
            for one in self.nodes.values():
                stack.enter_context(one)
                (one.folder / "secret").write_text(SECRET, encoding="ascii")
                (one.folder / "secret").chmod(0o600)
                one.start()
            for one in self.nodes.values():
                one.wait_up()
                wait_together(one)
            wait_for(lambda: all(n.store()["regions_up"] == len(self.names) - 1 for n in self.nodes.values()),
                     "regions to reach each other", 30)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def _node(self, name):
        peers = [self.redis[n].url() for n in self.names if n != name]
        return node(self.redis[name], "--region", name, "--peer", ",".join(peers), "--key-secret", "{folder}/secret",
                    prefix=self.net[name].prefix, resp="unix:{folder}/resp.sock", admin="unix:{folder}/admin.sock",
                    start=False)

    def cut_off(self, name):
        for other in self.names:
            if other != name:
                self.net.part(name, other)


@pytest.mark.parametrize("key", KEYS)
def test_three_regions_one_cut_off_and_back(key):
    with Regions("eu", "us", "ap") as regions:
        eu, us, ap = (regions.nodes[n] for n in ("eu", "us", "ap"))
        for one in (eu, us, ap):
            assert take(one, key, "u") == 1
        # All of them know of all.
        wait_for(lambda: alike([r.client().hgetall(hash_of(r) or "") for r in regions.redis.values()]), "all to be told", 30)
        for one in (eu, us, ap):
            learn(one, key, "u", LIMIT - 3)
        regions.cut_off("ap")
        # It goes on by what it knows; the other two count together, and not what it does.
        alone = take(ap, key, "u", 20)
        assert alone == 20
        both = take(eu, key, "u", 30)
        assert both == 30
        learn(us, key, "u", LIMIT - 30)
        wait_for(lambda: ap.store()["regions_up"] == 0 and eu.store()["regions_up"] == 1, "it to be missed", 60)
        assert take(ap, key, "u", 10) == 10
        assert left(ap, key, "u") > LIMIT - 60
        regions.net.join()
        wait_for(lambda: all(one.store()["regions_up"] == 2 for one in (eu, us, ap)), "it to be back", 60)
        # 3 + 30 + 30, and those that asked to hear of it.
        for one in (eu, us, ap):
            learn(one, key, "u", LIMIT - 63)
        for one in (eu, us, ap):
            take(one, key, "u", LIMIT)
            learn(one, key, "u", 0)
        for one in (eu, us, ap):
            assert take(one, key, "u", 3) == 0
        wait_for(lambda: alike([r.client().hgetall(hash_of(r)) for r in regions.redis.values()]),
                 "every Redis to have the same numbers", 30)


def alike(hashes):
    return len(hashes[0]) == 3 and all(h == hashes[0] for h in hashes)


def test_a_node_that_dies_while_another_region_is_away():
    """What it had told its own Redis is told to the region by those who are left."""
    with Regions("eu", "us") as regions:
        eu, us = regions.nodes["eu"], regions.nodes["us"]
        second = node(regions.redis["eu"], "--region", "eu", "--peer", regions.redis["us"].url(), "--key-secret",
                      f"{eu.folder}/secret", prefix=regions.net["eu"].prefix, resp="unix:{folder}/resp.sock",
                      admin="unix:{folder}/admin.sock")
        with second:
            second.wait_up()
            for one in (eu, us, second):
                assert take(one, "fixed", "u") == 1
                learn(one, "fixed", "u", LIMIT - 2)
            regions.cut_off("us")
            assert take(second, "fixed", "u", 40) == 40
            learn(eu, "fixed", "u", LIMIT - 41)
            second.kill()
            regions.net.join()
            wait_for(lambda: us.store()["regions_up"] == 1 and eu.store()["regions_up"] == 1, "it to be back", 60)
            learn(us, "fixed", "u", LIMIT - 41)


@pytest.mark.parametrize("args, why", [
    (["--region", "eu"], "--region needs --redis"),
    (["--redis", "redis://h", "--region", "e u"], "--region is a name"),
    (["--redis", "redis://h", "--peer", "redis://x"], "--peer needs --region"),
    (["--redis", "redis://h", "--peer", "redis://x", "--region", "eu"], "--peer needs --key-secret"),
    (["--redis", "redis://h", "--peer", "http://x", "--region", "eu", "--key-secret", "{folder}/secret"], "--peer: "),
    (["--redis", "redis://h", "--peer", "redis://h", "--region", "eu", "--key-secret", "{folder}/secret"], "is --redis itself"),
    (["--redis", "redis://h", "--peer", "redis://u:topsecret@", "--region", "eu", "--key-secret", "{folder}/secret"], "--peer: "),
    (["--redis", "redis://h", "--peer", ",".join(f"redis://p{i}" for i in range(9)), "--region", "eu", "--key-secret",
      "{folder}/secret"], "more than 8"),
    (["--redis", "redis://h", "--sync-interval", "1ms"], "--sync-interval"),
])
def test_what_cannot_be(args, why):
    with Serve(rules=RULES, resp=True, args=args, start=False) as serve:
        (serve.folder / "secret").write_text(SECRET, encoding="ascii")
        (serve.folder / "secret").chmod(0o600)
        code, said = serve.run()
        assert code in (1, 2) and why in said, said
        assert "topsecret" not in said
