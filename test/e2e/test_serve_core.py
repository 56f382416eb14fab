"""weir serve as a process: start, shutdown, reload, sockets, user rights, limits on connections."""

import json
import os
import pwd
import queue
import re
import resource
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import grpc
import pytest

from weirtest import clock, env, fetch, free_port, full, needs, wait_for
from weirtest.netns import Network
from weirtest.protos import Response, request
from weirtest.rawh2 import ACK, PING, RawH2, frame
from weirtest.rls import NOT_SERVING, OK, OVER, SERVING, Rls, question
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3, algorithm: token_bucket}
"""
GENEROUS = RULES.replace("requests_per_unit: 3", "requests_per_unit: 1000000")
LEAKY = """
domain: rl
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, queue_size: 10}
"""


def user(name):
    return ("user", name)


# ---- start ----

def test_start_logs_the_address_of_each_port():
    """The log at the start names table, rules, ports and threads. Counters outlive a restart."""
    with Serve(rules=RULES, grpc=True, http=True) as serve:
        log = serve.log()
        assert f"weir serve: table {serve.table}/default.v" in log
        assert "4M, room for 122880 keys, 0 in use" in log
        assert f"rules {serve.rules}: 1 file, 1 domain, 1 limit, generation 1" in log
        assert f"grpc at 127.0.0.1:{serve.grpc_port}\n" in log
        assert f"http at 127.0.0.1:{serve.http_port}\n" in log
        assert "1 thread, 16384 connections at most" in log
        with Rls(serve.grpc_port) as rls:
            assert [rls.ask("rl", user("a")) for _ in range(4)] == [OK, OK, OK, OVER]
        assert serve.stop() == 0
        assert serve.log().endswith("weir serve: ended\n")
        serve.start()  # counters outlive the process
        assert ", 1 in use" in serve.log()
        with Rls(serve.grpc_port) as rls:
            assert rls.ask("rl", user("a")) == OVER


def test_missing_or_broken_rules_prevent_the_start():
    code, output = Serve(rules_path=None, grpc=True).run()
    assert (code, output) == (1, "weir serve: --rules is missing: a file or a directory of rule files\n")
    code, output = Serve(rules_path="/nowhere/rules", grpc=True).run()
    assert code == 1
    assert "--rules /nowhere/rules: No such file or directory" in output
    code, output = Serve(rules=RULES.replace("unit: hour", "unti: hour"), grpc=True).run()
    assert code == 1
    assert "FOLDER/rules.yaml:5:18: error: unknown key 'unti'" in output
    assert "weir serve: FOLDER/rules.yaml: 1 error in the rules" in output
    assert "weir check FOLDER/rules.yaml shows them" in output


def test_rules_may_be_a_directory():
    with Serve(grpc=True, start=False) as serve:
        (serve.folder / "rules").mkdir()
        (serve.folder / "rules" / "a.yaml").write_text(RULES)
        (serve.folder / "rules" / "b.yaml").write_text(RULES.replace("domain: rl", "domain: other"))
        serve.rules_path = serve.folder / "rules"
        serve.start()
        assert "2 files, 2 domains, 2 limits" in serve.log()
        with Rls(serve.grpc_port) as rls:
            assert [rls.ask("other", user("a")) for _ in range(4)] == [OK, OK, OK, OVER]
            assert rls.ask("rl", user("a")) == OK


def test_port_in_use_prevents_the_start():
    with Serve(rules=RULES, grpc=True) as serve:
        second = Serve(rules=RULES, grpc=f"127.0.0.1:{serve.grpc_port}")
        code, output = second.run()
        assert code == 1
        assert f"cannot listen at 127.0.0.1:{serve.grpc_port}: the address is in use by another program" in output
        assert "choose another address with --grpc" in output


@pytest.mark.parametrize("args, code, text", [
    (["--grpc", "1.2.3.4:5"], 1, "this machine has no such address"),
    (["--grpc", "nonsense"], 1, "--grpc: "),
    (["--tls-cert", "/x"], 1, "--tls-cert and --tls-key must be set together"),
    (["--tls-client-ca", "/x"], 1, "need --tls-cert"),
    (["--memory", "1K"], 2, "--memory"),
    (["--user", "nobody-of-that-name"], 1, "there is no such user"),
    (["--threads", "257"], 2, "--threads"),
    (["--nonsense"], 2, "nonsense"),
])
def test_wrong_option_prevents_the_start(args, code, text):
    got, output = Serve(rules=RULES, grpc=f"127.0.0.1:{free_port()}", args=args).run()
    assert got == code, output
    assert text in output


def test_no_open_port_prevents_the_start():
    code, output = Serve(rules=RULES).run()
    assert code == 1
    assert "nothing to serve: every port is off" in output


def test_help_names_every_port():
    done = subprocess.run([env.WEIR, "serve", "--help"], capture_output=True, text=True, check=True)
    for flag in ("--grpc", "--http", "--resp", "--admin", "--tls-client-san", "--drain-delay"):
        assert f"  {flag} " in done.stdout


@needs("namespaces")
def test_ports_are_on_loopback_by_default():
    """Without addresses, in its own network namespace, where nothing else listens."""
    with Network("alone") as net, Serve(rules=RULES, prefix=net["alone"].prefix, start=False) as serve:
        serve.addresses = {}
        serve.start()
        listening = re.findall(r"^LISTEN\s+\d+\s+\d+\s+(\S+)", net["alone"].run("ss", "-ltn"), re.M)
        assert set(listening) == {f"127.0.0.1:{port}" for port in (8081, 8082, 6380, 9099)}


# Opens five connections at once and sends a request on each. Prints the number of answered requests.
FIVE = """
import socket, sys
answered = 0
held = [socket.create_connection((sys.argv[1], 8082), timeout=20) for _ in range(5)]
for s in held:
    try:
        s.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: weir\\r\\n\\r\\n")
        answered += s.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        pass
