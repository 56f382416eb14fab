"""A program in a terminal whose screen can be read: tmux with its own server."""

import os
import shlex
import subprocess

from . import clock, env, programs
from .env import patience
from .waiting import wait_for


class Terminal:
    """`with Terminal(["weir", "top"], columns=100, lines=30) as terminal:` and then `.screen()`, `.press("q")`,
    `.wait_shown("text")`, `.resize(80, 24)`. When the program has ended its exit code is shown as
    "ended: 0". `before` comes before the program in the shell's command line, for example LC_ALL=C."""

    def __init__(self, argv, columns=100, lines=30, before="LC_ALL=C.UTF-8"):
        self.folder = programs.temp_folder("tmux")
        self.size = (columns, lines)
        command = " ".join(shlex.quote(str(a)) for a in [*self._clock(), *argv])
        # The shell keeps running, so that the screen after the program's exit can be read.
        self.command = f"{before} {command}; echo ended: $?; exec cat"

    @staticmethod
    def _clock():
        """Returns the words that pass on the test's clock, if one is in use."""
        if not clock.current:
            return []
        variables = clock.current.variables({}, sanitized=env.WRAP == "asan")
        return ["env", *(f"{name}={value}" for name, value in variables.items())]

    def _tmux(self, *args):
        return subprocess.run(["tmux", "-S", f"{self.folder}/socket", "-f", "/dev/null", *args], text=True,
                              capture_output=True, check=True, timeout=patience(20),
                              env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"}).stdout

    def __enter__(self):
        columns, lines = map(str, self.size)
        # With -D the server stays in the foreground, so that the cleanup covers it.
        self.server = programs.start(["tmux", "-S", f"{self.folder}/socket", "-f", "/dev/null", "-D"],
                                   env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"})
        wait_for(lambda: os.path.exists(f"{self.folder}/socket"), "tmux")
        self._tmux("new-session", "-d", "-x", columns, "-y", lines, self.command)
        return self

    def __exit__(self, *_):
        try:
            self._tmux("kill-server")
        finally:
            programs.stop(self.server)
            programs.remove_folder(self.folder)

    def screen(self):
        return self._tmux("capture-pane", "-p")

    def coloured(self):
        """Returns the screen with the codes for bold and inverse."""
        return self._tmux("capture-pane", "-p", "-e")

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def resize(self, columns, lines):
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def wait_shown(self, text, seconds=20):
        """Waits for a text, or for a condition on the screen. Returns the screen."""
        shown = text if callable(text) else (lambda screen: text in screen)
        seen = {}

        def is_there():
            seen["screen"] = self.screen()
            return shown(seen["screen"])

        try:
            wait_for(is_there, f"{text!r} on the screen", seconds, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows\n{seen['screen']}") from None
        return seen["screen"]
