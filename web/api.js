// Requests to the admin API, single or as a stream of events. Every change carries the page's token from /v1/session.

const STORE = "weir-token"; // in sessionStorage
let page = null;

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(STORE),
  set: (text) => (text ? sessionStorage.setItem(STORE, text) : sessionStorage.removeItem(STORE)),
};

function headers(more = {}) {
  const secret = token.get();
  return secret ? { Authorization: `Bearer ${secret}`, ...more } : more;
}

async function throwProblem(response) {
  const body = await response.json().catch(() => ({}));
  throw new Problem(response.status, body.detail || `the service responded with status ${response.status}`);
}

export async function get(path) {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) await throwProblem(response);
  return response.json();
}

export async function session() {
  const data = await get("/v1/session");
  page = data.page;
  return data;
}

async function send(path, body) {
  return fetch(path, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json", "X-Weir-Page": page ?? "" }),
    body: JSON.stringify(body),
  });
}

// Sends a change. If the service was restarted, it has another page token: fetches it and retries once.
export async function post(path, body) {
  let response = await send(path, body);
  if (response.status === 403) {
    await session();
    response = await send(path, body);
  }
  if (!response.ok) await throwProblem(response);
  return response.json();
}

// Requests the path at once and then at intervals, and calls show(json). Tells the page whether the requests succeed.
// load() requests at once and waits for the response, close() ends the requests.
export function poll(context, path, intervalMs, show) {
  let timer = null, closed = false, loads = 0;

  async function load() {
    const mine = ++loads;
    const isLast = () => !closed && mine === loads;
    clearTimeout(timer);
    try {
      const data = await get(path);
      if (!isLast()) return;
      show(data);
      context.state("live");
    } catch (error) {
      if (!isLast()) return;
      if (error.status === 401) return context.denied();
      context.state("lost", error.status ? error.message : "");
    }
    timer = setTimeout(load, intervalMs);
  }

  load();
  return {
    load,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

const SILENCE_MS = 15000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

// Reads a stream of events and reconnects when it breaks. Calls data(json) for each event, and state("live" | "lost" | "denied" | "gone",
// reason) when the connection changes. Returns a function that ends it.
export function follow(path, data, state) {
  let stopped = false, failures = 0, controller = null, watchdog = null, wake = null;

  const restartWatchdog = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => controller?.abort(), SILENCE_MS);
  };

  function handleEvent(block) {
    const lines = block.split("\n");
    const text = lines.filter((l) => l.startsWith("data: ")).map((l) => l.slice(6)).join("");
    if (!text) return;
    if (lines.includes("event: failure")) {
      const failure = JSON.parse(text);
      throw new Problem(failure.status, failure.detail);
    }
    failures = 0;
    state("live");
    data(JSON.parse(text));
  }

  async function readEvents() {
    controller = new AbortController();
    restartWatchdog();
    const response = await fetch(path, {
      headers: headers({ Accept: "text/event-stream" }), signal: controller.signal, cache: "no-store",
    });
    if (!response.ok) await throwProblem(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the service closed the connection");
      restartWatchdog();
      buffer += value;
      for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
        handleEvent(buffer.slice(0, end));
        buffer = buffer.slice(end + 2);
      }
    }
  }

  async function connect() {
    while (!stopped) {
      try {
        await readEvents();
      } catch (error) {
        if (stopped) return;
        controller?.abort();
        if (error.status === 401) return state("denied", error.message);
        if (error.status === 404 || error.status === 400) return state("gone", error.message);
        state("lost", error.status ? error.message : "");
      }
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
      });
    }
  }

  // A service on the same machine is reachable without a network: the next attempt succeeds.
  const onOffline = () => controller?.abort();
  const onOnline = () => wake?.();
  addEventListener("offline", onOffline);
  addEventListener("online", onOnline);
  connect();
  return () => {
    stopped = true;
    clearTimeout(watchdog);
    removeEventListener("offline", onOffline);
    removeEventListener("online", onOnline);
    controller?.abort();
  };
}