print(answered)
"""


@needs("namespaces")
def test_connections_per_address_are_limited():
    """Each client address may have three connections; the machine's own address is not limited."""
    with Network("weir", "a", "b") as net, \
            Serve(rules=RULES, prefix=net["weir"].prefix, args=["--max-connections-per-address", "3"], start=False) as serve:
        serve.addresses = {"http": "0.0.0.0:8082", "grpc": "off", "resp": "off", "admin": "off"}
        serve.start()
        for where in ("a", "b", "a"):  # the limit is per address, and closed connections are released
            wait_for(lambda: net[where].run("/usr/bin/python3", "-c", FIVE, net["weir"].address) == "3\n", "three answers")
        assert net["weir"].run("/usr/bin/python3", "-c", FIVE, "127.0.0.1") == "5\n"
        assert "10.213.0.2 has 3 connections, a new one was closed" in serve.log()


# ---- environment variables of envoyproxy/ratelimit ----

def test_environment_variables_of_the_reference_are_accepted():
    """The variables of envoyproxy/ratelimit set the rules, the ports and shadow mode."""
    with Serve(start=False) as serve:
        where = serve.folder / "root" / "sub" / "config"
        where.mkdir(parents=True)
        (where / "rl.yaml").write_text(RULES)
        grpc_port, http_port = free_port(), free_port()
        serve.addresses = {"resp": "off", "admin": "off"}
        serve.variables = {
            "RUNTIME_ROOT": str(serve.folder / "root"), "RUNTIME_SUBDIRECTORY": "sub",
            "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(grpc_port), "HOST": "127.0.0.1",
            "PORT": str(http_port), "SHADOW_MODE": "true", "REDIS_POOL_SIZE": "10",
            "REDIS_PERSECOND": "false", "USE_STATSD": "false", "LOG_LEVEL": "info"}
        serve.start()
        log = serve.log()
        assert f"grpc at 127.0.0.1:{grpc_port}\n" in log
        assert f"http at 127.0.0.1:{http_port}\n" in log
        ignored = next(line for line in log.splitlines() if "ignored" in line)
        assert sorted(ignored.split(": ")[-1].split(", ")) == [
            "REDIS_PERSECOND", "REDIS_POOL_SIZE", "USE_STATSD"]
        assert "shadow mode" in log
        with Rls(grpc_port) as rls:
            assert [rls.ask("rl", user("a")) for _ in range(5)] == [OK] * 5


