"""weir serve with --redis: one limit for all nodes, whatever they are asked by; how it connects, and what becomes of
a question when Redis is not there."""

import json
import pathlib
import socket
import subprocess
import threading
import time

import pytest

from weirtest import env, fetch
from weirtest.fleet import Node, answer
from weirtest.ports import free_port
from weirtest.redis import Redis
from weirtest.resp import Error, command
from weirtest.rls import OK, OVER, Rls
from weirtest.serve import Serve
from weirtest.waiting import wait_for

RULES = """
domain: api
requests:
  - descriptor: [{key: user, from: header.x-user}]
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 12}}
  - {key: bucket, rate_limit: {unit: year, requests_per_unit: 40, algorithm: token_bucket}}
  - {key: here, rate_limit: {unit: year, requests_per_unit: 3, consistency: local}}
  - {key: allow, rate_limit: {unit: year, requests_per_unit: 2, on_store_failure: allow}}
  - {key: deny, rate_limit: {unit: year, requests_per_unit: 2, on_store_failure: deny}}
  - {key: share, rate_limit: {unit: year, requests_per_unit: 6, on_store_failure: local}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 20, algorithm: leaky_bucket, queue_size: 5}}
  - {key: leased, rate_limit: {unit: year, requests_per_unit: 40, consistency: lease}}
  - {key: slow, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: leaky_bucket, queue_size: 5}}
"""


def node(redis, rules=RULES, **kwargs):
    return Node(redis if isinstance(redis, str) else redis.url(), rules, **kwargs)


def check_http(serve, key, value):
    found = fetch(serve.http_port, "POST", "/v1/check", body=question(key, value))
    assert found.status == 200, found
    return json.loads(found.body)


def question(key, value):
    return json.dumps({"domain": "api", "descriptors": [{"entries": [{"key": key, "value": value}]}]}).encode()


def order(serve, verb, key, value, **more):
    body = {"domain": "api", "entries": [{"key": key, "value": value}], **more}
    found = fetch(serve.admin_port, "POST", f"/v1/key/{verb}", body=json.dumps(body).encode(),
                  headers={"Content-Type": "application/json"})
    assert found.status == 200, found
    return json.loads(found.body)


# ---- one counter ----

def test_one_counter_by_every_protocol():
    """Twelve in a year: gRPC, /v1/check, /json, /check and RESP on two nodes, in turn."""
    with Redis() as redis, node(redis, grpc=True, http=True) as one, node(redis, grpc=True, http=True) as two:
        one.wait_up()
        two.wait_up()
        left = []
        for serve in (one, two):
            with Rls(serve.grpc_port) as rls:
                assert rls.ask("api", ("user", "7")) == OK
            left.append(check_http(serve, "user", "7")["remaining"])
            assert fetch(serve.http_port, "POST", "/json", body=question("user", "7")).status == 200
            found = fetch(serve.http_port, "GET", "/check/api", headers={
                "X-User": "7", "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/"})
            assert found.status == 200
            left.append(int(dict(found.headers)["X-Ratelimit-Remaining"]))
            left.append(serve.ask("user", "7")["remaining"])
        assert left == [10, 8, 7, 5, 3, 2]
        assert one.verdicts("user", "7", times=3) == [True, True, False]
        with Rls(two.grpc_port) as rls:
            assert rls.ask("api", ("user", "7")) == OVER
        assert check_http(two, "user", "7")["verdict"] == "refuse"
        assert len(redis.keys("weir:1:{*")) == 1
        assert one.status()["table"]["path"] != two.status()["table"]["path"]


