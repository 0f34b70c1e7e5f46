// See the header.
#include "engine/forward/pass_memory.h"

#include <algorithm>

#include "engine/forward/ffn_pass.h"
#include "engine/forward/forward_pass.h"

namespace hearth {
namespace {

/// Whether the projected queries are not the queries that attention reads.
bool projects_apart(const ModelSpec& spec) { return spec.latent || spec.arch.gated_attention; }

/// Whether Workspace::values is used.
bool uses_values(const ModelSpec& spec) {
  return projects_apart(spec) || spec.arch.attention_gate || spec.d_value > 0;
}

/// Returns an upper bound of the number of rows of any matrix.
int64_t most_rows(const ModelSpec& spec) {
  return std::max({int64_t{spec.n_vocab}, int64_t{spec.d_model}, int64_t{spec.widest_ffn()},
                   int64_t{spec.q_dim()}, int64_t{spec.kv_dim()}, int64_t{spec.projected_q_dim()},
                   int64_t{spec.attended_dim()}, int64_t{spec.latent.q_rank}, spec.recurrent.conv_dim(),
                   int64_t{spec.mixture.n_experts}});
}

}  // namespace

Workspace::Workspace(Memory& memory, const ModelSpec& spec, int max_tokens)
    : residual(floats(memory, max_tokens, spec.d_model)),
      normed(floats(memory, max_tokens, spec.d_model)),
      ffn_input(floats(memory, spec.arch.parallel_attention ? max_tokens : 0, spec.d_model)),
      branch(floats(memory, spec.changes_branches() ? max_tokens : 0, spec.d_model)),
      q(floats(memory, max_tokens, spec.q_dim())),
      k(floats(memory, max_tokens, spec.kv_dim())),
      v(floats(memory, max_tokens, spec.kv_dim())),
      attended(floats(memory, max_tokens, spec.q_dim())),
      q_latent(floats(memory, max_tokens, spec.latent.q_rank)),
      q_projected(floats(memory, projects_apart(spec) ? max_tokens : 0, spec.projected_q_dim())),
      values(floats(memory, uses_values(spec) ? max_tokens : 0, spec.attended_dim())),
      delta(memory, spec, max_tokens),
      short_conv(memory, spec, max_tokens) {}

Workspace Workspace::view() const {
  Workspace out;
  out.residual = view_of(residual);
  out.normed = view_of(normed);
  out.ffn_input = view_of(ffn_input);
  out.branch = view_of(branch);
  out.q = view_of(q);
  out.k = view_of(k);
  out.v = view_of(v);
  out.attended = view_of(attended);
  out.q_latent = view_of(q_latent);
  out.q_projected = view_of(q_projected);
  out.values = view_of(values);
  return out;
}

OutputWorkspace::OutputWorkspace(Memory& memory, const ModelSpec& spec, const PassBounds& bounds,
                                 bool on_device)
    : last(floats(memory, spec.arch.has_output ? bounds.max_logit_rows : 0, spec.d_model)) {
  const int64_t n_kept = on_device ? kept_rows(bounds) : 0;
  logits = floats(memory, 1,
                  (spec.arch.has_output ? int64_t{bounds.max_logit_rows} * spec.n_vocab : 0) +
                      (n_kept > 0 ? kAlign + n_kept * spec.d_model : 0));
  hidden = floats(memory, on_device && bounds.beside_nextn ? bounds.max_tokens : 0, spec.d_model);
}

void count_workspaces(MemoryMeter& meter, const ModelSpec& spec, const Weights& weights,
                      const PassBounds& bounds) {
  const Workspace of_layers(meter, spec, bounds.max_tokens);
  if (spec.recurrent) const StagedStates of_snapshots(meter, spec.recurrent);
  const FfnWorkspace of_ffn(meter, spec, weights, bounds.max_tokens);
  const MixtureWorkspace of_mixtures(meter, spec, bounds.max_tokens, /*on_device=*/true);
  const LayerEmbeddingsWorkspace of_embeddings(meter, spec, bounds.max_tokens);
  const ResidualStreamsWorkspace of_streams(meter, spec, bounds.max_tokens);
  const OutputWorkspace of_output(meter, spec, bounds, /*on_device=*/true);
}

int64_t kept_rows(const PassBounds& bounds) {
  if (bounds.of_nextn > 0 || bounds.keeps_last) return bounds.max_logit_rows;
  return bounds.beside_nextn ? bounds.max_tokens : 0;
}

StepBounds step_bounds(const ModelSpec& spec, const PassBounds& bounds) {
  return {.max_tokens = std::max(bounds.max_tokens, bounds.max_logit_rows),
          .max_cols = std::max({spec.d_model, spec.widest_ffn(), spec.q_dim(), spec.attended_dim(),
                                spec.latent.q_rank, spec.latent.d_nope, spec.d_layer_embedding, spec.d_head,
                                bounds.other_cols, static_cast<int>(spec.recurrent.value_dim())}),
          .n_heads = std::max(spec.n_heads, bounds.other_heads),
          .max_context = bounds.max_context,
          .d_model = spec.d_model,
          .head_dim = spec.widest_head_dim(),
          .head_cols = spec.latent ? std::max(spec.latent.d_nope, spec.latent.kv_rank) : 0,
          .n_sets = (bounds.keeps_last ? 2 : 1) * FfnWorkspace::kSets,  // AssistantPass has its own
          .max_outputs = std::max({int64_t{bounds.max_logit_rows} * spec.n_vocab + OutputWorkspace::kAlign +
                                       kept_rows(bounds) * spec.d_model,
                                   int64_t{bounds.max_tokens} * spec.d_model, spec.recurrent.state_floats(),
                                   spec.recurrent.tail_floats()}),
          .n_experts = spec.mixture.n_experts,
          .n_experts_used = spec.mixture.n_used,
          .expert_cols = std::max(spec.mixture.d_expert, spec.mixture.d_shared),
          .max_expert_tokens = bounds.holds_experts ? bounds.max_tokens : 0,
          .shares = bounds.shares,
          .stream_bytes = bounds.stream_bytes,
          .stream_kv_bytes = bounds.stream_kv_bytes,
          .library_rows = bounds.library && !bounds.shares ? most_rows(spec) : 0,
          .library_decodes = bounds.library_decodes,
          .recurrent = spec.recurrent};
}

double ForwardPass::bytes_needed(const ModelSpec& spec, int max_tokens, int max_logit_rows) {
  // For latent attention, multiply_heads() also needs two copies of the rows of all heads that it reads: one
  // as floats and one quantized.
  const double of_heads = 2.0 * spec.n_heads * std::max(spec.latent.d_nope, spec.latent.kv_rank);
  const double of_latent = spec.latent ? spec.latent.q_rank + of_heads : 0.0;
  const double apart = (projects_apart(spec) ? 1.0 * spec.projected_q_dim() : 0.0) +
                       (uses_values(spec) ? 1.0 * spec.attended_dim() : 0.0);
  const double per_token = 5.0 * spec.d_model + 2.0 * spec.q_dim() + 2.0 * spec.kv_dim() + of_latent + apart;
  const double per_logit_row = static_cast<double>(spec.d_model) + spec.n_vocab;
  return sizeof(float) * (max_tokens * per_token + max_logit_rows * per_logit_row) +
         LayerEmbeddings::bytes_needed(spec, max_tokens) + ResidualStreams::bytes_needed(spec, max_tokens) +
         DeltaWorkspace::bytes_needed(spec.recurrent, max_tokens) +
         ShortConvWorkspace::bytes_needed(spec, max_tokens) + FfnPass::bytes_needed(spec, max_tokens);
}

}  // namespace hearth
