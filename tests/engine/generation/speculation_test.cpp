// Speculative decoding: whatever is drafted and however much of it is right, answers are equal bit for bit,
// and what they leave in the prefix cache is correct.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <tuple>

#include "engine/constraint/constraint.h"
#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "engine/speculation/draft_length.h"
#include "engine/speculation/prompt_lookup.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace hearth;

namespace {

constexpr int32_t kEndToken = 96;

/// Drafts the true answers with some errors; it knows the answer to each prompt.
class KnowingDrafter : public Drafter {
 public:
  enum class Faults { kNone, kSome, kAll };
  KnowingDrafter(Faults faults, std::vector<std::vector<int32_t>> texts)
      : faults_(faults), texts_(std::move(texts)) {}

  void draft(const Sequence& sequence, std::vector<int32_t>& draft) override {
    draft.clear();
    const size_t n = sequence.tokens.size();
    const size_t n_draft = random_() % 9;
    for (const std::vector<int32_t>& text : texts_) {
      if (text.size() < n || !std::ranges::equal(std::span(text).first(n), sequence.tokens)) continue;
      for (size_t i = n; i < n + n_draft; ++i) {
        const bool wrong = faults_ == Faults::kAll || (faults_ == Faults::kSome && random_() % 4 == 0);
        const int32_t right = i < text.size() ? text[i] : kEndToken;
        draft.push_back(wrong ? (right + 1) % 97 : right);
      }
      return;
    }
  }

