// The page Overview: health, decisions of the last minutes, and all rules.
import { bytes, count, denied, h, percent, rate, replace, setText, span, visible, words } from "/ui/dom.js";
import { Chart, curves, spark } from "/ui/chart.js";
import { keyText } from "/ui/views/keylink.js";

const ROWS = 50;
const FILTER = 60; // maximum length of the filter, in bytes
const SHOWN = "weir-first-view"; // performance mark, read by the tests

function sum(list, last) {
  return list.slice(-last).reduce((all, n) => all + (n ?? 0), 0);
}

// ---- health ----

function tile(title, href) {
  const value = h("strong"), more = h("span", { class: "soft" });
  const box = h(href ? "a" : "div", { class: "tile", href }, h("span", { class: "tile-title" }, title), value, more);
  return {
    box,
    set(state, text, detail) {
      box.dataset.state = state;
      setText(value, text);
      setText(more, detail);
    },
  };
}

function tableHealth(tile, table) {
  const share = table.keys / Math.max(1, table.room_for_keys);
  tile.set(share > 0.95 ? "bad" : share > 0.8 ? "warn" : "good", `${percent(table.keys, table.room_for_keys)} full`,
    `${count(table.keys)} keys in ${bytes(table.memory_bytes)}${table.evicted + table.evicted_refused ? `, ${count(table.evicted + table.evicted_refused)} evicted` : ""}`);
}

function rulesHealth(tile, rules, pauses, now) {
  if (rules.error) tile.set("bad", "not loaded", `the file has errors; generation ${rules.generation} stays in force`);
  else tile.set(pauses ? "warn" : "good", pauses ? `${pauses} paused` : "in force",
    `generation ${rules.generation}, loaded ${span(Math.max(0, Math.round(now - rules.loaded_at)))} ago`);
}

function storeHealth(tile, gauges) {
  if (gauges.store_up === undefined) return tile.set("none", "none", "all limits are counted in the table");
  const breaker = ["closed", "half open", "open"][gauges.store_breaker] ?? "unknown";
  tile.set(gauges.store_up ? (gauges.store_breaker ? "warn" : "good") : "bad", gauges.store_up ? "available" : "unavailable",
    `breaker ${breaker}${gauges.store_up && gauges.store_rtt_us ? `, ${(gauges.store_rtt_us / 1000).toFixed(1)} ms` : ""}`);
}

// ---- rows ----

// Counts outlive their rule. A rule that was loaded before the current rules, and not with them, is not in force.
function badges(row, loaded) {
  return [row.shadow && "shadow", row.quota && "quota", row.deferred && "defers", row.loaded_at && row.loaded_at + 1 < loaded && "not in force here"].filter(Boolean).map((b) => h("span", { class: "badge" }, b));
}

// Returns the units that requests of the rule use per second, or the number of slots in use if the limit is on
// concurrent requests. The slots of all keys are counted.
function usage(cost) {
  if (!cost) return "–";
  return cost.slots_in_use === null ? `${rate(cost.per_second.actual)} units/s` : `${count(cost.slots_in_use)} in use`;
}

class Row {
  constructor(row) {
    this.name = h("a", { href: `#/rule/${row.slot}` }, visible(row.rule));
    this.marks = h("span");
    this.limit = h("td", { class: "wide" });
    this.rate = h("td", { class: "number" });
    this.usage = h("td", { class: "number wide usage" });
    this.canvas = h("canvas", { class: "spark", "aria-hidden": "true" });
    this.spark = spark(this.canvas);
    this.share = h("span");
    this.bar = h("meter", { min: 0, max: 1, value: 0, "aria-label": "share refused" });
    this.key = h("td", { class: "key" });
    this.keyed = null;
    this.element = h("tr", {}, h("th", { scope: "row" }, this.name, this.marks), this.limit, this.rate, this.usage,
      h("td", { class: "wide" }, this.canvas), h("td", { class: "share" }, this.bar, this.share), this.key);
  }

  set(row, refused, loaded) {
    const window = row.window ?? { admitted: row.admitted, refused: row.refused + row.deferred, shadowed: row.shadowed };
    const denied = window.refused + window.shadowed, all = window.admitted + denied;
    setText(this.name, visible(row.rule));
    replace(this.marks, badges(row, loaded));
    setText(this.limit, row.words ? words(row.words) : "–");
    setText(this.rate, rate(row.per_second));
    setText(this.usage, usage(row.cost));
    if (row.window) this.spark.set(row.window);
    this.bar.value = all ? denied / all : 0;
    setText(this.share, percent(denied, all));
    this.setKey(refused ? row.most_refused : row.busiest);
  }

  setKey(key) {
    const text = key ? `${key.hash} ${key.text}` : "";
    if (text === this.keyed) return;
    this.keyed = text;
    replace(this.key, keyText(key, null));
  }
}

class Rows {
  constructor(body) {
    this.body = body;
    this.rows = new Map();
  }

  // Rows keep their order while the cursor or the focus is in the table.
  set(list, refused, loaded) {
    const wanted = new Set(list.map((r) => r.slot));
    const busy = this.body.contains(document.activeElement) || this.body.matches(":hover");
    for (const [slot, row] of this.rows) {
      if (wanted.has(slot)) continue;
      row.spark.close();
      row.element.remove();
      this.rows.delete(slot);
    }
    list.forEach((data, i) => {
      let row = this.rows.get(data.slot);
      const fresh = !row;
      if (fresh) this.rows.set(data.slot, (row = new Row(data)));
      if (fresh || (!busy && this.body.children[i] !== row.element)) this.body.insertBefore(row.element, this.body.children[i] ?? null);
      row.set(data, refused, loaded);
    });
  }

