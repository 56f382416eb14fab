"""Common parts of the benchmarks that drive servers: figures, pinning to cores, nginx."""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("WEIR_BUILD", "build")).resolve()
MODULE = BUILD / "ngx_http_weir_module.so"
SERVER_CORE, LOAD_CORE = 1, 0
# The folder of tables. It is in memory, like /run. If it were on a disk, the kernel would write the pages of a table
# to the disk from time to time, and the next write to each page would cause a page fault.
MEMORY = Path("/dev/shm")


def link_key(stack):
    """Returns a file with a link key, which nginx's workers present to weir serve."""
    path = folder(stack, "key") / "link.key"
    path.touch(0o600)
    path.write_text("0123456789abcdef" * 4 + "\n")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port, process):
    """Waits until the port accepts connections. Returns False if the process exits first."""
    for _ in range(500):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.02)
    return False


def pinned(core):
    """Returns a function that pins the process to a core, or to all cores if core is None."""
    def pin():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, range(os.cpu_count()) if core is None else {core})
    return pin


class Nginx:
    """One nginx with one worker. It is stopped at the end of the benchmark."""

    def __init__(self, stack, name, http="", location="", core=SERVER_CORE, rules=None, main="", module=MODULE):
        self.dir = folder(stack, name)
        self.port = free_port()
        if rules is not None:
            (self.dir / "rules.yaml").write_text(rules)
            self.table_dir = folder(stack, name, MEMORY)
            http = (f"weir_rules {self.dir}/rules.yaml; weir_table bench 64m dir={self.table_dir};\n{http}")
        (self.dir / "nginx.conf").write_text(f"""
{f"load_module {module};" if rules is not None else ""}
{main} worker_processes 1; pid {self.dir}/pid; error_log {self.dir}/error.log error; daemon off;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {self.dir}; proxy_temp_path {self.dir}; fastcgi_temp_path {self.dir};
  uwsgi_temp_path {self.dir}; scgi_temp_path {self.dir};
  {http}
  server {{ listen 127.0.0.1:{self.port}; location / {{ {location} }} }}
}}
""")
        self.process = subprocess.Popen(["/usr/sbin/nginx", "-c", f"{self.dir}/nginx.conf", "-p", self.dir,
                                         "-e", f"{self.dir}/error.log"], preexec_fn=pinned(core))
        stack.callback(self.stop)
        if not listens(self.port, self.process):
            sys.exit(f"bench: nginx did not start:\n{(self.dir / 'error.log').read_text()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def worker(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])

    def cpu_ns(self):
        return int(Path(f"/proc/{self.worker()}/schedstat").read_text().split()[0])


class Figures:
    def __init__(self, path):
        self.path, self.values = path, {}

    def add(self, name, value, remark):
        self.values[name] = round(value, 5)
        print(f"  {name:32} {value:10.4f}   {remark}", flush=True)

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.values, indent=1) + "\n")


def folder(stack, name, parent=None):
    """Creates a folder that is removed at the end of the benchmark."""
    path = Path(tempfile.mkdtemp(prefix=f"weir-bench-{name}-", dir=parent))
    stack.callback(shutil.rmtree, path, ignore_errors=True)
    return path


class Process:
    """A server on the servers' core. It is stopped at the end of the benchmark. apart: the server has its own session.
    Linux divides a core among sessions (sched_autogroup); a session that uses other cores too gets less of this core."""

    def __init__(self, stack, argv, port, core=SERVER_CORE, apart=False):
        self.port = port
        self.process = subprocess.Popen([str(a) for a in argv], preexec_fn=pinned(core), start_new_session=apart,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(self.stop)
        if not listens(port, self.process):
            sys.exit(f"bench: {argv[0]} did not start")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def schedstat_ns(self):
        """Returns the time that its threads ran, and the time that they waited for a core while runnable."""
        tasks = [(t / "schedstat").read_text().split() for t in Path(f"/proc/{self.process.pid}/task").iterdir()]
        return sum(int(t[0]) for t in tasks), sum(int(t[1]) for t in tasks)

    def cpu_ns(self):
        return self.schedstat_ns()[0]

    def resident_mb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def interleaved(rounds, ours, theirs):
    """Returns the median over rounds of ours() ÷ theirs(). Each function runs first in half of the rounds."""
    ratios = []
    for i in range(rounds):
        if i % 2:
            a = ours()
            b = theirs()
        else:
            b = theirs()
            a = ours()
        ratios.append(a / b)
    return statistics.median(ratios)


def main(doc, parts, rounds=21):
    """Runs the parts in order. parts: name → function(figures, stack, rounds)."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", choices=list(parts))
    opts = parser.parse_args()
    figures = Figures(opts.file)
    for name, part in parts.items():
        if opts.only in (None, name):
            with contextlib.ExitStack() as stack:
                part(figures, stack, opts.rounds)
    figures.write()
