// The options that set how often the tokens of a planted mixture choose each expert.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "profiler/synthesis/planted_choice.h"

namespace hearth {

struct ChoiceOptions {
  std::optional<double> skew, reuse;  // values the user gave; otherwise those of synthetic models

  ChoiceLaw law() const;
  /// Throws std::invalid_argument (one sentence) if an option was given for a model without experts.
  void check(bool has_experts, const std::string& model) const;
};

/// Adds --expert-skew and --expert-reuse, whose help begins with `when`. `options` must outlive the parsing.
void add_choice_options(CLI::App& command, ChoiceOptions& options, const std::string& when = "");

}  // namespace hearth
