"""Error replies of Redis, each with its outcome and its counter; changes of password and address; shares during an
outage."""

import contextlib
import os
import threading

import pytest
import redis as redispy

from weirtest import Clock, fetch, free_port, full, needs, wait_for
from weirtest.fleet import Node, alternate, wait_exact
from weirtest.proxy import Proxy
from weirtest.redis import Redis

pytestmark = full("timeouts, breakers and recovery of a real Redis take real time")

RULES = """
domain: api
descriptors:
  - key: denied
    rate_limit: {unit: week, requests_per_unit: 1000, algorithm: token_bucket, on_store_failure: deny}
  - key: allowed
    rate_limit: {unit: week, requests_per_unit: 1000, algorithm: token_bucket, on_store_failure: allow}
  - key: shared
    rate_limit: {unit: week, requests_per_unit: 10, algorithm: token_bucket, on_store_failure: local}
  - key: window
    rate_limit: {unit: year, requests_per_unit: 10, on_store_failure: local}
  - key: five
    rate_limit: {unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}
"""


@pytest.fixture(scope="module", autouse=True)
def clock():
    """The wall clock runs from half a minute after noon: no day, week or year ends during a test."""
    with Clock() as running:
        running.run()
        yield running


@contextlib.contextmanager
def one_node(redis, url=None, timeout="10s", **kwargs):
    """A node that has reached Redis and decided a question."""
    with Node(url or redis.url(), RULES, timeout=timeout, **kwargs) as node:
        node.wait_up()
        assert node.ask("denied", "x")["verdict"] == "admit"
        yield node


def outcome(node):
    """Returns the result of a rule that denies without Redis, and of a rule that allows."""
    return node.ask("denied", "x")["verdict"], node.ask("allowed", "x")["verdict"]


def recovers(node):
    """Waits until the node uses Redis again."""
    node.wait_up()
    wait_exact([node])


AWAY = ("refuse", "admit")


@contextlib.contextmanager
def readonly(redis):
    """Makes Redis reply READONLY: it becomes a replica."""
    redis.client().execute_command("REPLICAOF", "127.0.0.1", "1")
    yield
    redis.client().execute_command("REPLICAOF", "NO", "ONE")


@contextlib.contextmanager
def masterdown(redis):
    """Makes Redis reply MASTERDOWN: it is a replica that serves no stale data."""
    with redis.client() as c:
        c.config_set("replica-serve-stale-data", "no")
        c.execute_command("REPLICAOF", "127.0.0.1", "1")
        yield
        c.execute_command("REPLICAOF", "NO", "ONE")


@contextlib.contextmanager
def oom(redis):
    """Makes Redis reply OOM: its maxmemory is one byte."""
    redis.client().config_set("maxmemory", 1)
    yield
    redis.client().config_set("maxmemory", 0)


@contextlib.contextmanager
def busy(redis):
    """Makes Redis reply BUSY: the script of another client does not end."""
    def run():
        with contextlib.suppress(redispy.exceptions.RedisError):
            redis.client().eval("while true do end", 0)
    redis.client().config_set("busy-reply-threshold", 20)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    redis.client().script_kill()
    thread.join(20)


@contextlib.contextmanager
def noreplicas(redis):
    """Makes Redis reply NOREPLICAS: writes need a replica."""
    redis.client().config_set("min-replicas-to-write", 1)
    yield
    redis.client().config_set("min-replicas-to-write", 0)


@contextlib.contextmanager
def misconf(redis):
    """Makes Redis reply MISCONF: a save fails, because a folder is at the path of its file."""
    with redis.client() as c:
        c.config_set("save", "1 1000000")
        c.config_set("stop-writes-on-bgsave-error", "yes")
        blocked = redis.folder / "dump.rdb"
        blocked.mkdir()
        (blocked / "file").touch()
        with contextlib.suppress(redispy.exceptions.RedisError):
            c.bgsave()
        wait_for(lambda: c.info("persistence")["rdb_last_bgsave_status"] == "err", "a save to fail")
        yield
        c.config_set("stop-writes-on-bgsave-error", "no")


@pytest.mark.parametrize("kind", [readonly, masterdown, oom, busy, noreplicas, misconf], ids=lambda f: f.__name__)
def test_error_replies_apply_the_fallback(kind):
    """While Redis sends this error, on_store_failure decides, and the error is counted under its name."""
    with Redis() as redis, one_node(redis) as node:
        with kind(redis):
            wait_for(lambda: outcome(node) == AWAY and node.faults().get(kind.__name__), f"{kind.__name__} to be noticed")
            assert outcome(node) == AWAY
        recovers(node)


