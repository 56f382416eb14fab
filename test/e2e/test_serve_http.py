"""/v1/check, /json, health and their limits, over real sockets.

Every response is checked against docs/openapi.yaml."""

import contextlib
import json
import socket
import threading
import time

import pytest

from weirtest import JSON, Client, Clock, Closed, connect, fetch, free_port, full, patience, wait_for
from weirtest.openapi import DOCUMENT, check_answer, check_question, routes
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - descriptor: [{key: user, from: header.x-user}]
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 3, name: per-user}
  - key: shadowed
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: free
    rate_limit: {unlimited: true}
  - key: door
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 1}
  - key: group
    descriptors:
      - key: user
        rate_limit: {unit: year, requests_per_unit: 2}
  - key: never
    rate_limit: {unit: second, requests_per_unit: 0}
"""


def descriptor(*pairs, **more):
    return {"entries": [{"key": k, "value": v} for k, v in pairs], **more}


def question(*pairs, **more):
    return {"domain": "api", "descriptors": [descriptor(*pairs)], **more}


def post(port, target, body, headers=tuple(JSON.items()), method="POST"):
    """Sends a body and checks the response against docs/openapi.yaml."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = fetch(port, method, target, headers, raw)
    check_answer(method, target, response)
    return response


def ask(port, body):
    """Sends a valid question to /v1/check. Returns the JSON of the response."""
    check_question("/v1/check", body)
    response = post(port, "/v1/check", body)
    assert response.status == 200, response.body
    assert response.get("content-type") == "application/json"
    return json.loads(response.body)


@pytest.fixture(scope="module", autouse=True)
def clock():
    """A clock that stands still, so that times in responses are exact."""
    with Clock() as stands:
        yield stands


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True, admin=True, args=["--refunds", "127.0.0.1"]) as running:
        yield running


# ---- /v1/check ----

def test_remaining_counts_down_then_requests_are_refused(serve, clock):
    reported = [ask(serve.http_port, question(("user", "down"))) for _ in range(4)]
    assert [t["admitted"] for t in reported] == [True, True, True, False]
    assert [t["remaining"] for t in reported] == [2, 1, 0, 0]
    assert [t["status"] for t in reported] == [200, 200, 200, 429]
    assert {t["limit"] for t in reported} == {3}
    assert {t["rule"] for t in reported} == {"api/user/365d"}
    assert reported[0]["name"] == "per-user" and reported[0]["generation"] == 1
    year = 365 * 86400
    assert reported[0]["retry_after"] == 0 and reported[3]["retry_after"] == reported[3]["reset_after"] == year - clock.now() % year
    assert reported[3]["descriptors"][0]["code"] == "over_limit"
    assert reported[3]["verdict"] == "refuse" and reported[3]["delay"] == 0


def test_response_reports_the_tightest_of_several_limits(serve):
    body = {"domain": "api", "descriptors": [descriptor(("user", "t")),
                                             descriptor(("group", "g"), ("user", "t"))]}
    reported = ask(serve.http_port, body)
    assert (reported["limit"], reported["remaining"]) == (2, 1)
    assert [d["remaining"] for d in reported["descriptors"]] == [2, 1]
    assert [d["requests_per_unit"] for d in reported["descriptors"]] == [3, 2]
    assert {d["unit"] for d in reported["descriptors"]} == {"year"}


