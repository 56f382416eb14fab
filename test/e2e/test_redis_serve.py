"""weir serve with --redis: one limit for all nodes and all protocols; how nodes connect; and each rule's fallback while
Redis is down.

This is the Redis suite of `make test`. The other test_redis_*.py, test_lease.py, test_eventual.py and test_regions.py run
in `make test-full`. The wall clock is that of the test (weirtest/clock.py): it runs from half a minute after noon, so no window
ends during a test. Most tests share one Redis and two nodes, and each uses values of its own."""

import collections
import contextlib
import json
import pathlib
import socket
import subprocess
import threading

import pytest

from weirtest import JSON, Client, Clock, env, fetch, full, tokens
from weirtest.clock import for_weir
from weirtest.eventual import LIMIT as EVENTUAL, SYNC, take_until_known, left, take_one_each, take, wait_reported
from weirtest.fleet import Load, Node, alternate, answer, wait_exact
from weirtest.ports import free_port
from weirtest.redis import Cluster, Redis
from weirtest.resp import Error, command
from weirtest.rls import OK, OVER, Rls
from weirtest.serve import Serve
from weirtest.waiting import wait_for

MANY = 400
LEASED = env.scaled(1000, 200)

RULES = f"""
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - {{key: user, rate_limit: {{unit: year, requests_per_unit: 12}}}}
  - {{key: bucket, rate_limit: {{unit: year, requests_per_unit: 40, algorithm: token_bucket}}}}
  - {{key: here, rate_limit: {{unit: year, requests_per_unit: 3, consistency: local}}}}
  - {{key: allow, rate_limit: {{unit: year, requests_per_unit: 2, on_store_failure: allow}}}}
  - {{key: deny, rate_limit: {{unit: year, requests_per_unit: 2, on_store_failure: deny}}}}
  - {{key: five, rate_limit: {{unit: year, requests_per_unit: 5, on_store_failure: deny}}}}
  - {{key: share, rate_limit: {{unit: year, requests_per_unit: 6, on_store_failure: local}}}}
  - {{key: queue, rate_limit: {{unit: second, requests_per_unit: 20, algorithm: leaky_bucket, queue_size: 5}}}}
  - {{key: slow, rate_limit: {{unit: hour, requests_per_unit: 20, algorithm: leaky_bucket, queue_size: 5}}}}
  - {{key: leased, rate_limit: {{unit: year, requests_per_unit: {LEASED}, consistency: lease, on_store_failure: deny}}}}
  - {{key: fixed, rate_limit: {{unit: year, requests_per_unit: {EVENTUAL}, consistency: eventual}}}}
""" + "".join(f"  - {{key: {name}, rate_limit: {{unit: week, requests_per_unit: {MANY}, algorithm: {name}}}}}\n"
              for name in ("fixed_window", "sliding_window_log", "token_bucket"))

Fleet = collections.namedtuple("Fleet", "redis one two")


@pytest.fixture(scope="module", autouse=True)
def clock():
    with Clock() as moved:
        moved.run()
        yield moved


@contextlib.contextmanager
def stopped(clock):
    """The clock stands still within the block."""
    clock.stop()
    try:
        yield
    finally:
        clock.run()


@pytest.fixture(scope="module")
def fleet(clock):
    """A Redis and two nodes with all ports. One node has one thread, the other two."""
    del clock  # the clock is in use before the nodes start
    with Redis() as redis, node(redis, grpc=True, http=True, timeout="30s", args=SYNC) as one, \
            node(redis, grpc=True, http=True, timeout="30s", args=SYNC, threads=2) as two:
        for serve in (one, two):
            serve.wait_up()
        yield Fleet(redis, one, two)


def node(redis, rules=RULES, **kwargs):
    return Node(redis if isinstance(redis, str) else redis.url(), rules, **kwargs)


def check_http(serve, key, value):
    found = fetch(serve.http_port, "POST", "/v1/check", JSON, question(key, value))
    assert found.status == 200, found
    return json.loads(found.body)


def question(key, value):
    return json.dumps({"domain": "api", "descriptors": [{"entries": [{"key": key, "value": value}]}]}).encode()


