// Between the template's values and JSON: the request's messages and tools come in, tojson goes out.
// Keys keep their order both ways.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "server/jinja/heap.h"
#include "server/jinja/value.h"

namespace hearth::jinja {

// Text of the result points into `json`, which must outlive the heap's values. Throws Failure when nested too
// deeply.
Value from_json(const nlohmann::ordered_json& json, Heap& heap);

// As Python's json.dumps with the same options.
struct JsonStyle {
  bool ensure_ascii = false;
  int indent = -1;  // below zero: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string to_json_text(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace hearth::jinja
