// What a report shows of a model on a machine. Plain data; parts that are not known are empty, and left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

/// Bytes of one kind, where they lie.
struct ReportBytes {
  std::string what;  // "attention", "hot neurons"
  double on_gpu = 0, in_ram = 0;
};

/// One layer of the plan.
struct ReportLayer {
  bool on_gpu = false;     // its attention
  bool all_gates = false;  // on the GPU
  double hot = 0;          // share of its neurons that the GPU has for good
  double cached = 0;       // and for now
};

/// Of one layer's predictor, over held-out tokens. Shares.
struct ReportPredictor {
  double recall = 0;    // of active neurons, proposed
  double proposed = 0;  // of all neurons
  // The same where it is asked ahead of time, with the input of the layer before; < 0: not asked.
  double early_recall = -1, early_proposed = -1;
};

/// Tokens per second.
struct ReportSpeed {
  std::string what;                                    // "decode", "prefill"
  double planned = 0;                                  // with the plan's context
  std::optional<double> expected = {}, measured = {};  // of a short run
  std::string bound;                                   // what limits it: "reading cold neurons from RAM"
};

/// How many of the neurons that held-out text needed a set of neurons of the same bytes had.
struct ReportHitRate {
  std::string placement;  // "as planned", "at random"
  double hit_rate = 0;
};

struct ReportHits {
  double share = 0;      // of all neurons, chosen
  bool planned = false;  // as many as the plan has hot, and the first rate is the plan's
  std::vector<ReportHitRate> rates;
  // Rates of other shares, evenly from none to all: of the most active of all layers, and of as many of each.
  std::vector<double> by_activity, even;
};

struct ReportData {
  std::string model;                          // its name
  std::string facts;                          // "llama, 32 layers of 11,008 neurons, 3.9 GB"
  std::string machine;                        // "RTX 4090, 24 GB; 16 cores, 64 GB"
  std::string made;                           // date and version
  std::string text;                           // what activity was counted on
  uint64_t n_tokens = 0;                      // of it
  std::vector<std::vector<double>> activity;  // [n_layers][d_ff] share of tokens a neuron is active for
  std::string held_out;  // what hits and predictors were measured on: "412 tokens of 26 texts"
  std::vector<ReportBytes> bytes;
  std::vector<ReportLayer> layers;          // [n_layers]
  std::vector<ReportPredictor> predictors;  // [n_layers]
  std::string planned_run, measured_run;    // what speeds are of: "a context of 4,096 tokens, half full"
  std::vector<ReportSpeed> speeds;
  std::optional<ReportHits> hits;
  std::vector<std::string> notes;  // sentences: the plan's lines
};

}  // namespace hearth
