// The page of a rule: its figures, charts, candidates, advice and keys.
import { count, denied, h, nanos, percent, rate, replace, setText, span, visible, words } from "/ui/dom.js";
import { Chart, curves } from "/ui/chart.js";
import { keyText } from "/ui/views/keylink.js";

const COLOURS = ["one", "two", "three", "four"];

const plus = (history) => history.refused.map((n, i) => (n === null ? null : n + history.shadowed[i]));

const terms = (list) => list.flatMap(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));

const total = (list) => list.reduce((sum, n) => sum + (n ?? 0), 0);

const LIMIT = { label: "limit of one key", colour: "limit", dash: [2, 4] };

// The chart of requests counts requests, so a limit of units or slots has no line in it.
const limitLine = (rule, line) => (rule.cost || rule.algorithm === "concurrent" ? [] : [line]);

const isSlots = (cost) => cost.slots_in_use !== null;

// The lines of the chart of costs: [name in the API, label, colour].
const UNITS = [["reserved", "reserved", "admit"], ["actual", "used", "one"], ["refunded", "refunded", "two"], ["owed", "charged as debt", "refuse"]];
const SLOTS = [["slots_in_use", "in use, all keys", "admit"]];

// The units of a rule with costs, or the slots of a limit on concurrent requests, since the table was made.
function costs(cost) {
  if (isSlots(cost)) return terms([["taken", count(cost.reserved)], ["given back", count(cost.refunded)], ["lost after max_hold", count(cost.lost)]]);
  const list = [["reserved", count(cost.reserved)], ["used", count(cost.actual)], ["refunded", `${count(cost.refunded)} (${percent(cost.refunded, cost.reserved)})`], ["charged as debt", count(cost.owed)], ["settled requests", count(cost.settled)]];
  if (cost.lost) list.push(["lost", count(cost.lost)]);
  if (cost.defaulted) list.push(["default used", count(cost.defaulted)]);
  if (cost.clamped) list.push(["lowered to the maximum", count(cost.clamped)]);
  return terms(list);
}

function costsNow(cost, limit) {
  if (isSlots(cost)) return terms([["in use, all keys", count(cost.slots_in_use)], ["limit of one key", count(limit)], ["taken per second", rate(cost.per_second.reserved)]]);
  return terms(UNITS.map(([name, label]) => [`${label} per second`, rate(cost.per_second[name])]));
}

// The chart of costs as a sentence, for screen readers.
function costsInWords(cost) {
  if (isSlots(cost)) {
    const most = Math.max(...cost.history.slots_in_use); // a point of a minute is an average
    return `In this period, at most ${most % 1 ? rate(most) : count(most)} slots were in use at the same time.`;
  }
  const [reserved, used, refunded, owed] = UNITS.map(([name]) => count(total(cost.history[name])));
  return `In this period ${reserved} units were reserved, ${used} used, ${refunded} refunded and ${owed} charged as debt.`;
}

function numbers(rule) {
  const all = rule.admitted + rule.refused + rule.deferred + rule.shadowed;
  const share = (n) => `${count(n)} (${percent(n, all)})`;
  const list = [["per second, now", rate(rule.per_second)], ["admitted", count(rule.admitted)], ["refused", share(rule.refused)]];
  if (rule.deferred) list.push(["deferred", share(rule.deferred)]);
  if (rule.shadowed) list.push(["would have been refused", share(rule.shadowed)]);
  if (rule.near_limit) list.push(["near the limit", count(rule.near_limit)]);
  if (rule.delayed) list.push(["delayed", `${count(rule.delayed)}, ${span(rule.delay_us / rule.delayed / 1e6)} each`]);
  if (rule.soft) list.push(["above a soft limit", count(rule.soft)]);
  if (rule.latency.local) list.push(["time per decision", `50 % within ${nanos(rule.latency.local.p50_ns)}, 99 % within ${nanos(rule.latency.local.p99_ns)}`]);
  if (rule.latency.central) list.push(["with Redis", `50 % within ${nanos(rule.latency.central.p50_ns)}, 99 % within ${nanos(rule.latency.central.p99_ns)}`]);
  return terms(list);
}

// Keys whose count may be mostly an estimation error are not shown.
const standsOut = (key) => key.count > 2 * (key.over + key.noise);

function remarks(list, shown) {
  const rest = list.keys.length - list.keys.filter(standsOut).length, hashed = shown.some((k) => k.text === null);
  return [rest ? h("p", { class: "soft" }, `${shown.length ? "No other key" : "No key"} stands out so far.`) : "",
    hashed ? h("p", { class: "soft" }, "A hash stands for a key whose text is not stored.") : ""];
}

