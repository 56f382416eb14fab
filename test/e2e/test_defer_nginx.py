"""nginx and requests that limits defer: it reads them, sends them to the queue and answers 202, or gives the reason of
a refusal.

The queue is a fake (weirtest/fakequeue.py), so that it can be late, full, unavailable and send invalid replies.
test_gateway_defer.py has the real queue."""

import json
import os
import threading

import pytest
from weirtest import H2, Client, Nginx, by_user, check_conf, patience, count_statuses, send_at_once, wait_for
from weirtest.fakequeue import FakeQueue, ticket_of

SERVER = """
	location / {
		weir on;
		add_header X-Result $weir_result always;
		proxy_pass http://api;
	}
	location /.weir/tickets/ { weir_tickets; }
"""
DEFER = "{unit: day, requests_per_unit: 1, algorithm: token_bucket, on_limit: defer%s}"  # the clock does not reach midnight
USER = {"X-User": "7"}
# Long enough for a busy machine, short enough to wait for.
SHORT = f"{max(1000, int(patience(0.2) * 1000))}ms"


def rules(more=""):
    """Returns rules that defer all but one request of a user per day; `more` is appended to the limit."""
    return by_user(DEFER % more)


@pytest.fixture
def queue():
    with FakeQueue() as queue:
        yield queue


def nginx_with(queue, api, more="", server=SERVER, **kwargs):
    return Nginx(rules=rules(more), conf_http=queue.conf, conf_server=server, api=api, **kwargs)


def ready(nginx, workers=1):
    """Waits until the workers have connected to the queue."""
    nginx.wait_logged('"weir_queue" is up', workers)


def begin(nginx, workers=1):
    """Uses up the only request of the day."""
    ready(nginx, workers)
    assert nginx.request("POST", "/orders", USER, body=b"first").status == 200


def post(nginx, body=b"a book", headers=(), target="/orders"):
    return nginx.request("POST", target, {**USER, **dict(headers)}, body=body)


def refused(response, why):
    """Checks that a request was refused and not deferred, for this reason."""
    assert response.status == 429
    assert response.get("X-Weir-Not-Deferred") == why
    assert response.get("X-Weir-Ticket") is None
    assert response.get("X-Result") == "REFUSED"
    assert int(response.get("Retry-After")) > 0
    problem = json.loads(response.body)
    assert problem["not-deferred"] == why and f"({why})" in problem["detail"]


