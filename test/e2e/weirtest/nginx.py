"""A real nginx with the module, in its own folder."""

import os
import pwd
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from . import certificate, clock, env, programs
from .http1 import Client, fetch
from .ports import free_port
from .waiting import wait_for

_MAIN = """\
load_module "{module}";
daemon off;
worker_processes {workers};
pid {prefix}/nginx.pid;
error_log {prefix}/error.log {log_level};
{user}{environment}{main}
events {{
	worker_connections 8192;
}}
http {{
	client_body_temp_path {prefix}/tmp/body;
	proxy_temp_path {prefix}/tmp/proxy;
	fastcgi_temp_path {prefix}/tmp/fastcgi;
	uwsgi_temp_path {prefix}/tmp/uwsgi;
	scgi_temp_path {prefix}/tmp/scgi;
	{access_log}
	default_type text/plain;
	root {prefix}/html;
	{rules}
	{table}
{upstream}
{http}
	server {{
{listen}
{server}
	}}
}}
"""

_UPSTREAM = """
	upstream api {{
		server 127.0.0.1:{port};
		keepalive 64;
	}}
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header Host $http_host;
"""

# Messages of nginx that report a fault which no client may cause.
_BAD = re.compile(r"\[(alert|emerg|crit)\]|exited on signal|exited with fatal|AddressSanitizer"
                  r"|runtime error:|stack smashing|double free|corrupt")

# For `allow` of a test that ends nginx with SIGTERM: the master kills a worker that takes more than 1.5 s to exit.
TERMINATED = ["exited on signal 9"]


