"""weir tune: its text, JSON, page and rules on a log that examples/tuning makes, and on small logs made here. The
proposed rules are checked and replayed on the same log."""

import gzip
import json
import re
import subprocess
import sys

import pytest
import yaml

from weirtest import ROOT, WEIR

START = 1772366400  # 2026-03-01 12:00 UTC
MAKER = ROOT / "examples/tuning/make_log.py"


def weir(*args, code=0, stdin=None):
    """Runs a command of weir that must exit with `code`. Returns its output and errors."""
    done = subprocess.run([WEIR, *map(str, args)], capture_output=True, timeout=120, check=False, text=True, input=stdin)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def tune(*args):
    return json.loads(weir("tune", *args, "--json")[0])


def line(client, second, request, status=200, agent="-", user="-"):
    stamp = f"01/Mar/2026:{12 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d} +0000"
    return f'{client} - {user} [{stamp}] "{request} HTTP/1.1" {status} 10 "-" "{agent}"\n'


@pytest.fixture(scope="module", name="shop")
def make_shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "shop.log"
    with path.open("w", encoding="utf-8") as log:
        subprocess.run([sys.executable, MAKER], stdout=log, check=True, timeout=60)
    return path


@pytest.fixture(scope="module", name="result")
def tune_shop(shop):
    return tune(shop)


def route(result, text):
    return next(one for one in result["routes"] if one["route"] == text)


# ---- the log of the example ----


def test_numbers_of_the_log(result):
    assert result["log"]["requests"] == 56540 and result["log"]["unreadable"] == 0
    assert result["clients"] == 2505 and result["sample"] == 1
    assert [(one["route"], one["requests"], one["clients"]) for one in result["routes"]] == [
        ("all requests", 56540, 2505), ("static files", 30063, 2500), ("GET /api/search", 10535, 1633),
        ("GET /products/{id}", 8423, 2110), ("GET /", 3297, 2500), ("POST /api/orders", 1591, 384),
        ("POST /login", 1296, 389), ("POST /cart", 395, 387)]
    assert result["other"] == 940


def test_clients_that_stand_out(result):
    assert {one["client"]: one["kind"] for one in result["outliers"]} == {
        "203.0.113.10": "monitor", "203.0.113.66": "scanner", "203.0.113.77": "login guesser",
        "203.0.113.88": "retry loop", "203.0.113.99": "crawler"}
    assert result["outliers"][1]["reason"] == (
        "1,199 of 1,200 requests repeat a failed request within 2 s, mostly POST /api/orders")


def test_levels(result):
    """Of 2,505 clients, 99.9 % leave out two, and 99.99 % none."""
    levels = route(result, "all requests")["levels"]
    assert [one["untouched"] for one in levels] == [90, 99, 99.9, 99.99, 100]
    assert [one["may_touch"] for one in levels] == [250, 25, 2, 0, 0]
    assert [one["best"]["text"] for one in levels] == [
        "5 per minute, burst 15", "10 per minute, burst 15", "1 per second, burst 12", "5 per second, burst 80",
        "5 per second, burst 80"]
    assert levels[2]["peaks"] == {"second": 11, "minute": 55, "hour": 900, "day": 900}
    assert all(a["burst"] >= b["burst"] for level in levels for a, b in zip(level["bursts"], level["bursts"][1:]))


def count_untouched(log, client, rate, burst):
    """A dull count: replays the requests of each client through a token bucket of fractions."""
    tokens, last, refused = {}, {}, set()
    for second, address in log:
        have = min(burst, tokens.get(address, burst) + (second - last.get(address, second)) * rate)
        last[address] = second
        if have >= 1 - 1e-9:
            have -= 1
        else:
            refused.add(address)
        tokens[address] = have
    assert client in tokens
    return len(tokens) - len(refused)