  close() {
    for (const row of this.rows.values()) row.spark.close();
  }
}

// ---- the page ----

export function overview(view, context) {
  const query = { by: "busy", filter: "", first: 0 };
  const table = tile("Table", "#/fleet"), store = tile("Store", "#/fleet"), rules = tile("Rules", "#/rules"), now = tile("Decisions, last minute");
  const box = h("div", { class: "chart" });
  const caption = h("figcaption", { class: "unseen" }), about = h("p", { class: "soft" });
  const whose = h("th", { scope: "col" }, "Busiest key");
  const body = h("tbody");
  const empty = h("p", { class: "soft", hidden: true });
  const range = h("span", { class: "soft", role: "status" });
  const before = h("button", { type: "button", onclick: () => turn(-ROWS) }, "Previous");
  const after = h("button", { type: "button", onclick: () => turn(ROWS) }, "Next");
  const filter = h("input", { type: "search", id: "filter", maxlength: "60", placeholder: "part of a name", oninput: () => later() });
  const by = h("select", { id: "by", onchange: () => { query.by = by.value; turn(-query.first); } },
    h("option", { value: "busy" }, "busiest first"), h("option", { value: "refused" }, "most refused first"), h("option", { value: "name" }, "by name"));

  view.append(h("h1", {}, "Overview"),
    h("div", { class: "tiles" }, now.box, table.box, store.box, rules.box),
    h("section", { class: "card", "aria-labelledby": "flow" }, h("h2", { id: "flow" }, "Decisions per second"), about, h("figure", {}, box, caption)),
    h("section", { class: "card", "aria-labelledby": "all" },
      h("div", { class: "head" }, h("h2", { id: "all" }, "Rules"),
        h("div", { class: "tools" }, h("label", { for: "filter" }, "Find"), filter, h("label", { for: "by" }, "Order"), by)),
      h("div", { class: "scroll" }, h("table", { class: "rows no-costs" }, h("caption", { class: "unseen" }, "Rules, their traffic in the last five minutes and their top key"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rule"), h("th", { scope: "col", class: "wide" }, "Limit"), h("th", { scope: "col", class: "number" }, "Per second"),
          h("th", { scope: "col", class: "number wide usage" }, "Cost"),
          h("th", { scope: "col", class: "wide" }, "Last 5 minutes"), h("th", { scope: "col" }, "Refused"), whose)), body)),
      empty, h("div", { class: "pager" }, before, range, after)));

  let chart = null, label = "";
  const rows = new Rows(body);
  let timer = null;

  function turn(by) {
    query.first = Math.max(0, query.first + by);
    start();
  }
  function later() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      query.filter = new TextDecoder().decode(new TextEncoder().encode(filter.value).slice(0, FILTER)).replace(/\ufffd+$/, "");
      turn(-query.first);
    }, 200);
  }
  function start() {
    context.follow(`/v1/overview?${new URLSearchParams({ ...query, count: ROWS })}`, show);
  }

  function showSums(data) {
    const nodes = data.health.gauges.fleet_nodes ?? 0;
    setText(about, `A request counts once for every rule that matches it.${nodes > 1 ? ` Decisions of this machine only; ${count(nodes)} machines share the limits.` : ""}`);
    const admitted = sum(data.history.admitted, 60), refused = sum(data.history.refused, 60) + sum(data.history.shadowed, 60);
    now.set(refused ? "warn" : "good", `${count(admitted)} admitted`, `${count(refused)} ${label} (${percent(refused, admitted + refused)})`);
    setText(caption, `In the last minute ${count(admitted)} were admitted and ${count(refused)} ${label}.`);
  }

  function draw({ history, totals }) {
    if (!chart || label !== denied(totals)) {
      chart?.close();
      label = denied(totals);
      chart = new Chart(box, [{ label: "admitted", colour: "admit", fill: true }, { label, colour: "refuse", fill: true }]);
    }
    chart.set(curves(history, history.admitted, history.refused.map((n, i) => (n === null ? null : n + history.shadowed[i]))));
  }

  function showRules(list, loaded) {
    setText(whose, query.by === "refused" ? "Most refused key" : "Busiest key");
    rows.set(list.rows, query.by === "refused", loaded);
    body.parentElement.classList.toggle("no-costs", !list.rows.some((row) => row.cost));
    const last = list.first + list.rows.length;
    empty.hidden = list.matched > 0;
    setText(empty, list.count ? "No rule matches this name." : "No rules are loaded, and no request has been counted yet.");
    setText(range, list.matched ? `${count(list.first + 1)} to ${count(last)} of ${count(list.matched)}` : "");
    before.disabled = list.first === 0;
    after.disabled = last >= list.matched;
    before.hidden = after.hidden = list.matched <= ROWS;
  }

  function show(data) {
    const { health } = data;
    draw(data);
    showSums(data);
    tableHealth(table, health.table);
    rulesHealth(rules, health.rules, health.pauses, data.now);
    storeHealth(store, health.gauges);
    showRules(data.rules, health.rules.loaded_at);
    if (!performance.getEntriesByName(SHOWN).length) performance.mark(SHOWN);
  }

  start();
  return () => {
    clearTimeout(timer);
    chart?.close();
    rows.close();
  };
}
