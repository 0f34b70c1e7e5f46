// Array schemas: first items that have their own schemas, then items that share one schema.
#include <algorithm>

#include "engine/constraint/schema/chain.h"
#include "engine/constraint/schema/counted.h"
#include "engine/constraint/schema/translator.h"

namespace hearth {

using Expr = Grammar::Expr;
using Kind = SchemaNode::Kind;
using namespace json_type;

/// Returns all schemas that apply to the item at `index`.
Schemas SchemaTranslator::item_schemas(const Keywords& keywords, size_t index) {
  Schemas all;
  budget_.take(keywords.arrays.size());
  for (const ArrayPart& part : keywords.arrays) {
    if (index < part.prefix.size())
      all.push_back(part.prefix[index]);
    else if (part.rest != nullptr)
      all.push_back(part.rest);
  }
  return all;
}

Expr SchemaTranslator::array(const Keywords& keywords) {
  ++n_brackets_;
  CountLimits limits = keywords.items;
  if (limits.impossible()) return grammar_.nothing();
  if (keywords.unique != nullptr && limits.most.value_or(2) > 1) return distinct_items(keywords);
  size_t n_first = 0;
  bool has_prefix = false, has_rest = false;
  for (const ArrayPart& part : keywords.arrays) {
    n_first = std::max(n_first, part.prefix.size());
    has_prefix = has_prefix || part.has_prefix;
    has_rest = has_rest || part.rest != nullptr;
  }
  const size_t most = limits.most ? static_cast<size_t>(*limits.most) : SIZE_MAX;
  std::vector<Expr> first;
  for (size_t i = 0; i < std::min(n_first, most); ++i) {
    first.push_back(value(item_schemas(keywords, i)));
    if (!grammar_.is_nothing(first.back())) continue;
    first.pop_back();  // maxItems allows no more
    return item_list(first, {}, limits);
  }
  const bool open = has_rest || !has_prefix || static_cast<size_t>(limits.least) > n_first;
  std::optional<Expr> rest;
  if (open && most > n_first) {
    const Expr item = value(item_schemas(keywords, n_first));
    if (!grammar_.is_nothing(item)) rest = as_rule(item, "item");
  }
  return item_list(first, rest, limits);
}

Expr SchemaTranslator::item_list(const std::vector<Expr>& first, std::optional<Expr> rest,
                                 const CountLimits& limits) {
  const auto n = static_cast<int>(first.size());
  if (!rest && limits.least > n) return grammar_.nothing();
  std::vector<Expr> all = first;
  Expr more = grammar_.empty();  // what may follow the last leading item
  if (rest && (!limits.most || *limits.most > n)) {
    if (n == 0) all.push_back(*rest);
    const auto n_all = static_cast<int>(all.size());
    more = counted(grammar_, text_.sequence({text_.comma(), *rest}), std::max(0, limits.least - n_all),
                   limits.most ? *limits.most - n_all : Grammar::kNoMaximum);
  }
  if (all.empty()) return text_.text("[]");
  for (size_t i = all.size(); i-- > 1;) {
    more = text_.sequence({text_.comma(), all[i], more});
    if (static_cast<int>(i) >= limits.least) more = text_.optional(more);
  }
  const Expr body = text_.sequence({text_.gap(), all[0], more, text_.gap()});
  return text_.sequence({text_.text("["), limits.least == 0 ? text_.optional(body) : body, text_.text("]")});
}

/// Translates an array with uniqueItems: true. This is supported only if the schema lists the items' values.
/// The array's items must come in the order of that list, so no value occurs twice.
Expr SchemaTranslator::distinct_items(const Keywords& keywords) {
  const auto refuse = [&]() {
    refuse_schema(*keywords.unique,
                  "Unique items can be enforced only if \"items\" lists the values, as an enum; leave "
                  "uniqueItems out.");
  };
  const Schemas schemas = item_schemas(keywords, 0);
  if (schemas.empty() ||
      std::any_of(keywords.arrays.begin(), keywords.arrays.end(), [](const auto& p) { return p.has_prefix; }))
    refuse();
  const FlatSchemas flat = flattener_.flatten(schemas);
  if (flat.impossible) return item_list({}, {}, keywords.items);
  const Keywords item = gather_keywords(flat.schemas());
  if (flat.has_choice() || item.values.empty()) refuse();
  Chain chain{.name = "set", .least = keywords.items.least, .most = keywords.items.most};
  Schemas taken;
  for (const SchemaNode* value : common_values(item)) {
    if (is_in(taken, *value)) continue;
    taken.push_back(value);
    const Expr text = constant(item, *value);
    if (!grammar_.is_nothing(text)) chain.links.push_back({text, false});
  }
  return at(*keywords.unique, [&] { return chain_expression(grammar_, text_, "[", std::move(chain), "]"); });
}

}  // namespace hearth
