"""Hostile or broken clients: slow clients, disconnecting clients, floods, absurd keys."""

import socket

import pytest
from weirtest import H2, Closed, Nginx, by_user, full, message, send_pipelined, scaled

SERVER = """
	large_client_header_buffers 4 16k;
	location / { weir on; proxy_pass http://api; }
	location /free { proxy_pass http://api; }
"""


@pytest.fixture(scope="module")
def nginx(_api):
    with Nginx(rules=by_user(), conf_server=SERVER, api=_api, h2c=True) as server:
        yield server


def left(nginx, user):
    """Returns the user's remaining units. It sends one more request and adds its unit to the result."""
    r = nginx.get("/", {"X-User": user})
    return int(r.get("X-Ratelimit-Remaining")) + (r.status == 200)


def still_works(nginx):
    """Checks that nginx serves a new client."""
    assert nginx.get("/free").status == 200


# ---- slow clients ----

def test_request_byte_by_byte_counts_once(nginx):
    """A request that arrives byte by byte counts once, admitted or refused, including its body."""
    data = message("POST", "/", {"X-User": "bytewise"}, b"0123456789")
    with nginx.client() as c:
        for status in [200] * 5 + [429] * 2:
            for i in range(len(data)):
                c.raw(data[i:i + 1])
            assert c.read().status == status


def test_incomplete_request_counts_nothing(nginx):
    """The decision needs a complete head. Ten clients that never complete theirs take nothing."""
    clients = [nginx.client() for _ in range(10)]
    for c in clients:
        c.raw(b"GET / HTTP/1.1\r\nHost: x\r\nX-User: unfinished\r\nX-Never: end")
    assert nginx.get("/", {"X-User": "unfinished"}).get("X-Ratelimit-Remaining") == "4"
    for c in clients:
        c.vanish()
    assert nginx.get("/", {"X-User": "unfinished"}).get("X-Ratelimit-Remaining") == "3"


def test_refused_request_whose_body_never_comes(nginx):
    """Refused clients that announce a body and send none hold a connection until the timeout at most. Others are served
    meanwhile."""
    while nginx.get("/", {"X-User": "bodyless"}).status == 200:
        pass
    clients = [nginx.client() for _ in range(30)]
    for c in clients:
        c.send("POST", "/", {"X-User": "bodyless", "Content-Length": "1000000"})
    for c in clients:
        assert c.read().status == 429
        c.raw(b"x")
    still_works(nginx)
    for c in clients[:15]:
        c.vanish()
    still_works(nginx)
    for c in clients[15:]:
        c.close()


def test_client_that_reads_no_refusals(nginx):
    """Refusals pile up unread on a connection; then its client disconnects."""
    while nginx.get("/", {"X-User": "deaf"}).status == 200:
        pass
    with nginx.client() as c:
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.socket.settimeout(0.5)
        sent = message("GET", "/", {"X-User": "deaf"})
        try:
            for _ in range(scaled(3000)):
                c.raw(sent)
        except (TimeoutError, ConnectionError):
            pass
        c.vanish()
    still_works(nginx)


# ---- disconnecting clients ----

STAGES = {
    "connected": b"",
    "in the request line": b"GET / HT",
    "in the head": b"GET / HTTP/1.1\r\nHost: x\r\nX-User: gone\r\n",
    "after the head": message("GET", "/?delay=0.05", {"X-User": "gone"}),
    "in the body": message("POST", "/", {"X-User": "gone", "Content-Length": "100"}) + b"half",
    "in a chunk": message("POST", "/", {"X-User": "gone", "Transfer-Encoding": "chunked"}) + b"64\r\nhal",
    "while it is served": message("GET", "/?bytes=3000000", {"X-User": "gone"}),
    "while it streams": message("GET", "/?chunks=50&gap=0.01", {"X-User": "gone"}),
    "with more behind": message("GET", "/", {"X-User": "gone"}) * 3 + b"GET / HTTP",
}


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_client_disconnects_at_each_stage(nginx, stage, refused):
    """The client disconnects before, within or after its head or body. A request without a complete head is not
    counted."""
    user = f"gone-{stage.replace(' ', '-')}-{refused}".encode()
    data = STAGES[stage].replace(b"X-User: gone", b"X-User: " + user)
    if refused:
        while nginx.get("/", {"X-User": user}).status == 200:
            pass
    for how in ("vanish", "close"):
        for _ in range(3):
            c = nginx.client()
            c.raw(data)
            getattr(c, how)()
    still_works(nginx)
    r = nginx.get("/", {"X-User": user})
    assert r.status in (200, 429)
    if stage in ("connected", "in the request line", "in the head") and not refused:
        assert r.get("X-Ratelimit-Remaining") == "4"


