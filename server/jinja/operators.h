// What Python's operators do to values: truth, equality, order, arithmetic, membership, iteration, indexing.
// Errors are Failures in Python's wording where it has one. Used by the evaluator and the built-ins.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/jinja/ast.h"
#include "server/jinja/heap.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

[[noreturn]] void fail_undefined(const Value& value);

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b, Budget& budget);
// Python's `is`: same object; small values by type and value.
bool same(const Value& a, const Value& b);
// Any comparison operator, `in` and `not in` included.
bool compare(Comparison op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);

Value arithmetic(Operator op, const Value& a, const Value& b, Heap& heap);
Value negate(const Value& value);

// len(): code points of a string. Fails for what has no length, generators included.
std::size_t length(const Value& value, Budget& budget);
// The items a for loop sees: elements, keys, characters; none of an undefined value. Empties a generator.
std::vector<Value> iterate(const Value& value, Heap& heap);
bool is_iterable(const Value& value);

// value[key]; nothing when there is no such element or the value cannot be indexed that way.
std::optional<Value> element(const Value& value, const Value& key, Heap& heap);
// value[start:stop:step]; a bound that is None or undefined is left out.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Heap& heap);

}  // namespace hearth::jinja
