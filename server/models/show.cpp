// See the header.
#include "server/models/show.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "config/wrapped_lines.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "profiler/engine_options.h"
#include "profiler/machine/busy_machine.h"
#include "profiler/machine/known_machine.h"
#include "profiler/machine/rate_text.h"
#include "profiler/placement/known_activity.h"
#include "profiler/plan/mixture_plan.h"
#include "profiler/plan/plan_machine.h"
#include "profiler/store/choice.h"
#include "server/api/model_file_facts.h"
#include "server/models/layer_facts.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;
using Ordered = nlohmann::ordered_json;
using Lines = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kColumn = 11, kWidth = 100;

std::string text_of(const ModelFile& file, std::string_view key) {
  try {
    return std::string(file.find_string(key).value_or(""));
  } catch (const ModelFileError&) {  // the value has another type
    return {};
  }
}

/// Returns a text from the file, escaped so that it is safe to print on a terminal.
std::string shown(const std::string& text) {
  std::string quoted = file_error::quoted(text, 200);
  return quoted.substr(1, quoted.size() - 2);
}

std::string count_text(int64_t n) {
  if (n < 1'000'000) return file_error::with_commas(static_cast<uint64_t>(n));
  const bool billions = n >= 999'500'000;
  return rate_text(static_cast<double>(n) / (billions ? 1e9 : 1e6)) + (billions ? " billion" : " million");
}

size_t n_tokens_of(const ModelFile& file) {
  try {
    const auto tokens = file.find_strings("tokenizer.ggml.tokens");
    return tokens ? tokens->size() : 0;
  } catch (const ModelFileError&) {
    return 0;
  }
}

std::string experts_text(const ModelSpec& spec) {
  if (!spec.has_experts()) return {};
  return ", " + std::to_string(spec.mixture.n_experts) + " experts of which a token has " +
         std::to_string(spec.mixture.n_used);
}

/// The experts of a mixture.
struct ExpertFacts {
  int n_layers = 0;                    // layers with experts
  int n_of_layer = 0, n_of_token = 0;  // experts of a layer, and those among them that a token uses
  size_t least = 0, most = 0;          // bytes of one expert; the layers may have different types
  double bytes = 0, token_bytes = 0;   // of all experts, and of those that a token reads
};

/// Returns nullopt for other models.
std::optional<ExpertFacts> expert_facts(const ModelSpec& spec, const Weights& weights) {
  if (!spec.has_experts()) return std::nullopt;
  ExpertFacts facts{.n_of_layer = spec.mixture.n_experts, .n_of_token = spec.mixture.n_used};
  for (const LayerWeights& layer : weights.layers) {
    if (layer.mixture.experts.empty()) continue;
    const size_t bytes = expert_bytes(layer.mixture.experts.front());
    facts.least = facts.n_layers == 0 ? bytes : std::min(facts.least, bytes);
    facts.most = std::max(facts.most, bytes);
    facts.bytes += static_cast<double>(bytes) * facts.n_of_layer;
    facts.token_bytes += static_cast<double>(bytes) * facts.n_of_token;
    ++facts.n_layers;
  }
  return facts;
}

