// The table of both programs' options. A row has the option's name, programs, group, unit, range, accepted
// words and help, and the field of Options that it sets.
//
// The table is the only place that describes an option. hearthd's flags, environment variables, keys in the
// file, --help, the sample file and docs/configuration.md are made from it. hearth-profiler's subcommands
// take their options about models and machines from it. An option therefore has the same minimum, default and
// words in both programs. Used by read_invocation, command_options and the renderers. Constant data;
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
  int min, max;  // both values are allowed
  /// A word that sets the value to 0, such as "auto". An option with such a word has a `min` above 0, so it
  /// refuses the text "0". Empty if there is no such word.
  std::string_view zero = "";
};
/// A number that may be omitted.
struct NumberField {
  std::optional<double> Options::*member;
  double min, max;  // both values are allowed
  /// A word with the same effect as omitting the option; empty if there is none.
  std::string_view absent = "";
};
struct TextField {
  std::string Options::*member;
};
/// A value that must be one of `words`. It is stored as an enum: word i becomes the enumerator with value i.
struct ChoiceField {
  std::vector<std::string_view> words;
  size_t (*get)(const Options& options);
  void (*set)(Options& options, size_t word);
};
/// A flag without a value. Only hearth-profiler has such flags.
struct FlagField {
  bool Options::*member;
};
struct ListField {
  std::vector<std::string> Options::*member;
};

/// The allowed sources of a value. A secret cannot be a flag, because every user of the machine can read
/// flags.
enum class Sources { kAll, kNotFile, kEnvironmentOnly };

/// The program that has the option.
enum class Program { kHearthd, kProfiler, kBoth };

struct OptionSpec {
  std::string_view name;   // "api-key-file": the flag without its dashes, and the key in the file
  std::string_view group;  // heading in --help
  std::string_view value;  // name of the value in the help: "PORT", "N"
  std::string_view help;   // one or two sentences, without the default
  std::variant<IntField, NumberField, TextField, ChoiceField, ListField, FlagField> field;
  Sources sources = Sources::kAll;  // matters only to hearthd: all options of hearth-profiler are flags
  Program program = Program::kHearthd;
  char letter = 0;  // one-letter name of the flag: 'm' for -m; 0 if there is none
  /// Gets the values after the first, if hearthd takes several values of a text option; null: the last value
  /// counts. The environment cannot give several values.
  std::vector<std::string> Options::*more = nullptr;
  /// A line of the short help, of at most 50 characters. Empty if only the long help has the option.
  std::string_view brief = "";

  /// Whether hearthd's flag may be given several times with all values counting.
  bool repeats() const { return more != nullptr || std::holds_alternative<ListField>(field); }
};

/// Returns the program's options in display order, including those that both programs have. kBoth: returns
/// only options that both programs have.
std::span<const OptionSpec> option_table(Program program);
/// Returns the option with this name, or null if the program does not have it.
const OptionSpec* find_option(Program program, std::string_view name);

/// "port" -> "--port,-p", as CLI11 takes the names of a flag.
std::string flag_names(const OptionSpec& spec);

/// "api-key-file" -> "HEARTH_API_KEY_FILE".
std::string environment_name(std::string_view option_name);

/// Returns a phrase for the values that the option accepts: "a whole number from 0 to 65535".
std::string expectation(const OptionSpec& spec);

/// Returns the row's help text, followed by the words that the option accepts.
std::string help_text(const OptionSpec& spec);

/// Parses `values` and sets the option's field. A list field gets exactly these values. Returns false and
/// leaves the field unchanged if a value is not allowed (see expectation()).
bool assign(const OptionSpec& spec, const std::vector<std::string>& values, Options& options);

/// Returns the field's value as text, with list items joined by ", ". A secret that is set becomes "(set)".
std::string value_text(const OptionSpec& spec, const Options& options);

/// The task for which hearthd was started: serving, or a single job after which it exits.
enum class Action {
  kServe,
  kHelp,
  kHelpAll,
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
  std::string_view name, help;  // an action with empty help is hidden
  Action action;
};
std::span<const ActionSpec> action_table();

}  // namespace hearth
