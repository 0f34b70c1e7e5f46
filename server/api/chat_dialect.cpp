#include "server/api/chat_dialect.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/constraint/automaton/automaton.h"
#include "engine/constraint/schema/json_schema.h"
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

/// The control tokens with these texts.
std::vector<int32_t> tokens_of(const std::vector<std::string>& texts, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (const std::string& text : texts) {
    const std::vector<int32_t> spelled = tokenizer.encode(text, false, true);
    if (spelled.size() == 1 && tokenizer.is_control(spelled.front())) tokens.push_back(spelled.front());
  }
  std::ranges::sort(tokens);
  return tokens;
}

/// The texts of all tags in this model's calls and thinking.
std::vector<std::string> tags_of(const ToolSyntax& syntax, const ThinkingSyntax& thinking) {
  ToolGrammarRequest request;
  request.tools = {
      {.name = "f", .arguments = [](Grammar& grammar) { return grammar.empty(); }, .parameters = {}}};
  return build_tool_grammar(syntax, thinking, request).control_texts;
}

Json schema_of(const Json& tool) {
  const Json& function = tool["function"];
  const auto found = function.find("parameters");
  if (found != function.end() && found->is_object() && !found->empty()) return *found;
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
}

bool is_strict(const Json& tool) {
  const auto strict = tool["function"].find("strict");
  return strict != tool["function"].end() && *strict == true;
}

/// An expression for a value that conforms to the schema.
ValueExpr value_expr(const Json& schema) {
  return [text = json_text(schema)](Grammar& grammar) { return json_schema_expression(grammar, text); };
}

/// Whether a schema has no constraints. Models then write text.
bool says_nothing(const Json& schema) {
  static const std::set<std::string_view> kNotes{"title", "description", "default", "examples"};
  if (!schema.is_object()) return true;
  for (auto keyword = schema.begin(); keyword != schema.end(); ++keyword)
    if (!kNotes.contains(keyword.key())) return false;
  return true;
}

/// Any value of the schema's type, for schemas that cannot be enforced; null for text.
ValueExpr loose_value(const Json& schema) {
  static const std::set<std::string_view> kTypes{"null", "boolean", "integer", "number", "array", "object"};
  const Json type = schema.value("type", Json());
  if (type == "string") return {};
  const bool is_known = type.is_string() && kTypes.contains(type.get_ref<const std::string&>());
  return value_expr(is_known ? Json{{"type", type}} : Json(true));
}

/// REQUIRES: if not loose, the schema can be enforced.
std::vector<GrammarParameter> parameters_of(const Json& schema, bool loose) {
  std::vector<GrammarParameter> parameters;
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return parameters;
  const Json listed = schema.value("required", Json::array());
  const std::set<Json> required(listed.begin(), listed.end());
  const auto values = loose ? nullptr : std::make_shared<JsonProperties>(json_text(schema));
  for (const auto& [name, property] : properties->items()) {
    GrammarParameter parameter{.name = name, .required = required.contains(name), .value = {}};
    if (!says_nothing(property) && loose) parameter.value = loose_value(property);
    if (!says_nothing(property) && !loose) {
      parameter.value = [values, key = name](Grammar& grammar) { return values->value(grammar, key); };
      if (property.value("type", Json()) == "string")
        parameter.text = [values, key = name](Grammar& grammar) { return values->text(grammar, key); };
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

/// Whether the schema can be enforced. Throws RequestError if it cannot and the tool is strict.
bool is_enforceable(const Json& tool, const Json& schema, size_t index) {
  try {
    Grammar grammar;
    json_schema_expression(grammar, json_text(schema));
    return true;
  } catch (const ConstraintError& error) {
    if (is_strict(tool)) refuse_constraint("tools[" + std::to_string(index) + "].function.parameters", error);
    return false;
  }
}

std::vector<GrammarTool> grammar_tools(const Json& tools, bool all_loose) {
  std::vector<GrammarTool> out;
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json schema = schema_of(tools[i]);
    const bool loose = (all_loose && !is_strict(tools[i])) || !is_enforceable(tools[i], schema, i);
    out.push_back({.name = tools[i]["function"]["name"].get<std::string>(),
                   .arguments = value_expr(loose ? Json{{"type", "object"}} : schema),
                   .parameters = parameters_of(schema, loose)});
  }
  return out;
}

/// Refuses a format that cannot be enforced on its own.
void check_format(const AnswerFormat& format) {
  try {
    Automaton(format_grammar(format), 0);
  } catch (const ConstraintError& error) {
    refuse_constraint(format.param, error);
  }
}

/// Removes what the template writes after the last message, so that the model continues that message.
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
        "The answer cannot go on with the last of 'messages': the model's chat template changes its text.");
  }
  // Keep trailing white space as far as the template kept it.
  size_t end = at + trimmed.size();
  for (size_t i = last + 1; i < text.size() && end < rendered.size() && rendered[end] == text[i]; ++i) ++end;
  rendered.resize(end);
  return rendered;
}

}  // namespace

