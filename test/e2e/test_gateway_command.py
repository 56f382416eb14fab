"""weir gateway as a command: refused options and their messages, and the printed configuration."""

import json
import os
import pwd
import re
import shutil
import socket
import subprocess

import pytest

from weirtest import MODULE, NGINX, WEIR, Api, certificate, fetch, free_port, programs, needs, runtime_paths, wait_for
from weirtest.env import wrapper
from weirtest.gateway import RULES, Gateway, variables


TABLE = f"weirtest-command-{os.getpid()}"


@pytest.fixture(name="folder")
def _folder():
    """A folder with a rule file."""
    path = programs.temp_folder("command")
    with open(f"{path}/rules.yaml", "w", encoding="utf-8") as f:
        f.write(RULES)
    runtime_paths.register(TABLE)
    yield path
    runtime_paths.remove(TABLE)
    programs.remove_folder(path)


def weir(folder, *options, upstream="http://127.0.0.1:1", rules="rules.yaml", cwd=None, **more):
    """Runs the command until it exits: exit code, standard output, standard error. A table that it creates is that of
    the tests."""
    given = (["--upstream", upstream] if upstream else []) + (["--rules", rules] if rules else [])
    if not {"--table", "--print-config"} & set(options):
        given += ["--table", TABLE, "--memory", "1M"]
    done = subprocess.run([WEIR, "gateway", *given, *map(str, options)], cwd=cwd or folder, text=True, timeout=60,
                          capture_output=True, check=False,
                          env=variables(folder, **more))
    return done.returncode, done.stdout, done.stderr


def test_help_has_every_option_and_examples(folder):
    code, out, err = weir(folder, "--help")
    assert (code, err) == (0, "")
    flags = set(re.findall(r"--[a-z0-9-]+", out))
    assert {"--upstream", "--listen", "--h2c", "--tls-cert", "--tls-key", "--rules", "--domain", "--table",
            "--memory", "--log-memory", "--headers", "--dry-run", "--trust", "--auth", "--auth-headers", "--workers",
            "--max-body", "--upstream-timeout", "--upstream-ca", "--drain", "--access-log", "--runtime",
            "--nginx", "--module", "--config", "--print-config", "--stream-uploads"} <= flags
    assert "\nExamples\n  weir gateway --upstream http://127.0.0.1:3000 --rules rules.yaml\n" in out


@pytest.mark.parametrize("options,more", [(["--log-memory", "512K"], {}), ([], {"WEIR_LOG_MEMORY": "512K"})])
def test_log_memory_option(options, more):
    """--log-memory sets the size, as an option and as a variable; the default would be 64K."""
    with Api() as api, Gateway(api.port, *options, environment=more) as gateway:
        assert gateway.get("/").status == 200
        info = subprocess.run([WEIR, "table", "info", gateway.table, "--json"], text=True, capture_output=True, check=True,
                              env=variables(gateway.folder))
        assert json.loads(info.stdout)["log_bytes"] == 512 << 10


@pytest.mark.parametrize("options,output", [
    (["--upstrem", "x"], "there is no option --upstrem; did you mean --upstream?"),
    (["--workers", "many"], "--workers is 'many', which is not a whole number"),
    (["--listen", "99999"], "--listen '99999' is not PORT, HOST:PORT, [IPV6]:PORT or unix:/path"),
    (["--tls-cert", "rules.yaml"], "--tls-cert and --tls-key go together: --tls-key is missing"),
    (["--tls-cert", "no.pem", "--tls-key", "no.pem"], "--tls-cert no.pem: No such file or directory"),
    (["--trust", "10.0.0.1/8"], "--trust 10.0.0.1/8 has bits set after its prefix; did you mean 10.0.0.0/8?"),
    (["--auth", "auth:80"], "--auth 'auth:80' does not begin with http://"),
    (["--queue", "off", "--queue-max", "5"], "--queue-max needs --queue: without a queue it has no effect"),
    (["--queue-password-file", "x"], "--queue-password-file needs a --queue in Redis: without Redis it has no effect"),
    (["--nginx", "/nowhere/nginx"], "--nginx /nowhere/nginx: No such file or directory"),
    (["--nginx", "no-such-nginx"], "cannot find the program no-such-nginx: apt install nginx"),
    (["--module", "no.so"], "--module no.so: No such file or directory"),
    (["--table", "../x"], '--table "../x": a table name is 1 to 64'),
    (["--table", "a$b", "--print-config"], '--table "a$b": a table name is 1 to 64'),
    (["--access-log", "a$b"], "contains '$', which nginx reads as a variable"),
    (["--headers", "x; weir off"], "--headers is 'x; weir off', which is not one of: x ietf github none"),
])
def test_invalid_options_are_refused(folder, options, output):
    code, out, err = weir(folder, *options)
    assert (code, out) == (2, "")
    assert err.startswith("weir gateway: ") and output in err


