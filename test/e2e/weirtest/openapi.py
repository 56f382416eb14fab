"""docs/openapi.yaml, and checks of responses against it."""

import json
import re

import jsonschema
import yaml

from .env import ROOT

DOCUMENT = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text(encoding="utf-8"))
_resolver = jsonschema.RefResolver("", DOCUMENT)


def _path_of(target):
    """Returns the path of the document that matches a request target."""
    path = target.split("?")[0]
    for template in DOCUMENT["paths"]:
        if re.fullmatch(re.sub(r"\{[a-z]+\}", ".+", template), path):
            return template
    return None


def _follow(node):
    """Returns a part of the document; follows references."""
    while "$ref" in node:
        node = _resolver.resolve(node["$ref"])[1]
    return node


def _validate(value, schema):
    jsonschema.Draft202012Validator(schema, resolver=_resolver).validate(value)


def check_answer(method, target, response):
    """Raises AssertionError or ValidationError if the document does not describe the response."""
    if response.status in (404, 405) and _path_of(target) is None:
        return
    item = DOCUMENT["paths"][_path_of(target)]
    operation = item.get(method.lower()) or item.get("get") or item["post"]
    known = operation["responses"]
    described = _follow(known.get(str(response.status)) or known.get("default") or {})
    assert described or response.status == 405, f"{method} {target}: {response.status} is not in openapi.yaml"
    kind = (response.get("content-type") or "").split(";")[0]
    schema = described.get("content", {}).get(kind, {}).get("schema")
    if response.status == 405 or schema is None or method == "HEAD" or response.get("content-encoding"):
        return
    value = json.loads(response.body) if kind.endswith("json") else response.body.decode()
    _validate(value, schema)


def check_question(target, body):
    """Checks that the document allows this request body."""
    content = DOCUMENT["paths"][target]["post"]["requestBody"]["content"]
    _validate(body, content["application/json"]["schema"])


def routes():
    """Returns {path: methods} from the two lists of routes in the source."""
    found = {}
    for name in ("http", "admin"):
        text = (ROOT / f"src/serve/{name}/{name}.h").read_text(encoding="utf-8")
        for path, methods in re.findall(r'X\("([^"]+)", "([^"]*)", wr_', text):
            found[path] = (name, methods)
    return found
