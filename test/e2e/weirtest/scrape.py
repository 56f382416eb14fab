"""/metrics, parsed without weir's code: names, labels and values."""

import re

from .http1 import fetch

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([0-9.e+-]+|\+Inf|NaN)\Z")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|\Z)')
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}


def _unescape(text):
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), text)


def parse(text):
    """Returns {(name, frozenset of labels): value}. AssertionError for an invalid or repeated line."""
    found, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed, f"{name} has two types"
            typed.add(name)
        if line.startswith("#"):
            continue
        match = _LINE.match(line)
        assert match, f"not a sample: {line!r}"
        labels = match[2] or ""
        pairs = _LABEL.findall(labels)
        assert "".join(f'{k}="{v}",' for k, v in pairs).rstrip(",") == labels.rstrip(","), line
        key = (match[1], frozenset((k, _unescape(v)) for k, v in pairs))
        assert key not in found, f"twice: {line}"
        found[key] = float(match[3])
    return found


class Metrics:
    """One scrape. `.value(name, rule="api/user/1y", result="refused")` is the value of the only series with these
    labels; None if there is no such series."""

    def __init__(self, port, headers=()):
        answer = fetch(port, "GET", "/metrics", headers)
        assert answer.status == 200, answer.body
        self.type = answer.get("content-type")
        self.text = answer.body.decode()
        self.samples = parse(self.text)

    def all(self, name, **labels):
        wanted = set(labels.items())
        return {dict(pairs).get("rule", ""): value for (n, pairs), value in self.samples.items()
                if n == name and wanted <= pairs}

    def value(self, name, **labels):
        wanted = set(labels.items())
        values = [v for (n, pairs), v in self.samples.items() if n == name and wanted <= pairs]
        assert len(values) <= 1, f"{name} {labels} is not one series"
        return values[0] if values else None

    def series(self, name=None):
        return sum(1 for n, _ in self.samples if name in (None, n))
