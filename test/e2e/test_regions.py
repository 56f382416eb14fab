"""`consistency: eventual` in several regions: each has a Redis, in network namespaces that the tests separate and
join."""

import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from weirtest import Clock, env, free_port, full, programs, needs, wait_for
from weirtest.eventual import KEYS, LIMIT, hash_of, take_until_known, left, node, take, wait_exchanging
from weirtest.gateway import Gateway
from weirtest.netns import Network
from weirtest.redis import Redis

pytestmark = full("a cut-off region is noticed after timeouts of real time")

SECRET = "0123456789abcdef0123456789abcdef"
TIMEOUT = "2s"  # a peer that is silent for this long counts as down


@pytest.fixture(scope="module", autouse=True)
def clock():
    """The wall clock runs from half a minute after noon: no day, week or year ends during a test."""
    with Clock() as running:
        running.run()
        yield running


class Regions:
    """`count` regions, each a namespace with a Redis and a node."""

    def __init__(self, *names):
        self.names = names

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.net = stack.enter_context(Network(*self.names))
            self.redis = {n: stack.enter_context(Redis(host=self.net[n].address, prefix=self.net[n].prefix, port=6379))
                          for n in self.names}
            self.nodes = {n: self._node(n) for n in self.names}
            for one in self.nodes.values():
                stack.enter_context(one)
                (one.folder / "secret").write_text(SECRET, encoding="ascii")
                (one.folder / "secret").chmod(0o600)
                one.start()
            for one in self.nodes.values():
                one.wait_up()
                wait_exchanging(one)
            wait_for(lambda: all(n.store()["regions_up"] == len(self.names) - 1 for n in self.nodes.values()),
                     "regions to reach each other", 30)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def _node(self, name):
        peers = [self.redis[n].url() for n in self.names if n != name]
        return node(self.redis[name], "--region", name, "--peer", ",".join(peers), "--key-secret", "{folder}/secret",
                    prefix=self.net[name].prefix, resp="unix:{folder}/resp.sock", admin="unix:{folder}/admin.sock",
                    timeout=TIMEOUT, start=False)

    def cut_off(self, name):
        for other in self.names:
            if other != name:
                self.net.part(name, other)


@needs("namespaces", "nft")
@pytest.mark.parametrize("key", KEYS)
def test_region_is_cut_off_and_rejoins(key):
    """A cut-off region continues with its last counts. After it rejoins, all regions have the sum."""
    with Regions("eu", "us", "ap") as regions:
        eu, us, ap = (regions.nodes[n] for n in ("eu", "us", "ap"))
        for one in (eu, us, ap):
            assert take(one, key, "u") == 1
        # All regions know the counts of all.
        wait_for(lambda: alike([r.client().hgetall(hash_of(r) or "") for r in regions.redis.values()]), "all regions to have the same counts", 30)
        for one in (eu, us, ap):
            take_until_known(one, key, "u", LIMIT - 3)
        regions.cut_off("ap")
        # The cut-off region continues with its last counts. The other two count together, without it.
        alone = take(ap, key, "u", 20)
        assert alone == 20
        both = take(eu, key, "u", 30)
        assert both == 30
        take_until_known(us, key, "u", LIMIT - 30)
        wait_for(lambda: ap.store()["regions_up"] == 0 and eu.store()["regions_up"] == 1, "the cut-off region to be noticed", 60)
        assert take(ap, key, "u", 10) == 10
        assert left(ap, key, "u") > LIMIT - 60
        regions.net.join()
        wait_for(lambda: all(one.store()["regions_up"] == 2 for one in (eu, us, ap)), "the region to be connected again", 60)
        # 3 + 30 + 30, and the requests that fetched the counts.
        for one in (eu, us, ap):
            take_until_known(one, key, "u", LIMIT - 63)
        for one in (eu, us, ap):
            take(one, key, "u", LIMIT)
            take_until_known(one, key, "u", 0)
        for one in (eu, us, ap):
            assert take(one, key, "u", 3) == 0
        wait_for(lambda: alike([r.client().hgetall(hash_of(r)) for r in regions.redis.values()]),
                 "every Redis to have the same numbers", 30)


def alike(hashes):
    """Returns whether both have the same holders with the same numbers. Notes of what a region may lack (@…) belong to
    one Redis."""
    holders = [{name: state for name, state in h.items() if not name.startswith("@")} for h in hashes]
    return len(holders[0]) == 3 and all(h == holders[0] for h in holders)


@needs("namespaces", "nft")
def test_counts_of_a_dead_node_reach_a_region_later():
    """The remaining nodes pass on the counts that the dead node had reported to its own Redis."""
    with Regions("eu", "us") as regions:
        eu, us = regions.nodes["eu"], regions.nodes["us"]
        second = node(regions.redis["eu"], "--region", "eu", "--peer", regions.redis["us"].url(), "--key-secret",
                      f"{eu.folder}/secret", prefix=regions.net["eu"].prefix, resp="unix:{folder}/resp.sock",
                      admin="unix:{folder}/admin.sock", timeout=TIMEOUT)
        with second:
            second.wait_up()
            for one in (eu, us, second):
                assert take(one, "fixed", "u") == 1
                take_until_known(one, "fixed", "u", LIMIT - 2)
            regions.cut_off("us")
            assert take(second, "fixed", "u", 40) == 40
            take_until_known(eu, "fixed", "u", LIMIT - 41)
            second.kill()
            regions.net.join()
            wait_for(lambda: us.store()["regions_up"] == 1 and eu.store()["regions_up"] == 1, "the region to be connected again", 60)
            take_until_known(us, "fixed", "u", LIMIT - 41)


