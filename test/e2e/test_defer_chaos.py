"""Thousands of orders at far more than the limit, while whoever can be killed is, at random moments. In the end:

- every order that got a 202 was answered by the API;
- per key they came in the order in which they were sent, and none that was let through at once overtook one (copies that
  are on their way from somebody who was killed are waited for: nobody can keep them back);
- the limit held for each key, kept orders and others together, at every moment;
- an order came more than once only where the API gave no answer, or who had to hear it was killed; then with the
  same Idempotency-Key.

The seed is WEIR_SEED, or always the same; a failure prints it.
"""

import contextlib
import os
import random
import time

import pytest

from weirtest import full, scaled, wait_for
from weirtest.deferring import Shop, rules
from weirtest.orders import Buyers, Orders, check_copies, check_none_lost, check_order, check_rate
from weirtest.redis import Redis

KEYS = [f"u{n}" for n in range(20)]
PER_SECOND, BURST = 25, 1  # of each key
CONNECTIONS = 16
RULES = rules(f"{{unit: second, requests_per_unit: {PER_SECOND}", "max_waiting: 100000, max_tries: 1000")


SEED = int(os.environ.get("WEIR_SEED") or 20735)

pytestmark = full("kills processes at random moments under load")


class Chaos:
    """Kills one of `victims` ({name: function that kills it and has it running again}) after a random number of further
    orders, or when no more are sent, again and again, until told to stop. .faults: (when it was, when that was over, who)
    of all."""

    def __init__(self, buyers, api, victims, every):
        print(f"WEIR_SEED={SEED}")  # a test that fails shows it
        self.random = random.Random(SEED)
        self.buyers, self.api, self.victims, self.every = buyers, api, victims, every
        self.faults = []

    def progress(self):
        return len(self.buyers.bought) + len(self.api.seen())

    def run(self, times):
        for _ in range(times):
            goal = self.progress() + self.random.randint(1, self.every)
            wait_for(lambda goal=goal: self.progress() >= goal or self.buyers.failure or self.buyers.is_over(),
                     "orders to go on", 60)
            name = self.random.choice(sorted(self.victims))
            began = time.monotonic_ns()
            self.victims[name](self.random)
            self.faults.append((began, time.monotonic_ns(), name))


def wait_settled(api, buyers, shops):
    """Until nothing waits and every order that was accepted has its answer."""
    wait_for(lambda: all(shop.is_idle() for shop in shops), "all to be delivered", 120, every=0.2)
    accepted = set(buyers.accepted())
    with contextlib.suppress(AssertionError):  # hold() has more to say about it
        wait_for(lambda: accepted <= {one.order for one in api.seen() if one.answered_ns}, "all to be answered", 15)


def hold(api, buyers, chaos, since_ns, direct=True):
    """What must hold, with the numbers of the run for whoever reads a failure."""
    seen, accepted = api.seen(), buyers.accepted()
    print(f"{len(buyers.bought)} orders, {len(accepted)} kept, {len(seen)} arrived, faults {chaos.faults}, "
          f"refusals {dict(buyers.refusals)}")
    check_none_lost(seen, accepted)
    check_order(seen, buyers.bought, statuses=(202, 2) if direct else (202,))
    check_rate(seen, since_ns, BURST, PER_SECOND)
    check_copies(seen, chaos.faults, at_a_time=CONNECTIONS)


def api_victim(api):
    def kill(rng):
        api.kill()
        if rng.random() < 0.5:
            time.sleep(rng.random() / 2)  # it is away for a while: nothing to wait for
        api.start()
    return kill


def gateway_victims(shop, api):
    """What was on its way from one that is killed arrives before its time is over: it may be sent again from then on, and
    what comes behind it."""
    def gateway(_):
        shop.kill()
        shop.wait_let_go()
        api.wait_read()
        shop.start()

    def everything(_):
        shop.kill_all()
        api.wait_read()
        shop.start()

    def nginx(_):
        before = shop.output().count("nginx runs again")
        shop.kill_nginx()
        api.wait_read()
        wait_for(lambda: shop.output().count("nginx runs again") > before, "nginx to run again", 30)
        shop.note_session()
    return {"gateway": gateway, "gateway and nginx": everything, "nginx": nginx}


@pytest.mark.seconds(180)
def test_ten_thousand_orders():
    with Orders() as api, Shop(api.port, "--queue-connections", CONNECTIONS, rules=RULES) as shop:
        since = time.monotonic_ns()
        with Buyers([shop.port], KEYS, scaled(10000) // len(KEYS)) as buyers:
            chaos = Chaos(buyers, api, {"api": api_victim(api), **gateway_victims(shop, api)}, scaled(800, 100))
            chaos.run(12)
            buyers.wait(120)
        wait_settled(api, buyers, [shop])
        hold(api, buyers, chaos, since)


@pytest.mark.seconds(180)
def test_two_gateways_and_their_redis():
    """The queue and the counters are in Redis, which is killed like all others. Who is let through at one gateway need not
    know at once what waits at the other."""
    text = rules(f"{{unit: second, requests_per_unit: {PER_SECOND}, on_store_failure: deny",
                 "max_waiting: 100000, max_tries: 1000")
    with contextlib.ExitStack() as stack:
        api, redis = stack.enter_context(Orders()), stack.enter_context(Redis(aof=True))
        options = ("--redis", redis.url(), "--redis-timeout", "10s", "--queue-connections", CONNECTIONS,
                   "--queue-timeout", "5s")
        shops = [stack.enter_context(Shop(api.port, *options, queue=redis.url(), rules=text)) for _ in range(2)]
        victims = {"api": api_victim(api), "redis": lambda _: redis.restart()}
        for n, shop in enumerate(shops):
            victims.update({f"{who} {n}": kill for who, kill in gateway_victims(shop, api).items()})
        since = time.monotonic_ns()
        with Buyers([s.port for s in shops], KEYS, scaled(5000) // len(KEYS)) as buyers:
            chaos = Chaos(buyers, api, victims, scaled(400, 50))
            chaos.run(12)
            buyers.wait(120)
        wait_settled(api, buyers, shops)
        hold(api, buyers, chaos, since, direct=False)
