// Reading a model's facts: the keys of good files, and one message for every key that is missing, of another
// type, out of range or inconsistent with another.
#include "engine/model/model_spec.h"

#include <cmath>
#include <functional>
#include <limits>

#include "engine/model/unknown_architecture.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

struct Case {
  const char* what;
  std::function<void(TinyModel&)> change;
  std::vector<std::string> says;
};

void check_cases(const std::vector<Case>& cases) {
  for (const Case& bad : cases) {
    TinyModel model;
    bad.change(model);
    INFO(bad.what);
    const std::string said = complaint(model);
    for (const std::string& part : bad.says) CHECK_THAT(said, ContainsSubstring(part));
  }
}

}  // namespace

TEST_CASE("model spec: a llama file's keys become facts") {
  const ModelSpec spec = spec_of(TinyModel().key("llama.rope.freq_base", 500000.0f));
  CHECK(spec.arch.name == "llama");
  CHECK(spec.arch.norm == NormKind::kRms);
  CHECK(spec.arch.rope == RopeKind::kInterleaved);
  CHECK(spec.activation == FfnActivation{Activation::kSilu});
  CHECK(spec.gated);
  CHECK_FALSE(spec.arch.qkv_bias);
  CHECK(spec.arch.qk_norm == QkNorm::kNone);
  CHECK_FALSE(spec.arch.parallel_attention);
  CHECK(spec.name == "tiny");
  CHECK(spec.n_layers == 2);
  CHECK(spec.d_model == 32);
  CHECK(spec.d_ff == 48);
  CHECK(spec.n_heads == 4);
  CHECK(spec.n_kv_heads == 2);
  CHECK(spec.head_dim == 8);
  CHECK(spec.q_dim() == 32);
  CHECK(spec.kv_dim() == 16);
  CHECK(spec.n_vocab == 259);
  CHECK(spec.context_train == 64);
  CHECK(spec.layer(0).window == 0);
  CHECK(spec.norm_eps == 1e-5f);
  CHECK(spec.rope.n_rot == 8);
  CHECK(spec.rope.base == 500000.0);
  CHECK(spec.rope.scaling == RopeScaling::kNone);
  CHECK(spec.rope.factor == 1.0);
}

TEST_CASE("model spec: qwen2 and qwen3 are rows of their own") {
  const ModelSpec qwen2 = spec_of(TinyModel("qwen2"));
  CHECK(qwen2.arch.rope == RopeKind::kHalves);
  CHECK(qwen2.arch.qkv_bias);
  CHECK(qwen2.arch.qk_norm == QkNorm::kNone);
  TinyShape wide;
  wide.head_dim = 16;  // more than d_model / n_heads
  const ModelSpec qwen3 = spec_of(TinyModel("qwen3", wide));
  CHECK(qwen3.arch.rope == RopeKind::kHalves);
  CHECK(qwen3.arch.qk_norm == QkNorm::kHeads);
  CHECK_FALSE(qwen3.arch.qkv_bias);
  CHECK(qwen3.head_dim == 16);
  CHECK(qwen3.q_dim() == 64);
}

TEST_CASE("model spec: the language models of Qwen3-VL have sections of RoPE, whose sizes are checked") {
  const auto with = [](std::vector<int32_t> sections) {
    return TinyModel("qwen3vl").array("qwen3vl.rope.dimension_sections", std::move(sections));
  };
  const ModelSpec spec = spec_of(with({2, 1, 1, 0}));
  CHECK(spec.arch.qk_norm == QkNorm::kHeads);
  CHECK(spec.rope.n_rot == 8);
  CHECK_THAT(complaint(with({2, 2, 1, 0})),
             ContainsSubstring("\"qwen3vl.rope.dimension_sections\" is an array with a sum of 5, expected at "
                               "most the 4 pairs of rope.dimension_count"));
  CHECK_THAT(complaint(with({5, -1, 0, 0})), ContainsSubstring("an array with 5, expected numbers from 0"));
  const auto mixture = TinyModel("qwen3vlmoe").key("qwen3vlmoe.expert_count", 4);
  CHECK(spec_of(TinyModel(mixture).key("qwen3vlmoe.expert_used_count", 2)).mixture.renormalize);
}

TEST_CASE("model spec: absent optional keys have their usual meaning") {
  const ModelSpec spec =
      spec_of(TinyModel().without_key("llama.attention.head_count_kv").without_key("general.name"));
  CHECK(spec.n_kv_heads == spec.n_heads);
  CHECK(spec.name.empty());
  CHECK(spec.rope.base == 10000.0);
  CHECK(spec.rope.n_rot == spec.head_dim);
  CHECK(spec.rope.original_context == spec.context_train);
  CHECK(spec.rope.beta_fast == 32.0);
  CHECK(spec.rope.beta_slow == 1.0);
}

