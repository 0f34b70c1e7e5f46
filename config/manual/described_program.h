// Describes a program for its manual page and its shell completions: names, values and help texts. The
// description of hearthd is built from the option table. The description of hearth-profiler is built from its
// CLI11 commands (profiler/commands/described_profiler.h). This avoids a second list of options.
//
// A program builds its description once, when the user requests a manual page or a completion script. Plain
// values.
#pragma once

#include <string>
#include <vector>

namespace hearth {

struct DescribedOption {
  std::string name;           // "model": the flag without its dashes; empty: only an environment variable
  char letter = 0;            // 'm' for -m; 0 if there is none
  std::string value;          // name of the value in the help: "FILE"; empty if the option takes no value
  std::string help;           // sentences, without the default
  std::string default_value;  // empty if the help shows no default
  std::string environment;    // "HEARTH_MODEL"; empty if the option is only a flag
  std::vector<std::string> words;  // all values that the option accepts if they are words, otherwise empty
  bool repeats = false;            // whether each occurrence adds a value
};

struct DescribedGroup {
  std::string heading;
  std::vector<DescribedOption> options;
};

/// A subcommand.
struct DescribedCommand {
  std::string name;
  std::string arguments;  // arguments in the synopsis: "FILE [--json]"; empty if there are only options
  std::string help;       // sentences; an empty line separates paragraphs
  std::vector<DescribedGroup> groups;
};

/// A section of the manual page that is not about an option, such as signals, files or exit codes.
struct DescribedSection {
  struct Entry {
    std::string term, text;  // if `term` is empty, `text` is a paragraph
  };
  std::string heading;
  std::vector<Entry> entries;
};

struct DescribedProgram {
  std::string name;                // "hearthd"
  std::string purpose;             // one line without a period, displayed by apropos
  std::vector<std::string> usage;  // forms of the command line, without the program's name
  std::string description;         // sentences; an empty line separates paragraphs
  std::vector<DescribedGroup> groups;
  std::vector<DescribedCommand> commands;
  std::vector<DescribedSection> sections;
};

/// Describes hearthd from option_table(), action_table() and command_table().
DescribedProgram describe_hearthd();

/// Return whether the value of an option or argument is a file or a folder. value: the value's name in the
/// help, which contains FILE for a file, and DIR or FOLDER for a folder.
bool names_file(const std::string& value);
bool names_folder(const std::string& value);

}  // namespace hearth
