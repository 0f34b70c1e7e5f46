// PowerInfer's folders of activation counts: layers by number, what is refused, and the resulting activity.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "engine/activity/gpu_index.h"
#include "engine/model/model_file.h"
#include "profiler/import/activation_counts.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_file.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

class CountsFolder {
 public:
  fs::path counts() const { return folder_ / "activation"; }
  void add_counts(const std::string& name, const std::vector<int32_t>& values) const {
    fs::create_directory(counts());
    write_bytes(counts() / name, TorchFile::of<int32_t>("IntStorage", values).bytes());
  }
  std::string refusal(int n_layers, int d_ff) const {
    try {
      read_activation_counts(counts(), n_layers, d_ff);
    } catch (const ModelFileError& error) {
      return error.what();
    }
    return "(read)";
  }

 private:
  TempFolder folder_;
};

fs::path relu_folder() { return fs::path(testing::source_dir()) / "tests/data/relu"; }

TEST_CASE("the counts of a real model are read as PyTorch saved them") {
  const ActivityProfile profile = read_activation_counts(relu_folder() / "activation", 4, 1024);
  REQUIRE(profile.counts.size() == 4);
  CHECK(profile.counts[0][0] == 24701);
  CHECK(profile.counts[0][1] == 46029);
  for (int layer = 0; layer < 4; ++layer) {
    const std::vector<double>& counts = profile.counts[static_cast<size_t>(layer)];
    const std::vector<int32_t> ids = profile.hottest_first(layer);
    REQUIRE(ids.size() == 1024);
    for (size_t i = 1; i < ids.size(); ++i) {
      CHECK(counts[static_cast<size_t>(ids[i - 1])] >= counts[static_cast<size_t>(ids[i])]);
    }
  }
}

TEST_CASE("layers are ordered by number, not by text") {
  const CountsFolder folder;
  for (int layer = 11; layer >= 0; --layer) {
    folder.add_counts("activation_" + std::to_string(layer) + ".pt", {layer, 100 - layer});
  }
  folder.add_counts("activation_x.pt", {1});
  folder.add_counts("activation_.pt", {1});
  folder.add_counts("activation_-1.pt", {1});
  folder.add_counts("activation_3.pt.tmp", {1});
  const ActivityProfile profile = read_activation_counts(folder.counts(), 12, 2);
  REQUIRE(profile.counts.size() == 12);
  for (int layer = 0; layer < 12; ++layer) {
    CHECK(profile.counts[static_cast<size_t>(layer)] ==
          std::vector<double>{static_cast<double>(layer), static_cast<double>(100 - layer)});
  }
}

TEST_CASE("folders of another model's counts are refused") {
  const CountsFolder folder;
  fs::create_directory(folder.counts());
  CHECK_THAT(folder.refusal(2, 3),
             ContainsSubstring("holds no activation counts, expected activation_0.pt to activation_1.pt"));
  folder.add_counts("activation_0.pt", {1, 2, 3});
  folder.add_counts("activation_2.pt", {1, 2, 3});
  CHECK_THAT(folder.refusal(3, 3),
             ContainsSubstring("activation_1.pt is missing, expected activation_0.pt to activation_2.pt"));
  folder.add_counts("activation_1.pt", {1, 2, 3});
  CHECK(folder.refusal(3, 3) == "(read)");
  CHECK_THAT(folder.refusal(2, 3),
             ContainsSubstring("it is of another model: it has 3 layers, this model 2"));
  CHECK_THAT(folder.refusal(3, 11008),
             ContainsSubstring(
                 "activation_0.pt: it is of another model: it has counts of 3 neurons, a layer of this "
                 "model has 11,008"));
  folder.add_counts("activation_02.pt", {1, 2, 3});
  CHECK_THAT(folder.refusal(3, 3), ContainsSubstring("layer 2 has two files"));
}

TEST_CASE("counts must be numbers of at least zero") {
  const CountsFolder folder;
  folder.add_counts("activation_0.pt", {1, 2, -3});
  CHECK_THAT(folder.refusal(1, 3), ContainsSubstring("activation_0.pt: neuron 2 has count -3"));
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    write_bytes(folder.counts() / "activation_0.pt", TorchFile::of<float>("FloatStorage", {1, odd}).bytes());
    CHECK_THAT(folder.refusal(1, 2), ContainsSubstring("neuron 1 has count " + std::to_string(odd)));
  }
  write_bytes(folder.counts() / "activation_0.pt", {});
  CHECK_THAT(folder.refusal(1, 2),
             ContainsSubstring("it is empty (0 bytes), expected a tensor of activation counts"));
}

