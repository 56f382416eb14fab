"""Many connections, many keys: memory stays bounded and others are served."""

import contextlib
import os
import re
import resource
import selectors
import socket

import pytest

from weirtest import env, fetch, full, scaled, wait_for
from weirtest.rls import OK, OVER, Rls
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3, algorithm: token_bucket}
"""
CONNECTIONS = scaled(10000)

pytestmark = full("ten thousand connections, a million keys")


def open_files(wanted):
    """Raises the limit of open files. The test is skipped if the machine does not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted and os.geteuid() != 0:
        pytest.skip(f"{hard} open files at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), max(hard, wanted)))


@pytest.mark.seconds(180)
def test_ten_thousand_idle_connections():
    """A third are silent gRPC connections, a third are silent HTTP connections, a third have begun an HTTP request.
    Others are served at both ports, and memory is bounded."""
    open_files(CONNECTIONS + 1000)
    with Serve(rules=RULES, grpc=True, http=True, threads=2, args=["--slow", "1h"]) as serve:  # or they would time out
        with Rls(serve.grpc_port) as rls:
            assert rls.ask("rl", ("user", "before")) == OK
            before = serve.resident_kib()
            held = []
            for i in range(CONNECTIONS):
                s = socket.socket()
                s.settimeout(env.patience(20))
                # some machines have fewer than 10,000 ports for one address
                s.bind((f"127.0.0.{2 + i % 8}", 0))
                s.connect(("127.0.0.1", serve.http_port if i % 3 else serve.grpc_port))
                held.append(s)
                if i % 3 == 1:
                    s.sendall(b"POST /v1/ch")
                if i % 500 == 0:
                    assert rls.ask("rl", ("user", str(i))) == OK
            for s in held[::3]:  # each has got the server's greeting, so each is open at the service
                assert len(s.recv(9)) == 9
            wait_for(lambda: serve.open_files() > CONNECTIONS, "all to be open at the service")
            assert [rls.ask("rl", ("user", "among")) for _ in range(4)] == [OK, OK, OK, OVER]
            assert fetch(serve.http_port, "GET", "/healthz").status == 200
            grown = serve.resident_kib() - before
            if not env.WRAP:
                assert grown < CONNECTIONS * 16, f"{grown} KiB for {CONNECTIONS} connections"
            for s in held:
                s.close()
            wait_for(lambda: serve.open_files() < 100, "the connections to be closed", 30)
            assert rls.ask("rl", ("user", "after")) == OK
            assert fetch(serve.http_port, "GET", "/healthz").status == 200


@pytest.mark.seconds(120)
def test_clients_that_do_not_read_are_disconnected():
    """Forty clients ask and never read a response: the service stops reading from them and disconnects them. Another
    client is served throughout."""
    ask = b"INFO\r\n" * 1000
    with Serve(rules=RULES, resp=True, args=["--slow", "2s"]) as serve:
        before = serve.resident_kib()
        deaf = []
        for _ in range(40):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(env.patience(20))
            s.connect(("127.0.0.1", serve.resp_port))
            s.settimeout(0.05)
            deaf.append(s)
        with socket.create_connection(("127.0.0.1", serve.resp_port), timeout=env.patience(20)) as good:
            for s in deaf:
                with contextlib.suppress(TimeoutError, ConnectionError):
                    for _ in range(20):
                        s.sendall(ask)
                good.sendall(b"PING\r\n")
                assert good.recv(64) == b"+PONG\r\n"
            grown = serve.resident_kib() - before
            if not env.WRAP:
                assert grown < 100 << 10, f"{grown} KiB for 40 clients"
            wait_for(lambda: serve.open_files() < 40, "them to be cut", 20)
            serve.wait_logged("was disconnected")
            good.sendall(b"PING\r\n")
            assert good.recv(64) == b"+PONG\r\n"
        for s in deaf:
            s.close()


@pytest.mark.seconds(240)
def test_a_million_keys_in_64_megabytes():
    """--memory 48M holds a million keys, and the process stays within 64 MB. A million keys are asked once each over
    /json, pipelined."""
    keys = scaled(1000000)
    with Serve(rules=RULES, http=True, memory="48M", args=["--max-connections", "1000"]) as serve:
        ask_keys(serve.http_port, keys)
        resident = serve.resident_kib()
        serve.stop()
        serve.start()
        held = int(re.findall(r"(\d+) in use", serve.log())[-1])
        assert held == keys
        if not env.WRAP:
            assert resident <= 64000000 // 1024, f"{resident} KiB"


def ask_keys(port, keys, connections=8, batch=200):
    """Asks for each key once. Responses are only counted; all of them have to be 200."""
    sel = selectors.DefaultSelector()
    asked = answered = 0
    for _ in range(connections):
        s = socket.create_connection(("127.0.0.1", port), timeout=env.patience(30))
        sel.register(s, selectors.EVENT_READ, [0, bytearray()])
        asked = send_batch(s, sel, asked, keys, batch)
    while answered < keys:
        events = sel.select(env.patience(30))
        assert events, f"{answered} of {keys} answered"
        for key, _ in events:
            piece, (due, data) = key.fileobj.recv(1 << 20), key.data
            assert piece, f"closed, {answered} of {keys} answered"
            data += piece
            statuses = re.findall(rb"HTTP/1.1 (\d{3}) ", data)  # pieces may end anywhere: all bytes since the batch was sent
            assert set(statuses) <= {b"200"}, data[:300]
            if len(statuses) == due and data.endswith(b"}"):
                answered += due
                data.clear()
                key.data[0] = 0
                asked = send_batch(key.fileobj, sel, asked, keys, batch)
    for key in list(sel.get_map().values()):
        key.fileobj.close()


def send_batch(s, sel, asked, keys, batch):
    """Sends the questions for the next keys in one write."""
    count = min(batch, keys - asked)
    body = '{"domain":"rl","descriptors":[{"entries":[{"key":"user","value":"%08d"}]}]}'
    text = "".join(f"POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body % 0)}\r\n\r\n{body % k}"
                   for k in range(asked, asked + count))
    sel.get_key(s).data[0] += count
    s.sendall(text.encode())
    return asked + count
