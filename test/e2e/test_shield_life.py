"""weir shield: start, end, crash, rights, protected addresses, and full sets."""

import fcntl
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from weirtest import clock, env, full, needs, programs, wait_for
from weirtest.netns import Network
from weirtest.serve import Serve
from weirtest.shield import FILL, Machines, Shield, without_leak_check

pytestmark = needs("root", "namespaces", "nft")

OTHERS = """
table inet filter { chain input { type filter hook input priority 0; tcp dport 23 drop; }
}
table ip weir { set banned4 { type ipv4_addr; elements = { 192.0.2.1 }; }
}
"""


@pytest.fixture
def host():
    with Network("alone") as net:
        net["alone"].run("nft", "delete", "table", "inet", "weirtest")
        yield net["alone"]


def ruleset(host):
    return host.run("nft", "--stateless", "list", "ruleset")


# ---- start and end ----

def test_other_tables_are_untouched(host):
    host.run("nft", "-f", "-", text=OTHERS)
    before = ruleset(host)
    assert "192.0.2.1" in before
    with Shield(host, "--limit", "100/second", "--port", "80") as shield:
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        assert ruleset(host).startswith(before)
        assert shield.stop() == 0
        assert ruleset(host) == before
        assert shield.state()["pid"] == 0
        assert shield.state()["elements_v4"] == 0


def test_dry_run_prints_commands_and_changes_nothing(host):
    with Shield(host, start=False) as shield:
        shield.add("198.51.100.7", "1h")
        shield.add("127.0.0.1", "1h")
        files = sorted(os.listdir(shield.table))
        code, output = shield.run("--dry-run")
        assert code == 0
        assert re.search(r"^add element inet weir banned4 \{ 198\.51\.100\.7 timeout \d+ms \}$", output, re.M)
        assert "weir shield: warning: 127.0.0.1 is banned, but its packets pass: loopback" in output
        assert ruleset(host) == ""
        assert sorted(os.listdir(shield.table)) == files
        assert shield.state()["pid"] == 0
        commands = "".join(line for line in output.splitlines(True) if not line.startswith("weir shield"))
        host.run("nft", "--check", "-f", "-", text=commands)


def test_leave_keeps_the_table_and_the_next_shield_replaces_it(host):
    with Shield(host, "--leave") as shield:
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        assert shield.stop() == 0
        assert set(shield.elements("banned4")) == {"198.51.100.7"}
        shield.release("198.51.100.7")
        shield.add("198.51.100.8", "1h")
        shield.options = ()
        shield.start()
        assert set(shield.elements("banned4")) == {"198.51.100.8"}
        assert "replaces the table of process" in shield.log()


def test_clean_exit_after_a_failed_change_removes_the_table(host):
    """The failure leaves the sets in the kernel. The shield ends before its next attempt."""
    with Shield(host) as shield:
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        host.run("nft", "flush", "chain", "inet", "weir", "refuse")
        wait_for(lambda: "next attempt in 1 s" in shield.log(), "a failure")
        assert shield.stop() == 0
        assert not shield.has_table()


def test_end_of_the_log_does_not_end_the_shield(host):
    with Shield(host, start=False) as shield:
        shield.process = programs.start(shield.command(), stderr=subprocess.PIPE, text=True,
                                        env=without_leak_check(os.environ))
        assert shield.process.stderr.readline().startswith("weir shield: ready")
        shield.process.stderr.close()
        host.run("nft", "delete", "table", "inet", "weir")  # the shield logs this
        wait_for(shield.has_table, "the table")
        assert shield.stop() == 0
        assert not shield.has_table()


def test_owner_whose_id_another_program_has(host):
    """After a crash in a container, the gateway may get the id that the shield had."""
    with Serve(rules=RULES.format(address="192.0.2.1"), http=True) as serve, Shield(host, start=False) as shield:
        host.run("nft", "-f", "-", text=f'table inet weir {{ counter owner {{ comment "pid {serve.process.pid}" \n }}\n}}\n')
        shield.start()
        assert f"replaces the table of process {serve.process.pid}, which has ended" in shield.log()


