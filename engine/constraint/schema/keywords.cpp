#include "engine/constraint/schema/keywords.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace hearth {
namespace {

using Kind = SchemaNode::Kind;
using namespace json_type;

const SchemaNode& must_be(const SchemaNode& value, Kind kind, const char* what) {
  if (!value.is(kind)) refuse_schema(value, "\"" + value.key + "\" must be " + what + ".");
  return value;
}

const SchemaNode& must_be_schema(const SchemaNode& value) {
  if (!value.is(Kind::kObject) && !value.is(Kind::kBoolean))
    refuse_schema(value, "A schema must be an object, true or false.");
  return value;
}

Decimal number_of(const SchemaNode& value) {
  const auto number = parse_decimal(must_be(value, Kind::kNumber, "a number").text);
  if (!number)
    refuse_schema(value,
                  "The number has too many digits, or its exponent is beyond 400; write a shorter one.");
  return *number;
}

int count_of(const SchemaNode& value) {
  const Decimal number = number_of(value);
  if (number.negative || !number.is_integer())
    refuse_schema(value, "\"" + value.key + "\" must be an integer of at least 0.");
  return static_cast<int>(std::min<int64_t>(scaled(number, 0).value_or(INT32_MAX), INT32_MAX));
}

template <int kMost>
void raise_count(CountLimits& limits, const SchemaNode& value) {
  limits.least = std::max(limits.least, count_of(value));
  if (limits.least > kMost)
    refuse_schema(value, "\"" + value.key + "\" is above " + std::to_string(kMost) +
                             ", the most that is supported; lower it.");
}

template <int kMost>
void lower_count(CountLimits& limits, const SchemaNode& value) {
  limits.most = std::min(limits.most.value_or(kMost), count_of(value));
}

unsigned type_named(const SchemaNode& name) {
  static const std::unordered_map<std::string_view, unsigned> kTypes{
      {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber},
      {"string", kString}, {"array", kArray},     {"object", kObject}};
  const auto found = kTypes.find(must_be(name, Kind::kString, "the name of a type").text);
  if (found == kTypes.end())
    refuse_schema(
        name,
        "\"" + name.text +
            "\" is not a type; the types are null, boolean, integer, number, string, array and object.");
  return found->second;
}

unsigned types_named(const SchemaNode& value) {
  if (!value.is(Kind::kArray)) return type_named(value);
  unsigned types = 0;
  for (const SchemaNode* name : value.children) types |= type_named(*name);
  return types;
}

/// Merges the keywords of several schemas, one schema after the other.
class Gatherer {
 public:
  void read(const SchemaNode& schema) {
    object_ = {};
    array_ = {};
    old_prefix_ = additional_items_ = nullptr;
    for (const SchemaNode* keyword : schema.children) read_keyword(*keyword);
    if (old_prefix_ != nullptr && array_.has_prefix)
      refuse_schema(*old_prefix_, "\"items\" is a list beside \"prefixItems\"; write one of them.");
    if (old_prefix_ != nullptr)
      array_ = {.prefix = old_prefix_->children, .rest = additional_items_, .has_prefix = true};
    if (object_.properties != nullptr || object_.patterns != nullptr || object_.additional != nullptr)
      all_.objects.push_back(object_);
    if (array_.has_prefix || array_.rest != nullptr) all_.arrays.push_back(array_);
  }

  Keywords take() { return std::move(all_); }

 private:
  using Handler = void (Gatherer::*)(const SchemaNode&);

  void read_keyword(const SchemaNode& value) {
    static const std::unordered_map<std::string_view, Handler> kHandlers = handlers();
    if (value.key.starts_with("x-")) return;
    const auto found = kHandlers.find(value.key);
    if (found == kHandlers.end())
      refuse_schema(
          value, "\"" + value.key +
                     "\" is not a known keyword; correct it, or begin its name with \"x-\" if it is a note.");
    (this->*found->second)(value);
  }