def read_times(path):
    """Returns (second, client) of each line. Requests of one second are spread evenly, as weir does."""
    found, counts = [], {}
    for text in path.read_text(encoding="utf-8").splitlines():
        client, clock = re.match(r"(\S+) - \S+ \[\d+/\w+/\d+:(\d+:\d+:\d+)", text).groups()
        hours, minutes, seconds = map(int, clock.split(":"))
        if ":" in client:  # a client is a /64
            client = ":".join(client.split(":")[:4])
        found.append((hours * 3600 + minutes * 60 + seconds, client))
    for second, _ in found:
        counts[second] = counts.get(second, 0) + 1
    places = dict.fromkeys(counts, 0)
    spread = []
    for second, client in found:
        spread.append((second + places[second] / counts[second], client))
        places[second] += 1
    return spread


def test_a_level_is_confirmed_by_an_independent_count(shop, result):
    """The burst of a level leaves enough clients untouched, and one less does not."""
    times = read_times(shop)
    for untouched, rate in ((90, 5 / 60), (99, 10 / 60), (99.9, 1)):
        level = next(one for one in route(result, "all requests")["levels"] if one["untouched"] == untouched)
        burst = next(one["burst"] for one in level["bursts"] if one["limit"] / one["period"] == pytest.approx(rate))
        assert count_untouched(times, "203.0.113.77", rate, burst) >= level["spared"]
        assert count_untouched(times, "203.0.113.77", rate, burst - 1) < level["spared"]


@pytest.mark.parametrize("options", [(), ("--untouched", "90%"), ("--untouched", "100"), ("--unit", "hour"),
                                     ("--unit", "second", "--untouched", "99.5 %"), ("--unit", "day")])
def test_proposed_rules_refuse_as_many_clients_as_promised(shop, tmp_path, options):
    """The closed loop: the rules pass weir check without a warning, and the command that tune prints replays them."""
    out = tmp_path / "tuned.yaml"
    result = tune(shop, "--out", out, *options)
    assert result["rules"] == out.read_text(encoding="utf-8")
    weir("check", "--strict", out)
    assert result["replay"] == f"weir replay {shop} --rules {out}"
    replayed = json.loads(weir(*result["replay"].split()[1:], "--json")[0])
    assert replayed["clients"]["refused"] == result["touched"] <= result["may_touch"]
    assert replayed["clients"]["all"] == 2505


def test_without_outliers(shop, tmp_path):
    out = tmp_path / "tuned.yaml"
    result = tune(shop, "--without-outliers", "--out", out)
    assert result["considered"] == 2500 and result["touched"] == 0
    assert {one["route"]: one["limit"]["text"] for one in result["routes"] if one["limit"]} == {
        "all requests": "10 per minute, burst 20", "GET /products/{id}": "2 per minute, burst 5",
        "GET /": "10 per hour, burst 5", "POST /api/orders": "10 per hour, burst 5",
        "POST /login": "10 per hour, burst 5", "POST /cart": "10 per hour, burst 5"}
    weir("check", "--strict", out)
    replayed = json.loads(weir("replay", shop, "--rules", out, "--json")[0])
    assert replayed["clients"]["refused"] == 4  # the machines; the monitor is slow enough


def test_shadow_rules_refuse_nothing(shop, tmp_path):
    out = tmp_path / "tuned.yaml"
    tune(shop, "--without-outliers", "--shadow", "--out", out)
    weir("check", "--strict", out)
    assert out.read_text(encoding="utf-8").count("shadow_mode: true") == 6
    assert json.loads(weir("replay", shop, "--rules", out, "--json")[0])["totals"]["refused"] == 0


def test_each_number_has_a_reason(shop):
    text = weir("tune", shop)[0]
    rules = text[text.index("# Proposed by"):text.index("Write these rules")]
    numbers = re.findall(r"^ +(?:requests_per_unit|burst): \d+ *(.*)$", rules, re.M)
    assert len(numbers) == 12
    assert all(re.match(r"# (one client can send|[\d,]+ of [\d,]+ clients need at most)", one) for one in numbers)
    assert yaml.safe_load(rules)["domain"] == "api"
    assert text.rstrip().endswith(f"weir replay {shop} --rules tuned.yaml")


