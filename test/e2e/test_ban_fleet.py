"""Automatic bans of a fleet: a ban of one node is in force on all nodes, and so is its release."""

import contextlib
import json

import pytest

from weirtest import JSON, Clock, fetch
from weirtest.fleet import Node
from weirtest.redis import Redis
from weirtest.scrape import Metrics
from weirtest.waiting import wait_for

RULES = """
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
descriptors:
  - key: ip
    rate_limit: {unit: year, requests_per_unit: 1, consistency: local, ban: {after: 2, within: 1h, for: 10m}}
"""
RULE = "api/ip/365d"


@pytest.fixture(scope="module", autouse=True)
def clock():
    with Clock() as moved:
        moved.run()
        yield moved


@contextlib.contextmanager
def two_nodes():
    with Redis() as redis, node(redis) as one, node(redis) as two:
        for serve in (one, two):
            serve.wait_up()
        yield redis, one, two


def node(redis, *args, **kwargs):
    return Node(redis.url(), RULES, http=True, timeout="30s", args=["--memory", "16M", *args], **kwargs)


@pytest.fixture(scope="module")
def fleet(clock):
    del clock
    with two_nodes() as running:
        yield running


def call(serve, target, body=None):
    answer = fetch(serve.admin_port, "GET" if body is None else "POST", target, JSON,
                   None if body is None else json.dumps(body).encode())
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def entries(address):
    return {"domain": "api", "entries": [{"key": "ip", "value": address}]}


def ask(serve, address, times=1):
    body = json.dumps({"domain": "api", "descriptors": [{"entries": entries(address)["entries"]}]}).encode()
    return [json.loads(fetch(serve.http_port, "POST", "/v1/check", JSON, body).body)["admitted"] for _ in range(times)]


def ban(serve, address):
    """One request is admitted, and the second refusal starts the ban."""
    assert ask(serve, address, times=3) == [True, False, False]


def listed(serve):
    return {b["address"]: b for b in call(serve, "/v1/bans?count=1000")["bans"]}


def wait_banned(serve, *addresses):
    wait_for(lambda: set(addresses) <= listed(serve).keys(), f"bans of {addresses}")


def wait_released(serve, *addresses):
    wait_for(lambda: not set(addresses) & listed(serve).keys(), f"the end of bans of {addresses}")


def test_ban_is_in_force_on_the_other_node(fleet):
    _, one, two = fleet
    ban(one, "192.0.2.1")
    wait_banned(two, "192.0.2.1")
    here, there = listed(one)["192.0.2.1"], listed(two)["192.0.2.1"]
    for name in ("key", "rule", "automatic", "level", "shield"):
        assert here[name] == there[name]
    assert abs(here["until"] - there["until"]) <= 2
    assert ask(two, "192.0.2.1") == [False]
    two.wait_logged("redis: from another node: ban api ip=192.0.2.1: 1 counter")
    one.wait_logged(f"rule {RULE} banned api ip=192.0.2.1 until ")


def test_hidden_keys_are_not_logged(clock):
    """With --keys hidden or hashed, the log of a node does not have the keys that other nodes have banned."""
    del clock
    with Redis() as redis, node(redis, "--keys", "hidden") as one, node(redis, "--keys", "hashed") as two:
        one.wait_up()
        two.wait_up()
        ban(one, "192.0.2.77")
        ban(two, "192.0.2.78")
        one.wait_logged("redis: from another node: ban a key: 1 counter")
        two.wait_logged("redis: from another node: ban a key: 1 counter")
        for serve in (one, two):
            serve.wait_logged(f"rule {RULE} banned a key until ")
            assert "192.0.2.7" not in serve.log()
            assert [(b["key"], b["address"], b["automatic"]) for b in call(serve, "/v1/bans")["bans"]] == [
                (None, None, True)] * 2


def test_release_on_the_other_node(fleet):
    _, one, two = fleet
    ban(one, "192.0.2.2")
    wait_banned(two, "192.0.2.2")
    assert call(two, "/v1/bans/release", entries("192.0.2.2")) == {"released": 1}
    wait_released(one, "192.0.2.2")
    one.wait_logged("redis: from another node: release api ip=192.0.2.2: 1 counter")
    assert "redis: from another node: ban api ip=192.0.2.2" not in one.log()


def test_release_of_a_network(fleet):
    _, one, two = fleet
    for address in ("198.51.100.1", "198.51.100.2", "192.0.2.3"):
        ban(one, address)
    wait_banned(two, "198.51.100.1", "198.51.100.2", "192.0.2.3")
    assert call(two, "/v1/bans/release", {"address": "198.51.100.0/24"}) == {"released": 2, "unlisted": 0}
    wait_released(one, "198.51.100.1", "198.51.100.2")
    assert "192.0.2.3" in listed(one)
    one.wait_logged("redis: from another node: release bans: address=198.51.100.0/24: 2 bans")


def test_many_bans_reach_the_other_node(fleet):
    """500 bans are more than one read of the stream returns."""
    _, one, two = fleet
    addresses = [f"203.0.{i // 250}.{i % 250}" for i in range(500)]
    for address in addresses:
        ban(one, address)
    wait_banned(two, *addresses)
    assert Metrics(one.admin_port).value("weir_ban_orders_lost_total") == 0


def test_bans_wait_for_redis(clock):
    """While Redis is away, bans wait in the table. They survive a kill of the service, and a released ban is not
    published."""
    del clock
    with two_nodes() as (redis, one, two):
        redis.kill()
        for address in ("192.0.2.1", "192.0.2.2"):
            ban(one, address)
        one.kill()
        one.start()
        assert ask(one, "192.0.2.1") == [False]
        call(one, "/v1/bans/release", entries("192.0.2.2"))
        assert listed(two) == {}
        redis.start()
        wait_banned(two, "192.0.2.1")
        assert "192.0.2.2" not in listed(two)


def test_released_ban_does_not_come_back_after_a_restart(clock):
    """A restarted node continues to read the stream where it was. A node with an empty table reads all of the stream."""
    del clock
    with two_nodes() as (redis, one, two):
        for address in ("192.0.2.1", "192.0.2.2"):
            ban(one, address)
        wait_banned(two, "192.0.2.1", "192.0.2.2")
        call(two, "/v1/bans/release", {"address": "192.0.2.1"})
        wait_released(one, "192.0.2.1")
        one.kill()
        one.start()
        ban(two, "192.0.2.9")
        wait_banned(one, "192.0.2.9")
        assert sorted(listed(one)) == ["192.0.2.2", "192.0.2.9"]
        assert "redis: from another node: ban api ip=192.0.2.1" not in one.log()
        with node(redis) as three:
            three.wait_up()
            wait_banned(three, "192.0.2.2", "192.0.2.9")
            wait_released(three, "192.0.2.1")