class Nginx:
    """`with Nginx(...) as nginx:` runs it. At the end it quits, and errors in its log or reports fail the test.

    conf_http     text for http { }         conf_server   text for the server { }
    conf_main     text for the top level    workers       worker_processes
    rules         text of the rules file (or None: no weir_rules line; then write your own)
    rules_path    instead of that, the argument of weir_rules
    table         the weir_table line; its folder is in the prefix, so that each test has its own
    api           an Api; it becomes `upstream api`, so that `proxy_pass http://api;` works
    listen        extra `listen` lines' arguments, as ["[::1]:{port}", "unix:{prefix}/n.sock"]
    reuseport     the kernel spreads connections over the workers, so that all of them get some
    h2c, tls      open a second port for that: nginx.h2c_port, nginx.tls_port
    allow         regular expressions for lines of the error log that would otherwise fail the test
    files         {name: text or bytes} below the document root
    orphan        runs nginx without a parent, as `daemon on` does; only then nginx accepts USR2

    nginx.port, .prefix, .conf, .rules (a Path), .error_log, .access_log (Paths), .master (a pid)
    """

    def __init__(self, conf_http="", conf_server="", conf_main="", workers=1, rules=None,
                 rules_path=None, table="weir_table test 8m dir={prefix}/table;", api=None,
                 listen=(), reuseport=False, h2c=False, tls=False, allow=(), files=None,
                 log_level="info", start=True, orphan=False):
        self.workers_wanted = workers
        self.allow = list(allow)
        self.wants_start = start
        self.orphan = orphan
        self.process = None
        self.prefix = Path(programs.temp_folder("nginx"))
        self.port = free_port()
        self.h2c_port = free_port() if h2c else None
        self.tls_port = free_port() if tls else None
        self.conf = self.prefix / "nginx.conf"
        self.rules = self.prefix / "rules.yaml"
        self.error_log = self.prefix / "error.log"
        self.access_log = self.prefix / "access.log"
        self.pid_file = self.prefix / "nginx.pid"
        self.reports = self.prefix / "reports"
        self._lay_out(files or {})
        if rules is not None:
            self.rules.write_text(textwrap.dedent(rules), encoding="utf-8")
            rules_path = self.rules
        self.parts = {
            "main": conf_main, "http": conf_http, "server": conf_server, "workers": workers,
            "rules": f"weir_rules {rules_path};" if rules_path else "", "table": table or "",
            "upstream": _UPSTREAM.format(port=api.port) if api else "", "log_level": log_level,
            "listen": self._listen(listen, reuseport),
        }
        self.write_conf()

    def _lay_out(self, files):
        """Creates the folders of nginx and these files."""
        for name, mode in (("tmp", 0o777), ("html", 0o755), ("reports", 0o777), ("table", 0o755)):
            (self.prefix / name).mkdir()
            (self.prefix / name).chmod(mode)
        files = {"index.html": "index\n", **files}
        for name, content in files.items():
            path = self.prefix / "html" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def _listen(self, extra, reuseport):
        lines = [f"127.0.0.1:{self.port}" + (" reuseport" if reuseport else "")]
        if self.h2c_port:
            lines.append(f"127.0.0.1:{self.h2c_port} http2" + (" reuseport" if reuseport else ""))
        if self.tls_port:
            lines.append(f"127.0.0.1:{self.tls_port} ssl http2"
                         + (" reuseport" if reuseport else ""))
        lines += [line.format(port=self.port, prefix=self.prefix) for line in extra]
        text = "".join(f"\t\tlisten {line} backlog=4096;\n" for line in lines)
        if self.tls_port:
            certificate.self_signed(self.prefix)
            text += (f"\t\tssl_certificate {self.prefix}/cert.pem;\n"
                     f"\t\tssl_certificate_key {self.prefix}/key.pem;\n")
        return text

    def write_conf(self, **changed):
        """Writes the configuration, with these parts (main, http, server, rules, table …) replaced."""
        self.parts.update(changed)
        parts = {k: str(v).replace("{prefix}", str(self.prefix)).replace("{port}", str(self.port))
                 for k, v in self.parts.items()}
        parts["access_log"] = "" if "access_log" in parts["http"] else "access_log off;"
        _, variables = env.wrapper(self.reports)
        # Without these directives a new binary would not inherit the variables.
        kept = {*variables, *(("LD_PRELOAD", "TESTCLOCK_FILE") if clock.current else ())}
        environment = "".join(f"env {name};\n" for name in sorted(kept))
        user = f"user {worker_user()};\n" if os.getuid() == 0 else ""
        self.conf.write_text(_MAIN.format(module=env.MODULE, prefix=self.prefix, user=user,
                                          environment=environment, **parts), encoding="utf-8")

    # ---- running ----

    def __enter__(self):
        if not env.MODULE.exists():
            programs.remove_folder(str(self.prefix))
            raise AssertionError(f"{env.MODULE}: not there; build weir, or set WEIR_BUILD")
        try:
            if self.wants_start:
                self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if self.process and kind is None:
                self.quit()
        finally:
            trouble = self._end()
        if trouble and kind is None:
            raise AssertionError(trouble)
        if trouble:
            print(f"nginx, beside the failure above:\n{trouble}", file=sys.stderr)

    def command(self, *args):
        """Returns the command line and the environment that run nginx with this configuration."""
        wrap, variables = env.wrapper(self.reports)
        argv = [*wrap, env.NGINX, "-p", f"{self.prefix}/", "-c", self.conf, "-e", self.error_log]
        return [str(a) for a in (*argv, *args)], {**os.environ, **variables}

    def start(self):
        argv, variables = self.command()
        if self.orphan:
            argv = ["/bin/sh", "-c", '"$@" & while kill -0 $! && ! [ -s "$0" ]; do sleep 0.02; done',
                    self.pid_file, *argv]
        with open(self.prefix / "stderr", "ab") as out:
            self.process = programs.start(argv, env=variables, stdout=out, stderr=out)
        wait_for(self._is_up, "nginx to listen", 30)
        if self.orphan:  # nginx ignores USR2 until the shell has exited
            self.process.wait(timeout=env.patience(20))

    def _is_up(self):
        if self.process.poll() is not None and not (self.orphan and self.processes()):
            raise AssertionError(f"nginx ended with {self.process.returncode}:\n{self.output()}")
        try:
            return bool(self.pid_file.read_text(encoding="ascii").strip()) and \
                len(self.workers()) >= self.workers_wanted
        except OSError:
            return False

    def output(self):
        """Returns nginx's stderr and its error log."""
        return ((self.prefix / "stderr").read_text(errors="replace")
                + (self.error_log.read_text(errors="replace") if self.error_log.exists() else ""))

    @property
    def master(self):
        return int(self.pid_file.read_text(encoding="ascii"))

    def workers(self):
        """Returns the pids of the master's workers that are not shutting down. nginx shows this in its process title.
        Under valgrind titles are not visible, so the log is used too."""
        master = self.master
        leaving = set()
        if env.WRAP == "valgrind":
            leaving = {int(p) for p in re.findall(r" (\d+)#\d+: gracefully shutting down", self.log())}
        return sorted(pid for pid in self.processes()
                      if _parent(pid) == master and pid not in leaving
                      and b"shutting down" not in _read(f"/proc/{pid}/cmdline"))

    def processes(self):
        """Returns all living processes of this nginx: {pid: name}."""
        return programs.session(self.process.pid)

    def run(self, *args):
        """Runs `nginx ARGS` with this configuration, for example `-t` or `-s reload`. Returns (exit code, output)."""
        argv, variables = self.command(*args)
        done = subprocess.run(argv, env=variables, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              errors="replace", timeout=env.patience(30))
        return done.returncode, done.stdout

    def reload(self):
        """Sends SIGHUP and waits until new workers run and the old ones accept no more connections."""
        before = set(self.workers())
        os.kill(self.master, signal.SIGHUP)
        wait_for(lambda: len(fresh := set(self.workers())) >= self.workers_wanted
                 and not fresh & before, "new workers after a reload", 20)

    def quit(self):
        """Sends SIGQUIT and waits. A request that the module never finishes is found here."""
        if self.process.poll() is not None and not self.processes():
            return
        for pid in self._masters():
            os.kill(pid, signal.SIGQUIT)
        wait_for(lambda: self.process.poll() is not None and not self.processes(),
                 "nginx to quit (a request or connection that never ends?)", 20)

    def _masters(self):
        """Returns the masters: one, or two during an upgrade."""
        pids = _read(self.pid_file).split() + _read(f"{self.pid_file}.oldbin").split()
        return set(map(int, pids)) & set(self.processes())

    def _end(self):
        if self.process:
            programs.stop(self.process)
        trouble = self.trouble()
        if trouble and os.environ.get("WEIR_KEEP"):
            trouble += f"\nkept: {self.prefix}"
        else:
            programs.remove_folder(str(self.prefix))
        return trouble

    def trouble(self):
        """Returns errors of the error log and reports of sanitizers and valgrind; "" if there are none."""
        lines = [line for line in (self.output() if self.process else "").splitlines()
                 if _BAD.search(line) and not any(re.search(a, line) for a in self.allow)]
        for report in sorted(self.reports.iterdir()):
            if text := env.complaints(report.read_text(errors="replace")):
                lines.append(f"{report.name}:\n{text}")
        return "\n".join(lines[:30] + ([f"… and {len(lines) - 30} more"] if lines[30:] else []))

    # ---- observe ----

    def log(self):
        """Returns the error log."""
        return self.error_log.read_text(errors="replace") if self.error_log.exists() else ""

    def logged(self, pattern):
        """Returns the number of lines of the error log that match."""
        return len(re.findall(pattern, self.log(), re.M))

    def wait_logged(self, pattern, times=1, seconds=20):
        """Waits until this many lines of the error log match the pattern."""
        wait_for(lambda: self.logged(pattern) >= times, f"{pattern!r} in the error log", seconds)

    def access_lines(self, count):
        """Returns the first `count` lines of the access log. Waits for them, because nginx logs after it has
        answered."""
        wait_for(lambda: self.access_log.exists() and
                 len(self.access_log.read_text(errors="replace").splitlines()) >= count,
                 f"{count} lines in the access log")
        return self.access_log.read_text(errors="replace").splitlines()

    def get(self, target="/", headers=(), **kwargs):
        """Sends one GET on its own connection."""
        return fetch(self.port, "GET", target, headers, **kwargs)

    def request(self, method, target, headers=(), body=None, **kwargs):
        return fetch(self.port, method, target, headers, body, **kwargs)

    def client(self, **kwargs):
        """Returns a connection: `with nginx.client() as c:`."""
        return Client(self.port, **kwargs)

    def write_rules(self, text):
        """Replaces the rules as editors do: a new file is renamed over the old one."""
        fresh = self.rules.with_name(".rules.new")
        fresh.write_text(textwrap.dedent(text), encoding="utf-8")
        os.rename(fresh, self.rules)


def _parent(pid):
    """Returns the parent of a process that may just have exited."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else None


def _read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def worker_user():
    """Returns a user without special rights, so that actions that need root fail."""
    for name in ("www-data", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return "root"


def check_conf(server="", http="", rules=None, **kwargs):
    """Runs `nginx -t` on a configuration. Returns (exit code, output). Fails if the check leaves files behind."""
    with Nginx(conf_http=http, conf_server=server, rules=rules, start=False, **kwargs) as nginx:
        before = _tree(nginx.prefix)
        code, output = nginx.run("-t")
        made = _tree(nginx.prefix) - before - {"error.log", "nginx.pid"}
        made = {m for m in made if not m.startswith(("reports", "tmp"))}
        assert not made, f"nginx -t created {made}"
        return code, output.replace(str(nginx.prefix), "PREFIX")


def _tree(folder):
    """Returns the paths of all files below a folder."""
    return {str(p.relative_to(folder)) for p in Path(folder).rglob("*")}
