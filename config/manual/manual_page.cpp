// Writes the roff source of the manual pages. All texts pass through escaped(), because roff may read '.' or
// '\' as an instruction.
#include "config/manual/manual_page.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "config/option_table.h"
#include "config/version.h"

namespace hearth {
namespace {

/// Escapes the text so that roff prints each character literally. '-' becomes the minus sign, which can be
/// copied into a shell.
std::string escaped(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    switch (c) {
      case '\\':
        out += "\\(rs";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '"':
        out += "\\(dq";
        break;  // unescaped, it would end a macro's argument
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '`':
        out += "\\(ga";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string heading(std::string_view macro, std::string_view text) {
  return "." + std::string(macro) + " \"" + escaped(text) + "\"\n";
}

/// Formats text whose paragraphs are separated by empty lines. A line that begins with a space remains a
/// separate line, as in a table.
std::string paragraphs(const std::string& text, std::string_view macro) {
  std::string out;
  bool parted = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) {
      parted = true;
      continue;
    }
    if (parted) out += std::string(macro) + "\n";
    if (line.front() == ' ' && !parted && !out.empty()) out += ".br\n";
    parted = false;
    const size_t first = std::min(line.find_first_not_of(' '), line.size());
    out += escaped(std::string_view(line).substr(first)) + "\n";
  }
  return out;
}

std::string option_entry(const DescribedOption& option) {
  std::string out = ".TP\n";
  if (option.name.empty()) {
    out += bold(option.environment) + "=" + italic(option.value) + "\n";
    return out + paragraphs(option.help, ".IP") + "It is not a flag, because every user can read flags.\n";
  }
  if (option.letter != 0) out += bold(std::string("-") + option.letter) + ", ";
  out += bold("--" + option.name);
  if (!option.value.empty()) out += " " + italic(option.value);
  out += "\n" + paragraphs(option.help, ".IP");
  if (!option.words.empty() && option.help.find("Takes one of") == std::string::npos) {
    out += "Takes";
    for (const std::string& word : option.words)
      out += (&word == &option.words.front() ? " " : ", ") + bold(word);
    out += ".\n";
  }
  if (!option.default_value.empty()) out += "Default: " + escaped(option.default_value) + ".\n";
  if (!option.environment.empty()) out += "Environment: " + bold(option.environment) + ".\n";
  return out;
}

std::string title(const std::string& name, int section, const std::string& purpose) {
  std::string out = ".TH \"" + escaped(upper(name)) + "\" " + std::to_string(section) + " \"\" \"hearth " +
                    escaped(hearth_version()) + "\" \"Hearth\"\n";
  out += ".\\\" Written by the program from its table of options.\n";
  out += ".nh\n.ad l\n";  // keeps option names from being hyphenated
  return out + ".SH NAME\n" + escaped(name) + " \\- " + escaped(purpose) + "\n";
}

std::string command_entry(const std::string& program, const DescribedCommand& command) {
  std::string out = heading("SS", program + " " + command.name);
  if (!command.arguments.empty())
    out += bold(program + " " + command.name) + " " + italic(command.arguments) + "\n.PP\n";
  out += paragraphs(command.help, ".PP");
  for (const DescribedGroup& group : command.groups) {
    for (const DescribedOption& option : group.options) out += option_entry(option);
  }
  return out;
}

std::string sections_text(const std::vector<DescribedSection>& sections) {
  std::string out;
  for (const DescribedSection& section : sections) {
    out += heading("SH", upper(section.heading));
    for (const DescribedSection::Entry& entry : section.entries) {
      if (!entry.term.empty()) out += ".TP\n" + bold(entry.term) + "\n";
      out += paragraphs(entry.text, entry.term.empty() ? ".PP" : ".IP");
    }
  }
  return out;
}

std::string key_entry(const OptionSpec& spec) {
  std::string value = value_text(spec, Options{});
  const bool is_number = std::holds_alternative<IntField>(spec.field) &&
                         value.find_first_not_of("0123456789") == std::string::npos;
  if (std::holds_alternative<ListField>(spec.field)) {
    value = "[]";
  } else if (!is_number) {
    value = '"' + value + '"';
  }
  std::string out = ".TP\n" + bold(spec.name) + " = " + escaped(value) + "\n";
  return out + paragraphs(help_text(spec), ".IP");
}

}  // namespace

std::string render_manual(const DescribedProgram& program) {
  std::string out = title(program.name, 1, program.purpose);
  out += ".SH SYNOPSIS\n";
  for (const std::string& line : program.usage)
    out += (&line == &program.usage.front() ? "" : ".br\n") + bold(program.name) + " " + escaped(line) + "\n";
  out += ".SH DESCRIPTION\n" + paragraphs(program.description, ".PP");
  if (!program.commands.empty()) out += ".SH COMMANDS\n";
  for (const DescribedCommand& command : program.commands) out += command_entry(program.name, command);
  if (!program.groups.empty()) out += ".SH OPTIONS\n";
  for (const DescribedGroup& group : program.groups) {
    if (!group.heading.empty()) out += heading("SS", group.heading);
    for (const DescribedOption& option : group.options) out += option_entry(option);
  }
  return out + sections_text(program.sections);
}

std::string render_file_manual() {
  std::string out = title("hearth.toml", 5, "configuration of hearthd");
  out += ".SH DESCRIPTION\n" +
         paragraphs(
             "A TOML file of 'key = value' lines for hearthd --config. A key is a flag's name without its "
             "dashes. "
             "Values of lists are written [\"a\", \"b\"]. Text after # is a comment. Unknown keys are "
             "refused.\n\n"
             "A flag wins over the environment, the environment over the file, the file over the default. "
             "Each key is shown with its default; an empty text means that it is not given.\n\n"
             "The service hearthd.service reads /etc/hearth/hearth.toml. After a change, hearthd "
             "--check-config --config FILE says what would be served, and systemctl restart hearthd takes "
             "it. systemctl reload takes model and log-level only.",
             ".PP");
  out += ".SH KEYS\n";
  std::string_view group;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.sources != Sources::kAll) continue;
    if (spec.group != group) out += heading("SS", group = spec.group);
    out += key_entry(spec);
  }
  out += ".SH EXAMPLE\n.nf\n" +
         escaped(
             "model = \"/srv/models/model.gguf\"\nhost = \"0.0.0.0\"\napi-key-file = "
             "\"/etc/hearth/keys\"\nslots = 8\n") +
         ".fi\n";
  return out + sections_text({{"See also", {{"", "hearthd(1), /usr/share/doc/hearth"}}}});
}

}  // namespace hearth
