// JSON of the API: parses request bodies within limits, reads members with type and range checks, and writes
// JSON text for answers.
//
// Used by request parsers and handlers on HTTP threads. Because a client may send anything, parsing is
// stricter than the JSON library's: nesting, the number of values and repeated keys are checked while
// parsing, before anything large is built. JSON null means absent everywhere, as in OpenAI's specification.
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

/// Keeps the order of keys, because templates print tools in the order the client wrote them.
using Json = nlohmann::ordered_json;

/// Deep enough for JSON schemas of tools (a dozen levels in practice), shallow enough for recursion.
inline constexpr int kMaxJsonDepth = 64;
/// Most values in one body: enough for a thousand prompts of a thousand token ids, in less than about 100 MB.
inline constexpr size_t kMaxJsonValues = 2'000'000;

/// Parses the body's JSON object. Throws RequestError (400) if it is not JSON (invalid UTF-8, lone surrogates
/// and NaN included), not an object, nested deeper than kMaxJsonDepth, has more than kMaxJsonValues values,
/// or repeats a key in an object.
Json parse_json_body(std::string_view body);

/// The text, cut after most_bytes at a character boundary and ended with "..." if it is longer.
std::string cut_short(std::string text, size_t most_bytes);

/// A value as error messages name it: "the string \"abc\"", "the number 3.5", "an array"; shortened if long.
/// Invalid UTF-8, which paths and queries may have, is replaced.
std::string describe(const Json& value);

/// The value of a JSON number that is an integer (16.0 is one, as in JSON Schema). nullopt for anything else
/// and for integers that do not fit into 64 bits.
std::optional<int64_t> as_integer(const Json& value);

/// Bounds for RequestFields::integer() that allow any integer.
inline constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

/// Reads members of one JSON object. All readers return nullopt (or null) if the member is absent or null,
/// and throw RequestError (400, param: prefix and member name) if it has the wrong type or is out of range.
/// The object must outlive this.
class RequestFields {
 public:
  /// prefix: the object's position in the request, such as "messages[0]."; error messages put it before
  /// member names.
  explicit RequestFields(const Json& object, std::string prefix = {});

  const Json* find(std::string_view name) const;  // null if absent or null
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
  std::optional<double> number(std::string_view name, double min, double max) const;
  std::optional<std::string> string(std::string_view name) const;
  /// A string that must be one of `words`.
  std::optional<std::string> word(std::string_view name, std::initializer_list<std::string_view> words) const;
  /// Like word(), but refuses an absent or null member too.
  std::string required_word(std::string_view name, std::initializer_list<std::string_view> words) const;
  const Json* object(std::string_view name) const;  // null if absent or null
  const Json* array(std::string_view name) const;   // null if absent or null

  /// The member's full name, for error messages: prefix and name.
  std::string param(std::string_view name) const;

 private:
  const Json* object_;
  std::string prefix_;
};

/// A time in RFC 3339 form: "2026-11-23T18:47:18Z".
std::string rfc3339(int64_t unix_seconds);

/// JSON text on one line. Bytes that are not UTF-8 (there should be none) become U+FFFD; it does not throw.
std::string json_text(const Json& json);

}  // namespace hearth
