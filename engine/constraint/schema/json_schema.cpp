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
  if (known.under_way && !known.rule) known.rule = grammar_.declare(json_pointer(*schemas[0]));
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
  // Objects and arrays become rules: they may be asked for again, and whoever compiles the grammar builds them once.
  if (n_brackets_ != brackets_before && !known.rule && !is_nothing(expression))
    known.rule = grammar_.declare(json_pointer(*schemas[0]));
  if (known.rule) grammar_.define(*known.rule, expression);
  if (known.rule && !is_nothing(expression)) expression = grammar_.call(*known.rule);
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
  return choice(std::move(options));
}

Expr SchemaTranslator::typed_value(const Schemas& schemas) {
  const Keywords keywords = gather_keywords(schemas);
  if (!keywords.values.empty()) return listed_value(keywords);
  const unsigned types = keywords.chosen_types();
  if (types == kAll && keywords.implied_types == 0) return text_.value();
  if (types == 0) return contradict(*schemas[0], "No type is left that all keywords allow.");
  std::vector<Expr> options;
  if (types & kObject) options.push_back(object(keywords));
  if (types & kArray) options.push_back(array(keywords));
  if (types & kString) options.push_back(string(keywords, true));
  if (types & kNumber) options.push_back(number(keywords, types, *schemas[0]));
  if (types & kBoolean) options.insert(options.end(), {text_.text("true"), text_.text("false")});
  if (types & kNull) options.push_back(text_.text("null"));
  return choice(std::move(options));
}

Expr SchemaTranslator::number(const Keywords& keywords, unsigned types, const SchemaNode& where) {
  NumberLimits limits = keywords.numbers;
  limits.integer = (types & kFraction) == 0;
  const SchemaNode& place = keywords.multiple != nullptr ? *keywords.multiple : where;
  const Expr expression = at(place, [&] { return number_expression(grammar_, limits); });
  return is_nothing(expression) ? contradict(where, "No number lies within the bounds.") : expression;
}

Expr SchemaTranslator::listed_value(const Keywords& keywords) {
  std::vector<Expr> options;
  for (const SchemaNode* value : common_values(keywords)) options.push_back(constant(keywords, *value));
  const Expr all = choice(std::move(options));
  return is_nothing(all) ? contradict(*keywords.values[0].front(),
                                      "None of the listed values is allowed by the other keywords.")
                         : all;
}

/// An object or array stands for the schema that only it is valid under, so that the other keywords apply to its members.
Expr SchemaTranslator::constant(const Keywords& keywords, const SchemaNode& value) {
  if ((keywords.types & type_of(value)) == 0) return grammar_.nothing();
  if (!value.is(Kind::kObject) && !value.is(Kind::kArray))
    return admits_scalar(keywords, value) ? grammar_.literal(scalar_text(value)) : grammar_.nothing();
  Keywords members = keywords;
  members.values.clear();
  if (value.is(Kind::kArray)) return array(with_items_of(std::move(members), value));
  return object(with_members_of(std::move(members), value));
}

Expr SchemaTranslator::choice(std::vector<Expr> options) {
  std::erase_if(options, [&](Expr e) { return is_nothing(e); });
  return grammar_.choice(options);
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

/// Finds the expressions that have a member; intersections and differences are taken to have one. Each expression waits for
/// so many others: all parts of a sequence, one of a choice, the body of a call.
class MemberSearch {
 public:
  explicit MemberSearch(const Grammar& grammar)
      : grammar_(grammar), missing_(grammar.n_nodes()), waiting_(grammar.n_nodes()) {
    for (size_t i = 0; i < grammar.n_nodes(); ++i) add(static_cast<Expr>(i));
    while (!found_.empty()) {
      const Expr expr = found_.back();
      found_.pop_back();
      for (const Expr parent : waiting_[index(expr)])
        if (missing_[index(parent)] > 0 && --missing_[index(parent)] == 0) found_.push_back(parent);
    }
  }
  bool has_member(Expr expr) const { return missing_[index(expr)] == 0; }

 private:
  using NodeKind = Grammar::Node::Kind;
  static size_t index(Expr expr) { return static_cast<size_t>(expr); }

  void add(Expr expr) {
    const Grammar::Node& node = grammar_.node(expr);
    if (node.kind == NodeKind::kCall) {
      wait_for(expr, {grammar_.body(grammar_.callee(node))}, 1);
    } else if (node.kind == NodeKind::kNothing) {
      missing_[index(expr)] = 1;
    } else if (node.kind < NodeKind::kSequence || (node.kind == NodeKind::kRepeat && node.least == 0)) {
      found_.push_back(expr);
    } else {
      const auto parts = grammar_.children(node);
      wait_for(expr, {parts.begin(), parts.end()}, node.kind == NodeKind::kChoice ? 1 : parts.size());
    }
  }

  void wait_for(Expr expr, const std::vector<Expr>& others, size_t n) {
    missing_[index(expr)] = n;
    for (const Expr other : others) waiting_[index(other)].push_back(expr);
  }

  const Grammar& grammar_;
  std::vector<size_t> missing_;
  std::vector<std::vector<Expr>> waiting_;
  std::vector<Expr> found_;
};

/// Refuses values that contain themselves without an end, as a list whose next node is required.
void refuse_endless(const Grammar& grammar) {
  const MemberSearch search(grammar);
  for (size_t i = 0; i < grammar.n_rules(); ++i) {
    const auto rule = static_cast<Grammar::Rule>(i);
    const Expr body = grammar.body(rule);
    if (search.has_member(body) || grammar.node(body).kind == Grammar::Node::Kind::kNothing) continue;
    throw ConstraintError(
        "A value of this schema contains another one of it without an end; let the inner one be missing, or "
        "null.",
        grammar.name(rule).starts_with('#') ? grammar.name(rule) : "#");
  }
}

Expr translated(Grammar& grammar, std::string_view schema_json, const JsonSchemaOptions& options) {
  SchemaDocument document(schema_json);
  SchemaTranslator translator(grammar, document, options);
  const Expr value = translator.value({&document.root()});
  if (grammar.node(value).kind == Grammar::Node::Kind::kNothing) {
    const auto& why = translator.contradiction();
    refuse_schema(
        why ? *why->second : document.root(),
        "No value is valid under the schema. " + (why ? why->first : "What it demands excludes everything."));
  }
  return value;
}

Grammar with_root(Grammar grammar, Expr body) {
  const Grammar::Rule root = grammar.declare("root");
  grammar.define(root, body);
  grammar.set_root(root);
  refuse_endless(grammar);
  return grammar;
}

}  // namespace

Grammar json_schema_grammar(std::string_view schema_json, const JsonSchemaOptions& options) {
  Grammar grammar;
  const Expr value = json_schema_expression(grammar, schema_json, options);
  return with_root(std::move(grammar), value);
}

Expr json_schema_expression(Grammar& grammar, std::string_view schema_json,
                            const JsonSchemaOptions& options) {
  try {
    return translated(grammar, schema_json, options);
  } catch (const ConstraintError& error) {
    if (!error.where().empty()) throw;
    throw ConstraintError(error.what(), "#");  // of the schema as a whole, as that it is too large
  }
}

Grammar json_object_grammar(const JsonSchemaOptions& options) {
  Grammar grammar;
  const Expr object = json_object_expression(grammar, options);
  return with_root(std::move(grammar), object);
}

Expr json_object_expression(Grammar& grammar, const JsonSchemaOptions& options) {
  return JsonText(grammar, options.spacing).object();
}

}  // namespace hearth
