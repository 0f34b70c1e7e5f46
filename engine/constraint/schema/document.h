// A JSON schema as a tree. Each node has its location, and numbers are stored as written.
//
// Limits on bytes, depth and values are checked before the tree is built. Used by the files around
// json_schema.h. One thread.
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
  bool truth = false;                         // value of kBoolean
  std::string text{};                         // a string's characters; a number as written
  std::vector<const SchemaNode*> children{};  // for kArray and kObject, in order
  std::string key{};                          // name or index of this node in the parent
  const SchemaNode* parent = nullptr;

  size_t n_nodes = 1;  // number of nodes in this subtree, including this one

  bool is(Kind k) const { return kind == k; }
};

/// The location of the node: "#/properties/age".
std::string json_pointer(const SchemaNode& node);
/// Like json_pointer(), but returns the text "#/..." instead of a long pointer. Used to name grammar rules;
/// names must be short because a schema can have many rules.
std::string short_pointer(const SchemaNode& node);

/// Whether two nodes are equal JSON values: 1 equals 1.0, and the order of an object's members does not
/// matter. Takes about a.n_nodes steps.
bool same_value(const SchemaNode& a, const SchemaNode& b);

class SchemaDocument {
 public:
  static constexpr size_t kMaxBytes = 512 << 10;
  static constexpr size_t kMaxDepth = 256;

  /// Throws ConstraintError if the text is not JSON, if it is too large or too deep, or if two members of an
  /// object have equal names.
  explicit SchemaDocument(std::string_view json);

  const SchemaNode& root() const { return *root_; }
  /// Returns the node to which a reference within the document points ("#", "#/$defs/x", "#anchor"); null if
  /// there is none.
  const SchemaNode* find(std::string_view reference);
  /// Returns the member of an object by its name, or the item of an array by its index; null if there is
  /// none.
  const SchemaNode* member(const SchemaNode& node, std::string_view name);
  /// Creates a node that is not in the document. Its location is that of a member of `parent` named `key`.
  /// This object owns the node.
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
