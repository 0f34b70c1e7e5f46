// Shows one message: its text, thinking, tool calls, errors and buttons.

import { announce } from "./announcer.js";
import { copyText } from "./clipboard.js";
import { button, element } from "./dom.js";
import { codeFigure } from "./code_view.js";
import { MarkdownView } from "./markdown_view.js";

function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;  // the JSON is incomplete
  }
}

function statsText(message) {
  const {tokens, ms, firstMs} = message.stats ?? {};
  const words = [];
  if (tokens !== undefined) words.push(`${tokens} ${tokens === 1 ? "token" : "tokens"}`);
  if (tokens > 1 && ms > firstMs) words.push(`${((tokens - 1) / (ms - firstMs) * 1000).toFixed(1)} tokens/s`);
  if (firstMs !== undefined) words.push(`first after ${(firstMs / 1000).toFixed(2)} s`);
  if (message.finish === "length") words.push("cut at the length limit");
  if (message.stopped) words.push("stopped");
  return words.join(" · ");
}

export class MessageView {
  /** actions: retry() and edit(text), or null if the message cannot be changed. */
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.body = element("div", {className: "body"});
    this.thinking = element("details", {className: "thinking", hidden: true}, element("summary", {}, "Thinking"), element("div", {className: "body"}));
    this.calls = element("div", {className: "calls"});
    this.fault = element("p", {className: "fault", role: "alert", hidden: true});
    this.stats = element("span", {className: "note"});
    this.foot = element("div", {className: "foot"});
    this.root = element("article", {className: `message ${message.role}`, "aria-label": message.role === "user" ? "You" : "Answer"},
      element("span", {className: "who", "aria-hidden": "true"}, message.role === "user" ? "You" : message.model ?? "Answer"),
      this.thinking, this.body, this.calls, this.fault, this.foot);
    this.markdown = new MarkdownView(this.body);
    this.thoughts = new MarkdownView(this.thinking.lastChild);
    this.show(true);
  }

  /** Shows the message's current state. done: the message is complete. speaks: announces paragraphs that have
   *  become complete. */
  show(done, speaks = false) {
    const message = this.message;
    this.root.classList.toggle("growing", !done);
    if (message.role === "user") {
      this.body.textContent = message.content;
    } else {
      for (const words of this.markdown.show(message.content, done)) if (speaks && words.trim()) announce(words);
      this.thinking.hidden = !message.reasoning;
      if (message.reasoning) this.thoughts.show(message.reasoning, done);
      this.thinking.firstChild.textContent = message.reasoning && message.content === "" && !done ? "Thinking…" : "Thinking";
      this.showCalls();
    }
    this.fault.hidden = !message.error;
    this.fault.textContent = message.error ?? "";
    this.stats.textContent = statsText(message);
    if (done) this.showFoot();
    else this.foot.replaceChildren();
  }

  showCalls() {
    this.calls.replaceChildren(...(this.message.toolCalls ?? []).map((call) =>
      element("section", {className: "call", "aria-label": `Call of ${call.name}`},
        element("h3", {}, "Call of ", element("code", {}, call.name)), codeFigure(prettyJson(call.arguments), "arguments"))));
  }

  showFoot() {
    const {message, actions} = this;
    const copy = button("Copy", () => copyText(message.content, copy), {className: "quiet", "aria-label": "Copy the message"});
    this.foot.replaceChildren(...[
      this.stats,
      message.content === "" ? null : copy,
      message.role === "user" && actions ? button("Edit", () => this.edit(), {className: "quiet"}) : null,
      message.role === "assistant" && actions ? button("Retry", () => actions.retry(), {className: "quiet"}) : null,
    ].filter((node) => node !== null));
  }

  /** Replaces the message by a text field until the user saves or cancels. */
  edit() {
    const field = element("textarea", {value: this.message.content, rows: Math.min(12, this.message.content.split("\n").length + 1), "aria-label": "Edit the message"});
    const leave = () => {
      this.show(true);
      this.foot.querySelector("button:last-child")?.focus();
    };
    const save = () => {
      if (field.value.trim() === "") return leave();
      return this.actions.edit(field.value);
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leave();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        save();
      }
    });
    this.body.replaceChildren(field);
    this.foot.replaceChildren(button("Save and send", save, {className: "primary"}), button("Cancel", leave));
    field.focus();
  }
}
