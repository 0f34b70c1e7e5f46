// The activity file: it is read back as written, refused if any byte is damaged, merges, and tolerates
// concurrent changes by other programs.
#include "engine/activity/activity_file.h"

#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

ModelIdentity some_model() {
  return {.name = "a model",
          .activation = "relu",
          .n_layers = 2,
          .d_model = 8,
          .d_ff = 5,
          .content = sha256(std::string_view("weights"))};
}

/// Counts that n tokens could have produced.
ActivityCounts random_counts(const ModelIdentity& model, uint32_t n_tokens, std::mt19937& rng) {
  ActivityCounts counts(model.n_layers, model.d_ff);
  counts.n_tokens = n_tokens;
  counts.n_pairs = n_tokens / 2;
  for (size_t i = 0; i < counts.active.size(); ++i) {
    counts.active[i] = rng() % (n_tokens + 1);
    counts.again[i] = rng() % (std::min(counts.active[i], counts.n_pairs) + 1);
    counts.value_sums[i] = uint64_t{counts.active[i]} * (rng() % 1'000'000);
  }
  return counts;
}

Activity some_activity(unsigned seed = 1) {
  std::mt19937 rng(seed);
  Activity activity{.model = some_model(), .texts = {}, .down_sizes = {}, .counts = {}};
  for (int i = 0; i < 3; ++i) activity.texts.insert(sha256("text " + std::to_string(10 * seed + i)));
  for (int i = 0; i < 10; ++i) activity.down_sizes.push_back(0.5f + static_cast<float>(i));
  activity.of(ActivitySource::kPrompt) = random_counts(activity.model, 700, rng);
  activity.of(ActivitySource::kServed) = random_counts(activity.model, 3, rng);
  return activity;
}

bool same(const Activity& a, const Activity& b) {
  return a.model.same_model(b.model) && a.model.name == b.model.name && a.texts == b.texts &&
         a.down_sizes == b.down_sizes && a.counts == b.counts;
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    parse_activity(bytes, "some.activity");
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return "(read)";
}

/// Returns the bytes with a valid checksum, like those that a faulty program would write.
std::vector<std::byte> summed(std::vector<std::byte> body) {
  const Sha256 sum = sha256(body);
  for (const uint8_t byte : sum) body.push_back(static_cast<std::byte>(byte));
  return body;
}

std::vector<std::byte> body_of(const Activity& activity) {
  std::vector<std::byte> bytes = activity_bytes(activity);
  bytes.resize(bytes.size() - sizeof(Sha256));
  return bytes;
}

/// The activity of a mixture: experts instead of neurons.
Activity some_experts() {
  std::mt19937 rng(5);
  Activity activity{.model = some_model(), .texts = {}, .down_sizes = {}, .counts = {}};
  activity.model.n_experts = 3;
  activity.texts.insert(sha256("a text"));
  ActivityCounts& counts = activity.of(ActivitySource::kPrompt) = ActivityCounts(2, 3, true);
  counts.n_tokens = 70;
  counts.n_pairs = 69;
  for (size_t i = 0; i < counts.active.size(); ++i) {
    counts.active[i] = 1 + rng() % 70;
    counts.again[i] = rng() % counts.active[i];
    counts.value_sums[i] = rng() % 65536;
  }
  counts.windows[0] = {17, {40, 51}};
  counts.windows[1] = {4, {12, 9}};
  return activity;
}

}  // namespace

TEST_CASE("activity file: experts are distinguished from neurons, and the format for neurons is unchanged") {
  const Activity activity = some_experts();
  const std::vector<std::byte> bytes = activity_bytes(activity);
  CHECK(static_cast<int>(bytes[4]) == 2);
  CHECK(static_cast<int>(activity_bytes(some_activity())[4]) == 1);
  const Activity read = parse_activity(bytes, "x");
  CHECK(same(read, activity));
  CHECK(read.model.n_experts == 3);
  CHECK(read.of(ActivitySource::kPrompt).of_experts());
  CHECK(read.profile().counts[1].size() == 3);
  CHECK(read.contributions().empty());
  Activity twice = activity;
  Activity other = activity;
  other.texts = {sha256("another text")};
  twice.merge(other);
  CHECK(twice.of(ActivitySource::kPrompt).windows[0] == ExpertWindows{34, {80, 102}});
  Activity neurons = some_activity();
  CHECK_THROWS_WITH(neurons.merge(activity),
                    ContainsSubstring("3 experts") && ContainsSubstring("5 neurons"));
}