TEST_CASE("model spec: any integer type is accepted, and a window and a partial rotation are kept") {
  const ModelSpec spec = spec_of(TinyModel()
                                     .key("llama.block_count", uint8_t{2})
                                     .key("llama.context_length", int64_t{128})
                                     .key("llama.attention.sliding_window", uint32_t{32})
                                     .key("llama.attention.layer_norm_rms_epsilon", 1e-6)
                                     .key("llama.rope.dimension_count", uint32_t{4}));
  CHECK(spec.n_layers == 2);
  CHECK(spec.context_train == 128);
  CHECK(spec.layer(1).window == 32);
  CHECK(spec.norm_eps == 1e-6f);
  CHECK(spec.rope.n_rot == 4);
}

TEST_CASE("model spec: embeddings are pooled as the file says, else the last token's") {
  CHECK(spec_of(TinyModel()).pooling == Pooling::kLast);
  CHECK(spec_of(TinyModel().key("llama.pooling_type", uint32_t{0})).pooling == Pooling::kLast);
  CHECK(spec_of(TinyModel().key("llama.pooling_type", uint32_t{1})).pooling == Pooling::kMean);
  CHECK(spec_of(TinyModel().key("llama.pooling_type", uint32_t{2})).pooling == Pooling::kFirst);
  CHECK(spec_of(TinyModel().key("llama.pooling_type", uint32_t{3})).pooling == Pooling::kLast);
  CHECK_THAT(complaint(TinyModel().key("llama.pooling_type", uint32_t{4})),
             ContainsSubstring("pooling_type") && ContainsSubstring("the ranking head of this architecture"));
  CHECK_THAT(complaint(TinyModel().key("llama.pooling_type", uint32_t{5})),
             ContainsSubstring("pooling_type") && ContainsSubstring("is 5"));
}

TEST_CASE("model spec: an encoder's attention looks ahead, and no other model's does") {
  CHECK(complaint(TinyModel().key("llama.attention.causal", true)).empty());
  CHECK_THAT(complaint(TinyModel().key("llama.attention.causal", false)),
             ContainsSubstring("\"llama.attention.causal\" is false, which does not run") &&
                 ContainsSubstring("does not look ahead; other models of architecture llama do"));
  CHECK(complaint(TinyModel("bert").without_key("bert.attention.causal")).empty());
  CHECK_THAT(complaint(TinyModel("bert").key("bert.attention.causal", true)),
             ContainsSubstring("attention.causal\" is true") && ContainsSubstring("looks ahead"));
}

TEST_CASE("model spec: an encoder's facts and its pooling, the mean unless the file says otherwise") {
  const ModelSpec spec = spec_of(TinyModel("bert"));
  CHECK(spec.arch.looks_ahead);
  CHECK_FALSE(spec.arch.has_output);
  CHECK(spec.arch.norms == NormPlace::kSum);
  CHECK_FALSE(spec.changes_branches());
  CHECK(spec.context_train == 64);
  CHECK_FALSE(spec.layer(0).turns);
  CHECK(spec.pooling == Pooling::kMean);
  CHECK(spec_of(TinyModel("bert").key("bert.pooling_type", uint32_t{0})).pooling == Pooling::kMean);
  CHECK(spec_of(TinyModel("bert").key("bert.pooling_type", uint32_t{2})).pooling == Pooling::kFirst);
  CHECK(spec_of(TinyModel("bert").key("bert.pooling_type", uint32_t{3})).pooling == Pooling::kLast);
  CHECK_THAT(complaint(TinyModel("bert").key("bert.pooling_type", uint32_t{4})),
             ContainsSubstring("expected a model with the tensor \"cls.output.weight\""));
  CHECK_THAT(complaint(TinyModel("bert").key("bert.residual_scale", 0.5f)),
             ContainsSubstring("residual_scale"));
}

TEST_CASE("model spec: an encoder's window reaches half of its size to either side") {
  CHECK(spec_of(TinyModel("bert").key("bert.attention.sliding_window", uint32_t{8})).layer(0).window == 5);
  CHECK(spec_of(TinyModel("bert").key("bert.attention.sliding_window", uint32_t{1})).layer(1).window == 1);
  CHECK(spec_of(TinyModel("bert").key("bert.attention.sliding_window", uint32_t{0})).layer(0).window == 0);
}

TEST_CASE(
    "model spec: queries grow only where the architecture says so, over a bounded number of stretches") {
  const auto growing = [](const std::string& arch, uint32_t original, uint32_t context) {
    return TinyModel(arch)
        .key(arch + ".attention.temperature_scale", 0.1f)
        .key(arch + ".context_length", context)
        .key(arch + ".rope.scaling.type", "yarn")
        .key(arch + ".rope.scaling.factor", 4.0f)
        .key(arch + ".rope.scaling.yarn_log_multiplier", 1.0f)
        .key(arch + ".rope.scaling.original_context_length", original);
  };
  const ModelSpec spec = spec_of(growing("mistral3", 16, 64));
  CHECK(spec.query_growth == 0.1f);
  CHECK_FALSE(spec.rope.yarn_tempers);
  CHECK(spec_of(TinyModel("mistral3")).query_growth == 0.0f);
  CHECK(spec_of(growing("mistral3", 16, 64).key("mistral3.attention.temperature_scale", 0.0f)).query_growth ==
        0.0f);
  CHECK_THAT(complaint(growing("llama", 16, 64)),
             ContainsSubstring("temperature_scale") && ContainsSubstring("do not grow") &&
                 ContainsSubstring("other models of architecture llama do"));
  CHECK_THAT(complaint(growing("mistral3", 1, 1 << 20)),
             ContainsSubstring("original_context_length") && ContainsSubstring("is 1") &&
                 ContainsSubstring("4096th of context_length, 1048576"));
  CHECK_THAT(complaint(growing("mistral3", 16, 64).key("mistral3.attention.temperature_scale", NAN)),
             ContainsSubstring("temperature_scale") && ContainsSubstring("nan"));
}