def test_redis_that_is_loading_its_data():
    """A slow restart: keys are loaded one by one, with a pause of half a second, until the test has seen it."""
    with Redis("key-load-delay 500000", "loading-process-events-interval-bytes 1024", "rdbcompression no") as redis:
        with redis.client() as c:
            for n in range(240):
                c.set(f"other:{n}", "x" * 2000)
            c.save()
        with one_node(redis) as node:
            redis.kill()
            redis.launch()
            node.wait_fault("loading")
            assert outcome(node) == AWAY
            redis.client().config_set("key-load-delay", 0)
            recovers(node)


def test_key_of_another_type():
    """Another program has written a list at the key of a counter: only this counter fails."""
    with Redis() as redis, one_node(redis) as node:
        with redis.client() as c:
            for key in c.scan_iter("weir:1:{*}:token_bucket*"):
                c.delete(key)
                c.rpush(key, "not", "weir's")
        assert node.ask("denied", "x")["verdict"] == "refuse"
        assert node.ask("denied", "another")["verdict"] == "admit", "it is that key's trouble alone"
        node.wait_fault("wrongtype")


@pytest.mark.parametrize("policy, warned", [("allkeys-lru", True), ("noeviction", False), ("volatile-ttl", False)])
def test_eviction_policy_that_loses_counters_is_warned_of(policy, warned):
    with Redis("maxmemory 100mb", f"maxmemory-policy {policy}") as redis, one_node(redis) as node:
        wait_for(lambda: node.store()["shards"][0]["maxmemory_policy"] == policy, "the policy to be known")
        output = f"maxmemory-policy {policy} may evict"
        if warned:
            node.wait_logged(output)
        assert (output in node.log()) == warned


# ---- passwords and permissions ----

def test_changed_password_is_read_from_the_file():
    """Redis keeps existing connections. New connections need the new password, which the file has."""
    user = "weir on >first ~weir:* &* +@all"
    with Redis(users=[user]) as redis, contextlib.ExitStack() as stack:
        secret = redis.folder / "secret"
        secret.write_text("first\n", encoding="ascii")
        secret.chmod(0o600)
        url = f"redis://weir@127.0.0.1:{redis.port}"
        node = stack.enter_context(one_node(redis, url, args=["--redis-password-file", secret]))
        with redis.client() as c:
            c.execute_command("ACL", "SETUSER", "weir", "resetpass", ">second")
            assert node.ask("denied", "x")["verdict"] == "admit"
            c.execute_command("CLIENT", "KILL", "USER", "weir")
        node.wait_fault("wrongpass")
        assert outcome(node) == AWAY
        secret.write_text("second\n", encoding="ascii")
        recovers(node)
        assert "second" not in node.log() and "first" not in node.log()


def test_missing_password():
    """Without the password on_store_failure decides. The node recovers when Redis needs no password."""
    with Redis(password="p") as redis, Node(redis.url(), RULES) as node:
        node.wait_fault("noauth")
        assert outcome(node) == AWAY
        redis.client().config_set("requirepass", "")
        redis.password = None
        recovers(node)


def test_revoked_permissions():
    """Without the permission for evalsha on_store_failure decides. The node recovers with the permission."""
    with Redis(users=["weir on >p ~weir:* +@all"]) as redis, one_node(redis, redis.url("weir", "p")) as node:
        with redis.client() as c:
            c.execute_command("ACL", "SETUSER", "weir", "-evalsha")
            wait_for(lambda: outcome(node) == AWAY and node.faults().get("noperm"), "noperm to be noticed")
            c.execute_command("ACL", "SETUSER", "weir", "+evalsha")
        recovers(node)


def test_url_is_shown_without_its_password():
    with Redis(users=["weir on >hush-hush ~weir:* +@all"]) as redis, \
            one_node(redis, redis.url("weir", "hush-hush")) as node:
        shown = f"{node.log()}{node.status()}"
        assert "hush" not in shown and f"127.0.0.1:{redis.port}" in shown


# ---- address ----

