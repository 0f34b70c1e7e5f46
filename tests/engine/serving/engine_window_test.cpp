// The engine with models that have windows: answers equal those of a model that keeps everything, whatever
// else runs, however prompts are cut, and whatever is drafted, cancelled or found in the prefix cache.
#include <filesystem>
#include <future>
#include <latch>
#include <random>
#include <stdexcept>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/changed_model.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_folder.h"

using namespace hearth;

namespace {

/// Requests of all kinds, many of which share a beginning. longest: the most tokens of prompt and answer.
std::vector<GenerationRequest> all_kinds(int n, int longest, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<int32_t> common = some_tokens(longest, 1);
  const auto text = [&](int most) {
    std::vector<int32_t> tokens(
        common.begin(), common.begin() + static_cast<std::ptrdiff_t>(random() % static_cast<uint64_t>(most)));
    const auto left = static_cast<uint64_t>(most) - tokens.size();
    for (const int32_t token : some_tokens(1 + static_cast<int>(random() % left), random()))
      tokens.push_back(token);
    return tokens;
  };
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < n; ++i) {
    const int most = 1 + longest * 3 / 4, max_tokens = longest / 4 - 1;
    GenerationRequest request;
    switch (i % 6) {
      case 0:
        request.sequences = {scored(text(longest), 2)};
        break;
      case 1:
        request.sequences = {embedding(text(longest), Pooling::kMean),
                             embedding(text(longest), Pooling::kLast)};
        break;
      case 2: {  // several answers to one prompt
        const std::vector<int32_t> prompt = text(most);
        for (uint64_t k = 0; k < 3; ++k) request.sequences.push_back(sampled(prompt, max_tokens, random()));
        break;
      }
      case 3:
        request.sequences = {sampled(text(most), max_tokens, random())};
        break;
      default:
        request.sequences = {greedy(text(most), max_tokens)};
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<std::vector<float>> answers_of(Engine& engine, const GenerationRequest& request) {
  std::vector<std::vector<float>> answers;
  const std::vector<Answer> all =
      read_all(*submit(engine, request), static_cast<int>(request.sequences.size()));
  for (const Answer& answer : all) answers.push_back(numbers_of(answer));
  return answers;
}

/// Guesses tokens; now and then the right one.
class GuessingDrafter : public Drafter {
 public:
  void draft(const Sequence& sequence, std::vector<int32_t>& draft) override {
    draft.clear();
    for (uint64_t n = random_() % 7; n > 0; --n)
      draft.push_back(sequence.tokens[random_() % sequence.tokens.size()]);
  }

 private:
  std::mt19937_64 random_{5};
};

/// Submits all requests at once, twice, and cancels some. Complete answers must equal the expected ones.
/// step: a mutex that the model's steps need; holding it until all requests are submitted makes them a crowd
/// on a busy machine too.
void check_crowd(Engine& engine, std::mutex& step, const std::vector<GenerationRequest>& requests,
                 const std::vector<std::vector<std::vector<float>>>& expected) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<TokenStream>> streams;
    {
      const std::lock_guard none(step);
      for (const GenerationRequest& request : requests) streams.push_back(submit(engine, request));
    }
    int n_whole = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (random() % 5 == 0) streams[i + random() % (streams.size() - i)]->cancel();
      const auto n = static_cast<int>(requests[i].sequences.size());
      const std::vector<Answer> answers = read_all(*streams[i], n);
      for (size_t k = 0; k < answers.size(); ++k) {
        INFO("round " << round << " request " << i << " sequence " << k << " " << answers[k].finished.error);
        REQUIRE(answers[k].finished.reason != FinishReason::kFailed);
        if (answers[k].finished.reason == FinishReason::kCancelled) continue;
        CHECK(numbers_of(answers[k]) == expected[i][k]);
        ++n_whole;
      }
    }
    CHECK(n_whole > 0);
  }
}

/// Sends the prompt twice: the first request asks for one token, the second for all tokens of `following`.
/// Checks that the second request finds the prompt's full blocks, and the window before their end, in the
/// prefix cache. REQUIRES: no other request runs, because it could evict these blocks. REQUIRES: the prompt's
/// last block is not full.
void check_prefix_is_kept(Engine& engine, const std::vector<int32_t>& prompt, int block_tokens,
                          const std::vector<int32_t>& following) {
  const auto n_prompt = static_cast<int>(prompt.size());
  REQUIRE(n_prompt % block_tokens > 0);
  CHECK(ask(engine, greedy(prompt, 1)).tokens == std::vector{following.front()});
  const Answer answer = ask(engine, greedy(prompt, static_cast<int>(following.size())));
  CHECK(answer.finished.n_cached_tokens == n_prompt / block_tokens * block_tokens);
  CHECK(answer.tokens == following);
}

}  // namespace