def test_killed_shield_leaves_bans_that_expire(host):
    with Shield(host) as shield:
        shield.add("198.51.100.7", "4s")
        shield.add("198.51.100.8", "ever")
        shield.wait_elements("banned4", "198.51.100.7", "198.51.100.8")
        assert 43200 <= shield.elements("banned4")["198.51.100.8"] <= 86400
        shield.kill()
        clock.current.advance(20)
        assert re.search(r"process \d+ was killed or hangs: no report since 2\d s", shield.do("list"))
        clock.current.advance(-20)
        shield.wait_elements("banned4", "198.51.100.8")
        shield.start()
        assert set(shield.elements("banned4")) == {"198.51.100.8"}


def test_second_shield_is_refused(host):
    with Shield(host) as shield:
        code, output = shield.run()
        assert (code, output) == (1, "weir shield: weir shield already runs on this table: process "
                                  f"{shield.process.pid}; stop it first\n")
        with Shield(host, start=False) as other:
            code, output = other.run()
            assert (code, output) == (1, "weir shield: weir shield already runs in this network namespace: process "
                                      f"{shield.process.pid}; stop it first\n")
        assert shield.has_table()


def test_two_shields_started_at_once(host):
    """One of them runs, whichever it is, and its table stays."""
    with Shield(host, start=False) as first, Shield(host, start=False) as second:
        both = [first, second]
        for _ in range(10):
            for shield in both:
                shield.output.write_text("")
                shield.launch()
            wait_for(lambda: any(s.process.poll() is not None for s in both) and any(": ready:" in s.log() for s in both),
                     "one shield to run and one to end", 30)
            loser, winner = sorted(both, key=lambda s: s.process.poll() is None)
            assert (loser.process.poll(), winner.process.poll()) == (1, None)
            assert loser.log() == "weir shield: weir shield already runs in this network namespace: process " \
                f"{winner.process.pid}; stop it first\n"
            assert f"pid {winner.process.pid}" in winner.nft("list", "table", "inet", "weir")
            assert winner.stop() == 0
        loser.process = None


def test_holder_that_has_not_written_its_id_yet(host):
    """A shield that is between locking the file and writing its id. The file is empty, or has an earlier shield's id."""
    with Shield(host, start=False) as shield:
        lock = Path(f"{next(shield.table.glob('default.v*'))}.shield")
        for text in "", "4194304\n":
            lock.write_text(text)
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                assert shield.run() == (1, "weir shield: weir shield already runs on this table, perhaps in another "
                                           "container; stop it first\n")


def test_holder_that_writes_its_id_late(host):
    """A shield tries the lock until the holder, which is another shield here, has written its id."""
    with Shield(host) as holder, Shield(host, start=False) as shield:
        lock = Path(f"{next(shield.table.glob('default.v*'))}.shield")
        lock.touch()
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            late = subprocess.Popen(shield.command(), env=clock.for_weir(), stderr=subprocess.PIPE, text=True)
            try:
                wait_for(lambda: str(lock) in [os.path.realpath(fd) for fd in Path(f"/proc/{late.pid}/fd").iterdir()],
                         "an attempt")
                time.sleep(0.1)
                lock.write_text(f"{holder.process.pid}\n")
                _, output = late.communicate(timeout=env.patience(20))
            finally:
                late.kill()
        assert output == ("weir shield: weir shield already runs on this table: process "
                          f"{holder.process.pid}; stop it first\n")


def test_many_shields_started_at_once_on_a_table(host):
    """Each loser names the winner."""
    with Shield(host, start=False) as shield:
        started = [subprocess.Popen(shield.command(), env=without_leak_check(os.environ), stderr=subprocess.PIPE, text=True)
                   for _ in range(8)]
        try:
            wait_for(lambda: sum(one.poll() is not None for one in started) == 7, "seven shields to end", 30)
            winner = next(one for one in started if one.poll() is None)
            assert {one.stderr.read() for one in started if one is not winner} == {
                f"weir shield: weir shield already runs on this table: process {winner.pid}; stop it first\n"}
        finally:
            for one in started:
                one.terminate()
                one.wait()
                one.stderr.close()


