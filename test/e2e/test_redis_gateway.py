"""Gateways with one Redis: one limit for all of them, and the effect on clients when Redis or the service is down.

Real redis-server and real gateways, each with its own table as on separate machines. The timeout of questions is long
(SECONDS) where a test counts exactly: a busy machine may exceed the usual 250 ms without a fault. on_store_failure
decides late questions; other tests cover that."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from weirtest import (MODULE, WEIR, WRAP, Clock, Nginx, Traffic, count_statuses, fetch, free_port, full, needs, patience,
                      scaled, send_at_once, wait_for)
from weirtest import programs
from weirtest.gateway import Gateway, variables
from weirtest.redis import Redis

pytestmark = full("gateways under load while Redis is killed, in real time")

SECONDS = ["--redis-timeout", "20s", "--admin", "off"]

BY_USER = """
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {limit}
"""

POLICIES = """
domain: api
requests:
  - when: {path: "/local/*"}
    descriptor: [{key: local, value: x}]
  - when: {path: "/allow/*"}
    descriptor: [{key: allow, value: x}]
  - when: {path: "/deny/*"}
    descriptor: [{key: deny, value: x}]
  - when: {path: "/here/*"}
    descriptor: [{key: here, value: x}]
descriptors:
  - {key: local, rate_limit: {unit: day, requests_per_unit: 1000000, on_store_failure: local}}
  - {key: allow, rate_limit: {unit: day, requests_per_unit: 1000000, on_store_failure: allow}}
  - {key: deny, rate_limit: {unit: day, requests_per_unit: 1000000, on_store_failure: deny}}
  - {key: here, rate_limit: {unit: day, requests_per_unit: 1000000, consistency: local}}
"""

PATHS = ["/local/x", "/allow/x", "/deny/x", "/here/x"]


def by_user(limit):
    return BY_USER.format(limit=limit)


def gateway(api, redis, *options, **kwargs):
    return Gateway(api.port, "--redis", redis.url(), *options, **kwargs)


@pytest.fixture(scope="module", autouse=True)
def clock():
    """The wall clock runs from half a minute after noon: no day, week or year ends during a test."""
    with Clock() as running:
        running.run()
        yield running


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


class Fleet:
    """Some gateways on one Redis."""

    def __init__(self, api, redis, count, *options, rules):
        self.members = [gateway(api, redis, *options, rules=rules) for _ in range(count)]
        self.redis = redis

    def __enter__(self):
        try:
            for one in self.members:
                one.__enter__()
            for one in self.members:
                wait_for(lambda one=one: self.uses_redis(one), "the gateway to ask Redis", 30)
                # A worker that started before the service had the fleet's secret looks again after a second, and
                # decides alone until then. A worker that starts now waits for it.
                one.renew_workers()
            self.redis.client().delete(*self.redis.keys("weir:1:{*"))
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self.members

    def uses_redis(self, one):
        """Returns whether a request to this gateway creates a counter in Redis."""
        before = len(self.redis.keys("weir:1:{*"))
        one.get("/", {"X-User": f"probe-{time.monotonic_ns()}"})
        return len(self.redis.keys("weir:1:{*")) > before

    def __exit__(self, kind=None, *_):
        for one in self.members:
            if one.process:
                one.__exit__(kind)


def balancer(members):
    """Returns an nginx that distributes requests over the gateways."""
    servers = "".join(f"server 127.0.0.1:{one.port};" for one in members)
    return Nginx(conf_http=f"upstream fleet {{ {servers} keepalive 256; }} proxy_http_version 1.1; "
                           'proxy_set_header Connection "";',
                 conf_server="location / { proxy_pass http://fleet; }", table=None)


def test_18_three_gateways_behind_a_balancer(api, redis):
    """ACCEPTANCE 18: a log of 1,000 per minute, 1,001 at once: 1,000 pass, one does not."""
    limit = scaled(1000)
    rules = by_user(f"{{unit: minute, requests_per_unit: {limit}, algorithm: sliding_window_log}}")
    with Fleet(api, redis, 3, *SECONDS, rules=rules) as members, balancer(members) as front:
        api.reset()
        results = send_at_once(front.port, [("GET", "/", {"X-User": "7"})] * (limit + 1), connections=limit // 4 + 1)
        assert count_statuses(results) == {200: limit, 429: 1}
        assert api.count() == limit


@pytest.mark.parametrize("reserved", [600, 100])
def test_three_gateways_settle_tokens(api, redis, reserved):
    """50 clients at once, 10,000 tokens, each uses 500. With 600 reserved, at most 10,000 tokens are used. With 100
    reserved, at most the requests in flight exceed the limit, and then nothing is admitted."""
    rules = f"""
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
    cost: {{reserve: {reserved}, actual: {{from: response.json./usage/total_tokens}}}}
