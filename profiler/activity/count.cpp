// Implements count_texts(). A text is counted completely or not at all: its counts stay in memory until they
// are written to the file together with the text's hash.
#include "profiler/activity/count.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/model/ffn_activation.h"
#include "engine/sampling/sampler.h"
#include "kernels/base/file_error.h"
#include "profiler/activity/sequence_run.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;

/// The maximum number of texts whose counts wait in memory to be written.
constexpr size_t kMaxWaiting = 16;
/// Prompt tokens per step. The counts do not depend on this number.
constexpr int kChunk = 128;

/// Returns settings that sample from the model's own distribution without its least likely tokens.
SamplingParams sampling_of(const Sha256& text) {
  SamplingParams params;
  params.temperature = 0.8f;
  params.top_p = 0.95f;
  std::memcpy(&params.seed, text.data(), sizeof params.seed);
  return params;
}

struct CountedText {
  Sha256 hash{};
  ActivityCounts prompt, generated;
};

class Counting {
 public:
  Counting(ModelRuntime& model, TextFeed& texts, const CountSettings& settings, const CountHooks& hooks)
      : model_(model),
        texts_(texts),
        settings_(settings),
        hooks_(hooks),
        run_(model),
        chunk_(static_cast<size_t>(std::min(kChunk, model.observation().max_counted_tokens()))),
        sampler_(model.limits().n_vocab),
        identity_(identify(model.facts().file, model.facts().spec)) {}

  CountResult run() {
    load_known();
    model_.observation().count_activity();
    if (settings_.trace != nullptr) {
      model_.observation().record_experts(
          model_.facts().context_tokens);  // a part of a text fits in the context
    }
    try {
      count_all();
    } catch (...) {
      save_quietly();
      throw;
    }
    save();
    if (settings_.trace != nullptr) model_.observation().record_experts(0);
    return std::move(result_);
  }

 private:
  /// Loads the existing file, and checks that the file can be written.
  void load_known() {
    in_memory_.model = identity_;
    result_.note = update([this](Activity& activity) {
      if (activity.down_sizes.empty()) activity.down_sizes = model_.observation().down_sizes();
      result_.activity = activity;
    });
    n_counted_ = result_.activity.of(ActivitySource::kPrompt).n_tokens +
                 uint64_t{result_.activity.of(ActivitySource::kGenerated).n_tokens};
    n_before_ = n_counted_;
    last_save_ = Clock::now();
  }

  void count_all() {
    while (!reached() && !stopping()) {
      std::optional<std::string> text = texts_.next();
      if (!text) return;
      CountedText counted{.hash = sha256(*text), .prompt = {}, .generated = {}};
      const bool known = result_.activity.texts.contains(counted.hash);
      if (known) ++result_.n_known;
      if (known && settings_.trace == nullptr) continue;
      if (!count(*text, counted)) break;
      if (known) continue;
      result_.activity.texts.insert(counted.hash);
      n_counted_ += uint64_t{counted.prompt.n_tokens} + counted.generated.n_tokens;
      waiting_.push_back(std::move(counted));
      if (waiting_.size() >= kMaxWaiting || Clock::now() - last_save_ >= settings_.save_every) save();
    }
    result_.stopped = stopping();
  }

  bool reached() const {
    if (settings_.trace != nullptr && settings_.trace->full()) return true;
    return settings_.n_tokens > 0 && n_limited() >= settings_.n_tokens;
  }
  /// The tokens that settings_.n_tokens limits.
  uint64_t n_limited() const {
    return settings_.trace != nullptr ? settings_.trace->trace().n_tokens() : n_counted_;
  }
  bool stopping() const { return hooks_.stop && hooks_.stop(); }

  void tell() const {
    if (!hooks_.progress) return;
    double fraction = texts_.done();
    const uint64_t n_before = settings_.trace != nullptr ? 0 : n_before_;
    if (settings_.n_tokens > n_before) {
      const double of_tokens =
          static_cast<double>(n_limited() - n_before) / static_cast<double>(settings_.n_tokens - n_before);
      fraction = std::max(fraction, of_tokens);
    }
    hooks_.progress(std::min(fraction, 1.0), n_counted_);
  }

  /// Counts one text, in parts that fit the model's context. Returns false if the user stopped the run before
  /// the end of the text.
  bool count(const std::string& text, CountedText& counted) {
    const std::vector<int32_t> tokens = model_.facts().tokenizer.encode(text, true, false);
    const size_t room = static_cast<size_t>(model_.facts().context_tokens);
    const size_t generated = std::min(static_cast<size_t>(settings_.n_generate), room / 2);
    for (size_t begin = 0; begin < tokens.size();) {
      const size_t n = std::min(tokens.size() - begin, room - generated);
      if (!count_part(std::span(tokens).subspan(begin, n), static_cast<int>(generated), counted))
        return false;
      begin += n;
    }
    return true;
  }