def test_second_shield_in_another_container_is_refused(host):
    """A shield in another namespace of process ids does not see the first one in /proc."""
    with Shield(host) as shield, Shield(host, start=False) as other:
        words = other.command()
        at = len(host.prefix)
        done = subprocess.run([*words[:at], "unshare", "--pid", "--fork", "--mount-proc", *words[at:]],
                              env=without_leak_check(clock.for_weir()), capture_output=True, text=True,
                              timeout=env.patience(30), check=False)
        assert (done.returncode, done.stderr) == (
            1, "weir shield: weir shield already runs in this network namespace, in another container; stop it first\n")
        assert f"pid {shield.process.pid}" in shield.nft("list", "table", "inet", "weir")


SQUAT = """
import os, socket, time
os.setuid(60901)
s = socket.socket(socket.AF_UNIX)
s.bind("\\0weir-shield")
{listen}
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("listen,text", [("s.listen()", "of user 60901 holds the socket @weir-shield and is no shield"),
                                         ("", "an unknown process holds the socket @weir-shield")])
def test_stranger_cannot_keep_the_shield_from_starting(host, listen, text):
    squatter = programs.start([*host.prefix, "/usr/bin/python3", "-c", SQUAT.format(listen=listen)],
                              stdout=subprocess.PIPE, text=True)
    try:
        assert squatter.stdout.readline() == "ready\n"
        with Shield(host) as shield:
            assert text in shield.log()
            with Shield(host, start=False) as other:
                code, output = other.run()
                assert code == 1
                assert f"already runs in this network namespace: process {shield.process.pid}" in output
    finally:
        programs.stop(squatter)


def test_table_is_resized_while_the_shield_runs(host):
    with Shield(host) as shield:
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        resize(shield, "128M")
        wait_for(lambda: "opened the resized table" in shield.log(), "the resized table")
        shield.add("198.51.100.8", "1h")
        wait_for(lambda: "198.51.100.8" in shield.elements("banned4"), "the new ban")


def test_table_is_replaced_while_the_shield_runs(host):
    """`weir table rm`, and a restarted service makes a new table. The shield follows to it."""
    with Shield(host) as shield:
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        subprocess.run([env.WEIR, "table", "rm", "default", "--dir", shield.table], check=True, env=clock.for_weir(),
                       stdout=subprocess.DEVNULL)
        wait_for(lambda: "cannot open the table again" in shield.log(), "the warning")
        assert set(shield.elements("banned4")) == {"198.51.100.7"}
        shield.fill(0)
        wait_for(lambda: "opened the table that has replaced the former one" in shield.log(), "the new table")
        shield.add("198.51.100.8", "1h")
        shield.wait_elements("banned4", "198.51.100.8")
        assert shield.state()["pid"] == shield.process.pid
        assert shield.run() == (1, "weir shield: weir shield already runs on this table: process "
                                   f"{shield.process.pid}; stop it first\n")
        assert shield.log().count("cannot open the table again") == 1


def test_each_loss_of_the_table_is_logged(host):
    """The table's file is moved away and back twice. It is the same file, so the shield does not open it again."""
    with Shield(host) as shield:
        [file] = shield.table.glob("default.v?")
        away = file.with_suffix(".away")
        for count in (1, 2):
            file.rename(away)
            wait_for(lambda count=count: shield.log().count("cannot open the table again") == count, f"warning {count}")
            away.rename(file)
            updated = shield.state()["updated_s"]
            wait_for(lambda updated=updated: shield.state()["updated_s"] >= updated + 2, "a look at the file")