 private:
  Faults faults_;
  std::vector<std::vector<int32_t>> texts_;
  std::mt19937_64 random_{5};
};

std::shared_ptr<const Constraint> digits_and_names() {
  std::vector<std::string> pieces(97);
  size_t n = 0;
  for (char c = 'a'; c <= 'z'; ++c) pieces[n++] = std::string(1, c);
  for (char c = '0'; c <= '9'; ++c) pieces[n++] = std::string(1, c);
  for (const char* text : {"{", "}", "\"", ":", ",", "abc", "de", "{\"", "\":", "name", "am", "e\""})
    pieces[n++] = text;
  return Constraint::compile(
      parse_gbnf(R"(root ::= ("{\"name\":" [0-9]{1,6} ("," [a-z]{2,4}){0,2} "}"){1,9})"),
      std::make_shared<const TokenTrie>(pieces));
}

/// Returns a limit of n_tokens tokens for prompts that end within thinking. The text of every token is a
/// letter, and "zz" closes thinking.
std::shared_ptr<const ThinkingBudget> thinking_of(int n_tokens) {
  std::vector<std::string> pieces;
  for (int i = 0; i < 97; ++i) pieces.emplace_back(1, static_cast<char>('a' + i % 26));
  auto budget = std::make_shared<ThinkingBudget>();
  budget->trie = std::make_shared<const TokenTrie>(pieces);
  budget->open = "q";
  budget->closes = {"zz"};
  budget->begun = true;
  budget->n_tokens = n_tokens;
  budget->ending = {3, 30, 51, 25, 77};
  return budget;
}

/// A repetitive prompt: parts of one text in random order.
std::vector<int32_t> repetitive(int n, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<int32_t> text = some_tokens(12, seed);
  std::vector<int32_t> tokens;
  while (static_cast<int>(tokens.size()) < n) {
    const size_t begin = random() % 6;
    tokens.insert(tokens.end(), text.begin() + static_cast<std::ptrdiff_t>(begin), text.end());
  }
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

SequenceRequest some_request(uint64_t seed) {
  std::mt19937_64 random(seed);
  const int n_prompt = 1 + static_cast<int>(random() % 20);
  std::vector<int32_t> prompt = random() % 2 ? repetitive(n_prompt, seed) : some_tokens(n_prompt, seed);
  SequenceRequest request = sampled(std::move(prompt), static_cast<int>(random() % 30), seed);
  SamplingParams& sampling = request.sampling;
  const auto sometimes = [&random] { return random() % 3 == 0; };
  if (sometimes()) sampling.temperature = 0;
  if (sometimes()) sampling.repetition_penalty = 1.3f;
  if (sometimes()) sampling.frequency_penalty = 0.7f;
  if (sometimes()) sampling.dry.multiplier = 0.8f;
  if (sometimes()) sampling.top_k = 5;
  if (sometimes()) sampling.mirostat = true;
  if (sometimes()) sampling.xtc_probability = 0.5f;
  if (sometimes()) sampling.logit_bias = {{static_cast<int32_t>(random() % 97), 4.0f}};
  if (sometimes()) request.n_top_logprobs = 3;
  if (sometimes()) request.prompt_logprobs = true;
  if (sometimes()) request.min_tokens = 5;
  if (sometimes())
    request.prediction = std::make_shared<const std::vector<int32_t>>(repetitive(10, seed + 1));
  request.end_tokens = {kEndToken, 95, 94};
  if (sometimes()) request.constraint = digits_and_names();
  if (sometimes()) request.thinking = thinking_of(static_cast<int>(random() % 12));
  return request;
}

auto numbers(const Answer& answer) {
  return std::make_tuple(numbers_of(answer), answer.finished.reason, answer.finished.n_generated_tokens,
                         answer.finished.error);
}

/// A model that mostly repeats what followed the last two tokens before, and otherwise has its own answer.
ScriptedModel::Script repeating() {
  return [own = ScriptedModel::hashed()](std::span<const int32_t> history, std::span<float> logits) {
    own(history, logits);
    const size_t n = history.size();
    for (size_t i = 2; i < n; ++i) {
      if (history[i - 2] == history[n - 2] && history[i - 1] == history[n - 1])
        logits[static_cast<size_t>(history[i])] += 9;
    }
  };
}

std::vector<int32_t> whole_text(const SequenceRequest& request, const Answer& answer) {
  std::vector<int32_t> text = request.prompt;
  text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
  return text;
}

}  // namespace

TEST_CASE("speculation: drafts do not change an answer, alone or among others") {
  using Faults = KnowingDrafter::Faults;
  constexpr size_t kRequests = 60;
  std::vector<SequenceRequest> requests;
  for (uint64_t seed = 0; seed < kRequests; ++seed) requests.push_back(some_request(seed));
  std::vector<Answer> expected;
  std::vector<std::vector<int32_t>> texts;
  {
    ScriptedModel model({.script = repeating(), .before_step = {}});
    Engine engine(model, {.n_slots = 1, .context_tokens = 64});
    for (const SequenceRequest& request : requests) {
      expected.push_back(ask(engine, request));
      texts.push_back(whole_text(request, expected.back()));
    }
    CHECK(engine.status().n_drafted_tokens == 0);
  }
  const int how = GENERATE(0, 1, 2, 3);
  const int n_slots = GENERATE(1, 3);
  const int chunk = GENERATE(2, 16);
  CAPTURE(how, n_slots, chunk);
  SpeculationOptions speculation{.on = true, .max_draft = 7, .drafter = nullptr};
  if (how > 0) speculation.drafter = std::make_shared<KnowingDrafter>(static_cast<Faults>(how - 1), texts);
  ScriptedModel::Options of{.script = repeating(), .before_step = {}};
  of.limits.n_blocks =
      24;  // hardly more than one sequence needs: blocks are evicted all the time, and sequences wait
  of.limits.max_logit_rows = n_slots + 6;
  ScriptedModel model(of);
  Engine engine(
      model, {.n_slots = n_slots, .context_tokens = 64, .prefill_chunk = chunk, .speculation = speculation});
  for (int round = 0; round < 2; ++round) {  // the second round finds prefixes in the cache
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (const SequenceRequest& request : requests) streams.push_back(submit(engine, request));
    for (size_t i = 0; i < kRequests; ++i) {
      CAPTURE(i, round);
      CHECK(numbers(read_all(*streams[i], 1).front()) == numbers(expected[i]));
    }
  }
  const EngineStatus status = engine.status();
  CHECK(status.n_accepted_tokens <= status.n_drafted_tokens);
  if (how == 1) CHECK(status.n_accepted_tokens > 100);
  if (how == 2) CHECK((status.n_accepted_tokens > 50 && status.n_drafted_tokens > status.n_accepted_tokens));
  if (how == 3) CHECK((status.n_accepted_tokens == 0 && status.n_drafted_tokens > 100));
}

TEST_CASE("speculation: answers do not depend on the draft model") {
  enum { kTheSame, kAnother, kFewerTokens, kMoreTokens };
  constexpr size_t kRequests = 60;
  std::vector<SequenceRequest> requests;
  for (uint64_t seed = 0; seed < kRequests; ++seed) requests.push_back(some_request(seed));
  std::vector<Answer> expected;
  {
    ScriptedModel model({.script = repeating(), .before_step = {}});
    Engine engine(model, {.n_slots = 1, .context_tokens = 64});
    for (const SequenceRequest& request : requests) expected.push_back(ask(engine, request));
  }
  const int drafter = GENERATE(0, 1, 2, 3);
  const int n_slots = GENERATE(1, 3);
  const int chunk = GENERATE(1, 16);
  const bool whatever_it_costs = GENERATE(true, false);
  CAPTURE(drafter, n_slots, chunk, whatever_it_costs);
  ScriptedModel::Options small{.script = drafter == kAnother ? ScriptedModel::hashed() : repeating(),
                               .before_step = {}};
  small.limits = {.max_tokens = chunk + n_slots,
                  .max_logit_rows = n_slots,
                  .n_vocab = drafter == kFewerTokens  ? 60
                             : drafter == kMoreTokens ? 120
                                                      : 97,
                  .d_model = 3,
                  .block_tokens = 8,
                  .n_blocks = 6 * n_slots};
  ScriptedModel draft_model(small);
  ScriptedModel::Options of{.script = repeating(), .before_step = {}};
  of.limits.n_blocks = 24;  // blocks are evicted all the time, and sequences wait
  of.limits.max_logit_rows = n_slots + 6;
  ScriptedModel model(of);
  SpeculationOptions speculation{.on = true, .max_draft = 5, .drafter = nullptr};
  speculation.draft_model = &draft_model;
  speculation.draft_context = 45;  // some sequences grow longer
  speculation.whatever_it_costs = whatever_it_costs;
  Engine engine(
      model, {.n_slots = n_slots, .context_tokens = 64, .prefill_chunk = chunk, .speculation = speculation});
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (const SequenceRequest& request : requests) {
      streams.push_back(submit(engine, request));
      const auto left = submit(engine, request);  // a client that leaves somewhere in the middle
      if (streams.size() % 2 == 0) left->pop_for(std::chrono::milliseconds(2));
      left->cancel();
    }
    for (size_t i = 0; i < kRequests; ++i) {
      CAPTURE(i, round);
      CHECK(numbers(read_all(*streams[i], 1).front()) == numbers(expected[i]));
    }
  }
  const EngineStatus status = engine.status();
  CHECK_FALSE(status.failed);
  CHECK(status.n_accepted_tokens <= status.n_drafted_tokens);
  if (whatever_it_costs) CHECK(status.n_drafted_tokens > (drafter == kFewerTokens ? 0 : 100));
  if (whatever_it_costs && drafter == kTheSame) CHECK(status.n_accepted_tokens > 200);
}

