// The one table of options: name, group, unit, range, help, and the field of Options it sets.
//
// Everything about an option is said here once: flags, environment names, the file's keys, --help, the sample
// file and docs/configuration.md all come from this table. Used by load_options and the renderers; constant,
// thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/options.h"

namespace hearth {

struct IntField {
  int Options::*member;
  int min, max;  // both allowed
};
/// A number that may be left out.
struct NumberField {
  std::optional<double> Options::*member;
  double min, max;               // both allowed
  std::string_view absent = "";  // the word that says the same as leaving it out; empty: there is none
};
struct TextField {
  std::string Options::*member;
};
struct ChoiceField {
  std::string Options::*member;
  std::vector<std::string_view> choices;
};
struct ListField {
  std::vector<std::string> Options::*member;
};

/// Where a value may come from. A secret is not a flag, for every user of the machine can read those.
enum class Sources { kAll, kNotFile, kEnvironmentOnly };

struct OptionSpec {
  std::string_view name;   // "api-key-file": the flag without its dashes; the file's key
  std::string_view group;  // heading in --help
  std::string_view value;  // what the help calls the value: "PORT", "N"
  std::string_view help;   // one or two sentences, without the default
  std::variant<IntField, NumberField, TextField, ChoiceField, ListField> field;
  Sources sources = Sources::kAll;
};

/// All options in the order they are shown.
std::span<const OptionSpec> option_table();
/// Null if there is none of this name.
const OptionSpec* find_option(std::string_view name);

/// "api-key-file" -> "HEARTH_API_KEY_FILE".
std::string environment_name(std::string_view option_name);

/// What values the option takes, as half a sentence: "a whole number from 0 to 65535".
std::string expectation(const OptionSpec& spec);

/// Sets the option's field from text; a list is replaced by its values. Returns false, leaving the field as
/// it was, if a value is not what expectation() says.
bool assign(const OptionSpec& spec, const std::vector<std::string>& values, Options& options);

/// The field's value as text; a list joined by ", ". Secrets are given as "(set)".
std::string value_text(const OptionSpec& spec, const Options& options);

/// What hearthd does instead of serving.
enum class Action { kServe, kHelp, kVersion, kHealthcheck, kHelpMarkdown, kHelpToml };
struct ActionSpec {
  std::string_view name, help;  // an empty help hides it
  Action action;
};
std::span<const ActionSpec> action_table();

}  // namespace hearth
