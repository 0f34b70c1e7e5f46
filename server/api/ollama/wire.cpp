// See the header.
#include "server/api/ollama/wire.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hearth {
namespace {

constexpr std::string_view kLatest = ":latest";

}  // namespace

std::string without_tag(std::string name) {
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  return name;
}

std::string asked_model(const Json& body) {
  const RequestFields fields(body);
  const std::string model = fields.string("model").value_or("");
  return model.empty() ? fields.string("name").value_or("") : model;
}

std::string with_tag(const std::string& name) {
  return name.find(':') == std::string::npos ? name + std::string(kLatest) : name;
}

const EmbeddingTarget* target_named(const ApiContext& api, const std::string& name) {
  const auto is_it = [&](const std::string& other) { return without_tag(other) == without_tag(name); };
  for (const EmbeddingTarget* target : api.targets())
    if (std::ranges::any_of(target->names, is_it)) return target;
  return nullptr;
}

std::string ollama_model_name(const ApiContext& api, const Json& body) {
  std::string asked = asked_model(body);
  const EmbeddingTarget* target = target_named(api, asked);
  if (target == nullptr) return api.served_name(asked);
  if (target != api.targets().front())
    api.served_name(target->names.front());  // throws if the name belongs to the embedding model
  return asked;
}

int64_t nanoseconds(double seconds) { return std::max<int64_t>(1, std::llround(seconds * 1e9)); }

std::string json_line(const Json& json) { return json_text(json) + "\n"; }

}  // namespace hearth