def test_folder_whose_name_cannot_be_in_a_configuration(folder):
    """Relative paths begin with this folder, and its name cannot be written into a configuration."""
    odd = f"{folder}/a\nb"
    os.mkdir(odd)
    shutil.copy(f"{folder}/rules.yaml", odd)
    code, out, err = weir(folder, "--print-config", cwd=odd)
    assert (code, out) == (2, "")
    assert err == "weir gateway: the path of --rules contains control characters\n"


def test_log_on_a_socket_is_refused(folder):
    """Under systemd standard output may be a socket, which nginx cannot open. `--access-log -` is then an error."""
    ours, its = socket.socketpair()
    with ours, its:
        done = subprocess.run([WEIR, "gateway", "--upstream", "http://127.0.0.1:1", "--rules", "rules.yaml",
                               "--access-log", "-", "--runtime", f"{folder}/run", "--table", TABLE], cwd=folder, stdout=its,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=variables(folder))
    assert done.returncode == 2
    assert "--access-log -: standard output is a socket" in done.stderr


def test_missing_arguments_are_named(folder):
    code, _, err = weir(folder, upstream=None)
    assert code == 2 and "--upstream URL is missing" in err
    code, _, err = weir(folder, rules=None)
    assert code == 2 and "/etc/weir/rules: No such file or directory; name the rules with --rules PATH" in err


def test_broken_rules_are_shown_as_check_shows_them(folder):
    """The gateway prints the errors exactly as `weir check` does and exits with 1."""
    with open(f"{folder}/rules.yaml", "a", encoding="utf-8") as f:
        f.write("    rate_limt: {unit: day}\n")
    code, out, err = weir(folder)
    checked = subprocess.run([WEIR, "check", f"{folder}/rules.yaml"], capture_output=True, text=True, check=False)
    assert (code, out) == (1, "")
    shown = checked.stderr.rsplit("\n", 2)[0]  # without its last line, the number of errors
    assert "rules.yaml:17:5: error: unknown key 'rate_limt'" in shown
    assert err.startswith(shown)
    assert f"the rules at {folder}/rules.yaml are not usable" in err


def test_ambiguous_domain_is_refused(folder):
    """Several domains with `requests:` need --domain, which must be in the rules."""
    with open(f"{folder}/other.yaml", "w", encoding="utf-8") as f:
        f.write(RULES.replace("domain: api", "domain: other") + "---\n")
    code, _, err = weir(folder, rules=".")
    assert code == 1 and "several domains have requests:; choose one with --domain: " in err
    assert {"other", "api"} <= set(re.split(r"\W+", err.rsplit(":", 1)[1]))
    code, _, err = weir(folder, "--domain", "nobody", rules=".")
    assert code == 1 and "--domain nobody is not in the rules; the rules have: " in err
    code, out, _ = weir(folder, "--domain", "other", "--print-config", rules=".")
    assert code == 0 and '        weir "other";\n' in out
    with open(f"{folder}/rules.yaml", "w", encoding="utf-8") as f:
        f.write("domain: bare\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1}\n")
    code, _, err = weir(folder)
    assert code == 1 and "no domain has requests:" in err


