"""Settling in the nginx module: requests that cost what their responses tell, and every kind of response.

One worker runs in most tests. It settles a request in the same turn of its loop in which it sends the last byte, so the
next request of a client finds the request settled. The `left_…` functions send a request that costs nothing in the end."""

import json
from urllib.parse import quote

import pytest
from weirtest import H2, Nginx, free_port, wait_for
from weirtest.fakeserve import FakeServe
from weirtest.gateway import Listener, read_head

RULES = """
domain: api
requests:
  - when: {path: /chat}
    descriptor: [{key: tenant, from: header.x-tenant}]
    cost: {reserve: 600, actual: {from: response.json./usage/total_tokens, default: reserved}}
  - when: {path: /paid}
    descriptor: [{key: paid, from: header.x-tenant}]
    cost: {reserve: 10, actual: {from: response.header.x-cost, default: 7, max: 50}}
  - when: {path: /login}
    descriptor: [{key: login, from: header.x-tenant}]
    count: {status: [401, 403]}
  - when: {path: /v1/*}
    descriptor: [{key: user, from: header.x-tenant}]
    count: {except: [5xx]}
  - when: {path: /bytes}
    descriptor: [{key: bytes, from: header.x-tenant}]
    cost: {reserve: 0, actual: {from: response.bytes, default: 0}}
  - when: {path: /time}
    descriptor: [{key: time, from: header.x-tenant}]
    cost: {reserve: 1, actual: {from: response.time_ms, default: 1}}
  - when: {path: /upload}
    descriptor: [{key: upload, from: header.x-tenant}]
    cost: {from: request.bytes, default: 9, max: 5000}
descriptors:
""" + "".join(f"""
  - key: {key}
    rate_limit: {{unit: day, requests_per_unit: 10000}}""" for key in
              ("tenant", "paid", "login", "user", "bytes", "time", "upload"))

SERVER = """
	location / { weir on; proxy_pass http://api; }
"""

USAGE = '{"id": 1, "usage": {"prompt_tokens": 200, "completion_tokens": 300, "total_tokens": %d}}'
TENANT = {"X-Tenant": "t"}


def start(api, server=SERVER, rules=RULES, **kwargs):
    return Nginx(rules=rules, conf_server=server, api=api, **kwargs)


def chat(body, **options):
    """Returns the target of a request to which the API answers with this body."""
    return "/chat?" + "&".join(f"{k}={quote(str(v))}" for k, v in {"body": body, **options}.items())


def get(nginx, target, headers=None):
    return nginx.get(target, {**TENANT, **(headers or {})})


def left(nginx, target, reserved):
    return int(get(nginx, target).get("x-ratelimit-remaining")) + reserved


def left_tokens(nginx):
    return left(nginx, chat(USAGE % 0), 600)


def left_paid(nginx):
    return left(nginx, "/paid?h=X-Cost:0", 10)


def left_login(nginx):
    return left(nginx, "/login?status=200", 1)


def left_user(nginx):
    return left(nginx, "/v1/x?status=503", 1)


def left_bytes(nginx):
    return int(nginx.request("HEAD", "/bytes", TENANT).get("x-ratelimit-remaining"))


# ---- tokens in the body ----


def test_tokens_of_a_json_answer(api):
    with start(api) as nginx:
        first = get(nginx, chat(USAGE % 500))
        assert first.status == 200
        assert json.loads(first.body)["usage"]["total_tokens"] == 500
        assert first.get("x-ratelimit-limit") == "10000"
        assert first.get("x-ratelimit-remaining") == "9400"  # the reservation
        second = get(nginx, chat(USAGE % 500))
        assert second.get("x-ratelimit-remaining") == "8900"  # 500 settled, 600 reserved
        assert left_tokens(nginx) == 9000


def test_more_tokens_than_reserved_are_debt(api):
    """5 × 600 are reserved and 5 × 2,500 used: 2,500 units of debt. The next requests are refused until the window ends."""
    with start(api) as nginx:
        answers = [get(nginx, chat(USAGE % 2500)) for _ in range(7)]
        assert [r.status for r in answers] == [200, 200, 200, 200, 429, 429, 429]
        assert [r.get("x-ratelimit-remaining") for r in answers] == ["9400", "6900", "4400", "1900", "0", "0", "0"]
        assert api.count("/chat") == 4


