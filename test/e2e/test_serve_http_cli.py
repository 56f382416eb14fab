"""weir ask, weir key, weir pause, weir resume against a running service: words, JSON, exit codes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from weirtest import WEIR, Client, free_port, programs, patience, tokens, wait_for
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - when: {path: /named}
    descriptor: [{key: client, from: [header.x-name, remote_address]}]
descriptors:
  - key: client
    rate_limit: {unit: year, requests_per_unit: 9}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2, name: per-user}
  - key: plan
    descriptors:
      - key: user
        rate_limit: {unit: year, requests_per_unit: 5}
  - key: door
    rate_limit: {unit: day, requests_per_unit: 4, algorithm: leaky_bucket, queue_size: 2}
"""
TOKEN = "a-token-for-the-command"


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, http=True, grpc=True, admin=True) as running:
        yield running


def weir(*words, variables=None):
    """Runs a command of weir. Returns (exit code, stdout, stderr)."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
    done = subprocess.run([str(WEIR), *words], env={**env, "TZ": "UTC", **(variables or {})}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=patience(60), check=False)
    return done.returncode, done.stdout, done.stderr


def test_ask_over_both_protocols_counts_once_each(serve):
    http = ("ask", "--http", f"127.0.0.1:{serve.http_port}")
    grpc = ("ask", "--grpc", f"127.0.0.1:{serve.grpc_port}")
    assert weir(*http, "api", "user=1") == (0, "admitted, 1 of 2 left in api/user/365d\n", "")
    code, out, err = weir(*grpc, "api", "user=1")
    assert (code, err) == (0, "") and out.startswith("admitted\n  ok, 0 left of 2 per year, reset in ")
    code, out, _ = weir(*http, "api", "user=1")
    assert code == 1 and out.startswith("refused, 0 of 2 left in api/user/365d, try again in ")
    code, out, _ = weir(*grpc, "api", "user=1")
    assert code == 1 and out.startswith("refused\n  over limit, 0 left of 2 per year")


def test_ask_options(serve):
    """--hits, --json, several descriptors and delays, over HTTP and gRPC."""
    http = ("ask", "--http", str(serve.http_port))
    assert weir(*http, "api", "nobody=1")[:2] == (0, "admitted, no limit applies\n")
    assert weir(*http, "--hits", "0", "api", "user=2")[1] == "admitted, 2 of 2 left in api/user/365d\n"
    code, out, _ = weir(*http, "--hits", "3", "api", "user=2")
    assert (code, out) == (1, "refused, 2 of 2 left in api/user/365d, waiting does not help\n")
    code, out, _ = weir(*http, "--json", "api", "plan=free", "user=a=b", "+", "user=3")
    reported = json.loads(out)
    assert code == 0 and [d["remaining"] for d in reported["descriptors"]] == [4, 1]
    code, out, _ = weir("ask", "--json", "--hits", "2", "api", "plan=free", "user=a=b", "+", "user=4",
                        variables={"WEIR_GRPC": str(serve.grpc_port)})
    reported = json.loads(out)
    assert code == 0 and [s.get("limitRemaining", 0) for s in reported["statuses"]] == [2, 0]
    assert weir(*http, "api", "door=1")[0] == 0
    assert weir(*http, "api", "door=1")[1].startswith("admitted after 5 h 5")  # a quarter of a day, and the test took some of it


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_ask_reserves_and_settles(serve, protocol):
    """--reserve prints a token, which --commit, --cancel and --release settle. The exit code says whether they did."""
    http = protocol == "http"
    ask = ("ask", f"--{protocol}", str(serve.http_port if http else serve.grpc_port))
    plan = ("api", f"plan={protocol}", "user=r")

    def reserve(*words):
        code, out, err = weir(*ask, "--reserve", *words, *plan)
        first, token, rest = out.split("\n")
        assert (code, err, rest) == (0, "", "") and first.startswith("admitted")
        return first, token

    first, token = reserve("--hits", "4", "--ttl", "90s")
    assert first == ("admitted, 1 of 5 left in api/plan/user/365d, the reservation expires in 90 s" if http else "admitted")
    code, out, _ = weir(*ask, "--reserve", "--hits", "2", *plan)
    assert code == 1 and out.startswith("refused") and out.count("\n") == 1
    assert weir(*ask, "--commit", token, "--actual", "3") == (0, "committed, 1 given back\n" if http else "committed\n", "")
    assert weir(*ask, "--commit", token, "--actual", "3") == (0, "already settled\n" if http else "committed\n", "")
    assert weir(*ask, "--cancel", reserve("--hits", "2")[1]) == (0, "cancelled, 2 given back\n", "")
    token = reserve()[1]
    assert weir(*ask, "--release", token) == (0, "released\n", "")
    assert weir(*ask, "--cancel", token) == (0, "already settled\n", "")
    code, out, _ = weir(*ask, "--json", "--reserve", *plan)
    token = json.loads(out)["reservation" if http else "reservationId"]
    assert code == 0 and (not http or json.loads(out)["remaining"] == 0)
    code, out, _ = weir(*ask, "--json", "--commit", token, "--actual", "0")
    assert (code, json.loads(out)) == \
        (0, {"status": "committed", "refunded": 1, "charged": 0} if http else {"reservationReleased": True})
    code, out, _ = weir(*ask, "--json", "--cancel", token)
    assert (code, json.loads(out)) == (0, {"status": "already", "refunded": 0, "charged": 0} if http else {"status": "ALREADY"})
    # Unknown reservations: the descriptors are charged if they are given.
    assert weir(*ask, "--commit", "x", "--actual", "1") == (1, "unknown\n" if http else "expired or unknown\n", "")
    assert weir(*ask, "--commit", "x", "--actual", "1", *plan)[:2] == \
        (1, "unknown, 1 charged\n" if http else "expired or unknown\n")
    assert weir(*ask, "--cancel", "x")[:2] == (1, "unknown\n")
    code, out, err = weir(*ask, "--reserve", "api", "plan=" + "x" * 1600, "user=r")
    assert (code, out) == (2, "") and "must fit into a token of 2048 bytes" in err


@pytest.mark.parametrize("words,message", [
    (("ask", "--reserve", "api"), "DOMAIN and KEY=VALUE are missing"),
    (("ask", "--reserve", "--ttl", "0s", "api", "a=1"), "--ttl is '0s'"),
    (("ask", "--reserve", "--ttl", "25h", "api", "a=1"), "--ttl is '25h', which is not from 1s to 1d"),
    (("ask", "--ttl", "5s", "api", "a=1"), "--ttl needs --reserve"),
    (("ask", "--commit", "x"), "--commit needs --actual"),
    (("ask", "--commit", "x", "--actual", "-1"), "--actual is '-1', which is not a whole number"),
    (("ask", "--commit", "x", "--actual", "4294967296"), "--actual is '4294967296'"),
    (("ask", "--commit", "x", "--actual", "1", "api"), "DOMAIN and KEY=VALUE are missing"),
    (("ask", "--actual", "1", "api", "a=1"), "--actual needs --commit"),
    (("ask", "--cancel", "x", "--hits", "1"), "--hits belongs to --reserve"),
    (("ask", "--release", "x", "api", "a=1"), "--cancel and --release need no DOMAIN"),
    (("ask", "--cancel", "x", "--release", "x"), "cannot be used together"),
    (("ask", "api"), "DOMAIN and KEY=VALUE are missing"),
    (("ask", "api", "user"), "'user' is not KEY=VALUE"),
    (("ask", "api", "=7"), "'=7' is not KEY=VALUE"),
    (("ask", "--hits", "x", "api", "a=1"), "--hits is 'x', which is not a whole number"),
    (("ask", "--hits", "-1", "api", "a=1"), "--hits is below 0"),
    (("ask", "--grpc", "1", "--http", "2", "api", "a=1"), "--grpc and --http cannot be used together"),
    (("ask", "--what", "api", "a=1"), "there is no option '--what'"),
    (("ask", "--grpc", "nowhere", "api", "a=1"), "nowhere"),
    (("key", "get", "api"), "are needed"),
    (("key", "show", "api", "a=1"), "'show' is not one of: get, reset, grant, ban"),
    (("key", "get", "--extra", "1", "api", "a=1"), "--extra is for grant"),
    (("key", "grant", "--extra", "1", "api", "a=1"), "grant needs"),
    (("key", "ban", "api", "a=1"), "ban needs"),
    (("key", "get", "--from", "b=path", "api", "a=1"), "a KEY of the descriptor"),
    (("key", "get", "--from", "a", "api", "a=1"), "a KEY of the descriptor"),
    (("pause", "a", "b"), "'b' is an unexpected argument"),
    (("resume", "--lst"), "there is no option --lst; did you mean --list?")])
def test_usage(words, message):
    """Wrong arguments are named on standard error, with exit code 2."""
    code, out, err = weir(*words)
    assert (code, out) == (2, "") and message in err


def test_explain_without_requests_entries(tmp_path):
    """If no domain maps HTTP requests to descriptors, `weir explain --http` says so and names the other form."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]\n", encoding="ascii")
    message = ("weir explain: no domain of the rules has `requests:` entries, so these rules limit no HTTP requests; add "
               f"`requests:` (docs/rules.md), or explain a descriptor: weir explain --rules {rules} DOMAIN KEY=VALUE…\n")
    assert weir("explain", "--rules", rules, "--http", "GET /x") == (1, "", message)
    assert weir("explain", "--rules", rules, "--http", "GET /x", "--json") == (1, "[]\n", message)
    assert weir("explain", "--rules", rules, "api", "user=7")[0::2] == (0, "")


