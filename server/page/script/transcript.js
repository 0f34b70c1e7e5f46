// Shows the messages of the open conversation. While an answer grows, the view stays at its end, unless the
// user has scrolled up.

import { copyText } from "./clipboard.js";
import { byId, button, element, iconButton } from "./dom.js";
import { MessageView } from "./message_view.js";
import { chosenModel, suggestedModel } from "./models.js";
import { pathOf, versionsOf } from "./tree.js";

const kNearEnd = 80;  // pixels; a view that is nearer to the end counts as at the end
const kExamples = ["Explain to a child why the sky is blue", "Write a haiku about a fireplace",
  "Write a Python function that counts the words of a text", "List five questions to ask before buying a used bicycle"];

/** Tells users of a demonstration model how to serve a better one. Returns null for other models. */
function suggestion() {
  const name = suggestedModel(), command = `hearthd ${name}`;
  if (name === "") return null;
  const copy = iconButton("copy", "Copy the command", () => copyText(command, copy));
  return element("div", {className: "suggestion"},
    element("p", {}, "This model is a small demonstration. To serve a better one that fits this machine, stop the server and run"),
    element("p", {className: "command"}, element("code", {}, command), copy),
    element("p", {}, "or, in a clone, ", element("code", {}, `server/run.sh ${name}`), ". The command fetches the model."));
}

export class Transcript {
  /** actions: those of MessageView, and example(text). */
  constructor(actions) {
    this.root = byId("transcript");
    this.actions = actions;
    this.views = [];
    this.sticks = true;  // the view stays at the end
    this.inner = element("div");
    this.root.replaceChildren(this.inner);
    // Formulas and colors come later than the text, so the height changes at any time.
    new ResizeObserver(() => this.stay()).observe(this.inner);
    byId("to-end").addEventListener("click", () => this.toEnd());
    this.root.addEventListener("scroll", () => {
      this.sticks = this.isAtEnd();
      this.showJump();
    });
  }

  /** Shows a conversation. growing: the message whose answer is being generated, or null. */
  show(conversation, growing) {
    const path = pathOf(conversation), last = path.at(-1);
    this.views = path.map((message) => new MessageView(message, {
      actions: this.actions, versions: versionsOf(conversation, message), isLast: message === last, grows: message === growing}));
    this.inner.replaceChildren(...(this.views.length > 0 ? this.views.map((view) => view.root) : [this.empty()]));
    this.toEnd();
  }

  empty() {
    return element("div", {className: "empty"}, element("h2", {}, chosenModel() || "Hearth"),
      element("p", {}, "The model runs on this server. Your messages are sent nowhere else."),
      element("div", {className: "examples"}, ...kExamples.map((text) => button(text, () => this.actions.example(text)))), suggestion());
  }

  /** Shows the current state of a message if its conversation is open. */
  update(message, done) {
    this.views.find((view) => view.message === message)?.show(done, true);
  }

  /** Opens the field for changing the last message of the user. Returns whether there is one. */
  editLast() {
    const view = this.views.findLast((one) => one.message.role === "user");
    view?.edit();
    return view !== undefined;
  }

  isAtEnd() {
    return this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight < kNearEnd;
  }

  stay() {
    if (this.sticks) this.toEnd();
    this.showJump();
  }

  showJump() {
    byId("to-end").hidden = this.isAtEnd();
  }

  toEnd() {
    this.sticks = true;
    this.root.scrollTop = this.root.scrollHeight;
    this.showJump();
  }
}
