"""The Unix socket of the admin API: its path, its users, and the commands that use it."""

import contextlib
import os
import socket
import stat
import subprocess

import pytest

from weirtest import JSON, WEIR, Client, connect, fetch, free_port, needs, patience, tokens, wait_for
from weirtest.gateway import Gateway
from weirtest.serve import Serve

RULES = """
domain: api
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2, name: per-user}
"""
NOBODY = 65534


def weir(*words, variables=None, folder=None):
    """Runs a command of weir in a folder. Returns (exit code, stdout, stderr)."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("WEIR_", "XDG_"))}
    done = subprocess.run([str(WEIR), *words], env={**clean, **(variables or {})}, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=patience(60), check=False, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def path_of(serve):
    """Returns the default path of the admin socket."""
    return f"{serve.table}/default.admin"


def as_user(where, uid, gid, groups=(), method="POST", target="/v1/pause", body=b"{}"):
    """Returns the status that a process of that user gets at a port or a socket, or None without a response."""
    there, back = os.pipe()
    child = os.fork()
    if child == 0:
        status = 0
        with contextlib.suppress(BaseException):
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            status = fetch(where, method, target, JSON, body, anonymous=True).status
        os.write(back, b"%d" % status)
        os._exit(0)
    os.close(back)
    with os.fdopen(there, "rb") as answer:
        reported = int(answer.read())
    os.waitpid(child, 0)
    return reported or None


def test_commands_ask_the_socket():
    """Commands find the socket by the table. An address, a token or WEIR_ADMIN_SOCKET selects another way to the
    service."""
    with Serve(rules=RULES, http=True, admin=True) as serve:
        here = {"WEIR_TABLE_DIR": serve.table}
        assert weir("key", "get", "api", "user=k", variables=here) == (0, "api/user/365d: 2 of 2 left\n", "")
        assert weir("pause", variables=here) == (0, "paused: everything\n", "")
        serve.wait_logged(f"admin: uid {os.getuid()} (pid ")
        assert weir("pause", "--list", "--dir", serve.table) == (0, "paused: everything\n", "")
        assert weir("resume", "--dir", serve.table, "--table", "default") == (0, "nothing is paused\n", "")
        assert weir("queue", "stats", "--dir", serve.table)[0] == 1  # it has no queue
        code, _, err = weir("pause", "--dir", serve.table, "--table", "other")
        assert code == 2 and f"no service answers at unix:{serve.table}/other.admin" in err
        # An address overrides a table, and a token selects the port.
        port = tokens.variables(serve.admin_port)
        assert weir("pause", "--list", "--dir", "/nowhere", variables=port)[0] == 0
        assert weir("pause", "--list", variables={"WEIR_ADMIN_SOCKET": path_of(serve)})[0] == 0


def test_socket_exists_while_the_service_runs():
    """The socket has mode 0600. A second service on the table has no socket. A restart replaces the socket of a killed
    service."""
    with Serve(rules=RULES, admin=True) as serve:
        assert stat.S_IMODE(os.stat(path_of(serve)).st_mode) == 0o600
        assert f"admin at unix:{path_of(serve)}\n" in serve.log()
        with Serve(rules=RULES, admin=True, table=serve.table) as second:
            assert f"no admin socket: cannot listen at unix:{path_of(serve)}: the path is in use by another program" in second.log()
        assert weir("pause", "--list", "--dir", serve.table)[0] == 0
        serve.kill()
        assert os.path.exists(path_of(serve))
        serve.start()
        assert weir("pause", "--list", "--dir", serve.table)[0] == 0
        serve.stop()
        assert not os.path.exists(path_of(serve))


@pytest.mark.parametrize("words, expected", [
    (("pause", "--list"), "nothing is paused\n"), (("ban", "list"), "no bans\n"),
    (("key", "get", "api", "user=k"), "api/user/365d: 2 of 2 left\n")])
def test_relative_folder(words, expected):
    """A relative --dir is in the current folder, for commands and for the service."""
    with Serve(rules=RULES, admin=True) as serve:
        assert weir(*words, "--dir", "table", folder=serve.folder) == (0, expected, "")
        assert weir(*words, "--dir", "./table", folder=serve.folder) == (0, expected, "")
        assert weir(*words, "--dir", ".", folder=serve.table) == (0, expected, "")
        code, _, err = weir(*words, "--dir", "other", folder=serve.folder)
        assert code == 2 and f"no service answers at unix:{serve.folder}/other/default.admin" in err


def test_service_in_a_relative_folder():
    with Serve(rules=RULES, admin=True, start=False) as serve:
        serve.args[serve.args.index("--table-dir") + 1] = "table"  # the service runs in serve.folder
        serve.start()
        assert f"admin at unix:{path_of(serve)}\n" in serve.log()
        assert weir("pause", "--list", "--dir", serve.table) == (0, "nothing is paused\n", "")


@pytest.mark.parametrize("admin, args, there", [
    (True, ["--admin-socket", "off"], None), (False, [], None), (False, ["--admin-socket", "{folder}/own"], "own"),
    (True, ["--admin-socket", "{folder}/own"], "own")])
def test_path_of_the_socket(admin, args, there):
    """--admin-socket and --admin off move or remove the socket; `there` is its name in the folder, or None."""
    with Serve(rules=RULES, http=True, admin=admin, args=args) as serve:
        assert not os.path.exists(path_of(serve))
        assert os.path.exists(serve.folder / "own") == (there is not None)
        if there:
            assert fetch(str(serve.folder / there), "GET", "/v1/paused").body == b'{"paused":[]}\n'


def test_a_configured_path_must_be_usable():
    """The service does not start if it cannot create a socket at the path of --admin-socket."""
    code, output = Serve(rules=RULES, http=True, args=["--admin-socket", "/nowhere/at/all"], start=False).run()
    assert code == 1 and "cannot listen at unix:/nowhere/at/all (--admin-socket)" in output


@needs("root")
def test_other_users_stay_outside():
    """Other users can change nothing, neither by the port nor by the socket. Members of the service's group cannot use
    the socket either."""
    with Serve(rules=RULES, http=True, admin=True) as serve:
        for folder in (serve.folder, serve.table):
            os.chmod(folder, 0o755)
        os.chmod(path_of(serve), 0o777)  # the mode alone does not decide
        for gid, groups in ((NOBODY, []), (os.getgid(), []), (NOBODY, [os.getgid()])):
            assert as_user(path_of(serve), NOBODY, gid, groups) is None
            assert as_user(serve.admin_port, NOBODY, gid, groups) == 401
        serve.wait_logged("refused a connection of a process that does not run as root or as the user or group of this service")
        assert as_user(serve.admin_port, NOBODY, NOBODY, method="GET", target="/metrics") == 200
        assert as_user(path_of(serve), os.getuid(), os.getgid(), method="GET", target="/v1/paused") == 200
        assert weir("pause", "--list", "--dir", serve.table) == (0, "nothing is paused\n", "")


@needs("root")
def test_an_inaccessible_socket_is_reported():
    """A command of a user without access says so and exits with 2."""
    with Serve(rules=RULES, http=True, admin=True) as serve:
        done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", WEIR, "pause", "--admin",
                               f"unix:{path_of(serve)}"], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "this user may not connect to unix:" in done.stderr


@needs("root")
@pytest.mark.parametrize("mode, asked", [(0o1777, False), (0o775, False), (0o755, True)])
def test_a_socket_of_another_user(tmp_path, mode, asked):
    """In a folder that others can write to, commands send requests only to listeners of root and of their own user."""
    os.chmod(tmp_path, mode)
    path = tmp_path / "default.admin"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
        try:
            listener.listen(1)  # SO_PEERCRED reports the user at this moment
        finally:
            os.seteuid(0)
            os.setegid(0)
        with subprocess.Popen([WEIR, "pause", "--dir", tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
            connection, _ = listener.accept()
            with connection:
                reported = connection.recv(4096)
            output = command.communicate()[1]
        assert command.returncode == 2 and reported.startswith(b"POST /v1/pause") == asked
        assert (f"user {NOBODY} listens at unix:{path}, who is neither root nor this user" in output) != asked


def test_a_flood_of_the_port_does_not_affect_the_socket():
    """While all 256 connections of the admin port are in use, commands still work through the socket."""
    with Serve(rules=RULES, admin=True) as serve, contextlib.ExitStack() as stack:
        for _ in range(256):
            stack.enter_context(connect(serve.admin_port))
        wait_for(lambda: connect(serve.admin_port).recv(1) == b"", "the port to be full")
        assert weir("pause", "--list", "--dir", serve.table)[0] == 0


def test_socket_of_a_gateway(api):
    """The table's name selects the service, even if another program has the default port."""
    with Gateway(api.port, "--admin", f"127.0.0.1:{free_port()}") as gateway:
        assert weir("pause", "--table", gateway.table) == (0, "paused: everything\n", "")
        assert [gateway.get("/few/x").status for _ in range(4)] == [200] * 4
        assert weir("resume", "--table", gateway.table) == (0, "nothing is paused\n", "")
        assert gateway.get("/few/x").status == 429


