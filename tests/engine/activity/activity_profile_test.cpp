// Activity beside a model file: real counts, layers by number, what is preferred, and what the log says when
// something is of another model.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "engine/activity/activation_counts.h"
#include "engine/activity/activity_profile.h"
#include "engine/model/model_file.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_file.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

// A model's folder; the model itself is not looked at.
class ModelFolder {
 public:
  fs::path model() const { return folder_ / "m.powerinfer.gguf"; }
  fs::path counts() const { return folder_ / "activation"; }
  fs::path index() const { return folder_ / "m.powerinfer.gguf.generated.gpuidx"; }

  void add_counts(const std::string& name, const std::vector<int32_t>& values) const {
    fs::create_directory(counts());
    write_bytes(counts() / name, TorchFile::of<int32_t>("IntStorage", values).bytes());
  }
  // One layer of three neurons, the last marked.
  void add_index() const {
    GgufWriter writer;
    writer.magic("PWRI").key("general.architecture", "generic.gpu_index");
    writer.key("generic.gpu_index.block_count", uint32_t{1});
    const std::vector<int32_t> mask = {0, 0, 1}, bucket = {2};
    writer.raw_tensor("blk.0.gpu_idx", 26, {3}, std::as_bytes(std::span(mask)));
    writer.raw_tensor("blk.0.gpu_bucket", 26, {1}, std::as_bytes(std::span(bucket)));
    writer.write(index());
  }
  std::string refusal(int n_layers, int d_ff) const {
    try {
      activity::read_activation_counts(counts(), n_layers, d_ff);
    } catch (const ModelFileError& error) {
      return error.what();
    }
    return "(read)";
  }

 private:
  TempFolder folder_;
};

TEST_CASE("hottest first, ties by id") {
  ActivityProfile profile;
  profile.counts = {{1, 5, 0, 5, 2}, {}};
  CHECK(profile.hottest_first(0) == std::vector<int32_t>{1, 3, 4, 0, 2});
  CHECK(profile.hottest_first(1).empty());
}

TEST_CASE("the counts of a real model, as PyTorch saved them") {
  const std::string folder = testing::source_dir() + "/tests/data/relu";
  const FoundActivity found = find_activity(folder + "/relu-5m-q8_0.gguf", 4, 1024);
  CHECK(found.sentence == "activity counts of 4 layers from " + folder + "/activation");
  REQUIRE(found.profile);
  const ActivityProfile& profile = *found.profile;
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
  const FoundActivity other = find_activity(folder + "/relu-5m-q8_0.gguf", 32, 1024);
  CHECK(!other.profile);
  CHECK(other.sentence == folder +
                              "/activation: it is of another model: it has 4 layers, this model 32; "
                              "neurons keep the file's order");
}

TEST_CASE("layers are ordered by number, not by text") {
  const ModelFolder folder;
  for (int layer = 11; layer >= 0; --layer) {
    folder.add_counts("activation_" + std::to_string(layer) + ".pt", {layer, 100 - layer});
  }
  folder.add_counts("activation_x.pt", {1});
  folder.add_counts("activation_.pt", {1});
  folder.add_counts("activation_-1.pt", {1});
  folder.add_counts("activation_3.pt.tmp", {1});
  const ActivityProfile profile = activity::read_activation_counts(folder.counts(), 12, 2);
  REQUIRE(profile.counts.size() == 12);
  for (int layer = 0; layer < 12; ++layer) {
    CHECK(profile.counts[static_cast<size_t>(layer)] ==
          std::vector<double>{static_cast<double>(layer), static_cast<double>(100 - layer)});
  }
}

TEST_CASE("folders of counts that are not this model's") {
  const ModelFolder folder;
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
  const ModelFolder folder;
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

TEST_CASE("counts are preferred to an index, an index to nothing") {
  const ModelFolder folder;
  const FoundActivity nothing = find_activity(folder.model(), 1, 3);
  CHECK(!nothing.profile);
  CHECK(nothing.sentence.empty());

  folder.add_index();
  const FoundActivity index = find_activity(folder.model(), 1, 3);
  REQUIRE(index.profile);
  CHECK(index.profile->hottest_first(0) == std::vector<int32_t>{2, 0, 1});
  CHECK(index.sentence == "hot neurons of 1 layer from " + folder.index().string());

  folder.add_counts("activation_0.pt", {1, 9, 5});
  const FoundActivity counts = find_activity(folder.model(), 1, 3);
  REQUIRE(counts.profile);
  CHECK(counts.profile->hottest_first(0) == std::vector<int32_t>{1, 2, 0});
  CHECK(counts.sentence == "activity counts of 1 layer from " + folder.counts().string());

  folder.add_counts("activation_0.pt", {1, 9});
  const FoundActivity fallback = find_activity(folder.model(), 1, 3);
  REQUIRE(fallback.profile);
  CHECK(fallback.profile->hottest_first(0) == std::vector<int32_t>{2, 0, 1});
  CHECK_THAT(fallback.sentence,
             ContainsSubstring("of another model: it has counts of 2 neurons, a layer of this model has 3; "
                               "hot neurons of 1 layer from "));

  const FoundActivity neither = find_activity(folder.model(), 40, 3);
  CHECK(!neither.profile);
  CHECK(neither.sentence ==
        folder.counts().string() + ": it is of another model: it has 1 layers, this model 40; " +
            folder.index().string() +
            ": it is of another model: it has 1 layers, this model 40; neurons keep the file's order");
}

TEST_CASE("what stands in place of the folder or the index is told, not opened") {
  const ModelFolder folder;
  write_bytes(folder.counts(), text_bytes("no folder"));
  fs::create_directory(folder.index());
  const FoundActivity found = find_activity(folder.model(), 1, 3);
  CHECK(!found.profile);
  CHECK_THAT(found.sentence, ContainsSubstring("activation: the folder cannot be listed"));
  CHECK_THAT(found.sentence, ContainsSubstring("it is a directory, expected PowerInfer's GPU index"));
}

}  // namespace
}  // namespace hearth::test
