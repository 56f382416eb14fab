// The page Key: the state of one key in every limit, and bans, grants and resets of it.
import { confirm, count, h, note, replace, setText, span, visible, when, words } from "/ui/dom.js";
import { post } from "/ui/api.js";
import { bans } from "/ui/views/bans.js";
import { inForce, suggest } from "/ui/views/inforce.js";
import { keyHref } from "/ui/views/keylink.js";

const POLL_MS = 2000;

const until = (instant) => (instant === "ever" ? "permanently" : `until ${when(instant)}`);

// Returns the state of a limit on concurrent requests as a sentence, and its CSS class.
function slotSentence(c, refused) {
  if (c.remaining > 0) return ["good", `Admitted: ${count(c.slots_in_use)} of ${count(c.limit)} slots in use.`];
  const wait = c.retry_after === null ? "waiting does not help" : `the next one is probably free in ${span(c.retry_after)}`;
  return ["bad", `${refused}: all ${count(c.limit)} slots are in use; ${wait}.`];
}

// Returns the state of a counter as a sentence, and its CSS class.
function sentence(c) {
  const refused = c.shadow || c.paused ? "Would be refused" : "Refused";
  const per = c.period ? ` per ${span(c.period)}` : "";
  if (c.banned_until) return ["bad", `${refused}: banned ${until(c.banned_until)}${c.ban_automatic ? ` by its rule (ban ${count(c.ban_level)} within a day)` : ""}.`];
  if (c.slots_in_use !== null) return slotSentence(c, refused);
  if (c.remaining > 0) return ["good", `Admitted: ${count(c.remaining)} of ${count(c.limit)} left${per && `, counted${per}`}.`];
  const at = c.retry_after > 60 ? ` (${when(Date.now() / 1000 + c.retry_after)})` : "";
  const wait = c.retry_after === null ? "waiting does not help" : `the next request is admitted in ${span(c.retry_after)}${at}`;
  return ["bad", `${refused}: all ${count(c.limit)}${per} are used; ${wait}.`];
}

function counter(c) {
  const [state, text] = sentence(c);
  const source = { store: "from Redis", exchange: "with the last reports of other machines", machine: "no reply from Redis: counted on this machine only" }[c.source];
  const notes = [source, c.debt > 0 && `${count(c.debt)} of debt, used beyond the limit`, c.slots_in_use !== null && `max_hold ${span(c.period)}`,
    c.shadow && !c.paused && "shadow: counted, not enforced", c.paused && "paused: not enforced", c.quota && "quota",
    c.ban_shield && "dropped by weir shield", c.shadow_ban_until && `would be banned ${until(c.shadow_ban_until)} in shadow mode`,
    c.ban_after > 0 && !c.banned_until && `${count(c.ban_refusals)} of ${count(c.ban_after)} refusals that start a ban`,
    c.granted && c.granted_until && `${count(c.granted)} more granted ${until(c.granted_until)}`].filter(Boolean);
  return h("li", { class: "counter", "data-state": state }, h("div", {}, h("strong", {}, c.rule ?? c.name ?? "limit of the request"), c.algorithm ? ` · ${words(c.algorithm)}` : ""),
    h("div", {}, text), h("meter", { min: 0, max: Math.max(1, c.limit), value: c.remaining, "aria-label": "left" }),
    notes.length ? h("div", { class: "soft" }, notes.join(" · ")) : "");
}

const untouched = (counters) => counters.every((c) => c.remaining === c.limit && !c.banned_until && !c.granted);

function steps(walk) {
  const tried = { exact: "this value", wildcard: "wildcard", any: "any value", passed_over: "skipped", nothing_below: "no rule below" };
  return h("details", {}, h("summary", {}, "How the rule was found"),
    h("ol", {}, walk.steps.map((s) => h("li", {}, `entry ${s.entry + 1}, ${tried[s.tried] ?? s.tried}: `,
      s.rule ? h("code", {}, `${s.rule.path} (${s.rule.file}:${s.rule.line})`) : "no such rule", s.matched ? " ← matched" : ""))));
}

function entryRow(key, value, remove) {
  const row = h("div", { class: "pair" }, h("input", { name: "k", "aria-label": "Key", placeholder: "key", list: "keys", value: key, required: true, spellcheck: "false", autocapitalize: "off" }),
    h("span", { "aria-hidden": "true" }, "="), h("input", { name: "v", "aria-label": "Value", placeholder: "value", value, spellcheck: "false", autocapitalize: "off" }),
    h("button", { type: "button", class: "quiet", "aria-label": "Remove this entry", onclick: () => remove(row) }, "×"));
  return row;
}

