"""Real Redis servers: a single server, a master with replicas under Sentinel, a cluster. All come from Debian's
packages. Each server has its own folder, starts in a fraction of a second and ends with the test.

Every server also listens on a Unix socket. The test uses this socket (`client()`), independent of the network, TLS
and passwords."""

import contextlib
import os
import secrets
import signal
import threading
import time
from pathlib import Path

import redis

from . import certificate, env, programs
from .ports import free_port
from .waiting import wait_for

SERVER = "/usr/bin/redis-server"
SENTINEL = "/usr/bin/redis-sentinel"


def certificates(folder, names=certificate.LOCALHOST):
    """Creates ca.pem and, signed by it, server.pem for these names and client.pem, with their *-key.pem."""
    certificate.authority(folder)
    for subject in ("server", "client"):
        certificate.signed(folder, subject, names)


class Redis:
    """`with Redis() as redis:` runs a redis-server on a free port of 127.0.0.1.

    config     further lines of its configuration, such as "maxmemory 3mb"
    port       a given port, for example that of a stopped server
    host       the address to bind; `prefix` are the words before the command line (for network namespaces)
    tls        the port speaks TLS, with certificates of a CA made for it: .ca, .client_cert, .client_key (Paths);
               or a Redis, Sentinels or Cluster whose certificates it uses instead of its own
    password   of the default user; `users` ACL lines as "weir on >secret ~weir:* +@all"
    aof        keeps its data in an append-only file, synced at every write, so that a kill loses nothing

    .port, .folder, .pid, .socket (a Unix socket, as text)
    .url(user=, password=, db=)        redis://… or rediss://…
    .client()                          a redis.Redis (python3-redis) of the default user
    .kill(), .start(), .restart()      kill -9; a restart uses the same port and folder
    .freeze(), .thaw()                 SIGSTOP and SIGCONT: connections stay open without replies
    .pause(seconds), .sleep(seconds)   CLIENT PAUSE; DEBUG SLEEP, without waiting for its end
    .flush()                           FLUSHALL
    """

    def __init__(self, *config, port=None, host="127.0.0.1", prefix=(), tls=False, password=None, users=(),
                 aof=False, start=True):
        self.folder = Path(programs.temp_folder("redis"))
        self.socket = str(self.folder / "redis.sock")
        self.port = port or free_port()
        self.host, self.prefix, self.password = host, list(prefix), password
        self.tls = bool(tls)
        self.process = None
        self.wants_start = start
        self._sleepers = []
        # jemalloc's background thread waits by the wall clock and would spin on the test's clock.
        lines = ["daemonize no", 'save ""', f"dir {self.folder}", f"logfile {self.folder}/log", f"bind {host}",
                 f"unixsocket {self.socket}", "protected-mode no", "enable-debug-command yes", "hz 100",
                 "repl-diskless-sync-delay 0", "jemalloc-bg-thread no", f"appendonly {'yes' if aof else 'no'}",
                 "appendfsync always"]
        lines += self._port_lines(tls)
        lines += [f"requirepass {password}"] if password else []
        lines += [f"user {line}" for line in users]
        self.conf = self.folder / "redis.conf"
        self.conf.write_text("\n".join([*lines, *config, ""]), encoding="utf-8")

    def _port_lines(self, tls):
        if not tls:
            return [f"port {self.port}"]
        if tls is True:
            certificates(self.folder)
        home = self.folder if tls is True else tls.ca.parent
        self.ca, self.client_cert, self.client_key = (home / n for n in ("ca.pem", "client.pem", "client-key.pem"))
        return ["port 0", f"tls-port {self.port}", f"tls-cert-file {home}/server.pem", "tls-replication yes",
                f"tls-key-file {home}/server-key.pem", f"tls-ca-cert-file {self.ca}", "tls-auth-clients optional"]

    # ---- running ----

    def __enter__(self):
        try:
            if self.wants_start:
                self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            programs.stop(self.process)
        for sleeper in self._sleepers:
            sleeper.join(env.patience(10))
        programs.remove_folder(str(self.folder))

    def command(self):
        return [*self.prefix, SERVER, self.conf]

    def launch(self):
        """Starts the server without waiting for it."""
        Path(self.socket).unlink(missing_ok=True)
        with open(self.folder / "output", "ab") as out:
            self.process = programs.start(self.command(), stdout=out, stderr=out, cwd=self.folder)

    def start(self):
        self.launch()
        wait_for(self._answers, f"redis to answer on {self.socket}", 20, every=0.005)

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"redis ended with {self.process.returncode}:\n{self.log()}")
        try:
            return self.client().ping()
        except redis.exceptions.BusyLoadingError:
            return False
        except redis.exceptions.ConnectionError:
            return False

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        """Ends the server with kill -9."""
        if self.process:
            programs.stop(self.process)

    def restart(self):
        self.kill()
        self.start()

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T",
                 "it to stand still")

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)

    # ---- commands ----

    def client(self, **kwargs):
        """Returns a client on the Unix socket. Its timeout only covers hangs."""
        kwargs = {"decode_responses": True, "socket_timeout": env.patience(20), "password": self.password, **kwargs}
        return redis.Redis(unix_socket_path=self.socket, **kwargs)

    def url(self, user="", password="", db=None, host=None, port=None):
        scheme = "rediss" if self.tls else "redis"
        who = f"{user}:{password}@" if user or password else ""
        return f"{scheme}://{who}{host or self.host}:{port or self.port}" + ("" if db is None else f"/{db}")

    @property
    def unix_url(self):
        return f"redis+unix://{self.socket}"

    def flush(self):
        self.client().flushall()

    def pause(self, seconds, all_commands=True):
        """CLIENT PAUSE: no client gets a reply for this long. An UNPAUSE would wait too."""
        with self.client() as c:
            c.execute_command("CLIENT", "PAUSE", int(seconds * 1000), "ALL" if all_commands else "WRITE")

    def sleep(self, seconds):
        """DEBUG SLEEP: the server does nothing for this long."""
        def run():
            try:
                with self.client(socket_timeout=None) as c:
                    c.execute_command("DEBUG", "SLEEP", seconds)
            except redis.exceptions.RedisError:
                pass  # it was killed meanwhile
        self._sleepers.append(threading.Thread(target=run, daemon=True))
        self._sleepers[-1].start()

    def keys(self, pattern="*"):
        with self.client() as c:
            return sorted(c.scan_iter(pattern))

    def connections(self, user=None):
        """Returns the number of clients connected over the network."""
        with self.client() as c:
            return sum(1 for one in c.client_list()
                       if one["addr"] and not one["addr"].startswith("/") and user in (None, one.get("user")))

    def log(self):
        return "".join(p.read_text(errors="replace") for p in (self.folder / "output", self.folder / "log")
                       if p.exists())


