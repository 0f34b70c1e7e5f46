// Shows one message: its text, files, thinking, tool calls, errors and buttons.

import { announce } from "./announcer.js";
import { fileNodes } from "./attachments.js";
import { copyText } from "./clipboard.js";
import { codeFigure, paintCode } from "./code_view.js";
import { button, element, iconButton } from "./dom.js";
import { tokensOf } from "./generation.js";
import { MarkdownView } from "./markdown_view.js";
import { callNode, resultForm } from "./tool_view.js";

const kShortestMs = 20;  // a shorter time says nothing about the speed
const kNames = {user: "You", assistant: "Answer", tool: "Result"};

function statsText(message) {
  const {tokens, before, ms, firstMs} = message.stats ?? {};
  const words = [], n_tokens = tokensOf(message.stats ?? {}), n_new = n_tokens - (before ?? 0);
  if (n_tokens > 0) words.push(`${tokens === undefined ? "about " : ""}${n_tokens} ${n_tokens === 1 ? "token" : "tokens"}`);
  if (n_new > 1 && ms - firstMs > kShortestMs) words.push(`${((n_new - 1) / (ms - firstMs) * 1000).toFixed(1)} tokens/s`);
  if (firstMs !== undefined) words.push(`first after ${(firstMs / 1000).toFixed(2)} s`);
  if (message.finish === "length") words.push("cut at the length limit");
  if (message.stopped) words.push("stopped");
  if (message.grows) words.push("interrupted");
  return words.join(" · ");
}

export class MessageView {
  /** place: {actions, versions, isLast, grows}. actions: retry(message), edit(message, text),
   *  goOn(message), choose(message), results(message, texts). versions: the message and its alternatives. */
  constructor(message, place) {
    this.message = message;
    this.place = place;
    this.body = element("div", {className: "body"});
    this.thinking = element("details", {className: "thinking", hidden: true}, element("summary", {}, "Thinking"), element("div", {className: "body"}));
    this.extra = element("div", {className: "extra"});
    this.fault = element("p", {className: "fault", role: "alert", hidden: true});
    this.stats = element("span", {className: "note"});
    this.foot = element("div", {className: "foot"});
    const name = message.role === "assistant" ? message.model ?? "Answer" : message.role === "tool" ? `Result of ${message.name}` : null;
    this.root = element("article", {className: `message ${message.role}`, "aria-label": kNames[message.role]},
      name === null ? null : element("span", {className: "who", "aria-hidden": "true"}, name),
      this.thinking, this.body, this.extra, this.fault, this.foot);
    this.markdown = new MarkdownView(this.body);
    this.thoughts = new MarkdownView(this.thinking.lastChild);
    this.show(!place.grows);
  }

  /** Shows the message's current state. done: the message is complete. speaks: announces paragraphs that have
   *  become complete. */
  show(done, speaks = false) {
    const message = this.message;
    this.root.classList.toggle("growing", !done);
    if (message.role === "assistant") {
      for (const words of this.markdown.show(message.content, done)) if (speaks && words.trim()) announce(words);
      this.thinking.hidden = !message.reasoning;
      if (message.reasoning) this.thoughts.show(message.reasoning, done);
      this.thinking.firstChild.textContent = message.reasoning && message.content === "" && !done ? "Thinking…" : "Thinking";
      this.showCalls(done);
    } else if (message.role === "tool") {
      this.body.replaceChildren(codeFigure(`${message.content}\n`, "json"));
    } else {
      this.body.textContent = message.content;
      this.body.hidden = message.content === "";
      this.extra.replaceChildren(...fileNodes(message.attachments));
    }
    paintCode(this.root);
    this.fault.hidden = !message.error;
    this.fault.textContent = message.error ?? "";
    this.stats.textContent = done ? statsText(message) : "";
    if (done) this.showFoot();
    else this.foot.replaceChildren();
  }

  showCalls(done) {
    const {message, place} = this, calls = message.toolCalls ?? [];
    this.extra.replaceChildren(...calls.map(callNode));
    if (done && place.isLast && calls.length > 0) this.extra.append(resultForm(calls, (texts) => place.actions.results(message, texts)));
  }

  /** Creates the buttons that switch between alternatives, or returns null if there is only one. */
  versions() {
    const {versions, actions} = this.place, at = versions.indexOf(this.message);
    if (versions.length < 2) return null;
    return element("span", {className: "versions"},
      iconButton("left", "Earlier version", () => actions.choose(versions[at - 1]), {disabled: at === 0}),
      element("span", {className: "note", "aria-label": `Version ${at + 1} of ${versions.length}`, role: "img"}, `${at + 1}/${versions.length}`),
      iconButton("right", "Later version", () => actions.choose(versions[at + 1]), {disabled: at + 1 === versions.length}));
  }

  showFoot() {
    const {message, place: {actions, isLast}} = this, isAnswer = message.role === "assistant";
    const copy = iconButton("copy", "Copy the message", () => copyText(message.content, copy));
    const isCut = message.finish === "length" || message.stopped || message.error || message.grows;
    const goesOn = isAnswer && isLast && isCut && message.content !== "" && !message.toolCalls;
    this.foot.replaceChildren(...[
      goesOn ? button("Continue", () => actions.goOn(message)) : null,
      message.content === "" ? null : copy,
      message.role === "user" ? iconButton("edit", "Edit", () => this.edit()) : null,
      isAnswer ? iconButton("retry", "Retry", () => actions.retry(message)) : null,
      this.versions(), this.stats,
    ].filter((node) => node !== null));
  }

  /** Replaces the message by a text field until the user saves or cancels. */
  edit() {
    const field = element("textarea", {value: this.message.content, rows: Math.min(12, this.message.content.split("\n").length + 1), "aria-label": "Edit the message"});
    const leave = () => {
      this.show(true);
      this.foot.querySelector("[aria-label=Edit]")?.focus();
    };
    const save = () => {
      if (field.value.trim() === "" || field.value === this.message.content) return leave();
      return this.place.actions.edit(this.message, field.value);
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leave();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        save();
      }
    });
    this.body.hidden = false;
    this.body.replaceChildren(field);
    this.foot.replaceChildren(button("Save and send", save, {className: "primary"}), button("Cancel", leave));
    field.focus();
  }
}
