// A program as its manual page and its shells' completions need it: names, values and sentences, without the fields that
// options set. hearthd is described from the option table, hearth-profiler from its CLI11 commands
// (profiler/commands/described_profiler.h), so there is no second list of options.
//
// Made once by a program that was asked for one of these texts; plain values.
#pragma once

#include <string>
#include <vector>

namespace hearth {

struct DescribedOption {
  std::string name;                // "model": the flag without its dashes; empty: there is only the variable
  char letter = 0;                 // 'm' for -m; 0: none
  std::string value;               // what the help calls its value: "FILE"; empty: it takes none
  std::string help;                // sentences, without the default
  std::string default_value;       // empty: none is shown
  std::string environment;         // "HEARTH_MODEL"; empty: it is a flag only
  std::vector<std::string> words;  // all values it takes; empty: others than these, or none
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
  std::string help;       // sentences; an empty line parts paragraphs
  std::vector<DescribedGroup> groups;
};

/// A section of the manual page that follows from no option: signals, files, exit codes.
struct DescribedSection {
  struct Entry {
    std::string term, text;  // an empty term: a paragraph
  };
  std::string heading;
  std::vector<Entry> entries;
};

struct DescribedProgram {
  std::string name;                // "hearthd"
  std::string purpose;             // one line without a full stop: what apropos shows
  std::vector<std::string> usage;  // what may follow the name, one line each
  std::string description;         // sentences; an empty line parts paragraphs
  std::vector<DescribedGroup> groups;
  std::vector<DescribedCommand> commands;
  std::vector<DescribedSection> sections;
};

/// hearthd, from option_table(), action_table() and command_table().
DescribedProgram describe_hearthd();

/// What follows the value's name: "FILE" and "[FILE]" are files, "DIR" is a folder, others are neither.
bool names_file(const std::string& value);
bool names_folder(const std::string& value);

}  // namespace hearth
