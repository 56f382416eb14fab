// Charts: uPlot for the large ones, a canvas for the small ones in table rows.
import uPlot from "/ui/uPlot.js";
import { count, rate } from "/ui/dom.js";

const charts = new Set();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A chart reads its colours when it is made, so a new theme makes all charts again.
export function retheme() {
  for (const chart of charts) chart.make();
  for (const spark of sparks) spark();
}

const clock = (t, seconds) => new Date(t * 1000).toLocaleTimeString("en-GB", seconds ? {} : { hour: "2-digit", minute: "2-digit" });

// Time labels have no date, because a chart shows ten minutes or a day.
function timeTicks(u, ticks, axis, space, step) {
  return ticks.map((t) => clock(t, step < 60));
}

// The legend shows the point under the cursor, or else the last one.
const legendValue = (u, index, at) => u.data[index]?.[at ?? u.data[0].length - 1];

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// series: [{ label, colour, fill, dash, width }] with common times.
export class Chart {
  constructor(box, series, height = 240) {
    this.box = box;
    this.series = series;
    this.height = height;
    this.data = [[], ...series.map(() => [])];
    this.plot = null;
    this.resize = new ResizeObserver(() => this.fit());
    this.make();
    this.resize.observe(box);
    charts.add(this);
  }

  size() {
    return { width: Math.max(240, this.box.clientWidth), height: this.height };
  }

  fit() {
    const { width } = this.size();
    if (this.plot && Math.abs(this.plot.width - width) > 1) this.plot.setSize(this.size());
  }

  make() {
    this.plot?.destroy();
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.plot = new uPlot({
      ...this.size(),
      padding: [12, 34, 0, 0],
      cursor: { y: false, points: { size: 6 } },
      legend: { live: true },
      scales: { x: { time: true }, y: { range: (u, low, high) => [0, Math.max(1, high * 1.08)] } },
      axes: [{ ...axis, space: 80, size: 34, values: timeTicks }, { ...axis, size: 52, values: (u, ticks) => ticks.map((t) => compact.format(t)) }],
      series: [{ label: "at", value: (u, v, index, at) => (u.data[0].length ? clock(legendValue(u, 0, at), true) : "–") }, ...this.series.map((s) => ({
        label: s.label,
        stroke: colour(s.colour),
        fill: s.fill ? colour(`${s.colour}-fill`) : undefined,
        dash: s.dash,
        width: s.width ?? 1.6,
        show: s.show ?? true,
        points: { show: false },
        spanGaps: false,
        value: (u, v, index, at) => {
          const n = legendValue(u, index, at);
          return n === null || n === undefined ? "–" : n < 10 && n % 1 ? rate(n) : count(n);
        },
      }))],
    }, this.data, this.box);
  }

  set(data) {
    this.data = data;
    this.plot.setData(data);
  }

  showSeries(index, on) {
    this.series[index].show = on;
    this.plot.setSeries(index + 1, { show: on });
  }

  close() {
    charts.delete(this);
    this.resize.disconnect();
    this.plot?.destroy();
  }
}

const MIN_POINTS = 60; // a chart shows at least this many points, even without data

// Returns the times and lists of a history, without the points before the first data. All lists have the same length, and
// the first list tells which points have data.
export function curves(history, ...lists) {
  const length = lists[0].length;
  const known = lists[0].findIndex((n) => n !== null);
  const skip = Math.max(0, Math.min(known < 0 ? length : known, length - MIN_POINTS));
  const times = Array.from({ length: length - skip }, (_, i) => history.end - (length - skip - i) * history.span);
  return [times, ...lists.map((list) => list.slice(skip))];
}

const sparks = new Set();

// A small bar chart: all requests, and in front of them the refused ones.
export function spark(canvas) {
  let last = null;
  const draw = () => {
    if (!last) return;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth || 140, height = canvas.clientHeight || 30;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const high = Math.max(1, ...last.all);
    const step = width / Math.max(1, last.all.length);
    for (const [list, name] of [[last.all, "admit"], [last.cut, "refuse"]]) {
      pen.fillStyle = colour(name);
      for (let i = 0; i < list.length; i++) {
        const bar = (list[i] / high) * (height - 1);
        if (bar > 0) pen.fillRect(i * step, height - Math.max(1, bar), Math.max(1, step - 0.6), Math.max(1, bar));
      }
    }
  };
  sparks.add(draw);
  return {
    set(bins) {
      const same = last && last.all.length === bins.all.length && last.all.every((n, i) => n === bins.all[i]) && last.cut.every((n, i) => n === bins.cut[i]);
      if (same) return;
      last = bins;
      draw();
    },
    close: () => sparks.delete(draw),
  };
}
