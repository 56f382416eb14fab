"""The progress of weir replay on a terminal: it stays on one line, and nothing is written to a pipe or a dumb terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time

from weirtest import WEIR, wait_for

RULES = """
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
descriptors:
  - key: ip
    rate_limit: {unit: minute, requests_per_unit: 5}
"""
LINE = b'192.0.2.1 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 10\n'
FEED_S = 0.6  # several updates fall into this time


class Terminal:
    """A terminal that collects what is written to it."""

    def __init__(self, columns):
        self.output = b""
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.reader = threading.Thread(target=self.collect)
        self.reader.start()

    def collect(self):
        while True:
            try:
                piece = os.read(self.master, 4096)
            except OSError:  # the last writer has closed the terminal
                return
            self.output += piece

    def close(self):
        os.close(self.slave)
        self.reader.join()
        os.close(self.master)
        return self.output


def replay(rules, stderr, term, fed):
    """Replays a log that does not end before fed() is true."""
    rules.write_text(RULES, encoding="ascii")
    environment = {**os.environ, "TERM": term, "LC_ALL": "C.UTF-8"}
    with subprocess.Popen([WEIR, "replay", "-", "--rules", rules], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=stderr, env=environment) as process:
        try:
            def feed():
                process.stdin.write(1000 * LINE)
                process.stdin.flush()
                return fed()
            wait_for(feed, "the progress", every=0.001)
            out, err = process.communicate()
        finally:
            process.kill()
    assert process.returncode == 0 and b"admitted" in out
    return err


def after(seconds):
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def test_a_narrow_terminal_shows_one_line(tmp_path):
    terminal = Terminal(columns=20)
    try:
        replay(tmp_path / "rules.yaml", terminal.slave, "xterm", lambda: terminal.output.count(b"\r") >= 3)
    finally:
        output = terminal.close()
    assert b"\n" not in output
    lines = output.split(b"\r")
    assert lines[0] == b"" and lines[-1] == b"\x1b[K"
    for line in lines[1:-1]:
        assert line.endswith(b"\x1b[K") and b"lines" in line and len(line) <= 19 + 3


def test_a_dumb_terminal_shows_nothing(tmp_path):
    terminal = Terminal(columns=80)
    try:
        replay(tmp_path / "rules.yaml", terminal.slave, "dumb", after(FEED_S))
    finally:
        output = terminal.close()
    assert output == b""


def test_a_pipe_gets_nothing(tmp_path):
    assert replay(tmp_path / "rules.yaml", subprocess.PIPE, "xterm", after(FEED_S)) == b""