TEST_CASE("model spec: Llama 4's sections and growth are those of its files, or of the family") {
  const auto scout = [] {
    return TinyModel("llama4")
        .key("llama4.expert_count", 4)
        .key("llama4.expert_used_count", 1)
        .key("llama4.block_count", 4);
  };
  const ModelSpec spec = spec_of(scout());
  CHECK(spec.layer(0).window == 8192);
  CHECK(spec.layer(3).window == 0);
  CHECK(spec.layer(2).turns);
  CHECK_FALSE(spec.layer(3).turns);
  CHECK(spec.norms_qk(2));
  CHECK_FALSE(spec.norms_qk(3));
  CHECK(spec.query_growth == 0.1f);
  CHECK(spec.growth_span == 8192);
  CHECK(spec_of(scout().key("llama4.attention.temperature_length", 16)).growth_span == 16);
  // MobileLLM has neither sections nor layers without a rotary embedding.
  const ModelSpec mobile = spec_of(scout().key("llama4.attention.sliding_window", 0));
  CHECK(mobile.window() == 0);
  CHECK(mobile.layer(3).turns);
  CHECK_FALSE(spec_of(scout().key("llama4.expert_count", 128)).norms_qk(0));
  CHECK_THAT(complaint(scout().key("llama4.expert_used_count", 2)),
             ContainsSubstring("expert_used_count") && ContainsSubstring("only one expert"));
  CHECK_THAT(
      complaint(scout().key("llama4.attention.temperature_length", 1).key("llama4.context_length", 1 << 20)),
      ContainsSubstring("temperature_length") && ContainsSubstring("4096th"));
}

TEST_CASE("model spec: values may be shorter than keys only where the architecture says so") {
  const auto mimo = [](int value_length) {
    return TinyModel("mimo2")
        .key("mimo2.attention.value_length", value_length)
        .key("mimo2.attention.value_scale", 0.75f)
        .key("mimo2.attention.sliding_window", 7)
        .array("mimo2.attention.sliding_window_pattern", std::vector<int32_t>{0, 1});
  };
  const ModelSpec spec = spec_of(mimo(6));
  CHECK(spec.head_dim == 8);
  CHECK(spec.d_value == 6);
  CHECK(spec.value_scale == 0.75f);
  CHECK(spec.kv_dim(0) == 16);
  CHECK(spec.value_dim(0) == 12);
  CHECK(spec.attended_dim(0) == 24);
  CHECK(spec.layer(0).window == 0);
  CHECK(spec.layer(1).window == 8);  // the file does not count the token itself
  CHECK(spec_of(mimo(8)).d_value == 0);
  CHECK_THAT(complaint(mimo(9)), ContainsSubstring("value_length") && ContainsSubstring("at most") &&
                                     ContainsSubstring("length of a key, 8"));
  CHECK_THAT(complaint(TinyModel().key("llama.attention.value_length", 6)),
             ContainsSubstring("value_length") && ContainsSubstring("the length of a key, 8"));
  // Layers that are not run may have a place in the pattern.
  const auto further = [&](std::vector<int32_t> pattern) {
    return mimo(6)
        .key("mimo2.block_count", 3)
        .key("mimo2.nextn_predict_layers", 1)
        .array("mimo2.attention.sliding_window_pattern", std::move(pattern));
  };
  CHECK(spec_of(further({0, 1, 1})).layer(1).window == 8);
  CHECK(spec_of(further({0, 1})).layer(1).window == 8);
  CHECK_THAT(complaint(further({0, 1, 1, 0})), ContainsSubstring("sliding_window_pattern"));
}

TEST_CASE("model spec: a layer of MiMo-V2 is a mixture if the file has its router") {
  TinyModel mimo("mimo2");
  mimo.key("mimo2.expert_count", 4).key("mimo2.expert_used_count", 2);
  mimo.random_tensor("blk.1.ffn_gate_inp.weight", {32, 4}, 0.0, 1.0);
  const ModelSpec spec = spec_of(mimo);
  CHECK_FALSE(spec.layer(0).experts);
  CHECK(spec.layer(1).experts);
}

