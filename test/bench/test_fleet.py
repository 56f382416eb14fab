#!/usr/bin/python3
"""test_fleet.py: docs/scale.md has the tables that bench/fleet.py computes from docs/figures.md, and the formulas of
bench/fleet.py agree with sums over all keys."""

import itertools
import math
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import figures  # noqa: E402
import fleet  # noqa: E402

PAGE = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs/figures.md").read_text(encoding="utf-8")
# Round costs, from which the expected numbers of the tests below are computed by hand.
COSTS = fleet.Costs("""
| `take_us_token_bucket` | µs | – | 20 |
| `take_single_us` | µs | – | 30 |
| `lease_take_us` | µs | – | 25 |
| `lease_us_1` | µs | ≤ 1 | 40, not reached |
| `lease_us_10` | µs | – | 60 |
| `lease_us_50` | µs | – | 140 |
| `lease_us_100` | µs | – | 240 |
| `lease_us_1000` | µs | – | 2,040 |
| `exchange_us_1` | µs | – | 15 |
| `exchange_us_10` | µs | – | 30 |
| `exchange_us_50` | µs | – | 90 |
| `exchange_us_100` | µs | – | 165 |
| `exchange_us_1000` | µs | – | 1,490 |
| `push_us` | µs | – | 10 |
| `take_in_bytes` | bytes | – | 180 |
| `take_out_bytes` | bytes | – | 50 |
| `lease_take_in_bytes` | bytes | – | 240 |
| `lease_take_out_bytes` | bytes | – | 68 |
| `lease_in_bytes` | bytes | – | 316 |
| `lease_out_bytes` | bytes | – | 84 |
| `exchange_in_bytes` | bytes | – | 366 |
| `exchange_out_bytes` | bytes | – | 34 |
| `push_in_bytes` | bytes | – | 208 |
| `push_out_bytes` | bytes | – | 4 |
| `lease_record_bytes_1` | bytes | – | 200 |
| `lease_record_bytes_10` | bytes | – | 1,000 |
| `exchange_bytes_1` | bytes | – | 184 |
| `exchange_bytes_10` | bytes | – | 744 |
| `exchange_bytes_100` | bytes | – | 6,000 |
| `exchange_bytes_1000` | bytes | – | 112,000 |
| `bytes_per_key_token_bucket` | bytes | – | 160 |
| `lease_calls_per_1k_0_2` | calls | – | 1,100 |
| `lease_calls_per_1k_2` | calls | – | 650 |
""")
ONE = fleet.Fleet(requests=50_000, keys=500_000, gateways=10, regions=1)


