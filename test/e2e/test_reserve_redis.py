"""Reservations of a fleet: a reservation of one node is settled by another, once."""

import signal
import threading

import pytest

from weirtest import Clock, scaled, wait_for
from weirtest.fleet import Node, answer, order
from weirtest.redis import Redis
from weirtest.resp import command

RULES = """
domain: api
descriptors:
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: deny}}
  - {key: tokens, rate_limit: {unit: year, requests_per_unit: 10000}}
  - {key: bucket, rate_limit: {unit: year, requests_per_unit: 1000, algorithm: token_bucket}}
  - {key: busy, rate_limit: {unit: second, requests_per_unit: 100, burst: 1000, algorithm: token_bucket}}
  - {key: busyhere, rate_limit: {unit: second, requests_per_unit: 100, burst: 1000, algorithm: token_bucket, consistency: local}}
  - {key: here, rate_limit: {unit: year, requests_per_unit: 1000, consistency: local}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 100000, consistency: lease}}
  - {key: small, rate_limit: {unit: year, requests_per_unit: 10000, consistency: lease}}
  - key: soft
    rate_limit: {unit: year, requests_per_unit: 100, max_debt: 50, mode: soft, soft: {overshoot: 20%, for: 1h}}
  - key: softhere
    rate_limit: {unit: year, requests_per_unit: 100, max_debt: 50, mode: soft, soft: {overshoot: 20%, for: 1h},
                 consistency: local}
  - {key: slots, rate_limit: {concurrent: 3, max_hold: 2m}}
  - {key: refunds, rate_limit: {unit: year, requests_per_unit: 1000, on_expiry: refund}}
"""


@pytest.fixture(scope="module", autouse=True)
def clock():
    """A clock that stands still, at a time that is not a whole second."""
    with Clock() as stands:
        stands.advance(0.123457)
        yield stands


@pytest.fixture(scope="module")
def fleet():
    with Redis() as redis, Node(redis.url(), RULES) as one, Node(redis.url(), RULES) as two:
        one.wait_up()
        two.wait_up()
        yield redis, one, two


def said(node, *words):
    with node.connect() as connection:
        return answer(connection.call(*words))


def reserve(node, hits, *words, ttl=60):
    made = said(node, "WEIR.RESERVE", "api", "TTL", ttl, "HITS", hits, *words)
    assert made["verdict"] == "admit", made
    return made["reservation"]


def left(node, *words):
    return node.ask("HITS", 0, *words)["remaining"]


@pytest.mark.parametrize("key, limit", [("tokens", 10000), ("bucket", 1000)])
def test_another_node_commits_once(fleet, key, limit):
    _, one, two = fleet
    token = reserve(one, 600, key, "a")
    assert left(two, key, "a") == limit - 600
    assert said(two, "WEIR.COMMIT", token, 500) == {"status": "committed", "refunded": 100, "charged": 0}
    assert said(two, "WEIR.COMMIT", token, 500)["status"] == "already"
    assert said(one, "WEIR.CANCEL", token)["status"] == "already"
    wait_for(lambda: left(one, key, "a") == limit - 500, "the rest to be given back")
    token = reserve(two, 100, key, "a")
    assert said(one, "WEIR.COMMIT", token, 350) == {"status": "committed", "refunded": 0, "charged": 250}
    wait_for(lambda: left(two, key, "a") == limit - 850, "the excess to be charged")
    token = reserve(one, 50, key, "a")
    assert said(two, "WEIR.CANCEL", token) == {"status": "cancelled", "refunded": 50, "charged": 0}
    wait_for(lambda: left(one, key, "a") == limit - 850, "the units to be given back")


@pytest.mark.parametrize("key", ["busy", "busyhere"])
def test_busy_buckets_get_unused_tokens_back(fleet, clock, key):
    """The bucket lacks 1,000 tokens after the reservation, and 500 flow in until the commit. Redis and the table know that
    no other request gave tokens back, so all unused tokens are given back."""
    _, one, two = fleet
    reserve(one, 800, key, "a")
    token = reserve(one, 200, key, "a")
    clock.advance(5)
    settler = two if key == "busy" else one
    assert said(settler, "WEIR.COMMIT", token, 50) == {"status": "committed", "refunded": 150, "charged": 0}
    assert left(one, key, "a") == 650


