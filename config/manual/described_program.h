// Describes a program for its manual page and its shell completions: names, values and sentences, without the
// fields that options set. The description of hearthd is made from the option table and that of
// hearth-profiler from its CLI11 commands (profiler/commands/described_profiler.h), so there is no second
// list of options.
//
// A program makes its description once, when it is asked for one of these texts. Plain values.
#pragma once

#include <string>
#include <vector>

namespace hearth {

struct DescribedOption {
  std::string name;                // "model": the flag without its dashes; empty: only a variable sets it
  char letter = 0;                 // 'm' for -m; 0: none
  std::string value;               // what the help calls its value: "FILE"; empty: it takes none
  std::string help;                // sentences, without the default
  std::string default_value;       // empty: none is shown
  std::string environment;         // "HEARTH_MODEL"; empty: it is a flag only
  std::vector<std::string> words;  // all values it takes, if they are words; otherwise empty
  bool repeats = false;            // each time adds a value
};

struct DescribedGroup {
  std::string heading;
  std::vector<DescribedOption> options;
};

/// A subcommand.
struct DescribedCommand {
  std::string name;
  std::string arguments;  // as the synopsis shows them: "FILE [--json]"; empty: its options alone
  std::string help;       // sentences; an empty line separates paragraphs
  std::vector<DescribedGroup> groups;
};

/// A section of the manual page that is not about an option: signals, files, exit codes.
struct DescribedSection {
  struct Entry {
    std::string term, text;  // with an empty term, the text is a paragraph
  };
  std::string heading;
  std::vector<Entry> entries;
};

struct DescribedProgram {
  std::string name;                // "hearthd"
  std::string purpose;             // one line without a period, which apropos shows
  std::vector<std::string> usage;  // forms of the command line without the program's name, one line each
  std::string description;         // sentences; an empty line separates paragraphs
  std::vector<DescribedGroup> groups;
  std::vector<DescribedCommand> commands;
  std::vector<DescribedSection> sections;
};

/// Describes hearthd from option_table(), action_table() and command_table().
DescribedProgram describe_hearthd();

/// Whether a value is a path, judged by its name in the help: "FILE" and "[FILE]" are files, "DIR" is a
/// folder, other names are neither.
bool names_file(const std::string& value);
bool names_folder(const std::string& value);

}  // namespace hearth
