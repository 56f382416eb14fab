"""weir replay: the same small log in several formats, comparisons, exit codes, unreadable lines, and the page."""

import gzip
import json
import lzma
import os
import random
import subprocess

import pytest

from weirtest import WEIR, wait_for

START = 1772366400  # 2026-03-01 12:00 UTC
FIVE_A_MINUTE = """
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
descriptors:
  - key: ip
    rate_limit: {unit: minute, requests_per_unit: 5}
"""
LOGINS = """
domain: api
requests:
  - when: {path: /login}
    descriptor: [{key: login, from: remote_address}]
    count: {status: [401]}
descriptors:
  - key: login
    rate_limit: {unit: hour, requests_per_unit: 3}
"""
ENVOY = """
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 5}
"""

# The boundary of a fixed window: five requests before 12:01:00, five after it. Another client has one request.
BOUNDARY = [("192.0.2.1", second, "/", 200) for second in (30, 36, 42, 48, 54, 60, 66, 72, 78, 84)]
BOUNDARY += [("192.0.2.2", 90, "/other", 200)]


def clock(second):
    return f"{12 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def combined(client, second, target, status):
    return f'{client} - - [01/Mar/2026:{clock(second)} +0000] "GET {target} HTTP/1.1" {status} 10 "-" "curl/8"\n'


def common(client, second, target, status):
    return f'{client} - - [01/Mar/2026:{clock(second)} +0000] "GET {target} HTTP/1.1" {status} 10\n'


def json_line(client, second, target, status):
    return json.dumps({"time": f"2026-03-01T{clock(second)}Z", "remote_addr": client, "method": "GET", "uri": target,
                       "status": status, "body_bytes_sent": 10}) + "\n"


def csv_line(client, second, target, status):
    return f"2026-03-01 {clock(second)},{client},GET,{target},{status}\n"


FORMATS = {"combined": (combined, ""), "common": (common, ""), "json": (json_line, ""),
           "csv": (csv_line, "time,client,method,path,status\n")}


def write_log(path, requests, form="combined"):
    line, head = FORMATS[form]
    path.write_text(head + "".join(line(*request) for request in requests), encoding="ascii")
    return path


@pytest.fixture(name="replay")
def make_replay(tmp_path):
    """Returns a function that runs weir replay. Texts of rules become files."""
    def run(*args, rules=FIVE_A_MINUTE, other=None, code=0, stdin=None):
        (tmp_path / "rules.yaml").write_text(rules, encoding="ascii")
        argv = [WEIR, "replay", *map(str, args), "--rules", tmp_path / "rules.yaml"]
        if other:
            (tmp_path / "other.yaml").write_text(other, encoding="ascii")
            argv += ["--compare", tmp_path / "other.yaml"]
        done = subprocess.run(argv, capture_output=True, timeout=120, check=False, input=stdin)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout.decode(), done.stderr.decode()
    return run


@pytest.fixture(name="result")
def make_result(replay):
    return lambda *args, **more: json.loads(replay(*args, "--json", **more)[0])


# ---- the numbers ----


def test_fixed_window_admits_ten_and_the_log_five(result, tmp_path):
    log = write_log(tmp_path / "a.log", BOUNDARY)
    got = result(log, "--algorithms")
    limit = got["limits"][0]
    assert (limit["requests"], limit["admitted"], limit["refused"]) == (11, 11, 0)
    algorithms = {one["algorithm"]: one for one in limit["algorithms"]["results"]}
    assert algorithms["fixed_window"]["admitted"] == 11
    assert algorithms["fixed_window"]["wrongly_admitted"] == 5
    assert algorithms["fixed_window"]["wrongly_admitted_percent"] == pytest.approx(500 / 11)
    assert algorithms["sliding_window_log"]["admitted"] == 6
    assert algorithms["sliding_window_log"]["wrongly_admitted"] == 0
    exact = result(log, rules=FIVE_A_MINUTE.replace("5}", "5, algorithm: sliding_window_log}"))
    assert (exact["limits"][0]["admitted"], exact["limits"][0]["refused"]) == (6, 5)


