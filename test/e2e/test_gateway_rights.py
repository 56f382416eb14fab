"""Permissions around `weir gateway`: processes that can open its socket but are not nginx's workers, and the rights of
the processes of a gateway that root starts."""

import json
import os
import pwd
import re
import signal
import subprocess
from pathlib import Path

import pytest

from weirtest import env, fetch, needs, wait_for
from weirtest.queueserver import record
from weirtest.gateway import Gateway
from weirtest.ports import free_port
from weirtest.resp import Resp

RULES = """
domain: api
requests:
  - when: {path: "/orders/*"}
    descriptor: [{key: user, from: [identity, header.x-user]}]
descriptors:
  - key: user
    rate_limit: {period: 1h, requests_per_unit: 1, algorithm: token_bucket, on_limit: defer}
"""

FORGED = ["WEIR.DEFER", "1", "api", "api/user", "0123456789abcdef", "POST", "/orders/9", record("user", "root"), "1000",
          "3600", "20", "0", "0", "x", "Host", "shop.example", "Remote-User", "root"]


def start(api, folder, *options, **kwargs):
    """Returns a gateway with a queue in this folder and an admin port."""
    admin = free_port()
    gateway = Gateway(api.port, "--queue", f"file:{folder}/queue", "--admin", f"127.0.0.1:{admin}", *options,
                      rules=RULES, **kwargs)
    gateway.admin_port = admin
    return gateway


def order(gateway, number):
    return gateway.request("POST", f"/orders/{number}", {"X-User": "7"}, body=b"x").status


def sockets(gateway):
    """Returns the paths of the service's RESP sockets, from the gateway's output."""
    return sorted(set(re.findall(r"^  resp      unix:(\S+)$", gateway.output(), re.M)))