TEST_CASE("model spec: Gemma 3n has streams, cut gates, and layers that read the keys of others") {
  const auto gemma = [] {
    TinyShape shape;
    shape.n_layers = 4;
    return TinyModel("gemma3n", shape)
        .key("gemma3n.attention.sliding_window", 4)
        .array("gemma3n.attention.sliding_window_pattern", std::vector<int32_t>{1, 0, 1, 0})
        .array("gemma3n.feed_forward_length", std::vector<int32_t>{48, 48, 48, 48})
        .array("gemma3n.activation_sparsity_scale", std::vector<float>{1.645f, -INFINITY, 0.5f, -INFINITY})
        .key("gemma3n.attention.shared_kv_layers", 2)
        .key("gemma3n.embedding_length_per_layer_input", 16)
        .key("gemma3n.altup.num_inputs", 4)
        .key("gemma3n.altup.active_idx", 1);
  };
  const ModelSpec spec = spec_of(gemma());
  CHECK(spec.d_ff == 48);
  CHECK(spec.n_streams == 4);
  CHECK(spec.active_stream == 1);
  CHECK(spec.layer(0).gate_cut == 1.645f);
  CHECK_FALSE(spec.layer(1).gate_cut.has_value());
  CHECK(spec.layer(2).kv_source == 0);
  CHECK(spec.layer(3).kv_source == 1);
  CHECK_FALSE(spec.has_equal_ffns());
  CHECK(spec.logit_cap == 30.0f);
  CHECK(spec.cpu_only_kind().empty());
  CHECK(spec.stays_whole());
  CHECK_THAT(complaint(gemma().key("gemma3n.altup.num_inputs", 1)), ContainsSubstring("altup.num_inputs"));
  CHECK_THAT(complaint(gemma().key("gemma3n.altup.active_idx", 4)), ContainsSubstring("altup.active_idx"));
  CHECK_THAT(complaint(gemma().key("gemma3n.embedding_length_per_layer_input", 0)),
             ContainsSubstring("embedding_length_per_layer_input"));
  CHECK_THAT(complaint(gemma().key("gemma3n.attention.shared_kv_layers", 3)),
             ContainsSubstring("shared_kv_layers") && ContainsSubstring("no window"));
  CHECK_THAT(complaint(gemma().array("gemma3n.feed_forward_length", std::vector<int32_t>{48, 48, 48, 64})),
             ContainsSubstring("feed_forward_length") && ContainsSubstring("equal values"));
  const auto cuts = [&](std::vector<float> values) {
    return complaint(gemma().array("gemma3n.activation_sparsity_scale", std::move(values)));
  };
  CHECK_THAT(cuts({1.0f, 1.0f}),
             ContainsSubstring("activation_sparsity_scale") && ContainsSubstring("4 layers"));
  CHECK_THAT(cuts({1.0f, 1.0f, 1.0f, NAN}), ContainsSubstring("nan in layer 3"));
  CHECK_THAT(cuts({INFINITY, 1.0f, 1.0f, 1.0f}), ContainsSubstring("inf in layer 0"));
}

TEST_CASE("model spec: norms of heads have one row of weights, or one for each head") {
  CHECK(spec_of(TinyModel("qwen3")).qk_norm_shape(4, 0).n_rows == 1);
  CHECK(spec_of(TinyModel("qwen3")).qk_norm_shape(4, 0).n_cols == 8);
  TinyModel olmo("olmo2");
  CHECK(spec_of(olmo).qk_norm_shape(4, 0).n_cols == 32);
  TinyModel command("command-r");
  command.key("command-r.attention.layer_norm_epsilon", 1e-5f);
  CHECK(spec_of(command).qk_norm_shape(4, 0).n_rows == 4);
  CHECK(spec_of(command).qk_norm_shape(2, 0).n_cols == 8);
}

TEST_CASE("model spec: old mixtures give the width of an expert only by its tensor") {
  const auto mixture = [](const std::string& arch) {
    return TinyModel(arch).key(arch + ".expert_count", 4).key(arch + ".expert_used_count", 2);
  };
  CHECK(spec_of(mixture("qwen3moe")).mixture.d_expert == 48);
  TinyModel old = mixture("qwen3moe").random_tensor("blk.1.ffn_up_exps.weight", {32, 20, 4}, 0, 1);
  CHECK(spec_of(old).mixture.d_expert == 20);
  CHECK(spec_of(old.key("qwen3moe.expert_feed_forward_length", 24)).mixture.d_expert == 24);
  TinyModel split = mixture("llama").random_tensor("blk.0.ffn_up.0.weight", {32, 12}, 0, 1);
  CHECK(spec_of(split).mixture.d_expert == 12);
}

