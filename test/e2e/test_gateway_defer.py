"""`weir gateway` and deferred requests: its default set-up, the stored header fields, the responses to clients, and
access to the delivery socket. test_defer*.py test faults of the queue."""

import json
import os
import pwd
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from weirtest import env, full, programs, tokens, wait_for
from weirtest.clock import for_weir
from weirtest.gateway import STILL_BOUND, Gateway, Listener, read_head
from weirtest.http1 import Closed, fetch
from weirtest.ports import free_port
from weirtest.scrape import Metrics

RULES = """
domain: api
requests:
  - when: {path: "/orders/*"}
    descriptor: [{key: user, from: [identity, header.x-user]}]
descriptors:
  - key: user
    rate_limit: {period: PERIOD, requests_per_unit: 1, algorithm: token_bucket, on_limit: LIMIT}
"""


def rules(period="1s", limit="defer"):
    return RULES.replace("PERIOD", period).replace("LIMIT", limit)


def order(gateway, number, user="7", **headers):
    fields = {"X-User": user, "Content-Type": "text/x-order", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return gateway.request("POST", f"/orders/{number}", fields, body=f"order {number}".encode())


def ticket(gateway, where):
    """Returns the state of the ticket as a dict, or the status of the response if it is not 200."""
    r = gateway.get(where)
    return json.loads(r.body) if r.status == 200 else r.status


def start(api, folder, *options, **kwargs):
    """Starts a gateway with the admin port that raise_limit needs. Unless a test sets another limit, one order an hour
    is admitted, so that a slow machine does not matter."""
    kwargs.setdefault("rules", rules("1h"))
    admin = free_port()
    gateway = Gateway(api.port, "--queue", f"file:{folder}/queue", "--admin", f"127.0.0.1:{admin}", *options, **kwargs)
    gateway.admin_port = admin
    return gateway


def raise_limit(gateway, text=None):
    """Loads a higher limit, or these rules, so that waiting requests are delivered now. Workers that have decided a
    request use the new rules when this returns; an idle worker may still have to read them."""
    def loaded():
        return json.loads(fetch(gateway.admin_port, "GET", "/v1/status").body)["rules"]["hash"]
    before = loaded()
    higher = gateway.rules_text.replace("requests_per_unit: 1,", "requests_per_unit: 1000000,")
    gateway.write_rules(text or higher)
    wait_for(lambda: loaded() != before, "the rules to be read again")
    wait_for(lambda: {dict(labels)["rules_hash"] for name, labels in Metrics(gateway.admin_port).samples
                      if name == "weir_hosts"} <= {loaded()}, "nginx to read them as well")
    retry(gateway)


def retry(gateway):
    """Retries waiting requests now."""
    subprocess.run([env.WEIR, "queue", "retry", "--all", *tokens.flags(gateway.admin_port)], check=True,
                   capture_output=True, timeout=env.patience(30))


def delivered(api, count):
    """Waits for this many requests at the API and returns them. Fails if there are more."""
    wait_for(lambda: api.count() >= count, f"{count} deliveries", 30)
    records = api.records()
    assert len(records) == count
    return records


def test_deferred_requests_are_delivered_in_order(api, tmp_path, clock):
    """Requests are delivered in order, one in each hour of the limit, with all header fields that the API would have
    received directly."""
    with start(api, tmp_path) as gateway:
        answers = [order(gateway, n, X_Forwarded_For="1.2.3.4", X_Weir_Deferred="me", Cookie="a=b") for n in range(4)]
        assert [a.status for a in answers] == [200, 202, 202, 202]
        assert [json.loads(a.body)["position"] for a in answers[1:]] == [1, 2, 3]
        for n, a in enumerate(answers[1:], 1):
            clock.advance(3600)
            retry(gateway)
            wait_for(lambda a=a: ticket(gateway, a.get("Location"))["status"] == "delivered", "delivered")
            retry(gateway)
            wait_for(lambda n=n: {ticket(gateway, a.get("Location"))["status"] for a in answers[n + 1:]} <= {"waiting"},
                     "the other requests to wait")
            assert api.count() == n + 1
        records = delivered(api, 4)
        assert [r.target for r in records] == [f"/orders/{n}" for n in range(4)]
        for r in records[1:]:
            assert r.get("Host") == "localhost" and r.get("Content-Type") == "text/x-order"
            assert r.get("X-Forwarded-For") == r.get("X-Real-IP") == "127.0.0.1"
            assert r.get("X-Forwarded-Proto") == "http"
            assert r.get("Cookie") is None and r.get("Idempotency-Key")
            assert r.get("X-Weir-Deferred") not in (None, "me")
        assert records[0].get("X-Weir-Deferred") is None


def test_delivery_of_a_chunked_request_costs_its_length(api, tmp_path, clock):
    """The length was not known when the request arrived, so its delivery is charged `max`, and settled with the 50
    bytes of the stored body."""
    text = rules("1h").replace("requests_per_unit: 1,", "requests_per_unit: 1000,").replace(
        "header.x-user]}]", "header.x-user]}]\n    cost: {from: request.bytes, default: 1, max: 500}")
    with start(api, tmp_path, "--workers", "1", rules=text) as gateway:
        def left():
            return int(gateway.request("POST", "/orders/probe", {"X-User": "7"}).get("X-Ratelimit-Remaining"))

        def send(size, **kwargs):
            return gateway.request("POST", "/orders/1", {"X-User": "7"}, body=b"x" * size, **kwargs)
        assert (send(500).status, send(400).status) == (200, 200)
        assert left() == 100
        deferred = send(50, chunked=7)
        assert deferred.status == 202
        clock.advance(3600)
        retry(gateway)
        wait_for(lambda: ticket(gateway, deferred.get("Location"))["status"] == "delivered", "delivered")
        assert api.records()[-1].get("Content-Length") == "50"
        assert left() == 950


def test_new_request_queues_behind_waiting_ones(api, tmp_path):
    """While a key has waiting requests, a new one is queued behind them, though the limit would admit it."""
    with start(api, tmp_path, "--workers", "1") as gateway:
        assert [order(gateway, n).status for n in (0, "1?hold=tail", 2)] == [200, 202, 202]
        raise_limit(gateway)
        wait_for(lambda: api.count() == 2, "the first delivery, which the API does not answer yet")
        last = order(gateway, 3)
        assert last.status == 202, "though a million are allowed"
        assert order(gateway, 0, user="8").status == 200
        api.release("tail")
        records = delivered(api, 5)
        targets = [r.target.split("?")[0] for r in records if r.get("X-User") != "8"]
        assert targets == [f"/orders/{n}" for n in range(4)]
        # Once no request waits, only the limit decides.
        wait_for(lambda: ticket(gateway, last.get("Location"))["status"] == "delivered", "all requests to be delivered")
        wait_for(lambda: order(gateway, 4).status == 200, "the limit to have a say")


def test_connection_header_fields_are_not_stored(api, tmp_path):
    """Header fields that the client's Connection names are not stored, in any spelling and in several lines. Fields
    that the gateway sets cannot be removed this way."""
    named = [("X-User", "7"), ("Connection", "keep-alive , ACCEPT"), ("Connection", "x-forwarded-for,user-agent,content"),
             ("Accept", "a/a"), ("User-Agent", "me"), ("Content-Type", "c/c")]
    with start(api, tmp_path) as gateway:
        assert [gateway.request("POST", f"/orders/{n}", named, b"x").status for n in range(2)] == [200, 202]
        raise_limit(gateway)
        headers = delivered(api, 2)[1]
        assert headers.get("Accept") is None and headers.get("User-Agent") is None
        assert headers.get("Content-Type") == "c/c"
        assert headers.get("X-Forwarded-For") == "127.0.0.1"


def test_heads_too_large_for_the_queue_are_refused(api, tmp_path):
    """The limit of such a request is used up, but the queue has no room for its head: the response reports that it is
    too large, not that it is invalid."""
    def send(path, **headers):
        r = gateway.request("POST", path, {"X-User": "7", **headers}, b"x")
        return r.status, r.get("X-Weir-Not-Deferred")
    with start(api, tmp_path) as gateway:
        assert send("/orders/" + "u" * 8185) == (200, None)
        assert send("/orders/" + "u" * 8184) == (202, None)
        assert send("/orders/" + "u" * 8185) == (429, "too_large")
        assert send("/orders/1", Accept="a" * 16000, **{"User-Agent": "b" * 16000}) == (202, None)
        assert send("/orders/1", Accept="a" * 16300, **{"User-Agent": "b" * 16300}) == (429, "too_large")


def test_control_characters_of_clients_are_escaped(api, tmp_path):
    """Control characters are escaped, including those with two bytes in UTF-8."""
    with start(api, tmp_path) as gateway:
        admin = tokens.flags(gateway.admin_port)
        for _ in range(2):
            gateway.request("POST", b"/orders/\xc2\x9b2J\xc3\xa4", {"X-User": "7"},
                            b"\x1b]0;x\x07\xc2\x9b1m\tb\nc\x7f \xc3\xa4")
        output = [subprocess.run([env.WEIR, "queue", *words, *admin], capture_output=True, check=True,
                               timeout=env.patience(30)).stdout for words in (["list"], ["show", "1"])]
        assert all(b"POST /orders/?2J\xc3\xa4" in s for s in output), output
        assert output[1].endswith(b"\n\n?]0;x??1m\tb\nc? \xc3\xa4\n"), output


def test_queue_command_refuses_ids_together_with_filters():
    """With both, one would be ignored: `drop 4711 --state dead` must not drop a waiting request."""
    for words in (["drop", "1", "--state", "dead"], ["retry", "--all", "1"], ["drop", "2", "--rule=a"]):
        done = subprocess.run([env.WEIR, "queue", *words, "--admin", "127.0.0.1:1"], capture_output=True, text=True,
                              timeout=env.patience(30), check=False)
        assert done.returncode == 2 and "needs either IDs, or --state" in done.stderr, done


def resize(gateway, size):
    subprocess.run([env.WEIR, "table", "resize", "--dir", gateway.tables()[0].parent, gateway.tables()[0].name[:-3], size],
                   check=True, capture_output=True, timeout=env.patience(30), env=for_weir())


@full("the service looks at its table once a second")
def test_nginx_follows_a_resized_table(api, tmp_path):
    """nginx follows the service to the new table, whatever its size. With separate tables they would not see each
    other's admissions, nor the keys with waiting requests."""
    with start(api, tmp_path) as gateway:
        gateway.wait_workers(2)
        for turn, size in enumerate(["4M", "1M"], 1):
            old = programs.session(*gateway.sessions)
            resize(gateway, size)
            gateway.wait_output("the table was resized: .* " + size, 1)
            gateway.wait_output("nginx loads the new configuration", turn)
            wait_for(lambda old=old: set(programs.session(*gateway.sessions)) & set(old) == {gateway.master()},
                     "the old workers to end")
        assert [order(gateway, n).status for n in (0, "1?hold=tail", 2)] == [200, 202, 202]
        raise_limit(gateway)
        wait_for(lambda: api.count() == 2, "the first delivery, which the API does not answer yet")
        assert order(gateway, 3).status == 202
        api.release("tail")
        assert [r.target.split("?")[0] for r in delivered(api, 4)] == [f"/orders/{n}" for n in range(4)]
        assert gateway.output().count("nginx loads the new configuration") == 2


def test_delivery_socket_is_closed_to_others(api, tmp_path):
    """Deliveries pass without limits, so only the service may use their socket."""
    with start(api, tmp_path) as gateway:
        socket = gateway.runtime / "deliver" / "api.sock"
        if os.geteuid() == 0:  # the service runs as another user, and must reach it
            wait_for(lambda: stat.S_IMODE(os.stat(socket.parent).st_mode) == 0o711, "the service to be let in")
            assert (stat.S_IMODE(os.stat(socket).st_mode), os.stat(socket).st_uid) == (0o600, pwd.getpwnam("nobody").pw_uid)
            assert os.stat(socket.parent).st_uid == 0
        else:
            assert stat.S_IMODE(os.stat(socket.parent).st_mode) == 0o700
        assert [fetch(str(socket), "GET", "/orders/1", {"X-User": "7"}).status for _ in range(3)] == [200] * 3
    assert not socket.exists()


def test_ticket_reveals_nothing_else(api, tmp_path):
    """A ticket's status does not contain the request. Other tickets get 404."""
    with start(api, tmp_path) as gateway:
        order(gateway, 0)
        where = order(gateway, 1).get("Location")
        reported = ticket(gateway, where)
        assert reported["status"] == "waiting" and reported["position"] == 1 and reported["expected_delay"] > 0
        assert "order" not in json.dumps(reported)
        last = "0" if where[-1] != "0" else "1"
        assert ticket(gateway, where[:-1] + last) == 404
        assert gateway.get("/.weir/tickets/").status == 404
        assert gateway.request("DELETE", where).status == 405


def test_queue_off_switches_deferral_off(api, tmp_path):
    """With --queue off requests are refused, and there is neither a ticket location nor a delivery socket."""
    with start(api, tmp_path, "--queue", "off") as gateway:
        assert [order(gateway, n).status for n in range(2)] == [200, 429]
        assert gateway.get("/.weir/tickets/" + "0" * 32).status == 200  # the API's own response
        assert list(gateway.folder.rglob("api.sock")) == []


def service(connection):
    """An authentication service that takes the identity from a header field."""
    while True:
        head, _ = read_head(connection)
        known = "\r\nauthorization: user anna" in head.lower()
        status = "204 Known\r\nRemote-User: anna" if known else "401 Who\r\nContent-Length: 0"
        connection.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())


