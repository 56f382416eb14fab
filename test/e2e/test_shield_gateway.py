"""weir shield with the bans of a gateway's rules, and restarts of both."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from weirtest import JSON, env, fetch, needs, programs, tokens, wait_for
from weirtest.serve import Serve
from weirtest.shield import Machines, Shield

pytestmark = needs("root", "namespaces", "nft")

RULES = """
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
descriptors:
  - key: ip
    rate_limit:
      unit: year
      requests_per_unit: 2
      ban: {after: 3, within: 1h, for: 1h, shield: SHIELD}
"""

# Sends requests one by one until one gets no answer, at most 40, and prints the statuses.
ASK = """
import http.client, sys
statuses = []
for _ in range(40):
    c = http.client.HTTPConnection(sys.argv[1], 8000, timeout=0.5)
    try:
        c.request("GET", "/")
        statuses.append(c.getresponse().status)
    except TimeoutError:
        statuses.append(0)
        break
    finally:
        c.close()
print(statuses)
"""


class Gateway:
    """weir gateway on port 8000 of a simulated machine. Its API server does not exist, so an admitted request gets 502.
    Its table is in /run/weir, and has a name of its own."""

    def __init__(self, machines, wanted="true"):
        self.machines = machines
        self.table = f"shieldtest-{os.getpid()}"
        self.folder = Path(programs.temp_folder("gateway"))
        programs.register_files(f"/run/weir/{self.table}.*")
        (self.folder / "rules.yaml").write_text(RULES.replace("SHIELD", wanted))
        (self.folder / "run").mkdir()
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        programs.remove_files(f"/run/weir/{self.table}.*")
        programs.remove_folder(str(self.folder))

    def start(self):
        out = self.folder / "gateway"
        with open(out, "ab") as file:
            self.process = programs.start(
                [*self.machines.server.prefix, str(env.WEIR), "gateway", "--upstream", "http://127.0.0.1:9", "--listen", "8000",
                 "--rules", self.folder / "rules.yaml", "--table", self.table, "--admin", "off",
                 "--user", "root", "--runtime", self.folder / "run"], stdout=file, stderr=file)
        wait_for(lambda: "weir gateway is ready" in out.read_text() or self.process.poll() is not None, "the gateway", 30)
        assert self.process.poll() is None, out.read_text()
        out.rename(out.with_suffix(f".{self.process.pid}"))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=env.patience(30))
        programs.stop(self.process)

    def ask(self):
        return json.loads(self.machines.client.run("/usr/bin/python3", "-c", ASK, self.machines.server.address))


@pytest.fixture
def machines():
    with Machines() as running:
        yield running


def test_ban_of_a_rule_reaches_the_kernel(machines):
    with Gateway(machines) as gateway, \
            Shield(machines.server, table="/run/weir", name=gateway.table) as shield:
        statuses = gateway.ask()
        assert statuses[:5] == [502, 502, 429, 429, 429]
        wait_for(lambda: gateway.ask() == [0], "requests without an answer")
        listed = shield.list()
        assert [(b["address"], b["origin"]) for b in listed["bans"]] == [(machines.client.address, "rule")]
        assert listed["shield"]["elements_v4"] == 1

        # the ban survives a restart of the gateway, and one of the shield
        gateway.stop()
        gateway.start()
        assert gateway.ask() == [0]
        assert shield.stop() == 0
        assert gateway.ask()[0] == 429
        shield.start()
        assert gateway.ask() == [0]


def test_rule_without_shield_is_not_carried(machines):
    with Gateway(machines, wanted="false") as gateway, \
            Shield(machines.server, table="/run/weir", name=gateway.table) as shield:
        assert gateway.ask() == [502] * 2 + [429] * 38
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")


def weir_ban(serve, *words):
    done = subprocess.run([env.WEIR, "ban", *words, *tokens.flags(serve.admin_port)], capture_output=True, text=True,
                          check=False, timeout=env.patience(60))
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("release", ["key", "address", "rule"])
def test_release_lets_packets_pass(machines, release):
    """weir ban release ends a ban in the table of the service and in the kernel. A ban of weir ban add --shield is carried
    and released in the same way."""
    address = machines.client.address
    words = {"key": ["api", f"ip={address}"], "address": ["--address", "10.213.0.0/24"],
             "rule": ["--rule", "api/ip/365d"]}[release]
    with Serve(rules=RULES.replace("SHIELD", "true"), http=True, admin=True) as serve, \
            Shield(machines.server, table=serve.table) as shield:
        body = {"domain": "api", "descriptors": [{"entries": [{"key": "ip", "value": address}]}]}
        answer = fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps([body] * 5).encode())
        assert [a["admitted"] for a in json.loads(answer.body)] == [True, True, False, False, False]
        machines.wait_dropped(shield)
        assert weir_ban(serve, "release", *words) == "released 1 ban\n"
        machines.wait_open()
        shield.wait_state(elements_v4=0)
        assert weir_ban(serve, "add", "--for", "1h", "--shield", "api", f"ip={address}") == (
            f"1 limit bans the key; weir shield drops the packets of {address}\n")
        machines.wait_dropped(shield)
        assert shield.list()["bans"][0]["origin"] == "operator"
        weir_ban(serve, "release", *words)
        machines.wait_open()
