"""weir tune --from-table: what it prints about a table that was filled with known numbers of requests."""

import json
import os
import re
import subprocess

import pytest
import redis
import yaml

from weirtest import ROOT, WEIR, WRAP, Clock
from weirtest import clock as clocks
from weirtest.serve import Serve

# A year does not end during the test. The rule api/few is per second, so that a period does end.
RULES = """
domain: api
descriptors:
  - key: user
    rate_limit:
      unit: year
      requests_per_unit: 100
      candidates:
        - {unit: year, requests_per_unit: 150, name: more}
        - {unit: year, requests_per_unit: 200, name: most}
        - {unit: year, requests_per_unit: 100, algorithm: token_bucket, burst: 400}
  - {key: tight, rate_limit: {unit: year, requests_per_unit: 50}}
  - key: worst
    rate_limit: {unit: year, requests_per_unit: 1, candidates: [{unit: year, requests_per_unit: 2}]}
  - key: few
    rate_limit: {unit: second, requests_per_unit: 10, candidates: [{unit: second, requests_per_unit: 5}]}
  - key: day
    rate_limit: {calendar: day, requests_per_unit: 10, candidates: [{unit: day, requests_per_unit: 20}]}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: idle, rate_limit: {unit: year, requests_per_unit: 7}}
"""


def weir(*args, code=0):
    """Runs a command of weir that must exit with `code`. Returns its output and errors."""
    variables = clocks.current.variables({**os.environ, "LC_ALL": "C.UTF-8"}, sanitized=WRAP == "asan")
    done = subprocess.run([WEIR, *map(str, args)], capture_output=True, timeout=60, check=False, text=True,
                          env=variables)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def tune(serve, *args, code=0):
    return json.loads(weir("tune", "--from-table", "--json", "--dir", serve.table, *args, code=code)[0])


def ask(serve, key, value, times):
    with redis.Redis(port=serve.resp_port) as client:
        pipe = client.pipeline(transaction=False)
        for _ in range(times):
            pipe.execute_command("WEIR.CHECK", "api", key, value)
        pipe.execute()


@pytest.fixture(scope="module", name="clock", autouse=True)
def make_clock():
    with Clock() as stands:
        yield stands


@pytest.fixture(scope="module", name="filled")
def fill_table(clock):
    """A table in which api/user has 1,002 requests: 201 of `loud`, 100 of each of eight users, and 1 before its history
    begins. No rule has more than 1,000 requests in a second, so the counts of keys are exact."""
    with Serve(rules=RULES, resp=True, admin=True) as serve:
        serve.pass_seconds(clock)
        for key in ("user", "tight", "worst"):
            ask(serve, key, "first", times=1)
        serve.pass_seconds(clock)
        ask(serve, "user", "loud", times=201)
        ask(serve, "worst", "x", times=500)
        for i in range(12):
            ask(serve, "tight", f"client-{i}", times=60)
        serve.pass_seconds(clock)
        for i in range(8):
            ask(serve, "user", f"user-{i}", times=100)
        ask(serve, "worst", "x", times=499)
        ask(serve, "few", "x", times=20)
        ask(serve, "day", "x", times=5)
        ask(serve, "free", "x", times=3)
        serve.pass_seconds(clock)
        clock.advance(60)
        serve.wait_counted(clock)
        yield serve


@pytest.fixture(scope="module", name="result")
def tune_all(filled):
    return tune(filled)


def rule_of(result, name):
    return next(one for one in result["rules"] if one["rule"] == name)


def compared(rule):
    return [(one["text"], one["per_key"], one["requests"], one["would_refuse"], one["rule_refused"], one["enough"])
            for one in rule["limits"]]


def chosen(rule):
    return [one["text"] for one in rule["limits"] if one["chosen"]]


