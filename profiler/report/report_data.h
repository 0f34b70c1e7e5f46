// The data that a report about a model on a machine shows, and the functions that derive it from plans and
// measurements. Plain data. Unknown parts are empty, and the report omits them. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/activity/activity_file.h"
#include "profiler/plan/expected_run.h"
#include "profiler/plan/mixture_plan.h"
#include "profiler/plan/plan_answer.h"
#include "profiler/report/held_out.h"

namespace hearth {

/// Bytes of one kind, by memory.
struct ReportBytes {
  std::string what;  // "attention", "hot neurons"
  double on_gpu = 0, in_ram = 0;
};

/// One layer of the plan.
struct ReportLayer {
  bool on_gpu = false;     // the layer's attention is on the GPU
  bool all_gates = false;  // all gates of the layer are on the GPU
  double hot = 0;          // share of its neurons that are always on the GPU
  double cached = 0;       // share of its neurons that fit in the GPU's cache
};

/// The shares that describe one layer's predictor on held-out tokens.
struct ReportPredictor {
  double recall = 0;    // share of active neurons that is proposed
  double proposed = 0;  // share of all neurons that is proposed
  // recall and proposed if the predictor runs one layer early, on the previous layer's input; negative: not
  // measured
  double early_recall = -1, early_proposed = -1;
};

/// Statistics from the counts of a mixture's experts.
struct ReportExperts {
  int n_experts = 0;         // experts of a layer
  std::vector<double> kept;  // [n_layers] share of a token's experts that the previous token also used
  double mean_kept = 0;
  struct Cache {
    int n = 0;          // hottest experts of each layer
    double caught = 0;  // share of all choices that fall on these experts
  };
  std::vector<Cache> caches;
  struct Reads {
    int n_tokens = 0;
    double of_one_text = 0, of_different = 0;  // number of a layer's experts that the tokens read; 0: unknown
  };
  std::vector<Reads> reads;
};

/// Tokens per second.
struct ReportSpeed {
  std::string what;                                    // "decode", "prefill"
  double planned = 0;                                  // the plan's speed, with the plan's context
  std::optional<double> expected = {}, measured = {};  // speeds of a short run
  std::string bound;                                   // the limit: "reading cold neurons from RAM"
};

struct ReportData {
  std::string model;      // the model's name
  std::string facts;      // for example "llama, 32 layers of 11,008 neurons, 3.9 GB"
  std::string machine;    // for example "RTX 4090, 24 GB; 16 cores, 64 GB"
  std::string made;       // date and version
  std::string text;       // the text that activity was counted on
  uint64_t n_tokens = 0;  // tokens of that text
  /// [n_layers][d_ff]: share of tokens for which each neuron is active. For mixtures, [n_layers][n_experts]:
  /// share of tokens for which each expert is chosen.
  std::vector<std::vector<double>> activity;
  std::optional<ReportExperts> experts;  // for mixtures, if experts were counted
  std::string held_out;                  // the text behind `hits` and `predictors`: "412 tokens of 26 texts"
  std::vector<ReportBytes> bytes;
  std::vector<ReportLayer> layers;          // [n_layers]
  std::vector<ReportPredictor> predictors;  // [n_layers]
  std::string planned_run, measured_run;    // the load of each run: "a context of 4,096 tokens, half full"
  std::string busy;                         // a sentence if the machine was busy while speeds were measured
  std::vector<ReportSpeed> speeds;
  std::optional<ReportHits> hits;
  // The plan's lines: a name, which is empty if the line continues the one before it, and a text.
  std::vector<std::pair<std::string, std::string>> plan;
  std::vector<std::string> notes;  // sentences
};

/// The measured speeds of a short run, and the expected ones, in tokens per second.
struct SpeedMeasured {
  int n_prompt = 0, n_generated = 0;
  ExpectedRun expected;  // the plan's prediction for such a run
  double prefill = 0, decode = 0;
  std::string busy = {};  // a sentence if other programs used the machine, otherwise empty
};

struct ReportInputs {
  const PlanQuestion& question;
  const PlanAnswer& answer;
  const Activity* counted = nullptr;    // null: the model's neurons were not counted
  const HeldOut* held_out = nullptr;    // null: not run
  std::optional<SpeedMeasured> speed;   // nullopt: not measured; the report then shows the plan's speeds
  std::vector<std::string> notes = {};  // sentences
  std::string made;                     // date and version
};

ReportData report_data(const ReportInputs& in);

/// The inputs of a report about a mixture of experts.
struct MixtureReportInputs {
  const PlanQuestion& question;
  const MixturePlan& plan;
  const Activity* counted = nullptr;    // null: the model's experts were not counted
  std::optional<SpeedMeasured> speed;   // nullopt: not measured
  std::vector<std::string> notes = {};  // sentences
  std::string made;                     // date and version
};
ReportData report_data(const MixtureReportInputs& in);

}  // namespace hearth