def test_half_of_ten_requests_are_wrong(replay, tmp_path):
    """The boundary trace alone: ten admitted, five of them wrongly, 50 %."""
    log = write_log(tmp_path / "a.log", BOUNDARY[:10])
    text = replay(log, "--algorithms")[0]
    rows = [line.split() for line in text.splitlines()]
    assert ["fixed_window,", "5", "per", "1m", "10", "0", "5", "50.0", "%", "0", "0", "%"] in rows
    assert ["sliding_window_log,", "5", "per", "1m", "5", "5", "0", "0", "%", "0", "0", "%"] in rows


def test_a_limit_reports_its_keys_and_waits(result, tmp_path):
    requests = [("192.0.2.1", 10 + n, "/", 200) for n in range(9)] + [("192.0.2.2", 20, "/", 200)] * 6
    got = result(write_log(tmp_path / "a.log", requests))
    limit = got["limits"][0]
    assert limit["rule"] == "api/ip/1m" and limit["limit"] == "fixed_window, 5 per 1m"
    assert (limit["keys"], limit["keys_refused"], limit["keys_exact"]) == (2, 2, True)
    assert [(key["values"], key["count"]) for key in limit["most_refused"]] == [(["192.0.2.1"], 4), (["192.0.2.2"], 1)]
    assert limit["longest_wait"] == pytest.approx(45)
    assert (limit["peak_offered"], limit["peak_admitted"]) == (6, 5)
    assert got["clients"]["all"] == got["clients"]["refused"] == 2
    assert got["totals"]["requests"] == 15 and got["totals"]["refused"] == 5
    assert got["notes"] == [] and got["warnings"] == []


def test_failed_logins(result, tmp_path):
    statuses = [401, 200, 401, 200, 401, 401, 200]
    log = write_log(tmp_path / "a.log", [("192.0.2.1", n, "/login", status) for n, status in enumerate(statuses)])
    limit = result(log, rules=LOGINS)["limits"][0]
    assert (limit["admitted"], limit["refused"]) == (5, 2)


def test_costs_of_a_csv(result, tmp_path):
    """10 units a minute: 4 + 5 fit, 2 do not, 1 does."""
    log = tmp_path / "a.csv"
    log.write_text("time,key,tokens\n" + "".join(
        f"2026-03-01T12:00:0{n}Z,alice,{cost}\n" for n, cost in enumerate([4, 5, 2, 1])), encoding="ascii")
    got = result(log, "--fields", "time=time,client=key,cost=tokens",
                 rules=FIVE_A_MINUTE.replace("requests_per_unit: 5", "requests_per_unit: 10"))
    limit = got["limits"][0]
    assert (limit["admitted"], limit["refused"]) == (3, 1)
    assert limit["most_refused"][0]["values"] == ["alice"]


# ---- the same log in other forms ----


def without_log(got):
    """Returns the result without the numbers that differ between formats."""
    return {name: value for name, value in got.items() if name not in ("log", "rules")}


@pytest.mark.parametrize("form", ["common", "json", "csv"])
def test_formats_give_the_same_result(result, tmp_path, form):
    requests = [(f"192.0.2.{n % 3}", n, "/a" if n % 2 else "/b", 200) for n in range(100)]
    one = result(write_log(tmp_path / "combined.log", requests), "--algorithms")
    other = result(write_log(tmp_path / f"{form}.log", requests, form), "--algorithms")
    assert without_log(one) == without_log(other)
    assert one["limits"][0]["refused"] > 50


def test_shuffled_within_the_window(result, tmp_path):
    requests = [(f"192.0.2.{n % 3}", 2 * n, "/", 200) for n in range(400)]
    mixed, shuffle = list(requests), random.Random(5)
    for at in range(0, 400, 50):
        part = mixed[at:at + 50]
        shuffle.shuffle(part)
        mixed[at:at + 50] = part
    assert mixed != requests
    one = result(write_log(tmp_path / "a.log", requests))
    other = result(write_log(tmp_path / "b.log", mixed))
    assert without_log(one) == without_log(other)
    assert other["log"]["reordered"] > 100 and other["log"]["late"] == 0


