// Which mode a model is run in, what that is said to read, and what is counted: against sums by hand and a
// pass in doubles.
#include "engine/sparsity_choice.h"

#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

/// A model on disk and the options to load it by.
struct OnDisk {
  explicit OnDisk(const TinyModel& model, const std::string& activation = "relu") {
    options.path = folder / "model.gguf";
    options.n_threads = 1;
    options.ffn_activation = activation;
    model.write(options.path);
  }
  std::unique_ptr<ModelRuntime> load(const std::string& mode) {
    options.sparsity.mode = mode;
    return ModelRuntime::load(options);
  }
  /// What refuses to load it so; empty if nothing does.
  template <typename Error>
  std::string complaint(const std::string& mode) {
    try {
      load(mode);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  TempFolder folder;
  LoadOptions options;
};

TinyModel powerinfer_model() { return TinyModel().powerinfer(); }

TinyModel without_predictors() {
  TinyModel model = powerinfer_model();
  for (const char* name : {"blk.0.fc1.weight", "blk.0.fc2.weight", "blk.1.fc1.weight", "blk.1.fc2.weight"}) {
    model.without_tensor(name);
  }
  return model;
}

}  // namespace

TEST_CASE("sparsity choice: what each request comes to, with its reason") {
  OnDisk plain{TinyModel()}, predictors{powerinfer_model()}, bare{without_predictors()};
  OnDisk silu(TinyModel(), "");
  const auto check = [](OnDisk& disk, const char* asked, Sparsity mode, const char* reason) {
    INFO(asked);
    const auto model = disk.load(asked);
    const SparsityReport& report = model->sparsity();
    CHECK(report.mode == mode);
    CHECK_THAT(report.reason, ContainsSubstring(reason));
    CHECK((report.activity.n_tokens > 0) == (mode != Sparsity::kDense));
  };
  check(plain, "dense", Sparsity::kDense, "asked for");
  check(plain, "exact", Sparsity::kExact, "lossless with relu");
  check(plain, "auto", Sparsity::kExact, "no predictors");
  check(bare, "exact", Sparsity::kExact, "lossless with relu");
  check(bare, "auto", Sparsity::kExact, "no predictors");
  check(predictors, "dense", Sparsity::kDense, "asked for");
  check(predictors, "predicted", Sparsity::kPredicted, "asked for");
  // Never dense in silence.
  check(silu, "exact", Sparsity::kDense, "its activation, silu, has no zeros to skip");
  check(silu, "auto", Sparsity::kDense, "its activation, silu, has no zeros to skip");
}

TEST_CASE("sparsity choice: auto takes what reads less, and tells both numbers") {
  OnDisk disk{powerinfer_model()};
  const auto bytes_of = [&](const char* mode) { return disk.load(mode)->sparsity().bytes_per_token; };
  for (const double threshold : {-1000.0, 0.0, 1000.0}) {
    disk.options.sparsity.predictor_threshold = threshold;
    const bool predicted_reads_less = bytes_of("predicted") < bytes_of("exact");
    const auto model = disk.load("auto");
    INFO(threshold << ": " << model->sparsity().reason);
    CHECK((model->sparsity().mode == Sparsity::kPredicted) == predicted_reads_less);
    CHECK_THAT(model->sparsity().reason, ContainsSubstring("a token reads ") &&
                                             ContainsSubstring(" MB predicted, ") &&
                                             ContainsSubstring(" MB exact"));
    // Its comparison's counts are not left behind in what the model runs.
    CHECK(model->sparsity().activity.recall < 0);
  }
}

TEST_CASE("sparsity choice: what cannot be done is refused in one sentence") {
  OnDisk plain{TinyModel()}, bare{without_predictors()}, predictors{powerinfer_model()};
  OnDisk silu(TinyModel(), "");
  for (OnDisk* disk : {&plain, &bare}) {
    CHECK_THAT(disk->complaint<ModelFileError>("predicted"),
               ContainsSubstring("model.gguf: ") && ContainsSubstring("no predictors") &&
                   ContainsSubstring("blk.N.fc1") && ContainsSubstring("take exact"));
  }
  CHECK_THAT(silu.complaint<ModelFileError>("predicted"),
             ContainsSubstring("no predictors") && ContainsSubstring("take dense"));
  for (OnDisk* disk : {&plain, &predictors}) {
    CHECK_THAT(disk->complaint<ModelFileError>("calibrated"),
               ContainsSubstring("model.gguf: ") && ContainsSubstring("relu") &&
                   ContainsSubstring("exact zeros") && ContainsSubstring("take exact"));
  }
  for (const char* word : {"", "Exact", "sparse", "exact "}) {
    CHECK_THAT(plain.complaint<std::invalid_argument>(word),
               ContainsSubstring("\"" + std::string(word) + "\" is not known") &&
                   ContainsSubstring("auto, exact, predicted, calibrated or dense"));
  }
}

}  // namespace hearth::test