  static std::unordered_map<std::string_view, Handler> handlers() {
    std::unordered_map<std::string_view, Handler> all{
        {"type", &Gatherer::type},
        {"nullable", &Gatherer::nullable},
        {"const", &Gatherer::constant},
        {"enum", &Gatherer::enumeration},
        {"not", &Gatherer::negation},
        {"minimum", &Gatherer::minimum},
        {"maximum", &Gatherer::maximum},
        {"exclusiveMinimum", &Gatherer::exclusive_minimum},
        {"exclusiveMaximum", &Gatherer::exclusive_maximum},
        {"multipleOf", &Gatherer::multiple_of},
        {"minLength", &Gatherer::min_length},
        {"maxLength", &Gatherer::max_length},
        {"pattern", &Gatherer::pattern},
        {"format", &Gatherer::format},
        {"properties", &Gatherer::properties},
        {"patternProperties", &Gatherer::pattern_properties},
        {"additionalProperties", &Gatherer::additional_properties},
        {"propertyNames", &Gatherer::property_names},
        {"required", &Gatherer::required},
        {"minProperties", &Gatherer::min_properties},
        {"maxProperties", &Gatherer::max_properties},
        {"prefixItems", &Gatherer::prefix_items},
        {"items", &Gatherer::items},
        {"additionalItems", &Gatherer::additional_items},
        {"minItems", &Gatherer::min_items},
        {"maxItems", &Gatherer::max_items},
        {"uniqueItems", &Gatherer::unique_items},
        {"$id", &Gatherer::identifier},
        {"id", &Gatherer::identifier}};
    // Keywords that are handled elsewhere, or that describe the value without restricting it.
    for (const char* name : {"$ref",
                             "allOf",
                             "anyOf",
                             "oneOf",
                             "$defs",
                             "definitions",
                             "$anchor",
                             "$schema",
                             "$comment",
                             "$vocabulary",
                             "title",
                             "description",
                             "default",
                             "example",
                             "examples",
                             "deprecated",
                             "readOnly",
                             "writeOnly",
                             "contentEncoding",
                             "contentMediaType",
                             "contentSchema",
                             "discriminator",
                             "externalDocs",
                             "xml",
                             "markdownDescription"})
      all[name] = &Gatherer::nothing_said;
    for (const char* name :
         {"if", "then", "else", "contains", "minContains", "maxContains", "dependencies", "dependentRequired",
          "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
          "$dynamicAnchor", "$recursiveAnchor"})
      all[name] = &Gatherer::refused;
    return all;
  }

  void nothing_said(const SchemaNode&) {}
  void refused(const SchemaNode& value) {
    refuse_schema(
        value, "\"" + value.key +
                   "\" is not supported; say it with other keywords, for instance anyOf, or leave it out.");
  }
  void identifier(const SchemaNode& value) {
    const bool is_root = value.parent->parent == nullptr;
    if (value.key == "$id" && !is_root && !must_be(value, Kind::kString, "a text").text.starts_with('#'))
      refuse_schema(value,
                    "A schema inside another one may not have its own address; leave its \"$id\" out.");
  }

  void type(const SchemaNode& value) {
    unsigned types = types_named(value);
    for (const SchemaNode* other : value.parent->children)
      if (other->key == "nullable" && other->truth) types |= kNull;
    all_.types &= types;
    all_.is_typed = true;
  }
  /// OpenAPI's keyword, which adds null to the types beside it.
  void nullable(const SchemaNode& value) { must_be(value, Kind::kBoolean, "true or false"); }
  void constant(const SchemaNode& value) { all_.values.push_back({&value}); }
  void enumeration(const SchemaNode& value) {
    if (must_be(value, Kind::kArray, "a list of values").children.empty())
      refuse_schema(value, "\"enum\" must list at least one value.");
    all_.values.push_back(value.children);
  }

  /// Supports only two forms of `not`: a schema whose only keyword is "type", and a schema that allows every
  /// value or no value.
  void negation(const SchemaNode& value) {
    must_be_schema(value);
    const bool is_all = value.is(Kind::kBoolean) ? value.truth : value.children.empty();
    if (value.is(Kind::kBoolean) || is_all) {
      if (is_all) all_.types = 0;
      return;
    }
    if (value.children.size() != 1 || value.children[0]->key != "type")
      refuse_schema(value, "\"not\" is supported only with a type alone in it; say what is allowed instead.");
    const unsigned excluded = types_named(*value.children[0]);
    if ((excluded & kNumber) == kInteger)
      refuse_schema(value, "Numbers other than integers cannot be enforced.");
    all_.types &= ~excluded;
  }

  void minimum(const SchemaNode& value) { least(value, true); }
  void maximum(const SchemaNode& value) { most(value, true); }
  void exclusive_minimum(const SchemaNode& value) { least(exclusive(value), false); }
  void exclusive_maximum(const SchemaNode& value) { most(exclusive(value), false); }
  /// Requires a number. Refuses the booleans that draft 4 uses for exclusiveMinimum and exclusiveMaximum.
  static const SchemaNode& exclusive(const SchemaNode& value) {
    return must_be(value, Kind::kNumber, "a number: the bound itself, which stays out");
  }
  void least(const SchemaNode& value, bool inclusive) {
    all_.numbers.raise_least({number_of(value), inclusive});
    all_.implied_types |= kNumber;
  }
  void most(const SchemaNode& value, bool inclusive) {
    all_.numbers.lower_most({number_of(value), inclusive});
    all_.implied_types |= kNumber;
  }
  void multiple_of(const SchemaNode& value) {
    const Decimal step = number_of(value);
    if (step.negative || step.is_zero()) refuse_schema(value, "\"multipleOf\" must be above 0.");
    all_.numbers.multiples_of.push_back(step);
    all_.multiple = &value;
    all_.implied_types |= kNumber;
  }

