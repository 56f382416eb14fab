"""The HTML pages of the lab in a real browser: their plots have pixels, and no request leaves a page."""

import re
import subprocess

import pytest

from weirtest import WEIR, env, needs
from weirtest.browser import Browser

SHOTS = env.BUILD / "report-pages"
SAMPLE = env.BUILD / "test/lab/lab_sample_page"

pytestmark = needs("npm")

# For each series of each plot: its name, its colour, the class of its path or the name of its first element, and the
# coordinates of a path.
SERIES = """
[...document.querySelectorAll('svg.plot')].map((plot) => [...plot.querySelectorAll('g.series')].map((group) => {
  const name = [...group.children].find(({localName}) => localName === 'title');
  const shape = group.querySelector('path, rect, circle');
  return [name?.textContent, getComputedStyle(group).color, shape?.getAttribute('class') ?? shape?.localName,
          shape?.getAttribute('d')];
}))
"""


@pytest.fixture(name="browser", scope="module")
def start_browser():
    SHOTS.mkdir(exist_ok=True)
    with Browser() as browser:
        yield browser


RULES = """\
domain: api
requests:
  - descriptor: [{key: agent, from: header.user-agent}]
descriptors:
  - key: agent
    rate_limit: {unit: minute, requests_per_unit: 10}
"""

SCENARIO = """\
title: "TITLE"
limit: {requests_per_unit: 100, unit: second}
modes: [local, eventual]
nodes: 3
clients: 1
duration: 5s
traffic:
  - {kind: steady, rate: 400/s}
"""


def colour_of(css):
    """Returns (red, green, blue) of `rgb(…)`."""
    return [int(number) for number in re.findall(r"\d+", css)[:3]]


def check_plots(browser):
    """Asserts that every series of every plot has pixels of its colour. Returns the number of plots."""
    plots = browser.js(SERIES)
    for index, series in enumerate(plots):
        assert series, f"plot {index} has no series"
        # An area is transparent, and its pixels mix with the ground. An equal line that is drawn later hides a line.
        lines = [one for at, one in enumerate(series)
                 if one[2] != "area" and not (one[3] and one[3] in [later[3] for later in series[at + 1:]])]
        counts = browser.pixels("svg.plot", index, [colour_of(colour) for _, colour, _, _ in lines])
        for (name, colour, kind, _), count in zip(lines, counts):
            # The legend alone has up to 24 pixels of a line, and 160 of a bar.
            assert count > (200 if kind == "rect" else 40), (index, name, colour, kind, count)
    return len(plots)


def check_page(browser, path, **options):
    """Opens a page, and asserts that its plots are drawn and that it asks for nothing. Returns the number of plots."""
    browser.open(f"file://{path}", **options)
    plots = check_plots(browser)
    assert browser.noise() == []
    assert browser.js("document.querySelectorAll('script, link, img, iframe, object, [src], [href], [onload]').length") == 0
    assert browser.js("performance.getEntriesByType('resource').length") == 0
    return plots


@pytest.fixture(name="sample")
def write_sample(api, tmp_path):
    """A page with all elements, and texts that refer to the API server."""
    path = tmp_path / "sample.html"
    subprocess.run([SAMPLE, path, f"http://127.0.0.1:{api.port}"], check=True)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sample(browser, sample, api, scheme):
    assert check_page(browser, sample, colorScheme=scheme) == 3
    browser.shot(SHOTS / f"sample-{scheme}.png", full=True)
    assert browser.axe() == []
    assert browser.js("document.title") == 'A sample & its "title"'
    assert f"http://127.0.0.1:{api.port}/script" in browser.text()
    assert api.count() == 0


def test_sample_without_network(browser, sample):
    assert check_page(browser, sample, offline=True) == 3


def test_sample_on_a_phone(browser, sample):
    browser.open(f"file://{sample}", viewport={"width": 390, "height": 844})
    assert browser.js("document.documentElement.scrollWidth") == 390  # wide plots and tables scroll in their own boxes
    browser.shot(SHOTS / "sample-phone.png", full=True)


def test_the_policy_forbids_scripts(browser, sample):
    """The policy of the page forbids everything except its style, even if a text were not escaped."""
    text = sample.read_text(encoding="utf-8")
    sample.write_text(text.replace("</h1>", "</h1><script>document.title = 'attacked'</script>", 1), encoding="utf-8")
    browser.open(f"file://{sample}")
    assert browser.js("document.title") == 'A sample & its "title"'
    assert any("Content Security Policy" in line for line in browser.noise())


