"""/metrics, read by promtool, by a real Prometheus and by our own parser. The counts are exactly those of the
requests."""

import contextlib
import json
import re
import selectors
import subprocess
import urllib.parse

import pytest

from weirtest import (JSON, ROOT, WEIR, WRAP, Client, Closed, fetch, free_port, full, message, needs, patience, programs,
                      scaled, send_pipelined, wait_for)
from weirtest.clock import for_weir
from weirtest.fleet import Node
from weirtest.redis import Redis
from weirtest.resp import command
from weirtest.scrape import OPEN, Metrics
from weirtest.serve import Serve
from weirtest.threads import halted, threads_of

LIMIT = 5
RULES = f"""
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit:
      unit: year
      requests_per_unit: {LIMIT}
      candidates: [{{unit: year, requests_per_unit: 8, algorithm: token_bucket}}]
  - key: quiet
    shadow_mode: true
    rate_limit: {{unit: year, requests_per_unit: 1, algorithm: sliding_window_log}}
  - key: door
    rate_limit: {{unit: hour, requests_per_unit: 10, algorithm: leaky_bucket, queue_size: 3}}
"""
USER = {"domain": "api", "rule": "api/user/365d", "algorithm": "fixed_window"}


def ask(serve, key, value, domain="api"):
    body = {"domain": domain, "descriptors": [{"entries": [{"key": key, "value": value}]}]}
    answer = fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode())
    assert answer.status == 200, answer.body
    return json.loads(answer.body)["verdict"]


@pytest.fixture
def serve():
    with Serve(rules=RULES, http=True, admin=True) as running:
        yield running


@pytest.fixture
def still(clock):
    """A service whose clock stands still."""
    del clock
    with Serve(rules=RULES, http=True, admin=True) as running:
        yield running


