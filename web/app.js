// Which page is shown, whether the service can be heard, and who may look.
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
const leave = document.getElementById("leave");

let current = null; // { path, data, stop, close } of the page that is shown

// ---- the connection ----

function show(state, why = "") {
  if (state === "denied") return signIn();
  live.dataset.state = state;
  live.textContent = { live: "live", lost: "no connection", wait: "connecting", still: "paused", gone: "gone" }[state] ?? state;
  const text = state === "lost"
    ? `The service cannot be heard${why ? ` (${why})` : ""}. What is below is from before; trying again.`
    : state === "gone" ? `Nothing to follow here: ${why}.` : "";
  lost.hidden = !text;
  if (lost.textContent !== text) lost.textContent = text;
}

function connect() {
  current?.stop?.();
  if (!current?.path) return;
  current.stop = follow(current.path, current.data, show);
}

// A page follows one path at a time; another one replaces it.
const context = {
  follow(path, data) {
    current.path = path;
    current.data = data;
    if (!document.hidden) connect();
  },
  state: show,
  denied: () => signIn(),
};

// A page nobody looks at gives its place back.
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

function place() {
  const text = location.hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const [name, ...rest] = path.split("/");
  return { name: name || "overview", rest, query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)) };
}

function close() {
  current?.stop?.();
  current?.close?.();
  current = null;
}

function open() {
  const to = place();
  const page = pages[to.name] ?? pages.overview;
  close();
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
  if (takeToken()) return begin(STALE);
  open();
  view.focus({ preventScroll: true });
  scrollTo(0, 0);
});

// ---- who ----

const STALE = "The token in that address is not this service's. A service that was started anew has printed another one.";

// The address that was printed at start brings a token in its fragment, which no server and no log gets to see. It does
// not stay in the address bar or the history.
function takeToken() {
  const found = location.hash.match(/^#token=(.+)$/);
  if (!found) return false;
  token.set(found[1]);
  history.replaceState(null, "", "#/");
  return true;
}

function signIn(why) {
  close();
  leave.hidden = true;
  live.dataset.state = "wait";
  live.textContent = "signed out";
  lost.hidden = true;
  const field = h("input", { name: "token", type: "password", id: "token", autocomplete: "current-password", required: true });
  const said = h("p", { class: "note bad", role: "alert", hidden: !why }, why ?? "");
  replace(view, h("form", {
    class: "card sign-in",
    async onsubmit(event) {
      event.preventDefault();
      token.set(field.value.trim());
      if (!(await begin("That is none of this service's tokens."))) field.select();
    },
  }, h("h1", {}, "Sign in"), h("p", {}, "This service asks for a token: one of its --admin-token-file, or the one in the address that it printed at its start."), said,
  h("label", { for: "token" }, "Token"), field, h("button", { class: "primary", type: "submit" }, "Sign in")));
  field.focus();
}

leave.addEventListener("click", () => {
  token.set(null);
  signIn();
});

async function begin(why) {
  try {
    const told = await session();
    leave.hidden = !told.token;
    leave.title = told.token ? `Signed in with token ${told.token}` : "";
    open();
    return true;
  } catch (error) {
    if (error.status === 401 || error.status === 429) {
      token.set(null);
      signIn(error.status === 429 ? `${error.message}.` : why);
    } else {
      show("lost", error.status ? error.message : "");
      setTimeout(begin, 2000);
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
  button.setAttribute("aria-label", `Colours: ${theme === "system" ? "as the system has them" : theme}`);
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
begin(takeToken() ? STALE : undefined);
