"""Nodes with `consistency: eventual`, and helpers that read their counters."""

import contextlib

from .fleet import Node, answer
from .waiting import wait_for

LIMIT = 100

# With a week as the unit, no token is refilled during a test, and a window rarely ends.
RULES = f"""
domain: api
descriptors:
  - key: fixed
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: fixed_window, consistency: eventual}}
  - key: counter
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: sliding_window_counter, consistency: eventual}}
  - key: bucket
    rate_limit: {{unit: week, requests_per_unit: {LIMIT}, algorithm: token_bucket, consistency: eventual}}
  - key: whole
    rate_limit: {{unit: day, requests_per_unit: {LIMIT}, algorithm: fixed_window, consistency: eventual}}
  - key: five
    rate_limit: {{unit: week, requests_per_unit: 5, algorithm: token_bucket, on_store_failure: deny}}
"""

# A node without an exchange for three intervals counts as isolated. One second is enough for a busy machine.
SYNC = ["--sync-interval", "1s"]
ALGORITHM = {"fixed": "fixed_window", "counter": "sliding_window_counter", "bucket": "token_bucket"}
KEYS = list(ALGORITHM)


def node(redis, *args, timeout="10s", **kwargs):
    """Returns a node that exchanges counts at the interval of SYNC."""
    url = redis if isinstance(redis, str) else redis.url()
    return Node(url, RULES, timeout=timeout, args=[*SYNC, *args], **kwargs)


@contextlib.contextmanager
def nodes(redis, count):
    """Starts nodes and waits until all of them exchange counts."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(node(redis)) for _ in range(count)]
        for one in made:
            one.wait_up()
            wait_exchanging(one)
        yield made


def wait_exchanging(one):
    """Waits until the node has the whole limit. A node that does not exchange counters has only its share."""
    def has_all():
        has_all.number += 1
        return take(one, "whole", f"together-{one.folder}-{has_all.number}", LIMIT) == LIMIT
    has_all.number = 0
    wait_for(has_all, "the node to exchange", 20, every=0.1)


def hash_of(redis, of=""):
    """Returns the Redis key of the counter that the test uses. Ignores the counters of wait_exchanging."""
    return next((name for name in redis.keys("weir:1:*:e:*") if of in name and not name.endswith("/1d")), None)


def wait_reported(redis, key, total):
    """Waits until the nodes have reported this total for the key's only counter. The next node that asks then learns
    all of it at once."""
    def is_reported():
        name = hash_of(redis, ALGORITHM[key])
        return name and sum(int(words.split()[1]) for words in redis.client().hvals(name)) == total
    wait_for(is_reported, f"{total} units to be reported", 20)


def left(one, key, value):
    """Returns the remaining units by the node's own count."""
    with one.connect() as connection:
        return answer(connection.call("WEIR.PEEK", "api", key, value))["remaining"]


def take(one, key, value, times=1):
    """Returns the number of admitted requests among `times`."""
    return sum(one.verdicts(key, value, times=times))


def take_until_known(one, key, value, most):
    """A node learns the counts of other nodes when it exchanges after a request of its own. Sends requests until the
    node knows that at most `most` units are left. Returns the number of admitted requests."""
    taken = 0

    def knows():
        nonlocal taken
        taken += take(one, key, value)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: left(one, key, value) <= most, "the counts of other nodes", 2)
            return True
        return False
    wait_for(knows, f"no more than {most} to be left of {key}, {left(one, key, value)} are", 30)
    return taken


def take_one_each(redis, key, *those):
    """Each node in turn takes one unit and reports it. From then on each node counts the units that other nodes take
    from a token bucket; the first node counts all of them."""
    for number, one in enumerate(those, 1):
        assert take(one, key, "u") == 1
        wait_reported(redis, key, number)
