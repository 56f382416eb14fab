"""weir serve beside nginx, in the process of weir gateway."""

import json
import signal
import socket
import subprocess
import time

import pytest

from weirtest import JSON, WEIR, fetch, free_port, patience, wait_for
from weirtest.gateway import Gateway
from weirtest.rls import NOT_SERVING, OK, OVER, SERVING, Rls

FEW = """
domain: api
requests:
  - descriptor: [{key: everyone, value: together}]
descriptors:
  - key: everyone
    value: together
    rate_limit: {unit: day, requests_per_unit: 3, algorithm: token_bucket}
"""
TOGETHER = ("everyone", "together")


def ping(path):
    """Sends PING to a RESP socket. Returns the reply."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(patience(20))
        s.connect(str(path))
        s.sendall(b"PING\r\n")
        return s.recv(64)


def test_one_counter_for_nginx_and_grpc(api):
    """Three a day: two through nginx, one over gRPC, and then none through either."""
    port = free_port()
    with Gateway(api.port, "--grpc", f"127.0.0.1:{port}", "--admin", "off", rules=FEW) as gateway:
        assert f"  grpc      127.0.0.1:{port}\n" in gateway.output()
        assert f"  resp      unix:{gateway.runtime}/weir.sock\n" in gateway.output()
        with Rls(port) as rls:
            assert [gateway.get().status for _ in range(2)] == [200, 200]
            assert [rls.ask("api", TOGETHER) for _ in range(2)] == [OK, OVER]
            assert gateway.get().status == 429
        assert ping(gateway.runtime / "weir.sock") == b"+PONG\r\n"
        socket_file = gateway.runtime / "weir.sock"
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
        assert not socket_file.exists()


def test_default_admin_port_is_optional(api):
    """Two gateways on one machine: the second has no admin port, logs that, and works."""
    with Gateway(api.port) as first, Gateway(api.port) as second:
        assert (first.get().status, second.get().status) == (200, 200)
        assert "no admin port: cannot listen at 127.0.0.1:9099" in first.output() + second.output()


def test_admin_socket_exists_without_the_admin_port(api):
    """The second gateway has no default port but has a socket: weir's commands find it by the table."""
    with Gateway(api.port) as first, Gateway(api.port) as second:
        for gateway in (first, second):
            done = subprocess.run([WEIR, "pause", "--list", "--table", gateway.table], capture_output=True, text=True, check=True,
                                  env=gateway.variables())
            assert done.stdout == "nothing is paused\n"


@pytest.mark.parametrize("options, status", [((), 403), (("--refunds", "10.0.0.0/8"), 403), (("--refunds", "127.0.0.1"), 200)])
def test_refunds_need_permission(api, options, status):
    port = free_port()
    asked = {"domain": "api", "hits": -1, "taken_at": time.time(), "descriptors": [{"entries": [{"key": "everyone", "value": "together"}]}]}
    with Gateway(api.port, "--http", f"127.0.0.1:{port}", "--admin", "off", *options):
        assert fetch(port, "POST", "/v1/check", JSON, json.dumps(asked).encode()).status == status


def test_configured_port_must_be_available(api):
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        with Gateway(api.port, "--admin", "off") as gateway:
            gateway.signal(signal.SIGTERM)
            gateway.wait()
            code, output = gateway.run("--grpc", f"127.0.0.1:{port}")
            assert code == 1
            assert f"cannot listen at 127.0.0.1:{port}" in output
            assert "choose another address with --grpc" in output


def test_runtime_folder_too_deep_for_a_socket(api):
    """The path of a socket has at most 107 bytes. Without a socket and a configured port, nginx still works."""
    with Gateway(api.port, "--admin", "off") as gateway:
        gateway.signal(signal.SIGTERM)
        gateway.wait()
        gateway.runtime = gateway.folder / ("x" * 100)
        gateway.start()
        assert f"no weir.sock: the path of {gateway.runtime} is too long" in gateway.output()
        assert gateway.get().status == 200
        gateway.signal(signal.SIGHUP)
        gateway.wait_output("nginx loads the new configuration")
        assert gateway.get().status == 200


