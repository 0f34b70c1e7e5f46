// See the header.
#include "profiler/options/choice_options.h"

#include <stdexcept>

#include "profiler/options/command_line.h"

namespace hearth {

ChoiceLaw ChoiceOptions::law() const {
  ChoiceLaw law;
  law.skew = skew.value_or(law.skew);
  law.reuse = reuse.value_or(law.reuse);
  return law;
}

void ChoiceOptions::check(bool has_experts, const std::string& model) const {
  if (has_experts || (!skew && !reuse)) return;
  throw std::invalid_argument("--expert-skew and --expert-reuse are about experts, and " + model +
                              " has none; leave them out.");
}

void add_choice_options(CLI::App& command, ChoiceOptions& options, const std::string& when) {
  command
      .add_option("--expert-skew", options.skew,
                  when + "Exponent of the power law of how often experts are used, 0 to 4 (default: 1)")
      ->type_name("N")
      ->check(number_from(0.0, 4.0));
  command
      .add_option(
          "--expert-reuse", options.reuse,
          when + "Share of a token's experts that the previous token used too, 0 to 0.9 (default: 0.5)")
      ->type_name("SHARE")
      ->check(number_from(0.0, 0.9));
}

}  // namespace hearth