ChatDialect::ChatDialect(const ChatTemplate* chat_template, const Tokenizer& tokenizer)
    : template_(chat_template), syntax_(plain_tool_syntax()) {
  if (chat_template == nullptr) return;
  syntax_ = derive_tool_syntax(*chat_template, end_texts(tokenizer));
  thinking_ = derive_thinking_syntax(*chat_template);
  control_tokens_ = tokens_of(tags_of(syntax_, thinking_), tokenizer);
}

std::string ChatDialect::render(const ChatRequest& request) const {
  if (template_ == nullptr) refuse_param("messages", "This model has no chat template; use /v1/completions.");
  try {
    const bool in_text = syntax_.source == ToolSyntax::Source::kServer;
    const Json messages =
        in_text ? with_tools_in_text(request.messages, request.choice.tools, syntax_) : request.messages;
    const Json tools = in_text ? Json(nullptr) : request.choice.tools;
    std::string rendered =
        template_->render(messages, tools, request.add_generation_prompt, request.template_arguments);
    return request.continue_last ? cut_behind_last_message(std::move(rendered), messages) : rendered;
  } catch (const TemplateError& error) {
    refuse_param("messages", error.what(), "chat_template_error");
  }
}

bool ChatDialect::thinks() const { return thinking_.exists() || syntax_.form == ToolSyntax::Form::kHarmony; }

bool ChatDialect::has_parts(const ChatRequest& request) const {
  return thinks() || request.choice.mode != ToolMode::kNone;
}

ThinkingMode ChatDialect::thinking_mode(std::string_view rendered) const {
  if (syntax_.form == ToolSyntax::Form::kHarmony) return ThinkingMode::kMayBegin;
  if (!thinking_.exists()) return ThinkingMode::kNone;
  return prompt_opens_thinking(thinking_, rendered) ? ThinkingMode::kBegun : ThinkingMode::kMayBegin;
}

std::shared_ptr<const Constraint> ChatDialect::constraint(const ChatRequest& request,
                                                          std::string_view rendered,
                                                          const ConstraintCompiler& compiler) const {
  const AnswerFormat& format = request.generation.format;
  const bool formatted = format.kind != AnswerFormat::Kind::kText;
  if (!has_parts(request)) return compiler.compile(format);
  if (!formatted && request.choice.mode == ToolMode::kNone) return nullptr;
  ToolGrammarRequest asked{.mode = request.choice.mode,
                           .tools = {},
                           .allowed = request.choice.allowed,
                           .parallel = request.choice.parallel,
                           .thinking = thinking_mode(rendered),
                           .text = {},
                           .text_is_regular = format.kind == AnswerFormat::Kind::kRegex ||
                                              format.kind == AnswerFormat::Kind::kChoice};
  if (formatted) asked.text = [&format](Grammar& grammar) { return format_expression(grammar, format); };
  const std::string key = std::to_string(static_cast<int>(asked.mode)) +
                          std::to_string(static_cast<int>(asked.thinking)) + (asked.parallel ? "p" : "s") +
                          json_text(request.choice.allowed) + format_key(format) +
                          json_text(request.choice.tools);
  const auto compile = [&](bool loose) {
    return compiler.compile_chat(key, [&] {
      asked.tools =
          grammar_tools(request.choice.tools.is_null() ? Json::array() : request.choice.tools, loose);
      return build_tool_grammar(syntax_, thinking_, asked).grammar;
    });
  };
  try {
    return compile(false);
  } catch (const ConstraintError& error) {
    const Json& tools = request.choice.tools;
    if (formatted && request.choice.mode == ToolMode::kNone) refuse_constraint(format.param, error);
    if (formatted) check_format(format);
    if (std::ranges::any_of(tools, is_strict)) refuse_constraint("tools", error);
  }
  try {
    return compile(true);  // each schema can be enforced, but all together are too much
  } catch (const ConstraintError& error) {
    refuse_constraint("tools", error);
  }
}

ToolParserOptions ChatDialect::reading(const ChatRequest& request, std::string_view rendered,
                                       uint64_t seed) const {
  const bool short_id = template_ != nullptr && template_->wants_short_ids();
  return {.syntax = syntax_,
          .thinking = thinking_,
          .in_thinking = thinking_mode(rendered) == ThinkingMode::kBegun,
          .find_calls = request.choice.mode != ToolMode::kNone,
          .only_at_start = request.generation.format.kind != AnswerFormat::Kind::kText,
          .tools = request.choice.tools,
          .make_id = [seed, short_id](int index) { return make_call_id(seed, index, short_id); }};
}

}  // namespace hearth
