"""docs/openapi.yaml is a valid document, and it allows exactly the requests that the service accepts. The tests of each
API check the responses against it."""

import copy
import json

import jsonschema
import pytest

from weirtest import JSON, ROOT, Client, fetch, needs
from weirtest.node import run_node
from weirtest.openapi import DOCUMENT, check_answer, check_question
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - descriptor: [{key: user, from: header.x-user}]
  - descriptor: [{key: tight, from: header.x-tight}]
descriptors:
  - key: tight
    rate_limit: {unit: year, requests_per_unit: 0}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 1000000, name: per-user}
"""
KEY = {"domain": "api", "entries": [{"key": "user", "value": "7"}]}
ADDRESS_KEY = {"domain": "api", "entries": [{"key": "user", "value": "192.0.2.7"}]}

# A request of each kind that the service accepts.
QUESTIONS = [
    ("/v1/check", {"domain": "api", "hits": 1, "descriptors": [{"entries": [{"key": "user", "value": "7"}]}]}),
    ("/v1/check", {"domain": "api", "request": {"target": "/x", "method": "GET", "headers": {"x-user": "7"}}}),
    ("/json", {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "7"}]}]}),
    ("/v1/key/get", {**KEY, "limit": "per-user"}),
    ("/v1/key/reset", KEY),
    ("/v1/key/grant", {**KEY, "extra": 5, "for": "1h"}),
    ("/v1/key/grant", {**KEY, "extra": 5, "until": 4000000000}),
    ("/v1/key/grant", {**KEY, "extra": 0}),
    ("/v1/key/ban", {**KEY, "for": "ever"}),
    ("/v1/key/ban", {**KEY, "until": 4000000000}),
    ("/v1/key/ban", {**KEY, "lift": True}),
    ("/v1/bans", {**ADDRESS_KEY, "for": "1h", "shield": True}),
    ("/v1/bans", {**KEY, "until": 4000000000}),
    ("/v1/bans/release", {**KEY, "limit": "per-user"}),
    ("/v1/bans/release", {"address": "192.0.2.0/24", "rule": "api/user/365d", "kind": "automatic"}),
    ("/v1/bans/release", {"all": True}),
    ("/v1/key/changes", KEY),
    ("/v1/explain", KEY),
    ("/v1/explain", {"domain": "api", "request": {"target": "/x"}}),
    ("/v1/pause", {"rule": "api/user"}),
    ("/v1/resume", {"rule": "api/user"}),
]


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True, admin=True) as running:
        yield running


@needs("npm")
@pytest.mark.seconds(300)
def test_document_is_valid():
    problems = run_node("openapi.js", ROOT / "docs/openapi.yaml")
    probes = {f"#/paths/~1{name}/get/responses" for name in ("healthz", "readyz", "healthcheck")}
    assert [p for p in problems if (p["rule"], p["at"] in probes) != ("operation-4xx-response", True)] == []


def mutants(body):
    """Yields the request, the request without each member, and with an unknown member; then the same with `lift` beside
    `for`."""
    yield body
    for name in body:
        yield {k: v for k, v in body.items() if k != name}
    yield {**body, "nosuch": 1}
    for extra in ({"lift": True}, {"lift": False}, {"for": "1h"}, {"request": {"target": "/x"}}):
        if extra.keys() - body.keys():
            yield {**copy.deepcopy(body), **extra}


def is_allowed(target, body):
    """Returns whether the document allows this request body."""
    try:
        check_question(target, body)
        return True
    except jsonschema.ValidationError:
        return False


@pytest.mark.parametrize("target, body", QUESTIONS, ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_document_and_service_accept_the_same_requests(serve, target, body):
    """A request that the document does not allow gets a 400, and a request that it allows does not."""
    port = serve.http_port if target in ("/v1/check", "/json") else serve.admin_port
    for mutant in mutants(body):
        answer = fetch(port, "POST", target, JSON, json.dumps(mutant).encode())
        check_answer("POST", target, answer)
        assert is_allowed(target, mutant) == (answer.status != 400), (mutant, answer.status, answer.body)
    assert is_allowed(target, body)


def test_files_of_the_dashboard_are_described(serve):
    """The document describes every kind of file of the dashboard."""
    kinds = set()
    for path in (ROOT / "web").rglob("*"):
        if path.is_file():
            answer = fetch(serve.admin_port, "GET", f"/ui/{path.name}")
            check_answer("GET", f"/ui/{path.name}", answer)
            if answer.status == 200:
                kinds.add(answer.get("content-type").split(";")[0])
    described = DOCUMENT["paths"]["/ui/{file}"]["get"]["responses"]["200"]["content"]
    assert kinds and kinds == set(described), (kinds, set(described))


REFUSED_BY_THE_SERVER = {
    413: (b"POST {} HTTP/1.1", b"Content-Length: 262145\r\n"),
    414: (b"GET {}?" + b"x" * 8192 + b" HTTP/1.1", b""),
    431: (b"GET {} HTTP/1.1", b"Cookie: " + b"x" * 32768 + b"\r\n"),
    501: (b"POST {} HTTP/1.1", b"Transfer-Encoding: gzip\r\n"),
    505: (b"GET {} HTTP/2.0", b""),
}


def kinds_of(described):
    """Returns the media types of a described response; follows references."""
    while "$ref" in described:
        described = DOCUMENT["components"]["responses"][described["$ref"].rsplit("/", 1)[1]]
    return set(described.get("content", ()))


@pytest.mark.parametrize("status", REFUSED_BY_THE_SERVER)
def test_refusals_before_routing_are_described_for_every_path(serve, status):
    """Errors of the HTTP parser are described for every path of the document."""
    line, field = REFUSED_BY_THE_SERVER[status]
    for path, item in DOCUMENT["paths"].items():
        method = "post" if "post" in item else "get"
        admin = "admin" in item[method]["tags"]
        target = path.format(domain="api", file="app.js")
        with Client(serve.admin_port if admin else serve.http_port) as client:
            token = f"Authorization: Bearer {client.token}\r\n".encode() if admin else b""
            client.raw(line.replace(b"{}", target.encode()) + b"\r\nHost: 127.0.0.1\r\n" + token + field + b"\r\n")
            response = client.read()
        assert response.status == status, (path, response)
        assert str(status) in item[method]["responses"], (path, status)
        check_answer(method.upper(), target, response)


@pytest.mark.parametrize("accept", ["application/json", "text/html", "text/plain"])
def test_refusals_of_every_kind_are_described(serve, accept):
    """A refusal of /check has a media type of the document for each Accept."""
    described = DOCUMENT["paths"]["/check/{domain}"]["get"]["responses"]["429"]
    fields = {"X-Forwarded-Uri": "/x", "X-Forwarded-Method": "GET", "X-Forwarded-For": "192.0.2.1", "X-Tight": "1",
              "Accept": accept}
    response = fetch(serve.http_port, "GET", "/check/api", fields)
    assert response.status == 429
    assert response.get("content-type").split(";")[0] in kinds_of(described)
    check_answer("GET", "/check/api", response)
