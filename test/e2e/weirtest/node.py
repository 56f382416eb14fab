"""Clients for Node.js: the packages of test/e2e/node/package.json, installed once.

WEIR_NODE  the folder that the packages are installed in, for several build folders to share (default: node/ of the build)

Tests that use them are marked `needs("npm")`. The versions run on Node.js 18, which Debian 12 has.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from . import env

SOURCE = env.ROOT / "test/e2e/node"
FOLDER = Path(os.environ.get("WEIR_NODE") or env.BUILD / "node").resolve()


def _is_installed(wanted):
    stamp = FOLDER / "installed"
    return stamp.exists() and stamp.read_text(encoding="ascii") == wanted


def install():
    """Installs the packages of the lock file in FOLDER, unless they are there. A second caller waits for the first."""
    wanted = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()
    if _is_installed(wanted):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_installed(wanted):
            return
        (FOLDER / "installed").unlink(missing_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCE / name, FOLDER / name)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=FOLDER,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=240, check=False)
        assert done.returncode == 0, f"npm ci in {FOLDER}:\n{done.stdout}"
        (FOLDER / "installed").write_text(wanted, encoding="ascii")


def run_node(script, *args, timeout=60):
    """Runs a script of test/e2e/node. Returns its output, parsed as JSON."""
    install()
    done = subprocess.run(["node", str(SOURCE / script), *map(str, args)], text=True,
                          env={**_plain(), "NODE_PATH": str(FOLDER / "node_modules")},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=env.patience(timeout), check=False)
    assert done.returncode == 0, f"{script}:\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def _plain():
    """Returns the environment without the variables for weir under a sanitizer."""
    return {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