export function key(view, context, to) {
  const keys = to.query.getAll("k"), values = to.query.getAll("v");
  const target = { domain: to.query.get("domain") ?? "", entries: keys.map((k, i) => ({ key: k, value: values[i] ?? "" })) };
  const asked = target.domain && target.entries.length;
  const domain = h("input", { id: "domain", name: "domain", list: "domains", required: true, value: target.domain, spellcheck: "false", autocapitalize: "off" });
  const pairs = h("div", { class: "pairs" });
  const remove = (row) => pairs.children.length > 1 && row.remove();
  const add = (k = "", v = "") => pairs.append(entryRow(k, v, remove));
  const out = h("div", { "aria-live": "polite" });
  const errors = h("div"), domains = h("datalist", { id: "domains" }), names = h("datalist", { id: "keys" });
  (asked ? target.entries : [{ key: "", value: "" }]).forEach((e) => add(e.key, e.value));

  view.append(h("h1", {}, "Key"), asked ? "" : h("p", { class: "lead" }, "Look up a key by the domain and the descriptor of its rule, for example user = 7. Keys in the lists of a rule link to this page too."), h("form", {
    class: "card lookup",
    onsubmit(event) {
      event.preventDefault();
      const fields = new FormData(event.target);
      const v = fields.getAll("v");
      location.hash = keyHref(fields.get("domain"), fields.getAll("k").map((k, i) => ({ key: k, value: v[i] })));
    },
  }, h("div", {}, h("label", { for: "domain" }, "Domain"), domain), h("fieldset", {}, h("legend", {}, "Descriptor"), pairs,
    h("button", { type: "button", class: "quiet", onclick: () => { add(); pairs.lastChild.firstChild.focus(); } }, "Add entry")),
  h("button", { class: "primary", type: "submit" }, "Look up")), domains, names, errors, out);
  const suggested = suggest(domains, names, domain).catch(() => false); // the form works without suggestions
  if (!asked) {
    const list = inForce(context), banned = bans(context);
    view.append(banned.box, list.box);
    domain.focus({ preventScroll: true });
    suggested.then((filled) => filled && document.activeElement === domain && pairs.querySelector("input").focus({ preventScroll: true }));
    return () => {
      banned.close();
      list.close();
    };
  }

  // ---- a key was chosen ----

  let variants = [], chosen = null, timer = null, closed = false, busy = false;
  const state = h("ul", { class: "plain counters" }), history = h("ul", { class: "plain" }), how = h("div"), result = h("div", { class: "result" });
  const buttons = h("div", { class: "actions" });
  const name = target.entries.map((e) => `${e.key}=${e.value}`).join(" ");

  async function find() {
    const explained = (await post("/v1/explain", target)).domains[0];
    variants = [{ source: "", entries: target.entries }];
    explained?.sources.forEach((labels, i) => labels.forEach((source) => variants.push({
      source, entries: target.entries.map((e, j) => (i === j ? { ...e, source } : e)),
    })));
    const walk = explained?.descriptors[0];
    if (walk) replace(how, steps(walk));
    for (const variant of variants) variant.counters = await getCounters(variant);
    const used = variants.filter((v) => !untouched(v.counters));
    chosen = used[0] ?? variants[1] ?? variants[0];
  }

  const getCounters = async (variant) => (await post("/v1/key/get", { domain: target.domain, entries: variant.entries })).counters;

  function chooser() {
    if (variants.length < 2) return "";
    return h("fieldset", { class: "tools" }, h("legend", {}, "Source of the value"), variants.map((v, i) => h("label", {},
      h("input", { type: "radio", name: "source", value: String(i), checked: v === chosen, onchange: () => { chosen = v; refresh(); } }), ` ${v.source || "the descriptor itself"}`)));
  }

  function act(text, danger, ask) {
    return h("button", { type: "button", class: danger ? "danger" : "", async onclick() {
      const order = await ask();
      if (!order) return;
      await change(order[0], order[1]);
    } }, text);
  }

  async function change(verb, more) {
    try {
      const { counters, region } = await post(`/v1/key/${verb}`, { domain: target.domain, entries: chosen.entries, ...more });
      chosen.counters = counters;
      replace(result, note("good", region ? `Done in region ${region} only. Repeat it in every other region.` : "Done."));
    } catch (error) {
      replace(result, note("bad", `Failed: ${error.message}`));
    }
    await refresh();
  }

  const forField = (usual) => h("p", {}, h("label", { for: "for" }, "Duration"), h("input", { id: "for", name: "for", required: true, value: usual, pattern: "ever|([0-9]+(ms|s|m|h|d))+", title: "90s, 15m, 1h30m, 7d, or ever", autofocus: true }),
    h("span", { class: "soft hint" }, "90s, 15m, 1h30m, 7d, or ever"));
  const about = (text) => h("p", {}, text, " ", h("code", { class: "long" }, visible(`${target.domain} ${name}`, 300)), chosen.source ? h("span", { class: "soft" }, `with a value from ${visible(chosen.source)}`) : "");

  const orders = {
    reset: async () => (await confirm("Reset this key?", about("Resets all counters of this key to their initial state:"), "Reset")) && ["reset", {}],
    async grant() {
      const fields = await confirm("Grant more?", h("div", {}, about("Raises the limits of this key for a time:"),
        h("p", {}, h("label", { for: "extra" }, "Additional units"), h("input", { id: "extra", name: "extra", type: "number", min: "1", max: "4294967295", required: true, value: "10", autofocus: true })), forField("1h")), "Grant");
      return fields && ["grant", { extra: Number(fields.extra), for: fields.for }];
    },
    async ban() {
      const fields = await confirm("Ban this key?", h("div", {}, about("Refuses every request with this key:"), forField("1h")), "Ban", true);
      return fields && ["ban", { for: fields.for }];
    },
    lift: async () => (await confirm("Lift the ban?", about("Admits requests with this key again, within its limits:"), "Lift the ban")) && ["ban", { lift: true }],
    end: async () => (await confirm("End the grant?", about("The limits of the rules apply to this key again:"), "End the grant")) && ["grant", { extra: 0 }],
  };

  function showButtons() {
    const banned = chosen.counters.some((c) => c.banned_until), granted = chosen.counters.some((c) => c.granted_until);
    const wanted = `${banned}${granted}`;
    if (buttons.dataset.shows === wanted) return;
    buttons.dataset.shows = wanted;
    const had = buttons.contains(document.activeElement) ? document.activeElement : null, last = had === buttons.lastElementChild;
    replace(buttons, act("Reset…", false, orders.reset), act("Grant more…", false, orders.grant), granted ? act("End the grant…", false, orders.end) : "",
      banned ? act("Lift the ban…", false, orders.lift) : act("Ban…", true, orders.ban));
    // The focus stays on its button. If the button is gone, the focus moves to the button at the same position.
    if (had) ([...buttons.children].find((b) => b.textContent === had.textContent) ?? (last ? buttons.lastElementChild : buttons.firstElementChild)).focus();
  }

  async function refresh() {
    clearTimeout(timer);
    if (busy || closed) return;
    busy = true;
    try {
      chosen.counters = await getCounters(chosen);
      const changes = (await post("/v1/key/changes", target)).changes;
      if (closed) return;
      replace(state, chosen.counters.map(counter));
      replace(history, changes.length ? changes.map((c) => h("li", {}, h("time", {}, when(c.at)), ` ${visible(c.what, 200)} `, h("span", { class: "soft" }, `by ${visible(c.who)}`))) : h("li", { class: "soft" }, "No changes since the service started."));
      showButtons();
      context.state("live");
    } catch (error) {
      if (closed) return;
      if (error.status === 401) return context.denied();
      context.state("lost", error.status ? error.message : "");
    } finally {
      busy = false;
    }
    if (!closed) timer = setTimeout(refresh, POLL_MS);
  }

  async function load() {
    try {
      await find();
    } catch (error) {
      if (closed) return;
      if (error.status === 401) return context.denied();
      if (!error.status) {
        context.state("lost");
        timer = setTimeout(load, POLL_MS);
        return;
      }
      context.state("still");
      replace(errors, note("bad", error.status === 404 ? "No limit applies to this descriptor: its requests are admitted." : error.message));
      return;
    }
    if (closed) return;
    replace(out, h("section", { class: "card" }, h("h2", {}, "State in every limit"), chooser(), state, buttons, result, how),
      h("section", { class: "card" }, h("h2", {}, "Recent changes"), history));
    await refresh();
  }

  load();
  return () => {
    closed = true;
    clearTimeout(timer);
  };
}