def test_debt_is_paid_before_the_next_admission(api, clock):
    """A bucket of 1,000 tokens, 100 each second. One answer of 3,000 leaves a debt of 2,000, which takes 20 s; the next
    reservation of 600 needs 6 s more."""
    rules = RULES.replace("""
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 10000}""", """
  - key: tenant
    rate_limit: {unit: second, requests_per_unit: 100, algorithm: token_bucket, burst: 1000, max_debt: 2000}""")
    assert rules != RULES
    with start(api, rules=rules) as nginx:
        assert get(nginx, chat(USAGE % 3000)).get("x-ratelimit-remaining") == "400"
        refused = get(nginx, chat(USAGE % 3000))
        assert refused.status == 429
        assert refused.get("x-ratelimit-remaining") == "0"
        assert refused.get("retry-after") == "26"
        clock.advance(25.9)
        assert get(nginx, chat(USAGE % 3000)).status == 429
        clock.advance(0.1)
        paid = get(nginx, chat(USAGE % 600))
        assert (paid.status, paid.get("x-ratelimit-remaining")) == (200, "0")


@pytest.mark.parametrize("body, tokens", [
    ("{}", 600), (" ", 600), ('{"usage": {"total_tokens": null}}', 600), ('{"usage": {"total_tokens": "7"}}', 600),
    ('{"usage": {"total_tokens": -7}}', 600), ('{"usage": {"total_tokens": 12.5}}', 13),
    ('{"usage": {"total_tokens": 500}', 500), ('{"usage": {"total_tokens": 5', 600), ("not JSON", 600),
    ('{"usage": [500]}', 600), ('{"usage": {"total_tokens": 0}}', 0)])
def test_odd_bodies(api, body, tokens):
    """A body without a usable number costs the reservation. The client gets the body as it is."""
    with start(api) as nginx:
        assert get(nginx, chat(body)).body == body.encode()
        assert left_tokens(nginx) == 10000 - tokens


def test_other_content_types_cost_the_reservation(api):
    with start(api) as nginx:
        get(nginx, chat(USAGE % 500, type="text/html"))
        assert left_tokens(nginx) == 9400
        get(nginx, chat(USAGE % 500, type="application/json; charset=utf-8"))
        assert left_tokens(nginx) == 8900


def test_tokens_of_a_stream(api):
    """The last event that has the pointer counts. 10,000 events pass."""
    with start(api) as nginx:
        answer = get(nginx, chat(USAGE % 500, events=3))
        assert answer.body == (b'data: {"n": 0}\n\ndata: {"n": 1}\n\ndata: {"n": 2}\n\ndata: '
                               + (USAGE % 500).encode() + b"\n\ndata: [DONE]\n\n")
        assert left_tokens(nginx) == 9500
        answer = get(nginx, chat(USAGE % 400, events=10000))
        assert answer.body.count(b"\n\n") == 10002
        assert left_tokens(nginx) == 9100
        get(nginx, "/chat?events=10")  # no usage
        assert left_tokens(nginx) == 8500


def read_until(client, text):
    while text not in client.parser.buffer:
        data = client.socket.recv(65536)
        assert data, f"no {text!r}"
        client.parser.buffer += data


def test_events_are_not_held_back(api):
    """Each event reaches the client before the API sends the next one. The usage is settled at the end."""
    with start(api, server="location / { weir on; proxy_buffering off; proxy_pass http://api; }") as nginx:
        with nginx.client() as client:
            client.send("GET", chat(USAGE % 500, events=3, step="s"), TENANT)
            for n, text in enumerate([b'{"n": 0}', b'{"n": 1}', b'{"n": 2}', b'"total_tokens": 500', b"[DONE]"]):
                assert text not in client.parser.buffer
                api.release(f"s{n}")
                read_until(client, text)
            assert client.read().status == 200
        assert left_tokens(nginx) == 9500


def test_a_client_that_leaves_in_the_middle_of_a_stream(api):
    """A usage that was seen counts; otherwise the reservation does."""
    with start(api, server="location / { weir on; proxy_buffering off; proxy_pass http://api; }") as nginx:
        with nginx.client() as client:
            client.send("GET", chat(USAGE % 500, events=1, step="a"), TENANT)
            api.release("a0")
            read_until(client, b'{"n": 0}')
            api.release("a1")
            read_until(client, b'"total_tokens": 500')
        wait_for(lambda: left_tokens(nginx) == 9500, "the usage to be settled")
        with nginx.client() as client:
            client.send("GET", chat(USAGE % 500, events=1, step="b"), TENANT)
            api.release("b0")
            read_until(client, b'{"n": 0}')
        assert left_tokens(nginx) == 8900
        api.release("b1")
        assert left_tokens(nginx) == 8900


