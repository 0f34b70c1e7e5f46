// Counts which neurons of a model are active, or which experts of a mixture are chosen. Runs texts through
// the model, lets it generate some tokens after each text, and adds the counts to the model's activity file.
//
// Counting is deterministic: the same texts give the same counts for any number of threads, whether they are
// counted in one run or in several. Generated tokens are sampled from the model's own distribution, with a
// seed derived from the text's hash. Called by count_command.cpp; runs the model on the calling thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "engine/activity/activity_file.h"
#include "engine/activity/expert_trace.h"
#include "engine/model_runtime.h"
#include "profiler/activity/text_feed.h"

namespace hearth {

struct CountSettings {
  std::filesystem::path file;  // the activity file; if empty, counts are only returned
  int n_generate = 48;         // tokens that the model generates after each text
  /// The number of tokens, prompts and generated text together, after which counting ends. Without `trace`,
  /// these are the tokens whose counts the file holds; with `trace`, the tokens that the trace holds. The
  /// last text is counted to its end, even if this exceeds the number. 0: count all texts.
  uint64_t n_tokens = 0;
  /// Counts are written to the file at least this often, and at the end of the run.
  std::chrono::seconds save_every{30};
  /// Receives the experts that the tokens of all texts choose, including texts that were counted before.
  /// Counting ends when the trace is full. Null: no trace is recorded. REQUIRES: null, or the model is a
  /// mixture.
  ExpertTraceWriter* trace = nullptr;
};

struct CountHooks {
  /// Called after every few tokens with the completed share of the work, in [0, 1], and the number of tokens
  /// that the file holds. May be empty.
  std::function<void(double fraction, uint64_t n_tokens)> progress;
  /// Called as often as `progress`. The run ends when this function returns true. The unfinished text is not
  /// counted; a later run can count it. May be empty.
  std::function<bool()> stop;
};

struct CountResult {
  Activity activity;                                     // contents of the file now
  uint64_t n_prompt_tokens = 0, n_generated_tokens = 0;  // counted by this run
  int n_texts = 0;                                       // texts counted by this run
  int n_known = 0;                                       // texts that were counted before
  bool stopped = false;
  std::string note;  // a problem with the existing file, or empty
};

/// Returns an empty string if this model can be counted in sparsity mode `mode`, otherwise one sentence that
/// gives the reason. Neurons cannot be counted if the activation function never yields zero and the mode has
/// no thresholds to skip neurons. A mixture can always be counted, because its experts are counted instead.
std::string why_not_counted(const ModelFile& file, const ModelSpec& spec, std::string_view mode);

/// Counts the texts and updates the file. Throws std::runtime_error (one sentence) if the file cannot be
/// written, if a text is not UTF-8, or if the model runs dense. Even if a text is refused, the counts of
/// earlier texts are written to the file. REQUIRES: the model has one slot.
CountResult count_texts(ModelRuntime& model, TextFeed& texts, const CountSettings& settings,
                        const CountHooks& hooks);

}  // namespace hearth
