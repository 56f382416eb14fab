"""weir table: list, info, resize and rm while a service has the table open."""

import json
import os
import re
import subprocess

import redis

from weirtest import env, wait_for
from weirtest.clock import for_weir
from weirtest.rls import OK, OVER, Rls
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3, algorithm: token_bucket}
"""


def table(*words):
    """Runs `weir table`. Returns (exit code, stdout, stderr)."""
    done = subprocess.run([f"{env.BUILD}/weir", "table", *map(str, words)], capture_output=True, text=True,
                          timeout=env.patience(60), env=for_weir(), check=False)
    return done.returncode, done.stdout, done.stderr


def as_json(*words):
    """Runs `weir table … --json`. Returns the parsed output."""
    code, out, err = table(*words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_resize_under_a_service_keeps_the_counters():
    """Two of three units are taken before the resize, the third after it. The file is larger and has one key."""
    with Serve(rules=RULES, grpc=True) as serve, Rls(serve.grpc_port) as rls:
        assert [rls.ask("rl", ("user", "a")) for _ in range(2)] == [OK, OK]
        listed = as_json("list", "--dir", serve.table)
        assert [(t["memory_bytes"], t["keys"]) for t in listed] == [(4 << 20, 1)]
        name = listed[0]["name"]
        grown = as_json("resize", name, "8M", "--dir", serve.table)
        assert (grown["memory_bytes"], grown["keys"]) == (8 << 20, 1)
        wait_for(lambda: "the table was resized" in serve.log(), "the service to move over")
        assert [rls.ask("rl", ("user", "a")) for _ in range(2)] == [OK, OVER]
        code, out, err = table("info", name, "--dir", serve.table)
        assert (code, err) == (0, "")
        assert f"path      {listed[0]['path']}\nmemory    8M, of which 512K for logs\npages     " in out
        assert re.search(r"^pages     \d+[KM]? of \d+[KM]? in huge pages\nkeys      1 of ", out, re.M)


LOG_RULES = RULES.replace("token_bucket", "sliding_window_log")


def log_share(serve):
    """Returns [(size of the table, size of its part for logs)] in KiB."""
    return [(t["memory_bytes"] >> 10, t["log_bytes"] >> 10) for t in as_json("list", "--dir", serve.table)]


def test_rules_with_logs_get_a_larger_share_of_a_new_table():
    """Logs get a quarter of a new table; --log-memory overrides this."""
    with Serve(rules=LOG_RULES, grpc=True) as serve:
        assert log_share(serve) == [(4096, 1024)]
        assert "--log-memory" not in serve.log()
    with Serve(rules=LOG_RULES, grpc=True, args=("--log-memory", "512K")) as serve:
        assert log_share(serve) == [(4096, 512)]
        assert "--log-memory" not in serve.log()


def test_an_old_table_keeps_its_share_and_the_log_names_the_remedy():
    """The table was created for rules without logs. The service logs a command, which enlarges the share and keeps the
    counts."""
    with Serve(rules=RULES, grpc=True) as before:
        assert log_share(before) == [(4096, 256)]
        with Serve(rules=LOG_RULES, grpc=True, table=before.table) as serve, Rls(serve.grpc_port) as rls:
            assert log_share(serve) == [(4096, 256)]
            output = [line for line in serve.log().splitlines() if "the rules use sliding_window_log" in line]
            assert len(output) == 1 and " was made with 256K of 4M for logs; " in output[0]
            assert f"with: weir table resize default 4M --log-memory 1M --dir {serve.table}" in output[0]
            assert [rls.ask("rl", ("user", "a")) for _ in range(2)] == [OK, OK]
            assert as_json("resize", "default", "4M", "--log-memory", "1M", "--dir", serve.table)["log_bytes"] == 1 << 20
            wait_for(lambda: "the table was resized" in serve.log(), "the service to move over")
            assert [rls.ask("rl", ("user", "a")) for _ in range(2)] == [OK, OVER]
            # A resize that names no share keeps it.
            assert as_json("resize", "default", "8M", "--dir", serve.table)["log_bytes"] == 2 << 20


def test_rm_and_missing_tables(tmp_path):
    """`weir table rm` removes the file; commands on a missing table fail and create nothing."""
    with Serve(rules=RULES, grpc=True) as serve:
        name = as_json("list", "--dir", serve.table)[0]["name"]
        assert as_json("rm", name, "--dir", serve.table) == {"removed": name}
        assert os.listdir(serve.table) == []
        code, out, err = table("rm", name, "--dir", serve.table)
        assert (code, out) == (1, "") and err.startswith("weir table: ")
    assert table("list", "--dir", tmp_path)[:2] == (0, "there is no table\n")
    code, out, err = table("resize", "none", "8M", "--dir", tmp_path)
    assert (code, out) == (1, "") and f"there is no {tmp_path}/none.v" in err
    assert os.listdir(tmp_path) == []


def test_list_reports_files_that_are_no_tables(tmp_path):
    (tmp_path / "odd.v2").write_text("no table")
    (tmp_path / "odd.v2").chmod(0o600)
    (tmp_path / "other.txt").write_text("")
    (tmp_path / f"{'x' * 70}.v2").write_text("")
    [odd] = as_json("list", "--dir", tmp_path)
    assert odd["name"] == "odd" and odd["path"] == f"{tmp_path}/odd.v2" and odd["error"]


def test_usage_errors_of_table():
    for words, output in [((), "list, info, resize or rm is needed"), (("grow",), "'grow' is not one of: list, info, resize, rm"),
                        (("info", "--log-memory", "1M"), "--log-memory is for resize"),
                        (("resize", "8M", "--log-memory", "x"), "--log-memory is 'x', which is not a size such as 64M"),
                        (("resize", "8M", "--log-memory", "0"), "--log-memory is '0', which is not at least 1"),
                        (("resize",), "resize needs SIZE"), (("resize", "a", "b"), "'b' is not a size"),
                        (("rm",), "rm needs NAME"), (("list", "x"), "'x' is an unexpected argument"),
                        (("info", "a", "b"), "'b' is an unexpected argument"), (("--odd",), "there is no option '--odd'"),
                        (("--dri", "x", "list"), "there is no option --dri; did you mean --dir?")]:
        code, out, err = table(*words)
        assert (code, out) == (2, "") and output in err, words
    assert table("info", "../x")[0] == 1
    assert table("--help")[1].startswith("weir table list\n")


LOGS = """
domain: api
descriptors:
  - key: few
    rate_limit: {unit: hour, requests_per_unit: 5, algorithm: sliding_window_log}
  - key: many
    rate_limit: {unit: minute, requests_per_unit: 100, algorithm: sliding_window_log}
"""


def admitted(pipe):
    """Executes a pipeline. Returns the number of admitted requests."""
    return sum(answer[1] == b"admit" for answer in pipe.execute())


def test_single_requests_leave_room_for_logs(clock):
    """20,000 clients with two requests each fill the logs' memory of 256 KiB many times over. Clients of another rule
    still get their 100 a minute, and not one more."""
    assert clock
    with Serve(rules=LOGS, memory="4M", resp=True) as serve:
        client = redis.Redis(port=serve.resp_port)
        for first in range(0, 20_000, 1000):
            pipe = client.pipeline(transaction=False)
            for number in range(first, first + 1000):
                for _ in range(2):
                    pipe.execute_command("WEIR.CHECK", "api", "few", number)
            assert admitted(pipe) == 2000
        for number in range(20):
            pipe = client.pipeline(transaction=False)
            for _ in range(110):
                pipe.execute_command("WEIR.CHECK", "api", "many", number)
            assert admitted(pipe) == 100
