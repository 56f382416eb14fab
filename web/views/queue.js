// The page Queue: deferred requests, and retries and drops of them.
import { bytes, confirm, count, h, note, replace, span, visible, when, words } from "/ui/dom.js";
import { get, post } from "/ui/api.js";

const POLL_MS = 2000;
const ROWS = 50;

function tile(title, value, more, state) {
  return h("div", { class: "tile", "data-state": state }, h("span", { class: "tile-title" }, title), h("strong", {}, value), h("span", { class: "soft" }, more));
}

function tiles(q) {
  const depth = q.waiting + q.delivering;
  return [tile("Waiting", count(depth), depth ? `for ${count(q.keys)} ${q.keys === 1 ? "key" : "keys"}, ${bytes(q.bytes)}` : "no deferred requests", depth >= 0.8 * q.max_requests ? "bad" : "good"),
    tile("Oldest", depth ? span(q.oldest) : "–", "since it was accepted", q.oldest > 3600 ? "warn" : "good"),
    tile("Delivered", count(q.totals.delivered), `${count(q.totals.retried)} attempts failed, ${count(q.sending)} in flight`, q.target_up === false ? "bad" : "good"),
    tile("Dead letters", count(q.dead), `of at most ${count(q.max_dead)}; ${count(q.totals.dead)} in total, ${count(q.totals.dropped)} dropped`, q.dead ? "bad" : "good")];
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function facts(q) {
  const refused = Object.entries(q.refused).map(([reason, n]) => `${words(reason)} ${count(n)}`);
  return h("dl", { class: "facts" }, fact("Stored in", visible(q.url)), fact("Delivered to", q.target ? visible(q.target) : "another process delivers"),
    fact("Capacity", `${count(q.max_requests)} requests, ${bytes(q.max_bytes)}`), fact("Capacity per key", bytes(q.max_line_bytes)),
    fact("Capacity for dead letters", `${count(q.max_dead)} requests, ${bytes(q.max_dead_bytes)}`), q.disk_bytes ? fact("On disk", bytes(q.disk_bytes)) : "",
    fact("Not deferred", refused.length ? refused.join(", ") : "none"));
}

function trouble(q) {
  const list = [];
  if (q.state !== "ok") list.push(note("bad", `No request can be deferred now: ${visible(q.trouble ?? words(q.state), 300)}`));
  if (q.target_up === false) list.push(note("warn", "The API server is unavailable. Deferred requests wait until it is back."));
  return list;
}

function progress(r, now) {
  const last = r.http_status ? `status ${r.http_status}` : r.reason ? visible(r.reason, 80) : "";
  const tries = r.tries ? `${count(r.tries)} of ${count(r.max_tries)} attempts${last ? `, ${last}` : ""}` : last;
  if (r.state === "dead" || r.state === "dropped" || r.state === "delivered") return tries || "–";
  const due = r.due_at && r.due_at > now ? `due in ${span(Math.round(r.due_at - now))}` : "due";
  return [r.position ? `position ${count(r.position)}` : "", due, tries].filter(Boolean).join(", ");
}

function row(r, now, act) {
  const mayChange = r.state === "waiting" || r.state === "dead";
  return h("tr", {}, h("th", { scope: "row", class: "wide number" }, String(r.id)), h("td", {}, r.state === "dead" ? h("span", { class: "badge bad" }, "dead") : r.state),
    h("td", { class: "key" }, h("code", {}, r.method ? `${visible(r.method)} ${visible(r.uri, 60)}` : "–")), h("td", { class: "wide" }, visible(r.rule)),
    h("td", { class: "wide number" }, `${span(Math.max(0, Math.round(now - r.accepted_at)))} ago`), h("td", {}, progress(r, now)),
    h("td", {}, mayChange ? [h("button", { type: "button", class: "link", "data-at": `retry-${r.id}`, onclick: () => act("retry", r) }, "retry now"), " ",
      h("button", { type: "button", class: "link", "data-at": `drop-${r.id}`, onclick: () => act("drop", r) }, "drop")] : ""));
}

const QUESTION = {
  retry: ["Retry this request?", "It is delivered as soon as its limit allows, and its count of attempts starts at zero.", "Retry", false],
  drop: ["Drop this request?", "It will not be delivered. This cannot be undone.", "Drop", true],
};

export function queue(view, context) {
  const head = h("div", { class: "tiles" }), wrong = h("div"), about = h("div"), rows = h("tbody"), result = h("div", { class: "result", "aria-live": "polite" });
  const state = h("select", { id: "state", onchange: () => turn(0) }, [["waiting", "waiting"], ["dead", "dead letters"], ["delivered", "delivered"], ["dropped", "dropped"], ["", "all"]]
    .map(([value, text]) => h("option", { value }, text)));
  const back = h("button", { type: "button", onclick: () => turn(before.pop() ?? 0, true) }, "Back"), on = h("button", { type: "button", onclick: () => turn(next) }, "More");
  const body = h("div", { hidden: true }, wrong, head, h("section", { class: "card" }, about),
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Requests"), h("div", { class: "tools" }, h("label", { for: "state" }, "Show"), state)), result,
      h("div", { class: "scroll" }, h("table", { class: "rows" }, h("caption", { class: "unseen" }, "Deferred requests in the order of arrival"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "wide number" }, "Number"), h("th", { scope: "col" }, "State"), h("th", { scope: "col" }, "Request"), h("th", { scope: "col", class: "wide" }, "Rule"),
          h("th", { scope: "col", class: "wide number" }, "Accepted"), h("th", { scope: "col" }, "Delivery"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Actions")))), rows)),
      h("div", { class: "pager" }, back, on)));
  const none = h("p", { class: "card", hidden: true }, "This service has no queue. A gateway has one if a rule has ", h("code", {}, "on_limit: defer"), ", and a service if it was started with ", h("code", {}, "--queue"), ".");
  view.append(h("h1", {}, "Queue"), none, body);

  let after = 0, next = null, timer = null, closed = false, now = 0, before = [], loads = 0;

  function turn(to, backwards = false) {
    if (!backwards && to) before.push(after);
    if (!to && !backwards) before = [];
    after = to;
    clearTimeout(timer);
    loadRequests();
  }

  async function act(verb, request) {
    const [title, text, yes, danger] = QUESTION[verb];
    if (!(await confirm(title, h("p", {}, `${visible(request.method)} ${visible(request.uri)}. ${text}`), yes, danger))) return;
    try {
      const done = await post(`/v1/queue/${verb}`, { id: request.id });
      replace(result, done.changed ? note("good", "Done.") : note("warn", "Nothing changed: the request is being delivered, or was already delivered."));
    } catch (error) {
      replace(result, note("bad", `Failed: ${error.message}`));
    }
    clearTimeout(timer);
    loadRequests();
  }

  // The keyboard focus stays in its row. If the row is gone, the focus moves to the filter.
  function show(list) {
    const at = rows.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    replace(rows, list.length ? list.map((r) => row(r, now, act)) : h("tr", {}, h("td", { colspan: "7", class: "soft" }, "None.")));
    if (at) (rows.querySelector(`[data-at="${at}"]`) ?? state).focus({ preventScroll: true });
  }

  // A response is ignored if another page was requested meanwhile.
  async function loadRequests() {
    const mine = ++loads;
    if (!body.hidden) {
      try {
        const page = await get(`/v1/queue/requests?count=${ROWS}&after=${after}${state.value ? `&state=${state.value}` : ""}`);
        if (closed || mine !== loads) return;
        next = page.next;
        back.disabled = !before.length;
        on.disabled = !next;
        back.hidden = on.hidden = back.disabled && on.disabled;
        show(page.requests);
      } catch { /* the stream of events reports a lost connection */ }
    }
    if (!closed && mine === loads) timer = setTimeout(loadRequests, POLL_MS);
  }

  context.follow("/v1/queue", (data) => {
    const first = body.hidden && data.queue;
    now = data.now;
    none.hidden = data.queue !== null;
    body.hidden = data.queue === null;
    if (!data.queue) return;
    replace(wrong, trouble(data.queue));
    replace(head, tiles(data.queue));
    replace(about, facts(data.queue));
    if (first) turn(0);
  });
  loadRequests();
  return () => {
    closed = true;
    clearTimeout(timer);
  };
}