def test_nobody_there():
    """Each command names the address at which no service answers."""
    port = free_port()
    for words in (("ask", "--grpc", str(port), "api", "a=1"), ("ask", "--http", str(port), "api", "a=1"),
                  ("ask", "--grpc", str(port), "--reserve", "api", "a=1"), ("ask", "--http", str(port), "--cancel", "x"),
                  ("key", "get", "--admin", str(port), "api", "a=1"), ("pause", "--admin", str(port))):
        code, out, err = weir(*words)
        assert (code, out) == (2, "") and f"no service answers at {port}" in err


def test_the_wrong_port(serve):
    """A gRPC question at the HTTP port, and the reverse, are reported as such."""
    code, _, err = weir("ask", "--grpc", str(serve.http_port), "api", "a=1")
    assert code == 2 and "gRPC" in err
    code, _, err = weir("ask", "--http", str(serve.grpc_port), "api", "a=1")
    assert code == 2 and "HTTP/1.1" in err


def test_no_proxy_of_the_environment(serve):
    """http_proxy and similar variables are ignored."""
    elsewhere = {name: f"http://127.0.0.1:{free_port()}" for name in ("http_proxy", "all_proxy", "ALL_PROXY")}
    assert weir("ask", "--http", str(serve.http_port), "api", "user=proxy", variables=elsewhere)[0] == 0