def test_deferred_request_gets_202_and_is_stored(api, queue):
    """The 202 has ticket, position and delay. The queue gets the method, path, body and the fields of the default
    list."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        r = post(nginx, headers={"Content-Type": "text/x-order", "Authorization": "Bearer s3cret",
                                 "Cookie": "a=b", "Idempotency-Key": "k1", "X-Other": "no",
                                 "Connection": "close, x-hop"}, target="/orders?id=7")
        assert r.status == 202
        assert r.get("X-Result") == "DEFERRED"
        assert r.get("X-Weir-Ticket") == ticket_of(1)
        assert r.get("Location") == f"/.weir/tickets/{ticket_of(1)}"
        assert r.get("Content-Type") == "application/json"
        assert json.loads(r.body) == {"ticket": ticket_of(1), "status": "waiting", "position": 1,
                                      "expected_delay": 2.5}
        assert r.get("Cache-Control") == "no-store"
        assert not [n for n in r.names() if n.endswith("retry-after")]
        (deferred,) = queue.requests
        assert (deferred.domain, deferred.rule, deferred.method, deferred.uri) == ("api", "api/user/1d", "POST", "/orders?id=7")
        # One a day: a fifth request could not be delivered in time, however full the bucket is.
        assert (deferred.max_waiting, deferred.max_age_s, deferred.max_tries) == (4, 86400, 20)
        assert 0 < deferred.wait_ns <= 86400 * 10 ** 9 and deferred.interval_ns == 86400 * 10 ** 9
        assert deferred.body == b"a book"
        assert deferred.names() == ["content-type", "host", "idempotency-key"]
        assert (deferred.get("content-type"), deferred.get("idempotency-key")) == ("text/x-order", "k1")
        assert b"user" in deferred.descriptors and b"7" in deferred.descriptors
        assert api.count() == 1


def test_rule_sets_the_options_of_deferral(api, queue):
    """The keys of `defer:` set the stored fields, the largest body, the age, the tries and the queue length."""
    more = ", defer: {headers: [X-Other, Authorization], max_body: 10, max_age: 25h, max_tries: 3, max_waiting: 2}"
    with nginx_with(queue, api, more) as nginx:
        begin(nginx)
        assert post(nginx, b"0123456789", {"X-Other": "yes", "Authorization": "Basic x",
                                           "Content-Type": "text/plain"}).status == 202
        refused(post(nginx, b"0123456789a"), "too_large")
        (deferred,) = queue.requests
        assert deferred.names() == ["authorization", "host", "x-other"]
        assert (deferred.max_waiting, deferred.max_age_s, deferred.max_tries) == (2, 90000, 3)


def test_request_that_would_expire_is_refused(api, queue):
    """A request that would exceed max_age in the queue is refused: by nginx if its limit shows this, else by the
    queue."""
    slow = by_user("{period: 2h, requests_per_unit: 1, algorithm: token_bucket, on_limit: defer, defer: {max_age: 1h}}")
    with Nginx(rules=slow, conf_http=queue.conf, conf_server=SERVER, api=api) as nginx:
        begin(nginx)
        refused(post(nginx), "too_late")
        assert queue.requests == []
    queue.reply = lambda command, usual: b"-DEFER key_full\r\n"
    for more, why in ((", defer: {max_age: 25h, max_waiting: 5}", "too_late"), (", defer: {max_waiting: 4}", "key_full")):
        with nginx_with(queue, api, more) as nginx:
            begin(nginx)
            refused(post(nginx), why)


def test_queue_key_depends_on_the_client(api, queue):
    """Requests of a client have the same key in two nginx, and another client has another key."""
    with nginx_with(queue, api) as one, nginx_with(queue, api) as two:
        begin(one)
        begin(two)
        assert [post(n).status for n in (one, two, one)] == [202] * 3
        other = {"X-User": "8"}
        assert [post(one, headers=other).status for _ in range(2)] == [200, 202]
        assert len({k.key for k in queue.requests[:3]}) == 1
        assert queue.requests[3].key != queue.requests[0].key


@pytest.mark.parametrize("method,status", [("POST", 202), ("PUT", 202), ("PATCH", 202), ("DELETE", 202),
                                           ("GET", 429), ("HEAD", 429), ("OPTIONS", 429)])
def test_methods_that_are_deferred(api, queue, method, status):
    """POST, PUT, PATCH and DELETE are deferred; other methods are refused."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        r = nginx.request(method, "/orders", USER)
        assert r.status == status
        assert r.get("X-Weir-Not-Deferred") is None
        assert [k.method for k in queue.requests] == ([method] if status == 202 else [])
        assert [k.body for k in queue.requests] == ([b""] if status == 202 else [])


