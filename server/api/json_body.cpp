// Builds the JSON tree from parser events, so that limits are checked before memory is spent.
#include "server/api/json_body.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "server/api/error.h"

namespace hearth {
namespace {

constexpr size_t kShownReasonBytes = 200;

[[noreturn]] void refuse_body(std::string message, std::string param = {}) {
  throw RequestError({.status = 400, .message = std::move(message), .param = std::move(param), .code = {}});
}

/// Receives the parser's events. A refusal leaves as RequestError straight through the parser, which holds no
/// state worth keeping.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }

  bool null() override { return add(Json(nullptr)); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none
  bool start_object(size_t /*size*/) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) {
      refuse_body("The request body has the key '" + name.substr(0, kShownReasonBytes) +
                      "' twice in one object; send it once.",
                  open_.size() == 1 ? name.substr(0, kShownReasonBytes) : "");
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/, const Json::exception& error) override {
    std::string_view reason = error.what();
    // "[json.exception.parse_error.101] parse error at ...: why; last read: '...'": the tag tells clients
    // nothing, and what was read last may be megabytes.
    reason.remove_prefix(std::min(reason.size(), reason.find("] ") + 2));
    reason = reason.substr(0, kShownReasonBytes);
    std::string message = "The request body is not valid JSON, at byte ";
    message += std::to_string(position);
    message += ": ";
    message += reason;
    refuse_body(std::move(message));
  }

 private:
  struct Container {
    Json* value;                           // stays put: its parent does not grow while it is open
    std::unordered_set<std::string> keys;  // of an object
  };

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  Json* place(Json value) {
    if (++n_values_ > kMaxJsonValues) {
      refuse_body("The request body has more than " + std::to_string(kMaxJsonValues) +
                  " JSON values; send fewer prompts in one request.");
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // The base class's emplace_back: the ordered map's own looks through all keys each time, which key() has
    // done.
    Json::object_t::Container& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  bool open(Json container) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      refuse_body("The request body is nested deeper than " + std::to_string(kMaxJsonDepth) +
                  " levels; flatten it.");
    }
    Json* placed = place(std::move(container));
    open_.push_back({placed, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Container> open_;
  std::string key_;
  size_t n_values_ = 0;
};

}  // namespace

Json parse_json_body(std::string_view body) {
  if (body.empty()) refuse_body("The request body is empty; send a JSON object.");
  if (body.find('\0') != std::string_view::npos) {  // the JSON library would take it for the end
    refuse_body("The request body has a zero byte, which no JSON has.");
  }
  TreeBuilder builder;
  Json::sax_parse(body.begin(), body.end(), &builder);
  Json json = builder.take();
  if (!json.is_object()) {
    refuse_body(std::string("The request body is a JSON ") + json.type_name() + "; send a JSON object.");
  }
  return json;
}

}  // namespace hearth
