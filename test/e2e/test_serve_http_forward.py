"""/check/DOMAIN: requests of Traefik, Caddy and nginx, their permissions, and leaky buckets that delay the response."""

import json
import os
import selectors
import socket

import pytest

from weirtest import JSON, Client, Clock, fetch, patience, wait_for
from weirtest.openapi import check_answer
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - when: {path: /door}
    descriptor: [{key: door, from: host}]
  - when: {path: /gate}
    descriptor: [{key: gate, from: host}]
  - when: {path: /quick}
    descriptor: [{key: quick, from: host}]
  - when: {path: '/by/address'}
    descriptor: [{key: ip, from: remote_address}]
  - when: {path: '/by/method', method: [POST]}
    descriptor: [{key: posts, from: host}]
  - when: {path: '/by/identity'}
    descriptor: [{key: who, from: identity, missing: deny}]
  - when: {path: '/by/user'}
    descriptor: [{key: user, from: header.x-user}]
  - when: {path: '/later'}
    descriptor: [{key: later, from: host}]
descriptors:
  - key: door
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 1}
  - key: gate
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 4}
  - key: quick
    rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, queue_size: 4}
  - key: ip
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: posts
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: who
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2, name: per-user}
  - key: later
    rate_limit: {unit: year, requests_per_unit: 1, on_limit: defer}
