"""HTTP/1.0, 1.1 and 2, with and without TLS: connections stay in sync whatever is refused on them."""

import json
import socket

import pytest
from weirtest import H2, Client, Nginx, by_user, fetch, needs
from weirtest.env import machine

BUFFER = 16 * 1024  # client_body_buffer_size below
SERVER = """
	client_body_buffer_size 16k;
	client_max_body_size 8m;
	location / { weir on; proxy_pass http://api; }
	location /stream { weir on; proxy_request_buffering off; proxy_buffering off; proxy_pass http://api; }
	location /free { proxy_pass http://api; }
	location /file { weir on; alias {prefix}/html/index.html; }
"""


LISTEN = [*([] if machine.is_missing("ipv6") else ["[::1]:{port}"]), "unix:{prefix}/nginx.sock"]


@pytest.fixture(scope="module")
def nginx(_api):
    with Nginx(rules=by_user(), conf_server=SERVER, api=_api, h2c=True, tls=True, listen=LISTEN) as server:
        yield server


def use_up(nginx, user):
    """Sends requests of the user until one is refused."""
    with nginx.client() as c:
        while c.get("/", {"X-User": user}).status == 200:
            pass


# ---- HTTP/1.x ----

def test_http_1_0_with_and_without_keep_alive(nginx):
    """Without keep-alive the server closes; with it, it does not. This holds for refusals too."""
    use_up(nginx, "1.0")
    for user, status in (("1.0-new", 200), ("1.0", 429)):
        with nginx.client() as c:
            c.send("GET", "/", {"X-User": user}, version="1.0", host=None)
            r = c.read()
            assert r.status == status
            assert "X-Ratelimit-Remaining" in [n for n, _ in r.headers]
            assert len(r.body) == int(r.get("Content-Length"))
            assert c.at_end()
        with nginx.client() as c:
            for _ in range(2):
                r = c.get("/", {"X-User": user, "Connection": "keep-alive"}, version="1.0")
                assert (r.status, r.get("Connection")) == (status, "keep-alive")


def test_connection_close_is_respected(nginx):
    use_up(nginx, "close")
    with nginx.client() as c:
        r = c.get("/", {"X-User": "close", "Connection": "close"})
        assert (r.status, r.get("Connection")) == (429, "close")
        assert c.at_end()


@pytest.mark.parametrize("size", [0, 1, 100, BUFFER - 1, BUFFER, BUFFER + 1, 1000000])
@pytest.mark.parametrize("chunked", [0, 1000])
def test_keep_alive_after_a_refused_body(nginx, api, size, chunked):
    """The body of a refused request is read and discarded: the next request on the connection is read from its
    beginning, not from within that body."""
    use_up(nginx, "bodies")
    body = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n" * (size // 35 + 1)
    with nginx.client() as c:
        for method in ("POST", "PUT"):
            r = c.request(method, "/", {"X-User": "bodies"}, body[:size], chunked=chunked)
            assert (r.status, r.get("Connection")) == (429, "keep-alive")
            r = c.get("/free?echo=1")
            assert (r.status, json.loads(r.body)["target"]) == (200, "/free?echo=1")
    assert api.count("/smuggled") == 0


@pytest.mark.parametrize("target", ["/", "/stream"])
@pytest.mark.parametrize("chunked", [0, 7000])
def test_admitted_bodies_arrive_complete(nginx, target, chunked):
    body = bytes(range(256)) * 1500
    with nginx.client() as c:
        r = c.request("POST", f"{target}?echo=1", {"X-User": f"whole{target}{chunked}"}, body,
                      chunked=chunked)
        assert r.status == 200
        assert json.loads(r.body)["body_bytes"] == len(body)


def test_refusal_does_not_wait_for_the_body(nginx):
    """The response arrives before the body is sent. The body is then discarded."""
    use_up(nginx, "early")
    with nginx.client() as c:
        c.send("POST", "/", {"X-User": "early", "Content-Length": "300000"})
        assert c.read().status == 429
        c.raw(b"x" * 300000)
        assert c.get("/free").status == 200


def test_pipelined_requests_are_answered_in_order(nginx, api):
    """Ten requests in one write, five of them admitted: ten responses, in order."""
    with nginx.client() as c:
        for i in range(10):
            c.send("POST" if i % 2 else "GET", f"/p/{i}", {"X-User": "pipelined"},
                   b"body" if i % 2 else None)
        assert [c.read().status for _ in range(10)] == [200] * 5 + [429] * 5
        assert c.get("/free").status == 200
    assert [r.target for r in api.records()][:5] == [f"/p/{i}" for i in range(5)]


