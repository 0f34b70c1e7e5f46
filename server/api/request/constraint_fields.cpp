// Reads the parameters that can set a format, and checks that at most one does.
#include "server/api/request/constraint_fields.h"

#include <optional>
#include <utility>

#include "server/json/api_error.h"

namespace hearth {
namespace {

using Kind = AnswerFormat::Kind;

constexpr size_t kMaxChoices = 10'000;

/// Reads a schema, which is an object, true or false, or JSON text of one of these.
std::optional<AnswerFormat> read_schema(const RequestFields& fields, const char* name) {
  const Json* schema = fields.find(name);
  if (schema == nullptr) return std::nullopt;
  std::string param = fields.param(name);
  if (schema->is_string())
    return AnswerFormat{Kind::kJsonSchema, schema->get<std::string>(), {}, std::move(param)};
  if (!schema->is_object() && !schema->is_boolean()) {
    refuse_param(param, "'" + param + "' must be a JSON schema (an object, or its text), found " +
                            describe(*schema) + ".");
  }
  return AnswerFormat{Kind::kJsonSchema, json_text(*schema), {}, std::move(param)};
}

std::optional<AnswerFormat> read_text(const RequestFields& fields, const char* name, Kind kind) {
  std::optional<std::string> text = fields.string(name);
  if (!text || text->empty()) return std::nullopt;
  return AnswerFormat{kind, std::move(*text), {}, fields.param(name)};
}

std::optional<AnswerFormat> read_choice(const RequestFields& fields, const char* name) {
  const Json* choices = fields.array(name);
  if (choices == nullptr) return std::nullopt;
  const std::string param = fields.param(name);
  if (choices->empty() || choices->size() > kMaxChoices) {
    refuse_param(param, "'" + param + "' must hold 1 to " + std::to_string(kMaxChoices) + " strings, found " +
                            std::to_string(choices->size()) + ".");
  }
  AnswerFormat format{Kind::kChoice, {}, {}, param};
  for (const Json& item : *choices) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      refuse_param(param,
                   "'" + param + "' must hold strings that are not empty, found " + describe(item) + ".");
    }
    format.choices.push_back(item.get<std::string>());
  }
  return format;
}

std::optional<AnswerFormat> read_json_object(const RequestFields& fields, const char* name) {
  if (!fields.boolean(name).value_or(false)) return std::nullopt;
  return AnswerFormat{Kind::kJsonObject, {}, {}, fields.param(name)};
}

/// Reads {"type": "json_schema", "json_schema": {"name", "schema", "strict"}} or {"type": "json_object"}.
/// llama.cpp's clients also send a "schema" with the type "json_object".
std::optional<AnswerFormat> read_response_format(const RequestFields& fields) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return std::nullopt;
  const RequestFields inner(*format, fields.param("response_format."));
  const std::string type = inner.string("type").value_or("");
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    if (std::optional<AnswerFormat> schema = read_schema(inner, "schema")) return schema;
    return AnswerFormat{Kind::kJsonObject, {}, {}, fields.param("response_format")};
  }
  if (type == "json_schema") {
    if (const Json* wrapped = inner.object("json_schema")) {
      const RequestFields named(*wrapped, inner.param("json_schema."));
      // Only the types of these two members are checked, because they do not change the format.
      named.string("name");
      named.boolean("strict");
      if (std::optional<AnswerFormat> schema = read_schema(named, "schema")) return schema;
      refuse_param(named.param("schema"), "'" + named.param("schema") + "' is missing; send a JSON schema.");
    }
    if (std::optional<AnswerFormat> schema = read_schema(inner, "schema")) return schema;
    refuse_param(
        inner.param("json_schema"),
        "'" + inner.param("json_schema") + "' is missing; send an object with a 'name' and a 'schema'.");
  }
  if (type == "regex") return read_text(inner, "pattern", Kind::kRegex);
  if (type == "grammar") return read_text(inner, "grammar", Kind::kGrammar);
  refuse_param(fields.param("response_format"),
               "'response_format' must have type 'text', 'json_object' or 'json_schema', found " +
                   describe(*format) + ".");
}

/// Reads `structured_outputs` of vLLM's API. Returns an element for each kind of format; at most one of them
/// should have a value, which the caller checks.
std::vector<std::optional<AnswerFormat>> read_structured_outputs(const RequestFields& fields) {
  const Json* outputs = fields.object("structured_outputs");
  if (outputs == nullptr) return {};
  const RequestFields inner(*outputs, fields.param("structured_outputs."));
  if (inner.find("structural_tag") != nullptr) {
    refuse_param(inner.param("structural_tag"),
                 "'structured_outputs.structural_tag' is not supported; write the tags into a 'grammar'.");
  }
  return {read_schema(inner, "json"), read_text(inner, "regex", Kind::kRegex), read_choice(inner, "choice"),
          read_text(inner, "grammar", Kind::kGrammar), read_json_object(inner, "json_object")};
}

/// Reads "json" or a schema, as in Ollama's API.
std::optional<AnswerFormat> read_ollama_format(const RequestFields& fields) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return std::nullopt;
  if (*format == "json") return AnswerFormat{Kind::kJsonObject, {}, {}, fields.param("format")};
  if (format->is_string()) {
    refuse_param(fields.param("format"),
                 "'format' must be \"json\" or a JSON schema, found " + describe(*format) + ".");
  }
  return read_schema(fields, "format");
}

}  // namespace

AnswerFormat read_answer_format(const RequestFields& fields) {
  std::vector<std::optional<AnswerFormat>> asked = read_structured_outputs(fields);
  asked.push_back(read_response_format(fields));
  asked.push_back(read_schema(fields, "guided_json"));
  asked.push_back(read_text(fields, "guided_regex", Kind::kRegex));
  asked.push_back(read_choice(fields, "guided_choice"));
  asked.push_back(read_text(fields, "guided_grammar", Kind::kGrammar));
  asked.push_back(read_schema(fields, "json_schema"));
  asked.push_back(read_text(fields, "grammar", Kind::kGrammar));
  asked.push_back(read_ollama_format(fields));
  AnswerFormat format;
  for (std::optional<AnswerFormat>& one : asked) {
    if (!one) continue;
    if (format.kind != Kind::kText) {
      refuse_param(one->param, "'" + format.param + "' and '" + one->param +
                                   "' both set the form of the answer; send one of them.");
    }
    format = std::move(*one);
  }
  return format;
}

}  // namespace hearth
