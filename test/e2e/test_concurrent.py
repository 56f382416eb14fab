"""Limits on concurrent requests in the nginx module: when a slot is taken, and every way in which it is given back.

One worker runs in most tests. It gives a slot back in the same turn of its loop in which it sends the last byte, so a
client that has read a response finds the slot free."""

import contextlib
import os
import signal

import pytest
from weirtest import H2, TERMINATED, Client, Nginx, count_statuses, free_port, send_at_once, wait_for
from weirtest.gateway import Listener, shout

SERVER = """
	location / { weir on; proxy_pass http://api; }
	location /down { weir on; proxy_pass http://127.0.0.1:{dead}; }
	location /files { weir on; }
"""


def slots(count, more="", max_hold="2m"):
    """Returns rules with this many slots for each user, and more limits of the same user."""
    return f"""\
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limits:
      - {{concurrent: {count}, max_hold: {max_hold}, name: in-flight}}
{more}
"""


def start(api, count, server=SERVER, more="", max_hold="2m", **kwargs):
    server = server.replace("{dead}", str(free_port()))
    return Nginx(rules=slots(count, more, max_hold), conf_server=server, api=api, **kwargs)


@contextlib.contextmanager
def held(nginx, api, count, name="a", target="/r", headers=None):
    """Requests that the API does not answer until the test calls api.release(name)."""
    before = api.count()
    clients = [Client(nginx.port) for _ in range(count)]
    for c in clients:
        c.send("GET", f"{target}?hold={name}", headers or {"X-User": "7"})
    wait_for(lambda: api.count() == before + count, f"{count} requests at the API")
    try:
        yield clients
    finally:
        for c in clients:
            c.close()


def get(nginx, target="/r", user="7"):
    return nginx.get(target, {"X-User": user})


def wait_free(nginx, count, user="7"):
    """Waits until a request of the user finds this many slots free. It takes one itself while it runs."""
    wait_for(lambda: get(nginx, user=user).get("x-ratelimit-remaining") == str(count - 1),
             f"{count} free slots")


def test_twenty_in_flight_and_no_more(api):
    with start(api, 20) as nginx:
        with held(nginx, api, 20) as clients:
            refused = get(nginx)
            assert refused.status == 429
            assert refused.get("x-ratelimit-limit") == "20"
            assert refused.get("x-ratelimit-remaining") == "0"
            assert 1 <= int(refused.get("retry-after")) <= 120
            assert get(nginx, user="8").status == 200
            api.release("a")
            assert [c.read().status for c in clients] == [200] * 20
        assert api.count("/r") == 21
        with held(nginx, api, 20, "b"):
            assert get(nginx).status == 429
            api.release("b")


def test_remaining_counts_the_slots_that_are_left(api):
    with start(api, 3) as nginx:
        with held(nginx, api, 2):
            assert get(nginx).get("x-ratelimit-remaining") == "0"
            assert get(nginx).get("x-ratelimit-remaining") == "0"
            api.release("a")
        wait_free(nginx, 3)


def test_a_slot_is_back_after_the_response(api):
    """Each response comes from a different place: the API, a file, nginx's own page."""
    with start(api, 1) as nginx:
        for _ in range(3):
            assert get(nginx).status == 200
            assert get(nginx, "/?status=204").status == 204
            assert get(nginx, "/?chunks=5").status == 200
            assert get(nginx, "/?status=500").status == 500
            assert nginx.request("HEAD", "/r", {"X-User": "7"}).status == 200
            assert get(nginx, "/down").status == 502
            assert get(nginx, "/?drop=1").status == 502
            assert get(nginx, "/files/absent").status == 404
        with nginx.client() as c:  # keep-alive: the connection stays, the slot does not
            assert [c.get("/r", {"X-User": "7"}).status for _ in range(5)] == [200] * 5
            assert get(nginx).status == 200
            for _ in range(3):
                c.send("GET", "/r", {"X-User": "7"})
            assert [c.read().status for _ in range(3)] == [200] * 3


