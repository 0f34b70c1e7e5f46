// Reads config.json for conversion. A field is looked up in the config of the model's text part (if there is
// one), then at the top level, then in the defaults of the model's class. KeyList holds the GGUF keys that
// are made from these fields.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/model/gguf/writer.h"

namespace hearth::convert {

class Config {
 public:
  /// file: the contents of config.json. defaults: a JSON text with the default values of the model's class,
  /// or an empty text. label: the text with which error messages begin.
  Config(const nlohmann::json& file, std::string_view defaults, std::string label);

  /// Returns the first of these fields that exists and is not null, or a JSON null if there is none. All
  /// find_* functions throw std::runtime_error (one sentence) if the field's type is not the one that the
  /// function returns. All get_* functions also throw if none of the fields exists.
  const nlohmann::json& field(std::initializer_list<const char*> names) const;
  bool has(const char* name) const { return !field({name}).is_null(); }
  std::optional<int64_t> find_int(std::initializer_list<const char*> names) const;
  std::optional<double> find_number(std::initializer_list<const char*> names) const;
  std::optional<bool> find_bool(const char* name) const;
  std::string find_text(std::initializer_list<const char*> names) const;  // empty if there is none
  int64_t get_int(std::initializer_list<const char*> names) const;
  double get_number(std::initializer_list<const char*> names) const;

  /// RoPE's parameters: rope() for layers with full attention, local_rope() for layers with a window (an
  /// empty object if there are no such layers). Old spellings are converted to new ones: rope_type,
  /// rope_theta, factor, ...
  const nlohmann::json& rope() const { return rope_; }
  const nlohmann::json& local_rope() const { return local_rope_; }
  double rope_number(const char* name, double by_default) const;
  int64_t rope_count(const char* name, int64_t by_default) const;

  int64_t n_layers() const;
  int64_t d_model() const { return get_int({"hidden_size", "n_embd"}); }
  int64_t n_heads() const { return get_int({"num_attention_heads", "n_head"}); }
  int64_t n_kv_heads() const;
  int64_t head_dim() const;
  /// Returns a number that holds for the layers with full attention. Uses the first of these that exists: the
  /// field `name`, the field `by_layer` in per_layer_config of the first such layer, by_default.
  int64_t of_full_layers(const char* name, const char* by_layer, int64_t by_default) const;
  /// The number of dimensions of each head that RoPE rotates.
  int64_t n_rot(double by_default = 1.0) const;

  [[noreturn]] void fail(const std::string& sentence) const;

 private:
  void read_rope();
  nlohmann::json fields_, rope_, local_rope_;
  std::string label_;
};

/// A list of GGUF keys in the order in which they were first set. Setting a key again replaces its value.
class KeyList {
 public:
  using Value =
      std::variant<uint32_t, int32_t, float, bool, std::string, std::vector<std::string>, std::vector<float>,
                   std::vector<int32_t>, std::vector<uint32_t>, std::vector<bool>, std::vector<uint8_t>>;

  explicit KeyList(std::string_view architecture) : prefix_(std::string(architecture) + ".") {}

  /// A key of the architecture.
  void of_model(std::string_view name, Value value) { set(prefix_ + std::string(name), std::move(value)); }
  /// Adds a uint32. Throws std::runtime_error if `value` does not fit one.
  void count(std::string_view name, int64_t value);
  void number(std::string_view name, double value) { of_model(name, static_cast<float>(value)); }
  /// Any key.
  void set(std::string name, Value value);
  void remove(std::string_view name);  // a key of the architecture
  const Value* find(std::string_view name) const;

  void write(gguf::Writer& writer) const;

 private:
  std::string prefix_;
  std::vector<std::pair<std::string, Value>> keys_;
};

/// The keys that nearly all architectures have.
void add_common_keys(const Config& config, KeyList& keys);

}  // namespace hearth::convert
