// Elements and texts. Values from clients are always inserted as text, never as markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && name !== "list" && name !== "form" && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

// Changes the text only if it differs, so that a selection stays and screen readers do not repeat the text.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
}

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const named = (c) => {
  const n = c.charCodeAt(0);
  if (n === 0x1f) return " · "; // separates the values of a key
  if (n < 0x20) return String.fromCharCode(0x2400 + n);
  if (n === 0x7f) return "\u2421";
  return `⟨${n.toString(16).toUpperCase().padStart(4, "0")}⟩`;
};

// Returns a client's text with its control and invisible characters made visible.
export function visible(text, most = 120) {
  const shown = text.length > most ? text.slice(0, most) : text;
  const rest = text.length - shown.length;
  return shown.replace(HIDDEN, named) + (rest ? `… and ${count(rest)} more` : "");
}

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(Math.round(n));

export function rate(n) {
  if (n >= 100) return count(n);
  if (n >= 10) return n.toFixed(1);
  if (n > 0 && n < 0.01) return "< 0.01";
  return n ? n.toFixed(2) : "0";
}

export function percent(part, all) {
  if (!all) return "–";
  const p = (100 * part) / all;
  if (p > 0 && p < 0.1) return "< 0.1 %";
  return p >= 10 || p === 0 ? `${Math.round(p)} %` : `${p.toFixed(1)} %`;
}

// The label of all decisions that do not admit: charts have one line for them. Names only the kinds with a count.
export function denied(counts, shadow = false) {
  const kinds = [counts.refused && "refused", counts.deferred && "deferred", counts.shadowed && "would be refused"].filter(Boolean);
  if (!kinds.length) return shadow ? "would be refused" : "refused";
  return kinds.length > 1 ? `${kinds.slice(0, -1).join(", ")} or ${kinds.at(-1)}` : kinds[0];
}

export function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
  return "";
}

export function span(seconds) {
  if (seconds === null) return "never";
  if (seconds < 1) return `${Math.ceil(seconds * 1000)} ms`;
  if (seconds < 60) return `${Number(seconds.toFixed(seconds < 10 ? 1 : 0))} s`;
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let left = Math.round(seconds);
  const shown = [];
  for (const [unit, size] of parts) {
    if (left >= size && shown.length < 2) shown.push(`${Math.floor(left / size)} ${unit}`);
    left %= size;
  }
  return shown.join(" ");
}

export function nanos(ns) {
  if (ns > 1e18) return "over 0.5 s";
  if (ns < 1000) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1000).toFixed(1)} µs`;
  return `${(ns / 1e6).toFixed(1)} ms`;
}

export function when(seconds) {
  return new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export const words = (name) => (name ? name.replaceAll("_", " ") : "");

let dialogs = 0;

// Shows a dialog. Resolves with the fields of its form, or with null if it was cancelled.
export function confirm(title, body, verb, danger = false) {
  return new Promise((resolve) => {
    const id = `dialog-${++dialogs}`;
    const form = h("form", { method: "dialog" },
      h("h2", { id }, title), body,
      h("div", { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close("") }, "Cancel"),
        h("button", { type: "submit", value: "yes", class: danger ? "danger" : "primary" }, verb)));
    const dialog = h("dialog", { "aria-labelledby": id }, form);
    dialog.addEventListener("close", () => {
      const fields = Object.fromEntries(new FormData(form));
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? fields : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function note(kind, text) {
  return h("p", { class: `note ${kind}`, role: kind === "bad" ? "alert" : "status" }, text);
}
