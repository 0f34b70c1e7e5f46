// Parses request bodies within limits, reads members with checks of type and range, and writes JSON text for
// answers.
//
// Used on HTTP threads. Clients are not trusted, so parsing is stricter than in nlohmann's library: the
// nesting, the number of values and repeated keys are checked during parsing, before large values are built.
// JSON null means absent everywhere, as in OpenAI's specification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// A JSON type that keeps the order of keys, because templates print tools in the client's order.
using Json = nlohmann::ordered_json;

/// JSON schemas of tools have about a dozen levels. The limit also bounds the stack of recursive functions.
inline constexpr int kMaxJsonDepth = 64;
/// The limit of values in one body. It allows a thousand prompts of a thousand token ids each, and bounds the
/// memory of the values to about 100 MB.
inline constexpr size_t kMaxJsonValues = 2'000'000;

/// Parses a request body, which must be a JSON object. Throws RequestError (400) if the body is not valid
/// JSON (for example, has invalid UTF-8, lone surrogates or NaN), is not an object, is nested deeper than
/// kMaxJsonDepth, has more than kMaxJsonValues values, or repeats a key within an object.
Json parse_json_body(std::string_view body);

/// Returns the text. A text that is longer than most_bytes is cut at a character boundary, and "..." is
/// appended.
std::string cut_short(std::string text, size_t most_bytes);

/// Describes a value in error messages: "the string \"abc\"", "the number 3.5", "an array". Shortens long
/// values. Replaces invalid UTF-8, which paths and queries may contain.
std::string describe(const Json& value);

/// Returns the value of a JSON integer. As in JSON Schema, 16.0 is an integer. Returns nullopt for other
/// values, and for integers that do not fit into 64 bits.
std::optional<int64_t> as_integer(const Json& value);

/// Bounds for RequestFields::integer() that allow any integer.
inline constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

/// Reads members of one JSON object. All functions that read a member return nullopt (or null) if the member
/// is absent or null. They throw RequestError (400, with the member's full name as `param`) if the member has
/// the wrong type or is out of range. The object must outlive the RequestFields.
class RequestFields {
 public:
  /// prefix: the position of the object in the request, such as "messages[0]."; error messages write it
  /// before the names of members.
  explicit RequestFields(const Json& object, std::string prefix = {});

  const Json* find(std::string_view name) const;  // null if absent or null
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
  std::optional<double> number(std::string_view name, double min, double max) const;
  std::optional<std::string> string(std::string_view name) const;
  /// Reads a string that must be one of `words`.
  std::optional<std::string> word(std::string_view name, std::initializer_list<std::string_view> words) const;
  /// Like word(), but also refuses a member that is absent or null.
  std::string required_word(std::string_view name, std::initializer_list<std::string_view> words) const;
  const Json* object(std::string_view name) const;  // null if absent or null
  const Json* array(std::string_view name) const;   // null if absent or null

  /// Returns the member's full name for error messages, which is the prefix and the name.
  std::string param(std::string_view name) const;

 private:
  const Json* object_;
  std::string prefix_;
};

/// Returns the time in RFC 3339 form: "2026-11-23T18:47:18Z".
std::string rfc3339(int64_t unix_seconds);

/// Returns the JSON text on one line. Invalid UTF-8 becomes U+FFFD. Does not throw.
std::string json_text(const Json& json);

}  // namespace hearth
