// The page Rules: the rule files with their errors, and "Try a request".
import { count, h, note, replace, setText, span, visible, when } from "/ui/dom.js";
import { get, post } from "/ui/api.js";
import { colour } from "/ui/yaml.js";
import { keyHref } from "/ui/views/keylink.js";

const LINE = 20; // height of a line in pixels; only visible lines are in the document
const POLL_MS = 2000;

// ---- the file ----

class Listing {
  constructor() {
    this.lines = [];
    this.marks = new Map();
    this.inner = h("div", { class: "lines" });
    this.box = h("div", { class: "listing", tabindex: "0", role: "region", "aria-label": "Rule file", onscroll: () => this.draw() }, this.inner);
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.box);
  }

  set(text, marks) {
    this.lines = text.split("\n");
    if (this.lines.at(-1) === "") this.lines.pop();
    this.marks = marks;
    this.inner.style.height = `${this.lines.length * LINE}px`;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / LINE) - 20);
    const last = Math.min(this.lines.length, first + Math.ceil(this.box.clientHeight / LINE) + 40);
    const made = [];
    for (let i = first; i < last; i++) {
      const mark = this.marks.get(i + 1);
      const line = h("div", { class: "line", "data-line": String(i + 1), "data-mark": mark?.severity }, h("span", { class: "at", "aria-hidden": "true" }, String(i + 1)),
        h("code", {}, colour(visible(this.lines[i], 400))), mark ? h("span", { class: "message" }, mark.message) : "");
      line.style.top = `${i * LINE}px`;
      made.push(line);
    }
    replace(this.inner, made);
  }

  reveal(line) {
    this.box.scrollTop = Math.max(0, (line - 6) * LINE);
    this.draw();
  }

  close() {
    this.resize.disconnect();
  }
}

// ---- trying a request ----

function readRequest(form) {
  const fields = new FormData(form);
  const [method, target] = fields.get("line").trim().split(/\s+/);
  const headers = {};
  for (const line of fields.get("headers").split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) continue;
    const name = line.slice(0, colon).trim().toLowerCase();
    (headers[name] ??= []).push(line.slice(colon + 1).trim());
  }
  const request = { method, target: target ?? "", headers };
  if (headers.host) request.host = headers.host[0];
  for (const name of ["address", "identity"]) if (fields.get(name)) request[name] = fields.get(name).trim();
  return { request };
}

function limitText(limit) {
  const more = [limit.shadow && "shadow", limit.quota && "quota", limit.replaced && "replaced by another limit of this request"].filter(Boolean);
  return h("li", {}, h("strong", {}, limit.unlimited ? "unlimited" : limit.text), limit.algorithm ? ` ${limit.algorithm.replaceAll("_", " ")}` : "",
    limit.stat ? h("span", { class: "soft" }, ` ${limit.stat}`) : "", more.length ? h("span", { class: "soft" }, ` (${more.join(", ")})`) : "");
}

function walkText(domain, walk, reveal) {
  const entries = walk.entries.map((e) => `${e.key}=${e.value}`).join(" ");
  const outcome = { no_rule: "no rule matches: admitted, not counted", pass: "only a parent of other rules: admitted, not counted", whitelisted: "a rule without a limit: admitted", limited: "", unlimited: "" }[walk.outcome];
  return h("li", {}, h("a", { href: keyHref(domain, walk.entries) }, h("code", {}, visible(entries, 120))),
    walk.rule ? [" matches ", h("button", { type: "button", class: "link", onclick: () => reveal(walk.rule.file, walk.rule.line) }, `${walk.rule.path} (line ${walk.rule.line})`)] : "",
    outcome ? `: ${outcome}` : h("ul", {}, walk.limits.map(limitText)));
}

function verdict(answer, reveal) {
  const domains = answer.domains.filter((d) => d.known && (d.allowed || d.denied || d.descriptors.length));
  if (!domains.length) return [note("good", "No rule matches this request: it is admitted and not counted.")];
  return domains.map((d) => h("div", {}, h("h3", {}, `Domain ${visible(d.domain)}`),
    d.allowed ? note("good", "Allowed by `allow` in `requests:`: no limit applies.") : "", d.denied ? note("bad", "Refused: a required value is missing or ambiguous (`missing: deny`, `ambiguous: deny`).") : "",
    h("ul", {}, d.descriptors.map((w) => walkText(d.domain, w, reveal)))));
}

// ---- the page ----

