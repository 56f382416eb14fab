"""The RESP port with common clients: redis-cli, redis-py, redis-benchmark, ioredis."""

import signal
import subprocess

import pytest
import redis

from weirtest import Clock, certificate, env, needs, wait_for
from weirtest.node import run_node
from weirtest.resp import Error, Resp
from weirtest.serve import Serve

RULES = """
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 3, algorithm: token_bucket}
"""
# A bucket of 3 that gets one back in a day: reported times are 86400 s and multiples.
THREE = ("2", "1", "86400")


@pytest.fixture(scope="module", autouse=True)
def clock():
    """A clock that stands still: reported times are exact."""
    with Clock() as stands:
        yield stands


@pytest.fixture(name="serve", scope="module")
def _serve():
    with Serve(rules=RULES, resp=True, args=["--refunds", "127.0.0.0/8"]) as serve:
        yield serve


def cli(*args, serve=None, stdin=None, code=0):
    """Runs redis-cli. Returns its lines."""
    where = ["-p", str(serve.resp_port)] if serve else []
    done = subprocess.run(["redis-cli", "--no-raw", *where, *map(str, args)], text=True, input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=env.patience(20), check=False)
    assert done.returncode == code, done.stdout
    return done.stdout.splitlines()


# ---- redis-cli ----

def test_redis_cli(serve):
    assert cli("PING", serve=serve) == ["PONG"]
    asked = ("CL.THROTTLE", "cli", *THREE)
    assert cli(*asked, serve=serve) == [
        "1) (integer) 0", "2) (integer) 3", "3) (integer) 2", "4) (integer) -1", "5) (integer) 86400"]
    assert cli(*asked, 2, serve=serve)[2:4] == ["3) (integer) 0", "4) (integer) -1"]
    refused = cli(*asked, serve=serve)
    assert refused[0] == "1) (integer) 1" and refused[3] == "4) (integer) 86400"


def test_redis_cli_with_resp3_and_inline_commands(serve):
    answer = cli("-3", "WEIR.CHECK", "api", "user", "cli", serve=serve)
    assert answer[0] == '1# "verdict" => "admit"'
    assert answer[2] == '3# "remaining" => (integer) 2'
    # Lines from a pipe, as typed by a person.
    assert cli(serve=serve, stdin='ECHO "a b"\nPING\nNOSUCH x\n') == [
        '"a b"', "PONG", "(error) ERR unknown command 'NOSUCH', with args beginning with: 'x' "]


def test_redis_cli_pipe(serve):
    """redis-cli --pipe writes without reading, then sends ECHO to check that all has arrived."""
    done = subprocess.run(["redis-cli", "-p", str(serve.resp_port), "--pipe"], text=True,
                          input="CL.THROTTLE pipe 99 1 86400\r\n" * 1000, stdout=subprocess.PIPE,
                          timeout=env.patience(20), check=True)
    assert "errors: 0, replies: 1000" in done.stdout
    assert cli("CL.THROTTLE", "pipe", 99, 1, 86400, 0, serve=serve)[2] == "3) (integer) 0"


# ---- redis-py ----

def test_redis_py(serve):
    client = redis.Redis(port=serve.resp_port, client_name="e2e", decode_responses=True)
    assert client.ping() is True
    assert client.echo("x") == "x"
    assert client.client_getname() == "e2e"
    assert client.client_id() > 0
    assert client.client_info()["name"] == "e2e"
    assert client.config_get("save") == {"save": ""}
    assert client.command_count() == 30
    assert set(client.command()) >= {"cl.throttle", "weir.check", "ping"}
    assert client.info("server")["tcp_port"] == serve.resp_port
    assert client.info()["rules_generation"] == 1
    assert client.execute_command("CL.THROTTLE", "py", *THREE) == [0, 3, 2, -1, 86400]
    assert client.execute_command("THROTTLE", "py", 3, 1, 86400) == [1, 3, 1, 172800, 0]
    with pytest.raises(redis.ResponseError, match="^unknown command 'GET'"):
        client.get("x")


def test_redis_py_pipeline(serve):
    client = redis.Redis(port=serve.resp_port)
    pipe = client.pipeline(transaction=False)
    for _ in range(3000):
        pipe.execute_command("CL.THROTTLE", "py:pipeline", 999, 1, 86400)
    answers = pipe.execute()
    assert [a[0] for a in answers] == [0] * 1000 + [1] * 2000
    assert [a[2] for a in answers[:1000]] == list(range(999, -1, -1))