TEST_CASE("activity file: wrong counts of experts are refused") {
  const std::vector<std::byte> body = body_of(some_experts());
  for (size_t i = 0; i < body.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> wrong = body;
      wrong[i] ^= static_cast<std::byte>(1u << bit);
      refusal(summed(wrong));  // refused or harmless
    }
  }
  for (size_t n = 0; n < body.size(); ++n) {
    REQUIRE(refusal(summed({body.begin(), body.begin() + static_cast<ptrdiff_t>(n)})) != "(read)");
  }
  const auto said = [](const auto& change) {
    Activity wrong = some_experts();
    change(wrong, wrong.of(ActivitySource::kPrompt));
    return refusal(activity_bytes(wrong));
  };
  CHECK_THAT(said([](Activity&, ActivityCounts& counts) { counts.windows[0].n = 18; }),
             ContainsSubstring("18 windows of tokens, expected at most 17"));
  CHECK_THAT(said([](Activity&, ActivityCounts& counts) { counts.windows[1].read[1] = 13; }),
             ContainsSubstring("13 experts read by windows, expected at most 12"));
  CHECK_THAT(said([](Activity& activity, ActivityCounts&) { activity.model.n_experts = 65537; }),
             ContainsSubstring("65,537 experts of a layer, expected at most 65,536"));
  CHECK_THAT(said([](Activity& activity, ActivityCounts&) { activity.down_sizes.resize(10); }),
             ContainsSubstring("expected at most 0"));
}

TEST_CASE("activity file: what was written is read") {
  const Activity activity = some_activity();
  CHECK(same(parse_activity(activity_bytes(activity), "x"), activity));
  Activity empty{.model = some_model(), .texts = {}, .down_sizes = {}, .counts = {}};
  CHECK(same(parse_activity(activity_bytes(empty), "x"), empty));
  // The largest possible numbers.
  ActivityCounts& counts = empty.of(ActivitySource::kGenerated) = ActivityCounts(2, 5);
  counts.n_tokens = counts.n_pairs = 0xffffffff;
  counts.active[3] = counts.again[3] = 0xffffffff;
  counts.value_sums[3] = uint64_t{0xffffffff} << 31;
  CHECK(same(parse_activity(activity_bytes(empty), "x"), empty));
  // A silent neuron takes three bytes.
  CHECK(activity_bytes(empty).size() < 400);
}

TEST_CASE("activity file: damage of any byte and any cut is refused") {
  const std::vector<std::byte> whole = activity_bytes(some_activity());
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const unsigned bit : {0u, 7u}) {
      std::vector<std::byte> damaged = whole;
      damaged[i] ^= static_cast<std::byte>(1u << bit);
      const std::string said = refusal(damaged);
      INFO(i << ": " << said);
      REQUIRE_THAT(said, ContainsSubstring("some.activity: "));
      REQUIRE_THAT(said, ContainsSubstring("count again"));
    }
  }
  for (size_t n = 0; n < whole.size(); ++n) REQUIRE(refusal(std::span(whole).first(n)) != "(read)");
  CHECK_THAT(refusal(std::span(whole).first(100)), ContainsSubstring("cut short"));
}

