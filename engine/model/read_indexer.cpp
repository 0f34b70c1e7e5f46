// See the header.
#include "engine/model/read_indexer.h"

#include <algorithm>
#include <string>

namespace hearth {
namespace {

bool has_indexer(const ModelFile& file, int layer) {
  return file.find_tensor("blk." + std::to_string(layer) + ".indexer.attn_k.weight") != nullptr;
}

}  // namespace

void read_indexer(const SpecKeys& keys, int n_blocks, ModelSpec& spec) {
  constexpr const char *kHeads = "attention.indexer.head_count", *kLength = "attention.indexer.key_length",
                       *kTypes = "attention.indexer.types";
  const int top_k = keys.integer("attention.indexer.top_k", 1, SpecKeys::kMaxContext);
  bool any = false;
  for (int i = 0; i < spec.n_layers; ++i) any = any || has_indexer(keys.file(), i);
  if (!any) {
    spec.context_train = std::min(spec.context_train, top_k);
    return;
  }
  spec.indexer = {.n_heads = keys.integer(kHeads, 1, SpecKeys::kMaxHeads),
                  .head_dim = keys.integer(kLength, 2, SpecKeys::kMaxHeadDim),
                  .top_k = top_k};
  if (spec.indexer.head_dim < spec.rope.n_rot) {
    keys.fail(kLength, std::to_string(spec.indexer.head_dim),
              "at least the " + std::to_string(spec.rope.n_rot) + " dimensions that rotate");
  }
  if (spec.latent.q_rank == 0)
    keys.fail("attention.q_lora_rank", "0", "the rank of the queries that the indexer reads");
  const auto types = keys.of_layers(kTypes, spec.n_layers, n_blocks - spec.n_layers);
  for (int i = 0; i < spec.n_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    spec.layers[at].indexes =
        types ? (*types)[at] != 0 : !spec.arch.indexers_shared || has_indexer(keys.file(), i);
  }
  if (!spec.layers.front().indexes)
    keys.fail(kTypes, "false in layer 0", "true, because no earlier layer chooses positions for it");
}

}  // namespace hearth
