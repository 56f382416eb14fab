"""Clients for Node.js: what test/e2e/node/package.json names, installed once per build folder."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess

from . import env

SOURCE = env.ROOT / "test/e2e/node"
FOLDER = env.BUILD / "node"


def install():
    """By the lock file, in BUILD/node; again when that has changed."""
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()
        stamp = FOLDER / "installed"
        if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
            return
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCE / name, FOLDER / name)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=FOLDER,
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=240, check=False)
        assert done.returncode == 0, f"npm ci in {FOLDER}:\n{done.stdout}"
        stamp.write_text(wanted, encoding="ascii")


def run_node(script, *args, timeout=60):
    """Runs a script of test/e2e/node; what it prints, read as JSON."""
    install()
    done = subprocess.run(["node", str(SOURCE / script), *map(str, args)], text=True,
                          env={**_plain(), "NODE_PATH": str(FOLDER / "node_modules")},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=env.patience(timeout), check=False)
    assert done.returncode == 0, f"{script}:\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def _plain():
    """The environment without what is meant for weir under a sanitizer."""
    return {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