# ---- shutdown ----

def follow(rls, statuses):
    """Appends each health status to the list until the service ends the watch."""
    try:
        statuses.extend(rls.watch())
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE


def is_refused(port):
    """Waits until the port is closed. The log line comes before the last loop has closed its socket."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return True
    return False


def remaining(rls, name):
    """Returns the remaining units, read without taking one."""
    answer = Response.FromString(rls.ask_raw(request("rl", user(name), hits=0).SerializeToString()))
    return answer.statuses[0].limit_remaining


def test_service_is_unhealthy_but_answers_during_drain_delay():
    """On SIGTERM the service reports unhealthy at once, and answers requests until --drain-delay is over."""
    with Serve(rules=RULES, grpc=True, args=["--drain-delay", "1h"]) as serve:
        with Rls(serve.grpc_port) as rls, Rls(serve.grpc_port) as other:
            assert rls.health() == SERVING
            statuses = []
            threading.Thread(target=follow, args=(other, statuses), daemon=True).start()
            wait_for(lambda: statuses == [SERVING], "the first status")
            serve.signal(signal.SIGTERM)
            wait_for(lambda: NOT_SERVING in statuses, "the watch to hear of it")
            assert rls.health() == NOT_SERVING
            assert other.ask("rl", user("b")) == OK
            with Rls(serve.grpc_port) as late:
                assert late.ask("rl", user("b")) == OK
            assert "ports closed" not in serve.log()
            serve.signal(signal.SIGTERM)
            assert serve.wait() == 0


def test_drain_waits_for_delayed_calls(clock):
    """Four calls are due at 0, 100, 200 and 300 ms on a clock that stands still: three wait while the ports close. They
    get their answers when they are due, and the process exits without waiting for the rest of --drain."""
    with Serve(rules=LEAKY, grpc=True, args=["--drain", "1h"]) as serve:
        with RawH2(serve.grpc_port) as raw:
            calls = [raw.call(question("rl", user("a"))) for _ in range(4)]
            raw.send(b"".join(whole for _, whole in calls) + frame(PING, payload=b"12345678"))
            assert raw.until(PING)[3] == b"12345678"  # the service has read them
            serve.signal(signal.SIGTERM)
            serve.wait_logged("ports closed, 1 connections are still open")
            wait_for(lambda: is_refused(serve.grpc_port), "the port to close")
            raw.send(frame(PING, ACK, 0, raw.until(PING)[3]))
            assert raw.goaway() == (calls[-1][0], 0)
            answers = []
            for stream, _ in calls:
                answers.append(raw.answer(stream))
                clock.advance(0.1)
            assert [(body[5:7], trailers["grpc-status"]) for _, body, trailers in answers] == [(b"\x08\x01", "0")] * 4
            assert raw.read_frame() is None
        assert serve.wait() == 0
        assert "cut" not in serve.log()


def test_drain_timeout_closes_connections_with_calls():
    """One call is admitted, 29 wait for an hour each. At the end of --drain the connection is closed with its calls
    pending."""
    with Serve(rules=LEAKY.replace("unit: second", "unit: hour").replace("queue_size: 10", "queue_size: 1000"),
               grpc=True, args=["--drain", "200ms"]) as serve:
        with Rls(serve.grpc_port) as rls:
            before = remaining(rls, "a")
            waits = [rls.begin("rl", user("a"), timeout=1000000) for _ in range(30)]
            wait_for(lambda: remaining(rls, "a") == before - 30, "all calls to arrive")
            serve.signal(signal.SIGTERM)
            assert serve.wait() == 0
            assert "closed 1 connections that were still open at the end of --drain" in serve.log()
            codes = [w.code() for w in waits]
            assert (codes.count(grpc.StatusCode.OK), codes.count(grpc.StatusCode.UNAVAILABLE)) == (1, 29)


def test_second_sigterm_ends_the_service_at_once():
    with Serve(rules=RULES, grpc=True, args=["--drain-delay", "1h"]) as serve:
        serve.signal(signal.SIGTERM)
        serve.wait_logged("shutting down: health is NOT_SERVING, ports close in 3600.0 s")
        serve.signal(signal.SIGTERM)
        assert serve.wait() == 0


def test_idle_connections_do_not_delay_the_shutdown():
    """One connection of each protocol without a request in flight: each is told to close, and is closed."""
    with Serve(rules=RULES, grpc=True, http=True, resp=True, admin=True,
               args=["--drain", "1h"]) as serve:
        with Rls(serve.grpc_port) as rls:
            assert rls.ask("rl", user("a")) == OK
            held = [connect(port) for port in (serve.http_port, serve.admin_port, serve.resp_port)]
            for s in held[:2]:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert s.recv(4096).startswith(b"HTTP/1.1 ")
            held[2].sendall(b"PING\r\n")
            assert held[2].recv(64) == b"+PONG\r\n"
            serve.signal(signal.SIGTERM)
            for s in held:
                assert s.recv(64) == b""
                s.close()
            assert serve.wait() == 0
            assert "cut" not in serve.log()


# ---- reload ----

def test_rules_are_reloaded_on_sighup_and_on_change():
    """Rules with errors are reported with their location, and the last good rules stay in force."""
    with Serve(rules=RULES, grpc=True) as serve, Rls(serve.grpc_port) as rls:
        assert [rls.ask("rl", user("a")) for _ in range(4)] == [OK, OK, OK, OVER]
        serve.write_rules(RULES.replace("requests_per_unit: 3", "requests_per_unit: 5"))
        serve.wait_logged("rules loaded: generation 2")
        assert [rls.ask("rl", user("b")) for _ in range(6)] == [OK] * 5 + [OVER]
        serve.signal(signal.SIGHUP)
        serve.wait_logged("rules loaded: generation 3")
        serve.write_rules("domain: rl\ndescriptors: [{key: user, rate_limit: {unit: fortnight}}]\n")
        serve.wait_logged("rules not loaded: weir check ")
        serve.wait_logged("generation 3 stays in force")
        serve.wait_logged("rules.yaml:2:")
        assert [rls.ask("rl", user("c")) for _ in range(6)] == [OK] * 5 + [OVER]


def test_no_request_fails_while_rules_change():
    with Serve(rules=GENEROUS, grpc=True, threads=2) as serve, Rls(serve.grpc_port) as rls:
        for i in range(20):
            serve.write_rules(GENEROUS + f"# {i}\n")
            serve.signal(signal.SIGHUP)
            assert [rls.ask("rl", user(str(i))) for _ in range(20)] == [OK] * 20


# ---- addresses ----

IPV4, IPV6 = "127.0.0.1", "::1"


@pytest.mark.parametrize("address, served, refused", [
    ("{port}", [IPV4], []),
    ("*:{port}", [IPV4], []),
    ("127.0.0.1:{port}", [IPV4], []),
    pytest.param("{port}", [IPV4, IPV6], [], marks=needs("ipv6")),
    pytest.param("*:{port}", [IPV4, IPV6], [], marks=needs("ipv6")),
    pytest.param("127.0.0.1:{port}", [IPV4], [IPV6], marks=needs("ipv6")),
    pytest.param("[::1]:{port}", [IPV6], [IPV4], marks=needs("ipv6")),
    pytest.param("127.0.0.1:{port},[::1]:{port}", [IPV4, IPV6], [], marks=needs("ipv6")),
])
def test_listen_addresses(address, served, refused):
    """A port alone listens on all addresses, other forms listen only on their own addresses."""
    port = free_port()
    with Serve(rules=RULES, resp=address.format(port=port), threads=2) as serve:
        for host in served:
            with socket.create_connection((host, port), timeout=env.patience(20)) as s:
                s.sendall(b"PING\r\n")
                assert s.recv(64) == b"+PONG\r\n"
        for host in refused:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, port), timeout=5)
        assert serve.log().count("resp at ") == len(address.split(","))


def test_log_as_json():
    """Each line of the log is a JSON object with time, level and message."""
    with Serve(rules=RULES, resp=True, args=["--log-format", "json", "--user", pwd.getpwuid(os.geteuid()).pw_name]) as serve:
        serve.write_rules("domain: \"a\\\"b\"\ndescriptors: [{key: x, unti: 1}]\n")
        serve.wait_logged("rules not loaded")
        serve.stop()
        lines = [json.loads(line) for line in serve.log().splitlines()]
        assert {line["level"] for line in lines} == {"info", "error"}
        assert lines[-1]["message"] == "ended"
        assert any("unknown key 'unti'" in line["message"] for line in lines)
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
                   for line in lines)


# ---- Unix sockets ----

def test_unix_socket_of_a_dead_process_is_replaced():
    """A socket that another service uses prevents the start; the socket of a killed service does not."""
    with Serve(rules=RULES, grpc="unix:{folder}/rls.sock", threads=2) as serve:
        path = serve.folder / "rls.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with Rls(f"unix:{path}") as rls:
            assert [rls.ask("rl", user("a")) for _ in range(4)] == [OK, OK, OK, OVER]
        code, output = Serve(rules=RULES, grpc=f"unix:{path}").run()
        assert code == 1
        assert f"cannot listen at unix:{path}: the path is in use by another program" in output
        serve.kill()
        assert path.is_socket()  # left over from a killed process
        serve.start()
        with Rls(f"unix:{path}") as rls:
            assert rls.ask("rl", user("a")) == OVER
        serve.stop()
        assert not path.exists()


def test_file_at_the_unix_socket_path_is_not_removed():
    serve = Serve(rules=RULES, grpc="unix:{folder}/file")
    (serve.folder / "file").write_text("precious")
    code, output = serve.run()
    assert code == 1
    assert "the file exists and is not a socket" in output
    assert (serve.folder / "file").read_text() == "precious"


@needs("root")
def test_unix_socket_refuses_other_users():
    """The mode of the socket file keeps other users out. The service refuses them too, if the mode was widened."""
    with Serve(rules=RULES, grpc="unix:{folder}/rls.sock") as serve:
        path = serve.folder / "rls.sock"
        path.chmod(0o777)
        stranger = pwd.getpwnam("nobody")
        probe = (f"import socket,sys; s=socket.socket(socket.AF_UNIX); s.settimeout({env.patience(20)}); "
                 "s.connect(sys.argv[1]); sys.exit(0 if s.recv(1) == b'' else 1)")
        subprocess.run(["/usr/bin/python3", "-c", probe, str(path)], check=True,
                       user=stranger.pw_uid, group=stranger.pw_gid, extra_groups=[])
        serve.wait_logged("refused a connection of a process that does not run as root or as the user or group of this service")
        with Rls(f"unix:{path}") as rls:
            assert rls.ask("rl", user("a")) == OK


# ---- user rights ----

@needs("root")
def test_user_option_drops_root_after_opening_the_ports():
    """All threads run as the user, without capabilities, and the socket belongs to the user."""
    nobody = pwd.getpwnam("nobody")
    with Serve(rules=RULES, grpc="unix:{folder}/rls.sock", http=True,
               args=["--user", "nobody"]) as serve:
        status = Path(f"/proc/{serve.pid}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        assert uids == [str(nobody.pw_uid)] * 4
        for task in Path(f"/proc/{serve.pid}/task").iterdir():
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
            assert [int(fields[c], 16) for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
            assert fields["NoNewPrivs"] == "1" and fields["Gid"].split() == [str(nobody.pw_gid)] * 4
            assert set(map(int, fields["Groups"].split())) == set(os.getgrouplist("nobody", nobody.pw_gid))
        for task in Path(f"/proc/{serve.pid}/task").iterdir():
            assert f"Uid:\t{nobody.pw_uid}\t" in (task / "status").read_text()
        assert (serve.folder / "rls.sock").stat().st_uid == nobody.pw_uid
        with Rls(f"unix:{serve.folder}/rls.sock") as rls:
            assert rls.ask("rl", user("a")) == OK
        serve.signal(signal.SIGHUP)
        serve.wait_logged("rules loaded: generation 2")


@needs("root")
def test_start_as_root_without_user_option_logs_a_warning():
    with Serve(rules=RULES, grpc=True) as serve:
        warned = "the service runs as root: useradd --system --no-create-home" in serve.log()
        assert warned == (Path(f"/proc/{serve.pid}").stat().st_uid == 0)
    with Serve(rules=RULES, grpc=True, args=["--user", "root"]) as serve:
        assert "runs as root" not in serve.log()


@needs("root")
def test_user_that_cannot_read_the_rules_prevents_the_start():
    serve = Serve(rules=RULES, grpc=True, args=["--user", "nobody"])
    serve.rules.chmod(0o600)
    code, output = serve.run()
    assert code == 1
    assert ("--rules FOLDER/rules.yaml cannot be read by user nobody, so the service could not read it again after a change; "
            "make nobody its owner (chown), or give its group read access (chgrp, chmod g+r)") in output


# ---- systemd ----

class FakeSystemd:
    """A fake of systemd's notification socket. It reads at once, because messages that exceed the socket's queue are
    lost."""

    def __init__(self, serve):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(serve.folder / "notify"))
        serve.variables = {"NOTIFY_SOCKET": str(serve.folder / "notify"), "WATCHDOG_USEC": "1000000"}
        self.reported = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read)

    def __enter__(self):
        self.reader.start()
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.socket.getsockname())
        self.reader.join()
        self.socket.close()

    def _read(self):
        while output := self.socket.recv(1024):
            self.reported.put(output.decode())

    def wait_message(self, wanted):
        while wanted not in (output := self.reported.get(timeout=env.patience(20))).split("\n"):
            assert output in ("WATCHDOG=1", "READY=1"), output
        return output

    def seconds(self, count):
        """Returns when housekeeping, which runs once a second and sends the notifications, has run this many times."""
        while not self.reported.empty():
            self.reported.get()
        for _ in range(2 * count + 2):
            self.wait_message("WATCHDOG=1")


def test_systemd_is_notified():
    """systemd gets READY, WATCHDOG, RELOADING and STOPPING."""
    with Serve(rules=RULES, grpc=True, start=False) as serve, FakeSystemd(serve) as manager:
        serve.start()
        manager.wait_message("READY=1")
        manager.wait_message("WATCHDOG=1")
        manager.wait_message("WATCHDOG=1")
        serve.signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in manager.wait_message("RELOADING=1")
        manager.wait_message("READY=1")
        serve.signal(signal.SIGTERM)
        manager.wait_message("STOPPING=1")
        serve.wait()


# ---- two processes, one table ----

def test_two_processes_share_a_table_and_survive_kill_9():
    limit = RULES.replace("hour, requests_per_unit: 3", "year, requests_per_unit: 100")
    with Serve(rules=limit, grpc=True) as one, Serve(rules=limit, grpc=True, table=one.table) as two:
        with Rls(one.grpc_port) as first, Rls(two.grpc_port) as second:
            admitted = sum(r.ask("rl", user("a")) == OK for _ in range(30) for r in (first, second))
            assert admitted == 60
            one.kill()
            answers = [second.ask("rl", user("a")) for _ in range(50)]
            assert answers == [OK] * 40 + [OVER] * 10
        one.start()
        with Rls(one.grpc_port) as first:
            assert first.ask("rl", user("a")) == OVER


@full("the service looks at its table once a second; test_serve_table has a resize in every tier")
def test_table_resized_under_traffic():
    """Another process resizes the table. The service switches to the new one, and no request fails."""
    with Serve(rules=RULES, grpc=True, threads=2) as serve, Rls(serve.grpc_port) as rls:
        assert [rls.ask("rl", user("a")) for _ in range(4)] == [OK, OK, OK, OVER]
        resize(serve.table, 8 << 20)
        deadline = time.monotonic() + env.patience(20)
        while "the table was resized" not in serve.log():
            assert rls.ask("rl", user("z")) in (OK, OVER)
            assert time.monotonic() < deadline, serve.log()
        assert ": 8M, " in serve.log() or ", 8M, " in serve.log()
        assert rls.ask("rl", user("a")) == OVER
        serve.signal(signal.SIGHUP)
        serve.wait_logged("rules loaded: ")
        assert [rls.ask("rl", user("b")) for _ in range(4)] == [OK, OK, OK, OVER]


@full("waits for three looks at the table, a second apart")
def test_resized_table_is_not_reported_as_removed():
    with Serve(rules=RULES, grpc=True, start=False) as serve, FakeSystemd(serve) as manager:
        serve.start()
        resize(serve.table, 8 << 20)
        serve.wait_logged("the table was resized")
        manager.seconds(3)
        assert "was removed" not in serve.log()
        serve.stop()


@full("waits for three looks at the table, a second apart")
def test_table_file_is_removed_while_the_service_runs():
    """The service logs the removal and continues with its counters."""
    with Serve(rules=RULES, grpc=True, start=False) as serve, FakeSystemd(serve) as manager:
        serve.start()
        with Rls(serve.grpc_port) as rls:
            assert rls.ask("rl", user("gone")) == OK
            manager.seconds(1)  # housekeeping has looked at the table
            for file in Path(serve.table).iterdir():
                file.unlink()
            serve.wait_logged("was removed: this process keeps its counters")
            assert rls.ask("rl", user("gone")) == OK
        serve.stop()


def resize(folder, size):
    """Resizes the table with libweir in another process."""
    code = f"""
