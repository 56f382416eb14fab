"""weir gateway: TLS to clients, TLS to API servers, HTTP/2 with and without TLS."""

import json
import ssl

import pytest

from weirtest import H2, certificate, connect, fetch, free_port
from weirtest.gateway import Gateway, Listener, authority, read_head


@pytest.fixture(name="pair", scope="module")
def _pair(tmp_path_factory):
    """Options with a self-signed certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate.self_signed(folder)
    return ["--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"]


def test_http1_and_http2_by_alpn(api, pair):
    with Gateway(api.port, *pair, tls=True) as gateway:
        answer = gateway.get("/?echo=1")
        assert answer.version == "HTTP/1.1"
        fields = {k.lower(): v for k, v in json.loads(answer.body)["headers"]}
        assert fields["x-forwarded-proto"] == "https"
        with H2(gateway.port, tls=True) as client:
            streams = [client.send("GET", "/few/a") for _ in range(4)]
            assert sorted(client.read(s).status for s in streams) == [200, 200, 429, 429]
            got = json.loads(client.get("/?echo=1", authority="shop.example:8443").body)
            assert dict(got["headers"])["Host"] == "shop.example:8443"
        assert "https://127.0.0.1:" in gateway.output()


def test_plain_text_on_the_tls_port_is_refused(api, pair):
    with Gateway(api.port, *pair, tls=True) as gateway:
        assert fetch(gateway.port).status == 400
        assert api.count() == 0


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_protocols_are_refused(api, pair):
    with Gateway(api.port, *pair, tls=True) as gateway:
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                context.wrap_socket(connect(gateway.port))


def test_http2_without_tls_on_its_own_port(api):
    port = free_port()
    with Gateway(api.port, "--h2c", f"127.0.0.1:{port}") as gateway:
        with H2(port) as client:
            streams = [client.send("GET", "/few/b") for _ in range(3)]
            assert sorted(client.read(s).status for s in streams) == [200, 200, 429]
            assert client.request("POST", "/?echo=1", body=b"x" * 100000).status == 200
        assert gateway.get("/few/b").status == 429  # one limit for all protocols
        assert f"127.0.0.1:{port} (HTTP/2 without TLS)" in gateway.output()


@pytest.mark.parametrize("tls", [False, True])
def test_connection_ends_after_a_thousand_resets(api, pair, tls):
    """Streams that the client opens and resets cost it nothing. nginx counts them as requests of the connection."""
    port = free_port()
    options = pair if tls else ["--h2c", f"127.0.0.1:{port}"]
    with Gateway(api.port, *options, tls=tls) as gateway:
        with H2(gateway.port if tls else port, tls=tls) as client:
            for _ in range(1000):
                client.cancel(client.send("GET", "/"))
            client.wait_gone()
            assert (client.gone, client.last_stream) == (0, 1999)


@pytest.fixture(name="ca", scope="module")
def _ca(tmp_path_factory):
    """A folder with a CA and a certificate for api.test."""
    folder = tmp_path_factory.mktemp("ca")
    authority(folder)
    return folder


@pytest.fixture(name="https_api")
def _https_api(ca):
    """An API with a TLS certificate for api.test, which answers with the requested server name."""
    names = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca / "api.pem", ca / "api-key.pem")
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    def answer(connection):
        read_head(connection)
        name = str(names[-1]).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(name), name))

    with Listener(answer, wrap=lambda c: context.wrap_socket(c, server_side=True)) as server:
        yield f"https://127.0.0.1:{server.port}"


def test_https_servers_are_verified(https_api, ca):
    """The certificate of an https:// server is accepted with --upstream-ca and --upstream-name."""
    with Gateway(https_api, "--upstream-ca", ca / "ca.pem", "--upstream-name", "api.test") as gateway:
        answer = gateway.get("/")
        assert (answer.status, answer.body) == (200, b"api.test")


def test_certificate_for_another_name_is_refused(https_api, ca):
    with Gateway(https_api, "--upstream-ca", ca / "ca.pem", "--upstream-name", "other.test") as gateway:
        assert gateway.get("/").status == 502
        gateway.wait_output("upstream SSL certificate does not match")


def test_certificate_of_another_authority_is_refused(https_api, ca):
    with Gateway(https_api, "--upstream-ca", ca / "api.pem", "--upstream-name", "api.test") as gateway:
        assert gateway.get("/").status == 502
        gateway.wait_output("upstream SSL certificate verify error")
