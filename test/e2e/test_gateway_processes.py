"""weir gateway: start, shutdown, reload, and the death of each process in every order."""

import os
import re
import signal
import socket
from pathlib import Path

import pytest

from weirtest import Closed, Traffic, env, free_port, full, programs, needs, runtime_paths, wait_for
from weirtest.gateway import RULES, STILL_BOUND, Gateway


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def test_output_describes_the_gateway(api):
    """The output at the start names addresses, API servers, table, rules and limits."""
    with Gateway(api.port) as gateway:
        output = gateway.output()
        assert f"  listens   http://127.0.0.1:{gateway.port}\n  upstream  http://127.0.0.1:{api.port}\n" in output
        assert f"  table     {runtime_paths.table(gateway.table)}.v" in output
        assert ", 1M, 0 keys held, room for " in output
        assert f"  rules     {gateway.rules}: 1 file, generation 1, hash " in output
        assert ("  limits    of domain api:\n"
                "            api/everyone=together: 1000000 per year for all together, fixed_window\n"
                "            api/client: 2 per year for each client, fixed_window\n"
                "            api/user: 2 per year for each user, fixed_window\n") in output
        assert output.endswith(f"weir gateway is ready, nginx is process {gateway.master()}\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_shutdown_waits_for_requests_in_flight(api, number):
    """After SIGTERM or SIGINT the port is closed, and a request in flight is answered."""
    with Gateway(api.port) as gateway:
        with gateway.client() as client:
            client.send("GET", "/slow?hold=stop")
            wait_for(lambda: api.count("/slow") == 1, "the request to arrive")
            os.killpg(gateway.pid, number)  # sent to the process group, as a terminal does; nginx must not get it
            wait_for(lambda: not accepts(gateway.port), "nginx to stop listening")
            assert gateway.process.poll() is None
            api.release("stop")
            assert client.read().status == 200
        assert gateway.wait() == 0
        assert list(gateway.runtime.glob("*_temp")) == []


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# nginx logs this for every connection that it closes. Its master kills a worker that takes more than a second to exit.
CUT_OFF = [r"open socket #\d+ left in connection", "aborting", "exited on signal 9"]


def test_second_signal_stops_at_once(api):
    """A second SIGTERM ends the gateway although a request is in flight."""
    with Gateway(api.port, allow=CUT_OFF) as gateway:
        with gateway.client() as client:
            client.send("GET", "/slow?hold=twice")
            wait_for(lambda: api.count("/slow") == 1, "the request to arrive")
            gateway.signal(signal.SIGTERM)
            wait_for(lambda: not accepts(gateway.port), "nginx to stop listening")
            gateway.signal(signal.SIGTERM)
            assert gateway.wait() == 0
            with pytest.raises(Closed):
                client.read()
        gateway.wait_output("a second stop was requested; stopping nginx")


def test_drain_timeout_ends_the_drain(api):
    """After --drain the gateway exits although a request is in flight."""
    with Gateway(api.port, "--drain", "300ms", allow=CUT_OFF) as gateway:
        with gateway.client() as client:
            client.send("GET", "/slow?hold=drain")
            wait_for(lambda: api.count("/slow") == 1, "the request to arrive")
            gateway.signal(signal.SIGTERM)
            assert gateway.wait() == 0
        gateway.wait_output("requests are still in flight; stopping nginx")


@full("the gateway waits five seconds before it kills")
def test_process_that_does_not_exit_is_killed(api):
    """A stopped process reacts only to SIGKILL."""
    with Gateway(api.port, "--drain", "100ms", "--workers", "1") as gateway:
        master = gateway.master()
        for pid in programs.session(master):
            os.kill(pid, signal.SIGSTOP)
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
        wait_for(lambda: programs.session(master) == {}, "the killed processes to exit")
        gateway.wait_output("requests are still in flight; killing nginx")


def test_killed_master_is_restarted(api):
    """nginx runs again with the same counters, and the workers of the killed master exit."""
    with Gateway(api.port, allow=STILL_BOUND) as gateway:
        assert [gateway.get("/few/a").status for _ in range(2)] == [200, 200]
        first = gateway.master()
        gateway.wait_workers(2)
        os.kill(first, signal.SIGKILL)
        gateway.wait_output(r"nginx runs again \(process \d+\)")
        gateway.register_session()
        assert gateway.master() != first
        assert gateway.get("/few/a").status == 429  # counters outlive the master
        assert gateway.get("/").status == 200
        wait_for(lambda: programs.session(first) == {}, "the old workers to go")
        gateway.wait_output("was ended by signal 9")
        gateway.wait_output("2 workers of the last nginx asked to finish")


def test_killed_worker_is_replaced(api):
    """The counters are not lost with the worker."""
    with Gateway(api.port, allow=["exited on signal 9"]) as gateway:
        assert [gateway.get("/few/a").status for _ in range(2)] == [200, 200]
        gateway.wait_workers(2)
        before = gateway.workers()
        os.kill(min(before), signal.SIGKILL)
        wait_for(lambda: len(gateway.workers() - {min(before)}) == 2, "another worker")
        assert gateway.get("/few/a").status == 429
        assert gateway.get("/").status == 200


def test_workers_without_a_master_finish_their_requests(api):
    """A request at a worker of the killed master is answered while the new nginx serves others."""
    with Gateway(api.port, allow=STILL_BOUND) as gateway:
        with gateway.client() as client:
            client.send("GET", "/slow?hold=orphan")
            wait_for(lambda: api.count("/slow") == 1, "the request to arrive")
            os.kill(gateway.master(), signal.SIGKILL)
            gateway.wait_output("nginx runs again")
            gateway.register_session()
            assert gateway.get("/").status == 200
            api.release("orphan")
            assert client.read().status == 200


@full("nginx tries to listen for two and a half seconds")
def test_worker_that_holds_the_port_is_killed(api):
    """A stopped worker does not react to signals. nginx fails to start once, then the worker is killed."""
    with Gateway(api.port, "--workers", "1", allow=[*STILL_BOUND, r"still could not bind"]) as gateway:
        master = gateway.master()
        gateway.wait_workers(1)
        [worker] = [pid for pid in programs.session(master) if pid != master]
        os.kill(worker, signal.SIGSTOP)
        os.kill(master, signal.SIGKILL)
        gateway.wait_output("1 worker of the last nginx killed", seconds=20)
        gateway.wait_output("nginx runs again", seconds=20)
        gateway.register_session()
        assert gateway.get("/").status == 200


def test_nginx_of_a_killed_gateway_is_taken_over(api):
    """No request is lost: the same nginx continues with the configuration of the new gateway."""
    with Gateway(api.port, allow=STILL_BOUND) as gateway:
        with Traffic(gateway.port, ["/"]) as traffic:
            traffic.wait(100)
            first = gateway.master()
            gateway.signal(signal.SIGKILL)
            gateway.process.wait()
            traffic.wait(100)
            gateway.options += ["--headers", "none"]
            gateway.start()
            assert gateway.master() == first
            wait_for(lambda: "x-ratelimit-limit" not in gateway.get("/").names(), "the new configuration")
            traffic.wait(100)
        assert traffic.lost == [], traffic.lost
        assert "weir gateway took over an nginx that outlived its gateway" in gateway.output()
        # The gateway watches it as if it were its child.
        os.kill(first, signal.SIGKILL)
        gateway.wait_output("nginx runs again")
        gateway.register_session()
        assert gateway.get("/").status == 200


def test_gateway_and_master_are_killed_and_workers_remain(api):
    """The orphaned workers serve until the next gateway has started its nginx."""
    with Gateway(api.port) as gateway:
        master = gateway.master()
        gateway.wait_workers(2)
        gateway.signal(signal.SIGKILL)
        gateway.process.wait()
        os.kill(master, signal.SIGKILL)
        wait_for(lambda: master not in programs.session(master), "the master to exit")
        assert gateway.get("/").status == 200  # the workers still serve
        gateway.start()
        assert gateway.master() != master
        wait_for(lambda: programs.session(master) == {}, "the old workers to end")
        assert gateway.get("/").status == 200
        gateway.wait_output("2 workers of an nginx without master asked to finish")


def test_upgraded_nginx_is_followed(api):
    """USR2 and QUIT, as in nginx's manual: the gateway follows the new master. nginx accepts USR2 only if the parent of
    its master has exited, so the gateway here has taken nginx over."""
    with Gateway(api.port) as gateway:
        gateway.signal(signal.SIGKILL)
        gateway.process.wait()
        gateway.start()
        with Traffic(gateway.port, ["/"]) as traffic:
            traffic.wait(50)
            old = gateway.master()
            os.kill(old, signal.SIGUSR2)
            wait_for(lambda: (gateway.runtime / "nginx.pid.oldbin").exists() and
                     (gateway.runtime / "nginx.pid").exists() and gateway.master() != old, "a new master")
            new = gateway.master()
            wait_for(lambda: b"master process" in Path(f"/proc/{new}/cmdline").read_bytes(), "its title, by which it is known")
            os.kill(old, signal.SIGQUIT)
            gateway.wait_output(rf"nginx was upgraded: process {new} replaces {old}")
            traffic.wait(50)
        assert traffic.lost == [], traffic.lost
        assert gateway.get("/").status == 200


def test_reload_to_a_port_in_use_changes_nothing(api):
    with Gateway(api.port, start=False) as gateway, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        config = gateway.folder / "gateway.yaml"
        config.write_text("headers: x\n", encoding="ascii")
        gateway.options += ["--config", str(config)]
        gateway.start()
        config.write_text(f"h2c: 127.0.0.1:{taken.getsockname()[1]}\n", encoding="ascii")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output(f"port {taken.getsockname()[1]} is in use by")
        assert gateway.get("/").status == 200


def test_reload_applies_new_options(api):
    """SIGHUP applies changed options of the --config file without losing a request."""
    with Gateway(api.port, start=False) as gateway:
        config = gateway.folder / "gateway.yaml"
        other = free_port()
        config.write_text("headers: x\n", encoding="ascii")
        gateway.options += ["--config", str(config)]
        gateway.start()
        assert "x-ratelimit-limit" in gateway.get("/").names()
        with Traffic(gateway.port, ["/"]) as traffic:
            traffic.wait(50)
            config.write_text(f"headers: none\nh2c: 127.0.0.1:{other}\n", encoding="ascii")
            gateway.signal(signal.SIGHUP)
            gateway.wait_output("nginx loads the new configuration")
            wait_for(lambda: accepts(other), "the new port")
            wait_for(lambda: "x-ratelimit-limit" not in gateway.get("/").names(), "the new headers")
            traffic.wait(50)
        assert traffic.lost == [], traffic.lost


@pytest.mark.parametrize("config,output", [
    ("headers: purple\n", "headers is 'purple', which is not one of: x ietf github none"),
    ("heders: x\n", "there is no option 'heders'; did you mean 'headers'?"),
    ("tls-cert: rules.yaml\ntls-key: rules.yaml\n", "nginx refuses the configuration"),
    ("rules: nowhere.yaml\n", "--rules nowhere.yaml: No such file or directory"),
])
def test_invalid_reload_changes_nothing(api, config, output):
    """Invalid options, rules or certificates are reported, and the gateway continues as before."""
    with Gateway(api.port, allow=["cannot load certificate"], start=False) as gateway:
        path = gateway.folder / "gateway.yaml"
        path.write_text("", encoding="ascii")
        at = gateway.options
        gateway.options = [*at, "--config", str(path)]
        if config.startswith("rules"):  # an option on the command line would take precedence
            gateway.bare = True
            gateway.options = ["--upstream", gateway.upstream, "--listen", gateway.listen, "--runtime",
                               str(gateway.runtime), "--table", f"weirtest-{gateway.port}", "--memory", "1M",
                               "--config", str(path)]
            path.write_text("rules: rules.yaml\n", encoding="ascii")
        gateway.start()
        path.write_text(config, encoding="ascii")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output(output.replace("?", r"\?"))
        assert gateway.get("/").status == 200
        assert gateway.process.poll() is None
        path.write_text("rules: rules.yaml\n" if gateway.bare else "", encoding="ascii")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output("nginx loads the new configuration")


def test_options_that_nginx_refuses_do_not_reach_the_service(api):
    """Options that nginx refuses for another reason leave the ports of the service unchanged."""
    old, new = free_port(), free_port()
    with Gateway(api.port, allow=["nowhere/log"], start=False) as gateway:
        path = gateway.folder / "gateway.yaml"
        path.write_text(f"http: 127.0.0.1:{old}\n", encoding="ascii")
        gateway.options = ["--config", str(path)]
        gateway.start()
        assert listens(old)
        path.write_text(f"http: 127.0.0.1:{new}\naccess-log: nowhere/log\n", encoding="ascii")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output("nginx refuses the configuration .* the last one stays in force")
        assert listens(old) and not listens(new)
        path.write_text(f"http: 127.0.0.1:{new}\n", encoding="ascii")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output("nginx loads the new configuration")
        wait_for(lambda: listens(new) and not listens(old), "the service to move")


def test_nginx_with_another_file_name(api):
    """nginx is recognised by its process title, not by its file name."""
    with Gateway(api.port, allow=STILL_BOUND, start=False) as gateway:
        other = gateway.folder / "webserver"
        other.symlink_to(gateway.variables().get("WEIR_NGINX", env.NGINX))
        gateway.options = ["--nginx", str(other)]
        gateway.start()
        assert gateway.get("/").status == 200
        master = gateway.master()
        os.kill(master, signal.SIGKILL)
        gateway.wait_output(r"\d workers? of the last nginx asked to finish")
        gateway.wait_output("nginx runs again")
        gateway.register_session()
        assert gateway.get("/").status == 200


def test_changed_rules_apply_without_a_reload(api):
    with Gateway(api.port) as gateway:
        assert [gateway.get("/few/a").status for _ in range(3)] == [200, 200, 429]
        fresh = gateway.folder / "fresh.yaml"
        fresh.write_text(RULES.replace("requests_per_unit: 2}", "requests_per_unit: 4}"), encoding="utf-8")
        fresh.rename(gateway.rules)
        wait_for(lambda: gateway.get("/few/a").status == 200, "the new limit")


def test_logs_are_reopened(api):
    """After a rename and SIGUSR1 nginx writes to a new access log."""
    with Gateway(api.port, "--access-log", "access.log") as gateway:
        log, moved = gateway.folder / "access.log", gateway.folder / "moved.log"
        gateway.get("/one", {"User-Agent": "x"})
        wait_for(lambda: "GET /one" in log.read_text(), "the log")
        log.rename(moved)
        gateway.signal(signal.SIGUSR1)
        wait_for(log.exists, "the new log")
        wait_for(lambda: gateway.get("/two").status == 200 and "GET /two" in log.read_text(), "the new log")
        line = moved.read_text()
        assert 'weir=ADMITTED rule="api/everyone=together/365d" limit=1000000 remaining=999999' in line


def test_log_on_standard_output(api):
    with Gateway(api.port, "--access-log", "-") as gateway:
        gateway.get("/few/a")
        gateway.signal(signal.SIGUSR1)
        gateway.wait_output(r'"GET /few/a HTTP/1.1" 200 .* weir=ADMITTED rule="api/client/365d" limit=2 remaining=1')


def test_second_gateway_for_a_folder_is_refused(api):
    with Gateway(api.port) as gateway:
        code, output = gateway.run()
        assert code == 1
        assert f"a weir gateway is running already in {gateway.runtime} (process {gateway.pid})" in output
        assert gateway.get("/").status == 200


def test_port_in_use_prevents_the_start(api):
    with Gateway(api.port) as gateway:
        code, output = gateway.run("--runtime", gateway.folder / "other")
        assert code == 1
        found = re.search(rf"port {gateway.port} is in use by nginx \(process (\d+)\)", output)
        # if several processes have the port, the one with the lowest pid
        assert int(found[1]) in programs.session(gateway.master())
        assert "choose another port with --listen PORT" in output


def test_gateway_survives_a_closed_output(api):
    """The reader of the output exits: the gateway and nginx keep running."""
    with Gateway(api.port, start=False) as gateway:
        read, write = os.pipe()
        gateway.process = programs.start(gateway.command(), stdout=write, stderr=write, cwd=gateway.folder,
                                       env=gateway.variables())
        os.close(write)
        output = b""
        while b"is ready" not in output:
            output += os.read(read, 4096)
        gateway.register_session()
        os.close(read)
        first = gateway.master()
        os.kill(first, signal.SIGKILL)
        gateway.master(other_than=first)
        gateway.register_session()
        wait_for(lambda: programs.session(first) == {}, "the old workers to go")
        assert gateway.get("/").status == 200


def test_rules_that_only_their_owner_can_read(api):
    """The workers of a gateway of root run as another user. The gateway logs that they cannot read the rules, and
    SIGHUP still loads them. The workers of an ordinary user's gateway can read them."""
    with Gateway(api.port, start=False) as gateway:
        gateway.rules.chmod(0o600)
        gateway.start()
        assert ("who cannot read" in gateway.output()) == (os.geteuid() == 0)
        assert [gateway.get("/few/a").status for _ in range(3)] == [200, 200, 429]
        gateway.rules.write_text(RULES.replace("requests_per_unit: 2}", "requests_per_unit: 3}"), encoding="utf-8")
        gateway.signal(signal.SIGHUP)
        gateway.wait_output("nginx loads the new configuration")
        wait_for(lambda: gateway.get("/few/a").status == 200, "the new limit")


@needs("root")
def test_folder_that_workers_cannot_enter(api):
    """The gateway of root does not start if the workers' user cannot enter the runtime folder."""
    with Gateway(api.port, start=False) as gateway:
        closed = gateway.folder / "closed"
        closed.mkdir(mode=0o700)
        gateway.runtime = closed / "run"
        code, output = gateway.run()
        assert code == 1
        assert f"who cannot enter {closed}/run: chmod o+x on it" in output


@pytest.mark.skipif(os.geteuid() == 0, reason="the workers of root run as another user")
def test_folder_that_only_its_owner_can_enter(api):
    """The workers of an ordinary user's gateway run as that user, so a private folder is sufficient."""
    with Gateway(api.port, start=False) as gateway:
        closed = gateway.folder / "closed"
        closed.mkdir(mode=0o700)
        gateway.runtime = closed / "run"
        gateway.start()
        assert gateway.get("/").status == 200


@needs("root", "mounts")
def test_table_that_does_not_fit_prevents_the_start(api):
    """/run has one MiB, in the gateway's own mount namespace."""
    with Gateway(api.port, start=False) as gateway:
        gateway.prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m none /run && exec "$@"', "sh"]
        code, output = gateway.run("--memory", "64M")
        assert code == 1
        assert "no room for the table" in output or "No space left" in output
