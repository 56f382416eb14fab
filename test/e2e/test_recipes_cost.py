"""The recipes of docs/cost.md: the rules, commands and outputs of the page are run and compared as they stand there."""

import re
import shlex
import subprocess

import pytest

from weirtest import ROOT, WEIR, Client, connect, count_statuses, fetch, free_port, programs, send_at_once, wait_for
from weirtest.gateway import Gateway

PAGE = (ROOT / "docs/cost.md").read_text(encoding="utf-8")
CHAT = "/v1/chat/completions"


def blocks(heading):
    """Returns the code blocks below a heading of the page: [(language, text)]."""
    section = re.search(rf"^### {heading}\n(.*?)(?=^### |\Z)", PAGE, re.M | re.S)[1]
    return re.findall(r"^```(\w+)\n(.*?)^```$", section, re.M | re.S)


def without_comments(text):
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


class Recipe(Gateway):
    """Starts the two programs of a recipe as the page does, on free ports and with a table of its own. nginx has one
    worker. It settles a request before it reads the next one, so the numbers do not depend on the scheduler."""

    def __init__(self, heading, folder):
        (_, self.rules_shown), (_, start), *tries = blocks(heading)
        server, gateway = start.splitlines()
        self.server_port = free_port()
        super().__init__(self.server_port)
        self.server_line = server
        self.gateway_line = gateway
        self.examples = ROOT / "examples" / folder
        # Each command, and the output that the comment below it shows.
        self.tries = [(command, output) for _, text in tries
                      for command, output in re.findall(r"((?:^[^#].*\n)+)# (.*)\n", text, re.M)]
        self.server = None

    def local(self, text):
        """Replaces the ports of the page by those of the test, and relative paths by absolute ones."""
        text = text.replace(":8080", f":{self.port}").replace("9000", str(self.server_port))
        return text.replace("examples/", f"{ROOT}/examples/")

    def __enter__(self):
        words = shlex.split(self.local(self.server_line.removesuffix(" &")))
        assert words[0] == "python3"
        self.server = programs.start(["/usr/bin/python3", "-B", *words[1:]])
        try:
            wait_for(self.answers, "the server of the recipe")
            return super().__enter__()
        except BaseException:
            programs.stop(self.server)
            raise

    def answers(self):
        try:
            connect(self.server_port).close()
            return True
        except OSError:
            return False

    def __exit__(self, *exception):
        try:
            super().__exit__(*exception)
        finally:
            programs.stop(self.server)

    def command(self):
        words = shlex.split(self.local(self.gateway_line))
        assert words[0] == "weir"
        return [WEIR, *words[1:], "--runtime", self.runtime, "--table", self.table, "--memory", "1M", "--workers", "1",
                *self.user()]

    def run_try(self, number):
        """Runs a command of the page. Returns its output and the output that the page shows."""
        command, shown = self.tries[number]
        done = subprocess.run(["bash", "-c", self.local(command)], capture_output=True, text=True, timeout=50, check=True)
        return done.stdout.strip(), shown

    def chat(self, **more):
        return fetch(self.port, "POST", CHAT, {"X-Tenant": "other", "Content-Type": "application/json", **more}, BODY)


BODY = b'{"max_tokens": 45, "messages": [{"role": "user", "content": "a prompt of five words"}]}'  # 50 tokens

RECIPES = [("Tokens per tenant", "llm"), ("Failed log-ins", "login"), ("Two reports at a time", "reports")]


@pytest.mark.parametrize("heading, folder", RECIPES)
def test_rules_on_the_page_are_those_of_the_example(heading, folder):
    text = (ROOT / "examples" / folder / "rules.yaml").read_text(encoding="utf-8")
    assert without_comments(blocks(heading)[0][1]) == without_comments(text)


