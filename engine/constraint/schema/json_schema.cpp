#include "engine/constraint/schema/json_schema.h"

#include <algorithm>

#include "engine/constraint/schema/translator.h"

namespace hearth {
namespace {

using Expr = Grammar::Expr;
using Kind = SchemaNode::Kind;
using namespace json_type;

constexpr int kMaxNestedValues = 100;
constexpr int kMaxNestedChoices = 50;

}  // namespace

Expr SchemaTranslator::value(Schemas schemas) {
  if (schemas.empty()) return text_.value();
  Schemas key = schemas;
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  Known& known = known_[std::move(key)];
  if (known.under_way && !known.rule) known.rule = grammar_.declare(short_pointer(*schemas[0]));
  if (known.under_way) return grammar_.call(*known.rule);
  if (known.expression) return *known.expression;
  if (depth_ >= kMaxNestedValues)
    refuse_schema(*schemas[0], "Values are nested more than " + std::to_string(kMaxNestedValues) +
                                   " deep here; nest them less.");
  known.under_way = true;
  ++depth_;
  const size_t brackets_before = n_brackets_;
  Expr expression = flat_value(flattener_.flatten(schemas), 0);
  --depth_;
  known.under_way = false;
  // Objects and arrays become rules, so that a schema that occurs in several places is compiled only once.
  if (n_brackets_ != brackets_before && !known.rule && !grammar_.is_nothing(expression))
    known.rule = grammar_.declare(short_pointer(*schemas[0]));
  if (known.rule) grammar_.define(*known.rule, expression);
  if (known.rule && !grammar_.is_nothing(expression)) expression = grammar_.call(*known.rule);
  known.expression = expression;
  return expression;
}

Expr SchemaTranslator::flat_value(const FlatSchemas& flat, int depth) {
  if (flat.impossible) return grammar_.nothing();
  return flat.has_choice() ? alternatives(flat, depth) : typed_value(flat.schemas());
}

Expr SchemaTranslator::alternatives(const FlatSchemas& flat, int depth) {
  const SchemaFlattener::Alternatives all = flattener_.choose(flat);
  if (depth >= kMaxNestedChoices)
    refuse_schema(*all.keyword, "More than " + std::to_string(kMaxNestedChoices) +
                                    " choices stand for one value; write fewer.");
  if (all.keyword->key == "oneOf") check_exclusive(all);
  std::vector<Expr> options;
  for (const FlatSchemas& alternative : all.flat) options.push_back(flat_value(alternative, depth + 1));
  return grammar_.choice(options);
}

Expr SchemaTranslator::typed_value(const Schemas& schemas) {
  const Keywords keywords = gather_keywords(schemas);
  if (!keywords.values.empty()) return listed_value(keywords);
  const unsigned types = keywords.chosen_types();
  if (types == kAll && keywords.implied_types == 0) return text_.value();
  if (types == 0) return contradict(*schemas[0], "No type is allowed by all keywords.");
  std::vector<Expr> options;
  if (types & kObject) options.push_back(object(keywords));
  if (types & kArray) options.push_back(array(keywords));
  if (types & kString) options.push_back(string(keywords, text_.is_json()));
  if (types & kNumber) options.push_back(number(keywords, types, *schemas[0]));
  if (types & kBoolean) options.insert(options.end(), {text_.text("true"), text_.text("false")});
  if (types & kNull) options.push_back(text_.text("null"));
  return grammar_.choice(options);
}

Expr SchemaTranslator::number(const Keywords& keywords, unsigned types, const SchemaNode& where) {
  NumberLimits limits = keywords.numbers;
  limits.integer = (types & kFraction) == 0;
  const SchemaNode& place = keywords.multiple != nullptr ? *keywords.multiple : where;
  const Expr expression = at(place, [&] { return number_expression(grammar_, limits); });
  return grammar_.is_nothing(expression) ? contradict(where, "No number lies within the bounds.")
                                         : expression;
}

Expr SchemaTranslator::listed_value(const Keywords& keywords) {
  std::vector<Expr> options;
  for (const SchemaNode* value : common_values(keywords)) options.push_back(constant(keywords, *value));
  const Expr all = grammar_.choice(options);
  return grammar_.is_nothing(all) ? contradict(*keywords.values[0].front(),
                                               "None of the listed values is allowed by the other keywords.")
                                  : all;
}

/// Translates a value from an enum or const. An object or array is translated like a schema that allows only
/// this value, so that the schema's other keywords are applied to the value's members, too.
Expr SchemaTranslator::constant(const Keywords& keywords, const SchemaNode& value) {
  if ((keywords.types & type_of(value)) == 0) return grammar_.nothing();
  if (!value.is(Kind::kObject) && !value.is(Kind::kArray))
    return admits_scalar(keywords, value) ? scalar(value) : grammar_.nothing();
  Keywords members = keywords;
  members.values.clear();
  if (value.is(Kind::kArray)) return array(with_items_of(std::move(members), value));
  return object(with_members_of(std::move(members), value));
}

Expr SchemaTranslator::contradict(const SchemaNode& where, const std::string& sentence) {
  contradiction_ = {sentence, &where};
  return grammar_.nothing();
}

Expr SchemaTranslator::as_rule(Expr expression, const std::string& name) {
  const Grammar::Node::Kind kind = grammar_.node(expression).kind;
  if (kind == Grammar::Node::Kind::kCall || kind == Grammar::Node::Kind::kBytes) return expression;
  const Grammar::Rule rule = grammar_.declare(name);
  grammar_.define(rule, expression);
  return grammar_.call(rule);
}

namespace {

Expr translated(const Grammar& grammar, SchemaTranslator& translator, const SchemaNode& schema) {
  const Expr value = translator.value({&schema});
  if (!grammar.is_nothing(value)) return value;
  const auto& why = translator.contradiction();
  refuse_schema(why ? *why->second : schema, "No value is valid under the schema. " +
                                                 (why ? why->first : "What it demands excludes everything."));
}

/// Runs `work`. If it throws an error without a location (such as "too large"), sets the location to "#", the
/// whole schema.
template <typename Work>
auto placed(const Work& work) {
  try {
    return work();
  } catch (const ConstraintError& error) {
    if (!error.where().empty()) throw;
    throw ConstraintError(error.what(), "#");
  }
}

Grammar with_root(Grammar grammar, Expr body) {
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, body);
  grammar.set_root(root);
  return grammar;
}

}  // namespace