def test_bodies_are_deferred_from_memory(api, queue):
    """Bodies larger than nginx's buffers, in pieces, chunked, and with 100-continue. None is written to a disk."""
    body = os.urandom(300000)
    with nginx_with(queue, api, server="client_body_buffer_size 1k;" + SERVER) as nginx:
        begin(nginx)
        assert post(nginx, body).status == 202
        with Client(nginx.port) as client:
            client.raw(b"POST /orders HTTP/1.1\r\nHost: a\r\nX-User: 7\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 9000):
                piece = body[at:at + 9000]
                client.raw(b"%x\r\n%s\r\n" % (len(piece), piece))
            client.raw(b"0\r\n\r\n")
            assert client.read().status == 202
            client.raw(b"POST /orders HTTP/1.1\r\nHost: a\r\nX-User: 7\r\nContent-Length: %d\r\n"
                       b"Expect: 100-continue\r\n\r\n" % len(body))
            assert client.read(interim=True).status == 100
            client.raw(body)
            assert client.read().status == 202
            client.raw(b"POST /orders HTTP/1.1\r\nHost: a\r\nX-User: 7\r\nContent-Length: 4\r\n\r\n")
            client.raw(b"book")
            assert client.read().status == 202
        assert [k.body for k in queue.requests] == [body] * 3 + [b"book"]
        assert not [f for _, _, files in os.walk(f"{nginx.prefix}/tmp/body") for f in files]
        assert "buffered to a temporary file" not in nginx.log()


def test_body_above_max_body_is_refused(api, queue):
    """The size is known from Content-Length, or only after reading."""
    with nginx_with(queue, api, ", defer: {max_body: 100K}") as nginx:
        begin(nginx)
        assert post(nginx, bytes(102400)).status == 202
        refused(post(nginx, bytes(102401)), "too_large")
        with Client(nginx.port) as client:
            client.raw(b"POST /orders HTTP/1.1\r\nHost: a\r\nX-User: 7\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.raw(b"%x\r\n%s\r\n" % (102401, bytes(102401)))
            refused(client.read(), "too_large")
        assert len(queue.requests) == 1


def test_memory_for_bodies_in_flight_is_limited(api):
    """The bodies that a worker holds are limited. The memory is free again when they are stored."""
    with FakeQueue(more="bodies=64k") as queue, nginx_with(queue, api) as nginx:
        begin(nginx)
        queue.hold()
        first = threading.Thread(target=lambda: statuses.append(post(nginx, bytes(40000)).status))
        statuses = []
        first.start()
        wait_for(lambda: len(queue.requests) == 1, "the first body")
        refused(post(nginx, bytes(40000)), "busy")
        refused(post(nginx, bytes(70000)), "busy")
        queue.release()
        first.join()
        assert statuses == [202]
        assert post(nginx, bytes(40000)).status == 202


def test_client_that_leaves_before_its_body_is_complete_frees_its_memory(api, queue):
    """The client disconnects before its body is complete. Nothing is deferred, and its memory is free again."""
    with FakeQueue(more="bodies=64k") as queue, nginx_with(queue, api) as nginx:
        begin(nginx)
        with Client(nginx.port) as client:
            client.raw(b"POST /orders HTTP/1.1\r\nHost: a\r\nX-User: 7\r\nContent-Length: 60000\r\n\r\n" + bytes(900))
            wait_for(lambda: post(nginx, bytes(40000)).status == 429, "the memory to be in use")
            client.vanish()
        wait_for(lambda: post(nginx, bytes(40000)).status == 202, "the memory to be free again")
        assert {len(k.body) for k in queue.requests} == {40000}


def test_request_is_refused_while_the_queue_is_unavailable(api, queue):
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        queue.stop()
        nginx.wait_logged('"weir_queue" lost: closed by the service; until it is back, requests are refused')
        refused(post(nginx), "away")
        queue.listen()
        nginx.wait_logged('"weir_queue" is back')
        assert post(nginx).status == 202


def test_queue_socket_that_does_not_exist(api):
    """nginx starts without the queue's socket, and refuses requests above the limit as away."""
    with FakeQueue() as queue, Nginx(rules=rules(), conf_http=queue.conf.replace(queue.path, "/nowhere/weir.sock"),
                                 conf_server=SERVER, api=api) as nginx:
        assert post(nginx).status == 200
        refused(post(nginx), "away")


@pytest.mark.parametrize("output,why", [
    (b"-DEFER full as many requests wait as may\r\n", "full"), (b"-DEFER no_space the disk\r\n", "no_space"),
    (b"-DEFER key_full\r\n", "key_full"), (b"-ERR unknown command\r\n", "error"), (b"-DEFER \r\n", "error"),
    (b"-DEFER <b>x</b> y\r\n", "error"), (b"-DEFER %s y\r\n" % (b"a" * 100), "error"), (b"+OK\r\n", "error"),
    (b"*2\r\n:1\r\n:2\r\n", "error"), (b"$-1\r\n", "error"), (b"*3\r\n$2\r\nab\r\n:1\r\n:2\r\n", "error")])
def test_refusal_of_the_queue_is_reported_to_the_client(api, queue, output, why):
    """Each reason that the queue sends reaches the client. The next request is deferred again."""
    with nginx_with(queue, api, ", defer: {max_waiting: 4}") as nginx:
        begin(nginx)
        queue.reply = lambda command, usual: output
        refused(post(nginx), why)
        queue.reply = None
        assert post(nginx).status == 202


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*9\r\n", b"*3\r\n*1\r\n:1\r\n:1\r\n:1\r\n",
                                      b"$99999999\r\n", b"\r\n", None],
                         ids=["http", "long list", "nested", "long bulk", "empty", "closed"])
