"""weir simulate: the scenarios of examples/simulate, the report in its forms, exit codes, and the pictures of the
documents."""

import glob
import json
import os
import pty
import re
import subprocess

import pytest

from weirtest import WEIR

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "examples/simulate/*.yaml")))
# Long scenarios run for a shorter virtual time, which still contains their faults where they have any.
SHORTER = {"attack": "15s", "edge-194": "8s", "flash-sale": "12s", "one-machine": "30s", "sync-bucket": "2s",
           "sync-window": "2s", "ten-million": "4s"}

SMALL = """
limit: {requests_per_unit: 100, period: 2s}
nodes: 3
network: {redis: 1ms, jitter: 100us}
traffic:
  - {kind: steady, rate: 200/s}
duration: 8s
"""


def simulate(*args, **options):
    return subprocess.run([WEIR, "simulate", *args], capture_output=True, text=True, timeout=300, **options)


def report(*args):
    result = simulate("--json", *args)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def scenario(tmp_path):
    def write(text, name="scenario.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)
    return write


def example(name):
    return os.path.join(ROOT, "examples/simulate", name + ".yaml")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: os.path.basename(path)[:-5])
def test_every_example_runs_and_its_bounds_hold(path):
    name = os.path.basename(path)[:-5]
    args = ["--duration", SHORTER[name]] if name in SHORTER else []
    runs = report(*args, path)["runs"]
    assert runs
    for run in runs:
        assert run["requests"] == run["admitted"] + run["refused"] + run["lost"] > 0
        assert run["bound_held"] in (True, None)
        if run["mode"] in ("local", "eventual"):
            assert run["latency_max_ns"] == 0


def test_there_are_at_least_eight_examples():
    assert len(EXAMPLES) >= 8
    text = open(os.path.join(ROOT, "examples/simulate/README.md")).read()
    for path in EXAMPLES:
        assert os.path.basename(path) in text


def test_194_sites_share_one_limit():
    answer = report("--duration", "8s", example("edge-194"))
    assert answer["sites"] == 194
    assert answer["regions"] == 9
    assert answer["runs"][0]["nodes"] == 194


def test_the_modes_side_by_side(scenario):
    answer = report(scenario(SMALL))
    runs = {run["mode"]: run for run in answer["runs"]}
    assert list(runs) == ["local", "strict", "lease", "eventual"]
    assert runs["local"]["admitted"] == 1200
    assert runs["local"]["overshoot"] == runs["local"]["bound"] == 200
    assert runs["strict"]["admitted"] == 400
    assert runs["strict"]["beyond"] == runs["strict"]["wrongly_refused"] == runs["strict"]["bound"] == 0
    assert runs["lease"]["overshoot"] == 0
    assert 0 < runs["eventual"]["overshoot"] <= runs["eventual"]["bound"]
    assert runs["strict"]["burnt"] is None and runs["lease"]["burnt"] >= 0
    assert sum(runs["strict"]["over_time"]["admitted"]) == 400


def test_the_same_seed_gives_the_same_report(scenario):
    path = scenario(SMALL)
    first = simulate("--json", path).stdout
    assert simulate("--json", path).stdout == first
    assert simulate("--json", "--seed", "2", path).stdout != first
    assert simulate("--json", "--seed", "1", path).stdout == first


def test_the_text(scenario):
    result = simulate("--modes", "local,strict", scenario("title: Two modes\n" + SMALL))
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[:2] == ["Two modes", "100 per 2s, fixed_window; 1 region, 3 nodes; 1 client; 8s; seed 1"]
    rows = {line[:26].strip(): line[26:].split() for line in lines[4:] if line[:1].strip()}
    assert rows["admitted"] == ["1,200", "400"]
    assert rows["bound held"] == ["yes", "yes"]
    assert "  local: held: 300; at most 300 allowed (each node admits the limit)" in lines
    assert result.stderr == ""


def test_a_sweep_has_a_line_for_each_run(scenario):
    text = SMALL.replace("nodes: 3", "nodes: [2, 4]\nmodes: eventual\nsync_interval: [50ms, 100ms, 200ms, 1s]")
    lines = simulate(scenario(text)).stdout.splitlines()
    assert lines[3].split()[:3] == ["MODE", "NODES", "SYNC"]
    assert [line.split()[1:3] for line in lines[4:]] == \
        [[nodes, sync] for nodes in ("2", "4") for sync in ("50ms", "100ms", "200ms", "1s")]


def test_options_change_the_scenario(scenario):
    path = scenario(SMALL)
    answer = report("--requests", "150", "--modes", "strict", path)
    assert [run["requests"] for run in answer["runs"]] == [150]
    assert report("--duration", "2s", "--modes", "strict", path)["runs"][0]["admitted"] == 100


