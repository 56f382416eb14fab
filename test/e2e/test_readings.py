"""Requests that servers read in different ways: limits apply to any reading, exemptions only if they match all
readings.

The same targets go through nginx, through forward-auth and through /v1/check."""

import json

import pytest

from weirtest import Clock, Nginx, fetch
from weirtest.resp import Resp
from weirtest.rls import OK, OVER, Rls
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - {when: {path: /health}, allow: true}
  - {when: {path: '/static/*'}, allow: true}
  - {when: {host: free.example, path: '/v1/*'}, allow: true}
  - {when: {path: '/v1/*', method: OPTIONS}, allow: true}
  - {when: {path: /}, descriptor: [{key: api, from: header.x-case}]}
  - {when: {path: '/v1/*'}, descriptor: [{key: api, from: header.x-case}]}
  - {when: {path: '/free/*'}, descriptor: [{key: free, value: 1}]}
  - {when: {path: '/get', method: GET}, descriptor: [{key: api, from: header.x-case}]}
  - {when: {path: '/user'}, descriptor: [{key: user, from: header.x-user}]}
  - {when: {path: '/user/first'}, descriptor: [{key: user, from: header.x-user, ambiguous: first}]}
  - {when: {path: '/key'}, descriptor: [{key: apikey, from: query.api_key, missing: deny}]}
descriptors:
  - {key: api, rate_limit: {name: api, unit: year, requests_per_unit: 2}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: api}]}}
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: apikey, rate_limit: {unit: year, requests_per_unit: 2}}
"""

LIMITED = [200, 200, 429, 429]
REFUSED = [400] * 4
FREE = [200] * 4

TARGETS = {
    "/v1/users/7": LIMITED,
    "/health": FREE,
    "/static/a%20b;v=1": FREE,
    "/v1/users/7;x=%2f..%2f..%2f..%2fhealth": LIMITED,
    "/v1/users/7%2f..%2f..%2f..%2fhealth": LIMITED,
    "/v1/users/7/..%5c..%5c..%5chealth": LIMITED,
    "/v1/users/7/..\\..\\..\\health": LIMITED,
    "/v1/users/../../health": LIMITED,
    "/v1//../health": LIMITED,
    "//health": LIMITED,
    "/static/..%2fv1/users": LIMITED,
    "/static/%252e%252e/v1/users": LIMITED,
    "/static/..%252fv1/users": LIMITED,
    "/static/..;/v1/users": LIMITED,
    "/static/%c0%ae%c0%ae/v1/users": LIMITED,
    "/static/..%c0%afv1/users": LIMITED,
    "/v1/x%2f..%2f..%2ffree/x": LIMITED,
    "/v1/x/..;/..;/free/x": LIMITED,
    "/v1%3f/../health": LIMITED,
    "/get%3fx": LIMITED,
    "/get%23x": LIMITED,
    "/health#/../v1/users/7": REFUSED,
    "/key?a=#&api_key=K": REFUSED,
    "/static/%00": REFUSED,
    "/v1/users%00/../../health": REFUSED,
}


@pytest.fixture(scope="module", autouse=True)
def clock():
    with Clock() as stands:
        yield stands


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True) as running:
        yield running


@pytest.fixture
def rest_limited():
    """A service whose rules exempt /static/ and limit all other paths to one request."""
    rules = """
domain: api
requests:
  - {when: {path: '/static/*'}, allow: true}
  - {descriptor: [{key: rest, value: 1}]}
descriptors:
  - {key: rest, rate_limit: {unit: year, requests_per_unit: 1}}