def test_the_text_has_all_parts(shop):
    text = weir("tune", shop, "--route", "post-login")[0]
    for part in ("ROUTE", "What clients do", "Clients against limits: POST /login", "TOKEN BUCKET",
                 "Burst that a rate needs to leave clients untouched: POST /login", "Clients that stand out",
                 "Without these clients (--without-outliers), limits can be tighter:", "Proposed rules"):
        assert part in text
    assert "bursts: half of the clients send up to 9 within 2 s, nine of ten up to 11; between bursts" in text
    assert "\x1b" not in text


def test_the_page(shop, tmp_path):
    page = tmp_path / "tune.html"
    weir("tune", shop, "--html", page)
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 1 + 2 * 6  # the log, and two for each limit
    assert "Clients that stand out" in html and "requests_per_unit" in html
    assert "<script" not in html and "http://" not in html.replace("http://www.w3.org/2000/svg", "")


def test_standard_input_gives_the_same(shop, result):
    piped = json.loads(weir("tune", "-", "--json", stdin=shop.read_text(encoding="utf-8"))[0])
    assert piped["replay"] == "weir replay - --rules tuned.yaml"
    assert {**piped, "replay": 0} == {**result, "replay": 0}


# ---- small logs ----


def test_users_are_clients(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("".join(line("192.0.2.1", i, "GET /", user=f"u{i % 3}") for i in range(30)) +
                   line("192.0.2.2", 40, "GET /"), encoding="utf-8")
    assert tune(log)["clients"] == 2
    result = tune(log, "--key", "user")
    assert result["clients"] == 3 and result["log"]["no_key"] == 1
    assert yaml.safe_load(result["rules"])["requests"] == [{"descriptor": [{"key": "client", "from": ["identity"]}]}]
    assert tune(log, "--key", "user,address")["clients"] == 4


def test_hostile_paths_and_agents(tmp_path):
    """Whatever the log contains, the rules can be checked and the terminal is safe."""
    log = tmp_path / "a b'c.log"
    paths = ['/\\"x', "/'x", "/a:%20b", "/%0a-%20key:%20x", "/%1b[2J", "/{x}", "/*", "/%23", "/%e2%80%ae", "/&a", "/[x]",
             "/%ff%fe", "/null", "/" + "a" * 3000, "/<script>", "/a,b", "/%7b%7d", "/!x", "/@x", "/%60x"]
    log.write_text("".join(line(f"192.0.2.{client}", i, f"POST {path}", agent="\\x1b[31mBot" + "é" * 100)
                           for client in range(40) for i, path in enumerate(paths)), encoding="utf-8")
    out = tmp_path / "tuned.yaml"
    result = tune(log, "--out", out)
    assert len(result["routes"]) > 5
    weir("check", "--strict", out)
    text = weir("tune", log)[0]
    assert "\x1b" not in text
    assert f"weir replay '{tmp_path}/a b'\\''c.log' --rules tuned.yaml" in text
    weir("tune", log, "--html", tmp_path / "x.html")
    assert "<script>" not in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_rules_decide_the_routes(shop, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("""
domain: shop
requests:
  - when: {remote_address: 203.0.113.0/24}
    allow: true
  - when: {method: POST, path: [/login, /cart]}
    descriptor: [{key: form, value: "a: b"}, {key: ip, from: masked_remote_address}]
  - descriptor: [{key: form, value: "a: b"}]
""", encoding="utf-8")
    out = tmp_path / "tuned.yaml"
    result = tune(shop, "--rules", rules, "--out", out)
    assert [one["route"] for one in result["routes"]] == ["form=a: b, ip", "form=a: b"]
    assert result["log"]["exempt"] == 240 + 1500 + 700 + 900 + 1200
    assert [one["clients"] for one in result["routes"]] == [388, 1]
    weir("check", "--strict", out)
    tree = yaml.safe_load(out.read_text(encoding="utf-8"))
    assert tree["requests"][0] == {"when": {"remote_address": ["203.0.113.0/24"]}, "allow": True}
    assert tree["descriptors"][0]["rate_limit"]["burst"] >= 1
    assert tree["descriptors"][0]["descriptors"][0]["rate_limit"]["burst"] == 5
    assert json.loads(weir("replay", shop, "--rules", out, "--json")[0])["clients"]["refused"] == 0


def test_unreadable_lines_are_reported(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(line("192.0.2.1", 1, "GET /") * 9 + "what is this\n", encoding="utf-8")
    check_warnings(log, tmp_path, ["10.0 % of the lines could not be read: the log may have another --format"], 1)
    assert tune(log)["log"]["unreadable"] == 1


def check_warnings(log, tmp_path, warnings, unreadable=0):
    """Asserts that the text, the JSON and the page have these warnings and no others, and the unreadable lines."""
    text, result = weir("tune", log, "--html", tmp_path / "x.html")[0], tune(log)["log"]
    html = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert re.findall("^warning   (.*)$", text, re.M) == result["warnings"] == warnings
    assert re.findall('<p class="warning"[^>]*>(.*?)</p>', html) == warnings
    assert len(result["examples"]) == min(unreadable, 3)
    assert ("unreadable lines, for example\n" in text) == (unreadable > 0)
    for example in result["examples"]:
        assert f"  {example}\n" in text and example in html


def test_three_unreadable_lines_are_shown(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(line("192.0.2.1", 1, "GET /") * 96 + "".join(f"junk {i}\n" for i in range(4)), encoding="utf-8")
    check_warnings(log, tmp_path, [], unreadable=4)


def test_damaged_files_are_reported(tmp_path):
    """A compressed file that is cut off in the middle."""
    log = tmp_path / "a.log.gz"
    lines = "".join(line(f"192.0.2.{i % 250}", i, f"GET /{i * 7919 % 10007}") for i in range(3000))
    packed = gzip.compress(lines.encode(), mtime=0)
    log.write_bytes(packed)
    check_warnings(log, tmp_path, [])
    assert tune(log)["log"]["damaged"] == 0
    log.write_bytes(packed[:len(packed) // 2])
    check_warnings(log, tmp_path, [f"{log}: the file is cut off"], tune(log)["log"]["unreadable"])
    assert tune(log)["log"]["damaged"] == 1


@pytest.mark.parametrize("args, code, text", [
    (["nowhere.log"], 1, "nowhere.log"),
    (["LOG", "--key", "nope"], 2, "--key: "),
    (["LOG", "--from", "noon"], 2, "--from 'noon' is not a time"),
    (["LOG", "--fields", "bogus=x"], 2, '--fields: "bogus" in the names of fields is unknown'),
    (["LOG", "--key", "header.x-absent"], 1, "no request has the key header.x-absent; choose another --key"),
    (["LOG", "--untouched", "101%"], 2, "--untouched '101%' is not a percentage such as 99.9%"),
    (["LOG", "--untouched", "0.999"], 2, "--untouched '0.999' is not a percentage such as 99.9%"),
    (["LOG", "--untouched", "0"], 2, "--untouched '0' is not a percentage"),
    (["LOG", "--untouched", "nan"], 2, "--untouched 'nan' is not a percentage"),
    (["LOG", "--untouched", "1e1"], 2, "--untouched '1e1' is not a percentage"),
    (["LOG", "--unit", "week"], 2, "--unit"),
    (["LOG", "--rules", "nowhere.yaml"], 2, "nowhere.yaml"),
    (["LOG", "--domain", "x"], 2, "--domain is for --rules"),
    (["LOG", "--route", "nope"], 2, "there is no route 'nope'"),
    (["LOG", "--from", "2027-01-01"], 1, "no request of the log is between --from and --to"),
    (["LOG", "--out", "/nowhere/x.yaml"], 1, "--out /nowhere/x.yaml: No such file or directory"),
    (["LOG", "--html", "/nowhere/x.html"], 1, "--html /nowhere/x.html: No such file or directory"),
    (["LOG", "--svg", "/nowhere/x.svg"], 1, "--svg /nowhere/x.svg: No such file or directory"),
    (["LOG", "--table", "x"], 2, "--table and --dir are for --from-table"),
    (["--from-table", "--out", "x"], 2, "--out needs a log, not --from-table"),
    ([], 2, "name a log, or use --from-table"),
    (["BINARY"], 1, "the log has 1 line, which could not be read"),
    (["EMPTY"], 1, "the log has no lines"),
])
def test_errors_name_the_option(tmp_path, args, code, text):
    files = {"LOG": line("192.0.2.1", 1, "GET /") * 5, "BINARY": "\x00\x01\x02\n", "EMPTY": ""}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    words = [str(tmp_path / one) if one in files else one for one in args]
    _, errors = weir("tune", *words, code=code)
    assert text in errors


def test_wrong_times_do_not_tighten_limits(shop, result, tmp_path):
    """A line of 1970 at the beginning and two of 2036 at the end: the limits stay, and the warnings say how to leave the
    lines out."""
    log = tmp_path / "a.log"
    wrong = line("192.0.2.1", 5, "GET /")
    late = wrong.replace("01/Mar/2026", "02/Jan/2036")
    log.write_text(wrong.replace("01/Mar/2026", "01/Jan/1970") + shop.read_text(encoding="utf-8") + late
                   + late.replace(":05 +", ":09 +"), encoding="utf-8")
    check_warnings(log, tmp_path, [
        "1 request of 1970-01-01 12:00:05 UTC is far before the others, which begin at 2026-03-02 09:00:00 UTC: its time "
        "may be wrong; --from 2026-03-02T09:00:00Z leaves it out",
        "2 requests of 2036-01-02 12:00:05 to 2036-01-02 12:00:09 UTC are far after the others, which end at 2026-03-02 "
        "10:59:59 UTC: their times may be wrong; --to 2036-01-02T12:00:05Z leaves them out"])
    assert [one["limit"] and one["limit"]["text"] for one in tune(log)["routes"]] == [
        one["limit"] and one["limit"]["text"] for one in result["routes"]]
    cut = tune(log, "--from", "2026-03-02T09:00:00Z", "--to", "2036-01-02T12:00:05Z")
    assert cut["log"]["warnings"] == [] and cut["log"]["requests"] == 56540
    assert cut["routes"] == result["routes"]


def test_steady_use_is_told_from_bursts(tmp_path):
    """30 clients poll once per second for two minutes. 30 others load a page of 30 files every 40 s."""
    log = tmp_path / "a.log"
    log.write_text("".join(line(f"192.0.2.{client}", second, "GET /poll")
                           + (line(f"192.0.2.{100 + client}", second, "GET /page") * 30 if second % 40 == client else "")
                           for second in range(120) for client in range(30)), encoding="utf-8")
    result = tune(log)
    steady = "steady, about 60 per minute while a client is active; nine of ten clients send no bursts"
    bursts = ("bursts: half of the clients send up to 30 within 2 s, nine of ten up to 30; between bursts they rest for "
              "about 40 s")
    assert route(result, "GET /poll")["habits"] == steady
    assert route(result, "GET /page")["habits"] == bursts
    assert f"# {route(result, 'all requests')['habits']}.\n" in result["rules"]


def test_all_requests_can_be_one_client(tmp_path):
    """A CSV without clients: 10 requests of cost 30 in each of 10 seconds."""
    log = tmp_path / "tokens.csv"
    log.write_text("time,cost\n" + "".join(f"{START + i // 10},30\n" for i in range(100)), encoding="utf-8")
    result = tune(log, "--key", "all", "--unit", "second")
    level = result["routes"][0]["levels"][4]
    assert level["peaks"] == {"second": 300, "minute": 3000, "hour": 3000, "day": 3000}
    limit = result["routes"][0]["limit"]
    assert (limit["limit"], limit["burst"], limit["per_horizon"]) == (500, 30, 530)
    assert yaml.safe_load(result["rules"])["requests"] == [{"descriptor": [{"key": "client", "value": "all"}]}]
