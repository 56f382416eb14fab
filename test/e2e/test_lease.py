"""`consistency: lease` with a real Redis: requests are decided from units that the node has borrowed. The limit is
never exceeded, though nodes and Redis are killed, paused, flushed or replaced.

Windows do not end during a test, so counts can be compared with the limit."""

import contextlib
import re
import signal
import subprocess
import time

import pytest
from weirtest import Clock, env, free_port, full, scaled, count_statuses, send_at_once, wait_for
from weirtest.clock import for_weir
from weirtest.fleet import Load, Node, order
from weirtest.gateway import Gateway
from weirtest.nginx import Nginx
from weirtest.redis import Cluster, Redis, Sentinels
from weirtest.scrape import Metrics

pytestmark = full("leases last for a second of real time")

LIMIT = scaled(2000, 400)

ALGORITHMS = {
    "fixed": f"{{unit: year, requests_per_unit: {LIMIT}, algorithm: fixed_window",
    "counter": f"{{unit: year, requests_per_unit: {LIMIT}, algorithm: sliding_window_counter",
    "bucket": f"{{unit: year, requests_per_unit: {LIMIT}, algorithm: token_bucket",
    "log": f"{{unit: week, requests_per_unit: {LIMIT}, algorithm: sliding_window_log",
}
MANY = "{unit: year, requests_per_unit: 100000000, consistency: lease, on_store_failure: deny}"
RULES = """
domain: api
descriptors:
  - key: five
    rate_limit: {unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}
  - key: many
    rate_limit: """ + MANY + "\n" + "".join(f"  - key: {name}\n    rate_limit: {limit}, consistency: lease, on_store_failure: deny}}\n"
              for name, limit in ALGORITHMS.items())


@pytest.fixture(scope="module", autouse=True)
def clock():
    """The wall clock runs from half a minute after noon: no day, week or year ends during a test."""
    with Clock() as running:
        running.run()
        yield running


@contextlib.contextmanager
def nodes_on(url, count=2, **kwargs):
    """Starts nodes and waits until each knows the number of nodes."""
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node(url, kwargs.pop("rules", RULES), timeout="20s", **kwargs))
                 for _ in range(count)]
        for node in nodes:
            node.wait_up(30)
        wait_for(lambda: all(node.store()["nodes"] == count for node in nodes), "all nodes to be counted", 30)
        yield nodes


def counts(*nodes):
    """Returns the lease metrics, summed over all nodes."""
    found = [node.store()["counts"] for node in nodes]
    return {name: sum(one[name] for one in found) for name in found[0]}


def assert_used_up(total, limit, nodes, share=0.99):
    """Never more than the limit is admitted. Units that were not admitted are burnt: a delayed node could not use them
    before its lease ended. In virtual time, where no node is delayed, test/sim/test_lease.c requires 990 of 1,000."""
    assert limit * 0.5 <= total <= limit

    def check_all_units_accounted():
        burnt = sum(Metrics(node.admin_port).value("weir_lease_units_burnt_total") for node in nodes)
        return total + burnt >= limit * share
    wait_for(check_all_units_accounted, f"{limit} units less {total} admitted to be accounted for", 20)


# ---- one limit ----

@pytest.mark.parametrize("name", ALGORITHMS)
def test_two_nodes_share_one_limit(name):
    """Never more than the limit is admitted, and hardly less: all borrowed units are used or returned."""
    with Redis() as redis, nodes_on(redis.url()) as nodes:
        with Load(nodes, name, "x") as load:
            load.wait_refused(200)

        def settled():
            """All leases have ended, every unit is accounted for, and leases paid for many decisions."""
            sums = counts(*nodes)
            return not any(node.store()["leases"] for node in nodes) and sums["units_spent"] > LIMIT * 0.3 and \
                sums["units_granted"] == sums["units_spent"] + sums["units_returned"] + sums["units_burnt"]
        wait_for(settled, "all leases to end", 20)
        assert_used_up(load.total(), LIMIT, nodes)
        # Redis has counted what was admitted.
        assert nodes[0].ask("HITS", 0, name, "x")["remaining"] <= LIMIT * 0.01