@pytest.mark.parametrize("folder", [folder for _, folder in RECIPES])
def test_rules_of_the_example_have_no_warning(folder):
    done = subprocess.run([WEIR, "check", "--strict", ROOT / "examples" / folder / "rules.yaml"], capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("heading, folder", RECIPES)
def test_each_command_prints_what_the_page_shows(heading, folder, clock):
    """The clock stands still, so the numbers are exact."""
    del clock
    with Recipe(heading, folder) as recipe:
        assert len(recipe.tries) == 3
        for number in range(3):
            printed, shown = recipe.run_try(number)
            assert printed == shown


def tokens_left(answer):
    """Returns the tokens left after the reservation, from a field such as `RateLimit: "tokens";r=800;t=12, …`."""
    return int(re.search(r'"tokens";r=(\d+)', answer.get("ratelimit"))[1])


def test_debt_is_paid_before_the_next_request(clock):
    """After the three commands the tenant has a debt of 300 tokens. 200 tokens can be reserved after exactly 30 s."""
    with Recipe(*RECIPES[0]) as recipe:
        for number in range(3):
            recipe.run_try(number)
        clock.advance(29.9)
        assert recipe.run_try(2)[0] == "429, retry after 1 s"
        clock.advance(0.1)
        assert recipe.run_try(2)[0] == "200, retry after  s"


def test_reservation_is_replaced_by_the_tokens_of_the_answer(clock):
    """Each answer uses 50 of the 200 tokens that it reserves."""
    del clock
    with Recipe(*RECIPES[0]) as recipe:
        answers = [recipe.chat() for _ in range(17)]
        assert [a.status for a in answers] == [200] * 17
        assert [tokens_left(a) for a in answers] == [800 - 50 * n for n in range(17)]
        assert recipe.chat().status == 429  # 150 tokens are left


def test_answer_is_not_compressed_if_its_usage_is_needed(clock):
    """The server compresses if it is asked to. The gateway asks for a plain answer, so 50 tokens are charged."""
    del clock
    with Recipe(*RECIPES[0]) as recipe:
        plain = fetch(recipe.server_port, "POST", CHAT, {"Accept-Encoding": "gzip"}, BODY)
        assert plain.get("content-encoding") == "gzip"
        answers = [recipe.chat(**{"Accept-Encoding": "gzip"}) for _ in range(2)]
        assert [a.get("content-encoding") for a in answers] == [None, None]
        assert [tokens_left(a) for a in answers] == [800, 750]


def test_stream_without_usage_keeps_its_reservation(clock):
    del clock
    with Recipe(*RECIPES[0]) as recipe:
        body = BODY.replace(b'"max_tokens"', b'"stream": true, "max_tokens"')
        streamed = fetch(recipe.port, "POST", CHAT, {"X-Tenant": "other"}, body)
        assert streamed.status == 200 and b"usage" not in streamed.body
        assert tokens_left(recipe.chat()) == 600


def test_failures_at_the_same_time_do_not_exceed_the_limit(clock):
    del clock
    with Recipe(*RECIPES[1]) as recipe:
        sent = send_at_once(recipe.port, [("POST", "/login", {"Content-Length": "14"}, b"password=guess")] * 20)
        assert count_statuses(sent) == {401: 3, 429: 17}


def test_failures_are_forgotten_after_15_minutes(clock):
    with Recipe(*RECIPES[1]) as recipe:
        for number in range(3):
            recipe.run_try(number)
        clock.advance(15 * 60)
        assert recipe.run_try(0)[0] == "200 200 200 200 200"
        assert recipe.run_try(1)[0] == "401 401 401 429"


def slow_request(recipe, number):
    """Sends the header of a request of its own tenant, and one byte of the body."""
    client = Client(recipe.port)
    client.raw(f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nX-Tenant: {number}\r\nContent-Length: 2\r\n\r\n{{".encode())
    return client


def test_one_client_with_slow_bodies_does_not_hold_all_slots():
    """16 of the 64 slots are the share of an address. The body of a slow request never ends."""
    with Recipe(*RECIPES[0]) as recipe:
        clients = [slow_request(recipe, number) for number in range(64)]
        try:
            wait_for(lambda: fetch(recipe.port, "GET", "/").status == 429, "the address to have no slot left")
            assert fetch(recipe.port, "GET", "/", source="127.0.0.2").status == 501  # the API has no GET
            other = fetch(recipe.port, "POST", CHAT, {"X-Tenant": "other"}, BODY, source="127.0.0.2")
            assert other.status == 200
            assert '"everyone/2m";r=47;' in other.get("ratelimit")  # 64 - 16 - 1
        finally:
            for client in clients:
                client.close()
        wait_for(lambda: fetch(recipe.port, "GET", "/").status == 501, "the slots to be free again")


def test_one_address_with_many_users_requests_four_reports():
    with Recipe(*RECIPES[2]) as recipe:
        sent = send_at_once(recipe.port, [("GET", "/reports/sales", {"X-User-Id": str(n)}, None) for n in range(10)])
        assert count_statuses(sent) == {200: 4, 429: 6}


def test_example_llm_starts_both_programs():
    """The script starts the two programs that the page starts, in the folder of the example."""
    script = (ROOT / "examples/llm/run").read_text(encoding="utf-8")
    server, gateway = blocks(RECIPES[0][0])[1][1].splitlines()
    assert server.replace("python3 examples/llm/", "/usr/bin/python3 -B ") in script
    assert gateway.replace("weir ", '"$weir" ', 1).replace("examples/llm/", "") + " &" in script
