// Defines the join-predictors subcommand: checks the options, writes the file and reports.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "config/command_options.h"
#include "engine/model/ffn_activation.h"
#include "engine/model/gguf/lost_pages.h"
#include "kernels/base/file_error.h"
#include "profiler/commands/commands.h"
#include "profiler/options/terminal.h"
#include "profiler/predictors/imported_predictors.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

struct JoinCommand {
  std::string model, predictors, out, type = "auto";
  bool force = false;
  Options options;  // only ffn_activation is used
};

int run_join(const JoinCommand& command) {
  // 1. Check everything that would otherwise fail only after minutes of work.
  gguf::survive_lost_pages();
  const ModelFile model = ModelFile::open(command.model);
  const ModelSpec spec = read_model_spec(model, command.options.ffn_activation);
  const std::string label = file_error::file_label(command.model);
  if (model.is_powerinfer()) {
    throw std::runtime_error(label +
                             ": it is a PowerInfer file and has predictors, expected the dense model.");
  }
  if (const std::string why = why_no_powerinfer_file(spec); !why.empty()) {
    throw std::runtime_error(label + ": " + why +
                             "; if the file does not say the activation, name it with --ffn-activation.");
  }
  std::error_code error;
  if (fs::equivalent(command.out, model.path(), error)) {
    throw std::runtime_error(label + ": it is the model itself; give --out another name.");
  }
  const PredictorSource predictors = import_predictors(command.predictors, spec);

  // 2. Write.
  const SignalWatch watch;
  try {
    ProgressLine line("Joining");
    write_powerinfer_file(command.out, model, spec, predictors, predictor_type(command.type, model),
                          command.force, [&](double share) {
                            gguf::refuse_lost_file();
                            if (watch.stopped()) throw Interrupted{};
                            line.update(share);
                          });
  } catch (const Interrupted&) {
    std::fputs("hearth-profiler: interrupted; the unfinished file is removed.\n", stderr);
    return watch.exit_code();
  }

  // 3. Report.
  const auto [least, most] = std::ranges::minmax(predictors.ranks);
  print_result(fmt::format("{}: {} bytes, {} layers with predictors of rank {} to {}, proposed from {} on\n",
                           file_error::file_label(command.out),
                           file_error::with_commas(fs::file_size(command.out)), predictors.ranks.size(),
                           least, most, predictors.threshold));
  return 0;
}

}  // namespace

std::function<int()> add_join_command(CLI::App& app) {
  // Shared by the options' callbacks and the returned function.
  const auto command = std::make_shared<JoinCommand>();
  CLI::App* join = app.add_subcommand("join-predictors",
                                      "Write a ReLU model and PowerInfer's predictors (model_0.pt, ...) into "
                                      "one file in PowerInfer's format");
  join->add_option("model", command->model, "The dense model: a GGUF file, or any part of a split model")
      ->required()
      ->type_name("FILE");
  join->add_option("--predictors", command->predictors,
                   "Folder with model_0.pt, model_1.pt, ... and possibly config.json")
      ->required()
      ->type_name("DIR");
  join->add_option("--out,-o", command->out, "File to write; call it NAME.powerinfer.gguf")
      ->required()
      ->type_name("FILE");
  join->add_option("--predictor-type", command->type,
                   "Type of the predictors: auto (the FFN's), f16, q8_0 or q4_0")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "f16", "q8_0", "q4_0"}));
  join->add_flag("--force", command->force, "Replace an existing file");
  add_options(*join, {"ffn-activation"}, command->options);
  return [command] { return run_join(*command); };
}

}  // namespace hearth
