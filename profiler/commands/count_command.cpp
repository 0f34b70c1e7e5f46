// Defines the count subcommand: checks the options, loads the model, counts and reports.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "config/environment.h"
#include "engine/activity/activity_file.h"
#include "engine/placement/activity_curve.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"
#include "profiler/activity/activity_csv.h"
#include "profiler/activity/count.h"
#include "profiler/activity/text_feed.h"
#include "profiler/commands/commands.h"
#include "profiler/commands/count_report.h"
#include "profiler/engine_options.h"
#include "profiler/import/activation_counts.h"
#include "profiler/machine/cache_folder.h"
#include "profiler/options/model_options.h"
#include "profiler/options/terminal.h"
#include "profiler/placement/known_activity.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

struct CountCommand {
  ModelOptions model;
  std::vector<std::string> texts, merged;
  bool no_prompts = false;
  uint64_t n_tokens = 0;
  int n_generate = 48;
  std::string imported;  // a folder of PowerInfer's activation counts to import, or empty
  std::string out, csv, trace;
};

// Longer contexts do not change which neurons are active, but their keys and values take memory.
constexpr int kContext = 1024;
// Memory for a trace's experts: some 350,000 tokens of Qwen3-30B-A3B.
constexpr uint64_t kMaxTraceBytes = 256 << 20;

fs::path output_file(const CountCommand& command, const ModelIdentity& model) {
  if (!command.out.empty()) return command.out;
  const std::variant<fs::path, std::string> folder = cache_folder(process_environment());
  if (const std::string* why = std::get_if<std::string>(&folder)) {
    throw std::runtime_error("there is no folder to keep the activity in (" + *why +
                             "); give a file with --out.");
  }
  return std::get<fs::path>(folder) / kept_activity_name(model);
}

/// Throws if the file that the user names with --out exists and is not this model's activity file, because it
/// may be a file that the user needs.
void check_named_file(const fs::path& path, const ModelIdentity& model) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw std::runtime_error(file_error::file_label(path.string()) +
                             ": it is a folder; give --out a file in it.");
  }
  if (!fs::exists(path, error)) return;
  const Activity activity = read_activity(path);
  require_same_model(activity, model, file_error::file_label(path.string()));
}

void write_csv(const CountCommand& command, const CountResult& result) {
  const ActivityCounts total = result.activity.total();
  ActivityTable table{.model = result.activity.model.name,
                      .text = fmt::format("{} texts", result.activity.texts.size()),
                      .n_tokens = total.n_tokens,
                      .experts = total.of_experts(),
                      .counts = {}};
  for (int layer = 0; layer < total.n_layers; ++layer) {
    const auto begin = total.active.begin() + static_cast<ptrdiff_t>(total.index(layer, 0));
    table.counts.emplace_back(begin, begin + total.d_ff);
  }
  const std::string csv = activity_csv(table);
  write_whole_file(command.csv, csv);
}

/// Refuses --trace if the model has no experts, or if the trace could not be written to the named path.
/// Otherwise the error would appear only after counting.
void check_trace(const CountCommand& command, const ModelSpec& spec) {
  const std::string label = file_error::file_label(command.trace);
  std::error_code error;
  if (!spec.has_experts()) {
    throw std::runtime_error(file_error::file_label(command.model.model) +
                             ": it is no mixture of experts, so there are no experts to trace; leave --trace "
                             "out.");
  }
  if (fs::is_directory(command.trace, error)) {
    throw std::runtime_error(label + ": it is a folder; give --trace a file in it.");
  }
  if (!fs::is_directory(folder_of(command.trace), error)) {
    throw std::runtime_error(label + ": its folder does not exist; make it first.");
  }
}

/// Returns an empty trace of the model that can hold at most kMaxTraceBytes of experts.
ExpertTraceWriter trace_of(const ModelRuntime& model) {
  const ModelIdentity identity = identify(model.facts().file, model.facts().spec);
  const MixtureSpec& mixture = model.facts().spec.mixture;
  const uint64_t token_bytes = uint64_t{sizeof(uint16_t)} * static_cast<uint64_t>(identity.n_layers) *
                               static_cast<uint64_t>(mixture.n_used);
  return model.observation().trace_writer(identity, std::max<uint64_t>(1, kMaxTraceBytes / token_bytes));
}

