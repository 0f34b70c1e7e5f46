// See the header.
#include "server/api/llamacpp/mixed_text.h"

#include <string>

#include "server/api/request/generation_fields.h"
#include "server/api/request/prompt_tokens.h"
#include "server/json/api_error.h"

namespace hearth {

std::vector<int32_t> read_mixed_text(const RequestFields& fields, std::string_view name,
                                     const MixedTextOptions& options, const ApiContext& api) {
  const Json* found = fields.find(name);
  if (found == nullptr) return {};
  const std::string param = fields.param(name);
  const Json parts = found->is_array() ? *found : Json::array({*found});
  std::vector<int32_t> tokens;
  bool first = true;
  for (const Json& part : parts) {
    std::vector<int32_t> more;
    if (part.is_string()) {
      const std::string& text = part.get_ref<const std::string&>();
      if (options.within_context)
        refuse_hopeless(text, api.longest_token_bytes(), api.model().context_tokens, param);
      more = api.tokenizer().encode(text, options.add_special && first, options.parse_special);
    } else if (part.is_number() && found->is_array()) {
      more = read_token_ids(Json::array({part}), param, api.limits());
    } else {
      refuse_param(param, "'" + param + "' must be a string, or an array of strings and token ids, found " +
                              describe(part) + ".");
    }
    tokens.insert(tokens.end(), more.begin(), more.end());
    first = false;
  }
  return tokens;
}

}  // namespace hearth
