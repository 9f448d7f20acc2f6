/** From the address to a page, again and again: load what it is about, show it, wait, and so on. */

import * as actions from "./actions.js";
import { Api, Refused, Silent } from "./api.js";
import { askForToken } from "./dialog.js";
import { h, show } from "./dom.js";
import { time } from "./format.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import { isHistory, setMode } from "./mode.js";

const USUAL_REFRESH_MS = 3000;

const api = new Api(askForToken);
const place = (id) => document.getElementById(id);
/** What is shown: the address it belongs to, its page, its data and when they came. */
let shown = null;
let refreshMs = null;
let timer = null;
let turn = 0;
/** When the server answered last, once it answers no more. */
let silentSince = null;

function parse(address) {
  const [kind, id, tab = "graph", vertex = null] = address.replace(/^#?\//, "").split("/");
  if (kind === "job" && /^[0-9a-f]{32}$/.test(id) && tab in job.TABS) return { page: job, job: id, tab, vertex };
  return { page: jobs };
}

async function refresh() {
  clearTimeout(timer);
  turn += 1;
  const mine = turn;
  const route = parse(location.hash);
  try {
    if (refreshMs === null) await greet();
    const data = await route.page.load(api, route);
    if (mine !== turn) return;
    shown = { route, data, at: Date.now() };
    silentSince = null;
    show(place("banner"));
    draw();
  } catch (error) {
    if (mine === turn) lament(error, route);
  } finally {
    if (mine === turn) timer = setTimeout(refresh, refreshMs ?? USUAL_REFRESH_MS);
  }
}

async function greet() {
  const config = await api.get("/config");
  refreshMs = config["refresh-interval"];
  setMode(config.features);
  show(place("version"), config.penstock.version);
}

function draw() {
  if (shown === null) return;
  const { route, data, at } = shown;
  document.title = data.job ? `${data.job.name} · Penstock` : "Penstock";
  show(place("freshness"), `As of ${time(at).slice(11)}`);
  show(place("page"), ...route.page.view(silentSince === null ? data : route.page.withoutDriver(data, silentSince), route, api, draw));
}

function lament(error, route) {
  if (error instanceof Refused) {
    show(place("banner"), h("p", { class: "notice bad" }, error.message));
    show(place("page"), h("p", null, h("a", { href: "#/" }, "All jobs")));
    return;
  }
  if (!(error instanceof Silent)) throw error;
  // The tabs of a job that is known can still be looked at.
  if (shown && shown.data.job?.jid === route.job) shown.route = { ...route, vertex: shown.route.vertex };
  silentSince = shown?.at ?? null;
  draw();
  const known = shown ? ` This page shows what it said last, at ${time(shown.at).slice(11)}.` : "";
  const who = isHistory() ? "The history server does not answer: it" : "The driver does not answer: its process";
  show(place("banner"), h("p", { class: "notice" }, `${who} has ended, or cannot be reached.${known}`));
}

addEventListener("hashchange", refresh);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
actions.follow(api, () => draw());
refresh();