"""


def check(where, uri, headers=(), method="GET", query="", family="Forwarded", as_method="GET"):
    """Asks about a request at /check, with the header fields of one of the two families."""
    fields = dict(headers)
    if uri is not None and family == "Forwarded":
        fields = {"X-Forwarded-Method": as_method, "X-Forwarded-Uri": uri, **fields}
    elif uri is not None:
        fields = {"X-Original-Method": as_method, "X-Original-URI": uri, **fields}
    answer = fetch(where, method, f"/check/api{query}", fields)
    check_answer(method, "/check/api", answer)
    return answer


@pytest.fixture(scope="module", autouse=True)
def clock():
    """A clock that stands still: requests are held until a test moves it."""
    with Clock() as stands:
        yield stands


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True) as running:
        yield running


def test_admitted_and_refused_responses_have_all_header_fields(serve):
    answers = [check(serve.http_port, "/by/user", {"X-User": "1"}) for _ in range(3)]
    assert [a.status for a in answers] == [200, 200, 429]
    assert [a.get("x-ratelimit-remaining") for a in answers] == ["1", "0", "0"]
    assert answers[0].body == b"" and answers[0].get("x-ratelimit-limit") == "2"
    refused = answers[2]
    assert int(refused.get("retry-after")) > 0
    assert refused.get("x-ratelimit-retry-after") == refused.get("retry-after")
    assert refused.get("cache-control") == "no-store"
    assert refused.get("content-type") == "application/problem+json"
    assert json.loads(refused.body)["violated-policies"] == ["per-user"]
    assert '"per-user";q=2' in refused.get("ratelimit-policy")


def test_body_format_follows_accept(serve):
    for _ in range(2):
        check(serve.http_port, "/by/user", {"X-User": "2"})
    html = check(serve.http_port, "/by/user", {"X-User": "2", "Accept": "text/html"})
    assert html.status == 429 and html.get("content-type").startswith("text/html")
    head = check(serve.http_port, "/by/user", {"X-User": "2"}, method="HEAD")
    assert head.status == 429 and head.get("retry-after") and head.body == b""


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PROPFIND"])
def test_any_method_is_accepted(serve, method):
    answer = check(serve.http_port, "/nothing", method=method)
    assert answer.status == 200


def test_forwarded_method_and_host_are_matched(serve):
    """Rules match the method and host of the described request, not those of the request to weir."""
    host = {"X-Forwarded-Host": "shop.example"}
    assert check(serve.http_port, "/by/method", host, method="POST").status == 200  # a GET
    first = check(serve.http_port, "/by/method", host, as_method="POST")
    assert (first.status, first.get("x-ratelimit-remaining")) == (200, "0")
    assert check(serve.http_port, "/by/method", host, as_method="POST").status == 429
    other = {"X-Forwarded-Host": "other.example"}
    assert check(serve.http_port, "/by/method", other, as_method="POST").status == 200


def test_header_fields_of_a_browser_behind_the_proxy_are_accepted(serve):
    """The proxy passes on the client's own header fields. They do not identify the sender of the check."""
    fields = {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain", "X-User": "web"}
    for host in ("shop.example", "shop.example:8443", f"localhost:{serve.http_port}"):
        assert check(serve.http_port, "/nothing", {**fields, "Host": host}).status == 200


def test_dns_rebinding_is_refused(serve):
    """DNS rebinding: a page can then set the proxy's header fields, but its Host has the port of weir."""
    fields = {"X-User": "rebound", "Host": f"evil.example:{serve.http_port}"}
    assert [check(serve.http_port, "/by/user", fields).status for _ in range(3)] == [421, 421, 421]
    assert check(serve.http_port, "/by/user", {"X-User": "rebound"}).get("x-ratelimit-remaining") == "1"


def test_deny_option_changes_only_the_status(serve):
    """?deny=403 changes the status of refusals; X-Weir-Status has the status of the rule."""
    for _ in range(2):
        check(serve.http_port, "/by/user", {"X-User": "3"})
    refused = check(serve.http_port, "/by/user", {"X-User": "3"}, query="?deny=403")
    assert (refused.status, refused.get("x-weir-status")) == (403, "429")
    assert refused.get("retry-after")
    admitted = check(serve.http_port, "/by/user", {"X-User": "4"}, query="?deny=403")
    assert admitted.status == 200 and admitted.get("x-weir-status") is None


@pytest.mark.parametrize("query", ["?deny=200", "?deny=x", "?by=me", "?denny=403", "?deny=4030"])
def test_unknown_query_is_refused(serve, query):
    answer = check(serve.http_port, "/by/user", {"X-User": "5"}, query=query)
    assert answer.status == 400 and json.loads(answer.body)["code"] == "bad_request"


def test_request_of_a_deferring_rule_is_refused(serve):
    assert check(serve.http_port, "/later").status == 200
    assert check(serve.http_port, "/later").status == 429


# ---- origin of the header fields ----

def test_two_families_of_forwarding_fields_are_refused(serve):
    """X-Forwarded and X-Original fields together get 400, unless ?by= selects the fields to use."""
    forged = {"X-User": "6", "X-Original-URI": "/nothing"}
    answer = check(serve.http_port, "/by/user", forged)
    assert answer.status == 400 and "?by=" in json.loads(answer.body)["detail"]
    named = check(serve.http_port, "/by/user", forged, query="?by=forwarded")
    assert (named.status, named.get("x-ratelimit-remaining")) == (200, "1")
    original = check(serve.http_port, "/by/user", {"X-User": "6", "X-Forwarded-Uri": "/nothing"},
                     query="?by=original", family="Original")
    assert original.get("x-ratelimit-remaining") == "0"


def test_whole_url_of_ingress_nginx_is_accepted(serve):
    fields = {"X-Original-Method": "POST", "X-Original-URL": "https://ing.example/by/method?x=1"}
    assert check(serve.http_port, None, fields).get("x-ratelimit-remaining") == "0"
    assert check(serve.http_port, None, fields).status == 429


@pytest.mark.parametrize("fields", [
    {}, {"X-Forwarded-Method": "GET"}, {"X-Forwarded-Uri": "/x"},
    {"X-Original-Method": "GET", "X-Original-URI": "/a", "X-Original-URL": "http://h/b"}])
def test_missing_or_repeated_fields_are_refused(serve, fields):
    assert check(serve.http_port, None, fields).status == 400


def test_repeated_field_is_refused(serve):
    fields = [("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/a"), ("X-Forwarded-Uri", "/b")]
    assert fetch(serve.http_port, "GET", "/check/api", fields).status == 400


def remaining(where, xff, **more):
    """Returns the remaining units of the address in X-Forwarded-For, or the status of an error."""
    answer = check(where, "/by/address", {"X-Forwarded-For": xff}, **more)
    return answer.get("x-ratelimit-remaining") if answer.status == 200 else answer.status


def test_client_address_is_the_last_forwarded_one(serve):
    """The last address of X-Forwarded-For counts, with or without a port; an invalid one gets 400."""
    port = serve.http_port
    assert remaining(port, "192.0.2.1") == "1"
    assert remaining(port, "198.51.100.9, 192.0.2.1") == "0"  # addresses to the left of it are unverified
    assert remaining(port, "192.0.2.1:4711") == 429
    assert remaining(port, "192.0.2.1, 10.0.0.7") == "1"  # a private address is a client like others
    assert remaining(port, "2001:db8::1") == "1"
    assert remaining(port, "[2001:db8:0::1]:80") == "0"
    assert remaining(port, "unknown") == 400
    real = check(port, "/by/address", {"X-Real-IP": "192.0.2.77"})
    assert real.get("x-ratelimit-remaining") == "1"


def test_trusted_proxies_are_skipped():
    """Addresses of --trust are skipped from the right. Private addresses outside of --trust are client addresses."""
    with Serve(rules=RULES, http=True, args=["--trust", "127.0.0.0/8,203.0.113.0/24"]) as serve:
        port = serve.http_port
        assert remaining(port, "192.0.2.1, 203.0.113.5") == "1"
        assert remaining(port, "198.51.100.1, 192.0.2.1, 203.0.113.5, 203.0.113.6") == "0"
        assert remaining(port, "10.0.0.9") == "1"


def test_untrusted_peer_may_not_send_forwarding_fields():
    with Serve(rules=RULES, http=True, args=["--trust", "127.0.0.2"]) as serve:
        answer = check(serve.http_port, "/by/user", {"X-User": "1"})
        assert answer.status == 403 and "--trust" in json.loads(answer.body)["detail"]
        with Client(serve.http_port, source="127.0.0.2") as c:
            fields = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/by/user", "X-User": "1"}
            assert c.get("/check/api", fields).status == 200
        assert fetch(serve.http_port, "GET", "/healthz").status == 200


def test_invalid_trust_option_prevents_the_start():
    """The option is refused before the table is created, a port is opened or a token is printed."""
    for value in ("everybody", "1.2.3"):
        serve = Serve(rules=RULES, http=True, admin=True, args=["--trust", value], start=False)
        code, text = serve.run()
        assert code == 1 and f"--trust '{value}' is not a network such as 192.0.2.0/24" in text
        assert "dashboard" not in text and os.listdir(serve.table) == []


def test_identity_comes_from_the_configured_field(serve):
    """The identity is taken only from the field that ?identity= names."""
    assert check(serve.http_port, "/by/identity").status == 403  # missing: deny
    fields = {"X-Auth-User": "ann"}
    assert check(serve.http_port, "/by/identity", fields).status == 403
    asked = [check(serve.http_port, "/by/identity", fields, query="?identity=X-Auth-User").status
             for _ in range(2)]
    assert asked == [200, 429]


# ---- leaky buckets delay the response ----

def left(serve, key, host):
    """Returns how many more requests the bucket would accept, without taking a position."""
    body = {"domain": "api", "hits": 0, "descriptors": [{"entries": [{"key": key, "value": host}]}]}
    return json.loads(fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode()).body)["remaining"]