def test_invalid_reply_closes_the_connection_to_the_queue(api, queue, nonsense):
    """The connection is closed and opened again. Waiting requests are refused."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        queue.reply = lambda command, usual: nonsense
        refused(post(nginx), "away")
        queue.reply = None
        nginx.wait_logged('"weir_queue" is back')
        assert post(nginx).status == 202


def test_replies_in_pieces_are_accepted(api, queue):
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        queue.piece = 1
        assert [post(nginx).status for _ in range(3)] == [202] * 3


def test_late_reply_of_the_queue_is_ignored(api):
    """A request without a reply within the timeout is refused. The reply that arrives later is ignored."""
    with FakeQueue(timeout=SHORT) as queue, nginx_with(queue, api) as nginx:
        begin(nginx)
        queue.hold()
        refused(post(nginx), "away")
        queue.release()
        wait_for(lambda: post(nginx).status == 202, "kept in time")
        assert queue.connections == 1


def test_request_stays_stored_after_its_client_left(api, queue):
    """A request that was sent to the queue is stored, whether or not its client waits."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        queue.hold()
        with Client(nginx.port) as client:
            client.send("POST", "/orders", USER, body=b"gone")
            wait_for(lambda: len(queue.requests) == 1, "handed over")
            client.vanish()
        with Client(nginx.port) as client:
            client.send("POST", "/orders", USER, body=b"stays")
            wait_for(lambda: len(queue.requests) == 2, "handed over")
            queue.release()
            assert client.read().status == 202
        assert [k.body for k in queue.requests] == [b"gone", b"stays"]


def test_many_requests_are_deferred_at_once(api, queue):
    with nginx_with(queue, api, workers=2) as nginx:
        begin(nginx, 2)
        results = send_at_once(nginx.port, [("POST", "/orders", {**USER, "Content-Length": "0"})] * 200)
        assert count_statuses(results) == {202: 200}
        assert len(queue.requests) == 200


def test_http2_requests_are_deferred(api, queue):
    body = os.urandom(200000)
    with nginx_with(queue, api, h2c=True) as nginx:
        begin(nginx)
        with H2(nginx.h2c_port) as h2:
            r = h2.request("POST", "/orders", USER, body=body)
            assert (r.status, r.get("X-Weir-Ticket")) == (202, ticket_of(1))
            stream = h2.send("POST", "/orders", USER, body=b"in ", end=False)
            h2.more(stream, b"parts")
            assert h2.read(stream).status == 202
            assert h2.request("GET", "/orders", USER).status == 429
            stream = h2.send("POST", "/orders", USER, body=b"cancelled", end=False)
            h2.cancel(stream)
            assert h2.request("DELETE", "/orders", USER).status == 202
        assert [k.body for k in queue.requests] == [body, b"in parts", b""]


def test_pipelined_request_after_a_deferred_one_is_served(api, queue):
    """The next request on the connection is served after a deferred one."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        with Client(nginx.port) as client:
            for body in (b"one", b"two"):
                client.send("POST", "/orders", USER, body=body)
            client.send("GET", "/free", {})
            assert [client.read().status for _ in range(3)] == [202, 202, 200]


def test_dry_run_defers_nothing(api, queue):
    with nginx_with(queue, api, server="weir_dry_run on;" + SERVER) as nginx:
        ready(nginx)
        assert [post(nginx).status for _ in range(3)] == [200] * 3
        assert queue.requests == []


def test_request_is_deferred_only_if_all_refusing_rules_defer(api, queue):
    text = """
domain: api
requests:
  - descriptor: [{key: user, from: header.x-user}]
  - descriptor: [{key: all, value: all}]
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1, algorithm: token_bucket, on_limit: defer}
  - key: all
    rate_limit: {unit: day, requests_per_unit: 2, algorithm: token_bucket}