def promtool(text):
    """Checks metrics with promtool. Returns (exit code, output)."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def test_bans_match_the_requests(clock):
    """A limit of 1 bans at the first refusal, and a rule in shadow mode counts the same bans without refusing."""
    del clock
    rule = "rate_limit: {unit: year, requests_per_unit: 1, ban: {after: 1, within: 1m, for: 1h}}"
    rules = (f"domain: api\nrequests:\n  - descriptor: [{{key: ip, from: remote_address}}]\ndescriptors:\n  - key: ip\n"
             f"    {rule}\n  - key: quiet\n    shadow_mode: true\n    {rule}\n")
    with Serve(rules=rules, http=True, admin=True) as serve:
        assert [ask(serve, "ip", "192.0.2.1") for _ in range(5)] == ["admit"] + ["refuse"] * 4
        assert [ask(serve, "ip", "192.0.2.2") for _ in range(2)] == ["admit", "refuse"]
        for _ in range(4):
            assert ask(serve, "quiet", "7") == "admit"
        fetch(serve.admin_port, "POST", "/v1/bans", JSON, json.dumps(
            {"domain": "api", "entries": [{"key": "ip", "value": "192.0.2.3"}], "for": "1h"}).encode())
        value = Metrics(serve.admin_port).value
        enforced, quiet = ({"domain": "api", "rule": f"api/{key}/365d", "algorithm": "fixed_window"}
                           for key in ("ip", "quiet"))
        assert value("weir_bans_started_total", **enforced) == 2
        assert value("weir_ban_refusals_total", **enforced) == 3
        assert value("weir_bans_shadow_started_total", **quiet) == 1
        assert value("weir_ban_shadow_refusals_total", **quiet) == 2
        assert [value("weir_bans_in_force", kind=kind) for kind in ("automatic", "operator", "shadow", "shield")] == [
            2, 1, 1, 0]
        assert (value("weir_bans_unlisted_total"), value("weir_shield_up")) == (0, 0)


def test_counts_match_the_requests(still):
    """Each count is exact: admitted, refused, shadowed, delayed, near the limit, without a rule."""
    assert [ask(still, "user", "7") for _ in range(9)] == ["admit"] * 5 + ["refuse"] * 4
    assert [ask(still, "quiet", "7") for _ in range(3)] == ["admit"] * 3
    assert [ask(still, "door", "1") for _ in range(3)].count("delay") == 2
    ask(still, "user", "7", domain="nobody")
    metrics = Metrics(still.admin_port)
    value = metrics.value
    assert value("weir_decisions_total", result="admitted", **USER) == 5
    assert value("weir_decisions_total", result="refused", **USER) == 4
    assert value("weir_near_limit_total", **USER) == 1
    assert value("weir_decisions_total", rule="api/quiet/365d", result="shadowed") == 2
    assert value("weir_decisions_total", rule="api/quiet/365d", result="admitted",
                 algorithm="sliding_window_log") == 1
    assert value("weir_delayed_total", rule="api/door/1h") == 2
    # Six minutes for the second and twelve for the third.
    assert value("weir_delay_seconds_total", rule="api/door/1h") == 1080
    assert value("weir_requests_without_rule_total", reason="domain_not_found") == 1
    assert value("weir_candidate_decisions_total", rule="api/user/365d", result="admitted") == 8
    assert value("weir_candidate_differences_total", rule="api/user/365d", how="admits") == 3
    assert value("weir_candidate_differences_total", rule="api/user/365d", how="refuses") == 0
    assert value("weir_rules_loads_total", result="good") == 1
    assert value("weir_hosts", host="serve") == 1
    assert value("weir_decision_duration_seconds_count", store="local") == value(
        "weir_decision_duration_seconds_bucket", store="local", le="+Inf")


def test_decisions_over_resp_are_timed():
    """One in 64 decisions of a pipeline is timed, without and with Redis."""
    rules = RULES + "  - {key: here, rate_limit: {unit: year, requests_per_unit: 900, consistency: local}}\n"
    with Redis() as redis, Node(redis.url(), rules, threads=1, probe="here") as serve:
        serve.wait_up()
        before = Metrics(serve.admin_port)
        with serve.connect() as connection:
            for key in ("here", "quiet"):
                connection.send(command("WEIR.CHECK", "api", key, "1") * 128)
                assert len([connection.read() for _ in range(128)]) == 128
        after = Metrics(serve.admin_port)
        for store in ("local", "central"):
            name = "weir_decision_duration_seconds_count"
            assert after.value(name, store=store) - (before.value(name, store=store) or 0) == 2, store


def test_prometheus_and_openmetrics_formats(serve):
    """Both formats have the same samples, and promtool accepts the output."""
    ask(serve, "user", 'quote " back \\ line \n end')
    plain, opened = Metrics(serve.admin_port), Metrics(serve.admin_port, OPEN)
    assert plain.type == "text/plain; version=0.0.4; charset=utf-8"
    assert opened.type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert opened.text.endswith("\n# EOF\n") and "# EOF" not in plain.text
    changing = {"weir_connections"}
    assert {k for k in opened.samples if k[0] not in changing} == {
        k for k in plain.samples if k[0] not in changing}
    assert promtool(plain.text) == (0, "")
    assert fetch(serve.admin_port, "HEAD", "/metrics").status == 200
    assert fetch(serve.admin_port, "POST", "/metrics", {"Content-Type": "application/json"},
                 b"{}").status == 405


def test_metrics_contain_no_client_keys(serve):
    for i in range(50):
        ask(serve, "user", f"secret-{i}")
    metrics = Metrics(serve.admin_port)
    assert "secret" not in metrics.text
    assert metrics.value("weir_decisions_total", result="admitted", **USER) == 50
    wait_for(lambda: Metrics(serve.admin_port).value("weir_table_keys") == 100,
             "the keys to be counted, once for the rule and once for its candidate")


def test_reloads_are_counted(serve):
    """Good and failed loads are counted, and a failed load keeps the hash of the rules in force."""
    def loads(result):
        return Metrics(serve.admin_port).value("weir_rules_loads_total", result=result)

    def hash_of():
        return dict(next(k[1] for k in Metrics(serve.admin_port).samples if k[0] == "weir_rules_info"))

    ask(serve, "user", "7")  # a process counts as a host from its first decision on
    before = hash_of()
    serve.write_rules("domain: api\nnonsense: 1\n")
    wait_for(lambda: loads("failed") == 1, "the failed load to be counted")
    assert Metrics(serve.admin_port).value("weir_rules_last_load_failed") == 1
    wait_for(lambda: Metrics(serve.admin_port).value("weir_hosts_load_failed", host="serve") == 1,
             "the host to say so")
    assert hash_of() == before
    serve.write_rules(RULES + "  - {key: more, rate_limit: {unit: day, requests_per_unit: 1}}\n")
    wait_for(lambda: loads("good") == 2, "the good load to be counted")
    assert Metrics(serve.admin_port).value("weir_rules_last_load_failed") == 0
    assert Metrics(serve.admin_port).value("weir_rules_generation") == 2
    assert hash_of() != before


def test_documentation_lists_all_metrics():
    source = (ROOT / "src/serve/admin/metrics_families.h").read_text(encoding="utf-8")
    documented = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
    families = re.findall(r'X\(\w+, "(weir_\w+)", (\w+)', source)
    assert len(families) > 30
    for name, kind in families:
        name += {"COUNTER": "_total", "INFO": "_info"}.get(kind, "")
        assert f"`{name}" in documented, name


@full("kills Redis")
def test_metrics_of_redis():
    """The gauges of Redis are set while it answers, and weir_store_up is 0 after it was killed."""
    args = lambda store: ["--redis", store.url(), "--redis-timeout", "10s"]
    with Redis() as store, Serve(rules=RULES, http=True, admin=True, args=args(store)) as serve:
        def value(name):
            return Metrics(serve.admin_port).value(name)

        def top():
            return subprocess.run([WEIR, "top", "--dir", serve.table], capture_output=True, text=True,
                                  check=True, env=for_weir()).stdout

        # Gauges are set one after the other, this one last.
        wait_for(lambda: value("weir_store_up") == 1 and value("weir_fleet_nodes") == 1 and value("weir_share_ratio") == 1,
                 "the central store's gauges", 20)
        assert [ask(serve, "user", "7") for _ in range(7)] == ["admit"] * 5 + ["refuse"] * 2
        assert Metrics(serve.admin_port).value("weir_decisions_total", result="refused", **USER) == 2
        assert value("weir_store_breaker_state") == 0 and value("weir_store_nodes") == 1
        assert value("weir_store_rtt_seconds") < 60 and value("weir_share_ratio") == 1
        wait_for(lambda: "redis      available, breaker closed" in top(), "top to say so")
        assert promtool(Metrics(serve.admin_port).text) == (0, "")
        store.kill()
        wait_for(lambda: value("weir_store_up") == 0, "the central store to be missed", 20)
        wait_for(lambda: "redis      unavailable" in top(), "top to say so")


# ---- limits ----

def many_rules(count):
    """Returns a rule file with this many limits."""
    return (f"domain: api\nrequests:\n  - descriptor: [{{key: user, from: header.x-user}}]\ndescriptors:\n"
            f"  - {{key: user, rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}}}\n"
            + "".join(f"  - {{key: k{i}, rate_limit: {{unit: year, requests_per_unit: 100}}}}\n" for i in range(count - 1)))


def test_rules_above_the_series_limit_are_counted_together():
    """With --metrics-rules 100, a hundred of 500 rules have their own series, and one series counts the others."""
    with Serve(rules=many_rules(500), http=True, admin=True, memory="16M", args=["--metrics-rules", "100"]) as serve:
        for i in range(300):
            ask(serve, f"k{i}", "x")
        metrics = Metrics(serve.admin_port)
        assert metrics.series("weir_decisions_total") == 2 * 101
        assert metrics.value("weir_rules_in_other") == 400
        reported = metrics.all("weir_decisions_total", result="admitted")
        assert len(reported) == 101 and sum(reported.values()) == 300


@full("a hundred thousand keys")
@pytest.mark.seconds(300)
def test_series_do_not_grow_with_the_number_of_keys():
    """100,000 keys under 5,000 rules add no series and hardly any memory."""
    rules, keys = many_rules(5000), scaled(100_000)

    def anonymous_kib(serve):
        status = open(f"/proc/{serve.pid}/status", encoding="ascii").read()
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1])

    with Serve(rules=rules, http=True, admin=True, memory="64M") as serve:
        ask(serve, "k0", "x")
        first = Metrics(serve.admin_port)
        before = anonymous_kib(serve)
        heads = (message("GET", "/check/api", {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/",
                                               "X-User": f"user-{i}"}) for i in range(keys))
        assert send_pipelined(serve.http_port, heads) == {200: keys}
        metrics = Metrics(serve.admin_port)
        assert metrics.value("weir_decisions_total", result="admitted", **USER) == keys
        assert metrics.value("weir_rules_in_other") == 0
        assert metrics.series("weir_decisions_total") == 2 * 5001
        assert metrics.series() == first.series()  # no further series for all these keys
        assert len(metrics.text) < 4 << 20
        for _ in range(5):
            Metrics(serve.admin_port)
        if not WRAP:  # AddressSanitizer keeps freed memory
            assert anonymous_kib(serve) - before < (24 << 10)
        assert promtool(metrics.text)[0] == 0
    with Serve(rules=rules, http=True, admin=True, memory="64M", args=["--metrics-rules", "100"]) as serve:
        for i in range(300):
            ask(serve, f"k{i}", "x")
        metrics = Metrics(serve.admin_port)
        assert metrics.series("weir_decisions_total") == 2 * 101
        assert metrics.value("weir_rules_in_other") == 4900
        reported = metrics.all("weir_decisions_total", result="admitted")
        assert len(reported) == 101 and sum(reported.values()) == 300


@needs("ptrace")
def test_ninth_simultaneous_scrape_is_refused():
    """Eight scrapes are written at a time; more get a refusal at once. The writing thread is halted, so that none of 96
    is finished before all have arrived."""
    with Serve(rules=RULES, admin=True, variables={"UV_THREADPOOL_SIZE": "1"}) as serve, contextlib.ExitStack() as clients:
        before = threads_of(serve.pid)
        Metrics(serve.admin_port)
        [writer] = threads_of(serve.pid) - before
        waiting = selectors.DefaultSelector()

        def statuses(count):
            found = []
            while len(found) < count:
                ready = waiting.select(patience(20))
                assert ready, found
                for key, _ in ready:
                    found.append(key.data.read().status)
                    waiting.unregister(key.fileobj)
            return found

        with halted([writer]):
            for _ in range(96):
                client = clients.enter_context(Client(serve.admin_port))
                client.send("GET", "/metrics")
                waiting.register(client.socket, selectors.EVENT_READ, client)
            assert statuses(88) == [503] * 88
            assert waiting.select(0) == []
        assert statuses(8) == [200] * 8
        assert Metrics(serve.admin_port).series() > 50


def test_client_disconnects_during_a_scrape(serve):
    for _ in range(20):
        client = Client(serve.admin_port)
        client.send("GET", "/metrics")
        client.vanish()
    wait_for(lambda: fetch(serve.admin_port, "GET", "/metrics").status == 200, "its turn")


# ---- a real Prometheus ----

class Prometheus:
    """A real Prometheus that scrapes a port every second."""
    def __init__(self, target):
        self.folder = programs.temp_folder("prometheus")
        self.port = free_port()
        with open(f"{self.folder}/prometheus.yml", "w", encoding="ascii") as f:
            f.write("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
                    f"  - job_name: weir\n    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n")

    def __enter__(self):
        with open(f"{self.folder}/output", "wb") as out:
            self.process = programs.start(
                ["prometheus", f"--config.file={self.folder}/prometheus.yml",
                 f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}",
                 "--log.level=warn"], stdout=out, stderr=out)
        return self

    def __exit__(self, *_):
        programs.stop(self.process)
        programs.remove_folder(self.folder)

    def get(self, path, **query):
        try:
            answer = fetch(self.port, "GET", f"/api/v1/{path}?{urllib.parse.urlencode(query)}")
        except (OSError, Closed):
            return None
        if answer.status != 200:  # 503 as text until it has read its storage
            return None
        reported = json.loads(answer.body)
        return reported["data"] if reported["status"] == "success" else None

    def value(self, query):
        """Returns the only number of a query's result, or None."""
        data = self.get("query", query=query)
        values = [float(r["value"][1]) for r in data["result"]] if data else []
        assert len(values) <= 1, f"{query}: {data}"
        return values[0] if values else None


