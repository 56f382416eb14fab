"""`make run`: examples/quickstart, and every command that it prints, run as printed."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from weirtest import BUILD, JSON, ROOT, fetch, free_port, programs, runtime_paths, wait_for
from weirtest.gateway import variables

QUICKSTART = ROOT / "examples/quickstart"


class Demo:
    """The program that `make run PORT=…` runs."""

    def __init__(self, port):
        self.port = port
        self.admin_port = free_port()  # another suite may use the default port
        self.folder = Path(programs.temp_folder("quickstart"))
        self.log = self.folder / "output"
        runtime_paths.register(f"quickstart-{port}")
        with open(self.log, "wb") as out:
            self.process = programs.start(["/usr/bin/python3", "-B", QUICKSTART / "run", BUILD, port], stdout=out,
                                        stderr=out, cwd=self.folder, env=variables(self.folder, TMPDIR=str(self.folder), WEIR_ADMIN=f"127.0.0.1:{self.admin_port}"))
        self.sessions = {}

    def __enter__(self):
        wait_for(lambda: "Ctrl-C ends the demo" in self.output() or self.process.poll() is not None,
                 "the demo to be ready", 30)
        self.note_sessions()
        return self

    def note_sessions(self):
        """Returns the processes of the demo, the API, the gateway and nginx, found by their parents."""
        rows = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            rows[int(name)] = (int(fields[1]), int(fields[3]))
        ours = {self.process.pid}
        while more := {p for p, (parent, _) in rows.items() if parent in ours} - ours:
            ours |= more
        for session in {rows[pid][1] for pid in ours & set(rows)} - set(self.sessions):
            self.sessions[session] = True
            programs.watch(session)

    def __exit__(self, *_):
        for session in self.sessions:
            programs.kill_session(session)
            programs.unwatch(session)
        programs.stop(self.process)
        for path in self.traces():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        runtime_paths.remove(f"quickstart-{self.port}")
        programs.remove_folder(str(self.folder))

    def traces(self):
        """Returns the demo's files and folders, wherever they are."""
        user = os.getuid()
        return [p for pattern in (f"/run/weir/*-{self.port}*", f"/dev/shm/weir-{user}-quickstart-{self.port}.*",
                                  f"/tmp/weir-{user}/gateway-{self.port}", f"/var/tmp/weir-{user}-gateway-{self.port}",
                                  f"{os.environ.get('XDG_RUNTIME_DIR', '/nowhere')}/weir/*-{self.port}*")
                for p in map(Path, glob.glob(pattern))]

    def output(self):
        return self.log.read_text(errors="replace")

    def curl_lines(self):
        return re.findall(r"^  (\S.*)\n    (curl .*)$", self.output(), re.M)

    def left(self):
        return {s: programs.session(s) for s in self.sessions if programs.session(s)}


def sh(line):
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=True).stdout


# A printed promise, and the expected output of its command.
OUTCOMES = [
    ("2 posts a second for each user. Prints: 201 201 429", ["201", "201", "429"]),
    ("10 sign-ups a day from each address. Prints ten times 201, then 429", ["201"] * 10 + ["429"]),
    ("5 rewards a week for each device. Prints five times 200, then 429", ["200"] * 5 + ["429"]),
    ("1 order a second for each customer, further orders are delivered later. Prints: 201 202 202",
     ["201", "202", "202"]),
    ("10,000 requests a second for all. Prints: X-Ratelimit-Limit: 10000 and X-Ratelimit-Remaining: 9999",
     ["X-Ratelimit-Limit:", "10000", "X-Ratelimit-Remaining:", "9999"]),
]


@pytest.fixture(name="demo")
def _demo(clock):
    """The demo on the test's clock: units of a second are not refilled while a slow machine runs curl."""
    del clock
    with Demo(free_port()) as demo:
        yield demo


def test_each_printed_command_has_the_promised_output(demo, clock):
    """Runs each printed curl command and compares its output with the text above it."""
    lines = demo.curl_lines()
    assert [promise for promise, _ in lines] == [promise for promise, _ in OUTCOMES]
    # Orders come last: later deliveries count too, and nothing else may count when 9,999 are to be left.
    for (promise, line), (_, outcome) in sorted(zip(lines, OUTCOMES), key=lambda tried: "order" in tried[0][0]):
        clock.advance(1)  # the shared limit is full
        assert sh(line).split() == outcome, promise


def test_dashboard_address_has_a_token(demo):
    """A client with the token of the printed address is accepted, a client without a token is not."""
    shown = re.search(rf"^Dashboard: http://127\.0\.0\.1:{demo.admin_port}/#token=([0-9a-f]{{64}})$", demo.output(), re.M)
    assert fetch(demo.admin_port, "GET", "/v1/status", {"Authorization": f"Bearer {shown[1]}"}).status == 200
    assert fetch(demo.admin_port, "POST", "/v1/pause", JSON, b"{}", anonymous=True).status == 401


def test_every_run_begins_with_empty_counters(demo):
    lines = demo.curl_lines()
    assert sh(lines[1][1]).split() == OUTCOMES[1][1]
    assert sh(lines[1][1]).split() == ["429"] * 11
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(60) == 0
    with Demo(demo.port) as again:
        assert sh(again.curl_lines()[1][1]).split() == OUTCOMES[1][1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_all_processes(demo, number):
    """After SIGINT, SIGTERM or SIGHUP no process, file or folder of the demo is left."""
    assert len(demo.sessions) == 4
    demo.process.send_signal(number)
    assert demo.process.wait(60) == 0
    wait_for(lambda: demo.left() == {}, f"all of it to end: {demo.left()}")
    assert demo.traces() == []


def test_api_exits_with_the_demo_in_every_case(demo):
    """The API exits even if the demo is killed with -9."""
    api = [s for s in demo.sessions if "api.py" in " ".join(
        Path(f"/proc/{s}/cmdline").read_text().split("\0"))]
    demo.process.kill()
    wait_for(lambda: programs.session(api[0]) == {}, "the API to end")


def test_port_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with Demo(port) as demo:
            assert demo.process.wait(60) == 1
            assert f"port {port} is in use by" in demo.output()
            assert "`make run PORT=8090` uses another port" in demo.output()
            assert demo.traces() == []


def test_makefile_runs_the_demo():
    """Checks the recipe without building."""
    recipe = subprocess.run(["make", "-n", "--no-print-directory", "run", "PORT=8123"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout
    assert "tools/setup run\n" in recipe
    assert recipe.rstrip().endswith("/usr/bin/python3 examples/quickstart/run build 8123")


def test_rules_of_the_demo_have_no_warning():
    done = subprocess.run([BUILD / "weir", "check", "--strict", QUICKSTART / "rules.yaml"], capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