def order(serve, verb, key, value, **more):
    """Sends an operator's order to the admin API. Returns the response."""
    body = {"domain": "api", "entries": [{"key": key, "value": value}], **more}
    found = fetch(serve.admin_port, "POST", f"/v1/key/{verb}", body=json.dumps(body).encode(),
                  headers={"Content-Type": "application/json"})
    assert found.status == 200, found
    return json.loads(found.body)


# ---- one counter ----

def test_all_protocols_share_one_counter(fleet):
    """The limit is 12 a year. gRPC, /v1/check, /json, /check and RESP take from it on two nodes in turn. Then all of
    them refuse."""
    def envoy(serve):
        return fetch(serve.http_port, "POST", "/json", JSON, question("user", "7")).status

    def forward(serve):
        return fetch(serve.http_port, "GET", "/check/api", headers={
            "X-User": "7", "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/"})
    redis, one, two = fleet
    before = set(redis.keys("weir:1:{*"))
    remaining = []
    for serve in (one, two):
        with Rls(serve.grpc_port) as rls:
            assert rls.ask("api", ("user", "7")) == OK
        remaining.append(check_http(serve, "user", "7")["remaining"])
        assert envoy(serve) == 200
        found = forward(serve)
        assert found.status == 200
        remaining.append(int(dict(found.headers)["X-Ratelimit-Remaining"]))
        remaining.append(serve.ask("user", "7")["remaining"])
    assert remaining == [10, 8, 7, 5, 3, 2]
    assert one.verdicts("user", "7", times=3) == [True, True, False]
    with Rls(two.grpc_port) as rls:
        assert rls.ask("api", ("user", "7")) == OVER
    assert check_http(two, "user", "7")["verdict"] == "refuse"
    assert (envoy(one), forward(two).status) == (429, 429)
    assert len(set(redis.keys("weir:1:{*")) - before) == 1
    assert one.status()["table"]["path"] != two.status()["table"]["path"]


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window_log", "token_bucket"])
def test_19_processes_and_threads_on_one_key_admit_exactly_the_limit(fleet, algorithm):
    """ACCEPTANCE 19: the limit is 400 a week. 8 clients send 800 requests in pipelines to two nodes: 400 are
    admitted."""
    clients, depth, rounds = 8, 25, 4
    admitted = []

    def ask(serve):
        with serve.connect() as connection:
            for _ in range(rounds):
                connection.send(command("WEIR.CHECK", "api", algorithm, "all") * depth)
                admitted.extend(answer(connection.read())["verdict"] == "admit" for _ in range(depth))

    threads = [threading.Thread(target=ask, args=[serve]) for serve in (fleet.one, fleet.two) * (clients // 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == clients * rounds * depth == 2 * MANY
    assert sum(admitted) == MANY
    assert fleet.one.faults() == fleet.two.faults() == {}


def test_replies_of_a_pipeline_stay_in_order(fleet):
    """A pipeline has questions for Redis, a local question and an unknown command. Replies come in the order of the
    commands, though the first one waits for Redis."""
    redis, serve, _ = fleet
    with serve.connect() as connection:
        redis.freeze()
        words = [["WEIR.CHECK", "api", "bucket", "1"], ["PING"], ["WEIR.CHECK", "api", "here", "1"], ["NOSUCH"],
                 ["WEIR.CHECK", "api", "bucket", "1"], ["ECHO", "x"]]
        connection.send(b"".join(command(*w) for w in words))
        wait_for(lambda: serve.store()["waiting"] == 2, "two questions to be out")
        redis.thaw()
        first, pong, here, unknown, second, echo = (connection.read() for _ in words)
    assert answer(first)["remaining"] == 39 and answer(second)["remaining"] == 38
    assert answer(here)["remaining"] == 2
    assert (pong, echo) == ("PONG", "x") and isinstance(unknown, Error)


def test_client_that_half_closes_gets_its_replies(fleet):
    """The client shuts down its sending side and still gets its replies."""
    redis, serve, _ = fleet
    with serve.connect() as connection:
        redis.freeze()
        connection.send(command("WEIR.CHECK", "api", "user", "said-all") + command("PING"))
        connection.socket.shutdown(1)
        wait_for(lambda: serve.store()["waiting"] == 1, "the question to be out")
        redis.thaw()
        assert answer(connection.read())["verdict"] == "admit"
        assert connection.read() == "PONG"
        assert connection.ended()


def test_unit_of_a_disconnected_client_is_returned(fleet):
    """Redis grants a unit after the client has disconnected. The unit is returned."""
    redis, serve, _ = fleet
    with Rls(serve.grpc_port) as rls:
        assert rls.ask("api", ("user", "leaver")) == OK
        returned = serve.store()["counts"]["returned"]
        redis.freeze()
        call = rls.begin("api", ("user", "leaver"))
        wait_for(lambda: serve.store()["waiting"] == 1, "the question to be out")
        call.cancel()
        assert rls.ask("api", ("here", "leaver")) == OK  # on the same connection
        wait_for(lambda: serve.store()["waiting"] == 0, "the question to be cancelled")
        redis.thaw()
        wait_for(lambda: serve.store()["counts"]["returned"] == returned + 1, "the unit to be given back")
    wait_for(lambda: serve.ask("HITS", "0", "user", "leaver")["remaining"] == 11, "only one unit to be used")


def test_admin_client_disconnects_while_redis_is_asked(fleet):
    """Redis does not reply, the client of the admin port disconnects, and the service keeps running."""
    redis, serve, _ = fleet
    redis.freeze()
    body = json.dumps({"domain": "api", "entries": [{"key": "deny", "value": "looked-at"}]}).encode()
    with Client(serve.admin_port) as client:
        client.send("POST", "/v1/key/get", JSON, body)
        wait_for(lambda: serve.store()["waiting"] == 1, "the question to be out")
    wait_for(lambda: serve.store()["waiting"] == 0, "the question to be cancelled")
    redis.thaw()
    wait_for(lambda: counter(serve, "deny", "looked-at") == ("store", 2, False), "Redis to be asked again")


def test_throttle_command_shares_its_limit(fleet, clock):
    """CL.THROTTLE and THROTTLE at two nodes use one bucket in Redis."""
    redis, one, two = fleet
    with stopped(clock), one.connect() as first, two.connect() as second:
        assert first.call("CL.THROTTLE", "k", 4, 1, 3600) == [0, 5, 4, -1, 3600]
        assert second.call("THROTTLE", "k", 5, 1, 3600, 3) == [1, 5, 1, 14400, 0]
        assert first.call("CL.THROTTLE", "k", 4, 1, 3600, 2) == [1, 5, 1, 3600, 14400]
        assert first.call("CL.THROTTLE", "k", 4, 1, 3600, -2)[:3] == [0, 5, 3]
        assert second.call("CL.THROTTLE", "k", 4, 1, 3600, 0)[:3] == [0, 5, 3]
    assert [k for k in redis.keys() if "throttle/3600s" in k]


def test_delays_of_both_nodes_follow_one_another(fleet, clock):
    """A leaky bucket in Redis: the positions of requests to both nodes follow one another, three minutes apart or 50
    ms. gRPC answers when the clock has reached the end of the delay, not before."""
    with stopped(clock):
        delays = [check_http(serve, "slow", "1")["delay"] for serve in (fleet.one, fleet.two) * 2]
        assert delays == [0, 180, 360, 540]
        with Rls(fleet.one.grpc_port) as rls:
            assert rls.ask("api", ("queue", "2")) == OK
            held = []
            for _ in range(3):
                held.append(rls.begin("api", ("queue", "2")))
                assert rls.ask("api", ("user", "beside the queue")) == OK  # asked later, so Redis has decided the held one
            for i in range(3):
                assert not any(call.done() for call in held[i:])
                clock.advance(0.05)
                assert held[i].result()[:2] == bytes([1 << 3, OK])


def test_leases_never_exceed_the_limit(fleet):
    """Two nodes under load from four connections. Most requests are admitted from leases. The limit is never exceeded,
    and every unit of it is either admitted or burnt by a lease that ended. (test/sim/test_lease.c: at most 1 % is
    burnt.)"""
    nodes = [fleet.one, fleet.two]
    with Load(nodes, "leased", "x") as load:
        load.wait_refused(200)

    def settled():
        sums = {name: sum(one.store()["counts"][name] for one in nodes)
                for name in ("units_granted", "units_spent", "units_returned", "units_burnt")}
        return not any(one.store()["leases"] for one in nodes) and sums["units_spent"] > 0 and \
            sums["units_granted"] == sums["units_spent"] + sums["units_returned"] + sums["units_burnt"]
    wait_for(settled, "all leases to end")
    burnt = sum(one.store()["counts"]["units_burnt"] for one in nodes)
    assert load.total() <= LEASED <= load.total() + burnt + LEASED * 0.01
    assert fleet.one.ask("HITS", 0, "leased", "x")["remaining"] <= LEASED * 0.01


def test_eventual_nodes_refuse_after_an_exchange(fleet):
    """Two nodes decide alone and exchange their counts once a second. Both refuse when the limit is used up. The total
    exceeds the limit only by requests that were admitted before a node received the other's count."""
    redis, a, b = fleet
    take_one_each(redis, "fixed", a, b)
    total = 2 + take(a, "fixed", "u", 58)
    assert total == 60
    wait_reported(redis, "fixed", total)
    total += take_until_known(b, "fixed", "u", EVENTUAL - total)
    remaining = left(b, "fixed", "u")
    assert EVENTUAL - total <= remaining <= EVENTUAL - total + 2
    assert take(b, "fixed", "u", 50) == remaining
    total += remaining
    wait_reported(redis, "fixed", total)
    total += take_until_known(a, "fixed", "u", 0)
    assert take(a, "fixed", "u", 5) == take(b, "fixed", "u", 5) == 0
    assert EVENTUAL <= total <= EVENTUAL + 5


def test_two_nodes_share_a_limit_on_a_cluster():
    """Two nodes share one limit on a cluster of two servers. Both servers have counters."""
    with Cluster(masters=2, replicas=0) as cluster, node(cluster.url()) as one, node(cluster.url()) as two:
        one.wait_up()
        two.wait_up()
        for user in range(20):
            assert alternate([one, two], "five", f"user-{user}", times=7) == [True] * 5 + [False] * 2
        assert all(server.keys("weir:1:{*") for server in cluster.masters())
        # Two limits on two servers: the unit of the first is returned when the second refuses.
        for n in range(10):
            pair = ("deny", f"pair-{n}", "|", "five", f"pair-{n}")
            assert [one.ask(*pair)["verdict"] for _ in range(4)] == ["admit", "admit", "refuse", "refuse"]
            assert one.verdicts("five", f"pair-{n}", times=5) == [True] * 3 + [False] * 2


# ---- connections ----

def test_tls_to_redis_verifies_the_certificate():
    """A certificate of the given CA is accepted. A certificate for another name or of another CA is not."""
    with Redis(tls=True) as redis, Redis(tls=True, start=False) as other:
        good = ["--redis-ca", redis.ca]
        with node(redis, args=good) as serve, node(redis.url(host="localhost"), args=good) as by_name, \
                node(redis, args=["--redis-ca", other.ca]) as stranger, \
                node(redis.url(host="127.0.0.2"), args=good) as misled:
            serve.wait_up()
            assert serve.verdicts("user", "1", times=13) == [True] * 12 + [False]
            by_name.wait_up()
            assert by_name.ask("user", "1")["verdict"] == "refuse"
            stranger.wait_logged("self-signed certificate in certificate chain")
            wait_for(lambda: stranger.store()["state"] == "away", "the status to report Redis as unavailable")
            misled.wait_logged("127.0.0.2")
            assert misled.ask("user", "2")["verdict"] == "admit"  # on_store_failure: local


ACL = ("weir on >secret resetkeys ~weir:1:* resetchannels -@all +eval +evalsha +get +set +del +getrange +setrange "
       "+incrby +pexpire +pttl +hset +hgetall +hdel +time +zadd +zcard +zcount +zrange +zrangebyscore +zrem "
       "+zremrangebyscore +zscore +xadd +xread +info +ping +role +client|setname")


def test_acl_user_and_password_file():
    """A restricted user is sufficient. A password file that others can read prevents the start."""
    with Redis(users=[ACL]) as redis:
        with node(redis.url("weir", "secret")) as serve:
            serve.wait_up()
            assert serve.ask("user", "1")["remaining"] == 11
            assert "noperm" not in serve.faults()
            assert "secret" not in serve.log()
            assert "secret" not in json.dumps(serve.status()).replace('"secret":', "")
        with node(redis.url("weir"), args=["--redis-password-file", "{folder}/password"], start=False) as serve:
            password = serve.folder / "password"
            password.write_text("secret\n")
            password.chmod(0o644)
            code, output = serve.run()
            assert code == 1 and "is accessible to other users: run chmod 600 on it" in output
            password.chmod(0o600)
            serve.start()
            serve.wait_up()
            assert serve.ask("user", "1")["remaining"] == 10


def test_service_connects_when_the_password_file_is_corrected():
    """The service starts with a wrong password and logs the refusal of Redis. It connects when the file has the right
    password."""
    with Redis(password="right") as redis:
        args = ["--redis-password-file", "{folder}/password"]
        with node(redis, args=args, start=False) as serve:
            password = serve.folder / "password"
            password.write_text("wrong\n")
            password.chmod(0o600)
            serve.start()
            serve.wait_fault("wrongpass")
            assert "wrong\n" not in serve.log()
            assert serve.ask("deny", "1")["verdict"] == "refuse"
            assert serve.ask("allow", "1")["verdict"] == "admit"
            password.write_text("right\n")
            serve.wait_up()
            assert serve.ask("deny", "1")["verdict"] == "admit"


def test_unix_socket_host_name_prefix_and_database():
    """The Unix socket and the host name lead to the same Redis. A prefix begins all keys, a database holds all keys."""
    with Redis() as redis, node(redis.unix_url, args=["--redis-prefix", "mine"]) as by_path, \
            node(redis.url(host="localhost"), args=["--redis-prefix", "mine"]) as by_name, \
            node(redis.url(db=3)) as apart:
        for serve in (by_path, by_name, apart):
            serve.wait_up()
        assert alternate([by_path, by_name], "five", "x", times=8) == [True] * 5 + [False] * 3
        assert redis.keys() and all(k.startswith("mine:1:") for k in redis.keys())
        assert apart.verdicts("five", "x", times=7) == [True] * 5 + [False] * 2
        assert redis.client(db=3).keys("weir:1:{*")


def test_unknown_host_name_of_redis():
    with node("redis://no.such.name.invalid") as serve:
        serve.wait_logged("no.such.name.invalid", seconds=50)  # a resolver without a name server gives up after 20 s
        assert serve.ask("allow", "1")["verdict"] == "admit"


def test_nodes_with_the_same_key_secret_share_counters():
    """Nodes with the same secret file share counters, and Redis does not store the secret. A node with another file
    does not share them."""
    with Redis() as redis:
        args = ["--key-secret", "{folder}/secret"]
        nodes = [node(redis, args=args, start=False) for _ in range(3)]
        with nodes[0], nodes[1], nodes[2]:
            for serve, text in zip(nodes, ("0123456789abcdef", "0123456789abcdef\n", "fedcba9876543210")):
                (serve.folder / "secret").write_text(text)
                (serve.folder / "secret").chmod(0o600)
                serve.start()
            for serve in nodes:
                serve.wait_up()
                assert serve.store()["secret"] == "configured"
            assert [n.ask("user", "1")["remaining"] for n in nodes] == [11, 10, 11]
            assert not redis.client().exists("weir:1:secret")


REGION = ["--redis", "redis://h", "--region", "eu", "--key-secret", "{folder}/secret"]


@pytest.mark.parametrize("args, why", [
    (["--redis", "http://x"], "--redis: "),
    (["--redis", "redis://u:topsecret@"], "--redis: "),
    (["--redis-ca", "/nonexistent"], "--redis-ca needs --redis"),
    (["--redis-timeout", "1s"], "--redis-timeout needs --redis"),
    (["--redis-prefix", "mine"], "--redis-prefix needs --redis"),
    (["--fleet-size", "3"], "--fleet-size needs --redis"),
    (["--sync-interval", "1s"], "--sync-interval needs --redis"),
    (["--peer", "redis://x:topsecret@h"], "--peer needs --redis"),
    (["--region", "eu"], "--region needs --redis"),
    (["--redis", "redis://h", "--redis-ca", "/x"], "write rediss://"),
    (["--redis", "rediss://h", "--redis-ca", "/nonexistent"], "--redis-ca /nonexistent: No such file"),
    (["--redis", "rediss://h", "--redis-cert", "/x"], "--redis-cert and --redis-key must be set together"),
    (["--redis", "redis://h", "--redis-password-file", "/nonexistent"], "--redis-password-file /nonexistent: No such"),
    (["--redis", "redis://h", "--key-secret", "/nonexistent"], "--key-secret /nonexistent: No such"),
    (["--redis", "redis://h", "--redis-prefix", "a b"], "--redis-prefix: "),
    (["--redis", "redis://h", "--redis-timeout", "0s"], "--redis-timeout"),
    (["--redis", "redis://h", "--sync-interval", "1ms"], "--sync-interval"),
    (["--redis", "redis://h", "--region", "e u"], "--region must be a name of at most "),
    (["--redis", "redis://h", "--region", "-"], "--region must be a name of at most "),
    (["--redis", "redis://h", "--peer", "redis://x"], "--peer needs --region"),
    (["--redis", "redis://h", "--peer", "redis://x", "--region", "eu"], "--peer needs --key-secret"),
    ([*REGION, "--peer", "redis://x,redis://x"], "is given twice"),
    ([*REGION, "--peer", "http://x"], "--peer: "),
    ([*REGION, "--peer", "redis://h"], "is the same Redis as --redis"),
    ([*REGION, "--peer", "redis://u:topsecret@"], "--peer: "),
    ([*REGION, "--peer", ",".join(f"redis://p{i}" for i in range(9))], "more than 8 are given"),
    (["--queue-target", "http://x"], "weir serve: --queue-target needs --queue: without a queue it has no effect\n"),
    (["--queue-max", "5", "--queue", "off"], "weir serve: --queue-max needs --queue: without a queue it has no effect\n"),
    (["--queue-assume-durable", "--queue", "file:/x"],
     "weir serve: --queue-assume-durable needs a --queue in Redis: without Redis it has no effect\n"),
])
def test_invalid_redis_options_prevent_the_start(args, why):
    with Serve(rules=RULES, resp=True, args=args, start=False) as serve:
        (serve.folder / "secret").write_text("0123456789abcdef0123456789abcdef", encoding="ascii")
        (serve.folder / "secret").chmod(0o600)
        code, output = serve.run()
        assert code in (1, 2) and why in output, output
        assert "topsecret" not in output


def test_password_is_removed_from_the_command_line():
    with Redis(password="topsecret") as redis, node(redis.url(password="topsecret")) as serve:
        serve.wait_up()
        serve.wait_logged("--redis-password-file")
        assert "topsecret" not in serve.log()
        shown = pathlib.Path(f"/proc/{serve.pid}/cmdline").read_bytes()
        assert b"\0--redis\0redis://" in shown
        assert b"topsecret" not in shown or env.WRAP == "valgrind"  # which has its own copy of the arguments


# ---- without Redis ----

def test_service_starts_without_redis_and_connects_later():
    """The service starts without Redis and logs that once. It uses Redis as soon as Redis runs."""
    port = free_port()
    with node(f"redis://127.0.0.1:{port}") as serve:
        serve.wait_logged("Connection refused")
        wait_for(lambda: serve.store()["state"] == "away", "the status to report Redis as unavailable")
        assert serve.verdicts("allow", "1", times=4) == [True] * 4
        assert serve.verdicts("deny", "1", times=2) == [False] * 2
        assert serve.verdicts("share", "1", times=7) == [True] * 6 + [False]
        with Redis(port=port) as redis:
            serve.wait_up()
            serve.wait_logged("back after")
            assert serve.verdicts("deny", "1", times=3) == [True, True, False]
            assert serve.log().count("Connection refused") == 1
            assert redis.keys("weir:1:{*")
            wait_exact([serve])


STRICT = "domain: api\ndescriptors:\n" \
         "  - {key: five, rate_limit: {unit: year, requests_per_unit: 5, on_store_failure: deny}}\n"


def ready(serve):
    return fetch(serve.http_port, "GET", "/readyz").status


def test_each_rule_applies_its_fallback_and_reports_to_redis():
    """Redis is killed. `allow` admits, `deny` refuses, `local` grants the node's share: of a limit of 6 each of two
    nodes has 3, and 2 of them are used. A local limit is not affected. A key is shown with the counts of this node. A
    node whose rules all have `deny` is not ready, the other one is. When Redis is back with its data, it gets a report
    of the third unit: two nodes have 3 left."""
    with Redis(aof=True) as redis, node(redis, STRICT, http=True, grpc=True) as strict:
        strict.wait_up()
        with node(redis, http=True) as mixed, Rls(strict.grpc_port) as rls:
            mixed.wait_up()
            # The node that starts last knows at once that there are two. Readiness is reported later than the status.
            wait_for(lambda: mixed.store()["nodes"] == 2, "the nodes to have counted each other")
            wait_for(lambda: (ready(strict), rls.health()) == (200, 1), "readiness")
            assert mixed.verdicts("share", "1", times=2) == [True] * 2
            redis.kill()
            assert mixed.verdicts("allow", "1", times=4) == [True] * 4
            assert mixed.verdicts("deny", "1", times=2) == [False] * 2
            assert mixed.verdicts("share", "1", times=3) == [True, False, False]
            assert mixed.verdicts("here", "1", times=4) == [True] * 3 + [False]
            wait_for(lambda: mixed.store()["state"] == "away", "the status to report Redis as unavailable")
            wait_for(lambda: counter(mixed, "deny", "1") == ("machine", 2, False), "the table to be shown")
            assert "no reply from Redis: counted on this machine only" in key_get(mixed, "deny=1")
            wait_for(lambda: ready(strict) == 503, "readiness to end")
            assert rls.health() == 2
            assert "on_store_failure: deny" in fetch(strict.http_port, "GET", "/readyz").body.decode()
            assert ready(mixed) == 200
            redis.start()
            wait_for(lambda: mixed.store()["counts"]["reported"] > 0, "the report to arrive")
            mixed.wait_up()
            assert mixed.verdicts("share", "1", times=5) == [True] * 3 + [False] * 2
            assert mixed.verdicts("deny", "1", times=4) == [True] * 2 + [False] * 2
            wait_for(lambda: (ready(strict), rls.health()) == (200, 1), "readiness to come back")


# ---- operators ----

def look(serve, key, value):
    """Returns the verdict without taking a unit."""
    return serve.ask("HITS", "0", key, value)["verdict"]


def counter(serve, key, value, verb="get"):
    """Returns (source, remaining, whether a wait is needed) of a key from the admin API."""
    found, = order(serve, verb, key, value)["counters"]
    return found["source"], found["remaining"], found["retry_after"] > 0


def key_get(serve, key):
    """Returns the output of `weir key get`."""
    return subprocess.run([env.WEIR, "key", "get", *tokens.flags(serve.admin_port), "api", key], capture_output=True,
                          text=True, check=True, timeout=env.patience(20)).stdout


def test_operator_orders_apply_on_all_nodes(fleet):
    """A reset, a grant, a ban and its end, each sent to one node, apply on the other. A ban also applies on a node that
    starts later."""
    redis, one, two = fleet
    assert one.verdicts("deny", "1", times=3) == [True, True, False]
    assert two.ask("deny", "1")["verdict"] == "refuse"
    order(one, "reset", "deny", "1")
    assert one.ask("deny", "1")["remaining"] == 1
    wait_for(lambda: two.ask("deny", "1")["verdict"] == "admit", "the reset to act there")
    assert one.ask("deny", "1")["verdict"] == "refuse"
    order(two, "grant", "deny", "1", extra=3, **{"for": "1h"})
    wait_for(lambda: one.ask("deny", "1")["verdict"] == "admit", "the grant to act there")
    assert alternate([one, two], "deny", "1", times=3) == [True, True, False]
    order(two, "ban", "user", "banned", **{"for": "1h"})
    assert look(two, "user", "banned") == "refuse"
    wait_for(lambda: look(one, "user", "banned") == "refuse", "the ban to act there")
    with node(redis) as late:
        late.wait_up()
        wait_for(lambda: look(late, "user", "banned") == "refuse", "the ban to be read by a new node")
    order(one, "ban", "user", "banned", lift=True)
    wait_for(lambda: look(two, "user", "banned") == "admit", "the ban to be lifted there")
    assert one.verdicts("deny", "resp", times=3) == [True, True, False]
    with one.connect() as connection:
        assert connection.call("WEIR.RESET", "api", "deny", "resp") == 1
    wait_for(lambda: two.ask("deny", "resp")["verdict"] == "admit", "the reset over RESP to act there")


def test_key_is_shown_with_the_counts_of_redis(fleet):
    """A node shows the units that another node admitted. A reset at one node resets both."""
    _, one, two = fleet
    assert one.verdicts("deny", "shown", times=2) == [True, True]
    assert counter(two, "deny", "shown") == counter(one, "deny", "shown") == ("store", 0, True)
    assert one.verdicts("leased", "shown", times=1) == [True]
    assert counter(two, "leased", "shown") == ("store", LEASED - 1, False)
    assert counter(two, "here", "shown") == ("table", 3, False)
    assert counter(two, "deny", "shown", "reset") == ("store", 2, False)
    assert counter(one, "deny", "shown") == ("store", 2, False)
    assert one.verdicts("deny", "shown", times=3) == [True, True, False]
    shown = key_get(two, "deny=shown")
    assert "0 of 2 left" in shown and "from Redis" in shown


def test_last_operator_order_wins_on_all_nodes(fleet):
    """A node lifts a ban that it has not received yet, and is restarted later."""
    redis, one, two = fleet
    before = redis.client().xlen("weir:1:control")
    for written in (1, 3, 5):
        order(two, "ban", "user", "order", **{"for": "1h"})
        wait_for(lambda: redis.client().xlen("weir:1:control") == before + written, "the ban to be written")
        order(one, "ban", "user", "order", lift=True)
        wait_for(lambda: redis.client().xlen("weir:1:control") == before + written + 1, "its end to be written")
    order(one, "ban", "user", "order-2", **{"for": "1h"})
    wait_for(lambda: look(two, "user", "order-2") == "refuse", "all orders to arrive at the other node")
    wait_for(lambda: [look(n, "user", "order") for n in (one, two)] == ["admit"] * 2, "the nodes to agree")
    one.stop()
    one.start()
    one.wait_up()
    wait_for(lambda: look(one, "user", "order-2") == "refuse", "the ban that is in force")
    assert look(one, "user", "order") == "admit"


# ---- resized table, shutdown ----

@full("the service looks at its table once a second of real time")
def test_resized_table_keeps_the_connection_to_redis():
    """After a resize of the table the service still counts in Redis."""
    with Redis() as redis, node(redis) as serve:
        serve.wait_up()
        assert serve.ask("user", "1")["remaining"] == 11
        subprocess.run([env.WEIR, "table", "resize", "--dir", serve.table, "default", "8M"], check=True,
                       capture_output=True, env=for_weir())
        serve.wait_logged("the table was resized")
        wait_for(lambda: serve.ask("user", "1")["remaining"] < 11, "an answer")
        before = serve.ask("user", "1")["remaining"]
        assert serve.ask("user", "1")["remaining"] == before - 1
        assert serve.is_up()


def test_shutdown_waits_for_pending_questions():
    """SIGTERM while three questions wait for Redis: they are answered, then the service exits."""
    with Redis() as redis, node(redis, timeout="30s") as serve:
        serve.wait_up()
        redis.freeze()
        with serve.connect() as connection:
            connection.send(command("WEIR.CHECK", "api", "deny", "1") * 3)
            wait_for(lambda: serve.store()["waiting"] == 3, "the questions to be out")
            serve.signal(15)
            serve.wait_logged("ports closed")
            assert serve.process.poll() is None
            redis.thaw()
            assert [answer(connection.read())["verdict"] for _ in range(3)] == ["admit", "admit", "refuse"]
            assert connection.ended()
        assert serve.wait() == 0


@full("waits for a timeout of eight seconds")
def test_shutdown_waits_for_the_timeout_of_questions():
    """SIGTERM while three questions wait for a Redis that does not reply: the fallback decides, then the service
    exits."""
    with Redis() as redis, node(redis, timeout="8s") as serve:
        serve.wait_up()
        redis.freeze()
        with serve.connect() as connection:
            connection.send(command("WEIR.CHECK", "api", "allow", "1") * 3)
            wait_for(lambda: serve.store()["waiting"] == 3, "the questions to be out")
            assert serve.stop() == 0
            assert [answer(connection.read())["verdict"] for _ in range(3)] == ["admit"] * 3
            assert connection.ended()
