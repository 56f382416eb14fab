"""Costs and slots: what weir key, weir top, the admin API and /metrics show of them. A program with libweir reserves,
settles and holds slots on the table of the service."""

import json
import subprocess

import pytest

from weirtest import JSON, WEIR, WRAP, Clock, fetch, tokens
from weirtest.clock import for_weir
from weirtest.library import Library
from weirtest.openapi import check_answer
from weirtest.scrape import Metrics
from weirtest.serve import Serve
from weirtest.terminal import Terminal

pytestmark = pytest.mark.skipif(WRAP == "asan", reason="Python without the sanitizer's runtime cannot load libweir")

RULES = """
domain: api
descriptors:
  - key: tenant
    rate_limits:
      - {unit: hour, requests_per_unit: 1000, max_debt: 500, name: tokens}
      - {concurrent: 3, max_hold: 2m, name: in-flight}
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
"""
UNITS, SLOTS = "api/tenant/1h", "api/tenant/concurrent/2m"
USED = {"reserved": 1000, "actual": 1200, "refunded": 100, "owed": 300, "settled": 2, "lost": 0, "defaulted": 0,
        "clamped": 0, "slots_in_use": None,
        "per_second": {"reserved": 1000, "actual": 1200, "refunded": 100, "owed": 300}}
HELD = {**dict.fromkeys(USED, 0), "reserved": 3, "refunded": 2, "settled": 2, "slots_in_use": 1,
        "per_second": {"reserved": 3, "refunded": 2, "lost": 0}}


@pytest.fixture(scope="module", autouse=True)
def clock():
    """A clock that stands still: statistics advance only when a test moves it."""
    with Clock() as stands:
        yield stands


@pytest.fixture(scope="module")
def serve(clock):
    """A service. Tenant a reserved 600 and used 500, then reserved 400 and used 700. Tenant b has a request in flight."""
    with Serve(rules=RULES, http=True, admin=True) as running:
        running.pass_seconds(clock)
        library = Library(running.table, running.rules)
        assert library.settle(("tenant", "a"), cost=600, actual=500)
        assert library.settle(("tenant", "a"), cost=400, actual=700)
        assert not library.settle(("tenant", "a"), cost=1, actual=1)
        assert library.settle(("tenant", "b"), cost=10) and library.settle(("user", "7"))
        running.pass_seconds(clock)
        yield running
        library.close()


def weir(*args):
    """Runs a command of weir, and returns its output."""
    return subprocess.run([WEIR, *map(str, args)], capture_output=True, timeout=60, check=True, text=True,
                          env=for_weir()).stdout


def key(serve, *args):
    return weir("key", "get", *tokens.flags(serve.admin_port), *args)


def rule(serve, name):
    """Returns the response of /v1/rule for the rule."""
    rows = json.loads(fetch(serve.admin_port, "GET", "/v1/overview").body)["rules"]["rows"]
    slot = next(row["slot"] for row in rows if row["rule"] == name)
    answer = fetch(serve.admin_port, "GET", f"/v1/rule?slot={slot}")
    check_answer("GET", f"/v1/rule?slot={slot}", answer)
    return json.loads(answer.body)


def test_key_shows_debt_and_slots(serve):
    lines = key(serve, "api", "tenant=a").splitlines()
    assert lines[0].startswith(f"{UNITS}: 0 of 1000 left, 200 of debt, fully reset in ")
    assert lines[1] == f"{SLOTS}: 0 of 3 slots in use, max_hold 2m"
    lines = key(serve, "api", "tenant=b").splitlines()
    assert lines[0].startswith(f"{UNITS}: 990 of 1000 left, fully reset in ")
    assert lines[1] == f"{SLOTS}: 1 of 3 slots in use, all free in at most 119 s, max_hold 2m"
    counters = json.loads(key(serve, "--json", "api", "tenant=a"))["counters"]
    assert [(c["debt"], c["slots_in_use"]) for c in counters] == [(200, None), (0, 0)]


def test_admin_api_shows_debt_slots_and_costs(serve):
    body = {"domain": "api", "entries": [{"key": "tenant", "value": "b"}]}
    answer = fetch(serve.admin_port, "POST", "/v1/key/get", JSON, json.dumps(body).encode())
    check_answer("POST", "/v1/key/get", answer)
    counters = json.loads(answer.body)["counters"]
    assert [(c["remaining"], c["debt"], c["slots_in_use"]) for c in counters] == [(990, 0, None), (2, 0, 1)]
    cost = rule(serve, UNITS)["cost"]
    history = cost.pop("history")
    assert cost == USED
    assert [history[name][-1] for name in ("reserved", "actual", "refunded", "owed")] == [1000, 1200, 100, 300]
    slots = rule(serve, SLOTS)
    assert slots["words"] == "3 concurrent, max_hold 2m" and slots["advice"] == []
    history = slots["cost"].pop("history")
    assert slots["cost"] == HELD
    assert [history[name][-1] for name in ("reserved", "slots_in_use", "refunded", "lost")] == [3, 1, 2, 0]
    assert rule(serve, "api/user/1h")["cost"] is None
    rows = json.loads(fetch(serve.admin_port, "GET", "/v1/overview?by=name").body)["rules"]["rows"]
    assert [row["cost"] for row in rows] == [USED, HELD, None]