def test_local_limits_are_settled_at_home_only(fleet):
    _, one, two = fleet
    token = reserve(one, 600, "here", "a")
    assert said(two, "WEIR.COMMIT", token, 500)["status"] == "unknown"
    assert said(one, "WEIR.COMMIT", token, 500)["refunded"] == 100
    # With a limit of Redis beside it, another node settles that limit and leaves the other as reserved.
    token = reserve(one, 300, "here", "b", "|", "tokens", "b")
    assert said(two, "WEIR.COMMIT", token, 200)["status"] == "committed"
    wait_for(lambda: left(two, "tokens", "b") == 9800, "the rest to be given back")
    assert left(one, "here", "b") == 700 and left(two, "here", "b") == 1000


def test_leased_units(fleet):
    _, one, two = fleet
    for _ in range(30):  # so that the node gets a lease
        reserve(one, 10, "leased", "a")
    token = reserve(one, 10, "leased", "a")
    assert said(one, "WEIR.COMMIT", token, 4)["status"] == "committed"
    assert said(one, "WEIR.COMMIT", token, 4)["status"] == "already"
    assert said(two, "WEIR.COMMIT", token, 4)["status"] in ("already", "unknown")


@pytest.mark.parametrize("key", ["tokens", "small"])
@pytest.mark.parametrize("before, used", [(0, 10000), (12, 11200)])
def test_reservations_that_are_too_small(fleet, key, before, used):
    """The limit is 10,000. A client reserves 100 units and uses 5,000, again and again. It is admitted while units are
    left, so the last of its requests exceeds the limit by at most 4,900. With `lease`, the node has units of a lease
    when the limit is used up. It must not admit requests with them."""
    _, one, _ = fleet
    for _ in range(before):
        assert said(one, "WEIR.COMMIT", reserve(one, 100, key, str(before)), 100)["status"] == "committed"
    admitted = 0
    while (made := said(one, "WEIR.RESERVE", "api", "TTL", 60, "HITS", 100, key, str(before)))["verdict"] == "admit":
        said(one, "WEIR.COMMIT", made["reservation"], 5000)
        admitted += 1
    assert 100 * before + 5000 * admitted == used


def test_debts_of_leased_limits_are_charged_once(fleet):
    """A part of the debt is taken from the lease, and Redis is told only of the rest."""
    _, one, two = fleet
    for _ in range(3):
        assert said(one, "WEIR.COMMIT", reserve(one, 100, "small", "once"), 2000)["charged"] == 1900
    wait_for(lambda: left(two, "small", "once") == 10000 - 3 * 2000, "the rest of the lease to be returned")