def test_identity_is_stored_with_the_request(api, tmp_path):
    """The identity comes from the authentication service. A request with an unknown identity is not deferred."""
    known = {"Remote_User": "root", "Authorization": "user anna"}
    with Listener(service) as auth, start(api, tmp_path, "--auth", f"http://127.0.0.1:{auth.port}/") as gateway:
        assert [order(gateway, n, **known).status for n in range(2)] == [200, 202]
        strangers = [order(gateway, n, user="9") for n in range(3)]
        assert [s.status for s in strangers] == [401, 429, 429]
        assert [s.get("X-Weir-Not-Deferred") for s in strangers[1:]] == ["not_authenticated"] * 2
        raise_limit(gateway)
        assert [r.get("Remote-User") for r in delivered(api, 2)] == ["anna"] * 2
        assert [r.get("Authorization") for r in api.records()] == ["user anna", None]


def test_credentials_need_a_key(api, tmp_path):
    """Requests with credentials are deferred only with --queue-key, and the file contains no plain text of them."""
    named = rules("1h").replace("on_limit: defer", "on_limit: defer, defer: {headers: [authorization]}")
    with start(api, tmp_path, rules=named) as gateway:
        order(gateway, 0)
        r = order(gateway, 1, Authorization="Bearer s3cret")
        assert (r.status, r.get("X-Weir-Not-Deferred")) == (429, "no_key")
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    with start(api, tmp_path, "--queue-key", key, rules=named) as gateway:
        api.reset()
        order(gateway, 0)
        assert order(gateway, 1, Authorization="Bearer s3cret").status == 202
        for path in (tmp_path / "queue").rglob("*"):
            assert b"s3cret" not in path.read_bytes() and stat.S_IMODE(path.stat().st_mode) == 0o600
        raise_limit(gateway)
        assert delivered(api, 2)[1].get("Authorization") == "Bearer s3cret"


