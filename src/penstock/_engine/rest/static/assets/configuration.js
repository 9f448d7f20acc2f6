/** The effective configuration of a job; what is secret was hidden by the server. */

import { h, show, table } from "./dom.js";

let wanted = "";

export function view({ keys }) {
  const place = h("div", { key: "keys" }, matching(keys));
  const filter = (event) => {
    wanted = event.target.value.trim().toLowerCase();
    const shown = event.target.closest("section").querySelector("[data-key=keys]");
    show(shown, matching(keys));
  };
  return [
    h("label", { class: "field", key: "filter" }, "Filter", h("input", { type: "search", oninput: filter, placeholder: "checkpointing" })),
    place,
  ];
}

function matching(keys) {
  const found = keys.filter(({ key, value }) => `${key} ${value}`.toLowerCase().includes(wanted));
  if (found.length === 0) return h("p", { class: "hint" }, keys.length ? "No key or value has that in it." : "All keys have their defaults.");
  const rows = found.map(({ key, value }) => ({ key, cells: [h("code", null, key), h("code", null, value)] }));
  return table("Keys and values", [["Key"], ["Value"]], rows);
}