def test_a_log_as_traffic(scenario, tmp_path):
    lines = [f'192.0.2.{i % 3} - - [01/Mar/2026:10:00:{i % 60:02d} +0000] "GET / HTTP/1.1" 200 5\n'
             for i in range(60)]
    (tmp_path / "access.log").write_text("".join(lines))
    path = scenario("""
limit: {requests_per_unit: 5, unit: minute}
modes: [local]
clients: 1000
traffic:
  - {kind: log, path: access.log}
duration: 1m
""")
    run = report(path)["runs"][0]
    assert run["requests"] == 60
    assert run["admitted"] == 15


LOG = """
limit: {requests_per_unit: 5, unit: minute}
modes: [local]
clients: 1000
traffic:
  - {kind: log, path: access.log}
duration: 1m
"""


def log_lines(readable, unreadable):
    return "".join([f"nonsense {i}\n" for i in range(unreadable)]
                   + [f'192.0.2.7 - - [01/Mar/2026:10:00:{i % 60:02d} +0000] "GET / HTTP/1.1" 200 5\n'
                      for i in range(readable)])


def test_unreadable_lines_of_a_log_are_reported(scenario, tmp_path):
    page = tmp_path / "report.html"
    (tmp_path / "access.log").write_text(log_lines(56, 4))
    answer = report("--html", str(page), scenario(LOG))
    assert answer["runs"][0]["requests"] == 56
    assert answer["log"] | {"unreadable_examples": 0} == {
        "lines": 60, "unreadable": 4, "unreadable_percent": pytest.approx(100 / 15), "unreadable_examples": 0,
        "late": 0, "damaged": 0}
    assert [line.split(":")[1] for line in answer["log"]["unreadable_examples"]] == ["1", "2", "3"]
    assert len(answer["warnings"]) == 1
    assert answer["warnings"][0].startswith("6.7 % of the lines of the log could not be read")
    assert "6.7 % of the lines of the log" in page.read_text()
    assert "4 of 60 lines of the log could not be read" in page.read_text()
    assert "nonsense 2" in page.read_text()
    lines = simulate(scenario(LOG)).stdout.splitlines()
    assert lines[2] == "log       60 lines, 4 unreadable"
    assert lines[3].startswith("warning   6.7 % of the lines of the log could not be read")
    assert lines[4] == "unreadable lines, for example"
    assert len([line for line in lines if "nonsense" in line]) == 3


def test_few_unreadable_lines_give_no_warning(scenario, tmp_path):
    (tmp_path / "access.log").write_text(log_lines(19, 1))  # exactly 5 %
    answer = report(scenario(LOG))
    assert answer["log"]["unreadable"] == 1
    assert answer["warnings"] == []
    assert "warning" not in simulate(scenario(LOG)).stdout
    assert report(scenario(SMALL, "small.yaml"))["log"] is None


def write_log(path, seconds):
    """Writes a log with one request every ten seconds. The last one comes at `seconds`."""
    path.write_text("".join(
        f'192.0.2.7 - - [01/Mar/2026:{10 + i // 3600}:{i // 60 % 60:02d}:{i % 60:02d} +0000] "GET / HTTP/1.1" 200 5\n'
        for i in range(0, seconds + 1, 10)))


def test_a_run_lasts_as_long_as_its_logs(scenario, tmp_path):
    write_log(tmp_path / "access.log", 7200)
    text = LOG.replace("duration: 1m\n", "")
    answer = report(scenario(text))
    assert answer["duration_ns"] == 7201 * 10**9
    assert answer["runs"][0]["requests"] == 721
    assert answer["warnings"] == []
    answer = report(scenario(text.replace("path: access.log", "path: access.log, start: 100s, speed: 2")))
    assert answer["duration_ns"] == 3701 * 10**9
    assert answer["runs"][0]["requests"] == 721
    answer = report(scenario(text.replace("path: access.log", "path: access.log, for: 60s")))
    assert answer["duration_ns"] == 51 * 10**9
    assert answer["runs"][0]["requests"] == 6
    assert answer["warnings"] == []


def test_a_run_lasts_at_most_a_week(scenario, tmp_path):
    write_log(tmp_path / "access.log", 7200)
    answer = report(scenario(LOG.replace("duration: 1m\n", "").replace("access.log", "access.log, speed: 0.01")))
    assert answer["duration_ns"] == 7 * 86400 * 10**9
    assert answer["runs"][0]["requests"] == 605  # one every 1,000 s
    assert answer["warnings"] == [
        "the run ends after 604800 s, and access.log goes on; set `duration`, which is at most a week, or `speed`"]


