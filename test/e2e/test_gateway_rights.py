"""Who may do what beside a `weir gateway`: processes that can open its socket, and are not nginx's workers."""

import json
import os
import re
import subprocess

import pytest

from weirtest import env, wait_for
from weirtest.counter import record
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
    admin = free_port()
    gateway = Gateway(api.port, "--queue", f"file:{folder}/queue", "--admin", f"127.0.0.1:{admin}", *options,
                      rules=RULES, **kwargs)
    gateway.admin_port = admin
    return gateway


def order(gateway, number):
    return gateway.request("POST", f"/orders/{number}", {"X-User": "7"}, body=b"x").status


def sockets(gateway):
    return sorted(set(re.findall(r"^  resp      unix:(\S+)$", gateway.output(), re.M)))


def as_member(path, *commands):
    """What a process of another user gets that is in the group of the socket; of this user, where only root can
    be another one."""
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


def test_members_of_the_group_forge_nothing(api, tmp_path):
    """Requests, their tickets and the fleet's secret are for nginx's workers, which have inherited the key."""
    with start(api, tmp_path) as gateway:
        path = sockets(gateway)[-1]
        said = as_member(path, ["PING"], FORGED, ["WEIR.TICKET", "0" * 32], ["WEIR.FLEET"], ["WEIR.TELL", "x"], ["WEIR.ASK", "x"],
                         ["WEIR.RESET", "api", "user", "7"], ["WEIR.CHECK", "api", "HITS", "-1", "user", "7"], ["WEIR.LINK", "0" * 64])
        assert said[0] == "PONG"
        for name, text in zip(["defer", "ticket", "fleet", "tell", "ask"], said[1:6]):
            assert text.startswith(f"NOPERM 'weir.{name}' is for nginx's workers"), text
        if os.geteuid() == 0:
            assert said[6].startswith("NOPERM 'weir.reset'") and said[7].startswith("NOPERM"), said[6:8]
        assert said[8].startswith("WRONGPASS")
        assert [order(gateway, n) for n in range(2)] == [200, 202]
        assert api.count() == 1


def test_the_key_is_nobodys_to_read(api, tmp_path):
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_memory_of_workers_is_closed(api, tmp_path):
    """Other processes of their user cannot read the key from it."""
    with start(api, tmp_path) as gateway:
        gateway.wait_workers()
        wait_for(lambda: [order(gateway, n) for n in range(2)][1] == 202, "the link")
        for pid in gateway.workers():
            owner = int(re.search(r"^Uid:\s+(\d+)", open(f"/proc/{pid}/status", encoding="ascii").read(), re.M).group(1))
            assert owner != 0
            done = subprocess.run(["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "cat", f"/proc/{pid}/mem"],
                                  capture_output=True, text=True, check=False)
            assert "Permission denied" in done.stderr, (pid, done.stderr)