  void min_length(const SchemaNode& value) {
    count(value, all_.length, kString, raise_count<CountLimits::kMaxCount>);
    all_.min_length = &value;
  }
  void max_length(const SchemaNode& value) {
    count(value, all_.length, kString, lower_count<CountLimits::kMaxCount>);
  }
  void min_properties(const SchemaNode& value) {
    count(value, all_.properties, kObject, raise_count<CountLimits::kMaxMembers>);
  }
  void max_properties(const SchemaNode& value) {
    count(value, all_.properties, kObject, lower_count<CountLimits::kMaxMembers>);
  }
  void min_items(const SchemaNode& value) {
    count(value, all_.items, kArray, raise_count<CountLimits::kMaxCount>);
  }
  void max_items(const SchemaNode& value) {
    count(value, all_.items, kArray, lower_count<CountLimits::kMaxCount>);
  }
  void count(const SchemaNode& value, CountLimits& limits, unsigned type,
             void (*change)(CountLimits&, const SchemaNode&)) {
    change(limits, value);
    all_.implied_types |= type;
  }

  void pattern(const SchemaNode& value) {
    all_.patterns.push_back(&must_be(value, Kind::kString, "a regular expression"));
    all_.implied_types |= kString;
  }
  /// OpenAPI's number formats are ranges; all other formats apply to strings.
  void format(const SchemaNode& value) {
    const std::string& name = must_be(value, Kind::kString, "a text").text;
    static const std::unordered_map<std::string_view, std::pair<const char*, const char*>> kRanges{
        {"int8", {"-128", "127"}},
        {"int16", {"-32768", "32767"}},
        {"int32", {"-2147483648", "2147483647"}},
        {"int64", {"-9223372036854775808", "9223372036854775807"}},
        {"uint8", {"0", "255"}},
        {"uint16", {"0", "65535"}},
        {"uint32", {"0", "4294967295"}},
        {"uint64", {"0", "18446744073709551615"}}};
    const auto range = kRanges.find(name);
    if (range != kRanges.end()) {
      all_.numbers.raise_least({*parse_decimal(range->second.first), true});
      all_.numbers.lower_most({*parse_decimal(range->second.second), true});
    }
    if (range != kRanges.end() || name == "float" || name == "double") {
      all_.number_format = &value;
      all_.implied_types |= kNumber;
      return;
    }
    all_.formats.push_back(&value);
    all_.implied_types |= kString;
  }

  void properties(const SchemaNode& value) {
    for (const SchemaNode* schema : must_be(value, Kind::kObject, "an object of schemas").children)
      must_be_schema(*schema);
    object_.properties = &value;
    all_.implied_types |= kObject;
  }
  void pattern_properties(const SchemaNode& value) {
    for (const SchemaNode* schema : must_be(value, Kind::kObject, "an object of schemas").children)
      must_be_schema(*schema);
    object_.patterns = &value;
    all_.implied_types |= kObject;
  }
  void additional_properties(const SchemaNode& value) {
    object_.additional = &must_be_schema(value);
    all_.implied_types |= kObject;
  }
  void property_names(const SchemaNode& value) {
    all_.names.push_back(&must_be_schema(value));
    all_.implied_types |= kObject;
  }
  void required(const SchemaNode& value) {
    for (const SchemaNode* name : must_be(value, Kind::kArray, "a list of names").children) {
      must_be(*name, Kind::kString, "a property's name");
      if (required_.insert(name->text).second) all_.required.push_back(name);
    }
    all_.implied_types |= kObject;
  }

  void prefix_items(const SchemaNode& value) {
    for (const SchemaNode* schema : must_be(value, Kind::kArray, "a list of schemas").children)
      must_be_schema(*schema);
    array_.prefix = value.children;
    array_.has_prefix = true;
    all_.implied_types |= kArray;
  }
  /// In drafts before 2020-12, `items` may be a list of schemas, with the meaning of prefixItems.
  void items(const SchemaNode& value) {
    all_.implied_types |= kArray;
    if (value.is(Kind::kArray)) {
      for (const SchemaNode* schema : value.children) must_be_schema(*schema);
      old_prefix_ = &value;
    } else {
      array_.rest = &must_be_schema(value);
    }
  }
  void additional_items(const SchemaNode& value) { additional_items_ = &must_be_schema(value); }
  void unique_items(const SchemaNode& value) {
    if (must_be(value, Kind::kBoolean, "true or false").truth) all_.unique = &value;
    all_.implied_types |= kArray;
  }

  Keywords all_;
  ObjectPart object_;
  ArrayPart array_;
  const SchemaNode *old_prefix_ = nullptr, *additional_items_ = nullptr;
  std::unordered_set<std::string_view> required_;
};

}  // namespace

unsigned type_of(const SchemaNode& value) {
  switch (value.kind) {
    case Kind::kNull:
      return kNull;
    case Kind::kBoolean:
      return kBoolean;
    case Kind::kString:
      return kString;
    case Kind::kArray:
      return kArray;
    case Kind::kObject:
      return kObject;
    case Kind::kNumber:
      break;
  }
  const auto number = parse_decimal(value.text);
  return number && number->is_integer() ? kInteger : kFraction;
}

unsigned Keywords::chosen_types() const {
  return is_typed || implied_types == 0 ? types : types & implied_types;
}

Keywords gather_keywords(const Schemas& schemas) {
  Gatherer gatherer;
  for (const SchemaNode* schema : schemas) gatherer.read(*schema);
  return gatherer.take();
}

}  // namespace hearth
