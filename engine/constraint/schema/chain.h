// Lists in a fixed order with optional parts: the members of an object, or the items of a set. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constraint/schema/json_text.h"

namespace hearth {

struct ChainLink {
  Grammar::Expr text;
  bool required = false;
};

struct Chain {
  std::string name{};  // for rules, in messages
  std::vector<ChainLink> links{};
  /// Optional extras after the links, any number of times. The expression may itself be a repeat, so it
  /// counts only once toward least.
  std::optional<Grammar::Expr> extra{};
  int least = 0;
  std::optional<int> most{};
};

/// Returns open, links and extras separated by commas, close. nothing() if the counts cannot be met. Throws
/// ConstraintError, without a location, if counting takes too many states.
Grammar::Expr chain_expression(Grammar& grammar, JsonText& text, std::string_view open, Chain chain,
                               std::string_view close);

}  // namespace hearth
