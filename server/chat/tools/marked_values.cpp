#include "server/chat/tools/marked_values.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/chat/tools/json_scanner.h"
#include "server/chat/tools/probe_text.h"
#include "server/json/json.h"

namespace hearth {
namespace {

constexpr int kMostLevels = 64;
constexpr size_t kNowhere = std::string_view::npos;

/// A recursive descent parser for one text. Each method returns false if the text does not match.
class MarkedReader {
 public:
  MarkedReader(std::string_view text, std::string_view mark) : text_(text), mark_(mark) {}

  /// Reads members up to the end of the text.
  bool all_members(Json& out) {
    out = Json::object();
    while (!at_end()) {
      if (!member(out, 0)) return false;
      if (!sign(',') && !at_end()) return false;
    }
    return true;
  }

 private:
  bool at_end() {
    at_ = text_.size() - probe::trim_start(text_.substr(at_)).size();
    return at_ == text_.size();
  }
  bool sign(char wanted) {
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool member(Json& out, int depth) {
    std::string name;
    Json element;
    if (at_end() || !read_name(name) || out.contains(name) || !sign(':') || !value(element, depth))
      return false;
    out[name] = std::move(element);
    return true;
  }

  bool read_name(std::string& out) {
    if (text_.substr(at_).starts_with(mark_)) return marked(out);
    if (text_[at_] == '"') return quoted(out);
    const size_t end = text_.find_first_of(":,{}[]", at_);
    if (end == kNowhere || text_[end] != ':') return false;
    out = probe::trim(text_.substr(at_, end - at_));
    at_ = end;
    return !out.empty();
  }

  bool value(Json& out, int depth) {
    if (at_end() || depth > kMostLevels) return false;
    if (text_[at_] == '{') return object(out, depth);
    if (text_[at_] == '[') return list(out, depth);
    const bool is_marked = text_.substr(at_).starts_with(mark_);
    if (!is_marked && text_[at_] != '"') return word(out);
    std::string text;
    if (is_marked ? !marked(text) : !quoted(text)) return false;
    out = std::move(text);
    return true;
  }

  bool object(Json& out, int depth) {
    out = Json::object();
    ++at_;
    while (!sign('}')) {
      if (!member(out, depth + 1)) return false;
      if (!sign(',')) return sign('}');
    }
    return true;
  }

  bool list(Json& out, int depth) {
    out = Json::array();
    ++at_;
    while (!sign(']')) {
      Json element;
      if (!value(element, depth + 1)) return false;
      out.push_back(std::move(element));
      if (!sign(',')) return sign(']');
    }
    return true;
  }

  /// Reads a number or a constant. Other text without marks is a string.
  bool word(Json& out) {
    static const std::array<std::pair<std::string_view, Json>, 3> kPython{
        {{"True", true}, {"False", false}, {"None", nullptr}}};
    const size_t end = std::min(text_.find_first_of(",{}[]", at_), text_.size());
    const std::string_view found = probe::trim(text_.substr(at_, end - at_));
    at_ = end;
    for (const auto& [name, meant] : kPython) {
      if (found != name) continue;
      out = meant;
      return true;
    }
    out = Json::parse(found, nullptr, false);
    if (out.is_discarded()) out = std::string(found);
    return !found.empty();
  }

  bool marked(std::string& out) {
    const size_t begin = at_ + mark_.size(), end = text_.find(mark_, begin);
    if (end == kNowhere) return false;
    out = text_.substr(begin, end - begin);
    at_ = end + mark_.size();
    return true;
  }

  bool quoted(std::string& out) {
    JsonScanner scanner;
    const size_t begin = at_;
    JsonScanner::Status status = JsonScanner::Status::kMore;
    while (at_ < text_.size() && status == JsonScanner::Status::kMore) status = scanner.push(text_[at_++]);
    const Json parsed = Json::parse(text_.substr(begin, at_ - begin), nullptr, false);
    if (!parsed.is_string()) return false;
    out = parsed.get<std::string>();
    return true;
  }

  std::string_view text_, mark_;
  size_t at_ = 0;
};

void write_members(const Json& object, std::string_view mark, std::string& out);

void write_value(const Json& value, std::string_view mark, std::string& out) {
  if (value.is_string()) {
    out.append(mark).append(value.get_ref<const std::string&>()).append(mark);
  } else if (value.is_object()) {
    out += '{';
    write_members(value, mark, out);
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ',';
      write_value(value[i], mark, out);
    }
    out += ']';
  } else {
    out += value.dump();
  }
}

void write_members(const Json& object, std::string_view mark, std::string& out) {
  bool is_first = true;
  for (const auto& [name, value] : object.items()) {
    if (!std::exchange(is_first, false)) out += ',';
    out.append(name).append(":");
    write_value(value, mark, out);
  }
}

}  // namespace

size_t MarkedObjectEnd::find(std::string_view text) {
  while (at_ < text.size()) {
    if (in_mark_) {
      const size_t close = text.find(mark_, at_);
      if (close == kNowhere) {
        if (text.size() >= mark_.size()) at_ = std::max(at_, text.size() - mark_.size() + 1);
        return kNowhere;
      }
      at_ = close + mark_.size();
      in_mark_ = false;
      continue;
    }
    const std::string_view rest = text.substr(at_);
    const char c = rest.front();
    if (in_quotes_) {
      if (c == '\\' && rest.size() < 2) return kNowhere;
      at_ += c == '\\' ? 2 : 1;
      in_quotes_ = c != '"';
    } else if (rest.starts_with(mark_)) {
      at_ += mark_.size();
      in_mark_ = true;
    } else if (mark_.starts_with(rest)) {
      return kNowhere;  // the rest of the mark may follow
    } else {
      ++at_;
      in_quotes_ = c == '"';
      if (c == '{' || c == '[') ++depth_;
      if ((c == '}' || c == ']') && depth_-- == 0) return at_;
    }
  }
  return kNowhere;
}

std::optional<std::string> marked_members_to_json(std::string_view members, std::string_view mark) {
  Json object;
  if (!MarkedReader(members, mark).all_members(object)) return std::nullopt;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_to_marked_members(std::string_view json, std::string_view mark) {
  const Json object = Json::parse(json, nullptr, false);
  std::string out;
  if (object.is_object()) write_members(object, mark, out);
  return out;
}

}  // namespace hearth
