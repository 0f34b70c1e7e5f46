// Object schemas: the declared properties in order, then members with other names.
#include <algorithm>
#include <array>
#include <set>

#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/chain.h"
#include "engine/constraint/schema/translator.h"

namespace hearth {

using Expr = Grammar::Expr;

namespace {

/// Maximum number of name patterns per object. Each combination of matching patterns becomes an expression.
constexpr size_t kMaxNamePatterns = 3;
/// Maximum length of a property name that becomes a part of a rule's name. Each rule of an object stores a
/// copy of the name for messages.
constexpr size_t kMaxNameShown = 60;

}  // namespace

Expr SchemaTranslator::object(const Keywords& keywords) {
  ++n_brackets_;
  if (keywords.properties.impossible()) return grammar_.nothing();
  DeclaredNames names = declared_names(keywords);
  bool open = is_open(keywords);
  const std::optional<std::vector<std::string>> listed =
      keywords.names.empty() ? std::nullopt : listed_names(keywords.names);
  if (open && listed) {
    for (const std::string& name : *listed) names.add(name, keywords.names[0]);
    open = false;
  }
  const std::set<std::string> allowed =
      listed ? std::set(listed->begin(), listed->end()) : std::set<std::string>{};
  Chain chain{.name = "object"};
  if (!names.order.empty() && names.order[0].name.size() <= kMaxNameShown)
    chain.name = "object of " + json_quoted(names.order[0].name);
  chain.least = keywords.properties.least;
  chain.most = keywords.properties.most;
  for (const DeclaredName& name : names.order) {
    const Schemas schemas = property_schemas(keywords, name.name);
    const bool is_allowed =
        listed ? allowed.count(name.name) != 0 : is_name_allowed(keywords.names, *name.where, name.name);
    const Expr inner = is_allowed ? value(schemas) : grammar_.nothing();
    if (!grammar_.is_nothing(inner))
      chain.links.push_back({member(text_.name(name.name), inner), name.required});
    else if (name.required)
      return contradict(*name.where,
                        "The property " + json_quoted(name.name) + " is required but can have no value.");
  }
  chain.extra = extra_members(keywords, names, open);
  const SchemaNode& where = names.order.empty() ? document_.root() : *names.order[0].where;
  return at(where, [&] { return chain_expression(grammar_, text_, "{", std::move(chain), "}"); });
}

void SchemaTranslator::DeclaredNames::add(const std::string& name, const SchemaNode* where) {
  if (index.emplace(name, order.size()).second) order.push_back({name, where});
}

SchemaTranslator::DeclaredNames SchemaTranslator::declared_names(const Keywords& keywords) {
  DeclaredNames names;
  for (const ObjectPart& part : keywords.objects)
    if (part.properties != nullptr)
      for (const SchemaNode* property : part.properties->children) names.add(property->key, property);
  for (const SchemaNode* name : keywords.required) {
    names.add(name->text, name);
    names.order[names.index[name->text]].required = true;
  }
  return names;
}

/// Returns whether the object may have members that no schema declares. This is so if a schema has
/// additionalProperties, which then applies to these members, or if the schemas name no property at all.
bool SchemaTranslator::is_open(const Keywords& keywords) const {
  const auto names_any = [](const ObjectPart& part) {
    return part.properties != nullptr || part.patterns != nullptr;
  };
  const auto says_so = [](const ObjectPart& part) { return part.additional != nullptr; };
  const auto& parts = keywords.objects;
  if (std::any_of(parts.begin(), parts.end(), says_so)) return true;
  return keywords.required.empty() && std::none_of(parts.begin(), parts.end(), names_any);
}

/// Returns all schemas that apply to the property `name`.
Schemas SchemaTranslator::property_schemas(const Keywords& keywords, const std::string& name) {
  Schemas all;
  budget_.take(keywords.objects.size());
  for (const ObjectPart& part : keywords.objects) {
    const size_t before = all.size();
    if (part.properties != nullptr)
      if (const SchemaNode* schema = document_.member(*part.properties, name)) all.push_back(schema);
    if (part.patterns != nullptr)
      for (const SchemaNode* schema : part.patterns->children)
        if (regex_holds(*schema, schema->key, name, RegexMatch::kSomewhere)) all.push_back(schema);
    if (all.size() == before && part.additional != nullptr) all.push_back(part.additional);
  }
  return all;
}

/// Returns the members with undeclared names: those that match patternProperties, and all others if the
/// object is open. The expression has one option for each set of patterns that a name can match.
std::optional<Expr> SchemaTranslator::extra_members(const Keywords& keywords, const DeclaredNames& declared,
                                                    bool open) {
  std::vector<const SchemaNode*> patterns;
  for (const ObjectPart& part : keywords.objects)
    if (part.patterns != nullptr)
      patterns.insert(patterns.end(), part.patterns->children.begin(), part.patterns->children.end());
  if (patterns.size() > kMaxNamePatterns)
    refuse_schema(*patterns[kMaxNamePatterns],
                  "More than " + std::to_string(kMaxNamePatterns) +
                      " patterns of names in one object are not supported; write fewer.");
  std::vector<Expr> options;
  for (unsigned matched = open ? 0 : 1; matched < 1U << patterns.size(); ++matched) {
    Schemas schemas;
    size_t next = 0;
    for (const ObjectPart& part : keywords.objects) {
      const size_t before = schemas.size(), n = part.patterns == nullptr ? 0 : part.patterns->children.size();
      for (size_t i = 0; i < n; ++i, ++next)
        if (matched >> next & 1) schemas.push_back(patterns[next]);
      if (schemas.size() == before && part.additional != nullptr) schemas.push_back(part.additional);
    }
    const Expr inner = value(schemas);
    if (grammar_.is_nothing(inner)) continue;
    const Expr name = extra_name(keywords, declared, patterns, matched);
    if (!grammar_.is_nothing(name)) options.push_back(member(name, inner));
  }
  if (options.empty()) return {};
  return as_rule(grammar_.choice(options), "other members");
}

/// Returns the undeclared names that match every pattern in `matched` (a set of bits) and no other pattern.
/// If there are patterns, only ASCII names are written, because regex dialects disagree on whether some other
/// names match.
Expr SchemaTranslator::extra_name(const Keywords& keywords, const DeclaredNames& declared,
                                  const std::vector<const SchemaNode*>& patterns, unsigned matched) {
  if (patterns.empty() && declared.order.empty() && keywords.names.empty()) return text_.free_name();
  const bool any = patterns.empty() && keywords.names.empty();
  Expr names = any ? text_.any_name() : text_.string();
  if (!patterns.empty()) {
    const Expr ascii = text_.characters(std::array{CharRange{U' ', U'~'}});
    names = text_.quoted(grammar_.any_number(ascii));
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Expr pattern = pattern_string(*patterns[i], patterns[i]->key, RegexMatch::kSomewhere);
    names = matched >> i & 1 ? grammar_.both(names, pattern) : grammar_.except(names, pattern);
  }
  if (!keywords.names.empty()) {
    const Expr allowed = name_expression(flattener_.flatten(keywords.names));
    if (grammar_.is_nothing(allowed)) return allowed;
    names = grammar_.both(names, allowed);
  }
  std::vector<Expr> taken;
  for (const DeclaredName& name : declared.order)
    taken.push_back(any ? text_.name(name.name) : text_.constant(name.name));
  return taken.empty() ? names : grammar_.except(names, grammar_.choice(taken));
}

}  // namespace hearth
