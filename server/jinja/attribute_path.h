// The `attribute=` parameter of sort, map, join, sum and others: "name", "author.name", "items.0" or an
// index. Also the ignoring of case that goes with it.
#pragma once
#include <vector>

#include "server/jinja/evaluator.h"

namespace hearth::jinja {

// The value itself when attribute is null. A missing attribute gives `otherwise` when that is not null.
Value follow(Evaluator& e, const Value& value, const Value* attribute, const Value* otherwise = nullptr);

// Text in lower case unless case_sensitive; anything else as it is.
Value fold_case(Evaluator& e, const Value& value, bool case_sensitive);

// As Params::given for an attribute name or index; throws Failure when it is neither.
const Value* attribute_param(const Params& params, std::size_t i);

}  // namespace hearth::jinja
