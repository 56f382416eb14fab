// Asking the admin API: once, or as events. A page has to show its token for every change.

const STORE = "weir-token";
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
  const shown = token.get();
  return shown ? { Authorization: `Bearer ${shown}`, ...more } : more;
}

async function refuse(answer) {
  const body = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, body.detail || `the service answered ${answer.status}`);
}

export async function get(path) {
  const answer = await fetch(path, { headers: headers() });
  if (!answer.ok) await refuse(answer);
  return answer.json();
}

export async function session() {
  const told = await get("/v1/session");
  page = told.page;
  return told;
}

async function send(path, body) {
  return fetch(path, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json", "X-Weir-Page": page ?? "" }),
    body: JSON.stringify(body),
  });
}

// The token is the process's: one that was restarted has another.
export async function post(path, body) {
  let answer = await send(path, body);
  if (answer.status === 403) {
    await session();
    answer = await send(path, body);
  }
  if (!answer.ok) await refuse(answer);
  return answer.json();
}

const SILENT_MS = 15000;
const AGAIN_MS = [500, 1000, 2000, 4000, 8000];

// Follows a path: data(json) for each event; state("live" | "lost" | "denied", why) for the
// connection, which is made again until `stop`.
export function follow(path, data, state) {
  let stopped = false, failures = 0, controller = null, watch = null, wake = null;

  const alive = () => {
    clearTimeout(watch);
    watch = setTimeout(() => controller?.abort(), SILENT_MS);
  };

  function take(block) {
    const lines = block.split("\n");
    const text = lines.filter((l) => l.startsWith("data: ")).map((l) => l.slice(6)).join("");
    if (!text) return;
    if (lines.includes("event: failure")) {
      const told = JSON.parse(text);
      throw new Problem(told.status, told.detail);
    }
    failures = 0;
    state("live");
    data(JSON.parse(text));
  }

  async function once() {
    controller = new AbortController();
    alive();
    const answer = await fetch(path, {
      headers: headers({ Accept: "text/event-stream" }), signal: controller.signal, cache: "no-store",
    });
    if (!answer.ok) await refuse(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the service closed the connection");
      alive();
      seen += value;
      for (let end = seen.indexOf("\n\n"); end >= 0; end = seen.indexOf("\n\n")) {
        take(seen.slice(0, end));
        seen = seen.slice(end + 2);
      }
    }
  }

  async function run() {
    while (!stopped) {
      try {
        await once();
      } catch (error) {
        if (stopped) return;
        controller?.abort();
        if (error.status === 401) return state("denied", error.message);
        if (error.status === 404 || error.status === 400) return state("gone", error.message);
        state("lost", error.status ? error.message : "");
      }
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)]);
      });
    }
  }

  // On this machine itself a lost network loses nothing: then it is live again at once.
  const away = () => controller?.abort();
  const back = () => wake?.();
  addEventListener("offline", away);
  addEventListener("online", back);
  run();
  return () => {
    stopped = true;
    clearTimeout(watch);
    removeEventListener("offline", away);
    removeEventListener("online", back);
    controller?.abort();
  };
}