TEST_CASE("speculation: a draft model samples with the random numbers of the model it drafts for") {
  std::vector<SequenceRequest> requests;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    requests.push_back(some_request(seed));
    requests.back().constraint = nullptr;  // tokens of forced text are not sampled
    requests.back().thinking = nullptr;    // neither are those that end thinking
  }
  ScriptedModel model({.script = repeating(), .before_step = {}});
  ScriptedModel same({.script = repeating(), .before_step = {}});
  SpeculationOptions speculation{.on = true, .max_draft = 6, .drafter = nullptr};
  speculation.draft_model = &same;
  speculation.draft_context = 64;
  speculation.whatever_it_costs = true;
  Engine engine(model, {.n_slots = 2, .context_tokens = 64, .speculation = speculation});
  for (const SequenceRequest& request : requests) {
    const Answer answer = ask(engine, request);
    CHECK(answer.finished.drafts.n_accepted == answer.finished.drafts.n_drafted);
    CHECK(answer.finished.drafts.n_predicted == 0);
  }
  CHECK(engine.status().n_accepted_tokens > 200);
}

TEST_CASE("speculation: a model with fewer layers drafts for the whole one") {
  const hearth::test::TempFolder folder;
  test::TinyShape shape{.n_layers = 4};
  test::TinyModel("llama", shape).write(folder / "whole.gguf");
  shape.n_layers = GENERATE(1, 4);
  test::TinyModel("llama", shape).write(folder / "short.gguf");
  const auto load = [&folder](const char* file) {
    LoadOptions options;
    options.path = folder / file;
    options.n_threads = 2;
    options.n_slots = 3;
    options.context_tokens = 64;
    return ModelRuntime::load(options);
  };
  std::vector<SequenceRequest> requests;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    requests.push_back(sampled(repetitive(20, seed), 40, seed));
    requests.back().sampling.temperature = seed % 2 ? 0.0f : 0.8f;
    requests.back().n_top_logprobs = 3;
  }
  std::vector<Answer> expected;
  {
    const auto model = load("whole.gguf");
    Engine engine(*model, {.n_slots = 1, .context_tokens = 64});
    for (const SequenceRequest& request : requests) expected.push_back(ask(engine, request));
  }
  const auto model = load("whole.gguf"), draft_model = load("short.gguf");
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.draft_model = draft_model.get();
  speculation.draft_context = 64;
  speculation.whatever_it_costs = true;
  Engine engine(*model, {.n_slots = 3, .context_tokens = 64, .speculation = speculation});
  const auto stream = submit(engine, GenerationRequest{.sequences = requests});
  const std::vector<Answer> answers = read_all(*stream, static_cast<int>(requests.size()));
  for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers(answers[i]) == numbers(expected[i]));
  const EngineStatus status = engine.status();
  CHECK(status.n_drafted_tokens > 100);
  if (shape.n_layers == 4) CHECK(status.n_accepted_tokens == status.n_drafted_tokens);
}

