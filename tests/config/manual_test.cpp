// Manual pages and completions made from descriptions: nothing is missing, and no text becomes an
// instruction.
#include <sstream>
#include <string>

#include "config/command_table.h"
#include "config/manual/completion.h"
#include "config/manual/described_program.h"
#include "config/manual/manual_page.h"
#include "config/option_table.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

/// A name as manual pages print it, with dashes that can be copied.
std::string in_roff(std::string_view name) {
  std::string out;
  for (const char c : name) out += c == '-' ? std::string("\\-") : std::string(1, c);
  return out;
}

/// A program with subcommands, and with texts that shells and roff could misinterpret.
DescribedProgram hostile_program() {
  DescribedOption file;
  file.name = "input";
  file.letter = 'i';
  file.value = "FILE";
  file.help =
      ".so /etc/passwd is no instruction.\n'tis a quote; [brackets], a \\ and a: colon. More follows.";
  DescribedOption word;
  word.name = "mode";
  word.value = "MODE";
  word.help = "How it's done.";
  word.words = {"fast", "slow"};
  word.default_value = "fast";
  DescribedOption flag;
  flag.name = "dry-run";
  flag.help = "Do nothing";
  const DescribedGroup group{.heading = "Ways", .options = {file, word}};
  return {
      .name = "some-tool",
      .purpose = "do things",
      .usage = {"COMMAND"},
      .description = "First.\n\nSecond.\n  a: b\n  c: d",
      .groups = {{.heading = "", .options = {flag}}},
      .commands = {{.name = "show", .arguments = "FILE", .help = "Show it. At length.", .groups = {group}},
                   {.name = "list", .arguments = "", .help = "List all.", .groups = {}}},
      .sections = {{"See also", {{"", "nothing(1)"}}}}};
}

}  // namespace

TEST_CASE("hearthd's manual page and completions have every option and action that --help has") {
  const DescribedProgram program = describe_hearthd();
  const std::string page = render_manual(program), bash = render_completion(program, Shell::kBash),
                    zsh = render_completion(program, Shell::kZsh),
                    fish = render_completion(program, Shell::kFish);
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    const std::string name(spec.name);
    INFO(name);
    CHECK_THAT(page, ContainsSubstring(environment_name(name)));
    const bool is_flag = spec.sources != Sources::kEnvironmentOnly;
    CHECK((page.find("\\fB" + in_roff("--" + name) + "\\fR") != std::string::npos) == is_flag);
    CHECK((bash.find("--" + name + " ") != std::string::npos) == is_flag);
    CHECK((zsh.find("--" + name + "=[") != std::string::npos) == is_flag);
    CHECK((fish.find(" -l " + name + " ") != std::string::npos) == is_flag);
  }
  for (const ActionSpec& spec : action_table()) {
    const std::string name(spec.name);
    INFO(name);
    CHECK((page.find("\\fB" + in_roff("--" + name) + "\\fR") != std::string::npos) == !spec.help.empty());
    CHECK((fish.find(" -l " + name + " ") != std::string::npos) == !spec.help.empty());
  }
}

TEST_CASE("hearthd's manual page and completions have every command and its options") {
  const DescribedProgram program = describe_hearthd();
  const std::string page = render_manual(program), fish = render_completion(program, Shell::kFish);
  for (const CommandSpec& spec : command_table()) {
    INFO(spec.name);
    CHECK_THAT(page, ContainsSubstring(".SS \"hearthd " + std::string(spec.name) + "\"\n"));
    const std::string seen = "'__fish_seen_subcommand_from " + std::string(spec.name) + "' ";
    for (const CommandOption& option : spec.own)
      CHECK_THAT(fish, ContainsSubstring(seen + "-l " + std::string(option.name) + " "));
    for (const std::string_view name : spec.shared) {
      const char letter = find_option(Program::kHearthd, name)->letter;
      const std::string short_flag = letter == 0 ? "" : std::string("-s ") + letter + " ";
      CHECK_THAT(fish, ContainsSubstring(seen + short_flag + "-l " + std::string(name) + " "));
    }
  }
}

TEST_CASE("hearth.toml(5) describes every key of the file, and no others") {
  const std::string page = render_file_manual();
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    INFO(spec.name);
    CHECK((page.find("\\fB" + in_roff(spec.name) + "\\fR = ") != std::string::npos) ==
          (spec.sources == Sources::kAll));
  }
}

TEST_CASE("no text of a manual page is taken for a troff instruction") {
  std::istringstream page(render_manual(hostile_program()));
  for (std::string line; std::getline(page, line);) {
    INFO(line);
    CHECK(line.find("/etc/passwd") != 0);
    if (line[0] == '.') CHECK((line[1] == '\\' || line.find("so ") != 1));
    CHECK(line[0] != '\'');
  }
  const std::string text = render_manual(hostile_program());
  CHECK_THAT(text, ContainsSubstring("\\&.so /etc/passwd"));
  CHECK_THAT(text, ContainsSubstring("\\&\\(aqtis"));
  CHECK_THAT(text, ContainsSubstring("a \\(rs and"));
  CHECK_THAT(text, ContainsSubstring("First.\n.PP\nSecond.\n.br\na: b\n.br\nc: d\n"));
  CHECK_THAT(text, ContainsSubstring("Takes \\fBfast\\fR, \\fBslow\\fR.\nDefault: fast.\n"));
  CHECK_THAT(text, ContainsSubstring(".SH COMMANDS\n.SS \"some\\-tool show\"\n"));
}

TEST_CASE("a table of subcommands is offered first, then what each takes") {
  const std::string bash = render_completion(hostile_program(), Shell::kBash);
  CHECK_THAT(bash, ContainsSubstring("show | list) command=\"$word\""));
  CHECK_THAT(bash, ContainsSubstring("offer='show list --dry-run'"));
  CHECK_THAT(bash, ContainsSubstring("--input | -i) kind=file"));
  CHECK_THAT(bash, ContainsSubstring("--mode) offer='fast slow'"));
  const std::string zsh = render_completion(hostile_program(), Shell::kZsh);
  CHECK(zsh.starts_with("#compdef some-tool\n"));
  CHECK_THAT(zsh, ContainsSubstring("'show:Show it'"));
  CHECK_THAT(zsh, ContainsSubstring("--mode=[How it'\\''s done]:MODE:(fast slow)"));
  CHECK_THAT(zsh, ContainsSubstring("'*:file:_files'"));
  const std::string fish = render_completion(hostile_program(), Shell::kFish);
  CHECK_THAT(fish, ContainsSubstring("-a show -d 'Show it'"));
  CHECK_THAT(fish, ContainsSubstring("-l mode -x -a 'fast slow' -d 'How it\\'s done'"));
}
