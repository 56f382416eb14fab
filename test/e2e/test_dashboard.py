"""The dashboard in a real browser, on a gateway under traffic and on a service with many keys.

Screenshots of every page are written to BUILD/dashboard. docs/dashboard.md says how one of them becomes the picture of
the documents."""

import collections
import importlib.util
import json
import random
import re
import subprocess
import threading

import pytest

from weirtest import JSON, ROOT, WEIR, Api, Client, Closed, env, fetch, free_port, full, needs, wait_for
from weirtest.browser import Browser
from weirtest.clock import for_weir, wall_ns
from weirtest.queueserver import QueueServer
from weirtest.fleet import Node
from weirtest.gateway import Gateway
from weirtest.library import Library
from weirtest.orders import Orders
from weirtest.redis import Redis
from weirtest.scrape import Metrics
from weirtest.serve import Serve
from weirtest.shield import Machines, Shield

SHOTS = env.BUILD / "dashboard"

pytestmark = needs("npm")

RULES = """\
domain: api
requests:
  - descriptor: [{key: everyone, value: together}]
  - when: {path: "/v1/*"}
    descriptor: [{key: user, from: [header.x-user-id, masked_remote_address]}]
  - when: {method: POST, path: /v1/accounts}
    descriptor: [{key: signup_address, from: masked_remote_address}]

descriptors:
  # For the whole system.
  - key: everyone
    value: together
    rate_limit: {unit: second, requests_per_unit: 10000, algorithm: token_bucket}

  - key: user
    rate_limit:
      unit: minute
      requests_per_unit: 120
      candidates:
        - {unit: minute, requests_per_unit: 120, algorithm: token_bucket, burst: 400}
        - {unit: minute, requests_per_unit: 60}

  - key: signup_address
    rate_limit: {unit: day, requests_per_unit: 10}
"""


class Crowd:
    """Some users within their limit, and one user above it."""

    def __init__(self, port):
        self.port = port
        self.ended = threading.Event()
        self.loose = threading.Event()  # the user above the limit waits for it
        self.threads = [threading.Thread(target=self.run, args=(f"user-{i}", 0.5), daemon=True) for i in range(6)]
        self.threads.append(threading.Thread(target=self.run, args=("mallory", 0.02), daemon=True))
        self.threads.append(threading.Thread(target=self.run, args=("newcomer", 3, "POST", "/v1/accounts"), daemon=True))

    def run(self, user, pause, method="GET", path="/v1/posts"):
        while user == "mallory" and not self.ended.is_set() and not self.loose.wait(0.1):
            pass
        while not self.ended.is_set():
            try:
                with Client(self.port) as client:
                    while not self.ended.is_set():
                        client.request(method, path, {"X-User-Id": user})
                        self.ended.wait(pause)
            except (OSError, Closed):  # nginx closes a connection after a thousand requests
                self.ended.wait(pause)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(20)


@pytest.fixture(scope="module")
def browser():
    SHOTS.mkdir(exist_ok=True)
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def crowded():
    """A gateway under traffic, and the address of its dashboard."""
    port = free_port()
    with Api() as api, Gateway(api.port, "--admin", f"127.0.0.1:{port}", "--memory", "8M", rules=RULES) as gateway:
        gateway.admin = f"http://127.0.0.1:{port}"
        gateway.admin_port = port
        with Crowd(gateway.port) as crowd:
            gateway.let_loose = crowd.loose.set
            yield gateway


def live(browser):
    """Waits until the page receives events."""
    browser.until("document.getElementById('live').dataset.state === 'live'", "the page to be live")


def statuses(gateway, user, times=3):
    """Returns the set of statuses of some requests of this user."""
    return {fetch(gateway.port, "GET", "/v1/posts", {"X-User-Id": user}).status for _ in range(times)}


# ---- in every run ----

OFFENDER = "<img src=x onerror=alert(1)>"


