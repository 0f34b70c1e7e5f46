#include "engine/constraint/schema/document.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "engine/constraint/schema/numbers/decimal.h"

namespace hearth {

/// Builds the tree from the JSON library's events.
class SchemaDocument::Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(SchemaDocument& document) : document_(document) {}

  bool null() override {
    add(Kind::kNull);
    return true;
  }
  bool boolean(bool value) override {
    add(Kind::kBoolean).truth = value;
    return true;
  }
  bool number_integer(number_integer_t value) override { return number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return number(text); }
  bool string(string_t& value) override {
    add(Kind::kString).text = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Kind::kObject); }
  bool start_array(size_t) override { return open(Kind::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!open_.back().names.insert(name).second)
      refuse_schema(*open_.back().node, "The name \"" + name + "\" occurs twice in this object; keep one.");
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    throw ConstraintError(
        error.id == kOutOfRange
            ? "A number of the schema, before byte " + std::to_string(position) + ", is too large; lower it."
            : "The schema is not valid JSON at byte " + std::to_string(position) + "; correct it.",
        "");
  }

 private:
  using Kind = SchemaNode::Kind;
  struct Open {
    SchemaNode* node;
    std::unordered_set<std::string> names{};
  };

  SchemaNode& add(Kind kind) {
    SchemaNode* parent = open_.empty() ? nullptr : open_.back().node;
    const bool in_array = parent != nullptr && parent->is(Kind::kArray);
    SchemaNode& node =
        document_.add(kind, parent, in_array ? std::to_string(parent->children.size()) : std::move(key_));
    if (parent != nullptr)
      parent->children.push_back(&node);
    else
      document_.root_ = &node;
    return node;
  }

  bool number(std::string text) {
    add(Kind::kNumber).text = std::move(text);
    return true;
  }

  bool open(Kind kind) {
    SchemaNode& node = add(kind);
    if (open_.size() >= kMaxDepth)
      throw ConstraintError(
          "The schema is nested more than " + std::to_string(kMaxDepth) + " deep; nest it less.", "");
    open_.push_back({&node});
    return true;
  }

  bool close() {
    for (const SchemaNode* child : open_.back().node->children) open_.back().node->n_nodes += child->n_nodes;
    open_.pop_back();
    return true;
  }

  SchemaDocument& document_;
  std::vector<Open> open_;
  std::string key_;
};

namespace {

using Kind = SchemaNode::Kind;

/// Decodes %XX to bytes. Returns nullopt if a % is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view hex = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16);
    if (hex.size() != 2 || error != std::errc() || end != hex.data() + 2) return {};
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

/// Replaces ~1 by '/' and ~0 by '~' in one part of a JSON pointer.
std::string unescaped_part(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool is_escape =
        part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1');
    out += !is_escape ? part[i] : part[++i] == '1' ? '/' : '~';
  }
  return out;
}

/// Returns the items of an array in document order, or the members of an object sorted by name.
std::vector<const SchemaNode*> in_order(const SchemaNode& node) {
  std::vector<const SchemaNode*> children = node.children;
  if (node.is(Kind::kObject)) std::ranges::sort(children, {}, &SchemaNode::key);
  return children;
}

constexpr size_t kShortPointer = 200;

}  // namespace

std::string json_pointer(const SchemaNode& node) {
  std::vector<const SchemaNode*> way;
  for (const SchemaNode* at = &node; at->parent != nullptr; at = at->parent) way.push_back(at);
  std::string pointer = "#";
  for (auto at = way.rbegin(); at != way.rend(); ++at) {
    pointer += '/';
    for (const char c : (*at)->key) pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return pointer;
}

std::string short_pointer(const SchemaNode& node) {
  size_t size = 0;
  for (const SchemaNode* at = &node; at != nullptr; at = at->parent) size += 1 + at->key.size();
  return size <= kShortPointer ? json_pointer(node) : "#/...";
}

bool same_value(const SchemaNode& a, const SchemaNode& b) {
  if (a.kind != b.kind || a.n_nodes != b.n_nodes || a.truth != b.truth) return false;
  if (a.is(Kind::kNumber)) {
    const auto x = parse_decimal(a.text), y = parse_decimal(b.text);
    return x && y ? *x == *y : a.text == b.text;
  }
  const auto same_part = [&](const SchemaNode* x, const SchemaNode* y) {
    return (a.is(Kind::kArray) || x->key == y->key) && same_value(*x, *y);
  };
  return a.text == b.text && std::ranges::equal(in_order(a), in_order(b), same_part);
}

SchemaDocument::SchemaDocument(std::string_view json) {
  if (json.size() > kMaxBytes)
    throw ConstraintError("The schema has " + std::to_string(json.size()) + " bytes, more than " +
                              std::to_string(kMaxBytes) + "; make it smaller.",
                          "");
  Reader reader(*this);
  nlohmann::json::sax_parse(json, &reader);
  note_anchors();
}

SchemaNode& SchemaDocument::add(SchemaNode::Kind kind, const SchemaNode* parent, std::string key) {
  return nodes_.emplace_back(SchemaNode{.kind = kind, .key = std::move(key), .parent = parent});
}

void SchemaDocument::note_anchors() {
  for (const SchemaNode& node : nodes_) {
    if (!node.is(Kind::kString) || node.parent == nullptr) continue;
    if (node.key == "$anchor") anchors_.emplace(node.text, node.parent);
    // In drafts up to 7, an $id that begins with '#' defines an anchor.
    if (node.key == "$id" && node.text.starts_with('#') && !node.text.starts_with("#/"))
      anchors_.emplace(node.text.substr(1), node.parent);
  }
}

const SchemaNode* SchemaDocument::member(const SchemaNode& node, std::string_view name) {
  auto& index = indexes_[&node];
  if (index.empty())
    for (const SchemaNode* child : node.children) index.emplace(child->key, child);
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const SchemaNode* SchemaDocument::follow(std::string_view pointer) {
  const SchemaNode* node = root_;
  while (node != nullptr && !pointer.empty()) {
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    node = member(*node, unescaped_part(pointer.substr(1, end - 1)));
    pointer.remove_prefix(end);
  }
  return node;
}

const SchemaNode* SchemaDocument::find(std::string_view reference) {
  const SchemaNode* id = root_->is(Kind::kObject) ? member(*root_, "$id") : nullptr;
  if (id != nullptr && id->is(Kind::kString) && !id->text.empty() && reference.starts_with(id->text))
    reference.remove_prefix(id->text.size());
  if (reference.empty()) return root_;
  if (reference[0] != '#') return nullptr;
  const std::optional<std::string> fragment = percent_decoded(reference.substr(1));
  if (!fragment) return nullptr;
  if (fragment->empty() || (*fragment)[0] == '/') return follow(*fragment);
  const auto anchor = anchors_.find(*fragment);
  return anchor == anchors_.end() ? nullptr : anchor->second;
}

void refuse_schema(const SchemaNode& node, const std::string& sentence) {
  throw ConstraintError(sentence, json_pointer(node));
}

}  // namespace hearth
