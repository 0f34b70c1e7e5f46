// See the header.
#include "server/api/ollama/wire.h"

#include <algorithm>
#include <cmath>
#include <ctime>
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

std::string ollama_model_name(const ApiContext& api, const Json& body) {
  const std::string asked = asked_model(body);
  const auto is_it = [&](const std::string& name) { return without_tag(name) == without_tag(asked); };
  if (std::ranges::any_of(api.model().names, is_it)) return asked;
  return api.served_name(asked);
}

std::string rfc3339(int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, n};
}

int64_t nanoseconds(double seconds) { return std::max<int64_t>(1, std::llround(seconds * 1e9)); }

std::string json_line(const Json& json) { return json_text(json) + "\n"; }

}  // namespace hearth
