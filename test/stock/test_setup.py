#!/usr/bin/python3
"""test_setup.py: runs tools/setup with fake commands on its PATH and a fake system in the folder DPKG_ROOT."""

import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "tools/setup"
DEADLINE_S = 60
HOUR_S = 3600

# The PATH has only these tools and the fakes, so that no real apt-get or sudo can be called.
TOOLS = ("bash sh env find sed sort grep tr cat chmod mv mkdir mktemp rm tail touch setsid flock readlink true head "
         "sleep").split()
DAEMONS = ("nginx", "redis-server", "redis-sentinel", "prometheus", "caddy", "haproxy")
EVERYTHING = ("build", "test", "full")

# The folder $FAKE contains `calls` (a log of the calls), a file per package in installed/, and files that control the fakes.
FAKES = {
    "dpkg-query": r"""
        format=plain
        for word; do case $word in -f='${db:Status-Status}') format=short ;; esac; done
        for word; do
            case $word in
                -*) ;;
                *)
                    if [ -e "$FAKE/all" ] || [ -e "$FAKE/installed/$word" ]; then
                        if [ $format = short ]; then echo installed; else echo "installed $word"; fi
                    else
                        missing=1
                    fi ;;
            esac
        done
        [ -z "$missing" ]
    """,
    "apt-get": r"""
        what=install
        for word; do
            case $word in -s) what=simulate ;; --download-only) what=download ;; update) what=update ;; esac
        done
        echo "apt-get $what" >>"$FAKE/calls"
        [ -z "$http_proxy" ] || echo "proxy $http_proxy" >>"$FAKE/calls"
        case $what in
            simulate) [ ! -e "$FAKE/no-candidates" ] ;;
            update)
                rm -f "$FAKE/no-candidates" "$FAKE/no-archives"
                touch "$DPKG_ROOT/var/lib/apt/lists/partial" ;;
            download) [ ! -e "$FAKE/no-archives" ] ;;
            install)
                policy=$DPKG_ROOT/usr/sbin/policy-rc.d
                while read -r question; do
                    eval "\"$policy\" $question"
                    echo "policy $question: $?" >>"$FAKE/calls"
                done <"$FAKE/questions"
                for word; do
                    case $word in -* | install | DPkg::*) ;; *) touch "$FAKE/installed/$word" ;; esac
                done
                if [ -e "$FAKE/gate" ]; then
                    echo waiting
                    touch "$FAKE/waiting"
                    until [ -e "$FAKE/go" ]; do
                        kill -0 "$(cat "$FAKE/test")" || exit 9 # the test has ended
                        sleep 0.02
                    done
                    echo "output after the terminal may be closed" || exit 9
                    [ -e "$policy" ] && echo "policy still there" >>"$FAKE/calls"
                fi
                echo "apt-get has ended" >>"$FAKE/calls"
                [ ! -e "$FAKE/broken" ] || exit 100 ;;
        esac
    """,
    "sudo": r"""
        if [ -e "$FAKE/refuse" ]; then
            echo "sudo: a password is required" >&2
            echo "sudo: and another line" >&2
            exit 1
        fi
        [ "$1" != -n ] || shift
        exec env -i PATH="$PATH" FAKE="$FAKE" DPKG_ROOT="$DPKG_ROOT" "$@"
    """,
    "id": """cat "$FAKE/id" """,
    "update-rc.d": r"""
        echo "update-rc.d $*" >>"$FAKE/calls"
        [ ! -e "$DPKG_ROOT/usr/sbin/policy-rc.d" ] || [ ! -e "$FAKE/gate" ] || echo "policy too late" >>"$FAKE/calls"
    """,
    "deb-systemd-helper": """echo "deb-systemd-helper $*" >>"$FAKE/calls" """,
    "systemctl": """echo "systemctl $*" >>"$FAKE/calls" """,
}


class Machine:
    """A folder with the files of a Debian system that tools/setup uses, and the fake commands."""

    def __init__(self, where, uid=0):
        self.root = where / "root"
        self.fake = where / "fake"
        self.bin = where / "bin"
        self.policy = self.root / "usr/sbin/policy-rc.d"
        self.lists = self.root / "var/lib/apt/lists/partial"
        for folder in (self.policy.parent, self.lists, self.root / "var/lib/dpkg", self.root / "etc/init.d",
                       self.root / "sbin", self.fake / "installed", self.bin):
            folder.mkdir(parents=True)
        (self.root / "sbin/init").touch()
        self.write("id", f"{uid}\n")
        self.write("questions", "")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name, text in FAKES.items():
            self.command(self.bin / name, text)

    @staticmethod
    def command(path, text):
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def write(self, name, text=""):
        (self.fake / name).write_text(text)

    def lists_are_old(self, seconds):
        then = time.time() - seconds
        os.utime(self.lists, (then, then))

    def environment(self, **more):
        return {"PATH": str(self.bin), "FAKE": str(self.fake), "DPKG_ROOT": str(self.root), "TMPDIR": str(self.fake), **more}

    def setup(self, *groups, **environment):
        """Runs tools/setup in a new session without a terminal."""
        return subprocess.run([SETUP, *groups], env=self.environment(**environment), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, start_new_session=True, timeout=DEADLINE_S, check=False)

    def calls(self):
        log = self.fake / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def count(self, what):
        return self.calls().count(what)

    def hold_apt(self):
        """Makes apt-get wait in the middle of the installation until let_go(), or until this process ends."""
        self.write("test", str(os.getpid()))
        self.write("gate")

    def await_apt(self):
        self.until(lambda: (self.fake / "waiting").exists(), "apt-get was not called")

    @staticmethod
    def until(condition, problem):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, problem
            time.sleep(0.01)

    def let_go(self):
        self.write("go")


