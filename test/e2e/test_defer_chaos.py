"""Thousands of orders far above the limit, while processes are killed at random moments. At the end:

- every order with a 202 was answered by the API;
- for each key the orders arrived in the order of sending, and no order that was forwarded at once overtook a queued one
(the tests wait for copies in flight from killed processes, which cannot be held back);
- the limit held for each key at every moment, deferred and other orders together;
- an order arrived more than once only if the API gave no answer, or if the process that had to read the answer was
killed; the copies have the same Idempotency-Key.

The seed is WEIR_SEED, or always the same; a failure prints it."""

import contextlib
import os
import random
import time

import pytest

from weirtest import full, scaled, wait_for
from weirtest.deferring import DeferringGateway, rules
from weirtest.orders import OrderClients, Orders, check_copies, check_none_lost, check_order, check_rate
from weirtest.redis import Redis

KEYS = [f"u{n}" for n in range(20)]
PER_SECOND, BURST = 25, 1  # the limit of each key
CONNECTIONS = 16
RULES = rules(f"{{unit: second, requests_per_unit: {PER_SECOND}", "max_waiting: 100000, max_tries: 1000")


SEED = int(os.environ.get("WEIR_SEED") or 20735)

pytestmark = full("kills processes at random moments under load")


class Chaos:
    """Kills one of `victims` ({name: function that kills and restarts it}) after a random number of further orders, or
    when no more are sent, repeatedly. .faults: (start, end, name) of all kills."""

    def __init__(self, clients, api, victims, every):
        print(f"WEIR_SEED={SEED}")  # shown if the test fails
        self.random = random.Random(SEED)
        self.clients, self.api, self.victims, self.every = clients, api, victims, every
        self.faults = []

    def progress(self):
        return len(self.clients.sent) + len(self.api.seen())

    def run(self, times):
        for _ in range(times):
            goal = self.progress() + self.random.randint(1, self.every)
            wait_for(lambda goal=goal: self.progress() >= goal or self.clients.failure or self.clients.is_over(),
                     "orders to go on", 60)
            name = self.random.choice(sorted(self.victims))
            began = time.monotonic_ns()
            self.victims[name](self.random)
            self.faults.append((began, time.monotonic_ns(), name))


def wait_settled(api, clients, instances):
    """Waits until no request waits and every accepted order has its answer."""
    wait_for(lambda: all(gateway.is_idle() for gateway in instances), "all orders to be delivered", 120, every=0.2)
    accepted = set(clients.accepted())
    with contextlib.suppress(AssertionError):  # check_promises() has the better message
        wait_for(lambda: accepted <= {one.order for one in api.seen() if one.answered_ns}, "all orders to be answered", 15)


def check_promises(api, clients, chaos, since_ns, direct=True):
    """Checks the promises of this file, and prints the numbers of the run for a failure."""
    seen, accepted = api.seen(), clients.accepted()
    print(f"{len(clients.sent)} orders, {len(accepted)} kept, {len(seen)} arrived, faults {chaos.faults}, "
          f"refusals {dict(clients.refusals)}")
    check_none_lost(seen, accepted)
    check_order(seen, clients.sent, statuses=(202, 2) if direct else (202,))
    check_rate(seen, since_ns, BURST, PER_SECOND)
    check_copies(seen, chaos.faults, at_a_time=CONNECTIONS)


def api_victim(api):
    """Returns a function that kills and restarts the API, sometimes after a pause."""
    def kill(rng):
        api.kill()
        if rng.random() < 0.5:
            time.sleep(rng.random() / 2)  # the API stays down for a while: there is nothing to wait for
        api.start()
    return kill


def gateway_victims(gateway, api):
    """Deliveries in flight from a killed gateway arrive before the fault is over: from then on they and their
    successors may be sent again."""
    def kill_gateway(_):
        gateway.kill()
        gateway.wait_deliveries_closed()
        api.wait_read()
        gateway.start()

    def kill_gateway_and_nginx(_):
        gateway.kill_all()
        api.wait_read()
        gateway.start()

    def kill_nginx(_):
        before = gateway.output().count("nginx runs again")
        gateway.kill_nginx()
        api.wait_read()
        wait_for(lambda: gateway.output().count("nginx runs again") > before, "nginx to run again", 30)
        gateway.register_session()
    return {"gateway": kill_gateway, "gateway and nginx": kill_gateway_and_nginx, "nginx": kill_nginx}


@pytest.mark.seconds(180)
def test_ten_thousand_orders_survive_random_kills():
    with Orders() as api, DeferringGateway(api.port, "--queue-connections", CONNECTIONS, rules=RULES) as gateway:
        since = time.monotonic_ns()
        with OrderClients([gateway.port], KEYS, scaled(10000) // len(KEYS)) as clients:
            chaos = Chaos(clients, api, {"api": api_victim(api), **gateway_victims(gateway, api)}, scaled(800, 100))
            chaos.run(12)
            clients.wait(120)
        wait_settled(api, clients, [gateway])
        check_promises(api, clients, chaos, since)


@pytest.mark.seconds(180)
def test_two_gateways_and_their_redis_survive_random_kills():
    """The queue and the counters are in Redis, which is killed like the others. A gateway that admits a request need
    not know at once which requests wait at the other."""
    text = rules(f"{{unit: second, requests_per_unit: {PER_SECOND}, on_store_failure: deny",
                 "max_waiting: 100000, max_tries: 1000")
    with contextlib.ExitStack() as stack:
        api, redis = stack.enter_context(Orders()), stack.enter_context(Redis(aof=True))
        options = ("--redis", redis.url(), "--redis-timeout", "10s", "--queue-connections", CONNECTIONS,
                   "--queue-timeout", "5s")
        instances = [stack.enter_context(DeferringGateway(api.port, *options, queue=redis.url(), rules=text)) for _ in range(2)]
        victims = {"api": api_victim(api), "redis": lambda _: redis.restart()}
        for n, gateway in enumerate(instances):
            victims.update({f"{who} {n}": kill for who, kill in gateway_victims(gateway, api).items()})
        since = time.monotonic_ns()
        with OrderClients([s.port for s in instances], KEYS, scaled(5000) // len(KEYS)) as clients:
            chaos = Chaos(clients, api, victims, scaled(400, 50))
            chaos.run(12)
            clients.wait(120)
        wait_settled(api, clients, instances)
        check_promises(api, clients, chaos, since, direct=False)
