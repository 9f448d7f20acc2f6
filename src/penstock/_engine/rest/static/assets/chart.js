/** One metric over time, as a line. */

import { h } from "./dom.js";
import { bytes, count, duration, percent, rate, time, watermark } from "./format.js";

const SIZE = { width: 340, height: 120 };

/** By the end of a metric's name: how a value is read. */
const KINDS = [
  [/TimeMsPerSecond$/, (value) => percent(value / 1000)],
  [/Bytes.*PerSecond$/, (value) => `${bytes(value)}/s`],
  [/PerSecond$/, rate],
  [/(Input|Output)Watermark$/, watermark],
  [/(Timestamp)$/, time],
  [/(Lag|Duration|TimeMs|[tT]ime)$/, (value) => (value < 0 ? `-${duration(-value)}` : duration(value))],
  [/(Size|Bytes)$|Bytes(In|Out)$/, bytes],
  [/Ratio$/, percent],
];
const SMALL = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

function read(name, value) {
  const kind = KINDS.find(([pattern]) => pattern.test(name));
  if (kind) return kind[1](value);
  return Number.isInteger(value) || Math.abs(value) >= 1000 ? count(value) : SMALL.format(value);
}

export function chart({ id, start, offsets, values }) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  // The ground line is zero, but for times of day, whose distance from it says nothing.
  const ground = /(Watermark|Timestamp)$/.test(id) ? low : Math.min(0, low);
  const spread = high - ground || 1;
  const long = offsets.at(-1) || 1;
  const points = values.map((value, index) => {
    const x = (offsets[index] / long) * SIZE.width;
    const y = SIZE.height - ((value - ground) / spread) * SIZE.height;
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  const line = points.length > 1 ? `M${points.join(" L")}` : `M${points[0]} h${SIZE.width}`;
  const last = read(id, values.at(-1));
  const range = `from ${read(id, low)} to ${read(id, high)}`;
  return h(
    "figure",
    { key: id, class: "chart" },
    h("figcaption", null, h("span", { title: id }, id), h("strong", null, last)),
    h("svg", { viewBox: `0 -4 ${SIZE.width} ${SIZE.height + 8}`, role: "img", "aria-label": `${id}: ${last}, ${range}` }, h("path", { class: "line", d: line })),
    h("p", { class: "ends" }, h("span", null, time(start).slice(11)), h("span", null, range), h("span", null, time(start + offsets.at(-1)).slice(11))),
  );
}
