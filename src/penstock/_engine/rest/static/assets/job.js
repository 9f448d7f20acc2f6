/** One job: its heading with what can be done to it, and the tabs below. */

import * as actions from "./actions.js";
import * as checkpoints from "./checkpoints.js";
import * as configuration from "./configuration.js";
import { copyable, facts, h } from "./dom.js";
import * as exceptions from "./exceptions.js";
import { bytes, count, duration, known, percent, rate, time, watermark } from "./format.js";
import * as graph from "./graph.js";
import { badge, isOver, lostSince } from "./jobs.js";
import * as log from "./log.js";
import * as metrics from "./metrics.js";
import { isHistory } from "./mode.js";

export const TABS = { graph: "Graph", metrics: "Metrics", checkpoints: "Checkpoints", exceptions: "Exceptions", log: "Log", configuration: "Configuration" };
const VIEWS = { graph, metrics, checkpoints, exceptions, log, configuration };

/** All tabs are loaded each time: when the driver is gone, each of them still shows what it said last. */
export async function load(api, { job: id, tab, vertex }) {
  const path = `/jobs/${id}`;
  const [job, cluster, history, settings, failures, logged] = await Promise.all([
    api.get(path),
    isHistory() ? null : api.get("/overview"),
    api.find(`${path}/checkpoints`),
    api.find(`${path}/checkpoints/config`),
    api.get(`${path}/exceptions`),
    api.find(`${path}/penstock/log`),
  ]);
  const [vertices, keys] = await Promise.all([graph.load(api, job), configuration.load(api, job)]);
  const chosen = vertices.some((one) => one.id === vertex) ? await graph.loadVertex(api, job, vertex) : null;
  const of = tab === "metrics" && chosen ? vertex : null;
  return { job, cluster, history, settings, failures: failures.exceptionHistory, keys, vertices, chosen, lines: logged?.lines ?? [], metrics: await metrics.load(api, job, of) };
}

/** The same where the driver does not answer since a moment: that the job runs is not known then. */
export function withoutDriver(data, since) {
  if (isHistory() || isOver(actions.stateAfter(data.job))) return data;
  const checkpoint = data.history?.latest.completed?.external_path ?? null;
  const job = lostSince(data.job, since);
  Object.assign(job.penstock.lost, { checkpoint: checkpoint?.startsWith("<") ? null : checkpoint });
  return { ...data, job };
}

/** The same, with nothing of a lost job called running or cancelled. */
function withLost(data) {
  if (!data.job.penstock.lost) return data;
  const lost = (one) => (["RUNNING", "CANCELED"].includes(one.status) ? { ...one, status: "LOST" } : one);
  const chosen = data.chosen && { ...data.chosen, subtasks: data.chosen.subtasks.map(lost) };
  return { ...data, vertices: data.vertices.map(lost), chosen };
}

export function view(data, route, api, redraw) {
  const { job } = data;
  const state = actions.stateAfter(job);
  return [
    h("nav", { class: "path", "aria-label": "Path" }, h("a", { href: "#/" }, "Jobs"), " / "),
    h(
      "div",
      { class: "title" },
      h("h1", null, job.name),
      badge(state),
      h("div", { class: "actions" }, !isOver(state) && !isHistory() && actions.buttons(api, data)),
    ),
    figures(data, state),
    job.penstock.lost && loss(job.penstock.lost),
    !isOver(state) && !job.penstock.lost && idle(data.cluster),
    actions.notices(job),
    h(
      "nav",
      { class: "tabs", "aria-label": "About this job" },
      Object.entries(TABS).map(([tab, title]) =>
        h(
          "a",
          { href: `#/job/${job.jid}/${tab}`, "aria-current": tab === route.tab ? "page" : null },
          title,
          tab === "exceptions" && data.failures.entries.length > 0 && h("span", { class: "pill" }, failures(data)),
        ),
      ),
    ),
    h("section", { key: route.tab, "aria-label": TABS[route.tab] }, VIEWS[route.tab].view(withLost(data), state, redraw)),
  ];
}