def test_unusable_ports_are_refused(folder):
    """A port in use, an address of another machine, and a path that is not a socket each have their own message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        code, _, err = weir(folder, "--listen", f"127.0.0.1:{port}", "--runtime", "run")
        assert code == 1
        assert re.search(rf"port {port} is in use by \S+ \(process {os.getpid()}\)", err)
        assert "choose another port with --listen PORT" in err
        code, _, err = weir(folder, "--listen", port, "--runtime", "run")  # all addresses include this one
        assert code == 1 and f"port {port} is in use" in err
    code, _, err = weir(folder, "--listen", f"192.0.2.1:{free_port()}", "--runtime", "run")
    assert code == 1 and "is not an address of this machine" in err
    code, _, err = weir(folder, "--listen", f"unix:{folder}/rules.yaml", "--runtime", "run")
    assert code == 1 and "the path is a file, not a socket" in err
    assert not os.path.exists(f"{folder}/run/nginx.pid")


def test_unsuitable_runtime_folder_is_refused(folder):
    """The runtime folder must not be writable for others, and must not be a link."""
    os.mkdir(f"{folder}/open")
    os.chmod(f"{folder}/open", 0o777)
    code, _, err = weir(folder, "--listen", free_port(), "--runtime", "open")
    assert code == 1 and f"other users can write to the folder {folder}/open: chmod go-w it" in err
    os.symlink("/tmp", f"{folder}/link")
    code, _, err = weir(folder, "--listen", free_port(), "--runtime", "link")
    assert code == 1 and "is not a folder" in err


@needs("root")
def test_folder_of_another_user_is_refused(folder):
    os.mkdir(f"{folder}/theirs", 0o700)
    os.chown(f"{folder}/theirs", pwd.getpwnam("nobody").pw_uid, -1)
    code, _, err = weir(folder, "--listen", free_port(), "--runtime", "theirs")
    assert code == 1 and "who runs the gateway" in err


def test_module_that_nginx_cannot_load(folder):
    """nginx's own message is printed if the module cannot be loaded."""
    with open(f"{folder}/wrong.so", "wb") as f:
        f.write(b"not a library")
    port = free_port()
    code, _, err = weir(folder, "--listen", port, "--runtime", "run", "--module", "wrong.so")
    assert code == 1
    assert f"nginx refuses the configuration {folder}/run/nginx.conf.new:" in err
    assert "wrong.so" in err


def test_every_option_as_a_variable_and_in_a_file(folder):
    """The command line overrides variables, and variables override the file of --config."""
    with open(f"{folder}/gateway.yaml", "w", encoding="utf-8") as f:
        f.write("upstream:\n  - http://10.0.0.1:3000\n  - http://10.0.0.2:3000\nmemory: 2M\nworkers: 3\n"
                "drain: 5s\nrules: rules.yaml\n")
    code, out, err = weir(folder, "--print-config", "--workers", 4, upstream=None, rules=None,
                          WEIR_CONFIG="gateway.yaml", WEIR_MEMORY="3M", WEIR_WORKERS="5", WEIR_LISTEN="8099")
    assert (code, err) == (0, "")
    assert "server 10.0.0.2:3000 max_fails" in out
    assert 'weir_table "default" 3072k;' in out
    assert "worker_processes 4;" in out
    assert "listen *:8099 backlog" in out


def test_printed_configuration_works_when_saved(folder, api):
    """The output of --print-config, saved to a file, runs in nginx as its comment says."""
    port = free_port()
    certificate.self_signed(folder)
    code, out, err = weir(folder, "--print-config", "--listen", f"127.0.0.1:{port}", "--tls-cert", "cert.pem",
                          "--tls-key", "key.pem", "--table", f"weirtest-{port}", "--memory", "1M", "--workers",
                          1, "--trust", "10.0.0.0/8", "--auth", f"http://127.0.0.1:{api.port}/auth",
                          upstream=f"http://127.0.0.1:{api.port}")
    assert (code, err) == (0, "")
    with open(f"{folder}/saved.conf", "w", encoding="utf-8") as f:
        f.write(out)
    os.mkdir(f"{folder}/run")
    runtime_paths.register(f"weirtest-{port}")
    argv = re.search(r"nginx -p \$PWD/run -c \$PWD/saved.conf", out)[0].replace("$PWD", folder).split()
    nginx = programs.start([NGINX, *argv[1:], "-g", "daemon off;"], cwd=folder,
                         env={**variables(folder), **wrapper(f"{folder}/reports")[1]})
    try:
        wait_for(lambda: os.path.exists(f"{folder}/run/nginx.pid") and fetch(port, tls=True).status == 200,
                 "nginx to answer")
        assert api.count("/auth") == api.count() - api.count("/auth") == 1
    finally:
        nginx.terminate()
        nginx.wait(60)
        programs.stop(nginx)
        runtime_paths.remove(f"weirtest-{port}")