def test_deferral_works_after_nginx_was_killed(api, tmp_path):
    """The socket of the killed nginx remains, and the next nginx starts nevertheless."""
    with start(api, tmp_path, allow=[*STILL_BOUND, "open socket #"]) as gateway:
        assert [order(gateway, n).status for n in range(3)] == [200, 202, 202]
        os.kill(gateway.master(), signal.SIGKILL)
        gateway.wait_output("nginx runs again")
        gateway.register_session()
        raise_limit(gateway)
        assert [r.target for r in delivered(api, 3)] == [f"/orders/{n}" for n in range(3)]

        def is_accepted():
            try:
                return order(gateway, 3).status in (200, 202)
            except (OSError, Closed):
                return False
        wait_for(is_accepted, "the new nginx")


def test_sighup_switches_deferral_on_and_off(api, tmp_path):
    options = tmp_path / "gateway.yaml"
    options.write_text("queue: 'off'\n", encoding="ascii")
    with Gateway(api.port, "--config", options, rules=rules("1h")) as gateway:
        assert [order(gateway, n).status for n in range(2)] == [200, 429]
        options.write_text(f"queue: file:{tmp_path}/queue\n", encoding="ascii")
        gateway.signal(signal.SIGHUP)
        wait_for(lambda: order(gateway, 2).status == 202, "a request to be deferred")
        options.write_text("queue: 'off'\n", encoding="ascii")
        gateway.signal(signal.SIGHUP)
        wait_for(lambda: order(gateway, 3).status == 429, "a request to be refused")