std::string trace_text(const ExpertTraceWriter& trace, const std::string& path) {
  using file_error::with_commas;
  std::string text =
      fmt::format("{:<14}{}: {} tokens of {} sequences\n", "traced", path,
                  with_commas(trace.trace().n_tokens()), with_commas(trace.trace().n_sequences()));
  if (trace.full()) {
    text += fmt::format("{:<14}the trace is full, so later tokens are left out\n", "");
  }
  return text;
}

CountResult count_with_progress(ModelRuntime& model, TextFeed& texts, const CountSettings& settings,
                                const SignalWatch& watch) {
  ProgressLine line("Counting");
  const CountHooks hooks{.progress =
                             [&line](double fraction, uint64_t n_tokens) {
                               line.update(fraction, file_error::with_commas(n_tokens) + " tokens");
                             },
                         .stop = [&watch] { return watch.stopped(); }};
  return count_texts(model, texts, settings, hooks);
}

/// Adds activity that was counted into other files to the model's activity file. If one file is refused, adds
/// none.
int run_merge(const CountCommand& command) {
  // 1. Read the files to add.
  const ModelFile file = ModelFile::open(command.model.model);
  const ModelIdentity model = identify(file, read_model_spec(file, command.model.ffn_activation));
  const fs::path path = output_file(command, model);
  if (!command.out.empty()) check_named_file(path, model);
  std::vector<Activity> others;
  std::error_code error;
  for (size_t i = 0; i < command.merged.size(); ++i) {
    const std::string label = file_error::file_label(command.merged[i]);
    others.push_back(read_activity(command.merged[i]));
    require_same_model(others.back(), model, label);
    bool twice = fs::equivalent(command.merged[i], path, error);
    for (size_t j = 0; j < i; ++j)
      twice = twice || fs::equivalent(command.merged[i], command.merged[j], error);
    if (twice) throw std::runtime_error(label + ": it would be added twice; give each file once.");
  }

  // 2. Add their counts to the model's activity file.
  CountResult result;
  result.note = update_activity(path, model, [&](Activity& activity) {
    for (size_t i = 0; i < others.size(); ++i) {
      try {
        activity.merge(others[i]);
      } catch (const std::runtime_error& refused) {
        throw std::runtime_error(file_error::file_label(command.merged[i]) + ": " + refused.what());
      }
    }
    result.activity = activity;
  });
  if (!result.note.empty()) std::fprintf(stderr, "%s\n", result.note.c_str());

  // 3. Report.
  if (!command.csv.empty()) write_csv(command, result);
  print_result(fmt::format("{:<14}{} files\n", "merged", others.size()) +
               activity_text(result.activity, path));
  return 0;
}

/// Converts PowerInfer's counts, and stores them as the model's activity file.
int run_import(const CountCommand& command) {
  // 1. Find the model, and the path of its activity file.
  const ModelFile file = ModelFile::open(command.model.model);
  const ModelSpec spec = read_model_spec(file, command.model.ffn_activation);
  const std::optional<ActivityLaw> law = known_law(spec);
  if (spec.has_experts()) {
    throw std::runtime_error(
        file_error::file_label(command.model.model) +
        ": its FFNs are mixtures of experts, and PowerInfer has no counts for those; leave --import out.");
  }
  if (!law) throw std::runtime_error(why_not_counted(file, spec, "exact"));
  const ModelIdentity model = identify(file, spec);
  const fs::path path = output_file(command, model);
  if (!command.out.empty()) check_named_file(path, model);

  // 2. Read the counts.
  const std::string label = file_error::file_label(command.imported);
  const Activity imported = imported_activity(
      read_activation_counts(command.imported, spec.n_layers, spec.d_ff), model, law->active, label);

  // 3. Write the activity file. Hearth's own counts contain more than PowerInfer's, so the two are not mixed.
  CountResult result;
  result.note = update_activity(path, model, [&](Activity& activity) {
    if (activity.n_tokens() > 0 && activity.texts != imported.texts) {
      throw std::runtime_error(file_error::file_label(path.string()) +
                               ": it holds activity that was counted with Hearth, which says more than "
                               "PowerInfer's counts; give --out another file.");
    }
    activity.merge(imported);
    result.activity = activity;
  });
  if (!result.note.empty()) std::fprintf(stderr, "%s\n", result.note.c_str());

  // 4. Report.
  if (!command.csv.empty()) write_csv(command, result);
  print_result(
      fmt::format("{:<14}{} layers from {}\n{:<14}{} assumed, because PowerInfer's files do not state it: "
                  "chosen so that at most {:.0f} % of the neurons\n{:<14}are active for a token, {}\n",
                  "imported", spec.n_layers, label, "tokens", file_error::with_commas(imported.n_tokens()),
                  100 * law->active, "", law->source) +
      activity_text(result.activity, path));
  return 0;
}