def test_overview_updates_and_an_offender_is_banned_and_released(browser, clock):
    """The page opens and its numbers follow the decisions. A few clicks find, ban and release a user above the limit.
    The page has no accessibility faults, no script errors and no requests to other origins. The service runs on the
    test's clock."""
    rules = ("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: 3}\n"
             "  - key: quiet\n    rate_limit: {unit: hour, requests_per_unit: 5}\n")
    with Serve(rules=rules, http=True, admin=True) as serve:
        def ask(user, times):
            body = [{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": user}]}]}] * times
            answer = fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode())
            return [a["admitted"] for a in json.loads(answer.body)]

        def bans():
            return json.loads(fetch(serve.admin_port, "GET", "/v1/overrides").body)["overrides"]

        serve.pass_seconds(clock, 2)
        assert ask("good", 2) == [True, True]
        serve.pass_seconds(clock)
        browser.open(f"http://127.0.0.1:{serve.admin_port}/")
        live(browser)
        browser.until_text("api/user/365d", ".rows tbody")
        browser.until_text("In the last minute 2 were admitted and 0 refused.", "figcaption")
        assert ask(OFFENDER, 9) == [True] * 3 + [False] * 6
        serve.pass_seconds(clock)
        browser.until_text("In the last minute 5 were admitted and 6 refused.", "figcaption")
        assert browser.axe() == []
        browser.click(".rows tbody th a")
        browser.until_text("api/user/365d", "h1")
        browser.click("a:has-text('<img') >> nth=0")
        browser.until_text("State in every limit")
        assert ask("good", 1) == [True]
        browser.click("text=Ban…")
        browser.fill("dialog #for", "1h")
        assert browser.axe() == []
        browser.click("dialog button.danger")
        browser.until_text("banned until", ".counters")
        browser.until_text(f"ban api user={OFFENDER} for 3600 s")
        assert [b["key"] for b in bans()] == [f"api|user={OFFENDER}"]
        browser.click("text=Lift the ban…")
        browser.click("dialog button:has-text('Lift')")
        browser.until("!document.querySelector('.counters').innerText.includes('banned')", "the ban to be lifted")
        browser.click("text=Reset…")
        browser.click("dialog button:has-text('Reset')")
        browser.until_text("reset api user=")
        assert (bans(), ask(OFFENDER, 1)) == ([], [True])
        browser.goto(f"http://127.0.0.1:{serve.admin_port}/#/rules")
        browser.until_text("generation 1")
        assert browser.noise() == []


COSTS = """
domain: api
descriptors:
  - key: tenant
    rate_limits:
      - {unit: hour, requests_per_unit: 1000, max_debt: 500}
      - {concurrent: 3, max_hold: 2m}
"""


def until_listed(browser, selector, wanted):
    """Waits until the elements have these names and values, in this order."""
    texts = f"[...document.querySelectorAll('{selector}')].map((e) => [...e.children].map((c) => c.innerText).join(' ')).join('; ')"
    try:
        browser.until(f"{texts} === {json.dumps(wanted)}", selector)
    except AssertionError:
        assert browser.js(texts) == wanted
        raise


def until_legend(browser, wanted):
    """Waits until the legend of the chart of costs has these values. The cursor is not in the chart, so the values are
    those of the last point."""
    until_listed(browser, "section[aria-labelledby=costs] .u-series:not(:first-child)", wanted)


def test_costs_debt_and_slots_are_shown(browser, clock):
    """The page of a rule shows its units or slots, with their rates and over time. The page of a key shows its debt and
    slots in use, the overview the units per second and the slots in use of each rule."""
    with Serve(rules=COSTS, http=True, admin=True) as serve:
        def slot(rule):
            rows = json.loads(fetch(serve.admin_port, "GET", "/v1/overview").body)["rules"]["rows"]
            return next(row["slot"] for row in rows if row["rule"] == rule)

        serve.pass_seconds(clock)
        library = Library(serve.table, serve.rules)
        assert library.settle(("tenant", "a"), cost=600, actual=500)
        assert library.settle(("tenant", "a"), cost=400, actual=700)
        assert [library.settle(("tenant", "b"), cost=10) for _ in range(4)] == [True] * 3 + [False]
        serve.pass_seconds(clock)
        base = f"http://127.0.0.1:{serve.admin_port}"
        units, slots = slot("api/tenant/1h"), slot("api/tenant/concurrent/2m")
        browser.open(f"{base}/#/rule/{units}")
        live(browser)
        browser.until_text("Units per second", "#costs")
        until_listed(browser, ".costs-now > div", "reserved per second 1,000; used per second 1,200; refunded per second 100; "
                    "charged as debt per second 300")
        until_legend(browser, "reserved 1,000; used 1,200; refunded 100; charged as debt 300; limit of one key 0.28")
        browser.until_text("In this period 1,000 units were reserved, 1,200 used, 100 refunded and 300 charged as debt.",
                           "section[aria-labelledby=costs] figcaption")
        until_listed(browser, ".costs > div", "reserved 1,000; used 1,200; refunded 100 (10 %); charged as debt 300; "
                    "settled requests 2")
        # In the next second, nothing is used: the average of the two seconds is half, and the chart falls to 0.
        serve.pass_seconds(clock)
        until_listed(browser, ".costs-now > div", "reserved per second 500; used per second 600; refunded per second 50.0; "
                    "charged as debt per second 150")
        until_legend(browser, "reserved 0; used 0; refunded 0; charged as debt 0; limit of one key 0.28")
        assert browser.axe() == []
        browser.shot(SHOTS / "rule-units.png", full=True)
        browser.goto(f"{base}/#/rule/{slots}")
        browser.until_text("3 concurrent, max hold 2m", ".lead")
        until_listed(browser, ".costs-now > div", "in use, all keys 3; limit of one key 3; taken per second 2.50")
        until_legend(browser, "in use, all keys 3; limit of one key 3")
        browser.until_text("In this period, at most 3 slots were in use at the same time.",
                           "section[aria-labelledby=costs] figcaption")
        until_listed(browser, ".costs > div", "taken 5; given back 2; lost after max_hold 0")
        assert library.settle(("tenant", "c"), cost=10)
        serve.pass_seconds(clock)
        until_listed(browser, ".costs-now > div", "in use, all keys 4; limit of one key 3; taken per second 2.00")
        until_legend(browser, "in use, all keys 4; limit of one key 3")
        assert browser.axe() == []
        browser.shot(SHOTS / "rule-slots.png", full=True)
        library.close()
        browser.goto(f"{base}/#/rule/{units}")
        browser.size(400, 800)
        browser.media(colorScheme="dark")
        until_listed(browser, ".costs-now > div", "reserved per second 333; used per second 400; refunded per second 33.3; "
                     "charged as debt per second 100")
        browser.until("document.documentElement.scrollWidth <= 400", "the page to fit into 400 pixels")
        assert browser.axe() == []
        browser.shot(SHOTS / "phone-units.png", full=True)
        browser.media(colorScheme="light")
        browser.size(1280, 900)
        browser.goto(f"{base}/#/")
        used = "[...document.querySelectorAll('.rows tbody .usage')].map((cell) => cell.innerText).toSorted().join('; ')"
        browser.until(f"{used} === '4 in use; 400 units/s'", "the costs of both rules")
        browser.goto(f"{base}/#/key?domain=api&k=tenant&v=a")
        browser.until_text("200 of debt, used beyond the limit", ".counters")
        browser.until_text("Admitted: 0 of 3 slots in use.", ".counters")
        assert browser.axe() == []
        browser.shot(SHOTS / "key-debt.png", full=True)
        browser.goto(f"{base}/#/key?domain=api&k=tenant&v=b")
        browser.until_text("Refused: all 3 slots are in use; the next one is probably free in", ".counters")
        browser.until_text("max_hold 2 min", ".counters")
        browser.shot(SHOTS / "key-slots.png", full=True)
        assert browser.noise() == []


# ---- the example with tokens per tenant ----

LLM = ROOT / "examples/llm"
RESERVED = 200  # tokens that a request reserves, by the rules of the example


class Model(threading.Thread):
    """The server of examples/llm, which takes 4 ms for each token."""

    def __init__(self):
        super().__init__(daemon=True)
        spec = importlib.util.spec_from_file_location("llm_api", LLM / "api.py")
        api = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(api)
        self.ended = threading.Event()
        ended = self.ended

        class Slow(api.Api):
            def event(self, data):
                ended.wait(0.004)
                super().event(data)

        self.port = free_port()
        self.server = api.Server(("127.0.0.1", self.port), Slow)

    def run(self):
        self.server.serve_forever(0.1)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()


class Tenants:
    """Tenants with about ten requests per minute each, and acme with many. `.told` sums up the responses."""

    def __init__(self, port):
        self.port = port
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.told = collections.Counter()
        names = [f"tenant-{i}" for i in range(24)] + ["acme"] * 3
        self.threads = [threading.Thread(target=self.run, args=(name, i), daemon=True) for i, name in enumerate(names)]

    def ask(self, tenant, tokens, usage):
        """Sends a streamed request with a prompt of 10 tokens. Adds what it used: without `usage`, what it reserved."""
        body = {"max_tokens": tokens, "stream": True, "stream_options": {"include_usage": usage},
                "messages": [{"role": "user", "content": "name ten long rivers of the world in one line"}]}
        answer = fetch(self.port, "POST", "/v1/chat/completions", {"X-Tenant": tenant}, json.dumps(body).encode())
        used = re.findall(rb'"total_tokens": (\d+)', answer.body)
        with self.lock:
            self.told[answer.status] += 1
            if answer.status != 200:
                return
            actual = int(used[0]) if used else RESERVED
            self.told["defaulted"] += not used
            self.told["actual"] += actual
            self.told["refunded"] += max(0, RESERVED - actual)
            self.told["owed"] += max(0, actual - RESERVED)

    def run(self, tenant, seed):
        dice = random.Random(seed)
        pause = 0.6 if tenant == "acme" else 6
        while not self.ended.wait(dice.uniform(0, 2 * pause)):
            self.ask(tenant, dice.choice([30, 60, 90, 120, 190, 290, 440]), dice.random() < 0.95)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        """Waits until every request has its response."""
        self.ended.set()
        for thread in self.threads:
            thread.join(60)

    def __exit__(self, *_):
        self.stop()


@full("a minute of traffic")
@pytest.mark.seconds(240)
def test_figures_of_the_example_agree_everywhere(browser):
    """Tenants use examples/llm for a minute. Then the dashboard, /metrics and weir top have the sums of what the clients
    were told."""
    port = free_port()
    units = "llm/tenant/1m"
    slots = ["llm/everyone=together/concurrent/2m", "llm/tenant/concurrent/2m"]
    rules = (LLM / "rules.yaml").read_text(encoding="utf-8")
    with Model() as model, Gateway(model.port, "--admin", f"127.0.0.1:{port}", "--memory", "8M", rules=rules) as gateway:
        def rows():
            found = json.loads(fetch(port, "GET", "/v1/overview").body)["rules"]["rows"]
            return {row["rule"]: row for row in found}

        browser.open(f"http://127.0.0.1:{port}/")
        live(browser)
        with Tenants(gateway.port) as tenants:
            browser.until_text("units/s", ".rows tbody", 60)
            wait_for(lambda: tenants.told["owed"] and tenants.told["refunded"] and tenants.told[429] > 60, "debts, refunds "
                     "and refusals", 120)
            wait_for(lambda: tenants.told[200] > 220, "a minute of traffic", 120)
            browser.size(1280, 920)
            browser.shot(SHOTS / "overview-costs.png")
            browser.js(f"location.hash = '#/rule/{rows()[units]['slot']}'")
            browser.until_text("Units per second")
            browser.shot(SHOTS / "rule-costs.png", full=True)
            tenants.stop()
        told = tenants.told
        reserved = RESERVED * told[200]
        wait_for(lambda: rows()[units]["cost"]["settled"] == told[200], "the last response to be settled")
        wanted = {"reserved": reserved, "actual": told["actual"], "refunded": told["refunded"], "owed": told["owed"],
                  "settled": told[200], "lost": 0, "defaulted": told["defaulted"], "clamped": 0, "slots_in_use": None}
        held = {**dict.fromkeys(wanted, 0), "reserved": told[200], "refunded": told[200], "settled": told[200]}
        assert reserved - told["refunded"] + told["owed"] == told["actual"], "the sums of the test itself"
        assert set(told) <= {200, 429, "defaulted", "actual", "refunded", "owed"}

        def without_rates(cost):
            return {name: value for name, value in cost.items() if name in wanted}

        shown = rows()
        assert without_rates(shown[units]["cost"]) == wanted
        assert [without_rates(shown[rule]["cost"]) for rule in slots] == [held] * 2
        top = subprocess.run([WEIR, "top", "--json", "--table", gateway.table], capture_output=True, timeout=60, check=True,
                             env=for_weir()).stdout
        listed = {rule["rule"]: rule for rule in json.loads(top)["rules"]}
        assert without_rates(listed[units]["cost"]) == wanted
        assert [without_rates(listed[rule]["cost"]) for rule in slots] == [held] * 2
        metrics = Metrics(port)
        labels = {"domain": "llm", "rule": units, "algorithm": "token_bucket"}
        names = {"reserved": "cost_reserved_units", "actual": "cost_actual_units", "refunded": "cost_refunded_units",
                 "owed": "cost_debt_units", "lost": "cost_lost_units", "defaulted": "cost_defaulted", "settled": "settled"}
        assert {n: metrics.value(f"weir_{name}_total", **labels) for n, name in names.items()} == {n: wanted[n] for n in names}
        # The history ends with the last whole second.
        slot = shown[units]["slot"]

        def sums():
            history = json.loads(fetch(port, "GET", f"/v1/rule?slot={slot}").body)["cost"]["history"]
            return {n: sum(value or 0 for value in history[n]) for n in ("reserved", "actual", "refunded", "owed")}

        wait_for(lambda: sums() == {n: wanted[n] for n in sums()}, "the history to have all units")
        browser.until_text(f"In this period {reserved:,} units were reserved, {told['actual']:,} used, {told['refunded']:,} "
                           f"refunded and {told['owed']:,} charged as debt.", "section[aria-labelledby=costs] figcaption")
        assert browser.noise() == []


# ---- find, ban, grant ----

@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
@pytest.mark.seconds(240)
def test_offender_is_found_banned_and_released(browser, crowded):
    """The page leads from the refused curve to the user above the limit, who is then banned and released."""
    browser.open(crowded.admin + "/")
    live(browser)
    browser.until_text("api/user/1m", ".rows tbody")
    crowded.let_loose()
    # The refused curve rises: the count of the last minute in its caption grows until that minute is full.
    refused = ("Number(/and ([\\d,]+) refused/.exec(document.querySelector('figcaption').textContent)?.[1]"
               ".replaceAll(',', '') ?? 0)")
    browser.until(f"{refused} > 20", "the refused curve to rise", 60)
    first = browser.js(refused)
    browser.until(f"{refused} > {first}", "the refused curve to rise further")
    browser.select("#by", "refused")
    browser.until("document.querySelector('.rows tbody th a')?.textContent === 'api/user/1m'", "the order")
    browser.until_text("mallory", ".rows tbody tr")
    browser.click(".rows tbody th a")
    browser.until_text("api/user/1m", "h1")
    browser.until_text("Most refused keys")
    browser.click("a:has-text('mallory') >> nth=0")
    browser.until_text("State in every limit")
    assert browser.js("document.querySelector('input[name=k]').value") == "user"
    assert browser.js("document.querySelector('[name=source]:checked').parentElement.innerText").strip() == "header.x-user-id"
    browser.click("text=Ban…")
    browser.fill("dialog #for", "1h")
    browser.shot(SHOTS / "ban.png")
    browser.click("dialog button.danger")
    browser.until_text("banned until", ".counters")
    browser.until_text("ban api user=mallory for 3600 s")
    assert statuses(crowded, "mallory") == {429}
    browser.click("text=Reset…")
    browser.click("dialog button:has-text('Reset')")
    browser.until_text("reset api user=mallory")
    assert statuses(crowded, "mallory") == {429}, "a ban outlives a reset"
    browser.click("text=Lift the ban…")
    browser.click("dialog button:has-text('Lift')")
    browser.until("!document.querySelector('.counters').innerText.includes('banned')", "the ban to be lifted")
    browser.shot(SHOTS / "key.png", full=True)
    browser.click("text=Reset…")
    browser.click("dialog button:has-text('Reset')")
    wait_for(lambda: 200 in statuses(crowded, "mallory", 1), "mallory to be admitted", 70)  # or in the next minute
    assert browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_grant_adds_units_and_cancel_adds_none(browser, crowded):
    """A grant is shown with its units. A cancelled dialog changes nothing."""
    browser.open(crowded.admin + "/#/key?domain=api&k=user&v=user-1")
    browser.until_text("State in every limit")
    browser.click("text=Grant more…")
    browser.fill("dialog #extra", "7")
    browser.click("dialog button.primary")
    browser.until_text("7 more granted", ".counters")
    browser.until_text("of 127 left", ".counters")
    browser.click("text=End the grant…")
    browser.click("dialog button.quiet")  # the dialog is cancelled
    browser.click("text=End the grant…")
    browser.click("dialog button.primary")
    browser.until("!document.querySelector('.counters').innerText.includes('granted')", "the grant to end")
    assert browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_candidate_limits_are_drawn_over_the_traffic(browser, crowded):
    """The page of a rule shows a curve and a text for each candidate, and the curves can be hidden."""
    crowded.let_loose()
    rows = wait_for(lambda: json.loads(fetch(crowded.admin_port, "GET", "/v1/overview?filter=api/user").body)["rules"]["rows"],
                    "the rule to be there")
    slot = rows[0]["slot"]
    browser.open(f"{crowded.admin}/#/rule/{slot}")
    live(browser)
    browser.until_text("would refuse", ".u-legend")
    browser.until_text("token bucket, burst 400", ".overlays")
    browser.until_text("fewer refusals")
    browser.until_text("limit of one key", ".u-legend")
    browser.until("document.querySelectorAll('.u-series').length === 6", "a curve for each")
    browser.click(".overlays label >> nth=0")
    browser.until("document.querySelectorAll('.u-series.u-off').length === 1", "one candidate to be hidden")
    browser.click(".overlays label >> nth=0")
    browser.select("#span", "minutes")
    browser.until_text("Requests per minute", "#traffic")
    browser.until_text("api/user/1m", "h1")
    browser.select("#span", "seconds")
    live(browser)
    browser.shot(SHOTS / "rule.png", full=True)
    assert browser.axe() == []
    assert browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_broken_rule_file_is_reported_until_it_is_fixed(browser, crowded):
    """The page marks the line of the error, and reports a missing file."""
    browser.open(crowded.admin + "/#/rules")
    browser.until_text("generation 1")
    browser.until("document.querySelectorAll('.y-name').length > 10 && document.querySelector('.y-comment')", "colours")
    broken = RULES.replace("unit: day", "unit: dya")
    crowded.rules.write_text(broken, encoding="utf-8")
    browser.until_text("The file has 1 error; generation 1 stays in force.")
    line = broken[:broken.index("dya")].count("\n") + 1
    browser.until(f"document.querySelector('.line[data-mark=error]')?.dataset.line === '{line}'", "the error at its line")
    assert "dya" in browser.text(".line[data-mark=error]")
    browser.shot(SHOTS / "rules-error.png")
    browser.goto(crowded.admin + "/#/")
    browser.until_text("not loaded", ".tiles")
    browser.goto(crowded.admin + "/#/rules")
    crowded.rules.unlink()
    browser.until_text(f"{crowded.rules}: cannot read this path: No such file or directory; "
                       "check the path and its permissions", ".note.bad")
    crowded.rules.write_text(RULES, encoding="utf-8")
    browser.until("!document.querySelector('.line[data-mark=error]') && !document.querySelector('.note.bad')", "the rules to be fixed")
    assert browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_try_page_decides_a_request(browser, crowded):
    """"Try a request" shows the descriptors and limits of a request, and reports invalid input."""
    browser.open(crowded.admin + "/#/rules")
    browser.until_text("generation")
    browser.fill("#line", "POST /v1/accounts")
    browser.fill("#headers", "x-user-id: 7\n")
    browser.fill("#address", "192.0.2.7")
    browser.click("text=Try request")
    browser.until_text("signup_address=192.0.2.7", ".try")
    output = browser.text(".try")
    assert "user=7" in output and "10 per day" in output and "120 per minute" in output
    browser.click(".try button.link >> nth=1")
    browser.until("document.activeElement.classList.contains('listing')", "the line to be shown")
    browser.fill("#address", "nowhere")
    browser.click("text=Try request")
    browser.until_text("this is not an IP address such as 192.0.2.7 or 2001:db8::7", ".try")
    browser.shot(SHOTS / "rules.png")
    assert browser.axe() == [] and browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_fleet_page(browser, crowded):
    """The page lists the processes on the table, without Redis."""
    browser.open(crowded.admin + "/#/fleet")
    live(browser)
    browser.until_text("nginx", ".rows tbody")
    browser.until_text("No central store")
    browser.shot(SHOTS / "fleet.png", full=True)
    assert browser.axe() == [] and browser.noise() == []


LEASED = """
domain: api
descriptors:
  - {key: five, rate_limit: {unit: week, requests_per_unit: 5, on_store_failure: deny}}
  - {key: many, rate_limit: {unit: year, requests_per_unit: 100000000, consistency: lease}}
"""


@full("needs Redis")
def test_fleet_page_shows_leases(browser):
    """With Redis the page shows the nodes and the lease counts, which match the metrics."""
    with Redis() as store, Node(store.url(), LEASED, timeout="20s") as node:
        node.wait_up(30)
        assert all(node.verdicts("many", "x", times=200))
        browser.open(f"http://127.0.0.1:{node.admin_port}/#/fleet")
        live(browser)
        browser.until_text("Nodes of the fleet")
        browser.until_text("Leases held")

        def units():
            """The page shows the lease counts. Units that a stopped service could not return in time are burnt."""
            metrics = Metrics(node.admin_port)
            names = ("granted", "spent", "returned", "burnt")
            granted, spent, returned, burnt = (int(metrics.value(f"weir_lease_units_{name}_total")) for name in names)
            return granted == spent + returned + burnt and (
                f"{granted:,} units: {spent:,} spent, {returned:,} returned, {burnt:,} expired")

        wait_for(lambda: (output := units()) and output in browser.text(), "all leased units to be accounted for")
        assert browser.axe() == [] and browser.noise() == []


@full("needs a queue with deliveries")
def test_queue_page(browser, crowded):
    """The page lists deferred requests by state and retries or drops them."""
    browser.open(crowded.admin + "/#/queue")
    live(browser)
    browser.until_text("This service has no queue")
    assert browser.axe() == [] and browser.noise() == []
    with Orders() as api, QueueServer(api) as counter:
        api.plan("/orders/bad", 500)
        counter.defer("/orders/bad/1?<b>=1", value="bad", max_tries=1)
        for number in range(60):
            counter.defer(f"/orders/shut/{number}", key="shut")
        browser.open(f"http://127.0.0.1:{counter.serve.admin_port}/#/queue")
        live(browser)
        browser.until_text("/orders/shut/0", ".rows tbody")  # waiting requests come before finished ones
        browser.select("#state", "")
        browser.until_text("/orders/bad/1?<b>=1", ".rows tbody")
        browser.until_text("dead", ".rows tbody")
        browser.until("document.querySelectorAll('.tile strong')[0].textContent === '60'", "the waiting ones to be counted")
        browser.until("document.querySelectorAll('.tile strong')[3].textContent === '1'", "the dead one to be counted")
        browser.click("text=More")
        browser.until_text("/orders/shut/59", ".rows tbody")
        browser.click("text=Back")
        browser.until_text("/orders/bad/1", ".rows tbody")
        browser.select("#state", "dead")
        browser.until("document.querySelectorAll('.rows tbody tr').length === 1", "the dead letters alone")
        browser.shot(SHOTS / "queue.png", full=True)
        assert browser.axe() == []
        api.plan("/orders/bad")
        browser.click(".rows button:has-text('retry now')")
        browser.click("dialog button.primary")
        browser.until_text("Done.", ".result")
        api.wait_seen(2, "/orders/bad/")
        # A response that arrives after another list was chosen is not shown.
        browser.js("""{ const ask = fetch; window.held = 0; window.fetch = async (path, ...more) => {
                   const answer = await ask(path, ...more);
                   if (String(path).includes('state=dead')) { held++; await new Promise((go) => addEventListener('go', go)); }
                   return answer; }; null }""")
        browser.until("held > 0", "the dead letters to be asked for")
        browser.select("#state", "waiting")
        browser.until_text("/orders/shut/7", ".rows tbody")
        browser.js("new Promise((done) => { dispatchEvent(new Event('go')); setTimeout(() => done(null), 300); })")
        assert "/orders/shut/7" in browser.text(".rows tbody")
        # Rows are rebuilt every two seconds. The keyboard focus stays on its row.
        browser.js("{ window.old = document.querySelector('.rows [data-at^=drop]'); old.focus(); null }")
        browser.until("!old.isConnected", "the rows to be made again")
        assert browser.js("document.activeElement.dataset.at === old.dataset.at")
        browser.click(".rows button:has-text('drop') >> nth=0")
        browser.click("dialog button.danger")
        browser.until("document.querySelectorAll('.tile strong')[0].textContent === '59'", "one fewer waiting request")
        browser.size(360, 740)
        browser.until("document.documentElement.scrollWidth <= 360", "no page wider than a phone")
        assert browser.axe() == [] and browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_numbers_and_labels_match_their_subject(browser):
    """Each number or label that could belong to another subject is checked beside its opposite."""
    gone = "  - key: gone\n    rate_limit: {unit: hour, requests_per_unit: 5}\n"
    rules = ("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1000000}\n"
             "  - key: shady\n    shadow_mode: true\n    rate_limit: {unit: hour, requests_per_unit: 5}\n")
    with Serve(rules=rules + gone, http=True, admin=True) as serve:
        url = f"http://127.0.0.1:{serve.admin_port}"

        def ask(key, *values):
            body = [{"domain": "api", "descriptors": [{"entries": [{"key": key, "value": v}]}]} for v in values]
            assert fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode()).status == 200

        def order(path, **body):
            assert fetch(serve.admin_port, "POST", path, {"Content-Type": "application/json"}, json.dumps(body).encode()).status == 200

        def row(name):
            ask("user", *["heavy"] * 100)
            ask("shady", *"abcde" * 4)
            ask("gone", "x")
            return json.loads(fetch(serve.admin_port, "GET", f"/v1/overview?filter={name}").body)["rules"]["rows"][0]

        wait_for(lambda: (row("user")["busiest"] or {}).get("text") == "heavy" and row("shady")["shadowed"], "keys to be watched")
        # A key with many requests is distinguished from keys that came once and only took over its count.
        for hundred in range(4):
            ask("user", *[f"light-{hundred}-{i}" for i in range(100)])
        browser.open(f"{url}/#/rule/{row('user')['slot']}")
        browser.until_text("No other key stands out so far.")
        assert "heavy" in browser.text() and "light-" not in browser.text()
        # A refusal by a rule in shadow mode is not counted as refused.
        browser.goto(f"{url}/#/rule/{row('shady')['slot']}")
        browser.until_text("would be refused", ".u-legend")
        browser.goto(url + "/#/")
        browser.until_text("would be refused", ".tiles")
        words = "import('/ui/dom.js').then((m) => m.denied({{refused: {0}, deferred: {1}, shadowed: {2}}}))"
        assert browser.js(words.format(0, 3, 0)) == "deferred"
        assert browser.js(words.format(1, 3, 2)) == "refused, deferred or would be refused"
        # Decisions are not requests. A removed rule still has counts, but is marked as not in force.
        assert "Decisions per second" in browser.text()
        assert "not in force" not in browser.text(".rows")
        loaded = row("gone")["loaded_at"]
        wait_for(lambda: wall_ns() > (loaded + 2) * 10**9, "a while to pass")
        serve.write_rules(rules)
        browser.until("[...document.querySelectorAll('.rows tbody tr')].filter((r) => r.innerText.includes('not in force here'))"
                      ".map((r) => r.querySelector('a').textContent).join() === 'api/gone/1h'", "the rule to be marked")
        # A missing object and an unreachable service have different messages.
        for nowhere, why in (("99999", "there is no such rule"), ("x", "?slot= has to be a number")):
            browser.open(f"{url}/#/rule/{nowhere}")
            browser.until_text(f"This page cannot be shown: {why}", "#lost")
        browser.open(url + "/")
        live(browser)
        browser.fill("#filter", "ü" * 60)
        browser.until_text("No rule matches this name.")
        live(browser)
        # Overrides in force beside the rules: pauses, bans, grants.
        order("/v1/pause", rule="api/user")
        browser.goto(url + "/#/rules")
        browser.until_text("Paused and not enforced: api/user.")
        order("/v1/resume", rule="api/user")
        browser.until("!document.querySelector('main').innerText.includes('Paused')", "the pause to end")
        order("/v1/key/ban", domain="api", entries=[{"key": "user", "value": "<b>"}], **{"for": "1h"})
        order("/v1/key/grant", domain="api", entries=[{"key": "user", "value": "7"}], extra=12, **{"for": "ever"})
        browser.open(url + "/#/key")
        browser.until_text("api|user=<b> banned until")
        browser.until_text("api|user=7 12 more granted permanently")
        browser.until("document.querySelector('#domain').value === 'api' && document.activeElement.name === 'k'", "the domain to be proposed")
        assert browser.js("[...document.querySelectorAll('#keys option')].map((o) => o.value).join()") == "user,shady"
        assert browser.axe() == [] and browser.noise() == []