std::string text_of(const ExpertFacts& experts, double file_bytes) {
  const auto text = [](size_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string each = text(experts.least);
  if (experts.least != experts.most) each += " to " + text(experts.most);
  return each + " each, " + bytes_text(experts.bytes) + " in " + std::to_string(experts.n_layers) +
         " layers, " + rate_text(100 * experts.bytes / file_bytes) + " % of the file; a token reads " +
         bytes_text(experts.token_bytes) + " of them, " +
         rate_text(100 * experts.token_bytes / experts.bytes) + " %";
}

Ordered json_of(const ExpertFacts& experts) {
  return {{"layers", experts.n_layers},
          {"of_a_layer", experts.n_of_layer},
          {"of_a_token", experts.n_of_token},
          {"least_bytes", experts.least},
          {"most_bytes", experts.most},
          {"bytes", static_cast<int64_t>(experts.bytes)},
          {"token_bytes", static_cast<int64_t>(experts.token_bytes)}};
}

/// Facts from the head of the file. They are available even if Hearth does not support the model.
struct Head {
  std::string architecture, license, tokenizer, pre_tokenizer;
  bool has_template = false;
  size_t n_tokens = 0;
  int64_t n_parameters = 0;
};

Head head_of(const ModelFile& file) {
  Head head;
  head.architecture = text_of(file, "general.architecture");
  head.license = text_of(file, "general.license");
  head.tokenizer = text_of(file, "tokenizer.ggml.model");
  head.pre_tokenizer = text_of(file, "tokenizer.ggml.pre");
  head.has_template = !text_of(file, "tokenizer.chat_template").empty();
  head.n_tokens = n_tokens_of(file);
  for (const TensorInfo& tensor : file.tensors())
    head.n_parameters += tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
  return head;
}

/// Returns the measured speeds of this machine. Measures them if they are not stored yet.
MachineProfile this_machine(const Environment& environment) {
  const bool watched = isatty(STDERR_FILENO) != 0;
  if (!watched)
    std::fputs("hearthd: looking up what this machine can do; the first time takes some seconds\n", stderr);
  std::optional<KnownMachine> known =
      known_machine(environment, false,
                    {.progress =
                         [watched](double fraction, std::string_view what) {
                           if (!watched) return;
                           std::fprintf(stderr, "\r\033[KMeasuring this machine, once: %.0f %%, %.*s",
                                        100 * fraction, static_cast<int>(what.size()), what.data());
                         },
                     .stop = {}});
  if (watched) std::fputs("\r\033[K", stderr);
  for (const std::string& note : known->notes) std::fprintf(stderr, "hearthd: %s\n", note.c_str());
  return std::move(known->machine);
}

/// Returns the planner's input for a server with these options.
PlanQuestion question_of(const PlannedModel& model, const Options& options) {
  PlanQuestion question{
      .model = model,
      .machine = {},
      .vram_bytes = std::nullopt,
      .ram_bytes = std::nullopt,
      .load = {.context_tokens = options.context > 0
                                     ? std::min(options.context, model.spec.context_train)
                                     : std::min(kDefaultContext, model.spec.unindexed_context()),
               .n_slots = options.slots,
               .n_kv_contexts = engine_kv_contexts(options.kv_contexts),
               .prefill_chunk = options.prefill_chunk,
               .kv_type = engine_kv_type(options.kv_type)},
      .modes = {},
      .activity = std::nullopt,
      .active = std::nullopt,
      .assumptions = {}};
  if (options.vram_budget_gib)
    question.vram_bytes = static_cast<int64_t>(bytes_of_gib(*options.vram_budget_gib));
  if (options.ram_budget_gib)
    question.ram_bytes = static_cast<int64_t>(bytes_of_gib(*options.ram_budget_gib));
  return question;
}

/// The planner's result for this machine.
struct Planned {
  std::string machine;
  Lines lines;               // lines that `hearthd show` prints
  Ordered json;              // the planner's JSON object
  std::string does_not_fit;  // why the model does not fit; empty if it fits
};

Planned plan_of(const fs::path& path, const Options& options, const Environment& environment) {
  const PlannedModel model = model_of_file(path, options.ffn_activation);
  PlanQuestion question = question_of(model, options);
  set_machine(question, this_machine(environment));
  if (!question.machine.gpu) question.vram_bytes.reset();
  Planned planned{
      .machine = question.machine.name, .lines = {}, .json = Ordered::object(), .does_not_fit = {}};
  std::string said;
  const KnownCounts known = known_counts(environment, *model.file, model.spec, std::nullopt, said);
  if (!said.empty()) std::fprintf(stderr, "hearthd: %s\n", said.c_str());
  Lines lines;
  try {
    if (model.spec.has_experts()) {
      const ActivityCounts counts = known.counted ? known.counted->total() : ActivityCounts();
      const MixturePlan plan = plan_mixture(question, &counts);
      lines = mixture_lines(question, plan);
      planned.json = Ordered::parse(mixture_json(question, plan));
    } else {
      question.activity = known.model;
      const PlanAnswer answer = answer_plan(question);
      lines = plan_lines(question, answer);
      planned.json = Ordered::parse(plan_json(question, answer));
    }
  } catch (const std::runtime_error& error) {
    planned.does_not_fit = error.what();
  }
  constexpr std::array<std::string_view, 5> kShown = {"decode", "prefill", "GPU", "RAM", "assumed"};
  for (auto& [name, what] : lines) {
    if (std::ranges::find(kShown, name) != kShown.end())
      planned.lines.emplace_back(std::move(name), std::move(what));
  }
  if (!planned.does_not_fit.empty()) return planned;
  const double share = available_share(question.machine);
  if (std::string busy = busy_prediction(share, question.machine.ram_read_bytes_per_s()); !busy.empty())
    planned.lines.emplace_back("now", std::move(busy));
  planned.json["available_share"] = share;
  return planned;
}

std::string lines_of(const Lines& lines) {
  std::string text;
  for (const auto& [name, what] : lines) {
    std::string begin = name + std::string(kColumn - std::min(kColumn, name.size()), ' ');
    for (const std::string& line : wrapped_lines(what, kWidth)) {
      text += begin + line + "\n";
      begin.assign(kColumn, ' ');
    }
  }
  return text;
}

}  // namespace

