// Methods of strings that cut them in pieces.
#include "server/jinja/builtins.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/text_ops.h"
#include "server/jinja/unicode.h"

namespace hearth::jinja {
namespace {

std::vector<Value> pieces(Evaluator& e, const std::vector<std::string_view>& parts) {
  std::vector<Value> values;
  e.budget().memory(parts.size() * sizeof parts[0]);
  for (const std::string_view part : parts) values.push_back(e.heap().text(std::string(part)));
  return values;
}

// The separator at parameter i; null for white space.
const std::string* separator(const Params& p, std::size_t i) {
  if (!p.given(i)) return nullptr;
  const std::string& text = p.text(i, "");
  if (text.empty()) throw Failure("empty separator");
  return &text;
}

Value split(Evaluator& e, const Value& self, const Args& args) {
  const Params p("split", args, {"sep", "maxsplit"});
  const std::string* at = separator(p, 0);
  e.budget().text(self.text().size());
  const std::int64_t max_splits = p.integer(1, -1);
  return e.heap().list(
      pieces(e, at ? split_at(self.text(), *at, max_splits) : split_at_space(self.text(), max_splits)));
}

Value rsplit(Evaluator& e, const Value& self, const Args& args) {
  const Params p("rsplit", args, {"sep", "maxsplit"});
  const std::string* at = separator(p, 0);
  const std::int64_t max_splits = p.integer(1, -1);
  e.budget().text(self.text().size());
  if (!at && max_splits >= 0) throw Failure("rsplit with maxsplit needs a separator");
  return e.heap().list(
      pieces(e, at ? split_at_from_right(self.text(), *at, max_splits) : split_at_space(self.text(), -1)));
}

Value splitlines(Evaluator& e, const Value& self, const Args& args) {
  const Params p("splitlines", args, {"keepends"});
  e.budget().text(self.text().size());
  return e.heap().list(pieces(e, split_lines(self.text(), p.flag(0, false))));
}

template <bool FromRight>
Value partition(Evaluator& e, const Value& self, const Args& args) {
  const Params p("partition", args, {"sep"}, 1);
  const std::string* by = separator(p, 0);
  if (!by) throw Failure("partition needs a separator");
  const std::string_view text = self.text();
  e.budget().text(text.size());
  const std::size_t at = FromRight ? find_last_text(text, *by) : find_text(text, *by, 0);
  if (at == std::string_view::npos) {
    return e.heap().tuple(pieces(e, FromRight ? std::vector<std::string_view>{"", "", text}
                                              : std::vector<std::string_view>{text, "", ""}));
  }
  return e.heap().tuple(pieces(e, {text.substr(0, at), *by, text.substr(at + by->size())}));
}

}  // namespace

const NativeTable& split_methods() {
  static const NativeTable table = {
      {"split", split},
      {"rsplit", rsplit},
      {"splitlines", splitlines},
      {"partition", partition<false>},
      {"rpartition", partition<true>},
  };
  return table;
}

}  // namespace hearth::jinja
