"""A limit stays one limit through all events of nginx's processes.

The wall clock stands still, so nothing refills the budget: the number of admitted requests is the budget, exactly,
whatever was reloaded, replaced or killed."""

import os
import signal
from pathlib import Path

import pytest
from weirtest import Closed, Nginx, Traffic, WRAP, by_user, full, programs, scaled, count_statuses, send_at_once, wait_for

pytestmark = pytest.mark.usefixtures("clock")

SERVER = """
	location / { weir on; add_header X-Worker $pid always; proxy_pass http://api; }
	location /warm { add_header X-Worker $pid always; alias {prefix}/html/index.html; }
"""
USER = {"X-User": "budget"}


def budget(count, algorithm="token_bucket"):
    """Returns rules with this many units per week for each user."""
    return by_user(f"{{unit: week, requests_per_unit: {count}, algorithm: {algorithm}}}")


def nginx_with_four_workers(rules, api, **kwargs):
    server = "keepalive_requests 100000;\n" + SERVER  # spend_rest may send more than nginx's 1,000 requests
    return Nginx(rules=rules, workers=4, reuseport=True, conf_server=server, api=api, **kwargs)


def spend_rest(nginx, limit):
    """Sends requests until three are refused. Returns the number of admitted ones."""
    admitted = refused = 0
    c = nginx.client()
    while refused < 3:
        try:
            status = c.get("/rest", USER).status
        except Closed:  # by a worker that was shutting down
            c.close()
            c = nginx.client()
            continue
        admitted += status == 200
        refused += status == 429
        assert admitted <= limit
    c.close()
    return admitted


# ---- exact counts ----

@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_window_log", "sliding_window_counter",
                                       "token_bucket"])
def test_count_is_exact_across_four_workers(api, algorithm):
    """Twice the budget over 64 connections of four workers: exactly the budget is admitted."""
    limit = scaled(400, least=64)  # with fewer connections a worker might get none
    with nginx_with_four_workers(budget(limit, algorithm), api) as nginx:
        results = send_at_once(nginx.port, [("GET", f"/r/{i}", USER) for i in range(2 * limit)],
                       connections=64)
        assert count_statuses(results) == {200: limit, 429: limit}
        assert api.count("/r/") == limit
        workers = {s.response.get("X-Worker") for s in results}
        assert len(workers) == 4 and workers == {str(w) for w in nginx.workers()}


def test_counts_of_a_hundred_keys_are_exact(api):
    """A hundred users at once, seven requests each with five allowed: 5 and 2 for each of them."""
    users = scaled(100)
    with nginx_with_four_workers(by_user(), api) as nginx:
        results = send_at_once(nginx.port, [("GET", f"/u/{i % users}", {"X-User": str(i % users)})
                                    for i in range(7 * users)], connections=32)
        assert count_statuses(results) == {200: 5 * users, 429: 2 * users}
        for user in range(users):
            assert count_statuses(results[user::users]) == {200: 5, 429: 2}, user


# ---- nginx -s reload ----

@pytest.mark.seconds(120)
# Under valgrind twelve are scaled down to three as well.
@pytest.mark.parametrize("reloads", [3] if WRAP == "valgrind" else [
    3, pytest.param(12, marks=full("twelve reloads under load"))])
def test_reloads_under_load_lose_and_miscount_nothing(api, reloads):
    """Reloads one after the other while eight clients send requests: no request is lost, counted twice or not
    counted."""
    limit, reloads = scaled(250 * reloads), scaled(reloads, least=3)
    with nginx_with_four_workers(budget(limit), api) as nginx:
        with Traffic(nginx.port, ["/r"], connections=8, headers=USER) as traffic:
            for n in range(reloads):
                traffic.wait(scaled(100, least=8))
                if n % 3 == 2:
                    gone = nginx.logged("gracefully shutting down")
                    assert nginx.run("-s", "reload")[0] == 0
                    nginx.wait_logged("gracefully shutting down", gone + 4)
                else:
                    nginx.reload()
        rest = spend_rest(nginx, limit)
        assert traffic.lost == []
        assert set(traffic.statuses) <= {200, 429}
        assert traffic.statuses[200] + rest == limit
        assert api.count() == limit


def test_reload_with_other_rules_keeps_counts(api):
    """A reload loads the rules of the configuration and keeps the counts: 5 used of 8 leave 3."""
    with Nginx(rules=by_user(), conf_server=SERVER, api=api) as nginx:
        assert [nginx.get("/", USER).status for _ in range(6)] == [200] * 5 + [429]
        other = nginx.prefix / "other.yaml"
        other.write_text(by_user("{unit: week, requests_per_unit: 8, algorithm: token_bucket}"),
                         encoding="utf-8")
        nginx.write_conf(rules=f"weir_rules {other};")
        nginx.reload()
        r = nginx.get("/", USER)
        assert (r.status, r.get("X-Ratelimit-Limit")) == (200, "8")


def test_reload_with_broken_rules_changes_nothing(api):
    with Nginx(rules=by_user(), conf_server=SERVER, api=api, allow=[r"\[emerg\]"]) as nginx:
        assert nginx.get("/", USER).get("X-Ratelimit-Remaining") == "4"
        before = nginx.workers()
        bad = nginx.prefix / "bad.yaml"
        bad.write_text("domain: api\ndescriptors:\n  - kay: user\n", encoding="utf-8")
        nginx.write_conf(rules=f"weir_rules {bad};")
        code, output = nginx.run("-s", "reload")
        assert code != 0 or nginx.wait_logged(r"bad\.yaml:3:") is None
        if code:
            assert "bad.yaml:3:" in output
            os.kill(nginx.master, signal.SIGHUP)
            nginx.wait_logged(r"bad\.yaml:3:")
        assert nginx.workers() == before
        assert nginx.get("/", USER).get("X-Ratelimit-Remaining") == "3"


