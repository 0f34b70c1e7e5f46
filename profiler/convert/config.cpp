// Reads config.json's fields, and adds the common keys.
#include "profiler/convert/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/base/file_error.h"

namespace hearth::convert {

using nlohmann::json;

namespace {

const json kNull;

/// The fields in which a model with images or sound keeps the config of its text part.
constexpr const char* kTextParts[] = {"text_config", "llm_config", "language_config"};

void add_missing(json& into, const json& from) {
  for (const auto& [name, value] : from.items()) {
    if (!into.contains(name) || into[name].is_null()) into[name] = value;
  }
}

std::string joined(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : " or ") + std::string(name);
  return text;
}

}  // namespace

Config::Config(const json& file, std::string_view defaults, std::string label) : label_(std::move(label)) {
  fields_ = file;
  for (const char* part : kTextParts) {
    if (!file.contains(part) || !file[part].is_object()) continue;
    fields_ = file[part];
    add_missing(fields_, file);
  }
  if (!defaults.empty()) add_missing(fields_, json::parse(defaults));
  read_rope();
}

void Config::fail(const std::string& sentence) const {
  throw std::runtime_error(label_ + ": config.json: " + sentence);
}

const json& Config::field(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    const auto found = fields_.find(name);
    if (found != fields_.end() && !found->is_null()) return *found;
  }
  return kNull;
}

std::optional<int64_t> Config::find_int(std::initializer_list<const char*> names) const {
  const json& found = field(names);
  if (found.is_null()) return std::nullopt;
  if (!found.is_number_integer() || found.get<double>() < -1 || found.get<double>() > 4294967295.0) {
    fail(joined(names) + " is " + file_error::quoted(found.dump()) +
         ", expected a whole number; other models of its family have one.");
  }
  return found.get<int64_t>();
}

std::optional<double> Config::find_number(std::initializer_list<const char*> names) const {
  const json& found = field(names);
  if (found.is_null()) return std::nullopt;
  if (!found.is_number() || std::abs(found.get<double>()) > std::numeric_limits<float>::max()) {
    fail(joined(names) + " is " + file_error::quoted(found.dump()) +
         ", expected a number; other models of its family have one.");
  }
  return found.get<double>();
}

std::optional<bool> Config::find_bool(const char* name) const {
  const json& found = field({name});
  return found.is_boolean() ? std::optional<bool>(found.get<bool>()) : std::nullopt;
}

std::string Config::find_text(std::initializer_list<const char*> names) const {
  const json& found = field(names);
  return found.is_string() ? found.get<std::string>() : "";
}

int64_t Config::get_int(std::initializer_list<const char*> names) const {
  const std::optional<int64_t> found = find_int(names);
  if (!found)
    fail(joined(names) + " is missing, expected a number; the file is incomplete: download it again.");
  return *found;
}

double Config::get_number(std::initializer_list<const char*> names) const {
  const std::optional<double> found = find_number(names);
  if (!found)
    fail(joined(names) + " is missing, expected a number; the file is incomplete: download it again.");
  return *found;
}

