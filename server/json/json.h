// JSON of the API: a request's body parsed with limits, its members read with type and range checked, and
// JSON text for answers.
//
// Used by the request parsers and handlers on the HTTP thread. A client may send anything. Parsing is
// therefore stricter than the JSON library alone: nesting, the number of values and repeated keys are checked
// while parsing, so that nothing large is built before it is refused. JSON null means absent everywhere, as
// in OpenAI's specification.
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

/// Keeps the order of keys: templates print tools in the order the client wrote them.
using Json = nlohmann::ordered_json;

/// Deep enough for the JSON schemas of tools (a dozen levels in practice), shallow enough to recurse over.
inline constexpr int kMaxJsonDepth = 64;
/// Values in one body. A list of a thousand prompts of a thousand token ids fits; memory stays under about
/// 100 MB.
inline constexpr size_t kMaxJsonValues = 2'000'000;

/// The body's JSON object. Throws RequestError (400): not JSON (invalid UTF-8, lone surrogates and NaN
/// included), not an object, nested deeper than kMaxJsonDepth, more than kMaxJsonValues values, or a key
/// twice in one object.
Json parse_json_body(std::string_view body);

/// The text, or its beginning and "..." if it has more bytes. Characters are not cut.
std::string cut_short(std::string text, size_t most_bytes);

/// A value as error messages name it: "the string \"abc\"", "the number 3.5", "an array". Cut short if long. Bytes that are
/// no UTF-8 are replaced: paths and queries may have any.
std::string describe(const Json& value);

/// The value of a JSON number that is an integer; 16.0 is one, as in JSON Schema. nullopt for anything else
/// and for what does not fit into 64 bits.
std::optional<int64_t> as_integer(const Json& value);

/// Bounds for RequestFields::integer() where any number will do.
inline constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

/// Members of one JSON object. All readers return nullopt if the member is absent or null and throw
/// RequestError (400, param: the member's name after the prefix) if it has the wrong type or is out of range.
/// The object must outlive this.
class RequestFields {
 public:
  /// prefix: the object's place within the request, such as "messages[0]."; error messages put it before
  /// names.
  explicit RequestFields(const Json& object, std::string prefix = {});

  const Json* find(std::string_view name) const;  // null if absent or null
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
  std::optional<double> number(std::string_view name, double min, double max) const;
  std::optional<std::string> string(std::string_view name) const;
  /// A string that is one of these.
  std::optional<std::string> word(std::string_view name, std::initializer_list<std::string_view> words) const;
  /// The same; absent or null is refused too.
  std::string required_word(std::string_view name, std::initializer_list<std::string_view> words) const;
  const Json* object(std::string_view name) const;  // null if absent or null
  const Json* array(std::string_view name) const;   // null if absent or null

  /// The member's full name, for error messages: prefix and name.
  std::string param(std::string_view name) const;

 private:
  const Json* object_;
  std::string prefix_;
};

/// A time as JSON texts write it: "2026-11-23T18:47:18Z".
std::string rfc3339(int64_t unix_seconds);

/// JSON text in one line. Bytes that are not UTF-8 (there should be none) become U+FFFD instead of an
/// exception.
std::string json_text(const Json& json);

}  // namespace hearth
