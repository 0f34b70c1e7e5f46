// Synthetic models with layers of several kinds: their files have the tensors and keys of converted files,
// and Hearth runs them.
#include "profiler/synthesis/synth_hybrid.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "profiler/plan/planned_model.h"
#include "profiler/synthesis/layer_tensors.h"
#include "profiler/synthesis/synth_file.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

/// Returns the shape with small sizes and the first n_layers layers.
ModelShape shrunk(const std::string& name, int n_layers) {
  ModelShape shape = with_layers(*find_shape(name), n_layers);
  shape.d_model = 128;
  shape.d_ff = 64;
  shape.n_vocab = 600;
  shape.n_heads = 4;
  shape.n_kv_heads = 2;
  shape.d_head = 64;
  if (shape.d_head_window > 0) shape.d_head_window = 32;
  if (shape.n_kv_heads_full > 0) shape.n_kv_heads_full = 1;
  if (shape.n_rot > 0) shape.n_rot = 64;
  if (shape.d_layer_embedding > 0) shape.d_layer_embedding = 32;
  if (shape.has_experts()) {
    shape.n_experts = 8;
    shape.n_used = 2;
    shape.d_expert = 64;
  }
  if (shape.d_shared > 0) shape.d_shared = 32;
  if (shape.recurrent) {
    shape.recurrent.n_k_heads = 2;
    shape.recurrent.n_v_heads = 4;
    shape.recurrent.head_dim = 32;
    if (shape.recurrent.key_rows > 0) shape.recurrent.key_rows = 32;
  }
  return shape;
}

struct Case {
  std::string name, like;  // like: a converted file of tests/data/arch
  int n_layers;
};
const Case kCases[] = {{"qwen3.5-4b", "qwen35", 5},
                       {"qwen3.6-27b", "qwen35", 5},
                       {"qwen3.6-35b-a3b", "qwen35moe", 5},
                       {"qwen3-coder-next", "qwen3next", 5},
                       {"gemma-4-e4b", "gemma4-e2b", 10},
                       {"gemma-4-26b-a4b", "gemma4-moe", 8},
                       {"nemotron-3-nano", "nemotron_h_moe", 8}};

std::string path_like(const Case& one) {
  return testing::source_dir() + "/tests/data/arch/" + one.like + ".gguf";
}

/// Writes a shrunk model of the case.
std::filesystem::path written(const TempFolder& folder, const Case& one, DType dtype = DType::kQ8_0) {
  SynthOptions options;
  options.shape = shrunk(one.name, one.n_layers);
  options.dtype = dtype;
  options.n_threads = 2;
  const std::filesystem::path path = folder / (one.name + ".gguf");
  double last = 0;
  const SynthModel model = make_synth_model(options, [&](double share) { last = share; });
  CHECK(last == Approx(1.0));
  write_synth_file(path, SynthKind::kPlain, options, model, false, [](uint64_t) {});
  const auto bytes = static_cast<double>(ModelFile::open(path).total_bytes());
  CHECK(static_cast<double>(synth_sizes(options).plain_bytes) == Approx(bytes).epsilon(0.05));
  return path;
}

/// Returns the names of a layer's tensors after "blk.N.", each with its number of dimensions.
std::set<std::string> names_of_layer(const ModelFile& file, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  std::set<std::string> names;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name.starts_with(prefix)) names.insert(std::string(tensor.name).substr(prefix.size()));
  }
  return names;
}

