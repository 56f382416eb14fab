"""Redis topologies: a single Redis with TLS and users, sentinels, a cluster. Also nodes with different clocks."""

import contextlib
import re
import time

import pytest
from weirtest import ROOT, clock as clocks, full, wait_for
from weirtest.fleet import Hammer, Node, alternate, answer, order, wait_exact
from weirtest.redis import Cluster, Redis, Sentinels, certificates

pytestmark = full("failovers of sentinels and clusters take real time")

LIMIT = 30
USERS = 30

RULES = f"""
domain: api
descriptors:
  - key: denied
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: token_bucket, on_store_failure: deny}}
  - key: five
    rate_limit: {{unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}}
  - key: two
    rate_limit: {{unit: week, requests_per_unit: 2, algorithm: token_bucket, on_store_failure: deny}}
"""

# One rule of each algorithm, five units within a test. (Position ten of a queue with one request per 8.4 hours is
# refused at once.)
ALGORITHMS = {
    "token_bucket": "{unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}",
    "fixed_window": "{unit: year, requests_per_unit: 5, algorithm: fixed_window, on_store_failure: deny}",
    "sliding_window_log": "{unit: week, requests_per_unit: 5, algorithm: sliding_window_log, on_store_failure: deny}",
    "sliding_window_counter": "{unit: year, requests_per_unit: 5, algorithm: sliding_window_counter, on_store_failure: deny}",
    "leaky_bucket": "{unit: week, requests_per_unit: 5, algorithm: leaky_bucket, queue_size: 4, on_store_failure: deny}",
}
ALL = RULES + "  - {key: long, rate_limit: {unit: week, requests_per_unit: 200, algorithm: sliding_window_log, " \
    "on_store_failure: deny}}\n  - {key: leased, rate_limit: {unit: week, requests_per_unit: 1000, algorithm: token_bucket, " \
    "consistency: lease, on_store_failure: deny}}\n  - {key: slots, rate_limit: {concurrent: 2, max_hold: 1h, " \
    "on_store_failure: deny}}\n" + "".join(f"  - key: {name}\n    rate_limit: {limit}\n" for name, limit in ALGORITHMS.items())


