// JSON in and out.
#include "server/jinja/json_bridge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "server/jinja/text_format.h"
#include "server/jinja/unicode.h"

namespace hearth::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void write(const Value& value) {
    const Level level(budget_);
    budget_.steps(1);
    if (value.is_text()) {
      text(value.text());
    } else if (value.dict()) {
      dict(*value.dict());
    } else if (value.sequence() && (value.sequence()->kind == Sequence::Kind::list ||
                                    value.sequence()->kind == Sequence::Kind::tuple)) {
      list(value.sequence()->items);
    } else if (value.is_none() || value.is_number()) {
      add(scalar(value));
    } else {
      throw Failure("Object of type " + value.type_name() + " is not JSON serializable");
    }
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_int()) return std::to_string(value.integral());
    const double d = value.number();
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return real_text(d);
  }

  void add(std::string_view piece) {
    budget_.memory(piece.size());
    budget_.text(piece.size());
    out_ += piece;
  }

  void unicode_escape(std::string& out, char32_t c) const {
    std::array<char, 16> buffer{};
    if (c >= 0x10000) {
      const unsigned offset = c - 0x10000;
      std::snprintf(buffer.data(), buffer.size(), "\\u%04x\\u%04x", 0xD800 + (offset >> 10),
                    0xDC00 + (offset & 0x3FF));
    } else {
      std::snprintf(buffer.data(), buffer.size(), "\\u%04x", static_cast<unsigned>(c));
    }
    out += buffer.data();
  }

  void text(std::string_view value) {
    std::string out = "\"";
    for (std::size_t at = 0; at < value.size();) {
      const char32_t c = next_code_point(value, at);
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\f':
          out += "\\f";
          break;
        case '\b':
          out += "\\b";
          break;
        default:
          if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F)) {
            unicode_escape(out, c);
          } else {
            append_code_point(out, c);
          }
      }
    }
    out += '"';
    add(out);
  }

  void new_line() {
    if (style_.indent < 0) return;
    add("\n" + std::string(static_cast<std::size_t>(style_.indent) * depth_, ' '));
  }

  void list(const std::vector<Value>& items) {
    if (items.empty()) return add("[]");
    add("[");
    ++depth_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      new_line();
      write(items[i]);
    }
    --depth_;
    new_line();
    add("]");
  }

  static std::string key_text(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none() || key.is_number()) return scalar(key);
    throw Failure("keys must be str, int, float, bool or None, not " + key.type_name());
  }

  void dict(const Dict& dict) {
    if (dict.entries.empty()) return add("{}");
    std::vector<std::pair<std::string, const Value*>> entries;
    budget_.memory(dict.entries.size() * sizeof entries[0]);
    for (const auto& [key, value] : dict.entries) entries.emplace_back(key_text(key), &value);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    add("{");
    ++depth_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      new_line();
      text(entries[i].first);
      add(style_.key_separator);
      write(*entries[i].second);
    }
    --depth_;
    new_line();
    add("}");
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
  std::size_t depth_ = 0;
};

Value number_from_json(const nlohmann::ordered_json& json) {
  if (json.is_number_float()) return Value::real(json.get<double>());
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Value::real(json.get<double>());
  }
  return Value::integer(json.get<std::int64_t>());
}

}  // namespace

Value from_json(const nlohmann::ordered_json& json, Heap& heap) {
  const Level level(heap.budget());
  if (json.is_string()) return Value::text(json.get_ptr<const std::string*>());
  if (json.is_boolean()) return Value::boolean(json.get<bool>());
  if (json.is_number()) return number_from_json(json);
  if (json.is_array()) {
    Sequence* list = heap.sequence(Sequence::Kind::list);
    for (const auto& item : json) heap.append(*list, from_json(item, heap));
    return Value::of(list);
  }
  if (json.is_object()) {
    Dict* dict = heap.dict();
    for (auto at = json.begin(); at != json.end(); ++at) {
      heap.set(*dict, Value::text(&at.key()), from_json(at.value(), heap));
    }
    return Value::of(dict);
  }
  return Value::none();
}

std::string to_json_text(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value);
  return writer.take();
}

}  // namespace hearth::jinja
