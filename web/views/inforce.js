// Where no key is asked for: what can be asked for, and which keys somebody banned or gave more.
import { count, h, replace, visible, when } from "/ui/dom.js";
import { get } from "/ui/api.js";

const LOOK_MS = 3000;
const NAMES = 200; // that a field proposes

const until = (instant) => (instant === "ever" ? "for good" : `until ${when(instant)}`);

function line(o) {
  const said = [o.banned_until && `banned ${until(o.banned_until)}`, o.granted_until && `${count(o.granted)} more granted ${until(o.granted_until)}`].filter(Boolean);
  return h("li", {}, h("code", {}, o.key === null ? "a key that was not noted" : visible(o.key, 200)), ` ${said.join(", ")} `, h("span", { class: "soft" }, visible(o.rule ?? "")));
}

// Fills the lists that the fields of the form propose from, and the domain if there is but one: true.
export async function propose(domains, keys, field) {
  const told = (await get("/v1/rules")).domains;
  const names = new Set(told.flatMap((d) => d.rules.flatMap((r) => r.descriptor.map((e) => e.key))));
  const options = (list) => list.slice(0, NAMES).map((value) => h("option", { value }));
  replace(domains, options(told.map((d) => d.domain)));
  replace(keys, options([...names]));
  if (told.length !== 1 || field.value) return false;
  field.value = told[0].domain;
  return true;
}

export function inForce(context) {
  const list = h("ul", { class: "plain" });
  let timer = null, closed = false;

  async function look() {
    try {
      const { overrides } = await get("/v1/overrides");
      if (closed) return;
      replace(list, overrides.length ? overrides.slice(0, NAMES).map(line) : h("li", { class: "soft" }, "None."),
        overrides.length > NAMES ? h("li", { class: "soft" }, `and ${count(overrides.length - NAMES)} more, in /v1/overrides`) : "");
      context.state("live");
    } catch (error) {
      if (closed) return;
      if (error.status === 401) return context.denied();
      context.state("lost", error.status ? error.message : "");
    }
    timer = setTimeout(look, LOOK_MS);
  }

  look();
  return {
    box: h("section", { class: "card" }, h("h2", {}, "Bans and grants in force"), list),
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