def test_print_config_creates_nothing(folder):
    variables(folder)
    before = sorted(os.listdir(folder))
    assert weir(folder, "--print-config", "--runtime", f"{folder}/run")[0] == 0
    assert sorted(os.listdir(folder)) == before


def as_a_user(folder, upstream, table):
    """Returns the command line of a gateway that an ordinary user runs, that user, and the words that switch to it."""
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    become = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    shutil.copy(WEIR, f"{folder}/weir")
    shutil.copy(MODULE, f"{folder}/module.so")
    argv = [f"{folder}/weir", "gateway", "--upstream", f"http://127.0.0.1:{upstream}", "--rules",
            f"{folder}/rules.yaml", "--module", f"{folder}/module.so", "--table", table, "--memory",
            "1M", "--drain", "1s"]
    return argv, user, become


def test_gateway_of_an_ordinary_user(folder, api):
    """The gateway and its workers run as the user, with a runtime folder in /tmp."""
    port = free_port()
    argv, user, become = as_a_user(folder, api.port, f"weirtest-{port}")
    runtime_paths.register(f"weirtest-{port}", user.pw_uid)
    with open(f"{folder}/output", "wb") as out:
        gateway = programs.start([*argv, "--listen", f"127.0.0.1:{port}"], stdout=out, stderr=out, cwd=folder,
                               env=variables(folder), **become)
    home = f"/tmp/weir-{user.pw_uid}"  # the folder of all gateways of this user; other suites have theirs in it
    runtime = f"{home}/gateway-{port}"
    session = None
    try:
        def output():
            with open(f"{folder}/output", encoding="utf-8") as f:
                return f.read()
        wait_for(lambda: "is ready" in output() or gateway.poll() is not None, "the gateway", 30)
        assert gateway.poll() is None, output()
        with open(f"{runtime}/nginx.pid", encoding="ascii") as f:
            session = int(f.read())
        programs.watch(session)
        assert [fetch(port, target="/few/a").status for _ in range(3)] == [200, 200, 429]
        assert f"/dev/shm/weir-{user.pw_uid}-weirtest-{port}.v" in output()
        assert {os.stat(f"/proc/{pid}").st_uid for pid in programs.session(session)} == {user.pw_uid}
        gateway.terminate()
        assert gateway.wait(60) == 0, output()
        assert programs.session(session) == {}
    finally:
        if session:
            programs.kill_session(session)
            programs.unwatch(session)
        programs.stop(gateway)
        for folder in (runtime, f"/var/tmp/weir-{user.pw_uid}-gateway-{port}"):
            shutil.rmtree(folder, ignore_errors=True)
        runtime_paths.remove(f"weirtest-{port}", user.pw_uid)


def low_ports_are_roots():
    """Returns whether only root may listen on port 81."""
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as f:
        return int(f.read()) > 81


@pytest.mark.skipif(not low_ports_are_roots(), reason="any user may listen on port 81")
def test_privileged_port_without_root_is_explained(folder):
    argv, user, become = as_a_user(folder, 1, TABLE)
    os.mkdir(f"{folder}/low")
    os.chown(f"{folder}/low", user.pw_uid, user.pw_gid)
    runtime_paths.register(TABLE, user.pw_uid)
    low = subprocess.run([*argv, "--listen", "127.0.0.1:81", "--runtime", f"{folder}/low"],
                         capture_output=True, text=True, timeout=60, check=False, env=variables(folder), **become)
    runtime_paths.remove(TABLE, user.pw_uid)
    assert low.returncode == 1 and "only root may listen on port 81" in low.stderr
