"""A real `weir serve`, in its own folder."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from . import env, programs, tokens
from .http1 import fetch
from .ports import free_port
from .waiting import wait_for

# Text that only a bug of weir writes.
_BAD = re.compile(r"AddressSanitizer|runtime error:|Assertion|stack smashing|double free|corrupt")

PORTS = ("grpc", "http", "resp", "admin")


def thread_states(pid):
    """Returns the kernel's state of each thread of a process, for the message of a failure."""
    output = ""
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        for name in ("comm", "wchan", "syscall", "stat"):
            try:
                output += f"{task.name} {name}: {(task / name).read_text(errors='replace').strip()}\n"
            except OSError:
                pass
    return output


class Serve:
    """`with Serve(rules=...) as serve:` runs it. At the end it gets SIGTERM, and a sanitizer report fails the test.

    rules      text of the rules file                rules_path  a path, used instead of `rules`
    grpc, http, resp, admin
               True: a free port of 127.0.0.1 (serve.grpc_port …); False: off; or an address as text, in
               which {folder} stands for the folder. All are off by default
    args       more flags, as ["--idle", "1s"]; {folder} stands for the folder
    table      the folder of the table (default: its own folder), such as the `.table` of another Serve
    variables  environment variables beside the usual ones
    prefix     the words before the command line, such as ["setpriv", …]
    start      False: only creates the folder; `serve.start()` later

    serve.folder, .rules (a Path), .table (a str), .process, .pid
    """

    def __init__(self, rules=None, rules_path=None, grpc=False, http=False, resp=False, admin=False,
                 args=(), table=None, threads=1, memory="4M", variables=None, prefix=(), start=True):
        self.folder = Path(programs.temp_folder("serve"))
        self.rules = self.folder / "rules.yaml"
        self.table = str(table or self.folder / "table")
        self.process = None
        self.wants_start = start
        self.prefix = list(prefix)
        self.variables = dict(variables or {})
        self.reports = self.folder / "reports"
        self.reports.mkdir()
        self.reports.chmod(0o777)
        self.output = self.folder / "output"
        Path(self.table).mkdir(exist_ok=True)
        if rules is not None:
            self.rules.write_text(textwrap.dedent(rules), encoding="utf-8")
            rules_path = self.rules
        self.rules_path = rules_path
        self.addresses = {}
        for name, wanted in zip(PORTS, (grpc, http, resp, admin)):
            self._set_port(name, wanted)
        self.args = ["--threads", str(threads), "--memory", memory, "--table-dir", self.table]
        self.args += [str(a).replace("{folder}", str(self.folder)) for a in args]

    def _set_port(self, name, wanted):
        port = free_port() if wanted is True else None
        setattr(self, f"{name}_port", port)
        if wanted is True:
            address = f"127.0.0.1:{port}"
        else:
            address = str(wanted).replace("{folder}", str(self.folder)) if wanted else "off"
        self.addresses[name] = address

    def command(self):
        line = self.prefix + [str(env.WEIR), "serve"]
        if self.rules_path:
            line += ["--rules", str(self.rules_path)]
        for name, address in self.addresses.items():
            line += [f"--{name}", address]
        return line + self.args

    # ---- running ----

    def __enter__(self):
        if not env.WEIR.exists():
            programs.remove_folder(str(self.folder))
            raise AssertionError(f"{env.WEIR}: not there; build weir, or set WEIR_BUILD")
        try:
            if self.wants_start:
                self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if self.process and self.process.poll() is None and kind is None:
                self.stop()
        finally:
            output = self.log()
            trouble = self._end()
        if trouble and kind is None:
            raise AssertionError(trouble)
        if kind is not None:
            print(f"weir serve, beside the failure above:\n{trouble or output[-8000:]}", file=sys.stderr)

    def _environment(self):
        wrap, variables = env.wrapper(self.reports)
        variables.pop("LD_PRELOAD", None)  # weir itself is built with the sanitizer
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("WEIR_", "RUNTIME_"))}
        return wrap, {**keep, **variables, **self.variables}

    def launch(self):
        """Starts the service without waiting for it."""
        wrap, variables = self._environment()
        with open(self.output, "ab") as out:
            self.process = programs.start(wrap + self.command(), stdout=out, stderr=out,
                                        env=variables, cwd=self.folder)
        return self.process

    def start(self):
        ready = self.log().count("weir serve: ready") + self.log().count('"message":"ready"')
        self.launch()

        def is_ready():
            if self.process.poll() is not None:
                raise AssertionError(f"weir serve ended with {self.process.returncode}:\n{self.log()}")
            log = self.log()
            return log.count("weir serve: ready") + log.count('"message":"ready"') > ready

        try:
            wait_for(is_ready, "weir serve to be ready", 30)
        except AssertionError as e:
            raise AssertionError(f"{e}; its output:\n{self.log()}{thread_states(self.pid)}") from None
        tokens.read_from(self.log())

    def run(self, timeout=30):
        """Runs the service until it exits, for starts that fail. Returns (exit code, output)."""
        wrap, variables = self._environment()
        done = subprocess.run(wrap + self.command(), env=variables, cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=env.patience(timeout), check=False)
        return done.returncode, done.stdout.replace(str(self.folder), "FOLDER")

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        os.kill(self.process.pid, number)

    def stop(self, seconds=20):
        """Sends SIGTERM. Returns the exit code, which must be 0."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=20):
        try:
            code = self.process.wait(timeout=env.patience(seconds))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"weir serve does not end:\n{self.log()}{thread_states(self.pid)}") from None
        assert code == 0, f"weir serve ended with {code}:\n{self.log()}"
        return code

    def kill(self):
        """Ends the service with kill -9."""
        self.process.kill()
        self.process.wait()

    def _end(self):
        if self.process:
            programs.stop(self.process)
        log = self.log()
        reports = "".join(p.read_text(errors="replace") for p in self.reports.iterdir()
                          if p.stat().st_size)
        trouble = reports + (log if _BAD.search(log) else "")
        if not (trouble and os.environ.get("WEIR_KEEP")):
            programs.remove_folder(str(self.folder))
        return trouble

    # ---- observe ----

    def log(self):
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def wait_logged(self, text, seconds=20, times=1):
        wait_for(lambda: self.log().count(text) >= times, f"the log to say {text!r}", seconds)

    def write_rules(self, text):
        """Replaces the rules file in one step."""
        fresh = self.rules.with_suffix(".new")
        fresh.write_text(textwrap.dedent(text), encoding="utf-8")
        fresh.rename(self.rules)

    def pass_seconds(self, clock, count=1):
        """Moves the test's clock on, second by second. Returns when the statistics include each second. Needs
        admin=True."""
        for _ in range(count):
            clock.advance(1)
            self.wait_counted(clock)

    def wait_counted(self, clock):
        """Waits until the statistics include all decisions before this second of the test's clock. Creating and
        removing a file beside the rules makes the service look at once instead of within half a second."""
        wanted = int(clock.now())

        def has_counted():
            (self.folder / "news").touch()
            (self.folder / "news").unlink()
            history = json.loads(fetch(self.admin_port, "GET", "/v1/overview?count=1").body)["history"]
            return history["end"] >= wanted

        wait_for(has_counted, "statistics of the last second")

    def resident_kib(self):
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))
