/** The checkpoints and savepoints of a job: how large, how long, where, and what is not yet published. */

import { copyable, facts, h, table } from "./dom.js";
import { bytes, count, duration, time } from "./format.js";
import { badge } from "./jobs.js";

export function view({ history, settings }) {
  if (history === null) return withoutCheckpoints();
  const { counts, summary, latest, penstock } = history;
  return [
    facts([
      ["Completed", count(counts.completed)],
      ["In progress", count(counts.in_progress)],
      ["Failed", count(counts.failed)],
      ["Restored", count(counts.restored), "How often the job was restored from a checkpoint, in restarts too"],
      counts.completed > 0 && ["Duration", `${duration(summary.end_to_end_duration.p50)} (median)`, spread(summary.end_to_end_duration, duration)],
      counts.completed > 0 && ["Written each time", `${bytes(summary.checkpointed_size.p50)} (median)`, spread(summary.checkpointed_size, bytes)],
      latest.completed && ["State", bytes(latest.completed.state_size)],
    ]),
    paths(latest),
    pending(penstock.pending_commits),
    h("h2", null, "History"),
    checkpointTable(history.history),
    settings && h("p", { class: "hint" }, habits(settings)),
  ];
}

function withoutCheckpoints() {
  return h(
    "p",
    { class: "hint" },
    "This job keeps no checkpoints: set ",
    h("code", null, "execution.checkpointing.dir"),
    ", and it can be restored after its end. Savepoints can be made all the same.",
  );
}

const spread = (values, shown) => `From ${shown(values.min)} to ${shown(values.max)}; 99 % below ${shown(values.p99)}`;

/** What the checkpoint is called: an entry beside it, such as its savepoint, has another id. */
const number = (one) => one.penstock.checkpoint_id;

function paths({ completed, savepoint, restored }) {
  const known = [
    savepoint && ["Last savepoint", savepoint.external_path, `#${number(savepoint)}, ${time(savepoint.trigger_timestamp)}`],
    completed && ["Last checkpoint", completed.external_path, `#${number(completed)}, ${time(completed.trigger_timestamp)}`],
    restored && ["Restored from", restored.external_path, `#${restored.id}, ${time(restored.restore_timestamp)}`],
  ];
  return h(
    "dl",
    { class: "paths" },
    known.filter(Boolean).map(([name, path, when]) => [h("dt", null, name, h("small", null, when)), h("dd", null, place(path, name))]),
  );
}

/** Flink's clients want some text where a checkpoint goes with its job; it is no path. */
function place(path, name) {
  return path && !path.startsWith("<") ? copyable(path, `the path of: ${name}`) : h("span", { class: "hint" }, "removed at the end of the job");
}

function pending(commits) {
  const sinks = Object.entries(commits).filter(([, number]) => number > 0);
  if (sinks.length === 0) return h("p", { class: "hint" }, "Pending commits: none. All that completed checkpoints cover is published.");
  const rows = sinks.map(([uid, number]) => ({ key: uid, cells: [h("code", null, uid), count(number)] }));
  return [
    h("h2", null, "Pending commits"),
    h("p", { class: "hint" }, "Staged by sinks, covered by a checkpoint, and not yet known to be published. A restart publishes them first."),
    table("Pending commits", [["Sink"], ["Committables", "number"]], rows),
  ];
}

function checkpointTable(history) {
  if (history.length === 0) return h("p", { class: "hint" }, "None yet.");
  const headings = [["Id"], ["Kind"], ["State"], ["Begun", "when"], ["Duration", "number"], ["Written", "number"], ["All state", "number"], ["Subtasks", "number"], ["Where", "place"]];
  const rows = history.map((one) => ({
    key: `${one.id} ${one.trigger_timestamp}`, // a try that failed gives its id to the next one
    cells: [
      `#${number(one)}`,
      KINDS[one.checkpoint_type] ?? one.checkpoint_type,
      badge(one.status),
      time(one.trigger_timestamp),
      duration(one.end_to_end_duration),
      bytes(one.checkpointed_size),
      bytes(one.state_size),
      one.className === "completed" ? `${one.num_acknowledged_subtasks}` : `${one.num_acknowledged_subtasks} of ${one.num_subtasks}`,
      whereabouts(one),
    ],
  }));
  return table("History of checkpoints", headings, rows);
}

const KINDS = { CHECKPOINT: "checkpoint", UNALIGNED_CHECKPOINT: "checkpoint", SAVEPOINT: "savepoint", SYNC_SAVEPOINT: "savepoint of a stop" };

function whereabouts(one) {
  if (one.className === "failed") return h("span", { class: "bad" }, one.failure_message);
  if (one.className !== "completed") return "";
  return one.discarded ? h("span", { class: "hint" }, "removed: newer ones took its place") : place(one.external_path, `#${number(one)}`);
}

function habits({ interval, timeout, min_pause: pause, externalization }) {
  const every = interval > 0 ? `A checkpoint every ${duration(interval)}` : "A checkpoint at the end of each epoch";
  const kept = externalization.enabled
    ? `kept after the job's end${externalization.delete_on_cancellation ? ", but not after a cancel" : ""}`
    : "not kept after the job's end";
  return `${every}${pause > 0 ? `, at least ${duration(pause)} apart` : ""}; given up after ${duration(timeout)}; ${kept}.`;
}
