"""weir ban and the routes /v1/bans: bans of rules and of operators are listed, added and released."""

import json
import os
import re
import subprocess

import pytest

from weirtest import JSON, WEIR, fetch, patience, tokens, wait_for
from weirtest.openapi import check_answer
from weirtest.scrape import Metrics
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
  - descriptor: [{key: who, from: header.x-user}, {key: ip, from: remote_address}]
descriptors:
  - key: ip
    rate_limit: {unit: year, requests_per_unit: 2, ban: {after: 3, within: 1h, for: 10m, grow: 2}}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 5, name: per-user}
  - key: who
    descriptors: [{key: ip, rate_limit: {unit: minute, requests_per_unit: 1}}]
  - key: quiet
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1, ban: {after: 1, within: 1m, for: 1h}}
"""
RULE = "api/ip/365d"
NO_SHIELD = "no shield runs on the table: packets are dropped when weir shield starts\n"
NO_ADDRESS = "the key has no address whose packets weir shield can drop: leave out --shield (\"shield\" in JSON)"


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True, admin=True) as running:
        yield running


@pytest.fixture(autouse=True)
def released(serve):
    """Each test begins without bans."""
    yield
    call(serve, "/v1/bans/release", {"all": True})


def call(serve, target, body=None, status=200):
    """Sends a request to the admin API and checks the response against docs/openapi.yaml."""
    raw = None if body is None else json.dumps(body).encode()
    answer = fetch(serve.admin_port, "GET" if body is None else "POST", target, JSON, raw)
    check_answer("GET" if body is None else "POST", target, answer)
    assert answer.status == status, answer.body
    return json.loads(answer.body)


def key(name, value, **more):
    return {"domain": "api", "entries": [{"key": name, "value": value}], **more}


def ask(serve, name, value, times=1):
    body = {"domain": "api", "descriptors": [{"entries": [{"key": name, "value": value}]}]}
    answers = [json.loads(fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode()).body)
               for _ in range(times)]
    return [answer["admitted"] for answer in answers]


def weir(serve, *words, exit_code=0, locale="C.UTF-8"):
    """Runs a command of weir. Returns what it prints."""
    words = [*words, *tokens.flags(serve.admin_port)]
    ran = subprocess.run([WEIR, *words], capture_output=True, text=True, check=False, timeout=patience(60),
                         env={**{k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}, "TZ": "UTC", "LC_ALL": locale})
    assert ran.returncode == exit_code, (ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


def weir_ban(serve, *words, exit_code=0):
    return weir(serve, "ban", *words, exit_code=exit_code)


def ban_by_rule(serve, address):
    """Two requests are admitted, and the third refusal starts the ban."""
    call(serve, "/v1/key/reset", key("ip", address))
    assert ask(serve, "ip", address, times=5) == [True, True, False, False, False]


def test_automatic_ban_is_listed(serve):
    ban_by_rule(serve, "192.0.2.1")
    page = call(serve, "/v1/bans")
    assert (page["matched"], page["next"], page["shield"]) == (1, None, None)
    [ban] = page["bans"]
    assert ban["until"] - ban["since"] in (600, 601)
    assert {name: ban[name] for name in ban if name not in ("since", "until")} == {
        "key": "api|ip=192.0.2.1", "address": "192.0.2.1", "rule": RULE, "automatic": True, "level": 1, "shield": False,
        "shadow": False, "only_shield": False}
    serve.wait_logged(f"rule {RULE} banned api ip=192.0.2.1 until ")


def test_operators_ban_is_listed(serve):
    call(serve, "/v1/bans", key("user", "7", **{"for": "ever"}))
    [ban] = call(serve, "/v1/bans")["bans"]
    assert (ban["key"], ban["address"], ban["until"], ban["automatic"], ban["level"]) == (
        "api|user=7", None, "ever", False, 0)
    assert ask(serve, "user", "7") == [False]


def test_shield_needs_an_address(serve):
    added = call(serve, "/v1/bans", key("ip", "2001:db8::1", shield=True, **{"for": "1h"}))
    assert added["shield_address"] == "2001:db8::1"
    for value in ("hello", "0.0.0.0/0", "fe80::1%eth0"):
        problem = call(serve, "/v1/bans", key("ip", value, shield=True, **{"for": "1h"}), status=400)
        assert problem["detail"] == NO_ADDRESS
        assert NO_ADDRESS in weir_ban(serve, "add", "--for", "1h", "--shield", "api", f"ip={value}", exit_code=2)
    [ban] = call(serve, "/v1/bans")["bans"]
    assert (ban["key"], ban["shield"], ban["address"]) == ("api|ip=2001:db8::1", True, "2001:db8::1")
    assert call(serve, "/v1/bans", key("ip", "hello", **{"for": "1h"}))["shield_address"] is None


def test_shield_gets_the_address_of_the_connection(serve):
    """A client can choose its X-User, so only the other value can be the address."""
    words = ["add", "--for", "1h", "--shield", "api", "who=203.0.113.9", "ip=192.0.2.7"]
    assert weir_ban(serve, *words) == (
        f"1 limit bans the key; weir shield is told to drop the packets of 192.0.2.7\n{NO_SHIELD}")
    assert json.loads(weir_ban(serve, *words, "--json"))["shield_address"] == "192.0.2.7"
    [ban] = call(serve, "/v1/bans")["bans"]
    assert (ban["shield"], ban["address"]) == (True, "192.0.2.7")


def test_ipv4_address_in_ipv6(serve):
    """nginx writes an IPv4 client this way if its socket is for IPv4 and IPv6."""
    ban_by_rule(serve, "::ffff:10.1.2.3")
    assert weir_ban(serve, "add", "--for", "1h", "--shield", "api", "ip=::ffff:10.0.0.9") == (
        f"1 limit bans the key; weir shield is told to drop the packets of 10.0.0.9\n{NO_SHIELD}")
    listed = {b["key"]: b for b in call(serve, "/v1/bans")["bans"]}
    assert listed["api|ip=::ffff:10.1.2.3"]["address"] == "10.1.2.3"
    assert (listed["api|ip=::ffff:10.0.0.9"]["address"], listed["api|ip=::ffff:10.0.0.9"]["shield"]) == ("10.0.0.9", True)
    assert weir_ban(serve, "release", "--address", "10.0.0.0/8") == "released 2 bans\n"


def test_value_that_is_no_whole_address(serve):
    """The rule has whole addresses, so a client that chooses a prefix bans only its own value."""
    ban_by_rule(serve, "10.77.0.5/8")
    assert [(b["key"], b["address"]) for b in call(serve, "/v1/bans")["bans"]] == [("api|ip=10.77.0.5/8", None)]


def test_shadow_ban_refuses_nothing(serve):
    assert ask(serve, "quiet", "1", times=3) == [True, True, True]
    [ban] = call(serve, "/v1/bans?kind=shadow")["bans"]
    assert ban["shadow"] and ban["automatic"] and ban["level"] == 1 and ban["key"] == "api|quiet=1"
    assert call(serve, "/v1/bans?kind=automatic")["bans"] == []
    [counter] = call(serve, "/v1/key/get", key("quiet", "1"))["counters"]
    assert (counter["banned_until"], counter["shadow_ban_until"]) == (None, ban["until"])
    shown = weir(serve, "key", "get", "api", "quiet=1")
    assert re.search(r", would be banned until 20[-\d]+ [:\d]+ in shadow mode, shadow: counted, not enforced\n", shown), shown


@pytest.mark.parametrize("selection", [key("quiet", "2"), {"kind": "shadow"}, {"all": True}])
def test_shadow_ban_is_released(serve, selection):
    ask(serve, "quiet", "2", times=2)
    assert call(serve, "/v1/bans/release", selection)["released"] == 1
    assert call(serve, "/v1/bans")["bans"] == []
    [counter] = call(serve, "/v1/key/get", key("quiet", "2"))["counters"]
    assert (counter["shadow_ban_until"], counter["ban_level"]) == (None, 0)
    assert call(serve, "/v1/bans/release", key("quiet", "2"))["released"] == 0


def test_shadow_ban_and_operators_ban_of_one_key(serve):
    ask(serve, "quiet", "3", times=2)
    call(serve, "/v1/bans", key("quiet", "3", **{"for": "2h"}))
    assert sorted((ban["key"], ban["shadow"]) for ban in call(serve, "/v1/bans")["bans"]) == [
        ("api|quiet=3", False), ("api|quiet=3", True)]
    assert call(serve, "/v1/bans/release", {"kind": "shadow"})["released"] == 1
    [ban] = call(serve, "/v1/bans")["bans"]
    assert (ban["key"], ban["shadow"]) == ("api|quiet=3", False)


def test_service_in_shadow_mode_bans_nobody():
    with Serve(rules=RULES, http=True, admin=True, args=["--shadow"]) as trial:
        assert ask(trial, "ip", "192.0.2.7", times=8) == [True] * 8
        [ban] = call(trial, "/v1/bans")["bans"]
        assert ban["shadow"] and ban["address"] == "192.0.2.7"
        metrics = Metrics(trial.admin_port)
        limit = {"domain": "api", "rule": RULE, "algorithm": "fixed_window"}
        assert metrics.value("weir_bans_started_total", **limit) == 0
        assert metrics.value("weir_bans_shadow_started_total", **limit) == 1


def test_pages(serve):
    """120 bans are on three pages of 50, 50 and 20, and no ban is on two pages."""
    for i in range(120):
        call(serve, "/v1/bans", key("ip", f"203.0.113.{i}", **{"for": "1h"}))
    seen, after, sizes = [], "", []
    while after is not None:
        page = call(serve, f"/v1/bans?count=50{after and '&after=' + after}")
        assert page["matched"] == 120
        seen += [ban["address"] for ban in page["bans"]]
        sizes.append(len(page["bans"]))
        after = page["next"]
    assert sizes == [50, 50, 20]
    assert sorted(seen) == sorted(f"203.0.113.{i}" for i in range(120))


def test_filters(serve):
    ban_by_rule(serve, "192.0.2.1")
    ban_by_rule(serve, "2001:db8::7")
    call(serve, "/v1/bans", key("user", "7", **{"for": "1h"}))

    def keys(query):
        return sorted(ban["key"] for ban in call(serve, f"/v1/bans?{query}")["bans"])

    assert keys("kind=operator") == ["api|user=7"]
    assert keys(f"rule={RULE}") == ["api|ip=192.0.2.1", "api|ip=2001:db8::7"]
    assert keys("address=192.0.2.0/24") == ["api|ip=192.0.2.1"]
    assert keys("address=2001:db8::/32") == ["api|ip=2001:db8::7"]
    assert keys("address=192.0.3.0/24") == []


@pytest.mark.parametrize("query", ["kind=bad", "address=nowhere", "count=0", "count=1001", "after=x", "after=1-", "rule="])
def test_bad_queries(serve, query):
    call(serve, f"/v1/bans?{query}", status=400)


def test_release_of_a_key(serve):
    ban_by_rule(serve, "192.0.2.1")
    assert call(serve, "/v1/bans/release", key("ip", "192.0.2.1")) == {"released": 1}
    assert call(serve, "/v1/bans")["bans"] == []
    counter = call(serve, "/v1/key/get", key("ip", "192.0.2.1"))["counters"][0]
    assert (counter["banned_until"], counter["ban_level"], counter["ban_refusals"], counter["ban_after"]) == (
        None, 0, 0, 3)
    assert call(serve, "/v1/bans/release", key("ip", "192.0.2.1")) == {"released": 0}
    problem = call(serve, "/v1/bans/release", key("nosuch", "1"), status=404)
    assert problem["detail"] == (
        "no limit applies to this descriptor; if its rule was removed, release by the rule's name in statistics, or by "
        "the address (--rule or --address)")


def test_release_after_the_rule_was_removed():
    """The key of the counter is not known then, but the list of bans has the rule's name and the address."""
    with Serve(rules=RULES, http=True, admin=True) as changed:
        for address in ("192.0.2.1", "192.0.2.2"):
            ban_by_rule(changed, address)
        changed.rules.write_text("domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 5}}]\n")
        call(changed, "/v1/reload", {}, status=202)
        wait_for(lambda: call(changed, "/v1/rules")["generation"] == 2, "the new rules")
        assert "release by the rule's name in statistics, or by the address" in weir_ban(
            changed, "release", "api", "ip=192.0.2.1", exit_code=1)
        assert weir_ban(changed, "release", "--address", "192.0.2.1") == "released 1 ban\n"
        assert weir_ban(changed, "release", "--rule", RULE) == "released 1 ban\n"


