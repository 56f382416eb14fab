// The part of the page Key with the bans in force, their release, and the state of weir shield.
import { bytes, confirm, count, h, note, replace, setText, visible, when } from "/ui/dom.js";
import { poll, post } from "/ui/api.js";

const POLL_MS = 3000;
const ROWS = 100;

const until = (instant) => (instant === "ever" ? "permanently" : when(instant));

function reason(b) {
  if (b.only_shield) return "operator, only in weir shield";
  const who = b.automatic ? `automatic, ban ${count(b.level)} within a day` : "operator";
  return `${b.shadow ? "shadow, not in force: " : ""}${who}${b.shield ? ", also by weir shield" : ""}`;
}

const some = (n, one, more) => n && `${count(n)} ${n === 1 ? one : more}`;

// The body of a request that releases the ban. A ban whose address is not known is released with its rule and kind.
function selection(b) {
  const kind = b.shadow ? "shadow" : b.automatic ? "automatic" : "operator";
  return b.address ? { address: b.address, kind } : { rule: b.rule, kind };
}

function shieldText(s) {
  if (!s) return "weir shield does not run on this table.";
  const left = [some(s.skipped, "ban skipped, because the address is protected or the rule suspended", "bans skipped, because the address is protected or the rule suspended"), some(s.left_out, "ban left out, because a set is full", "bans left out, because a set is full"), some(s.failures, "change failed", "changes failed")].filter(Boolean);
  return `weir shield: ${count(s.elements_v4 + s.elements_v6 + s.prefixes)} addresses and networks in the kernel, ${some(s.packets, "packet", "packets") || "no packets"} (${bytes(s.bytes)}) dropped${left.length ? `, ${left.join(", ")}` : ""}.`;
}

export function bans(context) {
  const body = h("tbody"), shield = h("p", { class: "soft" }), none = h("p", { class: "soft" }, "No bans."), more = h("p", { class: "soft", hidden: true });
  const result = h("div", { class: "result" });
  const table = h("table", { class: "rows", hidden: true }, h("caption", { class: "unseen" }, "Bans, newest first"),
    h("thead", {}, h("tr", {}, ["Key", "Rule", "Reason", "Since", "Until", ""].map((title) => h("th", { scope: "col" }, title)))), body);
  const rows = new Map(); // by key, address, rule and start, so that a row under the pointer stays

  async function release(b) {
    const whole = b.address ? `All ${b.automatic ? "automatic" : "operators'"} bans of this address end:` : "The text or the address of this key is not known. All bans of its rule and kind end:";
    const name = b.address ?? b.rule;
    if (!(await confirm("Release?", h("p", {}, whole, " ", h("code", { class: "long" }, visible(name, 300))), "Release"))) return;
    try {
      const { released } = await post("/v1/bans/release", selection(b));
      replace(result, note("good", `${count(released)} ${released === 1 ? "ban" : "bans"} released.`));
    } catch (error) {
      replace(result, note("bad", `Failed: ${error.message}`));
    }
    await load();
  }

  function row(b) {
    const can = b.address !== null || b.rule !== null;
    return h("tr", { "data-kind": b.shadow ? "shadow" : b.automatic ? "automatic" : "operator" },
      h("th", { scope: "row" }, h("code", {}, b.key !== null ? visible(b.key, 200) : b.address ?? "a key whose text is not known")), h("td", {}, visible(b.rule ?? "–")), h("td", {}, reason(b)),
      h("td", {}, when(b.since)), h("td", {}, until(b.until)), h("td", {}, can ? h("button", { type: "button", onclick: () => release(b) }, "Release…") : ""));
  }

  function show(page) {
    const seen = new Set();
    page.bans.forEach((b, i) => {
      let id = JSON.stringify([b.key, b.address, b.rule, b.since, b.until, b.shadow]);
      while (seen.has(id)) id += " "; // bans of one rule whose keys and addresses are not shown
      seen.add(id);
      if (!rows.has(id)) rows.set(id, row(b));
      if (body.children[i] !== rows.get(id)) body.insertBefore(rows.get(id), body.children[i] ?? null);
    });
    for (const [id, element] of rows) if (!seen.has(id)) { element.remove(); rows.delete(id); }
    table.hidden = page.bans.length === 0;
    none.hidden = page.bans.length > 0;
    more.hidden = page.matched <= page.bans.length;
    setText(more, `and ${count(page.matched - page.bans.length)} more: weir ban list shows all`);
    setText(shield, shieldText(page.shield));
  }

  const { load, close } = poll(context, `/v1/bans?count=${ROWS}`, POLL_MS, show);
  return { box: h("section", { class: "card", id: "bans" }, h("h2", {}, "Bans"), h("div", { class: "scroll" }, table), none, more, result, shield), close };
}
