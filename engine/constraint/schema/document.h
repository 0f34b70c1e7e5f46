// A JSON schema as a tree that remembers where each part stands, with numbers as they are written.
//
// Parsing is bounded before anything is built: bytes, depth, and values. Used by the files around json_schema.h. One thread.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/constraint/grammar/grammar.h"

namespace hearth {

struct SchemaNode {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool truth = false;                         // of kBoolean
  std::string text{};                         // a string's characters; a number as it is written
  std::vector<const SchemaNode*> children{};  // of kArray and kObject, in order
  std::string key{};                          // the name or index that the parent has it by
  const SchemaNode* parent = nullptr;

  size_t n_nodes = 1;  // it and all below it

  bool is(Kind k) const { return kind == k; }
};

/// Where the node stands: "#/properties/age".
std::string json_pointer(const SchemaNode& node);
/// The same for names of rules, of which there are many: "#/..." if it is long.
std::string short_pointer(const SchemaNode& node);

/// Are these the same JSON value? 1 is 1.0; objects have no order. Takes about a.n_nodes steps.
bool same_value(const SchemaNode& a, const SchemaNode& b);

class SchemaDocument {
 public:
  static constexpr size_t kMaxBytes = 512 << 10;
  static constexpr size_t kMaxDepth = 256;

  /// Throws ConstraintError if the text is no JSON, is too large or too deep, or has a name twice in one object.
  explicit SchemaDocument(std::string_view json);

  const SchemaNode& root() const { return *root_; }
  /// What a reference within the document points to ("#", "#/$defs/x", "#anchor"); null if nothing is there.
  const SchemaNode* find(std::string_view reference);
  /// The member of an object, or the item of an array by its index; null if there is none.
  const SchemaNode* member(const SchemaNode& node, std::string_view name);
  /// A node beside the document, standing where parent's member of that name would. The document owns it.
  SchemaNode& add(SchemaNode::Kind kind, const SchemaNode* parent, std::string key);

 private:
  class Reader;

  void note_anchors();
  const SchemaNode* follow(std::string_view pointer);

  std::deque<SchemaNode> nodes_;
  const SchemaNode* root_ = nullptr;
  std::unordered_map<std::string, const SchemaNode*> anchors_;
  std::unordered_map<const SchemaNode*, std::unordered_map<std::string_view, const SchemaNode*>> indexes_;
};

[[noreturn]] void refuse_schema(const SchemaNode& node, const std::string& sentence);

}  // namespace hearth
