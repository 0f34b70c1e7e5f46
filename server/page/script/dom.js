// Makes elements. Texts of models and of the server reach the page only through here, as text nodes: nothing parses HTML.

const kProperties = new Set(["className", "textContent", "value", "checked", "disabled", "hidden", "tabIndex", "htmlFor", "rows", "open"]);

/** A new element. Properties that begin with "on" are listeners; undefined, null and false are left out. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (kProperties.has(name)) made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The page's own element of that id. */
export function byId(id) {
  return document.getElementById(id);
}

/** A button that says what it does. */
export function button(text, onclick, properties = {}) {
  return element("button", {type: "button", onclick, ...properties}, text);
}

/** Opens a dialog. Resolves to true when its form is submitted, to false when it is left. */
export function askInDialog(name) {
  const dialog = byId(`${name}-dialog`), form = byId(`${name}-form`), cancel = byId(`${name}-cancel`);
  return new Promise((resolve) => {
    let answer = false;
    const submit = (event) => {
      event.preventDefault();
      answer = true;
      dialog.close();
    };
    const leave = () => dialog.close();
    form.addEventListener("submit", submit);
    cancel.addEventListener("click", leave);
    dialog.addEventListener("close", () => {
      form.removeEventListener("submit", submit);
      cancel.removeEventListener("click", leave);
      resolve(answer);
    }, {once: true});
    dialog.showModal();
  });
}