@contextlib.contextmanager
def nodes_on(url, count=2, rules=RULES, **kwargs):
    """Starts nodes and waits until they use Redis."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node(url, rules, **kwargs)) for _ in range(count)]
        for node in nodes:
            node.wait_up()
        yield nodes


def five(nodes, value="x"):
    """Checks that the nodes together admit exactly five requests."""
    assert alternate(nodes, "five", value, times=8) == [True] * 5 + [False] * 3


# ---- one Redis ----

def test_negative_hits_refund_and_zero_hits_peek():
    """Hits of one node are visible at the other: a negative number gives units back, and 0 only reads."""
    with Redis() as redis, nodes_on(redis.url()) as (one, other):
        assert one.ask("HITS", 4, "five", "x")["remaining"] == 1
        assert other.ask("HITS", 0, "five", "x")["verdict"] == "admit"
        assert other.ask("HITS", 2, "five", "x")["verdict"] == "refuse"
        one.ask("TAKENAT", int(clocks.current.now() * 1000), "HITS", -3, "five", "x")
        wait_for(lambda: other.ask("HITS", 0, "five", "x")["remaining"] == 4, "three to be given back")
        # A refusal is remembered for up to a second, for as many and for more hits.
        wait_for(lambda: other.ask("HITS", 4, "five", "x")["verdict"] == "admit", "four to be had")
        wait_for(lambda: one.ask("HITS", 0, "five", "x")["verdict"] == "refuse", "no unit to be left")


def test_redis_keys_are_hashed_and_expire():
    with Redis() as redis, nodes_on(redis.url(), 1) as nodes:
        nodes[0].ask("five", "alice@example.org")
        with redis.client() as c:
            found = list(c.scan_iter("weir:1:{*}:*"))
            assert len(found) >= 2  # that of alice, and those of the test's probes
            for key in found:
                assert re.fullmatch(r"weir:1:\{[\w-]{22}\}:token_bucket/1w", key)
                # A fifth of the bucket is refilled after a fifth of the week.
                assert 0 < c.pttl(key) <= (7 * 86400 // 5 + 2) * 1000


def test_tls_with_the_ca_certificate():
    with Redis(tls=True) as redis:
        with nodes_on(redis.url(), args=["--redis-ca", redis.ca]) as nodes:
            five(nodes)
        with nodes_on(redis.url(host="localhost"), 1, args=["--redis-ca", redis.ca]) as nodes:
            five(nodes, "by name")


def test_untrusted_tls_certificate_is_refused(tmp_path):
    certificates(tmp_path)
    with Redis(tls=True) as redis, \
            Node(redis.url(), RULES, args=["--redis-ca", tmp_path / "ca.pem"]) as stranger, \
            Node(redis.url(), RULES) as trusting_the_system:
        for node in (stranger, trusting_the_system):
            node.wait_fault("connect")
            assert not any(node.verdicts("five", "x", times=2))
            wait_for(lambda node=node: re.search("certificate|verify", node.log()), "the reason in the log")
    with Redis(tls=True) as redis:
        certificates(redis.folder, "DNS:elsewhere.test")
        redis.restart()
        with Node(redis.url(), RULES, args=["--redis-ca", redis.ca]) as node:
            node.wait_fault("connect")
            assert not any(node.verdicts("five", "x", times=2))


def test_tls_with_a_client_certificate():
    with Redis("tls-auth-clients yes", tls=True) as redis:
        shown = ["--redis-ca", redis.ca, "--redis-cert", redis.client_cert, "--redis-key", redis.client_key]
        with nodes_on(redis.url(), args=shown) as nodes:
            five(nodes)
        with Node(redis.url(), RULES, args=["--redis-ca", redis.ca]) as node:
            wait_for(lambda: node.faults(), "Redis to refuse the node")
            node.wait_logged("certificate required")
            assert not any(node.verdicts("five", "x", times=2))


def documented_user(which=0):
    """Returns the ACL lines of docs/redis.md: for the servers, for the sentinels."""
    text = (ROOT / "docs/redis.md").read_text(encoding="utf-8")
    return re.findall(r"^ACL SETUSER (weir .*)$", text, re.M)[which].replace("PASSWORD", "secret")


def use_every_feature(nodes):
    """Uses every feature of weir that needs Redis."""
    for n, name in enumerate(ALGORITHMS):
        alternate(nodes, name, f"x{n}", times=7)
    assert all(nodes[0].verdicts("long", "x", times=150))  # a log that has become a ring
    wait_for(lambda: borrows_and_returns(nodes[0]), "the leased units to be returned", 30)
    over = time.monotonic() + 1.1
    wait_for(lambda: time.monotonic() > over, "the leases to end")
    nodes[0].ask("leased", "x")  # and let it be forgotten
    for n in range(3):
        for node in nodes:
            node.ask("two", f"y{n}", "|", "five", f"y{n}")  # the third is refused: the unit of the other limit is returned
    settle_and_release(nodes)
    order(nodes[0], "reset", domain="api", entries=[{"key": "two", "value": "y0"}])
    order(nodes[0], "ban", domain="api", entries=[{"key": "two", "value": "y0"}], **{"for": "1h"})
    wait_for(lambda: nodes[1].ask("two", "y0")["verdict"] == "refuse", "the ban to arrive")
    wait_for(lambda: all(node.store()["nodes"] == len(nodes) for node in nodes), "the nodes to know of each other", 20)
    wait_for(lambda: all(node.store()["shards"][0]["version"] for node in nodes), "the version to be known")
    assert not any("noperm" in node.faults() for node in nodes)


def settle_and_release(nodes):
    """Gives back unused units, charges a debt, and takes all slots of a key and gives one back."""
    with nodes[0].connect() as connection:
        for name in (*ALGORITHMS, "long"):
            for actual in (1, 5):
                token = answer(connection.call("WEIR.RESERVE", "api", "HITS", 3, name, f"settled{actual}")).get("reservation")
                if token:  # a leaky bucket refuses three units at once
                    connection.call("WEIR.COMMIT", token, actual)
        taken = [answer(connection.call("WEIR.ACQUIRE", "api", "slots", "x")) for _ in range(3)]
        assert [reply["verdict"] for reply in taken] == ["admit", "admit", "refuse"]
        assert answer(connection.call("WEIR.RELEASE", taken[0]["reservation"]))["status"] == "released"


def borrows_and_returns(node):
    """Returns whether the node has returned leased units. If the machine delayed the node at that time, the units are
    burnt instead."""
    assert all(node.verdicts("leased", "x", times=50))
    with contextlib.suppress(AssertionError):
        wait_for(lambda: node.store()["counts"]["units_returned"] > 0, "the returned units to be counted", 3)
        return True
    return False


def denied(servers):
    """Returns the entries of the ACL logs: commands that Redis has refused."""
    return [entry for server in servers for entry in server.client().execute_command("ACL", "LOG")]


def used(servers):
    """Returns the commands in use, in the notation of ACLs."""
    found = set()
    for server in servers:
        found |= {name.removeprefix("cmdstat_") for name in server.client().info("commandstats")}
    return found


def test_documented_acl_user_is_sufficient():
    with Redis(users=[documented_user()]) as redis, nodes_on(redis.url("weir", "secret"), rules=ALL) as nodes:
        use_every_feature(nodes)
        redis.client().script_flush()
        five(nodes, "after SCRIPT FLUSH")
        assert denied([redis]) == []


# ---- sentinels ----

@pytest.mark.seconds(180)
def test_sentinels_with_an_ordered_failover():
    """During a failover under load every question is decided, and at most one more limit is admitted."""
    with Sentinels() as group, nodes_on(group.url(), timeout="500ms") as nodes:
        with Hammer(nodes, "denied", USERS) as load:
            load.wait(100)
            group.failover()
            wait_for(lambda: all(_asks_only(node, group.master()) for node in nodes), "the new master to be asked", 20)
            load.wait(300)
        assert load.failures == [] and load.slow == []
        assert max(load.admitted.values()) <= 2 * LIMIT, "at most one more limit for what was lost"
        wait_exact(nodes)


def _asks_only(node, master):
    """Returns whether the node uses only this master. `master` is None while the sentinels disagree."""
    shards = node.store()["shards"]
    return master and [s["address"] for s in shards] == [f"127.0.0.1:{master.port}"] and shards[0]["state"] == "up"


@pytest.mark.seconds(180)
def test_sentinels_when_the_master_is_killed():
    with Sentinels(password="p", sentinel_password="s") as group, \
            nodes_on(group.url("", "p") + "?sentinel_password=s", timeout="500ms") as nodes:
        first = group.master()
        group.watchers[0].kill()  # the sentinel that is asked first
        with Hammer(nodes, "denied", USERS) as load:
            load.wait(100)
            first.kill()
            second = group.wait_master(first)
            wait_for(lambda: all(_asks_only(node, second) for node in nodes), "the new master to be asked", 20)
            load.wait(300)
        assert load.failures == [] and load.slow == []
        assert max(load.admitted.values()) <= 2 * LIMIT
        wait_exact(nodes)


@pytest.mark.seconds(180)
def test_sentinels_with_tls_and_the_documented_users():
    with Sentinels(tls=True, users=[documented_user()], sentinel_users=[documented_user(1)]) as group, \
            nodes_on(group.url("weir", "secret") + "?sentinel_user=weir&sentinel_password=secret",
                     args=["--redis-ca", group.servers[0].ca]) as nodes:
        five(nodes)
        group.failover()
        wait_for(lambda: all(_asks_only(node, group.master()) for node in nodes), "the new master to be asked", 20)
        five(nodes, "after")
        assert denied(group.servers + group.watchers) == []
        assert "role" in used(group.servers)


# ---- cluster ----

@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        yield made


def counters(server):
    """Returns the keys of the counters that a server has."""
    return [k for k in server.client().scan_iter("weir:1:{*}:*", count=1000) if "bucket" in k]


def slot_of(server, key):
    return server.client().execute_command("CLUSTER", "KEYSLOT", key)


def test_cluster_keys_are_spread_over_all_masters(cluster):
    with nodes_on(cluster.url()) as nodes:
        for user in range(20):
            five(nodes, f"part-{user}")
        # The secret is random, and so is the master of each user: among this many users, each master has some.
        for user in range(80):
            nodes[0].ask("five", f"some-{user}")
        assert all(counters(node) for node in cluster.masters())


def test_cluster_limits_in_different_slots_take_all_or_none(cluster):
    """Two limits on two masters: when one refuses, the unit of the other is returned."""
    with nodes_on(cluster.url(), 1) as (node,):
        for n in range(10):
            pair = ("two", f"pair-{n}", "|", "five", f"pair-{n}")
            assert [node.ask(*pair)["verdict"] for _ in range(4)] == ["admit", "admit", "refuse", "refuse"]
            assert node.verdicts("five", f"pair-{n}", times=5) == [True] * 3 + [False] * 2


@pytest.mark.seconds(120)
def test_cluster_slot_migration_under_load(cluster):
    """While slots move, each user gets exactly the limit."""
    with nodes_on(cluster.url()) as nodes:
        a, b = cluster.masters()[:2]
        before = set(counters(a))
        # One thread for each node: both ask about every user after every step, and about half of them during it. That
        # is at most 29 of 30 requests, so Redis is asked each time.
        with Hammer(nodes, "denied", USERS, threads=2, turns=0) as load:
            load.round()
            moved = {slot_of(a, key) for key in set(counters(a)) - before}
            for slot in sorted(moved)[:3]:
                for step in (lambda: cluster.begin(slot, b), lambda: cluster.move(slot), lambda: cluster.finish(slot)):
                    load.go_on(USERS // 2)
                    step()
                    load.round()
            load.go_on()
            wait_for(lambda: load.total() >= LIMIT * USERS, "all units to be admitted", 60)
            load.wait(100)
        assert moved and load.failures == [] and load.slow == []
        assert load.total() == LIMIT * USERS and set(load.admitted.values()) == {LIMIT}, "nothing lost, nothing doubled"
        def faults():
            return set().union(*(node.faults() for node in nodes))
        wait_for(lambda: faults() >= {"moved", "ask"}, "redirections to be counted")
        assert faults() <= {"moved", "ask", "tryagain"}


@pytest.mark.seconds(180)
def test_cluster_master_is_killed_under_load(cluster):
    """The replica takes over, every question is decided, and at most one more limit is admitted."""
    with nodes_on(cluster.url(), timeout="500ms") as nodes:
        with Hammer(nodes, "denied", USERS) as load:
            load.wait(200)
            victim = cluster.owner(0)
            cluster.kill_master(victim)
            for node in nodes:
                node.wait_up(30)
            load.wait(300)
        assert load.failures == [] and load.slow == []
        assert max(load.admitted.values()) <= 2 * LIMIT
        for _ in range(10):
            wait_exact(nodes)
        victim.start()
        wait_for(cluster.is_settled, "the killed one to follow", 30)


def test_cluster_with_tls_and_the_documented_user():
    """The documented user is sufficient, and its ACL line permits no unused command."""
    line = documented_user()
    with Cluster(tls=True, users=[line]) as made, \
            nodes_on(made.url("weir", "secret"), rules=ALL, args=["--redis-ca", made.nodes[0].ca]) as nodes:
        for user in range(6):
            five(nodes, f"u{user}")
        use_every_feature(nodes)
        a, b = made.masters()[:2]
        before = set(counters(a))
        for step in ("taken", "while they move", "moved"):
            for user in range(60):  # enough keys that some are on master a, whatever the secret is
                assert nodes[0].ask("denied", f"u{user}")["verdict"] == "admit", step
            for slot in sorted({slot_of(a, key) for key in set(counters(a)) - before})[:4] if step == "taken" else ():
                made.begin(slot, b)
                made.move(slot)
            for slot in list(made.moving) if step == "while they move" else ():
                made.finish(slot)
        assert not made.moving
        assert denied(made.nodes) == []
        allowed = {word[1:] for word in line.split() if word.startswith("+")}
        # The first is only needed without a cluster, the second only by other regions.
        assert allowed - used(made.nodes) == {"role", "hget"}


# ---- different clocks ----

@contextlib.contextmanager
def nodes_an_hour_apart(clock, rules):
    """A Redis on the test's clock and three nodes: an hour late, on time, an hour early."""
    with Redis() as redis, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node(redis.url(), rules, variables=clock.apart(seconds)))
                 for seconds in (-3600, 0, 3600)]
        for node in nodes:
            node.wait_up()
        yield nodes