def waiting(serve, uri, host):
    """Returns a client that has sent a request."""
    client = Client(serve.http_port)
    client.send("GET", "/check/api", {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": uri, "X-Forwarded-Host": host})
    return client


def next_answer(answered):
    """Returns the next response among clients in a selector."""
    [(key, _), *_] = answered.select(patience(20))
    answered.unregister(key.fileobj)
    return key.data.read()


def test_full_leaky_bucket_refuses_requests(serve):
    """One an hour and a queue of four: of six requests, one is admitted at once, four wait, one is refused."""
    assert left(serve, "gate", "h") == 5
    clients = [waiting(serve, "/gate", "h") for _ in range(6)]
    wait_for(lambda: left(serve, "gate", "h") == 0, "the queue to be full")
    answered = selectors.DefaultSelector()
    for client in clients:
        answered.register(client.socket, selectors.EVENT_READ, client)
    assert sorted(next_answer(answered).status for _ in range(2)) == [200, 429]
    assert (answered.select(0), left(serve, "gate", "h")) == ([], 0)  # the four still wait
    for client in clients:
        client.close()


def test_responses_are_not_sent_early(serve, clock):
    """Ten a second: of five requests that arrive at once the first is answered, and one more every 100 ms."""
    clients = [waiting(serve, "/quick", "q") for _ in range(5)]
    answered = selectors.DefaultSelector()
    for client in clients:
        answered.register(client.socket, selectors.EVENT_READ, client)
    assert next_answer(answered).status == 200
    wait_for(lambda: left(serve, "quick", "q") == 0, "the other requests to wait")
    for _ in range(4):
        assert answered.select(0) == []
        clock.advance(0.1)
        assert next_answer(answered).status == 200
    for client in clients:
        client.close()


def test_position_of_a_disconnected_client_is_free_again(serve):
    assert check(serve.http_port, "/door", {"X-Forwarded-Host": "leave"}).status == 200
    assert left(serve, "door", "leave") == 1
    leaver = waiting(serve, "/door", "leave")
    wait_for(lambda: left(serve, "door", "leave") == 0, "the queue to be full")
    assert check(serve.http_port, "/door", {"X-Forwarded-Host": "leave"}).status == 429
    leaver.vanish()
    wait_for(lambda: left(serve, "door", "leave") == 1, "a position in the queue to be free")


# ---- half-closed clients ----

def asked(uri, host, version="1.1", more=b""):
    """Returns the bytes of a request to /check."""
    return (f"GET /check/api HTTP/{version}\r\nHost: x\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: {uri}\r\n"
            f"X-Forwarded-Host: {host}\r\n\r\n").encode() + more


def half_closed(where, data):
    """Returns a socket whose sending side is shut down after the request, as `nc -N` does."""
    s = socket.create_connection(("127.0.0.1", where), timeout=patience(20)) if isinstance(where, int) else unix(where)
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    return s


def unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(patience(20))
    s.connect(path)
    return s


def to_the_end(s):
    """Returns all bytes until the server closes the connection."""
    data = b""
    while piece := s.recv(65536):
        data += piece
    return data


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def test_half_closed_client_is_answered(serve, clock):
    """An interim response finds out that the client is still connected."""
    assert check(serve.http_port, "/quick", {"X-Forwarded-Host": "half"}).status == 200
    with half_closed(serve.http_port, asked("/quick", "half")) as s:
        assert s.recv(len(CONTINUE), socket.MSG_WAITALL) == CONTINUE
        clock.advance(0.1)
        assert to_the_end(s).startswith(b"HTTP/1.1 200 OK\r\n")


def test_pipelined_requests_of_a_half_closed_client_are_answered(serve, clock):
    """All three are answered in order; an incomplete request is not."""
    assert check(serve.http_port, "/quick", {"X-Forwarded-Host": "behind"}).status == 200
    data = asked("/quick", "behind") + asked("/quick", "behind") + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal"
    with half_closed(serve.http_port, data) as s:
        assert s.recv(len(CONTINUE), socket.MSG_WAITALL) == CONTINUE
        clock.advance(0.1)
        first = b""
        while b"\r\n\r\n" not in first:
            first += s.recv(1)
        clock.advance(0.1)
        rest = to_the_end(s)
        assert first.startswith(b"HTTP/1.1 200 OK\r\n") and rest.count(b"HTTP/1.1 200 OK\r\n") == 2
        assert rest.endswith(b"\r\n\r\nok\n")


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_position_of_a_closed_client_is_free_again(serve, version):
    """TCP does not distinguish a closed client from a half-closed one. HTTP/1.0 has no interim responses, so both count
    as disconnected."""
    host = f"closes-{version}"
    assert check(serve.http_port, "/door", {"X-Forwarded-Host": host}).status == 200
    leaver = half_closed(serve.http_port, asked("/door", host, version))
    if version == "1.1":
        wait_for(lambda: left(serve, "door", host) == 0, "the queue to be full")
        leaver.close()
    else:
        assert to_the_end(leaver) == b""
    wait_for(lambda: left(serve, "door", host) == 1, "a position in the queue to be free")
    leaver.close()


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_half_closed_client_of_a_unix_socket(clock, version):
    """On a Unix socket the kernel distinguishes a half-closed client from a closed one; no interim response is
    needed."""
    with Serve(rules=RULES, http="unix:{folder}/http") as serve:
        path = serve.http_port = str(serve.folder / "http")
        with half_closed(path, asked("/quick", "first", version)) as s:
            assert to_the_end(s).startswith(b"HTTP/1.1 200 OK\r\n")
        with half_closed(path, asked("/quick", "first", version)) as s:
            wait_for(lambda: left(serve, "quick", "first") == 3, "the client to wait")
            clock.advance(0.1)
            assert to_the_end(s).startswith(b"HTTP/1.1 200 OK\r\n")
        assert check(serve.http_port, "/door", {"X-Forwarded-Host": "u"}).status == 200
        leaver = half_closed(path, asked("/door", "u", version))
        wait_for(lambda: left(serve, "door", "u") == 0, "the queue to be full")
        leaver.close()
        wait_for(lambda: left(serve, "door", "u") == 1, "a position in the queue to be free")


BESIDE = """
domain: api
requests:
  - descriptor: [{key: user, from: header.x-user}]
  - when: {path: /door}
    descriptor: [{key: door, from: host}]
descriptors:
  - key: user
    rate_limit: LIMIT
  - key: door
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 9}
"""


@pytest.mark.parametrize("limit, step", [
    pytest.param("{unit: minute, requests_per_unit: 5}", 1, id="fixed_window"),
    pytest.param("{unit: second, requests_per_unit: 1, burst: 5, algorithm: token_bucket}", 10, id="token_bucket")])
def test_disconnected_client_returns_no_units_of_a_later_window(clock, limit, step):
    """Five requests wait and have used up another limit. Time passes, and five others use up the refilled limit. The
    waiting clients disconnect: no request is admitted for their earlier units."""
    user = {"X-User": "a", "X-Forwarded-Host": "h"}
    with Serve(rules=BESIDE.replace("LIMIT", limit), http=True) as serve:
        clock.advance(119.5 - clock.now() % 60)  # half a second before the end of a minute
        assert check(serve.http_port, "/door", {"X-User": "b", "X-Forwarded-Host": "h"}).status == 200
        waiters = []
        for n in range(5):
            waiters.append(Client(serve.http_port))
            waiters[n].send("GET", "/check/api", {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/door", **user})
            wait_for(lambda n=n: left(serve, "door", "h") == 8 - n, "it to wait")
        assert check(serve.http_port, "/", user).status == 429
        clock.advance(step)
        assert [check(serve.http_port, "/", user).status for _ in range(6)] == [200] * 5 + [429]
        for waiter in waiters:
            waiter.vanish()
        wait_for(lambda: left(serve, "door", "h") == 9, "all positions to be free")
        assert [check(serve.http_port, "/", user).status for _ in range(5)] == [429] * 5


def test_shutdown_does_not_wait_for_delayed_requests():
    with Serve(rules=RULES, http=True, args=["--drain", "200ms"]) as serve:
        assert check(serve.http_port, "/door", {"X-Forwarded-Host": "end"}).status == 200
        with waiting(serve, "/door", "end"):
            wait_for(lambda: left(serve, "door", "end") == 0, "it to wait")
            serve.stop()
