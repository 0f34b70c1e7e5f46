#include "engine/constraint/schema/flattening.h"

#include <algorithm>

namespace hearth {
namespace {

using Kind = SchemaNode::Kind;

constexpr int kMaxChain = 100;

const std::vector<const SchemaNode*>& schema_list(const SchemaNode& keyword) {
  if (!keyword.is(Kind::kArray) || keyword.children.empty())
    refuse_schema(keyword, "\"" + keyword.key + "\" must be a list of at least one schema.");
  return keyword.children;
}

}  // namespace

Schemas FlatSchemas::schemas() const {
  Schemas all;
  for (const Entry& entry : entries_) all.push_back(entry.schema);
  return all;
}

FlatSchemas SchemaFlattener::flatten(const Schemas& schemas) {
  FlatSchemas flat;
  for (const SchemaNode* schema : schemas) add(flat, *schema, -1);
  return flat;
}

SchemaFlattener::Alternatives SchemaFlattener::choose(const FlatSchemas& flat) {
  const FlatSchemas::Choice choice = flat.choices_.front();
  FlatSchemas rest = flat;
  rest.choices_.erase(rest.choices_.begin());
  Alternatives all{.keyword = choice.keyword, .flat = {}};
  for (const SchemaNode* alternative : schema_list(*choice.keyword)) {
    budget_.take(1 + rest.entries_.size());
    FlatSchemas with = rest;
    add(with, *alternative, choice.from);
    all.flat.push_back(std::move(with));
  }
  return all;
}

void SchemaFlattener::add(FlatSchemas& flat, const SchemaNode& schema, int from) {
  budget_.take(1 + schema.children.size());
  if (schema.is(Kind::kBoolean)) {
    flat.impossible = flat.impossible || !schema.truth;
    return;
  }
  if (!schema.is(Kind::kObject)) refuse_schema(schema, "A schema must be an object, true or false.");
  const auto entry_of = [&](int i) { return flat.entries_[static_cast<size_t>(i)]; };
  for (int i = from; i >= 0; i = entry_of(i).from)
    if (entry_of(i).schema == &schema)
      refuse_schema(schema,
                    "The schema refers to itself without a property or an item in between; break the cycle.");
  const int depth = from < 0 ? 0 : entry_of(from).depth + 1;
  if (depth > kMaxChain)
    refuse_schema(schema, "References and combinations are nested more than " + std::to_string(kMaxChain) +
                              " deep here; nest them less.");
  budget_.take(flat.entries_.size());
  for (const FlatSchemas::Entry& entry : flat.entries_)
    if (entry.schema == &schema) return;
  flat.entries_.push_back({&schema, from, depth});
  add_parts(flat, schema, static_cast<int>(flat.entries_.size()) - 1);
}

void SchemaFlattener::add_parts(FlatSchemas& flat, const SchemaNode& schema, int entry) {
  for (const SchemaNode* keyword : schema.children) {
    if (keyword->key == "$ref") {
      add(flat, target(*keyword), entry);
    } else if (keyword->key == "allOf") {
      for (const SchemaNode* part : schema_list(*keyword)) add(flat, *part, entry);
    } else if (keyword->key == "anyOf" || keyword->key == "oneOf") {
      flat.choices_.push_back({keyword, entry});
    }
  }
}

const SchemaNode& SchemaFlattener::target(const SchemaNode& reference) {
  const SchemaNode*& known = targets_[&reference];
  if (known != nullptr) return *known;
  if (!reference.is(Kind::kString)) refuse_schema(reference, "\"$ref\" must be a text.");
  known = document_.find(reference.text);
  if (known == nullptr)
    refuse_schema(reference, "The reference \"" + reference.text +
                                 "\" points to nothing in this schema; other documents are not read.");
  return *known;
}

}  // namespace hearth
