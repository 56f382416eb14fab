"""weir gateway --auth: a service sets the identity, and clients cannot."""

import json
import threading

import pytest

from weirtest import free_port
from weirtest.gateway import Gateway, Listener, read_head


class Service:
    """An authentication service. The Authorization field sets its response: `user NAME`, `status N`. It records its
    requests."""

    def __init__(self):
        self.heads = []
        self.lock = threading.Lock()

    def __call__(self, connection):
        while True:
            head, _ = read_head(connection)
            fields = {k.lower(): v.strip() for k, _, v in
                      (line.partition(":") for line in head.split("\r\n")[1:])}
            with self.lock:
                self.heads.append((head.split(" ")[0:2], fields))
            word, _, what = fields.get("authorization", "status 401").partition(" ")
            status = what if word == "status" else "204"
            extra = f"Remote-User: {what}\r\n" if word == "user" else "WWW-Authenticate: Basic\r\n"
            extra += "X-Accel-Redirect: /elsewhere\r\n"
            body = "" if status == "204" else "Content-Length: 0\r\n"
            connection.sendall(f"HTTP/1.1 {status} Whatever\r\n{extra}{body}\r\n".encode())


@pytest.fixture(name="auth")
def _auth():
    """Runs the authentication service; its URL is in `.url`."""
    service = Service()
    with Listener(service) as server:
        service.url = f"http://127.0.0.1:{server.port}/verify"
        yield service


def fields_of(response):
    """Returns the header fields that the API received, in lower case, from a response to `?echo=1`."""
    return {k.lower(): v for k, v in json.loads(response.body)["headers"]}


def test_each_user_has_a_limit(api, auth):
    with Gateway(api.port, "--auth", auth.url) as gateway:
        for user in ("alice", "bob"):
            statuses = [gateway.get("/mine/a", {"Authorization": f"user {user}"}).status
                        for _ in range(3)]
            assert statuses == [200, 200, 429]
        assert api.count() == 4


def test_header_fields_sent_to_the_service_and_to_the_api(api, auth):
    """The service gets the client's fields and the original request, without body and identity fields. The API gets
    the service's identity only."""
    with Gateway(api.port, "--auth", auth.url) as gateway:
        got = fields_of(gateway.request("POST", "/mine/a?echo=1&x=2", {
            "Authorization": "user alice", "Remote-User": "root", "X-Forwarded-User": "root",
            "X-Original-URI": "/harmless", "X-Custom": "1"}, b"the body"))
        assert got["remote-user"] == "alice"
        assert "x-forwarded-user" not in got
        assert "x-auth-request-user" not in got
        [(request, asked)] = auth.heads
        assert request == ["GET", "/verify"]
        assert asked["authorization"] == "user alice"
        assert asked["x-original-uri"] == asked["x-forwarded-uri"] == "/mine/a?echo=1&x=2"
        assert asked["x-original-method"] == asked["x-forwarded-method"] == "POST"
        assert asked["x-custom"] == "1"
        assert asked["x-forwarded-for"] == "127.0.0.1"
        assert not {"remote-user", "x-forwarded-user", "content-length", "transfer-encoding"} & set(asked)


def test_forged_identities_have_no_effect(api, auth):
    with Gateway(api.port, "--auth", auth.url) as gateway:
        answers = [gateway.get("/mine/a", {"Authorization": "user eve", "Remote-User": f"u{i}"})
                   for i in range(4)]
        assert [a.status for a in answers] == [200, 200, 429, 429]
        assert [r.get("Remote-User") for r in api.records()] == ["eve", "eve"]


def test_refusal_of_the_service_is_passed_on(api, auth):
    """401 and 403 reach the client, any other status becomes 502, and the API gets no request."""
    with Gateway(api.port, "--auth", auth.url) as gateway:
        answer = gateway.get("/")
        assert (answer.status, answer.get("www-authenticate")) == (401, "Basic")
        assert gateway.get("/", {"Authorization": "status 403"}).status == 403
        assert gateway.get("/", {"Authorization": "status 500"}).status == 502
        assert api.count() == 0


def test_failed_authentications_are_limited_by_address(api, auth):
    """Failed attempts count, and a flood of them does not reach the service."""
    with Gateway(api.port, "--auth", auth.url) as gateway:
        assert [gateway.get("/few/a").status for _ in range(6)] == [401, 401, 429, 429, 429, 429]
        assert len(auth.heads) == 2


def test_requests_are_refused_while_the_service_is_down(api):
    with Gateway(api.port, "--auth", f"http://127.0.0.1:{free_port()}") as gateway:
        assert gateway.get("/").status == 502
        assert api.count() == 0


def test_clients_cannot_reach_the_service(api, auth):
    """The location of the subrequest is closed to clients in every spelling, and to redirects of the API."""
    with Gateway(api.port, "--auth", auth.url) as gateway:
        for target in ("/.weir/auth", "//.weir/auth", "/.weir/../.weir/auth", "/.weir/%61uth"):
            assert gateway.get(target, {"Authorization": "user alice"}).status == 404
        assert auth.heads == []
        # A redirect from the API does not lead to the location of the service either.
        assert gateway.get("/?h=X-Accel-Redirect:/.weir/auth",
                           {"Authorization": "user alice"}).body == b"ok\n"
        assert len(auth.heads) == 1


def test_auth_headers_option_names_the_identity_fields(api, auth):
    """--auth-headers names the fields; the client's own field of such a name does not reach the API."""
    with Gateway(api.port, "--auth", auth.url, "--auth-headers", "X-Nobody,Remote-User") as gateway:
        got = fields_of(gateway.get("/mine/b?echo=1", {"Authorization": "user alice", "X-Nobody": "root"}))
        assert got["remote-user"] == "alice"
        assert "x-nobody" not in got