def test_compressed_and_from_a_pipe(result, tmp_path):
    log = write_log(tmp_path / "a.log", BOUNDARY)
    plain = without_log(result(log))
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(log.read_bytes()))
    (tmp_path / "a.log.xz").write_bytes(lzma.compress(log.read_bytes()))
    assert without_log(result(tmp_path / "a.log.gz")) == plain
    assert without_log(result(tmp_path / "a.log.xz")) == plain
    assert without_log(result("-", stdin=log.read_bytes())) == plain


def test_from_and_to(result, tmp_path):
    log = write_log(tmp_path / "a.log", BOUNDARY)
    got = result(log, "--from", "2026-03-01T12:00:40Z", "--to", str(START + 60))
    assert got["totals"]["requests"] == 3 and got["log"]["left_out"] == 8
    assert got["totals"]["first"] == START + 42


# ---- comparisons ----


def test_compare(result, tmp_path):
    """Ten per minute refuses nothing; five per minute refuses client 1 twice. Client 2 is not affected."""
    requests = [("192.0.2.1", n, "/", 200) for n in range(7)] + [("192.0.2.2", 8, "/", 200)]
    got = result(write_log(tmp_path / "a.log", requests), other=FIVE_A_MINUTE.replace("unit: 5", "unit: 10"))
    difference = got["compare"]["difference"]
    assert (difference["requests"], difference["both"]) == (8, 0)
    assert difference["only_first"]["requests"] == 2 and difference["only_first"]["clients"] == 1
    assert difference["only_first"]["most_refused"][0]["values"] == ["192.0.2.1"]
    assert difference["only_second"] == {"requests": 0, "clients": 0, "most_refused": []}
    assert got["compare"]["limits"][0]["refused"] == 0 and got["limits"][0]["refused"] == 2


def test_where_answered(result, tmp_path):
    """The log refused the requests 5 and 6 of client 1, weir refuses 6 and 7."""
    statuses = [200, 200, 200, 200, 503, 503, 200]
    log = write_log(tmp_path / "a.log", [("192.0.2.1", n, "/", status) for n, status in enumerate(statuses)])
    got = result(log, "--where-answered", "503")["where_answered"]
    assert (got["both"], got["only_log"]["requests"], got["only_weir"]["requests"]) == (1, 1, 1)
    assert got["clients_both"] == 1 and got["only_log"]["most_refused"][0]["count"] == 1
    assert result(log, "--where-answered", "429,5xx")["where_answered"] == got
    assert result(log, "--where-answered", "429")["where_answered"]["only_weir"]["requests"] == 2


# ---- rules without requests: ----


def test_descriptors_for_envoy(result, replay, tmp_path):
    requests = [("192.0.2.1", n, "/", 200) for n in range(7)]
    log = write_log(tmp_path / "a.log", requests)
    got = result(log, "--descriptor", "remote_address=client", rules=ENVOY)
    assert got["domain"] == "edge" and got["limits"][0]["refused"] == 2
    _, errors = replay(log, rules=ENVOY, code=2)
    assert "--descriptor 'remote_address=client'" in errors
    _, errors = replay(log, "--descriptor", "remote_address=addres", rules=ENVOY, code=2)
    assert "there is no field 'addres'" in errors


def test_several_domains(result, tmp_path):
    rules = tmp_path / "two"
    rules.mkdir()
    (rules / "a.yaml").write_text(FIVE_A_MINUTE, encoding="ascii")
    (rules / "b.yaml").write_text(FIVE_A_MINUTE.replace("domain: api", "domain: web"), encoding="ascii")
    log = write_log(tmp_path / "a.log", BOUNDARY)
    done = subprocess.run([WEIR, "replay", log, "--rules", rules], capture_output=True, timeout=60, check=False, text=True)
    assert done.returncode == 2 and "choose one with --domain: api, web" in done.stderr
    done = subprocess.run([WEIR, "replay", log, "--rules", rules, "--domain", "web", "--json"], capture_output=True,
                          timeout=60, check=True, text=True)
    assert json.loads(done.stdout)["domain"] == "web"


