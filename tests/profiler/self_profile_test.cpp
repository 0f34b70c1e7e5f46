// Tests what the first load of a model measures by itself, on a machine that is already known.
#include "profiler/self_profile.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/activity/activity_file.h"
#include "engine/model/model_identity.h"
#include "kernels/base/whole_file.h"
#include "profiler/machine/hardware.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/placement/known_activity.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::testing {
namespace {

namespace fs = std::filesystem;

/// A cache in which this machine has a shipped profile, and a model to profile.
struct Bench {
  Bench() {
    fs::create_directories(folder / "hearth");
    const std::string identity = identity_of(hardware_here());
    std::ofstream(folder / "hearth" / kept_name(identity))
        << kept_text(shipped_machine("rtx4090").value(), identity);
    settings.load.path = fs::path(source_dir()) / "tests/data/relu/relu-5m-q4_0.powerinfer.gguf";
    settings.load.n_threads = 1;
    settings.activity_file = folder / "hearth/model.activity";
    settings.n_tokens = 60;
  }
  std::optional<SelfProfile> run(const SelfProfileHooks& hooks = {}) const {
    return self_profile(settings, {{"XDG_CACHE_HOME", folder.path().string()}}, hooks);
  }

  const test::TempFolder folder;
  SelfProfileSettings settings;
};

TEST_CASE("self profile: neurons are counted once, and the counts are reused from then on") {
  const Bench bench;
  double last = 0;
  const SelfProfileHooks hooks{.progress = [&](std::string_view what, double fraction) {
    CHECK(what == "counting active neurons");
    CHECK(fraction >= last);
    last = fraction;
  }};
  const std::optional<SelfProfile> first = bench.run(hooks);
  REQUIRE(first);
  CHECK(first->notes.empty());
  CHECK_FALSE(first->machine_measured);
  CHECK(first->machine == shipped_machine("rtx4090").value());
  CHECK(first->n_counted >= 60);
  CHECK(first->n_tokens == first->n_counted);
  CHECK(last > 0);
  const ModelFile file = ModelFile::open(bench.settings.load.path);
  const ModelIdentity model = identify(file, read_model_spec(file, ""));
  CHECK(kept_activity(bench.settings.activity_file, model).value().n_tokens() == first->n_tokens);

  const std::optional<SelfProfile> second = bench.run();
  REQUIRE(second);
  CHECK(second->n_counted == 0);
  CHECK(second->n_tokens == first->n_tokens);
}

TEST_CASE("self profile: it ends when told to or when its time is up, and keeps its counts") {
  Bench bench;
  std::stop_source stop;
  stop.request_stop();
  CHECK_FALSE(bench.run({.stop = stop.get_token()}));

  bench.settings.most_time = std::chrono::seconds(0);
  const std::optional<SelfProfile> nothing = bench.run();
  REQUIRE(nothing);
  CHECK(nothing->n_counted < 60);

  std::stop_source later;
  const SelfProfileHooks hooks{.progress = [&](std::string_view, double) { later.request_stop(); },
                               .stop = later.get_token()};
  bench.settings.most_time = std::chrono::seconds(60);
  CHECK_FALSE(bench.run(hooks));
}

std::string bytes_of(const fs::path& path) { return read_whole_file(path, 1 << 20); }

TEST_CASE("self profile: it runs between other work, with the same counts as alone") {
  const Bench alone, between;
  REQUIRE(alone.run());
  // Busy at every second check: only one step fits between two pieces of other work.
  std::atomic<int> n_asked = 0, n_steps = 0;
  const SelfProfileHooks hooks{.busy = [&] { return ++n_asked % 2 != 0; },
                               .progress = [&](std::string_view, double) { ++n_steps; }};
  REQUIRE(between.run(hooks));
  CHECK(n_asked > 2 * n_steps);
  CHECK(bytes_of(between.settings.activity_file) == bytes_of(alone.settings.activity_file));
}

TEST_CASE("self profile: an interrupted one resumes with its counts, to the same result") {
  Bench alone, ended;
  alone.settings.n_tokens = ended.settings.n_tokens = 400;
  const std::optional<SelfProfile> whole = alone.run();
  REQUIRE(whole);
  std::stop_source stop;
  const SelfProfileHooks hooks{.progress =
                                   [&](std::string_view, double fraction) {
                                     if (fraction >= 0.5) stop.request_stop();
                                   },
                               .stop = stop.get_token()};
  CHECK_FALSE(ended.run(hooks));
  const ModelFile file = ModelFile::open(ended.settings.load.path);
  const ModelIdentity model = identify(file, read_model_spec(file, ""));
  const uint64_t kept = kept_activity(ended.settings.activity_file, model).value().n_tokens();
  CHECK(kept > 0);
  CHECK(kept < whole->n_tokens);
  const std::optional<SelfProfile> rest = ended.run();
  REQUIRE(rest);
  CHECK(rest->n_counted == whole->n_tokens - kept);
  CHECK(bytes_of(ended.settings.activity_file) == bytes_of(alone.settings.activity_file));
}

TEST_CASE("self profile: a failure to count or to keep the counts becomes a note") {
  Bench bench;
  bench.settings.load.path = fs::path(source_dir()) / "tests/data/arch/qwen2.gguf";
  const std::optional<SelfProfile> dense = bench.run();
  REQUIRE(dense);
  CHECK(dense->notes.size() == 1);
  CHECK(dense->n_tokens == 0);

  Bench unwritable;
  unwritable.settings.activity_file = unwritable.folder / "none/model.activity";
  const std::optional<SelfProfile> unkept = unwritable.run();
  REQUIRE(unkept);
  REQUIRE(unkept->notes.size() == 1);
  CHECK_THAT(unkept->notes.front(), ContainsSubstring("none"));

  const Bench damaged;
  std::ofstream(damaged.settings.activity_file) << "not what it should be";
  const ModelFile file = ModelFile::open(damaged.settings.load.path);
  CHECK_FALSE(kept_activity(damaged.settings.activity_file, identify(file, read_model_spec(file, ""))));
  const std::optional<SelfProfile> anew = damaged.run();
  REQUIRE(anew);
  CHECK(anew->notes.size() == 1);
  CHECK(anew->n_tokens >= 60);
}

}  // namespace
}  // namespace hearth::testing