"""
    with Serve(rules=rules, http=True) as running:
        yield running


@pytest.fixture(scope="module")
def nginx(_api):
    with Nginx(rules=RULES, conf_server="location / { weir on; proxy_pass http://api; }",
               api=_api) as running:
        yield running


def forward(port, target, headers=(), method="GET"):
    """Asks about a request at /check. Returns the status."""
    return fetch(port, "GET", "/check/api",
                 [("X-Forwarded-Method", method), ("X-Forwarded-Uri", target), *headers]).status


def check(port, target, case):
    """Asks about a request at /v1/check. Returns the `status` of the response."""
    question = {"domain": "api", "request": {"target": target, "headers": {"x-case": case}}}
    return json.loads(fetch(port, "POST", "/v1/check", [("Content-Type", "application/json")],
                            json.dumps(question).encode()).body)["status"]


# Targets that nginx refuses, and that other proxies may pass on.
@pytest.mark.parametrize("target", ["/static/%u002e%u002e/", "/static/%zz", "/static/ ../"])
def test_unusual_path_is_not_exempt(rest_limited, target):
    """A path that servers could read as another path is limited although it begins with an exempt path."""
    assert [forward(rest_limited.http_port, target) for _ in range(3)] == [200, 429, 429]


@pytest.mark.parametrize("host, seen", [("free.example", FREE), ("FREE.example.:80", FREE), ("free%2eexample", LIMITED),
                                        ("other", LIMITED)])
def test_exemption_by_host(nginx, serve, host, seen):
    """A host is exempt only in spellings that all servers read alike."""
    fields = {"Host": host, "X-Case": f"host-{host}"}
    assert [nginx.get("/v1/a", fields).status for _ in range(4)] == seen
    fields = [("X-Forwarded-Host", host), ("X-Case", f"host-{host}")]
    assert [forward(serve.http_port, "/v1/a", fields) for _ in range(4)] == seen


@pytest.mark.parametrize("method, seen", [("OPTIONS", FREE), ("options", LIMITED)])
def test_exemption_by_method(serve, method, seen):
    """A method is exempt only in upper case."""
    assert [forward(serve.http_port, "/v1/a", [("X-Case", method)], method) for _ in range(4)] == seen


@pytest.mark.parametrize("target", TARGETS)
def test_reading_of_nginx(nginx, api, target):
    """Each target of TARGETS is limited or exempt in nginx, and only admitted requests reach the API."""
    seen = [nginx.get(target, {"X-Case": target}).status for _ in range(4)]
    assert seen == TARGETS[target]
    assert api.count() == seen.count(200)


@pytest.mark.parametrize("target", TARGETS)
def test_reading_of_forward_auth(serve, target):
    """Each target of TARGETS is limited or exempt at /check."""
    seen = [forward(serve.http_port, target, [("X-Case", target)]) for _ in range(4)]
    assert seen == TARGETS[target]


@pytest.mark.parametrize("target", TARGETS)
def test_reading_of_v1_check(serve, target):
    """Each target of TARGETS is limited or exempt at /v1/check."""
    assert [check(serve.http_port, target, "c" + target) for _ in range(4)] == TARGETS[target]


def test_head_is_limited_as_get(nginx, serve):
    """GET and HEAD requests share the counter of a rule with `method: GET`."""
    fields = [("X-Case", "head")]
    seen = [nginx.request(m, "/get", fields).status for m in ("GET", "HEAD", "HEAD", "GET")]
    assert seen == LIMITED
    seen = [forward(serve.http_port, "/get", fields, m) for m in ("HEAD", "GET", "HEAD", "GET")]
    assert seen == LIMITED


def test_two_values_share_a_counter(nginx, serve):
    """Every pair of values uses one counter, in any order, in one field or in two fields."""
    both = [[("X-User", "1"), ("X-User", "2")], [("X-User", "2, 1")], [("X-User", "3"), ("X-User", "4")], [("X-User", "5,6")]]
    assert [nginx.get("/user", b).status for b in both] == LIMITED
    assert [forward(serve.http_port, "/user", b) for b in both] == LIMITED
    for user in ("1", "2"):
        assert nginx.get("/user", {"X-User": user}).status == 200
    first = [[("X-User", "9"), ("X-User", str(i))] if i % 2 else [("X-User", f"9, {i}")] for i in range(4)]
    assert [nginx.get("/user/first", f).status for f in first] == LIMITED


CROWD = """
domain: api
requests:
""" + "".join(f"  - descriptor: [{{key: k, value: {i}}}, {{key: v, from: header.h{i}}}]\n" for i in range(9)) + """
descriptors:
  - key: k
    descriptors:
      - key: v
        rate_limits:
""" + "".join(f"          - {{period: {i + 1}h, requests_per_unit: 2}}\n" for i in range(8))


def test_request_with_too_many_limits_is_refused(api):
    """The ninth header leads to the 65th limit: the request is refused."""
    headers = [(f"H{i}", "x") for i in range(9)]
    with Serve(rules=CROWD, http=True, grpc=True, resp=True) as serve:
        assert [forward(serve.http_port, "/", headers[:8]) for _ in range(3)] == [200, 200, 429]
        assert [forward(serve.http_port, "/", headers) for _ in range(3)] == [429] * 3
        question = {"domain": "api", "request": {"target": "/", "headers": dict(headers)}}
        answer = fetch(serve.http_port, "POST", "/v1/check", [("Content-Type", "application/json")],
                       json.dumps(question).encode())
        reported = json.loads(answer.body)
        assert (reported["admitted"], reported["status"], reported["retry_after"]) == (False, 429, None)
    with Nginx(rules=CROWD, conf_server="location / { weir on; proxy_pass http://api; }",
               api=api) as nginx:
        assert [nginx.get("/", headers[:8]).status for _ in range(3)] == [200, 200, 429]
        assert [nginx.get("/", headers).status for _ in range(3)] == [429] * 3


def test_request_with_too_many_limits_over_grpc_and_resp():
    def raw(count):
        return b"\x0a\x03api" + b"".join(
            b"\x12\x10\x0a\x06\x0a\x01k\x12\x01%d\x0a\x06\x0a\x01v\x12\x01y" % i for i in range(count))

    with Serve(rules=CROWD, http=True, grpc=True, resp=True) as serve:
        with Rls(serve.grpc_port) as rls:
            assert [rls.ask_raw(raw(8))[1] for _ in range(3)] == [OK, OK, OVER]
            assert [rls.ask_raw(raw(9))[1] for _ in range(3)] == [OVER] * 3
            assert rls.ask_raw(raw(1) + raw(1)[5:] * 32)[1] == OVER  # 33 descriptors
        with Resp(serve.resp_port) as resp:
            words = " | ".join(f"k {i} v z" for i in range(9)).split()
            answer = resp.call("WEIR.CHECK", "api", *words)
            assert answer[:2] == ["verdict", "refuse"]
