#include "server/api/chat_dialect.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/request/thinking_limit.h"
#include "server/api/request/thinking_switch.h"
#include "server/chat/tools/tool_description.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

std::vector<std::string> end_texts(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (const int32_t token : tokenizer.end_tokens())
    tokenizer.append_bytes(token, true, texts.emplace_back());
  return texts;
}

/// Returns the control tokens that have these texts.
std::vector<int32_t> tokens_of(const std::vector<std::string>& texts, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (const std::string& text : texts) {
    const std::vector<int32_t> spelled = tokenizer.encode(text, false, true);
    if (spelled.size() == 1 && tokenizer.is_control(spelled.front())) tokens.push_back(spelled.front());
  }
  std::ranges::sort(tokens);
  return tokens;
}

/// Removes the text that the template writes after the last message, so that the answer continues this
/// message.
std::string cut_behind_last_message(std::string rendered, const Json& messages) {
  const Json& content = messages.back()["content"];
  const std::string text = content.is_string() ? content.get<std::string>() : std::string();
  const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  if (first == std::string::npos) return rendered;
  const std::string_view trimmed = std::string_view(text).substr(first, last + 1 - first);
  const size_t at = rendered.rfind(trimmed);
  if (at == std::string::npos) {
    refuse_param(
        "messages",
        "The answer cannot continue the last of 'messages': the model's chat template changes its text.");
  }
  // The template may have kept only a part of the white space at the end of the message.
  size_t end = at + trimmed.size();
  for (size_t i = last + 1; i < text.size() && end < rendered.size() && rendered[end] == text[i]; ++i) ++end;
  rendered.resize(end);
  return rendered;
}

/// Whether the text is a JSON object, or empty, which stands for an object without members.
bool is_object_text(const std::string& text) {
  return text.empty() || Json::parse(text, nullptr, false).is_object();
}

/// Throws RequestError if a past call has arguments that the template cannot show. Agents send back arguments
/// that a length limit has cut off.
void check_arguments(const Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto calls = messages[i].find("tool_calls");
    if (calls == messages[i].end()) continue;
    for (size_t k = 0; k < calls->size(); ++k) {
      const Json& function = (*calls)[k]["function"];
      const auto arguments = function.find("arguments");
      if (arguments == function.end() || !arguments->is_string() ||
          is_object_text(arguments->get_ref<const std::string&>())) {
        continue;
      }
      const std::string param =
          "messages[" + std::to_string(i) + "].tool_calls[" + std::to_string(k) + "].function.arguments";
      refuse_param(param,
                   "The call of " + describe(function["name"]) + " in '" + param +
                       "' has arguments that are no JSON object: " + describe(*arguments) +
                       ". The model's chat template cannot show them; complete them, or leave the call "
                       "and its result out.");
    }
  }
}

/// Throws TemplateError.
std::string write_prompt(const ChatTemplate& chat_template, const ChatForm& form,
                         const ChatRequest& request) {
  Json arguments = request.template_arguments;
  if (form.thinking_budget == 0) {
    for (const char* name : {"enable_thinking", "thinking"}) arguments.erase(name);
    set_thinking(arguments, false);
  }
  // Seed-OSS tells the model its limit.
  if (form.thinking_budget && !arguments.contains("thinking_budget"))
    arguments["thinking_budget"] = *form.thinking_budget;
  const ToolSyntax& calls = form.syntax.calls;
  const bool in_text = calls.source == ToolSyntax::Source::kServer;
  const Json messages = in_text               ? with_tools_in_text(request.messages, form.choice.tools, calls)
                        : calls.calls_in_text ? with_calls_in_text(request.messages, calls)
                                              : request.messages;
  const Json tools = in_text ? Json(nullptr) : form.choice.tools;
  std::string rendered = chat_template.render(messages, tools, request.add_generation_prompt, arguments);
  return request.continue_last ? cut_behind_last_message(std::move(rendered), messages) : rendered;
}

}  // namespace

ChatDialect::ChatDialect(const ChatTemplate* chat_template, const Tokenizer& tokenizer, int reasoning_budget)
    : template_(chat_template), reasoning_budget_(reasoning_budget) {
  if (chat_template == nullptr) return;
  syntax_ = derive_chat_syntax(*chat_template, end_texts(tokenizer));
  syntax_.control_tokens = tokens_of(syntax_.tags(), tokenizer);
}

/// Returns the limit on thinking that the request sets, or else the limit that its effort stands for, or else
/// the server's. If the template has efforts, it passes the effort to the model, so the effort sets no limit.
std::optional<int> ChatDialect::thinking_budget(const ChatRequest& request) const {
  if (request.thinking_budget) return *request.thinking_budget < 0 ? std::nullopt : request.thinking_budget;
  const Json& arguments = request.template_arguments;
  const auto effort = arguments.find("reasoning_effort");
  if (effort != arguments.end() && effort->is_string()) {
    const bool is_told = template_->source().find("reasoning_effort") != std::string::npos;
    if (is_told && *effort != "none") return std::nullopt;
    return thinking_tokens_of(effort->get_ref<const std::string&>());
  }
  if (reasoning_budget_ < 0) return std::nullopt;
  const bool asked =
      arguments.value("enable_thinking", Json()) == true || arguments.value("thinking", Json()) == true;
  if (asked && reasoning_budget_ == 0) return std::nullopt;  // the request turns on what the server turns off
  return reasoning_budget_;
}

RenderedChat ChatDialect::render(const ChatRequest& request) const {
  if (template_ == nullptr) refuse_param("messages", "This model has no chat template; use /v1/completions.");
  RenderedChat chat{
      .prompt = {},
      .form = {.syntax = syntax_, .choice = request.choice, .format = request.generation.format}};
  chat.form.thinking_budget = thinking_budget(request);
  if (!template_->takes_any_arguments() && !syntax_.calls.calls_in_text) check_arguments(request.messages);
  try {
    chat.prompt = write_prompt(*template_, chat.form, request);
  } catch (const TemplateError& error) {
    refuse_param("messages", error.what(), "chat_template_error");
  }
  chat.form.thinking = syntax_.thinking_after(chat.prompt);
  return chat;
}

}  // namespace hearth
