// Controls a browser: reads a command {op, …} per line, as JSON, and writes a result per line, as JSON.
"use strict";
const fs = require("fs");
const readline = require("readline");
const { chromium } = require("playwright-core");

const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
let browser, context, page;
let noise = [];

// Collects script errors of the page, and its requests to other origins.
function listen(p, origin) {
  p.on("pageerror", (e) => noise.push(`error: ${e.message}`));
  p.on("console", (m) => {
    if (m.type() === "error" && !/Failed to load resource|ERR_/.test(m.text())) noise.push(`console: ${m.text()}`);
  });
  p.on("dialog", (d) => { noise.push(`dialog: ${d.message()}`); d.dismiss(); });
  p.on("request", (r) => { if (origin && !r.url().startsWith(origin) && !r.url().startsWith("data:")) noise.push(`asks ${r.url()}`); });
}

// Runs in a page. The colours are lists of red, green and blue.
async function countPixels({ data, colours }) {
  const image = new Image();
  image.src = data;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = canvas.getImageData(0, 0, image.width, image.height).data;
  const counts = colours.map(() => 0);
  for (let at = 0; at < pixels.length; at += 4)
    colours.forEach((colour, i) => { if (colour.every((part, j) => Math.abs(part - pixels[at + j]) <= 40)) counts[i]++; });
  return counts;
}

const ops = {
  async launch() {
    browser = await chromium.launch({ executablePath: "/usr/bin/chromium", timeout: 120000, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
  },
  async open({ url, origin, options }) {
    await context?.close();
    noise = [];
    context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
    page = await context.newPage();
    page.setDefaultTimeout(40000);
    listen(page, origin);
    await page.goto(url, { waitUntil: "domcontentloaded" });
  },
  goto: ({ url }) => page.goto(url, { waitUntil: "domcontentloaded" }).then(() => null),
  click: ({ selector }) => page.click(selector),
  fill: ({ selector, text }) => page.fill(selector, text),
  select: ({ selector, value }) => page.selectOption(selector, value).then(() => null),
  press: ({ keys }) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve()),
  type: ({ text }) => page.keyboard.type(text),
  // During a navigation the old page gives no result. The expression is evaluated again in the new page.
  async evaluate({ code }) {
    for (let left = 0; ; left++) {
      try {
        return await page.evaluate(code);
      } catch (error) {
        if (left === 5 || !/context was destroyed|Cannot find context|target navigated/.test(error.message)) throw error;
        await page.waitForLoadState("domcontentloaded");
      }
    }
  },
  frame: ({ index, code }) => page.frames()[index].evaluate(code),
  offline: ({ on }) => context.setOffline(on),
  size: ({ width, height }) => page.setViewportSize({ width, height }),
  media: ({ options }) => page.emulateMedia(options),
  shot: ({ path, full }) => page.screenshot({ path, fullPage: !!full }).then(() => null),
  noise: () => noise,
  // Returns how many pixels of an element are nearly of each colour. A screenshot of the
  // element is decoded in a page of its own.
  async pixels({ selector, index, colours }) {
    const shot = await page.locator(selector).nth(index).screenshot();
    const decoder = await context.newPage();
    try {
      return await decoder.evaluate(countPixels, { data: `data:image/png;base64,${shot.toString("base64")}`, colours });
    } finally {
      await decoder.close();
    }
  },
  async axe() {
    await page.evaluate(AXE);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    return found.violations.filter((v) => ["serious", "critical"].includes(v.impact))
      .map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? "")).slice(0, 3).join("; ")}`);
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    try {
      const value = await ops[order.op](order);
      process.stdout.write(`${JSON.stringify({ value: value ?? null })}\n`);
    } catch (error) {
      process.stdout.write(`${JSON.stringify({ error: String(error.message ?? error).slice(0, 2000) })}\n`);
    }
  }
  await browser?.close();
}

main();
