// Creates elements. All text from models and from the server is inserted here as text nodes, so it is never
// parsed as HTML.

const kProperties = new Set(["className", "textContent", "value", "checked", "disabled", "hidden", "tabIndex", "htmlFor", "rows", "open", "type", "href", "rel"]);

/** Creates an element. Properties that begin with "on" are listeners. Properties that are undefined, null or
 *  false are omitted. */
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

/** Returns the element with this id in index.html. */
export function byId(id) {
  return document.getElementById(id);
}

export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Creates an icon of index.html's sprite. */
export function icon(name) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("class", "icon");
  made.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  made.append(use);
  return made;
}

/** Creates a button that is an icon. label: its name, which also appears when the pointer rests on it. */
export function iconButton(name, label, onclick, properties = {}) {
  return element("button", {type: "button", onclick, className: "quiet round", "aria-label": label, title: label, ...properties}, icon(name));
}

/** Creates a button. text: its label. */
export function button(text, onclick, properties = {}) {
  return element("button", {type: "button", onclick, ...properties}, text);
}

/** Opens a dialog. Resolves to true if its form is submitted, or to false if the dialog is canceled. */
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