def test_a_body_from_a_file_is_read(api):
    """A large answer is buffered in a temporary file, or comes from the cache."""
    server = """
	location / { weir on; proxy_pass http://api; proxy_buffers 4 4k; proxy_busy_buffers_size 8k; }
	location /chat/file { weir on; alias {prefix}/html/chat.json; default_type application/json; sendfile on; }"""
    rules = RULES.replace("{path: /chat}", "{path: /chat/*}")
    text = '{"choices": ["' + "x" * 20_000_000 + '"], "usage": {"total_tokens": 500}}'

    def answer(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                           % len(text) + text.encode())

    with Listener(answer) as other:
        server += """
	location /chat/big { weir on; proxy_pass http://127.0.0.1:%d; proxy_buffers 4 4k; proxy_busy_buffers_size 8k;
		sendfile on; }""" % other.port
        with start(api, server=server, rules=rules, files={"chat.json": text}) as nginx:
            assert len(get(nginx, "/chat/file").body) == len(text)
            assert left_tokens(nginx) == 9500
            with nginx.client() as client:
                client.send("GET", "/chat/big", TENANT)
                wait_for(lambda: nginx.logged("buffered to a temporary file"), "a temporary file")
                assert client.read().body == text.encode()
            assert left_tokens(nginx) == 9000
            assert nginx.get("/chat/file", {**TENANT, "Range": "bytes=0-9"}).body == text[:10].encode()
            assert left_tokens(nginx) == 8400  # the part has no usage


def test_a_body_from_the_cache_is_read(api):
    http = "proxy_cache_path {prefix}/tmp/cache keys_zone=c:1m;"
    server = """location / { weir on; proxy_pass http://api; proxy_cache c; proxy_cache_valid 1h; sendfile on;
		add_header X-Cache $upstream_cache_status; }"""
    with start(api, server=server, conf_http=http) as nginx:
        target = chat(USAGE % 500)
        assert [get(nginx, target).get("x-cache") for _ in range(3)] == ["MISS", "HIT", "HIT"]
        assert left_tokens(nginx) == 8500


def test_the_api_is_asked_for_a_body_that_is_not_compressed(api):
    """nginx still compresses for the client. A request whose cost is not in the body keeps its field."""
    server = """location / { weir on; gzip on; gzip_types application/json; gzip_min_length 1; proxy_pass http://api; }"""
    with start(api, server=server) as nginx:
        answer = get(nginx, chat(USAGE % 500, gzip="ask"), {"Accept-Encoding": "gzip, br"})
        assert answer.get("content-encoding") == "gzip"
        assert api.records()[-1].get("accept-encoding") == "identity"
        assert left_tokens(nginx) == 9500
        get(nginx, chat(USAGE % 500))
        assert api.records()[-1].get("accept-encoding") is None
        get(nginx, "/paid?h=X-Cost:3", {"Accept-Encoding": "gzip, br"})
        assert api.records()[-1].get("accept-encoding") == "gzip, br"


def test_a_compressed_body_costs_the_reservation(api):
    with start(api) as nginx:
        assert get(nginx, chat(USAGE % 500, gzip=1), {"Accept-Encoding": "gzip"}).get("content-encoding") == "gzip"
        assert left_tokens(nginx) == 9400
        get(nginx, chat(USAGE % 500, gzip=1))
        assert left_tokens(nginx) == 8800
        assert nginx.logged(r'\[notice\].*content encoding "gzip", so its cost cannot be read') == 1
        get(nginx, chat(USAGE % 500, h="Content-Encoding:identity"))
        assert left_tokens(nginx) == 8300


# ---- other sources of a cost ----


