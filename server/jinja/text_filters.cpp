// Filters on text, and tojson.
#include <algorithm>
#include <array>
#include <cstdio>

#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/format.h"
#include "server/jinja/operators.h"
#include "server/jinja/text.h"

namespace hearth::jinja {
namespace {

std::string operand_text(Evaluator& e, const Value& self) { return to_text(self, e.budget()); }

template <std::string (*Map)(std::string_view)>
Value mapped(Evaluator& e, const Value& self, const Args& args) {
  const Params none("this filter", args, {});
  return e.heap().text(Map(operand_text(e, self)));
}

Value trim(Evaluator& e, const Value& self, const Args& args) {
  const Params p("trim", args, {"chars"});
  const std::string text = operand_text(e, self);
  if (!p.given(0)) return e.heap().text(std::string(strip(text, Side::both)));
  e.budget().steps(text.size() * (1 + p.text(0, "").size() / 8));
  return e.heap().text(std::string(strip(text, Side::both, p.text(0, ""))));
}

// Capitalizes each word. As in Jinja, a word begins after white space and after any of - ( { [ <.
std::string title_words(std::string_view text) {
  std::string out;
  bool at_start = true;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (at_start) {
      append_upper(out, c);
    } else {
      append_code_point(out, to_lower(c));
    }
    at_start = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  }
  return out;
}

Value replace(Evaluator& e, const Value& self, const Args& args) {
  const Params p("replace", args, {"old", "new", "count"}, 2);
  const std::string text = operand_text(e, self);
  const std::string old_part = to_text(*p[0], e.budget());
  const std::string new_part = to_text(*p[1], e.budget());
  const std::int64_t count = p.given(2) ? p.integer(2, -1) : -1;
  return e.heap().text(replace_all(text, old_part, new_part, count, e.budget()));
}

Value string(Evaluator& e, const Value& self, const Args& args) {
  const Params none("string", args, {});
  return self.is_text() ? self : e.heap().text(operand_text(e, self));
}

Value escape(Evaluator& e, const Value& self, const Args& args) {
  const Params none("escape", args, {});
  std::string out;
  for (const char c : operand_text(e, self)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return e.heap().text(std::move(out));
}

Value indent(Evaluator& e, const Value& self, const Args& args) {
  const Params p("indent", args, {"width", "first", "blank"});
  std::string indention;
  if (p[0] && p[0]->is_text()) {
    indention = p[0]->text();
  } else {
    const std::int64_t width = p.integer(0, 4);
    if (width > 1000) throw Failure("indent: a width over 1000");
    indention.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  const bool blank = p.flag(2, false);
  const std::string text =
      operand_text(e, self) + "\n";  // so that a newline at the end survives the splitting
  std::string out = p.flag(1, false) ? indention : "";
  const std::vector<std::string_view> lines = split_lines(text, false);
  e.budget().memory(lines.size() * (indention.size() + sizeof lines[0]));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n";
    if (i > 0 && (blank || !lines[i].empty())) out += indention;
    out += lines[i];
  }
  return e.heap().text(std::move(out));
}

Value url_encode(Evaluator& e, const Value& self, const Args& args) {
  const Params none("urlencode", args, {});
  const auto quoted = [&](const Value& value, bool in_query) {
    std::string out;
    for (const char c : to_text(value, e.budget())) {
      const bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (is_alnum || std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !in_query)) {
        out += c;
      } else if (c == ' ' && in_query) {
        out += '+';
      } else {
        std::array<char, 8> buffer{};
        std::snprintf(buffer.data(), buffer.size(), "%%%02X", static_cast<unsigned char>(c));
        out += buffer.data();
      }
    }
    return out;
  };
  const Dict* dict = self.dict();
  if (!dict) return e.heap().text(quoted(self, false));
  std::string out;
  for (const auto& [key, value] : dict->entries) {
    if (!out.empty()) out += '&';
    out += quoted(key, true) + "=" + quoted(value, true);
  }
  return e.heap().text(std::move(out));
}

Value word_count(Evaluator& e, const Value& self, const Args& args) {
  const Params none("wordcount", args, {});
  const std::string text = operand_text(e, self);
  std::int64_t n = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    // Outside ASCII, every character counts as a letter except white space and two blocks of punctuation.
    const bool is_ascii_word =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool is_other_word =
        c >= 0xAA && !is_space(c) && !(c >= 0x2000 && c <= 0x2BFF) && !(c >= 0x3000 && c <= 0x3004);
    const bool is_word = is_ascii_word || is_other_word;
    if (is_word && !in_word) ++n;
    in_word = is_word;
  }
  return Value::integer(n);
}

Value format(Evaluator& e, const Value& self, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    throw Failure("format: positional and keyword arguments cannot be mixed");
  }
  if (args.named.empty())
    return format_percent(operand_text(e, self), e.heap().tuple(args.positional), e.heap());
  Dict* dict = e.heap().dict();
  for (const auto& [name, value] : args.named) e.heap().set(*dict, e.heap().text(std::string(name)), value);
  return format_percent(operand_text(e, self), Value::of(dict), e.heap());
}

Value truncate(Evaluator& e, const Value& self, const Args& args) {
  const Params p("truncate", args, {"length", "killwords", "end", "leeway"});
  static const std::string kEllipsis = "...";
  const std::int64_t length = p.integer(0, 255);
  const std::string& end = p.text(2, kEllipsis);
  const std::int64_t end_length = static_cast<std::int64_t>(count_code_points(end));
  const std::int64_t leeway = p.given(3) ? p.integer(3, 5) : 5;
  if (length < end_length || leeway < 0)
    throw Failure("truncate: length must hold the end, leeway must not be negative");
  const std::string text = operand_text(e, self);
  const std::int64_t n = static_cast<std::int64_t>(count_code_points(text));
  if (n - leeway <= length) return e.heap().text(text);
  std::string head = text.substr(0, byte_offset(text, static_cast<std::size_t>(length - end_length)));
  if (!p.flag(1, false)) head = head.substr(0, head.rfind(' '));
  return e.heap().text(head + end);
}

// Implements tojson as chat templates expect it: like json.dumps, without HTML escapes.
Value to_json(Evaluator& e, const Value& self, const Args& args) {
  const Params p("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = p.flag(0, false);
  style.sort_keys = p.flag(3, false);
  if (p.given(1)) {
    style.indent = static_cast<int>(std::clamp<std::int64_t>(p.integer(1, 0), 0, 64));
    style.item_separator = ",";
  }
  if (const Value* separators = p.given(2)) {
    const Sequence* pair = separators->sequence();
    if (!pair || pair->items.size() != 2 || !pair->items[0].is_text() || !pair->items[1].is_text()) {
      throw Failure("tojson: separators must be two strings");
    }
    style.item_separator = pair->items[0].text();
    style.key_separator = pair->items[1].text();
  }
  return e.heap().text(to_json_text(self, style, e.budget()));
}

}  // namespace

const NativeTable& text_filters() {
  static const NativeTable table = {
      {"upper", mapped<upper>},
      {"lower", mapped<lower>},
      {"capitalize", mapped<capitalize>},
      {"title", mapped<title_words>},
      {"trim", trim},
      {"replace", replace},
      {"string", string},
      {"safe", string},
      {"e", escape},
      {"escape", escape},
      {"forceescape", escape},
      {"indent", indent},
      {"urlencode", url_encode},
      {"wordcount", word_count},
      {"format", format},
      {"truncate", truncate},
      {"tojson", to_json},
  };
  return table;
}

}  // namespace hearth::jinja