TEST_CASE("model spec: a latent's ranks and lengths, by today's keys and by older ones") {
  const auto latent = [] {
    return TinyModel("deepseek2")
        .key("deepseek2.attention.head_count_kv", 1)
        .key("deepseek2.attention.kv_lora_rank", 32)
        .key("deepseek2.rope.dimension_count", 16)
        .key("deepseek2.attention.key_length", 48)
        .key("deepseek2.attention.value_length", 40);
  };
  const ModelSpec older = spec_of(latent());
  CHECK(older.latent.kv_rank == 32);
  CHECK(older.latent.q_rank == 0);
  CHECK(older.latent.d_nope == 32);
  CHECK(older.latent.d_rope == 16);
  CHECK(older.latent.d_value == 40);
  CHECK(older.head_dim == 48);
  CHECK(older.n_kv_heads == 1);
  CHECK(older.attended_dim() == older.n_heads * 40);
  CHECK(older.score_scale() == Approx(1 / std::sqrt(48.0)));
  const auto todays = [&] {
    return latent()
        .key("deepseek2.attention.value_length", 32)
        .key("deepseek2.attention.key_length_mla", 24)
        .key("deepseek2.attention.value_length_mla", 8);
  };
  const ModelSpec spec = spec_of(todays());
  CHECK(spec.latent.d_nope == 8);
  CHECK(spec.latent.d_value == 8);
  CHECK(spec.head_dim == 48);
  const std::vector<std::pair<TinyModel, std::string>> wrong = {
      {TinyModel("deepseek2").key("deepseek2.attention.head_count_kv", 1),
       "deepseek2.attention.kv_lora_rank"},
      {latent().key("deepseek2.attention.kv_lora_rank", 0), "a whole number from 1"},
      {latent().key("deepseek2.attention.kv_lora_rank", 1020), "at most 1024 with rope.dimension_count"},
      {latent().key("deepseek2.attention.key_length", 16), "more than rope.dimension_count, 16"},
      {latent().key("deepseek2.rope.dimension_count", 15), "an even number"},
      {latent().key("deepseek2.attention.head_count_kv", 3), "head_count"},
      {todays().key("deepseek2.attention.key_length", 47), "a whole number from 48 to 48"},
      {todays().key("deepseek2.attention.value_length", 31), "a whole number from 32 to 32"}};
  for (const auto& [model, says] : wrong) {
    INFO(says);
    CHECK_THAT(complaint(model), ContainsSubstring(says));
  }
}

TEST_CASE("model spec: layers get windows by a pattern, and wrong patterns are refused") {
  const auto with = [](std::vector<bool> pattern) {
    std::vector<uint8_t> numbers(pattern.begin(), pattern.end());
    return TinyModel()
        .key("llama.attention.sliding_window", 16)
        .array("llama.attention.sliding_window_pattern", std::move(numbers));
  };
  const ModelSpec spec = spec_of(with({true, false}));
  CHECK(spec.layer(0).window == 16);
  CHECK(spec.layer(1).window == 0);
  for (const std::vector<bool>& wrong : {std::vector<bool>{true}, {true, false, true}, {}}) {
    CHECK_THAT(complaint(with(wrong)), ContainsSubstring("sliding_window_pattern") &&
                                           ContainsSubstring("one value for each of 2 layers"));
  }
  CHECK_THAT(
      complaint(TinyModel()
                    .key("llama.attention.sliding_window", 16)
                    .array("llama.attention.sliding_window_pattern", std::vector<std::string>{"a", "b"})),
      ContainsSubstring("sliding_window_pattern"));
  CHECK_THAT(complaint(TinyModel().key("llama.attention.sliding_window_pattern", -1)),
             ContainsSubstring("sliding_window_pattern") && ContainsSubstring("is -1"));
}

TEST_CASE("model spec: senseless counts of a mixture are refused") {
  const auto with = [](const char* key, int64_t value) {
    return complaint(
        TinyModel().key("llama.expert_count", 4).key("llama.expert_used_count", 2).key(key, value));
  };
  CHECK_THAT(with("llama.expert_count", -1), ContainsSubstring("expert_count") && ContainsSubstring("is -1"));
  CHECK_THAT(with("llama.expert_used_count", 0), ContainsSubstring("expert_used_count"));
  CHECK_THAT(with("llama.expert_feed_forward_length", 0), ContainsSubstring("expert_feed_forward_length"));
  CHECK_THAT(with("llama.expert_shared_count", 1 << 20), ContainsSubstring("expert_shared_count"));
  CHECK_THAT(with("llama.expert_shared_feed_forward_length", -5),
             ContainsSubstring("expert_shared_feed_forward_length"));
  CHECK_THAT(with("llama.expert_group_count", 5), ContainsSubstring("expert_group_count"));
  CHECK_THAT(with("llama.expert_group_used_count", 2), ContainsSubstring("expert_group_used_count"));
  CHECK_THAT(with("llama.leading_dense_block_count", 3), ContainsSubstring("leading_dense_block_count"));
  CHECK_THAT(with("llama.interleave_moe_layer_step", 0), ContainsSubstring("interleave_moe_layer_step"));
}

TEST_CASE("model spec: an unsupported architecture is refused by name, with those that are supported") {
  const std::string said = complaint(TinyModel("mamba"));
  CHECK_THAT(said, ContainsSubstring(
                       "\"mamba\", an architecture that Hearth does not run because its recurrent layers "
                       "are neither gated delta nets"));
  for (const Architecture& arch : architectures()) {
    CHECK_THAT(said, ContainsSubstring(std::string(arch.name)));
  }
  // Names are a file's bytes: they must not reach a terminal unescaped or at full length.
  const std::string hostile = complaint(TinyModel("\x1b[2J" + std::string(5000, 'x')));
  CHECK(hostile.find('\x1b') == std::string::npos);
  CHECK(hostile.size() < 1500);
  CHECK_THAT(hostile, ContainsSubstring("an architecture that Hearth does not know; Hearth runs llama"));
  CHECK_THAT(complaint(TinyModel("t5")), ContainsSubstring("an encoder and a decoder"));
  CHECK_THAT(complaint(TinyModel("qwen4exp")), ContainsSubstring("several streams"));
  CHECK_THAT(complaint(TinyModel("minimax-m3")), ContainsSubstring("an indexer chooses"));
  CHECK_THAT(complaint(TinyModel("clip")), ContainsSubstring("not a language model"));
  CHECK_THAT(complaint(TinyModel().without_key("general.architecture")),
             ContainsSubstring("\"general.architecture\" is missing"));
  CHECK_THAT(complaint(TinyModel().key("general.architecture", uint32_t{1})),
             ContainsSubstring("uint32") && ContainsSubstring("string"));
}