/** Since when nothing was heard of the driver, and how the job is resumed. */
function loss({ since, host, pid, is_gone: isGone, was_resumed: wasResumed, checkpoint }) {
  const heard = `Nothing was heard of its driver since ${time(since)}; penstock list --all${pid ? ` on ${host}` : ""} says whether it runs.`;
  const gone = isGone ? `Process ${pid} on ${host} is gone without having ended the job: its last sign is of ${time(since)}.` : heard;
  const command = checkpoint && `penstock run -s ${checkpoint.replace(/^file:/, "")} SCRIPT`;
  return h(
    "div",
    { class: "notice bad", key: "loss" },
    h(
      "div",
      null,
      h("strong", null, "Lost. "),
      gone,
      wasResumed && " Another run of the job has begun since.",
      command && h("div", { class: "result" }, isGone ? "Resume it with " : "If it is gone, resume it with ", copyable(command, "the command")),
      !wasResumed && !command && " No checkpoint of it stayed: its program starts it fresh.",
    ),
  );
}

/** Since when the cluster runs nothing. */
function idle(cluster) {
  const since = cluster?.penstock.no_executors_since;
  return since && h("p", { class: "notice", key: "idle" }, `No executors since ${time(since)}: the job's tasks wait for the cluster.`);
}

const failures = ({ failures: { entries, truncated } }) => `${entries.length}${truncated ? "+" : ""}`;

function lost({ operator, uid, first_checkpoint_id: first, last_checkpoint_id: last, count: committables, reason }) {
  const checkpoints = first === last ? `#${last}` : `#${first} to #${last}`;
  return `${operator} (uid ${uid}), ${checkpoints}: ${count(committables)} in no output, ${reason}`;
}

/** Returns a fact of some subtasks of a recovered batch job, with their operators. */
function subtasksOf(title, vertices, counts = {}) {
  const rows = vertices.filter(({ id }) => counts[id]);
  return rows.length > 0 && [
    title,
    count(rows.reduce((sum, { id }) => sum + counts[id], 0)),
    rows.map(({ id, name }) => `${name}: ${count(counts[id])}`).join("\n"),
  ];
}

function figures({ job, vertices, history }, state) {
  const restored = history?.latest.restored;
  const { penstock } = job;
  const late = Object.entries(penstock.late_records_dropped);
  const givenUp = penstock.given_up_committables;
  const unread = Object.entries(penstock.unread_splits ?? {});
  const reading = vertices.filter((one) => one.inputs.length === 0).reduce((sum, one) => sum + one.rateOut, 0);
  return facts([
    ["Records read", known(penstock.records)],
    !isOver(state) && ["Sources emit", rate(reading)],
    ["Running for", duration(job.duration), `Started ${time(job["start-time"])}`],
    ["Watermark", watermark(penstock.watermark), "The smallest one at the ends of the graph, in UTC"],
    late.length > 0 && [
      "Late records dropped",
      count(late.reduce((sum, [, dropped]) => sum + dropped, 0)),
      late.map(([operator, dropped]) => `${operator}: ${count(dropped)}`).join("\n"),
    ],
    givenUp.length > 0 && [
      "Committables given up",
      count(givenUp.reduce((sum, one) => sum + one.count, 0)),
      givenUp.map(lost).join("\n"),
    ],
    unread.length > 0 && [
      "Splits left unread",
      count(unread.reduce((sum, [, splits]) => sum + splits, 0)),
      unread.map(([source, splits]) => `${source}: ${count(splits)}, its reader finished before`).join("\n"),
    ],
    subtasksOf("Subtasks recovered", vertices, penstock.recovery?.recovered),
    subtasksOf("Subtasks run again", vertices, penstock.recovery?.ran_again),
    penstock.recovery?.damage && ["Events", "damaged", penstock.recovery.damage],
    restored && ["Restored from", `#${restored.id}`, `${restored.external_path}, ${time(restored.restore_timestamp)}`],
    ["Last checkpoint", penstock.checkpoint_id ? `#${penstock.checkpoint_id}` : "none yet"],
    penstock.restarts > 0 && ["Restarts", count(penstock.restarts)],
    penstock.returned_share < 1 && [
      "Subtasks that return",
      percent(penstock.returned_share),
      "The share of subtasks that began an epoch on the host of the epoch before, where their state is",
    ],
    penstock.restored_bytes > 0 && ["State read from checkpoints", bytes(penstock.restored_bytes)],
    ["Job id", copyable(job.jid, "the job id")],
  ]);
}