def test_cost_in_a_response_header(api):
    with start(api) as nginx:
        for target, cost in (("/paid?h=X-Cost:3", 3), ("/paid?h=X-Cost:30", 30), ("/paid", 7), ("/paid?h=X-Cost:900", 50),
                             ("/paid?h=X-Cost:-1", 7), ("/paid?h=X-Cost:many", 7), ("/paid?status=500&h=x-cost:4", 4),
                             ("/paid?h=X-Cost:4&h=X-Cost:6", 6)):
            before = left_paid(nginx)
            get(nginx, target)
            assert before - left_paid(nginx) == cost, target


def test_cost_in_a_header_that_the_client_does_not_see(api):
    server = "location / { weir on; proxy_hide_header X-Cost; proxy_pass http://api; }"
    with start(api, server=server) as nginx:
        assert get(nginx, "/paid?h=X-Cost:3").get("x-cost") is None
        assert left_paid(nginx) == 9997


def test_cost_in_bytes_of_the_response(api):
    """The bytes of the body, as $body_bytes_sent has them; none in an answer to HEAD."""
    with start(api, h2c=True) as nginx:
        get(nginx, "/bytes?bytes=1000")
        assert left_bytes(nginx) == 9000
        assert left_bytes(nginx) == 9000
        with H2(nginx.h2c_port) as c:
            c.get("/bytes?bytes=1000", {"x-tenant": "t"})
        assert left_bytes(nginx) == 8000
        get(nginx, "/bytes?chunks=5")  # 5 × 8 bytes, and the framing of the chunks
        assert left_bytes(nginx) < 7960


def test_cost_in_bytes_of_the_request(api):
    """Known at arrival: Content-Length, 0 without a body."""
    with start(api) as nginx:
        def send(body, **kwargs):
            return int(nginx.request("POST", "/upload", TENANT, body, **kwargs).get("x-ratelimit-remaining"))
        assert send(b"x" * 100) == 9900
        assert send(b"") == 9900
        assert send(None) == 9900
        assert send(b"x" * 6000) == 4900


def left_upload(nginx):
    return int(nginx.request("POST", "/upload", TENANT).get("x-ratelimit-remaining"))


@pytest.mark.parametrize("directive", ["", "proxy_request_buffering off; proxy_http_version 1.1;"])
@pytest.mark.parametrize("size, chunk", [(5000, 5000), (5000, 7), (4000, 1), (0, 10), (100, 100), (4999, 1000)])
def test_a_chunked_body_costs_its_length(api, size, chunk, directive):
    """`max` is charged at arrival, and the bytes that were received in the end, without the framing of the chunks."""
    with start(api, SERVER.replace("proxy_pass", directive + "proxy_pass")) as nginx:
        first = nginx.request("POST", "/upload", TENANT, b"x" * size, chunked=chunk)
        assert (first.status, first.get("x-ratelimit-remaining")) == (200, "5000")
        assert left_upload(nginx) == 10000 - size
        nginx.request("POST", "/upload", TENANT, b"x" * size)
        assert left_upload(nginx) == 10000 - 2 * size


@pytest.mark.parametrize("directive", ["", "proxy_request_buffering off; proxy_http_version 1.1;"])
@pytest.mark.parametrize("parts", [[5000], [1] * 100, [3000, 0, 1999], [0]])
def test_a_body_without_a_length_in_http2(api, parts, directive):
    with start(api, SERVER.replace("proxy_pass", directive + "proxy_pass"), h2c=True) as nginx:
        with H2(nginx.h2c_port) as client:
            stream = client.send("POST", "/upload", {"x-tenant": "t"}, b"", end=False)
            for part in parts:
                client.more(stream, b"x" * part, end=False)
            client.more(stream, b"")
            first = client.read(stream)
            assert (first.status, first.get("x-ratelimit-remaining")) == (200, "5000")
            assert left_upload(nginx) == 10000 - sum(parts)


def test_without_max_a_chunked_body_is_charged_as_the_longest(api):
    """client_max_body_size is the longest body that nginx accepts. A longer one is refused with 413, and stays charged:
    nginx has not counted it. Without both, `default` is charged until the body has been received."""
    rules = RULES.replace("request.bytes, default: 9, max: 5000", "request.bytes, default: 9")
    assert rules != RULES
    with start(api, SERVER.replace("weir on", "client_max_body_size 3000; weir on"), rules=rules) as nginx:
        first = nginx.request("POST", "/upload", TENANT, b"x" * 2000, chunked=100)
        assert (first.status, first.get("x-ratelimit-remaining")) == (200, "7000")
        assert left_upload(nginx) == 8000
        assert nginx.request("POST", "/upload", TENANT, b"x" * 3001, chunked=3001).status == 413
        assert left_upload(nginx) == 5000
    with start(api, SERVER.replace("weir on", "client_max_body_size 0; weir on"), rules=rules) as nginx:
        first = nginx.request("POST", "/upload", TENANT, b"x" * 2000, chunked=100)
        assert (first.status, first.get("x-ratelimit-remaining")) == (200, "9991")
        assert left_upload(nginx) == 8000