def test_hits_of_zero_peek_and_negative_hits_refund(serve, clock):
    port = serve.http_port
    assert ask(port, question(("user", "h"), hits=2))["remaining"] == 1
    assert ask(port, question(("user", "h"), hits=0))["remaining"] == 1
    own = {"domain": "api", "descriptors": [descriptor(("user", "h"), hits=2)]}
    assert ask(port, own)["admitted"] is False
    refused = post(port, "/v1/check", question(("user", "h"), hits=-2))
    assert refused.status == 400 and "/v1/commit" in json.loads(refused.body)["detail"]
    year = 365 * 86400
    # Units of the year before are not given back to this year.
    assert ask(port, question(("user", "h"), hits=-2, taken_at=clock.now() // year * year - 0.5))["remaining"] == 1
    assert ask(port, question(("user", "h"), hits=-2, taken_at=clock.now()))["remaining"] == 3
    for wrong, code in (("now", "wrong_type"), (0, "bad_value"), (1e10, "bad_value")):
        refused = post(port, "/v1/check", question(("user", "h"), hits=-2, taken_at=wrong))
        assert refused.status == 400 and json.loads(refused.body)["code"] == code
    assert ask(port, {**own, "hits": 3})["remaining"] == 1  # the descriptor's own hits take precedence


def test_refund_without_permission_is_refused(serve):
    """Without --refunds every HTTP endpoint refuses negative hits, and nothing is counted."""
    with Serve(rules=RULES, http=True, resp="unix:{folder}/resp") as closed:
        port = closed.http_port
        assert ask(port, question(("user", "g"), hits=3))["remaining"] == 0
        for body in (question(("user", "g"), hits=-1000000),
                     {"domain": "api", "descriptors": [descriptor(("user", "g"), hits=-3)]},
                     {"descriptors": [{"hits": -3, "entries": [{"value": "g", "key": "user"}]}], "hits": 1, "domain": "api"},
                     {"domain": "api", "request": {"method": "GET", "target": "/", "headers": {"x-user": "g"}}, "hits": -3}):
            refused = post(port, "/v1/check", body)
            assert (refused.status, json.loads(refused.body)["code"]) == (403, "forbidden"), body
            assert json.loads(refused.body)["detail"] == ("hits below 0 give counted units back, and this client is not "
                                                          "allowed to do that; add its address to --refunds"), body
        both = json.loads(post(port, "/v1/check", [question(("user", "g"), hits=-3), question(("user", "g"), hits=0)]).body)
        assert both[0]["problem"]["code"] == "forbidden" and both[1]["remaining"] == 0
        negative = {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "g"}], "isNegativeHits": True}]}
        refused = post(port, "/json", negative)
        assert (refused.status, refused.body) == (403, b"Forbidden: hits below 0 give counted units back, and this client "
                                                  b"is not allowed to do that; add its address to --refunds\n")
        assert ask(port, question(("user", "g"), hits=0))["remaining"] == 0
    assert post(serve.http_port, "/json", negative).status == 200


def test_refunds_over_a_unix_socket(clock):
    with Serve(rules=RULES, http="unix:{folder}/http") as near:
        where = str(near.folder / "http")
        assert ask(where, question(("user", "u"), hits=3))["remaining"] == 0
        assert ask(where, question(("user", "u"), hits=-2, taken_at=clock.now()))["remaining"] == 2


def test_flags_name_the_reason(serve):
    """`flags` reports shadow mode and unlimited rules; a request without a rule is admitted with null limits."""
    port = serve.http_port
    reported = [ask(port, question(("shadowed", "x"))) for _ in range(2)]
    assert [t["admitted"] for t in reported] == [True, True]
    assert reported[1]["descriptors"][0]["flags"] == ["shadow", "would_refuse"]
    assert ask(port, question(("free", "x")))["descriptors"][0]["flags"] == ["unlimited"]
    none = ask(port, question(("nothing", "x")))
    assert none["admitted"] and none["rule"] is None and none["limit"] is None
    assert ask(port, {**question(("user", "x")), "domain": "elsewhere"})["admitted"]
    assert ask(port, question(("never", "x")))["retry_after"] is None


def test_limit_in_the_request_overrides_the_rule(serve):
    body = {"domain": "api", "descriptors": [descriptor(
        ("user", "o"), limit={"requests": 1, "unit": "month"})]}
    reported = [ask(serve.http_port, body) for _ in range(2)]
    assert [t["admitted"] for t in reported] == [True, False]
    assert reported[0]["descriptors"][0]["flags"] == ["override"]
    assert ask(serve.http_port, question(("user", "o")))["remaining"] == 2  # another period has another counter


def test_http_request_in_the_body_is_matched_to_descriptors(serve):
    """`request` in the body leads to the same counter as the descriptor."""
    body = {"domain": "api", "request": {"method": "POST", "target": "/v1/posts?x=1", "host": "h",
                                         "address": "192.0.2.7", "headers": {"X-User": "req"}}}
    assert ask(serve.http_port, body)["remaining"] == 2
    body["request"]["headers"] = {"x-user": ["req"]}
    assert ask(serve.http_port, body)["remaining"] == 1
    assert ask(serve.http_port, question(("user", "req")))["admitted"]