def test_bans_are_shown_and_released(browser):
    """The page Key lists an automatic ban with its rule and its level, and releases it."""
    rules = ("domain: api\nrequests:\n  - descriptor: [{key: ip, from: remote_address}]\ndescriptors:\n  - key: ip\n"
             "    rate_limit: {unit: year, requests_per_unit: 1, ban: {after: 1, within: 1m, for: 1h}}\n")
    with Serve(rules=rules, http=True, admin=True) as serve:
        body = [{"domain": "api", "descriptors": [{"entries": [{"key": "ip", "value": "192.0.2.7"}]}]}] * 2
        fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode())
        browser.open(f"http://127.0.0.1:{serve.admin_port}/#/key")
        live(browser)
        browser.until_text("api|ip=192.0.2.7", "#bans tbody")
        browser.until_text("automatic, ban 1 within a day", "#bans tbody")
        browser.until_text("weir shield does not run on this table.", "#bans")
        assert browser.axe() == []
        browser.click("text=Release…")
        browser.until_text("192.0.2.7", "dialog")
        browser.click("dialog button[type=submit]")
        browser.until_text("1 ban released.", "#bans .result")
        browser.until("document.querySelectorAll('#bans tbody tr').length === 0", "the ban to go")
        assert browser.noise() == []