function keyTable(title, list, rule, kind) {
  if (!list) return h("p", { class: "soft" }, "No keys: only the busiest rules have them, and only if the service may show keys (--keys).");
  const shown = list.keys.filter(standsOut).slice(0, 20);
  const most = Math.max(1, ...shown.map((k) => k.count));
  const rows = shown.map((k) => {
    const off = k.over + k.noise;
    return h("tr", {}, h("th", { scope: "row", class: "key" }, keyText(k, rule.in_force)),
      h("td", { class: "number" }, count(k.count), off ? h("span", { class: "soft", title: "largest possible error of the count" }, ` ±${count(off)}`) : ""),
      h("td", { class: "share" }, h("meter", { min: 0, max: most, value: k.count, "aria-label": "compared with the largest" }), percent(k.count, list.total)));
  });
  if (!list.keys.length) return h("p", { class: "soft" }, rule.per_second && !rule.hot.keys.length ? "No keys yet: the first request was just counted, or keys are hidden (--keys)." : "No keys recently.");
  return [rows.length ? h("table", { class: `rows ${kind}` }, h("caption", { class: "unseen" }, title),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), h("th", { scope: "col", class: "number" }, "Requests"), h("th", { scope: "col" }, "Share"))), h("tbody", {}, rows)) : "",
  ...remarks(list, shown)];
}

function adviceList(rule) {
  return rule.advice.map((a) => h("li", {}, h("strong", {}, words(a.kind)), ": ", a.text, a.key ? [" (", keyText(a.key, rule.in_force), ")"] : "",
    a.yaml ? h("pre", { tabindex: "0" }, a.yaml) : ""));
}