class Sentinels:
    """`with Sentinels() as s:` is a master, `replicas` of it and three sentinels that know each other from the
    start and agree within a second that a master is dead.

    .servers (Redis), .watchers (sentinels, as Redis too), .name of the master
    .url()                 redis+sentinel://…
    .master()              the Redis that the sentinels name as master
    .failover()            orders a failover; returns when all three sentinels name the new master
    .wait_master(not_=)    waits until they name another Redis, for example after .master().kill()
    password, sentinel_password, users, sentinel_users: as of Redis; `tls` for all of them
    """

    name = "weirmaster"

    def __init__(self, *config, replicas=1, watchers=3, tls=False, password=None, sentinel_password=None, users=(),
                 sentinel_users=()):
        self.password, self.sentinel_password, self.tls = password, sentinel_password, tls
        self.sentinel_users = sentinel_users
        auth = [f"masterauth {password}"] if password else []
        self.servers = [Redis(*config, *auth, tls=tls, password=password, users=users, start=False)]
        share = self.servers[0] if tls else False
        for _ in range(replicas):
            line = f"replicaof 127.0.0.1 {self.servers[0].port}"
            self.servers.append(Redis(*config, *auth, line, tls=share, password=password, users=users, start=False))
        self.watchers = [Sentinel(self, tls=share) for _ in range(watchers)]
        for watcher in self.watchers:
            watcher.introduce(self.watchers)

    def __enter__(self):
        try:
            for one in (*self.servers, *self.watchers):
                one.launch()
            for one in (*self.servers, *self.watchers):
                wait_for(one._answers, "redis to answer", 20, every=0.005)
            wait_for(self.is_settled, "replicas and sentinels to be ready", 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for one in (*self.watchers, *self.servers):
            one.__exit__()

    def is_settled(self):
        """Returns whether every replica is in sync with its master and all sentinels know all replicas."""
        master = self.master()
        if not master:
            return False
        others = [s for s in self.servers if s is not master and s.process.poll() is None]
        for one in others:
            info = one.client().info("replication")
            if info["role"] != "slave" or info["master_link_status"] != "up":
                return False
        for watcher in self.watchers:
            seen = watcher.client().sentinel_master(self.name)
            if seen["num-slaves"] < len(others) or seen["num-other-sentinels"] < len(self.watchers) - 1:
                return False
        return True

    def master(self):
        """Returns the master; None while the sentinels disagree."""
        ports = {w.client().sentinel_get_master_addr_by_name(self.name)[1] for w in self.watchers
                 if w.process.poll() is None}
        return next((s for s in self.servers if {s.port} == ports), None)

    def failover(self):
        """Orders a failover, again if the sentinels gave it up: its timeout of one second is not always enough."""
        before = self.master()
        at = {"ordered": -10.0}

        def ordered():
            if self.watchers[0].client().sentinel_get_master_addr_by_name(self.name)[1] != before.port:
                return True
            if time.monotonic() - at["ordered"] > 5:
                at["ordered"] = time.monotonic()
                # A sentinel without INFO of a replica replies NOGOODSLAVE; a sentinel in a failover replies INPROG.
                with contextlib.suppress(redis.exceptions.ResponseError):
                    self.watchers[0].client().execute_command("SENTINEL FAILOVER", self.name)
            return False
        wait_for(ordered, "a failover", 60, every=0.1)
        return self.wait_master(before)

    def wait_master(self, not_):
        def other():
            master = self.master()
            return master if master and master is not not_ and master.client().info("replication")["role"] == "master" \
                else None
        return wait_for(other, "the sentinels to name another master", 60, every=0.05)

    def url(self, user="", password=""):
        scheme = "rediss+sentinel" if self.tls else "redis+sentinel"
        who = f"{user}:{password}@" if user or password else ""
        hosts = ",".join(f"127.0.0.1:{w.port}" for w in self.watchers)
        return f"{scheme}://{who}{hosts}/{self.name}"


class Sentinel(Redis):
    """One sentinel of Sentinels."""

    def __init__(self, group, tls=False):
        super().__init__(tls=tls, password=group.sentinel_password, start=False)
        self.group = group
        self.id = secrets.token_hex(20)
        lines = [f"dir {self.folder}", f"logfile {self.folder}/log", f"unixsocket {self.socket}", "bind 127.0.0.1",
                 "jemalloc-bg-thread no", f"sentinel myid {self.id}", *self._port_lines(tls)]
        if group.sentinel_password:
            lines += [f"requirepass {group.sentinel_password}", f"sentinel sentinel-pass {group.sentinel_password}"]
        lines += [f"user {line}" for line in group.sentinel_users]
        name, master = group.name, group.servers[0]
        lines += [f"sentinel monitor {name} 127.0.0.1 {master.port} 2", f"sentinel down-after-milliseconds {name} 700",
                  f"sentinel failover-timeout {name} 1000"]
        lines += [f"sentinel auth-pass {name} {group.password}"] if group.password else []
        lines += [f"sentinel known-replica {name} 127.0.0.1 {s.port}" for s in group.servers[1:]]
        self.conf.write_text("\n".join([*lines, ""]), encoding="ascii")

    def introduce(self, watchers):
        """Writes the other sentinels into the configuration. Without this they would find each other after some
        seconds."""
        with open(self.conf, "a", encoding="ascii") as conf:
            for other in watchers:
                if other is not self:
                    conf.write(f"sentinel known-sentinel {self.group.name} 127.0.0.1 {other.port} {other.id}\n")

    def command(self):
        return [SENTINEL, self.conf]


class Cluster:
    """`with Cluster() as cluster:` runs `masters` masters with a replica each. They know each other from the start.

    .nodes (ClusterNode, the masters first), .masters(), .url() (redis+cluster://…)
    .owner(slot)                     the master that owns it
    .begin(slot, target), .move(slot), .finish(slot)
                                     the three steps of a slot's migration; .migrate(slot, target) does all three
    .moving                          slots between begin and finish: {slot: (source, target)}
    .kill_master(node)               kill -9; returns the replica that took over
    """

    def __init__(self, *config, masters=3, replicas=1, tls=False, users=(), timeout_ms=3000):
        self.nodes, self.tls, self.moving = [], tls, {}
        lines = [*config, "cluster-enabled yes", f"cluster-node-timeout {timeout_ms}", "cluster-replica-validity-factor 0",
                 "cluster-require-full-coverage no", *(["tls-cluster yes"] if tls else [])]
        for _ in range(masters * (1 + replicas)):
            share = self.nodes[0] if tls and self.nodes else tls
            self.nodes.append(ClusterNode(*lines, tls=share, users=users, start=False))
        self._introduce(masters)

    def _introduce(self, masters):
        edges = [16384 * i // masters for i in range(masters + 1)]
        for me in self.nodes:
            text = ""
            for i, node in enumerate(self.nodes):
                at = f"{node.id} 127.0.0.1:{node.port}@{node.bus} {'myself,' if node is me else ''}"
                if i < masters:
                    text += f"{at}master - 0 0 {i + 1} connected {edges[i]}-{edges[i + 1] - 1}\n"
                else:
                    text += f"{at}slave {self.nodes[i % masters].id} 0 0 {i % masters + 1} connected\n"
            (me.folder / "nodes.conf").write_text(f"{text}vars currentEpoch {masters} lastVoteEpoch 0\n",
                                                  encoding="ascii")

    def __enter__(self):
        try:
            for node in self.nodes:
                node.launch()
            for node in self.nodes:
                wait_for(node._answers, "redis to answer", 20, every=0.005)
            wait_for(self.is_settled, "the cluster to be ready", 30, every=0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.__exit__()

    def is_settled(self):
        for node in self.alive():
            c = node.client()
            if c.cluster("INFO")["cluster_state"] != "ok":
                return False
            info = c.info("replication")
            if info["role"] == "slave" and info["master_link_status"] != "up":
                return False
        return True

    def is_in_step(self, master):
        """Returns whether the replicas of a master have all its data."""
        offset = master.client().info("replication")["master_repl_offset"]
        seen = [n.client().info("replication") for n in self.alive() if n is not master]
        return all(i["slave_repl_offset"] >= offset for i in seen if i.get("master_port") == master.port)

    def alive(self):
        return [n for n in self.nodes if n.process and n.process.poll() is None]

    def masters(self):
        return [n for n in self.alive() if n.client().info("replication")["role"] == "master"]

    def owner(self, slot):
        """Returns the owner by the view of most living nodes; None while no living node owns the slot."""
        votes = {}
        for node in self.alive():
            for one in node.view():
                if slot in one["slots"]:
                    votes[one["id"]] = votes.get(one["id"], 0) + 1
        best = max(votes, key=votes.get, default=None)
        return next((n for n in self.alive() if n.id == best), None)

    def url(self, user="", password=""):
        scheme = "rediss+cluster" if self.tls else "redis+cluster"
        who = f"{user}:{password}@" if user or password else ""
        return f"{scheme}://{who}" + ",".join(f"127.0.0.1:{n.port}" for n in self.nodes[:3])

    # ---- moving a slot ----

    def begin(self, slot, target):
        """Starts a migration: the owner answers ASK for keys that it no longer has, and TRYAGAIN if only some keys have
        moved."""
        source = self.owner(slot)
        target.client().execute_command("CLUSTER SETSLOT", slot, "IMPORTING", source.id)
        source.client().execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target.id)
        self.moving[slot] = (source, target)

    def move(self, slot, most=1000):
        """Moves up to `most` keys of the slot. Returns their number."""
        source, target = self.moving[slot]
        keys = source.client().execute_command("CLUSTER GETKEYSINSLOT", slot, most)
        if keys:
            source.client().execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "REPLACE", "KEYS", *keys)
        return len(keys)

    def finish(self, slot):
        """Ends a migration: the old owner answers MOVED until a client has a new slot map."""
        source, target = self.moving.pop(slot)
        for node in (target, source, *self.masters()):
            node.client().execute_command("CLUSTER SETSLOT", slot, "NODE", target.id)

    def migrate(self, slot, target):
        self.begin(slot, target)
        while self.move(slot):
            pass
        self.finish(slot)

    def wait_owner(self, slot, not_):
        """Waits until the cluster is healthy and another node owns the slot, for example after a kill."""
        def other():
            owner = self.owner(slot)
            return owner if owner and owner is not not_ and self.is_settled() else None
        return wait_for(other, "a replica to take over", 30, every=0.05)

    def kill_master(self, node):
        """Ends a master with kill -9. Returns the node that has taken over."""
        slot = min(one for view in node.view() if view["id"] == node.id for one in view["slots"])
        node.kill()
        return self.wait_owner(slot, node)


class ClusterNode(Redis):
    """A Redis with its .id and .bus port."""

    def __init__(self, *config, **kwargs):
        self.bus = free_port()
        self.id = secrets.token_hex(20)
        super().__init__(f"cluster-port {self.bus}", *config, **kwargs)

    def view(self):
        """Returns the masters in this node's view: [{"id":, "slots": a set}]."""
        found = []
        for line in self.client().execute_command("CLUSTER", "NODES").splitlines():
            fields = line.split()
            if "master" in fields[2] and "fail" not in fields[2].replace("fail?", ""):
                slots = set()
                for part in fields[8:]:
                    if not part.startswith("["):
                        first, _, last = part.partition("-")
                        slots.update(range(int(first), int(last or first) + 1))
                found.append({"id": fields[0], "slots": slots})
        return found