def test_pipelined_bodies_behind_a_refusal(nginx):
    """Requests behind a refused one with a chunked body are read from their beginning."""
    use_up(nginx, "behind")
    with nginx.client() as c:
        for _ in range(3):
            c.send("POST", "/", {"X-User": "behind"}, b"y" * 5000, chunked=999)
            c.send("POST", "/free?echo=1", {}, b"z" * 3000)
        for _ in range(3):
            assert c.read().status == 429
            assert json.loads(c.read().body)["body_bytes"] == 3000


def test_expect_100_continue(nginx):
    """Admitted: 100, then the response. Refused: 429 at once, so a client that waits for the 100 sends no body."""
    with nginx.client() as c:
        c.send("POST", "/?echo=1", {"X-User": "expect", "Expect": "100-continue", "Content-Length": "5"})
        assert c.read(interim=True).status == 100
        c.raw(b"hello")
        r = c.read()
        assert (r.status, json.loads(r.body)["body_bytes"]) == (200, 5)
    use_up(nginx, "expect")
    with nginx.client() as c:
        c.send("POST", "/", {"X-User": "expect", "Expect": "100-continue", "Content-Length": "5"})
        r = c.read(interim=True)
        if r.status == 100:  # nginx asks for the body that it will discard, and gets it
            c.raw(b"hello")
            r = c.read()
            assert r.status == 429
            assert c.get("/free").status == 200
        else:
            assert r.status == 429


def test_too_large_body_is_refused_by_nginx(nginx):
    r = nginx.request("POST", "/", {"X-User": "large", "Content-Length": "99999999"}, b"x")
    assert r.status == 413
    assert nginx.get("/", {"X-User": "large"}).get("X-Ratelimit-Remaining") == "4"


def test_streaming_passes_through(nginx):
    r = nginx.get("/stream?chunks=20&gap=0.005", {"X-User": "stream"})
    assert (r.status, r.body.count(b"piece")) == (200, 20)
    assert r.get("X-Ratelimit-Remaining") == "4"


def test_large_responses(nginx):
    r = nginx.get("/?bytes=3000000", {"X-User": "big"})
    assert (r.status, len(r.body), r.get("X-Ratelimit-Remaining")) == (200, 3000000, "4")


def test_every_method_counts(nginx):
    """Every method counts, including those that nginx does not know."""
    with nginx.client() as c:
        for left, method in zip("43210", ("OPTIONS", "DELETE", "PATCH", "PROPFIND", "BREW")):
            assert c.request(method, "/", {"X-User": "methods"}).get("X-Ratelimit-Remaining") == left
        assert c.get("/", {"X-User": "methods"}).status == 429


# ---- client addresses ----

def where(nginx, family):
    """Returns the address of nginx for a kind of socket."""
    return {"ipv4": nginx.port, "ipv6": ("::1", nginx.port), "unix": str(nginx.prefix / "nginx.sock")}[family]


@pytest.mark.parametrize("family", [pytest.param("ipv6", marks=needs("ipv6")), "unix"])
def test_ipv6_and_unix_sockets(nginx, family):
    """A user has one limit over IPv4, IPv6 and Unix sockets."""
    for left, address in (("4", where(nginx, family)), ("3", nginx.port)):
        r = fetch(address, headers={"X-User": f"from-{family}"})
        assert (r.status, r.get("X-Ratelimit-Remaining")) == (200, left)


ADDRESSES = """
domain: api
requests:
  - descriptor: [{key: address, from: remote_address}]
descriptors:
  - key: address
    rate_limit: {unit: week, requests_per_unit: 2, algorithm: token_bucket}
"""


@pytest.fixture(scope="module")
def by_address(_api):
    with Nginx(rules=ADDRESSES, conf_server="location / { weir on; proxy_pass http://api; }", api=_api,
               listen=LISTEN) as server:
        yield server


@pytest.mark.parametrize("family, source", [
    ("ipv4", None), ("ipv4", "127.0.0.9"), pytest.param("ipv6", None, marks=needs("ipv6")), ("unix", None)])
def test_each_address_has_its_own_limit(by_address, family, source):
    """The address is the key: 127.0.0.1, another IPv4 address and ::1. A Unix socket has no address: no descriptor, no
    limit."""
    statuses = [fetch(where(by_address, family), source=source).status for _ in range(3)]
    assert statuses == [200, 200, 200 if family == "unix" else 429]


# ---- HTTP/2 and TLS ----