TEST_CASE("activity file: a wrong file with a correct checksum is refused or harmless") {
  const std::vector<std::byte> body = body_of(some_activity());
  int n_refused = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> wrong = body;
      wrong[i] ^= static_cast<std::byte>(1u << bit);
      n_refused += refusal(summed(wrong)) != "(read)" ? 1 : 0;
    }
  }
  CHECK(n_refused > 500);
  for (size_t n = 0; n < body.size(); ++n) {
    REQUIRE(refusal(summed({body.begin(), body.begin() + static_cast<ptrdiff_t>(n)})) != "(read)");
  }

  Activity wrong = some_activity();
  wrong.of(ActivitySource::kPrompt).active[4] = 701;
  CHECK_THAT(refusal(activity_bytes(wrong)), ContainsSubstring("701 times active, expected at most 700"));
  wrong = some_activity();
  wrong.of(ActivitySource::kPrompt).again[4] = 351;
  CHECK_THAT(refusal(activity_bytes(wrong)), ContainsSubstring("times active again"));
  wrong = some_activity();
  wrong.of(ActivitySource::kPrompt).active[4] = wrong.of(ActivitySource::kPrompt).again[4] = 0;
  wrong.of(ActivitySource::kPrompt).value_sums[4] = 1;
  CHECK_THAT(refusal(activity_bytes(wrong)), ContainsSubstring("as a sum of values"));
  wrong = some_activity();
  wrong.down_sizes[2] = -1;
  CHECK_THAT(refusal(activity_bytes(wrong)), ContainsSubstring("finite numbers"));
  wrong = some_activity();
  wrong.model.d_ff = 1 << 23;  // more neurons than bytes; must be refused before memory is allocated for them
  wrong.model.n_layers = 1 << 13;
  wrong.down_sizes.clear();
  CHECK_THAT(refusal(activity_bytes(wrong)), ContainsSubstring("end early"));
  std::vector<std::byte> newer = body;
  newer[4] = std::byte{3};
  CHECK_THAT(refusal(summed(newer)), ContainsSubstring("it is of version 3, expected 1 or 2"));
  std::vector<std::byte> longer = body;
  longer.push_back(std::byte{0});
  CHECK_THAT(refusal(summed(longer)), ContainsSubstring("followed by 1 bytes"));
}

TEST_CASE("activity: sums of files are sums of counts, in any order") {
  const Activity one = some_activity(1), two = some_activity(2);
  Activity a = one, b = two;
  a.merge(two);
  b.merge(one);
  CHECK(a.counts == b.counts);
  CHECK(a.texts == b.texts);
  CHECK(a.texts.size() == 6);
  CHECK(a.n_tokens() == 2 * 703);
  const size_t place = 7;
  CHECK(a.of(ActivitySource::kPrompt).active[place] ==
        one.of(ActivitySource::kPrompt).active[place] + two.of(ActivitySource::kPrompt).active[place]);
  CHECK(a.total().value_sums[place] == one.total().value_sums[place] + two.total().value_sums[place]);
  CHECK(a.profile().counts[1][2] == a.total().active[7]);

  // Merge into an empty one.
  Activity empty{.model = some_model(), .texts = {}, .down_sizes = {}, .counts = {}};
  empty.merge(one);
  CHECK(same(empty, one));
}

TEST_CASE("activity: texts in both files count once, served tokens always add up") {
  const Activity one = some_activity(1), two = some_activity(2);
  Activity more = one;
  more.merge(two);  // has all of one's texts, and others
  for (const bool into_more : {true, false}) {
    Activity sum = into_more ? more : one;
    sum.merge(into_more ? one : more);
    CHECK(sum.texts == more.texts);
    for (const ActivitySource source : {ActivitySource::kPrompt, ActivitySource::kGenerated}) {
      CHECK(sum.of(source) == more.of(source));
    }
    ActivityCounts served = one.of(ActivitySource::kServed);
    served.add(more.of(ActivitySource::kServed));
    CHECK(sum.of(ActivitySource::kServed) == served);
  }
}

TEST_CASE("activity: a file that must not be merged is refused, and nothing is added") {
  const auto refused = [](const Activity& other) {
    Activity activity = some_activity(1);
    try {
      activity.merge(other);
    } catch (const std::runtime_error& error) {
      CHECK(same(activity, some_activity(1)));
      return std::string(error.what());
    }
    return std::string("(added)");
  };
  Activity other = some_activity(2);
  other.model.content = sha256(std::string_view("other weights"));
  CHECK_THAT(refused(other), ContainsSubstring("of another model"));
  other = some_activity(2);
  other.model.activation = "relu2";
  CHECK_THAT(refused(other), ContainsSubstring("relu2"));
  other = some_activity(2);
  other.texts.insert(*some_activity(1).texts.begin());
  CHECK_THAT(refused(other), ContainsSubstring("would be counted twice"));
  other = some_activity(2);
  other.of(ActivitySource::kServed).n_tokens = 0xffffffff;
  CHECK_THAT(refused(other), ContainsSubstring("at most 4,294,967,295 tokens"));
}

