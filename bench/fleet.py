#!/usr/bin/python3
"""Computes what a fleet needs, from the measured figures of docs/figures.md. docs/scale.md explains the formulas.

    bench/fleet.py --gateways 10 --regions 1 --requests 50000 --keys 500000     prints the tables of a fleet
    bench/fleet.py --page docs/scale.md                                         writes the tables of the page

The page contains each table between two comments. The text between the comments is replaced.
"""

import argparse
import bisect
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

FIGURES = Path(__file__).resolve().parent.parent / "docs/figures.md"
HOLDERS = (1, 10, 50, 100, 1000)  # the numbers of nodes that bench/scale.py measures

USED = 0.7  # the share of its processor time that a shard uses; the rest is a reserve
LEASE_S = 1.0  # duration of a lease; a tenth of the period for periods below 10 s
HOT_UNITS = 2  # a gateway keeps a lease of a key with this many requests per lease
LIVE_PERIODS = 1.5  # a table stores a key for this many periods after its last request (docs/engine.md)
COLD_HOLDERS = 10  # gateways that use a cold key within two periods, at most
TABLE_BYTES = 44  # bytes of a table per key
EXCHANGE_SLOT_BYTES = 384 * 32  # a slot for an exchanged counter has 384 bytes; slots get a 32nd of a table
PACKET_BYTES = 66  # headers of a packet: Ethernet 14, IPv4 20, TCP with time stamps 32
SITES = 9  # the largest number of Redis sites that exchange counts: a node's own site and its 8 peers
NEAR_S, FAR_S = 0.001, 0.1  # delays of the table of errors: round trip to Redis, way to another region
DEMAND = 4  # the demand of the table of errors, as a multiple of the limit
EULER = 0.577
SECOND_US, GBIT, GB, MB = 1e6, 1e9 / 8, 1e9, 1e6


@dataclass
class Fleet:
    """A fleet. The requests of a key come to `spread` gateways of one region."""
    requests: float = 10e6
    keys: float = 100e6
    gateways: int = 1000
    regions: int = 20
    period_s: float = 60
    sync_s: float = 0.1
    zipf: float = 1.0
    counters: int = 100  # counters that every gateway uses
    shared_sync_s: float = 1.0
    here: int = field(init=False)  # gateways per region
    arriving: float = field(init=False)  # requests per second and region
    region_keys: float = field(init=False)

    def __post_init__(self):
        self.here = self.gateways // self.regions
        self.arriving = self.requests / self.regions
        self.region_keys = self.keys / self.regions


FLEET = Fleet()
SMALL = Fleet(requests=50_000, keys=500_000, gateways=10, regions=1)


class Costs:
    """The measured figures. Times are in µs."""

    def __init__(self, text):
        rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d.,]+)(?:, not reached)? \|$", text, re.M)
        self.values = {name: float(value.rstrip(",").replace(",", "")) for name, value in rows}

    def __getitem__(self, name):
        return self.values[name]

    def single_us(self):
        """Returns the time that a call takes longer if Redis reads it on its own."""
        return self["take_single_us"] - self["take_us_token_bucket"]

    def call_us(self, name, holders=None):
        """Returns the time of a call that Redis reads on its own."""
        return self.single_us() + (self.between(f"{name}_us", holders) if holders else self[f"{name}_us"])

    def take_us(self):
        return self["take_single_us"]

    def between(self, name, holders):
        """Returns a figure for any number of nodes, on the straight line between the two nearest measured numbers."""
        right = min(max(bisect.bisect_left(HOLDERS, holders), 1), len(HOLDERS) - 1)
        low, high = HOLDERS[right - 1], HOLDERS[right]
        a, b = self[f"{name}_{low}"], self[f"{name}_{high}"]
        return a + (b - a) * (holders - low) / (high - low)

    def wire_bytes(self, call):
        """Returns the bytes of a call and its reply, each in a packet of its own."""
        return self[f"{call}_in_bytes"] + self[f"{call}_out_bytes"] + 2 * PACKET_BYTES