def test_exact_with_many_clients():
    """400 in a year, asked for by 8 clients in pipelines on two nodes: 400 are admitted."""
    limit, clients, depth = 400, 8, 25
    rounds = 4
    rules = "domain: api\ndescriptors:\n" \
            f"  - {{key: user, rate_limit: {{unit: year, requests_per_unit: {limit}}}}}\n"
    admitted = []

    def ask(serve):
        with serve.connect() as connection:
            for _ in range(rounds):
                connection.send(command("WEIR.CHECK", "api", "user", "all") * depth)
                admitted.extend(answer(connection.read())["verdict"] == "admit" for _ in range(depth))

    with Redis() as redis, node(redis, rules, threads=2) as one, node(redis, rules, threads=2) as two:
        one.wait_up()
        two.wait_up()
        threads = [threading.Thread(target=ask, args=[serve]) for serve in (one, two) * (clients // 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(admitted) == clients * rounds * depth == 2 * limit
        assert sum(admitted) == limit
        assert one.faults().keys() <= {"noscript"} and two.faults().keys() <= {"noscript"}


def test_pipelines_overlap_and_stay_in_order():
    """What must ask, what need not, and what is no question at all: replies in the order of commands, though the
    first is answered when Redis wakes up."""
    with Redis() as redis, node(redis, timeout="30s") as serve:
        serve.wait_up()
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


def test_a_client_that_has_said_all_is_answered():
    """It closes its half and reads on."""
    with Redis() as redis, node(redis, timeout="30s") as serve:
        serve.wait_up()
        with serve.connect() as connection:
            redis.freeze()
            connection.send(command("WEIR.CHECK", "api", "user", "1") + command("PING"))
            connection.socket.shutdown(1)
            wait_for(lambda: serve.store()["waiting"] == 1, "the question to be out")
            redis.thaw()
            assert answer(connection.read())["verdict"] == "admit"
            assert connection.read() == "PONG"
            assert connection.ended()


def test_a_client_that_leaves_gets_nothing_for_it():
    """What Redis grants after it has gone is given back."""
    with Redis() as redis, node(redis, grpc=True, timeout="30s") as serve:
        serve.wait_up()
        with Rls(serve.grpc_port) as rls:
            assert rls.ask("api", ("user", "1")) == OK
            redis.freeze()
            call = rls.begin("api", ("user", "1"))
            wait_for(lambda: serve.store()["waiting"] == 1, "the question to be out")
            call.cancel()
            assert rls.ask("api", ("here", "1")) == OK  # on the same connection
            wait_for(lambda: serve.store()["waiting"] == 0, "it to have left")
            redis.thaw()
            wait_for(lambda: serve.store()["counts"]["returned"] == 1, "what was granted to be given back")
        wait_for(lambda: serve.ask("HITS", "0", "user", "1")["remaining"] == 11, "no more than one to be gone")


def test_throttle_is_shared():
    with Redis() as redis, node(redis) as one, node(redis) as two:
        one.wait_up()
        two.wait_up()
        with one.connect() as first, two.connect() as second:
            assert first.call("CL.THROTTLE", "k", 4, 1, 3600) == [0, 5, 4, -1, 3600]
            assert second.call("THROTTLE", "k", 5, 1, 3600, 3)[:3] == [1, 5, 1]
            assert first.call("CL.THROTTLE", "k", 4, 1, 3600, 2)[:3] == [1, 5, 1]
            assert first.call("CL.THROTTLE", "k", 4, 1, 3600, -2)[:3] == [0, 5, 3]
            assert second.call("CL.THROTTLE", "k", 4, 1, 3600, 0)[:3] == [0, 5, 3]
        assert [k for k in redis.keys() if "throttle/3600s" in k]


def test_delays_are_waited_out():
    """A queue in Redis: places of both nodes follow one another, three minutes apart or 50 ms, and gRPC answers in its
    turn."""
    with Redis() as redis, node(redis, http=True, grpc=True) as one, node(redis, http=True) as two:
        one.wait_up()
        two.wait_up()
        delays = [check_http(serve, "slow", "1")["delay"] for serve in (one, two, one, two)]
        assert delays[0] == 0
        assert all(180 * i - 100 < late <= 180 * i for i, late in enumerate(delays[1:], 1)), delays
        with Rls(one.grpc_port) as rls:
            began = time.monotonic()
            assert [rls.ask("api", ("queue", "2")) for _ in range(4)] == [OK] * 4
            assert time.monotonic() - began >= 0.14


# ---- connections ----

def test_tls():
    """By the CA's certificate; a certificate for another name or of nobody we know is not believed."""
    with Redis(tls=True) as redis, Redis(tls=True) as other:
        good = ["--redis-ca", redis.ca]
        with node(redis, args=good) as serve:
            serve.wait_up()
            assert serve.verdicts("user", "1", times=13) == [True] * 12 + [False]
        with node(redis.url(host="localhost"), args=good) as serve:
            serve.wait_up()
            assert serve.ask("user", "1")["verdict"] == "refuse"
        with node(redis, args=["--redis-ca", other.ca]) as serve:
            serve.wait_logged("self-signed certificate in certificate chain")
            wait_for(lambda: serve.store()["state"] == "away", "it to be told")
        with node(redis.url(host="127.0.0.2"), args=good) as serve:
            serve.wait_logged("127.0.0.2")
            assert serve.ask("user", "2")["verdict"] == "admit"  # on_store_failure: local


def test_tls_with_our_certificate():
    with Redis("tls-auth-clients yes", tls=True) as redis:
        args = ["--redis-ca", redis.ca]
        with node(redis, args=args) as serve:
            serve.wait_logged("certificate required")
        with node(redis, args=[*args, "--redis-cert", redis.client_cert, "--redis-key", redis.client_key]) as serve:
            serve.wait_up()
            assert serve.ask("user", "1")["remaining"] == 11


ACL = ("weir on >secret resetkeys ~weir:1:* resetchannels -@all +eval +evalsha +get +set +del +getrange +setrange "
       "+incrby +pexpire +pttl +hset +hgetall +hdel +time +zadd +zcard +zremrangebyscore +xadd +xread +info +ping +role +client|setname")


def test_acl_user_and_password_file():
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
            code, said = serve.run()
            assert code == 1 and "is open to others: chmod 600 it" in said
            password.chmod(0o600)
            serve.start()
            serve.wait_up()
            assert serve.ask("user", "1")["remaining"] == 10


def test_wrong_password_at_the_start_and_a_right_one_later():
    """It starts, says why, and goes on when the file has become right."""
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


def test_unix_socket():
    with Redis() as redis, node(redis.unix_url) as serve, node(redis) as other:
        serve.wait_up()
        other.wait_up()
        assert serve.ask("user", "1")["remaining"] == 11
        assert other.ask("user", "1")["remaining"] == 10


def test_names_are_looked_up():
    with Redis() as redis, node(redis.url(host="localhost")) as serve:
        serve.wait_up()
        assert serve.ask("user", "1")["remaining"] == 11
    with node("redis://no.such.name.invalid") as serve:
        serve.wait_logged("no.such.name.invalid")
        assert serve.ask("allow", "1")["verdict"] == "admit"


def test_prefix_and_database():
    with Redis() as redis, node(redis.url(db=3), args=["--redis-prefix", "mine"]) as serve:
        serve.wait_up()
        serve.ask("user", "1")
        with redis.client(db=3) as client:
            assert client.keys("*") and all(k.startswith("mine:1:") for k in client.keys("*"))
        assert redis.keys() == []


def test_key_secret():
    """Nodes with the same file meet without agreeing; one with another does not."""
    with Redis() as redis:
        args = ["--key-secret", "{folder}/secret"]
        nodes = [node(redis, args=args, start=False) for _ in range(3)]
        with nodes[0], nodes[1], nodes[2]:
            for serve, text in zip(nodes, ("0123456789abcdef", "0123456789abcdef\n", "fedcba9876543210")):
                (serve.folder / "secret").write_text(text)
                (serve.folder / "secret").chmod(0o600)
                serve.start()
                serve.wait_up()
                assert serve.store()["secret"] == "configured"
            assert [n.ask("user", "1")["remaining"] for n in nodes] == [11, 10, 11]
            assert not redis.client().exists("weir:1:secret")


@pytest.mark.parametrize("args, why", [
    (["--redis", "http://x"], "--redis: "),
    (["--redis", "redis://u:topsecret@"], "--redis: "),
    (["--redis-ca", "/nonexistent"], "--redis-ca needs --redis"),
    (["--redis-timeout", "1s"], "--redis-timeout needs --redis"),
    (["--redis-prefix", "mine"], "--redis-prefix needs --redis"),
    (["--fleet-size", "3"], "--fleet-size needs --redis"),
    (["--sync-interval", "1s"], "--sync-interval needs --redis"),
    (["--peer", "redis://x:topsecret@h"], "--peer needs --redis"),
    (["--redis", "redis://h", "--redis-ca", "/x"], "write rediss://"),
    (["--redis", "rediss://h", "--redis-ca", "/nonexistent"], "--redis-ca /nonexistent: No such file"),
    (["--redis", "rediss://h", "--redis-cert", "/x"], "--redis-cert and --redis-key go together"),
    (["--redis", "redis://h", "--redis-password-file", "/nonexistent"], "--redis-password-file /nonexistent: No such"),
    (["--redis", "redis://h", "--key-secret", "/nonexistent"], "--key-secret /nonexistent: No such"),
    (["--redis", "redis://h", "--redis-prefix", "a b"], "--redis-prefix: "),
    (["--redis", "redis://h", "--redis-timeout", "0s"], "--redis-timeout"),
])
def test_what_cannot_be(args, why):
    with Serve(rules=RULES, resp=True, args=args, start=False) as serve:
        code, said = serve.run()
        assert code in (1, 2) and why in said, said
        assert "topsecret" not in said


def test_a_password_on_the_command_line_is_struck_out():
    with Redis(password="topsecret") as redis, node(redis.url(password="topsecret")) as serve:
        serve.wait_up()
        serve.wait_logged("--redis-password-file")
        assert "topsecret" not in serve.log()
        shown = pathlib.Path(f"/proc/{serve.pid}/cmdline").read_bytes()
        assert b"\0--redis\0redis://" in shown
        assert b"topsecret" not in shown or env.WRAP == "valgrind"  # which has the arguments for itself


# ---- without Redis ----

def test_redis_comes_later():
    """It starts without, says so once, and decides there from when Redis is there."""
    port = free_port()
    with node(f"redis://127.0.0.1:{port}") as serve:
        serve.wait_logged("Connection refused")
        wait_for(lambda: serve.store()["state"] == "away", "it to be told")
        assert serve.verdicts("allow", "1", times=4) == [True] * 4
        assert serve.verdicts("deny", "1", times=2) == [False] * 2
        assert serve.verdicts("share", "1", times=7) == [True] * 6 + [False]
        assert fetch(serve.admin_port, "GET", "/v1/status").status == 200
        with Redis(port=port) as redis:
            serve.wait_up()
            serve.wait_logged("back after")
            assert serve.verdicts("deny", "1", times=3) == [True, True, False]
            assert serve.log().count("Connection refused") == 1
            assert redis.keys("weir:1:{*")


def test_what_was_admitted_without_redis_is_reported():
    """Two before, two meanwhile: two of six are left."""
    with Redis(aof=True) as redis, node(redis) as serve:
        serve.wait_up()
        assert serve.verdicts("share", "1", times=2) == [True] * 2
        redis.kill()
        assert serve.verdicts("share", "1", times=2) == [True] * 2
        redis.start()
        wait_for(lambda: serve.store()["counts"]["reported"] > 0 and serve.is_up(), "the reports to arrive")
        assert serve.verdicts("share", "1", times=3) == [True, True, False]


def test_policies_when_redis_goes():
    """allow, deny, and a share of what is left: 6 for two nodes are 3 each, 2 of which were used."""
    with Redis() as redis, node(redis) as one, node(redis) as two:
        one.wait_up()
        two.wait_up()
        wait_for(lambda: one.store()["nodes"] == 2, "the nodes to have counted each other")
        assert one.verdicts("share", "1", times=2) == [True] * 2
        redis.kill()
        assert one.verdicts("allow", "1", times=4) == [True] * 4
        assert one.verdicts("deny", "1", times=2) == [False] * 2
        assert one.verdicts("share", "1", times=3) == [True, False, False]
        assert one.verdicts("here", "1", times=4) == [True] * 3 + [False]
        wait_for(lambda: one.store()["state"] == "away", "the state to be told")


def test_readiness():
    """Down with Redis where every rule says deny, and nowhere else."""
    strict = "domain: api\ndescriptors:\n" \
             "  - {key: user, rate_limit: {unit: year, requests_per_unit: 3, on_store_failure: deny}}\n"

    def ready(serve):
        return fetch(serve.http_port, "GET", "/readyz").status

    with Redis() as redis, node(redis, strict, http=True, grpc=True) as all_deny, node(redis, http=True) as some:
        all_deny.wait_up()
        some.wait_up()
        with Rls(all_deny.grpc_port) as rls:
            # The status is newer than what is told of it.
            wait_for(lambda: ready(all_deny) == 200, "readiness")
            assert rls.health() == 1
            redis.kill()
            wait_for(lambda: ready(all_deny) == 503, "readiness to go")
            assert rls.health() == 2
            assert "on_store_failure: deny" in fetch(all_deny.http_port, "GET", "/readyz").body.decode()
            wait_for(lambda: some.store()["state"] == "away", "the other one to notice, too")
            assert ready(some) == 200
            redis.start()
            wait_for(lambda: ready(all_deny) == 200, "readiness to come back")
            assert rls.health() == 1


# ---- operators ----

def test_orders_act_everywhere():
    with Redis() as redis, node(redis) as one, node(redis, threads=2) as two:
        one.wait_up()
        two.wait_up()
        assert one.verdicts("deny", "1", times=3) == [True, True, False]
        assert two.ask("deny", "1")["verdict"] == "refuse"
        order(one, "reset", "deny", "1")
        assert one.ask("deny", "1")["remaining"] == 1
        wait_for(lambda: two.ask("deny", "1")["verdict"] == "admit", "the reset to act there")
        assert one.ask("deny", "1")["verdict"] == "refuse"
        order(two, "grant", "deny", "1", extra=3, **{"for": "1h"})
        wait_for(lambda: one.ask("deny", "1")["verdict"] == "admit", "the grant to act there")
        order(two, "ban", "user", "7", **{"for": "1h"})
        assert look(two, "user", "7") == "refuse"
        wait_for(lambda: look(one, "user", "7") == "refuse", "the ban to act there")
        order(one, "ban", "user", "7", lift=True)
        wait_for(lambda: look(two, "user", "7") == "admit", "it to be lifted there")


def counter(serve, key, value, verb="get"):
    found, = order(serve, verb, key, value)["counters"]
    return found["source"], found["remaining"], found["retry_after"] > 0


def test_a_key_is_shown_as_redis_has_it():
    """Refused because of what another node admitted: the node that is asked says so, and a reset at one is one for
    both. Once Redis is away, it shows what it knows alone, and says that."""
    with Redis() as redis, node(redis, timeout="30s") as one, node(redis, threads=2, timeout="30s") as two:
        one.wait_up()
        two.wait_up()
        assert one.verdicts("deny", "1", times=2) == [True, True]
        assert counter(two, "deny", "1") == counter(one, "deny", "1") == ("store", 0, True)
        assert one.verdicts("leased", "1", times=1) == [True]
        assert counter(two, "leased", "1") == ("store", 39, False)
        assert counter(two, "here", "1") == ("table", 3, False)
        assert counter(two, "deny", "1", "reset") == ("store", 2, False)
        assert counter(one, "deny", "1") == ("store", 2, False)
        assert one.verdicts("deny", "1", times=3) == [True, True, False]
        shown = subprocess.run([env.WEIR, "key", "get", "--admin", str(two.admin_port), "api", "deny=1"],
                               capture_output=True, text=True, check=True, timeout=env.patience(20)).stdout
        assert "0 of 2 left" in shown and "by the store" in shown
        redis.kill()
        wait_for(lambda: counter(two, "deny", "1") == ("machine", 2, False), "it to be missed there")
        shown = subprocess.run([env.WEIR, "key", "get", "--admin", str(two.admin_port), "api", "deny=1"],
                               capture_output=True, text=True, check=True, timeout=env.patience(20)).stdout
        assert "of this machine alone" in shown


def test_who_looks_at_a_key_and_leaves():
    """Redis does not answer, the client of the admin port goes, and the service goes on."""
    with Redis() as redis, node(redis, timeout="30s") as serve:
        serve.wait_up()
        redis.freeze()
        body = json.dumps({"domain": "api", "entries": [{"key": "deny", "value": "1"}]}).encode()
        with socket.create_connection(("127.0.0.1", serve.admin_port)) as client:
            client.sendall(b"POST /v1/key/get HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            wait_for(lambda: serve.store()["waiting"] == 1, "the question to be out")
        wait_for(lambda: serve.store()["waiting"] == 0, "it to be left")
        redis.thaw()
        wait_for(lambda: counter(serve, "deny", "1") == ("store", 2, False), "Redis to be asked again")


def test_the_last_order_is_the_last_everywhere():
    """One node lifts a ban that it has not heard of yet, and starts anew later."""
    with Redis() as redis, node(redis) as one, node(redis) as two:
        one.wait_up()
        two.wait_up()
        for written in (1, 3, 5):
            order(two, "ban", "user", "7", **{"for": "1h"})
            wait_for(lambda: redis.client().xlen("weir:1:control") == written, "the ban to be written")
            order(one, "ban", "user", "7", lift=True)
            wait_for(lambda: redis.client().xlen("weir:1:control") == written + 1, "the end of it to be written")
        order(one, "ban", "user", "8", **{"for": "1h"})
        wait_for(lambda: look(two, "user", "8") == "refuse", "all of it to be heard")
        wait_for(lambda: [look(n, "user", "7") for n in (one, two)] == ["admit"] * 2, "them to agree")
        one.stop()
        one.start()
        one.wait_up()
        wait_for(lambda: look(one, "user", "8") == "refuse", "what is in force")
        assert look(one, "user", "7") == "admit"


def look(serve, key, value):
    return serve.ask("HITS", "0", key, value)["verdict"]


def test_a_node_that_comes_later_hears_of_bans():
    with Redis() as redis, node(redis) as one:
        one.wait_up()
        order(one, "ban", "user", "7", **{"for": "1h"})
        wait_for(lambda: redis.client().exists("weir:1:control"), "the ban to be written")
        with node(redis) as two:
            two.wait_up()
            wait_for(lambda: look(two, "user", "7") == "refuse", "the ban to be read")


def test_reset_by_resp():
    with Redis() as redis, node(redis) as one, node(redis) as two:
        one.wait_up()
        two.wait_up()
        assert one.verdicts("deny", "1", times=3) == [True, True, False]
        with one.connect() as connection:
            assert connection.call("WEIR.RESET", "api", "deny", "1") == 1
        wait_for(lambda: two.ask("deny", "1")["verdict"] == "admit", "the reset to act there")


# ---- a table that is resized, and the end ----

def test_a_resized_table_keeps_the_store():
    with Redis() as redis, node(redis) as serve:
        serve.wait_up()
        assert serve.ask("user", "1")["remaining"] == 11
        subprocess.run([env.WEIR, "table", "resize", "--dir", serve.table, "default", "8M"], check=True,
                       capture_output=True)
        serve.wait_logged("the table was resized")
        wait_for(lambda: serve.ask("user", "1")["remaining"] < 11, "an answer")
        before = serve.ask("user", "1")["remaining"]
        assert serve.ask("user", "1")["remaining"] == before - 1
        assert serve.is_up()


def test_ends_while_questions_are_out():
    """TERM: what is asked is answered or fails within the timeout, and it ends."""
    with Redis() as redis, node(redis, timeout="8s") as serve:
        serve.wait_up()
        redis.freeze()
        with serve.connect() as connection:
            connection.send(command("WEIR.CHECK", "api", "allow", "1") * 3)
            wait_for(lambda: serve.store()["waiting"] == 3, "the questions to be out")
            assert serve.stop() == 0
            assert [answer(connection.read())["verdict"] for _ in range(3)] == ["admit"] * 3
            assert connection.ended()
