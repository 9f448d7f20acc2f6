/** Shows the document of the API, which lies beside it. */

const make = (tag, text, parent) => {
  const element = document.createElement(tag);
  element.textContent = text;
  parent.append(element);
  return element;
};
fetch("openapi.json").then((answer) => answer.json()).then((api) => {
  document.getElementById("about").textContent = api.info.description;
  const main = document.getElementById("operations"), sections = {};
  const resolved = (schema) => schema && schema.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema;
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0];
      if (!sections[tag]) { make("h2", tag, main); sections[tag] = make("section", "", main); }
      const details = make("details", "", sections[tag]), summary = make("summary", "", details);
      make("b", method.toUpperCase(), summary);
      make("code", path, summary);
      make("span", " — " + operation.summary, summary);
      for (const parameter of operation.parameters) {
        const about = parameter.description || "";
        make("p", `${parameter.in} ${parameter.name}: ${JSON.stringify(parameter.schema)} ${about}`, details);
      }
      if (operation.requestBody) {
        const {schema} = operation.requestBody.content["application/json"];
        make("p", "Body", details);
        make("pre", JSON.stringify(resolved(schema), null, 1), details);
      }
      for (const [code, response] of Object.entries(operation.responses)) {
        make("p", `${code}: ${response.description}`, details);
        const [content] = Object.values(response.content);
        if (code < 300) make("pre", JSON.stringify(resolved(content.schema), null, 1), details);
      }
    }
  }
}).catch((error) => {
  document.getElementById("about").textContent = `The document of the API cannot be read: ${error.message}.`;
});
