"""examples/flask as described in its README: three apps, each with its own weir, nginx and Redis; one limit."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from weirtest import ROOT, WEIR, Client, fetch, free_port, full, programs, wait_for
from weirtest.gateway import variables

pytestmark = full("an example with three apps; test_redis_serve.py has one limit for several nodes")

EXAMPLE = ROOT / "examples/flask"
PORTS = ("8080", "5001", "5002", "5003", "8091", "8092", "8093", "6390")
# Additions for the test: a way to see whether a weir has reached Redis, by its only loop; and apps that wait for a
# response on a busy machine.
CHANGES = {"run": [("--admin off", '--threads 1 --admin "unix:$work/$3.sock"')], "app.py": [("timeout=1)", "timeout=60)")],
           "nginx.conf": []}


class Demo:
    """Runs `run` in a copy of its folder with free ports."""

    def __init__(self):
        self.folder = Path(programs.temp_folder("flask"))
        self.example = self.folder / "flask"
        shutil.copytree(EXAMPLE, self.example, ignore=shutil.ignore_patterns("__pycache__"))
        self.ports = {p: str(free_port()) for p in PORTS}
        for name, changes in CHANGES.items():
            text = re.sub(r"\b(%s)\b" % "|".join(PORTS), lambda m: self.ports[m[0]],
                          (self.example / name).read_text(encoding="utf-8"))
            for old, new in changes:
                assert text.count(old) == 1, (name, old)
                text = text.replace(old, new)
            (self.example / name).write_text(text, encoding="utf-8")
        self.port = int(self.ports["8080"])

    def __enter__(self):
        (self.folder / "tmp").mkdir()
        with open(self.folder / "output", "wb") as out:
            # A timeout above the usual 250 ms, so that a busy machine does not exceed it.
            self.process = programs.start([self.example / "run", WEIR], stdout=out, stderr=out, cwd=self.folder, env=variables(
                self.folder, TMPDIR=str(self.folder / "tmp"), PYTHONDONTWRITEBYTECODE="1", WEIR_REDIS_TIMEOUT="20s"))
        wait_for(lambda: "Ready." in self.output() or self.process.poll() is not None, "the demo to be ready", 30)
        assert self.process.poll() is None, self.output()
        wait_for(self.all_up, "three to reach Redis", 30)
        return self

    def all_up(self):
        """Waits until all nodes use Redis. Until then each grants its share alone."""
        found = [json.loads(fetch(str(path), "GET", "/v1/status").body)["store"]
                 for path in (self.folder / "tmp").glob("*/app?.sock")]
        return [(store["state"], store["secret"] != "unknown") for store in found] == [("up", True)] * 3

    def __exit__(self, kind, *_):
        os.kill(self.process.pid, signal.SIGTERM)
        try:
            wait_for(lambda: self.process.poll() is not None, "the demo to end", 20)
            left = programs.session(self.process.pid)
            traces = list((self.folder / "tmp").iterdir())
        finally:
            programs.stop(self.process)
            output = self.output()
            programs.remove_folder(str(self.folder))
        if kind is None:
            assert (self.process.returncode, left, traces) == (0, {}, []), output
            assert not re.search("Traceback|Sanitizer|runtime error", output), output

    def output(self):
        return (self.folder / "output").read_text(errors="replace")

    def printed(self):
        """Returns the command that the demo prints."""
        return re.search(r"^  (curl .*)$", self.output(), re.M)[1]


@pytest.fixture(scope="module")
def demo():
    with Demo() as running:
        yield running


def test_ten_of_twelve_requests_to_three_apps_pass(demo):
    with os.popen(demo.printed()) as pipe:
        assert pipe.read().split() == ["200"] * 10 + ["429"] * 2


def test_all_three_apps_answer_and_count_down_together(demo):
    with Client(demo.port) as client:
        answers = [client.get("/", {"X-User-Id": "bob"}) for _ in range(11)]
    assert [a.status for a in answers] == [200] * 10 + [429]
    assert [a.get("x-ratelimit-remaining") for a in answers] == [str(n) for n in (9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)]
    assert {json.loads(a.body)["app"] for a in answers[:10]} == {"app1", "app2", "app3"}
    refused = answers[10]
    assert 1 <= int(refused.get("retry-after")) <= 60
    assert json.loads(refused.body)["error"] == "too many requests"