def test_a_body_that_is_not_received_stays_charged(api):
    """The client leaves in the middle of its body: with Content-Length its length, otherwise `max`. A body that nginx
    discards is not counted, so `max` stays charged too."""
    server = SERVER + "location = /upload/gif { weir on; empty_gif; }\n"
    rules = RULES.replace("when: {path: /upload}", "when: {path: /upload/*}")
    http = "access_log {prefix}/access.log;"
    for field, units in ("Content-Length: 10\r\n\r\n", 10), ("Transfer-Encoding: chunked\r\n\r\n2\r\n", 5000):
        with start(api, server, rules=rules, conf_http=http) as nginx:
            with nginx.client() as client:
                client.raw(f"POST /upload HTTP/1.1\r\nHost: a\r\nX-Tenant: t\r\n{field}xx".encode())
                wait_for(lambda: left_upload(nginx) == 10000 - units, "the charge")
            wait_for(lambda: '"POST /upload HTTP/1.1" 400' in nginx.access_log.read_text(), "nginx to end the request")
            assert left_upload(nginx) == 10000 - units
    with start(api, server, rules=rules) as nginx:
        assert nginx.request("GET", "/upload/gif", TENANT, b"xx", chunked=2).status == 200
        assert left_upload(nginx) == 5000


def test_cost_in_time(api, clock):
    with start(api) as nginx, nginx.client() as client:
        client.send("GET", "/time?hold=a", TENANT)
        wait_for(lambda: api.count() == 1, "the request at the API")
        clock.advance(2.5)
        nginx.get("/other")  # nginx reads the clock
        api.release("a")
        assert client.read().status == 200
        assert get(nginx, "/time").get("x-ratelimit-remaining") == "7499"


# ---- counting by the status ----


def test_only_failed_logins_count(api):
    with start(api) as nginx:
        assert get(nginx, "/login?status=200").get("x-ratelimit-remaining") == "9999"
        assert left_login(nginx) == 10000
        for status, used in ((401, 1), (403, 2), (404, 2), (500, 2), (204, 2), (401, 3)):
            assert get(nginx, f"/login?status={status}").status == status
            assert left_login(nginx) == 10000 - used


def test_a_login_whose_client_leaves_stays_charged(api):
    with start(api) as nginx:
        with nginx.client() as client:
            client.send("GET", "/login?hold=a", TENANT)
            wait_for(lambda: api.count() == 1, "the request at the API")
        wait_for(lambda: nginx.logged("prematurely closed connection"), "nginx to see that the client has left")
        assert left_login(nginx) == 9999
        api.release("a")
        assert left_login(nginx) == 9999


def test_no_more_attempts_are_in_flight_than_the_limit_has_units(api):
    """10 failed log-ins a day: 10 attempts at once pass, although none of them has failed yet."""
    rules = RULES.replace("""
  - key: login
    rate_limit: {unit: day, requests_per_unit: 10000}""", """
  - key: login
    rate_limit: {unit: day, requests_per_unit: 10}""")
    with start(api, rules=rules) as nginx:
        clients = [nginx.client() for _ in range(10)]
        try:
            for client in clients:
                client.send("GET", "/login?hold=a&status=200", TENANT)
            wait_for(lambda: api.count() == 10, "10 attempts at the API")
            assert get(nginx, "/login").status == 429
            api.release("a")
            assert [c.read().status for c in clients] == [200] * 10
        finally:
            for client in clients:
                client.close()
        assert [get(nginx, "/login?status=401").status for _ in range(12)] == [401] * 10 + [429] * 2