def test_release_by_address_clears_the_refusals(serve):
    """After a release two refusals start no ban, and the third starts one of level 1."""
    ban_by_rule(serve, "192.0.2.9")
    call(serve, "/v1/bans", key("user", "7", **{"for": "1h"}))
    assert call(serve, "/v1/bans/release", {"address": "192.0.2.0/24"}) == {"released": 1, "unlisted": 0}
    assert [ban["key"] for ban in call(serve, "/v1/bans")["bans"]] == ["api|user=7"]
    ask(serve, "ip", "192.0.2.9", times=2)
    counter = call(serve, "/v1/key/get", key("ip", "192.0.2.9"))["counters"][0]
    assert (counter["banned_until"], counter["ban_refusals"]) == (None, 2)
    ask(serve, "ip", "192.0.2.9")
    counter = call(serve, "/v1/key/get", key("ip", "192.0.2.9"))["counters"][0]
    assert (counter["ban_automatic"], counter["ban_level"]) == (True, 1)


def test_rule_with_a_long_name():
    """Statistics cut the name of the rule. Bans have the same name."""
    step = "k" * 130
    rules = f"""
domain: api
descriptors:
  - key: ip
    descriptors: [{{key: {step}, rate_limit: {{unit: year, requests_per_unit: 1, ban: {{after: 1, within: 1h, for: 1h}}}}}}]
"""
    with Serve(rules=rules, http=True, admin=True) as serve:
        entries = [{"key": "ip", "value": "192.0.2.1"}, {"key": step, "value": "a"}]
        body = {"domain": "api", "descriptors": [{"entries": entries}]}
        for _ in range(2):
            fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode())
        [ban] = call(serve, "/v1/bans")["bans"]
        [override] = call(serve, "/v1/overrides")["overrides"]
        assert re.fullmatch(r"api/ip/k{103}~[0-9a-f]{8}", ban["rule"])
        assert override["rule"] == ban["rule"]
        assert weir_ban(serve, "release", "--rule", ban["rule"]) == "released 1 ban\n"


