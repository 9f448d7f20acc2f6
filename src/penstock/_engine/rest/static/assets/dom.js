/** Elements: made from data, and brought up to date in place, so that focus, scrolling and selections survive a refresh.
 *
 * Text always becomes a text node; nothing that comes from a job is ever read as HTML.
 */

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "text", "g"]);
const HANDLERS = ["onclick", "oninput", "onsubmit"];

/** Makes an element. Attributes that are null, undefined or false are left out, and so are such children. */
export function h(tag, attributes, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (HANDLERS.includes(name)) element[name] = value;
    else if (name === "style") Object.entries(value).forEach(([key, text]) => element.style.setProperty(key, text));
    else element.setAttribute(name === "key" ? "data-key" : name, value === true ? "" : value);
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/** Shows children in a place; what is there already and fits stays, children with a key wherever they were. */
export function show(place, ...children) {
  const wanted = nodes(children);
  const keyed = new Map([...place.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
  wanted.forEach((node, index) => {
    const present = place.childNodes[index] ?? null;
    const old = keyOf(node) ? keyed.get(keyOf(node)) : present;
    if (!old || !fits(old, node)) {
      place.insertBefore(node, present);
      return;
    }
    if (old !== present) place.insertBefore(old, present);
    bringUpToDate(old, node);
  });
  while (place.childNodes.length > wanted.length) place.lastChild.remove();
}

const keyOf = (node) => node.dataset?.key;
const fits = (old, node) => old.nodeName === node.nodeName && keyOf(old) === keyOf(node);

function bringUpToDate(old, node) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!node.hasAttribute(name) && !isTheUsers(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (name === "style") old.style.cssText = node.style.cssText; // setAttribute would break the page's policy
    else if (!isTheUsers(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  HANDLERS.forEach((name) => (old[name] = node[name]));
  show(old, ...node.childNodes);
}

/** What was folded out or in by hand stays so. */
const isTheUsers = (element, name) => element.nodeName === "DETAILS" && name === "open";

/** A path or an id that can be selected with one click, with a button that copies it. */
export function copyable(text, what) {
  const copy = async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(text);
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  };
  // Without TLS browsers lend the clipboard to pages of this machine only.
  const button = navigator.clipboard && h("button", { class: "copy", onclick: copy, "aria-label": `Copy ${what}` });
  return h("span", { class: "copyable" }, h("code", null, text), button);
}

/** A table; the first cell of each row is its heading. */
export function table(caption, headings, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: "unseen" }, caption),
      h("thead", null, h("tr", null, headings.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
      h(
        "tbody",
        null,
        rows.map(({ key, cells }) =>
          h(
            "tr",
            { key },
            cells.map((cell, index) =>
              h(index ? "td" : "th", { scope: index ? null : "row", class: headings[index][1] }, cell),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Names with their values. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, value, title]) => h("div", { title }, h("dt", null, name), h("dd", null, value))),
  );
}
