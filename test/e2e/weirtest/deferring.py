"""A gateway that defers requests above a limit, and small disks for its queue to fill."""

import json
import os
import signal
import subprocess
from pathlib import Path

from . import clock, env, programs, tokens
from .gateway import Gateway
from .http1 import fetch
from .ports import free_port
from .waiting import wait_for

# Messages of nginx after other processes were killed. A new nginx may start before the last worker of a killed master
# has exited. It then retries its binds; "still could not bind" is not among these messages.
KILLED = ["exited on signal 9", r"open socket #\d+ left in connection", "aborting",
          r" bind\(\) to \S+ failed \(98: Address already in use\)"]


UNLIMITED = "{unit: second, requests_per_unit: 100000"


def rules(rate="{unit: hour, requests_per_unit: 1", defer="", more=""):
    """Returns rules that defer the orders of each user. `rate` comes without its closing brace. Users whose name begins
    with `f` are not limited. Unless `defer` sets max_age, it is long enough to deliver all requests of a test."""
    if "max_age" not in defer:
        defer = f"max_age: 366d, {defer}".removesuffix(", ")
    defer = f", defer: {{{defer}}}"
    return f"""
domain: shop
requests:
  - when: {{path: "/orders/*"}}
    descriptor: [{{key: user, from: [header.x-user, remote_address]}}]
descriptors:
  - key: user
    rate_limit: {rate}, algorithm: token_bucket, burst: 1, on_limit: defer{defer}}}
{more}"""


class DeferringGateway(Gateway):
    """A Gateway with --queue in a folder of its own (.queue) and an admin port.

    .order(user, number, **headers)   POST /orders/USER/NUMBER
    .ticket(response)                 the current state of the ticket in that 202, as a dict; None for 404
    .stats()                          `weir queue stats --json`
    .is_idle()                        whether no request waits
    .weir(*words)                     runs `weir WORDS` with the admin port; returns its output
    .kill()                           kills the gateway alone with -9; .kill_all() also kills nginx
    .start()                          starts the gateway again
    queue: the URL of another queue; disk: a Disk for the queue, visible to all processes of the gateway
    """

    def __init__(self, upstream, *options, queue=None, disk=None, admin=None, **kwargs):
        kwargs.setdefault("rules", rules())
        kwargs["allow"] = [*kwargs.get("allow", ()), *KILLED]
        self.admin_port = admin or free_port()
        self.queue_url, self.disk = queue, disk
        super().__init__(upstream, "--admin", f"127.0.0.1:{self.admin_port}", *options, **kwargs)
        self.prefix = disk.prefix if disk else []

    def __enter__(self):
        self.home = Path(programs.temp_folder("queue"))
        self.queue = Path(self.disk.path if self.disk else self.home) / "queue"
        return super().__enter__()

    def _clean(self):
        super()._clean()
        programs.remove_folder(str(self.home))

    def command(self):
        return [*super().command(), "--queue", self.queue_url or f"file:{self.queue}"]

    # ---- orders ----

    def order(self, user, number, headers=(), body=b"one, please", method="POST", query="", **kwargs):
        fields = [("X-User", user), *(headers.items() if isinstance(headers, dict) else headers)]
        return self.request(method, f"/orders/{user}/{number}{query}", fields, body, **kwargs)

    def ticket(self, response, port=None):
        found = fetch(port or self.port, "GET", response.get("location"))
        assert found.status in (200, 404), found
        return json.loads(found.body) if found.status == 200 else None

    def wait_ticket(self, response, status, seconds=30):
        """Waits until the ticket of this 202 has the status. Returns the ticket's state."""
        wait_for(lambda: (self.ticket(response) or {}).get("status") == status, f"a ticket to be {status}", seconds,
                 every=0.05)
        return self.ticket(response)

    def retry_until(self, condition, what, seconds=30):
        """Waits until `condition` holds. Until then, waiting requests are retried at once again and again, without
        their back-off."""
        wait_for(lambda: condition() or self.retry(), what, seconds, every=0.03)

    def retry_until_ticket(self, response, status, seconds=30):
        """Like wait_ticket, but retries waiting requests at once until then."""
        self.retry_until(lambda: (self.ticket(response) or {}).get("status") == status, f"a ticket to be {status}", seconds)
        return self.ticket(response)

    def retry(self):
        """Retries waiting requests now. Dead requests are not retried: they would wait again."""
        answer = fetch(self.admin_port, "POST", "/v1/queue/retry", {"Content-Type": "application/json"},
                       b'{"state": "waiting"}')
        assert answer.status == 200, answer

    def listed(self, uri):
        """Returns the request with that path from `weir queue list --json`."""
        [found] = [r for r in json.loads(self.weir("queue", "list", "--json"))["requests"] if r["uri"] == uri]
        return found

    def raise_limit(self, text=None, retry=True):
        """Loads rules that effectively have no limit, then retries the waiting requests. If several gateways share a
        queue, all must have loaded the rules before the retry, or a gateway may still apply the old rules. A test clock
        runs from now on; otherwise only one token would be available."""
        if clock.current:
            clock.current.stop()
            clock.current.run()
        before = self.rules_hash()
        self.rules.write_text(text or rules(UNLIMITED), encoding="utf-8")
        wait_for(lambda: self.rules_hash() != before, "the rules to be read again")
        if retry:
            self.weir("queue", "retry", "--all")

    # ---- observe ----

    def weir(self, *words, check=True):
        done = subprocess.run([env.WEIR, *words, *tokens.flags(self.admin_port)], capture_output=True,
                              text=True, timeout=env.patience(30), check=False, env=self.variables())
        assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout if check else (done.returncode, done.stdout + done.stderr)

    def admin(self, path):
        """Returns the JSON of a GET at the admin port."""
        found = fetch(self.admin_port, "GET", path)
        assert found.status == 200, found
        return json.loads(found.body)

    def rules_hash(self):
        """Returns the hash of the rules in force."""
        return self.admin("/v1/status")["rules"]["hash"]

    def stats(self):
        """Returns the statistics, up to one second old."""
        return json.loads(self.weir("queue", "stats", "--json"))["queue"]

    def is_idle(self):
        """Returns whether no request waits or is being delivered. It lists the queue, because the statistics may
        be a second old, and are 0 at the start. Returns False too if the list is unavailable."""
        after = 0
        while after is not None:
            code, output = self.weir("queue", "list", "--json", "--state", "waiting", "--count", "500", "--after", str(after),
                                   check=False)
            page = json.loads(output) if code == 0 else {"requests": [output]}
            if page["requests"]:
                return False
            after = page["next"]
        return True

    # ---- break ----

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def wait_deliveries_closed(self, seconds=30):
        """After kill(): waits until nginx, which keeps running, has closed the connections of the gateway's deliveries.
        Otherwise a delayed worker could forward a request after the next gateway has sent it and its successors."""
        path = str(self.runtime / "deliver" / "api.sock")

        def is_let_go():
            rows = [line.split() for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]]
            # The listening socket is not a connection.
            return not any(row[7:] == [path] and not int(row[3], 16) & 0x10000 for row in rows)

        wait_for(is_let_go, "nginx to let go of the gateway", seconds)

    def kill_nginx(self):
        for session in self.sessions:
            programs.kill_session(session)

    def kill_all(self):
        self.kill()
        self.kill_nginx()