def test_restart_keeps_the_counts(api):
    """After a restart the table is the same file, and the bucket is as empty as before."""
    with Nginx(rules=by_user(), conf_server=SERVER, api=api) as nginx:
        assert [nginx.get("/", USER).status for _ in range(4)] == [200] * 4
        nginx.quit()
        nginx.start()
        assert [nginx.get("/", USER).status for _ in range(3)] == [200, 429, 429]


# ---- binary upgrade ----

def upgrade(nginx):
    """Sends USR2, then QUIT to the old master once the new one has workers. Waits until the old one has exited."""
    old = nginx.master
    os.kill(old, signal.SIGUSR2)
    previous = Path(f"{nginx.pid_file}.oldbin")

    def new_master():
        try:
            return previous.exists() and nginx.master != old and len(nginx.workers()) == 4
        except (OSError, ValueError):
            return False
    wait_for(new_master, "the new binary and its workers", 20)
    os.kill(old, signal.SIGQUIT)
    wait_for(lambda: old not in nginx.processes(), "the old master to end", 20)


@pytest.mark.seconds(120)
def test_binary_upgrade_under_load(api):
    """An upgrade by USR2 and QUIT loses no request and counts each request once."""
    limit, upgrades = scaled(2000), 1 + (scaled(2) == 2)
    with nginx_with_four_workers(budget(limit), api, orphan=True) as nginx:
        with Traffic(nginx.port, ["/r"], connections=8, headers=USER) as traffic:
            for _ in range(upgrades):
                traffic.wait(scaled(200, least=8))
                upgrade(nginx)
            traffic.wait(scaled(200, least=8))
        rest = spend_rest(nginx, limit)
        assert traffic.lost == []
        assert set(traffic.statuses) <= {200, 429}
        assert traffic.statuses[200] + rest == limit
        assert api.count() == limit


# ---- kill -9 ----

@pytest.mark.seconds(120)
def test_workers_killed_under_load(api):
    """Requests in flight at a killed worker are lost, no others. Their units are used up, so the API may receive that
    many fewer than the budget, and never more."""
    limit, kills = scaled(2000), scaled(12, least=3)
    connections = 8
    with nginx_with_four_workers(budget(limit), api, allow=["exited on signal 9", "exited with code"]) as nginx:
        with Traffic(nginx.port, ["/r"], connections=connections, headers=USER) as traffic:
            for n in range(kills):
                traffic.wait(scaled(60, least=6))
                workers = nginx.workers()
                os.kill(workers[n % len(workers)], signal.SIGKILL)
                wait_for(lambda: len(set(nginx.workers()) - set(workers)) >= 1, "a new worker")
        # A request on a connection of a killed worker was sent again. The first try may count.
        spoiled = len(traffic.lost) + traffic.races
        assert spoiled <= kills * connections
        rest = spend_rest(nginx, limit)
        assert set(traffic.statuses) <= {200, 429}
        assert limit - spoiled <= traffic.statuses[200] + rest <= limit
        assert traffic.statuses[200] + rest <= api.count() <= limit
        # All workers still work.
        results = send_at_once(nginx.port, [("GET", "/x", USER)] * 32)
        assert count_statuses(results) == {429: 32}


def test_worker_is_killed_while_requests_wait(clock, api):
    """The positions of a killed worker's requests pass unused. The queue continues behind them."""
    rules = by_user("{unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 6}")
    with Nginx(rules=rules, conf_server=SERVER, api=api, allow=["exited on signal 9"]) as nginx:
        clients = [nginx.client() for _ in range(5)]
        for c in clients:
            c.send("GET", "/w", USER)
        nginx.wait_logged("weir: delayed", 4)
        wait_for(lambda: api.count("/w") == 1, "the first to reach the API")
        before = nginx.workers()
        os.kill(before[0], signal.SIGKILL)
        wait_for(lambda: set(nginx.workers()) - set(before), "a new worker")
        for c in clients:
            c.close()
        with nginx.client() as after, nginx.client() as last:
            after.send("GET", "/after", USER)
            nginx.wait_logged(f"weir: delayed by {5 * 3600 * 1000}ms")
            clock.advance(5 * 3600)
            last.send("GET", "/last", USER)  # joins the queue, so nginx looks at the clock
            assert after.read().status == 200
            last.vanish()
        assert [r.target for r in api.records()] == ["/w", "/after"]


def test_counts_survive_a_kill_of_all_processes(api):
    """All of nginx is killed; the next start finds the counts."""
    with Nginx(rules=by_user(), conf_server=SERVER, api=api) as nginx:
        assert [nginx.get("/", USER).status for _ in range(3)] == [200] * 3
        programs.kill_session(nginx.process.pid)
        nginx.process.wait()
        wait_for(lambda: not nginx.processes(), "all processes to end")
        nginx.pid_file.unlink()
        nginx.start()
        assert [nginx.get("/", USER).status for _ in range(3)] == [200, 200, 429]