"""
    with Nginx(rules=text, conf_http=queue.conf, conf_server=SERVER, api=api) as nginx:
        ready(nginx)
        assert [post(nginx).status for _ in range(2)] == [200, 202]
        assert post(nginx, headers={"X-User": "8"}).status == 200
        r = post(nginx)
        assert (r.status, r.get("X-Weir-Not-Deferred")) == (429, None)


def test_header_fields_of_the_location_override_those_of_the_client(api, queue):
    """Header fields that the location sets take precedence over the client's."""
    server = """
	location / {
		weir on;
		weir_queue_field X-Real-IP $remote_addr;
		weir_queue_field Content-Type text/ours;
		weir_queue_field X-Empty "";
		proxy_pass http://api;
	}
"""
    with nginx_with(queue, api, server=server) as nginx:
        begin(nginx)
        assert post(nginx, headers={"content-type": "text/theirs", "X-Real-IP": "1.2.3.4"}).status == 202
        assert queue.requests[0].names() == ["content-type", "host", "x-real-ip"]
        assert (queue.requests[0].get("content-type"), queue.requests[0].get("x-real-ip")) == ("text/ours", "127.0.0.1")


def test_authentication_comes_before_deferral(api, queue):
    """A request without a known identity is not deferred. A client is authenticated before its request is deferred."""
    server = """
	location / {
		weir on;
		weir_auth /auth;
		weir_auth_headers X-Auth-User;
		weir_queue_field X-Auth-User $weir_auth_http_x_auth_user;
		proxy_pass http://api;
	}
	location = /auth {
		internal;
		if ($http_x_pass = "") { return 401; }
		proxy_pass http://api/auth?h=X-Auth-User:$http_x_pass;
		proxy_pass_request_body off;
		proxy_set_header Content-Length "";
	}
"""
    text = by_user(DEFER % "").replace("header.x-user", "remote_address")
    with Nginx(rules=text, conf_http=queue.conf, conf_server=server, api=api) as nginx:
        ready(nginx)
        assert post(nginx, headers={"X-Pass": "anna"}).status == 200
        r = post(nginx, headers={"X-Auth-User": "root"})
        assert (r.status, r.get("X-Weir-Not-Deferred")) == (429, "not_authenticated")
        assert post(nginx, headers={"X-Pass": "anna", "X-Auth-User": "root"}).status == 202
        (deferred,) = queue.requests
        assert deferred.get("X-Auth-User") == "anna"


def test_request_before_a_later_authentication_is_not_deferred(api, queue):
    """`try_files` leads the request to a location with `weir_auth`. Deferring it earlier would skip the
    authentication. A location that is open on purpose is configured so."""
    server = """
	weir on;
	location / { try_files /none @app; }
	location @app { weir_auth /auth; proxy_pass http://api; }
	location /open { weir_auth off; proxy_pass http://api; }
	location = /auth { internal; proxy_pass http://api/auth?status=401; proxy_pass_request_body off; }
"""
    with nginx_with(queue, api, server=server) as nginx:
        ready(nginx)
        assert post(nginx).status == 401
        r = post(nginx)
        assert (r.status, r.get("X-Weir-Not-Deferred")) == (429, "not_authenticated")
        assert queue.requests == []
        assert post(nginx, target="/open").status == 202
        assert api.count("/orders") == 0


def test_deferred_request_with_an_error_page_is_counted_once(api, queue):
    """An error page does not decide again. Deferred requests are counted as deferred, the others as refused."""
    server = SERVER + """
	location = /gone { weir on; error_page 429 = /orders; proxy_pass http://api; }
"""
    with nginx_with(queue, api, server=server) as nginx:
        begin(nginx)
        assert post(nginx, target="/gone").status == 202
        queue.reply = lambda command, usual: b"-DEFER full x\r\n"
        assert post(nginx, target="/gone").status == 200  # by its error page, once
        assert len(queue.requests) == 2