@needs("root", "namespaces", "nft")
def test_state_of_the_shield_is_shown(browser):
    """The page Key shows what weir shield carries. It marks a ban that weir shield carries, one that only weir shield
    reads, and one whose key is hostile text."""
    rules = ("domain: api\nrequests:\n  - descriptor: [{key: ip, from: remote_address}]\ndescriptors:\n  - key: ip\n"
             "    rate_limit: {unit: year, requests_per_unit: 1, ban: {after: 1, within: 1m, for: 1h, shield: true}}\n"
             "  - key: user\n    rate_limit: {unit: year, requests_per_unit: 9}\n")
    with Serve(rules=rules, http=True, admin=True) as serve, Machines() as machines, \
            Shield(machines.server, table=serve.table) as shield:
        body = [{"domain": "api", "descriptors": [{"entries": [{"key": "ip", "value": machines.client.address}]}]}] * 2
        fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode())
        machines.wait_dropped(shield)
        shield.add("2001:db8:7::/48", "7d")
        shield.add("198.51.100.7", "ever")
        shield.add("127.0.0.0/8", "1h")  # protected
        body = {"domain": "api", "entries": [{"key": "user", "value": OFFENDER}], "for": "1h"}
        assert fetch(serve.admin_port, "POST", "/v1/bans", JSON, json.dumps(body).encode()).status == 200
        shield.wait_state(elements_v4=2, prefixes=1, skipped=1)
        browser.open(f"http://127.0.0.1:{serve.admin_port}/#/key")
        live(browser)
        browser.until_text("weir shield: 3 addresses and networks in the kernel, ", "#bans")
        browser.until_text("dropped, 1 ban skipped, because the address is protected or the rule suspended.", "#bans")
        assert re.search(r" kernel, [1-9][0-9]* packets? \([1-9].*\) dropped", browser.text("#bans"))
        rows = {cells[0]: cells for cells in browser.js(
            "[...document.querySelectorAll('#bans tbody tr')].map((tr) => [...tr.cells].map((td) => td.innerText))")}
        assert rows[f"api|ip={machines.client.address}"][1:3] == [
            "api/ip/365d", "automatic, ban 1 within a day, also by weir shield"]
        assert rows["2001:db8:7::/48"][2] == rows["198.51.100.7"][2] == "operator, only in weir shield"
        assert rows["198.51.100.7"][4] == "permanently"
        assert rows[f"api|user={OFFENDER}"][2] == "operator"
        assert len(rows) == 5
        assert browser.axe() == []
        browser.shot(SHOTS / "bans-shield.png", full=True)
        browser.size(360, 740)
        browser.until("document.documentElement.scrollWidth <= 360", "no page wider than a phone")
        browser.shot(SHOTS / "phone-bans-shield.png", full=True)
        assert browser.noise() == []
        shield.stop()
        browser.until_text("weir shield does not run on this table.", "#bans")
        shield.start()


