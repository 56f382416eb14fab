"""TLS of weir serve: protocol versions, client certificates, and changing certificates."""

import re
import signal
import socket
import ssl

import grpc
import pytest

from weirtest import certificate, env, full, wait_for
from weirtest.certificate import self_signed
from weirtest.rls import OK, OVER, Rls
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3, algorithm: token_bucket}
"""
FLAGS = ["--tls-cert", "{folder}/cert.pem", "--tls-key", "{folder}/key.pem"]
CLIENTS = FLAGS + ["--tls-client-ca", "{folder}/ca.pem"]


def signed(folder, name, san):
    """Returns a client's certificate by the folder's CA: (key, certificate), PEM."""
    certificate.signed(folder, name, san, key=f"{name}.key", ca_key="ca.key")
    return (folder / f"{name}.key").read_bytes(), (folder / f"{name}.pem").read_bytes()


def credentials(serve, client=(None, None)):
    return grpc.ssl_channel_credentials((serve.folder / "cert.pem").read_bytes(), *client)


def tls_serve(flags=FLAGS, **kwargs):
    serve = Serve(rules=RULES, grpc=True, args=flags, **kwargs)
    self_signed(serve.folder)
    if "--tls-client-ca" in flags:
        self_signed(serve.folder, "CA", "ca.pem", "ca.key")
    return serve


def handshake(serve, alpn=("h2",), least=None, most=None, client=None, cipher=None):
    """Returns the version and protocol of a handshake, and the digest of the server's common name."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if cipher:
        context.set_ciphers(cipher)
    if least:
        context.minimum_version = least
    if most:
        context.maximum_version = most
    if client:
        context.load_cert_chain(serve.folder / f"{client}.pem", serve.folder / f"{client}.key")
    with socket.create_connection(("127.0.0.1", serve.grpc_port), timeout=env.patience(20)) as raw:
        with context.wrap_socket(raw) as s:
            s.recv(9)  # the server's SETTINGS: with TLS 1.3 the server accepts the client only now
            return s.version(), s.selected_alpn_protocol(), s.getpeercert(binary_form=True)


def test_tls_versions_and_alpn():
    with tls_serve() as serve:
        with Rls(f"localhost:{serve.grpc_port}", credentials(serve)) as rls:
            assert [rls.ask("rl", ("user", "a")) for _ in range(4)] == [OK, OK, OK, OVER]
        assert handshake(serve)[:2] == ("TLSv1.3", "h2")
        assert handshake(serve, most=ssl.TLSVersion.TLSv1_2)[:2] == ("TLSv1.2", "h2")
        assert handshake(serve, alpn=("http/1.1", "h2"))[1] == "h2"
        for cipher, agreed in (("AES128-GCM-SHA256", False), ("ECDHE-ECDSA-AES128-SHA", False),
                               ("ECDHE-RSA-AES128-SHA", False), ("ECDHE+AESGCM", True), ("ECDHE+CHACHA20", True)):
            if agreed:
                handshake(serve, most=ssl.TLSVersion.TLSv1_2, cipher=cipher)
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    handshake(serve, most=ssl.TLSVersion.TLSv1_2, cipher=cipher)
        assert handshake(serve, alpn=())[1] is None
        with pytest.raises(ssl.SSLError, match="no application protocol"):
            handshake(serve, alpn=("http/1.1",))
        with pytest.raises(ssl.SSLError):
            handshake(serve, least=ssl.TLSVersion.MINIMUM_SUPPORTED, most=ssl.TLSVersion.TLSv1_1)
        assert "TLS\n" in serve.log()
        serve.wait_logged("a TLS handshake failed: ")


def test_plain_text_and_invalid_bytes_are_refused():
    with tls_serve(flags=FLAGS + ["--slow", "400ms"]) as serve:
        for rubbish in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 40000,
                        b"\x16\x03\x01", b""):
            with socket.create_connection(("127.0.0.1", serve.grpc_port), timeout=env.patience(20)) as s:
                try:
                    s.sendall(rubbish)
                    while s.recv(4096):
                        pass
                except ConnectionError:
                    pass
        with Rls(f"localhost:{serve.grpc_port}", credentials(serve)) as rls:  # in time, or tried again
            assert wait_for(rls.answers("rl", ("user", "a")), "somebody else to be served") == OK


def test_large_responses_over_tls():
    """More than a record and more than a socket buffer: encrypted as the kernel accepts it."""
    with tls_serve() as serve:
        with Rls(f"localhost:{serve.grpc_port}", credentials(serve)) as rls:
            calls = [rls._ask.future(b"\n\x02rl\x12\x0b\n\t\n\x04user\x12\x01b", timeout=env.patience(60))
                     for _ in range(2000)]
            codes = [c.result()[1] for c in calls]
            assert codes.count(OK) == 3 and codes.count(OVER) == 1997


