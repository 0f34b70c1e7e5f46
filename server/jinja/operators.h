// Python's operators on values: truth, equality, order, arithmetic, membership, iteration, indexing. Errors
// are Failures in Python's wording where it has one. Used by the evaluator and the built-ins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/jinja/ast.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// Throws Failure with the reason that the undefined value carries.
[[noreturn]] void fail_undefined(const Value& value);

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b, Budget& budget);
// Python's `is`: the same object. Numbers and short text are the same if type and value are equal.
bool same(const Value& a, const Value& b);
// a op b for any comparison operator, `in` and `not in` included.
bool compare(Comparison op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);

Value arithmetic(Operator op, const Value& a, const Value& b, Heap& heap);
Value negate(const Value& value);

// len(value); code points of a string. Throws Failure if the value has no length, like a generator.
std::size_t length(const Value& value, Budget& budget);
// The items that a for loop sees: elements, keys or characters; none for an undefined value. Empties a
// generator.
std::vector<Value> iterate(const Value& value, Heap& heap);
bool is_iterable(const Value& value);

// value[key]; nullopt if there is no such element or the value cannot be indexed by such a key.
std::optional<Value> element(const Value& value, const Value& key, Heap& heap);
// value[start:stop:step]. A bound that is None or undefined counts as left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Heap& heap);

}  // namespace hearth::jinja