int run_count(const CountCommand& command) {
  if (!command.imported.empty()) return run_import(command);
  if (!command.merged.empty()) return run_merge(command);
  // 1. Check everything that does not need the model to be loaded.
  std::vector<fs::path> files(command.texts.begin(), command.texts.end());
  if (command.no_prompts && files.empty()) {
    throw std::runtime_error("--no-prompts leaves nothing to count; give --text a file.");
  }
  TextFeed texts(command.no_prompts ? std::vector<std::string>() : built_in_prompts(), files);
  CountSettings settings{.file = {}, .n_generate = command.n_generate, .n_tokens = command.n_tokens};
  int context = kContext;
  {
    const ModelFile file = ModelFile::open(command.model.model);
    const ModelSpec spec = read_model_spec(file, command.model.ffn_activation);
    const std::string why = why_not_counted(file, spec, engine_sparsity(command.model.sparsity));
    if (!why.empty()) throw std::runtime_error(why);
    const ModelIdentity model = identify(file, spec);
    settings.file = output_file(command, model);
    if (!command.out.empty()) check_named_file(settings.file, model);
    context = std::min(context, spec.context_train);
    if (!command.trace.empty()) check_trace(command, spec);
  }

  // 2. Count.
  const auto model = load_model(command.model, context, std::min(context, 128));
  std::optional<ExpertTraceWriter> trace;
  if (!command.trace.empty()) settings.trace = &trace.emplace(trace_of(*model));
  const SignalWatch watch;
  const CountResult result = count_with_progress(*model, texts, settings, watch);
  if (!result.note.empty()) std::fprintf(stderr, "%s\n", result.note.c_str());
  if (trace) trace->write(command.trace);

  // 3. Report.
  if (!command.csv.empty()) write_csv(command, result);
  print_result(count_text(result, settings.file) + (trace ? trace_text(*trace, command.trace) : ""));
  return result.stopped ? watch.exit_code() : 0;
}

}  // namespace

std::function<int()> add_count_command(CLI::App& app) {
  const auto command = std::make_shared<CountCommand>();
  CLI::App* count = app.add_subcommand(
      "count",
      "Count which neurons of a ReLU-family model are active, or which experts of a mixture are chosen");
  add_model_options(*count, command->model);
  add_device_options(*count, command->model);
  CLI::Option* text =
      count
          ->add_option(
              "--text,-f", command->texts,
              "Text files to count on, in addition to the built-in prompts; may be given several times")
          ->type_name("FILE");
  CLI::Option* no_prompts =
      count->add_flag("--no-prompts", command->no_prompts, "Count on the files of --text alone");
  CLI::Option* tokens = count
                            ->add_option("--tokens,-n", command->n_tokens,
                                         "Stop when this many tokens are counted in all, including earlier "
                                         "runs; 0: at the end of the texts")
                            ->capture_default_str()
                            ->type_name("N")
                            ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 31));
  count
      ->add_option("--generate", command->n_generate,
                   "Tokens that the model generates after each text, which are counted separately")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(0, 512));
  count
      ->add_option("--out,-o", command->out,
                   "The activity file, which is created or extended; not given: one in the cache folder, "
                   "which hearthd finds too")
      ->type_name("FILE");
  CLI::Option* trace =
      count
          ->add_option("--trace", command->trace,
                       "Also write a trace of the experts that each token chose, for replay; it includes "
                       "texts that were counted before, and --tokens limits its tokens")
          ->type_name("FILE");
  CLI::Option* merge =
      count
          ->add_option("--merge", command->merged,
                       "Count nothing; add the counts of other activity files of this model, for example "
                       "from other machines. Texts that both have counted count once")
          ->type_name("FILE")
          ->excludes(text)
          ->excludes(no_prompts)
          ->excludes(tokens)
          ->excludes(trace);
  count
      ->add_option("--import", command->imported,
                   "Count nothing; make the activity file from PowerInfer's counts, a folder of "
                   "activation_0.pt, activation_1.pt and so on")
      ->type_name("FOLDER")
      ->excludes(text)
      ->excludes(no_prompts)
      ->excludes(tokens)
      ->excludes(trace)
      ->excludes(merge);
  count->add_option("--csv", command->csv, "Also write how often each neuron was active, as CSV")
      ->type_name("FILE");
  return [command] { return run_count(*command); };
}

}  // namespace hearth
