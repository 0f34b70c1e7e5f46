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

  bool is(Kind k) const { return kind == k; }
  /// The member of an object, or null.
  const SchemaNode* find(std::string_view name) const;
};

/// Where the node stands: "#/properties/age".
std::string json_pointer(const SchemaNode& node);

/// Are these the same JSON value? 1 is 1.0; objects have no order.
bool same_value(const SchemaNode& a, const SchemaNode& b);

class SchemaDocument {
 public:
  static constexpr size_t kMaxBytes = 512 << 10;
  static constexpr size_t kMaxDepth = 256;

  /// Throws ConstraintError if the text is no JSON, is too large or too deep, or has a name twice in one object.
  explicit SchemaDocument(std::string_view json);

  const SchemaNode& root() const { return *root_; }
  /// What a reference within the document points to ("#", "#/$defs/x", "#anchor"); null if nothing is there.
  const SchemaNode* find(std::string_view reference) const;
  /// A node beside the document, standing where parent's member of that name would. The document owns it.
  SchemaNode& add(SchemaNode::Kind kind, const SchemaNode* parent, std::string key);

 private:
  class Reader;

  void note_anchors();

  std::deque<SchemaNode> nodes_;
  const SchemaNode* root_ = nullptr;
  std::unordered_map<std::string, const SchemaNode*> anchors_;
};

[[noreturn]] void refuse_schema(const SchemaNode& node, const std::string& sentence);

}  // namespace hearth
