"""Certificates for tests. They are made at the time of the clock in use and last a hundred years, so that programs on
the test's clock and programs on the real clock accept them alike."""

import subprocess
from pathlib import Path

from . import clock

_DAYS = ["-days", "36500"]
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
LOCALHOST = "DNS:localhost,IP:127.0.0.1"


def _openssl(folder, *args):
    """Runs openssl in the folder, at the time of the clock in use."""
    variables = clock.current.variables() if clock.current else None
    subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=folder, env=variables)


def self_signed(folder, subject="localhost", cert="cert.pem", key="key.pem", names=LOCALHOST):
    """Creates a self-signed certificate for these names, and its key."""
    _openssl(folder, "req", "-x509", *_KEY, *_DAYS, "-subj", f"/CN={subject}", "-addext", f"subjectAltName={names}",
             "-keyout", key, "-out", cert)


def authority(folder, key="ca-key.pem"):
    """Creates ca.pem, a certificate that signs others."""
    _openssl(folder, "req", "-x509", *_KEY, *_DAYS, "-subj", "/CN=weirtest CA", "-keyout", key, "-out", "ca.pem")


def signed(folder, subject, names, key=None, ca_key="ca-key.pem"):
    """Creates SUBJECT.pem for these names, signed by the folder's ca.pem. Its key is SUBJECT-key.pem or `key`."""
    key = key or f"{subject}-key.pem"
    Path(folder, f"{subject}.ext").write_text(f"subjectAltName={names}\n", encoding="ascii")
    _openssl(folder, "req", *_KEY, "-subj", f"/CN={subject}", "-keyout", key, "-out", f"{subject}.csr")
    _openssl(folder, "x509", "-req", "-in", f"{subject}.csr", "-CA", "ca.pem", "-CAkey", ca_key, "-CAcreateserial",
             *_DAYS, "-extfile", f"{subject}.ext", "-out", f"{subject}.pem")
