// Python's operators on values: truth, equality, order, arithmetic, membership, iteration and indexing. They
// report errors by throwing Failure, in Python's words if Python has the error. Used by the evaluator and the
// built-ins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/jinja/ast.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// Throws Failure with the reason that the undefined value contains.
[[noreturn]] void fail_undefined(const Value& value);

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b, Budget& budget);
// Implements Python's `is`: whether both values are one object. Numbers and short texts are one object if
// their types and values are equal.
bool same(const Value& a, const Value& b);
// Returns a op b for any comparison operator, including `in` and `not in`.
bool compare(Comparison op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);

Value arithmetic(Operator op, const Value& a, const Value& b, Heap& heap);
Value negate(const Value& value);

// Implements len(value). The length of a string is its number of code points. Throws Failure if the value has
// no length, for example if it is a generator.
std::size_t length(const Value& value, Budget& budget);
// Returns the items over which a for loop iterates: elements, keys or characters. Returns no items for an
// undefined value. Removes the items from a generator.
std::vector<Value> iterate(const Value& value, Heap& heap);
bool is_iterable(const Value& value);

// Returns value[key], or nullopt if there is no such element or the value cannot be indexed with this key.
std::optional<Value> element(const Value& value, const Value& key, Heap& heap);
// Returns value[start:stop:step]. A bound that is None or undefined counts as omitted.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Heap& heap);

}  // namespace hearth::jinja
