// See the header.
#include "profiler/placement/model_facts.h"

#include <array>
#include <map>
#include <numeric>

#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// What tells two layers' sizes apart.
using Kind = std::array<int64_t, 20>;

Kind kind_of(const LayerWeights& w) {
  Kind kind{};
  size_t at = 0;
  for (const Matrix* m :
       {&w.q.weight, &w.k.weight, &w.v.weight, &w.attention_out.weight, &w.gate.weight, &w.up.weight,
        &w.down.weight, &w.down_rows.weight, &w.predictor_in, &w.predictor_out}) {
    kind[at++] = *m ? static_cast<int64_t>(m->dtype) : -1;
    kind[at++] = *m ? m->n_rows : 0;
  }
  return kind;
}

double bytes(const Matrix& matrix) { return matrix ? static_cast<double>(matrix.bytes()) : 0; }
double weights(const Matrix& matrix) {
  return matrix ? static_cast<double>(matrix.n_rows) * static_cast<double>(matrix.n_cols) : 0;
}

int64_t row_of(const Matrix& matrix) {
  return matrix ? static_cast<int64_t>(row_bytes(matrix.dtype, matrix.n_cols)) : 0;
}

/// Room that rounding may take: hot gates, ups and downs are a piece each.
constexpr int64_t kRounding = 3 * static_cast<int64_t>(kPieceBytes);

class FactsMaker {
 public:
  FactsMaker(const PlanInputs& in, const PlacementAssumptions& assumptions, bool order_known)
      : in_(in), assumptions_(assumptions), order_known_(order_known) {}

  LayerFacts layer(int index) const {
    const LayerWeights& w = in_.weights.layers[static_cast<size_t>(index)];
    const FfnNeurons& ffn = in_.host.layer(index).ffn;
    LayerFacts facts;
    for (const Linear* linear : {&w.q, &w.k, &w.v, &w.attention_out}) {
      facts.attention_read += bytes(linear->weight);
      facts.attention_weights += weights(linear->weight);
    }
    const double attention = facts.attention_read;
    facts.attention_read += kv_read();
    if (in_.mode == Sparsity::kPredicted)
      facts.predictor_read = bytes(w.predictor_in) + bytes(w.predictor_out);
    const int64_t gate = row_of(ffn.gate), up = row_of(ffn.up);
    int64_t down = row_of(ffn.down.rows);
    if (!ffn.down.rows) {
      down = ffn.down.coded.n_cols_padded * ffn.down.coded.bits / 8;
      facts.scales_read = static_cast<double>(column_scales_bytes(w.down.weight));
    }
    facts.gate = static_cast<double>(gate);
    facts.up = static_cast<double>(up);
    facts.down = static_cast<double>(down);
    facts.ffn_weights = weights(ffn.gate) + weights(ffn.up) +
                        static_cast<double>(in_.spec.d_ff) * static_cast<double>(in_.spec.d_model);
    count_device(index, facts);

    const int64_t kv = 2 * static_cast<int64_t>(KvMemory::layer_bytes(in_.spec, in_.n_kv_blocks));
    const int64_t gates_apart = in_.mode == Sparsity::kExact ? gate * in_.spec.d_ff : 0;
    const auto predictor = static_cast<int64_t>(facts.predictor_read);
    facts.ram_neuron = (gates_apart > 0 ? 0 : gate) + up + down;
    facts.ram_shared = gates_apart + predictor + static_cast<int64_t>(facts.scales_read);
    facts.ram_whole =
        facts.ram_shared + facts.ram_neuron * in_.spec.d_ff + static_cast<int64_t>(attention) + kv;
    facts.gives_back = order_known_ || in_.mode == Sparsity::kDense;
    return facts;
  }

  /// What is taken whatever lies where, and by the whole model.
  void count_fixed(ModelFacts& facts) const {
    const auto n_layers = static_cast<size_t>(in_.spec.n_layers);
    std::vector<LayerPlacement> layers(n_layers);
    for (LayerPlacement& layer : layers) layer.on_device = false;
    layers.back().on_device = true;
    const DeviceBytes one = device_bytes(in_, layers, 0);
    facts.vram_fixed = static_cast<int64_t>(one.output + one.scratch);
    facts.vram_least = static_cast<int64_t>(one.total());
    std::vector<int32_t> all(static_cast<size_t>(in_.spec.d_ff));
    std::iota(all.begin(), all.end(), 0);
    for (LayerPlacement& layer : layers)
      layer = {.on_device = true, .all_gates = false, .hot = all, .n_cache = 0};
    facts.vram_whole = static_cast<int64_t>(device_bytes(in_, layers, 0).total());
    facts.ram_fixed = static_cast<int64_t>(
        bytes(in_.weights.token_embedding) + bytes(in_.weights.position_embedding) +
        ForwardPass::bytes_needed(in_.spec, in_.bounds.max_tokens, in_.bounds.max_logit_rows));
  }

 private:
  double kv_read() const {
    const double tokens = in_.bounds.max_context * assumptions_.context_filled;
    return 2.0 * sizeof(uint16_t) * in_.spec.kv_dim() * tokens;
  }

  void count_device(int index, LayerFacts& facts) const {
    std::vector<LayerPlacement> layers(static_cast<size_t>(in_.spec.n_layers));
    for (LayerPlacement& layer : layers) layer.on_device = false;
    LayerPlacement& own = layers[static_cast<size_t>(index)];
    own.on_device = own.all_gates = true;
    const DeviceBytes taken = device_bytes(in_, layers, 0);
    facts.vram_gates = static_cast<int64_t>(taken.gates);
    facts.vram_shared =
        static_cast<int64_t>(taken.attention + taken.predictors + taken.kv + taken.tables) + kRounding;
  }

  const PlanInputs& in_;
  const PlacementAssumptions& assumptions_;
  const bool order_known_;
};

}  // namespace

ModelFacts model_facts(const PlanInputs& inputs, const ModelActivity& activity, bool order_known,
                       const PlacementAssumptions& assumptions) {
  const FactsMaker maker(inputs, assumptions, order_known);
  ModelFacts facts{.mode = inputs.mode,
                   .d_model = inputs.spec.d_model,
                   .d_ff = inputs.spec.d_ff,
                   .n_heads = inputs.spec.n_heads,
                   .gated = inputs.spec.gated,
                   .layers = {},
                   .activity = &activity,
                   .assumptions = assumptions,
                   .output_read = bytes(inputs.weights.output.weight),
                   .output_weights = weights(inputs.weights.output.weight),
                   .prefill_tokens = inputs.bounds.max_tokens};
  maker.count_fixed(facts);
  std::map<Kind, LayerFacts> known;  // most models have one or two kinds of layers
  for (int i = 0; i < inputs.spec.n_layers; ++i) {
    const Kind kind = kind_of(inputs.weights.layers[static_cast<size_t>(i)]);
    auto found = known.find(kind);
    if (found == known.end()) found = known.emplace(kind, maker.layer(i)).first;
    facts.layers.push_back(found->second);
  }
  return facts;
}

}  // namespace hearth