TEST_CASE("model spec: every missing required key is named") {
  for (const char* key :
       {"llama.block_count", "llama.context_length", "llama.embedding_length", "llama.feed_forward_length",
        "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    INFO(key);
    CHECK_THAT(complaint(TinyModel().without_key(key)),
               ContainsSubstring(key) && ContainsSubstring("is missing"));
  }
  CHECK_THAT(complaint(TinyModel().without_tensor("token_embd.weight")),
             ContainsSubstring("token_embd.weight") && ContainsSubstring("missing"));
}

TEST_CASE("model spec: a key of the wrong type is reported with its value") {
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
                          "llama.attention.head_count", "llama.attention.head_count_kv",
                          "llama.attention.key_length", "llama.attention.sliding_window",
                          "llama.context_length", "llama.expert_count", "llama.rope.dimension_count"}) {
    INFO(key);
    CHECK_THAT(complaint(TinyModel().key(key, "many")),
               ContainsSubstring(key) && ContainsSubstring("string") && ContainsSubstring("integer"));
    // Some files give one number per layer.
    CHECK_THAT(
        complaint(TinyModel().array(key, std::vector<uint32_t>{2, 2})),
        ContainsSubstring(key) && ContainsSubstring("array of 2 uint32") && ContainsSubstring("integer"));
  }
  for (const char* key : {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base",
                          "llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    INFO(key);
    CHECK_THAT(complaint(TinyModel().key(key, true)), ContainsSubstring(key) && ContainsSubstring("bool"));
  }
}

TEST_CASE("model spec: numbers out of range are reported with the range") {
  const auto integer = [](const char* key, int64_t value) {
    return [=](TinyModel& model) { model.key(key, value); };
  };
  const auto number = [](const char* key, double value) {
    return [=](TinyModel& model) { model.key(key, value); };
  };
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  check_cases({
      {"no layers", integer("llama.block_count", 0), {"block_count", "is 0", "from 1 to 1024"}},
      {"2^32 + 2 layers", integer("llama.block_count", (int64_t{1} << 32) + 2), {"is 4294967298"}},
      {"negative width", integer("llama.embedding_length", -32), {"embedding_length", "is -32"}},
      {"absurd width", integer("llama.embedding_length", kHuge), {"is 9223372036854775807"}},
      {"no neurons", integer("llama.feed_forward_length", 0), {"feed_forward_length", "is 0"}},
      {"absurd neurons", integer("llama.feed_forward_length", kHuge), {"feed_forward_length"}},
      {"no heads", integer("llama.attention.head_count", 0), {"head_count\"", "is 0"}},
      {"absurd heads", integer("llama.attention.head_count", kHuge), {"head_count\""}},
      {"no kv heads", integer("llama.attention.head_count_kv", 0), {"head_count_kv", "is 0", "1 to 4"}},
      {"more kv heads than heads", integer("llama.attention.head_count_kv", 8), {"head_count_kv", "1 to 4"}},
      {"kv heads that do not divide",
       integer("llama.attention.head_count_kv", 3),
       {"head_count_kv", "is 3", "a divisor of head_count, 4"}},
      {"no context", integer("llama.context_length", 0), {"context_length", "is 0"}},
      {"absurd context", integer("llama.context_length", kHuge), {"context_length"}},
      {"negative window", integer("llama.attention.sliding_window", -1), {"sliding_window", "is -1"}},
      {"odd key length", integer("llama.attention.key_length", 7), {"key_length", "is 7", "even"}},
      {"key length of 0", integer("llama.attention.key_length", 0), {"key_length", "is 0"}},
      {"absurd key length", integer("llama.attention.key_length", kHuge), {"key_length"}},
      {"value length of its own",
       integer("llama.attention.value_length", 4),
       {"value_length", "is 4", "the length of a key, 8"}},
      {"heads that do not divide the width",
       [](TinyModel& model) {
         model.key("llama.attention.head_count", 5).key("llama.attention.head_count_kv", 5);
       },
       {"embedding_length", "is 32", "head_count, 5"}},
      {"heads of odd width",
       [](TinyModel& model) {
         model.key("llama.attention.head_count", 32).key("llama.attention.head_count_kv", 32);
       },
       {"embedding_length", "is 32", "even multiple"}},
      {"heads of absurd width in all",
       [](TinyModel& model) {
         model.key("llama.attention.head_count", 4096).key("llama.attention.key_length", 1024);
       },
       {"key_length", "is 1024", "1048576 in all 4096 heads"}},
      {"no number of experts used", integer("llama.expert_count", 8), {"expert_used_count", "is missing"}},
      {"more experts used than there are",
       [](TinyModel& model) { model.key("llama.expert_count", 8).key("llama.expert_used_count", 9); },
       {"expert_used_count", "is 9", "from 1 to 8"}},
      {"absurd number of experts", integer("llama.expert_count", kHuge), {"expert_count"}},
      {"groups that do not divide the experts",
       [](TinyModel& model) {
         model.key("llama.expert_count", 8)
             .key("llama.expert_used_count", 2)
             .key("llama.expert_group_count", 3);
       },
       {"expert_group_count", "is 3", "a divisor of expert_count, 8"}},
      {"groups too small for the experts used",
       [](TinyModel& model) {
         model.key("llama.expert_count", 8)
             .key("llama.expert_used_count", 3)
             .key("llama.expert_group_count", 4)
             .key("llama.expert_group_used_count", 1);
       },
       {"expert_used_count", "is 3", "at most the 2 experts"}},
      {"unknown gating",
       [](TinyModel& model) {
         model.key("llama.expert_count", 8)
             .key("llama.expert_used_count", 2)
             .key("llama.expert_gating_func", 9);
       },
       {"expert_gating_func", "is 9", "sigmoid"}},
      {"more layers of further tokens than layers",
       integer("llama.nextn_predict_layers", 2),
       {"nextn_predict_layers", "is 2", "from 0 to 1"}},
      {"eps of zero", number("llama.attention.layer_norm_rms_epsilon", 0.0), {"epsilon", "is 0,"}},
      {"eps beyond one", number("llama.attention.layer_norm_rms_epsilon", 2.0), {"epsilon", "is 2"}},
      {"eps that is none", number("llama.attention.layer_norm_rms_epsilon", NAN), {"epsilon", "nan"}},
  });
}

