"""The admin API: its data and changes, permissions, and the log."""

import json
import os
import re
import socket

import pytest

from weirtest import JSON, Client, Closed, fetch, free_port, patience, wait_for
from weirtest.openapi import check_answer
from weirtest.serve import Serve

RULES = """
domain: api
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 3, name: per-user}
  - key: user
    value: vip
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 50}
  - key: route
    descriptors:
      - key: ip
        rate_limit: {unit: year, requests_per_unit: 1}
"""
TOKEN = "0123456789abcdef-token-of-ann"


def admin(where, target, body=None, headers=(), method=None):
    """Sends a request to the admin API and checks the response against docs/openapi.yaml."""
    method = method or ("GET" if body is None else "POST")
    raw = None if body is None else json.dumps(body).encode()
    answer = fetch(where, method, target, {**JSON, **dict(headers)}, raw)
    check_answer(method, target, answer)
    return answer


def ask_admin(where, target, body=None, **more):
    """Sends a request that must succeed to the admin API. Returns the JSON of the response."""
    answer = admin(where, target, body, **more)
    assert answer.status in (200, 202), answer.body
    return json.loads(answer.body)


def key(*pairs, **more):
    return {"domain": "api", "entries": [{"key": k, "value": v} for k, v in pairs], **more}


def ask(serve, *pairs, hits=1):
    body = {"domain": "api", "hits": hits,
            "descriptors": [{"entries": [{"key": k, "value": v} for k, v in pairs]}]}
    return json.loads(fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode()).body)


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True, admin=True) as running:
        yield running


def test_rules_and_status(serve):
    rules = ask_admin(serve.admin_port, "/v1/rules")
    assert (rules["generation"], rules["error"], len(rules["domains"])) == (1, None, 1)
    limits = rules["domains"][0]["rules"]
    assert [r["rule"] for r in limits] == ["api/user/365d", "api/user=vip/1h", "api/route/ip/365d"]
    assert limits[0]["limit"] == "3 per year" and limits[0]["name"] == "per-user"
    assert limits[1]["descriptor"] == [{"key": "user", "value": "vip"}] and limits[1]["shadow"]
    assert limits[2]["line"] == 12
    status = ask_admin(serve.admin_port, "/v1/status")
    assert status["health"] == "serving" and status["pid"] == serve.pid
    assert {x["name"] for x in status["listeners"]} == {"http", "admin"}
    assert status["rules"]["hash"] == rules["hash"]
    assert status["table"]["path"].startswith(serve.table)


def test_rules_with_a_ban():
    """/v1/rules has the settings of `ban`, with defaults, and null for a limit without a ban."""
    rules = """
domain: api
descriptors:
  - key: remote_address
    rate_limits:
      - {unit: minute, requests_per_unit: 100, ban: {after: 50, for: 10m, grow: 3, shield: true}}
      - {unit: day, requests_per_unit: 5000}
"""
    with Serve(rules=rules, admin=True) as serve:
        limits = ask_admin(serve.admin_port, "/v1/rules")["domains"][0]["rules"]
    assert [r["ban"] for r in limits] == [
        {"after": 50, "within": 60, "for": 600, "grow": 3, "max": 86400, "shield": True}, None]


def test_rlconfig_has_the_format_of_the_reference(serve):
    """/rlconfig has the lines that envoyproxy/ratelimit prints."""
    lines = admin(serve.admin_port, "/rlconfig").body.decode().splitlines()
    assert sorted(lines) == [
        "api.route.ip: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false",
        "api.user: unit=YEAR requests_per_unit=3, shadow_mode: false, quota_mode: false",
        "api.user_vip: unit=HOUR requests_per_unit=50, shadow_mode: true, quota_mode: false"]


def test_reset_of_a_key(serve):
    for _ in range(4):
        last = ask(serve, ("user", "reset"))
    assert not last["admitted"]
    before = ask_admin(serve.admin_port, "/v1/key/get", key(("user", "reset")))["counters"]
    assert [(c["rule"], c["remaining"], c["limit"]) for c in before] == [("api/user/365d", 0, 3)]
    after = ask_admin(serve.admin_port, "/v1/key/reset", key(("user", "reset")))["counters"]
    assert after[0]["remaining"] == 3 and after[0]["reset_after"] == 0
    assert ask(serve, ("user", "reset"))["remaining"] == 2
    serve.wait_logged("admin: 127.0.0.1: reset api user=reset: 1 counter")