TEST_CASE("engine with windows: every token finds its window, and answers are the same as without one") {
  constexpr int kContext = 100, kRequests = 60;
  const std::vector<GenerationRequest> requests = all_kinds(kRequests, kContext, 3);
  std::vector<std::vector<std::vector<float>>> expected;
  {
    ScriptedModel model({.before_step = {}});
    Engine engine(model, {.n_slots = 1, .context_tokens = kContext});
    for (const GenerationRequest& request : requests) expected.push_back(answers_of(engine, request));
  }
  const int window = GENERATE(1, 6, 21);
  const int chunk = GENERATE(1, 5, 16);
  const bool drafts = GENERATE(false, true);
  // In some cases, there are fewer contexts than slots. Windows may then suffice for more sequences than KV
  // blocks do, and some sequences are set back.
  const auto [n_contexts, n_windows] = GENERATE(std::pair{1, 3}, std::pair{1, 1}, std::pair{4, 4});
  CAPTURE(window, chunk, drafts, n_contexts, n_windows);
  std::mutex step;
  ScriptedModel::Options of{.before_step = [&](const Batch&) { const std::lock_guard after_crowd(step); }};
  of.limits.max_tokens = chunk + 4;
  of.limits.n_blocks = n_contexts * kContext / 4;
  of.limits.window = {.n_positions = window,
                      .n_blocks = n_windows * blocks_at_once(window, longest_step(chunk), 4) + n_windows / 2};
  ScriptedModel model(of);
  SpeculationOptions speculation{.on = drafts, .drafter = std::make_shared<GuessingDrafter>()};
  Engine engine(model, {.n_slots = 4,
                        .context_tokens = kContext,
                        .prefill_chunk = chunk,
                        .speculation = speculation,
                        .promise_tokens = n_contexts == 1 ? 5 : kPromiseTokens});
  check_crowd(engine, step, requests, expected);
  const EngineStatus status = engine.status();
  if (n_contexts != n_windows) CHECK(status.n_set_back > 0);
  if (n_contexts == 4) CHECK(status.n_set_back == 0);
  CHECK((status.n_drafted_tokens > 0) == drafts);
  const std::vector<int32_t> prompt = some_tokens(90, 77);
  check_prefix_is_kept(engine, prompt, model.limits().block_tokens, continuation(prompt, 9));
  // Work between requests discards all keys and values.
  std::promise<void> done;
  engine.when_idle([&](const std::function<bool()>&) { done.set_value(); });
  done.get_future().wait();
  check_crowd(engine, step, requests, expected);
}

TEST_CASE("engine with windows: too few window blocks for one sequence are refused with the numbers") {
  ScriptedModel::Options of{.before_step = {}};
  of.limits.window = {.n_positions = 21, .n_blocks = 7};
  ScriptedModel model(of);
  const auto complaint = [&](int chunk) -> std::string {
    try {
      const Engine engine(model, {.n_slots = 1, .context_tokens = 200, .prefill_chunk = chunk});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  };
  CHECK(complaint(2).empty());
  CHECK_THAT(complaint(8), ContainsSubstring("7 blocks of 4 positions") &&
                               ContainsSubstring("window of 21") && ContainsSubstring("8 prompt tokens"));
}

TEST_CASE("engine over models with windows: an answer depends on nothing but its request") {
  constexpr int kContext = 256;
  const std::string name = GENERATE("gemma2", "gpt-oss", "phi3-long");
  const hearth::test::TempFolder folder;
  hearth::testing::write_changed(
      std::filesystem::path(hearth::testing::source_dir()) / "tests/data/arch" / (name + ".gguf"),
      folder / "model.gguf", {{".context_length", kContext}});
  const auto load = [&](int n_slots, int chunk) {
    LoadOptions options;
    options.path = folder / "model.gguf";
    options.n_threads = 1 + chunk % 2;
    options.n_slots = n_slots;
    options.prefill_chunk = chunk;
    options.context_tokens = kContext;
    return ModelRuntime::load(options);
  };
  const std::vector<GenerationRequest> requests = all_kinds(18, 160, 4);
  std::vector<std::vector<std::vector<float>>> expected;
  std::vector<int32_t> continued;
  {
    const auto model = load(1, kContext);  // steps so long that no layer has blocks of its own
    REQUIRE_FALSE(model->limits().window);
    Engine engine(*model, {.n_slots = 1, .context_tokens = kContext, .prefill_chunk = kContext});
    for (const GenerationRequest& request : requests) expected.push_back(answers_of(engine, request));
    continued = ask(engine, greedy(some_tokens(90, 77), 9)).tokens;
  }
  const int chunk = GENERATE(1, 7, 40);
  CAPTURE(name, chunk);
  const auto model = load(4, chunk);
  REQUIRE(model->limits().window);
  SpeculationOptions speculation{.on = chunk > 1, .drafter = std::make_shared<GuessingDrafter>()};
  Engine engine(
      *model, {.n_slots = 4, .context_tokens = kContext, .prefill_chunk = chunk, .speculation = speculation});
  std::mutex step;
  check_crowd(engine, step, requests, expected);
  const std::vector<int32_t> prompt = some_tokens(90, 77);
  check_prefix_is_kept(engine, prompt, model->limits().block_tokens, continued);
}
