"""Clients of the RESP port that break the protocol, are slow, or do not read."""

import socket

import pytest

from weirtest import env, scaled, wait_for
from weirtest.resp import Resp, command
from weirtest.serve import Serve

RULES = """
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3}
"""


@pytest.fixture(name="serve", scope="module")
def _serve():
    with Serve(rules=RULES, resp=True) as serve:
        yield serve


@pytest.mark.parametrize("sent, error", [
    (b"*1\r\n:1\r\n", "expected '$', got ':'"),
    (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
    (b"*99999999999\r\n", "invalid multibulk length"),
    (b"*1025\r\n", "invalid multibulk length"),
    (b"*1\r\n$536870912\r\n", "invalid bulk length"),
    (b"*1\r\n$-5\r\n", "invalid bulk length"),
    (b"*1\r\n$4\r\nPINGxx", "expected CRLF after bulk string"),
    (b"*" + b"1" * 100, "too big mbulk count string"),
    (b"a" * 5000, "too big inline request"),
    (b'ECHO "a\r\n', "unbalanced quotes in request"),
])
def test_malformed_commands_are_refused(serve, sent, error):
    with Resp(serve.resp_port) as resp:
        resp.send(command("PING") + sent + command("PING"))
        assert resp.read() == "PONG"
        assert resp.read() == f"ERR Protocol error: {error}"
        assert resp.ended()


def test_http_request_is_refused(serve):
    """A page that makes a browser POST to this port has no effect, and gets no response."""
    with Resp(serve.resp_port) as resp:
        resp.send("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nCL.THROTTLE browser 0 1 86400\r\n")
        assert resp.ended()
    with Resp(serve.resp_port) as resp:
        assert resp.call("CL.THROTTLE", "browser", 0, 1, 86400) == [0, 1, 0, -1, 86400]


def test_commands_byte_by_byte(serve):
    with Resp(serve.resp_port) as resp:
        resp.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in command("CL.THROTTLE", "slowly", 4, 1, 86400) + b"PING\r\n":
            resp.send(bytes([byte]))
        assert resp.read() == [0, 5, 4, -1, 86400]
        assert resp.read() == "PONG"


def test_half_a_command_times_out():
    """The service waits --slow for the rest of a command. A client without a begun command may stay connected."""
    with Serve(rules=RULES, resp=True, args=["--slow", "400ms"]) as serve, \
            Resp(serve.resp_port) as silent, Resp(serve.resp_port) as half:
        assert silent.call("PING") == "PONG"
        half.send(b"*2\r\n$4\r\nECHO\r\n$10\r\nabc")
        assert half.ended()
        assert silent.call("PING") == "PONG"


def test_unread_replies_stop_the_reading_of_commands():
    """While replies are not read, the commands behind them are not read: memory stays bounded, and others are served.
    At the end every reply arrives, in order."""
    rounds = scaled(3000)
    with Serve(rules=RULES, resp=True, args=["--slow", "1h"]) as serve:
        with Resp(serve.resp_port) as deaf, Resp(serve.resp_port) as other:
            before = serve.resident_kib()
            sent = b"".join(command("COMMAND", "DOCS") + command("ECHO", i) for i in range(rounds))
            deaf.socket.setblocking(False)
            at = 0

            def is_full():
                nonlocal at
                try:
                    at += deaf.socket.send(sent[at:at + 65536])
                    return at == len(sent)
                except BlockingIOError:
                    return True

            def stuck():
                """Returns whether the socket is still full after a turn of the server's only loop, which the PING
                shows."""
                return is_full() and other.call("PING") == "PONG" and is_full()

            wait_for(stuck, "the server to stop reading")
            assert [other.call("PING") for _ in range(100)] == ["PONG"] * 100
            # Each COMMAND DOCS has a reply of 4 KiB: without a limit there would be thousands of them.
            assert serve.resident_kib() - before < 4096 * env.SLOWER
            deaf.socket.settimeout(env.patience(20))
            for i in range(rounds):
                while at < len(sent) and at < (i + 2) * len(sent) // rounds:
                    at += deaf.socket.send(sent[at:at + 4096])
                assert len(deaf.read()) == 60  # name and description of 30 commands
                assert deaf.read() == str(i)


def test_memory_of_a_thousand_connections():
    """A thousand connections that have sent a command and wait: a few KiB each."""
    count = scaled(1000)
    with Serve(rules=RULES, resp=True) as serve:
        with Resp(serve.resp_port) as first:
            first.call("PING")
            before = serve.resident_kib()
            idle = [Resp(serve.resp_port) for _ in range(count)]
            try:
                for resp in idle:
                    assert resp.call("PING") == "PONG"
                assert (serve.resident_kib() - before) / count < 6 * env.SLOWER
                assert first.call("INFO", "clients").split() == [
                    "#", "Clients", f"connected_clients:{count + 1}"]
            finally:
                for resp in idle:
                    resp.close()
            wait_for(lambda: "connected_clients:1\r\n" in first.call("INFO", "clients"), "them to go")


def test_unauthenticated_clients_have_lower_limits():
    with Serve(rules=RULES, resp=True, args=["--resp-password-file", "{folder}/users"],
               start=False) as serve:
        (serve.folder / "users").write_text("secret\n", encoding="ascii")
        (serve.folder / "users").chmod(0o600)
        serve.start()
        with Resp(serve.resp_port) as resp:
            resp.send(b"*11\r\n")
            assert resp.read() == "ERR Protocol error: unauthenticated multibulk length"
            assert resp.ended()
        with Resp(serve.resp_port) as resp:
            resp.send(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n")
            assert resp.read() == "ERR Protocol error: unauthenticated bulk length"
            assert resp.ended()
        # The command behind AUTH in the same write is read with the new permission.
        with Resp(serve.resp_port) as resp:
            resp.send(command("AUTH", "secret") + command("ECHO", "x" * 20000))
            assert resp.read() == "OK"
            assert resp.read() == "x" * 20000
