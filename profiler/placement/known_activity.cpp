// Finds activity files, and converts their counts for placement.
#include "profiler/placement/known_activity.h"

#include <exception>
#include <system_error>
#include <utility>
#include <variant>

#include "kernels/base/file_error.h"
#include "profiler/machine/cache_folder.h"

namespace hearth {

namespace fs = std::filesystem;

std::string kept_activity_name(const ModelIdentity& model) { return file_stem(model) + ".activity"; }

fs::path kept_activity_path(const Environment& environment, const ModelIdentity& model) {
  const std::variant<fs::path, std::string> folder = cache_folder(environment);
  if (!std::holds_alternative<fs::path>(folder)) return {};
  return std::get<fs::path>(folder) / kept_activity_name(model);
}

namespace {

void add_sentence(std::string& said, const std::string& sentence) {
  said += (said.empty() ? "" : "\n") + sentence;
}

}  // namespace

std::optional<Activity> kept_activity(const fs::path& file, const ModelIdentity& model,
                                      std::string& said) try {
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) return std::nullopt;
  Activity activity = read_activity(file);
  require_same_model(activity, model, file_error::file_label(file.string()));
  // The file has no tokens if counting was interrupted before the end of the first text.
  if (activity.n_tokens() == 0) return std::nullopt;
  return activity;
} catch (const std::exception& problem) {
  add_sentence(said, problem.what());
  return std::nullopt;
}

std::optional<Activity> kept_activity(const fs::path& file, const ModelIdentity& model) {
  std::string untold;
  return kept_activity(file, model, untold);
}

std::optional<Activity> kept_activity(const Environment& environment, const fs::path& model_path,
                                      const ModelIdentity& model, std::string& said) {
  std::optional<Activity> kept = kept_activity(kept_activity_path(environment, model), model, said);
  return kept ? std::move(kept) : kept_activity(activity_path_beside(model_path), model, said);
}

std::optional<ModelActivity> model_activity(const Activity& activity, std::string source) {
  if (activity.n_tokens() < kLeastTokens) return std::nullopt;
  if (source.empty())
    source = "as " + file_error::with_commas(activity.n_tokens()) + " tokens of the model show";
  return counted_activity(activity.profile(), static_cast<double>(activity.n_tokens()), 0, source);
}

std::optional<ModelActivity> activity_beside(const fs::path& model_path, const ModelSpec& spec,
                                             std::optional<double> active, std::string& said) {
  const FoundActivity found = find_activity(model_path, spec.n_layers, spec.d_ff);
  if (!found.sentence.empty()) add_sentence(said, found.sentence);
  const std::optional<ActivityLaw> law = known_law(spec);
  if (!found.profile || !law) return std::nullopt;
  return counted_activity(
      *found.profile, 0, active.value_or(law->active),
      "spread as counted, " + (active ? std::string("as many as said") : "as many " + law->source));
}

PlacementFacts placement_facts(const MachineProfile& machine, const std::optional<Activity>& activity,
                               std::function<void(const PlacementSolution& solution)> found) {
  PlacementFacts facts{.machine = machine, .found = std::move(found)};
  if (activity) facts.activity = model_activity(*activity);
  return facts;
}

KnownCounts known_counts(const Environment& environment, const ModelFile& file, const ModelSpec& spec,
                         std::optional<double> active, std::string& said) {
  KnownCounts known;
  known.counted = kept_activity(environment, file.path(), identify(file, spec), said);
  if (known.counted) known.model = model_activity(*known.counted);
  if (!known.model) known.model = activity_beside(file.path(), spec, active, said);
  return known;
}

std::optional<ModelActivity> known_activity(const Environment& environment, const fs::path& model_path,
                                            std::string_view ffn_activation) {
  try {
    const ModelFile file = ModelFile::open(model_path);
    std::string untold;
    return known_counts(environment, file, read_model_spec(file, ffn_activation), std::nullopt, untold).model;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace hearth