def test_nodes_with_clocks_an_hour_apart_decide_alike(clock):
    """The clock stands still, so all nodes report the same wait, to the millisecond."""
    with nodes_an_hour_apart(clock, ALL) as nodes:
        for name in ALGORITHMS:
            answers = [nodes[n % 3].ask(name, "x") for n in range(9)]
            verdicts = [a["verdict"] for a in answers]
            first = "admit" if name != "leaky_bucket" else "delay"
            assert verdicts == ["admit"] + [first] * 4 + ["refuse"] * 4, (name, verdicts)
            assert [a["remaining"] for a in answers] == [4, 3, 2, 1, 0, 0, 0, 0, 0], name
            # This is the first refusal of each node. The second one of a node is remembered, and its wait is shorter by
            # the elapsed time.
            assert len({a["retry_after_ms"] for a in answers[5:8]}) == 1, (name, answers[5:])


def test_calendar_days_follow_the_clock_of_redis(clock):
    """The day began half an hour ago. By the clock of the late node it is still yesterday, but that node counts in the
    same window."""
    clock.set("2026-01-14 00:30:00")
    rules = """
domain: api
descriptors:
  - {key: five, rate_limit: {unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}}
  - {key: day, rate_limit: {calendar: day, timezone: UTC, requests_per_unit: 5, on_store_failure: deny}}
"""
    with nodes_an_hour_apart(clock, rules) as nodes:
        answers = [nodes[n % 3].ask("day", "x") for n in range(5)]
        since = time.monotonic()
        answers += [nodes[n % 3].ask("day", "x") for n in range(5, 9)]
        passed_ms = (time.monotonic() - since) * 1000
        assert [a["verdict"] for a in answers] == ["admit"] * 5 + ["refuse"] * 4
        rest_ms = (23 * 60 + 30) * 60000
        # The first refusal of each node comes from Redis, whose clock stands still. The second one of a node is
        # remembered, and its wait is shorter by the elapsed time, because a monotonic clock does not stand still.
        assert [a["retry_after_ms"] for a in answers[5:8]] == [rest_ms] * 3
        assert rest_ms - passed_ms <= answers[8]["retry_after_ms"] <= rest_ms
