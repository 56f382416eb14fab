#!/usr/bin/python3
"""docs/rules.schema.json and the reader agree: on the keys, and on every example and fixture.

A fixture that the schema refuses as well says so: `# schema: invalid`. What only the reader can
know (that a zone does not exist, that two limits count alike) has no such line.
"""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import yaml

PLACES = {
    "WR_IN_ROOT": None,
    "WR_IN_DESCRIPTOR": "descriptor",
    "WR_IN_LIMIT": "limit",
    "WR_IN_REPLACES": "replaces",
    "WR_IN_CANDIDATE": "candidate",
    "WR_IN_SOFT": "soft",
    "WR_IN_RESPONSE": "response",
    "WR_IN_REQUEST": "request",
    "WR_IN_WHEN": "when",
    "WR_IN_PART": "part",
    "WR_IN_DEFER": "defer",
}


def check_keys(schema, dump):
    """Every key of the reader is in the schema at the same place, and the other way round."""
    reader = {}
    for line in subprocess.run([dump], check=True, capture_output=True, text=True).stdout.split("\n"):
        if line:
            place, key = line.split(" ")
            reader.setdefault(place, set()).add(key)
    assert set(reader) == set(PLACES), reader.keys()
    for place, name in PLACES.items():
        known = set((schema["$defs"][name] if name else schema)["properties"])
        assert known == reader[place], (place, known ^ reader[place])
    return sum(map(len, reader.values()))


def verdict(validator, path):
    """None: not YAML at all, so not for the schema to judge."""
    try:
        document = next(yaml.safe_load_all(path.read_bytes()), None)
    except (yaml.YAMLError, TypeError):
        return None
    return next(iter(validator.iter_errors(document)), None) is None


def main():
    root, dump = Path(sys.argv[1]), sys.argv[2]
    schema = json.loads((root / "docs/rules.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    keys = check_keys(schema, dump)

    wrong = []
    files = sorted((root / "examples/rules").glob("*.yaml"))
    assert files
    for path in files:
        if not verdict(validator, path):
            wrong.append(f"{path.name}: an example the schema refuses")
    fixtures = sorted((root / "test/rules/fixtures").glob("**/*.yaml"))
    assert len(fixtures) > 50
    for path in fixtures:
        if not path.exists() or path.name.startswith("yaml_"):
            continue  # a link to nowhere; faults of YAML itself, loops of aliases among them
        expected = b"# schema: invalid\n" not in path.read_bytes()
        got = verdict(validator, path)
        if got is not None and got != expected:
            wrong.append(f"{path.name}: the schema says {'valid' if got else 'invalid'}")
    print("\n".join(wrong) or f"{keys} keys, {len(files)} examples, {len(fixtures)} fixtures agree")
    return 1 if wrong else 0


sys.exit(main())
