#include "engine/constraint/grammar/grammar.h"

#include <algorithm>
#include <array>

#include "kernels/base/utf8.h"

namespace hearth {
namespace {

using Kind = Grammar::Node::Kind;

/// The UTF-8 encoding of a code point, 1 to 4 bytes.
using Utf8 = std::vector<unsigned char>;

Utf8 utf8(char32_t c) {
  std::string bytes;
  append_utf8(c, bytes);
  return {bytes.begin(), bytes.end()};
}

/// One range of values for each byte of an encoding. The product of these ranges is a range of code points.
using ByteRanges = std::vector<std::pair<unsigned char, unsigned char>>;

/// Cuts the range of code points from `first` to `last` into smaller ranges, each of which is a product of
/// byte ranges. The encodings of `first` and `last` must have equal lengths. place: index of the byte to cut
/// at; prefix: the ranges of the bytes before it.
void cut_range(const Utf8& first, const Utf8& last, size_t place, ByteRanges prefix,
               std::vector<ByteRanges>& out) {
  const size_t n = first.size();
  if (place == n) return out.push_back(std::move(prefix));
  const auto behind = static_cast<long>(place) + 1;
  const auto are_all = [&](const Utf8& c, unsigned char byte) {
    return std::all_of(c.begin() + behind, c.end(), [&](unsigned char b) { return b == byte; });
  };
  unsigned char low = first[place], high = last[place];
  if (low == high) {
    prefix.emplace_back(low, high);
    return cut_range(first, last, place + 1, std::move(prefix), out);
  }
  Utf8 greatest = first, least = last;
  std::fill(greatest.begin() + behind, greatest.end(), 0xBF);
  std::fill(least.begin() + behind, least.end(), 0x80);
  if (!are_all(first, 0x80)) {
    ByteRanges head = prefix;
    head.emplace_back(low, low);
    cut_range(first, greatest, place + 1, std::move(head), out);
    ++low;
  }
  const bool has_tail = !are_all(last, 0xBF);
  if (has_tail) --high;
  if (low <= high) {
    ByteRanges middle = prefix;
    middle.emplace_back(low, high);
    for (size_t i = place + 1; i < n; ++i) middle.emplace_back(0x80, 0xBF);
    out.push_back(std::move(middle));
  }
  if (has_tail) {
    prefix.emplace_back(last[place], last[place]);
    cut_range(least, last, place + 1, std::move(prefix), out);
  }
}

/// Returns a range of code points, without surrogates, as a list of products of byte ranges.
std::vector<ByteRanges> utf8_ranges(CharRange range) {
  static constexpr std::array<CharRange, 5> kEncodable{
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}}};
  std::vector<ByteRanges> products;
  for (const auto& [low, high] : kEncodable) {
    const char32_t first = std::max(range.first, low), last = std::min(range.second, high);
    if (first <= last) cut_range(utf8(first), utf8(last), 0, {}, products);
  }
  return products;
}

}  // namespace

ByteSet byte_set(std::string_view text) {
  ByteSet set;
  for (const char c : text) set.set(static_cast<unsigned char>(c));
  return set;
}

ByteSet byte_range(char first, char last) {
  ByteSet set;
  for (int b = static_cast<unsigned char>(first); b <= static_cast<unsigned char>(last); ++b)
    set.set(static_cast<size_t>(b));
  return set;
}

Grammar::Expr Grammar::add(Node node) {
  if (nodes_.size() >= kMaxNodes)
    throw ConstraintError("The grammar is too large: it takes more than " + std::to_string(kMaxNodes) +
                              " expressions; make it smaller or less deeply nested.",
                          "");
  nodes_.push_back(node);
  return static_cast<Expr>(nodes_.size() - 1);
}

Grammar::Expr Grammar::add_parents(Node::Kind kind, std::span<const Expr> children, int least, int most) {
  const auto first = static_cast<int32_t>(children_.size());
  if (children_.size() + children.size() > 4 * kMaxNodes)
    throw ConstraintError("The grammar is too large; make it smaller or less deeply nested.", "");
  children_.insert(children_.end(), children.begin(), children.end());
  return add({kind, first, static_cast<int32_t>(children.size()), least, most});
}

Grammar::Expr Grammar::empty() { return add({Kind::kEmpty}); }
Grammar::Expr Grammar::nothing() { return add({Kind::kNothing}); }

