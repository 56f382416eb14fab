"""Requests that are parked in nginx while Redis is asked: Redis is killed or silent, or their clients disconnect.
test_redis_gateway.py has the other tests of gateways."""

import contextlib
import json
import select
import time

import pytest
from weirtest import Traffic, fetch, free_port, full, patience, count_statuses, send_at_once, wait_for
from weirtest.gateway import Gateway
from weirtest.redis import Redis

pytestmark = full("requests that wait in nginx for Redis until a timeout, in real time")

HANG = patience(10)  # seconds; a multiple of the timeout, so that a busy machine does not exceed it

RULES = """
domain: api
requests:
  - when: {path: "/deny/*"}
    descriptor: [{key: denied, from: header.x-user}]
  - when: {path: "/log/*"}
    descriptor: [{key: logged, from: header.x-user}]
  - when: {path: "/allow/*"}
    descriptor: [{key: allowed, from: header.x-user}]
  - when: {path: "/share/*"}
    descriptor: [{key: shared, from: header.x-user}]
  - when: {path: "/here/*"}
    descriptor: [{key: here, value: all}]
descriptors:
  - key: denied
    rate_limit: {unit: week, requests_per_unit: 20, algorithm: token_bucket, on_store_failure: deny}
  - key: logged
    rate_limit: {unit: week, requests_per_unit: 20, algorithm: sliding_window_log, on_store_failure: deny}
  - key: allowed
    rate_limit: {unit: week, requests_per_unit: 20, algorithm: token_bucket, on_store_failure: allow}
  - key: shared
    rate_limit: {unit: week, requests_per_unit: 20, algorithm: token_bucket, on_store_failure: local}
  - key: here
    value: all
    rate_limit: {unit: week, requests_per_unit: 1000000, algorithm: token_bucket, consistency: local}
"""


def gateway(api, url, *options, rules=RULES, timeout="20s"):
    options = options or ("--admin", "off")
    return Gateway(api.port, "--redis", url, "--redis-timeout", timeout, *options, rules=rules)


def as_user(name):
    return {"X-User": name}


@contextlib.contextmanager
def start_gateways(api, url, count, **kwargs):
    """Starts gateways and waits until all their workers use Redis."""
    with contextlib.ExitStack() as stack:
        gateways = [stack.enter_context(gateway(api, url, **kwargs)) for _ in range(count)]
        for one in gateways:
            wait_ready(one)
            one.renew_workers()
        yield gateways


def wait_ready(one):
    """Waits until the service and the answering workers of nginx have the fleet's secret: until then `deny` denies.
    Later workers wait for it."""
    def ready():
        results = send_at_once(one.port, [("GET", "/deny/ready", as_user(f"ready-{time.monotonic_ns()}-{i}")) for i in range(8)])
        return set(count_statuses(results)) == {200}
    wait_for(ready, "the gateway to have its Redis", 20, every=0.05)


def holds(gateways):
    """Twenty requests pass, and never more; fewer if the machine was so busy that some were late."""
    user = as_user(f"again-{time.monotonic_ns()}")
    statuses = [gateways[n % len(gateways)].get("/deny/x", user).status for n in range(24)]
    assert statuses.count(200) <= 20, statuses
    return statuses == [200] * 20 + [429] * 4


@pytest.mark.seconds(120)
def test_no_user_exceeds_the_limit_when_redis_is_killed_and_restarted(api):
    """Users of rules with deny, allow, local shares and local counters, under load on two gateways."""
    with Redis(aof=True) as redis, start_gateways(api, redis.url(), 2, timeout="100ms") as gateways:
        users = [f"{rule}/{n}" for rule in ("deny", "allow", "share", "here") for n in range(4)]
        with contextlib.ExitStack() as stack:
            loads = {user: stack.enter_context(Traffic(gateways[i % 2].port, [f"/{user}"], 1, as_user(user), pause=0.002))
                     for i, user in enumerate(users)}
            for load in loads.values():
                load.wait(10)
            redis.kill()
            for load in loads.values():
                load.wait(10)
            redis.start()
            for load in loads.values():
                load.wait(10)
            for one in gateways:
                wait_ready(one)
            for load in loads.values():
                load.wait(30)
        for user, load in loads.items():
            rule = user.split("/")[0]
            assert load.lost == [], user
            assert set(load.statuses) <= {200, 429}, (user, load.statuses)
            assert max(done - sent for sent, done, _ in load.answers) < HANG * 1e9, user
            if rule == "here":
                assert set(load.statuses) == {200}
            if rule == "deny":
                assert load.statuses[200] <= 20, (user, load.statuses)
            if rule == "allow":
                assert load.statuses[200] >= 20, "requests during the outage are counted in addition"
        wait_for(lambda: holds(gateways), "the limit to hold for both together")


