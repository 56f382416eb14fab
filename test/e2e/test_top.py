"""weir top, weir candidates and weir advise: their output in a terminal and in a pipe. Text of clients cannot
control the terminal."""

import json
import os
import re
import subprocess

import pytest
import redis
import yaml

from weirtest import ROOT, WEIR, WRAP, Clock, wait_for
from weirtest import clock as clocks
from weirtest.serve import Serve
from weirtest.terminal import Terminal

LIMIT = 10
RULES = f"""
domain: api
descriptors:
  - key: user
    rate_limit:
      unit: year
      requests_per_unit: {LIMIT}
      candidates: [{{unit: year, requests_per_unit: {LIMIT}, algorithm: token_bucket, burst: 400}}]
  - key: route
    value: signup
    descriptors:
      - key: ip
        rate_limit: {{unit: year, requests_per_unit: 1000, algorithm: token_bucket, burst: 50}}
  - key: idle
    rate_limit: {{unit: hour, requests_per_unit: 7}}
"""
HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "\x1b[31mred", "a\r\nb\tc\x00d", "\x9b31m", "‮drow", "é" + "x" * 10_000,
           "<script>alert(1)</script>", "日本", "\\x1b", "\x7f\x08\x08\x08"]


@pytest.fixture(scope="module", autouse=True)
def clock():
    """A clock that stands still: statistics advance only when a test moves it."""
    with Clock() as stands:
        yield stands


def with_clock(variables):
    """Returns the environment of a command: the test's clock, UTF-8, and these variables."""
    return {**clocks.current.variables({**os.environ, "LC_ALL": "C.UTF-8"}, sanitized=WRAP == "asan"), **variables}


def weir(*args, env=None, code=0):
    """Runs a command of weir that must exit with `code`. Returns its output."""
    done = subprocess.run([WEIR, *map(str, args)], capture_output=True, timeout=60, check=False,
                          env=with_clock(env or {}))
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout.decode()


def ask(serve, *pairs, times=1):
    with redis.Redis(port=serve.resp_port) as client:
        pipe = client.pipeline(transaction=False)
        for _ in range(times):
            pipe.execute_command("WEIR.CHECK", "api", *[x for pair in pairs for x in pair])
        return pipe.execute()


def begin(serve, clock, *questions):
    """Asks each question once, then advances a second: history and keys of a rule start a second after its first
    decision."""
    serve.pass_seconds(clock)
    for question in questions:
        ask(serve, *question)
    serve.pass_seconds(clock)


@pytest.fixture(scope="module")
def busy(clock):
    """A service with history: user 7 has 40 requests and 30 refusals, each hostile key 12 requests and 2 refusals;
    there are fewer sign-ups. `.shown` and `.whole` are the output of weir top then, as text and as JSON."""
    with Serve(rules=RULES, resp=True, admin=True) as serve:
        begin(serve, clock, [("user", "first")], [("route", "signup"), ("ip", "192.0.2.9")])
        ask(serve, ("user", "7"), times=40)
        for value in HOSTILE:
            ask(serve, ("user", value.encode("utf-8", "surrogateescape")), times=12)
        ask(serve, ("route", "signup"), ("ip", "192.0.2.1"), times=59)
        ask(serve, ("nobody", "limits this"), times=2)
        serve.pass_seconds(clock)
        serve.shown = weir("top", "--dir", serve.table)
        serve.whole = json.loads(weir("top", "--json", "--dir", serve.table))
        yield serve


def reported(serve, rule):
    """Returns a rule of `weir top --json`."""
    return rule_of(json.loads(weir("top", "--json", "--dir", serve.table)), rule)


def rule_of(whole, rule):
    return next(r for r in whole["rules"] if r["rule"] == rule)


def keys_of(serve, rule, which="hottest"):
    """Returns a list of keys of a rule from `weir top --json`."""
    return reported(serve, rule)[which]


def assert_harmless(text):
    """Checks that the text has no character that a terminal could interpret."""
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text), repr(text)


# ---- in a pipe ----

