// The page Fleet: central store, fleet, table, latency, processes and changes.
import { bytes, count, h, nanos, percent, replace, span, visible, when } from "/ui/dom.js";
import { get } from "/ui/api.js";

const BREAKER = ["closed", "half open", "open"];

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function storeFacts(g) {
  if (g.store_up === undefined) return [h("p", { class: "soft" }, "No central store: all limits are counted in the table of this machine.")];
  const list = [fact("Store", g.store_up ? "available" : "unavailable"), fact("Breaker", BREAKER[g.store_breaker] ?? "unknown")];
  if (g.store_nodes !== undefined) list.push(fact("Nodes", `${count(g.store_nodes_up ?? 0)} of ${count(g.store_nodes)} available`));
  if (g.store_up && g.store_rtt_us !== undefined) list.push(fact("Round-trip time", nanos(g.store_rtt_us * 1000)));
  if (g.store_waiting !== undefined) list.push(fact("Pending requests", count(g.store_waiting)));
  return [h("dl", { class: "facts" }, list)];
}

function fleetFacts(g) {
  const list = [];
  if (g.fleet_nodes !== undefined) list.push(fact("Nodes of the fleet", count(g.fleet_nodes)));
  if (g.share_ppm !== undefined) list.push(fact("Share of this node", percent(g.share_ppm, 1e6)));
  if (g.units_granted) {
    list.push(fact("Leases held", `${count(g.leases ?? 0)}, ${count(g.leased_units ?? 0)} units unspent`));
    list.push(fact("Units leased so far", `${count(g.units_granted)} units: ${count(g.units_spent ?? 0)} spent, ${count(g.units_returned ?? 0)} returned, ${count(g.units_burnt ?? 0)} expired`));
    if (g.leases_voided) list.push(fact("Leases lost by Redis", count(g.leases_voided)));
  }
  if (g.exchanges) {
    list.push(fact("Counters exchanged", count(g.exchanges)));
    list.push(fact("Largest overshoot of eventual limits", percent(g.overshoot_ppm ?? 0, 1e6)));
  }
  if (g.regions) list.push(fact("Other regions", `${count(g.regions_up ?? 0)} of ${count(g.regions)} available`));
  return list.length ? [h("dl", { class: "facts" }, list)] : [];
}

function tableFacts(t) {
  return h("dl", { class: "facts" }, fact("File", visible(t.path)), fact("Memory", bytes(t.memory_bytes)), fact("Keys", `${count(t.keys)} of ${count(t.room_for_keys)} (${percent(t.keys, t.room_for_keys)})`),
    fact("Over their limit", count(t.keys_refused)), fact("Evicted", `${count(t.evicted + t.evicted_refused)}, ${count(t.evicted_refused)} of them over their limit`));
}

function latencyFacts(l) {
  const percentiles = (x) => (x ? `50 % within ${nanos(x.p50_ns)}, 99 % within ${nanos(x.p99_ns)}` : "no data yet");
  return h("dl", { class: "facts" }, fact("In the table", percentiles(l.local)), l.central ? fact("With Redis", percentiles(l.central)) : "");
}

function hostRow(host, now, odd) {
  return h("tr", {}, h("th", { scope: "row" }, visible(host.name)), h("td", { class: "number" }, String(host.pid)),
    h("td", {}, h("code", {}, host.rules_hash ? host.rules_hash.slice(0, 12) : "no rules"), odd ? h("span", { class: "badge bad" }, "different rules") : ""),
    h("td", { class: "wide" }, `generation ${host.generation}, ${host.loaded_at ? `${span(Math.max(0, Math.round(now - host.loaded_at)))} ago` : "never"}`),
    h("td", {}, host.error ? h("span", { class: "badge bad", title: visible(host.error, 200) }, "last load failed") : "ok"));
}

export function fleet(view, context) {
  const store = h("div"), nodes = h("div"), table = h("div"), latency = h("div"), hosts = h("tbody"), changes = h("ul", { class: "plain" });
  const nodesCard = h("section", { class: "card", hidden: true }, h("h2", {}, "Fleet"), nodes);
  view.append(h("h1", {}, "Fleet"), h("div", { class: "columns" }, h("section", { class: "card" }, h("h2", {}, "Central store"), store),
    h("section", { class: "card" }, h("h2", {}, "Time per decision"), latency), nodesCard, h("section", { class: "card" }, h("h2", {}, "Table"), table)),
  h("section", { class: "card" }, h("h2", {}, "Processes that decide"), h("div", { class: "scroll" }, h("table", { class: "rows" }, h("caption", { class: "unseen" }, "Processes and their rules"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Name"), h("th", { scope: "col", class: "number" }, "Process"), h("th", { scope: "col" }, "Rules"), h("th", { scope: "col", class: "wide" }, "Loaded"), h("th", { scope: "col" }, "State"))), hosts))),
  h("section", { class: "card" }, h("h2", {}, "Recent changes"), changes));

  let timer = null, closed = false;
  async function loadChanges() {
    try {
      const list = (await get("/v1/changes")).changes;
      if (closed) return;
      replace(changes, list.length ? list.slice(0, 50).map((c) => h("li", {}, h("time", {}, when(c.at)), ` ${visible(c.what, 200)} `, h("span", { class: "soft" }, `by ${visible(c.who)}`))) : h("li", { class: "soft" }, "No changes since the service started."));
    } catch { /* the stream of events reports a lost connection */ }
    if (!closed) timer = setTimeout(loadChanges, 3000);
  }

  context.follow("/v1/fleet", (data) => {
    const first = data.hosts[0]?.rules_hash;
    replace(store, storeFacts(data.gauges));
    const more = fleetFacts(data.gauges);
    nodesCard.hidden = !more.length;
    replace(nodes, more);
    replace(table, tableFacts(data.health.table));
    replace(latency, latencyFacts(data.latency));
    replace(hosts, data.hosts.map((host) => hostRow(host, data.now, host.rules_hash !== first)));
  });
  loadChanges();
  return () => {
    closed = true;
    clearTimeout(timer);
  };
}
