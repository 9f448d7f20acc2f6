/** What can be done to a job: a sentence beforehand, the operation itself, and its outcome, which survives a reload. */

import { Refused } from "./api.js";
import { ask } from "./dialog.js";
import { copyable, h } from "./dom.js";
import { duration } from "./format.js";
import { stateOf } from "./jobs.js";

const STORED = "penstock.operations";
const POLL_MS = 400;
/** The same where nobody answers. */
const PAUSE_MS = 3000;

const ACTIONS = {
  savepoint: {
    button: "Savepoint",
    title: "Make a savepoint?",
    happens: "The job runs on. Once everything that its last checkpoint covers is published, a copy of it becomes a savepoint.",
    after: () => "You can start this job, or a changed version of it, from the savepoint whenever you like.",
    confirm: "Make a savepoint",
    going: "Making a savepoint …",
    done: "The savepoint is complete, and the job runs on.",
    failed: "There is no savepoint.",
    begin: (api, job, directory) => api.post(`/jobs/${job}/savepoints`, { "target-directory": directory }),
  },
  stop: {
    button: "Stop",
    title: "Stop the job?",
    happens:
      "The running epoch comes to its end, reading stops, and all output so far is published. Open windows, timers and " +
      "read positions stay in a savepoint, and the job ends as FINISHED.",
    after: () => "Restored from that savepoint, it continues exactly where it stopped.",
    confirm: "Stop the job",
    going: "Stopping …",
    done: "The job has stopped, and all output so far is published.",
    failed: "The job was not stopped.",
    state: "FINISHED",
    begin: (api, job, directory) => api.post(`/jobs/${job}/stop`, { targetDirectory: directory, drain: false }),
  },
  drain: {
    button: "Drain",
    title: "Drain the job?",
    happens:
      "All input ends now: timers fire, windows close, and their final results are published. Then a savepoint is made, " +
      "and the job ends as FINISHED.",
    after: () =>
      "This is for good: a start from that savepoint reads on, but windows that closed now do not open again. Use Stop " +
      "for a job that is to be restored.",
    confirm: "Drain the job",
    going: "Draining …",
    done: "The job has drained, and all its results are published.",
    failed: "The job was not drained.",
    state: "FINISHED",
    begin: (api, job, directory) => api.post(`/jobs/${job}/stop`, { targetDirectory: directory, drain: true }),
  },
  cancel: {
    button: "Cancel",
    title: "Cancel the job?",
    happens: "The running epoch is given up, and the job ends as CANCELED, without a savepoint.",
    after: afterCancel,
    confirm: "Cancel the job",
    going: "The job was asked to cancel.",
    isDangerous: true,
    begin: (api, job) => api.cancel(job),
  },
};

function afterCancel({ job, settings }) {
  const isKept = settings?.externalization.enabled && !settings.externalization.delete_on_cancellation;
  const last = job.penstock.checkpoint_id;
  if (!isKept || !last) return "Nothing of it is kept to be restored from. Use Stop if the job is to be restored later.";
  return `Its checkpoint #${last} is kept: started with execution.state-recovery.path=latest, the job is restored from there.`;
}

const operations = JSON.parse(sessionStorage.getItem(STORED) ?? "[]");
const following = new Set();
let changed = () => {};

/** Follows what an earlier load of the page began; calls a function whenever something has changed. */
export function follow(api, whenChanged) {
  changed = whenChanged;
  operations.filter((one) => !one.over).forEach((one) => poll(api, one));
}

/** What was asked of this run of a job; one that was started again is another run. */
const askedOf = (job) => operations.filter((one) => one.job === job.jid && one.started === job["start-time"]);

export function buttons(api, data) {
  const isBusy = askedOf(data.job).some((one) => !one.over);
  return Object.entries(ACTIONS).map(([kind, action]) =>
    h(
      "button",
      {
        type: "button",
        class: action.isDangerous ? "danger" : null,
        disabled: isBusy && kind !== "cancel",
        onclick: () => offer(api, kind, data),
      },
      action.button,
    ),
  );
}

async function offer(api, kind, data) {
  const action = ACTIONS[kind];
  const answer = await ask({
    title: action.title,
    text: [action.happens, action.after(data)],
    field: kind === "cancel" ? null : { label: "Directory of the savepoint", value: data.job.penstock.savepoint_directory, placeholder: "/data/savepoints" },
    confirm: action.confirm,
    isDangerous: action.isDangerous,
  });
  if (answer === null) return;
  const { jid, "start-time": started } = data.job;
  const operation = { job: jid, started, kind, begun: Date.now(), over: false, location: null, error: null };
  operations.unshift(operation);
  note(operation, {});
  try {
    const { "request-id": request } = await action.begin(api, jid, answer.value);
    note(operation, request ? { request } : { over: true });
    await poll(api, operation);
  } catch (error) {
    note(operation, { over: true, error: error.message });
  }
}

async function poll(api, operation) {
  if (!operation.request || following.has(operation)) return;
  following.add(operation);
  while (!operation.over) {
    let pause = POLL_MS;
    try {
      const { status, operation: result } = await api.get(`/jobs/${operation.job}/savepoints/${operation.request}`);
      const cause = result?.["failure-cause"];
      if (status.id === "COMPLETED") {
        note(operation, { over: true, location: result.location ?? null, error: cause ? cause["stack-trace"] : null });
        return;
      }
    } catch (error) {
      if (error instanceof Refused) note(operation, { over: true, error: error.message });
      pause = PAUSE_MS;
    }
    await new Promise((resume) => setTimeout(resume, pause));
  }
}

function note(operation, news) {
  Object.assign(operation, news);
  sessionStorage.setItem(STORED, JSON.stringify(operations));
  changed();
}

/** The state of a job as far as its operations tell: after a stop the driver may be gone before it is asked again. */
export function stateAfter(job) {
  const stopped = askedOf(job).find((one) => one.over && !one.error && ACTIONS[one.kind].state);
  return stopped ? ACTIONS[stopped.kind].state : stateOf(job);
}

/** What was asked of a job in this window, and what came of it. */
export function notices(job) {
  return h(
    "div",
    { class: "notices", role: "status" },
    askedOf(job).map((one) => notice(one)),
  );
}

function notice(operation) {
  const action = ACTIONS[operation.kind];
  const dismiss = () => {
    operations.splice(operations.indexOf(operation), 1);
    note(operation, {});
  };
  return h(
    "div",
    { key: `${operation.kind} ${operation.begun}`, class: `notice${operation.error ? " bad" : ""}${operation.location ? " good" : ""}` },
    h("div", null, ...outcome(operation, action)),
    operation.over && h("button", { class: "quiet", onclick: dismiss, "aria-label": "Dismiss this message" }, "Dismiss"),
  );
}

function outcome({ over, error, location, begun }, action) {
  if (error) return [h("strong", null, action.failed ?? "The job was not cancelled."), h("pre", null, error)];
  if (!over || !location) return [h("strong", null, action.going), !over && ` ${duration(Date.now() - begun)}`];
  return [
    h("strong", null, action.done),
    h("div", { class: "result" }, "Savepoint ", copyable(location, "the path of the savepoint")),
    h("small", null, "To start from it, set execution.state-recovery.path to this path."),
  ];
}
