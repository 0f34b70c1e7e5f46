// Reads the parameters that only llama.cpp has. The functions that other endpoints use read the other
// parameters.
#include "server/api/llamacpp/native_request.h"

#include <string>
#include <utility>

#include "server/api/request/unsupported_fields.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr int kMaxProbs = 20;
constexpr size_t kMaxResponseFields = 64;
/// Editors send parts of recently opened files in input_extra. More files than this do not fit into the
/// context.
constexpr size_t kMaxFiles = 256;

/// Unsupported parameters, with the accepted values and the explanation in the error.
constexpr RefusedField kRefusedNatively[] = {
    {"n_indent", "[0, -1]", "indentation is not checked while tokens are generated; use 'stop'"},
    {"min_keep", "[0, 1, -1]", "'top_p' and 'min_p' always keep the most likely token"},
    {"n_cmpl", "[0, 1, -1]", "send one request for each answer"},
    {"image_data", "[]", "the model reads text only"},
    {"multimodal_data", "[]", "the model reads text only"},
};

/// Returns the body without members that the functions of other endpoints would refuse, and without a seed of
/// -1, which means a random seed. Also removes the time limit t_max_predict_ms, with which answers would
/// depend on the machine's load; n_predict limits their length.
Json for_other_readers(const Json& body) {
  Json rest = body;
  for (const char* name : {"n_probs", "response_fields", "return_tokens", "t_max_predict_ms"})
    rest.erase(name);
  const auto seed = rest.find("seed");
  if (seed != rest.end() && *seed == -1) rest.erase("seed");
  return rest;
}

std::vector<std::string> read_response_fields(const RequestFields& fields) {
  std::vector<std::string> paths;
  const Json* list = fields.array("response_fields");
  if (list == nullptr) return paths;
  if (list->size() > kMaxResponseFields)
    refuse_param("response_fields", "'response_fields' has " + std::to_string(list->size()) +
                                        " names; at most " + std::to_string(kMaxResponseFields) +
                                        " are allowed.");
  for (const Json& path : *list) {
    if (!path.is_string())
      refuse_param("response_fields", "'response_fields' must hold strings, found " + describe(path) + ".");
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

FimFile read_file(const Json& item, size_t index) {
  const std::string place = "input_extra[" + std::to_string(index) + "]";
  if (!item.is_object())
    refuse_param(
        place, "'" + place + "' must be an object with 'filename' and 'text', found " + describe(item) + ".");
  const RequestFields fields(item, place + ".");
  return {.name = fields.string("filename").value_or("file"), .text = fields.string("text").value_or("")};
}

}  // namespace

NativeRequest parse_native_request(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  refuse_fields(fields, kRefusedNatively);
  const Json rest = for_other_readers(body);
  check_foreign_fields(RequestFields(rest), false);
  NativeRequest request;
  request.generation = read_generation_fields(RequestFields(rest), limits);
  check_copies(request.generation, 1);
  if (request.generation.n != 1) refuse_param("n", "'n' must be 1 here; send one request for each answer.");
  for (const char* name : {"max_tokens", "n_predict"}) {  // llama.cpp also accepts OpenAI's max_tokens
    const std::optional<int64_t> n = fields.integer(name, -1, kMaxInt64);
    if (n) request.n_predict = *n < 0 ? std::nullopt : n;
  }
  request.n_probs = static_cast<int>(fields.integer("n_probs", 0, kMaxProbs).value_or(0));
  request.return_tokens = fields.boolean("return_tokens").value_or(false);
  request.response_fields = read_response_fields(fields);
  return request;
}

FimText parse_infill_text(const Json& body, const Tokenizer& tokenizer) {
  const RequestFields fields(body);
  FimText text{.prefix = fields.string("input_prefix").value_or(""),
               .suffix = fields.string("input_suffix").value_or(""),
               .begun = fields.string("prompt").value_or(""),
               .suffix_first = fields.boolean("spm_infill").value_or(false)};
  const Json* extra = fields.array("input_extra");
  if (extra == nullptr || extra->empty()) return text;
  if (tokenizer.fim().file < 0)
    refuse_param("input_extra",
                 "'input_extra' is not supported by this model, which has no token that separates files.");
  if (extra->size() > kMaxFiles)
    refuse_param("input_extra", "'input_extra' has " + std::to_string(extra->size()) + " files; at most " +
                                    std::to_string(kMaxFiles) + " are allowed.");
  for (size_t i = 0; i < extra->size(); ++i) text.files.push_back(read_file((*extra)[i], i));
  return text;
}

}  // namespace hearth