UNITS_SHOWN = """
               reserved         used     refunded         debt         lost
  units/s          1000         1200          100          300
  units           1,000        1,200          100          300            0
"""
SLOTS_SHOWN = """
                 in use        taken   given back         lost
  slots/s                        3.0          2.0            0
  slots               1            3            2            0
"""


def test_top_shows_units_and_slots(serve):
    shown = weir("top", "--dir", serve.table, "--sort", "name")
    assert UNITS_SHOWN in shown and SLOTS_SHOWN in shown, shown
    assert "3 concurrent  " in shown and "1000 per 1h" in shown.replace(",", "")
    rules = {r["rule"]: r for r in json.loads(weir("top", "--json", "--dir", serve.table))["rules"]}
    assert rules[UNITS]["cost"] == USED
    assert rules[SLOTS]["cost"] == HELD and rules[SLOTS]["algorithm"] == "concurrent"
    assert rules["api/user/1h"]["cost"] is None, list(rules)


def test_top_fits_into_80_columns(clock):
    """In a terminal of 80 by 24, the largest numbers fit, and an arrow key leads to the slots."""
    rules = RULES.replace("requests_per_unit: 1000, max_debt: 500", "requests_per_unit: 4000000000, max_debt: 4000000000")
    with Serve(rules=rules, http=True, admin=True) as big:
        big.pass_seconds(clock)
        library = Library(big.table, big.rules)
        assert library.settle(("tenant", "a"), cost=2_999_999_999, actual=4_000_000_000)
        assert library.settle(("tenant", "b"), cost=123_456_789, actual=23_456_789)
        big.pass_seconds(clock)
        library.close()
        with Terminal([WEIR, "top", "--dir", big.table, "--sort", "name"], columns=80, lines=24) as terminal:
            terminal.wait_shown("  units            3.1G         4.0G  100,000,000         1.0G            0\n")
            lines = terminal.screen().splitlines()
            assert "               reserved         used     refunded         debt         lost" in lines
            assert "  units/s          3.1G         4.0G       100.0M         1.0G" in lines
            assert len(lines) <= 24 and max(map(len, lines)) <= 80 and lines[0].startswith("weir top ")
            terminal.press("Down")
            terminal.wait_shown("  slots               0            2            2            0\n")
            assert terminal.screen().startswith("weir top ")


def test_commands_about_rules_accept_slots(serve):
    """Advice and candidates have nothing to say about a limit on concurrent requests."""
    assert "concurrent" not in weir("advise", "--dir", serve.table)
    done = subprocess.run([WEIR, "candidates", "--dir", serve.table], capture_output=True, timeout=60, check=False,
                          env=for_weir())
    assert done.returncode == 1 and b"no rule has candidates" in done.stdout


def test_metrics(serve):
    metrics = Metrics(serve.admin_port)
    units = {"domain": "api", "rule": UNITS, "algorithm": "fixed_window"}
    assert metrics.value("weir_cost_reserved_units_total", **units) == 1000
    assert metrics.value("weir_cost_actual_units_total", **units) == 1200
    assert metrics.value("weir_cost_refunded_units_total", **units) == 100
    assert metrics.value("weir_cost_debt_units_total", **units) == 300
    assert metrics.value("weir_settled_total", **units) == 2
    assert metrics.value("weir_slots_in_use", domain="api", rule=SLOTS, algorithm="concurrent") == 1


def test_slot_of_a_request_that_never_ends_is_not_in_use_for_ever(serve, clock):
    """The last test of the file: it moves the clock by five minutes."""
    for _ in range(5):
        clock.advance(60)
        serve.pass_seconds(clock)
    assert key(serve, "api", "tenant=b").splitlines()[1] == f"{SLOTS}: 0 of 3 slots in use, max_hold 2m"
    metrics = Metrics(serve.admin_port)
    assert metrics.value("weir_slots_in_use", domain="api", rule=SLOTS, algorithm="concurrent") == 0
    assert metrics.value("weir_slots_lost_total", domain="api", rule=SLOTS, algorithm="concurrent") == 1
