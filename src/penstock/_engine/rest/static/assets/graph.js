/** The graph of a job: each vertex with its rates, its share of busy time, its watermark and how far it has finished. */

import { facts, h, table } from "./dom.js";
import { bytes, count, percent, rate, watermark } from "./format.js";
import { badge, isOver } from "./jobs.js";
import { layout } from "./layout.js";

/** What the bar of a card means. */
const SHARES = "Works; waits until slower subtasks and the levels below it are done; idle for the rest: no input, or no epoch";
const SIZE = { width: 240, height: 172, across: 84, down: 26 };
const METRICS = ["numRecordsInPerSecond", "numRecordsOutPerSecond", "busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "currentOutputWatermark"];

/** Returns the vertices with all that the graph shows of them. */
export async function load(api, job) {
  const nodes = new Map(job.plan.nodes.map((node) => [node.id, node]));
  return Promise.all(
    job.vertices.map(async (vertex) => {
      const path = `/jobs/${job.jid}/vertices/${vertex.id}/subtasks/metrics`;
      const found = await api.get(`${path}?get=${METRICS.join()}&agg=min,max,avg,sum`);
      const metrics = new Map(found.map((metric) => [metric.id, metric]));
      const node = nodes.get(vertex.id);
      return {
        ...vertex,
        inputs: node.inputs ?? [],
        operators: node.penstock ?? [],
        rateIn: metrics.get("numRecordsInPerSecond")?.sum ?? 0,
        rateOut: metrics.get("numRecordsOutPerSecond")?.sum ?? 0,
        busyNow: (metrics.get("busyTimeMsPerSecond")?.max ?? 0) / 1000,
        waitsNow: (metrics.get("backPressuredTimeMsPerSecond")?.avg ?? 0) / 1000,
        ...allAlong(vertex),
        watermark: metrics.get("currentOutputWatermark")?.min,
      };
    }),
  );
}

/** The shares of the whole run. */
function allAlong({ metrics }) {
  const [busy, waiting, idle] = ["busy", "backpressured", "idle"].map((what) => metrics[`accumulated-${what}-time`]);
  const whole = busy + waiting + idle || 1;
  return { busyAllAlong: busy / whole, waitsAllAlong: waiting / whole };
}

/** Returns the subtasks of one vertex. */
export async function loadVertex(api, job, id) {
  const path = `/jobs/${job.jid}/vertices/${id}`;
  const [vertex, pressure, watermarks] = await Promise.all([
    api.get(path),
    api.get(`${path}/backpressure`),
    api.get(`${path}/watermarks`),
  ]);
  const shares = new Map(pressure.subtasks.map((one) => [one.subtask, one]));
  const subtasks = vertex.subtasks.map((one, index) => ({
    ...one,
    busy: shares.get(one.subtask)?.busyRatio ?? 0,
    waits: shares.get(one.subtask)?.ratio ?? 0,
    watermark: Number(watermarks[index]?.value ?? -Infinity),
  }));
  return { id, subtasks };
}

export function view({ job, vertices: loaded, chosen }, state) {
  const over = isOver(state);
  const vertices = loaded.map((one) => {
    const [busy, waits] = over ? [one.busyAllAlong, one.waitsAllAlong] : [one.busyNow, one.waitsNow];
    return { ...one, busy, waits: Math.min(waits, 1 - busy) };
  });
  const busiest = vertices.reduce((most, one) => (one.busy > (most?.busy ?? 0) ? one : most), null);
  return [
    job.penstock.records < 0 ? fromCheckpoint(vertices) : whereTimeGoes(busiest, state),
    drawing(job, vertices, busiest, chosen?.id),
    chosen && subtasks(job, vertices.find((one) => one.id === chosen.id), chosen),
  ];
}

/** What is shown of a run that has left its checkpoints alone. */
function fromCheckpoint(vertices) {
  const text = vertices.length ? "This is what the last checkpoint tells; all other figures went with the driver." : "The driver was gone before a checkpoint that stayed.";
  return h("p", { class: "hint" }, text);
}

function whereTimeGoes(busiest, state) {
  const over = isOver(state);
  if (busiest === null) {
    const ended = state === "FINISHED" ? "Nothing was read." : "The job ended before its first epoch was over.";
    return h("p", { class: "hint" }, over ? ended : "The first epoch is not over yet.");
  }
  const share = percent(busiest.busy);
  return h(
    "p",
    { class: "lead" },
    over ? "Most of the time went into " : "Most of the time goes into ",
    h("strong", null, busiest.name),
    over ? `: it was busy for ${share} of the run.` : `: its busiest subtask works ${share} of the time.`,
  );
}

function drawing(job, vertices, busiest, chosen) {
  const nodes = vertices.map(({ id, inputs }) => ({ id, inputs: inputs.map((input) => input.id) }));
  const placed = layout(nodes, SIZE);
  const strategies = new Map(
    vertices.flatMap((to) => to.inputs.map((input) => [`${input.id} ${to.id}`, input.ship_strategy])),
  );
  const size = { width: placed.width, height: placed.height };
  return h(
    "div",
    { class: "scroll graph", tabindex: 0, role: "region", "aria-label": "Graph of the job" },
    h(
      "div",
      { class: "canvas", style: { width: `${size.width}px`, height: `${size.height}px` } },
      h(
        "svg",
        { ...size, "aria-hidden": "true" },
        placed.edges.map(({ from, to, points }) => edge(points, strategies.get(`${from} ${to}`))),
      ),
      vertices.map((vertex) => card(job, vertex, placed.places.get(vertex.id), vertex === busiest, vertex.id === chosen)),
    ),
  );
}

function edge(points, strategy) {
  const [start, ...rest] = points;
  let [x, line] = [start.x, `M${start.x} ${start.y}`];
  rest.forEach((point, index) => {
    const middle = (x + point.x) / 2;
    line += index % 2 ? ` L${point.x} ${point.y}` : ` C${middle} ${points[index].y} ${middle} ${point.y} ${point.x} ${point.y}`;
    x = point.x;
  });
  const end = points.at(-1);
  return h(
    "g",
    null,
    h("path", { class: "edge", d: line }),
    h("path", { class: "arrow", d: `M${end.x} ${end.y} l-9 -5 v10 z` }),
    h("text", { x: end.x - 13, y: end.y - 7, "text-anchor": "end" }, strategy?.toLowerCase()),
  );
}

function card(job, vertex, { x, y }, isBusiest, isChosen) {
  const hasFigures = job.penstock.records >= 0;
  const href = `#/job/${job.jid}/graph${isChosen ? "" : `/${vertex.id}`}`;
  return h(
    "article",
    {
      key: vertex.id,
      class: `card${isBusiest ? " busiest" : ""}${isChosen ? " chosen" : ""}`,
      style: { left: `${x}px`, top: `${y}px`, width: `${SIZE.width}px`, height: `${SIZE.height}px` },
    },
    h("h3", null, h("a", { href, title: vertex.name, "aria-expanded": String(isChosen) }, vertex.name)),
    h("p", { class: "standing" }, badge(vertex.status), finished(vertex), isBusiest && h("span", { class: "mark" }, "busiest")),
    h(
      "div",
      { class: "meter", role: "meter", "aria-label": "Busy", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(vertex.busy * 100) },
      h("span", { class: "bar", style: { width: percent(vertex.busy).replace(" ", "") } }),
      h("span", { class: "bar waits", style: { width: percent(vertex.waits).replace(" ", "") } }),
    ),
    facts([
      hasFigures && ["Busy", [percent(vertex.busy), h("span", { class: "rate" }, `waits ${percent(vertex.waits)}`)], SHARES],
      hasFigures && vertex.inputs.length > 0 && ["In", flow(vertex.metrics["read-records"], vertex.rateIn)],
      hasFigures && ["Out", flow(vertex.metrics["write-records"], vertex.rateOut)],
      ["Watermark", watermark(vertex.watermark), "The smallest one of its subtasks, in UTC"],
    ]),
  );
}

const flow = (records, perSecond) => [count(records), perSecond > 0 && h("span", { class: "rate" }, rate(perSecond))];

function finished({ tasks, parallelism, status }) {
  const done = tasks.FINISHED ?? 0;
  return done && status !== "FINISHED" ? `✓ ${done} of ${parallelism} finished` : `× ${parallelism}`;
}

function subtasks(job, vertex, { subtasks: rows }) {
  const headings = [
    ["Subtask"], ["State"], ["Busy", "number"], ["Waits", "number"], ["Records in", "number"], ["Records out", "number"], ["Bytes in", "number"], ["Bytes out", "number"],
    ["Input watermark (UTC)", "when"],
  ];
  return h(
    "div",
    { key: `vertex ${vertex.id}`, class: "panel" },
    h(
      "div",
      { class: "title" },
      h("h2", null, vertex.name),
      h("a", { class: "close", href: `#/job/${job.jid}/graph` }, "Close"),
    ),
    table(
      "Operators of this vertex",
      [["Operator", "words"], ["Uid", "when"], ["Made at", "when"]],
      vertex.operators.map(({ uid, name, created_at: at }) => ({ key: uid, cells: [name, h("code", null, uid), h("code", null, at)] })),
    ),
    table(
      "Subtasks of this vertex",
      headings,
      rows.map(({ subtask, status, busy, waits, metrics, watermark: mark }) => ({
        key: String(subtask),
        cells: [
          subtask,
          badge(status),
          percent(busy),
          percent(waits),
          count(metrics["read-records"]),
          count(metrics["write-records"]),
          bytes(metrics["read-bytes"]),
          bytes(metrics["write-bytes"]),
          watermark(mark),
        ],
      })),
    ),
  );
}