@pytest.mark.parametrize("page", ["404 @app", "404 =200 @app", "404 = @app"])
def test_request_deferred_in_an_error_page_gets_202(api, queue, page):
    """An error page leads a request to a location with a limit. The deferred request gets 202, not the status of the
    error."""
    server = f"""
	location / {{ weir on; proxy_pass http://api; }}
	location = /gone {{ proxy_intercept_errors on; error_page {page}; proxy_pass http://api/?status=404; }}
	location @app {{ weir on; proxy_pass http://api; }}
"""
    with nginx_with(queue, api, server=server) as nginx:
        begin(nginx)
        r = post(nginx, target="/gone")
        assert (r.status, r.get("X-Weir-Ticket")) == (202, ticket_of(1))
        assert json.loads(r.body)["status"] == "waiting"
        assert [deferred.body for deferred in queue.requests] == [b"a book"]


@pytest.mark.parametrize("target, how", [
    ("/large", "plain"), ("/large", "long"), ("/large", "half"), ("/large", "chunked"), ("/large", "h2"),
    ("/sent", "long"), ("/sent", "h2"), ("/whole", "plain"), ("/whole", "chunked")])
def test_request_whose_body_was_consumed_is_not_deferred(api, queue, target, how):
    """Another location has discarded the body, or has passed it on unbuffered: the request is not deferred. A body that
    arrived with the header is complete, and is deferred."""
    server = """
	location / { weir on; proxy_pass http://api; }
	set $missing /?status=404;
	location = /large { client_max_body_size 3; error_page 413 = @app; proxy_pass http://api; }
	location ~ ^/(sent|whole)$ { proxy_intercept_errors on; error_page 404 = @app; proxy_request_buffering off;
		proxy_pass http://api$missing; }
	location @app { weir on; proxy_pass http://api; }
"""
    with nginx_with(queue, api, server=server, h2c=True) as nginx:
        begin(nginx)
        if how == "h2":
            with H2(nginx.h2c_port) as client:
                r = client.request("POST", target, USER, body=b"a book")
        elif how == "chunked":
            with nginx.client() as client:
                client.raw(f"POST {target} HTTP/1.1\r\nHost: x\r\nX-User: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "6\r\na book\r\n0\r\n\r\n".encode())
                r = client.read()
        elif how == "half":
            with nginx.client() as client:
                client.raw(f"POST {target} HTTP/1.1\r\nHost: x\r\nX-User: 7\r\nContent-Length: 12\r\n\r\n"
                           "a book".encode())
                r = client.read()
        else:
            r = post(nginx, b"a book" * (20000 if how == "long" else 1), target=target)
        whole = target == "/whole"
        assert (r.status, r.get("X-Weir-Not-Deferred")) == ((202, None) if whole else (429, "no_body"))
        assert [deferred.body for deferred in queue.requests] == ([b"a book"] if whole else [])


def test_ticket_requests_per_client_are_limited(api, queue, clock):
    """A client may ask for 100 tickets a second, or for the number of the location. An IPv6 network of 64 bits is one
    client. An invalid ticket costs nothing, and other clients are not affected."""
    server = """
	set_real_ip_from 127.0.0.1;
	real_ip_header X-Client;
	location / { weir on; proxy_pass http://api; }
	location /.weir/tickets/ { weir off; weir_tickets; }
	location /three/ { weir_tickets rate=3r/s; }
	location /all/ { weir_tickets rate=off; }
"""
    with nginx_with(queue, api, server=server, workers=2) as nginx:
        begin(nginx, 2)

        def ask(path, client="192.0.2.1", n=1, ticket=ticket_of(1)):
            results = send_at_once(nginx.port, [("GET", path + ticket, {"X-Client": client})] * n, connections=min(n, 4))
            return count_statuses(results)

        assert post(nginx).status == 202
        assert ask("/.weir/tickets/", n=120, ticket="x") == {404: 120}
        assert ask("/.weir/tickets/", n=120) == {200: 100, 429: 20}
        assert nginx.get("/.weir/tickets/" + ticket_of(1), {"X-Client": "192.0.2.1"}).get("Retry-After") == "1"
        assert ask("/.weir/tickets/", "192.0.2.2") == {200: 1}
        assert len(queue.asked_for) == 101
        clock.advance(1)
        assert ask("/.weir/tickets/", n=120) == {200: 100, 429: 20}
        assert ask("/three/", "2001:db8::1", 4) == {200: 3, 429: 1}
        assert ask("/three/", "2001:db8::ffff:2") == {429: 1}
        assert ask("/three/", "2001:db8:0:1::1") == {200: 1}
        assert ask("/three/", "192.0.2.9", 4) == {200: 3, 429: 1}
        assert ask("/three/", "::ffff:192.0.2.9") == {429: 1}
        assert ask("/all/", n=200) == {200: 200}


@pytest.mark.parametrize("text", ["rate=0r/s", "rate=1000001r/s", "rate=5", "rate=r/s", "rate=-1r/s", "5r/s", "rate=",
                                  "x", "rate=1r/s rate=2r/s"])
def test_invalid_ticket_rates_are_refused(text):
    code, output = check_conf(f"location /t/ {{ weir_tickets {text}; }}", rules=rules())
    assert code == 1
    assert "weir_tickets" in output
    assert check_conf("location /t/ { weir_tickets rate=1000000r/s; }", rules=rules())[0] == 0


def test_ticket_states(api, queue):
    """The location of tickets answers GET and HEAD, 404 for unknown tickets, 405 for other methods, 503 without the
    service."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        where = post(nginx).get("Location")
        r = nginx.get(where)
        assert (r.status, r.get("Content-Type"), r.get("Cache-Control")) == (200, "application/json", "no-store")
        assert json.loads(r.body) == {"ticket": ticket_of(1), "status": "waiting"}
        r = nginx.request("HEAD", where)
        assert (r.status, r.body) == (200, b"")
        assert nginx.get(f"/.weir/tickets/{ticket_of(999)}").status == 404
        asked = len(queue.asked_for)
        for bad in ("", "x", "0" * 31, "0" * 33, "G" * 32, "A" * 32, "0" * 31 + "%20", "0" * 32 + "/"):
            assert nginx.get(f"/.weir/tickets/{bad}").status == 404, bad
        assert len(queue.asked_for) == asked
        assert nginx.request("POST", where).status == 405
        queue.reply = lambda command, usual: b"-DEFER away x\r\n"
        assert nginx.get(where).status == 503
        queue.stop()
        nginx.wait_logged("lost: closed by the service")
        assert nginx.get(where).status == 503


def test_client_leaves_while_its_ticket_is_looked_up(api, queue):
    """Replies for disconnected clients are discarded, and the next query is answered."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        where = post(nginx).get("Location")
        queue.hold()
        for count in (1, 2, 3):
            with Client(nginx.port) as client:
                client.send("GET", where)
                wait_for(lambda c=count: len(queue.asked_for) == c, "asked")
                client.vanish()
        queue.release()
        assert nginx.get(where).status == 200


def test_reload_while_a_request_is_being_deferred(api, queue):
    """A worker that shuts down waits for the reply."""
    with nginx_with(queue, api) as nginx:
        begin(nginx)
        queue.hold()
        with Client(nginx.port) as client:
            client.send("POST", "/orders", USER, body=b"x")
            wait_for(lambda: len(queue.requests) == 1, "handed over")
            nginx.reload()
            queue.release()
            assert client.read().status == 202


@pytest.mark.parametrize("conf,reason", [
    ("weir_queue 127.0.0.1:6380;", "invalid socket"),
    ("weir_queue unix:/a; weir_queue unix:/a;", "is duplicate"),
    ("weir_queue unix:/a timeout=0;", "invalid parameter"),
    ("weir_queue unix:/a bodies=1k;", "invalid parameter"),
    ("weir_queue unix:/a tickets=/x;", "invalid parameter"),
    ("weir_queue unix:/a;", '"weir_queue" needs "weir_link_key"'),
    ("weir_central unix:/a;", '"weir_central" needs "weir_link_key"'),
    ("weir_link_key /nowhere/key;", "No such file or directory"),
    ("weir_link_key /etc/passwd;", "must be a file that only its owner can read, mode 0600"),
    ("weir_link_key /dev/null;", "must be a file that only its owner can read"),
    ("weir_queue_field x_y z;", 'invalid header name "x_y"'),
])
def test_wrong_configuration_is_refused(conf, reason):
    code, output = check_conf("location / { weir on; }", conf, rules())
    assert code != 0 and reason in output
