/** All jobs of the process: those that run first, then those that ended a while ago. */

import { h, table } from "./dom.js";
import { count, duration, plural, time } from "./format.js";

const ENDED = new Set(["FINISHED", "CANCELED", "FAILED"]);

export const isOver = (state) => ENDED.has(state);

export async function load(api) {
  return (await api.get("/jobs/overview")).jobs;
}

export function view(jobs) {
  const inOrder = [...jobs].sort((a, b) => isOver(a.state) - isOver(b.state) || b["start-time"] - a["start-time"]);
  return [
    h("h1", null, "Jobs"),
    jobs.length ? list(inOrder) : h("p", { class: "hint" }, "No job has been started in this process yet."),
  ];
}

function list(jobs) {
  const headings = [
    ["Name"], ["State"], ["Started", "when"], ["Duration", "number"], ["Records read", "number"], ["Subtasks"], ["Checkpoint", "number"],
  ];
  const rows = jobs.map((job) => ({
    key: job.jid,
    cells: [
      h("a", { href: `#/job/${job.jid}` }, job.name),
      badge(job.state),
      time(job["start-time"]),
      duration(job.duration),
      count(job.penstock.records),
      subtasks(job),
      job.penstock.checkpoint_id || "–",
    ],
  }));
  return table("Jobs", headings, rows);
}

function subtasks({ state, tasks }) {
  if (isOver(state)) return plural(tasks.total, "subtask");
  return tasks.finished ? `${tasks.running} run, ${tasks.finished} finished` : `${tasks.running} of ${tasks.total} run`;
}

/** A state, told by a sign, a colour and a word. */
export function badge(state) {
  return h("span", { class: "badge", "data-state": state }, state.toLowerCase().replace("_", " "));
}
