"""Debian's Chromium, controlled through playwright-core in its own Node.js process."""

import json
import os
import subprocess
import urllib.parse

from . import env, programs, node, tokens
from .waiting import wait_for


class Browser:
    """`with Browser() as browser: browser.open("http://127.0.0.1:9099/")`. One page at a time.

    .open(url, **options)     a new page, without cookies or storage; options as in browser.newContext
    .click, .fill, .press     by selectors of playwright ("text=Ban…", "role=button[name='Ban…']")
    .js(code)                 the value of an expression in the page
    .until(code, what)        waits until the expression is true
    .noise()                  the errors of the page, and its requests to other origins
    """

    def __enter__(self):
        node.install()
        variables = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        self.process = programs.start(["node", str(node.SOURCE / "browser.js")], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True,
                                    env={**variables, "NODE_PATH": str(node.FOLDER / "node_modules")})
        self._ask("launch")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(env.patience(10))
        except subprocess.TimeoutExpired:
            pass
        programs.stop(self.process)

    def _ask(self, op, **more):
        """Sends a command to the browser's process and returns its result."""
        self.process.stdin.write(json.dumps({"op": op, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the browser ended at {op} {more}"
        answer = json.loads(line)
        assert "error" not in answer, f"{op} {more}: {answer['error']}"
        return answer["value"]

    def open(self, url, origin=None, **options):
        """Opens the page, signed in if the service created a token at its start."""
        token = tokens.of(urllib.parse.urlsplit(url).port)
        if not token or "#token=" in url:
            self._open(url, origin, options)
            return
        self._open("/".join(url.split("/")[:3]) + f"/#token={token}", origin, options)
        self.until("location.hash === '#/'", "the token to be taken from the address")
        self.goto("about:blank")  # otherwise an address that differs only in its fragment would not be loaded
        self.goto(url)

    def _open(self, url, origin, options):
        self._ask("open", url=url, origin=origin if origin is not None else "/".join(url.split("/")[:3]), options=options)

    def goto(self, url):
        self._ask("goto", url=url)

    def click(self, selector):
        self._ask("click", selector=selector)

    def fill(self, selector, text):
        self._ask("fill", selector=selector, text=text)

    def select(self, selector, value):
        self._ask("select", selector=selector, value=value)

    def press(self, *keys):
        self._ask("press", keys=keys)

    def type(self, text):
        self._ask("type", text=text)

    def js(self, code):
        return self._ask("evaluate", code=code)

    def frame(self, index, code):
        """Returns the value of an expression in a frame of the page."""
        return self._ask("frame", index=index, code=code)

    def until(self, code, what, seconds=20):
        wait_for(lambda: self.js(code), what, seconds)

    def text(self, selector="main"):
        """Returns the visible text of an element."""
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def until_text(self, text, selector="main", seconds=20):
        """Waits until an element shows this text."""
        where, wanted = json.dumps(selector), json.dumps(text)
        self.until(f"(document.querySelector({where})?.innerText ?? '').includes({wanted})", f"{selector} to say {text!r}", seconds)

    def offline(self, on):
        """Disconnects the browser from the network, or connects it again."""
        self._ask("offline", on=on)

    def size(self, width, height):
        self._ask("size", width=width, height=height)

    def media(self, **options):
        self._ask("media", options=options)

    def shot(self, path, full=False):
        """Writes a picture of the page, or of its whole length with `full`."""
        self._ask("shot", path=str(path), full=full)

    def pixels(self, selector, index, colours):
        """Returns how many pixels of an element are nearly of each colour. A colour is (red, green, blue)."""
        return self._ask("pixels", selector=selector, index=index, colours=colours)

    def axe(self):
        """Returns the serious accessibility faults that axe-core finds."""
        return self._ask("axe")

    def noise(self):
        return self._ask("noise")