int64_t Config::n_layers() const {
  constexpr int64_t kMost = 1 << 16;  // far beyond any model
  const json& blocks = field({"layers_block_type"});
  const bool is_listed = !has("num_hidden_layers") && blocks.is_array();
  const int64_t n = is_listed ? static_cast<int64_t>(blocks.size())
                              : get_int({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  if (n < 1 || n > kMost)
    fail("num_hidden_layers is " + std::to_string(n) + ", expected a number of layers.");
  return n;
}

int64_t Config::n_kv_heads() const {
  return find_int({"num_key_value_heads", "n_head_kv", "num_kv_heads"}).value_or(n_heads());
}

int64_t Config::head_dim() const {
  const int64_t heads = n_heads();
  if (heads < 1) fail("num_attention_heads is " + std::to_string(heads) + ", expected at least 1.");
  constexpr int64_t kMost = 1 << 16;  // far beyond any model
  const int64_t n = find_int({"head_dim"}).value_or(d_model() / heads);
  if (n < 2 || n > kMost) {
    fail("head_dim is " + std::to_string(n) + ", expected from 2 to " + std::to_string(kMost) +
         "; the file is damaged.");
  }
  return n;
}

int64_t Config::of_full_layers(const char* name, const char* by_layer, int64_t by_default) const {
  int64_t n = find_int({name}).value_or(by_default);
  const json& types = field({"layer_types"});
  const json& layers = field({"per_layer_config"});
  for (size_t i = 0; !has(name) && types.is_array() && layers.is_object() && i < types.size(); ++i) {
    if (types[i] != "full_attention") continue;
    const auto layer = layers.find(std::to_string(i));
    if (layer == layers.end() || !layer->is_object() || !layer->contains(by_layer)) break;
    const json& number = (*layer)[by_layer];
    if (!number.is_number_unsigned()) {
      fail(std::string(by_layer) + " in per_layer_config is " + file_error::quoted(number.dump()) +
           ", expected a whole number; the file is damaged.");
    }
    n = static_cast<int64_t>(std::min<uint64_t>(number.get<uint64_t>(), INT64_MAX));
    break;
  }
  constexpr int64_t kMost = 1 << 16;  // far beyond any model
  if (n < 1 || n > kMost) {
    fail(std::string(name) + " is " + std::to_string(n) + ", expected from 1 to " + std::to_string(kMost) +
         "; the file is damaged.");
  }
  return n;
}

double Config::rope_number(const char* name, double by_default) const {
  const auto found = rope_.find(name);
  return found != rope_.end() && found->is_number() ? found->get<double>() : by_default;
}

int64_t Config::rope_count(const char* name, int64_t by_default) const {
  const double found = rope_number(name, static_cast<double>(by_default));
  if (!(found >= 0.0 && found <= 4294967295.0))
    fail(std::string(name) + " is not a count; the file is damaged.");
  return static_cast<int64_t>(found);
}

int64_t Config::n_rot(double by_default) const {
  double share = rope_number("partial_rotary_factor", by_default);
  for (const char* name : {"partial_rotary_factor", "rotary_pct", "rope_pct"}) {
    if (const auto own = find_number({name})) share = *own;
  }
  if (!(share >= 0.0 && share <= 1.0))
    fail("the share of a head that turns is not from 0 to 1; the file is damaged.");
  return static_cast<int64_t>(share * static_cast<double>(head_dim()));
}

void Config::read_rope() {
  json given = field({"rope_parameters", "rope_scaling"});
  if (!given.is_object()) given = json::object();
  rope_ = json::object();
  local_rope_ = json::object();
  const bool apart = given.contains("full_attention") || given.contains("sliding_attention");
  if (!apart) rope_ = given;
  if (apart && given.contains("full_attention") && given["full_attention"].is_object())
    rope_ = given["full_attention"];
  if (apart && given.contains("sliding_attention") && given["sliding_attention"].is_object()) {
    local_rope_ = given["sliding_attention"];
  }
  const json& base = field({"rope_theta", "rotary_emb_base", "global_rope_theta"});
  if (!rope_.contains("rope_theta") && base.is_number()) rope_["rope_theta"] = base;
  const json& local_base = field({"rope_local_base_freq", "local_rope_theta"});
  if (!local_rope_.contains("rope_theta") && local_base.is_number()) local_rope_["rope_theta"] = local_base;
  if (!rope_.contains("rope_type") && rope_.contains("type")) rope_["rope_type"] = rope_["type"];
  if (!rope_.contains("original_max_position_embeddings")) {
    const json& original = field({"original_max_position_embeddings"});
    if (original.is_number()) rope_["original_max_position_embeddings"] = original;
  }
}

void KeyList::set(std::string name, Value value) {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const auto& key) { return key.first == name; });
  if (found != keys_.end()) {
    found->second = std::move(value);
  } else {
    keys_.emplace_back(std::move(name), std::move(value));
  }
}

void KeyList::count(std::string_view name, int64_t value) {
  if (value < 0 || value > std::numeric_limits<uint32_t>::max()) {
    throw std::runtime_error("config.json: the value for " + std::string(name) + " is " +
                             std::to_string(value) + ", expected a count; the file is damaged.");
  }
  of_model(name, static_cast<uint32_t>(value));
}

void KeyList::remove(std::string_view name) {
  std::erase_if(keys_, [&](const auto& key) { return key.first == prefix_ + std::string(name); });
}

const KeyList::Value* KeyList::find(std::string_view name) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const auto& key) { return key.first == name; });
  return found == keys_.end() ? nullptr : &found->second;
}

void KeyList::write(gguf::Writer& writer) const {
  for (const auto& [name, value] : keys_) {
    std::visit(
        [&writer, &key = name](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::vector<bool>>) {
            std::vector<char> flags(v.begin(), v.end());
            writer.array(key,
                         std::span<const bool>(reinterpret_cast<const bool*>(flags.data()), flags.size()));
          } else if constexpr (std::is_arithmetic_v<T>) {
            writer.key(key, v);
          } else if constexpr (std::is_same_v<T, std::string>) {
            writer.key(key, std::string_view(v));
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            writer.array(key, std::span<const std::string>(v));
          } else {
            writer.array(key, std::span<const typename T::value_type>(v));
          }
        },
        value);
  }
}

