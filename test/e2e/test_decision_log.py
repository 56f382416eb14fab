"""The decision log: its entries for every protocol, sampling, rotation, and readers that do not read."""

import contextlib
import json
import os
import re
import signal

import grpc
import pytest
import redis

from weirtest import JSON, ROOT, Nginx, fetch, programs, message, send_pipelined, scaled, wait_for
from weirtest.protos import Request, Response, request
from weirtest.scrape import Metrics
from weirtest.serve import Serve

ASK = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
RULES = """
domain: api
requests:
  - descriptor: [{key: user, from: header.x-user}]
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: tenant
    rate_limits:
      - {unit: year, requests_per_unit: 1000}
      - {concurrent: 2, max_hold: 10m}
  - key: quiet
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1, algorithm: token_bucket}
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e473"
SPAN = "00f067aa0ba902b7"


def parent(digit):
    """Returns a traceparent field whose trace id ends in this digit."""
    return {"traceparent": f"00-{TRACE}{digit}-{SPAN}-01"}


def by_grpc(serve, user, trace):
    with grpc.insecure_channel(f"127.0.0.1:{serve.grpc_port}") as channel:
        should = channel.unary_unary(ASK, Request.SerializeToString, Response.FromString)
        return should(request("api", ("user", user)), timeout=20, metadata=tuple(trace.items())).overall_code == 1


def by_check(serve, user, trace):
    body = {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": user}]}]}
    return json.loads(fetch(serve.http_port, "POST", "/v1/check", {**JSON, **trace}, json.dumps(body).encode()).body)["admitted"]


def by_json(serve, user, trace):
    body = {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": user}]}]}
    return fetch(serve.http_port, "POST", "/json", {**JSON, **trace}, json.dumps(body).encode()).status == 200


def by_forward_auth(serve, user, trace):
    return fetch(serve.http_port, "GET", "/check/api", {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/",
                                                        "X-User": user, **trace}).status == 200


@contextlib.contextmanager
def connected(serve):
    """A redis-py client that is disconnected at the end of the block."""
    client = redis.Redis(port=serve.resp_port)
    yield client
    client.connection_pool.disconnect()


def by_resp(serve, user, trace):
    with connected(serve) as client:
        answer = client.execute_command("WEIR.CHECK", "api", "user", user)
        return dict(zip(answer[::2], answer[1::2]))[b"verdict"] == b"admit"


WAYS = {"grpc": by_grpc, "http": by_check, "forward_auth": by_forward_auth, "resp": by_resp}


def lines_of(path, count):
    """Waits for at least this many lines of the log and returns them. Each is JSON. An incomplete last line is left
    out."""
    def whole():
        with open(path, "rb") as f:
            return f.read().split(b"\n")[:-1]

    wait_for(lambda: os.path.exists(path) and len(whole()) >= count, f"{count} lines in the decision log")
    return [json.loads(line) for line in whole()]


def logging(*args, **kwargs):
    """Returns a Serve with a decision log in its folder."""
    return Serve(rules=RULES, admin=True, args=["--decision-log", "{folder}/decisions.log", *args], **kwargs)


def test_decisions_of_every_protocol_are_logged():
    """Three decisions by each protocol: each line has the rule, the key, the numbers and the trace of its request."""
    with logging("--decision-log-share", "100%", grpc=True, http=True, resp=True) as serve:
        path = f"{serve.folder}/decisions.log"
        for number, (via, way) in enumerate(WAYS.items()):
            assert [way(serve, via, parent(number)) for _ in range(3)] == [True, True, False]
        by_json(serve, "json", parent(9))
        lines = lines_of(path, 13)
        assert len(lines) == 13
        for number, via in enumerate(WAYS):
            mine = lines[3 * number:3 * number + 3]
            assert [x["verdict"] for x in mine] == ["admit", "admit", "refuse"]
            assert [x["remaining"] for x in mine] == [1, 0, 0]
            for line in mine:
                assert (line["via"], line["rule"], line["algorithm"], line["limit"]) == (
                    via, "api/user/365d", "fixed_window", 2)
                assert (line["domain"], line["key"]) == ("api", f"user={via}")
                if via == "resp":
                    assert "trace_id" not in line
                else:
                    assert (line["trace_id"], line["span_id"]) == (f"{TRACE}{number}", SPAN)
            assert mine[2]["retry_after"] > 0
        assert lines[12]["via"] == "http" and lines[12]["trace_id"] == f"{TRACE}9"
        wait_for(lambda: Metrics(serve.admin_port).value("weir_decision_log_lines_total", outcome="written") == 13,
                 "all lines to be counted")


def test_settlements_are_logged_and_counted():
    """A reservation is one line and its settlement another. Metrics count the reserved units once."""
    def call(path, **body):
        answer = fetch(serve.http_port, "POST", path, JSON, json.dumps(body).encode())
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def reserve(hits, tenant="7"):
        return call("/v1/reserve", domain="api", hits=hits,
                    descriptors=[{"entries": [{"key": "tenant", "value": tenant}]}])["reservation"]

    with logging("--decision-log-share", "100%", http=True) as serve:
        call("/v1/commit", reservation=reserve(600), actual=500)
        call("/v1/commit", reservation=reserve(400), actual=700)
        lines = lines_of(f"{serve.folder}/decisions.log", 4)
        assert [x["verdict"] for x in lines] == ["admit", "settle", "admit", "settle"]
        numbers = [[x[name] for name in ("reserved", "actual", "refunded", "debt")] for x in lines[1::2]]
        assert numbers == [[600, 500, 100, 0], [400, 700, 0, 300]]
        assert {(x["rule"], x["key"], x["via"]) for x in lines[1::2]} == {("api/tenant/365d", "tenant=7", "reservation")}
        metrics = Metrics(serve.admin_port)
        units = {"rule": "api/tenant/365d"}
        assert metrics.value("weir_cost_reserved_units_total", **units) == 1000
        assert metrics.value("weir_cost_actual_units_total", **units) == 1200
        assert metrics.value("weir_cost_refunded_units_total", **units) == 100
        assert metrics.value("weir_cost_debt_units_total", **units) == 300
        assert metrics.value("weir_settled_total", **units) == 2
        assert metrics.value("weir_slots_in_use", rule="api/tenant/concurrent/10m") == 0
        reserve(5, "8")
        assert Metrics(serve.admin_port).value("weir_slots_in_use", rule="api/tenant/concurrent/10m") == 1


def test_only_refusals_are_logged_without_a_sample_rate():
    """Refusals are logged, including those of shadow mode. Admissions and peeks are not."""
    with logging(http=True, resp=True) as serve:
        for _ in range(6):
            by_check(serve, "7", {})
        with connected(serve) as client:
            for _ in range(3):
                client.execute_command("WEIR.CHECK", "api", "quiet", "1")
            client.execute_command("WEIR.PEEK", "api", "user", "7")  # a peek is not a decision
        lines = lines_of(f"{serve.folder}/decisions.log", 6)
        assert [(x["verdict"], x.get("shadowed")) for x in lines] == [("refuse", None)] * 4 + [("admit", True)] * 2
        assert lines[5]["rule"] == "api/quiet/365d" and "sampled" not in lines[5]
        assert all("trace_id" not in x for x in lines)


def test_flood_of_refusals_is_limited_and_counted(clock):
    """Fifty refusals a second are written, by a clock that stands still. The others are counted."""
    count = scaled(4000)
    with logging("--decision-log-refused", "50", http=True) as serve:
        head = message("GET", "/check/api", {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-User": "7"})

        def log_line_counts():
            metrics = Metrics(serve.admin_port)
            return [metrics.value("weir_decision_log_lines_total", outcome=o)
                    for o in ("written", "lost", "over_rate")]

        assert send_pipelined(serve.http_port, (head for _ in range(count))) == {200: 2, 429: count - 2}
        wait_for(lambda: log_line_counts() == [50, 0, count - 2 - 50], "every refusal to be written or left out")
        clock.advance(1)
        assert send_pipelined(serve.http_port, (head for _ in range(count))) == {429: count}
        wait_for(lambda: log_line_counts() == [100, 0, 2 * count - 2 - 100], "every refusal to be written or left out")
        assert len(lines_of(f"{serve.folder}/decisions.log", 100)) == 100


@pytest.mark.parametrize("how", ["hashed", "hidden"])
def test_keys_are_logged_as_configured(how):
    """With --keys hashed the log has hashes, with hidden it has no keys."""
    with logging("--keys", how, http=True) as serve:
        for _ in range(4):
            by_check(serve, "secret", {})
        lines = lines_of(f"{serve.folder}/decisions.log", 2)
        assert "secret" not in open(f"{serve.folder}/decisions.log", encoding="utf-8").read()
        if how == "hidden":
            assert all("key" not in x for x in lines)
        else:
            assert re.fullmatch("#[0-9a-f]{16}", lines[0]["key"]) and lines[0]["key"] == lines[1]["key"]


def test_hostile_keys_are_one_json_line_each():
    hostile = ["\x1b[2J", "a\nb\r\n", '"},{"verdict":"admit', "\u2028\u202e", "x" * 10_000, "\x00", "日本", "\\"]
    with logging("--decision-log-share", "100", http=True) as serve:
        for value in hostile:
            by_check(serve, value, {"traceparent": value.encode("unicode_escape").decode()[:200]})
        lines = lines_of(f"{serve.folder}/decisions.log", len(hostile))
        assert [x["key"] for x in lines] == [f"user={v}" if len(v) < 100 else f"user={v[:232]}…" for v in hostile]
        assert all(x["verdict"] == "admit" and "trace_id" not in x for x in lines)
        raw = open(f"{serve.folder}/decisions.log", "rb").read()
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw)


def test_log_is_reopened_on_sighup():
    """After a rename, lines go to the renamed file until SIGHUP, then to a new file."""
    with logging(http=True) as serve:
        path = f"{serve.folder}/decisions.log"
        for _ in range(3):
            by_check(serve, "7", {})
        lines_of(path, 1)
        os.rename(path, path + ".1")
        by_check(serve, "7", {})
        lines_of(path + ".1", 2)  # the service writes to the renamed file until SIGHUP
        serve.signal(signal.SIGHUP)
        wait_for(lambda: os.path.exists(path), "the file to be made anew")
        by_check(serve, "7", {})
        assert len(lines_of(path, 1)) == 1 and len(lines_of(path + ".1", 2)) == 2


def test_blocked_standard_output_delays_nothing():
    """Decisions and the shutdown are not delayed, and lines are lost."""
    with Serve(rules=RULES, http=True, admin=True, start=False,
               args=["--decision-log", "-", "--decision-log-refused", "1000000"]) as serve:
        read, write = os.pipe()
        with open(serve.output, "ab") as errors:
            serve.process = programs.start(serve.command(), stdout=write, stderr=errors, cwd=serve.folder)
        os.close(write)
        serve.wait_logged("weir serve: ready")
        head = message("GET", "/check/api", {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-User": "7"})
        count = scaled(8000, 4000)
        assert send_pipelined(serve.http_port, (head for _ in range(count))) == {200: 2, 429: count - 2}
        assert Metrics(serve.admin_port).value("weir_decision_log_lines_total", outcome="lost") > 0
        serve.stop()
        first = os.read(read, 65536).split(b"\n")[0]
        assert json.loads(first)["verdict"] == "refuse"
        os.close(read)


def test_invalid_log_prevents_the_start():
    """The service does not start with a log in a missing folder, or with an invalid share."""
    with Serve(rules=RULES, http=True, start=False, args=["--decision-log", "/no/such/folder/x"]) as serve:
        code, output = serve.run()
        assert code == 1 and "--decision-log /no/such/folder/x: No such file or directory" in output
    with Serve(rules=RULES, http=True, start=False, args=["--decision-log", "{folder}/x",
                                                          "--decision-log-share", "lots"]) as serve:
        code, output = serve.run()
        assert code == 1 and "--decision-log-share 'lots' is not a percentage from 0% to 100%, such as 1% or 0.05%" in output


def test_nginx_log_format_has_the_same_fields(api):
    """nginx accepts the log_format of docs/watching.md unchanged, and its lines have the fields of the decision log."""
    document = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
    conf = re.search(r"```nginx\n(.*?)```", document, re.S)[1]
    conf = conf.replace("/var/log/nginx/decisions.log", "{prefix}/access.log")
    assert conf.count("1% 1; * 0;") == 1
    conf = conf.replace("1% 1; * 0;", "* 1;")  # all of them: no request is left out by sampling
    with Nginx(rules=RULES, conf_http=conf, api=api,
               conf_server="location / { weir api; proxy_pass http://api; }\nlocation /off { return 204; }") as nginx:
        for _ in range(3):
            nginx.get("/", {"X-User": 'quote"', **parent(5)})
        nginx.get("/off")
        lines = [json.loads(line) for line in nginx.access_lines(3)]
        assert [x["verdict"] for x in lines] == ["ADMITTED", "ADMITTED", "REFUSED"]
        assert (lines[2]["rule"], lines[2]["remaining"], lines[2]["domain"]) == ("api/user/365d", "0", "api")
        assert lines[2]["traceparent"] == f"00-{TRACE}5-{SPAN}-01"
        nginx.quit()
        assert len(nginx.access_lines(3)) == 3