def test_failures_of_the_server_cost_nothing(api):
    """5xx of the API, of nginx itself (502, 504), and of a limit of nginx after the decision (503)."""
    server = """
	location / { weir on; proxy_pass http://api; }
	location /v1/down { weir on; proxy_pass http://127.0.0.1:%d; }
	location /v1/slow { weir on; proxy_read_timeout 10ms; proxy_pass http://api; }
	location /v1/denied { weir on; deny all; }
""" % free_port()
    with start(api, server=server) as nginx:
        for target, status in (("/v1/x?status=500", 500), ("/v1/x?status=599", 599), ("/v1/down", 502),
                               ("/v1/x?drop=1", 502), ("/v1/slow?hold=never", 504)):
            assert get(nginx, target).status == status
            assert left_user(nginx) == 10000, target
        for n, (target, status) in enumerate((("/v1/x?status=404", 404), ("/v1/x", 200), ("/v1/denied", 403))):
            assert get(nginx, target).status == status
            assert left_user(nginx) == 9999 - n, target


def test_a_retry_with_another_upstream_is_settled_once(api):
    """The first server of the group is down, the second answers: the final answer counts."""
    http = """upstream two { server 127.0.0.1:%d max_fails=0; server 127.0.0.1:%d max_fails=0; }""" % (
        free_port(), api.port)
    server = "location / { weir on; proxy_next_upstream error timeout; proxy_pass http://two; }"
    with start(api, server=server, conf_http=http) as nginx:
        assert [get(nginx, "/v1/x").status for _ in range(4)] == [200] * 4
        assert left_user(nginx) == 9996
        assert [get(nginx, chat(USAGE % 500)).status for _ in range(4)] == [200] * 4
        assert left_tokens(nginx) == 8000


def test_the_final_answer_counts_after_redirects(api):
    """error_page changes 500 to a page with status 200, and 404 to an answer of 503."""
    server = """
	location / { weir on; proxy_pass http://api; proxy_intercept_errors on;
		error_page 500 =200 /index.html; error_page 404 = @other; error_page 410 /index.html; }
	location = /index.html { }
	location @other { return 503; }"""
    with start(api, server=server) as nginx:
        assert get(nginx, "/v1/x?status=500").status == 200
        assert left_user(nginx) == 9999
        assert get(nginx, "/v1/x?status=404").status == 503
        assert left_user(nginx) == 9999
        assert get(nginx, "/v1/x?status=410").status == 410
        assert left_user(nginx) == 9998


def test_http2_and_keep_alive(api):
    with start(api, h2c=True) as nginx, H2(nginx.h2c_port) as c:
        headers = {"x-tenant": "t"}
        streams = [c.send("GET", chat(USAGE % 500), headers) for _ in range(10)]
        assert [c.read(s).status for s in streams] == [200] * 10
        assert left_tokens(nginx) == 5000
        stream = c.send("GET", chat(USAGE % 500, hold="a"), headers)
        wait_for(lambda: api.count("/chat?body") == 12, "the request at the API")
        c.cancel(stream)
        assert left_tokens(nginx) == 4400
        api.release("a")
        with nginx.client() as client:
            assert [client.get(chat(USAGE % 500), TENANT).status for _ in range(4)] == [200] * 4
        assert left_tokens(nginx) == 2400


def test_an_answer_that_breaks_off(api):
    """The API closes in the middle of the body. The usage that was read before counts."""
    with start(api) as nginx, nginx.client() as client:
        client.send("GET", chat(USAGE % 500, cut=10), TENANT)
        assert not client.socket.recv(65536) == b""
        wait_for(lambda: nginx.logged("upstream prematurely closed connection"), "nginx to see the end")
        assert left_tokens(nginx) == 9500


def test_dry_run_settles(api):
    server = """location / { weir on; weir_dry_run on; add_header X-Left $weir_remaining always; proxy_pass http://api; }"""
    with start(api, server=server) as nginx:
        assert get(nginx, chat(USAGE % 500)).get("x-left") == "9400"
        assert get(nginx, chat(USAGE % 500)).get("x-left") == "8900"


def test_without_header_fields(api):
    server = """location / { weir on; weir_headers none; add_header X-Left $weir_remaining always; proxy_pass http://api; }"""
    with start(api, server=server) as nginx:
        assert get(nginx, chat(USAGE % 500)).get("x-left") == "9400"
        assert get(nginx, chat(USAGE % 500)).get("x-left") == "8900"


