// Models as plans see them: a shape and a file with it give the same facts, and none of a file's weights is
// read.
#include "profiler/plan/planned_model.h"

#include <cstdlib>

#include "engine/model/assistant_weights.h"
#include "engine/placement/layer_options.h"
#include "profiler/synthesis/synth_file.h"
#include "profiler/synthesis/synth_model.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::testing {
namespace {

void check_same_facts(const ModelFacts& a, const ModelFacts& b) {
  CHECK(a.vram_whole == b.vram_whole);
  CHECK(a.vram_fixed == b.vram_fixed);
  CHECK(a.vram_least == b.vram_least);
  CHECK(a.output_read == b.output_read);
  CHECK(a.ram_fixed == b.ram_fixed);
  REQUIRE(a.layers.size() == b.layers.size());
  for (size_t i = 0; i < a.layers.size(); ++i) CHECK(a.layers[i] == b.layers[i]);
}

/// Whether the tensor holds keys or values of a layer that reads those of another layer.
bool is_of_other_layer(const ModelSpec& spec, std::string_view name) {
  for (int i = 0; i < spec.n_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".attn_";
    if (!spec.has_own_kv(i) && (name.starts_with(prefix + "k.") || name.starts_with(prefix + "v.")))
      return true;
  }
  return false;
}

/// Whether the tensor belongs to a layer that predicts further tokens.
bool predicts(const ModelSpec& spec, std::string_view name) {
  for (int i = 0; i < spec.n_unused_layers; ++i)
    if (name.starts_with("blk." + std::to_string(spec.n_layers + i) + ".")) return true;
  return false;
}

TEST_CASE("the bytes of all matrices of a file are counted") {
  const std::filesystem::path folder = source_dir() + "/tests/data/arch";
  int n_models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const ModelFile file = ModelFile::open(entry.path());
    if (is_assistant(file)) continue;  // no model by itself
    const ModelSpec spec = read_model_spec(file);
    if (!spec.cpu_only_kind().empty()) continue;
    double bytes = 0;
    for (const TensorInfo& tensor : file.tensors()) {
      const std::string_view name = tensor.name;
      const bool runs = !predicts(spec, name) && !name.starts_with("v.") && !name.starts_with("mm.") &&
                        name.find(".indexer.") == std::string_view::npos;
      const bool is_vector = tensor.n_dims < 2 || name.ends_with("_norm.weight") || name.ends_with(".bias") ||
                             name.find("conv1d") != std::string_view::npos;
      if (runs && !is_vector && !is_of_other_layer(spec, name)) bytes += static_cast<double>(tensor.bytes);
    }
    INFO(entry.path().filename() << ": " << bytes << " bytes of matrices");
    const PlannedModel model = model_of_file(entry.path(), "");
    // Matrices that are copied in another order or type count with the copy's bytes.
    const double copied = model.weights.copied_bytes();
    CHECK(model.weight_bytes() >= 0.98 * bytes - copied);
    CHECK(model.weight_bytes() <= 1.02 * bytes + copied);
    ++n_models;
  }
  CHECK(n_models > 40);
}

TEST_CASE("a shape has the bytes of a file of that shape") {
  const std::string name = GENERATE("tiny", "tiny-bamboo", "tiny-falcon", "tiny-opt");
  INFO(name);
  const hearth::test::TempFolder folder;
  SynthOptions options;
  options.shape = *find_shape(name);
  options.sparse = true;
  options.n_threads = 2;
  const std::filesystem::path path = folder / "model.gguf";
  write_synth_file(path, SynthKind::kSparse, options, make_synth_model(options, {}), false, [](uint64_t) {});

  const PlannedModel file = model_of_file(path, "");
  const PlannedModel shape = model_of_shape(*find_shape(name), DType::kQ4_0, "");
  CHECK(file.weight_bytes() == shape.weight_bytes());
  CHECK(file.modes() == shape.modes());
  for (const Sparsity mode : shape.modes()) {
    const PlanLoad load{.context_tokens = 512, .n_slots = 2, .prefill_chunk = 64};
    const PlanBasis of_file(file, mode, load), of_shape(shape, mode, load);
    const ModelActivity activity = law_activity(*known_law(shape.spec), shape.spec);
    const ModelFacts facts = model_facts(of_shape.inputs(), activity, true);
    check_same_facts(model_facts(of_file.inputs(), activity, true), facts);
    // A layer's bytes on the device equal those that the engine counts for it.
    std::vector<LayerPlacement> layers(static_cast<size_t>(shape.spec.n_layers));
    for (LayerPlacement& layer : layers)
      layer = {.on_device = true, .all_gates = false, .hot = {1, 3}, .n_cache = 2};
    int64_t sum = facts.vram_fixed;
    for (const LayerFacts& layer : facts.layers) {
      sum += layer.vram_shared + 4 * static_cast<int64_t>(layer.gate + layer.up + layer.down);
    }
    const auto counted = static_cast<int64_t>(device_bytes(of_shape.inputs(), layers, 0).total());
    CHECK(sum >= counted - 3 * 256 * shape.spec.n_layers);
    CHECK(sum <= counted + 6 * 256 * shape.spec.n_layers);
  }
}

