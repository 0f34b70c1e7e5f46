// The table of architectures. See the header.
#include "engine/model/architecture.h"

#include <array>

namespace hearth {
namespace {

// The order of dimensions in a GGUF file determines which pairs of dimensions RoPE rotates. Converters
// permute q and k of some architectures so that the two dimensions of a pair are adjacent.
constexpr RopeKind kPairs = RopeKind::kInterleaved, kHalves = RopeKind::kHalves;
constexpr FfnActivation kRelu{Activation::kRelu};
constexpr FfnActivation kDRelu{Activation::kDRelu};
constexpr FfnActivation kRelu2{Activation::kRelu2};
constexpr FfnActivation kGelu{Activation::kGelu};
constexpr FfnActivation kGeluErf{Activation::kGeluErf};

constexpr MixtureFacts kSoftmax{.possible = true};
constexpr MixtureFacts kSoftmaxRenormalized{.possible = true, .renormalize = true};
constexpr MixtureFacts kSigmoid{.possible = true, .score = RouterScore::kSigmoid};
constexpr MixtureFacts kSigmoidRenormalized{
    .possible = true, .score = RouterScore::kSigmoid, .renormalize = true};

/// Qwen3-Next and its successors: three of four layers are gated delta nets.
constexpr Architecture qwen_next(std::string_view name, bool tiled, bool experts) {
  const MixtureFacts mixture{.possible = experts, .renormalize = experts, .shared_has_gate = experts};
  return {.name = name,
          .ffn_norm = "post_attention_norm",
          .rope = kHalves,
          .qk_norm = QkNorm::kHeads,
          .gated_attention = true,
          .recurrent = RecurrentKind::kGatedDelta,
          .tiled_values = tiled,
          .mixture = mixture};
}

/// Nemotron-H, Nemotron Nano 2 and 3: a layer is one block.
constexpr Architecture nemotron_h(std::string_view name, bool experts) {
  return {.name = name,
          .activation = kRelu2,
          .gated = false,
          .recurrent = RecurrentKind::kMamba2,
          .one_block = true,
          .mixture = {.possible = experts, .score = RouterScore::kSigmoid}};
}

/// LFM2: most layers are short convolutions.
constexpr Architecture short_conv(std::string_view name, const MixtureFacts& mixture) {
  return {.name = name,
          .output_norm = "token_embd_norm",
          .rope = kHalves,
          .qk_norm = QkNorm::kHeads,
          .recurrent = RecurrentKind::kShortConv,
          .mixture = mixture};
}

constexpr auto kArchitectures = std::to_array<Architecture>({
    // Llama and models that use its format: Mistral, Mixtral, Yi, SmolLM, ...
    {.name = "llama", .rope = kPairs, .mixture = kSoftmaxRenormalized, .powerinfer_activation = kRelu},
    // Llama 4. Its files leave out the sections and the growth of queries, which are the same in all models.
    // Maverick has 128 experts.
    {.name = "llama4",
     .rope = kPairs,
     .qk_norm = QkNorm::kHeads,
     .qk_norm_after_rope = true,
     .qk_norm_plain = true,
     .experts_without_qk_norm = 128,
     .queries_grow = true,
     .query_growth = 0.1f,
     .growth_span = 8192,
     .growth_from = 1,
     .grows_unturned = true,
     .window = {.period = 4, .full = 3, .full_turns = false, .sections = true, .n_positions = 8192},
     .mixture = {.possible = true, .score = RouterScore::kSigmoid, .weighs_input = true}},
    {.name = "arcee", .rope = kPairs, .activation = kRelu2, .gated = false},
    {.name = "bamboo", .rope = kPairs, .activation = kDRelu, .powerinfer_activation = kDRelu},
    {.name = "falcon",
     .norm = NormKind::kLayer,
     .rope = kHalves,
     .activation = kGeluErf,
     .gated = false,
     .parallel_attention = true,
     .powerinfer_activation = kRelu,
     .predictor_input = PredictorInput::kLayerInput},
    {.name = "falcon-h1",
     .rope = kHalves,
     .recurrent = RecurrentKind::kMamba2,
     .recurs_beside_attention = true,
     .norms_before_gate = true},
    // OPT's files store no epsilon. All models of the family were trained with this value.
    {.name = "opt",
     .norm = NormKind::kLayer,
     .activation = kRelu,
     .gated = false,
     .position_offset = 2,
     .default_norm_eps = 1e-5f,
     .powerinfer_activation = kRelu},

    {.name = "qwen2", .rope = kHalves, .qkv_bias = true},
    {.name = "qwen2moe",
     .rope = kHalves,
     .qkv_bias = true,
     .mixture = {.possible = true, .shared_has_gate = true}},
    {.name = "qwen3", .rope = kHalves, .qk_norm = QkNorm::kHeads},
    {.name = "qwen3moe", .rope = kHalves, .qk_norm = QkNorm::kHeads, .mixture = kSoftmaxRenormalized},
    // The language models of Qwen3-VL, without images.
    {.name = "qwen3vl", .rope = kHalves, .qk_norm = QkNorm::kHeads, .rope_axes = true},
    {.name = "qwen3vlmoe",
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .rope_axes = true,
     .mixture = kSoftmaxRenormalized},
    qwen_next("qwen3next", /*tiled=*/false, /*experts=*/true),
    qwen_next("qwen35", /*tiled=*/true, /*experts=*/false),
    qwen_next("qwen35moe", /*tiled=*/true, /*experts=*/true),
    short_conv("lfm2", {}),
    short_conv("lfm2moe", kSigmoidRenormalized),

    {.name = "gemma", .rope = kHalves, .activation = kGelu, .embedding_scale = EmbeddingScale::kRootOfWidth},
    {.name = "gemma2",
     .norms = NormPlace::kBoth,
     .rope = kHalves,
     .activation = kGelu,
     .window = {.period = 2, .full = 1},
     .attention_cap = 50.0f,
     .logit_cap = 30.0f,
     .layers_scored_by_width = 46,
     .embedding_scale = EmbeddingScale::kRootOfWidth},
    {.name = "gemma3",
     .norms = NormPlace::kBoth,
     .rope = kHalves,
     .activation = kGelu,
     .qk_norm = QkNorm::kHeads,
     .window = {.period = 6, .full = 5, .unscaled = true, .rope_base = 10000.0},
     .layers_scored_by_width = 62,
     .embedding_scale = EmbeddingScale::kRootOfWidth},

    {.name = "gemma3n",
     .norms = NormPlace::kBoth,
     .rope = kHalves,
     .activation = kGelu,
     .qk_norm = QkNorm::kHeads,
     .value_norm = true,
     .unit_scores = true,
     .shares_kv = true,
     .streams = true,
     .cuts_gates = true,
     .layer_embeddings = true,
     .window = {.period = 5, .full = 4, .unscaled = true, .rope_base = 10000.0},
     .logit_cap = 30.0f,
     .embedding_scale = EmbeddingScale::kRootOfWidth},
    {.name = "gemma4",
     .norms = NormPlace::kBoth,
     .rope = kHalves,
     .activation = kGelu,
     .qk_norm = QkNorm::kHeads,
     .value_norm = true,
     .value_from_key = true,
     .unit_scores = true,
     .window_heads = true,
     .layer_scale = true,
     .layer_embeddings = true,
     .window = {.unscaled = true, .rope_base = 10000.0},
     .embedding_scale = EmbeddingScale::kRootOfWidth,
     .mixture = {.possible = true, .renormalize = true, .beside_dense = true}},

    {.name = "gpt-oss",
     .ffn_norm = "post_attention_norm",
     .rope = kHalves,
     .activation = {Activation::kSwigluOai},
     .sinks = true,
     .window = {.period = 2, .full = 1},
     .mixture = {.possible = true, .score = RouterScore::kSoftmaxOfChosen},
     .yarn_rounds = false},

    // OLMo 2 and 3.
    {.name = "olmo2",
     .norms = NormPlace::kAfter,
     .rope = kHalves,
     .qk_norm = QkNorm::kWhole,
     .window = {.unscaled = true}},
    {.name = "olmoe", .rope = kHalves, .qk_norm = QkNorm::kWhole, .mixture = kSoftmax},
    {.name = "granite", .rope = kPairs, .logit_scale = LogitScale::kDivides},
    {.name = "granitemoe",
     .rope = kPairs,
     .logit_scale = LogitScale::kDivides,
     .mixture = kSoftmaxRenormalized},
    // Granite 4 H and Bamba.
    {.name = "granitehybrid",
     .rope = kPairs,
     .recurrent = RecurrentKind::kMamba2,
     .rope_by_key = true,
     .logit_scale = LogitScale::kDivides,
     .mixture = kSoftmaxRenormalized},
    {.name = "glm4", .norms = NormPlace::kBoth, .rope = kPairs},
    {.name = "glm4moe",
     .ffn_norm = "post_attention_norm",
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .qk_norm_optional = true,
     .mixture = kSigmoid},
    {.name = "ernie4_5", .rope = kPairs},
    {.name = "ernie4_5-moe", .rope = kPairs, .mixture = kSoftmaxRenormalized},
    {.name = "minimax-m2", .rope = kHalves, .qk_norm = QkNorm::kWhole, .mixture = kSigmoidRenormalized},
    // Laguna, whose layers without a window come first in each group of four.
    {.name = "laguna",
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .attention_gate = Activation::kSoftplus,
     .heads_of_layers = true,
     .window = {.period = 4, .full = 0, .unscaled = true},
     .mixture = kSigmoidRenormalized},
    // Trinity.
    {.name = "afmoe",
     .norms = NormPlace::kBoth,
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .attention_gate = Activation::kSigmoid,
     .window = {.period = 4, .full = 3, .full_turns = false},
     .embedding_scale = EmbeddingScale::kRootOfWidth,
     .mixture = kSigmoidRenormalized},
    // Step 3.5 and 3.7.
    {.name = "step35",
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .qk_norm_optional = true,
     .attention_gate = Activation::kSigmoid,
     .heads_of_layers = true,
     .clamps_swiglu = true,
     .window = {.unscaled = true, .full_half = true},
     .mixture = kSigmoidRenormalized},
    // MiMo-V2.
    {.name = "mimo2",
     .rope = kHalves,
     .sinks_in_windows = true,
     .heads_of_layers = true,
     .short_values = true,
     .value_scale = true,
     .window = {.unscaled = true, .before_token = true},
     .mixture =
         {.possible = true, .score = RouterScore::kSigmoid, .renormalize = true, .where_routers_are = true}},
    {.name = "dots1", .rope = kHalves, .qk_norm = QkNorm::kHeads, .mixture = kSigmoid},
    // Ling 2 and Ring 2.
    {.name = "bailingmoe2", .rope = kHalves, .qk_norm = QkNorm::kHeads, .mixture = kSigmoid},
    {.name = "deepseek", .rope = kPairs, .mixture = kSoftmax},
    // DeepSeek V2 and V3, GLM-4.7-Flash, Kimi K2, Mistral Large 3.
    {.name = "deepseek2",
     .rope = kPairs,
     .latent = true,
     .queries_grow = true,
     .mixture = {.possible = true, .group_by_best = true}},
    // DeepSeek V3.2, and GLM 5, 5.1 and 5.2.
    {.name = "deepseek32",
     .rope = kPairs,
     .latent = true,
     .indexer = true,
     .mixture = {.possible = true, .group_by_best = true}},
    {.name = "glm-dsa", .rope = kPairs, .latent = true, .indexer = true, .mixture = kSigmoid},
    // Kimi Linear. Its attention has no rotary embedding, although files have the key rope.dimension_count.
    {.name = "kimi-linear",
     .latent = true,
     .recurrent = RecurrentKind::kGatedDelta,
     .row_decays = true,
     .delta_gate = Activation::kSigmoid,
     .mixture = kSigmoidRenormalized},
    // Converters leave out the growth of queries. All models of the family were trained with this value.
    {.name = "mistral4",
     .rope = kPairs,
     .latent = true,
     .queries_grow = true,
     .query_growth = 0.1f,
     .mixture = kSoftmax},
    // Mellum 2.
    {.name = "mellum",
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .window = {.period = 4, .full = 3, .unscaled = true},
     .mixture = kSoftmaxRenormalized},
    {.name = "smallthinker",
     .rope = kHalves,
     .activation = kRelu,
     .window = {.period = 4, .full = 0, .full_turns = false},
     .mixture =
         {.possible = true, .score = RouterScore::kSoftmax, .renormalize = true, .reads_layer_input = true}},

    {.name = "mistral3", .rope = kPairs, .queries_grow = true},
    {.name = "smollm3", .rope = kPairs, .layers_per_unturned = 4},
    {.name = "exaone4",
     .norms = NormPlace::kAfter,
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .window = {.full_turns = false}},
    {.name = "exaone-moe",
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .window = {.period = 4, .full = 3, .full_turns = false},
     .mixture = kSigmoid},
    {.name = "hunyuan-dense", .rope = kHalves, .qk_norm = QkNorm::kHeads, .qk_norm_after_rope = true},
    {.name = "hunyuan-moe",
     .rope = kHalves,
     .qk_norm = QkNorm::kHeads,
     .qk_norm_after_rope = true,
     .mixture = kSoftmaxRenormalized},
    {.name = "apertus",
     .rope = kHalves,
     .activation = {Activation::kXielu},
     .gated = false,
     .qk_norm = QkNorm::kHeads},
    {.name = "seed_oss", .ffn_norm = "post_attention_norm", .rope = kHalves},
    {.name = "phi2",
     .norm = NormKind::kLayer,
     .rope = kHalves,
     .activation = kGelu,
     .gated = false,
     .parallel_attention = true},
    {.name = "phi3", .rope = kHalves},
    {.name = "command-r",
     .norm = NormKind::kLayer,
     .norm_bias = false,
     .rope = kPairs,
     .qk_norm = QkNorm::kEachHead,
     .qk_norm_optional = true,
     .parallel_attention = true,
     .logit_scale = LogitScale::kMultiplies},
    {.name = "cohere2",
     .norm = NormKind::kLayer,
     .norm_bias = false,
     .rope = kPairs,
     .parallel_attention = true,
     .window = {.period = 4, .full = 3, .full_turns = false},
     .logit_scale = LogitScale::kMultiplies},
    {.name = "nemotron", .norm = NormKind::kLayer, .rope = kHalves, .activation = kRelu2, .gated = false},
    nemotron_h("nemotron_h", /*experts=*/false),
    nemotron_h("nemotron_h_moe", /*experts=*/true),
    // Mamba-2 alone.
    {.name = "mamba2", .recurrent = RecurrentKind::kMamba2, .one_block = true, .all_recur = true},
    {.name = "starcoder2", .norm = NormKind::kLayer, .rope = kHalves, .activation = kGelu, .gated = false},
    {.name = "gpt2", .norm = NormKind::kLayer, .activation = kGelu, .gated = false, .position_offset = 0},
    {.name = "gptneox",
     .norm = NormKind::kLayer,
     .rope = kHalves,
     .activation = kGeluErf,
     .gated = false,
     .parallel_from = ParallelFrom::kKey},
    {.name = "stablelm",
     .norm = NormKind::kLayer,
     .rope = kHalves,
     .qk_norm = QkNorm::kEachHead,
     .qk_norm_optional = true,
     .parallel_from = ParallelFrom::kTensors},

    // Encoders. BERT and models that use its format: MiniLM, BGE, E5, RoBERTa, ...
    {.name = "bert",
     .norm = NormKind::kLayer,
     .norms = NormPlace::kSum,
     .activation = kGeluErf,
     .gated = false,
     .looks_ahead = true,
     .position_offset = 0,
     .token_types = true,
     .embedding_norm = true,
     .has_output = false},
    {.name = "nomic-bert",
     .norm = NormKind::kLayer,
     .norms = NormPlace::kSum,
     .rope = kHalves,
     .looks_ahead = true,
     .token_types = true,
     .embedding_norm = true,
     .has_output = false},
});

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

}  // namespace hearth