@pytest.mark.parametrize("how", ["close", "vanish"])
def test_a_slot_is_back_after_the_client_has_left(api, how):
    with start(api, 20) as nginx:
        with held(nginx, api, 20) as clients:
            assert get(nginx).status == 429
            for c in clients:
                getattr(c, how)()
            wait_free(nginx, 20)
            api.release("a")


def test_a_slot_is_back_after_the_client_has_left_in_the_middle_of_a_response(api):
    with start(api, 1) as nginx:
        with nginx.client() as c:
            c.send("GET", "/?events=2&step=s", {"X-User": "7"})
            api.release("s0")
            while b'{"n": 0}' not in c.parser.buffer:
                c.parser.buffer += c.socket.recv(65536)
            assert get(nginx).status == 429
        wait_free(nginx, 1)


def test_a_slot_is_held_while_the_client_reads(api):
    """The response is in nginx or in the kernel until the client has read it."""
    with start(api, 1, server="location / { weir on; proxy_pass http://api; proxy_max_temp_file_size 0; }") as nginx:
        with nginx.client() as c:
            c.send("GET", "/?bytes=30000000", {"X-User": "7"})
            wait_for(lambda: api.count() == 1, "the request at the API")
            assert get(nginx).status == 429
            assert len(c.read().body) == 30000000
            assert get(nginx).status == 200


def test_a_slot_is_back_before_the_rest_of_the_request_was_read(api):
    """nginx reads and discards the rest of a body for a while before it closes; the slot does not wait for that."""
    server = "location / { weir on; client_max_body_size 1; proxy_pass http://api; }"
    with start(api, 1, server=server) as nginx:
        with nginx.client() as c:
            c.send("POST", "/r", {"X-User": "7", "Transfer-Encoding": "chunked", "Connection": "close"})
            c.raw(b"100\r\n" + b"x" * 256)
            assert c.read().status == 413
            assert get(nginx).status == 200
            c.raw(b"x")  # nginx still reads: the connection is not reset


REDIRECTS = """
	location / { weir on; proxy_pass http://api; error_page 404 500 @fallback; proxy_intercept_errors on; }
	location @fallback { weir on; proxy_pass http://api; }
	location /try { weir on; try_files /absent @fallback; }
	location /page { weir on; proxy_pass http://api; error_page 503 =200 /index.html; proxy_intercept_errors on; }
	location = /index.html { }
"""


def test_a_slot_is_back_after_internal_redirects(api):
    """error_page, a named location, try_files, X-Accel-Redirect: one slot, and it is given back."""
    with start(api, 1, server=REDIRECTS) as nginx:
        for _ in range(3):
            assert get(nginx, "/x?status=404").status == 404
            assert get(nginx, "/try/x").status == 200
            assert get(nginx, "/page?status=503").body == b"index\n"
            assert get(nginx, "/page?h=X-Accel-Redirect:/index.html").body == b"index\n"
        with held(nginx, api, 1, target="/try/x"):
            assert get(nginx).status == 429
            api.release("a")


def test_websocket_holds_its_slot_until_it_is_closed(api):
    hello = {"X-User": "7", "Upgrade": "websocket", "Connection": "Upgrade"}
    with Listener(shout) as sockets:
        server = SERVER + """
	location /socket { weir on; proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
		proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection Upgrade; }""" % sockets.port
        with start(api, 2, server=server) as nginx, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(nginx.client()) for _ in range(2)]
            for c in clients:
                c.send("GET", "/socket", hello)
                assert c.read(interim=True).status == 101
                c.raw(b"hello")
                assert c.socket.recv(100) == b"HELLO"
                c.raw(b"again")
                assert c.socket.recv(100) == b"AGAIN"
            assert get(nginx).status == 429
            clients[0].close()
            wait_free(nginx, 1)
            assert get(nginx).status == 200
            clients[1].raw(b"bye")  # the API closes this one
            assert clients[1].at_end()
            wait_free(nginx, 2)