def test_grant_to_a_key(serve):
    counter = ask_admin(serve.admin_port, "/v1/key/grant",
                   key(("user", "grant"), extra=2, **{"for": "1h"}))["counters"][0]
    assert (counter["limit"], counter["remaining"], counter["granted"]) == (5, 5, 2)
    assert [ask(serve, ("user", "grant"))["admitted"] for _ in range(6)] == [True] * 5 + [False]
    ended = ask_admin(serve.admin_port, "/v1/key/grant", key(("user", "grant"), extra=0))["counters"][0]
    assert (ended["limit"], ended["remaining"], ended["granted_until"]) == (3, 0, None)
    serve.wait_logged("grant 2 api user=grant for 3600 s: 1 counter")


def test_ban_and_lift(serve):
    banned = ask_admin(serve.admin_port, "/v1/key/ban", key(("user", "ban"), **{"for": "1h"}))["counters"][0]
    assert banned["banned_until"] > 0 and banned["remaining"] == 3
    refused = ask(serve, ("user", "ban"))
    assert not refused["admitted"] and 3600 - patience(60) < refused["retry_after"] <= 3601
    assert ask(serve, ("user", "other"))["admitted"]
    listed = ask_admin(serve.admin_port, "/v1/overrides")["overrides"]
    assert [(o["key"], o["rule"]) for o in listed if o["banned_until"]] == [
        ("api|user=ban", "api/user/365d")]
    ask_admin(serve.admin_port, "/v1/key/ban", key(("user", "ban"), lift=True))
    assert ask(serve, ("user", "ban"))["remaining"] == 2
    ever = ask_admin(serve.admin_port, "/v1/key/ban", key(("user", "ever"), **{"for": "ever"}))["counters"][0]
    assert ever["banned_until"] == "ever" and ask(serve, ("user", "ever"))["retry_after"] is None


def test_pause_and_resume(serve):
    pair = (("route", "/a"), ("ip", "192.0.2.1"))
    assert [ask(serve, *pair)["admitted"] for _ in range(2)] == [True, False]
    assert ask_admin(serve.admin_port, "/v1/pause", {"rule": "api/route"})["paused"] == ["api/route"]
    assert ask(serve, *pair)["admitted"]
    assert ask_admin(serve.admin_port, "/v1/key/get", key(*pair))["counters"][0]["paused"]
    assert ask_admin(serve.admin_port, "/v1/pause", {})["paused"] == ["", "api/route"]
    assert ask_admin(serve.admin_port, "/v1/status")["pauses"] == 2
    assert ask_admin(serve.admin_port, "/v1/resume", {})["paused"] == ["api/route"]
    assert admin(serve.admin_port, "/v1/resume", {}).status == 404
    assert ask_admin(serve.admin_port, "/v1/resume", {"rule": "api/route"})["paused"] == []
    assert ask_admin(serve.admin_port, "/v1/paused")["paused"] == []
    assert not ask(serve, *pair)["admitted"]
    serve.wait_logged("pause everything")


@pytest.mark.parametrize("target,body,status,pointer", [
    ("/v1/key/get", {"domain": "api"}, 400, ""),
    ("/v1/key/get", {"domain": "api", "entries": [{"key": ""}]}, 400, "/entries/0"),
    ("/v1/key/get", {**key(("user", "x")), "for": "1h"}, 400, "/for"),
    ("/v1/key/get", key(("nothing", "x")), 404, None),
    ("/v1/key/get", {**key(("user", "x")), "domain": "elsewhere"}, 404, None),
    ("/v1/key/ban", key(("user", "x")), 400, ""),
    ("/v1/key/ban", key(("user", "x"), lift=True, **{"for": "1h"}), 400, ""),
    ("/v1/key/ban", key(("user", "x"), **{"for": "soon"}), 400, "/for"),
    ("/v1/key/ban", key(("user", "x"), until=1), 400, "/until"),
    ("/v1/key/grant", key(("user", "x"), **{"for": "1h"}), 400, ""),
    ("/v1/key/grant", key(("user", "x"), extra=3), 400, ""),
    ("/v1/key/grant", key(("user", "x"), extra=-3, **{"for": "1h"}), 400, "/extra"),
    ("/v1/pause", {"rul": "x"}, 400, "/rul"),
    ("/v1/pause", [], 400, "")])
