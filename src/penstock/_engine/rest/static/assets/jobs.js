/** All jobs of the process: those that run first, then those that ended a while ago. */

import { h, table } from "./dom.js";
import { duration, known, plural, time } from "./format.js";
import { isHistory } from "./mode.js";

const ENDED = new Set(["FINISHED", "CANCELED", "FAILED", "SUSPENDED", "LOST"]);

export const isOver = (state) => ENDED.has(state);

/** The state of a job; Flink has none for a run whose driver is gone without having ended it. */
export const stateOf = (job) => (job.penstock?.lost ? "LOST" : job.state);

export async function load(api) {
  return (await api.get("/jobs/overview")).jobs;
}

/** What is left to say of jobs whose driver does not answer since a moment: none of them is known to run. */
export function withoutDriver(jobs, since) {
  return isHistory() ? jobs : jobs.map((job) => (isOver(stateOf(job)) ? job : lostSince(job, since)));
}

export function lostSince(job, since) {
  return { ...job, penstock: { ...job.penstock, lost: { since } } };
}

export function view(jobs) {
  const inOrder = [...jobs].sort((a, b) => isOver(a.state) - isOver(b.state) || b["start-time"] - a["start-time"]);
  const none = isHistory() ? "No job has left an archive here yet." : "No job has been started in this process yet.";
  return [h("h1", null, isHistory() ? "History of jobs" : "Jobs"), jobs.length ? list(inOrder) : h("p", { class: "hint" }, none)];
}

function list(jobs) {
  const headings = [
    ["Name"], ["State"], ["Started", "when"], ["Duration", "number"], ["Records read", "number"], ["Subtasks", "when"], ["Checkpoint", "number"],
  ];
  const rows = jobs.map((job) => ({
    key: job.jid,
    cells: [
      h("a", { href: `#/job/${job.jid}` }, job.name),
      badge(stateOf(job)),
      time(job["start-time"]),
      duration(job.duration),
      known(job.penstock.records),
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