def test_http2_streams_count_separately(api):
    with start(api, 20, h2c=True) as nginx, H2(nginx.h2c_port) as c:
        streams = [c.send("GET", "/r?hold=a", {"x-user": "7"}) for _ in range(20)]
        wait_for(lambda: api.count() == 20, "20 streams at the API")
        assert c.get("/r", {"x-user": "7"}).status == 429
        c.cancel(streams.pop())
        wait_for(lambda: c.get("/r", {"x-user": "7"}).status == 200, "the slot of the cancelled stream")
        api.release("a")
        assert [c.read(s).status for s in streams] == [200] * 19
        again = [c.send("GET", "/r?hold=b", {"x-user": "7"}) for _ in range(21)]
        wait_for(lambda: api.count("/r?hold=b") == 20, "20 streams at the API")
        api.release("b")
        assert sorted(c.read(s).status for s in again) == [200] * 20 + [429]


def test_slots_of_a_killed_worker_come_back_after_max_hold(api, clock):
    """kill -9 of a worker with 20 slots taken: none is usable before max_hold has passed, all 20 after that."""
    with start(api, 20, allow=["exited on signal 9"]) as nginx:
        with held(nginx, api, 20):
            worker = nginx.workers()[0]
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda: nginx.workers() and nginx.workers() != [worker], "a new worker")
            assert get(nginx).status == 429
            clock.advance(119)
            refused = get(nginx)
            assert refused.status == 429
            assert refused.get("retry-after") == "1"
            clock.advance(1.001)
            with held(nginx, api, 20, "b"):
                assert get(nginx).status == 429
                api.release("b")
            api.release("a")


def test_a_worker_that_is_stopped_gives_its_slots_back(api):
    """SIGTERM ends the requests in progress, and their slots."""
    with start(api, 20, allow=TERMINATED) as nginx:
        with held(nginx, api, 20):
            worker = nginx.workers()[0]
            os.kill(worker, signal.SIGTERM)
            wait_for(lambda: nginx.workers() and nginx.workers() != [worker], "a new worker")
            with held(nginx, api, 20, "b"):
                assert get(nginx).status == 429
                api.release("b")
            api.release("a")


def test_slots_across_a_reload(api):
    """An old worker keeps the slots of its requests, and gives each back at its end, with new rules too."""
    with start(api, 2) as nginx:
        with held(nginx, api, 2) as clients:
            nginx.reload()
            assert get(nginx).status == 429
            nginx.write_rules(slots(3))
            nginx.reload()
            assert get(nginx).status == 200
            with held(nginx, api, 1, "b"):
                assert get(nginx).status == 429
                api.release("a")
                assert [c.read().status for c in clients] == [200, 200]
                wait_for(lambda: get(nginx).get("x-ratelimit-remaining") == "1", "two free slots")
                api.release("b")


def test_all_or_nothing_with_a_rate_limit(api):
    """A refusal by the rate limit takes no slot, and a refusal for lack of a slot takes no unit."""
    rate = "      - {unit: week, requests_per_unit: 3, algorithm: token_bucket, name: rate}"
    with start(api, 2, more=rate) as nginx:
        with held(nginx, api, 2):
            assert [get(nginx).status for _ in range(5)] == [429] * 5
            api.release("a")
        wait_for(lambda: get(nginx).status == 200, "a free slot")
        assert [get(nginx).status for _ in range(5)] == [429] * 5
        assert api.count() == 3


LEAKY = "      - {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 4, name: queue}"


