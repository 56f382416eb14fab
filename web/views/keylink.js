// Links from keys in lists to the page Key.
import { h, visible } from "/ui/dom.js";

export function keyHref(domain, entries) {
  const query = new URLSearchParams({ domain });
  for (const entry of entries) {
    query.append("k", entry.key);
    query.append("v", entry.value);
  }
  return `#/key?${query}`;
}

// Returns the entries of a key. The text of a key has the values that the rule's descriptor leaves open. Returns null if
// the number of values does not match.
export function entriesOf(descriptor, text) {
  if (!descriptor) return null;
  const open = descriptor.filter((d) => d.open).length;
  const values = open === 1 ? [text] : open ? text.split("\u001f") : [];
  if (values.length !== open) return null;
  return descriptor.map((d) => ({ key: d.key, value: d.open ? values.shift() : d.value ?? "" }));
}

// Returns a key as text, or as a link if its entries are known.
export function keyText(key, rule) {
  if (!key) return "–";
  if (key.text === null) return h("code", { class: "hash", title: "hash of the key; its text is not stored" }, key.hash.slice(0, 12));
  const shown = h("code", { title: visible(key.text, 200) }, key.text === "" ? "all requests" : key.exact ? visible(key.text, 40) : `${visible(key.text.slice(0, 40))}…`);
  const entries = key.exact && rule ? entriesOf(rule.descriptor, key.text) : null;
  return entries ? h("a", { href: keyHref(rule.domain, entries) }, shown) : shown;
}