# ---- appearance and accessibility ----

@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
@pytest.mark.parametrize("scheme, ground", [("light", "rgb(245, 247, 249)"), ("dark", "rgb(16, 23, 29)")])
def test_page_in_light_dark_and_narrow_windows(browser, crowded, scheme, ground):
    """The page follows the colour scheme of the system, fits a width of 360 pixels, and has no accessibility
    faults."""
    browser.open(crowded.admin + "/", colorScheme=scheme)
    live(browser)
    browser.until_text("api/user/1m", ".rows tbody")
    assert browser.js("getComputedStyle(document.body).backgroundColor") == ground
    browser.shot(SHOTS / ("overview.png" if scheme == "light" else "overview-dark.png"))
    assert browser.axe() == []
    browser.size(360, 740)
    browser.until("document.documentElement.scrollWidth <= 360", "no page wider than a phone")
    browser.shot(SHOTS / f"phone-{scheme}.png")
    for page in ("key?domain=api&k=user&v=mallory", "rules", "fleet"):
        browser.goto(f"{crowded.admin}/#/{page}")
        live(browser)
        browser.until("document.documentElement.scrollWidth <= 360", f"{page} to fit")
        assert browser.axe() == [], page
    browser.shot(SHOTS / f"phone-fleet-{scheme}.png")
    browser.click("#theme")  # light
    browser.click("#theme")  # dark, whatever the system setting is
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(16, 23, 29)"
    assert browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_page_can_be_used_with_the_keyboard_only(browser, crowded):
    """A key is banned and released with Tab, Enter and Escape only. The focus is always visible."""
    browser.open(crowded.admin + "/#/key?domain=api&k=user&v=user-2")
    browser.until_text("State in every limit")
    browser.until_text("Ban…")

    def tab_to(name):
        for _ in range(60):
            browser.press("Tab")
            if browser.js("document.activeElement.textContent.trim() || document.activeElement.id") == name:
                assert browser.js("getComputedStyle(document.activeElement).outlineStyle") != "none", name
                return
        raise AssertionError(f"Tab does not come to {name!r}")

    tab_to("Ban…")
    browser.press("Enter")
    browser.until("document.querySelector('dialog')?.contains(document.activeElement)", "the question to have the focus")
    browser.press("Escape")
    browser.until("!document.querySelector('dialog')", "Escape to leave it")
    browser.press("Enter")
    browser.until("document.activeElement.id === 'for'", "the field")
    browser.press("Control+a")
    browser.type("10m")
    browser.press("Enter")
    browser.until_text("banned until", ".counters")
    browser.until("document.activeElement.textContent === 'Lift the ban…'", "the focus to be where it was")
    browser.press("Enter")
    browser.until("document.querySelector('dialog')?.contains(document.activeElement)", "the question to have the focus")
    browser.press("Tab", "Enter")
    browser.until("!document.querySelector('.counters').innerText.includes('banned')", "the ban to be lifted")
    tab_to("Fleet")
    browser.press("Enter")
    browser.until_text("Processes that decide")
    assert browser.noise() == []