def test_release_by_rule_and_kind(serve):
    for i in range(3):
        call(serve, "/v1/bans", key("ip", f"203.0.113.{i}", **{"for": "1h"}))
    ban_by_rule(serve, "203.0.113.9")
    assert call(serve, "/v1/bans/release", {"rule": RULE, "kind": "automatic"}) == {"released": 1, "unlisted": 0}
    assert call(serve, "/v1/bans/release", {"rule": "api/user/365d"}) == {"released": 0, "unlisted": 0}
    assert call(serve, "/v1/bans/release", {"kind": "operator"}) == {"released": 3, "unlisted": 0}


def test_releases_are_logged(serve):
    call(serve, "/v1/bans/release", {"rule": RULE, "kind": "automatic"})
    call(serve, "/v1/bans/release", {"all": True})
    changes = [change["what"] for change in call(serve, "/v1/changes")["changes"]]
    assert changes[:2] == ["release all bans", f"release bans: rule={RULE} kind=automatic"]
    serve.wait_logged(": release all bans\n")


@pytest.mark.parametrize("how", ["hidden", "hashed"])
def test_hidden_keys(how):
    """Without the keys of automatic bans, their addresses are not shown either, except those in the shield."""
    rules = RULES.replace("grow: 2}}", "grow: 2}}\n  - key: remote_address\n    rate_limit: {unit: year, requests_per_unit: "
                          "0, ban: {after: 1, for: 10m, shield: true}}")
    with Serve(rules=rules, http=True, admin=True, args=["--keys", how]) as hiding:
        ban_by_rule(hiding, "203.0.113.10")
        ask(hiding, "remote_address", "203.0.113.11")
        call(hiding, "/v1/bans", key("ip", "203.0.113.12", **{"for": "1h"}))
        bans = call(hiding, "/v1/bans")["bans"]
        assert sorted((b["automatic"], b["shield"], b["key"], b["address"]) for b in bans) == [
            (False, False, "api|ip=203.0.113.12", "203.0.113.12"), (True, False, None, None),
            (True, True, None, "203.0.113.11")]
        assert "203.0.113.10" not in weir_ban(hiding, "list")
        overrides = call(hiding, "/v1/overrides")["overrides"]
        assert sorted(o["key"] or "" for o in overrides) == ["", "", "api|ip=203.0.113.12"]
        assert weir_ban(hiding, "release", "--address", "203.0.113.10") == "released 1 ban\n"
        assert ask(hiding, "ip", "203.0.113.10", times=2) == [False, False]  # the rule refuses it, not a ban
        assert call(hiding, "/v1/bans")["matched"] == 2