TEST_CASE("model spec: rotary embedding's scaling by every key that files use") {
  const auto rope_of = [](const std::function<void(TinyModel&)>& change) {
    TinyModel model;
    change(model);
    return spec_of(model).rope;
  };
  RopeSpec rope = rope_of([](TinyModel& m) {
    m.key("llama.rope.scaling.type", "linear").key("llama.rope.scaling.factor", 4.0f);
  });
  CHECK(rope.scaling == RopeScaling::kLinear);
  CHECK(rope.factor == 4.0);
  rope = rope_of([](TinyModel& m) { m.key("llama.rope.scale_linear", 8.0f); });
  CHECK(rope.scaling == RopeScaling::kLinear);
  CHECK(rope.factor == 8.0);
  // A factor without a type would otherwise be lost silently.
  rope = rope_of([](TinyModel& m) { m.key("llama.rope.scaling.factor", 2.0f); });
  CHECK(rope.scaling == RopeScaling::kLinear);
  CHECK(rope.factor == 2.0);
  rope = rope_of([](TinyModel& m) {
    m.key("llama.rope.scaling.type", "none")
        .key("llama.rope.scaling.factor", 4.0f)
        .key("llama.rope.scale_linear", 8.0f);
  });
  CHECK(rope.scaling == RopeScaling::kNone);
  rope = rope_of([](TinyModel& m) {
    m.key("llama.rope.scaling.type", "yarn")
        .key("llama.rope.scaling.factor", 16.0f)
        .key("llama.rope.scaling.original_context_length", uint32_t{32})
        .key("llama.rope.scaling.attn_factor", 0.5f)
        .key("llama.rope.scaling.yarn_beta_fast", 16.0f)
        .key("llama.rope.scaling.yarn_beta_slow", 2.0f);
  });
  CHECK(rope.scaling == RopeScaling::kYarn);
  CHECK(rope.factor == 16.0);
  CHECK(rope.original_context == 32);
  CHECK(rope.attn_factor == 0.5);
  CHECK(rope.beta_fast == 16.0);
  CHECK(rope.beta_slow == 2.0);
}

TEST_CASE("model spec: mistakes in a rotary embedding are reported") {
  const auto text = [](const char* key, const char* value) {
    return [=](TinyModel& model) { model.key(key, value); };
  };
  const auto number = [](const char* key, float value) {
    return [=](TinyModel& model) { model.key(key, value); };
  };
  const auto integer = [](const char* key, int64_t value) {
    return [=](TinyModel& model) { model.key(key, value); };
  };
  check_cases({
      {"unknown scaling",
       text("llama.rope.scaling.type", "su"),
       {"rope.scaling.type", "\"su\"", "none, linear, yarn or longrope"}},
      {"a scaling with control bytes", text("llama.rope.scaling.type", "\x1b[1m"), {"\\x1b[1m"}},
      {"a base below one", number("llama.rope.freq_base", 0.5f), {"rope.freq_base", "is 0.5", "from 1 to"}},
      {"an infinite base", number("llama.rope.freq_base", INFINITY), {"rope.freq_base", "is inf"}},
      {"a factor of zero", number("llama.rope.scaling.factor", 0.0f), {"rope.scaling.factor", "is 0,"}},
      {"a negative old factor", number("llama.rope.scale_linear", -2.0f), {"scale_linear", "is -2"}},
      {"an odd rotation", integer("llama.rope.dimension_count", 5), {"dimension_count", "is 5", "even"}},
      {"more than a head", integer("llama.rope.dimension_count", 16), {"dimension_count", "from 2 to 8"}},
      {"no original context", integer("llama.rope.scaling.original_context_length", 0), {"original_context"}},
      {"a ramp of zero", number("llama.rope.scaling.yarn_beta_fast", 0.0f), {"yarn_beta_fast", "is 0,"}},
  });
}