@pytest.mark.parametrize("key, limit", [("tokens", 10000), ("bucket", 1000), ("small", 10000), ("here", 1000)])
def test_debts_of_granted_keys(fleet, key, limit):
    """An operator grants four times the limit. Each request reserves a tenth of the limit and uses all of it, so the
    fifth request uses up the rest. Debts are charged up to the limit, the grant and `max_debt` together."""
    _, one, _ = fleet
    entries = [{"key": key, "value": "granted"}]
    order(one, "grant", domain="api", entries=entries, extra=4 * limit, **{"for": "1h"})
    wait_for(lambda: one.ask("HITS", 0, key, "granted")["limit"] == 5 * limit, "the grant to apply")
    for uses in range(1, 6):
        token = reserve(one, limit // 10, key, "granted")
        assert said(one, "WEIR.COMMIT", token, limit)["charged"] == limit * 9 // 10
        wait_for(lambda uses=uses: left(one, key, "granted") == (5 - uses) * limit, "the debt to be charged")
    assert said(one, "WEIR.RESERVE", "api", "HITS", limit // 10, key, "granted")["verdict"] == "refuse"
    said(one, "WEIR.COMMIT", "unknown", limit, "api", key, "granted")

    def debt():
        return order(one, "get", domain="api", entries=entries)["counters"][0]["debt"]

    wait_for(lambda: debt() == limit, "the charge of an unknown reservation")


@pytest.mark.parametrize("key", ["soft", "softhere"])
def test_debt_of_soft_limits(fleet, key):
    """The limit is 100, its overshoot is 20 and its `max_debt` is 50. Units of the overshoot are no debt, so the debt
    that operators see is at most 50, and a key with debt gets no units."""
    _, one, _ = fleet

    def debt(value):
        return order(one, "get", domain="api", entries=[{"key": key, "value": value}])["counters"][0]["debt"]

    reserve(one, 100, key, "a")
    reserve(one, 15, key, "a")
    assert debt("a") == 0
    token = reserve(one, 5, key, "a")
    assert debt("a") == 0
    assert said(one, "WEIR.COMMIT", token, 30)["status"] == "committed"
    assert debt("a") == 25
    assert said(one, "WEIR.RESERVE", "api", "TTL", 60, "HITS", 1, key, "a")["verdict"] == "refuse"
    token = reserve(one, 60, key, "b")
    said(one, "WEIR.COMMIT", token, 1000)
    assert debt("b") == 50


def test_slots_of_the_fleet(fleet):
    _, one, two = fleet
    held = [said(node, "WEIR.ACQUIRE", "api", "slots", "a")["reservation"] for node in (one, two, one)]
    assert said(two, "WEIR.ACQUIRE", "api", "slots", "a")["verdict"] == "refuse"
    assert said(two, "WEIR.RELEASE", held[0])["status"] == "released"
    assert said(one, "WEIR.RELEASE", held[0])["status"] == "already"
    wait_for(lambda: said(two, "WEIR.ACQUIRE", "api", "slots", "a")["verdict"] == "admit", "the slot to be free")
    assert said(one, "WEIR.ACQUIRE", "api", "slots", "a")["verdict"] == "refuse"


def test_both_nodes_commit_at_once(fleet):
    _, one, two = fleet
    tokens = [reserve((one, two)[i % 2], 100, "tokens", "race") for i in range(scaled(40))]
    words = []

    def commit_all(node):
        with node.connect() as connection:
            words.extend(answer(connection.call("WEIR.COMMIT", token, 40))["status"] for token in tokens)

    threads = [threading.Thread(target=commit_all, args=(node,)) for node in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert words.count("committed") == words.count("already") == len(tokens)
    wait_for(lambda: left(one, "tokens", "race") == 10000 - 40 * len(tokens), "the rest to be given back")


def test_expiry_gives_back_to_redis_once(fleet, clock):
    _, one, two = fleet
    late, lost = (reserve(one, 300, "refunds", "a", ttl=5) for _ in range(2))
    assert left(two, "refunds", "a") == 400
    clock.advance(5)
    wait_for(lambda: left(two, "refunds", "a") == 1000, "the reservations to be given back")
    assert said(two, "WEIR.COMMIT", late, 10) == {"status": "expired", "refunded": 0, "charged": 10}
    assert said(one, "WEIR.COMMIT", late, 10)["status"] == "already"
    assert said(two, "WEIR.CANCEL", lost)["status"] == "expired"
    wait_for(lambda: left(one, "refunds", "a") == 990, "the late commit to be charged")


def script_calls(redis):
    """Returns the number of calls of the scripts that decide. Heartbeats are other calls: each has one ZADD."""
    stats = redis.client().info("commandstats")
    return stats["cmdstat_evalsha"]["calls"] - stats["cmdstat_zadd"]["calls"]


def counted(redis, call):
    before = script_calls(redis)
    result = call()
    return result, script_calls(redis) - before


def test_reserve_and_commit_are_one_script_call_each(fleet):
    redis, one, two = fleet
    wait_for(lambda: not any(node.store()["leases"] for node in (one, two)), "the leases of other tests to be returned")
    for key, actual in (("tokens", 500), ("tokens", 700), ("tokens", 600), ("bucket", 500)):
        token, calls = counted(redis, lambda key=key: reserve(one, 600, key, f"calls-{actual}"))
        assert calls == 1
        settled, calls = counted(redis, lambda token=token, actual=actual: said(two, "WEIR.COMMIT", token, actual))
        assert (settled["status"], calls) == ("committed", 1)
        assert left(one, key, f"calls-{actual}") == (1000 if key == "bucket" else 10000) - actual  # at once
        assert counted(redis, lambda token=token: said(one, "WEIR.COMMIT", token, 1)["status"]) == ("already", 1)
    # The counters of two clients are settled in one call, too.
    token = reserve(one, 100, "tokens", "calls-2", "|", "bucket", "calls-2")
    settled, calls = counted(redis, lambda: said(two, "WEIR.CANCEL", token))
    assert (settled, calls) == ({"status": "cancelled", "refunded": 100, "charged": 0}, 1)
    assert left(one, "tokens", "calls-2") == 10000 and left(one, "bucket", "calls-2") == 1000


def test_settled_once_after_a_lost_reply():
    """A commit during an outage fails. Redis executes it later, or the retry does."""
    with Redis() as redis, Node(redis.url(), RULES, timeout="200ms") as node:
        node.wait_up()
        token = reserve(node, 600, "tokens", "down", "|", "here", "down")
        redis.freeze()
        with node.connect() as connection:
            failed = connection.call("WEIR.COMMIT", token, 500)
        assert failed == "ERR Redis does not answer; try again, a reservation is settled only once"
        assert left(node, "here", "down") == 400
        redis.thaw()
        node.wait_up()
        wait_for(lambda: said(node, "WEIR.COMMIT", token, 500)["status"] == "already", "the commit to be executed")
        wait_for(lambda: left(node, "tokens", "down") == 9500, "the rest to be given back")
        assert left(node, "here", "down") == 500  # the retry settled the node's own counter
        assert said(node, "WEIR.COMMIT", token, 400)["status"] == "already"
        assert left(node, "tokens", "down") == 9500 and left(node, "here", "down") == 500


def test_reservations_made_without_redis():
    """The node reports the 600 reserved units of each reservation when Redis is available again. Redis keeps them, so
    nothing is refunded when the reservation is settled later. Units beyond them are charged."""
    with Redis() as redis, Node(redis.url(), RULES, timeout="200ms") as node:
        node.wait_up()
        redis.freeze()
        committed, cancelled, exceeded = (reserve(node, 600, "tokens", "alone") for _ in range(3))
        redis.thaw()
        node.wait_up()
        wait_for(lambda: left(node, "tokens", "alone") == 10000 - 3 * 600, "the reports to be counted")
        assert said(node, "WEIR.COMMIT", committed, 500) == {"status": "committed", "refunded": 0, "charged": 0}
        assert said(node, "WEIR.CANCEL", cancelled) == {"status": "cancelled", "refunded": 0, "charged": 0}
        assert said(node, "WEIR.COMMIT", exceeded, 750) == {"status": "committed", "refunded": 0, "charged": 150}
        wait_for(lambda: left(node, "tokens", "alone") == 10000 - 3 * 600 - 150, "the excess to be charged")


def in_flight(node):
    counts = node.store()["counts"]
    return counts["asked"] - counts["admitted"] - counts["refused"] - counts["failed"]


def test_settled_once_after_a_node_was_killed(fleet):
    """The node is killed while its commit is on the way. Another node commits again."""
    redis, _, other = fleet
    with Node(redis.url(), RULES) as node:
        node.wait_up()
        token = reserve(node, 600, "tokens", "killed")
        redis.freeze()
        with node.connect() as connection:
            connection.send(command("WEIR.COMMIT", token, 500))
            wait_for(lambda: in_flight(node) == 1, "the commit to be sent")
            node.kill()
        redis.thaw()
    other.wait_up()
    assert said(other, "WEIR.COMMIT", token, 500)["status"] == "already"
    assert left(other, "tokens", "killed") == 9500


def test_tokens_of_a_fleet_with_another_secret_are_unknown(fleet):
    """Two fleets use one Redis. Neither settles the reservations of the other."""
    redis, one, _ = fleet
    with Node(redis.url(), RULES, args=["--key-secret", "{folder}/secret"], start=False) as stranger:
        (stranger.folder / "secret").write_text("fedcba9876543210")
        (stranger.folder / "secret").chmod(0o600)
        stranger.start()
        stranger.wait_up()
        theirs, ours = reserve(stranger, 600, "tokens", "secret"), reserve(one, 600, "tokens", "secret")
        unknown = {"status": "unknown", "refunded": 0, "charged": 0}
        for node, token in ((one, theirs), (stranger, ours)):
            assert said(node, "WEIR.CANCEL", token) == unknown
            assert said(node, "WEIR.COMMIT", token, 0) == unknown
            assert left(node, "tokens", "secret") == 9400
        assert said(one, "WEIR.CANCEL", ours)["refunded"] == 600
        assert said(stranger, "WEIR.CANCEL", theirs)["refunded"] == 600


def test_the_limit_is_gone(fleet):
    """Redis has taken the units of a limit that the rules do not have any more. The new limit is charged, once."""
    redis, one, _ = fleet
    with Node(redis.url(), RULES) as node:
        node.wait_up()
        token, cancelled = (reserve(one, 600, "tokens", "gone") for _ in range(2))
        node.rules.write_text(RULES.replace("key: tokens, rate_limit: {unit: year", "key: tokens, rate_limit: {unit: month"))
        node.signal(signal.SIGHUP)
        node.wait_logged("rules loaded: generation 2")
        assert said(node, "WEIR.COMMIT", token, 500, "api", "tokens", "other") == \
            {"status": "unknown", "refunded": 0, "charged": 500}
        wait_for(lambda: left(node, "tokens", "gone") == 9500, "Redis to count the charge")
        assert left(node, "tokens", "other") == 10000
        assert said(one, "WEIR.COMMIT", token, 500)["status"] == "already"
        assert said(node, "WEIR.CANCEL", cancelled) == {"status": "unknown", "refunded": 0, "charged": 0}
        assert (left(node, "tokens", "gone"), left(one, "tokens", "gone")) == (9500, 8800)