@needs("namespaces", "nft")
def test_counts_of_seventy_nodes_reach_another_region():
    """70 nodes of a region have used a counter, and all but one have exited: another region gets all counts."""
    with Regions("eu", "us") as regions:
        eu, us = regions.nodes["eu"], regions.nodes["us"]
        for one in (eu, us):
            assert take(one, "fixed", "u") == 1
        for one in (eu, us):
            take_until_known(one, "fixed", "u", LIMIT - 2)
        regions.cut_off("us")
        assert take(eu, "fixed", "u", 20) == 20
        wait_for(lambda: eu.store()["regions_up"] == 0, "the cut-off region to be noticed", 60)
        redis, name = regions.redis["eu"].client(), hash_of(regions.redis["eu"])
        window = next(state.split()[0] for holder, state in redis.hgetall(name).items() if holder.startswith("eu/"))
        for i in range(70):
            redis.hset(name, f"eu/{i:08x}.{i:016x}", f"{window} 1 0 0 0")
        regions.net.join()
        wait_for(lambda: eu.store()["regions_up"] == 1, "the region to be connected again", 60)
        take_until_known(us, "fixed", "u", LIMIT - 2 - 20 - 70)


@needs("namespaces", "nft")
def test_operator_orders_apply_in_one_region():
    """The command names the region."""
    def order(node, *words):
        done = subprocess.run([env.WEIR, "key", *words, "--admin", f"unix:{node.folder}/admin.sock", "api", "fixed=u"],
                              capture_output=True, text=True, check=True, timeout=env.patience(60))
        return done.stdout
    with Regions("eu", "us") as regions:
        eu, us = regions.nodes["eu"], regions.nodes["us"]
        assert take(eu, "fixed", "u") == 1
        take_until_known(us, "fixed", "u", LIMIT - 1)
        output = order(eu, "ban", "--for", "1h")
        assert "banned until" in output and output.endswith("Changed in region eu only: run the command at a service of each other region too.\n")
        assert "banned" in order(eu, "get") and "region" not in order(eu, "get")
        assert "banned" not in order(us, "get")
        assert json.loads(order(us, "get", "--json"))["region"] == "us"


def test_gateways_of_two_regions(api):
    """nginx's workers decide from the table; the service beside them exchanges with the other region."""
    rules = f"""
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, consistency: eventual}}
"""
    with Redis() as here, Redis() as there, contextlib.ExitStack() as stack:
        folder = Path(programs.temp_folder("secret"))
        stack.callback(programs.remove_folder, str(folder))
        (folder / "secret").write_text(SECRET, encoding="ascii")
        (folder / "secret").chmod(0o600)
        eu, us = (stack.enter_context(Gateway(api.port, "--redis", own.url(), "--peer", other.url(), "--region", name,
                                              "--key-secret", folder / "secret", "--sync-interval", "1s",
                                              "--redis-timeout", "10s", "--admin", "off", rules=rules))
                  for own, other, name in ((here, there, "eu"), (there, here, "us")))

        def get(one, user):
            return one.get("/", {"X-User": user})

        def exchanges():
            exchanges.number += 1
            return all(get(one, f"{exchanges.number}-{one.port}").status == 200 for one in (eu, us)) and \
                any("us/" in field for name in here.keys("weir:1:*:e:*") for field in here.client().hkeys(name))
        exchanges.number = 0
        wait_for(exchanges, "regions to hear of each other", 30, every=0.2)
        assert {get(eu, "u").status for _ in range(60)} == {200}
        wait_for(lambda: int(get(us, "u").get("X-Ratelimit-Remaining")) < LIMIT - 60, "the other region to have the counts", 30, every=0.2)
        assert any(get(us, "u").status == 429 for _ in range(LIMIT))


def test_peer_urls_of_all_topologies():
    """A part without :// belongs to the URL before it."""
    peers = [f"redis+cluster://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}", f"redis://127.0.0.1:{free_port()}"]
    with Redis() as redis:
        one = node(redis, "--region", "eu", "--peer", ",".join(peers), "--key-secret", "{folder}/secret", start=False)
        with one:
            (one.folder / "secret").write_text(SECRET, encoding="ascii")
            (one.folder / "secret").chmod(0o600)
            one.start()
            one.wait_up()
            # An unavailable peer delays nothing.
            wait_exchanging(one)
            wait_for(lambda: one.store()["regions"] == 2, "both peers to be counted", 20)
            assert one.store()["regions_up"] == 0
            assert f"peer {peers[2]}: " in one.log()