def test_error_points_at_the_invalid_member(serve, target, body, status, pointer):
    answer = admin(serve.admin_port, target, body)
    assert answer.status == status
    assert json.loads(answer.body).get("pointer") == pointer


def test_last_reload_error_is_shown():
    with Serve(rules=RULES, admin=True) as serve:
        serve.write_rules("domain: api\ndescriptors: [{key: user, rate_limi: {}}]\n")
        ask_admin(serve.admin_port, "/v1/reload", {})
        error = wait_for(lambda: ask_admin(serve.admin_port, "/v1/rules")["error"], "the error")
        assert "rate_limi" in error["text"] and "rules.yaml:2" in error["text"]
        assert ask_admin(serve.admin_port, "/v1/status")["rules"]["generation"] == 1
        serve.write_rules(RULES.replace("requests_per_unit: 3", "requests_per_unit: 4"))
        ask_admin(serve.admin_port, "/v1/reload", {})
        # 2 if the reload order read them, 3 if the change had been noticed before
        wait_for(lambda: ask_admin(serve.admin_port, "/v1/rules")["generation"] >= 2, "new rules")
        assert ask_admin(serve.admin_port, "/v1/rules")["error"] is None
        serve.wait_logged("admin: 127.0.0.1: reload", times=2)


# ---- permissions ----

def test_requests_of_other_sites_are_refused(serve):
    """Wrong Host, foreign Origin and form bodies are refused, even with a valid token."""
    port = serve.admin_port
    rebound = admin(port, "/v1/status", headers={"Host": "evil.example"})
    assert rebound.status == 421
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "127.5.5.5", "[::1]:99"):
        assert admin(port, "/v1/status", headers={"Host": host}).status == 200, host
    for host in ("localhost.evil.example", "128.0.0.1", "[::2]", ""):
        assert admin(port, "/v1/status", headers={"Host": host}).status == 421, host
    own = {"Host": f"127.0.0.1:{port}", "Origin": f"http://127.0.0.1:{port}"}
    assert admin(port, "/v1/status", headers=own).status == 200
    foreign = admin(port, "/v1/pause", {}, headers={"Origin": "http://evil.example"})
    assert foreign.status == 403 and "access-control-allow-origin" not in foreign.names()
    assert admin(port, "/v1/status", headers={"Origin": "null"}).status == 403
    form = fetch(port, "POST", "/v1/pause", {"Content-Type": "text/plain"}, b"{}")
    assert form.status == 415
    assert fetch(port, "OPTIONS", "/v1/pause", {"Origin": "http://localhost"}).status in (403, 405)
    assert ask_admin(port, "/v1/paused")["paused"] == []


def shown_token(serve):
    """Returns the token in the log of the service."""
    [token] = re.findall(rf"dashboard at http://127\.0\.0\.1:{serve.admin_port}/#token=([0-9a-f]{{64}})\n", serve.log())
    return token


