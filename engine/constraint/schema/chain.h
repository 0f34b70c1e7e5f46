// JSON lists with a fixed order and optional parts: the members of an object, or the items of an array
// without duplicates. One thread.
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
  std::string name{};  // name for rules, used in messages
  std::vector<ChainLink> links{};
  /// An extra part, which may follow the links any number of times. All its occurrences together count as
  /// only one part toward `least`, because two extra members of an object may have the same name.
  std::optional<Grammar::Expr> extra{};
  int least = 0;
  std::optional<int> most{};
};

/// Returns `open`, the links and extras separated by commas, and `close`. Returns nothing() if the list
/// cannot have the required number of parts. Throws ConstraintError, without a location, if counting takes
/// too many states.
Grammar::Expr chain_expression(Grammar& grammar, JsonText& text, std::string_view open, Chain chain,
                               std::string_view close);

}  // namespace hearth