export function rule(view, context, to) {
  const slot = encodeURIComponent(to.rest[0] ?? "");
  let by = "seconds", chart = null, made = "", waits = null, costChart = null, drawn = "";
  const title = h("h1", {}, "Rule");
  const lead = h("p", { class: "lead" });
  const facts = h("dl", { class: "facts" });
  const box = h("div", { class: "chart" }), caption = h("figcaption", { class: "unseen" });
  const overlays = h("div", { class: "overlays" });
  const waitBox = h("div", { class: "chart" });
  const waitCard = h("section", { class: "card", hidden: true }, h("h2", {}, "Delayed"), h("figure", {}, waitBox));
  const costTitle = h("h2", { id: "costs" }), costNow = h("dl", { class: "facts costs-now" }), costFacts = h("dl", { class: "facts costs" });
  const costBox = h("div", { class: "chart" }), costCaption = h("figcaption", { class: "unseen" }), costFigure = h("figure", {}, costBox, costCaption);
  const costCard = h("section", { class: "card", "aria-labelledby": "costs", hidden: true }, costTitle, costNow, costFigure, h("h3", {}, "In total"), costFacts);
  const whom = h("h2", {}, "Most refused keys"), refused = h("div"), hot = h("div"), candidates = h("ul", { class: "plain" }), advice = h("ul", { class: "plain" });
  const candidateCard = h("section", { class: "card", hidden: true }, h("h2", {}, "Candidates"),
    h("p", { class: "soft" }, "Other limits, applied to the same requests without being enforced."), candidates);
  const adviceCard = h("section", { class: "card", hidden: true }, h("h2", {}, "Advice"), advice);
  const nothing = h("p", { class: "soft", hidden: true }, "No history for this rule: only the busiest rules have one.");
  const heading = h("h2", { id: "traffic" }, "Requests per second");
  const spans = h("select", { id: "span", onchange: () => { by = spans.value; setText(heading, `Requests per ${by.slice(0, -1)}`); start(); } },
    h("option", { value: "seconds" }, "10 minutes, per second"), h("option", { value: "minutes" }, "1 day, per minute"));
  view.append(title, lead, facts,
    h("section", { class: "card", "aria-labelledby": "traffic" },
      h("div", { class: "head" }, heading, h("div", { class: "tools" }, h("label", { for: "span" }, "Show"), spans)),
      h("figure", {}, box, caption), nothing, overlays),
    costCard, waitCard, candidateCard, adviceCard,
    h("div", { class: "two" }, h("section", { class: "card" }, whom, refused),
      h("section", { class: "card" }, h("h2", {}, "Hottest keys"), hot)));

  // Each candidate has a line in the chart, so a change of the candidates needs a new chart.
  function makeChart(rule) {
    const over = denied(rule, rule.shadow);
    const ids = [over, !!rule.cost, ...rule.candidates.map((c) => c.slot)].join();
    if (chart && ids === made) return;
    chart?.close();
    made = ids;
    const series = [{ label: "admitted", colour: "admit", fill: true }, { label: over, colour: "refuse", fill: true }, ...limitLine(rule, LIMIT),
      ...rule.candidates.map((c, i) => ({ label: `${words(c.short)} would refuse`, colour: COLOURS[i % COLOURS.length], dash: [8, 4], width: 2.2 }))];
    replace(overlays, rule.candidates.map((c, i) => h("label", {},
      h("input", { type: "checkbox", checked: true, onchange: (e) => chart.showSeries(series.length - rule.candidates.length + i, e.target.checked) }), ` overlay ${words(c.short)}`)));
    chart = new Chart(box, series, 280);
  }

  function draw(rule) {
    const history = rule.history;
    nothing.hidden = !!history;
    box.hidden = !history;
    if (!history) return;
    makeChart(rule);
    const none = history.admitted.map(() => null);
    const one = rule.period ? (rule.limit / rule.period) * history.span : null;
    chart.set(curves(history, history.admitted, plus(history), ...limitLine(rule, none.map(() => one)), ...rule.candidates.map((c) => (c.history?.admitted.length === none.length ? plus(c.history) : none))));
    setText(caption, `In this period ${count(total(history.admitted))} requests were admitted and ${count(total(plus(history)))} ${denied(rule, rule.shadow)}.`);
    drawWaits(history);
  }

  function showCosts(rule) {
    const { cost } = rule;
    costCard.hidden = !cost;
    if (!cost) return;
    setText(costTitle, isSlots(cost) ? "Slots" : `Units per ${by.slice(0, -1)}`);
    replace(costNow, costsNow(cost, rule.limit));
    replace(costFacts, costs(cost));
    costFigure.hidden = !cost.history;
    if (cost.history) drawCosts(rule);
  }

  function drawCosts({ cost, limit, period }) {
    const lines = isSlots(cost) ? SLOTS : UNITS, { history } = cost;
    const one = isSlots(cost) ? limit : period ? (limit / period) * history.span : null;
    costChart ??= new Chart(costBox, [...lines.map(([, label, colour], i) => ({ label, colour, fill: i === 0 })), LIMIT], 220);
    const lists = lines.map(([name]) => history[name]);
    costChart.set(curves(history, ...lists, lists[0].map(() => one)));
    setText(costCaption, costsInWords(cost));
  }

  function drawWaits(history) {
    waitCard.hidden = !history.delayed.some((n) => n);
    if (waitCard.hidden) return;
    waits ??= new Chart(waitBox, [{ label: "delayed", colour: "two", fill: false }], 160);
    waits.set(curves(history, history.delayed));
  }

  function describe(rule) {
    setText(title, visible(rule.rule));
    document.title = `${visible(rule.rule)} – weir`;
    const source = rule.in_force;
    replace(lead, rule.words ? words(rule.words) : "no limit", source ? [" · ", h("a", { href: `#/rules?file=${encodeURIComponent(source.file)}&line=${source.line}` }, `${source.file}:${source.line}`)] : " · not in force here",
      rule.shadow ? h("span", { class: "badge" }, "shadow") : "", rule.quota ? h("span", { class: "badge" }, "quota") : "");
    replace(facts, numbers(rule));
  }

  function show(rule) {
    describe(rule);
    draw(rule);
    showCosts(rule);
    candidateCard.hidden = !rule.candidates.length;
    replace(candidates, rule.candidates.map((c, i) => h("li", { class: `with-${COLOURS[i % COLOURS.length]}` }, "with ", h("strong", {}, words(c.short)), `: ${c.words}`)));
    adviceCard.hidden = !rule.advice.length;
    const lists = JSON.stringify([rule.hot, rule.refused_keys, rule.advice]);
    const inside = [refused, hot, advice].some((e) => e.contains(document.activeElement));
    if (lists === drawn || inside) return;
    drawn = lists;
    setText(whom, rule.deferred && !rule.refused ? "Most deferred keys" : "Most refused keys");
    replace(refused, keyTable(whom.textContent, rule.refused_keys, rule, ""));
    replace(hot, keyTable("Hottest keys", rule.hot, rule, "hot"));
    replace(advice, adviceList(rule));
  }

  function start() {
    context.follow(`/v1/rule?slot=${slot}&span=${by}`, show);
  }

  start();
  return () => {
    chart?.close();
    waits?.close();
    costChart?.close();
  };
}