def test_a_delayed_request_holds_its_slot(api, clock):
    """A leaky bucket and slots in one list: a request waits with its slot, and keeps it until its response."""
    with start(api, 2, more=LEAKY, max_hold="8h") as nginx:
        assert get(nginx).status == 200
        with nginx.client() as waiting:
            waiting.send("GET", "/r?hold=a", {"X-User": "7"})
            with nginx.client() as leaving:
                leaving.send("GET", "/r?hold=a", {"X-User": "7"})
                wait_for(lambda: get(nginx).status == 429, "both slots in use")
            wait_for(lambda: nginx.logged("delayed by") >= 2, "two delays")
            with nginx.client() as second:  # the client that left has given its slot and its position back
                second.send("GET", "/r?hold=b", {"X-User": "7"})
                wait_for(lambda: nginx.logged("delayed by 7200000ms") >= 2, "the same position again")
            clock.advance(3600)
            with nginx.client() as third:  # nginx reads the clock when a request joins the queue
                third.send("GET", "/r?hold=c", {"X-User": "7"})
                wait_for(lambda: api.count() == 2, "the first request at the API")
                assert get(nginx).status == 429
            api.release("a")
            assert waiting.read().status == 200
        delays = nginx.logged("delayed by")
        with nginx.client() as fourth, nginx.client() as fifth:  # both slots are free again
            fourth.send("GET", "/r", {"X-User": "7"})
            fifth.send("GET", "/r", {"X-User": "7"})
            wait_for(lambda: nginx.logged("delayed by") == delays + 2, "two more delays")
            assert get(nginx).status == 429


def test_dry_run_takes_and_gives_back_slots(api):
    server = """location / { weir on; weir_dry_run on; add_header X-Result $weir_result always;
		proxy_pass http://api; }"""
    with start(api, 1, server=server) as nginx:
        with held(nginx, api, 1):
            assert get(nginx).get("x-result") == "REFUSED_DRY_RUN"
            api.release("a")
        wait_for(lambda: get(nginx).get("x-result") == "ADMITTED", "a free slot")
        assert get(nginx).get("x-result") == "ADMITTED"


def test_descriptors_of_the_configuration_hold_slots(api):
    server = "location / { weir_descriptor api user=$http_x_user; proxy_pass http://api; }"
    with start(api, 1, server=server) as nginx:
        with held(nginx, api, 1) as clients:
            assert get(nginx).status == 429
            api.release("a")
            assert clients[0].read().status == 200
        assert [get(nginx).status for _ in range(3)] == [200] * 3


AUTH = """
	location / { weir on; weir_auth /auth; proxy_pass http://api; }
	location = /auth { internal; proxy_pass http://api/auth?$http_x_auth; proxy_pass_request_body off; }
"""


def test_slots_and_authentication(api):
    """The check before authentication takes no slot. A refusal of the service gives the slot back, and so does a client
    that leaves while the service is asked."""
    with start(api, 1, server=AUTH) as nginx:
        for _ in range(3):
            assert nginx.get("/r", {"X-User": "7", "X-Auth": "status=200"}).status == 200
            assert nginx.get("/r", {"X-User": "7", "X-Auth": "status=401"}).status == 401
        with held(nginx, api, 1, headers={"X-User": "7", "X-Auth": "hold=auth"}):
            assert api.count("/auth") == 7
        wait_for(lambda: nginx.get("/r", {"X-User": "7", "X-Auth": "status=200"}).status == 200, "a free slot")


def test_subrequests_take_no_slots(api):
    server = """
	location / { weir on; auth_request /check; proxy_pass http://api; }
	location = /check { internal; weir on; proxy_pass http://api/check; proxy_pass_request_body off; }"""
    with start(api, 1, server=server) as nginx:
        assert [get(nginx).status for _ in range(3)] == [200] * 3
        assert api.count("/check") == 3


def test_many_at_once_share_the_slots_of_four_workers(api):
    """400 requests at once with 20 slots: no slot is lost."""
    with start(api, 20, workers=4, reuseport=True) as nginx:
        for _ in range(3):
            sent = send_at_once(nginx.port, [("GET", "/?delay=0.01", {"X-User": "7"})] * 400)
            assert set(count_statuses(sent)) <= {200, 429}
        with held(nginx, api, 20, "b"):
            wait_for(lambda: get(nginx).status == 429, "all slots in use")
            api.release("b")