TEST_CASE("whole layers are placed with the bytes that they have in the file") {
  const DType type = GENERATE(DType::kQ4_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ2_K);
  const PlannedModel model = model_of_shape(*find_shape("7b"), type, "silu");
  const PlanBasis basis(model, Sparsity::kDense, {.context_tokens = 512});
  const ModelActivity activity = dense_activity(model.spec);
  const ModelFacts facts = model_facts(basis.inputs(), activity, true);
  std::vector<LayerPlacement> layers(static_cast<size_t>(model.spec.n_layers), whole_layer(model.spec));
  int64_t sum = facts.vram_fixed;
  for (const LayerFacts& layer : facts.layers) sum += layer.vram_whole;
  const auto counted = static_cast<int64_t>(device_bytes(basis.inputs(), layers, 0).total());
  CHECK(sum >= counted);
  CHECK(sum <= counted + 6 * 256 * model.spec.n_layers);
}

TEST_CASE("the scratch of a library for prompts is counted in every placement") {
  const PlannedModel model = model_of_shape(*find_shape("tiny"), DType::kQ4_0, "");
  const ModelActivity activity = law_activity(*known_law(model.spec), model.spec);
  const auto facts_of = [&](bool library, bool decodes) {
    const PlanLoad load{.context_tokens = 512, .library = library, .library_decodes = decodes};
    return model_facts(PlanBasis(model, model.modes().front(), load).inputs(), activity, true);
  };
  const ModelFacts without = facts_of(false, true), with = facts_of(true, false),
                   decodes = facts_of(true, true);
  CHECK(facts_of(false, false).vram_fixed == without.vram_fixed);
  // The whole model shares no neurons, so the engine's own count includes the scratch.
  CHECK(with.vram_fixed - without.vram_fixed == with.vram_whole - without.vram_whole);
  CHECK(with.vram_least - without.vram_least == with.vram_whole - without.vram_whole);
  CHECK(decodes.vram_fixed - with.vram_fixed == decodes.vram_whole - with.vram_whole);
}

TEST_CASE("a layer with a window stores and reads only the keys and values in it") {
  PlannedModel model = model_of_shape(*find_shape("tiny"), DType::kQ4_0, "");
  REQUIRE(model.spec.n_layers > 1);
  model.spec.layers.assign(static_cast<size_t>(model.spec.n_layers), LayerSpec{});
  model.spec.layers[1].window = 128;
  const PlanLoad load{.context_tokens = 4096, .n_slots = 2, .prefill_chunk = 64};
  const PlanBasis basis(model, model.modes().front(), load);
  const ModelActivity activity = law_activity(*known_law(model.spec), model.spec);
  const ModelFacts facts = model_facts(basis.inputs(), activity, true);
  const LayerFacts &full = facts.layers[0], &window = facts.layers[1];
  const int64_t position = 2 * 2 * model.spec.kv_dim();  // bytes of a position's key and value
  CHECK(full.kv_read - window.kv_read == static_cast<double>(position * (2048 - 128)));
  // Each slot has 8 blocks before a position, 5 of a step, and 8 of a kept end; the context has 256.
  const int64_t saved = position * 16 * 2 * (256 - 8 - 5 - 8);
  CHECK(full.ram_whole - window.ram_whole == saved);
  CHECK(std::abs(full.vram_shared - window.vram_shared - saved) <= 2 * 256);
}

TEST_CASE("8-bit keys and values take and read 34 bytes for 64") {
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ4_0, "");
  const ModelActivity activity = law_activity(*known_law(model.spec), model.spec);
  const auto facts_of = [&](KvType type) {
    const PlanLoad load{.context_tokens = 4096, .n_slots = 2, .prefill_chunk = 64, .kv_type = type};
    const PlanBasis basis(model, model.modes().front(), load);
    return model_facts(basis.inputs(), activity, true).layers[0];
  };
  const LayerFacts halves = facts_of(KvType::kF16), rounded = facts_of(KvType::kQ8);
  const int64_t position = 2 * 2 * model.spec.kv_dim();  // bytes of a key and value in halves
  CHECK(halves.kv_read - rounded.kv_read == static_cast<double>(position * 2048 * 30 / 64));
  const int64_t saved = position * 2 * 4096 * 30 / 64;
  CHECK(halves.ram_whole - rounded.ram_whole == saved);
  CHECK(std::abs(halves.vram_shared - rounded.vram_shared - saved) <= 2 * 256);
}

TEST_CASE("a model of another type has other bytes, and none exists if rows are not whole blocks") {
  const PlannedModel model = model_of_shape(*find_shape("7b"), DType::kQ8_0, "");
  const std::optional<PlannedModel> half = model_of_type(model, DType::kQ4_0);
  REQUIRE(half);
  CHECK(half->weight_bytes() == Approx(model.weight_bytes() * 18 / 34));
  ModelShape odd = *find_shape("tiny");
  odd.d_model = 96;
  odd.n_heads = 4;
  CHECK_FALSE(model_of_type(model_of_shape(odd, DType::kQ4_0, ""), DType::kQ4_K));
  CHECK_THROWS_AS(model_of_shape(odd, DType::kQ4_K, ""), std::invalid_argument);
}

TEST_CASE("a type that the GPU does not support is named") {
  const ModelShape& shape = *find_shape("7b");
  CHECK_FALSE(model_of_shape(shape, DType::kQ4_0, "").cpu_only_type());
  CHECK(model_of_shape(shape, DType::kMXFP4, "").cpu_only_type() == DType::kMXFP4);
}

TEST_CASE("types are found by their names in any case") {
  CHECK(dtype_of_name("q4_0") == DType::kQ4_0);
  CHECK(dtype_of_name("Q4_K") == DType::kQ4_K);
  CHECK_FALSE(dtype_of_name("q4"));
  CHECK(dtype_names().size() == static_cast<size_t>(kDTypeCount));
}

}  // namespace
}  // namespace hearth::testing
