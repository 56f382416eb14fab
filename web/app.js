// The frame of the dashboard: pages by the hash of the URL, state of the connection, sign-in, colours.
import { follow, session, token } from "/ui/api.js";
import { h, replace } from "/ui/dom.js";
import { retheme } from "/ui/chart.js";
import { overview } from "/ui/views/overview.js";
import { rule } from "/ui/views/rule.js";
import { key } from "/ui/views/key.js";
import { rules } from "/ui/views/rules.js";
import { fleet } from "/ui/views/fleet.js";
import { queue } from "/ui/views/queue.js";

const pages = { overview, rule, key, rules, fleet, queue };
const view = document.getElementById("view");
const live = document.getElementById("live");
const lost = document.getElementById("lost");
const signOut = document.getElementById("leave");

let current = null; // { path, data, stop, close } of the open page

// ---- the connection ----

function show(state, why = "") {
  if (state === "denied") return signIn();
  live.dataset.state = state;
  live.textContent = { live: "live", lost: "no connection", wait: "connecting", still: "paused", gone: "not found" }[state] ?? state;
  const text = state === "lost"
    ? `No connection to the service${why ? ` (${why})` : ""}. The data below is old. Retrying…`
    : state === "gone" ? `This page cannot be shown: ${why}.` : "";
  lost.hidden = !text;
  if (lost.textContent !== text) lost.textContent = text;
}

function connect() {
  current?.stop?.();
  if (!current?.path) return;
  current.stop = follow(current.path, current.data, show);
}

// The functions that a page gets. follow() opens a stream of events; a second call replaces the first stream.
const context = {
  follow(path, data) {
    current.path = path;
    current.data = data;
    if (!document.hidden) connect();
  },
  state: show,
  denied: () => signIn(),
};

// A hidden tab closes its stream: the service allows a limited number of streams.
document.addEventListener("visibilitychange", () => {
  if (!current?.path) return;
  if (document.hidden) {
    current.stop?.();
    show("still");
  } else {
    connect();
  }
});

// ---- pages ----

function parseHash() {
  const text = location.hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const [name, ...rest] = path.split("/");
  return { name: name || "overview", rest, query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)) };
}

function closePage() {
  current?.stop?.();
  current?.close?.();
  current = null;
}

function openPage() {
  const to = parseHash();
  const page = pages[to.name] ?? pages.overview;
  closePage();
  current = {};
  show("wait");
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.page === (to.name === "rule" ? "overview" : to.name);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  replace(view);
  current.close = page(view, context, to);
  document.title = `${view.querySelector("h1")?.textContent ?? "weir"} – weir`;
}

addEventListener("hashchange", () => {
  if (location.hash === "#view") return;
  if (takeToken()) return start(STALE);
  openPage();
  view.focus({ preventScroll: true });
  scrollTo(0, 0);
});

// ---- sign-in ----

const STALE = "The token in this address is not valid. A service that was restarted prints a new address.";

// The service prints an address with a token in the fragment. Browsers do not send the fragment, so the token is in no log. It is removed
// from the address bar and the history.
function takeToken() {
  const found = location.hash.match(/^#token=(.+)$/);
  if (!found) return false;
  token.set(found[1]);
  history.replaceState(null, "", "#/");
  return true;
}

function signIn(why) {
  closePage();
  signOut.hidden = true;
  live.dataset.state = "wait";
  live.textContent = "signed out";
  lost.hidden = true;
  const field = h("input", { name: "token", type: "password", id: "token", autocomplete: "current-password", required: true });
  const error = h("p", { class: "note bad", role: "alert", hidden: !why }, why ?? "");
  replace(view, h("form", {
    class: "card sign-in",
    async onsubmit(event) {
      event.preventDefault();
      token.set(field.value.trim());
      if (!(await start("This token is not valid."))) field.select();
    },
  }, h("h1", {}, "Sign in"), h("p", {}, "This service requires a token: one from its --admin-token-file, or the one in the address that it printed at its start."), error,
  h("label", { for: "token" }, "Token"), field, h("button", { class: "primary", type: "submit" }, "Sign in")));
  field.focus();
}

signOut.addEventListener("click", () => {
  token.set(null);
  signIn();
});

async function start(why) {
  try {
    const data = await session();
    signOut.hidden = !data.token;
    signOut.title = data.token ? `Signed in with token ${data.token}` : "";
    openPage();
    return true;
  } catch (error) {
    if (error.status === 401 || error.status === 429) {
      token.set(null);
      signIn(error.status === 429 ? `${error.message}.` : why);
    } else {
      show("lost", error.status ? error.message : "");
      setTimeout(start, 2000);
    }
    return false;
  }
}

// ---- colours ----

const themes = ["system", "light", "dark"];
const button = document.getElementById("theme");

function paint(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.setAttribute("aria-label", `Colours: ${theme}`);
  button.title = button.getAttribute("aria-label");
  button.textContent = { system: "◐", light: "☀", dark: "☾" }[theme];
  retheme();
}

button.addEventListener("click", () => {
  const next = themes[(themes.indexOf(localStorage.getItem("weir-theme") ?? "system") + 1) % themes.length];
  localStorage.setItem("weir-theme", next);
  paint(next);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);

paint(localStorage.getItem("weir-theme") ?? "system");
start(takeToken() ? STALE : undefined);