# ---- hostile requests and keys ----

@pytest.mark.parametrize("target, body", [
    ("/v1/bans", None), ("/v1/bans", key("user", "7", **{"for": "1h"})), ("/v1/bans/release", {"all": True})])
def test_bans_need_a_token_and_refuse_other_origins(serve, target, body):
    call(serve, "/v1/bans", key("user", "kept", **{"for": "1h"}))
    raw = json.dumps(body).encode() if body else None
    method = "POST" if body else "GET"
    assert fetch(serve.admin_port, method, target, JSON, raw, anonymous=True).status == 401
    if body:
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert fetch(serve.admin_port, "POST", target, {**JSON, **headers}, raw).status == 403
    assert [ban["key"] for ban in call(serve, "/v1/bans")["bans"]] == ["api|user=kept"]


@pytest.mark.parametrize("body", [
    {}, [], {"all": False}, {"all": True, "rule": RULE}, {"address": "192.0.2.1", "domain": "api"}, {"kind": "bare"},
    {"rule": "x" * 5000}, {"limit": "x", "all": True}, {"domain": "api", "entries": []}, {"everything": True}])
def test_bad_releases(serve, body):
    call(serve, "/v1/bans", key("user", "kept", **{"for": "1h"}))
    call(serve, "/v1/bans/release", body, status=400)
    assert call(serve, "/v1/bans")["matched"] == 1