# ---- lines that cannot be read ----


def test_unreadable_lines_are_shown(result, replay, tmp_path):
    log = tmp_path / "a.log"
    lines = [combined(*request) for request in BOUNDARY]
    log.write_text("".join(lines) + "not a log line\n", encoding="ascii")
    got = result(log)
    assert got["log"]["unreadable"] == 1 and len(got["log"]["unreadable_examples"]) == 1
    assert "8.3 % of the lines could not be read" in got["warnings"][0]
    text = replay(log)[0]
    assert text.index("warning   8.3 %") < text.index("RULE") and "not a log line" in text
    log.write_text("".join(lines) * 3 + "not a log line\n", encoding="ascii")
    assert not any("could not be read" in warning for warning in result(log)["warnings"])


def test_nothing_readable(replay, tmp_path):
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\n", encoding="ascii")
    _, errors = replay(log, code=1)
    assert "none of the 2 lines could be read" in errors and "a.log:1" in errors
    log.write_text("", encoding="ascii")
    _, errors = replay(log, code=1)
    assert "the log has no lines" in errors
    _, errors = replay(tmp_path / "missing.log", code=1)
    assert "missing.log" in errors


def test_one_unreadable_line(replay, tmp_path):
    log = tmp_path / "a.log"
    log.write_text("one\n", encoding="ascii")
    assert "the log has 1 line, which could not be read" in replay(log, code=1)[1]
    write_log(log, BOUNDARY[:1])
    assert "log       1 line\n" in replay(log)[0]


def test_error_logs_of_a_directory_are_left_out(result, replay, tmp_path):
    folder = tmp_path / "nginx"
    folder.mkdir()
    write_log(folder / "access.log", BOUNDARY)
    error = "2026/03/01 12:00:00 [error] 7#7: *1 open() failed, client: 192.0.2.1, server: _\n"
    (folder / "error.log").write_text(error * 20, encoding="ascii")
    got = result(folder)
    assert got["log"]["lines"] == len(BOUNDARY) and got["log"]["unreadable"] == 0 and got["log"]["files"] == 1
    assert got["warnings"] == [f"{folder}/error.log is left out: none of its first lines is a line of an access log. "
                               "To read it, pass the file itself."]
    assert "warning" in replay(folder)[0]
    (folder / "access.log").unlink()
    assert "none of the 20 lines could be read" in replay(folder, code=1)[1]


def test_a_file_with_two_names_is_read_once(result, tmp_path):
    folder = tmp_path / "apache"
    folder.mkdir()
    log = write_log(folder / "access.log", BOUNDARY)
    expected = result(log)
    (folder / "current.log").symlink_to("access.log")
    got = result(folder)
    assert got["log"]["files"] == 1 and got["limits"] == expected["limits"]
    assert got["warnings"] == [f"{folder}/current.log is left out, because it is the same file as {log}."]
    (folder / "current.log").unlink()
    for paths in ((folder, log), (log, log)):
        got = result(*paths)
        assert got["log"]["lines"] == len(BOUNDARY) and got["limits"] == expected["limits"]
        assert got["warnings"] == [f"{log} is given twice, but read once."]


def test_fields_that_the_log_does_not_have(result, replay, tmp_path):
    log = write_log(tmp_path / "a.csv", BOUNDARY, "csv")
    errors = replay(log, "--fields", "cost=status+nope", code=1)[1]
    assert 'no column "nope"' in errors and "time, client, method, path, status" in errors
    log = write_log(tmp_path / "a.json", BOUNDARY, "json")
    assert result(log, "--fields", "cost=nope")["warnings"] == ['no readable line has the field "nope" of --fields.']
    log = write_log(tmp_path / "a.log", BOUNDARY)
    assert "whose fields have no names" in replay(log, "--fields", "cost=status", code=1)[1]
    assert "the format common" in replay(log, "--format", "common", "--fields", "cost=status", code=1)[1]


