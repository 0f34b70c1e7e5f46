// Builds JSON values from the events of nlohmann's parser, so that limits are checked before memory is
// allocated.
#include "server/json/json.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "server/json/api_error.h"

namespace hearth {
// Parsing a body.

namespace {

constexpr size_t kShownReasonBytes = 200;

[[noreturn]] void refuse_body(std::string message, std::string param = {}) {
  throw RequestError({.status = 400, .message = std::move(message), .param = std::move(param), .code = {}});
}

/// Receives the parser's events. A callback may throw RequestError through the parser, which is not used
/// after that.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder() noexcept(false) {}  // Json's default constructor is declared noexcept, but may throw
  Json take() { return std::move(root_); }

  bool null() override { return add(Json(nullptr)); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has no binary values
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
    // The error has the form "[json.exception.parse_error.101] parse error at ...: why; last read: '...'".
    // The tag in brackets is useless to clients. The part after "last read" may have megabytes.
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
    Json* value;  // stays valid, because the parent container does not grow while this one is open
    std::unordered_set<std::string> keys;  // for objects: the keys so far
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
    // Appends to the base class of ordered_map, a vector. ordered_map's emplace_back() would search all keys
    // for a repetition, which key() has already done.
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
  if (body.find('\0') != std::string_view::npos) {  // the JSON library would treat NUL as the end of the text
    refuse_body("The request body has a zero byte, which JSON does not allow.");
  }
  TreeBuilder builder;
  Json::sax_parse(body.begin(), body.end(), &builder);
  Json json = builder.take();
  if (!json.is_object()) {
    refuse_body(std::string("The request body is a JSON ") + json.type_name() + "; send a JSON object.");
  }
  return json;
}

// Reading members.

namespace {

/// Error messages quote at most this many bytes of a client's value.
constexpr size_t kShownBytes = 60;

std::string shown_number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

[[noreturn]] void refuse_value(const std::string& param, std::string_view expected, const Json& found) {
  std::string message = "'";
  message += param;
  message += "' must be ";
  message += expected;
  message += ", found ";
  message += describe(found);
  message += ".";
  refuse_param(param, std::move(message));
}

}  // namespace

std::string cut_short(std::string text, size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  size_t end = most_bytes;
  // Keep only whole characters.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text += "...";
}

std::string describe(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  if (value.is_object()) return "an object";
  const std::string text = cut_short(json_text(value), kShownBytes);
  if (value.is_string()) return std::string("the string ").append(text);
  return value.is_number() ? std::string("the number ").append(text) : text;
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t n = value.get<uint64_t>();
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(n);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double n = value.get<double>();
  // 2^63 is the first double that does not fit. The comparison is false for NaN.
  if (!(n >= -0x1p63 && n < 0x1p63) || n != std::trunc(n)) return std::nullopt;
  return static_cast<int64_t>(n);
}

RequestFields::RequestFields(const Json& object, std::string prefix)
    : object_(&object), prefix_(std::move(prefix)) {}

std::string RequestFields::param(std::string_view name) const { return std::string(prefix_).append(name); }

const Json* RequestFields::find(std::string_view name) const {
  const auto found = object_->find(std::string(name));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> RequestFields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_value(param(name), "true or false", *value);
  return value->get<bool>();
}

std::optional<int64_t> RequestFields::integer(std::string_view name, int64_t min, int64_t max) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> n = as_integer(*value);
  if (!n || *n < min || *n > max) {
    std::string expected = "an integer";
    const bool bounded = max != std::numeric_limits<int64_t>::max();
    if (min != std::numeric_limits<int64_t>::min() || bounded) {
      expected += bounded ? " from " : " of at least ";
      expected += std::to_string(min);
    }
    if (bounded) {
      expected += " to ";
      expected += std::to_string(max);
    }
    refuse_value(param(name), expected, *value);
  }
  return n;
}

std::optional<double> RequestFields::number(std::string_view name, double min, double max) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double n = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(n >= min && n <= max)) {
    const std::string expected =
        std::string("a number from ").append(shown_number(min)).append(" to ").append(shown_number(max));
    refuse_value(param(name), expected, *value);
  }
  return n;
}

std::optional<std::string> RequestFields::string(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_value(param(name), "a string", *value);
  return value->get<std::string>();
}

std::optional<std::string> RequestFields::word(std::string_view name,
                                               std::initializer_list<std::string_view> words) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return required_word(name, words);
}

std::string RequestFields::required_word(std::string_view name,
                                         std::initializer_list<std::string_view> words) const {
  const Json* value = find(name);
  if (value != nullptr && value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    if (std::find(words.begin(), words.end(), text) != words.end()) return text;
  }
  std::string expected;
  for (const std::string_view word : words) {
    expected += expected.empty() ? "'" : word == *std::prev(words.end()) ? " or '" : ", '";
    expected.append(word).append("'");
  }
  refuse_value(param(name), expected, value == nullptr ? Json() : *value);
}

const Json* RequestFields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) refuse_value(param(name), "an object", *value);
  return value;
}

const Json* RequestFields::array(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) refuse_value(param(name), "an array", *value);
  return value;
}

std::string rfc3339(int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, n};
}

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace hearth