@full("a connection is lost and restored")
@pytest.mark.seconds(240)
def test_page_reports_a_lost_service_and_recovers(browser):
    """The page reports a lost network and a stopped service, reconnects, and can then make changes."""
    rules = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
    serve = Serve(rules=rules, admin=True, args=["--admin-token-file", "{folder}/tokens"], start=False)
    with serve:
        sign_in_file(serve, "ann:0123456789abcdef-of-ann\n")
        serve.start()
        browser.open(f"http://127.0.0.1:{serve.admin_port}/#token=0123456789abcdef-of-ann")
        live(browser)
        state = "document.getElementById('live').dataset.state"

        def lost_and_back(lose, mend):
            lose()
            browser.until(f"{state} === 'lost'", "the loss to be said", 40)
            assert "No connection to the service" in browser.text("#lost")
            mend()
            browser.until(f"{state} === 'live' && document.getElementById('lost').hidden", "the page to reconnect", 40)

        lost_and_back(lambda: browser.offline(True), lambda: browser.offline(False))
        lost_and_back(serve.stop, serve.start)
        # The restarted service has another page token. A change fetches it first.
        browser.goto(f"http://127.0.0.1:{serve.admin_port}/#/key?domain=api&k=user&v=7")
        browser.until_text("State in every limit")
        browser.click("text=Ban…")
        browser.click("dialog button.danger")
        browser.until_text("banned until", ".counters")


