"""weir gateway: forwarded requests as the API sees them, and refused requests."""

import base64
import hashlib
import json
import os
import socket
import threading

from weirtest import Api, Closed, fetch, free_port, needs, patience, wait_for
from weirtest.gateway import Gateway, Listener, read_head


def seen(response):
    """Returns the request that the API received, from a response to `?echo=1`: its fields as a dict in lower case."""
    echo = json.loads(response.body)
    return {**echo, "fields": {k.lower(): v for k, v in echo["headers"]}}


def test_admitted_requests_reach_the_api_and_refused_ones_do_not(api):
    with Gateway(api.port) as gateway:
        answers = [gateway.get("/few/a") for _ in range(4)]
        assert [r.status for r in answers] == [200, 200, 429, 429]
        assert [r.get("x-ratelimit-remaining") for r in answers] == ["1", "0", "0", "0"]
        assert answers[2].get("x-ratelimit-limit") == "2"
        assert answers[2].get("content-type") == "application/problem+json"
        assert api.count("/few") == 2


def test_header_fields_that_the_api_receives(api):
    """The target arrives unchanged, with Host of the client and the forwarding fields of the gateway."""
    with Gateway(api.port) as gateway:
        got = seen(gateway.get("/a//b/../c%2Fd?echo=1", {"Host": f"Shop.Example:{gateway.port}"}))
        assert got["target"] == "/a//b/../c%2Fd?echo=1"
        assert got["version"] == "HTTP/1.1"
        assert got["fields"]["host"] == f"Shop.Example:{gateway.port}"
        assert got["fields"]["x-forwarded-for"] == "127.0.0.1"
        assert got["fields"]["x-real-ip"] == "127.0.0.1"
        assert got["fields"]["x-forwarded-proto"] == "http"
        assert got["fields"]["x-forwarded-host"] == f"Shop.Example:{gateway.port}"
        assert got["fields"]["x-forwarded-port"] == str(gateway.port)
        assert len(got["fields"]["x-request-id"]) == 32
        assert "connection" not in got["fields"]


def test_forwarding_fields_of_a_client_are_removed(api):
    """No field that an API could take for the client's address, path, method or scheme reaches the API."""
    forged = {"X-Forwarded-For": "10.9.9.9", "X-Real-IP": "10.9.9.9", "X-Forwarded-Proto": "https",
              "X-Forwarded-Host": "evil", "X-Forwarded-Port": "1", "X-Request-Id": "mine",
              "X-Forwarded-Prefix": "/x", "X-Forwarded-Ssl": "on", "X-Forwarded-Scheme": "https",
              "Forwarded": "for=10.9.9.9", "X-Original-URL": "/admin",
              "X-Rewrite-URL": "/admin", "Proxy": "http://evil", "X_Forwarded_For": "10.9.9.9",
              "X_User_Id": "root", "TE": "trailers", "X-Kept": "yes",
              "X-Forwarded-Uri": "/admin", "X-Original-URI": "/admin", "X-Forwarded-Method": "GET",
              "X-Original-Method": "GET", "True-Client-IP": "10.9.9.9", "X-Client-IP": "10.9.9.9",
              "X-Cluster-Client-IP": "10.9.9.9", "CF-Connecting-IP": "10.9.9.9", "Fastly-Client-IP": "10.9.9.9"}
    others = ["Client-IP", "Proxy-Client-IP", "WL-Proxy-Client-IP", "X-Originating-IP", "X-Remote-IP", "X-Remote-Addr",
              "X-Forwarded", "Forwarded-For", "X-Original-Forwarded-For", "X-Envoy-External-Address",
              "X-Azure-ClientIP", "Fly-Client-IP", "X-Host", "X-Original-Host"]
    forged |= dict.fromkeys(others, "10.9.9.9")
    with Gateway(api.port) as gateway:
        fields = seen(gateway.get("/?echo=1", forged))["fields"]
        assert fields["x-kept"] == "yes"
        assert fields["x-forwarded-for"] == fields["x-real-ip"] == "127.0.0.1"
        assert fields["x-forwarded-proto"] == "http"
        assert fields["x-forwarded-host"] == "localhost"
        assert fields["x-request-id"] != "mine"
        gone = {"forwarded", "x-forwarded-prefix", "x-original-url", "x-rewrite-url", "proxy", "te",
                "x-forwarded-ssl", "x-forwarded-scheme", "x-forwarded-uri", "x-original-uri",
                "x-forwarded-method", "x-original-method", "true-client-ip", "x-client-ip",
                "x-cluster-client-ip", "cf-connecting-ip", "fastly-client-ip", *map(str.lower, others)}
        assert not gone & set(fields)
        assert not [name for name in fields if "_" in name]


