"""Commands of the lab never overwrite a file that they read, and never write two results to one file."""

import os
import subprocess

import pytest

from weirtest import WEIR

RULES = """
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
descriptors:
  - key: ip
    rate_limit: {unit: minute, requests_per_unit: 5}
"""
SCENARIO = """
limit: {requests_per_unit: 10, unit: second}
duration: 1s
traffic: [{kind: steady, rate: 10/s}]
"""
LINE = '192.0.2.1 - - [01/Mar/2026:12:00:%02d +0000] "GET / HTTP/1.1" 200 10\n'


@pytest.fixture(name="folder")
def make_folder(tmp_path):
    """A folder with a log, rules and a scenario, and other names of the log."""
    (tmp_path / "access.log").write_text("".join(LINE % second for second in range(30)), encoding="ascii")
    (tmp_path / "rules.yaml").write_text(RULES, encoding="ascii")
    (tmp_path / "other.yaml").write_text(RULES, encoding="ascii")
    (tmp_path / "fleet.yaml").write_text(SCENARIO, encoding="ascii")
    (tmp_path / "symbolic").symlink_to("access.log")
    os.link(tmp_path / "access.log", tmp_path / "hard")
    return tmp_path


def weir(folder, *args):
    return subprocess.run([WEIR, *args], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option, path, args", [
    ("--html", "access.log", ["replay", "access.log", "--rules", "rules.yaml"]),
    ("--html", "symbolic", ["replay", "access.log", "--rules", "rules.yaml"]),
    ("--html", "hard", ["replay", "access.log", "--rules", "rules.yaml"]),
    ("--html", "rules.yaml", ["replay", "access.log", "--rules", "rules.yaml"]),
    ("--html", "other.yaml", ["replay", "access.log", "--rules", "rules.yaml", "--compare", "other.yaml"]),
    ("--out", "access.log", ["tune", "access.log"]),
    ("--svg", "./access.log", ["tune", "access.log"]),
    ("--html", "rules.yaml", ["tune", "access.log", "--rules", "rules.yaml"]),
    ("--html", "fleet.yaml", ["simulate", "fleet.yaml"]),
    ("--svg", "fleet.yaml", ["simulate", "fleet.yaml"]),
])
def test_an_input_is_not_overwritten(folder, option, path, args):
    before = {name.name: name.read_bytes() for name in folder.iterdir()}
    done = weir(folder, *args, option, path)
    assert done.returncode == 2 and done.stdout == ""
    assert f"{option} {path} would overwrite" in done.stderr
    assert {name.name: name.read_bytes() for name in folder.iterdir()} == before


def test_two_outputs_are_two_files(folder):
    done = weir(folder, "tune", "access.log", "--html", "result", "--svg", "result")
    assert done.returncode == 2 and "--html and --svg name the same file" in done.stderr
    done = weir(folder, "simulate", "fleet.yaml", "--html", "result", "--svg", "result")
    assert done.returncode == 2 and "--html and --svg name the same file" in done.stderr
    assert not (folder / "result").exists()


def test_a_device_can_be_written_twice(folder):
    assert weir(folder, "simulate", "fleet.yaml", "--html", "/dev/null", "--svg", "/dev/null").returncode == 0


def test_an_old_result_is_replaced(folder):
    for _ in range(2):
        assert weir(folder, "replay", "access.log", "--rules", "rules.yaml", "--html", "page.html").returncode == 0
    assert "<html" in (folder / "page.html").read_text(encoding="utf-8")