TEST_CASE("an index from PowerInfer's exporter marks the most active neurons") {
  const std::filesystem::path folder = testing::source_dir() + "/tests/data/relu";
  const ActivityProfile marks =
      activity::read_gpu_index(folder / "relu-5m-q8_0.powerinfer.gguf.generated.gpuidx", 4, 1024);
  const ActivityProfile counts = read_activation_counts(folder / "activation", 4, 1024);
  const std::vector<size_t> n_hot = {512, 256, 0, 1024};
  for (int layer = 0; layer < 4; ++layer) {
    CAPTURE(layer);
    const size_t n = n_hot[static_cast<size_t>(layer)];
    const std::vector<double>& of_layer = counts.counts[static_cast<size_t>(layer)];
    const std::vector<int32_t> hot = marks.hottest_first(layer), ranked = counts.hottest_first(layer);
    double sum = 0, largest = 0;  // the ids may differ, because PowerInfer may break ties in another way
    for (size_t i = 0; i < n; ++i) {
      sum += of_layer[static_cast<size_t>(hot[i])];
      largest += of_layer[static_cast<size_t>(ranked[i])];
    }
    CHECK(sum == largest);
    const std::vector<double>& mask = marks.counts[static_cast<size_t>(layer)];
    CHECK(static_cast<size_t>(std::count(mask.begin(), mask.end(), 1.0)) == n);
  }
}

ModelIdentity two_layers_of_three() {
  ModelIdentity model;
  model.activation = "relu";
  model.n_layers = 2;
  model.d_model = 4;
  model.d_ff = 3;
  return model;
}

TEST_CASE(
    "imported counts: the order stays, and the number of tokens gives the requested share of active "
    "neurons") {
  const ActivityProfile profile{{{5000, 0, 1000}, {2000, 3000, 1000}}};
  const Activity activity = imported_activity(profile, two_layers_of_three(), 0.25, "folder");
  const ActivityCounts& counts = activity.of(ActivitySource::kPrompt);
  CHECK(counts.n_tokens == 8000);
  CHECK(counts.active == std::vector<uint32_t>{5000, 0, 1000, 2000, 3000, 1000});
  CHECK((counts.active_share(0) + counts.active_share(1)) / 2 == Approx(0.25));
  CHECK(activity.profile().hottest_first(1) == profile.hottest_first(1));
  CHECK(activity.texts.size() == 1);
  CHECK(parse_activity(activity_bytes(activity), "a").of(ActivitySource::kPrompt) == counts);
  // Never fewer tokens than those for which a neuron was active.
  CHECK(imported_activity(profile, two_layers_of_three(), 0.9, "folder").n_tokens() == 5000);
}

TEST_CASE("imported counts: merging the same counts twice changes nothing") {
  const ActivityProfile profile{{{5000, 0, 1000}, {2000, 3000, 1000}}};
  const Activity once = imported_activity(profile, two_layers_of_three(), 0.25, "folder");
  Activity twice = once;
  twice.merge(once);
  CHECK(twice.n_tokens() == once.n_tokens());
}

TEST_CASE("imported counts: shares and huge numbers are scaled, zeros alone are refused") {
  const ModelIdentity model = two_layers_of_three();
  const Activity shares = imported_activity({{{0.5, 0, 0.25}, {0.25, 0.5, 0}}}, model, 0.25, "folder");
  CHECK(shares.n_tokens() == 1 << 20);
  CHECK(shares.of(ActivitySource::kPrompt).active ==
        std::vector<uint32_t>{1 << 19, 0, 1 << 18, 1 << 18, 1 << 19, 0});
  const Activity huge = imported_activity({{{1e12, 0, 5e11}, {0, 0, 0}}}, model, 0.25, "folder");
  CHECK(huge.n_tokens() == 0xffffffff);
  CHECK(huge.of(ActivitySource::kPrompt).active[0] > huge.of(ActivitySource::kPrompt).active[2]);
  CHECK_THROWS_WITH(imported_activity({{{0, 0, 0}, {0, 0, 0}}}, model, 0.25, "folder"),
                    ContainsSubstring("folder: no neuron was active"));
}

}  // namespace
}  // namespace hearth::test
