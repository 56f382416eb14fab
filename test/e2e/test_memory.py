"""The memory of nginx's processes does not grow with requests, refusals, waits or reloads."""

import os
import re
from pathlib import Path

import pytest
from weirtest import (WRAP, Client, Nginx, Traffic, by_user, count_statuses, full, message, scaled, send_at_once,
                      send_pipelined, wait_for)

# malloc's arenas settle after a while: this much is no leak. 100,000 requests may leave 2.5 bytes each. Under a wrapper
# the allocator is another one and keeps freed memory, so its leak check is used instead.
GROWTH_KB = 256 if not WRAP else None
# Under valgrind the larger counts below are scaled down to about the smaller ones, so only one of the two runs.


@pytest.fixture
def quick(clock):
    """A worker looks at the rules every quarter of a second, and at the end of a second of the wall clock. The clock
    stands ten milliseconds before such an end, so the workers look all the time."""
    clock.advance(0.99)


def anonymous_kb(pid):
    """Returns the private memory of the process, without the table and the program."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"RssAnon:\s+(\d+) kB", text)[1])


def mappings(pid):
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def reread(nginx, text):
    """Loads other rules and waits until they are in force. The worker reads them in a thread, whose stack and arena
    stay. It may also need one for a slow look at a later time."""
    seen = nginx.logged("generation")
    nginx.write_rules(text)
    wait_for(lambda: nginx.logged("generation") > seen, "new rules", every=0.005)


def wait_no_growth(pid, before, mapped=2):
    """Waits until the process holds no more than `before`, a pair of memory and mappings. The memory of a thread that
    is reading rules is freed soon, a leak is not."""
    if GROWTH_KB is not None:
        wait_for(lambda: anonymous_kb(pid) - before[0] <= GROWTH_KB, "memory to be given back")
        wait_for(lambda: len(mappings(pid)) <= before[1] + mapped, "mappings to go")


@pytest.mark.seconds(120)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind, requests", [
    ("admitted", 20000), ("refused body", 20000),
    *(pytest.param(kind, 100000, marks=full("100,000 requests")) for kind in ("admitted", "refused body", "keys"))
][2 if WRAP == "valgrind" else 0:])
def test_requests_leak_no_memory(kind, requests):
    """100,000 requests after 20,000 to warm up, or 20,000 after 4,000: the worker's memory does not grow."""
    requests = scaled(requests)
    limit = 0 if kind == "refused body" else 1000000000
    rules = by_user(f"{{unit: week, requests_per_unit: {limit}, algorithm: token_bucket}}")
    status = 429 if limit == 0 else 200

    def heads(count):
        for i in range(count):
            user = {"X-User": str(i) if kind == "keys" else "same"}
            yield message("POST", "/", user, b"body of a request") if limit == 0 else \
                message("GET", "/", user)
    with Nginx(rules=rules, conf_server="keepalive_requests 1000000; weir_log_level info; "
               "location / { weir on; empty_gif; }",
               table="weir_table test 32m dir={prefix}/table;", log_level="notice") as nginx:
        worker, = nginx.workers()
        reread(nginx, rules + "# as before\n")
        send_pipelined(nginx.port, heads(requests // 5))
        files, before = descriptors(worker), (anonymous_kb(worker), len(mappings(worker)))
        assert send_pipelined(nginx.port, heads(requests)) == {status: requests}
        wait_for(lambda: descriptors(worker) <= files, "connections to close")
        assert nginx.workers() == [worker]
        wait_no_growth(worker, before)


@pytest.mark.parametrize("rounds", [4] if WRAP == "valgrind" else [
    4, pytest.param(16, marks=full("sixteen rounds"))])
def test_waiting_requests_leak_no_memory(api, rounds):
    """Requests that waited, and clients that disconnected while they waited."""
    rules = by_user("{unit: second, requests_per_unit: 1000, algorithm: leaky_bucket, queue_size: 50}")
    rounds = scaled(rounds, least=4)
    with Nginx(rules=rules, conf_server="location / { weir on; proxy_pass http://api; }", api=api) as nginx:
        worker, = nginx.workers()

        def crowd():
            """Sends more requests at once than at any later time, so that the memory for them is allocated before the
            measurement."""
            clients = [Client(nginx.port) for _ in range(100)]
            for i, c in enumerate(clients):
                c.send("GET", "/?hold=crowd", {"X-User": f"crowd-{i % 2}"})
            wait_for(lambda: api.count("/?hold") == len(clients), "all requests to arrive at the API")
            api.release("crowd")
            assert {c.read().status for c in clients} == {200}
            for c in clients:
                c.close()

        def wait_and_leave(times):
            for _ in range(times):
                results = send_at_once(nginx.port, [("GET", "/", {"X-User": "a"})] * 40)
                assert set(count_statuses(results)) <= {200, 429}
                gone = [Client(nginx.port) for _ in range(20)]
                for c in gone:
                    c.send("GET", "/", {"X-User": "b"})
                for c in gone:
                    c.vanish()
        reread(nginx, rules + "# as before\n")
        crowd()
        wait_and_leave(rounds)
        wait_for(lambda: descriptors(worker) < 100, "connections to close")
        before = anonymous_kb(worker), len(mappings(worker))
        wait_and_leave(2 * rounds)
        wait_no_growth(worker, before)


@pytest.mark.seconds(120)
@pytest.mark.parametrize("reloads", [10] if WRAP == "valgrind" else [10, pytest.param(50, marks=full("fifty reloads"))])
def test_reloads_leak_no_memory(reloads):
    """After reloads the master has the table mapped once, as many mappings and open files as after the fifth reload,
    and no worker has an extra thread."""
    reloads = scaled(reloads, least=6)
    with Nginx(rules=by_user(), conf_server="location / { weir on; empty_gif; }",
               workers=2) as nginx:
        def table_maps(pid):
            return sum("/table/" in line for line in mappings(pid))
        first_tables = table_maps(nginx.master)
        assert first_tables >= 1
        for n in range(reloads):
            nginx.reload()
            nginx.get("/", {"X-User": str(n)})
            if n == 4:
                wait_for(lambda: len(nginx.processes()) == 3, "old workers to end")
                before = (len(mappings(nginx.master)), descriptors(nginx.master),
                          anonymous_kb(nginx.master))
        wait_for(lambda: len(nginx.processes()) == 3, "old workers to end")
        assert table_maps(nginx.master) == first_tables
        # the master closes a worker's channel when it has noticed its exit, a moment later
        wait_for(lambda: descriptors(nginx.master) <= before[1], "channels of old workers to close")
        if GROWTH_KB is not None:
            assert len(mappings(nginx.master)) <= before[0] + 2
            assert anonymous_kb(nginx.master) - before[2] <= 1024  # 20 kB per reload; nginx itself keeps some
        for worker in nginx.workers():
            assert table_maps(worker) == first_tables
            # a look at the rules may have a thread for a moment
            wait_for(lambda pid=worker: len(os.listdir(f"/proc/{pid}/task")) == 1, "threads to end")


@pytest.mark.usefixtures("quick")
def test_rule_changes_leak_no_memory():
    """Rules are replaced repeatedly under traffic: old ones are freed."""
    def rules(n):
        return by_user("{unit: week, requests_per_unit: 100000000, algorithm: token_bucket}") + "".join(
            f"  - key: k{i}\n    rate_limit: {{unit: hour, requests_per_unit: {n + 1}}}\n"
            for i in range(200))
    changes = scaled(24, least=4)
    with Nginx(rules=rules(0), conf_server="location / { weir on; empty_gif; }"
               ) as nginx:
        worker, = nginx.workers()

        def change(first, last):
            for n in range(first, last):
                reread(nginx, rules(n))
        with Traffic(nginx.port, ["/"], connections=2, headers={"X-User": "a"}) as traffic:
            change(1, 1 + changes // 2)
            before = anonymous_kb(worker), len(mappings(worker))
            change(1 + changes // 2, 1 + changes)
        assert traffic.lost == [] and set(traffic.statuses) == {200}
        wait_no_growth(worker, before, mapped=4)