export function rules(view, context, to) {
  const listing = new Listing();
  const facts = h("p", { class: "lead" }), errors = h("div", { "aria-live": "polite" }), off = h("p", { class: "note warn", role: "status", hidden: true }), files = h("select", { id: "file", onchange: () => { shown = ""; choose(files.value); } });
  const fileTool = h("div", { class: "tools", hidden: true }, h("label", { for: "file" }, "File"), files);
  const result = h("div", { "aria-live": "polite" });
  let text = null, wanted = to.query.get("file"), line = Number(to.query.get("line")) || 0, shown = "", timer = null, closed = false, seen = "";

  const form = h("form", {
    class: "card try",
    async onsubmit(event) {
      event.preventDefault();
      try {
        replace(result, verdict(await post("/v1/explain", readRequest(form)), reveal));
      } catch (error) {
        replace(result, note("bad", error.message));
      }
    },
  }, h("h2", {}, "Try a request"), h("p", { class: "soft" }, "Shows the rules that would decide the request. Nothing is counted."),
  h("label", { for: "line" }, "Request line"), h("input", { id: "line", name: "line", required: true, value: "GET /", placeholder: "POST /v1/posts", pattern: "\\s*\\S+\\s+\\S+.*", title: "method and target, for example GET /", spellcheck: "false", autocapitalize: "off" }),
  h("label", { for: "headers" }, "Header fields, one per line"), h("textarea", { id: "headers", name: "headers", rows: "3", placeholder: "x-user-id: 7", spellcheck: "false", autocapitalize: "off" }),
  h("label", { for: "address" }, "Client address"), h("input", { id: "address", name: "address", placeholder: "192.0.2.7", spellcheck: "false" }),
  h("label", { for: "identity" }, "Identity, if authenticated"), h("input", { id: "identity", name: "identity", spellcheck: "false", autocapitalize: "off" }),
  h("button", { class: "primary", type: "submit" }, "Try request"), result);

  view.append(h("h1", {}, "Rules"), facts, off, errors,
    h("div", { class: "rules-grid" }, h("section", { class: "card", "aria-labelledby": "file-title" }, h("div", { class: "head" }, h("h2", { id: "file-title" }, "On disk"), fileTool), listing.box), form));

  function marksOf(name) {
    const marks = new Map();
    for (const d of text.diagnostics) if (d.file === name && d.line && (!marks.has(d.line) || d.severity === "error")) marks.set(d.line, d);
    return marks;
  }

  function choose(name, at = 0) {
    const file = text.files.find((f) => f.name === name) ?? text.files[0];
    if (!file) return;
    wanted = file.name;
    files.value = file.name;
    const marks = marksOf(file.name);
    const now = file.name + file.text + JSON.stringify([...marks]);
    if (now !== shown) listing.set(file.text, marks);
    shown = now;
    if (at) listing.reveal(at);
  }

  function reveal(file, at) {
    choose(file, at);
    listing.box.focus({ preventScroll: true });
  }

  function showErrors(loaded) {
    const bad = text.diagnostics.filter((d) => d.severity === "error"), odd = text.diagnostics.filter((d) => d.severity !== "error");
    const item = (d) => h("li", {}, !d.line ? visible(d.file) : h("button", { type: "button", class: "link", onclick: () => reveal(d.file, d.line) }, text.files.length > 1 ? `${visible(d.file)}:${d.line}` : `line ${d.line}`), `: ${d.message}`);
    replace(errors, bad.length || loaded.error ? h("div", { class: "note bad", role: "alert" }, h("strong", {}, bad.length ? `The file has ${count(bad.length)} error${bad.length > 1 ? "s" : ""}; generation ${loaded.generation} stays in force.` : "The last load failed."),
      h("ul", {}, bad.slice(0, 20).map(item)), bad.length ? "" : h("pre", { tabindex: "0" }, visible(loaded.error ?? "", 1000).replaceAll("\u240a", "\n"))) : "",
    odd.length ? h("details", { class: "note warn" }, h("summary", {}, `${count(odd.length)} warning${odd.length > 1 ? "s" : ""}`), h("ul", {}, odd.slice(0, 50).map(item))) : "");
    return bad[0];
  }

  function show(data) {
    const before = text;
    text = data;
    const state = JSON.stringify([data.diagnostics, data.rules.generation, data.rules.error]);
    setText(facts, `${data.path} · generation ${data.rules.generation} · loaded ${when(data.rules.loaded_at)} · hash ${data.rules.hash}`);
    const names = data.files.map((f) => f.name).join("\n");
    if (files.dataset.names !== names) {
      files.dataset.names = names;
      replace(files, data.files.map((f) => h("option", { value: f.name }, visible(f.name))));
      fileTool.hidden = data.files.length < 2;
    }
    let first = null;
    if (state !== seen) first = showErrors(data.rules);
    seen = state;
    choose(first ? first.file : wanted, first ? first.line : before ? 0 : line);
  }

  // After a slow response the pause until the next request is longer.
  async function load() {
    const began = performance.now();
    clearTimeout(timer);
    try {
      const [data, { paused }] = await Promise.all([get("/v1/rules/text"), get("/v1/paused")]);
      if (closed) return;
      show(data);
      off.hidden = !paused.length;
      setText(off, `Paused and not enforced: ${paused.map((name) => visible(name) || "all rules").join(", ")}. \`weir resume\` ends the pause.`);
      context.state("live");
    } catch (error) {
      if (closed) return;
      if (error.status === 401) return context.denied();
      context.state("lost", error.status ? error.message : "");
    }
    if (!closed) timer = setTimeout(load, Math.max(POLL_MS, 20 * (performance.now() - began)));
  }

  load();
  return () => {
    closed = true;
    clearTimeout(timer);
    listing.close();
  };
}