def test_host_in_the_request_line_takes_precedence(api):
    """The API gets the host of an absolute request target, or `localhost` if there is no host."""
    with Gateway(api.port) as gateway:
        got = seen(gateway.get("http://inner.example/?echo=1", {"Host": "outer.example"}))
        assert got["fields"]["host"] == "inner.example"
        assert got["target"] == "/?echo=1"
        got = seen(gateway.get("/?echo=1", version="1.0", host=None))
        assert got["fields"]["host"] == "localhost"
        assert got["version"] == "HTTP/1.1"


def test_connections_to_the_api_are_reused(api):
    with Gateway(api.port, "--workers", 1) as gateway:
        with gateway.client() as client:
            assert [client.get(f"/{i}").status for i in range(20)] == [200] * 20
        assert len(open_connections(api.port)) == 1


def open_connections(port):
    """Returns the established connections to a port of 127.0.0.1 from /proc/net/tcp, on the connecting side."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return [r for r in rows if r[2] == f"0100007F:{port:04X}" and r[3] == "01"]


def test_request_smuggling_is_refused(api):
    """Lengths that two servers could read differently: 400, and the bytes after them are not read as a request."""
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    heads = [b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
             b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd" + smuggled,
             b"Transfer-Encoding: xchunked\r\n\r\n" + smuggled,
             b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled,
             b"Content-Length: +3\r\n\r\nabc" + smuggled,
             b"Content-Length : 3\r\n\r\nabc" + smuggled]
    with Gateway(api.port) as gateway:
        for head in heads:
            with gateway.client() as client:
                client.raw(b"POST /first HTTP/1.1\r\nHost: a\r\n" + head)
                try:
                    first = client.read().status
                except Closed:
                    first = None
                assert first in (400, 501, None), head
                assert client.at_end(), head
        assert api.count() == 0


def test_websocket(api):
    """A handshake passes, then bytes in both directions. Other protocols are not switched to."""
    def echo(connection):
        head, _ = read_head(connection)
        fields = {k.lower(): v.strip() for k, _, v in
                  (line.partition(":") for line in head.split("\r\n")[1:])}
        if fields.get("upgrade") != "websocket":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
                               + (b"none" if "upgrade" not in fields else b"some"))
            return
        assert fields["connection"] == "upgrade"
        accept = base64.b64encode(hashlib.sha1(
            (fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                           b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while data := connection.recv(4096):
            connection.sendall(bytes(b ^ 0x20 for b in data))

    hello = {"Upgrade": "WebSocket", "Connection": "keep-alive, Upgrade",
             "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    with Listener(echo) as server, Gateway(server.port) as gateway:
        with gateway.client() as client:
            client.send("GET", "/few/socket", hello)
            answer = client.read(interim=True)
            assert answer.status == 101
            assert answer.get("sec-websocket-accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
            for word in (b"hello", b"again"):
                client.raw(word)
                assert client.socket.recv(4096) == word.upper()
        h2c = {"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings", "HTTP2-Settings": "AAMAAABk"}
        assert gateway.get("/h2c", h2c).body == b"none"
        assert gateway.get("/few/socket").status == 200
        assert gateway.get("/few/socket", hello).status == 429  # a handshake is a request like others


def test_responses_are_streamed():
    """Each piece is sent only after the client has the previous one. (Pieces that are chunks, or come with the head,
    would arrive even if nginx buffered them.)"""
    has = [threading.Event() for _ in range(3)]

    def events(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                           b"Content-Length: 32\r\n\r\ndata: 0\n")
        for n in (1, 2, 3):
            assert has[n - 1].wait(patience(20))
            connection.sendall(b"data: %d\n" % n)

    with Listener(events) as server, Gateway(server.port) as gateway:
        with gateway.client() as client:
            client.send("GET", "/events")
            for n in range(3):
                while b"data: %d" % n not in client.parser.buffer:
                    client.parser.buffer += client.socket.recv(4096)
                has[n].set()
            assert client.read().body == b"data: 0\ndata: 1\ndata: 2\ndata: 3\n"


def test_bodies_small_large_and_chunked(api):
    """Bodies arrive complete with a Content-Length. A body above --max-body gets 413."""
    large = os.urandom(3 * 1024 * 1024)
    with Gateway(api.port, "--max-body", "4M") as gateway:
        for how in ({}, {"chunked": 100000}):
            got = seen(gateway.request("POST", "/?echo=1", body=large, **how))
            assert got["body_sha256"] == hashlib.sha256(large).hexdigest()
            assert got["fields"]["content-length"] == str(len(large))  # complete before it is forwarded
        before = api.count()
        assert gateway.request("POST", "/too-large", {"Content-Length": str(4 * 1024 * 1024 + 1)},
                               b"").status == 413
        assert api.count() == before


def test_stream_uploads_forwards_bodies_unbuffered():
    """--stream-uploads: the API has the beginning before the client sends the end."""
    has_first = threading.Event()

    def upload(connection):
        _, rest = read_head(connection)
        data = rest
        while b"first" not in data:
            data += connection.recv(4096)
        has_first.set()
        while b"second" not in data:
            data += connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with Listener(upload) as server, Gateway(server.port, "--stream-uploads") as gateway:
        with gateway.client() as client:
            client.send("POST", "/", {"Content-Length": "11"})
            client.raw(b"first")
            assert has_first.wait(patience(20))
            client.raw(b"second")
            assert client.read().status == 200


def test_x_accel_fields_of_the_api_have_no_effect(api):
    """X-Accel fields of the API change nothing in nginx and do not reach the client."""
    with Gateway(api.port) as gateway:
        for name, value in (("X-Accel-Redirect", "/elsewhere"), ("X-Accel-Limit-Rate", "1"),
                            ("X-Accel-Buffering", "yes"), ("X-Accel-Charset", "utf-7")):
            answer = gateway.get(f"/?h={name}:{value}")
            assert (answer.status, answer.body) == (200, b"ok\n")
            assert not [n for n in answer.names() if n.startswith("x-accel")]
        assert api.count() == 4


def test_dead_api_server_is_skipped(api):
    """Requests for a dead server are sent to the other server, including POST."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        dead = nobody.getsockname()[1]
        with Gateway(f"http://127.0.0.1:{dead},http://127.0.0.1:{api.port}") as gateway:
            statuses = [gateway.get("/").status for _ in range(10)]
            statuses += [gateway.request("POST", "/", body=b"x").status for _ in range(10)]
            assert statuses == [200] * 20
            assert api.count() == 20


