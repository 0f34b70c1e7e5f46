#include "server/chat/tools/python_literals.h"

#include <array>
#include <cctype>
#include <utility>

#include "server/chat/tools/json_scanner.h"
#include "server/jinja/text.h"
#include "server/json/json.h"

namespace hearth {
namespace {

constexpr int kMaxDepth = 64;

bool is_name_byte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// A recursive descent parser for one text. Each method returns false if the text does not match.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  bool arguments(Json& out) {
    out = Json::object();
    while (!at_end()) {
      std::string key;
      while (at_ < text_.size() && is_name_byte(text_[at_])) key += text_[at_++];
      Json value;
      if (key.empty() || out.contains(key) || !sign('=') || !this->value(value, 0)) return false;
      out[key] = std::move(value);
      if (!sign(',') && !at_end()) return false;
    }
    return true;
  }

 private:
  void skip_white() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool at_end() {
    skip_white();
    return at_ == text_.size();
  }
  bool sign(char wanted) {
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    skip_white();
    return true;
  }

  bool value(Json& out, int depth) {
    if (at_end() || depth > kMaxDepth) return false;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return string(out);
    if (c == '[') return list(out, ']', depth);
    if (c == '(') return list(out, ')', depth);
    if (c == '{') return dict(out, depth);
    return std::isalpha(static_cast<unsigned char>(c)) != 0 ? word(out) : number(out);
  }

  bool word(Json& out) {
    static const std::array<std::pair<std::string_view, Json>, 6> kWords{{{"True", true},
                                                                          {"False", false},
                                                                          {"None", nullptr},
                                                                          {"true", true},
                                                                          {"false", false},
                                                                          {"null", nullptr}}};
    for (const auto& [name, value] : kWords) {
      if (!text_.substr(at_).starts_with(name)) continue;
      at_ += name.size();
      out = value;
      return at_ == text_.size() || !is_name_byte(text_[at_]);
    }
    return false;
  }

  bool number(Json& out) {
    JsonScanner scanner;
    const size_t begin = at_;
    while (at_ < text_.size() && scanner.push(text_[at_]) == JsonScanner::Status::kMore) ++at_;
    out = Json::parse(text_.substr(begin, at_ - begin), nullptr, false);
    return out.is_number();
  }

  bool list(Json& out, char close, int depth) {
    out = Json::array();
    ++at_;
    while (!sign(close)) {
      Json element;
      if (!value(element, depth + 1)) return false;
      out.push_back(std::move(element));
      if (!sign(',')) return sign(close);
    }
    return true;
  }

  bool dict(Json& out, int depth) {
    out = Json::object();
    ++at_;
    while (!sign('}')) {
      Json key, element;
      if (!value(key, depth + 1) || !key.is_string() || !sign(':') || !value(element, depth + 1))
        return false;
      out[key.get<std::string>()] = std::move(element);
      if (!sign(',')) return sign('}');
    }
    return true;
  }

  bool string(Json& out) {
    const char quote = text_[at_++];
    std::string read;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (c != '\\') {
        read += c;
      } else if (!escape(read)) {
        return false;
      }
    }
    out = std::move(read);
    return at_++ < text_.size();
  }

  bool escape(std::string& out) {
    constexpr std::string_view kNames = "ntr\\'\"bf/", kBytes = "\n\t\r\\'\"\b\f/";
    if (at_ == text_.size()) return false;
    const char c = text_[at_++];
    if (c == 'x' || c == 'u') return hex_escape(c == 'x' ? 2 : 4, out);
    const size_t known = kNames.find(c);
    if (known != std::string_view::npos) {
      out += kBytes[known];
    } else {
      out += {'\\', c};  // Python keeps the backslash too
    }
    return true;
  }

  /// Python has no surrogate pairs, but JSON has, and the grammar that constrains calls allows them.
  bool hex_escape(size_t n_digits, std::string& out) {
    uint32_t code = 0, low = 0;
    if (!hex_digits(n_digits, code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
      if (!text_.substr(at_).starts_with("\\u")) return false;
      at_ += 2;
      if (!hex_digits(4, low) || low < 0xDC00 || low >= 0xE000) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xDC00 && code < 0xE000) return false;  // only half of a surrogate pair
    jinja::append_code_point(out, code);
    return true;
  }

  bool hex_digits(size_t n_digits, uint32_t& code) {
    for (size_t i = 0; i < n_digits; ++i) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      if (at_ == text_.size()) return false;
      const size_t digit =
          kDigits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text_[at_++]))));
      if (digit == std::string_view::npos) return false;
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

void write_literal(const Json& value, std::string& out) {
  if (value.is_boolean() || value.is_null()) {
    out += value.is_null() ? "None" : value.get<bool>() ? "True" : "False";
  } else if (value.is_structured()) {
    out += value.is_array() ? '[' : '{';
    bool is_first = true;
    for (const auto& [name, element] : value.items()) {
      if (!std::exchange(is_first, false)) out += ", ";
      if (value.is_object()) out += Json(name).dump() + ": ";
      write_literal(element, out);
    }
    out += value.is_array() ? ']' : '}';
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace

bool PythonCallEnd::push(char c) {
  if (quote_ != 0) {
    if (!escaped_ && c == quote_) quote_ = 0;
    escaped_ = !escaped_ && c == '\\';
  } else if (c == '"' || c == '\'') {
    quote_ = c;
  } else if (c == '(' || c == '[' || c == '{') {
    ++depth_;
  } else if (c == ')' || c == ']' || c == '}') {
    if (depth_ == 0) return c == ')';
    --depth_;
  }
  return false;
}

std::optional<std::string> python_arguments_to_json(std::string_view arguments) {
  Json object;
  if (!PythonReader(arguments).arguments(object)) return std::nullopt;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_to_python_arguments(std::string_view json) {
  const Json object = Json::parse(json, nullptr, false);
  std::string out;
  if (!object.is_object()) return out;
  for (const auto& [name, value] : object.items()) {
    out += (out.empty() ? "" : ", ") + name + "=";
    write_literal(value, out);
  }
  return out;
}

}  // namespace hearth