Grammar json_schema_grammar(std::string_view schema_json) {
  Grammar grammar;
  const Expr value = json_schema_expression(grammar, schema_json);
  return with_root(std::move(grammar), value);
}

Expr json_schema_expression(Grammar& grammar, std::string_view schema_json, std::string_view string_mark) {
  return placed([&] {
    SchemaDocument document(schema_json);
    const StringForm form = string_mark.empty() ? StringForm::kJson : StringForm::kMarked;
    SchemaTranslator translator(grammar, document, form, string_mark);
    return translated(grammar, translator, document.root());
  });
}

struct JsonProperties::Parts {
  explicit Parts(std::string_view schema_json) : document(schema_json) {}
  SchemaDocument document;
  std::optional<SchemaTranslator> values{}, texts{};

  const SchemaNode& property(std::string_view name) {
    return *document.member(*document.member(document.root(), "properties"), name);
  }
  SchemaTranslator& values_of(Grammar& grammar) {
    if (!values) values.emplace(grammar, document, StringForm::kJson);
    return *values;
  }
  SchemaTranslator& texts_of(Grammar& grammar) {
    if (!texts) texts.emplace(grammar, document, StringForm::kPlain);
    return *texts;
  }

  /// The values of a property that have none of these types.
  std::optional<Expr> without(Grammar& grammar, SchemaTranslator& translator, std::string_view name,
                              std::initializer_list<const char*> types) {
    SchemaNode& schema = document.add(Kind::kObject, &document.root(), std::string(name));
    SchemaNode& excluded = document.add(Kind::kObject, &schema, "not");
    SchemaNode& list = document.add(Kind::kArray, &excluded, "type");
    for (const char* type : types) {
      SchemaNode& one = document.add(Kind::kString, &list, "");
      one.text = type;
      list.children.push_back(&one);
    }
    excluded.children = {&list};
    schema.children = {&excluded};
    const Expr value = placed([&] { return translator.value({&property(name), &schema}); });
    if (grammar.is_nothing(value)) return std::nullopt;
    return value;
  }
};

JsonProperties::JsonProperties(std::string_view schema_json)
    : parts_(placed([&] { return std::make_unique<Parts>(schema_json); })) {}
JsonProperties::~JsonProperties() = default;

Expr JsonProperties::value(Grammar& grammar, std::string_view name) {
  return placed([&] { return translated(grammar, parts_->values_of(grammar), parts_->property(name)); });
}

std::optional<Expr> JsonProperties::texts(Grammar& grammar, std::string_view name) {
  return parts_->without(grammar, parts_->texts_of(grammar), name,
                         {"null", "boolean", "number", "array", "object"});
}

std::optional<Expr> JsonProperties::others(Grammar& grammar, std::string_view name) {
  return parts_->without(grammar, parts_->values_of(grammar), name, {"string"});
}

Grammar json_object_grammar() {
  Grammar grammar;
  const Expr object = json_object_expression(grammar);
  return with_root(std::move(grammar), object);
}

Expr json_object_expression(Grammar& grammar) { return JsonText(grammar, StringForm::kJson).object(); }

}  // namespace hearth
