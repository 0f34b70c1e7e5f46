// Counts which neurons of a model are active: runs texts through it, lets it go on from each, and adds what
// was active to the model's activity file.
//
// Deterministic: the same texts give the same counts with any number of threads, in one run or in several.
// What a model goes on with is drawn from its own distribution by a seed that the text gives. Called by
// count_command.cpp; runs the model on the calling thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "engine/activity/activity_file.h"
#include "engine/model_runtime.h"
#include "profiler/activity/text_feed.h"

namespace hearth {

struct CountSettings {
  std::filesystem::path file;  // the activity file; empty: what is counted is only told
  int n_generate = 48;         // tokens that the model goes on with after each text
  /// Tokens of prompts and generated text that the file is to hold; the text that reaches them is counted
  /// to its end. 0: all texts.
  uint64_t n_tokens = 0;
  /// What was counted is written at least so often, and at the end.
  std::chrono::seconds save_every{30};
};

struct CountHooks {
  /// Told after every few tokens: share of the work, in [0, 1], and the tokens that the file holds. May be
  /// empty.
  std::function<void(double fraction, uint64_t n_tokens)> progress;
  /// Asked as often: true ends the run. The text that is being read then is left for the next run. May be
  /// empty.
  std::function<bool()> stop;
};

struct CountResult {
  Activity activity;                                     // as the file holds it now
  uint64_t n_prompt_tokens = 0, n_generated_tokens = 0;  // of this run
  int n_texts = 0;                                       // counted by this run
  int n_known = 0;                                       // passed over: they were counted before
  bool stopped = false;
  std::string note;  // what was wrong with the file that was there, if anything
};

/// Why this model's neurons cannot be counted in the mode of sparsity `mode` (its activation has no zeros,
/// and no thresholds skip any): one sentence; empty: they can.
std::string why_not_counted(const ModelFile& file, const ModelSpec& spec, std::string_view mode);

/// The model has one slot. Throws std::runtime_error (one sentence) where the file cannot be written or a
/// text turns out to be none, and then what was counted before is in the file, if that can be written; or
/// where the model runs dense as its file lies.
CountResult count_texts(ModelRuntime& model, TextFeed& texts, const CountSettings& settings,
                        const CountHooks& hooks);

}  // namespace hearth