def test_snapshot(busy):
    """In a pipe, `weir top` prints rules, totals and keys once."""
    text = busy.shown
    assert_harmless(text)
    lines = text.splitlines()
    assert lines[0].startswith("weir top   default  ") and "3 rules, 1 process: serve 1" in lines[0]
    assert "no rule    2 requests matched no rule" in lines
    user = next(line for line in lines if line.startswith("api/user/365d "))
    assert "10 per 365d" in user
    total = 1 + 40 + 12 * len(HOSTILE)
    refused = 30 + 2 * len(HOSTILE)
    assert re.search(rf" {refused * 100 // total}% +{total} ", user)
    signup = next(line for line in lines if line.startswith("api/route=signup/ip/365d"))
    assert "1,000 per 365d, burst 50" in signup and re.search(r" 15% +60 ", signup)
    assert re.search(r"^ +40  7 .* 30  7$", text, re.M)  # hottest, and most refused


def test_json_is_exact(busy):
    whole = busy.whole
    rule = rule_of(whole, "api/user/365d")
    assert (rule["admitted"], rule["refused"]) == (11 + 10 * len(HOSTILE), 30 + 2 * len(HOSTILE))
    assert (rule["algorithm"], rule["limit"], rule["period"]) == ("fixed_window", LIMIT, 31536000)
    assert rule["hottest"][0]["values"] == ["7"] and rule["hottest"][0]["count"] == 40
    assert rule["most_refused"][0]["values"] == ["7"] and rule["most_refused"][0]["count"] == 30
    assert whole["hosts"][0]["name"] == "serve" and whole["hosts"][0]["pid"] == busy.pid
    assert whole["rule_count"] == 3 and whole["without_rule"] == {
        "domain_not_found": 0, "allowed": 0, "missing": 0, "unreadable": 0, "no_rule": 2}
    assert len(json.loads(weir("top", "--json", "--rules", "1", "--dir", busy.table))["rules"]) == 1


def test_hostile_keys_are_text(busy):
    shown = weir("top", "--dir", busy.table)
    assert_harmless(shown)
    values = [k["values"][0] for k in keys_of(busy, "api/user/365d") if k["values"]]
    assert "\x1b[2J\x1b]0;owned\x07" in values  # JSON has it as it is, escaped
    assert_harmless(weir("top", "--json", "--dir", busy.table))
    assert_harmless(weir("advise", "--dir", busy.table))
    assert_harmless(weir("tune", "--from-table", "--dir", busy.table))
    plain = weir("top", "--dir", busy.table, env={"LC_ALL": "C"})
    assert_harmless(plain)
    assert plain.isascii() and max(map(len, plain.splitlines())) <= 160


def test_sorts(busy):
    """--sort orders the rules, and --rules limits their number."""
    def order(*args):
        text = weir("top", "--dir", busy.table, *args)
        return re.findall(r"^(api/\S+) +\d", text, re.M)

    assert order("--sort", "name") == ["api/idle/1h", "api/route=signup/ip/365d", "api/user/365d"]
    assert order("--sort", "refused")[0] == "api/user/365d"
    assert order("--sort", "requests", "--rules", "1") == ["api/user/365d"]


def test_hashed_and_hidden_keys(clock):
    for how in ("hashed", "hidden"):
        with Serve(rules=RULES, resp=True, admin=True, args=["--keys", how]) as serve:
            begin(serve, clock, [("user", "first")])
            ask(serve, ("user", "secret"), times=20)
            text = weir("top", "--json", "--dir", serve.table)
            assert "secret" not in text
            assert "secret" not in weir("top", "--dir", serve.table)
            keys = keys_of(serve, "api/user/365d")
            if how == "hidden":
                assert keys == []
            else:
                assert keys[0]["values"] is None and len(keys[0]["hash"]) == 16
                assert f"#{keys[0]['hash']}" in weir("top", "--dir", serve.table)


def test_usage_errors(tmp_path):
    weir("top", "--dir", tmp_path, code=1)
    weir("candidates", "--dir", tmp_path, code=1)
    weir("advise", "--dir", tmp_path, code=1)
    for args in (["top", "--sort", "colour"], ["top", "--rules", "0"], ["top", "--interval", "1ms"],
                 ["top", "x"], ["top", "--nonsense"], ["advise", "--nonsense"], ["candidates", "--nonsense"]):
        weir(*args, code=2)
    for command in ("top", "candidates", "advise"):
        assert weir(command, "--help").startswith(f"weir {command}")