def test_token_is_created_at_start():
    """A client that only reaches the port cannot see keys or change anything."""
    with Serve(rules=RULES, admin=True) as serve, Serve(rules=RULES, admin=True) as other:
        token, port = shown_token(serve), serve.admin_port
        assert token != shown_token(other)
        for target, method in (("/v1/status", "GET"), ("/v1/overview", "GET"), ("/v1/session", "GET"), ("/rlconfig", "GET"),
                               ("/v1/pause", "POST"), ("/v1/key/reset", "POST"), ("/v1/reload", "POST"), ("/nowhere", "GET")):
            answer = fetch(port, method, target, JSON, b"{}" if method == "POST" else None, anonymous=True)
            assert (answer.status, answer.get("www-authenticate")) == (401, "Bearer"), target
        for wrong in (shown_token(other), token[:-1], token + "0", token.upper(), ""):
            assert fetch(port, "POST", "/v1/pause", {**JSON, "Authorization": f"Bearer {wrong}"}, b"{}").status == 401, wrong
        right = {**JSON, "Authorization": f"Bearer {token}"}
        assert fetch(port, "GET", "/v1/paused", right).body == b'{"paused":[]}\n'
        assert fetch(port, "POST", "/v1/pause", right, b"{}").status == 200
        serve.wait_logged("admin: 127.0.0.1: pause everything")
        assert json.loads(fetch(port, "GET", "/v1/session", right).body)["token"] == "made at start"


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_half_closed_client_gets_a_long_response(version):
    """Another thread writes the page, which exceeds the kernel's socket buffer."""
    rules = "domain: rl\ndescriptors:\n" + "".join(
        f"  - {{key: user, value: v{i}, rate_limit: {{unit: day, requests_per_unit: 1, name: a-rule-with-a-long-name-{i}}}}}\n"
        for i in range(4000))
    with Serve(rules=rules, admin=True, memory="64M", args=["--admin-open"]) as serve, socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(patience(20))
        s.connect(("127.0.0.1", serve.admin_port))
        s.sendall(f"GET /metrics HTTP/{version}\r\nHost: 127.0.0.1\r\n\r\n".encode())
        s.shutdown(socket.SHUT_WR)
        ask_admin = b""
        while piece := s.recv(65536):
            ask_admin += piece
        head, body = ask_admin.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and len(body) > 1000000
        assert f"Content-Length: {len(body)}".encode() in head


def test_endpoints_without_a_token():
    """The page itself and the metrics need no token, because they contain no client names."""
    with Serve(rules=RULES, http=True, admin=True) as serve:
        asked = [{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "mallory@example.org"}]}]}] * 100

        def is_shown():
            assert fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(asked).encode()).status == 200
            return b"mallory" in admin(serve.admin_port, "/v1/overview").body

        wait_for(is_shown, "the client to be shown with a token")
        for target in ("/", "/ui/app.js"):
            assert fetch(serve.admin_port, "GET", target, anonymous=True).status == 200
        for accept in ("text/plain", "application/openmetrics-text; version=1.0.0"):
            counts = fetch(serve.admin_port, "GET", "/metrics", {"Accept": accept}, anonymous=True)
            assert counts.status == 200 and b'result="refused"} ' in counts.body
            assert b"mallory" not in counts.body


def test_admin_open_needs_no_token():
    with Serve(rules=RULES, admin=True, args=["--admin-open"]) as serve:
        assert f"dashboard at http://127.0.0.1:{serve.admin_port}/\n" in serve.log()
        assert fetch(serve.admin_port, "POST", "/v1/pause", JSON, b"{}", anonymous=True).status == 200
        assert json.loads(fetch(serve.admin_port, "GET", "/v1/session", anonymous=True).body)["token"] is None
    with Serve(rules=RULES, admin=True, variables={"WEIR_ADMIN_OPEN": "on"}) as serve:
        assert fetch(serve.admin_port, "GET", "/v1/status", anonymous=True).status == 200
    code, output = Serve(rules=RULES, admin=True, args=["--admin-open", "--admin-token-file", "x"], start=False).run()
    assert code == 1 and "--admin-open and --admin-token-file exclude each other" in output
    code, output = Serve(rules=RULES, admin=f"0.0.0.0:{free_port()}", args=["--admin-open"], start=False).run()
    assert code == 1 and "--admin-token-file" in output


def test_wrong_tokens_are_throttled():
    """An address may send 20 wrong tokens at once, then one a second. The right token is always accepted."""
    with Serve(rules=RULES, admin=True) as serve:
        with Client(serve.admin_port) as guesser:
            for n in range(64):
                guesser.send("GET", "/v1/status", {"Authorization": f"Bearer {n:064x}"})
            ask_admin = [guesser.read()]
            while ask_admin[-1].status == 401:
                ask_admin.append(guesser.read())
            assert len(ask_admin) > 20 and ask_admin[-1].status == 429
            check_answer("GET", "/v1/status", ask_admin[-1])
            assert (ask_admin[-1].get("retry-after"), ask_admin[-1].get("connection")) == ("1", "close")
            assert json.loads(ask_admin[-1].body)["code"] == "too_often"
            with pytest.raises(Closed):
                guesser.read()
        assert admin(serve.admin_port, "/v1/status").status == 200
        assert fetch(serve.admin_port, "GET", "/v1/status", anonymous=True).status == 401