def as_member(path, *commands):
    """Runs a client as another user in the group of the socket, and returns its output. Without root the client runs as
    this user."""
    if os.geteuid() != 0:
        with Resp(path) as link:
            return [str(link.call(*words)) for words in commands]
    program = ("import json, sys; sys.path.insert(0, sys.argv[1])\n"
               "from weirtest.resp import Resp\n"
               "link = Resp(sys.argv[2])\n"
               "print(json.dumps([str(link.call(*[w.encode('latin-1') for w in words])) for words in json.load(sys.stdin)]))")
    words = [[w.decode("latin-1") if isinstance(w, bytes) else w for w in command] for command in commands]
    done = subprocess.run(["setpriv", "--reuid=4711", f"--regid={os.stat(path).st_gid}", "--clear-groups",
                           "/usr/bin/python3", "-c", program, os.path.dirname(os.path.abspath(__file__)), path],
                          input=json.dumps(words), capture_output=True, text=True, timeout=env.patience(30), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_group_members_cannot_use_the_link_commands(api, tmp_path):
    """Deferring requests, reading tickets and the fleet's secret need the link key, which only nginx's workers
    inherit."""
    with start(api, tmp_path) as gateway:
        path = sockets(gateway)[-1]
        output = as_member(path, ["PING"], FORGED, ["WEIR.TICKET", "0" * 32], ["WEIR.FLEET"], ["WEIR.TELL", "x"], ["WEIR.ASK", "x"],
                         ["WEIR.RESET", "api", "user", "7"], ["WEIR.CHECK", "api", "HITS", "-1", "user", "7"], ["WEIR.LINK", "0" * 64])
        assert output[0] == "PONG"
        for name, text in zip(["defer", "ticket", "fleet", "tell", "ask"], output[1:6]):
            assert text.startswith(f"NOPERM 'weir.{name}' is allowed only for nginx's workers"), text
        if os.geteuid() == 0:
            assert output[6].startswith("NOPERM 'weir.reset'") and output[7].startswith("NOPERM"), output[6:8]
        assert output[8].startswith("WRONGPASS")
        assert [order(gateway, n) for n in range(2)] == [200, 202]
        assert api.count() == 1


def test_link_key_is_not_readable(api, tmp_path):
    """The key file is private, the key is not in the command line of workers, and it stays the same after a reload."""
    with start(api, tmp_path) as gateway:
        key = gateway.runtime / "link.key"
        text = key.read_text(encoding="ascii")
        assert key.stat().st_mode & 0o7777 == 0o600 and key.stat().st_uid == os.geteuid()
        assert re.fullmatch("[0-9a-f]{64}\n", text)
        with Resp(sockets(gateway)[-1]) as link:
            assert link.call("WEIR.LINK", text.strip()) == "OK"
            assert isinstance(link.call(*FORGED), list)  # as a worker would
        for pid in gateway.workers():
            assert text.strip() not in open(f"/proc/{pid}/cmdline", encoding="ascii").read()
        gateway.renew_workers()
        assert [order(gateway, n) for n in range(2)] == [200, 202]
        assert key.read_text(encoding="ascii") == text
    assert not key.exists()


@needs("root")
def test_memory_of_workers_is_not_readable(api, tmp_path):
    """Other processes of the workers' user cannot read the key from their memory."""
    with start(api, tmp_path) as gateway:
        gateway.wait_workers()
        wait_for(lambda: [order(gateway, n) for n in range(2)][1] == 202, "the link")
        wait_for(lambda: {os.stat(f"/proc/{pid}/cmdline").st_uid for pid in gateway.workers()} == {0}, "all workers to start")
        for pid in gateway.workers():
            owner = int(re.search(r"^Uid:\s+(\d+)", open(f"/proc/{pid}/status", encoding="ascii").read(), re.M).group(1))
            assert owner != 0
            done = subprocess.run(["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "cat", f"/proc/{pid}/mem"],
                                  capture_output=True, text=True, check=False)
            assert "Permission denied" in done.stderr, (pid, done.stderr)


# ---- dropped root rights ----

def processes(gateway):
    """Returns all processes of a gateway but nginx's: {pid: fields of /proc/PID/status}, of every thread."""
    def status(path):
        return dict(line.split(":\t", 1) for line in Path(path).read_text(encoding="ascii").splitlines())
    pids = [gateway.pid, *map(int, Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text(encoding="ascii").split())]
    pids = [pid for pid in pids if pid != gateway.master()]
    return {pid: [status(task / "status") for task in Path(f"/proc/{pid}/task").iterdir()] for pid in pids}


def service_of(gateway):
    """Returns the process id of the gateway's service."""
    (pid,) = set(processes(gateway)) - {gateway.pid}
    return pid


def check_no_capabilities(threads, user):
    """Checks that all threads run as the user, in its groups only and without capabilities."""
    assert len(threads) > 1  # the process with the loops
    for fields in threads:
        assert fields["Uid"].split() == [str(user.pw_uid)] * 4
        assert fields["Gid"].split() == [str(user.pw_gid)] * 4
        assert set(map(int, fields["Groups"].split())) == set(os.getgrouplist(user.pw_name, user.pw_gid))
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(fields[kind], 16) == 0, kind
        assert fields["NoNewPrivs"] == "1"


@needs("root")
def test_service_does_not_run_as_root(api, tmp_path):
    """The gateway stays root to supervise nginx. It has no socket of its own."""
    with start(api, tmp_path, "--grpc", "unix:{0}/rls.sock".format(tmp_path), "--http", f"127.0.0.1:{free_port()}") as gateway:
        found = processes(gateway)
        assert len(found) == 2
        check_no_capabilities(found[service_of(gateway)], pwd.getpwnam("nobody"))
        (supervisor,) = found[gateway.pid]
        assert supervisor["Uid"].split() == ["0"] * 4
        inodes = {os.readlink(fd) for fd in Path(f"/proc/{gateway.pid}/fd").iterdir() if fd.is_symlink()}
        listening = Path("/proc/net/tcp").read_text(encoding="ascii") + Path("/proc/net/unix").read_text(encoding="ascii")
        theirs = [i for i in inodes if (m := re.match(r"socket:.(\d+)", i)) and re.search(rf"^.*\b{m.group(1)}\b.*(0A|/).*$", listening, re.M)]
        assert not theirs
        assert [order(gateway, n) for n in range(2)] == [200, 202]
        paths = re.findall(r" unix:(/\S+)$", gateway.output(), re.M)
        assert len(paths) >= 2 and all(map(os.path.exists, paths))
    assert not [path for path in paths if os.path.exists(path)]


@needs("root")
def test_privileged_port_is_bound_before_rights_are_dropped(api):
    """The port is bound before rights are dropped, at the start and after a reload."""
    with Gateway(api.port, "--http", "127.0.0.1:1009", "--config", "{0}/gateway.yaml", start=False) as gateway:
        gateway.options[-1] = str(gateway.folder / "gateway.yaml")
        (gateway.folder / "gateway.yaml").write_text("drain: 7s\n", encoding="ascii")
        gateway.start()
        first = service_of(gateway)
        assert fetch(1009, "GET", "/healthz").status in (200, 404)
        (gateway.folder / "gateway.yaml").write_text("drain: 8s\n", encoding="ascii")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output("nginx loads the new configuration")
        assert service_of(gateway) != first
        assert fetch(1009, "GET", "/healthz").status in (200, 404)


@needs("root")
def test_rules_that_only_root_can_read_are_loaded_at_sighup(api):
    """Rules that only root can read apply after SIGHUP, in nginx and in the service."""
    with Gateway(api.port, "--http", f"127.0.0.1:{(port := free_port())}", start=False) as gateway:
        gateway.rules.chmod(0o600)
        gateway.start()
        ask = lambda: json.loads(fetch(port, "POST", "/v1/check", {"Content-Type": "application/json"}, json.dumps({  # noqa: E731
            "domain": "api", "descriptors": [{"entries": [{"key": "client", "value": "x"}]}]}).encode()).body)
        assert ask()["descriptors"][0]["limit"] == 2
        gateway.rules.write_text(gateway.rules_text.replace("requests_per_unit: 2}", "requests_per_unit: 3}"), encoding="utf-8")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output("nginx loads the new configuration")
        assert ask()["descriptors"][0]["limit"] == 3


@needs("root")
def test_queue_key_that_only_root_can_read(api, tmp_path):
    """--queue-key is read before rights are dropped. Workers run as the same user and cannot read it."""
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    with start(api, tmp_path, "--queue-key", key) as gateway:
        assert [order(gateway, n) for n in range(2)] == [200, 202]
        assert (tmp_path / "queue").stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert (tmp_path / "queue").stat().st_mode & 0o7777 == 0o700


@needs("root")
def test_queue_of_root_is_given_to_the_user(api, tmp_path):
    """The queue folder gets the user as owner, with all its files. A folder with other files does not."""
    with start(api, tmp_path, "--user", "root") as gateway:
        assert [order(gateway, n) for n in range(2)] == [200, 202]
    assert {p.stat().st_uid for p in (tmp_path / "queue").rglob("*")} == {0}
    with start(api, tmp_path) as gateway:
        assert order(gateway, 2) == 202
        assert {p.stat().st_uid for p in (tmp_path / "queue").rglob("*")} == {pwd.getpwnam("nobody").pw_uid}
    (tmp_path / "other" / "queue").mkdir(parents=True)
    (tmp_path / "other" / "queue" / "precious").write_text("x", encoding="ascii")
    with start(api, tmp_path / "other", start=False) as gateway:
        code, output = gateway.run()
        assert code == 1 and "belongs to root and contains other files" in output
    assert (tmp_path / "other" / "queue" / "precious").stat().st_uid == 0


def test_dead_service_is_restarted(api, tmp_path):
    """The service is restarted. nginx keeps running, and the ports are the same."""
    with start(api, tmp_path, allow=["service"]) as gateway:
        first = service_of(gateway)
        master = gateway.master()
        os.kill(first, signal.SIGKILL)
        gateway.wait_output(r"the service \(process \d+\) was ended by signal 9 .*; starting it again in 0.1 s")
        gateway.wait_output(r"the service runs again \(process \d+\)")
        assert service_of(gateway) != first and gateway.master() == master
        assert gateway.get("/").status == 200
        wait_for(lambda: [order(gateway, n) for n in range(2)][1] == 202, "requests to be kept again")


def has_ended(pid):
    """Returns whether the process has ended. A process that was not waited for yet is a zombie."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return True


def test_service_of_a_killed_gateway_exits(api, tmp_path):
    """nginx keeps running. The next gateway gets the ports, and nginx's workers get its key."""
    with start(api, tmp_path) as gateway:
        service, master = service_of(gateway), gateway.master()
        key = (gateway.runtime / "link.key").read_text(encoding="ascii")
        gateway.process.kill()
        gateway.process.wait()
        gateway.start()
        assert has_ended(service) and gateway.master() == master
        assert (gateway.runtime / "link.key").read_text(encoding="ascii") == key
        wait_for(lambda: [order(gateway, n) for n in range(2)][1] == 202, "requests to be kept again")


# ---- the user of the service ----

def gateway_as_root(api, *options):
    """A gateway without --user, on a machine without a user weir."""
    class Bare(Gateway):
        def user(self):
            return []
    return Bare(api.port, *options, start=False)


def has_weir():
    """Returns the account of the user weir, or None."""
    try:
        return pwd.getpwnam("weir")
    except KeyError:
        return None


@needs("root")
@pytest.mark.skipif(has_weir() is not None, reason="this machine has a user weir")
def test_start_as_root_without_a_user(api, tmp_path):
    """Without the user weir the gateway warns that its service runs as root. A queue or --redis prevents the start."""
    remedy = "useradd --system --no-create-home --shell /usr/sbin/nologin weir"
    with gateway_as_root(api) as gateway:
        gateway.start()
        assert f"weir gateway: warning: the service runs as root: {remedy} creates a user for it" in gateway.output()
        assert gateway.get("/").status == 200
    for options, what in ((["--queue", f"file:{tmp_path}/queue"], "a queue"), (["--redis", "redis://127.0.0.1:1"], "--redis")):
        with gateway_as_root(api, *options) as gateway:
            code, output = gateway.run()
            assert code == 1 and f"weir gateway: {what} needs a user of its own, because root runs the gateway: {remedy} creates one" in output
    assert not (tmp_path / "queue").exists()


@needs("root")
def test_user_number_without_an_account(api, tmp_path):
    """The service has its own user: its files, its sockets and the delivery socket are closed to the workers' user
    too."""
    gateway = gateway_as_root(api, "--user", "60900", "--queue", f"file:{tmp_path}/queue", "--admin", f"127.0.0.1:{free_port()}")
    gateway.rules_text = RULES
    with gateway:
        gateway.start()
        assert "runs as root" not in gateway.output()
        threads = processes(gateway)[service_of(gateway)]
        assert {(f["Uid"], f["Gid"], f["Groups"].strip(), f["CapEff"], f["CapBnd"], f["NoNewPrivs"]) for f in threads} == {
            ("60900\t60900\t60900\t60900", "60900\t60900\t60900\t60900", "60900", "0" * 16, "0" * 16, "1")}
        gateway.wait_workers()
        assert [order(gateway, n) for n in range(2)] == [200, 202]
        assert (tmp_path / "queue").stat().st_uid == 60900
        workers = {re.search(r"^Uid:\t(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M)[1] for pid in gateway.workers()}
        assert len(workers) == 1 and not workers & {"0", "60900"}
        deliver = gateway.runtime / "deliver/api.sock"
        assert (deliver.stat().st_uid, deliver.stat().st_mode & 0o777) == (60900, 0o600)
        link = max(sockets(gateway), key=lambda path: os.stat(path).st_gid)
        assert os.stat(link).st_uid == 60900 and os.stat(link).st_gid not in (0, 60900)
        assert [a.split()[0] for a in as_member(link, FORGED, ["WEIR.RESET", "api", "user", "7"])] == ["NOPERM", "NOPERM"]


@needs("root", "mounts")
def test_user_weir_is_the_default(api, tmp_path):
    """The user weir is used if it exists. Here it exists in the gateway's own mount namespace, which has its own /run
    too."""
    for name, line in (("passwd", "weir:x:4242:4242::/nonexistent:/usr/sbin/nologin\n"), ("group", "weir:x:4242:\n")):
        text = "".join(row for row in Path("/etc", name).read_text(encoding="utf-8").splitlines(True) if not row.startswith("weir:"))
        (tmp_path / name).write_text(text + line, encoding="utf-8")
        (tmp_path / name).chmod(0o644)
    gateway = gateway_as_root(api, "--queue", f"file:{tmp_path}/queue")
    gateway.rules_text = RULES
    with gateway:
        gateway.prefix = ["unshare", "--mount", "sh", "-c", f"mount --bind {tmp_path}/passwd /etc/passwd && mount --bind "
                          f'{tmp_path}/group /etc/group && mount -t tmpfs none /run && exec "$@"', "sh"]
        gateway.start()
        assert "runs as root" not in gateway.output()
        threads = processes(gateway)[service_of(gateway)]
        assert {(f["Uid"], f["Gid"], f["CapEff"], f["NoNewPrivs"]) for f in threads} == {
            ("4242\t4242\t4242\t4242", "4242\t4242\t4242\t4242", "0000000000000000", "1")}
        gateway.wait_workers()
        wait_for(lambda: {os.stat(f"/proc/{pid}/cmdline").st_uid for pid in gateway.workers()} == {0}, "workers that cannot be traced")
        for pid in gateway.workers():
            assert "Uid:\t4242\t" in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        assert [order(gateway, n) for n in range(2)] == [200, 202]
        assert (tmp_path / "queue").stat().st_uid == 4242


@needs("root")
def test_unknown_user_prevents_the_start(api):
    """--user needs an existing name, or a number without an account."""
    for name, reason in (("nosuchuser", "--user nosuchuser: there is no such user; create it with useradd --system"),
                       (str(pwd.getpwnam("nobody").pw_uid), "the number is invalid, or belongs to an account or a group"),
                       ("0", "the number is invalid, or belongs to an account or a group"),
                       ("4294967296", "the number is invalid, or belongs to an account or a group")):
        with gateway_as_root(api, "--user", name) as gateway:
            code, output = gateway.run()
            assert code == 2 and reason in output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may switch to any user")
def test_user_option_needs_root(api):
    with gateway_as_root(api, "--user", "nobody") as gateway:
        code, output = gateway.run()
        assert code == 2 and "only root can start the gateway as another user" in output