class Disk:
    """`with Disk("4m") as disk:` is a file system of that size, in memory, visible only to programs with `disk.prefix`
    before their command line. .path is its path for them; .inside is its path for the test. The test
    needs("mounts")."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.path = programs.temp_folder("disk")
        ours = [str(os.getuid()), str(os.getgid())]
        new_user = ["--user", "--map-root-user"] if os.getuid() else []
        script = 'mount -t tmpfs -o "size=$1,mode=755" tmpfs "$2" && touch "$2/here" && exec sleep infinity'
        self.process = programs.start(["unshare", *new_user, "--mount", "sh", "-c", script, "sh", self.size, self.path])
        self.inside = Path(f"/proc/{self.process.pid}/root{self.path}")
        wait_for(lambda: self.process.poll() is not None or (self.inside / "here").exists(), "a small disk")
        assert self.process.poll() is None, "no mount namespaces here: the kernel has them switched off"
        kinds = ["mnt"] if not new_user else ["user", "mnt"]
        self.enter = ["nsenter", "--preserve-credentials",
                      *(f"--{'mount' if k == 'mnt' else k}=/proc/{self.process.pid}/ns/{k}" for k in kinds)]
        # An ordinary user may mount as the root of a user namespace, but runs programs as itself.
        self.prefix = [*self.enter, "unshare", "--user", f"--map-user={ours[0]}", f"--map-group={ours[1]}"] if new_user \
            else self.enter
        return self

    def __exit__(self, *_):
        programs.stop(self.process)
        programs.remove_folder(self.path)

    def run(self, *argv):
        subprocess.run([*self.enter, *argv], check=True, capture_output=True)

    def fill(self, leave=0):
        """Fills the disk until `leave` bytes are free."""
        usage = os.statvfs(self.inside)
        with open(self.inside / "ballast", "wb", buffering=0) as f:
            left = usage.f_bavail * usage.f_frsize - leave
            while left > 0:
                try:
                    left -= f.write(b"x" * min(left, 4096))
                except OSError:
                    return

    def empty(self):
        (self.inside / "ballast").unlink()

    def remount(self, how):
        """Makes the disk read-only (`ro`) or writable (`rw`)."""
        self.run("mount", "-o", f"remount,{how}", self.path)