descriptors:
  - {{key: user, rate_limit: {{unit: year, requests_per_unit: 10000}}}}
"""
    answer = "/?body=%7B%22usage%22%3A%7B%22total_tokens%22%3A500%7D%7D"
    with Fleet(api, redis, 3, *SECONDS, rules=rules) as members, balancer(members) as front:
        api.reset()
        results = send_at_once(front.port, [("GET", answer, {"X-User": "7"})] * 200, connections=50)
        statuses = count_statuses(results)
        used = 500 * statuses[200]
        assert set(statuses) == {200, 429} and api.count() == statuses[200]
        if reserved == 600:
            assert 8000 <= used <= 10000  # 16 × 600 fit at once
        else:
            assert 10000 <= used <= 10000 + 50 * 400
        wait_for(lambda: members[0].get(answer, {"X-User": "7"}).status == 429, "the end of all settlements")
        assert [one.get(answer, {"X-User": "7"}).status for one in members] == [429] * 3
        assert 500 * api.count() <= (10000 if reserved == 600 else 10000 + 50 * 400)


def test_20_client_alternates_between_two_gateways(api, redis):
    """ACCEPTANCE 20: whichever of two gateways the client asks, it has one limit and gets the same header fields."""
    with Fleet(api, redis, 2, *SECONDS, rules=by_user("{unit: year, requests_per_unit: 7}")) as (one, two):
        answers = [(one, two)[i % 2].get("/", {"X-User": "7"}) for i in range(10)]
        assert [a.status for a in answers] == [200] * 7 + [429] * 3
        assert [a.get("X-Ratelimit-Remaining") for a in answers] == list("6543210000")


def slowest(traffic):
    """Returns the longest time of a request in seconds."""
    return max(done - sent for sent, done, _ in traffic.answers) / 1e9


def statuses(one, path, count=20):
    """Returns the set of statuses of some requests to a gateway."""
    return {one.get(path).status for _ in range(count)}


def test_21_redis_is_killed_under_load(api, redis):
    """ACCEPTANCE 21: each rule applies its fallback, no request fails or waits beyond the timeout, and limits apply
    again when Redis is back."""
    timeout_s = 0.5
    with gateway(api, redis, "--redis-timeout", "500ms", "--admin", "off", rules=POLICIES) as one:
        wait_for(lambda: one.get("/deny/x").status == 200, "Redis to be asked", 20)
        traffics = [Traffic(one.port, [path], connections=3) for path in PATHS]
        for traffic in traffics:
            traffic.__enter__()
        try:
            for traffic in traffics:
                traffic.wait(50)
            redis.kill()
            wait_for(lambda: one.get("/deny/x").status == 429, "the loss to be noticed", 20)
            for traffic in traffics:
                traffic.wait(100)
            assert [statuses(one, path) for path in PATHS] == [{200}, {200}, {429}, {200}]
            redis.start()
            wait_for(lambda: one.get("/deny/x").status == 200, "Redis to be asked again", 30)
            for traffic in traffics:
                traffic.wait(50)
            wait_for(lambda: [statuses(one, path) for path in PATHS] == [{200}] * 4, "all workers to ask Redis", 30)
        finally:
            for traffic in traffics:
                traffic.stop()
        for path, traffic in zip(PATHS, traffics):
            assert not traffic.lost, path
            assert set(traffic.statuses) <= ({200, 429} if path == "/deny/x" else {200}), path
            # The timeout, nginx's additional quarter, and the delay of a busy machine.
            assert slowest(traffic) < timeout_s * 1.25 + patience(10), path


def test_units_of_the_outage_are_reported_to_redis(api, redis):
    """Six units that the node's share admitted while Redis was down are in Redis afterwards. The four that were in
    Redis before are lost, since this Redis has no persistence."""
    with Fleet(api, redis, 1, *SECONDS, rules=by_user("{unit: year, requests_per_unit: 10}")) as (one,):
        assert [one.get("/", {"X-User": "7"}).status for _ in range(4)] == [200] * 4
        redis.kill()
        # The share of a single node is the whole limit, of which 4 are used.
        assert [one.get("/", {"X-User": "7"}).status for _ in range(7)] == [200] * 6 + [429]
        redis.start()
        wait_for(lambda: [redis.client().get(key) for key in redis.keys("weir:1:{*}:fixed_window/*")] == ["6"], "the report")
        assert [one.get("/", {"X-User": "7"}).status for _ in range(5)] == [200] * 4 + [429]


def test_service_is_killed_under_load(api, redis):
    """kill -9 of the gateway and its service: nginx continues with the node's share, and no request fails. The next
    gateway takes nginx over, and limits use Redis again."""
    with gateway(api, redis, "--redis-timeout", "500ms", "--admin", "off", rules=POLICIES,
                 allow=["shutting down"]) as one:
        wait_for(lambda: one.get("/deny/x").status == 200, "Redis to be asked", 20)
        traffics = [Traffic(one.port, [path], connections=3) for path in PATHS]
        for traffic in traffics:
            traffic.__enter__()
        try:
            for traffic in traffics:
                traffic.wait(50)
            os.kill(one.pid, signal.SIGKILL)
            one.wait()
            wait_for(lambda: one.get("/deny/x").status == 429, "the loss to be noticed", 20)
            for traffic in traffics:
                traffic.wait(100)
            assert [statuses(one, path) for path in PATHS] == [{200}, {200}, {429}, {200}]
            one.start()
            wait_for(lambda: one.get("/deny/x").status == 200, "Redis to be asked again", 30)
            for traffic in traffics:
                traffic.wait(50)
        finally:
            for traffic in traffics:
                traffic.stop()
        assert "took over an nginx" in one.output()
        for path, traffic in zip(PATHS, traffics):
            assert not traffic.lost, path
            assert set(traffic.statuses) <= ({200, 429} if path == "/deny/x" else {200}), path


def test_gateway_starts_without_redis(api, redis):
    """The gateway starts without Redis, and needs no reload when Redis starts."""
    redis.kill()
    with gateway(api, redis, *SECONDS, rules=POLICIES) as one:
        assert [one.get(path).status for path in PATHS] == [200, 200, 429, 200]
        redis.start()
        wait_for(lambda: [statuses(one, path) for path in PATHS] == [{200}] * 4, "all workers to ask Redis", 30)


def test_redis_is_added_by_a_reload(api, redis, tmp_path):
    """SIGHUP reads the options again: nginx and the service get a Redis, and lose it."""
    config = tmp_path / "gateway.yaml"
    config.write_text("drain: 5s\n", encoding="ascii")
    with Gateway(api.port, "--config", config, "--admin", "off", rules=POLICIES) as one:
        assert one.get("/deny/x").status == 200
        assert not redis.keys("weir:1:{*")
        config.write_text(f"redis: {redis.url()}\nredis-timeout: 5s\n", encoding="ascii")
        one.signal(signal.SIGHUP)
        wait_for(lambda: one.get("/deny/x").status == 200 and redis.keys("weir:1:{*"), "Redis to be asked", 30)
        assert f'weir_central "unix:{one.runtime}/weir.sock" timeout=6250ms fleet=1;' in (
            one.runtime / "nginx.conf").read_text(encoding="utf-8")
        config.write_text("drain: 5s\n", encoding="ascii")
        one.signal(signal.SIGHUP)
        wait_for(lambda: "weir_central" not in (one.runtime / "nginx.conf").read_text(encoding="utf-8"), "a reload")
        wait_for(lambda: redis.connections() == 0, "the service to leave Redis")
        # Earlier workers deny until they have exited.
        wait_for(lambda: one.get("/deny/x").status == 200, "the table to be counted in")


def test_password_is_removed_from_the_command_line(api, tmp_path):
    """In the gateway and in nginx. A reload reads the options again and still has it."""
    config = tmp_path / "gateway.yaml"
    config.write_text("drain: 5s\n", encoding="ascii")
    with Redis(password="topsecret") as redis, \
            Gateway(api.port, "--config", config, "--redis", redis.url(password="topsecret"), *SECONDS,
                    rules=POLICIES) as one:
        wait_for(lambda: one.get("/deny/x").status == 200, "Redis to be asked", 30)
        config.write_text("redis-prefix: other\n", encoding="ascii")
        one.signal(signal.SIGHUP)
        wait_for(lambda: redis.client().exists("other:1:secret"), "the reload", 30)
        shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (one.pid, one.master())]
        assert b"\0--redis\0redis://" in shown[0] and b"nginx" in shown[1]
        assert not [line for line in shown if b"topsecret" in line] or WRAP == "valgrind"
        assert "--redis-password-file" in one.output() and "topsecret" not in one.output()


def run_plain(folder, port, redis, rules, api, user):
    """`weir gateway` without --runtime, as this user, who may have no access to the build."""
    shutil.copy(WEIR, f"{folder}/weir")
    shutil.copy(MODULE, f"{folder}/module.so")
    argv = [f"{folder}/weir", "gateway", "--module", f"{folder}/module.so", "--upstream", f"http://127.0.0.1:{api.port}", "--listen", f"127.0.0.1:{port}",
            "--rules", str(rules), "--workers", "1", "--redis", redis.url(), *SECONDS, "--table", f"weirtest-{port}",
            "--memory", "1M", *(["--user", "nobody"] if user.pw_uid == 0 else [])]
    become = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with open(f"{folder}/output", "wb") as out:
        return programs.start(argv, stdout=out, stderr=out, cwd=folder, env=variables(folder), **become)


@pytest.mark.parametrize("who", [pytest.param("root", marks=needs("root")), "nobody"])
def test_workers_reach_the_service_in_the_default_folders(api, redis, who):
    """nginx's workers reach the service in the default folders: those of root, whose workers are another user, and
    those of an ordinary user. No other user does."""
    user = pwd.getpwnam(who) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    folder, port = programs.temp_folder("rights"), free_port()
    os.chmod(folder, 0o755)
    rules = f"{folder}/rules.yaml"
    with open(rules, "w", encoding="ascii") as f:
        f.write(POLICIES)
    process = run_plain(folder, port, redis, rules, api, user)
    session = None
    try:
        def output():
            return Path(folder, "output").read_text(errors="replace")
        wait_for(lambda: "weir gateway is ready" in output() or process.poll() is not None, "the gateway", 30)
        assert process.poll() is None, output()
        master = int(re.search(r"nginx is process (\d+)", output()).group(1))
        session = os.getsid(master)
        programs.watch(session)
        wait_for(lambda: fetch(port, "GET", "/deny/x").status == 200, "Redis to be asked", 20)
        assert redis.keys("weir:1:{*")
        sockets = re.findall(r"^  resp      unix:(\S+)$", output(), re.M)
        assert len(sockets) == (2 if who == "root" else 1), output()
        for path in sockets:
            stranger = subprocess.run(["setpriv", "--reuid=4711", "--regid=4711", "--clear-groups",
                                       "/usr/bin/python3", "-c", "import socket,sys; s=socket.socket(socket.AF_UNIX)\n"
                                       "s.connect(sys.argv[1])", path], capture_output=True, text=True, check=False)
            if os.geteuid() == 0:
                assert "PermissionError" in stranger.stderr, (path, stranger.stderr)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
            process.wait(patience(30))
        if session:
            programs.kill_session(session)
            programs.unwatch(session)
        programs.stop(process)
        for table in re.findall(r"^  table     (/\S+),", output(), re.M):
            if os.path.exists(table):
                os.unlink(table)
        programs.remove_folder(folder)  # /tmp/weir-UID stays: other suites may be about to use it
    assert process.returncode == 0
    assert not [path for path in sockets if os.path.exists(path)]


def test_printed_configuration_has_redis_and_no_password(api, redis, tmp_path):
    """--print-config has the directive, without a password."""
    (tmp_path / "rules.yaml").write_text(POLICIES, encoding="ascii")
    done = subprocess.run([WEIR, "gateway", "--upstream", "http://127.0.0.1:1", "--rules", tmp_path / "rules.yaml",
                           "--redis", "redis://:hunter2@127.0.0.1:6399", "--fleet-size", "3", "--print-config"],
                          capture_output=True, text=True, check=True, env=variables(tmp_path))
    assert 'weir_central "unix:/run/weir/weir.sock" timeout=313ms fleet=3;' in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
