"""docs/tuning.md: every command of the page is run, in the order of the page, and its output is that of the page."""

import re
import shlex
import subprocess

import pytest

from weirtest import ROOT, WEIR, connect, free_port, programs, wait_for
from weirtest.gateway import Gateway

PAGE = (ROOT / "docs/tuning.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
COMMANDS = [text for language, text in BLOCKS if language == "sh"]


@pytest.fixture(scope="module", name="folder")
def make_folder(tmp_path_factory):
    """A folder in which the examples and weir are found as on the page."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "weir").symlink_to(WEIR)
    return folder


def run(folder, text):
    """Runs a command of the page. Returns its output."""
    text = text.replace("python3 ", "/usr/bin/python3 ").replace("weir ", f"{folder}/weir ", 1)
    done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, (text, done.stdout, done.stderr)
    return done.stdout


def assert_shown(shown, printed):
    """Asserts that the lines of a block of the page are in the output, in order and together. `…` stands for any
    lines."""
    at = 0
    for part in re.split(r"^…\n", shown, flags=re.M):
        if part.strip():
            found = printed.find(part, at)
            assert found >= 0, f"not in the output:\n{part}\nthe output:\n{printed[at:]}"
            at = found + len(part)


def test_commands_and_outputs(folder):
    """The blocks up to the gateway. A block without a language shows a part of what was printed before it."""
    printed = ""
    for language, text in BLOCKS:
        if language == "sh" and "gateway" in text:
            break
        if language == "sh":
            outputs = [run(folder, line) for line in text.splitlines()]
            printed = "".join(outputs) if any(outputs) else printed
        elif language == "yaml":
            assert_shown(text, (folder / "tuned.yaml").read_text(encoding="utf-8"))
        else:
            assert_shown(text, printed)
    else:
        pytest.fail("the page has no gateway")
    for name in ("tuning-all.svg", "tuning-usual.svg"):
        assert (folder / name).read_bytes() == (ROOT / "docs" / name).read_bytes(), f"docs/{name} is out of date"
    assert (folder / "tune.html").read_text(encoding="utf-8").count("<svg") == 13


class PageGateway(Gateway):
    """Starts the API server and the gateway as the page does, on free ports and with a table of its own. The rules are
    in the gateway's folder, which nginx can read."""

    def __init__(self, rules, block):
        server, self.line = block.splitlines()
        self.server_port = free_port()
        super().__init__(self.server_port, rules=rules)
        self.server = programs.start(["/usr/bin/python3", "-B", *self.local(server.removesuffix(" &"))[1:]])
        wait_for(self.answers, "the server of the page")

    def local(self, text):
        text = text.replace(":8080", f":{self.port}").replace("9000", str(self.server_port))
        return shlex.split(text.replace("examples/", f"{ROOT}/examples/"))

    def answers(self):
        try:
            connect(self.server_port).close()
            return True
        except OSError:
            return False

    def command(self):
        words = [str(self.rules) if word == "shop.yaml" else word for word in self.local(self.line)]
        return [WEIR, *words[1:], "--runtime", self.runtime, "--table", self.table, "--memory", "1M",
                "--workers", "1", *self.user()]

    def __exit__(self, *exception):
        try:
            super().__exit__(*exception)
        finally:
            programs.stop(self.server)


def test_shadow_mode_and_enforcement(folder, clock):
    """The clock stands still, so no token flows in."""
    del clock
    start, shadow, edit, refused, from_table = COMMANDS[-5:]
    run(folder, COMMANDS[0].splitlines()[0])
    run(folder, next(text for text in COMMANDS if "--shadow" in text).splitlines()[0])
    with PageGateway((folder / "shop.yaml").read_text(encoding="utf-8"), start) as gateway:
        for text in (shadow, None, refused):
            if text is None:
                run(folder, edit.replace("shop.yaml", str(gateway.rules)))
                wait_for(lambda: gateway.request("POST", "/login").status == 429, "the changed rules")
                continue
            command, shown = re.fullmatch(r"(.*)\n# (.*)\n", text).groups()
            assert run(folder, command.replace(":8080", f":{gateway.port}")).strip() == shown
        run(folder, from_table.strip() + f" --table {gateway.table}")
