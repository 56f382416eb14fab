"""Nodes whose limits are eventual, and what a test asks them."""

import contextlib

from .fleet import Node, answer
from .waiting import wait_for

LIMIT = 100

# Within a week no token comes back while a test runs, and hardly ever a window ends.
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

# A node that has not exchanged for three intervals is on its own: long enough for a machine that is busy.
SYNC = ["--sync-interval", "1s"]
ALGORITHM = {"fixed": "fixed_window", "counter": "sliding_window_counter", "bucket": "token_bucket"}
KEYS = list(ALGORITHM)


def node(redis, *args, timeout="10s", **kwargs):
    url = redis if isinstance(redis, str) else redis.url()
    return Node(url, RULES, timeout=timeout, args=[*SYNC, *args], **kwargs)


@contextlib.contextmanager
def nodes(redis, count):
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(node(redis)) for _ in range(count)]
        for one in made:
            one.wait_up()
            wait_together(one)
        yield made


def wait_together(one):
    """Until it has the whole limit: a node that does not exchange has its share."""
    def has_all():
        has_all.number += 1
        return take(one, "whole", f"together-{one.folder}-{has_all.number}", LIMIT) == LIMIT
    has_all.number = 0
    wait_for(has_all, "the node to exchange", 20, every=0.1)


def hash_of(redis, of=""):
    """What nodes have told of the one counter that is used, but for those of wait_together."""
    return next((name for name in redis.keys("weir:1:*:e:*") if of in name and not name.endswith("/1d")), None)


def wait_told(redis, key, total):
    """Until nodes have told Redis of so many of the key's one counter: who asks next hears of all of them at once."""
    def told():
        name = hash_of(redis, ALGORITHM[key])
        return name and sum(int(words.split()[1]) for words in redis.client().hvals(name)) == total
    wait_for(told, f"{total} to be told of", 20)


def left(one, key, value):
    """What the node thinks is left."""
    with one.connect() as connection:
        return answer(connection.call("WEIR.PEEK", "api", key, value))["remaining"]


def take(one, key, value, times=1):
    """How many of so many were admitted."""
    return sum(one.verdicts(key, value, times=times))


def learn(one, key, value, most):
    """A node hears of others where it is asked itself: a request now and then, until it knows that no more than so many
    are left. How many were admitted."""
    taken = 0

    def knows():
        nonlocal taken
        taken += take(one, key, value)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: left(one, key, value) <= most, "it to be heard", 2)
            return True
        return False
    wait_for(knows, f"no more than {most} to be left of {key}, {left(one, key, value)} are", 30)
    return taken


def meet(redis, key, *those):
    """Each takes one and has told so, one after the other: from then on it counts what others take from a bucket, the
    first one all of it."""
    for number, one in enumerate(those, 1):
        assert take(one, key, "u") == 1
        wait_told(redis, key, number)
