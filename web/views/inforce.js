// Parts of the page Key while no key is chosen: suggestions for its form, and the list of bans and grants.
import { count, h, replace, visible, when } from "/ui/dom.js";
import { get, poll } from "/ui/api.js";

const POLL_MS = 3000;
const MAX_ITEMS = 200;

const until = (instant) => (instant === "ever" ? "permanently" : `until ${when(instant)}`);

function line(o) {
  const parts = [o.banned_until && `banned ${until(o.banned_until)}`, o.granted_until && `${count(o.granted)} more granted ${until(o.granted_until)}`].filter(Boolean);
  return h("li", {}, h("code", {}, o.key === null ? "a key whose text is not known" : visible(o.key, 200)), ` ${parts.join(", ")} `, h("span", { class: "soft" }, visible(o.rule ?? "")));
}

// Fills the suggestions of the form. If there is only one domain, sets it and returns true.
export async function suggest(domains, keys, field) {
  const known = (await get("/v1/rules")).domains;
  const names = new Set(known.flatMap((d) => d.rules.flatMap((r) => r.descriptor.map((e) => e.key))));
  const options = (list) => list.slice(0, MAX_ITEMS).map((value) => h("option", { value }));
  replace(domains, options(known.map((d) => d.domain)));
  replace(keys, options([...names]));
  if (known.length !== 1 || field.value) return false;
  field.value = known[0].domain;
  return true;
}

export function inForce(context) {
  const list = h("ul", { class: "plain" });
  const { close } = poll(context, "/v1/overrides", POLL_MS, ({ overrides }) =>
    replace(list, overrides.length ? overrides.slice(0, MAX_ITEMS).map(line) : h("li", { class: "soft" }, "None."),
      overrides.length > MAX_ITEMS ? h("li", { class: "soft" }, `and ${count(overrides.length - MAX_ITEMS)} more, in /v1/overrides`) : ""));
  return { box: h("section", { class: "card" }, h("h2", {}, "Bans and grants in force"), list), close };
}