def test_hostile_keys_are_text(serve):
    """A key cannot begin a line of the log, nor control a terminal."""
    hostile = ["\x1b[2J\x1b]0;owned\x07", "a\r\nweir serve: ready", "\x9b31m", "\u202edrow", "\x7f\x08", "日本"]
    ready = serve.log().count("\nweir serve: ready")
    for value in hostile:
        call(serve, "/v1/bans", key("user", value, **{"for": "1h"}))
        ban_by_rule(serve, value)
    for locale in ("C.UTF-8", "C"):
        shown = weir(serve, "ban", "list", locale=locale)
        assert len(shown.splitlines()) == 1 + 2 * len(hostile)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown), repr(shown)
    assert "api|user=\\x1b[2J\\x1b]0;owned\\x07" in shown
    serve.wait_logged("banned api ip=日本 until ")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", serve.log())
    assert serve.log().count("\nweir serve: ready") == ready


# ---- the command ----

def test_command(serve):
    assert weir_ban(serve, "list") == "no bans\n"
    ban_by_rule(serve, "192.0.2.1")
    assert weir_ban(serve, "add", "--for", "1h", "api", "user=7") == "1 limit bans the key\n"
    lines = weir_ban(serve, "list").splitlines()
    assert lines[0].split() == ["KEY", "RULE", "SINCE", "UNTIL", "LEVEL", "KIND"]
    rows = {line.split()[0]: line.split() for line in lines[1:]}
    assert rows["api|ip=192.0.2.1"][1] == RULE and rows["api|ip=192.0.2.1"][-2:] == ["1", "automatic"]
    assert rows["api|user=7"][-2:] == ["-", "operator"]
    assert len(lines) == 3
    listed = json.loads(weir_ban(serve, "list", "--automatic", "--json"))
    assert [ban["key"] for ban in listed["bans"]] == ["api|ip=192.0.2.1"]
    assert weir_ban(serve, "list", "--count", "1").splitlines()[-1] == "1 of 2 bans; --count 2 lists all"
    assert weir_ban(serve, "release", "api", "ip=192.0.2.1") == "released 1 ban\n"
    assert weir_ban(serve, "release", "--all") == "released 1 ban\n"
    assert weir_ban(serve, "release", "--all", exit_code=1) == "there is no such ban on this machine\n"


def test_many_bans_are_listed_over_several_requests(serve):
    for i in range(1010):
        call(serve, "/v1/bans", key("user", f"m{i}", **{"for": "1h"}))
    listed = json.loads(weir_ban(serve, "list", "--count", "2000", "--json"))
    assert (len(listed["bans"]), listed["next"]) == (1010, None)
    assert weir_ban(serve, "release", "--operator") == "released 1010 bans\n"