def test_table_removed_by_another_program_is_written_again(host):
    with Shield(host) as shield:
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        host.run("nft", "flush", "ruleset")
        wait_for(shield.has_table, "the table")
        assert set(shield.elements("banned4")) == {"198.51.100.7"}
        assert wait_for(lambda: shield.state()["failures"], "a failure in the state") == 1


def rules(host):
    """Returns the number of rules in the table."""
    listed = json.loads(host.run("nft", "--json", "list", "table", "inet", "weir"))["nftables"]
    return sum("rule" in part for part in listed)


@pytest.mark.parametrize("options,count", [
    ((), 8), (("--hooks", "forward", "--reject"), 10), (("--limit", "9/second", "--port", "80", "--reject"), 19)])
def test_rules_removed_by_another_program_are_written_again(host, options, count):
    with Shield(host, *options) as shield:
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        assert rules(host) == count
        before = shield.state()["updated_s"]
        wait_for(lambda: shield.state()["updated_s"] > before + 1, "the next looks")
        assert shield.state()["failures"] == 0
        host.run("nft", "flush", "table", "inet", "weir")
        wait_for(lambda: rules(host) == count, "the rules")
        assert set(shield.elements("banned4")) == {"198.51.100.7"}
        assert wait_for(lambda: shield.state()["failures"], "a failure in the state") == 1
        assert f"another program has changed the rules of inet weir: 0 instead of {count}" in shield.log()


def test_table_of_another_program_is_kept(host):
    host.run("nft", "-f", "-", text="table inet weir { chain mine { tcp dport 23 drop; }\n}\n")
    before = ruleset(host)
    with Shield(host, start=False) as shield:
        assert shield.run() == (1, "weir shield: the table inet weir of nftables is not one of weir shield, which would "
                                   "replace it: give it another name, or remove it with nft delete table inet weir\n")
        assert ruleset(host) == before
        host.run("nft", "delete", "table", "inet", "weir")
        shield.start()


def test_counter_of_another_program_is_not_reset(host):
    host.run("nft", "-f", "-", text="table inet weir { counter owner { packets 5 bytes 500 \n comment \"mine\" \n }\n}\n")
    with Shield(host, start=False) as shield:
        code, output = shield.run()
        assert (code, "is not one of weir shield" in output) == (1, True), output
        assert "packets 5 bytes 500" in host.run("nft", "list", "counter", "inet", "weir", "owner")


def test_step_of_the_wall_clock(host):
    """The kernel's timeouts do not follow the wall clock, so the shield writes them again."""
    with Shield(host) as shield:
        shield.add("198.51.100.7", "30m")
        shield.add("198.51.100.8", "2h")
        shield.wait_elements("banned4", "198.51.100.7", "198.51.100.8")
        clock.current.advance(3600)
        shield.wait_elements("banned4", "198.51.100.8")
        assert 3000 < shield.elements("banned4")["198.51.100.8"] <= 3600
        clock.current.advance(-3600)


def test_lock_file_of_another_user(host):
    with Shield(host, start=False) as shield:
        lock = Path(f"{next(shield.table.glob('default.v*'))}.shield")
        lock.touch()
        os.chown(lock, 60901, 60901)
        text = f"weir shield: {lock} does not belong to this user; remove it\n"
        assert shield.run() == (1, text)

        # the shield of a user without root, after one that root has started
        give_table(shield, 60900)
        os.chown(lock, 0, 0)
        lock.chmod(0o600)
        words, at = shield.command(), len(host.prefix)
        words[at:at] = ["setpriv", "--reuid=60900", "--regid=60900", "--clear-groups", "--inh-caps=+net_admin",
                        "--ambient-caps=+net_admin"]

        def run():
            done = subprocess.run(words, capture_output=True, text=True, timeout=env.patience(30), check=False,
                                  env=without_leak_check(clock.for_weir()))
            return done.returncode, done.stderr

        assert run() == (1, text)
        lock.unlink()
        assert run() == (1, "weir shield: the user of weir shield has to be able to make files in the folder of the table: "
                            f"cannot make {lock}: Permission denied\n")


