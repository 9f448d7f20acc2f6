/** The last lines of the driver's log; those of tasks are where Spark writes them. */

import { h } from "./dom.js";
import { time } from "./format.js";

export function view({ job, lines }) {
  if (job.penstock.records < 0) return h("p", { class: "hint" }, "The lines went with the driver: look where its program sent them.");
  return [
    lines.length
      ? h("ol", { class: "log", tabindex: 0, "aria-label": "Last lines of the log" }, lines.map(entry))
      : h("p", { class: "hint" }, "The driver has logged nothing. penstock.log.format and penstock.log.level say what it logs."),
    h(
      "p",
      { class: "hint" },
      "These are Penstock's lines in the driver's process, newest last. What functions write themselves is in the output of their tasks: with a local Spark the program's standard error, ",
      "on a cluster the logs of Spark's executors. An error of a function is under Exceptions, with its traceback.",
    ),
  ];
}

function entry({ time: at, level, text }, index) {
  return h("li", { key: `${at} ${index}`, "data-level": level }, h("time", null, time(at)), h("span", null, level.toLowerCase()), h("pre", null, text));
}