@pytest.mark.parametrize("answer,message", [
    (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (17 << 20), "the response is larger than 16 MiB"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "the connection ended before the response"),
    (b"", "the connection ended before the response"),
    (b"-ERR unknown command\r\n", "does not speak HTTP/1.1")])
def test_responses_that_cannot_be_used(answer, message):
    """Invalid responses of a server are reported, with exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve_once():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(65536)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)
        thread = threading.Thread(target=serve_once)
        thread.start()
        code, out, err = weir("ask", "--http", str(listener.getsockname()[1]), "api", "a=1")
        thread.join()
    assert (code, out) == (2, "") and message in err


@pytest.mark.parametrize("how", ["--http", "--grpc"])
def test_a_stopped_command_continues_to_wait(serve, how):
    """Ctrl-Z and fg, or a suspended machine: the command continues to wait for the response."""
    port = serve.http_port if how == "--http" else serve.grpc_port
    serve.signal(signal.SIGSTOP)
    try:
        asking = programs.start([WEIR, "ask", how, port, "api", f"user=stopped{how}"], stdout=subprocess.PIPE, text=True)
        wait_for(lambda: is_connected(asking) and state(asking) == "S", "it to wait for the answer")
        asking.send_signal(signal.SIGSTOP)
        wait_for(lambda: state(asking) == "T", "it to stand still")
        asking.send_signal(signal.SIGCONT)
        wait_for(lambda: state(asking) != "T", "it to go on")
    finally:
        serve.signal(signal.SIGCONT)
    out = asking.communicate(timeout=patience(60))[0]
    programs.stop(asking)
    assert asking.returncode == 0 and out.startswith("admitted")


def state(process):
    """Returns the kernel's state of a process, such as S or T."""
    return Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def is_connected(process):
    """Returns whether the process has an open socket."""
    try:
        return any(os.readlink(link).startswith("socket:") for link in Path(f"/proc/{process.pid}/fd").iterdir())
    except FileNotFoundError:  # closed just now
        return False