@needs("mounts")
def test_host_name_that_changes_its_address():
    """The name moves from one address to another: the next connection uses the new one. The node has its own hosts
    file."""
    port = free_port()
    with Redis(host="127.0.0.2", port=port) as old, Redis(host="127.0.0.3", port=port) as new:
        hosts = old.folder / "hosts"
        hosts.write_text("127.0.0.2 redis.test\n127.0.0.1 localhost\n", encoding="ascii")
        user = ["--user", "--map-root-user"] if os.getuid() else []
        prefix = ["unshare", *user, "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts)]
        with one_node(old, f"redis://redis.test:{port}", prefix=prefix) as node:
            assert old.keys("weir:1:*") and not new.keys("weir:1:*")
            hosts.write_text("127.0.0.3 redis.test\n127.0.0.1 localhost\n", encoding="ascii")
            old.kill()
            recovers(node)
            assert new.keys("weir:1:*")


# ---- the share of an outage ----

@pytest.mark.parametrize("rule", ["shared", "window"])
def test_local_shares_and_their_reports(rule):
    """Ten units for two nodes. Three are taken while Redis is available, two of them by the first node. Without Redis
    each node grants five in all, including those it took before, and at most half of the units that Redis had left at
    its last reply: the first grants three more (five less two, below half of eight), the second three (half of seven,
    below five less one). When Redis is back it gets a report of the six: nine are used."""
    with Redis(aof=True) as redis, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Node(redis.url(), RULES)) for _ in range(2)]
        for node in nodes:
            node.wait_up()
            wait_for(lambda node=node: node.store()["nodes"] == 2, "the nodes to know of each other", 20)
        assert nodes[0].verdicts(rule, "x", times=2) == [True] * 2
        assert nodes[1].verdicts(rule, "x", times=1) == [True]
        redis.kill()
        for node in nodes:
            wait_for(lambda node=node: node.ask("denied", "y")["verdict"] == "refuse", "Redis to be missed")
        assert nodes[0].verdicts(rule, "x", times=6) == [True] * 3 + [False] * 3
        assert nodes[1].verdicts(rule, "x", times=6) == [True] * 3 + [False] * 3
        redis.start()
        for node in nodes:
            node.wait_up()
        wait_for(lambda: sum(node.store()["counts"]["reported"] for node in nodes) >= 2, "the reports to arrive", 20)
        assert alternate(nodes, rule, "x", times=4) == [True] + [False] * 3
        assert alternate(nodes, rule, "other", times=12) == [True] * 10 + [False] * 2


@pytest.mark.parametrize("rule", ["shared", "window"])
def test_report_whose_reply_is_lost_counts_once(rule):
    """Two units with Redis and three without. The report of the three arrives, but its reply is lost: it is sent again,
    and five of ten are used, not eight."""
    with Redis() as redis, Proxy(redis.port) as proxy, Node(redis.url(port=proxy.port), RULES) as node:
        node.wait_up()
        assert node.verdicts(rule, "x", times=2) == [True] * 2
        proxy.refuse()
        wait_for(lambda: node.ask("denied", "y")["verdict"] == "refuse", "Redis to be missed")
        assert node.verdicts(rule, "x", times=3) == [True] * 3
        with redis.client() as c:
            reports = "weir:1:{*}:r:*"
            assert not list(c.scan_iter(reports))
            lost = []

            def lose(sent):
                if not list(c.scan_iter(reports)):
                    return sent
                lost.append(sent)
                return b""
            proxy.spoil(replies=lose)
            wait_for(lambda: lost, "the report to arrive and its answer to be lost", 20)
            proxy.heal()
        wait_for(lambda: node.store()["counts"]["reported"] >= 1, "the report to be confirmed", 20)
        node.wait_up()
        assert node.verdicts(rule, "x", times=7) == [True] * 5 + [False] * 2


def test_fleet_size_option_applies_before_the_first_contact():
    """A node that never reached Redis divides the limit by --fleet-size, or by 1."""
    with Node(f"redis://127.0.0.1:{free_port()}", RULES, timeout="100ms", args=["--fleet-size", "4"]) as node, \
            Node(f"redis://127.0.0.1:{free_port()}", RULES, timeout="100ms") as alone:
        assert node.verdicts("shared", "x", times=5) == [True] * 2 + [False] * 3
        assert alone.verdicts("shared", "x", times=12) == [True] * 10 + [False] * 2


# ---- readiness ----

def test_readiness_stays_up_without_redis_unless_every_rule_denies():
    url = f"redis://127.0.0.1:{free_port()}"
    only_deny = "domain: api\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 5, " \
                "on_store_failure: deny}\n"
    with Node(url, RULES, timeout="100ms", http=True) as mixed, \
            Node(url, only_deny, timeout="100ms", http=True) as strict:
        assert fetch(mixed.http_port, "GET", "/readyz").status == 200
        wait_for(lambda: fetch(strict.http_port, "GET", "/readyz").status == 503, "the service to be not ready")