  bool count_part(std::span<const int32_t> prompt, int n_generate, CountedText& counted) {
    run_.clear();
    std::span<const float> logits;
    for (size_t begin = 0; begin < prompt.size(); begin += chunk_) {
      if (stopping()) return give_up();
      logits =
          run_.feed(prompt.subspan(begin, std::min(chunk_, prompt.size() - begin)), static_cast<int>(chunk_));
      tell();
    }
    counted.prompt.add(model_.observation().take_activity());
    std::vector<int32_t> tokens(prompt.begin(), prompt.end());
    const SamplingParams sampling = sampling_of(counted.hash);
    SamplerState sampler_state;
    const std::vector<int32_t>& ends = model_.facts().tokenizer.end_tokens();
    for (int i = 0; i < n_generate; ++i) {
      if (stopping()) return give_up();
      const SampleResult next = sampler_.sample({.logits = logits,
                                                 .params = sampling,
                                                 .tokens = tokens,
                                                 .n_prompt = static_cast<int>(prompt.size()),
                                                 .state = sampler_state});
      if (!next.error.empty()) throw std::runtime_error(damaged(next.error));
      if (std::ranges::find(ends, next.token) != ends.end()) break;
      tokens.push_back(next.token);
      logits = run_.feed(std::span(&tokens.back(), 1), 1);
      tell();
    }
    counted.generated.add(model_.observation().take_activity());
    if (settings_.trace != nullptr) {
      [[maybe_unused]] const bool whole = model_.observation().take_experts(*settings_.trace);
      assert(whole);  // the recorder has room for a part of a text
    }
    return true;
  }

  std::string damaged(std::string_view why) const {
    return file_error::file_label(model_.facts().file.path().string()) +
           ": the model cannot go on from a text: " + std::string(why) + "; its file may be damaged.";
  }

  bool give_up() {
    model_.observation().take_activity();
    return false;
  }

  /// Like update_activity(), but changes in_memory_ if the settings name no file.
  std::string update(const std::function<void(Activity& activity)>& change) {
    if (!settings_.file.empty()) return update_activity(settings_.file, identity_, change);
    change(in_memory_);
    return {};
  }

  void save() {
    last_save_ = Clock::now();
    if (waiting_.empty()) return;
    const std::string note = update([this](Activity& activity) {
      if (activity.down_sizes.empty()) activity.down_sizes = result_.activity.down_sizes;
      for (const CountedText& text : waiting_) {
        // Another program may have counted this text since the file was loaded.
        if (!activity.texts.insert(text.hash).second) continue;
        activity.of(ActivitySource::kPrompt).add(text.prompt);
        activity.of(ActivitySource::kGenerated).add(text.generated);
      }
      result_.activity = activity;
    });
    if (!note.empty()) result_.note = note;
    for (const CountedText& text : waiting_) {
      ++result_.n_texts;
      result_.n_prompt_tokens += text.prompt.n_tokens;
      result_.n_generated_tokens += text.generated.n_tokens;
    }
    waiting_.clear();
  }

  void save_quietly() {
    try {
      save();
    } catch (const std::exception&) {  // the first error is reported
    }
  }

  ModelRuntime& model_;
  TextFeed& texts_;
  const CountSettings& settings_;
  const CountHooks& hooks_;
  SequenceRun run_;
  const size_t chunk_;
  Sampler sampler_;
  const ModelIdentity identity_;
  Activity in_memory_;  // used instead of a file if the settings name none
  CountResult result_;
  std::vector<CountedText> waiting_;
  uint64_t n_counted_ = 0, n_before_ = 0;  // tokens in the file now, and before this run
  Clock::time_point last_save_;
};

}  // namespace

std::string why_not_counted(const ModelFile& file, const ModelSpec& spec, std::string_view mode) {
  if (spec.has_experts() || spec.has_zero_neurons() || mode == "calibrated") return {};
  const std::string label = file_error::file_label(file.path().string());
  return label + ": the activation of its FFN, " + ffn_activation_name(spec.activation) +
         ", has no zeros: every neuron is active for every token, and there is no activity to count. (A "
         "model that hearth-profiler calibrate has found thresholds for can be counted with --sparsity "
         "calibrated.)";
}

CountResult count_texts(ModelRuntime& model, TextFeed& texts, const CountSettings& settings,
                        const CountHooks& hooks) {
  return Counting(model, texts, settings, hooks).run();
}

}  // namespace hearth