namespace {

void add_count(KeyList& keys, const char* key, std::optional<int64_t> value) {
  if (value) keys.count(key, *value);
}

void add_number(KeyList& keys, const char* key, std::optional<double> value) {
  if (value) keys.number(key, *value);
}

std::optional<double> number_of(const json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = object.find(name);
    if (found != object.end() && found->is_number()) return found->get<double>();
  }
  return std::nullopt;
}

/// Returns true for the known types of RoPE scaling that get no scaling keys from add_rope_keys(). If such a
/// type needs keys, the function of the model's family adds them.
bool needs_no_key(std::string_view type) {
  constexpr std::string_view kTypes[] = {"default", "llama3", "longrope", "su", "dynamic", "proportional"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

void add_rope_keys(const Config& config, KeyList& keys) {
  const json& rope = config.rope();
  const json& type_field = rope.contains("rope_type") ? rope["rope_type"] : kNull;
  const std::string type = type_field.is_string() ? type_field.get<std::string>() : "default";
  const std::optional<double> factor = number_of(rope, {"factor"});
  if (type == "linear" && factor) {
    keys.of_model("rope.scaling.type", "linear");
    keys.number("rope.scaling.factor", *factor);
  } else if (type == "yarn" && factor) {
    keys.of_model("rope.scaling.type", "yarn");
    keys.number("rope.scaling.factor", *factor);
    const int64_t original = config.rope_count("original_max_position_embeddings", 0);
    if (original > 0) keys.count("rope.scaling.original_context_length", original);
    add_number(keys, "rope.scaling.yarn_ext_factor", number_of(rope, {"extrapolation_factor"}));
    add_number(keys, "rope.scaling.yarn_attn_factor", number_of(rope, {"attention_factor", "attn_factor"}));
    add_number(keys, "rope.scaling.yarn_beta_fast", number_of(rope, {"beta_fast"}));
    add_number(keys, "rope.scaling.yarn_beta_slow", number_of(rope, {"beta_slow"}));
  } else if (!needs_no_key(type)) {
    config.fail("rope_type is " + file_error::quoted(type) +
                ", expected default, linear, yarn, llama3, longrope, dynamic or proportional; such models do "
                "not run yet.");
  }
  add_number(keys, "rope.freq_base", number_of(rope, {"rope_theta"}));
  add_number(keys, "rope.freq_base_swa", number_of(config.local_rope(), {"rope_theta"}));
}

void add_expert_keys(const Config& config, KeyList& keys) {
  add_count(keys, "expert_count", config.find_int({"num_local_experts", "num_experts"}));
  add_count(keys, "expert_used_count", config.find_int({"num_experts_per_tok", "num_experts_per_token"}));
  add_count(keys, "expert_group_count", config.find_int({"n_group"}));
  add_count(keys, "expert_group_used_count", config.find_int({"topk_group"}));
  const std::string score = config.find_text({"score_function", "scoring_func", "score_func"});
  const bool sigmoid = score == "sigmoid" || score == "noaux_tc";  // dots.llm1 has the latter name
  if (score == "softmax") keys.count("expert_gating_func", 1);
  if (sigmoid) keys.count("expert_gating_func", 2);
  if (!score.empty() && score != "softmax" && !sigmoid) {
    config.fail("the experts' scores are " + file_error::quoted(score) +
                ", expected softmax or sigmoid; others do not run yet.");
  }
}

}  // namespace

void add_common_keys(const Config& config, KeyList& keys) {
  keys.count("block_count", config.n_layers());
  add_count(keys, "context_length",
            config.find_int({"max_position_embeddings", "n_ctx", "n_positions", "max_sequence_length"}));
  keys.count("embedding_length", config.d_model());
  add_count(keys, "feed_forward_length", config.find_int({"intermediate_size", "n_inner", "ffn_dim"}));
  keys.count("attention.head_count", config.n_heads());
  add_count(keys, "attention.head_count_kv", config.find_int({"num_key_value_heads"}));
  add_rope_keys(config, keys);
  add_number(keys, "attention.layer_norm_rms_epsilon", config.find_number({"rms_norm_eps", "norm_eps"}));
  add_number(keys, "attention.layer_norm_epsilon",
             config.find_number({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"}));
  add_expert_keys(config, keys);
  add_count(keys, "attention.key_length", config.find_int({"head_dim"}));
  add_count(keys, "attention.value_length", config.find_int({"head_dim"}));
}

}  // namespace hearth::convert