def check_rules(tmp_path, change):
    """Asserts that weir accepts a proposed limit in a rule."""
    path = tmp_path / "proposed.yaml"
    document = {"domain": "api", "descriptors": [{"key": "user", **yaml.safe_load(change)}]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    weir("check", path)


# ---- what was seen ----

def test_requests_and_peaks(result):
    assert [(one["rule"], one["requests"], one["refused"]) for one in result["rules"][:5]] == [
        ("api/user/365d", 1002, 101), ("api/worst/365d", 1000, 998), ("api/tight/365d", 721, 120),
        ("api/few/1s", 20, 10), ("api/day/day@UTC", 5, 0)]
    user = rule_of(result, "api/user/365d")
    assert (user["peak_second"]["requests"], user["peak_second"]["refused"]) == (800, 101)
    assert user["peak_minute"] == {"known": 1, "requests": 1002, "refused": 101}
    assert user["shadow"] is False and result["time"] - user["since"] >= 63
    assert (result["untouched"], result["share_of"], result["table"]) == (99.9, "requests", "default")


def test_keys(result):
    user = rule_of(result, "api/user/365d")
    loud = user["hottest"][0]
    assert (loud["values"], loud["count"]) == (["loud"], 201) and loud["share"] == pytest.approx(201 / 1001)
    assert [(key["values"], key["count"], key["share"]) for key in user["most_refused"]] == [(["loud"], 101, 1)]


# ---- the trade-off ----

def test_candidates_are_compared(result):
    """99.9 % of 1,002 requests permits one refusal."""
    user = rule_of(result, "api/user/365d")
    assert compared(user) == [
        ("fixed_window, 100 per 365d", 100, 1002, 101, 101, False),
        ("fixed_window, 150 per 365d", 150, 1002, 51, 101, False),
        ("fixed_window, 200 per 365d", 200, 1002, 1, 101, True),
        ("token_bucket, 100 per 365d, burst 400", 500, 1002, 0, 101, True)]
    assert [one["in_force"] for one in user["limits"]] == [True, False, False, False]
    assert user["result"] == "change" and chosen(user) == ["fixed_window, 200 per 365d"]
    assert user["proposal"] == {
        "change": "rate_limit: {unit: year, requests_per_unit: 200}",
        "reason": "fixed_window, 200 per 365d would have refused 1 of 1,002 requests, and the rule 101; the smallest "
                  "compared limit that leaves 99.9 % untouched"}


@pytest.mark.parametrize("untouched, result, limit, change", [
    ("100%", "change", "token_bucket, 100 per 365d, burst 400",
     "rate_limit: {unit: year, requests_per_unit: 100, algorithm: token_bucket, burst: 400}"),
    ("90%", "change", "fixed_window, 150 per 365d", "rate_limit: {unit: year, requests_per_unit: 150}"),
    ("89.9%", "keep", "fixed_window, 100 per 365d", None),
])
def test_untouched(filled, untouched, result, limit, change):
    """The rule refuses 101 of 1,002 requests: more than the 100 of 90 %, not more than the 101 of 89.9 %."""
    whole = tune(filled, "api/user", "--untouched", untouched)
    [user] = whole["rules"]
    assert (user["result"], chosen(user)) == (result, [limit])
    assert (user["proposal"] or {}).get("change") == change
    assert whole["next"][-1] == f"weir tune --from-table api/user --untouched {untouched} --dir {filled.table}"
    assert (whole["next"][0] == "weir check PATH") == (change is not None)


def test_other_results(result):
    """A rule without candidates, without a limit or with too few requests gets no choice. Advice can propose a change."""
    tight = rule_of(result, "api/tight/365d")
    assert (tight["result"], tight["proposal"]["change"]) == (
        "no_candidates", "rate_limit: {unit: year, requests_per_unit: 60}")
    assert tight["proposal"]["reason"].startswith("too_tight: 12 refused clients need only a little more")
    worst = rule_of(result, "api/worst/365d")
    assert (worst["result"], worst["proposal"], chosen(worst)) == ("none_fits", None, [])
    assert compared(worst)[1] == ("fixed_window, 2 per 365d", 2, 1000, 997, 998, False)
    few = rule_of(result, "api/few/1s")
    assert (few["result"], few["proposal"]) == ("few_requests", None)
    assert compared(few) == [("fixed_window, 10 per 1s", 10, 20, 10, 10, False),
                             ("fixed_window, 5 per 1s", 5, 20, 15, 10, False)]
    assert [one["less_than_a_period"] for one in few["limits"]] == [False, False]
    day = rule_of(result, "api/day/day@UTC")
    assert [one["per_key"] for one in day["limits"]] == [10, None]
    free, idle = rule_of(result, "api/free/unlimited"), rule_of(result, "api/idle/365d")
    assert (free["result"], free["requests"], free["limits"]) == ("no_limit", 3, [])
    assert (idle["result"], idle["requests"], idle["peak_second"]) == ("no_requests", 0, None)


def test_advice_is_part_of_it(filled, result):
    advice = json.loads(weir("advise", "--json", "--dir", filled.table)[0])
    pieces = [piece for rule in result["rules"] for piece in rule["advice"]]
    assert sorted(pieces, key=json.dumps) == sorted(advice, key=json.dumps)
    assert {(one["rule"], one["kind"]) for one in pieces} == {
        ("api/user/365d", "candidate_better"), ("api/user/365d", "one_client"), ("api/tight/365d", "too_tight"),
        ("api/tight/365d", "bursts"), ("api/worst/365d", "one_client")}


def test_changes_fit_into_rules(result, tmp_path):
    changes = [rule["proposal"]["change"] for rule in result["rules"] if rule["proposal"]]
    assert len(changes) == 2
    for change in changes:
        check_rules(tmp_path, change)
    assert [line for line in result["changes"].splitlines() if line and line[0] != "#"] == changes


# ---- text ----

def test_text(filled):
    text = weir("tune", "--from-table", "api/user", "--dir", filled.table)[0]
    assert text.startswith("table      default\nrules      1 with requests, 0 without\n"
                           "untouched  99.9 % of the requests; the table does not count the clients")
    assert ("\napi/user/365d (fixed_window, 100 per 365d)\n  refused    101 of 1,002, 10.1 %, since the table was made\n"
            "  limit      in force since 2026-01-14 12:00:30 UTC\n") in text
    assert "  peak       800 requests and 101 refusals in one second; " in text
    assert "             1,002 requests and 101 refusals in one minute; the history has 1 minute\n" in text
    assert re.search(r"^ +201   20.1 % +101  loud$", text, re.M)
    assert """
    LIMIT                                  1 KEY PER 365d  REQUESTS  WOULD REFUSE        %  THE RULE REFUSED
    fixed_window, 100 per 365d (in force)             100     1,002           101   10.1 %               101
    fixed_window, 150 per 365d                        150     1,002            51    5.1 %               101
  > fixed_window, 200 per 365d                        200     1,002             1  0.100 %               101
    token_bucket, 100 per 365d, burst 400             500     1,002             0      0 %               101
  result     the limit at > is the smallest of these limits that leaves 99.9 % untouched
  candidate_better: with token_bucket, burst 400: 101 fewer refusals, none more
""" in text
    assert text.endswith(f"""
Proposed changes

# api/user/365d, now fixed_window, 100 per 365d
# fixed_window, 200 per 365d would have refused 1 of 1,002 requests, and the rule 101; the smallest compared limit that \
leaves 99.9 % untouched
# The candidate may have counted for less than its period, 365d. Then the refusals are too few.
rate_limit: {{unit: year, requests_per_unit: 200}}

Put these numbers into the limits of the rules, and keep the other keys of each limit.
Then check the rules, and look again after a usual period of the traffic:

  weir check PATH
  weir tune --from-table api/user --dir {filled.table}
""")


def test_text_of_other_results(filled):
    text = weir("tune", "--from-table", "--dir", filled.table)[0]
    assert "rules      6 with requests, 1 without\n" in text
    assert "  result     no candidates; add candidates to the limit to compare other limits\n  too_tight: " in text
    assert "  result     none of these limits leaves 99.9 % untouched; add a larger candidate\n" in text
    assert "  result     too few requests for a choice, which needs 1000\n" in text
    assert "\napi/free/unlimited\n" in text and "  result     no limit on requests per period" in text
    assert "api/idle" not in text
    text = weir("tune", "--from-table", "api/few", "--dir", filled.table)[0]
    assert text.endswith("These statistics support no change. Look again after a usual period of the traffic:\n\n"
                         f"  weir tune --from-table api/few --dir {filled.table}\n")


# ---- no limit leaves enough untouched ----

NONE_FITS = """
domain: api
descriptors:
  - key: user
    rate_limit:
      unit: year
      requests_per_unit: 100
      candidates:
        - {unit: year, requests_per_unit: 100, algorithm: token_bucket, burst: 400, name: a}
        - {unit: year, requests_per_unit: 100, algorithm: token_bucket, burst: 500, name: b}
        - {unit: year, requests_per_unit: 500, name: c}
        - {unit: year, requests_per_unit: 400, name: d}
"""


def test_better_candidate_if_none_fits(clock):
    """The clients a, b and c send 500, 501 and 100 requests. The window and the bucket of 400 refuse 201 of them. The
    window and the bucket of 500 refuse one, and the window permits less. 100 % untouched permits no refusal."""
    with Serve(rules=NONE_FITS, resp=True, admin=True) as serve:
        for user, times in (("a", 500), ("b", 501), ("c", 100)):
            serve.pass_seconds(clock)
            ask(serve, "user", user, times=times)
        serve.wait_counted(clock)
        [user] = tune(serve, "--untouched", "100%")["rules"]
        assert [one[:4] for one in compared(user)] == [
            ("fixed_window, 100 per 365d", 100, 1101, 801), ("fixed_window, 400 per 365d", 400, 1101, 201),
            ("token_bucket, 100 per 365d, burst 400", 500, 1101, 201), ("fixed_window, 500 per 365d", 500, 1101, 1),
            ("token_bucket, 100 per 365d, burst 500", 600, 1101, 1)]
        assert (user["result"], chosen(user)) == ("none_fits", [])
        text = weir("tune", "--from-table", "--untouched", "100%", "--dir", serve.table)[0]
        assert """
# api/user/365d, now fixed_window, 100 per 365d
# fixed_window, 500 per 365d would have refused 1 of 1,101 requests, and the rule 801; better than the rule, but it does \
not leave 100 % untouched
# The candidate may have counted for less than its period, 365d. Then the refusals are too few.
rate_limit: {unit: year, requests_per_unit: 500}
""" in text


# ---- errors ----

def test_table_without_requests():
    with Serve(rules=RULES, resp=True) as serve:
        out, errors = weir("tune", "--from-table", "--dir", serve.table, code=1)
        assert out == "" and "no request has been counted yet for any rule of the table default" in errors
        assert f"then run again: weir tune --from-table --dir {serve.table}\n" in errors
        assert "these rules" in weir("tune", "--from-table", "api/idle", "--dir", serve.table, code=1)[1]
        whole = tune(serve, code=1)
        assert {one["result"] for one in whole["rules"]} == {"no_requests", "no_limit"} and whole["changes"] == ""


def test_unknown_names(filled, tmp_path):
    assert "there is no such rule" in weir("tune", "--from-table", "api/nobody", "--dir", filled.table, code=1)[1]
    weir("tune", "--from-table", "--dir", tmp_path, code=1)


@pytest.mark.parametrize("option", [
    ["--out", "x"], ["--html", "x"], ["--svg", "x"], ["--rules", "x"], ["--route", "x"], ["--domain", "x"],
    ["--key", "address"], ["--unit", "any"], ["--shadow"], ["--without-outliers"], ["--format", "csv"],
    ["--fields", "time=t"], ["--window", "1s"], ["--window-lines", "1"], ["--from", "2026-01-01"], ["--to", "2026-01-01"],
])
def test_options_of_logs(option):
    assert f"{option[0]} needs a log, not --from-table" in weir("tune", "--from-table", *option, code=2)[1]
    assert "is not a percentage" in weir("tune", "--from-table", "--untouched", "0.9", code=2)[1]


# ---- docs/tuning.md ----

def test_sample_of_the_page(clock):
    """The output on the page: in each of ten minutes, user 7 sends 54 requests, alice 42, bob 36, and 24 users 18 each,
    in six steps of ten seconds."""
    page = (ROOT / "docs/tuning.md").read_text(encoding="utf-8").split("## Limits from live statistics\n")[1]
    rules, shown = re.search(r"^```yaml\n(.*?)^```$.*?^```\n(.*?)^```$", page, re.M | re.S).groups()
    clock.set("2026-01-14 13:00:00")
    with Serve(rules=rules, resp=True, admin=True) as serve:
        serve.wait_counted(clock)
        for _ in range(60):
            for user, count in {"7": 9, "alice": 7, "bob": 6, **{f"user-{i}": 3 for i in range(24)}}.items():
                ask(serve, "user", user, times=count)
            clock.advance(10)
            serve.wait_counted(clock)
        printed = weir("tune", "--from-table", "--dir", serve.table)[0].replace(f" --dir {serve.table}", "")
    assert printed == shown
