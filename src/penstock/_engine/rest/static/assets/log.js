/** The last lines of the log: Penstock's in the driver, and those of functions in tasks. */

import { h } from "./dom.js";
import { time } from "./format.js";

export function view({ job, lines }) {
  if (job.penstock.records < 0) return h("p", { class: "hint" }, "The lines went with the driver: look where its program sent them.");
  return [
    lines.length
      ? h("ol", { class: "log", tabindex: 0, "aria-label": "Last lines of the log" }, lines.map(entry))
      : h("p", { class: "hint" }, "Nothing was logged. penstock.log.format and penstock.log.level say what it logs."),
    h(
      "p",
      { class: "hint" },
      "Penstock's lines in the driver's process, and what functions log in tasks, newest last. What functions print is in the output of their tasks: with a local Spark the program's, ",
      "on a cluster that of Spark's executors. An error of a function is under Exceptions, with its traceback.",
    ),
  ];
}

function entry({ time: at, level, text, operator, subtask }, index) {
  return h(
    "li",
    { key: `${at} ${index}`, "data-level": level },
    h("time", null, time(at)),
    h("span", null, level.toLowerCase()),
    operator && h("strong", null, `${operator} (${subtask})`),
    h("pre", null, text),
  );
}