TEST_CASE("speculation: an answer's KV blocks are reused when the conversation continues") {
  ScriptedModel model({.script = repeating(), .before_step = {}});
  const SequenceRequest first = sampled(repetitive(20, 3), 40, 4);
  Answer plain, plain_again;
  SequenceRequest second = sampled({}, 20, 9);
  {
    Engine engine(model, {.n_slots = 1, .context_tokens = 128});
    plain = ask(engine, first);
    second.prompt = whole_text(first, plain);
    second.prompt.push_back(7);
    plain_again = ask(engine, second);
  }
  ScriptedModel other({.script = repeating(), .before_step = {}});
  SpeculationOptions speculation;
  speculation.on = true;
  speculation.drafter = std::make_shared<KnowingDrafter>(
      KnowingDrafter::Faults::kSome, std::vector<std::vector<int32_t>>{whole_text(first, plain)});
  Engine engine(other, {.n_slots = 1, .context_tokens = 128, .speculation = speculation});
  CHECK(numbers(ask(engine, first)) == numbers(plain));
  const Answer again = ask(engine, second);
  CHECK(numbers(again) == numbers(plain_again));
  CHECK(again.finished.n_cached_tokens == plain_again.finished.n_cached_tokens);
  CHECK(again.finished.n_cached_tokens >= 56);
}