# ---- keys ----

def zipf_sum(ranks, exponent):
    """Returns the sum of 1 ÷ rank^exponent over the ranks, within 2 %."""
    if exponent == 1:
        return math.log(ranks) + EULER
    return (ranks**(1 - exponent) - 1) / (1 - exponent) + EULER


def hottest(fleet):
    """Returns the requests per second of the most frequent key of a region."""
    return fleet.arriving / zipf_sum(fleet.region_keys, fleet.zipf)


def hot_keys(fleet, least):
    """Returns the number of keys with at least `least` requests per second, and their share of all requests."""
    count = min((hottest(fleet) / least)**(1 / fleet.zipf), fleet.region_keys)
    if count < 1:
        return 0, 0.0
    return count, zipf_sum(count, fleet.zipf) / zipf_sum(fleet.region_keys, fleet.zipf)


def table_keys(fleet, spread):
    """Returns the number of keys in the table of a gateway, at most."""
    seen = LIVE_PERIODS * fleet.period_s * fleet.requests / fleet.gateways
    return min(fleet.region_keys * spread / fleet.here, seen)


# ---- modes; the results are those of one region ----

def shards(busy):
    """Returns the number of shards that have `busy` seconds of processor time to do per second."""
    return math.ceil(busy / USED)


def strict(fleet, costs):
    calls = fleet.arriving
    return {"calls": calls, "busy": calls * costs.take_us() / SECOND_US, "bytes": calls * costs.wire_bytes("take"),
            "memory": fleet.region_keys * costs["bytes_per_key_token_bucket"]}


def renewals_per_s(costs):
    """Returns the calls per second with which a gateway keeps the lease of a key, at most."""
    return HOT_UNITS * costs["lease_calls_per_1k_2"] / 1000 / LEASE_S


def lease(fleet, costs, spread):
    least = HOT_UNITS * spread / LEASE_S
    count, share = hot_keys(fleet, least)
    renewals = count * spread * renewals_per_s(costs)
    takes = fleet.arriving * (1 - share) * costs["lease_calls_per_1k_0_2"] / 1000
    return {"least": least, "hot": count, "share": share, "renewals": renewals, "takes": takes,
            "calls": renewals + takes,
            "busy": (renewals * costs.call_us("lease", spread) + takes * costs.call_us("lease_take")) / SECOND_US,
            "bytes": renewals * costs.wire_bytes("lease") + takes * costs.wire_bytes("lease_take"),
            "memory": (fleet.region_keys * costs["bytes_per_key_token_bucket"]
                       + count * costs.between("lease_record_bytes", spread))}


def eventual(fleet, costs, spread, peers):
    """Every key is exchanged, and its counts are pushed to the Redis of `peers` other regions."""
    least = spread / fleet.sync_s
    count, share = hot_keys(fleet, least)
    many = count * spread / fleet.sync_s
    few = fleet.arriving * (1 - share)
    pushes = peers * (many + few)
    cold = min(spread, COLD_HOLDERS)
    return {"least": least, "hot": count, "share": share, "calls": many + few, "pushes": pushes,
            "busy": (many * costs.call_us("exchange", spread) + few * costs.call_us("exchange", cold)
                     + pushes * costs.call_us("push")) / SECOND_US,
            "bytes": (many + few) * costs.wire_bytes("exchange"), "far_bytes": pushes * costs.wire_bytes("push"),
            "memory": fleet.region_keys * (1 + peers) * costs.between("exchange_bytes", cold)}