def test_unsafe_request_is_not_sent_twice(api):
    """A POST that may have reached a server is not repeated; a GET is."""
    with Api() as other:
        with Gateway(f"http://127.0.0.1:{other.port},http://127.0.0.1:{api.port}") as gateway:
            assert gateway.request("POST", "/post?drop=1", body=b"x").status == 502
            assert api.count("/post") + other.count("/post") == 1
            assert gateway.get("/get?drop=1").status == 502
            assert (api.count("/get"), other.count("/get")) == (1, 1)


def test_api_that_starts_later():
    port = free_port()
    with Gateway(port) as gateway:
        assert gateway.get("/").status == 502

        def answer(connection):
            read_head(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

        with Listener(answer, port=port):
            wait_for(lambda: gateway.get("/").status == 200, "the API to be found")


def test_silent_api_times_out():
    with Listener(lambda c: (read_head(c), c.recv(1))) as server:
        with Gateway(server.port, "--upstream-timeout", "200ms") as gateway:
            assert gateway.get("/").status == 504


def test_unix_sockets_on_both_sides(api, tmp_path):
    """The gateway listens on a Unix socket and forwards to one. It replaces the socket of a killed gateway."""
    path = str(tmp_path / "gateway.sock")
    with Gateway(f"unix:{api.socket}", "--listen", f"unix:{path}"):
        assert seen(fetch(path, target="/?echo=1"))["fields"]["x-forwarded-for"] == "unix:"
    assert not os.path.exists(path)
    left = socket.socket(socket.AF_UNIX)  # as after a kill: a socket without a listener
    left.bind(path)
    left.close()
    with Gateway(f"unix:{api.socket}", "--listen", f"unix:{path}"):
        assert fetch(path).status == 200


def test_port_without_address_listens_on_every_address(api):
    port = free_port()
    with Gateway(api.port, listen=str(port)) as gateway:
        for where in (("127.0.0.1", port), ("127.0.0.2", port)):
            assert fetch(where).status == 200
        assert f"  listens   http://*:{port}\n" in gateway.output()


@needs("ipv6")
def test_port_without_address_listens_on_ipv6(api):
    port = free_port()
    with Gateway(api.port, listen=str(port)):
        assert fetch(("::1", port)).status == 200


def test_dry_run_counts_and_refuses_nothing(api):
    with Gateway(api.port, "--dry-run", "--access-log", "-") as gateway:
        assert [gateway.get("/few/a").status for _ in range(4)] == [200] * 4
        gateway.wait_output("weir=REFUSED_DRY_RUN", times=2)
        assert "(dry run: counted, never enforced)" in gateway.output()


def test_header_profiles(api):
    with Gateway(api.port, "--headers", "github") as gateway:
        answer = gateway.get("/few/a")
        assert (answer.get("x-ratelimit-limit"), answer.get("x-ratelimit-used")) == ("2", "1")
        assert "ratelimit-policy" not in answer.names()
