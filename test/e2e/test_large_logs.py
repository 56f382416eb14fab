"""Replays logs with many lines. The counts are those of an independent count, and the memory is bounded."""

import collections
import json
import os
import subprocess

import pytest

from weirtest import WEIR, env, full

MAKE_LOG = env.BUILD / "test/lab/lab_make_log"
LIMIT = 60
RULES = f"""\
domain: api
requests:
  - descriptor: [{{key: client, from: remote_address}}]
descriptors:
  - key: client
    rate_limit: {{unit: minute, requests_per_unit: {LIMIT}, algorithm: fixed_window}}
"""
TABLE_MB = 16
MOST_MB = 256  # apart from the table


@pytest.fixture(name="rules")
def write_rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(RULES, encoding="ascii")
    return path


def replay(rules, log, stdin=None):
    """Returns the result of a replay, and the peak of its resident memory in MB."""
    argv = [WEIR, "replay", log, "--rules", rules, "--json", "--memory", f"{TABLE_MB}M"]
    with subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return json.loads(output), usage.ru_maxrss / 1024


def count_by_minute(path):
    """Returns the numbers of requests above the limit, per client."""
    counts, above = collections.Counter(), collections.Counter()
    with open(path, encoding="ascii") as lines:
        for line in lines:
            client, _, _, time = line.split(" ", 4)[:4]
            counts[client, time[:-3]] += 1
            above[client] += counts[client, time[:-3]] > LIMIT
    return +above


@pytest.mark.parametrize("kind", ["combined", "json"])
def test_100k_lines(rules, tmp_path, kind):
    """The same log in two formats gives the same result as a count in Python."""
    paths = {name: tmp_path / f"{name}.log" for name in ("combined", kind)}
    for name, path in paths.items():
        with open(path, "wb") as out:
            subprocess.run([MAKE_LOG, "100000", "864", name], stdout=out, check=True)
    above = count_by_minute(paths["combined"])
    assert above.total() > 500
    result, peak_mb = replay(rules, paths[kind])
    limit = result["limits"][0]
    assert (limit["requests"], limit["refused"]) == (100_000, above.total())
    assert limit["keys_refused"] == len(above)
    listed = {key["values"][0]: key["count"] for key in limit["most_refused"]}
    assert listed == dict(above.most_common(len(listed)))
    assert peak_mb < MOST_MB + TABLE_MB


@full("reads 2 GB")
def test_10m_lines(rules):
    """The log comes through a pipe, so that no disk needs room for it. awk counts the same numbers."""
    with subprocess.Popen([MAKE_LOG, "10000000", "86400", "combined"], stdout=subprocess.PIPE) as log:
        result, peak_mb = replay(rules, "-", log.stdout)
    limit = result["limits"][0]
    assert (limit["requests"], limit["refused"]) == (10_000_000, 1_645_217)
    assert peak_mb < MOST_MB + TABLE_MB
