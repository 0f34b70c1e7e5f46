// Formats the report about training as text and as JSON.
#include "profiler/predictors/training_report.h"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "engine/residency/memory_limit.h"

namespace hearth {
namespace {

ProposalCounts all_layers(const TrainResult& result) {
  ProposalCounts counts;
  for (const LayerResult& layer : result.layers) counts.add(layer.held_out);
  return counts;
}

double rise_of(const ThresholdChoice& choice) { return choice.perplexity / choice.exact_perplexity - 1; }

std::string layer_line(size_t number, const LayerResult& layer) {
  std::string text = fmt::format("{:>5} {:>5} {:>8.1f} {:>9.1f} {:>8.2f} {:>8.1f}", number, layer.rank,
                                 100 * layer.held_out.active(), 100 * layer.held_out.proposed(),
                                 100 * layer.held_out.recall(), 100 * layer.held_out.false_positives());
  if (number > 0) {
    text += fmt::format(" {:>10.1f} {:>8.2f} {:>8.1f}", 100 * layer.ahead.proposed, 100 * layer.ahead.recall,
                        100 * layer.ahead.false_positives);
  }
  return text + "\n";
}

/// Returns the mean of LayerResult::ahead over all layers but the first.
PredictorShares mean_ahead(const TrainResult& result) {
  PredictorShares mean{.recall = 0};
  const double n = static_cast<double>(result.layers.size()) - 1;
  for (size_t l = 1; l < result.layers.size(); ++l) {
    mean.proposed += result.layers[l].ahead.proposed / n;
    mean.recall += result.layers[l].ahead.recall / n;
    mean.false_positives += result.layers[l].ahead.false_positives / n;
  }
  return mean;
}

}  // namespace

std::filesystem::path training_report_path(const std::filesystem::path& written) {
  return written.string() + ".training.json";
}

std::string training_text(const TrainingReport& report) {
  const TrainResult& result = report.result;
  std::string text = fmt::format("recorded    {} tokens, {} on disk while training\n", result.n_recorded,
                                 bytes_text(static_cast<double>(result.recorded_bytes)));
  text += "layer  rank active,% proposed,% recall,% false,%   ahead of time: proposed,% recall,% false,%\n";
  for (size_t l = 0; l < result.layers.size(); ++l) text += layer_line(l, result.layers[l]);
  const ProposalCounts all = all_layers(result);
  text += fmt::format(
      "held out    {:.1f} % of neurons active, {:.1f} % proposed, recall {:.2f} %, {:.1f} % of the inactive "
      "proposed\n",
      100 * all.active(), 100 * all.proposed(), 100 * all.recall(), 100 * all.false_positives());
  if (result.layers.size() > 1) {
    const PredictorShares ahead = mean_ahead(result);
    text += fmt::format(
        "ahead       from the layer before: recall {:.2f} %, {:.1f} % proposed, {:.1f} % of the inactive\n",
        100 * ahead.recall, 100 * ahead.proposed, 100 * ahead.false_positives);
  }
  const ThresholdChoice& choice = result.choice;
  text += fmt::format(
      "chosen      at {:+.2f} % on the text for it, a divergence of {:.2f} % and {:.2f} % for chance\n",
      100 * rise_of(choice), 100 * choice.divergence, 100 * choice.margin);
  text += fmt::format("perplexity  {:.4f} exact, {:.4f} predicted: {:+.2f} %  (granted {:+.2f} %)\n",
                      result.held_out.exact, result.held_out.predicted, 100 * result.held_out.rise(),
                      100 * report.max_rise);
  text += fmt::format("            {:.4f} as the written file runs: {:+.2f} %, {:.1f} % proposed\n",
                      report.served_perplexity, 100 * (report.served_perplexity / result.held_out.exact - 1),
                      100 * report.served_proposed);
  text += fmt::format("predictors  {} weights, {:.1f} % of the model's\n", report.predictor_weights,
                      100 * report.model_weights_share);
  text += fmt::format("written     {} ({})\n", report.written,
                      bytes_text(static_cast<double>(report.written_bytes)));
  if (!result.choice.kept) {
    text +=
        "The perplexity budget is exceeded even if these predictors propose as many neurons as they can: "
        "train on more text (--tokens), longer (--epochs), or allow larger ones (--size-budget).\n";
  }
  return text;
}

std::string training_json(const TrainingReport& report) {
  using nlohmann::json;
  const TrainResult& result = report.result;
  json layers = json::array();
  for (size_t l = 0; l < result.layers.size(); ++l) {
    const LayerResult& layer = result.layers[l];
    json row = {{"layer", l},
                {"rank", layer.rank},
                {"active", layer.held_out.active()},
                {"proposed", layer.held_out.proposed()},
                {"recall", layer.held_out.recall()},
                {"false_positives", layer.held_out.false_positives()}};
    if (l > 0) {
      row["ahead"] = {{"proposed", layer.ahead.proposed},
                      {"recall", layer.ahead.recall},
                      {"false_positives", layer.ahead.false_positives}};
    }
    layers.push_back(row);
  }
  const ProposalCounts all = all_layers(result);
  json out = {{"model", report.model},
              {"written", report.written},
              {"written_bytes", report.written_bytes},
              {"predictor_weights", report.predictor_weights},
              {"predictor_weights_share", report.model_weights_share},
              {"recorded_tokens", result.n_recorded},
              {"recorded_bytes", result.recorded_bytes},
              {"layers", layers},
              {"held_out",
               {{"active", all.active()},
                {"proposed", all.proposed()},
                {"recall", all.recall()},
                {"false_positives", all.false_positives()},
                {"perplexity_exact", result.held_out.exact},
                {"perplexity_predicted", result.held_out.predicted},
                {"rise", result.held_out.rise()}}},
              {"tuned_on",
               {{"perplexity_exact", result.choice.exact_perplexity},
                {"perplexity_predicted", result.choice.perplexity},
                {"rise", rise_of(result.choice)},
                {"divergence", result.choice.divergence},
                {"margin", result.choice.margin},
                {"granted", report.max_rise},
                {"kept", result.choice.kept}}},
              {"served",
               {{"perplexity", report.served_perplexity},
                {"rise", report.served_perplexity / result.held_out.exact - 1},
                {"proposed", report.served_proposed}}}};
  return out.dump() + "\n";
}

}  // namespace hearth