class Setup(unittest.TestCase):
    def machine(self, **options):
        folder = tempfile.TemporaryDirectory(prefix="weir-setup-")
        self.addCleanup(folder.cleanup)
        return Machine(Path(folder.name), **options)

    def begin(self, machine, *groups):
        """Starts tools/setup and returns while apt-get waits in the installation."""
        machine.hold_apt()
        run = subprocess.Popen([SETUP, *groups], env=machine.environment(), stdin=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
        machine.await_apt()
        return run

    def assert_switched_off(self, machine):
        calls = machine.calls()
        for daemon in DAEMONS:
            self.assertIn(f"update-rc.d {daemon} disable", calls)
            self.assertIn(f"deb-systemd-helper disable {daemon}.service", calls)

    def test_without_missing_packages_nothing_is_run(self):
        for uid in (0, 1000):
            machine = self.machine(uid=uid)
            machine.write("all")
            machine.write("refuse")
            done = machine.setup(*EVERYTHING, "lint", "run", "bench")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            self.assertEqual(machine.calls(), [])

    def test_an_unknown_group_is_refused(self):
        done = self.machine().setup("build", "tests")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no group 'tests'", done.stderr)

    def test_refused_sudo_prints_one_line(self):
        machine = self.machine(uid=1000)
        machine.write("refuse")
        done = machine.setup("run")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "tools/setup: packages are missing and sudo is not allowed here; run this as root: "
                                      "apt-get install --no-install-recommends nginx python3 curl\n")
        self.assertEqual(machine.calls(), [])

    def test_missing_sudo_prints_one_line(self):
        machine = self.machine(uid=1000)
        (machine.bin / "sudo").unlink()
        done = machine.setup("run")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
        self.assertIn("apt-get install --no-install-recommends nginx python3 curl", done.stderr)

    def test_user_installs_with_sudo_and_proxy(self):
        machine = self.machine(uid=1000)
        done = machine.setup("run", http_proxy="http://proxy.test:3128")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(machine.count("apt-get install"), 1)
        calls = [c for c in machine.calls() if c != "apt-get has ended" and not c.startswith(("update-rc.d", "deb-"))]
        self.assertEqual(calls[1::2], ["proxy http://proxy.test:3128"] * 3, calls)  # one after each call of apt-get
        self.assertTrue((machine.fake / "installed/curl").exists())

    def test_old_package_lists_are_updated_once(self):
        machine = self.machine()
        machine.lists_are_old(2 * HOUR_S)
        for groups in (["run"], ["build"], ["build", "test"], ["build", "test"]):
            done = machine.setup(*groups)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(machine.count("apt-get update"), 1)
        self.assertEqual(machine.count("apt-get install"), 3)  # nothing was missing in the fourth run

    def test_lists_without_the_packages_are_updated(self):
        machine = self.machine()
        machine.write("no-candidates")
        self.assertEqual(machine.setup("run").returncode, 0)
        self.assertEqual(machine.count("apt-get update"), 1)

    def test_lists_with_unavailable_packages_are_updated(self):
        machine = self.machine()
        machine.write("no-archives")
        self.assertEqual(machine.setup("run").returncode, 0)
        self.assertEqual(machine.calls()[:4], ["apt-get simulate", "apt-get download", "apt-get update", "apt-get download"])

    def test_failed_download_after_an_update_is_not_retried(self):
        machine = self.machine()
        machine.lists_are_old(2 * HOUR_S)
        Machine.command(machine.bin / "apt-get", """
            for word; do last="$last $word"; done
            echo "apt-get$last" >>"$FAKE/calls"
            exit 100
        """)
        self.assertEqual(machine.setup("run").returncode, 1)
        self.assertEqual([c.split()[-1] for c in machine.calls()], ["update", "curl"])
        self.assertFalse(machine.policy.exists())

    def test_new_services_are_neither_started_nor_enabled(self):
        machine = self.machine()
        for name in ("cron", "nginx"):  # nginx: a file that remained after the package was removed
            Machine.command(machine.root / "etc/init.d" / name, "exit 0")
        machine.write("questions", "nginx start\n--quiet dbus start\ndbus.service restart\nprometheus.service start\n"
                                   "cron restart\n--quiet cron.service restart\ncron '(restart)'\n")
        done = machine.setup(*EVERYTHING)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([c for c in machine.calls() if c.startswith("policy")], [
            "policy nginx start: 101", "policy --quiet dbus start: 101", "policy dbus.service restart: 101",
            "policy prometheus.service start: 101", "policy cron restart: 0", "policy --quiet cron.service restart: 0",
            "policy cron '(restart)': 101"])
        self.assert_switched_off(machine)
        self.assertFalse(machine.policy.exists())

    def test_systemd_services_are_disabled(self):
        machine = self.machine()
        (machine.root / "run/systemd/system").mkdir(parents=True)
        self.assertEqual(machine.setup("run").returncode, 0)
        self.assertEqual([c for c in machine.calls() if "systemctl" in c], ["systemctl --quiet disable --now nginx"])

    def test_existing_service_is_not_changed(self):
        machine = self.machine()
        (machine.fake / "installed/nginx").touch()
        Machine.command(machine.root / "etc/init.d/nginx", "exit 0")
        machine.write("questions", "nginx restart\nredis-server start\n")
        self.assertEqual(machine.setup("build", "test").returncode, 0)
        calls = machine.calls()
        self.assertIn("policy nginx restart: 0", calls)
        self.assertIn("policy redis-server start: 101", calls)
        self.assertIn("update-rc.d redis-server disable", calls)
        self.assertNotIn("update-rc.d nginx disable", calls)

    def test_existing_policy_is_kept(self):
        machine = self.machine()
        text = "#!/bin/sh\nexit 0\n"
        machine.policy.write_text(text)
        machine.policy.chmod(0o755)
        Machine.command(machine.root / "etc/init.d/nginx", 'echo "init.d/nginx $1" >>"$FAKE/calls"')
        machine.write("questions", "nginx start\n")
        self.assertEqual(machine.setup("run").returncode, 0)
        self.assertEqual(machine.policy.read_text(), text)
        calls = machine.calls()
        self.assertIn("policy nginx start: 0", calls)
        self.assertEqual([c for c in calls if "init.d" in c], ["init.d/nginx status", "init.d/nginx stop"])

    def test_policy_of_a_killed_run_is_replaced_and_removed(self):
        machine = self.machine()
        run = self.begin(machine, "run")
        run.kill()
        run.wait(DEADLINE_S)
        self.assertTrue(machine.policy.exists())
        machine.let_go()
        machine.until(lambda: "apt-get has ended" in machine.calls(), "apt-get did not go on")
        (machine.fake / "gate").unlink()
        for path in (machine.fake / "installed").iterdir():
            path.unlink()
        self.assertEqual(machine.setup("run").returncode, 0)
        self.assertFalse(machine.policy.exists())

    def test_failed_installation_is_cleaned_up(self):
        machine = self.machine()
        machine.write("broken")
        self.assertEqual(machine.setup(*EVERYTHING).returncode, 100)
        self.assertFalse(machine.policy.exists())
        self.assert_switched_off(machine)

    def test_a_closed_terminal_does_not_disturb_apt(self):
        for uid in (0, 1000):
            machine = self.machine(uid=uid)
            machine.hold_apt()
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(SETUP, [str(SETUP), *EVERYTHING], machine.environment())
            machine.await_apt()
            self.assertTrue(machine.policy.exists())
            os.close(terminal)  # the kernel sends HUP to the processes of the terminal
            self.ends_well(machine, lambda _, pid=pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def test_a_signal_does_not_disturb_apt(self):
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            machine = self.machine()
            run = self.begin(machine, *EVERYTHING)
            os.killpg(run.pid, number)
            self.ends_well(machine, run.wait)

    def test_apt_is_waited_for_when_its_output_cannot_be_shown(self):
        machine = self.machine()
        (machine.bin / "tail").unlink()
        Machine.command(machine.bin / "tail", "exit 1")
        run = self.begin(machine, *EVERYTHING)
        self.ends_well(machine, run.wait)

    def ends_well(self, machine, wait):
        """The policy exists until apt-get ends. Then tools/setup removes it and disables the services."""
        machine.let_go()
        self.assertEqual(wait(DEADLINE_S), 0)
        calls = machine.calls()
        self.assertIn("policy still there", calls)
        self.assertIn("apt-get has ended", calls)
        self.assertNotIn("policy too late", calls)
        self.assertLess(calls.index("apt-get has ended"), calls.index("update-rc.d nginx disable"))
        self.assertFalse(machine.policy.exists())
        self.assert_switched_off(machine)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an exception, so that the folders are removed
    unittest.main()
