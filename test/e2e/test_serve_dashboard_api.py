"""The API behind the dashboard: files, events, explanations, and permissions for changes."""

import contextlib
import gzip
import json

import pytest

from weirtest import JSON, Client, Clock, fetch, wait_for
from weirtest.openapi import check_answer
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - descriptor: [{key: user, from: [header.x-user, remote_address]}]
descriptors:
  - key: user
    rate_limit:
      unit: year
      requests_per_unit: 3
      candidates: [{unit: year, requests_per_unit: 5}]
  - key: quiet
    rate_limit: {unit: hour, requests_per_unit: 7}
"""


def get(port, target, headers=()):
    """Sends a GET and checks the response against docs/openapi.yaml."""
    answer = fetch(port, "GET", target, dict(headers))
    check_answer("GET", target, answer)
    return answer


def ask_admin(port, target, body=None, headers=()):
    """Sends a request to the admin API, checks the response against docs/openapi.yaml, and returns its JSON."""
    raw = None if body is None else json.dumps(body).encode()
    answer = fetch(port, "POST" if raw else "GET", target, {**JSON, **dict(headers)}, raw)
    check_answer("POST" if raw else "GET", target, answer)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def ask(serve, user, times=1):
    """Asks about requests of this user. Returns whether each was admitted."""
    body = json.dumps({"domain": "api", "request": {"target": "/", "headers": {"x-user": user}}}).encode()
    return [json.loads(fetch(serve.http_port, "POST", "/v1/check", JSON, body).body)["admitted"]
            for _ in range(times)]


def rows(serve, query=""):
    """Returns the rules of the overview."""
    return ask_admin(serve.admin_port, f"/v1/overview{query}")["rules"]["rows"]


@pytest.fixture(scope="module", autouse=True)
def clock():
    """Statistics get their next second when a test moves the clock: serve.pass_seconds(clock)."""
    with Clock() as stands:
        yield stands


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True, admin=True) as running:
        yield running


# ---- files ----

def test_files_are_hardened_and_cached(serve):
    """The files have a strict Content-Security-Policy, gzip and ETag; other paths get 404."""
    front = get(serve.admin_port, "/")
    assert front.status == 200 and front.get("content-type").startswith("text/html")
    policy = front.get("content-security-policy")
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy and front.get("x-frame-options") == "DENY"
    for name, kind in (("app.js", "text/javascript"), ("style.css", "text/css"), ("uPlot.js", "text/javascript")):
        plain = get(serve.admin_port, f"/ui/{name}")
        packed = get(serve.admin_port, f"/ui/{name}", {"Accept-Encoding": "gzip, br"})
        assert plain.get("content-type").startswith(kind)
        assert packed.get("content-encoding") == "gzip" and gzip.decompress(packed.body) == plain.body
        assert plain.get("etag") != packed.get("etag")
        again = get(serve.admin_port, f"/ui/{name}", {"If-None-Match": plain.get("etag")})
        assert again.status == 304 and again.body == b""
    for name in ("/ui/no.js", "/ui/../app.js", "/ui/%2e%2e/rules.yaml", "/ui/"):
        assert fetch(serve.admin_port, "GET", name).status == 404, name


def test_page_opens_by_link_and_not_in_a_frame(serve):
    """A link of another site may open the page, but not in a frame, and it cannot read the session."""
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
    assert get(serve.admin_port, "/", link).status == 200
    assert get(serve.admin_port, "/", {**link, "Sec-Fetch-Dest": "iframe"}).status == 403
    assert get(serve.admin_port, "/v1/session", link).status == 403


# ---- changes ----

def test_change_from_a_page_needs_the_page_token(serve):
    port = serve.admin_port
    own = {"Origin": f"http://127.0.0.1:{port}", "Host": f"127.0.0.1:{port}"}
    body = json.dumps({"domain": "api", "entries": [{"key": "quiet", "value": "x"}]}).encode()
    page = ask_admin(port, "/v1/session")["page"]
    assert len(page) == 32
    for extra in ({}, {"X-Weir-Page": ""}, {"X-Weir-Page": page[:-1] + "g"}, {"X-Weir-Page": page + "0"}):
        answer = fetch(port, "POST", "/v1/key/reset", {**JSON, **own, **extra}, body)
        assert answer.status == 403 and b"X-Weir-Page" in answer.body, extra
    assert fetch(port, "POST", "/v1/key/reset", {**JSON, **own, "X-Weir-Page": page}, body).status == 200
    evil = {"Origin": "http://evil.example", "Host": f"127.0.0.1:{port}", "X-Weir-Page": page}
    assert fetch(port, "POST", "/v1/key/reset", {**JSON, **evil}, body).status == 403
    assert fetch(port, "POST", "/v1/key/reset", JSON, body).status == 200  # weir key, curl


def test_changes_of_a_key_are_listed(serve, clock):
    key = {"domain": "api", "entries": [{"key": "quiet", "value": "told"}]}
    assert ask_admin(serve.admin_port, "/v1/key/changes", key) == {"changes": []}
    ask_admin(serve.admin_port, "/v1/key/ban", {**key, "for": "1h"})
    banned_at = clock.now()
    clock.advance(1)
    ask_admin(serve.admin_port, "/v1/key/reset", key)
    done = ask_admin(serve.admin_port, "/v1/key/changes", key)["changes"]
    assert [c["what"].split(":")[0] for c in done] == ["reset api quiet=told", "ban api quiet=told for 3600 s"]
    assert done[0]["who"] == "127.0.0.1" and [int(c["at"]) for c in done] == [banned_at + 1, banned_at]
    assert ask_admin(serve.admin_port, "/v1/changes")["changes"][:2] == done
    other = {"domain": "api", "entries": [{"key": "quie", "value": "ttold"}]}
    assert ask_admin(serve.admin_port, "/v1/key/changes", other) == {"changes": []}


def test_source_selects_the_counter(serve):
    """A key with several sources has a counter for each source; `source` selects one."""
    assert ask(serve, "sourced", 4) == [True, True, True, False]
    key = {"domain": "api", "entries": [{"key": "user", "value": "sourced"}]}
    assert ask_admin(serve.admin_port, "/v1/key/get", key)["counters"][0]["remaining"] == 3
    key["entries"][0]["source"] = "header.x-user"
    assert ask_admin(serve.admin_port, "/v1/key/get", key)["counters"][0]["remaining"] == 0
    ask_admin(serve.admin_port, "/v1/key/reset", key)
    assert ask(serve, "sourced") == [True]


# ---- read ----

def test_overview_counts_and_pages(clock):
    """A new service, so that all counts are of the last minute. Keys are recorded from the second in which a rule was
    first used."""
    with Serve(rules=RULES, http=True, admin=True) as serve:
        serve.pass_seconds(clock, 2)
        assert ask(serve, "a", 5) == [True] * 3 + [False] * 2
        serve.pass_seconds(clock)
        assert ask(serve, "a") == [False]
        serve.pass_seconds(clock)
        user = rows(serve, "?by=refused")[0]
        assert user["rule"] == "api/user/365d" and user["words"] == "fixed_window, 3 per 365d"
        assert (user["admitted"], user["refused"], user["window"]["refused"]) == (3, 3, 3)
        assert user["window"]["all"] == [0] * 59 + [6]
        assert (user["most_refused"]["text"], user["most_refused"]["exact"]) == ("a", True)
        by_name = rows(serve, "?by=name")
        assert [r["rule"] for r in by_name] == ["api/quiet/1h", "api/user/365d"]
        assert [r["rule"] for r in rows(serve, "?by=name&first=1&count=1")] == ["api/user/365d"]
        assert [r["rule"] for r in rows(serve, "?filter=QUI")] == ["api/quiet/1h"]
        assert rows(serve, "?filter=nothing") == []
        for bad in ("?by=size", "?count=201", "?first=-1", "?span=days", "?slot=x", "?filter=" + "x" * 64):
            assert get(serve.admin_port, f"/v1/overview{bad}").status == 400, bad


def test_rate_per_second_is_current(serve, clock):
    """The rate is that of the last ten seconds."""
    def pace():
        answer = ask_admin(serve.admin_port, "/v1/overview?filter=api/user")
        return answer["rules"]["rows"][0]["per_second"], answer["totals"]["per_second"]

    serve.pass_seconds(clock, 11)
    assert pace() == (0, 0)
    ask(serve, "pace", 20)
    serve.pass_seconds(clock)
    assert pace() == (2, 2)
    serve.pass_seconds(clock, 9)
    assert pace() == (2, 2)
    serve.pass_seconds(clock)
    assert pace() == (0, 0)


def test_page_of_one_rule(serve, clock):
    """/v1/rule returns the rule in force, its keys, its candidates and both histories."""
    ask(serve, "b", 6)
    serve.pass_seconds(clock)
    ask(serve, "b", 6)
    slot = rows(serve, "?filter=user")[0]["slot"]
    assert "b" in [k["text"] for k in ask_admin(serve.admin_port, f"/v1/rule?slot={slot}")["refused_keys"]["keys"]]
    rule = ask_admin(serve.admin_port, f"/v1/rule?slot={slot}")
    assert rule["in_force"]["domain"] == "api"
    assert rule["in_force"]["descriptor"] == [{"key": "user", "open": True}]
    candidate = rule["candidates"][0]
    assert candidate["text"].startswith("fixed_window, 5 per") and candidate["refuses_more"] == 0
    assert candidate["would_admit"] + candidate["would_refuse"] == rule["admitted"] + rule["refused"]
    assert len(rule["history"]["admitted"]) == len(candidate["history"]["admitted"])
    minutes = ask_admin(serve.admin_port, f"/v1/rule?slot={slot}&span=minutes")["history"]
    assert minutes["span"] == 60
    assert get(serve.admin_port, "/v1/rule?slot=4294967294").status == 404


def test_fleet_lists_the_hosts(serve):
    fleet = ask_admin(serve.admin_port, "/v1/fleet")
    assert [(h["pid"], h["name"]) for h in fleet["hosts"]] == [(serve.pid, "serve")]
    assert fleet["hosts"][0]["rules_hash"] == fleet["health"]["rules"]["hash"]


def test_explain_a_request(serve):
    """/v1/explain returns the descriptors, sources and rules of a request or a descriptor."""
    request = {"method": "POST", "target": "/v1/posts", "headers": {"x-user": "7"}, "address": "192.0.2.7"}
    domain = ask_admin(serve.admin_port, "/v1/explain", {"request": request})["domains"][0]
    walk = domain["descriptors"][0]
    assert walk["entries"] == [{"key": "user", "value": "7", "source": "header.x-user"}]
    assert walk["limits"][0]["stat"] == "api/user/365d" and walk["rule"]["line"] == 6
    key = {"domain": "api", "entries": [{"key": "user", "value": "7"}]}
    assert ask_admin(serve.admin_port, "/v1/explain", key)["domains"][0]["sources"] == [["header.x-user", "remote_address"]]
    none = {"domain": "no such", "entries": [{"key": "user", "value": "7"}]}
    assert ask_admin(serve.admin_port, "/v1/explain", none)["domains"][0]["known"] is False
    for bad in ({}, {"domain": "api"}, {"entries": key["entries"]}, {"request": {}}, {"reqest": {}}, {**key, "request": request}):
        answer = fetch(serve.admin_port, "POST", "/v1/explain", JSON, json.dumps(bad).encode())
        assert answer.status == 400, bad


def test_rule_files_and_their_errors():
    """/v1/rules/text returns the files on disk and their errors."""
    with Serve(rules=RULES, admin=True) as serve:
        text = ask_admin(serve.admin_port, "/v1/rules/text")
        assert [f["name"] for f in text["files"]] == [str(serve.rules)]
        assert text["files"][0]["text"] == serve.rules.read_text(encoding="utf-8")
        assert not [d for d in text["diagnostics"] if d["severity"] == "error"]
        broken = serve.rules.read_text(encoding="utf-8").replace("unit: hour", "unit: huor")
        serve.write_rules(broken + "# \u00fc and " + "\n")
        serve.wait_logged("error")
        text = ask_admin(serve.admin_port, "/v1/rules/text")
        error = [d for d in text["diagnostics"] if d["severity"] == "error"][0]
        assert (error["line"], text["rules"]["generation"]) == (12, 1) and "huor" in error["message"]
        assert "huor" in text["rules"]["error"] and text["files"][0]["text"].count("\u00fc") == 1


# ---- events ----

def events(port, target="/v1/fleet"):
    """Requests a stream of events. Returns the client."""
    client = Client(port)
    client.send("GET", target, {"Accept": "text/event-stream"})
    return client


def read_events(client, count):
    """Returns the data of this many events from a chunked response."""
    seen = b""
    while seen.count(b"\n\n") < count:
        piece = client.socket.recv(65536)
        assert piece, seen
        seen += piece
    return seen


def test_events_are_repeated(serve):
    with events(serve.admin_port, "/v1/overview?count=1") as client:
        seen = read_events(client, 2)
    assert seen.startswith(b"HTTP/1.1 200") and b"text/event-stream" in seen.split(b"\r\n\r\n")[0]
    assert seen.count(b"data: {\"now\":") >= 2


def test_event_streams_are_limited_and_released(serve):
    clients = []
    while len(clients) < 20:
        client = events(serve.admin_port)
        if b" 503 " in client.socket.recv(100):
            client.close()
            break
        clients.append(client)
    assert len(clients) in (15, 16)  # a client of the previous test may have disconnected just now
    for client in clients:
        read_events(client, 1)
    assert get(serve.admin_port, "/v1/fleet").status == 200
    for client in clients:
        client.vanish()
    wait_for(lambda: try_events(serve.admin_port), "the stream to be accepted", 20)


def try_events(port):
    """Returns whether the service accepts another stream of events."""
    with contextlib.closing(events(port)) as client:
        return b" 200 " in client.socket.recv(100)


def test_events_end_with_the_service():
    """The shutdown does not wait for clients of event streams, whether they read or not."""
    with Serve(rules=RULES, admin=True, args=["--drain", "1h"]) as serve:
        client = events(serve.admin_port)
        read_events(client, 1)
        stuck = events(serve.admin_port, "/v1/overview")  # reads nothing
        serve.stop()
        client.close()
        stuck.close()