def sum_over_keys(of, calls):
    """Returns the sum of calls(requests per second) over all keys of a region. Keys of nearly the same rank count as
    equal."""
    first, total, rank = fleet.hottest(of), 0.0, 1
    while rank <= of.region_keys:
        count = min(max(1, rank // 200), int(of.region_keys) - rank + 1)
        total += count * calls(first / (rank + (count - 1) / 2)**of.zipf)
        rank += count
    return total


class Page(unittest.TestCase):
    def test_tables_are_computed_from_the_figures(self):
        costs = fleet.Costs(FIGURES)
        expected = fleet.filled(PAGE, fleet.tables(costs, fleet.FLEET, fleet.SMALL))
        self.assertEqual(PAGE.splitlines(), expected.splitlines(), "run bench/fleet.py --page docs/scale.md")

    def test_a_missing_table_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "the page has the tables"):
            fleet.filled("<!-- bench/fleet.py shard -->\n<!-- end -->\n", {"shard": "x", "small": "y"})

    def test_named_figures_exist(self):
        known = {row[0] for _, rows in figures.TABLES.values() for row in rows}
        named = set(re.findall(r"`(\w+_(?:us|bytes|per)(?:_\w+)?)`", PAGE))
        self.assertGreaterEqual(named, {"take_single_us", "lease_calls_per_1k_2", "strict_calls_per_1k_hot"})
        self.assertEqual(named - known, set())

    def test_figures_have_the_numbers_of_nodes_that_are_measured(self):
        self.assertEqual(fleet.HOLDERS, tuple(int(n) for n, _ in figures.NODES))
        self.assertIn(f"HOLDERS = {fleet.HOLDERS}", (ROOT / "bench/scale.py").read_text(encoding="utf-8"))

    def test_constants_are_those_of_the_code(self):
        exchange = (ROOT / "src/store/exchange.h").read_text(encoding="utf-8")
        self.assertIn(f"#define WR_EXCHANGE_PEERS {fleet.SITES - 1}u\n", exchange)
        lease = (ROOT / "src/redis/script_lease.h").read_text(encoding="utf-8")
        self.assertIn(f"#define WR_LEASE_TTL_MAX_US {fleet.LEASE_S * 1e6:.0f}u\n", lease)
        self.assertIn(f"#define WR_LEASE_CHUNK_MIN {fleet.HOT_UNITS}u ", lease)
        inner = (ROOT / "src/central/inner.h").read_text(encoding="utf-8")
        shards = re.search(r"#define WR_SHARDS_MAX (\d+)u", inner)[1]
        self.assertIn(f"up to {shards} servers of a cluster", PAGE)

    def test_links_lead_to_headings(self):
        links = re.findall(r"\]\(([\w.-]*)#([\w-]+)\)", PAGE)
        self.assertGreater(len(links), 10)
        for name, anchor in links:
            text = (ROOT / "docs" / name).read_text(encoding="utf-8") if name else PAGE
            headings = re.findall(r"^#+ (.*)$", text, re.M)
            anchors = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
            self.assertIn(anchor, anchors, name)

    def test_statements_of_the_page(self):
        """Sentences that other figures could make wrong."""
        costs, all_keys = fleet.Costs(FIGURES), fleet.FLEET
        needed = {name: fleet.shards(one["busy"]) * all_keys.regions for name, one in (
            ("strict", fleet.strict(all_keys, costs)), ("any", fleet.lease(all_keys, costs, 50)),
            ("one", fleet.lease(all_keys, costs, 1)))}
        self.assertIn("`lease` needs no fewer shards than `strict`", PAGE)
        self.assertGreaterEqual(needed["any"], needed["strict"])
        self.assertLess(needed["one"], 0.8 * needed["strict"])
        self.assertIn("which\n  are too few for this fleet", PAGE)
        self.assertGreater(needed["strict"], 256)
        self.assertIn("counter that 1,000 gateways use needs more than one shard, even with 9 sites", PAGE)
        fast = fleet.Fleet(counters=1, shared_sync_s=0.1)
        self.assertGreater(fleet.shared(fast, costs, 9)["busy"], 1)
        self.assertIn("Two or three shards suffice for every mode", PAGE)
        small = fleet.SMALL
        for one in (fleet.strict(small, costs), *(fleet.lease(small, costs, m) for m in (1, 10)),
                    *(fleet.eventual(small, costs, m, 0) for m in (1, 10))):
            self.assertLessEqual(fleet.shards(one["busy"]), 3)
        self.assertIn("made no more calls per node than these numbers say", PAGE)
        self.assertLessEqual(costs["nodes8_lease_calls_per_s"], 1.05 * fleet.renewals_per_s(costs))
        self.assertLessEqual(costs["nodes8_eventual_calls_per_s"], 10.5)

    def test_calls_that_were_measured_with_a_zipf_distribution(self):
        """The page says how far the predicted calls differ from the measured ones."""
        self.assertIn("5 % fewer to 20 % more calls than were measured", re.sub(r"\s+", " ", PAGE))
        costs = fleet.Costs(FIGURES)
        node = fleet.Fleet(requests=2000, keys=4000, gateways=1, regions=1)
        for mode, calls in (("lease", fleet.lease(node, costs, 1)["calls"]),
                            ("eventual", fleet.eventual(node, costs, 1, 0)["calls"])):
            with self.subTest(mode=mode):
                ratio = calls / 2 / costs[f"{mode}_calls_per_1k_zipf"]
                self.assertGreaterEqual(ratio, 0.95)
                self.assertLessEqual(ratio, 1.2)


class Options(unittest.TestCase):
    def run_with(self, *args):
        return subprocess.run([sys.executable, "-B", str(ROOT / "bench/fleet.py"), *args], capture_output=True,
                              text=True, timeout=30, check=False)

    def test_numbers_that_are_not_above_0_are_usage_errors(self):
        for option in ("gateways", "regions", "requests", "keys", "period-s", "sync-s", "zipf"):
            for value in ("0", "-1", "x", "nan", "inf"):
                with self.subTest(option=option, value=value):
                    result = self.run_with(f"--{option}={value}")
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn(f"error: argument --{option}: ", result.stderr)
                    self.assertEqual(result.stdout, "")

    def test_each_region_needs_a_gateway_and_a_key(self):
        for option in ("gateways", "keys"):
            result = self.run_with(f"--{option}=19", "--regions=20")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"--{option} must be at least --regions", result.stderr)

    def test_the_smallest_fleet(self):
        result = self.run_with("--gateways=1", "--regions=1", "--requests=1", "--keys=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| `strict` | 1 |", result.stdout)


