/** Metrics over time: of the whole job, or of a vertex, those of the user's functions among them. */

import { chart } from "./chart.js";
import { h } from "./dom.js";

/** What is drawn of a job, and of a vertex, before anything else was chosen. */
const chosen = {
  job: new Set(["numRecordsPerSecond", "lastCheckpointDuration", "lastCheckpointFullSize"]),
  vertex: new Set(["numRecordsInPerSecond", "numRecordsOutPerSecond", "busyTimeMsPerSecond", "watermarkLag", "stateSize"]),
};

/** Returns the names of all metrics, and the values of those that are drawn. */
export async function load(api, job, vertex) {
  const path = vertex ? `/jobs/${job.jid}/vertices/${vertex}/penstock/metrics` : `/jobs/${job.jid}/penstock/metrics`;
  const names = ((await api.find(path)) ?? []).map((one) => one.id).sort();
  const wanted = names.filter((name) => chosen[vertex ? "vertex" : "job"].has(name));
  const series = wanted.length ? await api.get(`${path}?get=${wanted.map(encodeURIComponent).join()}`) : [];
  return { vertex, names, series };
}

export function view({ job, vertices, metrics }) {
  return [subjects(job, vertices, metrics?.vertex ?? null), metrics && body(metrics)];
}

function subjects(job, vertices, vertex) {
  const link = (id, name) =>
    h("a", { href: `#/job/${job.jid}/metrics${id ? `/${id}` : ""}`, "aria-current": id === vertex ? "true" : null }, name);
  return h("nav", { class: "subjects", "aria-label": "Metrics of" }, link(null, "The whole job"), vertices.map(({ id, name }) => link(id, name)));
}

function body({ vertex, names, series }) {
  if (names.length === 0) return h("p", { class: "hint" }, "There are no metrics yet: the first ones come with the first epoch.");
  const of = chosen[vertex ? "vertex" : "job"];
  return h(
    "div",
    { key: `metrics of ${vertex}` },
    h(
      "details",
      { class: "picker" },
      h("summary", null, `Choose metrics: ${series.length} of ${names.length} are drawn`),
      h("div", { class: "choices" }, names.map((name) => choice(name, of))),
    ),
    h("div", { class: "charts" }, series.map(chart)),
    vertex && h("p", { class: "hint" }, "Over all subtasks: watermarks are the smallest, shares of time the mean, and all others the sum."),
  );
}

function choice(name, of) {
  const toggle = (event) => {
    if (event.target.checked) of.add(name);
    else of.delete(name);
    dispatchEvent(new Event("hashchange")); // loads what is missing
  };
  return h("label", { key: name }, h("input", { type: "checkbox", checked: of.has(name), oninput: toggle }), h("code", null, name));
}
