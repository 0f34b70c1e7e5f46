// Typed reading of a request's parameters: right type and range, or a 400 that names the parameter.
//
// Used by the request parsers on the HTTP thread. JSON null means absent everywhere, as in OpenAI's
// specification.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/json_body.h"

namespace hearth {

/// Throws RequestError: 400 with this message about this parameter.
[[noreturn]] void refuse_param(std::string_view param, std::string message, std::string_view code = {});

/// What a value is, for messages: "the string \"abc\"", "the number 3.5", "an array". Cut short if long.
std::string describe(const Json& value);

/// The integer a JSON number stands for: 16 and 16.0 alike, as JSON Schema has it; nullopt for anything else
/// or beyond 64 bits.
std::optional<int64_t> as_integer(const Json& value);

/// Members of one JSON object. All readers return nullopt if the member is absent or null and throw
/// RequestError (400, param: the member's name after the prefix) if it has the wrong type or is out of range.
/// The object must outlive this.
class RequestFields {
 public:
  /// prefix: where the object is within the request, "messages[0]." say.
  explicit RequestFields(const Json& object, std::string prefix = {});

  const Json* find(std::string_view name) const;  // null if absent or null
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
  std::optional<double> number(std::string_view name, double min, double max) const;
  std::optional<std::string> string(std::string_view name) const;
  const Json* object(std::string_view name) const;  // null if absent or null
  const Json* array(std::string_view name) const;   // null if absent or null

  std::string param(std::string_view name) const;  // prefix and name

 private:
  const Json* object_;
  std::string prefix_;
};

}  // namespace hearth
