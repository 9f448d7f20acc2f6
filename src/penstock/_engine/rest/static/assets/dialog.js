/** The one dialog of the page: a question with what follows from it, perhaps with a field to fill in. */

import { h, show } from "./dom.js";

const dialog = document.getElementById("dialog");

/**
 * @param question `{title, text: […], field: {label, value, type} or null, confirm, isDangerous, mustAnswer}`
 * @returns `{value}`, or null when it was dismissed
 */
export function ask({ title, text, field, confirm, isDangerous, mustAnswer }) {
  return new Promise((resolve) => {
    const finish = (answer) => {
      dialog.onclose = null;
      dialog.close();
      resolve(answer);
    };
    const input = field && h("input", { type: field.type ?? "text", value: field.value, placeholder: field.placeholder, required: true, autocomplete: "off", spellcheck: "false" });
    const submit = (event) => {
      event.preventDefault();
      finish({ value: input?.value.trim() });
    };
    show(dialog);
    show(
      dialog,
      h(
        "form",
        { method: "dialog", onsubmit: submit },
        h("h2", { id: "dialog-title" }, title),
        text.map((sentence) => h("p", null, sentence)),
        field && h("label", { class: "field" }, field.label, input),
        h(
          "div",
          { class: "actions" },
          !mustAnswer && h("button", { type: "button", autofocus: !field?.type, onclick: () => finish(null) }, "Leave it as it is"),
          h("button", { type: "submit", class: isDangerous ? "danger" : "main" }, confirm),
        ),
      ),
    );
    dialog.oncancel = mustAnswer ? (event) => event.preventDefault() : null;
    dialog.onclose = () => finish(null);
    dialog.showModal();
  });
}

/** Asks for the token of the server. */
export async function askForToken(wasWrong) {
  const answer = await ask({
    title: "This server wants a token",
    text: [
      wasWrong ? "That was not the right one." : "It is what penstock.rest.token says in the configuration of the job, or its read-only one.",
      "Where none is set, the command penstock dashboard prints a link that needs none. The token is kept until this tab is closed.",
    ],
    field: { label: "Token", type: "password" },
    confirm: "Use this token",
    mustAnswer: true,
  });
  return answer ? answer.value : askForToken(wasWrong);
}