@pytest.fixture(name="state")
def default_queue_folder(tmp_path):
    """Returns the default folder of the queue of a gateway on a port. That of root is not under HOME."""
    base = Path("/var/lib/weir" if os.geteuid() == 0 else tmp_path / ".local/state/weir")
    made = []

    def state(port):
        made.append(base / f"gateway-{port}")
        programs.register_files(str(made[-1]))
        return made[-1]
    yield state
    for folder in made:
        programs.remove_files(str(folder))


def test_rule_change_starts_deferral(api, tmp_path, state):
    """The rule file is edited, without a signal, and there was no queue before."""
    with Gateway(api.port, rules=rules("1h", "reject"), environment={"HOME": str(tmp_path)}) as gateway:
        folder = state(gateway.port)
        assert [order(gateway, n).status for n in range(2)] == [200, 429]
        assert not folder.exists()
        gateway.write_rules(rules("1h"))
        wait_for(lambda: order(gateway, 2).status == 202, "a request to be deferred", 60)
        gateway.wait_output("a rule now has on_limit: defer", 1)
        gateway.wait_output("deferred requests are stored in file:" + str(folder), 1)
        assert (folder / "queue" / "queue.db").exists()
        # A worker that is shutting down and has no queue may still accept a request.
        wait_for(lambda: [order(gateway, n).status for n in range(3, 7)] == [202] * 4, "all workers to defer requests")