# ---- hostile ----

HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\x1b[31mred\x07\x00\x9b", "\u202egnp.exe",
           "'\"><svg/onload=alert(3)>", "k" * 10000]


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_hostile_keys_are_shown_as_text(browser):
    """Keys and rules with HTML or control characters are shown as text."""
    rules = """
    domain: api
    descriptors:
      - key: user
        rate_limit: {unit: year, requests_per_unit: 1}
      - key: "<b>rule</b>"
        rate_limit: {unit: year, requests_per_unit: 1}
    """
    with Serve(rules=rules, http=True, admin=True) as serve:
        url = f"http://127.0.0.1:{serve.admin_port}"

        def ask():
            for value in HOSTILE:
                body = {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": value}]}]}
                fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode())
            return json.loads(fetch(serve.admin_port, "GET", "/v1/overview").body)["rules"]["rows"]

        wait_for(lambda: any((r["most_refused"] or {}).get("text") for r in ask()), "keys to be watched")
        for _ in range(3):
            rows = ask()
        slot = next(r["slot"] for r in rows if r["rule"] == "api/user/365d")
        browser.open(url + "/")
        live(browser)
        browser.until_text("<b>rule", ".rows tbody")
        browser.goto(f"{url}/#/rule/{slot}")
        browser.until_text("<script>alert(1)</script>")
        browser.until_text("<img src=x onerror=alert(2)>")
        output = browser.text()
        assert "\x1b" not in output and "\u241b[31mred" in output and "\u202e" not in output and "⟨202E⟩" in output
        assert not browser.js("[...document.querySelectorAll('main img, main script, main svg')].length")
        browser.click("a:has-text('<script>') >> nth=0")
        browser.until_text("State in every limit")
        browser.click("text=Ban…")
        browser.click("dialog button.danger")
        browser.until_text("banned until", ".counters")
        browser.until_text("ban api user=<script>alert(1)</script>")
        browser.fill("[name=v]", HOSTILE[-1])
        browser.click("text=Look up")
        browser.until_text("Refused: all 1 per", ".counters")
        browser.goto(url + "/#/fleet")
        browser.until_text("user=<script>alert(1)</script>")
        assert browser.noise() == []


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_forged_requests_and_framing_are_refused(browser):
    """A page of another origin can neither change anything nor show the dashboard in a frame."""
    rules = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
    with Serve(rules=rules, http=True, admin=True) as serve:
        url = f"http://127.0.0.1:{serve.admin_port}"
        # Another origin of the same machine: the decision port serves a page that is not the dashboard.
        browser.open(f"http://127.0.0.1:{serve.http_port}/healthz", origin="")
        attack = f"""(async () => {{
            const body = JSON.stringify({{domain: 'api', entries: [{{key: 'user', value: '7'}}], for: '1h'}});
            const tries = [{{}}, {{'Content-Type': 'application/json'}}, {{'Content-Type': 'text/plain'}}, {{'X-Weir-Page': 'x'}}];
            const out = [];
            for (const headers of tries)
              out.push(await fetch('{url}/v1/key/ban', {{method: 'POST', headers, body}}).then((r) => r.status, () => 'failed'));
            out.push(await fetch('{url}/v1/key/ban', {{method: 'POST', mode: 'no-cors', body}}).then((r) => r.type, () => 'failed'));
            out.push(await fetch('{url}/v1/session').then((r) => r.text(), () => 'failed'));
            return out;
        }})()"""
        assert browser.js(attack) == ["failed"] * 4 + ["opaque", "failed"]
        browser.js(f"(() => {{ const f = document.createElement('iframe'); f.src = '{url}/'; f.id = 'f'; document.body.append(f);"
                   " return new Promise((r) => f.onload = () => r(null)); })()")
        assert browser.frame(1, "document.querySelector('nav') === null && !document.body?.innerText.includes('Overview')")
        overrides = json.loads(fetch(serve.admin_port, "GET", "/v1/overrides").body)["overrides"]
        assert overrides == []
        # A form of another site, sent as browsers send it.
        browser.js(f"(() => {{ const f = document.createElement('form'); f.method = 'post'; f.enctype = 'text/plain'; f.action = '{url}/v1/pause';"
                   " document.body.append(f); f.submit(); })()")
        browser.until("!document.body || document.body.innerText.includes('requests from web pages of other sites are refused')", "the form to be turned away")
        assert json.loads(fetch(serve.admin_port, "GET", "/v1/paused").body) == {"paused": []}