def shared(fleet, costs, sites):
    """Counters that every gateway of the fleet uses in every interval, with a Redis at each of `sites` sites. The
    results are those of one site."""
    near, rate = fleet.gateways / sites, fleet.counters / fleet.shared_sync_s
    calls, arrivals = near * rate, (fleet.gateways - near) * rate
    return {"calls": calls, "arrivals": arrivals,
            "busy": (calls * costs.call_us("exchange", fleet.gateways) + arrivals * costs.call_us("push")) / SECOND_US,
            "bytes": calls * costs.wire_bytes("exchange"), "far_bytes": arrivals * costs.wire_bytes("push"),
            "memory": fleet.counters * costs.between("exchange_bytes", fleet.gateways)}


# ---- text ----

def shown(value):
    """Writes a number with three significant digits."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.0f}" if digits <= 0 else f"{rounded:.{digits}f}".rstrip("0").rstrip(".")


def percent(share):
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 or share == 0 else f"{shown(100 * share)} %"


def cores(busy):
    return f"{shown(busy)} cores"


def gbits(bytes_per_s):
    return f"{shown(bytes_per_s / GBIT)} Gbit/s"


def mbits(bytes_per_s):
    return f"{shown(bytes_per_s / GBIT * 1000)} Mbit/s"


def gigabytes(size):
    return f"{shown(size / GB)} GB"


def megabytes(size):
    return f"{shown(size / MB)} MB"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def calls_table(costs):
    calls = (("take", "take", "take_us_token_bucket"), ("take by the lease script", "lease_take", "lease_take_us"),
             ("renewal of a lease, 1 node", "lease", "lease_us_1"), ("exchange, 1 node", "exchange", "exchange_us_1"),
             ("push", "push", "push_us"))
    return table(("call", "CPU of Redis, many at once", "CPU of Redis, one by one", "to Redis", "from Redis"),
                 [(text, f"{shown(costs[us])} µs", f"{shown(costs[us] + costs.single_us())} µs",
                   f"{shown(costs[f'{call}_in_bytes'])} bytes", f"{shown(costs[f'{call}_out_bytes'])} bytes")
                  for text, call, us in calls])


def holders_table(costs):
    return table(("nodes", "renewal of a lease", "exchange of a counter", "leases of a counter", "exchanged counter"),
                 [(f"{n:,}", f"{shown(costs[f'lease_us_{n}'])} µs", f"{shown(costs[f'exchange_us_{n}'])} µs",
                   f"{shown(costs[f'lease_record_bytes_{n}'])} bytes", f"{shown(costs[f'exchange_bytes_{n}'])} bytes")
                  for n in HOLDERS])


def demand_table(costs):
    rows = []
    for rate in (0.2, 0.5, 1, 2, 5, 10, 100):
        name = str(rate).replace(".", "_")
        exchanged = 1000 * (1 - math.exp(-rate / 10)) / (rate / 10)
        measured = costs.values.get(f"eventual_calls_per_1k_{name}")
        rows.append((f"{rate:g}", "1,000", shown(costs[f"lease_calls_per_1k_{name}"]),
                     shown(measured) if measured else "–", shown(exchanged)))
    return table(("requests per second of a key on a node", "`strict`", "`lease`", "`eventual`, 100 ms", "by formula"),
                 rows)


def shard_table(costs):
    def carried(us):
        number = USED * SECOND_US / us
        return shown(number) if number >= 1 else "none"

    rows = [("`strict`, calls one by one", "decisions per second", carried(costs.take_us())),
            ("`strict`, many calls at once", "decisions per second", carried(costs["take_us_token_bucket"]))]
    for n in (1, 50, 1000):
        rows.append((f"`lease`, {n:,} node{'s' * (n > 1)} per key", "busy keys",
                     carried(n * renewals_per_s(costs) * costs.call_us("lease", n))))
    for n in (10, 50, 1000):
        for sync_s, text in ((0.1, "100 ms"), (1, "1 s")):
            rows.append((f"`eventual`, {n:,} nodes, {text}", "busy counters",
                         carried(n / sync_s * costs.call_us("exchange", n))))
    return table(("mode", "one shard carries", "number"), rows)


def even_table(costs):
    rows = []
    for n in HOLDERS:
        rate = n * renewals_per_s(costs) * costs.call_us("lease", n) / costs.take_us()
        rows.append((f"{n:,}", f"{shown(rate)} per second", f"{shown(rate / n)} per second"))
    return table(("nodes that lease the key", "`lease` costs less than `strict` from", "that is, on each node"), rows)


def hot_table(fleet, costs):
    rate, n = hottest(fleet), fleet.here
    rows = []
    for mode, calls, us in (("`strict`", rate, costs.take_us()),
                            ("`lease`", n * renewals_per_s(costs), costs.call_us("lease", n)),
                            (f"`eventual`, {fleet.sync_s:g} s", n / fleet.sync_s, costs.call_us("exchange", n))):
        rows.append((mode, shown(calls), f"{shown(us)} µs", percent(calls * us / SECOND_US)))
    return table(("mode", "calls per second", "CPU time of a call", "CPU of the shard"), rows)


def zipf_table(fleet, costs):
    rows = []
    for exponent in (0.8, 1.0, 1.2):
        one = replace(fleet, zipf=exponent)
        for spread, text in ((1, "one gateway per client"), (fleet.here, "any gateway")):
            count, share = hot_keys(one, HOT_UNITS * spread / LEASE_S)
            rows.append((exponent, shown(hottest(one)), text, shown(HOT_UNITS * spread / LEASE_S), shown(count),
                         percent(share)))
    return table(("s", "hottest key, per second", "requests of a client come to", "busy from, per second", "busy keys",
                  "share of all requests"), rows)


def error_table():
    rows = []
    for sync_s, far_s in ((0.1, 0), (0.1, FAR_S), (1, FAR_S), (10, FAR_S)):
        delay_s = 2 * sync_s + 2 * NEAR_S + far_s
        errors = (min(DEMAND * delay_s / period_s, DEMAND - 1) for period_s in (1, 10, 60, 3600))
        rows.append((f"{sync_s:g} s", "several regions" if far_s else "one region", f"{shown(delay_s)} s",
                     *(f"{shown(100 * error)} %" for error in errors)))
    return table(("interval", "nodes in", "D", "period 1 s", "10 s", "1 minute", "1 hour"), rows)


MODE_HEAD = ("quantity", "formula", "m = n: any gateway", "m = 1: one gateway per client")


def local_table(fleet, costs):
    both = (table_keys(fleet, fleet.here), table_keys(fleet, 1))
    busy = fleet.requests / fleet.gateways * costs["added_cpu_us"] / SECOND_US
    return table(MODE_HEAD, [
        ("keys in a table, at most", "k = min(K_r · m ÷ n, 1.5 · p · λ ÷ G)", *map(shown, both)),
        ("memory of a gateway", "k · 44 bytes", *(megabytes(k * TABLE_BYTES) for k in both)),
        ("memory of all gateways", "· G", *(gigabytes(k * TABLE_BYTES * fleet.gateways) for k in both)),
        ("CPU added to a gateway", "λ ÷ G · `added_cpu_us`", *[cores(busy)] * 2),
        ("network, Redis", "–", "0", "0"),
        ("admitted at most", "m · L", f"{fleet.here} · L", "L")])


def strict_table(fleet, costs):
    one = strict(fleet, costs)
    per_gateway = fleet.requests / fleet.gateways * (costs["node_us_strict"] - costs["node_us_local"]) / SECOND_US
    return table(("quantity", "formula", "number"), [
        ("calls per second in a region", "λ_r", shown(one["calls"])),
        ("CPU of Redis in a region", "λ_r · t_take", cores(one["busy"])),
        ("shards in a region", "⌈CPU ÷ u⌉", shards(one["busy"])),
        ("shards in all regions", "· R", shown(shards(one["busy"]) * fleet.regions)),
        ("network of a region", "λ_r · (b_take + 132 bytes)", gbits(one["bytes"])),
        ("network of a gateway", "÷ n", mbits(one["bytes"] / fleet.here)),
        ("network between regions", "–", "0"),
        ("memory of Redis in a region", "K_r · 160 bytes", gigabytes(one["memory"])),
        ("memory of Redis in a shard", "÷ shards", megabytes(one["memory"] / shards(one["busy"]))),
        ("memory of a gateway", "as `local`, m = n", megabytes(table_keys(fleet, fleet.here) * TABLE_BYTES)),
        ("CPU added to `weir serve`", "λ ÷ G · (`node_us_strict` − `node_us_local`)", cores(per_gateway)),
        ("requests that wait for Redis", "1", "100 %"),
        ("admitted at most", "L in a region", "L")])


def columns(results):
    """Returns a function that makes a row of a table from a function of a result."""
    return lambda text, formula, write: (text, formula, *map(write, results))


def lease_table(fleet, costs):
    row = columns([lease(fleet, costs, spread) for spread in (fleet.here, 1)])
    return table(MODE_HEAD, [
        row("a key is busy from, per second", "x = 2 · m ÷ T", lambda o: shown(o["least"])),
        row("busy keys in a region", "h = d ÷ x", lambda o: shown(o["hot"])),
        row("their share of all requests", "S = A(h) ÷ A(K_r)", lambda o: percent(o["share"])),
        row("renewals per second", "h · m · c_busy", lambda o: shown(o["renewals"])),
        row("takes per second", "λ_r · (1 − S) · c_cold", lambda o: shown(o["takes"])),
        row("CPU of Redis in a region", "renewals · t_lease(m) + takes · t_lease_take",
            lambda o: cores(o["busy"])),
        row("shards in a region", "⌈CPU ÷ u⌉", lambda o: shards(o["busy"])),
        row("shards in all regions", "· R", lambda o: shown(shards(o["busy"]) * fleet.regions)),
        row("network of a region", "calls · (bytes + 132 bytes)", lambda o: gbits(o["bytes"])),
        row("network between regions", "–", lambda _: "0"),
        row("memory of Redis in a region", "K_r · 160 bytes + h · record(m)", lambda o: gigabytes(o["memory"])),
        row("requests that wait for Redis", "1 − S", lambda o: percent(1 - o["share"])),
        row("admitted at most", "L in a region", lambda _: "L")])


def eventual_table(fleet, costs):
    row = columns([eventual(fleet, costs, fleet.here, peers) for peers in (0, SITES - 1)])
    slots = min(fleet.region_keys, 2 * fleet.period_s * fleet.requests / fleet.gateways)
    head = ("quantity", "formula", "P = 0: each region by itself", f"P = {SITES - 1}: shared by {SITES} regions")
    return table(head, [
        row("a key is busy from, per second", "x = m ÷ τ", lambda o: shown(o["least"])),
        row("busy keys in a region", "h = d ÷ x", lambda o: shown(o["hot"])),
        row("their share of all requests", "S = A(h) ÷ A(K_r)", lambda o: percent(o["share"])),
        row("exchanges per second in a region", "e = λ_r · (1 − S) + h · m ÷ τ", lambda o: shown(o["calls"])),
        row("pushes per second from a region", "P · e", lambda o: shown(o["pushes"])),
        row("CPU of Redis in a region", "exchanges · t_exchange + pushes · t_push", lambda o: cores(o["busy"])),
        row("shards in a region", "⌈CPU ÷ u⌉", lambda o: shown(shards(o["busy"]))),
        row("network of a region", "e · (b_exchange + 132 bytes)", lambda o: gbits(o["bytes"])),
        row("network out of a region", "P · e · (b_push + 132 bytes)", lambda o: gbits(o["far_bytes"])),
        row("memory of Redis in a region", "K_r · (1 + P) · exchanged(10)", lambda o: gigabytes(o["memory"])),
        row("slots in the table of a gateway", "min(K_r, 2 · p · λ ÷ G)", lambda _: shown(slots)),
        row("memory of a gateway", "slots · 12 KiB", lambda _: gigabytes(slots * EXCHANGE_SLOT_BYTES))])


def shared_table(fleet, costs):
    rows = []
    for sync_s in (0.1, 1, 10):
        for sites in (1, SITES):
            one = shared(replace(fleet, shared_sync_s=sync_s), costs, sites)
            each = one["busy"] / fleet.counters
            far = one["bytes"] if sites == 1 else one["far_bytes"] * sites
            needed = shown(shards(one["busy"])) if each <= USED else "does not work"
            rows.append((f"{sync_s:g} s", sites, shown(one["calls"]), shown(one["arrivals"]),
                         f"{shown(each)} shards", needed, gbits(far)))
    return table(("interval", "Redis sites", "exchanges per second at a site", "pushes per second to a site",
                  "one counter needs", "shards at a site", "network between regions"), rows)


def summary_table(fleet, costs):
    exact, spread, pinned = strict(fleet, costs), lease(fleet, costs, fleet.here), lease(fleet, costs, 1)
    world = eventual(fleet, costs, fleet.here, 0)

    def line(mode, one, waits, error):
        return (mode, shown(shards(one["busy"]) * fleet.regions), gbits(one["bytes"] * fleet.regions),
                gigabytes(one["memory"] * fleet.regions), percent(waits), error)
    head = ("mode, for all keys", "Redis shards", "network", "memory of Redis", "requests that wait",
            "admitted at most")
    return table(head, [
        ("`local`, one gateway per client", "0", "0", "0", "0 %", "L"),
        ("`local`, any gateway", "0", "0", "0", "0 %", f"{fleet.here} · L in a region"),
        line("`strict`", exact, 1, "L in a region"),
        line("`lease`, one gateway per client", pinned, 1 - pinned["share"], "L in a region"),
        line("`lease`, any gateway", spread, 1 - spread["share"], "L in a region"),
        line("`eventual`, any gateway", world, 0, "L + (N − 1) · U in a region")])


def small_table(fleet, costs):
    def line(mode, one):
        return (mode, shown(one["calls"]), cores(one["busy"]), shards(one["busy"]),
                mbits(one["bytes"]), megabytes(one["memory"]))
    return table(("mode", "calls per second", "CPU of Redis", "shards", "network", "memory of Redis"), [
        ("`local`", "0", "0", "0", "0", "0"),
        line("`strict`", strict(fleet, costs)),
        line("`lease`, one gateway per client", lease(fleet, costs, 1)),
        line(f"`lease`, any of {fleet.here} gateways", lease(fleet, costs, fleet.here)),
        line("`eventual`, one gateway per client", eventual(fleet, costs, 1, 0)),
        line(f"`eventual`, any of {fleet.here} gateways", eventual(fleet, costs, fleet.here, 0))])


def worked_table(fleet, costs):
    """The arithmetic of `lease` with one gateway per client, with all numbers."""
    one, ranks = lease(fleet, costs, 1), zipf_sum(fleet.region_keys, fleet.zipf)
    cold = costs["lease_calls_per_1k_0_2"] / 1000
    return table(("quantity", "arithmetic", "result"), [
        ("A(K_r)", f"ln {shown(fleet.region_keys)} + 0.577", shown(ranks)),
        ("hottest key: d", f"{shown(fleet.arriving)} ÷ {shown(ranks)}", f"{shown(hottest(fleet))} per second"),
        ("busy keys: h", f"{shown(hottest(fleet))} ÷ {shown(one['least'])}", shown(one["hot"])),
        ("their share: S", f"(ln {shown(one['hot'])} + 0.577) ÷ {shown(ranks)}", percent(one["share"])),
        ("renewals", f"{shown(one['hot'])} · 1 · {shown(renewals_per_s(costs))}",
         f"{shown(one['renewals'])} per second"),
        ("takes", f"{shown(fleet.arriving)} · {percent(1 - one['share'])} · {shown(cold)}",
         f"{shown(one['takes'])} per second"),
        ("CPU of Redis", f"{shown(one['renewals'])} · {shown(costs.call_us('lease', 1))} µs + {shown(one['takes'])} · "
         f"{shown(costs.call_us('lease_take'))} µs", cores(one["busy"])),
        ("shards", f"⌈{shown(one['busy'])} ÷ {USED}⌉", shards(one["busy"])),
        ("network", f"{shown(one['renewals'])} · {shown(costs.wire_bytes('lease'))} bytes + {shown(one['takes'])} · "
         f"{shown(costs.wire_bytes('lease_take'))} bytes", mbits(one["bytes"])),
        ("memory of Redis", f"{shown(fleet.region_keys)} · {shown(costs['bytes_per_key_token_bucket'])} bytes + "
         f"{shown(one['hot'])} · {shown(costs['lease_record_bytes_1'])} bytes", megabytes(one["memory"]))])


def tables(costs, fleet, small):
    return {"calls": calls_table(costs), "holders": holders_table(costs), "demand": demand_table(costs),
            "shard": shard_table(costs), "even": even_table(costs), "summary": summary_table(fleet, costs),
            "zipf": zipf_table(fleet, costs), "local": local_table(fleet, costs), "strict": strict_table(fleet, costs),
            "lease": lease_table(fleet, costs), "eventual": eventual_table(fleet, costs),
            "shared": shared_table(fleet, costs), "error": error_table(), "hot": hot_table(fleet, costs),
            "small": small_table(small, costs), "worked": worked_table(small, costs)}


def filled(page, parts):
    """Returns the page with its tables replaced. A table that only the page or only `parts` has is an error."""
    names = re.findall(r"^<!-- bench/fleet.py (\w+) -->$", page, re.M)
    if sorted(names) != sorted(parts):
        raise ValueError(f"the page has the tables {sorted(names)}, but bench/fleet.py writes {sorted(parts)}")
    for name, text in parts.items():
        place = rf"(<!-- bench/fleet.py {name} -->\n).*?(<!-- end -->\n)"
        page, count = re.subn(place, rf"\g<1>\n{text}\n\n\g<2>", page, flags=re.S)
        if count != 1:
            raise ValueError(f"the table {name} has no end")
    return page


def positive(kind):
    """Returns a function that reads an option as a finite number above 0."""
    def read(text):
        value = kind(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
        return value
    read.__name__ = kind.__name__  # argparse names it if the text is not a number
    return read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="the measured figures; default: %(default)s")
    parser.add_argument("--page", type=Path, help="write the tables of the fleet of docs/scale.md into this page")
    for name, text in (("requests", "requests per second"), ("keys", "live keys"), ("gateways", "gateways"),
                       ("regions", "regions"), ("period-s", "period of the limits, s"),
                       ("sync-s", "--sync-interval, s"), ("zipf", "exponent of the distribution of keys")):
        default = getattr(FLEET, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=positive(type(default)), default=default,
                            help=f"{text}; default: %(default)s")
    opts = parser.parse_args()
    if opts.gateways < opts.regions:
        parser.error("--gateways must be at least --regions, because each region has a gateway")
    if opts.keys < opts.regions:
        parser.error("--keys must be at least --regions, because each region has its own keys")
    costs = Costs(opts.figures.read_text(encoding="utf-8"))
    if opts.page:
        page = opts.page.read_text(encoding="utf-8")
        opts.page.write_text(filled(page, tables(costs, FLEET, SMALL)), encoding="utf-8")
        return
    fleet = Fleet(opts.requests, opts.keys, opts.gateways, opts.regions, opts.period_s, opts.sync_s, opts.zipf)
    for name, text in tables(costs, fleet, fleet).items():
        print(f"{name}\n\n{text}\n")


if __name__ == "__main__":
    main()