def test_redis_py_transaction(serve):
    """pipeline() of redis-py sends MULTI and EXEC by default."""
    client = redis.Redis(port=serve.resp_port)
    pipe = client.pipeline()
    for _ in range(3000):
        pipe.execute_command("CL.THROTTLE", "py:transaction", 999, 1, 86400)
    pipe.execute_command("WEIR.CHECK", "api", "user", "transaction")
    *answers, check = pipe.execute()
    assert [a[0] for a in answers] == [0] * 1000 + [1] * 2000
    assert [a[2] for a in answers[:1000]] == list(range(999, -1, -1))
    assert check[:6] == [b"verdict", b"admit", b"limit", 3, b"remaining", 2]
    pipe = client.pipeline()
    pipe.execute_command("CL.THROTTLE", "py:transaction2", *THREE)
    pipe.execute_command("NOSUCH")
    with pytest.raises(redis.ResponseError, match="unknown command 'NOSUCH'"):
        pipe.execute()
    assert client.execute_command("CL.THROTTLE", "py:transaction2", *THREE)[2] == 2  # nothing was taken before


def test_check_peek_reset(serve):
    """WEIR.CHECK takes units, WEIR.PEEK takes none, WEIR.RESET gives all back."""
    client = redis.Redis(port=serve.resp_port, decode_responses=True)

    def ask(what, *more):
        flat = client.execute_command(what, "api", *more, "user", "check")
        return dict(zip(flat[::2], flat[1::2]))

    assert ask("WEIR.PEEK")["remaining"] == 3
    first = ask("WEIR.CHECK")
    assert (first["verdict"], first["limit"], first["remaining"], first["status"]) == ("admit", 3, 2, 200)
    assert first["rule"] == "api/user/1d"
    assert ask("WEIR.CHECK", "HITS", 2)["remaining"] == 0
    refused = ask("WEIR.CHECK")
    assert (refused["verdict"], refused["status"]) == ("refuse", 429)
    assert refused["retry_after_ms"] == 28_800_000  # a third of a day
    assert client.execute_command("WEIR.RESET", "api", "user", "check") == 1
    assert ask("WEIR.PEEK")["remaining"] == 3


def test_refunds_and_resets_need_permission():
    """A client on this machine has no special permission."""
    with Serve(rules=RULES, resp=True) as closed, Resp(closed.resp_port) as client:
        client.call("WEIR.CHECK", "api", "HITS", "3", "user", "r")
        for words in (("WEIR.CHECK", "api", "HITS", "-3", "user", "r"), ("CL.THROTTLE", "k", "4", "1", "60", "-5"),
                      ("WEIR.RESET", "api", "user", "r")):
            output = client.call(*words)
            assert isinstance(output, Error) and output.startswith("NOPERM"), (words, output)
        flat = client.call("WEIR.PEEK", "api", "user", "r")
        assert dict(zip(flat[::2], flat[1::2]))["remaining"] == 0


# ---- redis-benchmark, ioredis ----

def test_redis_benchmark(serve):
    with Resp(serve.resp_port) as resp:
        before = processed(resp)
        for what in (["-t", "ping"], ["CL.THROTTLE", "bench:__rand_int__", "15", "30", "60"]):
            done = subprocess.run(["redis-benchmark", "-p", str(serve.resp_port), "-q", "-n", "10000",
                                   "-c", "20", "-P", "16", "-r", "1000", *what], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=env.patience(60), check=True)
            assert "requests per second" in done.stdout and "rror" not in done.stdout, done.stdout
            assert "WARNING" not in done.stdout, done.stdout
        assert processed(resp) - before >= 3 * 10000


def processed(resp):
    """Returns the number of commands that the service has processed."""
    info = dict(line.split(":", 1) for line in resp.call("INFO", "stats").split("\r\n") if ":" in line)
    return int(info["total_commands_processed"])


@needs("npm")
@pytest.mark.seconds(300)
def test_ioredis(serve):
    seen = run_node("ioredis.js", serve.resp_port)
    assert seen["ping"] == "PONG" and seen["name"] == "e2e"
    assert [t[:3] for t in seen["throttle"]] == [[0, 2, 1], [0, 2, 0], [1, 2, 0]]
    assert seen["check"][:6] == ["verdict", "admit", "limit", 3, "remaining", 2]
    assert (seen["admitted"], seen["refused"]) == (100, 900)
    assert seen["transaction"] == [0, 0, 1]
    assert seen["error"].startswith("ERR unknown command 'NOSUCH'")


# ---- passwords ----

@needs("npm")
@pytest.mark.seconds(300)
def test_ioredis_with_a_password():
    with Serve(rules=RULES, resp=True, args=["--resp-password-file", "{folder}/users"],
               start=False) as serve:
        (serve.folder / "users").write_text("secret\n", encoding="ascii")
        (serve.folder / "users").chmod(0o600)
        serve.start()
        assert run_node("ioredis.js", serve.resp_port, "secret")["ping"] == "PONG"


