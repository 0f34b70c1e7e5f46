// The one table of options of both programs: name, programs, group, unit, range, words, help, and the field
// of Options that each sets.
//
// Everything about an option is said here once. hearthd's flags, environment names, the file's keys, --help,
// the sample file and docs/configuration.md come from this table, and so do the options that
// hearth-profiler's subcommands take about a model and a machine. So an option has the same minimum, default
// and words in both. Used by read_invocation, command_options and the renderers; constant, thread-safe.
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
  int min, max;                // both allowed
  std::string_view zero = "";  // the word for 0, which is outside the range then; empty: there is none
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
/// One of some words, which become an enum: word i is the enumerator of value i.
struct ChoiceField {
  std::vector<std::string_view> words;
  size_t (*get)(const Options& options);
  void (*set)(Options& options, size_t word);
};
/// Given or not, without a value. Only hearth-profiler has these.
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
  Sources sources = Sources::kAll;  // of hearthd; hearth-profiler takes flags only
  Program program = Program::kHearthd;
  char letter = 0;  // hearth-profiler's one-letter name: 'm' for -m; 0: none
};

/// The options of a program, including those of both, in the order in which they are shown. kBoth: only those
/// of both.
std::span<const OptionSpec> option_table(Program program);
/// The option of this name, or null if the program has none.
const OptionSpec* find_option(Program program, std::string_view name);

/// "api-key-file" -> "HEARTH_API_KEY_FILE".
std::string environment_name(std::string_view option_name);

/// The values that the option takes, as half a sentence: "a whole number from 0 to 65535".
std::string expectation(const OptionSpec& spec);

/// The row's help, followed by the words that the option takes.
std::string help_text(const OptionSpec& spec);

/// Sets the option's field from text; a list is replaced by its values. Returns false, leaving the field as
/// it was, if a value is not what expectation() says.
bool assign(const OptionSpec& spec, const std::vector<std::string>& values, Options& options);

/// The field's value as text; a list joined by ", ". Secrets are given as "(set)".
std::string value_text(const OptionSpec& spec, const Options& options);

/// What hearthd does instead of serving.
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
