// See the header.
#include "server/api/request/prompts.h"

#include "server/json/api_error.h"

namespace hearth {
namespace {

[[noreturn]] void refuse_prompt(std::string_view param, const Json& found) {
  refuse_param(
      param, "'" + std::string(param) +
                 "' must be a string, an array of strings, an array of token ids or an array of such arrays "
                 "(none of the arrays empty, kinds not mixed), found " +
                 describe(found) + ".");
}

}  // namespace

std::vector<Prompt> read_prompts(const Json& value, std::string_view param, const RequestLimits& limits) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() || value.empty()) refuse_prompt(param, value);
  if (value.front().is_number()) return {read_token_ids(value, param, limits)};
  if (value.size() > kMaxSequences) {
    refuse_param(param, "'" + std::string(param) + "' has " + std::to_string(value.size()) +
                            " prompts; at most " + std::to_string(kMaxSequences) +
                            " are allowed in one request.");
  }
  std::vector<Prompt> prompts;
  const bool texts = value.front().is_string();
  for (const Json& item : value) {
    if (texts ? !item.is_string() : !item.is_array() || item.empty()) refuse_prompt(param, item);
    if (texts) {
      prompts.emplace_back(item.get<std::string>());
    } else {
      prompts.emplace_back(read_token_ids(item, param, limits));
    }
  }
  return prompts;
}

}  // namespace hearth