# ---- rights ----

def test_process_has_one_capability_and_a_filter(host):
    with Shield(host) as shield:
        status = dict(line.split(":\t", 1) for line in
                      Path(f"/proc/{shield.process.pid}/status").read_text().splitlines())
        assert status["CapEff"] == status["CapPrm"] == f"{1 << 12:016x}"
        assert int(status["CapInh"], 16) == int(status["CapBnd"], 16) == int(status["CapAmb"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"


def test_process_becomes_another_user(host):
    with Shield(host, "--user", "60900", start=False) as shield:
        give_table(shield, 60900)
        shield.start()
        status = Path(f"/proc/{shield.process.pid}/status").read_text()
        assert "Uid:\t60900\t60900\t60900\t60900\n" in status
        assert f"CapEff:\t{1 << 12:016x}\n" in status
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")


def give_table(shield, group):
    """Gives the group access to the table and its folder."""
    os.chown(shield.table, 0, group)
    os.chmod(shield.table, 0o750)
    for path in shield.table.glob("default.v?"):
        os.chown(path, 0, group)
        os.chmod(path, 0o660)


def resize(shield, size):
    subprocess.run([env.WEIR, "table", "resize", "default", size, "--dir", shield.table], check=True, env=clock.for_weir(),
                   stdout=subprocess.DEVNULL)


def test_table_that_the_user_cannot_open_again(host):
    with Shield(host, "--user", "60900", start=False) as shield:
        os.chmod(shield.table, 0o700)
        code, output = shield.run("--user", "60900")
        assert code == 1
        assert re.fullmatch("weir shield: after giving up rights, the shield could not open the table again when it is resized: "
                            f".*{shield.table}/default.*Permission denied.*; name a user with access to the table with --user, "
                            r"or change its owner or group \(chown, chgrp\)\n", output), output
        assert not shield.has_table()


def test_table_that_cannot_be_opened_again_is_logged_once(host):
    with Shield(host, "--user", "60900", start=False) as shield:
        give_table(shield, 60900)
        shield.start()
        shield.add("198.51.100.7", "1h")
        shield.wait_elements("banned4", "198.51.100.7")
        os.chown(shield.table, 0, 0)
        os.chmod(shield.table, 0o700)
        resize(shield, "128M")
        wait_for(lambda: "cannot open the table again" in shield.log(), "the warning")
        for _ in range(2):  # the shield writes the nftables table again after the look of a later second
            host.run("nft", "delete", "table", "inet", "weir")
            wait_for(shield.has_table, "the table")
        assert shield.log().count("cannot open the table again") == 1
        give_table(shield, 60900)
        wait_for(lambda: "opened the resized table" in shield.log(), "the resized table")
        assert shield.log().count("cannot open the table again") == 1
        shield.add("198.51.100.8", "1h")
        shield.wait_elements("banned4", "198.51.100.7", "198.51.100.8")


def test_user_without_rights_is_told_what_is_needed(host):
    with Shield(host, start=False) as shield:
        os.chmod(shield.table, 0o755)
        done = subprocess.run(["setpriv", "--reuid=60901", "--regid=60901", "--clear-groups", "--inh-caps=-all", env.WEIR,
                               "shield", "--dir", shield.table], capture_output=True, text=True, check=False,
                              env=without_leak_check(clock.for_weir()))
        assert done.returncode == 1
        assert done.stderr.startswith("weir shield: weir shield needs CAP_NET_ADMIN: run it as root, or as a systemd service "
                                      "with AmbientCapabilities=CAP_NET_ADMIN")


def test_kernel_that_does_not_permit_nftables(host):
    """In a user namespace of its own the process has the capability, but not for the network namespace."""
    with Shield(host, start=False) as shield:
        code, output = run_in_user_namespace(shield)
        assert code == 1
        assert "weir shield: the kernel does not permit changes of nftables here: weir shield needs CAP_NET_ADMIN in this " \
               "network namespace" in output


def run_in_user_namespace(shield):
    words = shield.command()
    at = words.index(str(env.WEIR))
    done = subprocess.run([*words[:at], "unshare", "--user", "--map-root-user", *words[at:]], env=clock.for_weir(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=env.patience(30), check=False)
    return done.returncode, done.stdout


# Runs a command in which socket() for netfilter fails as in a kernel without netfilter: EPROTONOSUPPORT.
WITHOUT_NETFILTER = """
import ctypes, os, struct, sys
ALLOW, DENY = 0x7fff0000, 0x00050000 | 93
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
SOCKET = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
code = b"".join(struct.pack("HBBI", *line) for line in [
    (LOAD, 0, 0, 0), (IF_EQUAL, 0, 5, SOCKET),                # the number of the call
    (LOAD, 0, 0, 16), (IF_EQUAL, 0, 3, 16),                   # AF_NETLINK
    (LOAD, 0, 0, 32), (IF_EQUAL, 0, 1, 12),                   # NETLINK_NETFILTER
    (RETURN, 0, 0, DENY), (RETURN, 0, 0, ALLOW)])
kept = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:       # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_kernel_without_netfilter(host):
    with Shield(host, start=False) as shield:
        words = shield.command()
        done = subprocess.run([*host.prefix, "/usr/bin/python3", "-c", WITHOUT_NETFILTER, *words[len(host.prefix):]],
                              capture_output=True, text=True, check=False, env=clock.for_weir())
        assert (done.returncode, done.stderr) == (
            1, "weir shield: the kernel has no nftables (modprobe nf_tables): Protocol not supported\n")


@pytest.mark.parametrize("options,text", [
    (["--limit", "100"], "--limit and --port need each other"),
    (["--limit", "100/s", "--port", "80"], "--limit '100/s' is not a rate such as 100/second"),
    (["--limit", "1/day", "--port", "0"], "--port '0' is not a port"),
    (["--hooks", "output"], "--hooks 'output' is not input or forward"),
    (["--never", "300.1.1.1"], "--never '300.1.1.1' is not a network such as 192.0.2.0/24, nor the path of a file that "
                               "begins with / or ."),
    (["--never", "/dev/null,foo"], "--never 'foo' is not a network"),
    (["--trust", "foo"], "--trust 'foo' is not a network such as 192.0.2.0/24"),
    (["--trust", "/etc/hosts"], "--trust '/etc/hosts' is not a network"),
    (["--dry-run", "--trust", "foo"], "--trust 'foo' is not a network"),
    (["add", "198.51.100.7"], "add needs --for TIME"),
    (["add", "198.51.100.7/24", "--for", "1h"], "'198.51.100.7/24' has bits behind its prefix"),
    (["add", "0.0.0.0/0", "--for", "1h"], "'0.0.0.0/0' is every address"),
    (["release"], "release needs ADDRESS or CIDR"),
    (["ban"], "'ban' is not one of: add, release, flush, list"),
])
def test_usage_errors(host, options, text):
    with Shield(host, start=False) as shield:
        code, output = shield.run(*options)
        assert code == 2
        assert text in output


def test_missing_table(host):
    with Shield(host, start=False) as shield:
        shield.name = "other"
        code, output = shield.run("--dry-run")
        assert code == 1
        assert "there is no table other: start weir gateway or weir serve first" in output


def test_shield_waits_for_the_table(host):
    """The gateway, started just before, makes the table a moment later."""
    with Shield(host, start=False) as shield:
        folder, shield.table = shield.table, shield.folder / "late"
        shield.launch()
        wait_for(lambda: "waits up to 10 s for the table default, which weir gateway and weir serve make" in shield.log(),
                 "the message")
        folder.rename(shield.table)
        wait_for(lambda: "weir shield: ready" in shield.log(), "weir shield to be ready", 30)


@full("waits ten seconds for the table")
def test_wait_for_the_table_ends(host):
    with Shield(host, start=False) as shield:
        shield.name = "other"
        code, output = shield.run()
        assert code == 1
        assert "there is no table other: start weir gateway or weir serve first" in output


def test_release_of_an_address_that_is_not_banned(host):
    with Shield(host, start=False) as shield:
        code, output = shield.run("release", "198.51.100.7")
        assert code == 1
        assert "no weir shield add has banned 198.51.100.7; weir ban release ends bans of rules" in output
        shield.fill(3)
        assert shield.do("flush") == "released 3\n"
        assert shield.list()["bans"] == []


def test_ipv4_address_in_ipv6_is_an_ipv4_address(host):
    with Shield(host, start=False) as shield:
        for text, address in (("::ffff:203.0.113.4", "203.0.113.4"), ("::ffff:198.51.100.0/120", "198.51.100.0/24")):
            assert f"added {text}\n" in shield.do("add", text, "--for", "1h")
            assert [ban["address"] for ban in shield.list()["bans"]] == [address]
            assert f"released {address}\n" in shield.do("release", address)


# ---- protected addresses ----

def test_protected_addresses(host):
    with Shield(host, start=False) as shield:
        never, rules = shield.folder / "cdn.txt", shield.folder / "rules.yaml"
        never.write_text("# a CDN\n198.51.100.0/24\n")
        rules.write_text(RULES.format(address="203.0.113.5"))
        shield.options = ("--trust", "192.0.2.0/24", "--never", f"{never},192.0.3.7", "--rules", rules)
        banned = ["127.0.0.1", "192.0.2.9", "198.51.100.7", "192.0.3.7", "203.0.113.5", host.address, "203.0.114.1"]
        for address in (*banned, "203.0.112.0/22", "fe80::1"):
            shield.add(address, "1h")
        shield.start()
        assert set(shield.elements("banned4")) == {"203.0.114.1"}
        assert shield.elements("nets4") == {}
        assert shield.elements("banned6") == {}
        shield.wait_state(skipped=8, elements_v4=1)
        reasons = dict(re.findall(r"warning: (\S+) is banned, but its packets pass: (.*)", shield.log()))
        assert reasons["192.0.2.9"] == "--trust names it"
        assert reasons["198.51.100.7"] == reasons["192.0.3.7"] == "--never names it"
        assert reasons["203.0.113.5"] == reasons["203.0.112.0/22"] == "an entry with `allow: true` in the rules names it"
        assert reasons[host.address] == "this machine has this address"
        # changes of the files and of the machine take effect by themselves, and are logged once
        never.write_text("203.0.114.0/24\n")
        rules.write_text(RULES.format(address="203.0.115.0/24"))
        host.run("ip", "address", "del", f"{host.address}/24", "dev", "eth0")
        shield.wait_elements("banned4", "198.51.100.7", "203.0.113.5", host.address)
        assert shield.log().count("127.0.0.1 is banned") == 1
        # a file with an error keeps the former list
        never.write_text("example.org\n")
        wait_for(lambda: f"{never}:1: 'example.org' is not a network" in shield.log(), "the error")
        assert "203.0.114.1" not in shield.elements("banned4")


RULES = """
domain: api
requests:
  - when: {{remote_address: {address}}}
    allow: true
  - descriptor: [{{key: ip, from: remote_address}}]
descriptors:
  - key: ip
    rate_limit: {{unit: second, requests_per_unit: 2}}
"""

HOLD = """
import socket, time
s = socket.create_server(("0.0.0.0", 8022))
print("ready", flush=True)
c, _ = s.accept()
time.sleep(600)
"""

STAY = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], 8022))
print("ready", flush=True)
time.sleep(600)
"""


def test_logged_in_administrator_is_protected(monkeypatch):
    """SSH_CONNECTION names the port of sshd, and the client that has logged in."""
    with Machines() as machines:
        monkeypatch.setenv("SSH_CONNECTION", f"{machines.client.address} 40022 {machines.server.address} 8022")
        with Shield(machines.server) as shield:
            machines.listen(machines.server, HOLD)
            session = machines.listen(machines.client, STAY, machines.server.address)
            shield.add(machines.client.address, "1h")
            shield.wait_state(skipped=1)
            assert f"{machines.client.address} is banned, but its packets pass: a user who has logged in with SSH has " \
                "this address" in shield.log()
            assert machines.connect(seconds=5) == "open"
            for process in session, machines.servers[1]:  # the connection ends
                process.kill()
                process.wait()
            shield.process.send_signal(signal.SIGHUP)  # without the signal, the shield looks again after ten seconds
            shield.wait_state(skipped=0, elements_v4=1)
            machines.wait_dropped(shield)


def test_stranger_who_is_connected_to_sshd_is_banned():
    """Everybody can hold a connection to sshd without a login."""
    with Machines() as machines, Shield(machines.server, "--ssh-ports", "8022") as shield:
        machines.listen(machines.server, HOLD)
        machines.listen(machines.client, STAY, machines.server.address)
        shield.add(machines.client.address, "1h")
        shield.wait_state(elements_v4=1, skipped=0)
        machines.wait_dropped(shield)


# ---- many elements ----

def test_full_set_keeps_the_bans_that_end_last(host):
    with Shield(host, "--size", "16") as shield:
        shield.fill(40, seconds=600)
        shield.add("198.51.100.7", "1h")
        shield.wait_state(elements_v4=16, left_out=25)
        elements = shield.elements("banned4")
        assert len(elements) == 16
        assert "198.51.100.7" in elements
        assert shield.log().count(" bans do not fit into the kernel's sets, so these packets pass; the gateway refuses "
                                  "only clients that rules or operators have banned") == 1
        shield.do("flush")
        shield.wait_state(elements_v4=0, left_out=0)
        assert shield.state()["failures"] == 0


def test_full_list_of_bans(host):
    """A table of 1 MiB has 1,020 entries."""
    with Serve(rules=RULES.format(address="192.0.2.1"), http=True, memory="1M") as serve, \
            Shield(host, table=serve.table, start=False) as shield:
        subprocess.run([FILL, serve.table, "9000", "3600"], env=clock.for_weir(), check=True, capture_output=True)
        assert shield.run("add", "198.51.100.7", "--for", "1h") == (
            1, "weir shield: the list of bans is full: it has 1020; release some, or enlarge the table with weir table "
               "resize\n")


def test_list_writes_one_and_many(host):
    with Shield(host) as shield:
        shield.add("198.51.100.7", "1h")
        shield.add("198.51.101.0/24", "1h")
        shield.wait_state(elements_v4=1, prefixes=1)
        assert "\ncarried   1 IPv4 address, 0 IPv6 networks, 1 prefix\n" in shield.do("list")
        shield.add("198.51.100.8", "1h")
        shield.wait_state(elements_v4=2)
        assert "\ncarried   2 IPv4 addresses, 0 IPv6 networks, 1 prefix\n" in shield.do("list")


def test_batches(host):
    """5,000 bans are more than two transactions, for adding and for releasing them."""
    with Shield(host) as shield:
        shield.fill(5000)
        shield.wait_state(elements_v4=5000)
        assert len(shield.elements("banned4")) == 5000
        shield.do("flush")
        shield.wait_state(elements_v4=0)
        assert shield.elements("banned4") == {}
        assert shield.state()["failures"] == 0


@full("writes 100,000 elements and lists them")
def test_100_000_elements(host):
    with Shield(host) as shield:
        shield.fill(100000)
        shield.wait_state(elements_v4=100000)
        assert len(shield.elements("banned4")) == 100000
        shield.add("198.51.100.7", "1h")
        shield.wait_state(elements_v4=100001)
        assert shield.stop() == 0
        shield.start()  # in one transaction
        shield.wait_state(elements_v4=100001)
        assert shield.state()["failures"] == 0