def test_passwords():
    """Users of the password file are accepted; wrong and missing passwords are refused."""
    with Serve(rules=RULES, resp=True, args=["--resp-password-file", "{folder}/users"],
               start=False) as serve:
        users = serve.folder / "users"
        users.write_text("secret\nann:other\n", encoding="ascii")
        users.chmod(0o644)
        code, output = serve.run()
        assert code != 0 and "FOLDER/users is accessible to other users: run chmod 600 on it" in output
        users.chmod(0o600)
        serve.start()
        port = serve.resp_port

        assert redis.Redis(port=port, password="secret").ping()
        assert redis.Redis(port=port, username="ann", password="other").ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port).ping()
        with pytest.raises(redis.ResponseError, match="^WRONGPASS"):
            redis.Redis(port=port, password="wrong").ping()
        with Resp(port) as resp:
            assert resp.call("CL.THROTTLE", "k", *THREE) == "NOAUTH Authentication required."
            assert resp.call("HELLO", 3, "AUTH", "ann", "other")["proto"] == 3
            assert resp.call("CL.THROTTLE", "k", *THREE)[0] == 0


def test_wrong_passwords_are_limited(clock):
    """Sixty wrong passwords a minute from one address, over all its connections, and then one a second."""
    with Serve(rules=RULES, resp=True, args=["--resp-password-file", "{folder}/users"],
               start=False) as serve:
        (serve.folder / "users").write_text("secret\n", encoding="ascii")
        (serve.folder / "users").chmod(0o600)
        serve.start()
        answers = []
        for _ in range(10):
            with Resp(serve.resp_port) as resp:
                answers += [resp.call("AUTH", "wrong") for _ in range(10)]
        assert all(a.startswith("WRONGPASS") for a in answers[:60])
        assert all(a.startswith("ERR too many failed attempts") for a in answers[60:])
        clock.advance(1)
        with Resp(serve.resp_port) as resp:
            assert [resp.call("AUTH", "wrong").split()[0] for _ in range(3)] == ["WRONGPASS", "ERR", "ERR"]


# ---- listeners ----

def test_resp_over_a_unix_socket():
    with Serve(rules=RULES, resp="unix:{folder}/resp") as serve:
        where = str(serve.folder / "resp")
        assert cli("-s", where, "PING") == ["PONG"]
        assert redis.Redis(unix_socket_path=where).execute_command("WEIR.RESET", "api", "user", 1) == 1
        assert redis.Redis(unix_socket_path=where).client_info()["addr"] == where


def test_resp_over_tls():
    with Serve(rules=RULES, resp=True, start=False,
               args=["--tls-cert", "{folder}/cert.pem", "--tls-key", "{folder}/key.pem"]) as serve:
        certificate.self_signed(serve.folder)
        serve.start()
        ca = str(serve.folder / "cert.pem")
        assert cli("--tls", "--cacert", ca, "--sni", "localhost", "PING", serve=serve) == ["PONG"]
        client = redis.Redis(host="localhost", port=serve.resp_port, ssl=True, ssl_ca_certs=ca)
        pipe = client.pipeline(transaction=False)
        for _ in range(2000):
            pipe.execute_command("CL.THROTTLE", "tls", 999, 1, 86400)
        assert sum(a[0] == 0 for a in pipe.execute()) == 1000
        client.connection_pool.disconnect()


# ---- running ----

def test_new_rules_reach_open_connections():
    """Commands on an open connection use new rules and continue the count."""
    with Serve(rules=RULES, resp=True) as serve, Resp(serve.resp_port) as resp:
        resp.call("HELLO", 3)
        assert resp.call("WEIR.CHECK", "api", "user", 1)["limit"] == 3
        serve.write_rules(RULES.replace("requests_per_unit: 3", "requests_per_unit: 30"))
        wait_for(lambda: resp.call("WEIR.PEEK", "api", "user", 1)["limit"] == 30, "the new rules")
        assert resp.call("WEIR.CHECK", "api", "user", 1)["remaining"] == 28


def test_shadow_mode_admits_everything():
    with Serve(rules=RULES, resp=True, args=["--shadow"]) as serve, Resp(serve.resp_port) as resp:
        resp.call("HELLO", 3)
        answers = [resp.call("WEIR.CHECK", "api", "user", 1) for _ in range(5)]
        assert {a["verdict"] for a in answers} == {"admit"}
        assert [a["remaining"] for a in answers] == [2, 1, 0, 0, 0]
        assert [resp.call("CL.THROTTLE", "k", *THREE)[0] for _ in range(5)] == [0] * 5


def test_sigterm_ends_connections():
    with Serve(rules=RULES, resp=True) as serve, Resp(serve.resp_port) as resp:
        assert resp.call("PING") == "PONG"
        serve.signal(signal.SIGTERM)
        assert resp.ended()
        resp.close()
        assert serve.wait() == 0


def test_errors_do_not_end_the_connection(serve):
    with Resp(serve.resp_port) as resp:
        assert isinstance(resp.call("CL.THROTTLE", "k"), Error)
        assert resp.call("PING") == "PONG"