@pytest.mark.parametrize("command", ["advise", "ask", "candidates", "check", "explain", "gateway", "key", "pause", "queue",
                                     "replay", "resume", "serve", "simulate", "table", "top", "tune"])
def test_help_has_examples(command):
    code, out, _ = weir(command, "--help")
    assert code == 0 and out.count(f"\n  weir {command}") >= 1 and "Exit: 0" in out
    assert weir(command, "-h") == (0, out, "")


def test_variables_of_a_command(serve):
    """An option that selects what a command does has no variable, and a setting of weir serve changes no other
    command."""
    others = {"WEIR_JSON": "on", "WEIR_ALL": "on", "WEIR_LIST": "on", "WEIR_HTTP": "1", "WEIR_CONFIG": "/nowhere.yaml",
              "WEIR_HITS": "many", "WEIR_LIMIT": "none"}
    asked = weir("ask", "api", "user=v", variables={**others, "WEIR_GRPC": str(serve.grpc_port)})
    assert asked[0] == 0 and asked[1].startswith("admitted\n  ok, 1 left of 2 per year")
    admin = tokens.variables(serve.admin_port)
    assert weir("key", "reset", "api", "user=v", variables={**others, **admin}) == (0, "api/user/365d: 2 of 2 left\n", "")
    code, _, err = weir("queue", "drop", variables={**others, **admin})
    assert code == 2 and "drop needs either IDs" in err
    code, out, _ = weir("queue", "--help")
    assert "(WEIR_ADMIN)" in out and "WEIR_ALL" not in out and "The other options have no variable" in out


def test_key(serve):
    """weir key get, reset, grant and ban print the state of the counter."""
    admin = tokens.variables(serve.admin_port)
    ask = ("ask", "--http", str(serve.http_port), "api", "user=k")
    assert weir("key", "get", "api", "user=k", variables=admin) == (0, "api/user/365d: 2 of 2 left\n", "")
    weir(*ask)
    assert "1 of 2 left, fully reset in" in weir("key", "get", "api", "user=k", variables=admin)[1]
    assert weir("key", "reset", "api", "user=k", variables=admin)[1] == "api/user/365d: 2 of 2 left\n"
    out = weir("key", "grant", "--extra", "3", "--for", "1h", "api", "user=k", variables=admin)[1]
    assert out.startswith("api/user/365d: 5 of 5 left, 3 more granted until 20")
    assert weir("key", "grant", "--extra", "0", "api", "user=k", variables=admin)[1].endswith("2 of 2 left\n")
    out = weir("key", "ban", "--for", "ever", "--limit", "per-user", "api", "user=k", variables=admin)[1]
    assert out == "api/user/365d: 2 of 2 left, banned permanently\n"
    assert weir(*ask)[0] == 1
    reported = json.loads(weir("key", "ban", "--json", "--lift", "api", "user=k", variables=admin)[1])
    assert reported["counters"][0]["banned_until"] is None
    assert weir(*ask)[0] == 0
    code, out, err = weir("key", "get", "api", "no=1", variables=admin)
    assert (code, out) == (1, "") and "no limit applies" in err
    code, _, err = weir("key", "ban", "--for", "soon", "api", "user=k", variables=admin)
    assert code == 2 and "at /for" in err


