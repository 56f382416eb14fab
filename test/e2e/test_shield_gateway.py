"""weir shield with the bans of a gateway's rules, and restarts of both."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from weirtest import JSON, clock, env, fetch, needs, programs, tokens, wait_for
from weirtest.gateway import variables
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
        self.options = []
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
                 "--user", "root", "--runtime", self.folder / "run", *self.options], stdout=file, stderr=file,
                env=variables(self.folder))
        wait_for(lambda: "weir gateway is ready" in out.read_text() or self.process.poll() is not None, "the gateway", 30)
        assert self.process.poll() is None, out.read_text()
        out.rename(out.with_suffix(f".{self.process.pid}"))

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=env.patience(30))
        programs.stop(self.process)

    def log(self):
        return (self.folder / f"gateway.{self.process.pid}").read_text()

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
            f"1 limit bans the key; weir shield is told to drop the packets of {address}\n")  # and no note: a shield runs
        machines.wait_dropped(shield)
        assert shield.list()["bans"][0]["origin"] == "operator"
        weir_ban(serve, "release", *words)
        machines.wait_open()


# ---- bans whose rule refuses nothing ----

def ban_client(serve, machines):
    """Lets the rule ban the address of the client."""
    body = {"domain": "api", "descriptors": [{"entries": [{"key": "ip", "value": machines.client.address}]}]}
    answer = fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps([body] * 5).encode())
    assert [a["admitted"] for a in json.loads(answer.body)] == [True, True, False, False, False]


def weir_do(serve, *words):
    done = subprocess.run([env.WEIR, *words, *tokens.flags(serve.admin_port)], capture_output=True, text=True, check=False,
                          timeout=env.patience(60))
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def skipped(shield, *options):
    """Returns {address: reason} of the bans that are skipped because of their rule."""
    listed = json.loads(shield.do("list", "--json", *options))["bans"]
    return {ban["address"]: ban["skipped"] for ban in listed if ban["skipped"]}


@pytest.mark.parametrize("rule", [[], ["api"], ["api/ip/365d"]])
def test_pause_lets_packets_pass(machines, rule):
    """A paused rule refuses nothing, so the shield skips its bans, also those of operators. Bans of weir shield add have no
    rule and stay. The shield needs no --rules for this."""
    address, operator, own = machines.client.address, "198.51.100.9", "203.0.113.9"
    with Serve(rules=RULES.replace("SHIELD", "true"), http=True, admin=True) as serve, \
            Shield(machines.server, table=serve.table) as shield:
        ban_client(serve, machines)
        weir_ban(serve, "add", "--for", "1h", "--shield", "api", f"ip={operator}")
        shield.add(own, "1h")
        machines.wait_dropped(shield)
        weir_do(serve, "pause", "web")
        shield.wait_elements("banned4", address, operator, own)
        weir_do(serve, "pause", *rule)
        machines.wait_open()
        shield.wait_state(elements_v4=1, skipped=2)
        assert set(shield.elements("banned4")) == {own}
        assert "weir shield: skips bans: the rule is paused\n" in shield.log()
        assert skipped(shield) == dict.fromkeys((address, operator), "the rule is paused")
        text = shield.do("list")
        assert "\nskipped   2 bans: protected addresses, or suspended rules\n" in text
        assert f"{address}{' ' * (43 - len(address))} until " in text and "  rule, skipped: the rule is paused\n" in text
        weir_do(serve, "resume", *rule)
        machines.wait_dropped(shield)
        shield.wait_state(elements_v4=3, skipped=0)
        assert "weir shield: does not skip bans any more: the rule is paused\n" in shield.log()


SHADOW, UNSHIELDED, CHANGED, REMOVED = (
    "the rule is in shadow mode", "the rule has no `ban` with `shield: true`", "the rule has another algorithm now",
    "the rules do not contain the rule any more")


@pytest.mark.parametrize("old,new,reason,of_operator", [
    ("  - key: ip\n", "  - key: ip\n    shadow_mode: true\n", SHADOW, SHADOW),
    ("unit: year\n", "unit: year\n      enforce: 0%\n", SHADOW, SHADOW),
    ("shield: true", "shield: false", UNSHIELDED, None),
    ("ban: {after: 3, within: 1h, for: 1h, shield: true}", "algorithm: fixed_window", UNSHIELDED, None),
    ("unit: year", "algorithm: sliding_window_log\n      unit: year", CHANGED, None),
    ("unit: year", "unit: month", REMOVED, None),
    ("domain: api", "domain: web", None, None),
])
def test_changed_rules_let_packets_pass(machines, old, new, reason, of_operator):
    """The shield reads the rules of the service, and skips the bans of rules that do not ban any more. The bans of another
    domain may belong to another service on the table, so they stay."""
    address, operator = machines.client.address, "198.51.100.9"
    rules = RULES.replace("SHIELD", "true")
    assert old in rules
    with Serve(rules=rules, http=True, admin=True) as serve, \
            Shield(machines.server, "--rules", serve.rules, table=serve.table) as shield:
        ban_client(serve, machines)
        weir_ban(serve, "add", "--for", "1h", "--shield", "api", f"ip={operator}")
        machines.wait_dropped(shield)
        serve.rules.write_text(rules.replace(old, new))
        wanted = {address: reason, operator: of_operator}
        if reason:
            machines.wait_open()
        else:
            shield.add("203.0.113.9", "1h")
        shield.wait_elements("banned4", *(a for a, skip in wanted.items() if not skip), *([] if reason else ["203.0.113.9"]))
        assert skipped(shield, "--rules", serve.rules) == {a: skip for a, skip in wanted.items() if skip}
        if reason:
            shield.wait_state(skipped=2 if of_operator else 1)
            assert f"weir shield: skips bans: {reason}\n" in shield.log()
            serve.rules.write_text(rules)
            machines.wait_dropped(shield)
            shield.wait_state(skipped=0, elements_v4=2)


WARNING = "shadow mode refuses nothing, but the table has 1 earlier ban with `shield`"


def test_dry_run_of_the_gateway_warns_of_earlier_bans(machines):
    with Gateway(machines) as gateway:
        assert gateway.ask()[-1] == 429
        assert WARNING not in gateway.log()
        gateway.stop()
        gateway.options.append("--dry-run")
        gateway.start()
        wait_for(lambda: WARNING in gateway.log(), "a warning")
        assert gateway.ask() == [502] * 40


def test_dry_run_warns_of_earlier_bans(machines):
    """A dry run of the service refuses nothing, but the shield does not know of it."""
    with Serve(rules=RULES.replace("SHIELD", "true"), http=True, admin=True) as serve, \
            Shield(machines.server, table=serve.table) as shield:
        ban_client(serve, machines)
        shield.add("203.0.113.9", "1h")  # the service never refused this address
        machines.wait_dropped(shield)
        serve.stop()
        serve.start()
        assert WARNING not in serve.log()
        serve.stop()
        serve.args.append("--shadow")
        serve.start()
        assert WARNING in serve.log()
        assert machines.connect() == "timeout"
        weir_do(serve, "pause")
        machines.wait_open()
        serve.stop()
        serve.start()
        assert serve.log().count(WARNING) == 1
        weir_do(serve, "resume")
        machines.wait_dropped(shield)
        assert weir_ban(serve, "release", "--automatic") == "released 1 ban\n"
        machines.wait_open()


def test_removed_rule_after_a_resize(machines):
    """A resize does not copy the statistics, which had the name of the removed rule. The text of the key has it too."""
    rules = RULES.replace("SHIELD", "true")
    with Serve(rules=rules, http=True, admin=True) as serve, \
            Shield(machines.server, "--rules", serve.rules, table=serve.table) as shield:
        ban_client(serve, machines)
        machines.wait_dropped(shield)
        serve.rules.write_text(rules.replace("unit: year", "unit: month"))
        machines.wait_open()
        subprocess.run([env.WEIR, "table", "resize", "default", "16M", "--dir", serve.table], check=True,
                       env=clock.for_weir(), capture_output=True, timeout=env.patience(60))
        wait_for(lambda: "opened the resized table" in shield.log(), "the resized table")
        shield.add("203.0.113.9", "1h")
        shield.wait_elements("banned4", "203.0.113.9")
        assert machines.connect(seconds=2) == "open"
        assert skipped(shield, "--rules", serve.rules) == {machines.client.address: REMOVED}