def test_units_of_disconnected_clients_are_returned(api):
    """Units that Redis grants to disconnected clients are returned: twenty clients disconnect, and twenty others pass.
    (A token bucket would return less to the first while others have taken after it, since a part of its token has been
    refilled.)"""
    port = free_port()
    with Redis() as redis, gateway(api, redis.url(), "--admin", f"127.0.0.1:{port}", timeout="30s") as one:
        wait_ready(one)
        one.renew_workers()

        def store():
            return json.loads(fetch(port, "GET", "/v1/status").body)["store"]
        redis.freeze()
        clients = [one.client() for _ in range(20)]
        for client in clients:
            client.send("GET", "/log/x", as_user("leaver"))
        wait_for(lambda: store()["waiting"] == 20, "all requests to wait")
        assert one.get("/here/x").status == 200, "no other request waits"
        for client in clients:
            client.vanish()
        redis.thaw()
        wait_for(lambda: store()["counts"]["returned"] == 20, "all twenty units to be returned")
        assert api.count("/log/x") == 0
        assert [one.get("/log/x", as_user("leaver")).status for _ in range(21)] == [200] * 20 + [429]


def test_requests_parked_when_the_timeout_ends(api):
    """`deny` refuses and `allow` admits all requests that wait for a frozen Redis."""
    with Redis() as redis, start_gateways(api, redis.url(), 1, timeout="200ms") as (one,):
        redis.freeze()
        began = time.monotonic()
        results = send_at_once(one.port, [("GET", f"/{how}/x", as_user(f"u{n}")) for n in range(10) for how in ("deny", "allow")])
        assert time.monotonic() - began < 10 * HANG
        assert {s.status for s in results[0::2]} == {429} and {s.status for s in results[1::2]} == {200}
        redis.thaw()
        wait_ready(one)


def test_3_leaky_bucket_in_redis(api, clock):
    """Ten at one moment of the clock over two gateways, one position every quarter of a second, four may wait: five are
    refused. Then time passes, and the others are forwarded one after the other, never faster."""
    per_second = 4
    with Redis() as redis, start_gateways(api, redis.url(), 2, rules=f"""
domain: api
requests:
  - when: {{path: "/queue"}}
    descriptor: [{{key: queue, from: header.x-user}}]
  - when: {{path: "/deny/*"}}
    descriptor: [{{key: denied, from: header.x-user}}]
descriptors:
  - key: queue
    rate_limit: {{unit: second, requests_per_unit: {per_second}, algorithm: leaky_bucket, queue_size: 4,
                  on_store_failure: deny}}
  - key: denied
    rate_limit: {{unit: week, requests_per_unit: 20, algorithm: token_bucket, on_store_failure: deny}}
""") as gateways:
        api.reset()
        clients = [gateways[n % 2].client() for n in range(10)]
        sent = time.monotonic_ns()
        for client in clients:
            client.send("GET", "/queue", as_user("queue"))
        arrived = set()
        wait_for(lambda: arrived.update(answered(clients)) or len(arrived) >= 6, "five to be refused and one to pass")
        clock.run()
        statuses = [client.read().status for client in clients]
        for client in clients:
            client.close()
        assert sorted(statuses) == [200] * 5 + [429] * 5
        left = [r.ns for r in api.records() if r.target == "/queue"]
        for k, at in enumerate(left):
            assert at - sent >= k * 1e9 / per_second - 1e6, (k, at - sent)


def answered(clients):
    """Returns the connections with unread bytes."""
    readable, _, _ = select.select([client.socket for client in clients], [], [], 0.05)
    return readable


def test_two_workers_and_many_users_through_one_socket(api):
    """Each of thirty users gets exactly the limit of twenty over two gateways."""
    users = 30
    with Redis() as redis, start_gateways(api, redis.url(), 2) as gateways:
        requests = [("GET", "/deny/x", as_user(f"m{n % users}")) for n in range(users * 13)]
        results = send_at_once(gateways[0].port, requests) + send_at_once(gateways[1].port, requests)
        assert count_statuses(results) == {200: users * 20, 429: users * 6}


def test_header_fields_are_those_of_a_local_limit(api):
    """A limit in Redis has the same X-Ratelimit fields and Retry-After as a local limit."""
    with Redis() as redis, start_gateways(api, redis.url(), 1) as (one,):
        for _ in range(20):
            admitted = fetch(one.port, "GET", "/deny/x", as_user("fields"))
        refused = fetch(one.port, "GET", "/deny/x", as_user("fields"))
        assert (admitted.get("x-ratelimit-limit"), admitted.get("x-ratelimit-remaining")) == ("20", "0")
        assert (refused.status, refused.get("x-ratelimit-remaining")) == (429, "0")
        # A token comes every 8.4 hours.
        assert 30000 < int(refused.get("retry-after")) <= 30240
