// Prints values, implements % formatting and str.format(), and writes JSON.
#include "server/jinja/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "server/jinja/operators.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
namespace {

void append_hex(std::string& out, const char* format, char32_t c) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
  out += buffer.data();
}

// Appends values as Python prints them. Each piece of text is charged to the budget, because the text can be
// far larger than the values: a list may contain another list many times.
class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}

  void print(const Value& value) {
    const Level level(budget_);
    budget_.steps(1);
    if (value.is_text()) {
      add(quote(value.text()));
    } else if (value.is_undefined()) {
      add("Undefined");
    } else if (value.is_none()) {
      add("None");
    } else if (value.is_bool()) {
      add(value.boolean() ? "True" : "False");
    } else if (value.is_int()) {
      add(std::to_string(value.integral()));
    } else if (value.is_real()) {
      add(real_text(value.number()));
    } else if (const Sequence* s = value.sequence()) {
      sequence(*s);
    } else if (const Dict* d = value.dict()) {
      dict(*d);
    } else if (const Namespace* n = value.name_space()) {
      add("<Namespace ");
      dict(n->attributes);
      add(">");
    } else if (const Callable* c = value.callable()) {
      add(c->macro ? "<Macro " + quote(c->name) + ">" : "<function " + std::string(c->name) + ">");
    } else {
      add("<LoopContext " + std::to_string(value.loop()->index0 + 1) + "/" +
          std::to_string(value.loop()->items->items.size()) + ">");
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void add(std::string_view piece) {
    budget_.memory(piece.size());
    budget_.text(piece.size());
    out_ += piece;
  }

  void items(const std::vector<Value>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) add(", ");
      print(values[i]);
    }
  }

  void sequence(const Sequence& s) {
    switch (s.kind) {
      case Sequence::Kind::list:
        add("[");
        items(s.items);
        return add("]");
      case Sequence::Kind::tuple:
        add("(");
        items(s.items);
        return add(s.items.size() == 1 ? ",)" : ")");
      case Sequence::Kind::range:
        return add(s.label);
      case Sequence::Kind::view:
        add(s.label + "([");
        items(s.items);
        return add("])");
      case Sequence::Kind::generator:
        return add("<generator object>");
    }
  }

  void dict(const Dict& d) {
    add("{");
    for (std::size_t i = 0; i < d.entries.size(); ++i) {
      if (i > 0) add(", ");
      print(d.entries[i].first);
      add(": ");
      print(d.entries[i].second);
    }
    add("}");
  }

  Budget& budget_;
  std::string out_;
};

// A conversion of % formatting, such as %-08.3f.
struct Conversion {
  std::string flags;
  int width = 0;
  int precision = -1;
  char letter = 0;
};

// Enough for any table that a template prints. Limits the memory of a result.
constexpr int kMaxWidth = 1000;

int read_count(const std::string& format, std::size_t& at) {
  int n = 0;
  while (at < format.size() && format[at] >= '0' && format[at] <= '9') {
    n = n * 10 + (format[at++] - '0');
    if (n > kMaxWidth) throw Failure("a % conversion is wider than " + std::to_string(kMaxWidth));
  }
  return n;
}

Conversion read_conversion(const std::string& format, std::size_t& at) {
  Conversion conversion;
  while (at < format.size() && std::string_view("-+ #0").find(format[at]) != std::string_view::npos) {
    if (conversion.flags.find(format[at]) == std::string::npos) conversion.flags += format[at];
    ++at;
  }
  conversion.width = read_count(format, at);
  if (at < format.size() && format[at] == '.') {
    ++at;
    conversion.precision = read_count(format, at);
  }
  if (at == format.size()) throw Failure("incomplete format");
  conversion.letter = format[at++];
  return conversion;
}

std::string pad(std::string text, const Conversion& conversion) {
  const std::size_t width = static_cast<std::size_t>(conversion.width);
  const std::size_t length = count_code_points(text);
  if (length >= width) return text;
  const std::string space(width - length, ' ');
  return conversion.flags.find('-') != std::string::npos ? text + space : space + text;
}

std::string convert_number(const Conversion& conversion, const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) {
    throw Failure(std::string("%") + conversion.letter + " format: a real number is required, not " +
                  value.type_name());
  }
  const std::string spec = "%" + conversion.flags +
                           (conversion.width > 0 ? std::to_string(conversion.width) : "") +
                           (conversion.precision >= 0 ? "." + std::to_string(conversion.precision) : "");
  // Up to 310 digits before the point and kMaxWidth digits after it.
  std::array<char, 1500> buffer{};
  const bool is_whole = std::string_view("dioxX").find(conversion.letter) != std::string_view::npos;
  if (is_whole) {
    const double d = value.number();
    if (value.is_real() && !(std::abs(d) < 9e18))
      throw Failure("cannot convert a float that large to an integer");
    const long long whole = value.is_real() ? static_cast<long long>(d) : value.integral();
    const bool is_decimal = conversion.letter == 'd' || conversion.letter == 'i';
    if (!is_decimal && whole < 0) throw Failure("%x and %o need a number that is not negative");
    const std::string full = spec + "ll" + (is_decimal ? 'd' : conversion.letter);
    std::snprintf(buffer.data(), buffer.size(), full.c_str(), whole);
  } else {
    const std::string full = spec + conversion.letter;
    std::snprintf(buffer.data(), buffer.size(), full.c_str(), value.number());
  }
  return buffer.data();
}