def test_delay_is_reported_without_waiting(serve):
    reported = [ask(serve.http_port, question(("door", "d"))) for _ in range(3)]
    assert [t["verdict"] for t in reported] == ["admit", "delay", "refuse"]
    assert [t["admitted"] for t in reported] == [True, True, False]
    assert reported[1]["delay"] == 3600 and reported[1]["status"] == 200


def test_batch_is_answered_in_order(serve):
    body = [question(("user", "m")), question(("user", "m"), hits=2), question(("user", "m")),
            question(("group", "g"), ("user", "m"))]
    reported = ask(serve.http_port, body)
    assert [t["admitted"] for t in reported] == [True, True, False, True]
    assert [t["remaining"] for t in reported] == [2, 0, 0, 1]


def test_batch_of_more_than_a_hundred_is_refused(serve):
    assert len(ask(serve.http_port, [question(("user", f"n{i}")) for i in range(100)])) == 100
    refused = post(serve.http_port, "/v1/check", [question(("user", "n"))] * 101)
    assert refused.status == 400 and json.loads(refused.body)["code"] == "too_many"


def test_one_invalid_check_of_a_batch_refuses_the_batch(serve):
    body = [question(("user", "all")), {"domain": "api", "descriptors": [{"entries": []}]}]
    refused = post(serve.http_port, "/v1/check", body)
    assert refused.status == 400
    assert json.loads(refused.body)["pointer"] == "/1/descriptors/0/entries"
    assert ask(serve.http_port, question(("user", "all"), hits=0))["remaining"] == 3


E1 = {"entries": [{"key": "user", "value": "p"}]}
WRONG = [
    (b"", "bad_json", ""),
    (b"{", "bad_json", ""),
    (b'{"domain":"a","domain":"b"}', "bad_json", ""),
    (b'"text"', "wrong_type", ""),
    (b"[]", "bad_value", ""),
    (b"\xff\xfe", "bad_json", ""),
    ({"descriptors": [E1]}, "missing_member", ""),
    ({"domain": "", "descriptors": [E1]}, "bad_value", "/domain"),
    ({"domain": 7, "descriptors": [E1]}, "wrong_type", "/domain"),
    ({"domain": "api"}, "missing_member", ""),
    ({"domain": "api", "descriptors": []}, "bad_value", "/descriptors"),
    ({"domain": "api", "descriptors": [{}]}, "missing_member", "/descriptors/0"),
    ({"domain": "api", "descriptors": [E1] * 33}, "too_many", "/descriptors"),
    ({"domain": "api", "descriptors": [{"entries": [{"value": "x"}]}]}, "missing_member",
     "/descriptors/0/entries/0"),
    ({"domain": "api", "descriptors": [{"entries": [{"key": "a"}, {"key": 1}]}]}, "wrong_type",
     "/descriptors/0/entries/1/key"),
    ({"domain": "api", "descriptors": [{"entries": [{"key": "a", "x~/y": 1}]}]}, "unknown_member",
     "/descriptors/0/entries/0/x~0~1y"),
    ({"domain": "api", "descriptors": [{**E1, "hits": 1.5}]}, "wrong_type", "/descriptors/0/hits"),
    ({"domain": "api", "descriptors": [E1], "hits": 2**33}, "bad_value", "/hits"),
    ({"domain": "api", "descriptors": [{**E1, "limit": {"requests": 1}}]}, "missing_member",
     "/descriptors/0/limit"),
    ({"domain": "api", "descriptors": [{**E1, "limit": {"requests": 1, "unit": "eon"}}]}, "bad_value",
     "/descriptors/0/limit/unit"),
    ({"domain": "api", "descriptors": [E1], "extra": 1}, "unknown_member", "/extra"),
    ({"domain": "api", "request": {"target": "/", "address": "nowhere"}}, "bad_value",
     "/request/address"),
    ({"domain": "api", "request": {"method": "GET"}}, "missing_member", "/request"),
]


@pytest.mark.parametrize("body,code,pointer", WRONG)
def test_error_points_at_the_invalid_member(serve, body, code, pointer):
    response = post(serve.http_port, "/v1/check", body)
    assert response.status == 400 and response.get("content-type") == "application/problem+json"
    problem = json.loads(response.body)
    assert (problem["code"], problem["pointer"], problem["status"]) == (code, pointer, 400)