class Arithmetic(unittest.TestCase):
    def test_zipf_sum(self):
        for exponent in (0.8, 1.0, 1.2):
            exact = sum(rank**-exponent for rank in range(1, 100_001))
            self.assertAlmostEqual(fleet.zipf_sum(100_000, exponent) / exact, 1, delta=0.02)

    def test_time_of_a_call_read_on_its_own(self):
        self.assertEqual(COSTS.call_us("push"), 20)
        self.assertEqual(COSTS.call_us("lease", 1), 50)
        self.assertEqual(COSTS.call_us("lease", 30), 110)
        self.assertEqual(COSTS.call_us("lease", 1000), 2050)
        self.assertEqual(COSTS.call_us("lease", 2000), 4050)

    def test_strict(self):
        one = fleet.strict(ONE, COSTS)
        self.assertEqual(one["calls"], 50_000)
        self.assertAlmostEqual(one["busy"], 1.5)
        self.assertEqual(fleet.shards(one["busy"]), 3)
        self.assertEqual(one["bytes"], 50_000 * 362)
        self.assertEqual(one["memory"], 80e6)

    def test_lease(self):
        """A(500,000) is 13.699, so the hottest key has 3,650 requests per second, and 1,825 keys have 2 or more."""
        one = fleet.lease(ONE, COSTS, 1)
        self.assertAlmostEqual(fleet.hottest(ONE), 3649.8, delta=0.1)
        self.assertAlmostEqual(one["hot"], 1824.9, delta=0.1)
        self.assertAlmostEqual(one["share"], 0.5902, delta=0.0001)
        self.assertAlmostEqual(one["renewals"], 2372.4, delta=0.1)
        self.assertAlmostEqual(one["takes"], 22_535, delta=1)
        self.assertAlmostEqual(one["busy"], (2372.4 * 50 + 22_535 * 35) / 1e6, delta=0.001)

    def test_eventual(self):
        """On 10 gateways, a key is busy from 100 requests per second. 36 keys are, with 30 % of all requests."""
        one = fleet.eventual(ONE, COSTS, 10, 8)
        self.assertAlmostEqual(one["hot"], 36.5, delta=0.01)
        self.assertAlmostEqual(one["calls"], 50_000 * (1 - one["share"]) + 3650, delta=1)
        self.assertAlmostEqual(one["pushes"], 8 * one["calls"])
        self.assertAlmostEqual(one["busy"], one["calls"] * (40 + 8 * 20) / 1e6)
        self.assertAlmostEqual(one["memory"], 500_000 * 9 * 744)

    def test_a_fleet_without_busy_keys(self):
        cold = fleet.Fleet(requests=10, keys=1000, gateways=10, regions=1)
        self.assertEqual(fleet.hot_keys(cold, 2), (0, 0.0))
        self.assertEqual(fleet.eventual(cold, COSTS, 10, 0)["calls"], 10)

    def test_shared_counters(self):
        """1,000 gateways at 10 sites with 100 counters and 1 s: 10,000 exchanges and 90,000 pushes at each site."""
        one = fleet.shared(fleet.FLEET, COSTS, 10)
        self.assertAlmostEqual(one["calls"], 10_000)
        self.assertAlmostEqual(one["arrivals"], 90_000)
        self.assertAlmostEqual(one["busy"], 10_000 * 1500e-6 + 90_000 * 20e-6)

    def test_keys_of_a_table(self):
        self.assertEqual(fleet.table_keys(fleet.FLEET, 50), 900_000)
        self.assertEqual(fleet.table_keys(fleet.FLEET, 1), 100_000)
        hour = fleet.Fleet(period_s=3600)
        self.assertEqual(fleet.table_keys(hour, 50), 5_000_000)

    def test_busy_and_cold_keys_suffice(self):
        """The number of calls is that of the sum over all keys, or up to a tenth more."""
        points = [(0.0, 1.0), (0.2, 1.1), (0.5, 1.11), (1, 0.96), (2, 0.65), (5, 0.256), (10, 0.12), (100, 0.012)]

        def per_request(rate):
            for (low, a), (high, b) in itertools.pairwise(points):
                if rate <= high:
                    return a + (b - a) * (rate - low) / (high - low)
            return 1.2 / rate

        for of, spread in itertools.product((fleet.FLEET, ONE), (1, 10)):
            with self.subTest(fleet=of, spread=spread):
                leased = sum_over_keys(of, lambda rate, m=spread: rate * per_request(rate / m))
                self.assertAlmostEqual(fleet.lease(of, COSTS, spread)["calls"] / leased, 1.05, delta=0.05)
                exchanged = sum_over_keys(of, lambda rate, m=spread, s=of.sync_s: m * (1 - math.exp(-rate * s / m)) / s)
                self.assertAlmostEqual(fleet.eventual(of, COSTS, spread, 0)["calls"] / exchanged, 1.05, delta=0.05)

    def test_numbers_as_text(self):
        self.assertEqual([fleet.shown(x) for x in (0, 0.04256, 1.5, 99.96, 1234.5, 2717106)],
                         ["0", "0.0426", "1.5", "100", "1,230", "2,720,000"])


if __name__ == "__main__":
    unittest.main()