def test_a_log_that_goes_on_after_the_run_is_named(scenario, tmp_path):
    page = tmp_path / "page.html"
    write_log(tmp_path / "access.log", 7200)
    mixed = LOG.replace("duration: 1m\n", "  - {kind: steady, rate: 10/s}\n")
    answer = report("--html", str(page), scenario(mixed))
    expected = "the run ends after 30 s, and access.log goes on; set `duration`"
    assert answer["warnings"] == [expected]
    assert expected in page.read_text()
    assert f"warning   {expected}" in simulate(scenario(mixed)).stdout.splitlines()
    assert report(scenario(LOG))["warnings"] == [expected.replace("30 s", "60 s")]
    assert report("--duration", "15s", scenario(LOG))["warnings"] == [expected.replace("30 s", "15 s")]
    answer = report("--requests", "3", scenario(LOG.replace("duration: 1m\n", "")))
    assert answer["warnings"] == [expected + " instead of --requests"]
    assert answer["runs"][0]["requests"] == 3
    twice = LOG.replace("path: access.log}", "path: access.log}\n  - {kind: log, path: ./access.log}")
    assert report(scenario(twice))["warnings"] == [
        "the run ends after 60 s, and access.log, ./access.log go on; set `duration`"]


def test_a_log_that_ends_with_the_run_is_not_named(scenario, tmp_path):
    write_log(tmp_path / "access.log", 7200)
    assert report("--requests", "721", scenario(LOG.replace("1m", "3h")))["warnings"] == []
    assert report(scenario(LOG.replace("access.log", "access.log, for: 60s")))["warnings"] == []


def test_a_fault_after_the_end_of_the_logs_gives_a_warning(scenario, tmp_path):
    write_log(tmp_path / "access.log", 60)
    text = LOG.replace("duration: 1m\n", "faults: [{kind: redis_flush, at: 2h}]\n")
    assert report(scenario(text))["warnings"] == [
        "these faults do not happen, because the run ends after 61 s: redis_flush at 2h"]


def test_files_of_a_directory_that_are_left_out_are_named(scenario, tmp_path):
    page = tmp_path / "page.html"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_log(tmp_path / name / "access.log", 60)
        (tmp_path / name / "names.txt").write_text("not a log\n")
    (tmp_path / "b" / "readme.txt").write_text("not a log\n")
    text = LOG.replace("  - {kind: log, path: access.log}",
                       "\n".join(f"  - {{kind: log, path: {name}}}" for name in ("a", "b", "b"))).replace("1m", "2m")
    answer = report("--html", str(page), scenario(text))
    assert answer["runs"][0]["requests"] == 21
    warnings = answer["warnings"]
    assert len(warnings) == 2
    assert re.match(r".*/a/names.txt is left out: ", warnings[0])
    assert warnings[1].startswith("2 files are left out: ")
    assert warnings[1] in page.read_text()
    assert warnings[1] + "." not in page.read_text()
    lines = simulate(scenario(text)).stdout.splitlines()
    assert [line for line in lines if line.startswith("warning")] == [f"warning   {text}" for text in warnings]


FAULTS = SMALL.replace("traffic:", "traffic:\n  - {kind: attack, rate: 10/s, start: 5s}") + """
faults:
  - {kind: redis_flush, at: 6s}
  - {kind: redis_down, at: 3s, for: 1s}
  - {kind: loss, at: 1s, for: 1s, share: 1%}
"""


def test_a_shorter_run_names_the_faults_that_do_not_happen(scenario, tmp_path):
    path = scenario(FAULTS)
    assert report(path)["warnings"] == []
    answer = report("--duration", "3s", "--html", str(tmp_path / "page.html"), path)
    expected = [
        "these faults do not happen, because the run ends after 3 s: redis_down at 3s, redis_flush at 6s",
        "this traffic does not begin, because the run ends after 3 s: attack at 5s"]
    assert answer["warnings"] == expected
    assert expected[0] in (tmp_path / "page.html").read_text()
    assert f"warning   {expected[0]}" in simulate("--duration", "3s", path).stdout.splitlines()
    assert all(run["without_redis"] == 0 for run in answer["runs"] if run["mode"] == "strict")
    warnings = report("--requests", "900", "--modes", "strict", path)["warnings"]
    assert len(warnings) == 2
    assert re.fullmatch(r"these faults do not happen, because the run ends after 4\.\d+ s: redis_flush at 6s",
                        warnings[0])


def test_the_bound_allows_only_for_faults_that_happen(scenario):
    plain = report("--requests", "150", scenario(SMALL))["runs"]
    faults = SMALL + "faults: [{kind: redis_flush, at: 2s}, {kind: node_crash, at: 3s, for: 1s}]\n"
    shorter = report("--requests", "150", scenario(faults))["runs"]
    assert [run["bound"] for run in shorter] == [run["bound"] for run in plain]
    assert [run["bound_reason"] for run in shorter] == [run["bound_reason"] for run in plain]
    assert [run["bound"] for run in report(scenario(faults))["runs"] if run["mode"] == "strict"] == [100]