Grammar::Expr Grammar::literal(std::string_view bytes) {
  if (bytes.empty()) return empty();
  if (bytes_.size() + bytes.size() > 16 * kMaxNodes)
    throw ConstraintError("The grammar's literal texts are too long; make them shorter.", "");
  const auto first = static_cast<int32_t>(bytes_.size());
  bytes_ += bytes;
  return add({Kind::kBytes, first, static_cast<int32_t>(bytes.size())});
}

Grammar::Expr Grammar::byte(const ByteSet& set) {
  if (set.none()) return nothing();
  // Most grammars use few different sets and use them repeatedly, so it is enough to search the last 32 for
  // an equal one.
  const size_t from = sets_.size() > 32 ? sets_.size() - 32 : 0;
  for (size_t i = from; i < sets_.size(); ++i)
    if (sets_[i] == set) return add({Kind::kSet, static_cast<int32_t>(i)});
  sets_.push_back(set);
  return add({Kind::kSet, static_cast<int32_t>(sets_.size() - 1)});
}

Grammar::Expr Grammar::character(std::span<const CharRange> ranges) {
  ByteSet ascii;
  std::vector<Expr> options;
  std::vector<ByteRanges> products;
  for (const CharRange& range : ranges)
    for (ByteRanges& product : utf8_ranges(range)) products.push_back(std::move(product));
  std::vector<Expr> places;
  for (const ByteRanges& product : products) {
    places.clear();
    for (const auto& [low, high] : product) {
      const ByteSet set = byte_range(static_cast<char>(low), static_cast<char>(high));
      if (product.size() == 1) {
        ascii |= set;
      } else {
        places.push_back(byte(set));
      }
    }
    if (!places.empty()) options.push_back(sequence(places));
  }
  if (ascii.any()) options.push_back(byte(ascii));
  return choice(options);
}

Grammar::Expr Grammar::sequence(std::span<const Expr> parts) {
  if (parts.empty()) return empty();
  if (parts.size() == 1) return parts[0];
  if (std::any_of(parts.begin(), parts.end(), [&](Expr e) { return is_nothing(e); })) return nothing();
  return add_parents(Kind::kSequence, parts, 0, 0);
}

Grammar::Expr Grammar::choice(std::span<const Expr> options) {
  std::vector<Expr> left(options.begin(), options.end());
  std::erase_if(left, [&](Expr e) { return is_nothing(e); });
  if (left.empty()) return nothing();
  if (left.size() == 1) return left[0];
  return add_parents(Kind::kChoice, left, 0, 0);
}

Grammar::Expr Grammar::repeat(Expr what, int least, int most) {
  if (least == 1 && most == 1) return what;
  if (most == 0 || (least == 0 && is_nothing(what))) return empty();
  if (is_nothing(what)) return what;
  return add_parents(Kind::kRepeat, std::span(&what, 1), least, most);
}

Grammar::Expr Grammar::call(Rule rule) { return add({Kind::kCall, static_cast<int32_t>(rule)}); }

Grammar::Expr Grammar::both(Expr a, Expr b) { return add_parents(Kind::kBoth, std::array{a, b}, 0, 0); }
Grammar::Expr Grammar::except(Expr a, Expr b) { return add_parents(Kind::kExcept, std::array{a, b}, 0, 0); }

Grammar::Rule Grammar::declare(std::string name) {
  rules_.push_back({std::move(name), Expr{}, false});
  return static_cast<Rule>(rules_.size() - 1);
}

void Grammar::define(Rule rule, Expr body) {
  RuleEntry& entry = rules_[static_cast<size_t>(rule)];
  entry.body = body;
  entry.defined = true;
}

void Grammar::set_root(Rule rule) { root_ = rule; }

std::string_view Grammar::bytes(const Node& node) const {
  return std::string_view(bytes_).substr(static_cast<size_t>(node.first), static_cast<size_t>(node.count));
}

const ByteSet& Grammar::set(const Node& node) const { return sets_[static_cast<size_t>(node.first)]; }

std::span<const Grammar::Expr> Grammar::children(const Node& node) const {
  return std::span(children_).subspan(static_cast<size_t>(node.first), static_cast<size_t>(node.count));
}

Grammar::Expr Grammar::body(Rule rule) const {
  const RuleEntry& entry = rules_[static_cast<size_t>(rule)];
  if (!entry.defined)
    throw ConstraintError("The rule \"" + entry.name + "\" is used but not defined; define it.", "");
  return entry.body;
}

}  // namespace hearth