def test_key_by_source(serve):
    """Rules with several sources count a header value and an address with the same text separately."""
    admin = tokens.variables(serve.admin_port)
    forwarded = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/named", "X-Name": "10.1.1.1"}
    with Client(serve.http_port) as client:
        assert client.get("/check/api", forwarded).get("X-Ratelimit-Remaining") == "8"
    by = lambda source: weir("key", "get", "--from", f"client={source}", "api", "client=10.1.1.1", variables=admin)
    assert by("header.x-name")[1].startswith("api/client/365d: 8 of 9 left")
    assert by("remote_address")[1].startswith("api/client/365d: 9 of 9 left")


def test_pause_and_resume(serve):
    admin = tokens.flags(serve.admin_port)
    assert weir("pause", *admin, "--list") == (0, "nothing is paused\n", "")
    assert weir("pause", *admin) == (0, "paused: everything\n", "")
    ask = ("ask", "--http", str(serve.http_port), "--hits", "5", "api", "user=p")
    assert weir(*ask)[0] == 0
    assert weir("pause", *admin, "api/user")[1] == "paused: everything\npaused: api/user\n"
    assert weir("resume", *admin)[1] == "paused: api/user\n"
    assert json.loads(weir("resume", *admin, "--json", "api/user")[1]) == {"paused": []}
    assert weir(*ask)[0] == 1
    code, _, err = weir("resume", *admin)
    assert code == 1 and "not paused" in err
    reported = weir("pause", *admin, "api/usr")[1]  # a misspelled name is reported
    assert reported.startswith("paused: #") and "no rule has this name" in reported
    assert weir("resume", *admin, "api/usr")[0] == 0


def test_over_sockets_and_with_a_token():
    """Unix sockets, and a token file by option and by variable."""
    serve = Serve(rules=RULES, http="unix:{folder}/http.sock", grpc="unix:{folder}/grpc.sock", admin=True,
                  args=["--admin-token-file", "{folder}/tokens"], start=False)
    with serve:
        (serve.folder / "tokens").write_text(f"# me\nme:{TOKEN}\n", encoding="ascii")
        (serve.folder / "tokens").chmod(0o600)
        serve.start()
        assert weir("ask", "--http", f"unix:{serve.folder}/http.sock", "api", "user=1")[0] == 0
        assert weir("ask", "--grpc", f"unix:{serve.folder}/grpc.sock", "api", "user=1")[0] == 0
        admin = ("--admin", str(serve.admin_port))
        code, _, err = weir("pause", *admin)
        assert code == 2 and "answered 401" in err
        assert weir("pause", *admin, "--token-file", str(serve.folder / "tokens"))[0] == 0
        by_variable = {"WEIR_ADMIN_TOKEN_FILE": str(serve.folder / "tokens")}
        assert weir("key", "get", *admin, "api", "user=1", variables=by_variable)[1].startswith(
            "api/user/365d: 0 of 2 left, fully reset in")
        serve.wait_logged("token me: pause everything")


def test_hostile_answers_do_not_steer_the_terminal(serve):
    """Control characters of a key are not printed."""
    reported = weir("key", "get", *tokens.flags(serve.admin_port), "api", "user=\x1b[31m")
    assert "\x1b" not in reported[1] + reported[2]
