// The table of both programs' options: name, programs, group, unit, range, words, help, and the field of
// Options that each option sets.
//
// The table is the only place that describes an option. hearthd's flags, environment variables, keys in the
// file, --help, the sample file and docs/configuration.md come from it, and so do the options about models
// and machines that hearth-profiler's subcommands take. So an option has the same minimum, default and words
// in both programs. Used by read_invocation, command_options and the renderers; constant, thread-safe.
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
  /// The word that stands for 0, which is then outside the range; empty: there is no such word.
  std::string_view zero = "";
};
/// A number that may be left out.
struct NumberField {
  std::optional<double> Options::*member;
  double min, max;  // both allowed
  /// The word that means the same as leaving the option out; empty: there is no such word.
  std::string_view absent = "";
};
struct TextField {
  std::string Options::*member;
};
/// One word of a list, stored as an enum: word i is the enumerator with the value i.
struct ChoiceField {
  std::vector<std::string_view> words;
  size_t (*get)(const Options& options);
  void (*set)(Options& options, size_t word);
};
/// A flag without a value. Only hearth-profiler has these.
struct FlagField {
  bool Options::*member;
};
struct ListField {
  std::vector<std::string> Options::*member;
};

/// Where a value may come from. A secret cannot be a flag, because every user of the machine can read flags.
enum class Sources { kAll, kNotFile, kEnvironmentOnly };

/// The program that has the option.
enum class Program { kHearthd, kProfiler, kBoth };

struct OptionSpec {
  std::string_view name;   // "api-key-file": the flag without its dashes; the file's key
  std::string_view group;  // heading in --help
  std::string_view value;  // what the help calls the value: "PORT", "N"
  std::string_view help;   // one or two sentences, without the default
  std::variant<IntField, NumberField, TextField, ChoiceField, ListField, FlagField> field;
  Sources sources = Sources::kAll;  // for hearthd; hearth-profiler takes them only as flags
  Program program = Program::kHearthd;
  char letter = 0;  // hearth-profiler's one-letter name: 'm' for -m; 0: none
};

/// The program's options in display order, including those that both programs have. kBoth: only options that
/// both programs have.
std::span<const OptionSpec> option_table(Program program);
/// The option of this name, or null if the program has none.
const OptionSpec* find_option(Program program, std::string_view name);

/// "api-key-file" -> "HEARTH_API_KEY_FILE".
std::string environment_name(std::string_view option_name);

/// The values that the option takes, as a phrase: "a whole number from 0 to 65535".
std::string expectation(const OptionSpec& spec);

/// The row's help text, followed by the words that the option takes.
std::string help_text(const OptionSpec& spec);

/// Sets the option's field from text; for a list, replaces all its values. Returns false and leaves the field
/// unchanged if a value is not what expectation() says.
bool assign(const OptionSpec& spec, const std::vector<std::string>& values, Options& options);

/// The field's value as text, with list items joined by ", ". A secret that is set becomes "(set)".
std::string value_text(const OptionSpec& spec, const Options& options);

/// The job that hearthd was started for: serving, or one task after which it exits.
enum class Action {
  kServe,
  kHelp,
  kVersion,
  kHealthcheck,
  kCheckConfig,
  kHasModel,
  kHashKey,
  kHelpMarkdown,
  kHelpToml,
  kHelpMan,
  kHelpManToml,
  kHelpCompletionBash,
  kHelpCompletionZsh,
  kHelpCompletionFish,
};
struct ActionSpec {
  std::string_view name, help;  // an empty help hides it
  Action action;
};
std::span<const ActionSpec> action_table();

}  // namespace hearth