def test_rules_that_change_while_a_response_is_sent(api):
    """The request is settled by the rules that decided it."""
    with start(api) as nginx, nginx.client() as client:
        client.send("GET", chat(USAGE % 500, hold="a"), TENANT)
        wait_for(lambda: api.count() == 1, "the request at the API")
        nginx.write_rules(RULES.replace("/usage/total_tokens", "/usage/prompt_tokens"))
        nginx.wait_logged("generation 2")
        api.release("a")
        assert client.read().status == 200
        assert get(nginx, chat(USAGE % 0)).get("x-ratelimit-remaining") == "8900"
        assert get(nginx, chat(USAGE % 0)).get("x-ratelimit-remaining") == "8700"  # 200 prompt tokens


# ---- limits in Redis ----


def test_requests_of_the_central_store_are_settled_by_messages(api):
    """The service gets the units that were not used, and the units that were used beyond the reservation."""
    with FakeServe() as store, start(api, conf_http=store.conf) as nginx:
        nginx.wait_logged('"weir_central" is (up|back)')
        assert get(nginx, chat(USAGE % 500)).status == 200
        assert [i.cost for i in store.asked[0].items] == [600]
        wait_for(lambda: store.returned(), "the units that were not used")
        assert [cost for cost, _ in store.returned()] == [-100]
        assert get(nginx, chat(USAGE % 1000)).status == 200
        wait_for(lambda: store.owed(), "the units beyond the reservation")
        assert store.owed() == [400]
        assert get(nginx, chat(USAGE % 600)).status == 200
        assert get(nginx, "/login?status=200").status == 200
        wait_for(lambda: len(store.returned()) == 2, "the refund of the log-in")
        assert [cost for cost, _ in store.returned()] == [-100, -1]
        assert len(store.messages) == 3


def test_units_admitted_without_the_central_store_are_reported_before_the_response(api):
    """The report does not wait for the end of a long response. Units that were not used stay counted in the central
    store: a message that gives them back could arrive before the report."""
    rules = RULES.replace("requests_per_unit: 10000}", "requests_per_unit: 10000, on_store_failure: local}")
    with FakeServe() as store, start(api, conf_http=store.conf, rules=rules) as nginx, nginx.client() as client:
        nginx.wait_logged('"weir_central" is (up|back)')
        store.reply = lambda message, usual: b"-FAIL\r\n"
        client.send("GET", chat(USAGE % 500, hold="a"), TENANT)
        wait_for(lambda: store.reported() == 600, "the report")
        assert store.returned() == []
        api.release("a")
        assert client.read().status == 200
        store.reply = None
        get(nginx, chat(USAGE % 600))
        assert store.returned() == []
        assert store.reported() == 600


def test_a_client_that_leaves_while_the_central_store_decides(api):
    """Nothing was sent to the API: all units are given back."""
    with FakeServe() as store, start(api, conf_http=store.conf) as nginx:
        nginx.wait_logged('"weir_central" is (up|back)')
        store.hold()
        with nginx.client() as client:
            client.send("GET", chat(USAGE % 500), TENANT)
            wait_for(lambda: store.asked, "the question")
        nginx.wait_logged("prematurely closed connection")
        store.release()
        wait_for(lambda: store.returned(), "the units")
        assert [cost for cost, _ in store.returned()] == [-600]
        assert api.count() == 0


# ---- the access log ----


def test_costs_in_the_access_log(api):
    http = """log_format cost '$uri $status $weir_result $weir_cost/$weir_actual';
	access_log {prefix}/access.log cost;"""
    with start(api, conf_http=http) as nginx:
        get(nginx, chat(USAGE % 500))
        get(nginx, "/chat?body=none")
        get(nginx, "/login?status=401")
        get(nginx, "/login?status=200")
        nginx.request("POST", "/upload", TENANT, b"x" * 100)
        nginx.get("/other", TENANT)
        with nginx.client() as client:
            client.send("GET", "/paid?hold=a", TENANT)
            wait_for(lambda: api.count("/paid") == 1, "the request at the API")
        api.release("a")
        assert nginx.access_lines(7) == [
            "/chat 200 ADMITTED 600/500", "/chat 200 ADMITTED 600/600", "/login 401 ADMITTED 1/1",
            "/login 200 ADMITTED 1/0", "/upload 200 ADMITTED 100/-", "/other 200 ALLOWED -/-", "/paid 499 ADMITTED 10/10"]