import ctypes, time
class Opts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("dir", ctypes.c_char_p), ("memory", ctypes.c_uint64), ("log", ctypes.c_uint64),
                ("restore", ctypes.c_char_p), ("now", ctypes.c_uint64)]
lib = ctypes.CDLL({str(env.BUILD / "libweir.so")!r})
lib.weir_resize.argtypes = [ctypes.POINTER(Opts), ctypes.c_uint64, ctypes.c_char_p]
error = ctypes.create_string_buffer(256)
opts = Opts(ctypes.sizeof(Opts), 0, None, {folder.encode()!r}, {size}, 0, None, 0)
rc = lib.weir_resize(ctypes.byref(opts), time.time_ns(), error)
assert rc == 0, (rc, error.raw)
"""
    # Python frees this memory only at its exit.
    variables = {**os.environ, **env.wrapper("/tmp")[1], "ASAN_OPTIONS": "detect_leaks=0"}
    subprocess.run(["/usr/bin/python3", "-c", code], check=True, timeout=60, env=clock.current.variables(variables))


# ---- limits ----

def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=env.patience(20))


def test_connections_above_max_connections_are_refused():
    """The eleventh connection is closed. When one ends, another is accepted."""
    with Serve(rules=RULES, grpc=True, args=["--max-connections", "10"]) as serve:
        held = [connect(serve.grpc_port) for _ in range(10)]
        for s in held:  # the server's SETTINGS: it has accepted the connection
            assert s.recv(9)
        refused = connect(serve.grpc_port)
        assert refused.recv(9) == b""
        serve.wait_logged("all 10 connections of this port are in use")
        held.pop().close()

        def is_accepted():
            with connect(serve.grpc_port) as s:
                try:
                    return s.recv(9) != b""
                except ConnectionResetError:
                    return False

        wait_for(is_accepted, "a connection to be accepted again")
        for s in held:
            s.close()
        refused.close()


def test_flood_at_one_port_leaves_connections_for_others():
    """One port may use 14 of 16 connections."""
    with Serve(rules=RULES, grpc=True, http=True, args=["--max-connections", "16"]) as serve:
        held = [connect(serve.grpc_port) for _ in range(14)]
        for s in held:
            assert s.recv(9)
        with connect(serve.grpc_port) as refused:
            assert refused.recv(9) == b""
        serve.wait_logged("all 14 connections of this port are in use")
        assert fetch(serve.http_port, "GET", "/healthz").status == 200
        for s in held:
            s.close()


def test_low_file_limit_lowers_max_connections_and_is_logged():
    with Serve(rules=RULES, grpc=True, prefix=["prlimit", "--nofile=500:500", "setpriv",
                                               "--bounding-set=-sys_resource",
                                               "--inh-caps=-sys_resource"]) as serve:
        assert "this process may open only 500 files: --max-connections is lowered to 132 from 16384" in serve.log()


@full("measures the processor time of a second")
def test_service_survives_a_lack_of_file_descriptors():
    """Without free file descriptors the service neither spins nor exits. It accepts connections again when descriptors
    are free. The test opens connections until one is not accepted, because the number of free descriptors is
    unknown."""
    with Serve(rules=RULES, grpc=True) as serve, Rls(serve.grpc_port) as rls:
        assert rls.ask("rl", user("a")) == OK
        soft, hard = resource.prlimit(serve.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(serve.pid, resource.RLIMIT_NOFILE, (serve.open_files(), hard))
        waiting = []

        def descriptors_are_used_up():
            waiting.append(connect(serve.grpc_port))
            return "cannot accept connections: Too many open files" in serve.log()

        wait_for(descriptors_are_used_up, "files to be out", every=0.1)
        before = cpu_ticks(serve.pid)
        assert rls.ask("rl", user("a")) == OK
        time.sleep(1)
        assert cpu_ticks(serve.pid) - before < os.sysconf("SC_CLK_TCK") // 4
        resource.prlimit(serve.pid, resource.RLIMIT_NOFILE, (soft, hard))
        for s in waiting:
            assert s.recv(9)
            s.close()


def cpu_ticks(pid):
    """Returns the processor time of a process in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def leave_when_asked(raw):
    """The server asks the client to leave: a GOAWAY that still allows calls, a PING to learn that the client has read
    it, the final GOAWAY, then the end of the connection."""
    assert raw.goaway() == (0x7fffffff, 0)
    raw.send(frame(PING, ACK, 0, raw.until(PING)[3]))
    assert raw.goaway() == (0, 0)
    assert raw.read_frame() is None


