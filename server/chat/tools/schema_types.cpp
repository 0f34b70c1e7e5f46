#include "server/chat/tools/schema_types.h"

#include <string>

namespace hearth {
namespace {

using namespace admitted;

constexpr int kMostReferences = 32, kMostSchemas = 1000;

unsigned type_named(const Json& name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer" || name == "number") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  return name == "object" ? kObject : 0;
}

class TypeReader {
 public:
  explicit TypeReader(const Json& root) : root_(&root) {}

  unsigned types(const Json& schema, int depth) {
    if (!schema.is_object() || depth > kMostReferences || ++n_read_ > kMostSchemas) return kAll;
    unsigned found = named(schema);
    if (const Json* value = member(schema, "const")) found &= type_of_value(*value);
    if (const Json* values = member(schema, "enum"); values != nullptr && values->is_array()) {
      unsigned listed = 0;
      for (const Json& value : *values) listed |= type_of_value(value);
      found &= listed;
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const Json* options = member(schema, keyword);
      if (options == nullptr || !options->is_array()) continue;
      unsigned any = 0;
      for (const Json& option : *options) any |= types(option, depth + 1);
      found &= any;
    }
    if (const Json* all = member(schema, "allOf"); all != nullptr && all->is_array()) {
      for (const Json& one : *all) found &= types(one, depth + 1);
    }
    if (const Json* target = referred(schema)) found &= types(*target, depth + 1);
    return found;
  }

 private:
  static const Json* member(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }

  /// The types that the keywords type and nullable name.
  static unsigned named(const Json& schema) {
    const Json* type = member(schema, "type");
    if (type == nullptr) return kAll;
    unsigned found = 0;
    if (type->is_array()) {
      for (const Json& name : *type) found |= type_named(name);
    } else {
      found = type_named(*type);
    }
    const Json* nullable = member(schema, "nullable");
    return nullable != nullptr && *nullable == true ? found | kNull : found;
  }

  const Json* referred(const Json& schema) const {
    const Json* reference = member(schema, "$ref");
    if (reference == nullptr || !reference->is_string()) return nullptr;
    const std::string& text = reference->get_ref<const std::string&>();
    if (!text.starts_with('#')) return nullptr;
    try {
      const Json::json_pointer pointer(text.substr(1));
      return root_->contains(pointer) ? &root_->at(pointer) : nullptr;
    } catch (const Json::exception&) {
      return nullptr;  // not a pointer
    }
  }

  const Json* root_;
  int n_read_ = 0;
};

}  // namespace

unsigned admitted_types(const Json& root, const Json& schema) { return TypeReader(root).types(schema, 0); }

unsigned type_of_value(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number()) return kNumber;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

}  // namespace hearth