def test_client_without_a_certificate_is_refused():
    with tls_serve(CLIENTS) as serve:
        good = signed(serve.folder, "good", "DNS:envoy.example")
        self_signed(serve.folder, "stranger", "stranger.pem", "stranger.key")
        assert "TLS with client certificates" in serve.log()
        with Rls(f"localhost:{serve.grpc_port}", credentials(serve, good)) as rls:
            assert rls.ask("rl", ("user", "a")) == OK
        assert handshake(serve, client="good")[:2] == ("TLSv1.3", "h2")
        for most in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with pytest.raises(ssl.SSLError):
                handshake(serve, most=most)
            with pytest.raises(ssl.SSLError):
                handshake(serve, client="stranger", most=most)
        serve.wait_logged("peer did not return a certificate")


@pytest.mark.parametrize("san", ["DNS:envoy.example", "DNS:*.svc.example", "URI:spiffe://example/envoy",
                                 "IP:10.0.0.7", "email:envoy@example"])
def test_allowed_names_of_client_certificates(san):
    names = "envoy.example,envoy.svc.example,spiffe://example/envoy,10.0.0.7,envoy@example"
    with tls_serve(CLIENTS + ["--tls-client-san", names]) as serve:
        signed(serve.folder, "good", san)
        signed(serve.folder, "envoy.example", "DNS:other.example.org")  # its common name is not used
        assert handshake(serve, client="good")[1] == "h2"
        with pytest.raises(ssl.SSLError):
            handshake(serve, client="envoy.example")
        serve.wait_logged("certificate has none of the names of --tls-client-san")


def in_place(serve, *changes):
    """A new folder with a certificate and key and these changes replaces the previous one in one step, as in Kubernetes:
    the service never sees half of it, however long openssl takes."""
    folder = serve.folder / f"certificates.{len(list(serve.folder.glob('certificates.*')))}"
    folder.mkdir()
    self_signed(folder)
    for change in changes:
        change(folder)
    (serve.folder / "next").symlink_to(folder.name)
    (serve.folder / "next").rename(serve.folder / "live")


def test_certificates_are_reloaded():
    """Without a signal, and with one. Unusable certificates change nothing."""
    flags = [f.replace("{folder}", "{folder}/live") for f in FLAGS]
    with Serve(rules=RULES, grpc=True, args=flags, start=False) as serve:
        in_place(serve)
        serve.start()
        first = handshake(serve)[2]
        in_place(serve)
        serve.wait_logged("certificates reloaded: ")
        second = handshake(serve)[2]
        assert second != first
        in_place(serve, lambda folder: (folder / "cert.pem").write_text("no certificate\n"))
        serve.signal(signal.SIGHUP)
        serve.wait_logged("the new certificates are unusable, the old ones stay in use: --tls-cert ")
        assert handshake(serve)[2] == second
        in_place(serve)
        serve.signal(signal.SIGHUP)
        serve.wait_logged("certificates reloaded: ", times=2)
        assert handshake(serve)[2] not in (first, second)


@full("five changes, each noticed within a second")
def test_changed_certificates_are_used():
    flags = [f.replace("{folder}", "{folder}/live") for f in FLAGS]
    with Serve(rules=RULES, grpc=True, args=flags, start=False) as serve:
        in_place(serve)
        serve.start()
        trust = grpc.ssl_channel_credentials((serve.folder / "live" / "cert.pem").read_bytes())
        with Rls(f"localhost:{serve.grpc_port}", trust) as open_before:
            assert open_before.ask("rl", ("user", "a")) == OK
            first = handshake(serve)[2]
            in_place(serve)
            serve.wait_logged("certificates reloaded: ")
            second = handshake(serve)[2]
            assert second != first
            in_place(serve, lambda folder: (folder / "cert.pem").write_text("no certificate\n"))
            serve.wait_logged("the new certificates are unusable, the old ones stay in use: --tls-cert ")
            assert handshake(serve)[2] == second
            in_place(serve, lambda folder: self_signed(folder, "third", "cert.pem", "other.pem"))  # not of this key
            serve.wait_logged("the new certificates are unusable", times=2)
            serve.wait_logged("key values mismatch")
            assert handshake(serve)[2] == second
            in_place(serve)
            serve.wait_logged("certificates reloaded: ", times=2)
            assert len(re.findall("are unusable", serve.log())) == 2  # each once
            assert handshake(serve)[2] not in (first, second)
            serve.signal(signal.SIGHUP)
            serve.wait_logged("certificates reloaded: ", times=3)
            assert open_before.ask("rl", ("user", "a")) == OK


@pytest.mark.parametrize("break_it, text", [
    (lambda f: (f / "cert.pem").unlink(), "--tls-cert FOLDER/cert.pem: No such file or directory"),
    (lambda f: (f / "key.pem").write_text("x"), "--tls-key FOLDER/key.pem: the file contains no private key of this certificate in PEM form"),
    (lambda f: self_signed(f, "x", "x.pem", "key.pem"), "FOLDER/key.pem: the file contains no private key of this certificate in PEM form (key values mismatch)"),
])
def test_broken_certificates_prevent_the_start(break_it, text):
    serve = tls_serve()
    break_it(serve.folder)
    code, output = serve.run()
    assert code == 1
    assert text in output
