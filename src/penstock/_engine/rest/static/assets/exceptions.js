/** What went wrong in a job, newest first: the error, then the operator and the user's own line, then the traceback. */

import { facts, h } from "./dom.js";
import { time } from "./format.js";

export function view({ failures: { entries, truncated } }) {
  if (entries.length === 0) return h("p", { class: "hint" }, "Nothing has gone wrong.");
  return [
    entries.map((entry, index) => failure(entry, index === 0)),
    truncated && h("p", { class: "hint" }, "There were more before these."),
  ];
}

function failure(entry, isNewest) {
  const { reason, operator, operator_uid: uid, subtask, location, record, counted, checkpoint_id: epoch } = entry.penstock;
  return h(
    "article",
    { key: `${entry.timestamp} ${epoch}`, class: "failure" },
    h("h2", null, reason),
    facts([
      operator && ["In operator", [h("strong", null, operator), `, subtask ${subtask}`]],
      location && ["At", h("code", null, location)],
      record && ["On record", h("code", null, record)],
      operator && ["Uid", h("code", null, uid)],
      ["When", `${time(entry.timestamp)}, in the epoch of checkpoint ${epoch}${counted ? "" : "; run again without a restart"}`],
    ]),
    h("details", { open: isNewest }, h("summary", null, "Traceback"), h("pre", { tabindex: 0 }, entry.stacktrace)),
  );
}
