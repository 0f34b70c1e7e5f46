// Generates an answer: sends the conversation to the server, and adds the parts of the stream to the answer's
// message.

import { textOf } from "./attachments.js";
import { eventsOf } from "./event_stream.js";
import { ask, ServerError } from "./request.js";

/** Converts a message to an element of the request's `messages`. Returns null if the message is empty. */
function forRequest(message) {
  if (message.role === "user") return {role: "user", content: textOf(message)};
  if (message.role === "tool") return {role: "tool", tool_call_id: message.toolCallId, content: message.content};
  const calls = (message.toolCalls ?? []).map((call) => ({id: call.id, type: "function", function: {name: call.name, arguments: call.arguments}}));
  if (message.content === "" && calls.length === 0) return null;
  return {role: "assistant", content: message.content, ...(calls.length > 0 ? {tool_calls: calls} : {})};
}

function chatBody(messages, system, continues) {
  const known = messages.map(forRequest).filter((message) => message !== null);
  return {messages: [...(system ? [{role: "system", content: system}] : []), ...known],
          ...(continues ? {continue_final_message: true} : {})};
}

/** Returns the body for a model without a chat template, which continues the text of all messages. */
function textBody(messages, system) {
  return {prompt: system + messages.map(textOf).join("")};
}

function takeCalls(answer, calls) {
  answer.toolCalls ??= [];
  for (const part of calls) {
    const call = answer.toolCalls[part.index] ??= {id: "", name: "", arguments: ""};
    if (part.id) call.id = part.id;
    call.name += part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
  }
}

/** Returns how many tokens an answer has. The server counts them at its end; before that, parts of the stream
 *  are tokens, nearly. */
export function tokensOf({tokens, before, parts}) {
  return tokens ?? (before ?? 0) + (parts ?? 0);
}

function take(answer, before, event) {
  if (event.usage) answer.stats.tokens = before + event.usage.completion_tokens;
  const choice = event.choices?.[0];
  if (choice === undefined) return;
  const delta = choice.delta ?? {};
  const text = choice.text ?? delta.content ?? "";
  if (text || delta.reasoning_content || delta.tool_calls) {
    answer.stats.firstMs ??= performance.now() - answer.stats.begin;
    answer.stats.ms = performance.now() - answer.stats.begin;
    ++answer.stats.parts;
  }
  answer.content += text;
  if (delta.reasoning_content) answer.reasoning = (answer.reasoning ?? "") + delta.reasoning_content;
  if (delta.tool_calls) takeCalls(answer, delta.tool_calls);
  if (choice.finish_reason) answer.finish = choice.finish_reason;
}

/** Fills `answer` from the stream. continues: `answer` is the last one of `messages`, and is continued.
 *  changed: called after each event. Throws ServerError, or AbortError if `signal` aborts. */
export async function generate({messages, answer, continues, system, parameters, model, chats, signal, changed}) {
  const before = continues ? tokensOf(answer.stats ?? {}) : 0;
  answer.stats = {begin: performance.now(), before, parts: 0};
  const body = {model, stream: true, stream_options: {include_usage: true}, ...parameters,
                ...(chats ? chatBody(messages, system, continues) : textBody(messages, system))};
  if (!chats) {
    for (const name of ["tools", "enable_thinking", "reasoning_effort"]) delete body[name];
    body.max_tokens ??= -1;
  }
  const response = await ask(chats ? "v1/chat/completions" : "v1/completions", {method: "POST", body, signal});
  try {
    for await (const {data} of eventsOf(response)) {
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(event.error.message);
      take(answer, before, event);
      changed();
    }
  } catch (error) {
    if (error instanceof ServerError || error.name === "AbortError") throw error;
    throw new ServerError("The connection broke off before the answer was complete.");
  }
  if (signal.aborted) throw new DOMException("stopped", "AbortError");
  throw new ServerError("The connection ended before the answer was complete.");
}
