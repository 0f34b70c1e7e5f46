// Methods of strings but those that split.
#include <algorithm>

#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/operators.h"
#include "server/jinja/text_format.h"
#include "server/jinja/text_ops.h"
#include "server/jinja/unicode.h"

namespace hearth::jinja {
namespace {

template <std::string (*Map)(std::string_view)>
Value mapped(Evaluator& e, const Value& self, const Args& args) {
  const Params none("this method", args, {});
  return e.heap().text(Map(self.text()));
}

template <Side Where>
Value strip_at(Evaluator& e, const Value& self, const Args& args) {
  const Params p("strip", args, {"chars"});
  if (!p.given(0)) return e.heap().text(std::string(strip(self.text(), Where)));
  const std::string& chars = p.text(0, "");
  e.budget().steps(self.text().size() * (1 + chars.size() / 8));
  return e.heap().text(std::string(strip(self.text(), Where, chars)));
}

bool matches(const std::string& text, const std::string& part, bool at_end) {
  const std::string_view view = text;
  return at_end ? view.ends_with(part) : view.starts_with(part);
}

template <bool AtEnd>
Value starts_or_ends(Evaluator& e, const Value& self, const Args& args) {
  const Params p(AtEnd ? "endswith" : "startswith", args, {"part"}, 1);
  const Sequence* parts = p[0]->sequence();
  if (!parts || parts->kind != Sequence::Kind::tuple) {
    e.budget().text(p.text(0, "").size());
    return Value::boolean(matches(self.text(), p.text(0, ""), AtEnd));
  }
  for (const Value& part : parts->items) {
    if (!part.is_text()) throw Failure("startswith and endswith need strings, not " + part.type_name());
    e.budget().text(part.text().size());
    if (matches(self.text(), part.text(), AtEnd)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value replace(Evaluator& e, const Value& self, const Args& args) {
  const Params p("replace", args, {"old", "new", "count"}, 2);
  return e.heap().text(replace_all(self.text(), p.text(0, ""), p.text(1, ""), p.integer(2, -1), e.budget()));
}

template <bool Forward>
std::int64_t search(Evaluator& e, const Value& self, const Args& args) {
  const Params p("find", args, {"sub"}, 1);
  e.budget().text(self.text().size());
  const std::string& sub = p.text(0, "");
  const std::size_t at = Forward ? find_text(self.text(), sub, 0) : find_last_text(self.text(), sub);
  if (at == std::string::npos) return -1;
  return static_cast<std::int64_t>(count_code_points(std::string_view(self.text()).substr(0, at)));
}

template <bool Forward>
Value find(Evaluator& e, const Value& self, const Args& args) {
  return Value::integer(search<Forward>(e, self, args));
}

Value index(Evaluator& e, const Value& self, const Args& args) {
  const std::int64_t at = search<true>(e, self, args);
  if (at < 0) throw Failure("substring not found");
  return Value::integer(at);
}

Value count(Evaluator& e, const Value& self, const Args& args) {
  const Params p("count", args, {"sub"}, 1);
  const std::string& sub = p.text(0, "");
  e.budget().text(self.text().size());
  if (sub.empty()) return Value::integer(static_cast<std::int64_t>(count_code_points(self.text())) + 1);
  std::int64_t n = 0;
  for (std::size_t at = 0; (at = find_text(self.text(), sub, at)) != std::string::npos; at += sub.size()) ++n;
  return Value::integer(n);
}

Value join(Evaluator& e, const Value& self, const Args& args) {
  const Params p("join", args, {"iterable"}, 1);
  std::string out;
  bool is_first = true;
  for (const Value& piece : iterate(*p[0], e.heap())) {
    if (!piece.is_text()) throw Failure("join: expected str, found " + piece.type_name());
    e.budget().memory(piece.text().size() + self.text().size());
    if (!std::exchange(is_first, false)) out += self.text();
    out += piece.text();
  }
  return e.heap().text(std::move(out));
}

Value format(Evaluator& e, const Value& self, const Args& args) {
  return format_braces(self.text(), args, e.heap());
}

template <bool AtEnd>
Value remove_part(Evaluator& e, const Value& self, const Args& args) {
  const Params p(AtEnd ? "removesuffix" : "removeprefix", args, {"part"}, 1);
  const std::string& part = p.text(0, "");
  if (!matches(self.text(), part, AtEnd)) return self;
  const std::size_t rest = self.text().size() - part.size();
  return e.heap().text(AtEnd ? self.text().substr(0, rest) : self.text().substr(part.size()));
}

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(char32_t c) { return is_cased(c) || (c > 0xFF && !is_space(c) && is_printable(c)); }
bool is_letter_or_digit(char32_t c) { return is_digit(c) || is_letter(c); }

// True when there are characters and all are such.
template <bool (*Such)(char32_t)>
Value all_are(Evaluator& e, const Value& self, const Args& args) {
  const Params none("this method", args, {});
  e.budget().text(self.text().size());
  for (std::size_t at = 0; at < self.text().size();) {
    if (!Such(next_code_point(self.text(), at))) return Value::boolean(false);
  }
  return Value::boolean(!self.text().empty());
}

template <bool Upper>
Value has_case(Evaluator& e, const Value& self, const Args& args) {
  return Value::boolean(e.apply_test(Upper ? "upper" : "lower", self, args));
}

// ljust, rjust: at most as wide as a page is.
template <bool TextFirst>
Value justify(Evaluator& e, const Value& self, const Args& args) {
  const Params p("ljust and rjust", args, {"width", "fillchar"}, 1);
  static const std::string kSpace = " ";
  const std::int64_t width = p.integer(0, 0);
  const std::string& fill = p.text(1, kSpace);
  if (width > 100'000 || count_code_points(fill) != 1)
    throw Failure("ljust and rjust: width over 100000 or bad fillchar");
  std::string padding;
  for (std::int64_t n = static_cast<std::int64_t>(count_code_points(self.text())); n < width; ++n)
    padding += fill;
  return e.heap().text(TextFirst ? self.text() + padding : padding + self.text());
}

}  // namespace

const NativeTable& text_methods() {
  static const NativeTable table = {
      {"upper", mapped<upper>},
      {"lower", mapped<lower>},
      {"title", mapped<title>},
      {"capitalize", mapped<capitalize>},
      {"strip", strip_at<Side::both>},
      {"lstrip", strip_at<Side::left>},
      {"rstrip", strip_at<Side::right>},
      {"startswith", starts_or_ends<false>},
      {"endswith", starts_or_ends<true>},
      {"replace", replace},
      {"find", find<true>},
      {"rfind", find<false>},
      {"index", index},
      {"count", count},
      {"join", join},
      {"format", format},
      {"removeprefix", remove_part<false>},
      {"removesuffix", remove_part<true>},
      {"isdigit", all_are<is_digit>},
      {"isnumeric", all_are<is_digit>},
      {"isdecimal", all_are<is_digit>},
      {"isalpha", all_are<is_letter>},
      {"isalnum", all_are<is_letter_or_digit>},
      {"isspace", all_are<is_space>},
      {"isupper", has_case<true>},
      {"islower", has_case<false>},
      {"ljust", justify<true>},
      {"rjust", justify<false>},
  };
  return table;
}

}  // namespace hearth::jinja