def test_threads_of_one_node_share_a_lease():
    """One of three threads owns the lease. All use it, and a thread that finds it empty asks Redis itself."""
    with Redis() as redis, nodes_on(redis.url(), 1, threads=3) as (node,):
        with Load([node], "fixed", "x", threads=6) as load:
            load.wait_refused(200)
        assert_used_up(load.total(), LIMIT, [node])
        wait_for(lambda: counts(node)["units_spent"] > LIMIT * 0.2, "many to be paid for", 20)


def test_leases_save_calls_to_redis():
    """Many requests for one key: Redis is called for only a few of them."""
    with Redis() as redis, nodes_on(redis.url(), 1) as (node,):
        with Load([node], "many", "x") as load:
            load.wait(3000)
            began = time.monotonic()
            before = redis.client().info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
            load.wait(load.total() + 5000)
        after = redis.client().info("commandstats")["cmdstat_evalsha"]["calls"]
        took = time.monotonic() - began
        # A lease of a second is renewed before its last quarter, or when it is used up too soon. There is also a
        # heartbeat.
        assert after - before <= 10 + 8 * took, (after - before, took)


# ---- gateways ----

BY_USER = """
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {limit}
"""


@contextlib.contextmanager
def gateways(api, redis, count, limit):
    """Starts gateways, each with an .admin_port."""
    def member():
        admin = free_port()
        one = stack.enter_context(Gateway(api.port, "--redis", redis.url(), "--redis-timeout", "20s", "--admin",
                                          f"127.0.0.1:{admin}", rules=BY_USER.format(limit=limit)))
        one.admin_port = admin
        return one

    with contextlib.ExitStack() as stack:
        members = [member() for _ in range(count)]

        def asks(one):
            before = len(redis.keys("weir:1:{*"))
            one.get("/", {"X-User": f"probe-{time.monotonic_ns()}"})
            return len(redis.keys("weir:1:{*")) > before
        for one in members:
            wait_for(lambda: asks(one), "the gateway to ask Redis", 30)
            one.renew_workers()  # workers that started before the service knew Redis decide alone for up to a second
        wait_for(lambda: redis.client().zcard("weir:1:nodes") == count, "all gateways to be counted", 30)
        yield members


def balancer(members):
    """Returns an nginx that distributes requests over the gateways."""
    servers = "".join(f"server 127.0.0.1:{one.port};" for one in members)
    return Nginx(conf_http=f"upstream fleet {{ {servers} keepalive 256; }} proxy_http_version 1.1; "
                           'proxy_set_header Connection "";',
                 conf_server="location / { proxy_pass http://fleet; }", table=None)