def token_file(serve, text, mode=0o600):
    """Writes the service's file of admin tokens."""
    path = serve.folder / "tokens"
    path.write_text(text, encoding="ascii")
    os.chmod(path, mode)


def test_token_file():
    """Tokens of the file are accepted with their name in the log. A changed file is read again."""
    serve = Serve(rules=RULES, admin=True, args=["--admin-token-file", "{folder}/tokens"], start=False)
    with serve:
        token_file(serve, f"# people\nann:{TOKEN}\n\n0123456789abcdef0123\n")
        serve.start()
        port = serve.admin_port
        assert admin(port, "/v1/status").status == 401
        for wrong in ("Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}",
                      TOKEN, "Bearer ann", f"Bearer ann:{TOKEN}"):
            assert admin(port, "/v1/status", headers={"Authorization": wrong}).status == 401, wrong
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert admin(port, "/v1/pause", {}, headers=right).status == 200
        serve.wait_logged("admin: 127.0.0.1, token ann: pause everything")
        nameless = {"Authorization": "bearer 0123456789abcdef0123"}
        assert admin(port, "/v1/resume", {}, headers=nameless).status == 200
        serve.wait_logged("token line 4: resume everything")
        token_file(serve, "bob:another-token-of-bob-0\n")
        assert admin(port, "/v1/status", headers=right).status == 401
        assert admin(port, "/v1/status", headers={
            "Authorization": "Bearer another-token-of-bob-0"}).status == 200
        assert TOKEN not in serve.log()


@pytest.mark.parametrize("text,mode,message", [
    ("short\n", 0o600, "at least 16"), ("# none\n", 0o600, "no token"),
    (f"{TOKEN}\n", 0o644, "chmod 640")])
def test_invalid_token_files_prevent_the_start(text, mode, message):
    serve = Serve(rules=RULES, admin=True, args=["--admin-token-file", "{folder}/tokens"], start=False)
    token_file(serve, text, mode)
    code, output = serve.run()
    assert code == 1 and message in output


def test_folder_is_no_token_file():
    serve = Serve(rules=RULES, admin=True, args=["--admin-token-file", "{folder}/tokens"], start=False)
    (serve.folder / "tokens").mkdir(mode=0o700)
    code, output = serve.run()
    assert code == 1 and "FOLDER/tokens is not a regular file" in output


def test_public_admin_port_needs_a_token():
    code, output = Serve(rules=RULES, admin=f"0.0.0.0:{free_port()}", start=False).run()
    assert code != 0 and "--admin-token-file" in output


def test_admin_api_over_a_unix_socket():
    with Serve(rules=RULES, admin="unix:{folder}/admin.sock") as serve:
        where = str(serve.folder / "admin.sock")
        assert ask_admin(where, "/v1/pause", {"rule": "api"}, headers={"Host": "anything"})["paused"] == ["api"]
        serve.wait_logged(f"admin: uid {os.getuid()} (pid {os.getpid()}): pause api")


def test_hostile_names_are_escaped_in_the_log(serve):
    ask_admin(serve.admin_port, "/v1/key/reset", key(("user", "a\u001b[31m\nb\u0000" + "x" * 10000)))
    serve.wait_logged("reset api user=a")
    assert "\x1b" not in serve.log() and "x" * 3000 not in serve.log()


def test_admin_port_has_its_own_connection_limit():
    with Serve(rules=RULES, http=True, admin=True, args=["--max-connections", "2"]) as serve:
        with Client(serve.http_port) as a, Client(serve.http_port) as b:
            assert a.get("/healthz").status == b.get("/healthz").status == 200
            assert ask_admin(serve.admin_port, "/v1/status")["connections"] == 2
