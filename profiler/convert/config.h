// config.json as conversion reads it: a model's own fields first, then those of its text part, then its class' defaults;
// and the list of keys that come of it.
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
  /// text: a class' defaults, JSON or empty. label: begins messages.
  Config(const nlohmann::json& file, std::string_view defaults, std::string label);

  /// The first of these fields that is there and not null; null if none is. find_* throw std::runtime_error (one sentence)
  /// if a field has another type, and get_* also if none is there.
  const nlohmann::json& field(std::initializer_list<const char*> names) const;
  bool has(const char* name) const { return !field({name}).is_null(); }
  std::optional<int64_t> find_int(std::initializer_list<const char*> names) const;
  std::optional<double> find_number(std::initializer_list<const char*> names) const;
  std::optional<bool> find_bool(const char* name) const;
  std::string find_text(std::initializer_list<const char*> names) const;  // empty if none is there
  int64_t get_int(std::initializer_list<const char*> names) const;
  double get_number(std::initializer_list<const char*> names) const;

  /// RoPE's parameters: of the layers that see everything, and of those with a window (an empty object if there are none).
  /// Old and new spellings are made one: rope_type, rope_theta, factor, ...
  const nlohmann::json& rope() const { return rope_; }
  const nlohmann::json& local_rope() const { return local_rope_; }
  double rope_number(const char* name, double by_default) const;
  int64_t rope_count(const char* name, int64_t by_default) const;

  int64_t n_layers() const;
  int64_t d_model() const { return get_int({"hidden_size", "n_embd"}); }
  int64_t n_heads() const { return get_int({"num_attention_heads", "n_head"}); }
  int64_t n_kv_heads() const;
  int64_t head_dim() const;
  /// Of each head's dimensions, those that turn.
  int64_t n_rot(double by_default = 1.0) const;

  [[noreturn]] void fail(const std::string& sentence) const;

 private:
  void read_rope();
  nlohmann::json fields_, rope_, local_rope_;
  std::string label_;
};

/// Keys in the order in which they were set first. A key that is set again changes its value.
class KeyList {
 public:
  using Value =
      std::variant<uint32_t, int32_t, float, bool, std::string, std::vector<std::string>, std::vector<float>,
                   std::vector<int32_t>, std::vector<uint32_t>, std::vector<bool>, std::vector<uint8_t>>;

  explicit KeyList(std::string_view architecture) : prefix_(std::string(architecture) + ".") {}

  /// A key of the architecture.
  void of_model(std::string_view name, Value value) { set(prefix_ + std::string(name), std::move(value)); }
  void count(std::string_view name, int64_t value);  // as uint32; throws std::runtime_error if it is none
  void number(std::string_view name, double value) { of_model(name, static_cast<float>(value)); }
  /// Any key.
  void set(std::string name, Value value);
  void remove(std::string_view name);  // of the architecture
  const Value* find(std::string_view name) const;

  void write(gguf::Writer& writer) const;

 private:
  std::string prefix_;
  std::vector<std::pair<std::string, Value>> keys_;
};

/// The keys that nearly all architectures have.
void add_common_keys(const Config& config, KeyList& keys);

}  // namespace hearth::convert