def test_any_text_is_a_distinct_key(serve):
    for value in ("ü", "\u0000", "a\"b\\c", "\U0001f600", "x" * 5000):
        reported = ask(serve.http_port, question(("user", value)))
        assert reported["remaining"] == 2, value


# ---- /json ----

def test_json_response_is_that_of_the_reference(serve):
    """/json answers as envoyproxy/ratelimit does: 200 or 429 with protojson."""
    port = serve.http_port
    body = {"domain": "api", "descriptors": [descriptor(("user", "j"))], "hitsAddend": 2}
    first = post(port, "/json", body)
    assert first.status == 200 and first.get("content-type") == "application/json"
    reported = json.loads(first.body)
    assert reported["overallCode"] == "OK"
    assert reported["statuses"][0]["currentLimit"] == {"requestsPerUnit": 3, "unit": "YEAR",
                                                   "name": "per-user"}
    assert reported["statuses"][0]["limitRemaining"] == 1
    over = post(port, "/json", {**body, "hits_addend": 2, "hitsAddend": None} | {"hitsAddend": None})
    assert over.status == 429
    assert json.loads(over.body)["overallCode"] == "OVER_LIMIT"
    assert "limitRemaining" not in json.loads(over.body)["statuses"][0]


def test_json_accepts_all_forms_of_protojson(serve):
    port = serve.http_port
    many = {"domain": "api", "descriptors": [
        {"entries": [{"key": "user", "value": "pj"}], "hits_addend": "2"},
        {"entries": [{"key": "nothing", "value": None}], "hitsAddend": 0},
        {"entries": [{"key": "user", "value": "pk"}], "limit": {"requestsPerUnit": "5", "unit": "DAY"}},
        {"entries": [{"key": "user", "value": "pl"}], "limit": {"requests_per_unit": 6.0, "unit": 3}}]}
    reported = json.loads(post(port, "/json", many, method="PUT").body)
    assert [s.get("limitRemaining") for s in reported["statuses"]] == [1, None, 4, 5]
    assert reported["statuses"][2]["currentLimit"] == {"requestsPerUnit": 5, "unit": "DAY"}
    assert reported["statuses"][3]["currentLimit"]["unit"] == "HOUR"


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"7", b'{"domain":"api"}', b'{"domain":"","descriptors":[{"entries":[]}]}',
    b'{"domain":"api","descriptors":[],"x":1}', b'{"domain":"api","descriptors":[{"enties":[]}]}',
    b'{"domain":"api","descriptors":[{"entries":[{"key":"a"}],"limit":{"unit":"EON"}}]}',
    b'{"domain":"api","descriptors":[{"entries":[{"key":"a"}],"limit":{"unit":0}}]}',
    b'{"domain":"api","descriptors":[{"entries":[{"key":"a"}],"hitsAddend":-1}]}',
    b'{"domain":"api","descriptors":[{"entries":[{"key":7}]}]}'])
def test_invalid_json_is_refused(serve, body):
    response = post(serve.http_port, "/json", body)
    assert (response.status, response.body) == (400, b"Bad Request\n")
    assert response.get("content-type") == "text/plain; charset=utf-8"


# ---- web pages ----