def test_18_three_gateways_behind_a_balancer(api):
    """ACCEPTANCE 18: a log of 1,000 per minute by lease, 1,500 requests at once: never more than 1,000 are admitted,
    and at least 990 including units that delayed gateways burnt."""
    limit = scaled(1000)
    rule = f"{{unit: minute, requests_per_unit: {limit}, algorithm: sliding_window_log, consistency: lease}}"
    with Redis() as redis, gateways(api, redis, 3, rule) as members, balancer(members) as front:
        api.reset()
        results = send_at_once(front.port, [("GET", "/", {"X-User": "7"})] * (limit * 3 // 2), connections=limit // 4 + 1)
        found = count_statuses(results)
        assert set(found) == {200, 429}
        assert_used_up(found[200], limit, members)
        assert api.count() == found[200]


def test_20_client_alternates_between_two_gateways(api):
    """ACCEPTANCE 20: whichever of two gateways the client asks, it has one limit."""
    limit = scaled(300, 60)
    rule = f"{{unit: day, requests_per_unit: {limit}, consistency: lease}}"
    with Redis() as redis, gateways(api, redis, 2, rule) as (one, two):
        with one.client() as first, two.client() as second:
            statuses = [(first, second)[i % 2].get("/", {"X-User": "7"}).status for i in range(limit * 2)]
        assert set(statuses) == {200, 429}
        assert_used_up(statuses.count(200), limit, [one, two])


def test_workers_decide_from_leases(api):
    """nginx decides from the table: few of a thousand requests ask Redis."""
    requests = scaled(2000, 200)
    with Redis() as redis, gateways(api, redis, 1, MANY) as (one,):
        with one.client() as client:
            statuses = {client.get("/", {"X-User": "7"}).status for _ in range(requests)}
        assert statuses == {200}

        def spent():
            return Metrics(one.admin_port).value("weir_lease_units_spent_total") >= requests * 0.5
        wait_for(spent, "most to be paid for from leases", 20)


# ---- nodes that end ----

def test_units_of_a_killed_node_are_burnt():
    """kill -9 of a service with leases: its units are burnt when the lease ends, and no more than the limit is
    admitted."""
    with Redis() as redis, nodes_on(redis.url()) as (one, two):
        with Load([one, two], "fixed", "x", slow_from=LIMIT // 4) as load:
            load.wait(LIMIT // 4)
            wait_for(lambda: one.store()["leased_units"] > 0, "something to be lent", 20)
            load.kill(one)
            load.go_on()
            load.wait_refused(200)
            assert load.total() <= LIMIT
            before = load.total()
        one.start()  # the same table, with the data of the killed service
        one.wait_up(30)
        with Load([one, two], "fixed", "x") as more:
            more.wait_refused(200)
        # All but the units of the killed node, at most a quarter of the rest when it borrowed.
        assert LIMIT * 0.7 <= before + more.total() <= LIMIT


def test_node_returns_its_units_at_shutdown():
    """SIGTERM: borrowed and unused units are available to other nodes at once. Redis has counted the admitted ones."""
    with Redis() as redis, nodes_on(redis.url(), 1) as (node,):
        with Load([node], "fixed", "x") as load:
            load.wait(LIMIT // 4)
        node.stop()
        counters = [k for k in redis.keys("weir:1:{*}:fixed_window/*") if ":l:" not in k]
        assert [int(redis.client().get(k)) for k in counters] == [load.total()]


def test_paused_node_uses_no_expired_lease():
    """SIGSTOP for longer than a lease lasts: requests that wait for the node are not paid from units that other nodes
    have by then."""
    with Redis() as redis, nodes_on(redis.url()) as (one, two):
        with Load([one], "bucket", "x", threads=1, slow_from=LIMIT // 10) as load:
            load.wait(LIMIT // 10)
            wait_for(lambda: one.store()["leased_units"] > 0, "something to be lent", 20)
            one.signal(signal.SIGSTOP)
            load.go_on()
            until = time.monotonic() + 1.2
            with Load([two], "bucket", "x") as other:
                wait_for(lambda: time.monotonic() > until, "the leases to end")
                other.wait_refused(200)
            one.signal(signal.SIGCONT)
            load.wait_refused(200)
        assert load.total() + other.total() <= LIMIT


# ---- Redis loses data ----

def test_flushall_admits_at_most_one_more_limit():
    """At most one more limit is admitted, and leases that Redis has lost are void."""
    with Redis() as redis, nodes_on(redis.url()) as nodes:
        with Load(nodes, "fixed", "x", slow_from=LIMIT // 2) as load:
            load.wait(LIMIT // 2)
            wait_for(lambda: sum(node.store()["leased_units"] for node in nodes) > 0, "something to be lent", 20)
            redis.flush()
            load.go_on()
            load.wait_refused(200)
        assert LIMIT < load.total() <= 2 * LIMIT
        wait_for(lambda: counts(*nodes)["leases_voided"] > 0, "a lease to be void", 20)


@pytest.mark.skipif(env.WRAP == "valgrind", reason="three sentinels are too slow under valgrind")
def test_failover_admits_at_most_one_more_limit():
    """Writes that did not reach the new master admit at most one more limit."""
    with Sentinels() as group, nodes_on(group.url()) as nodes:
        with Load(nodes, "fixed", "x", slow_from=LIMIT // 4) as load:
            load.wait(LIMIT // 4)
            group.failover()
            load.go_on()
            load.wait_refused(200, seconds=120)
        assert LIMIT * 0.7 <= load.total() <= 2 * LIMIT


def test_leases_last_while_redis_is_unavailable():
    """Leases are used until they end. Then on_store_failure decides (deny). No unit is admitted twice."""
    with Redis(aof=True) as redis, nodes_on(redis.url()) as nodes:
        with Load(nodes, "bucket", "x", slow_from=LIMIT // 4) as load:
            load.wait(LIMIT // 4)
            redis.kill()
            load.go_on()
            load.wait_refused(200)
            before = load.total()
            assert before < LIMIT
            redis.start()
            load.wait(before + 1)
            load.wait_refused(400)
        assert load.total() <= LIMIT


def test_leases_survive_a_slot_migration():
    """The counter and its leases move to another server under load: no unit is lost or admitted twice."""
    with Cluster(masters=2, replicas=0) as cluster, nodes_on(cluster.url()) as nodes:
        with Load(nodes, "fixed", "x", slow_from=LIMIT // 10) as load:
            load.wait(LIMIT // 10)
            source, key = next((one, k) for one in cluster.masters() for k in one.keys("weir:1:{*}:fixed_window/*"))
            target = next(one for one in cluster.masters() if one is not source)
            cluster.migrate(source.client().cluster("KEYSLOT", key), target)
            load.go_on(slow_from=LIMIT // 2)
            load.wait(LIMIT // 2)
            wait_for(lambda: target.keys("weir:1:{*}:l:fixed_window/*"), "something to be lent there")
            load.go_on()
            load.wait_refused(200)
        assert_used_up(load.total(), LIMIT, nodes, share=0.97)
        assert counts(*nodes)["leases_voided"] == 0


# ---- operators ----

def test_lowered_limit_applies_within_a_second():
    """Units that were leased under the old limit are not spent after the limit was lowered."""
    with Redis() as redis, nodes_on(redis.url()) as nodes:
        with Load(nodes, "fixed", "x", slow_from=LIMIT // 8) as load:
            load.wait(LIMIT // 8)
            low = RULES.replace(f"{LIMIT}", f"{LIMIT // 8}")
            for node in nodes:
                loaded = node.log().count("rules loaded")
                node.write_rules(low)
                node.wait_logged("rules loaded", times=loaded + 1)
            load.go_on()
            load.wait_refused(200)
            assert load.total() < LIMIT
            for node in nodes:
                loaded = node.log().count("rules loaded")
                node.write_rules(RULES)
                node.wait_logged("rules loaded", times=loaded + 1)
            load.wait_refused(400)
        assert_used_up(load.total(), LIMIT, nodes)


def test_reset_and_ban_of_a_leased_key():
    """A reset admits the limit again, and a ban ends all admissions, although nodes have leases."""
    with Redis() as redis, nodes_on(redis.url()) as nodes:
        entries = [{"key": "fixed", "value": "x"}]
        with Load(nodes, "fixed", "x") as load:
            load.wait_refused(200)
            before = load.total()
            assert before <= LIMIT
            order(nodes[0], "reset", domain="api", entries=entries)
            load.wait(before + 10)
            order(nodes[1], "ban", domain="api", entries=entries, **{"for": "1h"})
            load.wait_refused(400)
        assert load.total() <= 2 * LIMIT


# ---- observability ----

def test_leases_are_visible_in_metrics_status_and_top(clock):
    """/metrics, /v1/status, /v1/fleet and weir top show leases and nodes."""
    with Redis() as redis, nodes_on(redis.url()) as nodes:
        with Load(nodes, "many", "x"):
            wait_for(lambda: Metrics(nodes[0].admin_port).value("weir_leases") == 1, "the gauge", 20)
            wait_for(lambda: Metrics(nodes[0].admin_port).value("weir_lease_units_spent_total") > 0, "the counter", 20)
            assert nodes[0].store()["counts"]["leases_granted"] >= 1

            def top_tells():
                top = subprocess.run([env.WEIR, "top", "--dir", nodes[0].table], check=True, capture_output=True, text=True,
                                     env=for_weir()).stdout
                leases = re.search(r"^fleet      1 leases held, \d+ units unspent . \d+ units leased so far: \d+ spent, \d+ returned, \d+ expired$", top, re.M)
                return leases and "2 nodes in the fleet" in top
            wait_for(top_tells, "top to tell of the lease and the fleet", 20)
