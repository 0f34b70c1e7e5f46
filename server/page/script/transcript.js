// Shows the messages of the open conversation. While an answer grows, the view stays at its end, unless the
// user has scrolled up.

import { byId, element } from "./dom.js";
import { MessageView } from "./message_view.js";

const kNearEnd = 80;  // pixels; a view that is nearer to the end counts as at the end

export class Transcript {
  /** actions: retry(index), edit(index, text). */
  constructor(actions) {
    this.root = byId("transcript");
    this.actions = actions;
    this.views = [];
  }

  /** Shows a conversation. growing: the message whose answer is being generated, or null. */
  show(conversation, growing) {
    this.views = conversation.messages.map((message, i) => new MessageView(message,
      {retry: () => this.actions.retry(i), edit: (text) => this.actions.edit(i, text)}));
    for (const view of this.views) if (view.message === growing) view.show(false);
    const empty = element("div", {className: "empty"}, element("h2", {}, "Nothing said yet"),
      element("p", {}, "Write a message below. The model runs on the machine that served this page; what you write goes nowhere else."));
    this.root.replaceChildren(...(this.views.length > 0 ? this.views.map((view) => view.root) : [empty]));
    this.toEnd();
  }

  /** Shows the current state of a message if its conversation is open. */
  update(message, done) {
    const atEnd = this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight < kNearEnd;
    this.views.find((view) => view.message === message)?.show(done, true);
    if (atEnd) this.toEnd();
  }

  toEnd() {
    this.root.scrollTop = this.root.scrollHeight;
  }
}