def test_more_bans_than_the_list_has_room_for():
    """A table of 1 MiB lists 1,020 bans. A release of all bans ends the others too."""
    with Serve(rules=RULES, http=True, admin=True, memory="1M") as small:
        for i in range(1200):
            assert call(small, "/v1/bans", key("user", f"m{i}", **{"for": "1h"}))
        listed = call(small, "/v1/bans")
        assert listed["matched"] <= 1020 and listed["matched"] + listed["unlisted"] == 1200
        note = "bans are in force, but not in the list, which is full: weir ban release --all ends them"
        assert weir_ban(small, "list", "--count", "1").splitlines()[-1] == f"{listed['unlisted']} {note}"
        assert call(small, "/v1/bans/release", {"address": "0.0.0.0/0"})["unlisted"] == listed["unlisted"]
        assert weir_ban(small, "release", "--all") == "released 1200 bans\n"
        assert call(small, "/v1/bans")["unlisted"] == 0
        assert all(ask(small, "user", f"m{i}") == [True] for i in range(1200))


@pytest.mark.parametrize("words, message", [
    (["drop"], "'drop' is not one of: list, add, release"),
    (["add", "api", "user=7"], "add needs --for TIME, DOMAIN and KEY=VALUE"),
    (["add", "--for", "1h", "api", "user"], "'user' is not KEY=VALUE"),
    (["release"], "release needs either DOMAIN KEY=VALUE, or --address"),
    (["release", "--all", "api", "user=7"], "release needs either"),
    (["release", "--address", "x"], "'x' is neither an address nor a prefix"),
    (["list", "--all"], "--all is for release"),
    (["list", "--automatic", "--shadow"], "exclude each other"),
    (["list", "--for", "1h"], "--for and --shield are for add"),
])
def test_usage_errors(serve, words, message):
    assert message in weir_ban(serve, *words, exit_code=2)


def test_key_get_shows_refusals_and_the_ban(serve):
    def shown():
        return weir(serve, "key", "get", "api", "ip=192.0.2.77")

    ask(serve, "ip", "192.0.2.77", times=4)
    assert ", 2 of 3 refusals that start a ban" in shown()
    ask(serve, "ip", "192.0.2.77")
    assert " by its rule (ban 1 within a day)" in shown() and "refusals" not in shown()


def test_bans_survive_a_restart(serve):
    ban_by_rule(serve, "198.51.100.1")
    before = call(serve, "/v1/bans")["bans"]
    serve.stop()
    serve.start()
    assert call(serve, "/v1/bans")["bans"] == before
    assert ask(serve, "ip", "198.51.100.1") == [False]


UNTIL = r"until 20[-\d]+ [:\d]+"


def test_key_get_shows_refusals_and_both_bans():
    """A dry run has its own refusals and bans. `weir key get` shows them beside the ban that is in force."""
    def shown(address):
        return weir(running, "key", "get", "api", f"ip={address}")

    with Serve(rules=RULES, http=True, admin=True) as running:
        ask(running, "ip", "192.0.2.4", times=4)
        assert ", 2 of 3 refusals that start a ban\n" in shown("192.0.2.4")
        running.stop()
        running.args.append("--shadow")
        running.start()
        assert ", 0 of 3 refusals that start a ban\n" in shown("192.0.2.4")
        ask(running, "ip", "192.0.2.4")
        assert ", 1 of 3 refusals that start a ban\n" in shown("192.0.2.4")
        ask(running, "ip", "192.0.2.4", times=2)
        would = rf", would be banned {UNTIL} in shadow mode"
        assert re.search(rf"{would}, 0 of 3 refusals that start a ban\n", shown("192.0.2.4")), shown("192.0.2.4")
        running.stop()
        running.args.remove("--shadow")
        running.start()
        assert re.search(rf"{would}, 2 of 3 refusals that start a ban\n", shown("192.0.2.4")), shown("192.0.2.4")
        assert ask(running, "ip", "192.0.2.4") == [False]
        assert re.search(rf", banned {UNTIL} by its rule \(ban 1 within a day\){would}\n", shown("192.0.2.4")), \
            shown("192.0.2.4")
