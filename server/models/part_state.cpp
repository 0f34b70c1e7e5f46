// The format is JSON, because people look into the file when something went wrong.
#include "server/models/part_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/models/reference.h"

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBytes = 4 << 20;  // a state has a few ranges, and one per connection

std::optional<uint64_t> bytes_at(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const uint64_t number = value.get<uint64_t>();
  return number <= kMostFileBytes ? std::optional(number) : std::nullopt;
}

std::optional<std::string> optional_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

std::string part_state_text(const PartState& state) {
  Json ranges = Json::array();
  for (const ByteRange& range : state.done.list()) ranges.push_back({range.begin, range.end});
  const Json json = {{"hearth_part", 1},         {"source", state.source}, {"validator", state.validator},
                     {"sha256", state.sha256},   {"size", state.size},     {"checked", state.checked},
                     {"done", std::move(ranges)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<PartState> parse_part_state(std::string_view text) {
  if (text.size() > kMostBytes) return std::nullopt;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("hearth_part") || json["hearth_part"] != 1) return std::nullopt;
  PartState state;
  const std::optional<std::string> source = optional_text(json, "source"),
                                   validator = optional_text(json, "validator"),
                                   sha256 = optional_text(json, "sha256");
  if (!source || !validator || !sha256) return std::nullopt;
  if (!sha256->empty() && !is_sha256(*sha256)) return std::nullopt;
  state.source = *source;
  state.validator = *validator;
  state.sha256 = lower_case(*sha256);
  const auto size = json.find("size"), done = json.find("done"), checked = json.find("checked");
  if (size == json.end() || done == json.end() || !done->is_array() || checked == json.end() ||
      !checked->is_boolean())
    return std::nullopt;
  const std::optional<uint64_t> bytes = bytes_at(*size);
  if (!bytes) return std::nullopt;
  state.size = *bytes;
  for (const Json& range : *done) {
    if (!range.is_array() || range.size() != 2) return std::nullopt;
    const std::optional<uint64_t> begin = bytes_at(range[0]), end = bytes_at(range[1]);
    if (!begin || !end || *begin >= *end || *end > state.size) return std::nullopt;
    state.done.add({*begin, *end});
  }
  state.checked = checked->get<bool>();
  if (state.checked && !state.done.holds_all(state.size)) return std::nullopt;
  return state;
}

}  // namespace hearth