std::string convert(const Conversion& conversion, const Value& value, Budget& budget) {
  switch (conversion.letter) {
    case 's':
    case 'r': {
      std::string text = conversion.letter == 's' ? to_text(value, budget) : repr(value, budget);
      if (conversion.precision >= 0)
        text.resize(byte_offset(text, static_cast<std::size_t>(conversion.precision)));
      return pad(std::move(text), conversion);
    }
    case 'c': {
      if (value.is_text() && count_code_points(value.text()) == 1) return pad(value.text(), conversion);
      if (!value.is_integral() || value.integral() < 0 || value.integral() > 0x10FFFF) {
        throw Failure("%c requires int or char");
      }
      std::string text;
      append_code_point(text, static_cast<char32_t>(value.integral()));
      return pad(std::move(text), conversion);
    }
    case 'd':
    case 'i':
    case 'x':
    case 'X':
    case 'o':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return convert_number(conversion, value);
    default:
      throw Failure(std::string("unsupported format character '") + conversion.letter + "'");
  }
}

}  // namespace

std::string quote(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char mark = has_single && !has_double ? '"' : '\'';
  std::string out(1, mark);
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (c == static_cast<char32_t>(mark) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append_code_point(out, c);
    } else {
      append_hex(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
  }
  return out += mark;
}

std::string real_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::scientific);
  (void)error;  // cannot fail: 64 bytes hold any double
  const std::string shortest(buffer.data(), end);
  const std::size_t e = shortest.find('e');
  const int exponent = std::stoi(shortest.substr(e + 1));
  const bool is_negative = shortest[0] == '-';
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = is_negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {  // the bounds at which Python's repr changes to an exponent
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string magnitude = std::to_string(std::abs(exponent));
    return out + "e" + (exponent < 0 ? "-" : "+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string to_text(const Value& value, Budget& budget) {
  if (value.is_text()) {
    budget.text(value.text().size());
    return value.text();
  }
  if (value.is_undefined()) return "";
  return repr(value, budget);
}

std::string repr(const Value& value, Budget& budget) {
  Printer printer(budget);
  printer.print(value);
  return printer.take();
}

Value format_percent(const std::string& format, const Value& values, Heap& heap) {
  const Sequence* tuple = values.sequence();
  if (tuple && tuple->kind != Sequence::Kind::tuple) tuple = nullptr;
  std::size_t n_used = 0;
  const auto next = [&]() -> Value {
    const std::size_t i = n_used++;
    if (tuple ? i >= tuple->items.size() : i > 0) throw Failure("not enough arguments for format string");
    return tuple ? tuple->items[i] : values;
  };
  std::string out;
  for (std::size_t at = 0; at < format.size();) {
    heap.budget().steps(1);
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    ++at;
    std::optional<Value> named;
    if (at < format.size() && format[at] == '(') {
      const std::size_t close = format.find(')', at);
      if (close == std::string::npos || !values.dict()) throw Failure("format requires a mapping");
      const std::string key = format.substr(at + 1, close - at - 1);
      const Value* found = values.dict()->find(key);
      if (!found) throw Failure("format: no key " + quote(key));
      named = *found;
      at = close + 1;
    }
    const Conversion conversion = read_conversion(format, at);
    if (conversion.letter == '%') {
      out += '%';
      continue;
    }
    const std::string piece = convert(conversion, named ? *named : next(), heap.budget());
    heap.budget().memory(piece.size());
    out += piece;
  }
  if (tuple ? n_used < tuple->items.size() : n_used == 0 && !values.dict()) {
    throw Failure("not all arguments converted during string formatting");
  }
  return heap.text(std::move(out));
}

Value format_braces(const std::string& format, const Args& args, Heap& heap) {
  std::size_t n_used = 0;
  const auto field = [&](const std::string& name) -> Value {
    const bool is_index = name.find_first_not_of("0123456789") == std::string::npos;
    if (is_index) {
      // Nine digits fit into an int. An index with more digits is out of range, because no call has that many
      // arguments.
      const std::size_t i = name.empty()       ? n_used++
                            : name.size() < 10 ? std::stoul(name)
                                               : args.positional.size();
      if (i >= args.positional.size()) throw Failure("format: too few arguments");
      return args.positional[i];
    }
    if (name.find_first_of(".[!:{") != std::string::npos) {
      throw Failure("format: the field {" + name + "} is not supported; use {}, {0} or {name}");
    }
    const Value* found = args.find(name);
    if (!found) throw Failure("format: no argument " + quote(name));
    return *found;
  };
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    heap.budget().steps(1);
    const char c = format[at];
    if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
      out += c;
      ++at;
    } else if (c == '{') {
      const std::size_t close = format.find('}', at);
      if (close == std::string::npos) throw Failure("format: '{' without '}'");
      const std::string piece = to_text(field(format.substr(at + 1, close - at - 1)), heap.budget());
      heap.budget().memory(piece.size());
      out += piece;
      at = close;
    } else if (c == '}') {
      throw Failure("format: '}' without '{'");
    } else {
      out += c;
    }
  }
  return heap.text(std::move(out));
}

// JSON.

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

  void text(const std::string& value) {
    // nlohmann escapes the same characters as Python, with and without ensure_ascii.
    using Json = nlohmann::json;
    add(Json(value).dump(-1, ' ', style_.ensure_ascii, Json::error_handler_t::replace));
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

}  // namespace

std::string to_json_text(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.write(value);
  return writer.take();
}

}  // namespace hearth::jinja
