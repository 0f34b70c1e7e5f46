// The placement solver on standard input and output, so that tests can compare it with an integer program.
//
// usage: placement_tool
// Each line of input is a JSON object, and so is each answer:
//   {"layers": [[[vram, ram, seconds, on_device], ...], ...], "vram": N, "ram": N, "crossing": X,
//    "begins_on_device": B, "tolerance": X, "max_labels": N}
//   -> {"picks": [...], "seconds": X, "least_seconds": X, "proved": B}, or null: nothing keeps the budgets
//   {"mode": "exact", "d_model": N, "d_ff": N, "facts": [{"attention": X, "predictor": X, "gate": X, "up": X,
//   "down": X,
//    "vram_shared": N, "vram_gates": N, "ram_whole": N, "ram_shared": N, "ram_neuron": N, "active": [X,
//    ...]}, ...], "output": X, "proposed_per_active": X, "vram": N, "ram": N, "tolerance": X, "max_labels":
//    N, "machine": {"ram_s": X, "rows": X, "vram_s": X, "pcie_s": X, "round_trip": X}}
//   -> {"seconds": X, "least_seconds": X, "on_gpu": B, "layers": [[on_device, all_gates, n_hot], ...]}, or
//   null.
//    active: each neuron's share of tokens, in descending order
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/placement/choice_chain.h"
#include "engine/placement/solver.h"

namespace {

using Json = nlohmann::json;

Json chosen(const Json& question) {
  hearth::ChoiceChain chain;
  for (const Json& options : question.at("layers")) {
    std::vector<hearth::Choice>& layer = chain.layers.emplace_back();
    for (const Json& o : options) {
      layer.push_back({.vram = o.at(0), .ram = o.at(1), .seconds = o.at(2), .on_device = o.at(3)});
    }
  }
  chain.vram = question.at("vram");
  chain.ram = question.at("ram");
  chain.crossing_seconds = question.at("crossing");
  chain.begins_on_device = question.at("begins_on_device");
  const std::optional<hearth::ChosenChain> found =
      hearth::choose(chain, {.tolerance = question.at("tolerance"), .max_labels = question.at("max_labels")});
  if (!found) return nullptr;
  return {{"picks", found->picks},
          {"seconds", found->seconds},
          {"least_seconds", found->least_seconds},
          {"proved", found->proved}};
}

Json placed(const Json& question) {
  const Json& figures = question.at("machine");
  hearth::MachineProfile machine;
  machine.host = {.cpu = "",
                  .n_cores = 1,
                  .n_numa_nodes = 1,
                  .ram_bytes = 0,
                  .ram_read = {{1, 1 / figures.at("ram_s").get<double>()}},
                  .numa_read_bytes_per_s = {},
                  .sparse_row_share = figures.at("rows"),
                  .multiply_adds_per_s = 1};
  hearth::GpuProfile& gpu = machine.gpu.emplace();
  gpu.vram_bytes_per_s = 1 / figures.at("vram_s").get<double>();
  // Kernels that start at once and read at the memory's rate, so that an integer program has few terms.
  hearth::GpuCosts costs;
  costs.hand_over_s = figures.at("round_trip");
  costs.kernels.fill({.start_s = 0,
                      .bytes_per_s = gpu.vram_bytes_per_s,
                      .multiply_adds_per_s = 1,
                      .instructions_per_s = 1e18});
  gpu.to_device_pinned_bytes_per_s = gpu.from_device_pinned_bytes_per_s =
      1 / figures.at("pcie_s").get<double>();

  const std::string mode = question.at("mode");
  hearth::ModelActivity activity;
  hearth::ModelFacts facts;
  facts.mode = mode == "exact"       ? hearth::Sparsity::kExact
               : mode == "predicted" ? hearth::Sparsity::kPredicted
                                     : hearth::Sparsity::kDense;
  facts.d_model = question.at("d_model");
  facts.d_ff = question.at("d_ff");
  facts.activity = &activity;
  facts.assumptions.proposed_per_active = question.at("proposed_per_active");
  facts.assumptions.prompt_tokens = 0;  // the integer program is of decoding
  facts.output_read = question.at("output");
  facts.vram_whole = int64_t{1} << 60;  // more than any budget, so only sharing neurons is considered
  for (const Json& layer : question.at("facts")) {
    activity.curve_of_layer.push_back(static_cast<int>(activity.curves.size()));
    activity.curves.emplace_back(layer.at("active").get<std::vector<double>>());
    hearth::LayerFacts& to = facts.layers.emplace_back();
    to.attention_read = layer.at("attention");
    to.predictor_read = layer.at("predictor");
    to.gate = layer.at("gate");
    to.up = layer.at("up");
    to.down = layer.at("down");
    to.vram_shared = layer.at("vram_shared");
    to.vram_gates = layer.at("vram_gates");
    to.ram_whole = layer.at("ram_whole");
    to.ram_shared = layer.at("ram_shared");
    to.ram_neuron = layer.at("ram_neuron");
    to.gives_back = true;
  }
  const std::optional<hearth::PlacementSolution> solution = hearth::solve_placement(
      facts, hearth::CostModel(machine, costs),
      {.vram_bytes = question.at("vram"), .ram_bytes = question.at("ram"), .cache = false, .streams = false},
      {.tolerance = question.at("tolerance"), .max_labels = question.at("max_labels")});
  if (!solution) return nullptr;
  Json layers = Json::array();
  for (const hearth::LayerOption& layer : solution->layers) {
    layers.push_back({layer.on_device, layer.all_gates, layer.n_hot});
  }
  return {{"seconds", solution->seconds()},
          {"least_seconds", solution->least_seconds},
          {"on_gpu", solution->on_gpu},
          {"layers", layers}};
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      const Json question = Json::parse(line);
      std::cout << (question.contains("facts") ? placed(question) : chosen(question)).dump() << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