def test_idle_connections_are_closed():
    with Serve(rules=RULES, grpc=True, args=["--idle", "300ms"]) as serve:
        with RawH2(serve.grpc_port) as raw:
            leave_when_asked(raw)
        with Rls(serve.grpc_port) as rls:  # a client that reconnects is served
            assert rls.ask("rl", user("a")) == OK


@full("the service waits five seconds for a client that ignores GOAWAY")
def test_idle_connections_that_ignore_goaway_are_closed():
    with Serve(rules=RULES, grpc=True, args=["--idle", "300ms"]) as serve:
        with RawH2(serve.grpc_port) as raw:
            assert raw.goaway() == (0x7fffffff, 0)
            while raw.read_frame():
                pass
        with Rls(serve.grpc_port) as rls:
            assert rls.ask("rl", user("a")) == OK


def peers_of(port):
    """Returns the peers of the connections that a service has at 127.0.0.1:port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return {row[2] for row in rows if row[1] == f"0100007F:{port:04X}" and row[3] == "01"}


def test_old_connections_get_goaway_and_no_call_fails():
    """A busy connection is also asked to close. The client moves to new connections, and no call fails."""
    with Serve(rules=GENEROUS, grpc=True, args=["--max-age", "300ms"]) as serve:
        with RawH2(serve.grpc_port) as raw:
            leave_when_asked(raw)
        with Rls(serve.grpc_port) as rls:
            used = set()

            def has_moved_twice():
                assert rls.ask("rl", user("a")) == OK
                used.update(peers_of(serve.grpc_port))
                return len(used) >= 3

            wait_for(has_moved_twice, "the client to have had three connections")


def test_slow_clients_are_disconnected():
    with Serve(rules=RULES, grpc=True, args=["--slow", "300ms"]) as serve:
        with connect(serve.grpc_port) as s:  # half of the HTTP/2 preface
            s.sendall(b"PRI * HTTP/2.0")
            while True:
                try:
                    if not s.recv(4096):
                        break
                except ConnectionResetError:
                    break
        serve.wait_logged("was disconnected because it sent or read too slowly")
        # a client that the machine delays for a second is disconnected too, and reconnects
        with Rls(serve.grpc_port) as rls:
            assert wait_for(rls.answers("rl", user("a")), "somebody else to be served") == OK