@pytest.mark.parametrize("target", ["/v1/check", "/json"])
@pytest.mark.parametrize("fields, status", [
    ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": "http://localhost"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-origin"}, 403),
    ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Type": None}, 415), ({"Content-Type": "application/json; charset=utf-8"}, 200)])
def test_requests_of_web_pages_are_refused(serve, target, fields, status):
    """Requests that a page can make a browser send are refused before anything is counted."""
    fields = {k: v for k, v in {**JSON, **fields}.items() if v}
    user = f"page-{target}-{fields}"
    answer = post(serve.http_port, target, question(("user", user)), fields)
    assert answer.status == status, answer.body
    assert ask(serve.http_port, question(("user", user), hits=0))["remaining"] == (2 if status == 200 else 3)


@pytest.mark.parametrize("host, status", [
    ("evil.example", 421), ("evil.example:{port}", 421), ("127.0.0.1.evil.example", 421), ("localhost:{port}", 200),
    ("127.0.0.1:{port}", 200), ("[::1]:{port}", 200)])
def test_dns_rebinding_is_refused(serve, host, status):
    """DNS rebinding: the Host is the name of the attacker's page, which resolves to this address."""
    host = host.format(port=serve.http_port)
    answer = fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(question(("user", "dns"), hits=0)).encode(), host=host)
    check_answer("POST", "/v1/check", answer)
    assert answer.status == status
    assert fetch(serve.http_port, "GET", "/healthz", host=host).status == 200


def test_host_name_is_accepted_on_a_public_address():
    """In a cluster the Host is the name of a service."""
    port = free_port()
    with Serve(rules=RULES, http=f"0.0.0.0:{port}"):
        answer = fetch(port, "POST", "/v1/check", JSON, json.dumps(question(("user", "svc"))).encode(), host="weir:8082")
        assert answer.status == 200


# ---- health, routes ----

def test_health_endpoints(serve):
    for target, text in (("/healthz", b"ok\n"), ("/readyz", b"ready\n"), ("/healthcheck", b"OK")):
        response = fetch(serve.http_port, "GET", target)
        check_answer("GET", target, response)
        assert (response.status, response.body) == (200, text)
        head = fetch(serve.http_port, "HEAD", target)
        assert head.status == 200 and head.get("content-length") == str(len(text))


def test_wrong_path_gets_404_and_wrong_method_gets_405(serve):
    missing = fetch(serve.http_port, "GET", "/v2/check")
    assert missing.status == 404 and json.loads(missing.body)["code"] == "not_found"
    wrong = fetch(serve.http_port, "GET", "/v1/check")
    assert wrong.status == 405 and wrong.get("allow") == "POST"
    assert fetch(serve.http_port, "GET", "/check/").status == 404


def test_openapi_document_lists_exactly_the_routes():
    methods = {}
    for path, item in DOCUMENT["paths"].items():
        plain = path.replace("{domain}", "").replace("{file}", "")
        kind = {o["tags"][0] for m, o in item.items() if m in ("get", "post")}
        methods[plain] = ("admin" if kind == {"admin"} else "http",
                          sorted(m.upper() for m in item if m in ("get", "post")))
    known = routes()
    assert set(known) == set(methods)
    for path, (name, allowed) in known.items():
        want = sorted(m for m in allowed.split(", ") if m != "HEAD") if allowed else methods[path][1]
        assert methods[path] == (name, want), path


# ---- connections ----

def test_many_requests_on_one_connection(serve):
    raw = json.dumps(question(("user", "k"), hits=0)).encode()
    with Client(serve.http_port) as c:
        for _ in range(200):
            assert c.request("POST", "/v1/check", JSON, raw).status == 200


def test_pipelined_requests_and_requests_in_pieces(serve):
    raw = json.dumps(question(("user", "pipe"))).encode()
    with Client(serve.http_port) as c:
        for _ in range(4):
            c.send("POST", "/v1/check", JSON, raw)
        reported = [json.loads(c.read().body)["remaining"] for _ in range(4)]
        assert reported == [2, 1, 0, 0]
        c.send("POST", "/v1/check", JSON, raw, chunked=7)
        assert json.loads(c.read().body)["admitted"] is False


def test_too_large_body_is_refused(serve):
    """A body above 256 KiB gets 413, announced or chunked; a large list below this size is answered."""
    with Client(serve.http_port) as c:
        c.send("POST", "/v1/check", {"Content-Length": str(300 * 1024)}, None)
        answer = c.read()
        assert answer.status == 413 and json.loads(answer.body)["code"] == "too_large"
        assert c.at_end()
    with Client(serve.http_port) as c:
        c.send("POST", "/v1/check", JSON, b"x" * (300 * 1024), chunked=8000)
        assert c.read().status == 413
    with contextlib.suppress(Closed, OSError):  # the server closes the connection if the client sends for seconds
        with Client(serve.http_port) as c:
            c.send("POST", "/v1/check", JSON, b"x" * (2 * 1024 * 1024), chunked=8000)
            assert c.read().status == 413
    big = ask(serve.http_port, [question(("user", "x" * 2000 + str(i))) for i in range(90)])
    assert len(big) == 90


# 32 KiB of header fields in various shapes, as "Name: value" lines with their line ends. HOST comes first.
FIELDS_MAX = 32 * 1024
HOST = b"Host: localhost\r\n"
HEAD = b"%s HTTP/1.1\r\n" + HOST
SHAPES = {
    "one cookie": lambda room: b"Cookie: " + b"c" * (room - 10) + b"\r\n",
    "many cookies in one field": lambda room: b"Cookie: " + (b"a=1; " * 8000)[:room - 10] + b"\r\n",
    "fields of four bytes": lambda room: b"a:\r\n" * (room // 4) + b"a:" + b"1" * (room % 4) + b"\r\n"
                            if room % 4 else b"a:\r\n" * (room // 4),
    "fields of 31 bytes": lambda room: b"X-Some-Name-0000: 0123456789a\r\n" * (room // 31),
}


def send_raw(port, raw):
    """Returns everything that the server sends until it closes."""
    with connect(port) as s:
        s.sendall(raw)
        reported = b""
        while more := s.recv(65536):
            reported += more
        return reported


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target", ["GET /healthz", "GET /check/api", "POST /v1/check"])
def test_32_kib_of_header_fields_in_any_shape(serve, shape, target):
    """32 KiB of header fields are accepted, whatever their shape. One byte more gets a single 431."""
    wanted = {"GET /healthz": b"200 OK", "GET /check/api": b"400 Bad Request", "POST /v1/check": b"200 OK"}[target]
    rest = b"Connection: close\r\n"
    body = b""
    if target.startswith("POST"):
        body = json.dumps(question(("nothing", "x"))).encode()
        rest += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    fields = SHAPES[shape](FIELDS_MAX - len(HOST + rest))
    head = HEAD % target.encode() + rest + fields
    reported = send_raw(serve.http_port, head + b"\r\n" + body)
    assert reported.startswith(b"HTTP/1.1 " + wanted) and reported.count(b"\r\nDate: ") == 1, reported[:200]
    over = FIELDS_MAX + 1 - len(HOST + rest + fields)
    reported = send_raw(serve.http_port, head + b"b:" + b"x" * max(0, over - 4) + b"\r\n\r\n" + body)
    assert reported.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n"), reported[:200]
    assert reported.count(b"\r\nDate: ") == 1 and b'"code":"header_too_large"' in reported


def test_endless_request_line_or_header_is_refused(serve):
    """An endless request line and endless header fields are refused at their limits."""
    assert send_raw(serve.http_port, b"GET /" + b"x" * 10000).startswith(b"HTTP/1.1 414 URI Too Long\r\n")
    reported = send_raw(serve.http_port, HEAD % b"GET /healthz" + b"a: " + b"x" * 50000)
    assert reported.startswith(b"HTTP/1.1 431 ") and reported.count(b"\r\nDate: ") == 1


def test_longest_allowed_head_is_accepted(serve):
    """A request line of 8 KiB and header fields of 32 KiB are accepted."""
    line = b"GET /healthz?" + b"a" * (8192 - len(b"GET /healthz? HTTP/1.1")) + b" HTTP/1.1\r\n"
    fields = b"Host: x\r\nConnection: close\r\n"
    fields += b"a: " + b"x" * (FIELDS_MAX - len(fields) - 5) + b"\r\n"
    assert send_raw(serve.http_port, line + fields + b"\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


def test_lines_without_cr_get_an_immediate_400(serve):
    """Without an immediate refusal the client would wait for a response."""
    for raw in (b"GET /healthz HTTP/1.0\n\n", b"GET /healthz HTTP/1.1\r\nHost: x\n"):
        reported = send_raw(serve.http_port, raw)
        assert reported.startswith(b"HTTP/1.1 400 Bad Request\r\n") and reported.count(b"\r\nDate: ") == 1


def test_http_1_0_gets_no_100_continue(serve):
    body = json.dumps(question(("nothing", "x"))).encode()
    with connect(serve.http_port) as s:
        s.sendall(b"POST /v1/check HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                  b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        s.sendall(body)
        reported = b""
        while piece := s.recv(65536):
            reported += piece
    assert reported.startswith(b"HTTP/1.1 200 OK\r\n")


def test_large_and_small_heads_on_one_connection(serve):
    """Proxies send requests of many clients on one connection."""
    with Client(serve.http_port) as c:
        for size in (10, 7800, 8200, 30000, 10, 16000):
            assert c.get("/healthz", {"Cookie": "c" * size}).status == 200


@pytest.mark.parametrize("head, status", [
    (b"GET / HTTP/1.1\r\n\r\n", 400),                                            # no Host
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\nHost: a\n\r\n\r\n", 400),                                   # bare LF
    (b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400),                     # folded
    (b"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    (b"POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    (b"POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2x\r\n{}\r\n0\r\n\r\n", 400),
    (b"POST /json HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
])
def test_ambiguous_request_is_refused_and_ends_the_connection(serve, head, status):
    """The request gets one error response and the connection ends, so that the bytes after it are not read as a
    request."""
    reported = send_raw(serve.http_port, head + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert reported.startswith(b"HTTP/1.1 %d " % status) and reported.count(b"\r\nDate: ") == 1, reported[:300]


def test_expect_continue_and_http_1_0_clients(serve):
    raw = json.dumps(question(("nothing", "x"))).encode()
    with connect(serve.http_port) as s:
        s.sendall(HEAD % b"POST /v1/check" + b"Content-Type: application/json\r\nExpect: 100-continue\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(raw))
        assert s.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(raw)
        assert s.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
    reported = send_raw(serve.http_port, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert reported.startswith(b"HTTP/1.1 200 OK\r\n") and reported.endswith(b"\r\n\r\nok\n")
    assert b"Connection: close\r\n" in reported
    with connect(serve.http_port) as s:
        for _ in range(2):
            s.sendall(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert b"Connection: keep-alive\r\n" in s.recv(65536)
    with Client(serve.http_port) as c:
        answer = c.request("HEAD", "/healthz")
        assert (answer.status, answer.get("Content-Length"), answer.body) == (200, "3", b"")
        assert c.get("/healthz").body == b"ok\n"


@pytest.mark.parametrize("raw", [b"\0" * 4096, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                                 b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
                                 b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999\r\n\r\n",
                                 b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"])
def test_invalid_bytes_are_refused_and_others_are_served(serve, raw):
    with connect(serve.http_port) as s:
        s.sendall(raw)
        with contextlib.suppress(OSError):  # the server may have closed it already
            s.shutdown(socket.SHUT_WR)
        assert not s.recv(65536).startswith(b"HTTP/1.1 200")
    assert ask(serve.http_port, question(("nothing", "x")))["admitted"]


def all_are_closed(*clients):
    """Each client sends a byte from time to time, until the server has closed its connection."""
    left = list(clients)

    def ended():
        left[:] = [c for c in left if not trickle(c)]
        return not left

    wait_for(ended, "the connections to be cut", 20, every=0.1)


def test_slow_and_idle_clients_are_disconnected():
    with Serve(rules=RULES, http=True, args=["--idle", "1s", "--slow", "500ms"]) as serve:
        with Client(serve.http_port) as silent, Client(serve.http_port) as body, Client(serve.http_port) as head:
            body.raw(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            head.raw(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nX-A: ")
            all_are_closed(body, head)
            assert silent.at_end()
        wait_for(lambda: is_served(serve), "a client that asks in time to be served")


def test_close_in_the_packet_of_the_last_bytes_is_noticed():
    """The client sends a part of a request and closes in one packet; the service closes the connection too."""
    with Serve(rules=RULES, http=True, args=["--idle", "1h", "--slow", "1h"]) as serve:
        with Client(serve.http_port) as head, Client(serve.http_port) as body:
            for client, raw in ((head, b"GET /heal"),
                                (body, b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")):
                assert client.get("/healthz").status == 200
                client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # both in one packet
                client.raw(raw)
                client.socket.shutdown(socket.SHUT_WR)
            assert head.at_end() and body.at_end()


@full("takes three seconds; test_slow_and_idle_clients_are_disconnected runs in every tier")
def test_slow_head_is_limited_by_slow_and_not_by_idle():
    """A head that arrives byte by byte must be complete within --slow, although each byte is activity."""
    with Serve(rules=RULES, http=True, args=["--slow", "500ms"]) as serve:
        with Client(serve.http_port) as line, Client(serve.http_port) as field, Client(serve.http_port) as second:
            assert second.get("/healthz").status == 200  # the head of its next request arrives byte by byte
            line.raw(b"G")
            field.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ")
            all_are_closed(line, field, second)
        with Client(serve.http_port) as c:
            assert c.get("/healthz").status == 200
            c.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            c.parser.expect("GET")
            assert c.read().status == 200


def trickle(client):
    """Sends one more byte. Returns True once the server has closed."""
    try:
        client.raw(b"x")
        client.socket.setblocking(False)
        return client.socket.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        client.socket.settimeout(patience(20))


def test_connections_above_the_limit_are_closed():
    with Serve(rules=RULES, http=True, args=["--max-connections", "5"]) as serve:
        held = [Client(serve.http_port) for _ in range(5)]
        try:
            for c in held:
                assert c.get("/healthz").status == 200
            with Client(serve.http_port) as c:
                assert c.at_end()
        finally:
            for c in held:
                c.__exit__()
        wait_for(lambda: is_served(serve), "requests to be served again")


def is_served(serve):
    """Returns whether a new client is served."""
    try:
        return fetch(serve.http_port, "GET", "/healthz").status == 200
    except (Closed, OSError):
        return False


def test_unix_socket_with_two_loops():
    with Serve(rules=RULES, http="unix:{folder}/http.sock", threads=2) as serve:
        where = str(serve.folder / "http.sock")
        reported = [ask(where, question(("user", "u")))["remaining"] for _ in range(3)]
        assert reported == [2, 1, 0]


@full("a client that the machine delays for a second may be disconnected")
def test_drain_loses_no_request_of_busy_clients():
    """Two clients keep their connections, two open a new one for each request. A response tells them to close, or they
    find the port closed; no request is cut off. A busy client sends its next request at once: a connection without a
    request for a second is idle and may be closed."""
    lost, answered = [], []

    def ask_on(serve, keeps):
        while True:
            before = time.monotonic()  # it connected, or sent its last request
            try:
                client = Client(serve.http_port)
            except ConnectionRefusedError:
                return
            except OSError as error:
                lost.append(error)
                return
            with client:
                ends = False
                while not ends:
                    asks, asked = time.monotonic(), None
                    try:
                        client.send("GET", "/healthz")
                        asked = time.monotonic()
                        ends = client.read().get("Connection") == "close" or not keeps
                    except (OSError, Closed) as error:
                        if (asked or time.monotonic()) - before < 0.3:
                            lost.append(error)
                            return
                        break  # the machine delayed it
                    before = asks
                    answered.append(1)

    with Serve(rules=RULES, http=True, threads=2) as serve:
        clients = [threading.Thread(target=ask_on, args=(serve, i % 2 == 0)) for i in range(4)]
        for client in clients:
            client.start()
        wait_for(lambda: len(answered) > 100, "answers")
        serve.stop()
        for client in clients:
            client.join()
    assert not lost


def test_readyz_is_503_and_connections_close_during_the_drain_delay():
    """During --drain-delay requests are answered with `Connection: close`."""
    with Serve(rules=RULES, http=True, args=["--drain-delay", "1h"]) as serve:
        with Client(serve.http_port) as busy:
            assert busy.get("/readyz").status == 200
            serve.signal(15)

            def is_unready():
                answer = fetch(serve.http_port, "GET", "/readyz")
                return answer.status == 503 and answer.get("connection") == "close"

            wait_for(is_unready, "/readyz to say that it is over")
            answer = busy.get("/healthz")
            assert answer.status == 200 and answer.get("connection") == "close" and busy.at_end()
        serve.signal(15)
        serve.wait()


@full("takes two seconds; test_serve_core has an idle connection of each port")
def test_idle_connections_are_closed_when_the_port_closes():
    with Serve(rules=RULES, http=True, args=["--drain-delay", "200ms", "--drain", "1h"]) as serve:
        with Client(serve.http_port) as idle:
            assert idle.get("/readyz").status == 200
            serve.signal(15)
            assert idle.at_end()
        serve.wait()


def test_shadow_mode_admits_everything():
    with Serve(rules=RULES, http=True, args=["--shadow"]) as serve:
        reported = [ask(serve.http_port, question(("user", "w"))) for _ in range(4)]
        assert [t["admitted"] for t in reported] == [True] * 4 and reported[3]["status"] == 200
        assert reported[3]["descriptors"][0]["code"] == "over_limit"
        assert post(serve.http_port, "/json", question(("user", "w"))).status == 200


def test_json_response_has_the_metadata_of_grpc():
    with Serve(rules=RULES, http=True, args=["--dynamic-metadata"]) as serve:
        reported = json.loads(post(serve.http_port, "/json", question(("user", "md"))).body)
        assert reported["dynamicMetadata"]["domain"] == "api"
        assert reported["dynamicMetadata"]["descriptors"][0]["entries"] == ["user=md"]
