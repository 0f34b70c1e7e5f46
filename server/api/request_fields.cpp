// Messages here are written for the person who sent the request: parameter, what was expected, what was
// found.
#include "server/api/request_fields.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "server/api/error.h"

namespace hearth {
namespace {

/// Longest piece of a client's value that a message repeats.
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

void refuse_param(std::string_view param, std::string message, std::string_view code) {
  throw RequestError(
      {.status = 400, .message = std::move(message), .param = std::string(param), .code = std::string(code)});
}

std::string describe(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  if (value.is_object()) return "an object";
  std::string text = value.dump();
  if (text.size() > kShownBytes) {
    size_t end = kShownBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters only
    text.resize(end);
    text += "...";
  }
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
  // 2^63 is the first double that does not fit; the comparison is false for NaN.
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

}  // namespace hearth
