"""Two nodes under load during faults of their Redis or of the network. In all cases:

- with `deny` no user is admitted above the limit, plus one more limit for each time that Redis lost data;
- every question gets a decision, and none hangs;
- afterwards the limits hold again, for both nodes together.
"""

import contextlib
import os
import random
import time

import pytest

from weirtest import full, needs, wait_for
from weirtest.fleet import Hammer, Node, alternate, wait_exact
from weirtest.netns import Network
from weirtest.proxy import Proxy
from weirtest.redis import Redis

pytestmark = full("faults of Redis and of the network under load, in real time")

LIMIT = 30
USERS = 20
SEED = int(os.environ.get("WEIR_SEED") or 20240229)  # `make soak` sets others

# A bucket that fills within a week: no token is refilled during a test, and no window ends.
RULES = f"""
domain: api
descriptors:
  - key: denied
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: token_bucket, on_store_failure: deny}}
  - key: logged
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: sliding_window_log, on_store_failure: deny}}
  - key: allowed
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: token_bucket, on_store_failure: allow}}
  - key: five
    rate_limit: {{unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}}
  - key: here
    rate_limit: {{unit: week, requests_per_unit: 1000000, algorithm: token_bucket, consistency: local}}
"""


class Fleet:
    """Two nodes that reach their Redis through a proxy."""

    def __init__(self, timeout="100ms", **redis):
        self.timeout = timeout
        self.redis = Redis(**redis)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.redis)
            self.proxy = stack.enter_context(Proxy(self.redis.port))
            url = self.redis.url(port=self.proxy.port)
            self.nodes = [stack.enter_context(Node(url, RULES, timeout=self.timeout)) for _ in range(2)]
            for node in self.nodes:
                node.wait_up()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def recover(self):
        """Waits until both nodes reach Redis again and a limit of five admits five."""
        for node in self.nodes:
            node.wait_up()
        wait_exact(self.nodes)


def load_around_fault(fleet, fault, heal, key="denied", losses=0, noticed=lambda: True, moment=lambda load: True):
    """Load before, during and after a fault. Returns the load for further checks. At most eight of a user's thirty
    units are used before the fault begins, however late it comes: so Redis is asked until the fault is noticed.
    `moment` is a short fault: it is repeated until a node has met it, with little load meanwhile."""
    with Hammer(fleet.nodes, key, USERS, turns=2 * USERS) as load:
        load.wait(100)
        fault()
        wait_for(lambda: moment(load), "somebody to meet it")
        load.go_on()
        wait_for(noticed, "the fault to be noticed", every=0.02)
        load.wait(150)
        before = load.total()
        heal()
        wait_for(lambda: load.total() > before or is_spent(fleet.nodes[0], key), "requests to be admitted again")
        load.wait(300)
    assert load.failures == []
    assert load.slow == []
    assert max(load.admitted.values()) <= LIMIT * (1 + losses), load.admitted
    fleet.recover()
    return load


def is_spent(node, key):
    """Returns whether no unit is left: all users are refused, and not because Redis is unavailable, since a new user
    is admitted. (A reply that came too late has taken a unit and admitted no request.)"""
    def refused(value):
        return node.ask("HITS", 0, key, value)["verdict"] == "refuse"
    return all(refused(f"u{n}") for n in range(USERS)) and not refused("somebody new")


def nothing():
    pass


# No reply; or no new connection, if there was no question for a second and the connection was closed.
SILENT = {"timeout", "connect"}


def all_nodes_met(fleet, *kinds):
    """Returns whether all nodes have met one of these faults."""
    return all(node.faults().keys() & set(kinds) for node in fleet.nodes)


@pytest.mark.parametrize("key", ["denied", "logged"])
def test_redis_is_killed_and_restarted_with_its_data(key):
    """No user is admitted above the limit, because Redis has an append-only file."""
    with Fleet(aof=True) as fleet:
        # The circuit breaker holds questions back.
        load_around_fault(fleet, fleet.redis.kill, fleet.redis.start, key, noticed=lambda: all_nodes_met(fleet, "open"))


