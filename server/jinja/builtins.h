// The names a template finds without defining them: filters, tests, functions, and methods of strings, dicts
// and lists. Tables are constant; looking up is safe on any thread.
#pragma once
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "server/jinja/callable.h"

namespace hearth::jinja {

using NativeTable = std::unordered_map<std::string_view, Native>;

// Each by family, in the file of that name.
const NativeTable& text_filters();
const NativeTable& number_filters();
const NativeTable& sequence_filters();
const NativeTable& selection_filters();
const NativeTable& tests();
const NativeTable& functions();
const NativeTable& text_methods();
const NativeTable& split_methods();
const NativeTable& dict_methods();
const NativeTable& list_methods();
const NativeTable& loop_methods();

// Null when there is none of that name.
Native find_filter(std::string_view name);
Native find_test(std::string_view name);
// A method of values like `object`.
Native find_method(const Value& object, std::string_view name);

}  // namespace hearth::jinja
