// The last stage of loading: thresholds that no float can hold, what each mode copies into memory, and what
// is reported about it.
#include "engine/residency/neuron_setup.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/model_runtime.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

/// A model file in a folder of its own, loaded with one thread and relu.
struct ReluOnDisk {
  explicit ReluOnDisk(const TinyModel& model) {
    options.path = folder / "model.gguf";
    options.n_threads = 1;
    options.ffn_activation = "relu";
    model.write(options.path);
  }
  std::unique_ptr<ModelRuntime> load(const std::string& mode) {
    options.sparsity.mode = mode;
    return ModelRuntime::load(options);
  }
  TempFolder folder;
  LoadOptions options;
};

/// The facts and weights of a file, and a layout in reverse order.
struct Reversed {
  explicit Reversed(const ReluOnDisk& disk)
      : file(ModelFile::open(disk.options.path)),
        spec(read_model_spec(file, "relu")),
        weights(bind_weights(file, spec)) {
    std::vector<int32_t> falling;
    for (int32_t j = spec.d_ff; j-- > 0;) falling.push_back(j);
    order.assign(static_cast<size_t>(spec.n_layers), falling);
  }
  double bytes(Sparsity mode) const {
    return NeuronLayout::bundle_bytes(spec, weights, bundle_parts(mode), order);
  }
  NeuronLayout layout(Sparsity mode, const std::function<void(double)>& progress = {}) {
    const BundleParts parts = bundle_parts(mode);
    NeuronLayout layout = NeuronLayout::in_bundles(spec, weights, parts, order, backend);
    layout.fill(spec, weights, parts, order, 3, progress);
    return layout;
  }
  ModelFile file;
  ModelSpec spec;
  CpuBackend backend{1, Isa::kScalar};
  Weights weights;
  NeuronLayout::Order order;
};

bool says(const std::vector<std::string>& notes, const std::string& text) {
  for (const std::string& note : notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("neuron setup: a threshold that no float can hold is refused") {
  ReluOnDisk disk(TinyModel().powerinfer());
  for (const double threshold : {1e39, -1e39, 1e300}) {
    disk.options.sparsity.predictor_threshold = threshold;
    CHECK_THROWS_AS(disk.load("predicted"), std::invalid_argument);
  }
}

TEST_CASE("neuron setup: a request to verify predictors is answered with the reason if none is verified") {
  ReluOnDisk disk(TinyModel().powerinfer());
  disk.options.sparsity.verify_predictor = true;
  CHECK(says(disk.load("exact")->placed().sparsity.notes,
             "no predictor is verified, because the model runs exact"));
  CHECK(says(disk.load("dense")->placed().sparsity.notes,
             "no predictor is verified, because the model runs dense"));
  CHECK_FALSE(says(disk.load("predicted")->placed().sparsity.notes, "no predictor is verified"));
}

TEST_CASE("neuron setup: predictors are reordered only for the mode that reads them") {
  TinyModel bare = TinyModel().powerinfer();
  for (const char* name : {"blk.0.fc1.weight", "blk.0.fc2.weight", "blk.1.fc1.weight", "blk.1.fc2.weight"}) {
    bare.without_tensor(name);
  }
  Reversed with{ReluOnDisk(TinyModel().powerinfer())}, without{ReluOnDisk(bare)};
  CHECK(with.bytes(Sparsity::kExact) == without.bytes(Sparsity::kExact));
  CHECK(with.bytes(Sparsity::kPredicted) > without.bytes(Sparsity::kPredicted));
  CHECK_FALSE(with.layout(Sparsity::kExact).layer(1).predictor_out);
  const NeuronLayout predicted = with.layout(Sparsity::kPredicted);
  const Matrix& from = with.weights.layers[1].predictor_out;
  const Matrix& to = predicted.layer(1).predictor_out;
  REQUIRE(to);
  CHECK(std::equal(from.row(47), from.row(47) + from.stride_bytes(), to.row(0)));
}

TEST_CASE("neuron setup: an exception from progress ends the reordering, whatever other threads do") {
  Reversed model{ReluOnDisk(TinyModel().powerinfer())};
  int n_told = 0;
  const auto give_up = [&](double) {
    ++n_told;
    throw std::runtime_error("enough");
  };
  // The helper threads may have built every layer before the calling thread gets one.
  try {
    model.layout(Sparsity::kExact, give_up);
    CHECK(n_told == 0);
  } catch (const std::runtime_error& error) {
    CHECK(n_told == 1);
    CHECK(std::string(error.what()) == "enough");
  }
}

}  // namespace hearth::test