@pytest.mark.parametrize("with_policy", [True, False], ids=["with-policy", "without-policy"])
@pytest.mark.parametrize("element", ["<img src='{}/a'>", "<link rel=stylesheet href='{}/a'>",
                                     "<style>body{{background:url({}/a)}}</style>", "<script src='{}/a'></script>"],
                         ids=["img", "link", "style", "script"])
def test_remote_references_are_found(browser, sample, api, element, with_policy):
    """check_page() would find a request of a page. With the policy, no request is sent."""
    text = sample.read_text(encoding="utf-8")
    text = text.replace("</h1>", "</h1>" + element.format(f"http://127.0.0.1:{api.port}"), 1)
    if not with_policy:
        text, changed = re.subn("<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", text)
        assert changed == 1
    sample.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError):
        check_page(browser, sample)
    assert api.count() == (0 if with_policy else 1)


def test_empty_plots_are_found(browser, sample):
    """check_plots() would find a series without pixels."""
    text = sample.read_text(encoding="utf-8")
    path, changed = re.subn(r'(<g class="series c2"><title>refused</title>\n<path class="line") d="[^"]*"', r'\1 d=""', text)
    assert changed == 1
    sample.write_text(path, encoding="utf-8")
    with pytest.raises(AssertionError, match="'refused'"):
        check_page(browser, sample)


@pytest.fixture(name="log")
def write_log(api, tmp_path):
    """An hour of requests by twelve agents, whose names refer to the API server in several ways. Agent N sends N + 1
    requests at once, every half minute, and more of them in the second half of the hour."""
    url = f"http://127.0.0.1:{api.port}"
    agents = [f"agent-{i}" for i in range(8)] + [
        f"<img src='{url}/img'>", f"</title><script src='{url}/script'></script>", f"<link href='{url}/link'>",
        f"</style><style>@import '{url}/import'</style>"]
    path = tmp_path / "access.log"
    with open(path, "w", encoding="ascii") as out:
        for half in range(120):
            stamp = f"01/Mar/2026:12:{half // 2:02}:{half % 2 * 30:02} +0000"
            for number, agent in enumerate(agents):
                for _ in range((number + 1) * (1 + half // 60)):
                    out.write(f'192.0.2.{number} - - [{stamp}] "GET /a HTTP/1.1" 200 17 "-" "{agent}"\n')
    return path


def run_weir(*argv):
    done = subprocess.run([WEIR, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_replay(browser, log, api, tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES, encoding="ascii")
    page = tmp_path / "replay.html"
    run_weir("replay", log, "--rules", tmp_path / "rules.yaml", "--algorithms", "--html", page)
    plots = check_page(browser, page)
    assert plots >= 4  # all requests, those of the limit, refusals per key, algorithms
    browser.shot(SHOTS / "replay.png", full=True)
    assert browser.axe() == []
    assert f"<script src='http://127.0.0.1:{api.port}/script'>" in browser.js("document.body.textContent")
    assert check_page(browser, page, offline=True, colorScheme="dark") == plots
    assert api.count() == 0


def test_tune(browser, log, api, tmp_path):
    page = tmp_path / "tune.html"
    run_weir("tune", log, "--key", "header.user-agent", "--html", page)
    plots = check_page(browser, page)
    assert plots >= 2
    browser.shot(SHOTS / "tune.png", full=True)
    assert browser.axe() == []
    assert check_page(browser, page, offline=True, colorScheme="dark") == plots
    assert api.count() == 0


def test_simulate(browser, api, tmp_path):
    title = f"</title><img src='http://127.0.0.1:{api.port}/img'>"
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO.replace("TITLE", title), encoding="ascii")
    page = tmp_path / "simulate.html"
    run_weir("simulate", scenario, "--html", page)
    plots = check_page(browser, page)
    assert plots >= 2
    browser.shot(SHOTS / "simulate.png", full=True)
    assert browser.axe() == []
    assert browser.js("document.title").startswith("</title><img")
    assert check_page(browser, page, offline=True, colorScheme="dark") == plots
    assert api.count() == 0
