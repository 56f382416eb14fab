#!/usr/bin/python3
"""docs/rules.schema.json and the reader of rule files agree on the keys, on every example and fixture, and on
thousands of mutations of them.

A fixture that the schema refuses too has the line `# schema: invalid`. Errors that only the reader can find (a zone
that does not exist, two limits that count alike) have no such line, and are in READER_ONLY.
"""

import copy
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
import yaml

MAPS = {
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
    "WR_IN_COST": "cost",
    "WR_IN_RESERVE": "reserve",
    "WR_IN_ACTUAL": "actual",
    "WR_IN_COUNT": "count",
    "WR_IN_BAN": "ban",
}


MUTATIONS = 3000

# Errors of the reader that a JSON Schema cannot express, each with the reason.
READER_ONLY = {
    "alike_limits": "compares limits of a list by algorithm and period",
    "bad_ban_duration": "a duration has a lower and an upper bound",
    "ban_can_forge": "compares a limit with an entry of requests elsewhere",
    "ban_max_below_for": "compares two durations",
    "ban_of_default": "compares a limit with an entry of requests elsewhere",
    "ban_of_everyone": "compares a limit with an entry of requests elsewhere",
    "ban_of_quota": "compares a limit with a flag of its descriptor",
    "ban_of_shared": "compares a limit with a flag of a descriptor above",
    "ban_of_wide_prefix": "compares a limit with an entry of requests elsewhere",
    "ban_unchecked": "counts the steps of a search",
    "bad_cidr": "an address is more than a pattern of its characters",
    "bad_path": "compares the names of a path's parts, and counts them",
    "bad_max_age": "a duration has a lower and an upper bound",
    "bad_max_hold": "a duration has a lower and an upper bound",
    "bad_duration": "a sum of parts has an upper bound",
    "bad_size": "a number with a unit has an upper bound",
    "cidr_host_bits": "needs arithmetic on addresses",
    "default_above_max": "compares two numbers",
    "descriptors_too_deep": "counts levels of a recursive definition",
    "duplicate_descriptor": "compares key and value of descriptors among siblings",
    "replaces_itself": "compares a name with names in a list beside it",
    "settles_leaky": "compares an entry of requests with limits elsewhere",
    "shield_without_address": "compares a limit with an entry of requests elsewhere",
    "soft_ceiling": "needs the product of two numbers",
    "text_too_long": "counts bytes, not characters",
    "unknown_part": "compares a source with the parts of a path elsewhere",
    "unknown_timezone": "depends on the zones of the machine",
    "zero_byte": "a pattern for it would stand at every text",
    "unusable_limit": "needs arithmetic on limit and period",
}

# Warnings of the reader that are errors in the schema: envoyproxy/ratelimit accepts such a file, so the reader must
# accept it too, but an editor should mark the location.
SCHEMA_REFUSES = {"?idle_key", "?unlimited_number"}

VALUES = [None, True, False, 0, 1, -1, 7, 2**32 - 1, 2**32, 1.5, "", "x", "7", "5m", "1h30m", "0s", "m5", "10%", "101%", "1000%",
          "20", "1.23456%", "second", "Minute", "day", "month", "strict", "lease", "defer", "soft", "deny", "share", "token_bucket",
          "leaky_bucket", "sliding_window_log", "UTC", "../x", "/v1/*", "/users/{id}", "/a//b", "/a?b", "/a/../b", "/%41", "/a*",
          "/{a}/{a}", "v1", "*.example.com", "example.com:80", "exa mple", "[::1]", "example.com.", "10.0.0.0/8", "10.0.0.1/8",
          "::1", "10.0.0.0/33", "header.x", "header.", "header.a b", "query.q", "cookie.c", "path", "path.id", "remote_address",
          "masked_remote_address", "GET", "G T", "connection", "Transfer-Encoding", "x-a", "64K", "17M", "1G", "text/plain",
          "plain", [], {}, ["x"], [None], ["GET", "POST"], [{"name": "x"}], [{}], {"x": 1}, ["10.0.0.0/8", "::1"],
          401, "5xx", "6xx", "reserved", "request.bytes", "response.bytes", "response.json./a", "response.json.a",
          {"from": "header.x"}, {"from": "response.bytes"}, {"reserve": 5, "actual": {"from": "response.bytes"}},
          {"after": 5, "for": "10m"}, {"status": [401, "4xx"]}, {"except": "5xx"}, {"concurrent": 2, "max_hold": "1m"},
          {"unit": "minute", "requests_per_unit": 5}, [{"key": "k", "value": "v"}], [{"key": "k", "from": "path"}]]


def spots_of(node):
    """Yields every (container, key or index) of a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for at, value in items:
        yield node, at
        yield from spots_of(value)


def mutate(document, keys, rng):
    """Makes one or two random changes: another value or name, an additional or missing key, or an item twice."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2])):
        spots = list(spots_of(document))
        if not spots:
            break
        holder, at = rng.choice(spots)
        kind = rng.choice(["value", "value", "value", "add", "add", "drop", "rename", "twice"])
        if kind == "value":
            holder[at] = copy.deepcopy(rng.choice(VALUES))
        elif kind == "drop":
            del holder[at]
        elif isinstance(holder, list):
            holder.insert(at, copy.deepcopy(holder[at]))
        elif kind == "rename":
            holder[rng.choice(keys)] = holder.pop(at)
        else:
            holder[rng.choice(keys)] = copy.deepcopy(rng.choice(VALUES))
    return document


def without_nulls(node):
    """Removes keys with the value null, which are absent for the reader, but which the schema may refuse. In a list,
    the reader takes null as a text."""
    if isinstance(node, dict):
        return {key: without_nulls(value) for key, value in node.items() if value is not None}
    return ["null" if item is None else without_nulls(item) for item in node] if isinstance(node, list) else node


def compare_mutations(validator, documents, keys, judge, seed):
    """Compares the schema and the reader on mutated files. They may differ only in READER_ONLY errors."""
    rng = random.Random(seed)
    mutants = [mutate(rng.choice(documents), keys, rng) for _ in range(MUTATIONS)]
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{i}.yaml") for i in range(len(mutants))]
        for path, mutant in zip(paths, mutants):
            Path(path).write_text(yaml.safe_dump(mutant, sort_keys=False))
        verdicts = subprocess.run([judge], input="\n".join(paths) + "\n", check=True, capture_output=True,
                              text=True).stdout.split("\n")[:-1]
    wrong, refused = [], 0
    for mutant, line in zip(mutants, verdicts):
        words = set(line.split())
        errors = {word for word in words if word[0] != "?"}
        fault = next(iter(validator.iter_errors(mutant)), None)
        takes_bare = fault is not None and validator.is_valid(without_nulls(mutant))
        refused += bool(errors)
        if fault is None and errors - set(READER_ONLY):
            wrong.append(f"the schema takes it, the reader says {line}: {mutant}")
        elif fault is not None and not takes_bare and not errors and not words & SCHEMA_REFUSES:
            wrong.append(f"the reader takes it, the schema says {fault.message[:200]} at {list(fault.path)}: {mutant}")
    assert len(verdicts) == MUTATIONS and MUTATIONS / 5 < refused < MUTATIONS, (len(verdicts), refused)
    return wrong


def check_keys(schema, dump):
    """Checks that the schema and the reader have the same keys in the same maps."""
    reader = {}
    for line in subprocess.run([dump], check=True, capture_output=True, text=True).stdout.split("\n"):
        if line:
            kind, key = line.split(" ")
            reader.setdefault(kind, set()).add(key)
    assert set(reader) == set(MAPS), reader.keys()
    for kind, name in MAPS.items():
        known = set((schema["$defs"][name] if name else schema)["properties"])
        assert known == reader[kind], (kind, known ^ reader[kind])
    return sum(map(len, reader.values())), sorted(set().union(*reader.values()))


def verdict(validator, path):
    """Returns whether the schema accepts the file, or None if the file is not YAML."""
    try:
        document = next(yaml.safe_load_all(path.read_bytes()), None)
    except (yaml.YAMLError, TypeError):
        return None
    return next(iter(validator.iter_errors(document)), None) is None


def main():
    root, dump, judge = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    schema = json.loads((root / "docs/rules.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    count, keys = check_keys(schema, dump)
    documents = []

    wrong = []
    files = sorted((root / "examples/rules").glob("*.yaml"))
    assert files
    for path in files:
        if not verdict(validator, path):
            wrong.append(f"{path.name}: an example the schema refuses")
        documents.append(yaml.safe_load(path.read_bytes()))
    fixtures = sorted((root / "test/rules/fixtures").glob("**/*.yaml"))
    assert len(fixtures) > 50
    for path in fixtures:
        if not path.exists() or path.name.startswith("yaml_"):
            continue  # a link to nowhere; faults of YAML itself, loops of aliases among them
        expected = b"# schema: invalid\n" not in path.read_bytes()
        got = verdict(validator, path)
        if got is not None and got != expected:
            wrong.append(f"{path.name}: the schema says {'valid' if got else 'invalid'}")
        if got is not None and path.stat().st_size < 10000:
            documents.append(next(yaml.safe_load_all(path.read_bytes()), None))
    documents = [d for d in documents if isinstance(d, dict)]
    seed = int(os.environ.get("WEIR_SEED", "16"))
    wrong += compare_mutations(validator, documents, keys, judge, seed)
    print("\n".join(wrong) or f"{count} keys, {len(files)} examples, {len(fixtures)} fixtures and "
          f"{MUTATIONS} mutations agree")
    return 1 if wrong else 0


sys.exit(main())
