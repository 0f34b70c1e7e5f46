// See the header.
#include "profiler/synthesis/synth_keys.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/synthesis/synth_mixture.h"

namespace hearth {
namespace {

/// Writes keys of one architecture.
class KeyWriter {
 public:
  KeyWriter(gguf::Writer& writer, const ModelShape& shape)
      : writer_(writer), shape_(shape), prefix_(std::string(shape.architecture) + ".") {}

  void number(const char* name, int value) { writer_.key(prefix_ + name, static_cast<uint32_t>(value)); }
  void real(const char* name, double value) { writer_.key(prefix_ + name, static_cast<float>(value)); }
  void text(const char* name, const char* value) { writer_.key(prefix_ + name, value); }
  void truth(const char* name, bool value) { writer_.key(prefix_ + name, value); }
  /// Adds a number of each layer, of(layer).
  template <class Of>
  void numbers(const char* name, const Of& of) {
    std::vector<int32_t> values;
    for (int i = 0; i < shape_.n_layers; ++i) values.push_back(of(i));
    writer_.array(prefix_ + name, std::span<const int32_t>(values));
  }
  bool is(std::string_view architecture) const { return shape_.architecture == architecture; }

  /// Adds the keys that all files of the architecture have.
  void add_sizes() {
    number("context_length", shape_.context_tokens);
    number("embedding_length", shape_.d_model);
    number("block_count", shape_.n_layers);
    if (shape_.blocks.empty()) {
      if (!is("qwen35moe")) number("feed_forward_length", shape_.d_ff);
    } else {
      numbers("feed_forward_length", [&](int i) { return shape_.has_ffn(i) ? shape_.d_ff : 0; });
    }
    number("attention.head_count", shape_.n_heads);
    add_kv_heads();
    if (shape_.d_head > 0) {
      number("attention.key_length", shape_.d_head);
      number("attention.value_length", shape_.d_head);
    }
    if (shape_.window > 0) number("attention.sliding_window", shape_.window);
    const bool layer_norm = is("opt") || is("falcon");
    // Values from the families' own configurations.
    const bool small = is("qwen3moe") || is("gemma3") || is("smallthinker") || is("gemma4") || is_delta();
    const double eps = small ? 1e-6 : 1e-5;
    real(layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", eps);
    if (is("nemotron_h_moe")) real("attention.layer_norm_epsilon", eps);
    if (shape_.predictor_rank > 0 || is("llama") || is("nemotron_h_moe"))
      number("vocab_size", shape_.n_vocab);
  }

  void add_rope() {
    if (shape_.predictor_rank > 0 ? !is("opt") : is("llama") || is("phi3")) {
      number("rope.dimension_count", shape_.head_dim());
    }
    if (shape_.rope_base > 0) real("rope.freq_base", shape_.rope_base);
    if (shape_.n_rot > 0) number("rope.dimension_count", shape_.n_rot);
    if (is("phi3")) number("rope.scaling.original_context_length", shape_.context_tokens);
    if (is("gemma3")) {
      text("rope.scaling.type", "linear");
      real("rope.scaling.factor", 8.0);
    }
    if (is("gpt-oss")) {
      text("rope.scaling.type", "yarn");
      real("rope.scaling.factor", kOssRopeFactor);
      number("rope.scaling.original_context_length", kOssOriginalContext);
    }
  }

  void add_experts() {
    if (!shape_.has_experts()) return;
    number("expert_count", shape_.n_experts);
    number("expert_used_count", shape_.n_used);
    if (!is("llama")) number("expert_feed_forward_length", shape_.d_expert);
    if (is("smallthinker")) number("expert_gating_func", 2);  // sigmoid
    if (shape_.d_shared > 0) number("expert_shared_feed_forward_length", shape_.d_shared);
    if (!is("nemotron_h_moe")) return;
    number("expert_shared_count", 1);
    number("expert_group_count", 1);
    number("expert_group_used_count", 1);
    truth("expert_weights_norm", true);
    real("expert_weights_scale", 2.5);
  }

  void add_recurrence() {
    const RecurrentShape& r = shape_.recurrent;
    if (!r) return;
    number("ssm.conv_kernel", r.n_taps);
    number("ssm.state_size", r.n_rows());
    number("ssm.group_count", r.n_k_heads);
    number("ssm.time_step_rank", r.n_v_heads);
    number("ssm.inner_size", static_cast<int>(r.value_dim()));
    if (!is_delta()) return truth("rope.scaling.finetuned", false);
    number("full_attention_interval", shape_.full_interval);
    // A text's token has one position, so it does not matter how the pairs of dimensions are divided.
    if (is("qwen3next")) return;
    const std::array<int32_t, 4> sections{11, 11, 10, 0};
    writer_.array(prefix_ + "rope.dimension_sections", std::span<const int32_t>(sections));
  }

  /// Adds the keys of layers with a window that have other heads than those with full attention.
  void add_window_heads() {
    const int head = shape_.d_head_window;
    if (head == 0) return;
    number("attention.key_length_swa", head);
    number("attention.value_length_swa", head);
    number("rope.dimension_count", shape_.d_head);
    number("rope.dimension_count_swa", head);
    real("rope.freq_base_swa", 10000.0);
    number("attention.shared_kv_layers", shape_.n_layers - shape_.first_shared_kv());
    number("embedding_length_per_layer_input", shape_.d_layer_embedding);
    real("final_logit_softcapping", shape_.logit_cap);
    const auto windowed = std::make_unique<bool[]>(static_cast<size_t>(shape_.n_layers));
    for (int i = 0; i < shape_.n_layers; ++i) windowed[static_cast<size_t>(i)] = !shape_.is_full(i);
    writer_.array(prefix_ + "attention.sliding_window_pattern",
                  std::span<const bool>(windowed.get(), static_cast<size_t>(shape_.n_layers)));
  }

 private:
  bool is_delta() const { return shape_.recurrent && shape_.recurrent.kind == RecurrentKind::kGatedDelta; }

  void add_kv_heads() {
    const int n = shape_.n_kv_heads;
    constexpr const char* kKey = "attention.head_count_kv";
    if (!shape_.blocks.empty()) {
      numbers(kKey, [&](int i) { return shape_.mixes(i) && !shape_.is_recurrent(i) ? n : 0; });
    } else if (shape_.n_kv_heads_full > 0) {
      numbers(kKey, [&](int i) { return shape_.is_full(i) ? shape_.n_kv_heads_full : n; });
    } else {
      number(kKey, n);
    }
  }

  gguf::Writer& writer_;
  const ModelShape& shape_;
  std::string prefix_;
};

}  // namespace

void add_synth_keys(gguf::Writer& writer, bool sparse, const ModelShape& shape, DType dtype) {
  writer.key("general.architecture", shape.architecture);
  // The name must not contain "phi3", because llama.cpp would then look for Phi 3's own tokens.
  writer.key("general.name",
             "synthetic-" + (shape.architecture == "phi3" ? "phi-mini" : std::string(shape.name)));
  writer.key("general.file_type", gguf::file_type_of(shape.mxfp4_experts ? DType::kMXFP4 : dtype));
  KeyWriter keys(writer, shape);
  keys.add_sizes();
  keys.add_rope();
  keys.add_experts();
  keys.add_recurrence();
  keys.add_window_heads();
  if (sparse) {
    writer.key("powerinfer.sparse_threshold", 0.0f);
  } else if (shape.predictor_rank > 0) {
    writer.key("hearth.ffn_activation", keys.is("bamboo") ? "drelu" : "relu");
  }
}

}  // namespace hearth