std::string show_model(const fs::path& path, const std::optional<ModelOrigin>& origin,
                       const ShowOptions& show, const Options& options, const Environment& environment) {
  const ModelFile file = ModelFile::open(path);
  const Head head = head_of(file);
  std::optional<ModelSpec> spec;
  std::string does_not_run;
  try {
    spec = read_model_spec(file, options.ffn_activation);
  } catch (const ModelFileError& error) {
    does_not_run = error.what();
  }
  std::optional<ExpertFacts> experts;
  std::optional<RecurrentFacts> recurrent;
  std::optional<PredictingFacts> predicting;
  std::optional<Planned> planned;
  if (spec) {
    try {
      const Weights weights = bind_weights(file, *spec);
      experts = expert_facts(*spec, weights);
      recurrent = recurrent_facts(*spec);
      predicting = predicting_facts(file, *spec, weights);
      if (spec->cpu_only_kind().empty() && show.plan) planned = plan_of(path, options, environment);
    } catch (const ModelFileError& error) {  // for example, if tensors are missing
      does_not_run = error.what();
    }
  }
  std::string type;
  if (spec) type = read_model_file_facts(file, *spec).quantization;
  const std::string name = split_name(path.filename().string()).stem;

  if (show.json) {
    Ordered json = {{"name", name},
                    {"path", fs::absolute(path).lexically_normal().string()},
                    {"bytes", file.total_bytes()},
                    {"architecture", head.architecture},
                    {"parameters", head.n_parameters},
                    {"license", head.license.empty() ? Ordered() : Ordered(head.license)},
                    {"tokenizer", head.tokenizer},
                    {"pre_tokenizer", head.pre_tokenizer},
                    {"vocabulary", head.n_tokens},
                    {"chat_template", head.has_template},
                    {"runs", does_not_run.empty()}};
    if (!does_not_run.empty()) json["why_not"] = does_not_run;
    if (spec) {
      json["type"] = type;
      json["layers"] = spec->n_layers;
      json["context"] = spec->context_train;
      json["generates"] = spec->arch.has_output;
      json["ranks"] = spec->n_scores > 0;
    }
    if (experts) json["experts"] = json_of(*experts);
    if (recurrent) json["recurrent"] = json_of(*recurrent);
    if (predicting) json["predicting_layers"] = json_of(*predicting);
    if (origin)
      json["origin"] = {{"source", origin->source},
                        {"commit", origin->commit},
                        {"sha256", origin->sha256},
                        {"pulled", origin->pulled}};
    if (planned) {
      json["fits"] = planned->does_not_fit.empty();
      if (planned->does_not_fit.empty()) {
        json["plan"] = planned->json;
      } else {
        json["why_it_does_not_fit"] = planned->does_not_fit;
      }
    }
    return json.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
  }

  Lines lines;
  lines.emplace_back("file", bytes_text(static_cast<double>(file.total_bytes())) + ", " +
                                 file_error::file_label(path.string()));
  if (origin)
    lines.emplace_back(
        "from",
        shown(origin->source) + (origin->pulled.empty() ? "" : ", " + shown(origin->pulled.substr(0, 10))));
  std::string what = shown(head.architecture) + ", " + count_text(head.n_parameters) + " parameters";
  if (spec) {
    what += ", mostly " + type + ", " + std::to_string(spec->n_layers) + " layers" + experts_text(*spec) +
            "; trained for " + file_error::with_commas(static_cast<uint64_t>(spec->context_train)) +
            " tokens";
    if (spec->n_scores > 0) {
      what += "; it ranks documents and generates no text";
    } else if (!spec->arch.has_output) {
      what += "; it makes embeddings and generates no text";
    }
  }
  lines.emplace_back("model", what);
  if (experts) lines.emplace_back("experts", text_of(*experts, static_cast<double>(file.total_bytes())));
  if (recurrent) lines.emplace_back("recurrent", text_of(*recurrent));
  if (predicting) lines.emplace_back("drafts", text_of(*predicting));
  lines.emplace_back("tokenizer",
                     shown(head.tokenizer) +
                         (head.pre_tokenizer.empty() ? "" : " (" + shown(head.pre_tokenizer) + ")") + ", " +
                         file_error::with_commas(head.n_tokens) + " tokens; " +
                         (head.has_template ? "with a chat template" : "no chat template"));
  lines.emplace_back("license", head.license.empty() ? "the file does not say" : shown(head.license));
  if (!does_not_run.empty()) lines.emplace_back("runs", "no: " + does_not_run);
  if (planned) {
    lines.emplace_back("fits", planned->does_not_fit.empty()
                                   ? "yes, on " + planned->machine + "; predicted, not measured:"
                                   : "no: " + planned->does_not_fit);
    lines.insert(lines.end(), planned->lines.begin(), planned->lines.end());
  }
  return shown(name) + "\n\n" + lines_of(lines);
}

}  // namespace hearth