def test_rule_change_starts_deferral_without_a_queue_folder(api, tmp_path, state):
    """The reason and the remedy are logged once, and requests are refused. The next change of the rules tries again."""
    with Gateway(api.port, rules=rules("1h", "reject"), environment={"HOME": str(tmp_path)},
                 allow=["cannot create the folder"]) as gateway:
        folder = state(gateway.port)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("no folder", encoding="ascii")
        gateway.write_rules(rules("1h"))
        gateway.wait_output("cannot create the folder .*name another with --queue URL(.*\n)+.*nothing changes", 1, 60)
        assert [order(gateway, n).status for n in range(2)] == [200, 429]
        folder.unlink()
        gateway.write_rules(rules("2h"))
        wait_for(lambda: order(gateway, 2).status == 202, "a request to be deferred", 60)
        assert gateway.output().count("cannot create the folder") == 1


def test_stored_requests_are_delivered_after_the_rule_stops_deferring(api, tmp_path, state, clock):
    """The stored requests are delivered, also by the next gateway."""
    admin = free_port()
    with Gateway(api.port, "--admin", f"127.0.0.1:{admin}", rules=rules("1h"), environment={"HOME": str(tmp_path)}) as gateway:
        gateway.admin_port = admin
        folder = state(gateway.port)
        assert [order(gateway, n).status for n in range(2)] == [200, 202]
        gateway.write_rules(rules("1h", "reject"))
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
        gateway.start()
        clock.advance(3600)
        retry(gateway)
        assert [r.target for r in delivered(api, 2)] == ["/orders/0", "/orders/1"]
        assert (folder / "queue" / "queue.db").exists()


def test_print_config_shows_the_delivery_socket(tmp_path):
    """The configuration shows the socket of deliveries, and no password."""
    (tmp_path / "rules.yaml").write_text(rules(), encoding="ascii")
    done = subprocess.run([env.WEIR, "gateway", "--upstream", "http://127.0.0.1:1", "--queue", "redis://u:s3cret@127.0.0.1",
                           "--print-config", "--rules", tmp_path / "rules.yaml"], capture_output=True, text=True,
                          timeout=env.patience(30), check=True)
    assert 'weir_queue "unix:/run/weir/weir.sock";' in done.stdout and "unix:/run/weir/deliver/api.sock" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr
