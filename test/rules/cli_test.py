#!/usr/bin/python3
"""weir check and weir explain as people and programs call them: texts, JSON and exit codes."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

WEIR, ROOT = sys.argv.pop(1), Path(sys.argv.pop(1))
FIXTURES = ROOT / "test/rules/fixtures"
EXAMPLES = ROOT / "examples/rules"


def weir(*args, cwd=FIXTURES):
    done = subprocess.run([WEIR, *map(str, args)], cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Check(unittest.TestCase):
    def test_fine(self):
        code, out, err = weir("check", EXAMPLES)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "ok: 15 domains, 30 descriptors, 26 limits, 20 entries of requests\n")

    def test_singular_and_plural(self):
        self.assertEqual(weir("check", "fine_merge_key.yaml"),
                         (0, "ok: 1 domain, 2 descriptors, 2 limits, 0 entries of requests\n", ""))
        self.assertEqual(weir("check", "unlimited_number.yaml")[1],
                         "ok: 1 domain, 1 descriptor, 1 limit, 0 entries of requests\n")

    def test_error_with_line_and_caret(self):
        code, out, err = weir("check", "unknown_key_guess.yaml")
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(err, (
            "unknown_key_guess.yaml:7:7: error: unknown key 'untis' in a limit; did you mean `unit`?\n"
            "          untis: minute\n"
            "          ^~~~~\n"
            "1 error, 0 warnings\n"))

    def test_all_errors_of_all_paths(self):
        code, _, err = weir("check", "bad_path.yaml", "bad_cidr.yaml", "fine_nulls.yaml")
        self.assertEqual(code, 1)
        self.assertIn("11 errors, 0 warnings\n", err)

    def test_warning_is_no_error_unless_strict(self):
        code, out, err = weir("check", "idle_flag.yaml")
        self.assertEqual(code, 0)
        self.assertIn("warning: `shadow_mode` has no effect without a limit in this descriptor; "
                      "add a limit or remove the key\n", err)
        self.assertIn("ok: 1 domain", out)
        self.assertEqual(weir("check", "--strict", "idle_flag.yaml")[0], 1)

    def test_json(self):
        code, out, err = weir("check", "--json", "two_spans.yaml", "yaml_syntax_utf8.yaml")
        report = json.loads(out)
        self.assertEqual((code, err, report["usable"]), (1, "", False))
        self.assertEqual(report["files"][0]["diagnostics"], [{
            "severity": "error", "id": "two_spans", "file": "two_spans.yaml", "line": 9, "column": 7,
            "width": 6, "message": "`period` and `unit` exclude each other; remove one"}])
        report = json.loads(weir("check", "--json", EXAMPLES)[1])
        self.assertTrue(report["usable"])
        self.assertEqual(report["files"][0]["limits"], 26)
        self.assertRegex(report["files"][0]["hash"], "^[0-9a-f]{16}$")

    def test_usage(self):
        self.assertEqual(weir("check")[0], 2)
        self.assertEqual(weir("check", "--nonsense", "x")[0], 2)
        self.assertEqual(weir("nonsense")[0], 2)
        self.assertEqual(weir()[0], 2)
        self.assertEqual(weir("check", "/nowhere")[0], 1)
        for command in ([], ["check"], ["explain"]):
            code, out, err = weir(*command, "--help")
            self.assertEqual((code, err), (0, ""))
            self.assertIn("weir", out)


class Explain(unittest.TestCase):
    def test_descriptor(self):
        code, out, err = weir("explain", "--rules", "10-messaging.yaml", "messaging",
                              "message_type=marketing", cwd=EXAMPLES)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, (
            "domain         messaging\n"
            "descriptor     message_type=marketing\n"
            "  message_type=marketing\n"
            "    this value   messaging/message_type=marketing (10-messaging.yaml:7)  <- used\n"
            "  rule         messaging/message_type=marketing (10-messaging.yaml:7)\n"
            "  limit        5 per day, fixed_window\n"
            "  counter      message_type=marketing\n"))

    def test_request(self):
        code, out, _ = weir("explain", "--rules", "12-users-addresses-devices.yaml", "--http",
                            "POST /v1//posts/", "-H", "X-User-Id: 7", "--from", "192.0.2.9",
                            cwd=EXAMPLES)
        self.assertEqual(code, 0)
        self.assertIn("post=7 (from header.x-user-id)", out)
        self.assertIn("post_address=192.0.2.9", out)
        self.assertIn("2 per second, token_bucket", out)

    def test_what_was_passed_over(self):
        code, out, _ = weir("explain", "--rules", "unreachable_rule.yaml", "d", "k=foobar")
        self.assertEqual(code, 0)
        self.assertIn("not used     d/k=foobar*", out)
        self.assertIn("would match, but another rule has priority", out)

    def test_nothing_applies(self):
        rules = EXAMPLES / "17-allow-list.yaml"
        code, out, _ = weir("explain", "--rules", rules, "--http", "GET /", "--from", "10.0.0.1")
        self.assertEqual(code, 1)
        self.assertIn("no rule of this domain limits the request", out)
        code, out, _ = weir("explain", "--rules", rules, "nowhere", "a=b")
        self.assertEqual(code, 1)
        self.assertIn("no domain has this name, so nothing is limited", out)

    def test_denied(self):
        code, out, _ = weir("explain", "--rules", EXAMPLES, "--http", "POST /v1/rewards/1", "social")
        self.assertEqual(code, 0)
        self.assertIn("a required value is missing or ambiguous", out)

    def test_json(self):
        code, out, _ = weir("explain", "--json", "--rules", EXAMPLES, "--http", "GET /v1/search",
                            "shop")
        (domain,) = json.loads(out)
        self.assertEqual((code, domain["domain"], domain["allowed"]), (0, "shop", False))
        self.assertEqual([d["rule"]["path"] for d in domain["descriptors"]],
                         ["shop/pool=all", "shop/pool=less_important"])
        limit = domain["descriptors"][1]["limits"][0]
        self.assertEqual((limit["id"], limit["requests_per_unit"], limit["stat"]),
                         ("token_bucket/1s", 8000, "shop/pool=less_important/1s"))
        self.assertEqual(domain["descriptors"][0]["steps"][0]["tried"], "exact")

    def explain_cost(self, line, *headers):
        """Returns the lines about the cost of a request, and its object in --json."""
        command = ["explain", "--rules", "fine_costs_explained.yaml", "--identity", "joe", "--http", line]
        for header in headers:
            command += ["-H", header]
        code, out, err = weir(*command)
        self.assertEqual((code, err), (0, ""))
        (domain,) = json.loads(weir(*command, "--json")[1])
        return ([row for row in out.splitlines() if row[:15].strip() in ("cost", "settled by", "counts")],
                domain["descriptors"][0])

    def test_cost(self):
        settled = "  settled by   response.json./usage/total_tokens, default: as reserved"
        for headers, row, units, note in (
                (["X-Max-Tokens: 600"], "600 from header.x-max-tokens", 600, "given"),
                ([], "2000, the default: header.x-max-tokens is missing or not a number", 2000, "default"),
                (["x-max-tokens: 1e9"], "2000, the default: header.x-max-tokens is missing or not a number", 2000,
                 "default"),
                (["x-max-tokens: 16001"], "16000, the maximum: header.x-max-tokens is larger", 16000, "max")):
            rows, walk = self.explain_cost("POST /v1/chat/completions", *headers)
            self.assertEqual(rows, [f"  cost         {row}", settled])
            self.assertEqual(walk["cost"], {
                "units": units, "note": note,
                "source": {"from": "header.x-max-tokens", "default": 2000, "max": 16000},
                "actual": {"from": "response.json./usage/total_tokens", "default": "reserved", "max": 2**32 - 1}})
        self.assertEqual([limit["text"] for limit in walk["limits"]],
                         ["100000 per minute", "20 concurrent requests (max_hold 2m)"])
        self.assertEqual((walk["limits"][1]["concurrent"], walk["limits"][1]["max_hold_ns"]), (20, 120 * 10**9))

    def test_cost_without_settling(self):
        rows, walk = self.explain_cost("PUT /files", "Content-Length: 70")
        self.assertEqual(rows, ["  cost         70 from request.bytes"])
        self.assertEqual(walk["cost"], {"units": 70, "note": "given", "actual": None,
                                        "source": {"from": "request.bytes", "default": 1, "max": 1000}})
        self.assertEqual(self.explain_cost("PUT /files")[0], ["  cost         0 from request.bytes"])
        rows, walk = self.explain_cost("PUT /files", "Transfer-Encoding: chunked")
        self.assertEqual(rows, ["  cost         1000 until the body has been received, then request.bytes"])
        self.assertEqual((walk["cost"]["units"], walk["cost"]["note"]), (1000, "later"))
        rows, walk = self.explain_cost("GET /five")
        self.assertEqual(rows, ["  cost         5"])
        self.assertEqual(walk["cost"], {"units": 5, "note": "given", "actual": None, "source": None})

    def test_count(self):
        rows, walk = self.explain_cost("POST /login")
        self.assertEqual(rows, ["  counts       only if the status is 401 or 403"])
        self.assertEqual(walk["count"], {"status": ["401", "403"]})
        self.assertEqual(walk["cost"]["units"], 1)
        rows, walk = self.explain_cost("GET /reports")
        self.assertEqual(rows, ["  cost         5, reserved", "  settled by   response.time_ms, default 7, at most 900",
                                "  counts       unless the status is 404, 410 or 5xx"])
        self.assertEqual(walk["count"], {"except": ["404", "410", "5xx"]})
        self.assertEqual(walk["cost"]["actual"], {"from": "response.time_ms", "default": 7, "max": 900})
        for rules, row in (("count_everything.yaml", "whatever the status is"),
                           ("count_nothing.yaml", "only if there is no response")):
            self.assertIn(f"\n  counts       {row}\n", weir("explain", "--rules", rules, "--http", "GET /a")[1])

    def test_ban(self):
        args = ("explain", "--rules", EXAMPLES / "25-ban-offenders.yaml", "--http", "GET /v1/x", "--from", "192.0.2.7")
        out = weir(*args)[1]
        self.assertIn("\n  ban          for 10m after 50 refusals within 1m, each further ban 2 times as long, up to "
                      "1d, also by weir shield; the address is in 'address'\n", out)
        self.assertIn("\n    its ban    for 10m after 20 refusals within 1m, each further ban 2 times as long, up to "
                      "1d; the address is in 'address'\n", out)
        limit = json.loads(weir(*args, "--json")[1])[0]["descriptors"][0]["limits"][0]
        self.assertEqual(limit["ban"], {
            "text": "for 10m after 50 refusals within 1m, each further ban 2 times as long, up to 1d, also by weir "
                    "shield", "after": 50, "within_ns": 60 * 10**9, "for_ns": 600 * 10**9, "grow": 2,
            "max_ns": 86400 * 10**9, "shield": True, "address_entry": 0})

    def test_every_domain_with_requests(self):
        _, out, _ = weir("explain", "--json", "--rules", EXAMPLES, "--http", "GET /")
        self.assertEqual(sorted(d["domain"] for d in json.loads(out)),
                         ["accounts", "edge", "firewall", "llm", "public", "reports", "shop", "social", "system", "till",
                          "timeline"])

    def test_terminal_is_safe(self):
        _, out, _ = weir("explain", "--rules", EXAMPLES, "messaging", "message_type=\x1b[31m")
        self.assertNotIn("\x1b", out)

    def test_usage(self):
        self.assertEqual(weir("explain", "d", "a=b")[0], 2)
        self.assertEqual(weir("explain", "--rules", EXAMPLES, "d")[0], 2)
        self.assertEqual(weir("explain", "--rules", EXAMPLES, "d", "ab")[0], 2)
        self.assertEqual(weir("explain", "--rules", EXAMPLES, "--http", "GET")[0], 2)
        self.assertEqual(weir("explain", "--rules", EXAMPLES, "--http", "GET /", "--from", "x")[0], 2)
        self.assertEqual(weir("explain", "--rules", "bad_path.yaml", "d", "a=b")[0], 2)


unittest.main()