def test_http2_client_disconnects(nginx):
    for end in (True, False):
        c = H2(nginx.h2c_port)
        for i in range(20):
            c.send("POST", f"/{i}", {"X-User": "h2-gone"}, b"x" * 10, end=end)
        c.close()
    still_works(nginx)


# ---- absurd keys ----

KEYS = {
    "empty": b"", "blank": b"   ", "8 kB": b"k" * 8000, "15 kB": b"k" * 15000, "one byte": b"k",
    "binary": bytes(b for b in range(1, 256) if b not in b"\r\n"), "invalid UTF-8": b"\xff\xfe\xc3\x28",
    "overlong": b"\xc0\xaf\xe0\x80\xaf", "emoji": "🌊".encode(), "quotes": b"\"'\\<script>&amp;",
    "percent": b"%00%0d%0a%25", "separators": b"a=b;c|d/e_f", "format": b"%s%n%x%p{}$user",
    "looks like a field": b"x: y", "long dots": b"../" * 500,
}


@pytest.mark.parametrize("name", KEYS)
def test_absurd_header_values(nginx, name):
    """Each value is its own key with five requests. An empty value is no key, and is not limited. `binary` has a comma,
    so it is a list: its counter is that of ambiguous requests."""
    key = KEYS[name]
    seen = [nginx.get("/", {"X-User": key}) for _ in range(7)]
    if not key.strip():
        assert [r.status for r in seen] == [200] * 7
        assert {r.get("X-Ratelimit-Limit") for r in seen} == {None}
    else:
        assert [r.status for r in seen] == [200] * 5 + [429] * 2
    for r in seen:  # weir's responses contain nothing that a client sent
        assert len(key) < 5 or key.strip() not in str(r.headers).encode("utf-8", "surrogateescape")
        assert r.status != 429 or len(key) < 5 or key not in r.body
    still_works(nginx)


def test_keys_that_differ_in_the_last_byte_of_8_kb(nginx):
    """Long keys are not shortened: the two keys have separate counters."""
    for end in (b"a", b"b"):
        assert left(nginx, b"z" * 8000 + end) == 5


def test_nul_in_a_header_is_refused_by_nginx(nginx):
    with nginx.client() as c:
        c.raw(b"GET / HTTP/1.1\r\nHost: x\r\nX-User: a\0b\r\n\r\n")
        assert c.read().status == 400
    still_works(nginx)


PATHS = """
domain: api
requests:
  - when: {path: "/users/{id}"}
    descriptor: [{key: id, from: path.id}]
  - when: {path: /q}
    descriptor: [{key: q, from: query.k}]
  - when: {path: /c}
    descriptor: [{key: c, from: cookie.k}]
  - when: {path: /host}
    descriptor: [{key: h, from: host}]
descriptors:
  - {key: id, rate_limit: {unit: week, requests_per_unit: 3, algorithm: token_bucket}}
  - {key: q, rate_limit: {unit: week, requests_per_unit: 3, algorithm: token_bucket}}
  - {key: c, rate_limit: {unit: week, requests_per_unit: 3, algorithm: token_bucket}}
  - {key: h, rate_limit: {unit: week, requests_per_unit: 3, algorithm: token_bucket}}
"""