TEST_CASE("layers of a hybrid shape have the tensors of converted files") {
  const TempFolder folder;
  for (const Case& one : kCases) {
    CAPTURE(one.name);
    const ModelFile like = ModelFile::open(path_like(one));
    const ModelFile file = ModelFile::open(written(folder, one));
    const ModelSpec of_like = read_model_spec(like), spec = read_model_spec(file);
    std::set<std::set<std::string>> converted;
    for (int i = 0; i < of_like.n_layers; ++i) {
      std::set<std::string> names = names_of_layer(like, i);
      // Converters keep keys that no layer reads.
      if (!of_like.has_own_kv(i)) {
        for (const char* unread : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
          names.erase(unread);
      }
      converted.insert(names);
    }
    for (int i = 0; i < spec.n_layers; ++i) {
      CAPTURE(i);
      CHECK(converted.contains(names_of_layer(file, i)));
    }
    for (const TensorInfo& tensor : like.tensors()) {
      if (!tensor.name.starts_with("blk.") && tensor.name != "output.weight")
        CHECK(file.find_tensor(tensor.name));
    }
  }
}

TEST_CASE("a hybrid shape's file binds, and its keys say what the shape says") {
  const TempFolder folder;
  for (const Case& one : kCases) {
    CAPTURE(one.name);
    const ModelShape shape = shrunk(one.name, one.n_layers);
    const ModelFile file = ModelFile::open(written(folder, one));
    const ModelSpec spec = read_model_spec(file);
    const Weights weights = bind_weights(file, spec);
    CHECK(spec.recurrent == shape.recurrent);
    CHECK(spec.mixture.n_experts == shape.n_experts);
    CHECK(spec.mixture.d_shared == shape.d_shared);
    CHECK(weights.tied() == shape.tied);
    for (int i = 0; i < spec.n_layers; ++i) {
      CAPTURE(i);
      const LayerKind kind = layer_kind(shape, i);
      CHECK(spec.layer(i).recurrent == kind.recurrent);
      CHECK(spec.attends(i) == kind.attends);
      CHECK(spec.layer(i).has_ffn == kind.has_ffn);
      CHECK(spec.has_own_kv(i) == kind.own_kv);
      CHECK((spec.layer(i).window > 0) == (shape.d_head_window > 0 && !kind.full));
    }
  }
}

TEST_CASE("a plan of a hybrid shape has the bytes of its file") {
  const TempFolder folder;
  for (const Case& one : kCases) {
    CAPTURE(one.name);
    const ModelShape shape = shrunk(one.name, one.n_layers);
    const PlannedModel planned = model_of_shape(shape, DType::kQ8_0, "");
    const PlannedModel of_file = model_of_file(written(folder, one), "");
    CHECK(planned.weight_bytes() == Approx(of_file.weight_bytes()).epsilon(0.001));
    for (int i = 0; i < shape.n_layers; ++i) {
      CAPTURE(i);
      CHECK(attention_bytes(planned.weights.layers[static_cast<size_t>(i)]) ==
            attention_bytes(of_file.weights.layers[static_cast<size_t>(i)]));
      CHECK(planned.spec.layer(i).has_ffn == of_file.spec.layer(i).has_ffn);
      CHECK(planned.spec.layer(i).experts == of_file.spec.layer(i).experts);
      CHECK(planned.spec.layer(i).kv_source == of_file.spec.layer(i).kv_source);
      CHECK(planned.spec.kv_dim(i) == of_file.spec.kv_dim(i));
    }
  }
}

TEST_CASE("a hybrid shape is cut only to layers that its kinds allow") {
  CHECK_THROWS_WITH(with_layers(*find_shape("qwen3.5-4b"), 3),
                    "qwen3.5-4b has layers of several kinds, so it takes at least 4 layers, not 3.");
  CHECK_THROWS_WITH(with_layers(*find_shape("nemotron-3-nano"), 5),
                    "nemotron-3-nano has layers of several kinds, so it takes 6 to 52 layers, not 5.");
  CHECK_THROWS_WITH(with_layers(*find_shape("nemotron-3-nano"), 53),
                    "nemotron-3-nano has layers of several kinds, so it takes 6 to 52 layers, not 53.");
  CHECK(with_layers(*find_shape("gemma-4-e4b"), 42).first_shared_kv() == 24);
  CHECK(with_layers(*find_shape("gemma-4-e4b"), 8).first_shared_kv() == 6);
  CHECK(with_layers(*find_shape("7b"), 2).n_layers == 2);
}

}  // namespace
}  // namespace hearth::test