@full("Prometheus scrapes once a second")
@pytest.mark.seconds(120)
def test_real_prometheus_scrapes_the_service(serve):
    for _ in range(9):
        ask(serve, "user", "7")
    with Prometheus(serve.admin_port) as prometheus:
        refused = 'weir_decisions_total{rule="api/user/365d",result="refused"}'
        # A scrape of more than its second has failed, and the samples before it are stale.
        def wait_for_scrape(condition, what):
            return wait_for(condition, what, 60, every=0.2)

        def target():
            found = (prometheus.get("targets") or {}).get("activeTargets") or [{}]
            return found[0].get("health"), found[0].get("lastError")

        wait_for_scrape(lambda: prometheus.value(refused) == 4, "Prometheus to have scraped")
        wait_for_scrape(lambda: target() == ("up", ""), "a scrape without fault")
        wait_for_scrape(lambda: prometheus.value('sum(weir_decisions_total{rule="api/user/365d"})') == 9, "all decisions to be counted")
        types = wait_for_scrape(lambda: prometheus.get("metadata"), "metadata")
        assert types["weir_decisions"][0]["type"] == "counter"  # it requests OpenMetrics
        assert types["weir_decision_duration_seconds"][0]["type"] == "histogram"
        for _ in range(6):
            ask(serve, "user", "7")
        wait_for_scrape(lambda: prometheus.value(refused) == 10, "the next scrape")
        wait_for_scrape(lambda: prometheus.value(f"increase({refused}[1m]) > bool 0") == 1, "an increase")
        wait_for_scrape(lambda: prometheus.value('count(weir_rules_info)') == 1, "what rules are in force")
