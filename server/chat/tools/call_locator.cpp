#include "server/chat/tools/call_locator.h"

#include <algorithm>
#include <vector>

#include "server/chat/tools/probe_text.h"

namespace hearth {
namespace {

using Piece = ToolSyntax::Piece;
using Form = ToolSyntax::Form;

/// Position of the call's name, id, index or arguments in the text.
struct Slot {
  size_t begin, end;
  Piece::Kind kind;
};

/// Cuts text[begin, end) into pieces: one for each slot, and one for each text between slots. Ignores slots
/// that are not within the range.
std::vector<Piece> cut_at_slots(std::string_view text, size_t begin, size_t end, std::vector<Slot> slots) {
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.begin < b.begin; });
  std::vector<Piece> pieces;
  size_t at = begin;
  for (const Slot& slot : slots) {
    if (slot.begin < at || slot.end > end) continue;
    if (slot.begin > at)
      pieces.push_back({Piece::Kind::kText, std::string(text.substr(at, slot.begin - at))});
    pieces.push_back({slot.kind});
    at = slot.end;
  }
  if (at < end) pieces.push_back({Piece::Kind::kText, std::string(text.substr(at, end - at))});
  return pieces;
}

/// Finds the arguments if they are written as a JSON object. Otherwise, the result's `begin` is npos.
Slot find_json_arguments(std::string_view text, const ProbeCall& call) {
  const size_t key = text.find("\"" + call.text_key + "\"");
  const Slot none{probe::kNone, probe::kNone, Piece::Kind::kArguments};
  if (key == probe::kNone || key == 0) return none;
  const size_t open = text.find_last_not_of(probe::kWhiteSpace, key - 1);
  if (open == probe::kNone || text[open] != '{') return none;
  const size_t end = probe::json_end(text, open);
  if (end == probe::kNone) return none;
  const Json parsed = Json::parse(text.substr(open, end - open), nullptr, false);
  return parsed == call.arguments() ? Slot{open, end, Piece::Kind::kArguments} : none;
}

Slot find_text(std::string_view text, std::string_view wanted, Piece::Kind kind) {
  const size_t at = text.find(wanted);
  return {at, at == probe::kNone ? probe::kNone : at + wanted.size(), kind};
}

/// Returns the name of the member of `object` that has this value, or an empty name.
std::string key_of(const Json& object, const Json& value) {
  for (auto at = object.begin(); at != object.end(); ++at)
    if (at.value() == value) return at.key();
  return {};
}

/// Returns the digits of a non-negative integer or of a string of digits. Returns an empty string for other
/// values.
std::string digits_of(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.find_first_not_of("0123456789") == std::string::npos ? text : std::string();
}

/// Finds the member that contains the call's number, such as "tool_call_id": "0".
Slot find_index(std::string_view text, size_t begin, size_t end, const Json& object) {
  for (auto at = object.begin(); at != object.end(); ++at) {
    const std::string digits = at.key().find("id") == std::string::npos ? "" : digits_of(at.value());
    const size_t key = digits.empty() ? probe::kNone : text.find("\"" + at.key() + "\"", begin);
    const size_t value = key == probe::kNone ? probe::kNone : text.find(digits, key + at.key().size() + 2);
    if (value < end) return {value, value + digits.size(), Piece::Kind::kIndex};
  }
  return {probe::kNone, probe::kNone, Piece::Kind::kIndex};
}

/// Sets the keys in `written`. Returns false if the object has no member with the call's name, or no member
/// with the call's arguments.
bool read_keys(const Json& object, const ProbeCall& call, ToolSyntax& written) {
  for (auto at = object.begin(); at != object.end(); ++at) {
    if (!at.value().is_object() || key_of(at.value(), call.shown_name).empty()) continue;
    written.wrapper_key = at.key();
    break;
  }
  const Json& inner = written.wrapper_key.empty() ? object : object.at(written.wrapper_key);
  written.name_key = key_of(inner, call.shown_name);
  written.arguments_key = key_of(inner, call.arguments());
  written.id_key = key_of(object, call.id);
  return !written.name_key.empty() && !written.arguments_key.empty();
}

/// Finds the outermost JSON object that contains both the name and the arguments.
std::optional<LocatedCall> locate_json_object(std::string_view text, const ProbeCall& call, const Slot& name,
                                              const Slot& id, const Slot& arguments) {
  for (size_t open = text.find('{'); open < arguments.begin; open = text.find('{', open + 1)) {
    const size_t end = probe::json_end(text, open);
    if (end == probe::kNone || end < arguments.end) continue;
    const Json object = Json::parse(text.substr(open, end - open), nullptr, false);
    LocatedCall located{open, end, {}};
    located.written.form = Form::kJsonObject;
    if (!object.is_object() || !read_keys(object, call, located.written)) continue;
    std::vector<Slot> slots{name, arguments, find_index(text, open, end, object)};
    if (!located.written.id_key.empty()) slots.push_back(id);
    located.written.pieces = cut_at_slots(text, open, end, std::move(slots));
    return located;
  }
  return std::nullopt;
}

LocatedCall locate_tagged(std::string_view text, const Slot& name, const Slot& id, const Slot& arguments) {
  LocatedCall located{std::min(name.begin, arguments.begin), std::max(name.end, arguments.end), {}};
  if (id.begin != probe::kNone) {
    located.begin = std::min(located.begin, id.begin);
    located.end = std::max(located.end, id.end);
  }
  located.written.form = Form::kTagged;
  located.written.pieces = cut_at_slots(text, located.begin, located.end, {name, id, arguments});
  return located;
}

