// Reading the sizes of a model's indexers and the layers that have one, and one message for every key that
// does not fit.
#include "engine/model/read_indexer.h"

#include "tests/support/catch.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {

TEST_CASE("model spec: the sizes of indexers, and the layers that have one") {
  const auto indexed = [](const std::string& arch, int top) {
    return TinyModel(arch)
        .key(arch + ".attention.head_count_kv", 1)
        .key(arch + ".attention.kv_lora_rank", 32)
        .key(arch + ".attention.q_lora_rank", 24)
        .key(arch + ".rope.dimension_count", 16)
        .key(arch + ".attention.key_length", 48)
        .key(arch + ".attention.value_length", 40)
        .key(arch + ".context_length", 4096)
        .key(arch + ".attention.indexer.head_count", 3)
        .key(arch + ".attention.indexer.key_length", 20)
        .key(arch + ".attention.indexer.top_k", top);
  };
  const auto with_keys_of = [](TinyModel model, std::initializer_list<int> layers) {
    for (const int i : layers)
      model.random_tensor("blk." + std::to_string(i) + ".indexer.attn_k.weight", {4}, 0.0, 1.0);
    return model;
  };
  const std::string arch = GENERATE("deepseek32", "glm-dsa");
  // Without an indexer's tensors, the context is what it would choose.
  CHECK(spec_of(indexed(arch, 2048)).context_train == 2048);
  CHECK(spec_of(indexed(arch, 8192)).context_train == 4096);
  CHECK(spec_of(indexed(arch, 2048)).rope.original_context == 4096);
  CHECK_FALSE(spec_of(indexed(arch, 2048)).needs_indexer(4096));
  CHECK_THAT(complaint(indexed(arch, 2048).without_key(arch + ".attention.indexer.top_k")),
             ContainsSubstring("indexer.top_k") && ContainsSubstring("is missing"));
  CHECK_THAT(complaint(indexed(arch, 0)), ContainsSubstring("indexer.top_k"));

  const ModelSpec spec = spec_of(with_keys_of(indexed(arch, 100), {0}));
  CHECK(spec.context_train == 4096);
  CHECK(spec.unindexed_context() == 100);
  CHECK((spec.indexer.n_heads == 3 && spec.indexer.head_dim == 20 && spec.indexer.top_k == 100));
  CHECK_FALSE(spec.needs_indexer(100));
  CHECK(spec.needs_indexer(101));
  CHECK(spec.layer(0).indexes);
  CHECK(spec.layer(1).indexes == (arch == "deepseek32"));
  const auto types = [&](std::vector<bool> of_layers) {
    return with_keys_of(indexed(arch, 100), {0, 1}).array(arch + ".attention.indexer.types", of_layers);
  };
  CHECK_FALSE(spec_of(types({true, false})).layer(1).indexes);
  CHECK(spec_of(types({true, true})).layer(1).indexes);
  CHECK_THAT(complaint(types({false, true})),
             ContainsSubstring("indexer.types") && ContainsSubstring("layer 0"));
  CHECK_THAT(complaint(types({true})), ContainsSubstring("indexer.types"));
  CHECK_THAT(complaint(with_keys_of(indexed(arch, 100), {0}).key(arch + ".attention.indexer.key_length", 8)),
             ContainsSubstring("indexer.key_length") && ContainsSubstring("16 dimensions that rotate"));
  for (const char* key : {"head_count", "key_length"}) {
    CHECK_THAT(complaint(with_keys_of(indexed(arch, 100), {0}).key(arch + ".attention.indexer." + key, 0)),
               ContainsSubstring(std::string("indexer.") + key));
  }
  CHECK_THAT(complaint(with_keys_of(indexed(arch, 100), {0}).without_key(arch + ".attention.q_lora_rank")),
             ContainsSubstring("q_lora_rank"));
}

}  // namespace hearth::test