def test_table_by_variable(busy, tmp_path):
    """WEIR_TABLE and WEIR_TABLE_DIR name the table; the command line overrides them."""
    here = {"WEIR_TABLE_DIR": str(busy.table), "WEIR_TABLE": "default"}
    others = {"WEIR_RULES": "/nowhere", "WEIR_JSON": "on"}  # settings that are no variables of weir top
    assert weir("top", env={**here, **others}).startswith("weir top   default ")
    weir("top", env={**here, "WEIR_TABLE": "other"}, code=1)
    weir("top", "--table", "default", env={**here, "WEIR_TABLE": "other"})
    weir("top", "--dir", tmp_path, env=here, code=1)
    weir("top", env={**here, "WEIR_SORT": "size"}, code=2)


def test_without_any_service(busy, tmp_path):
    """The table has the data after all processes that wrote it have ended."""
    with Serve(rules=RULES, resp=True) as serve:
        ask(serve, ("user", "7"), times=15)
        serve.stop()
        rule = reported(serve, "api/user/365d")
        assert (rule["admitted"], rule["refused"]) == (10, 5)
        assert json.loads(weir("top", "--json", "--dir", serve.table))["hosts"] == []
        assert "no difference" not in weir("candidates", "--dir", serve.table)


# ---- bans ----

BAN_RULES = """
domain: api
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 1, ban: {after: 2, within: 1h, for: 1h}}
  - key: quiet
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1, ban: {after: 3, within: 1h, for: 1h}}
  - key: tried
    rate_limit:
      unit: year
      requests_per_unit: 100
      candidates:
        - {unit: year, requests_per_unit: 1, ban: {after: 3, within: 1h, for: 1h}}
        - {unit: year, requests_per_unit: 2, algorithm: token_bucket}
  - key: plain
    rate_limit: {unit: year, requests_per_unit: 1}
"""


@pytest.fixture(scope="module")
def banning(clock):
    """A service with 1 ban that refused 3 requests, 2 bans in shadow mode that would have refused 8, and 1 ban of a
    candidate that would have refused 6."""
    with Serve(rules=BAN_RULES, resp=True, admin=True) as serve:
        begin(serve, clock, [("plain", "1")])
        ask(serve, ("user", "7"), times=6)
        ask(serve, ("quiet", "1"), times=8)
        ask(serve, ("quiet", "2"), times=8)
        ask(serve, ("tried", "1"), times=10)
        ask(serve, ("plain", "1"), times=5)
        serve.pass_seconds(clock)
        yield serve


def test_top_shows_bans(banning):
    none = {"started": 0, "refused": 0, "would_start": 0, "would_refuse": 0}
    assert reported(banning, "api/user/365d")["bans"] == {**none, "started": 1, "refused": 3}
    assert reported(banning, "api/quiet/365d")["bans"] == {**none, "would_start": 2, "would_refuse": 8}
    assert reported(banning, "api/plain/365d")["bans"] is None
    text = weir("top", "--dir", banning.table)
    assert_harmless(text)
    parts = {part.splitlines()[0]: part.splitlines()[1:] for part in text.split("\n\n")}
    assert parts["api/user/365d"][0] == "  bans: 1 started, 3 requests refused"
    assert parts["api/quiet/365d"][0] == "  bans: 2 started, 8 requests refused, if the rule were enforced"
    assert not any("bans:" in line for line in parts["api/plain/365d"])


def test_candidates_show_bans(banning):
    [rule] = json.loads(weir("candidates", "--json", "--dir", banning.table))
    counts = [(c["limit"], c["would_ban"], c["would_refuse_by_bans"]) for c in rule["candidates"]]
    assert sorted(counts) == [(1, 1, 6), (2, 0, 0)]
    lines = weir("candidates", "--dir", banning.table).splitlines()
    [line] = [line for line in lines if "would start" in line]
    assert line.startswith("  with fixed_window, 1 per 365d: ")
    assert line.endswith("; of 10 requests; would start 1 ban, which refuses 6 requests")


# ---- candidates and advice ----