@pytest.fixture(params=["h2c", "h2", "tls"])
def secure(request, nginx):
    """Returns a function that connects: HTTP/2 in plain text, HTTP/2 by ALPN, HTTP/1.1 over TLS."""
    return {"h2c": lambda: H2(nginx.h2c_port), "h2": lambda: H2(nginx.tls_port, tls=True),
            "tls": lambda: Client(nginx.tls_port, tls=True)}[request.param], request.param


def test_header_fields_and_refusals(nginx, secure):
    """Each kind of connection gets the same fields, statuses and bodies."""
    connect, name = secure
    with connect() as c:
        seen = [c.get("/", {"X-User": f"secure-{name}"}) for _ in range(7)]
        assert [r.status for r in seen] == [200] * 5 + [429] * 2
        assert [r.get("X-Ratelimit-Remaining") for r in seen] == list("4321000")
        assert seen[6].get("Retry-After").isdigit()
        assert json.loads(seen[6].body)["status"] == 429
        assert int(seen[6].get("Content-Length")) == len(seen[6].body)
        head = c.request("HEAD", "/", {"X-User": f"secure-{name}"})
        assert (head.status, head.body) == (429, b"")
        assert c.get("/free").status == 200


@pytest.mark.parametrize("size", [0, 5, BUFFER + 1, 400000])
def test_bodies_of_refused_requests(nginx, secure, size):
    """The body of a refused request is discarded, and the next request on the connection works."""
    connect, _ = secure
    use_up(nginx, "h2-bodies")
    with connect() as c:
        r = c.request("POST", "/", {"X-User": "h2-bodies"}, b"x" * size)
        assert r.status == 429
        assert json.loads(c.request("POST", "/free?echo=1", {}, b"z" * 70000).body)["body_bytes"] == 70000


def test_h2_streams_at_once(nginx, api):
    """Fifty streams of one connection, five admitted."""
    with H2(nginx.h2c_port) as c:
        ids = [c.send("GET", f"/h2/{i}", {"X-User": "streams"}) for i in range(50)]
        statuses = [c.read(i).status for i in ids]
    assert statuses.count(200) == 5 and statuses.count(429) == 45
    assert api.count("/h2/") == 5


def test_h2_header_names_are_in_lower_case(nginx):
    with H2(nginx.h2c_port) as c:
        r = c.get("/", {"X-User": "small"})
        assert all(n == n.lower() for n, _ in r.headers)
        assert "x-ratelimit-limit" in r.names()


def test_h2_stream_reset_within_a_body(nginx):
    """A stream that is reset in the middle of a refused body does not affect others."""
    use_up(nginx, "h2-reset")
    with H2(nginx.h2c_port) as c:
        for _ in range(5):
            stream = c.send("POST", "/", {"X-User": "h2-reset"}, b"x" * 1000, end=False)
            assert c.read(stream).status == 429
            c.cancel(stream)
        assert c.get("/free").status == 200


def test_one_limit_over_all_protocols(nginx):
    """Each protocol and each socket takes from the same counter."""
    user = {"X-User": "everywhere"}
    left = [nginx.get("/", user).get("X-Ratelimit-Remaining")]
    for make in (lambda: H2(nginx.h2c_port), lambda: H2(nginx.tls_port, tls=True),
                 lambda: Client(nginx.tls_port, tls=True), lambda: Client(where(nginx, "unix"))):
        with make() as c:
            left.append(c.get("/", user).get("X-Ratelimit-Remaining"))
    assert left == list("43210")
    assert nginx.get("/", user).status == 429


# ---- half-closed and upgraded ----

def test_half_closed_client_gets_its_response(nginx):
    """A client that has shut down its sending side gets its response, admitted or refused."""
    use_up(nginx, "half")
    for user, status in (("half-new", 200), ("half", 429)):
        with nginx.client() as c:
            c.send("GET", "/file", {"X-User": user, "Connection": "close"})
            c.socket.shutdown(socket.SHUT_WR)
            assert c.read().status == status


def test_websocket_upgrade_is_one_request(api):
    """A handshake that the API refuses is still a request. weir adds its header fields and does not change Upgrade."""
    server = """location / { weir on; proxy_set_header Upgrade $http_upgrade;
		proxy_set_header Connection upgrade; proxy_pass http://api; }"""
    with Nginx(rules=by_user(), conf_server=server, api=api) as nginx:
        r = nginx.get("/ws?echo=1", {"X-User": "ws", "Upgrade": "websocket", "Connection": "upgrade"})
        assert r.get("X-Ratelimit-Remaining") == "4"
        assert ["Upgrade", "websocket"] in json.loads(r.body)["headers"]