def test_redis_restart_without_its_data_admits_one_more_limit():
    with Fleet() as fleet:
        load_around_fault(fleet, fleet.redis.kill, fleet.redis.start, losses=1, noticed=lambda: all_nodes_met(fleet, "open"))


def test_flushall_under_load():
    with Fleet() as fleet:
        load = load_around_fault(fleet, fleet.redis.flush, nothing, losses=1)
        assert load.total() > 0


def test_flushall_admits_the_forgotten_units_again():
    """Four units of each user are forgotten: each gets four more, and no others."""
    with Fleet(timeout="10s") as fleet:
        with Hammer(fleet.nodes, "denied", USERS, turns=0) as load:
            load.round()
            assert load.admitted == {f"u{n}": 4 for n in range(USERS)}
            fleet.redis.flush()
            load.go_on()
            wait_for(lambda: load.total() >= (LIMIT + 4) * USERS, "all units to be admitted", 30)
            load.wait(100)
        assert load.failures == []
        assert load.admitted == {f"u{n}": LIMIT + 4 for n in range(USERS)}


def test_script_flush_admits_nothing_more():
    """After SCRIPT FLUSH the nodes send the scripts again, and each user gets exactly the limit."""
    with Fleet(timeout="10s") as fleet:
        with Hammer(fleet.nodes, "denied", USERS, turns=0) as load:
            for _ in range(5):
                load.go_on(USERS)
                load.wait(USERS)  # of four times as many: under load, unless the machine delayed a thread
                fleet.redis.client().script_flush()
            load.go_on()
            wait_for(lambda: load.total() >= LIMIT * USERS, "all units to be admitted", 30)
            load.wait(100)
        assert load.failures == []
        assert load.admitted == {f"u{n}": LIMIT for n in range(USERS)}
        wait_for(lambda: sum(node.store()["faults"].get("noscript", 0) for node in fleet.nodes) >= 6,
                 "six to have brought the script")


@pytest.mark.parametrize("how", ["pause", "sleep", "freeze"])
def test_silent_redis(how):
    """Redis does not reply: CLIENT PAUSE, DEBUG SLEEP or SIGSTOP."""
    with Fleet() as fleet:
        if how == "freeze":
            load_around_fault(fleet, fleet.redis.freeze, fleet.redis.thaw, noticed=lambda: all_nodes_met(fleet, *SILENT))
        else:
            load_around_fault(fleet, nothing, nothing, moment=lambda load: silent_for_once(fleet, getattr(fleet.redis, how), load))


def silent_for_once(fleet, silence, load):
    """Returns whether a node has noticed the silence. The load asks 24 of the 440 remaining questions meanwhile, so
    this may fail if the machine delays it."""
    silence(0.7)
    for _ in range(6):
        load.go_on(1)
        time.sleep(0.05)
    with contextlib.suppress(AssertionError):
        wait_for(lambda: any("timeout" in node.faults() for node in fleet.nodes), "a timeout to be counted", 2)
        return True
    return False


@pytest.mark.parametrize("how, seen_as", [
    ("delay", {"timeout"}), ("drop replies", SILENT), ("drop requests", SILENT), ("halve", SILENT),
    ("halve and cut", {"lost"}), ("refuse", {"connect"}), ("cut", None)], ids=lambda v: v if isinstance(v, str) else "")
def test_unreliable_network(how, seen_as):
    """A proxy delays, drops, cuts or refuses the connections to Redis."""
    orders = {"delay": lambda p: p.delay(0.4), "drop replies": lambda p: p.drop("replies"),
              "drop requests": lambda p: p.drop("requests"), "halve": lambda p: p.halve(),
              "halve and cut": lambda p: p.halve(cut=True), "refuse": lambda p: p.refuse(), "cut": lambda p: p.cut()}
    with Fleet() as fleet:
        load_around_fault(fleet, lambda: orders[how](fleet.proxy), fleet.proxy.heal,
                 noticed=lambda: seen_as is None or all_nodes_met(fleet, *seen_as))
        if how != "delay":
            wait_for(lambda: all(node.store()["counts"]["connects"] >= 2 for node in fleet.nodes), "new connections")