/// Finds a call of the form NAME(key=value, key=value).
std::optional<LocatedCall> locate_python(std::string_view text, const ProbeCall& call, const Slot& name) {
  if (name.end >= text.size() || text[name.end] != '(') return std::nullopt;
  const size_t key = text.find(call.text_key + "=", name.end);
  const size_t number = text.find(std::to_string(call.number_value), name.end);
  const size_t close = number == probe::kNone ? probe::kNone : text.find(')', number);
  if (key == probe::kNone || close == probe::kNone) return std::nullopt;
  LocatedCall located{name.begin, close + 1, {}};
  located.written.form = Form::kPython;
  return located;
}

/// Finds a call of the form NAME{key:value,key:value}, whose strings stand between two equal marks.
std::optional<LocatedCall> locate_marked(std::string_view text, const ProbeCall& call, const Slot& name) {
  if (name.end >= text.size() || text[name.end] != '{') return std::nullopt;
  const Slot key = find_text(text, call.text_key + ":", Piece::Kind::kText);
  const Slot value = find_text(text, call.text_value, Piece::Kind::kText);
  const std::string written_number = call.number_key + ":" + std::to_string(call.number_value);
  const Slot number = find_text(text, written_number, Piece::Kind::kText);
  if (key.begin == probe::kNone || value.begin == probe::kNone || number.begin == probe::kNone ||
      value.begin <= key.end) {
    return std::nullopt;
  }
  const std::string_view mark = text.substr(key.end, value.begin - key.end);
  const size_t close = std::max(value.end + mark.size(), number.end);
  if (mark == "\"" || !text.substr(value.end).starts_with(mark) || close >= text.size() ||
      text[close] != '}') {
    return std::nullopt;
  }
  LocatedCall located{name.begin, close + 1, {}};
  located.written.form = Form::kMarked;
  located.written.string_mark = mark;
  return located;
}

/// Positions of the arguments of a ProbeCall in a text: key and value of the text argument (a), then key and
/// value of the number argument (b).
struct ParameterPlaces {
  Slot key_a, value_a, key_b, value_b;
};

std::optional<ParameterPlaces> find_parameter_places(std::string_view text, const ProbeCall& call,
                                                     size_t from) {
  std::vector<Slot> found;
  for (const std::string& wanted :
       {call.text_key, call.text_value, call.number_key, std::to_string(call.number_value)}) {
    const size_t at = text.find(wanted, from);
    if (at == probe::kNone) return std::nullopt;
    from = at + wanted.size();
    found.push_back({at, from, Piece::Kind::kText});
  }
  return ParameterPlaces{found[0], found[1], found[2], found[3]};
}

/// Finds a call whose parameters have tags, such as <parameter=KEY>VALUE</parameter>.
std::optional<LocatedCall> locate_parameters(std::string_view text, const ProbeCall& call, const Slot& name) {
  std::optional<ParameterPlaces> places = find_parameter_places(text, call, name.end);
  if (!places) return std::nullopt;
  auto& [key_a, value_a, key_b, value_b] = *places;
  const auto between = [&](size_t begin, size_t end) { return text.substr(begin, end - begin); };
  ToolSyntax written;
  written.form = Form::kParameters;
  written.key_end = between(key_b.end, value_b.begin);
  if (written.key_end != between(key_a.end, value_a.begin)) return std::nullopt;
  const std::string_view separator = between(value_a.end, key_b.begin);
  const std::string_view first = between(name.end, key_a.begin);
  const size_t n_begin = probe::common_suffix(separator, first);
  const size_t n_end =
      std::min(probe::common_prefix(separator, text.substr(value_b.end)), separator.size() - n_begin);
  written.key_begin = separator.substr(separator.size() - n_begin);
  written.value_end = separator.substr(0, n_end);
  written.value_separator = separator.substr(n_end, separator.size() - n_begin - n_end);
  written.name_end = first.substr(0, first.size() - n_begin);
  if (probe::trim(written.key_begin).empty() || probe::trim(written.value_end).empty()) return std::nullopt;
  return LocatedCall{name.begin, value_b.end + n_end, std::move(written)};
}

}  // namespace

Json ProbeCall::message_part() const {
  Json function = {{"name", name}, {"arguments", arguments()}};
  return {{"id", id}, {"type", "function"}, {"function", std::move(function)}};
}

ProbeCall probe_call(int number, bool id_has_name) {
  const std::string suffix = number == 0 ? "_first" : "_other";
  ProbeCall call;
  call.name = "hearth" + suffix;
  call.id = "hearthid" + std::to_string(number + 1);
  call.text_key = "probe_text" + suffix;
  call.text_value = "some words" + suffix;
  call.number_key = "probe_number" + suffix;
  call.number_value = 40170 + number;
  call.shown_name = call.name;
  if (id_has_name) call.id = call.shown_name = "functions." + call.name + ":" + std::to_string(number);
  return call;
}

std::optional<LocatedCall> locate_call(std::string_view text, const ProbeCall& call) {
  const Slot name = find_text(text, call.shown_name, Piece::Kind::kName);
  if (name.begin == probe::kNone) return std::nullopt;
  const Slot id = call.id == call.shown_name ? Slot{probe::kNone, probe::kNone, Piece::Kind::kId}
                                             : find_text(text, call.id, Piece::Kind::kId);
  const Slot arguments = find_json_arguments(text, call);
  if (arguments.begin == probe::kNone) {
    if (auto python = locate_python(text, call, name)) return python;
    if (auto marked = locate_marked(text, call, name)) return marked;
    return locate_parameters(text, call, name);
  }
  if (auto object = locate_json_object(text, call, name, id, arguments)) return object;
  return locate_tagged(text, name, id, arguments);
}

}  // namespace hearth
