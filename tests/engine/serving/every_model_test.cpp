// Every tiny model of tests/data/arch behind the engine: an answer has the same bits alone, in company,
// however its prompt is cut, after rejected drafts, and from a cached prefix.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/changed_model.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"

namespace hearth::every_model_test {
namespace {

namespace fs = std::filesystem;

constexpr int kAnswer = 10;

/// The names of the models that have golden logits, and so generate text: the first, and every stride-th
/// after it.
std::vector<std::string> generating_models(size_t stride) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(testing::source_dir()) / "tests/data/arch")) {
    fs::path path = entry.path();
    if (path.extension() == ".gguf" && fs::exists(path.replace_extension(".logits")))
      names.push_back(path.stem());
  }
  std::ranges::sort(names);
  std::vector<std::string> chosen;
  for (size_t i = 0; i < names.size(); i += stride) chosen.push_back(names[i]);
  return chosen;
}

/// A copy of a model whose file allows a longer context. Learned positions end with the file's context.
struct Long {
  Long(const std::string& name, int wanted) : path(folder / "model.gguf") {
    const fs::path from = fs::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
    const bool learned = ModelFile::open(from).find_tensor("position_embd.weight") != nullptr;
    context = learned ? 64 : wanted;
    testing::write_changed(from, path, {{".context_length", static_cast<uint32_t>(context)}});
  }
  std::unique_ptr<ModelRuntime> load(int n_slots, int chunk, int n_threads) const {
    LoadOptions options;
    options.path = path;
    options.n_threads = n_threads;
    options.n_slots = n_slots;
    options.prefill_chunk = chunk;
    options.context_tokens = context;
    return ModelRuntime::load(options);
  }

  const test::TempFolder folder;
  fs::path path;
  int context = 0;
};

/// Drafts the right continuation of each text, with a wrong token at every third place.
class OftenWrong final : public Drafter {
 public:
  explicit OftenWrong(std::vector<std::vector<int32_t>> texts) : texts_(std::move(texts)) {}
  void draft(const Sequence& sequence, std::vector<int32_t>& draft) override {
    draft.clear();
    const size_t n = sequence.tokens.size();
    for (const std::vector<int32_t>& text : texts_) {
      if (text.size() < n || !std::ranges::equal(std::span(text).first(n), sequence.tokens)) continue;
      for (size_t i = n; i < std::min(n + 4, text.size()); ++i)
        draft.push_back(i % 3 == 0 ? (text[i] + 1) % 97 : text[i]);
      return;
    }
  }

 private:
  std::vector<std::vector<int32_t>> texts_;
};

void check_same_bits(const std::string& name, std::vector<int> lengths, int chunk) {
  const Long model_file(name, *std::ranges::max_element(lengths) + 56);
  std::vector<SequenceRequest> requests;
  std::vector<std::vector<float>> expected;
  std::vector<std::vector<int32_t>> texts;
  const auto whole = model_file.load(1, model_file.context, 1);
  for (const int n : lengths) {
    if (n + kAnswer > model_file.context) continue;
    SequenceRequest request = greedy(some_tokens(n, static_cast<uint64_t>(n)), kAnswer);
    request.n_top_logprobs = 3;
    Engine engine(*whole,
                  {.n_slots = 1, .context_tokens = model_file.context, .prefill_chunk = model_file.context});
    const Answer answer = ask(engine, request);
    expected.push_back(numbers_of(answer));
    texts.push_back(request.prompt);
    texts.back().insert(texts.back().end(), answer.tokens.begin(), answer.tokens.end());
    requests.push_back(std::move(request));
  }
  const int n_slots = static_cast<int>(requests.size());
  const SpeculationOptions drafts{
      .on = true, .drafter = std::make_shared<OftenWrong>(texts), .whatever_it_costs = true};
  const auto model = model_file.load(n_slots, chunk, 2);
  Engine engine(*model, {.n_slots = n_slots,
                         .context_tokens = model_file.context,
                         .prefill_chunk = chunk,
                         .speculation = drafts});
  const std::vector<Answer> together =
      read_all(*submit(engine, GenerationRequest{.sequences = requests}), n_slots);
  const EngineStatus status = engine.status();
  CHECK(status.n_drafted_tokens > status.n_accepted_tokens);
  for (size_t i = 0; i < requests.size(); ++i) {
    INFO(requests[i].prompt.size() << " tokens");
    CHECK(numbers_of(together[i]) == expected[i]);
    const Answer again = ask(engine, requests[i]);
    CHECK(numbers_of(again) == expected[i]);
    // Blocks have 16 tokens, and models with states continue from snapshots.
    CHECK((again.finished.n_cached_tokens > 0) == (requests[i].prompt.size() > 16));
  }
}

}  // namespace

TEST_CASE("every model: an answer has the same bits alone, in company, after drafts and from a prefix") {
  const std::string name = GENERATE(from_range(generating_models(testing::kStride)));
  CAPTURE(name);
  check_same_bits(name, {3, 40, 200}, 23);
}

// tests/engine/test_every_model.py runs it.
TEST_CASE("every model: long prompts have the same bits however they are cut", "[.nightly]") {
  const std::string name = GENERATE(from_range(generating_models(1)));
  CAPTURE(name);
  check_same_bits(name, {3, 40, 2000}, 61);
}

}  // namespace hearth::every_model_test
