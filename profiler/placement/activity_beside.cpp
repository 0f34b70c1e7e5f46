// See the header.
#include "profiler/placement/activity_beside.h"

#include <stdexcept>

namespace hearth {

std::optional<ModelActivity> activity_beside(const std::filesystem::path& model, const ModelSpec& spec,
                                             std::optional<double> active, std::string* sentence) {
  const FoundActivity found = find_activity(model, spec.n_layers, spec.d_ff);
  if (sentence != nullptr) *sentence = found.sentence;
  const std::optional<ActivityLaw> law = known_law(spec);
  if (!found.profile || !law) return std::nullopt;
  return counted_activity(
      *found.profile, 0, active.value_or(law->active),
      "spread as counted, " + (active ? std::string("as many as said") : "as many " + law->source));
}

std::optional<ModelActivity> activity_beside(const std::filesystem::path& model,
                                             std::string_view ffn_activation) {
  try {
    const ModelSpec spec = read_model_spec(ModelFile::open(model), ffn_activation);
    return activity_beside(model, spec, std::nullopt, nullptr);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace hearth