TEST_CASE("activity: shares and contributions") {
  ActivityCounts counts(1, 4);
  counts.n_tokens = 10;
  counts.n_pairs = 5;
  counts.active = {10, 5, 5, 0};
  counts.again = {5, 0, 5, 0};  // always, sometimes, and in runs
  counts.value_sums = {655360, 65536, 0, 0};
  CHECK(counts.active_share(0) == Approx(20.0 / 40));
  CHECK(counts.kept_share(0) == Approx(10.0 / 5 / (20.0 / 10)));
  Activity activity{.model = some_model(), .texts = {}, .down_sizes = {1, 2, 3, 4}, .counts = {}};
  activity.of(ActivitySource::kGenerated) = counts;
  const std::vector<double> mean = activity.contributions();
  REQUIRE(mean.size() == 4);
  CHECK(mean[0] == Approx(1.0));
  CHECK(mean[1] == Approx(0.2));
  CHECK(mean[3] == 0.0);
}

TEST_CASE("activity: a file is updated, begun, and begun anew") {
  const TempFolder folder;
  const fs::path path = folder / "m.activity";
  const auto add_one = [](Activity& activity) {
    ActivityCounts one(2, 5);
    one.n_tokens = 1;
    one.active[3] = 1;
    activity.of(ActivitySource::kServed).add(one);
  };
  CHECK(update_activity(path, some_model(), add_one).empty());
  CHECK(update_activity(path, some_model(), add_one).empty());
  CHECK(read_activity(path).of(ActivitySource::kServed).active[3] == 2);

  // Concurrent updates lose nothing and leave nothing behind.
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 8; ++i) {
      writers.emplace_back([&] {
        for (int j = 0; j < 5; ++j) update_activity(path, some_model(), add_one);
      });
    }
  }
  CHECK(read_activity(path).of(ActivitySource::kServed).active[3] == 42);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);

  // First another model's file, then a damaged one.
  ModelIdentity other = some_model();
  other.content[0] ^= 1;
  CHECK_THAT(update_activity(path, other, add_one), ContainsSubstring("of another model"));
  CHECK(read_activity(path).of(ActivitySource::kServed).n_tokens == 1);
  CHECK(read_activity(path.string() + ".old").of(ActivitySource::kServed).n_tokens == 42);
  std::ofstream(path) << "HACT, so to speak";
  CHECK_THAT(update_activity(path, other, add_one), ContainsSubstring("counting starts over"));

  // If the change throws, the file stays as it was.
  CHECK_THROWS(update_activity(path, other, [](Activity&) { throw std::runtime_error("no"); }));
  CHECK(read_activity(path).of(ActivitySource::kServed).n_tokens == 1);
}

TEST_CASE("a model is identified by its weights, not by its path or its keys") {
  const TempFolder folder;
  const auto identity = [&](const TinyModel& model, const char* name, const char* activation = "relu") {
    model.write(folder / name);
    const ModelFile file = ModelFile::open(folder / name);
    return identify(file, read_model_spec(file, activation));
  };
  const ModelIdentity one = identity(TinyModel(), "one.gguf");
  CHECK(one.n_layers == 2);
  CHECK(one.d_ff == 48);
  CHECK(one.activation == "relu");
  CHECK(one.same_model(identity(TinyModel(), "two.gguf")));
  CHECK(one.same_model(identity(TinyModel().key("tokenizer.chat_template", "{{ x }}"), "keys.gguf")));
  CHECK_FALSE(one.same_model(identity(TinyModel(), "relu2.gguf", "relu2")));
  const TinyModel tuned = TinyModel().random_tensor("blk.1.ffn_up.weight", {32, 48}, 0.01, 0.5);
  CHECK_FALSE(one.same_model(identity(tuned, "tuned.gguf")));
  CHECK(one.content != identity(tuned, "tuned.gguf").content);

  const std::string stem = file_stem(one);
  CHECK(stem == file_stem(one));
  CHECK(stem != file_stem(identity(tuned, "tuned.gguf")));
  CHECK(stem != file_stem(identity(TinyModel(), "relu2.gguf", "relu2")));
  ModelIdentity hostile = one;
  hostile.name = "../../etc/passwd\n";
  CHECK(file_stem(hostile).find('/') == std::string::npos);
  CHECK(file_stem(hostile).front() != '.');
}

}  // namespace hearth::test