def test_faults_in_quick_succession():
    """Faults follow each other faster than a node recovers; the data survives all of them. Their order comes from
    SEED."""
    print(f"repeat with WEIR_SEED={SEED}")
    dice = random.Random(SEED)
    with Fleet(aof=True) as fleet, Hammer(fleet.nodes, "denied", USERS) as load:
        faults = [fleet.proxy.cut, fleet.redis.restart, fleet.proxy.halve, fleet.proxy.refuse, fleet.proxy.heal,
                  fleet.redis.restart, fleet.proxy.cut, lambda: fleet.proxy.delay(0.4), fleet.proxy.heal]
        for _ in range(2):
            dice.shuffle(faults)
            for fault in faults:
                fault()
                load.wait(40)
        fleet.proxy.heal()
        fleet.recover()
        load.wait(200)
    assert load.failures == [] and load.slow == []
    assert max(load.admitted.values()) <= LIMIT


def test_local_questions_do_not_wait_for_redis():
    """With a timeout of twenty seconds and a silent Redis, two hundred local questions between waiting ones take far
    less than a second each."""
    with Redis() as redis, Node(redis.url(), RULES, timeout="20s") as node, node.connect() as one:
        node.wait_up()
        redis.freeze()
        with Hammer([node], "denied", threads=4) as load:
            assert all(node.ask("here", "x", connection=one)["verdict"] == "admit" for _ in range(200))
            assert load.answers < 200
            redis.thaw()
        assert load.failures == []


def test_allow_admits_uncounted_while_redis_is_unavailable():
    with Fleet(timeout="10s") as fleet:
        assert all(fleet.nodes[0].verdicts("allowed", "x", times=LIMIT))
        assert not any(fleet.nodes[1].verdicts("allowed", "x", times=5))
        fleet.proxy.refuse()
        for node in fleet.nodes:
            wait_for(lambda node=node: node.store()["state"] == "away", "the breaker to open")
        # A refusal is remembered for up to a second, whatever happens to Redis.
        wait_for(lambda: all(alternate(fleet.nodes, "allowed", "x", times=2)), "refusals to be forgotten")
        assert all(alternate(fleet.nodes, "allowed", "x", times=2 * LIMIT))
        assert not any(alternate(fleet.nodes, "denied", "x", times=5))
        fleet.proxy.heal()
        fleet.recover()
        assert not any(alternate(fleet.nodes, "allowed", "x", times=5))


@needs("namespaces", "nft")
def test_network_partition():
    """A node is cut off silently from Redis only; then all nodes are."""
    with Network("redis", "a", "b") as net, contextlib.ExitStack() as stack:
        at = net["redis"]
        redis = stack.enter_context(Redis(host=at.address, prefix=at.prefix))
        nodes = [stack.enter_context(Node(redis.url(), RULES, timeout="1s", prefix=net[name].prefix,
                                          resp="unix:{folder}/resp.sock", admin="unix:{folder}/admin.sock"))
                 for name in ("a", "b")]
        for node in nodes:
            node.wait_up()
        with Hammer(nodes, "denied", USERS, turns=2 * USERS) as load:
            load.wait(100)
            net.part("a", "redis")
            load.go_on()
            nodes[0].wait_fault("open")
            load.wait(100)
            assert "open" not in nodes[1].faults(), "the other node has not noticed"
            net.part("b", "redis")
            nodes[1].wait_fault("open")
            load.wait(100)
            net.join()
            for node in nodes:
                node.wait_up()
            load.wait(600)
        assert load.failures == [] and load.slow == []
        assert max(load.admitted.values()) <= LIMIT
        wait_exact(nodes)
