"""Tests of the harness: the Redis servers and the proxy that other tests use."""

import socket
import time

import pytest
import redis as redispy

from weirtest import full, programs, needs, patience, wait_for
from weirtest.netns import Network
from weirtest.proxy import Proxy
from weirtest.redis import Cluster, Redis, Sentinels

pytestmark = full("tests the harness of the other Redis files, not weir")


def over_tcp(server, port=None, **kwargs):
    """Returns a redis-py client over TCP."""
    kwargs = {"socket_timeout": 20, "decode_responses": True, **kwargs}
    return redispy.Redis(host="127.0.0.1", port=port or server.port, **kwargs)


def test_append_only_file_survives_a_kill():
    with Redis() as redis, Redis(aof=True) as kept:
        for server in (redis, kept):
            over_tcp(server).set("a", 1)
            server.restart()
        assert (redis.client().get("a"), kept.client().get("a")) == (None, "1")


def test_users_passwords_and_tls():
    with Redis(tls=True, password="p", users=["weir on >secret ~weir:* -@all +get +set"]) as redis:
        client = over_tcp(redis, ssl=True, ssl_ca_certs=str(redis.ca), username="weir", password="secret")
        client.set("weir:a", 1)
        with pytest.raises(redispy.exceptions.NoPermissionError):
            client.set("b", 1)
        assert redis.client().get("weir:a") == "1"
        assert redis.url("weir", "secret") == f"rediss://weir:secret@127.0.0.1:{redis.port}"


def test_paused_sleeping_and_frozen_redis_is_silent():
    with Redis() as redis:
        # Repeated, if the pause was over before the test asked.
        wait_for(lambda: redis.pause(0.5) or is_silent(redis), "Redis to pause")
        assert over_tcp(redis).ping()
        redis.freeze()
        assert is_silent(redis)
        redis.thaw()
        wait_for(lambda: redis.sleep(1) or is_silent(redis), "Redis to sleep")
        assert over_tcp(redis).ping()


def is_silent(redis):
    """Returns whether Redis does not reply to a PING within 0.1 s."""
    try:
        over_tcp(redis, socket_timeout=0.1).ping()
    except redispy.exceptions.TimeoutError:
        return True
    return False


@pytest.mark.seconds(180)
def test_sentinels_fail_over_by_order_and_automatically():
    with Sentinels(replicas=2) as group:
        first = group.master()
        second = group.failover()
        assert first is group.servers[0] and second in group.servers[1:]
        third = next(s for s in group.servers[1:] if s is not second)
        second.client().set("a", 1)
        wait_for(lambda: third.client().get("a") == "1", "the other replica to follow the new master", 40)
        second.kill()
        assert group.wait_master(second) in (first, third)


def test_cluster_moves_a_slot_and_survives_a_kill():
    with Cluster() as cluster:
        a, b, c = cluster.nodes[:3]
        assert [cluster.owner(s) for s in (0, 6000, 16383)] == [a, b, c]
        slot = a.client().execute_command("CLUSTER", "KEYSLOT", "{x}")
        owner = cluster.owner(slot)
        target = b if owner is not b else c
        owner.client().set("{x}1", "one")
        cluster.begin(slot, target)
        assert cluster.move(slot) == 1
        with pytest.raises(redispy.exceptions.ResponseError, match="ASK "):
            owner.client().get("{x}1")
        cluster.finish(slot)
        assert cluster.owner(slot) is target
        with pytest.raises(redispy.exceptions.ResponseError, match="MOVED "):
            owner.client().get("{x}1")
        wait_for(lambda: cluster.is_in_step(target), "its replica to have it all")
        heir = cluster.kill_master(target)
        assert heir in cluster.nodes[3:]
        assert heir.client().get("{x}1") == "one"


def test_each_fault_of_the_proxy():
    """Each fault of weirtest.proxy has the effect that its documentation describes."""
    with Redis() as redis, Proxy(redis.port) as proxy:
        patient = over_tcp(redis, proxy.port)
        patient.set("a", "0123456789")
        assert proxy.accepted == 1

        proxy.delay(0.1)
        began = time.monotonic()
        pipe = patient.pipeline(transaction=False)
        for _ in range(10):
            pipe.get("a")
        assert pipe.execute() == ["0123456789"] * 10
        assert time.monotonic() - began >= 0.2 - 0.001

        proxy.heal()
        proxy.drop("replies")
        impatient = over_tcp(redis, proxy.port, socket_timeout=0.2)
        with pytest.raises(redispy.exceptions.TimeoutError):
            impatient.incr("heard")
        wait_for(lambda: redis.client().get("heard") == "1", "the command to arrive")
        proxy.drop("requests")
        with pytest.raises(redispy.exceptions.TimeoutError):
            impatient.incr("unheard")
        assert redis.client().get("unheard") is None
        proxy.heal()
        assert over_tcp(redis, proxy.port).get("a") == "0123456789"

        with socket.create_connection(("127.0.0.1", proxy.port)) as s:
            s.settimeout(patience(20))
            proxy.halve()
            s.sendall(b"GET a\r\n")
            assert s.recv(100) == b"$10\r\n012"
            s.settimeout(0.5)
            with pytest.raises(TimeoutError):
                s.recv(100)
        with socket.create_connection(("127.0.0.1", proxy.port)) as s:
            proxy.halve(cut=True)
            s.sendall(b"GET a\r\n")
            assert s.recv(100) == b"$10\r\n012"
            assert ends(s)
        with socket.create_connection(("127.0.0.1", proxy.port)) as s:
            proxy.refuse()
            assert ends(s)
            with socket.create_connection(("127.0.0.1", proxy.port)) as late:
                assert ends(late)
        proxy.heal()
        assert over_tcp(redis, proxy.port).get("a") == "0123456789"


def ends(s):
    """Returns whether the server closes the connection."""
    s.settimeout(patience(20))
    try:
        return s.recv(100) == b""
    except ConnectionResetError:
        return True


@needs("namespaces", "nft")
def test_namespaces_are_separated_and_joined():
    with Network("redis", "a", "b") as net:
        at = net["redis"]
        with Redis(host=at.address, prefix=at.prefix) as redis:
            def incr(name):
                return net[name].run("redis-cli", "-h", at.address, "-p", str(redis.port), "INCR", "n")
            assert (incr("a"), incr("b")) == ("1\n", "2\n")
            net.part("a", "redis")
            lost = programs.start([*net["a"].prefix, "redis-cli", "-h", at.address, "-p", str(redis.port), "INCR", "n"])
            assert incr("b") == "3\n"
            net.join()
            assert lost.wait(patience(30)) == 0  # the kernel has retried the connect
            assert redis.client().get("n") == "4"
            programs.stop(lost)
