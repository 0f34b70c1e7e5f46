// Counts which neurons of a model are active, or which experts of a mixture are chosen: runs texts through the model, lets it generate some tokens
// after each text, and adds what was active to the model's activity file.
//
// Deterministic: the same texts give the same counts with any number of threads, in one run or in several.
// Generated tokens are sampled from the model's own distribution, with a seed that is made from the text.
// Called by count_command.cpp; runs the model on the calling thread.
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
  std::filesystem::path file;  // the activity file; empty: counts are only returned
  int n_generate = 48;         // tokens that the model generates after each text
  /// Tokens of prompts and generated text that the file is to hold. The text that reaches this number is
  /// counted to its end. 0: all texts.
  uint64_t n_tokens = 0;
  /// Counts are written at least this often, and at the end.
  std::chrono::seconds save_every{30};
};

struct CountHooks {
  /// Called after every few tokens with the share of the work that is done, in [0, 1], and the number of
  /// tokens that the file holds. May be empty.
  std::function<void(double fraction, uint64_t n_tokens)> progress;
  /// Called as often as `progress`; returning true ends the run. The text that is being read then is left to
  /// the next run. May be empty.
  std::function<bool()> stop;
};

struct CountResult {
  Activity activity;                                     // as the file holds it now
  uint64_t n_prompt_tokens = 0, n_generated_tokens = 0;  // of this run
  int n_texts = 0;                                       // counted by this run
  int n_known = 0;                                       // skipped: they were counted before
  bool stopped = false;
  std::string note;  // what was wrong with the file that existed, if anything
};

/// Why this model's neurons cannot be counted in sparsity mode `mode` (its activation has no zeros, and no
/// thresholds skip any): one sentence; empty if they can, or if it is a mixture, whose experts are counted.
std::string why_not_counted(const ModelFile& file, const ModelSpec& spec, std::string_view mode);

/// REQUIRES: the model has one slot. Throws std::runtime_error (one sentence) if the file cannot be written,
/// if a text is not UTF-8, or if the model runs dense as its file is. In the second case, what was counted
/// before is in the file, if it can be written.
CountResult count_texts(ModelRuntime& model, TextFeed& texts, const CountSettings& settings,
                        const CountHooks& hooks);

}  // namespace hearth