@pytest.fixture(scope="module")
def paths(_api):
    """An nginx with limits by path, query parameter and cookie."""
    with Nginx(rules=PATHS, conf_server="location / { weir on; proxy_pass http://api; }",
               api=_api) as server:
        yield server


def together(nginx, spellings, headers=({},)):
    """Sends each spelling in turn. Returns True if they share one counter of three."""
    asked = [(t, h) for t in spellings for h in headers]
    seen = [nginx.get(*asked[i % len(asked)]).status for i in range(max(5, len(asked) + 1))]
    return seen[:3] == [200] * 3 and set(seen[3:]) == {429}


def test_all_spellings_of_a_key_share_one_counter(paths):
    """A client that spells its key in another way gets no new counter."""
    assert together(paths, ["/users/7", "/users/%37", "//users//7", "/users/x/../7", "/users/./7",
                            "/users/7/", "/users/7?x=1"])
    assert together(paths, ["/users/8", "//host.example/users/8", "///host/users//8", "http://h//host/users/8"])
    assert together(paths, ["/q?k=abc", "/q?k=%61bc", "/q?z=1&k=abc", "/q?k=abc&k=abc"])
    assert together(paths, ["/c"], [{"Cookie": "k=v1"}, {"Cookie": "a=b; k=v1"}, {"Cookie": 'k="v1"'}])
    assert together(paths, ["/host"], [{"Host": "Example.com"}, {"Host": "example.com"},
                                       {"Host": "EXAMPLE.COM:80"}])


@pytest.mark.parametrize("target", ["/users/%00", "/users/%ff%fe", "/users/%E2%98%83", "/users/a%20b",
                                    "/users/%25%32%35", "/q?k=%00", "/q?k=%ff", "/q?k=%zz",
                                    "/q?k=" + "v" * 7000, "/q?k=a%0d%0ab", "/q?" + "&" * 500 + "k=1",
                                    "/users/" + "u" * 7000])
def test_absurd_targets(paths, target):
    """Each target is limited, or refused as unreadable. No target avoids the limit or crashes nginx."""
    statuses = [paths.get(target).status for _ in range(5)]
    assert statuses in ([200] * 3 + [429] * 2, [400] * 5), statuses


