/** The configuration of a job, with defaults and where each value was set; what is secret was hidden by the server. */

import { h, table } from "./dom.js";

let wanted = "";
let withDefaults = false;

/** What was loaded last, and of which run: a job's configuration does not change. */
let loaded = { run: null, keys: [] };

export async function load(api, job) {
  const run = `${job.jid} ${job["start-time"]}`;
  if (loaded.run !== run) {
    const path = `/jobs/${job.jid}`;
    const keys = (await api.find(`${path}/penstock/configuration`)) ?? (await api.find(`${path}/jobmanager/config`)) ?? [];
    loaded = { run, keys };
  }
  return loaded.keys;
}

export function view({ job, keys }, state, redraw) {
  if (job.penstock.records < 0) return h("p", { class: "hint" }, "The configuration is not known any more: it went with the driver.");
  const filter = (event) => {
    wanted = event.target.value.trim().toLowerCase();
    redraw();
  };
  const toggle = (event) => {
    withDefaults = event.target.checked;
    redraw();
  };
  return [
    h(
      "div",
      { class: "filter", key: "filter" },
      h("label", { class: "field" }, "Filter", h("input", { type: "search", oninput: filter, placeholder: "checkpointing" })),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: withDefaults, oninput: toggle }), "Defaults, too"),
    ),
    h("div", { key: "keys" }, matching(keys)),
  ];
}

function matching(keys) {
  const shown = keys.filter(({ origin }) => withDefaults || origin !== "default");
  const found = shown.filter(({ key, value }) => `${key} ${value ?? ""}`.toLowerCase().includes(wanted));
  if (found.length === 0) return h("p", { class: "hint" }, shown.length ? "No key or value has that in it." : "All keys have their defaults.");
  const rows = found.map(({ key, value, origin, default: usual, effect }) => ({
    key,
    cells: [
      h("span", { title: effect }, h("code", null, key)),
      value === null ? h("span", { class: "hint" }, "not set") : h("code", null, value),
      origin === "default" ? h("span", { class: "hint" }, "default") : origin,
      usual === null || usual === undefined ? "" : h("code", null, usual),
    ],
  }));
  return table("Keys and values", [["Key", "when"], ["Value", "words"], ["Set by", "words"], ["Default", "words"]], rows);
}