def test_page_of_another_origin_cannot_spend_limits(browser):
    """A page of another origin makes the browser send requests to the decision port, with and without --refunds. No
    unit is spent."""
    rules = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 5}\n"
    with Serve(rules=rules, http=True, args=["--refunds", "127.0.0.1"]) as serve, Serve(rules=rules, http=True) as other:
        url = f"http://127.0.0.1:{serve.http_port}"
        browser.open(f"http://127.0.0.1:{other.http_port}/healthz", origin="")
        attack = f"""(async () => {{
            const body = (hits) => JSON.stringify({{domain: 'api', hits, descriptors: [{{entries: [{{key: 'user', value: '7'}}]}}]}});
            const types = [undefined, 'text/plain', 'application/json', 'application/x-www-form-urlencoded'];
            for (const path of ['/v1/check', '/json', '/check/api'])
              for (const mode of ['cors', 'no-cors'])
                for (const type of types)
                  for (const hits of [1, -5]) {{
                    const body_of = type ? body(hits) : new Blob([body(hits)]);
                    const headers = type ? {{'Content-Type': type}} : {{}};
                    await fetch('{url}' + path, {{method: 'POST', mode, headers, body: body_of}}).catch(() => null);
                  }}
            await fetch('{url}/check/api', {{headers: {{'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/'}}}}).catch(() => null);
            return 'done';
        }})()"""
        assert browser.js(attack) == "done"
        asked = {"domain": "api", "hits": 2, "descriptors": [{"entries": [{"key": "user", "value": "7"}]}]}
        reported = json.loads(fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps(asked).encode()).body)
        assert reported["remaining"] == 3
        assert browser.js(attack) == "done"
        reported = json.loads(fetch(serve.http_port, "POST", "/v1/check", JSON, json.dumps({**asked, "hits": 0}).encode()).body)
        assert reported["remaining"] == 3


def sign_in_file(serve, text):
    """Writes the service's file of admin tokens."""
    path = serve.folder / "tokens"
    path.write_text(text, encoding="ascii")
    path.chmod(0o600)


def test_printed_address_signs_in_and_its_token_is_removed(browser):
    """The token in the printed address signs in and is removed from the address. A restarted service has another
    token."""
    rules = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
    with Serve(rules=rules, admin=True) as serve:
        [first] = re.findall(r"dashboard at (\S+)", serve.log())
        base, token = first.split("#token=")
        browser.open(first)
        live(browser)
        assert browser.js("location.href") == base + "#/"
        assert browser.js("history.length") <= 2 and token not in browser.js("document.documentElement.outerHTML")
        assert browser.js("document.cookie") == ""
        assert browser.js("fetch('/v1/status').then((r) => r.status)") == 401  # no page is shown without a token
        browser.click("nav a[data-page='rules']")
        browser.until_text("rules.yaml")
        serve.stop()
        serve.start()
        browser.until_text("Sign in", "h1")
        _, second = re.findall(r"dashboard at (\S+)", serve.log())
        browser.goto(first)  # in the open tab only the fragment changes
        browser.until_text("was restarted")
        browser.goto(second)
        live(browser)
        assert browser.js("location.href") == base + "#/"


@full("test_overview_updates_and_an_offender_is_banned_and_released runs in every tier")
def test_sign_in_with_a_token(browser):
    """Without a token the page asks for one. It refuses a wrong token and then shows the requested page."""
    token = "0123456789abcdef-of-ann"
    rules = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"
    serve = Serve(rules=rules, admin=True, args=["--admin-token-file", "{folder}/tokens"], start=False)
    with serve:
        sign_in_file(serve, f"ann:{token}\n")
        serve.start()
        browser.open(f"http://127.0.0.1:{serve.admin_port}/#/key?domain=api&k=user&v=7")
        browser.until_text("Sign in", "h1")
        assert browser.axe() == []
        browser.fill("#token", "0123456789abcdef-of-bob")
        browser.press("Enter")
        browser.until_text("This token is not valid.")
        browser.fill("#token", token)
        browser.press("Enter")
        browser.until_text("State in every limit")
        browser.click("text=Ban…")
        browser.click("dialog button.danger")
        browser.until_text("by 127.0.0.1, token ann")
        browser.click("text=Sign out")
        browser.until_text("Sign in", "h1")
        assert browser.js("sessionStorage.length") == 0
        assert browser.noise() == []


# ---- many rules and keys ----

def many_keys(serve, keys, rules, at_once=2500):
    """Creates this many keys, spread over the rules, with 25 descriptors in each request."""
    with Client(serve.http_port) as client:
        for start in range(0, keys, at_once):
            questions = [{"domain": "api", "hits": 1, "descriptors": [
                {"entries": [{"key": f"rule{k % rules:04}", "value": f"customer-{k}"}]} for k in range(first, first + 25)]}
                for first in range(start, start + at_once, 25)]
            answer = client.request("POST", "/v1/check", JSON, json.dumps(questions).encode())
            assert answer.status == 200, answer.body


@full("a hundred thousand keys")
@pytest.mark.seconds(180)
def test_first_view_of_five_thousand_rules_is_one_page(browser):
    """The first view loads one page of rules, whatever their number. The test prints the times but does not check
    them."""
    rules = 5000
    names = "".join(f"  - key: rule{i:04}\n    rate_limit: {{unit: hour, requests_per_unit: 5}}\n" for i in range(rules))
    with Serve(rules="domain: api\ndescriptors:\n" + names, http=True, admin=True, memory="64M") as serve:
        many_keys(serve, 100000, rules)
        browser.open(f"http://127.0.0.1:{serve.admin_port}/")
        browser.until("document.querySelectorAll('.rows tbody tr').length === 50", "a page of rules")
        live(browser)
        assert "of 5,000" in browser.text(".pager") and browser.js("document.querySelectorAll('*').length") < 3000
        # A result of a table scan is reused for a while, longer if the scan took longer.
        wait_for(lambda: json.loads(fetch(serve.admin_port, "GET", "/v1/status").body)["table"]["keys"] == 100000, "all keys to be counted", 40)
        first = browser.js("performance.getEntriesByName('weir-first-view')[0].startTime")
        browser.js("""{ window.slow = []; new PerformanceObserver((l) => l.getEntries().forEach((e) => slow.push(e.duration)))
                   .observe({type: 'longtask'}); null }""")
        browser.click("text=Next")
        browser.until_text("51 to 100 of 5,000", ".pager")
        browser.fill("#filter", "rule4321")
        browser.until("document.querySelectorAll('.rows tbody tr').length === 1", "one rule")
        browser.js("location.hash = '#/rules'")
        browser.until("document.querySelectorAll('.line').length > 10", "lines")
        assert browser.js("document.querySelectorAll('.line').length") < 200
        browser.js("document.querySelector('.listing').scrollTop = 1e6")
        browser.until_text("rule4999", ".listing")
        print(f"first view after {first:.0f} ms; tasks above 50 ms while turning pages: {browser.js('slow')}")
        assert browser.noise() == []