def test_requests_over_the_socket():
    """The socket needs no token and no Host of this machine, but JSON."""
    with Serve(rules=RULES, admin=True) as serve, Client(path_of(serve)) as client:
        assert client.request("POST", "/v1/pause", {"Content-Type": "text/plain"}, b"{}").status == 415
        assert client.request("POST", "/v1/pause", {**JSON, "Host": "anything"}, b"{}").status == 200


@needs("root")
@pytest.mark.parametrize("options, status", [((), 403), (("--refunds", "127.0.0.1"), 403), (("--refunds", "127.0.0.1,unix:"), 200)])
def test_a_group_that_may_connect_may_not_give_back(options, status):
    """On a Unix socket of --http the service's group may ask. Only root and the service's user may give units back."""
    asked = b'{"domain":"api","hits":-1,"taken_at":1,"descriptors":[{"entries":[{"key":"user","value":"7"}]}]}'
    with Serve(rules=RULES, http="unix:{folder}/http", args=options) as serve:
        where = str(serve.folder / "http")
        assert as_user(where, NOBODY, os.getgid(), target="/v1/check", body=asked.replace(b"-1", b"1")) == 200
        assert as_user(where, NOBODY, os.getgid(), target="/v1/check", body=asked) == status
        assert as_user(where, os.getuid(), os.getgid(), target="/v1/check", body=asked) == 200
