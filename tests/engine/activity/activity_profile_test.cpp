// Finds the sources of activity beside a model file, chooses among them, and logs a file that belongs to
// another model.
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "engine/activity/activity_profile.h"
#include "engine/model/model_file.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_file.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

// A model's folder; the model itself is never read.
class ModelFolder {
 public:
  fs::path model() const { return folder_ / "m.powerinfer.gguf"; }
  fs::path counts() const { return folder_ / "activation"; }
  fs::path index() const { return folder_ / "m.powerinfer.gguf.generated.gpuidx"; }

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

 private:
  TempFolder folder_;
};

TEST_CASE("hottest first, ties by id") {
  ActivityProfile profile;
  profile.counts = {{1, 5, 0, 5, 2}, {}};
  CHECK(profile.hottest_first(0) == std::vector<int32_t>{1, 3, 4, 0, 2});
  CHECK(profile.hottest_first(1).empty());
}

TEST_CASE("an index is used if it is there, and another model's is reported") {
  const ModelFolder folder;
  const FoundActivity nothing = find_activity(folder.model(), 1, 3);
  CHECK(!nothing.profile);
  CHECK(nothing.sentence.empty());

  folder.add_index();
  const FoundActivity index = find_activity(folder.model(), 1, 3);
  REQUIRE(index.profile);
  CHECK(index.profile->hottest_first(0) == std::vector<int32_t>{2, 0, 1});
  CHECK(index.sentence == "hot neurons of 1 layer from " + folder.index().string());

  const FoundActivity other = find_activity(folder.model(), 40, 3);
  CHECK(!other.profile);
  CHECK(other.sentence ==
        folder.index().string() +
            ": it is of another model: it has 1 layers, this model 40; neurons keep the file's order");
}

TEST_CASE("PowerInfer's counts are not read, and the message says how to import them") {
  const ModelFolder folder;
  fs::create_directory(folder.counts());
  CHECK(find_activity(folder.model(), 1, 3).sentence.empty());
  write_bytes(folder.counts() / "activation_0.pt", text_bytes("not looked at"));
  const FoundActivity found = find_activity(folder.model(), 1, 3);
  CHECK(!found.profile);
  CHECK_THAT(found.sentence, ContainsSubstring(folder.counts().string()) &&
                                 ContainsSubstring("hearth-profiler count --model MODEL --import FOLDER"));
  folder.add_index();
  CHECK(find_activity(folder.model(), 1, 3).profile);
}

TEST_CASE("a directory in the index's place is reported, not opened") {
  const ModelFolder folder;
  fs::create_directory(folder.index());
  const FoundActivity found = find_activity(folder.model(), 1, 3);
  CHECK(!found.profile);
  CHECK_THAT(found.sentence, ContainsSubstring("it is a directory, expected PowerInfer's GPU index"));
}

}  // namespace
}  // namespace hearth::test
