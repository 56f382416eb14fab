"""Capabilities of this machine. Each one is probed once, by using it.

tools/test prints the missing capabilities and the suites that need them. weirtest.needs skips end-to-end tests.
WEIR_LACKS="namespaces ipv6" marks both as missing, to test the skips.
"""

import ctypes
import functools
import os
import signal
import socket
import subprocess
from pathlib import Path

SHM_BYTES = 256 << 20
SBIN = ("/usr/sbin", "/sbin")  # not in an ordinary user's PATH


def with_sbin(path):
    """Returns the PATH with the folders of nft, ip and nginx."""
    words = [w for w in path.split(":") if w]
    return ":".join([*words, *(s for s in SBIN if s not in words)])


def _works(*argv):
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "PATH": with_sbin(os.environ.get("PATH", ""))}, timeout=20,
                              check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _namespace(*command):
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return _works("unshare", *user, "--net", *command)


def _ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            return True
    except OSError:
        return False


def _shm():
    try:
        info = os.statvfs("/dev/shm")
    except OSError:
        return False
    return info.f_bavail * info.f_frsize >= SHM_BYTES and os.access("/dev/shm", os.W_OK)


def _ptrace():
    """Returns whether a child can be traced. test/e2e/weirtest/threads.py stops threads of its programs."""
    seize, detach = 0x4206, 17
    libc = ctypes.CDLL(None)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL) as child:
        try:
            if libc.ptrace(seize, child.pid, None, None) < 0:
                return False
            libc.ptrace(detach, child.pid, None, None)
            return True
        finally:
            child.send_signal(signal.SIGKILL)


# name: (text if it is missing, function that probes it)
CAPABILITIES = {
    "root": ("not root", lambda: os.geteuid() == 0),
    "namespaces": ("no network namespaces", lambda: _namespace("ip", "link", "add", "weirtest", "type", "bridge")),
    "mounts": ("no mount namespaces", lambda: _works(
        "unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "mount", "-t", "tmpfs",
        "-o", "size=1m", "none", "/mnt")),
    "hugepages": ("no huge pages, or not root", lambda: os.access("/proc/sys/vm/nr_hugepages", os.W_OK) and _works(
        "unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=4m,huge=advise none /mnt && "
        "mount -t hugetlbfs -o pagesize=2M none /mnt")),
    "nft": ("no nftables", lambda: _namespace("nft", "add", "table", "inet", "weirtest")),
    "ipv6": ("no IPv6", _ipv6),
    "shm": (f"less than {SHM_BYTES >> 20} MiB of /dev/shm", _shm),
    "ptrace": ("a process may not be traced", _ptrace),
    "npm": ("no npm registry", lambda: _works("npm", "ping", "--fetch-retries=0", "--fetch-timeout=10000")),
}


@functools.cache
def is_missing(name):
    """Returns whether the machine lacks this capability, or WEIR_LACKS names it."""
    return name in os.environ.get("WEIR_LACKS", "").split() or not CAPABILITIES[name][1]()


def lacks():
    """Returns the names of all missing capabilities."""
    return {name for name in CAPABILITIES if is_missing(name)}


def needed_by(root, with_full):
    """Returns {suite: capabilities}, from the calls `needs("nft")` in the Python and C sources of the tests. Suites
    of the full tier are left out unless `with_full`."""
    found = {}
    for path in sorted([*Path(root).rglob("test_*.py"), *Path(root).rglob("test_*.c")]):
        text = path.read_text(encoding="utf-8", errors="replace")
        names = {n for n in CAPABILITIES if f'needs("{n}"' in text or f', "{n}"' in text and "needs(" in text}
        if names and (with_full or "\npytestmark = full" not in text):
            name = path.stem.removeprefix("test_")
            found[f"e2e_{name}" if path.suffix == ".py" else f"test_{path.parent.name}_{name}"] = names
    return found