def test_a_wrong_time_in_the_first_line(result, tmp_path):
    log = write_log(tmp_path / "a.log", BOUNDARY)
    expected = result(log)
    text = log.read_text(encoding="ascii")
    first = text.splitlines(keepends=True)[0]
    assert "/Mar/2026:" in first
    log.write_text(first.replace("/Mar/2026:", "/Mar/2099:") + text, encoding="ascii")
    got = result(log)
    assert got["log"]["late"] == 1 and "1 line was dropped" in got["warnings"][0]
    assert got["limits"] == expected["limits"]


# ---- usage ----


def test_usage_errors(replay, tmp_path):
    log = write_log(tmp_path / "a.log", BOUNDARY)
    assert "LOG" in replay(code=2)[1]
    assert "--from 'x'" in replay(log, "--from", "x", code=2)[1]
    assert "is not before --to" in replay(log, "--from", "2026-03-02", "--to", "2026-03-01", code=2)[1]
    assert "--where-answered 'abc'" in replay(log, "--where-answered", "abc", code=2)[1]
    assert "--format" in replay(log, "--format", "xml", code=2)[1]
    done = subprocess.run([WEIR, "replay", log], capture_output=True, timeout=60, check=False, text=True,
                          env={name: value for name, value in os.environ.items() if name != "WEIR_RULES"})
    assert done.returncode == 2 and "--rules PATH is missing" in done.stderr


@pytest.mark.parametrize("fields", ["bogus=when", "time=", "=when", "time", "time=when,client=when",
                                    "time=when,time=tenant"])
def test_wrong_fields_are_usage_errors(replay, tmp_path, fields):
    """The text of --fields is checked before a file is opened: the log does not exist."""
    assert "weir replay: --fields: " in replay(tmp_path / "none.csv", "--fields", fields, code=2)[1]


def test_options_that_can_be_given_once(replay, tmp_path):
    log = write_log(tmp_path / "a.csv", BOUNDARY, "csv")
    errors = replay(log, "--fields", "time=time", "--fields", "client=client", code=2)[1]
    assert "--fields is given 2 times" in errors
    assert "give - only once" in replay("-", log, "-", code=2, stdin=b"")[1]


def test_broken_rules(replay, tmp_path):
    log = write_log(tmp_path / "a.log", BOUNDARY)
    _, errors = replay(log, rules="domain: d\ndescriptors: [{key: a, rate_limit: {untis: day}}]\n", code=2)
    assert "rules.yaml:2" in errors and "did you mean `unit`" in errors


def test_no_table_is_left_behind(result, tmp_path):
    before = set(os.listdir("/dev/shm"))
    result(write_log(tmp_path / "a.log", BOUNDARY))
    new = [name for name in set(os.listdir("/dev/shm")) - before if name.startswith("weir-replay")]
    # Another suite may run a replay at the same time. Its table is removed soon; a forgotten table stays.
    wait_for(lambda: not [name for name in new if os.path.exists(f"/dev/shm/{name}")], "the removal of tables")


def test_a_small_table_is_noticed(result, tmp_path):
    requests = [(f"10.0.{n // 256}.{n % 256}", n // 100, "/", 200) for n in range(20000)]
    got = result(write_log(tmp_path / "a.log", requests), "--memory", "256K", rules=FIVE_A_MINUTE.replace("minute", "hour"))
    assert got["table"]["evicted"] > 5000
    assert any("the table was too small" in warning for warning in got["warnings"])


# ---- the page ----


def test_page(replay, tmp_path):
    requests = [("192.0.2.<1>", n, "/", 200) for n in range(9)]
    log, page = write_log(tmp_path / "a.log", requests), tmp_path / "out.html"
    text, _ = replay(log, "--algorithms", "--html", page)
    assert "api/ip/1m" in text
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 4  # over time, keys, algorithms, errors
    assert "default-src 'none'" in html and "<script" not in html and "192.0.2.&lt;1&gt;" in html
    _, errors = replay(log, "--html", tmp_path / "no" / "out.html", code=1)
    assert "--html" in errors