def test_candidates(busy):
    refused = 30 + 2 * len(HOSTILE)
    text = weir("candidates", "--dir", busy.table)
    assert f"  with token_bucket, burst 400: {refused} fewer refusals, none more" in text
    told_json = json.loads(weir("candidates", "--json", "--dir", busy.table))
    assert [r["rule"] for r in told_json] == ["api/user/365d"]
    candidate = told_json[0]["candidates"][0]
    assert (candidate["fewer_refusals"], candidate["more_refusals"]) == (refused, 0)
    assert candidate["would_admit"] == told_json[0]["admitted"] + refused
    weir("candidates", "api/route", "--dir", busy.table, code=1)
    assert json.loads(weir("candidates", "--json", "api/route", "--dir", busy.table, code=1)) == []


def check_rules(tmp_path, change):
    """Asserts that weir accepts a proposed limit."""
    path = tmp_path / "proposed.yaml"
    document = {"domain": "api", "descriptors": [{"key": "user", **yaml.safe_load(change)}]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    weir("check", path)


def test_advice(tmp_path, clock):
    """No rule has a thousand decisions in a second: above that, only a sample is recorded."""
    rules = """
        domain: api
        descriptors:
          - {key: tight, rate_limit: {unit: year, requests_per_unit: 50}}
          - {key: one, rate_limit: {unit: year, requests_per_unit: 50}}
          - key: tried
            rate_limit:
              unit: year
              requests_per_unit: 10
              candidates: [{unit: year, requests_per_unit: 10, algorithm: token_bucket, burst: 150}]
          - {key: fine, rate_limit: {unit: year, requests_per_unit: 100}}
        """
    with Serve(rules=rules, resp=True, admin=True) as serve:
        begin(serve, clock, *([(key, "first")] for key in ("tight", "one", "tried", "fine")))
        for i in range(12):
            ask(serve, ("tight", f"client-{i}"), times=60)
        ask(serve, ("one", "loud"), times=400)
        ask(serve, ("tried", "x"), times=130)
        ask(serve, ("fine", "x"), times=50)
        advice = json.loads(weir("advise", "--json", "--dir", serve.table))
        text = weir("advise", "api/one", "--dir", serve.table)
    by_rule = {(a["rule"], a["kind"]): a for a in advice}
    tight = by_rule["api/tight/365d", "too_tight"]
    assert tight["numbers"]["clients_just_above"] == 12
    assert tight["change"] == "rate_limit: {unit: year, requests_per_unit: 60}"
    one = by_rule["api/one/365d", "one_client"]
    assert one["client"]["values"] == ["loud"] and one["numbers"]["client_refusals"] == 350
    tried = by_rule["api/tried/365d", "candidate_better"]
    assert tried["text"] == "with token_bucket, burst 150: 120 fewer refusals, none more"
    assert not any(rule == "api/fine/365d" for rule, _ in by_rule)
    for piece in advice:
        if "change" in piece:
            check_rules(tmp_path, piece["change"])
    assert "one_client: one client has 350 of the last 350 refusals, 100 %" in text
    assert "    the client: loud" in text and "tight" not in text


def test_no_client_in_advice_for_a_shared_limit(clock):
    rules = """
        domain: api
        descriptors:
          - {key: all, value: of, rate_limit: {unit: year, requests_per_unit: 10}}
        """
    with Serve(rules=rules, resp=True, admin=True) as serve:
        begin(serve, clock, [("all", "of")])
        ask(serve, ("all", "of"), times=400)
        assert reported(serve, "api/all=of/365d")["most_refused"][0]["count"] == 391
        assert json.loads(weir("advise", "--json", "--dir", serve.table)) == []


def test_failed_output_is_an_error(busy):
    """An unknown name, and a full disk behind standard output, lead to exit code 1."""
    weir("advise", "api/nobody", "--dir", busy.table, code=1)
    assert "of that name" in weir("candidates", "api/idle", "--dir", busy.table, code=1)
    for command in ("top", "candidates", "advise"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([WEIR, command, "--json", "--dir", busy.table], stdout=full, check=False,
                                  stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1 and b"No space left" in done.stderr


# ---- in a terminal ----

@pytest.mark.seconds(120)
def test_live(busy):
    """The live display follows the counts; keys of the keyboard sort, select, hold and quit."""
    ask(busy, ("idle", "now"))  # before the start: the number of keys, on the second line, is read less often than the rest
    with Terminal([WEIR, "top", "--dir", busy.table, "--interval", "200ms"], columns=130, lines=30) as terminal:
        screen = terminal.wait_shown("api/user/365d ")
        assert_harmless(screen)
        assert screen.startswith("weir top   default")
        before = reported(busy, "api/idle/1h")["admitted"]
        ask(busy, ("idle", "now"), times=5)
        terminal.wait_shown(lambda s: re.search(rf"^api/idle/1h .* {before + 5}\b", s, re.M))
        terminal.press("n")
        terminal.wait_shown(lambda s: re.findall(r"^(api/\S+) +\d", s, re.M)[:1] == ["api/idle/1h"])
        terminal.press("f")
        terminal.wait_shown(lambda s: re.findall(r"^(api/\S+) +\d", s, re.M)[:1] == ["api/user/365d"])
        # The keys below belong to the rule that is chosen.
        terminal.wait_shown(lambda s: "\napi/user/365d\n" in s and "  7" in s)
        terminal.press("Down")
        terminal.wait_shown(lambda s: "\napi/route=signup/ip/365d\n" in s and "192.0.2.1" in s)
        terminal.press("Up")
        terminal.wait_shown("\napi/user/365d\n")
        terminal.press("j", "k", "Escape", "[", "Z", "x")
        terminal.resize(80, 24)
        screen = terminal.wait_shown(lambda s: max(map(len, s.splitlines())) <= 80 and "\napi/user/365d\n" in s)
        assert_harmless(screen)
        terminal.resize(40, 8)
        # Lines are cut at the width of the terminal: its last column does not show the last character of a longer line.
        second = lambda: weir("top", "--dir", busy.table).splitlines()[1]
        terminal.wait_shown(lambda s: s.splitlines()[1:2] == [second()[:40].rstrip()])
        terminal.press("q")
        screen = terminal.wait_shown("ended: 0")
        assert "RULE" not in screen  # the screen that was there before is back
        terminal.press("echoed", "Enter")
        terminal.wait_shown("echoed\nechoed")  # typed text shows again, and cat repeats it


@pytest.mark.seconds(120)
@pytest.mark.parametrize("key", ["C-c", "q"])
def test_live_restores_the_terminal(busy, key):
    """After q or Ctrl-C typed text is visible again."""
    with Terminal([WEIR, "top", "--dir", busy.table], columns=100, lines=20) as terminal:
        terminal.wait_shown("RULE")
        terminal.press(key)
        terminal.wait_shown("ended: 0")
        terminal.press("echoed", "Enter")
        terminal.wait_shown("echoed\nechoed")


def test_prints_once_in_a_dumb_terminal(busy):
    with Terminal([WEIR, "top", "--dir", busy.table], before="TERM=dumb") as terminal:
        terminal.wait_shown("ended: 0")  # without a key


def test_live_in_a_terminal_without_utf8(busy):
    with Terminal([WEIR, "top", "--dir", busy.table], before="LC_ALL=C") as terminal:
        assert terminal.wait_shown("RULE").isascii()
        terminal.press("q")
        terminal.wait_shown("ended: 0")


def test_live_advances_history_if_no_other_process_does(clock, tmp_path):
    """The service of this table has stopped. weir top advances the history if no process has done so
    for three seconds. The clock of the reading command stands still, so that it does not advance the history itself."""
    with Serve(rules=RULES, resp=True, admin=True) as serve:
        serve.pass_seconds(clock, 2)
        serve.stop()
        (tmp_path / "clock").write_bytes(clock.path.read_bytes())

        def known():
            reported = weir("top", "--json", "--dir", serve.table, env={"TESTCLOCK_FILE": str(tmp_path / "clock")})
            return [p for p in json.loads(reported)["last_minute"]["decisions"] if p is not None]

        before = known()
        with Terminal([WEIR, "top", "--dir", serve.table, "--interval", "100ms"]) as terminal:
            terminal.wait_shown("RULE")
            assert known() == before
            clock.advance(4)
            wait_for(lambda: known() == before + [0] * 4, "four more seconds of history")
            clock.advance(4)
            wait_for(lambda: known() == before + [0] * 8, "four more seconds of history")
            terminal.press("q")
            terminal.wait_shown("ended: 0")


def test_documentation_names_every_command():
    text = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
    for command in ("weir top", "weir candidates", "weir advise", "--decision-log", "/metrics"):
        assert command in text
