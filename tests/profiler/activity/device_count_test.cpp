// Counting a model that runs on the device: for texts, and for tokens that are served.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/whole_file.h"
#include "profiler/activity/count.h"
#include "profiler/activity/online_activity.h"
#include "profiler/activity/sequence_run.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;
using testing::Share;

std::unique_ptr<ModelRuntime> load(Share share) {
  LoadOptions options = testing::device_options("relu/relu-5m-q8_0.gguf");
  options.context_tokens = 128;
  options.prefill_chunk = 64;
  options.choose_placement = testing::placed(share, false);
  return ModelRuntime::load(options);
}

std::string bytes_of(const fs::path& path) { return read_whole_file(path, 1 << 20); }

}  // namespace

TEST_CASE("count: the file does not depend on which neurons a device has") {
  const TempFolder folder;
  for (const Share share : {Share::kNone, Share::kRandom, Share::kAll}) {
    const auto model = load(share);
    TextFeed texts({"The old harbour was quiet that morning, and", "1. flour\n2. yeast\n3."}, {});
    const fs::path path = folder / std::to_string(static_cast<int>(share));
    const CountResult result = count_texts(*model, texts, {.file = path, .n_generate = 3}, {});
    CHECK(result.n_texts == 2);
    CHECK(result.n_prompt_tokens > 10);
    CHECK(result.n_generated_tokens == 6);
    CHECK(bytes_of(path) == bytes_of(folder / std::to_string(static_cast<int>(Share::kNone))));
  }
}

TEST_CASE("online activity: a smaller sample of what a device serves, written at the end") {
  const TempFolder folder;
  const fs::path path = folder / "m.activity";
  const auto model = load(Share::kRandom);
  std::string warning;
  {
    OnlineActivity online(*model, {.file = path, .warn = [&](const std::string& said) { warning = said; }});
    SequenceRun run(*model);
    const int32_t token = 5;
    for (int i = 0; i < 2 * OnlineActivity::kOneOfOnDevice + 2; ++i) run.feed(std::span(&token, 1), 1);
    online.finish();
    CHECK(online.n_written() == 4);
  }
  CHECK(warning.empty());
  const ActivityCounts served = read_activity(path).of(ActivitySource::kServed);
  CHECK(served.n_tokens == 4);
  CHECK(served.n_pairs == 2);
  for (int layer = 0; layer < served.n_layers; ++layer) CHECK(served.active_share(layer) > 0.01);
}

}  // namespace hearth::test