def test_reload_moves_a_port(api):
    """SIGHUP reads the options again: the port moves, the counter stays. If the new port is unavailable, the old one
    stays open."""
    first, second = free_port(), free_port()
    with Gateway(api.port, "--admin", "off", "--config", "/dev/null", rules=FEW) as gateway:
        gateway.signal(signal.SIGTERM)
        gateway.wait()
        options = gateway.folder / "options.yaml"
        gateway.options[-1] = options
        options.write_text(f"grpc: 127.0.0.1:{first}\n")
        gateway.start()
        with Rls(first) as rls:
            assert rls.ask("api", TOGETHER) == OK
        options.write_text(f"grpc: 127.0.0.1:{second}\n")
        gateway.signal(signal.SIGHUP)
        wait_for(lambda: open_at(second), "the new port")
        wait_for(lambda: not open_at(first), "the old one to close")
        with Rls(second) as rls:
            assert [rls.ask("api", TOGETHER) for _ in range(3)] == [OK, OK, OVER]
        with socket.create_server(("127.0.0.1", first)):
            options.write_text(f"grpc: 127.0.0.1:{first}\n")
            gateway.signal(signal.SIGHUP)
            gateway.wait_output("the service continues with its previous options")
            assert open_at(second)
        assert gateway.get().status == 429


def open_at(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=patience(20)).close()
        return True
    except ConnectionRefusedError:
        return False


def test_socket_of_a_killed_gateway_is_taken_over(api):
    """The next gateway replaces the socket weir.sock of the killed one."""
    with Gateway(api.port, "--admin", "off", rules=FEW) as gateway:
        gateway.process.kill()
        gateway.process.wait()
        assert gateway.get().status == 200
        gateway.start()
        assert gateway.get().status == 200
        assert ping(gateway.runtime / "weir.sock") == b"+PONG\r\n"


def test_health_reports_not_serving_before_the_shutdown(api):
    """SIGTERM: the service reports NOT_SERVING while nginx finishes its requests."""
    port = free_port()
    with Gateway(api.port, "--grpc", f"127.0.0.1:{port}", "--admin", "off") as gateway:
        with Rls(port) as rls:
            statuses = []
            assert rls.health() == SERVING
            slow = gateway.client()
            slow.send("GET", "/?hold=health")
            wait_for(lambda: api.count() == 1, "the API to have the request")
            watch = rls.watch()
            statuses.append(next(watch))
            gateway.signal(signal.SIGTERM)
            statuses.append(next(watch))
            assert statuses == [SERVING, NOT_SERVING]
            api.release("health")
            assert slow.read().status == 200
            slow.close()


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=patience(20)).close()
    except OSError:
        return False
    return True


SLOW = """
domain: rl
requests:
  - descriptor: [{key: user, value: http}]
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, queue_size: 10}
"""


def test_delayed_calls_are_answered_at_shutdown(api, clock):
    """Two calls that wait in a leaky bucket, held by a clock that stands still, get their responses after SIGTERM."""
    port = free_port()
    with Gateway(api.port, "--grpc", f"127.0.0.1:{port}", "--admin", "off", rules=SLOW) as gateway:
        with Rls(port) as rls:
            assert rls.ask("rl", ("user", "a")) == OK
            waits = []
            for _ in range(2):
                waits.append(rls.begin("rl", ("user", "a")))
                assert rls.ask("rl", ("no rule", "a")) == OK  # sent later, so the service has read the waiting call
            gateway.signal(signal.SIGTERM)
            wait_for(lambda: not listens(port), "the port to close")
            assert not any(w.done() for w in waits)
            clock.advance(0.2)
            assert [w.result()[1] for w in waits] == [OK, OK]