TEST_CASE("speculation: the real forward pass gives the same tokens and log-probabilities") {
  const std::string file = GENERATE("arch/llama.gguf", "arch/qwen3.gguf", "relu/relu-5m-q8_0.gguf");
  const auto load = [&file] {
    LoadOptions options;
    options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data" / file;
    options.n_threads = 2;
    options.n_slots = 3;
    options.context_tokens = 64;
    return ModelRuntime::load(options);
  };
  std::vector<SequenceRequest> requests;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back(sampled(repetitive(20, seed), 40, seed));
    requests.back().sampling.temperature = seed % 2 ? 0.0f : 0.8f;
    requests.back().n_top_logprobs = 3;
  }
  std::vector<Answer> expected;
  std::vector<std::vector<int32_t>> texts;
  {
    const auto model = load();
    Engine engine(*model, {.n_slots = 1, .context_tokens = 64});
    for (const SequenceRequest& request : requests) {
      expected.push_back(ask(engine, request));
      texts.push_back(whole_text(request, expected.back()));
    }
  }
  const bool knows = GENERATE(true, false);
  SpeculationOptions speculation;
  speculation.on = true;
  if (knows) speculation.drafter = std::make_shared<KnowingDrafter>(KnowingDrafter::Faults::kSome, texts);
  const auto model = load();
  Engine engine(*model, {.n_slots = 3, .context_tokens = 64, .speculation = speculation});
  const auto stream = submit(engine, GenerationRequest{.sequences = requests});
  const std::vector<Answer> answers = read_all(*stream, static_cast<int>(requests.size()));
  for (size_t i = 0; i < requests.size(); ++i) CHECK(numbers(answers[i]) == numbers(expected[i]));
  if (knows) CHECK(engine.status().n_accepted_tokens > 20);
}

TEST_CASE("prompt lookup: the longest earlier match is continued, the newest among equals") {
  PromptLookup lookup({}, 100);
  std::vector<int32_t> draft;
  std::vector<int32_t> tokens = {1, 2, 3, 4, 9, 2, 3, 5, 8, 2, 3};
  CHECK(lookup.find(tokens, 3, draft) == 2);
  CHECK(draft == std::vector<int32_t>{5, 8, 2});
  tokens = {1, 2, 3, 4, 9, 2, 3, 5, 8, 2, 3, 7, 1, 2, 3};
  CHECK(lookup.find(tokens, 2, draft) == 3);
  CHECK(draft == std::vector<int32_t>{4, 9});
  tokens.push_back(50);
  CHECK(lookup.find(tokens, 2, draft) == 0);
  CHECK(draft.empty());
}

TEST_CASE("prompt lookup: a repetition at the end is continued, a prediction is searched") {
  PromptLookup lookup({}, 20);
  std::vector<int32_t> draft;
  CHECK(lookup.find(std::vector<int32_t>{1, 2, 1, 2, 1}, 5, draft) == 3);
  CHECK(draft == std::vector<int32_t>{2, 1, 2, 1, 2});
  PromptLookup predicted(std::vector<int32_t>{5, 6, 7, 8}, 20);
  CHECK(predicted.find(std::vector<int32_t>{1, 5, 6}, 2, draft) == 2);
  CHECK(draft == std::vector<int32_t>{7, 8});
  CHECK(predicted.in_prediction());
}

TEST_CASE("prompt lookup: every draft did follow the same tokens earlier") {
  const std::vector<int32_t> text = repetitive(400, 2);
  PromptLookup lookup({}, text.size());
  std::vector<int32_t> draft;
  for (size_t n = 1; n < text.size(); n += 1 + n % 3) {
    const std::span<const int32_t> so_far = std::span(text).first(n);
    const int length = lookup.find(so_far, 1, draft);
    if (length == 0) continue;
    std::vector<int32_t> found(so_far.end() - length, so_far.end());
    found.push_back(draft.front());
    CHECK(std::search(so_far.begin(), so_far.end(), found.begin(), found.end()) != so_far.end());
  }
}