def test_a_fault_after_the_end_of_the_file_is_an_error(scenario):
    path = scenario(FAULTS.replace("duration: 8s", "duration: 6s"))
    result = simulate(path)
    assert result.returncode == 1
    assert f"{path}:11:29: error: this begins after the end of the run" in result.stderr


def test_a_missing_log_is_named(scenario):
    path = scenario("limit: {requests_per_unit: 5}\ntraffic:\n  - {kind: log, path: none.log}\n")
    for options in ([], ["--check"]):
        result = simulate(*options, path)
        assert result.returncode == 1
        assert f"{path}:3:23: error: cannot read the log 'none.log': No such file or directory" in result.stderr


@pytest.mark.parametrize("name", ["-", "pipe", "/dev/stdin"])
def test_a_log_that_can_be_read_only_once_is_an_error(name, scenario, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    path = scenario(f"limit: {{requests_per_unit: 5}}\ntraffic:\n  - {{kind: log, path: \"{name}\"}}\n")
    result = simulate(path, input=log_lines(10, 0))
    assert result.returncode == 1
    assert f"{path}:3:23: error: the log '{name}' is not a file or a directory" in result.stderr
    assert "write the log to a file" in result.stderr


def test_the_page_needs_no_network(scenario, tmp_path):
    page = tmp_path / "report.html"
    result = simulate("--html", str(page), scenario("title: <script>alert(1)</script>\n" + SMALL))
    assert result.returncode == 0
    text = page.read_text()
    assert text.count("<svg") >= 8
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r'(src|href)="?http', text)
    assert "eventual" in text and "wrongly refused" in text


@pytest.mark.parametrize("name", ["window", "bucket"])
def test_the_pictures_of_the_documents_come_from_scenarios(name, tmp_path):
    picture = tmp_path / "picture.svg"
    result = simulate("--svg", str(picture), example("sync-" + name))
    assert result.returncode == 0
    with open(os.path.join(ROOT, f"docs/consistency-{name}.svg")) as file:
        documented = re.findall(r' d="([^"]*)"', file.read())
    assert len(documented) >= 6  # three curves and their bounds
    assert re.findall(r' d="([^"]*)"', picture.read_text()) == documented, \
        "run weir simulate --svg again, see the comment in the scenario"


def test_errors_name_the_line(scenario):
    path = scenario("limit: {requests_per_unit: 0}\nnodes: -1\nduration: 1000000000y\ntraffic:\n  - {kind: stedy}\n")
    result = simulate(path)
    assert result.returncode == 1
    assert result.stdout == ""
    places = [line[len(path) + 1:].split(": error: ")[0] for line in result.stderr.splitlines()
              if line.startswith(path)]
    assert places == ["1:28", "2:8", "3:11", "5:12"]


def test_check_runs_nothing(scenario):
    assert simulate("--check", scenario(SMALL)).stdout == "ok\n"
    assert simulate("--check", scenario("limit: {}\n")).returncode == 1


def test_usage_errors(scenario):
    path = scenario(SMALL)
    assert simulate().returncode == 2
    assert simulate(path, path).returncode == 2
    assert simulate("--modes", "fast", path).returncode == 2
    assert simulate("--duration", "0s", path).returncode == 2
    assert simulate("--html", "/nonexistent/a.html", path).returncode == 2
    assert simulate("--svg", "/nonexistent/a.svg", path).returncode == 2
    log = scenario(SMALL.replace("{requests", "{algorithm: sliding_window_log, requests"), "log.yaml")
    result = simulate("--modes", "eventual", log)
    assert result.returncode == 2
    assert "sliding_window_log" in result.stderr


def test_progress_on_a_terminal_only():
    args = [WEIR, "simulate", "--modes", "local", "--duration", "60s", example("ten-million")]
    main, terminal = pty.openpty()
    subprocess.run(args, stdout=subprocess.DEVNULL, stderr=terminal, timeout=300, check=True)
    os.close(terminal)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert re.search(r"\d+ %  [\d.]+[kM]? requests", shown)
    assert shown.endswith("\r\x1b[K")
    assert subprocess.run(args, stdout=subprocess.DEVNULL, capture_output=False, stderr=subprocess.PIPE, timeout=300,
                          check=True).stderr == b""


def test_no_table_is_left_behind(scenario):
    before = set(glob.glob("/dev/shm/weir-sim-*"))
    assert simulate(scenario(SMALL)).returncode == 0
    assert set(glob.glob("/dev/shm/weir-sim-*")) <= before