def test_garbage_is_refused_by_nginx(paths):
    """Bytes that are not a request get an error or no response, and nginx keeps serving."""
    for garbage in (b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00",
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET http://x/users/7 HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
                    b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        with paths.client() as c:
            c.raw(garbage)
            c.socket.shutdown(socket.SHUT_WR)
            try:
                assert c.read().status >= 400
            except Closed:
                pass
    assert paths.get("/other").status == 200


# ---- floods ----

def test_flood_of_header_fields(nginx):
    """As many fields as nginx accepts, with the relevant field at the end, twice, or among similar names."""
    many = [(f"X-Field-{i}", "v" * 10) for i in range(900)]
    with nginx.client() as c:
        for status in [200] * 5 + [429]:
            assert c.get("/", [*many, ("X-User", "flood")]).status == status
    lookalikes = [("X-User-", "a"), ("X-Use", "b"), ("X_User", "c"), ("XX-User", "d")]
    assert nginx.get("/", [*lookalikes, ("x-uSER", "alike")]).get("X-Ratelimit-Remaining") == "4"
    for _ in range(3):
        assert nginx.get("/", [("X-User", "v" * 200)] * 200).status in (200, 400, 429)
    r = nginx.get("/", [(f"X-{i}", "v" * 1000) for i in range(100)])
    assert r.status == 400  # more than its buffers hold: nginx refuses that itself
    still_works(nginx)


def test_flood_of_cookies_and_query_parameters(paths):
    """The key is found behind hundreds of other cookies and parameters."""
    cookies = "; ".join(f"c{i}=v" for i in range(800))
    assert [paths.get("/c", {"Cookie": f"{cookies}; k=flood"}).status for _ in range(4)] == [200] * 3 + [429]
    query = "&".join(f"p{i}=v" for i in range(900))
    assert [paths.get(f"/q?{query}&k=flood").status for _ in range(4)] == [200] * 3 + [429]


LIMIT = "      - {name: n%d, unit: week, requests_per_unit: %d, algorithm: token_bucket}\n"
EIGHT = "".join(LIMIT % (i, i + 1) for i in range(8))
NINE = "domain: api\ndescriptors:\n" + "".join(f"  - key: k{i}\n    rate_limits:\n{EIGHT}" for i in range(9))


@pytest.mark.parametrize("auth", ["", "weir_auth /auth;"])
def test_request_with_too_many_limits_is_refused(api, auth):
    """A client adds the field for a ninth descriptor with limits 65 to 72: the request is refused, not exempted from
    its limits."""
    fields = "".join(f"weir_descriptor api k{i}=$http_x_{i}; " for i in range(9))
    server = f"""
	location / {{ {fields} {auth} proxy_pass http://api; }}
	location = /auth {{ internal; proxy_pass http://api/auth; }}
	location /dry {{ {fields} weir_dry_run on; proxy_pass http://api; }}
	"""
    eight = {f"X-{i}": "v" for i in range(8)}
    with Nginx(rules=NINE, conf_server=server, api=api) as nginx:
        assert [nginx.get("/x", eight).status for _ in range(3)] == [200, 429, 429]
        api.reset()
        for _ in range(3):
            assert nginx.get("/x", {**eight, "X-8": "v"}).status == 429
        assert api.count("/x") == 0
        assert nginx.get("/dry", {**eight, "X-8": "v"}).status == 200


@pytest.mark.seconds(90)
@pytest.mark.parametrize("keys", [10000, pytest.param(100000, marks=full("200,000 requests"))])
def test_many_distinct_keys_are_counted_exactly(keys):
    """Every key has its own counter, even with 100,000 keys: each asks twice with one allowed. The table has room for
    all, so none is evicted: exactly one of two requests passes for each key."""
    keys = scaled(keys)
    rules = by_user("{unit: week, requests_per_unit: 1, algorithm: token_bucket}")
    server = "keepalive_requests 1000000; location / { weir on; empty_gif; }"
    with Nginx(rules=rules, conf_server=server, workers=2, reuseport=True,
               table="weir_table test 32m dir={prefix}/table;", log_level="warn") as nginx:
        heads = [message("GET", "/", {"X-User": f"user-{i}"}) for i in range(keys)]
        for status in (200, 429):
            assert send_pipelined(nginx.port, heads, connections=8) == {status: keys}


def test_flood_of_keys_keeps_refused_clients_refused():
    """A flood of made-up keys in a small table: only keys without active state are evicted. A refused client stays
    refused, and nginx keeps running."""
    keys = scaled(40000)
    rules = by_user("{unit: week, requests_per_unit: 2, algorithm: token_bucket}")
    server = "keepalive_requests 1000000; location / { weir on; empty_gif; }"
    with Nginx(rules=rules, conf_server=server, table="weir_table test 512k dir={prefix}/table;") as nginx:
        victim = {"X-User": "victim"}
        assert [nginx.get("/", victim).status for _ in range(3)] == [200, 200, 429]
        counts = send_pipelined(nginx.port, (message("GET", "/", {"X-User": f"flood-{i}"}) for i in range(keys)))
        assert counts == {200: keys}
        assert nginx.get("/", victim).status == 429


def test_hundreds_of_short_connections(nginx):
    """Hundreds of connections open and close, with and without a byte."""
    for _ in range(3):
        sockets = [socket.create_connection(("127.0.0.1", nginx.port)) for _ in range(scaled(300, 50))]
        for i, s in enumerate(sockets):
            if i % 2:
                s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-User: storm\r\n\r\n"[:i % 50])
            s.close()
    still_works(nginx)