TEST_CASE("draft length: drafts are computed only if they promise more tokens a second") {
  StepCosts costs;
  std::vector<DraftChoice> drafts = {{.share = 0.9, .n_offered = 8}};
  choose_lengths(costs, 1, 32, drafts);
  CHECK(drafts[0].n_computed == 0);  // nothing is known
  costs.add(1, 1.0);
  choose_lengths(costs, 1, 32, drafts);
  CHECK(drafts[0].n_computed == 1);  // tries the next size
  costs.add(2, 1.1);
  costs.add(4, 1.2);
  costs.add(8, 1.4);
  choose_lengths(costs, 1, 32, drafts);
  CHECK(drafts[0].n_computed == 7);
  choose_lengths(costs, 1, 3, drafts);
  CHECK(drafts[0].n_computed == 3);
  drafts[0].share = 0.05;
  choose_lengths(costs, 1, 32, drafts);
  CHECK(drafts[0].n_computed == 0);
  StepCosts linear;  // every token costs the same, so a draft saves nothing
  for (const int n : {1, 2, 4, 8}) linear.add(n, n);
  drafts[0].share = 0.97;
  choose_lengths(linear, 1, 32, drafts);
  CHECK(drafts[0].n_computed == 0);
}

TEST_CASE("draft length: rows go to the sequence whose draft is likelier to be right") {
  StepCosts costs;
  for (const int n : {2, 4, 8}) costs.add(n, 1 + 0.1 * n);
  std::vector<DraftChoice> drafts = {{.share = 0.3, .n_offered = 8}, {.share = 0.95, .n_offered = 8}};
  choose_lengths(costs, 2, 7, drafts);
  CHECK(drafts[1].n_computed == 7);
  CHECK(drafts[0].n_computed == 0);
}

TEST_CASE("draft length: the draft model's time counts, and equally likely drafts from texts go first") {
  StepCosts costs;
  for (const int n : {1, 2, 4, 8}) costs.add(n, 1 + 0.01 * n);
  std::vector<DraftChoice> drafts = {{.share = 0.8, .n_offered = 8, .modeled = true}};
  const double cheap = choose_lengths(costs, 1, 32, drafts, {.first = 0.1, .each = 0.1});
  CHECK(cheap > 1.5);
  CHECK(drafts[0].n_computed >= 3);
  const double dear = choose_lengths(costs, 1, 32, drafts, {.first = 0.5, .each = 0.5});
  CHECK((dear >= 1 && dear < cheap));
  CHECK(drafts[0].n_computed <= 1);
  CHECK(choose_lengths(costs, 1, 32, drafts, {.first = 1, .each = 1}) == 1);
  CHECK(drafts[0].n_computed == 0);
  drafts[0].modeled = false;  // the model does not run
  CHECK(choose_lengths(costs, 1, 32, drafts, {.first = 1, .each = 1}) > 2);
}

TEST_CASE("draft ledger: drafts that lose time are soon limited to one hundredth of the time") {
  DraftLedger ledger(20, 256);
  CHECK(ledger.allows(0));
  double lost = 0;
  for (int i = 0; i < 10000; ++i) {
    ledger.passed(1);
    if (!ledger.allows(0)) continue;
    ledger.saved(-0.5);
    lost += 0.5;
  }
  CHECK(lost < 0.01 * 10000 + 21);
  CHECK(lost > 0.01 * 10000);
  CHECK_FALSE(ledger.allows(10));
  for (int i = 0; i < 10000; ++i) ledger.saved(1);  // old savings must not pay for long losses
  int n_steps = 0;
  while (ledger.allows(0)) ledger.saved(-1), ++n_steps;
  CHECK(n_steps < 300);
  CHECK(n_steps > 100);
}

TEST_CASE("draft length: costs follow the measurements, and old ones are measured again") {
  StepCosts costs;
  costs.add(1, 1.0);
  costs.add(4, 2.5);
  CHECK(costs.seconds(2) == 1.5);
  CHECK(costs.seconds(9) == 2.5);
  CHECK(costs.most_tokens() == 8);
  CHECK(costs.seconds(200) == 2.5);
  for (int i = 0; i < 600; ++i) costs.add(1, 3.0);
  CHECK(costs.seconds(1) > 2.9);
  CHECK(costs.most_tokens() == 2);
}
