"""The deliverer of `weir serve` and API servers with TLS or with interim responses."""

import contextlib
import re
import ssl

import pytest

from weirtest import wait_for
from weirtest.queueserver import QueueServer
from weirtest.gateway import Listener, authority, read_head


def raw(*answers):
    """An API server that answers the requests of a connection with these bytes, in order."""
    def serve(connection):
        for answer in answers:
            head, rest = read_head(connection)
            while len(rest) < int(re.search(r"(?i)content-length: *(\d+)", head)[1]):
                piece = connection.recv(65536)
                if not piece:
                    return
                rest += piece
            connection.sendall(answer)
        connection.recv(1)
    return serve


CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"


# ---- TLS ----

@pytest.fixture(scope="module", name="tls")
def tls_folder(tmp_path_factory):
    """A folder with a CA, a certificate of this CA for localhost, and another CA."""
    folder = tmp_path_factory.mktemp("tls")
    authority(folder, "DNS:localhost")
    (folder / "other").mkdir()
    authority(folder / "other")
    return folder


def https(tls):
    """Accepts a TLS connection. A failed handshake ends the connection, not the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls / "api.pem", tls / "api-key.pem")
    return Listener(raw(CREATED, CREATED), wrap=lambda c: context.wrap_socket(c, server_side=True))


def test_https_with_a_private_ca(tls):
    """--queue-target-ca makes the deliverer trust the server's certificate."""
    with https(tls) as server, QueueServer(None, "--queue-target-ca", tls / "ca.pem",
                                       target=f"https://localhost:{server.port}") as service:
        reported = service.wait_ticket(service.defer("/orders/7/1")[0], "delivered")
        assert (reported["http_status"], reported["tries"]) == (201, 0)


def test_untrusted_https_server_gets_no_request(tls):
    """A certificate of another CA, for another name, or of a CA unknown to the system: nothing is sent, no try is
    counted, and the log has the reason."""
    with contextlib.ExitStack() as stack:
        services = []
        for host, ca in (("localhost", "other/ca.pem"), ("127.0.0.1", "ca.pem"), ("localhost", None)):
            server = stack.enter_context(https(tls))
            args = ["--queue-target-ca", tls / ca] if ca else []
            services.append(stack.enter_context(QueueServer(None, *args, target=f"https://{host}:{server.port}")))
        tickets = [service.defer("/orders/7/1")[0] for service in services]
        for service, ticket in zip(services, tickets):
            wait_for(lambda service=service: not service.stats()["target_up"], "the target to be reported as down", 60)
            wait_for(lambda: service.ticket(ticket)["status"] == "waiting", "the request to wait")
            assert service.ticket(ticket)["tries"] == 0
            assert re.search(r"is unreachable \(.*(certificate|SSL)", service.serve.log())


# ---- interim responses ----

def test_interim_responses_are_skipped():
    """A 1xx is not the final response; 100 and 103 may precede it, several times."""
    hints = b"HTTP/1.1 100 Continue\r\n\r\n" + 2 * b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nRetry-After: 60\r\n\r\n"
    busy = hints + b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    with Listener(raw(busy, hints + CREATED, CREATED)) as server, \
            QueueServer(None, target=f"http://127.0.0.1:{server.port}") as service:
        tickets = [service.defer(f"/orders/7/{n}")[0] for n in range(2)]
        reported = [service.retry_until_ticket(t, "delivered") for t in tickets]
        assert [(t["http_status"], t["tries"]) for t in reported] == [(201, 0), (201, 0)]


def test_status_101_is_a_failure():
    """The request asked for no upgrade. The bytes after a 101 are not HTTP, so the try fails at once."""
    switched = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
    with Listener(raw(switched)) as server, \
            QueueServer(None, "--queue-timeout", "1h", target=f"http://127.0.0.1:{server.port}") as service:
        reported = service.wait_ticket(service.defer("/orders/7/1")[0], "dead")
        assert (reported["http_status"], reported["reason"]) == (101, "HTTP status 101")