TEST_CASE("model spec: a PowerInfer file says so, and from which logits its predictors propose") {
  CHECK_FALSE(spec_of(TinyModel()).powerinfer);
  const ModelSpec spec = spec_of(TinyModel().powerinfer());
  CHECK(spec.powerinfer);
  CHECK(spec.sparse_threshold == 0.0f);
  CHECK(spec.activation == FfnActivation{Activation::kRelu});
  CHECK(spec_of(TinyModel().powerinfer().key("powerinfer.sparse_threshold", -1.5f)).sparse_threshold ==
        -1.5f);
  for (const float bad : {NAN, INFINITY}) {
    CHECK_THAT(complaint(TinyModel().powerinfer().key("powerinfer.sparse_threshold", bad)),
               ContainsSubstring("\"powerinfer.sparse_threshold\" is not a finite number"));
  }
  CHECK_THAT(complaint(TinyModel().powerinfer().key("powerinfer.sparse_threshold", "much")),
             ContainsSubstring("\"powerinfer.sparse_threshold\" holds string, expected a float"));
}

TEST_CASE("model spec: falcon, bamboo and opt have facts of their own") {
  const ModelSpec falcon = spec_of(TinyModel("falcon"));
  CHECK(falcon.activation == FfnActivation{Activation::kGeluErf});
  CHECK_FALSE(falcon.gated);
  CHECK(falcon.norm_eps == 1e-5f);
  CHECK(falcon.arch.predictor_input == PredictorInput::kLayerInput);
  CHECK(spec_of(TinyModel("falcon").powerinfer()).activation == FfnActivation{Activation::kRelu});
  CHECK(spec_of(TinyModel("bamboo")).activation == FfnActivation{Activation::kDRelu});
  CHECK(spec_of(TinyModel("bamboo").powerinfer()).activation == FfnActivation{Activation::kDRelu});
  CHECK(spec_of(TinyModel("bamboo").key("bamboo.attention.sliding_window", uint32_t{16})).layer(0).window ==
        16);
  const ModelSpec opt = spec_of(TinyModel("opt"));
  CHECK(opt.activation == FfnActivation{Activation::kRelu});
  CHECK_FALSE(opt.gated);
  CHECK(opt.norm_eps == 1e-5f);
  CHECK(spec_of(TinyModel("opt").key("opt.attention.layer_norm_epsilon", 1e-6f)).norm_eps == 1e-6f);
  CHECK_THAT(complaint(TinyModel("falcon").without_key("falcon.attention.layer_norm_epsilon")),
             ContainsSubstring("\"falcon.attention.layer_norm_epsilon\" is missing"));
}

TEST_CASE("model spec: learned positions bound the context, except for the two before the first") {
  // TinyModel's table has 66 rows; PowerInfer's files count all of them as context.
  CHECK(spec_of(TinyModel("opt")).context_train == 64);
  CHECK(spec_of(TinyModel("opt").key("opt.context_length", uint32_t{66})).context_train == 64);
  CHECK(spec_of(TinyModel("opt").key("opt.context_length", uint32_t{32})).context_train == 32);
  CHECK_THAT(complaint(TinyModel("opt").without_tensor("position_embd.weight")),
             ContainsSubstring("\"position_embd.weight\" is missing"));
  CHECK_THAT(complaint(TinyModel("opt").random_tensor("position_embd.weight", {32, 2}, 0, 1)),
             ContainsSubstring("\"position_embd.weight\" has 2 rows, expected one for each position and 2"));
}

TEST_CASE("model spec: PowerInfer has no sparse form of some architectures") {
  CHECK_THAT(
      complaint(TinyModel("qwen2").powerinfer()),
      ContainsSubstring("PowerInfer file (magic PWRI) of architecture qwen2, which has no sparse form") &&
          ContainsSubstring("expected one of llama, bamboo, falcon, opt"));
}

TEST_CASE("model spec: no supported architecture is listed as unsupported") {
  for (const Architecture& arch : architectures()) CHECK(why_not_run(arch.name).empty());
}

TEST_CASE("model spec: MiniMax's other models are refused with their reasons") {
  CHECK_THAT(std::string(why_not_run("minimax-01")), ContainsSubstring("lightning attention"));
  CHECK_THAT(std::string(why_not_run("minimax-m3")), ContainsSubstring("indexer chooses"));
}

}  // namespace hearth::test
