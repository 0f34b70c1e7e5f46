// Renders the option table in three formats.
#include "config/render.h"

#include <string_view>

#include "config/option_table.h"
#include "config/wrapped_lines.h"

namespace hearth {
namespace {

constexpr size_t kColumns = 80;      // width of a plain terminal
constexpr size_t kBriefColumn = 26;  // where descriptions begin in the short help, after the indent

/// Wraps the text into lines that begin with `prefix`. `width`: columns for the text, without the prefix.
std::string wrapped(const std::string& text, const std::string& prefix, size_t width) {
  std::string out;
  for (const std::string& line : wrapped_lines(text, width)) out += prefix + line + "\n";
  return out;
}

std::string default_text(const OptionSpec& spec) {
  const std::string text = value_text(spec, Options{});
  return text.empty() ? "not given" : text;
}

/// Returns, for example, "-p, --port PORT".
std::string flag_words(const OptionSpec& spec) {
  const std::string words = "--" + std::string(spec.name) + " " + std::string(spec.value);
  return spec.letter == 0 ? words : std::string("-") + spec.letter + ", " + words;
}

/// Returns a line of the short help.
std::string brief_line(const std::string& words, std::string_view brief, const std::string& note = {}) {
  return "  " + words + std::string(words.size() < kBriefColumn ? kBriefColumn - words.size() : 1, ' ') +
         std::string(brief) + note + "\n";
}

std::string help_entry(const OptionSpec& spec) {
  const std::string indent(8, ' ');
  const bool is_flag = spec.sources != Sources::kEnvironmentOnly;
  const std::string environment = environment_name(spec.name);
  std::string out = is_flag
                        ? "  " + flag_words(spec)
                        : "  " + environment + "=" + std::string(spec.value) + " (no flag: it is a secret)";
  out += "\n" + wrapped(help_text(spec), indent, kColumns - indent.size());
  if (!is_flag) return out;
  return out + indent + "default: " + default_text(spec) + "   environment: " + environment + "\n";
}

std::string toml_value(const OptionSpec& spec) {
  if (std::holds_alternative<ListField>(spec.field)) return "[]";
  if (const IntField* f = std::get_if<IntField>(&spec.field); f != nullptr && f->zero.empty())
    return value_text(spec, Options{});
  return '"' + value_text(spec, Options{}) + '"';
}

/// Calls on_group before the first option of each group, and on_option for each option.
template <typename OnGroup, typename OnOption>
void for_each_grouped(OnGroup on_group, OnOption on_option) {
  std::string_view group;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.group != group) on_group(group = spec.group);
    on_option(spec);
  }
}

/// Returns, for example, "pull [MODEL]".
std::string usage_words(const CommandSpec& command) {
  std::string words(command.name);
  return command.arguments.empty() ? words : words + " " + std::string(command.arguments);
}

constexpr std::string_view kUsage =
    "Usage: hearthd FILE|NAME [options]\n"
    "       hearthd COMMAND [options]\n"
    "\n"
    "Serves a language model over an OpenAI-compatible HTTP API.\n";

constexpr std::string_view kPrecedence =
    "A flag wins over the environment, the environment over the file, the file over the default.";

}  // namespace

std::string render_short_help() {
  std::string out(kUsage);
  out += "\nCommands (hearthd COMMAND --help says more):\n";
  for (const CommandSpec& command : command_table()) {
    const std::string usage = usage_words(command);
    out += brief_line(usage.size() < kBriefColumn ? usage : std::string(command.name), command.brief);
  }
  out += "\nOptions:\n";
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.brief.empty()) continue;
    const std::string value = value_text(spec, Options{});
    const bool is_chosen = value.empty() || value == "0";  // by the model or the machine
    out += brief_line(flag_words(spec), spec.brief, is_chosen ? "" : " [" + value + "]");
  }
  return out + "\n  hearthd --help all        Show all options, and exit codes\n";
}

std::string render_help() {
  std::string out(kUsage);
  out += "\nCommands (hearthd COMMAND --help says more):\n";
  for (const CommandSpec& command : command_table())
    out += "  " + usage_words(command) + "\n" +
           wrapped(std::string(command.help), std::string(8, ' '), kColumns - 8);
  for_each_grouped([&out](std::string_view group) { out += "\n" + std::string(group) + ":\n"; },
                   [&out](const OptionSpec& spec) { out += help_entry(spec); });
  out += "\nInstead of serving:\n";
  for (const ActionSpec& spec : action_table()) {
    if (spec.help.empty()) continue;
    out += (spec.action == Action::kHelp ? "  -h, --" : "  --") + std::string(spec.name) + "\n";
    out += wrapped(std::string(spec.help), std::string(8, ' '), kColumns - 8);
  }
  out += "\n" + wrapped(std::string(kPrecedence), "", kColumns);
  return out + "Exit codes: 0 ended as asked, 1 failed while running, 2 could not start.\n";
}

std::string render_command_help(const CommandSpec& command) {
  const std::string indent(8, ' ');
  std::string out = "Usage: hearthd " + usage_words(command) + " [options]\n\n" +
                    wrapped(std::string(command.help), "", kColumns);
  if (!command.details.empty()) out += "\n" + wrapped(std::string(command.details), "", kColumns);
  out += "\nOptions:\n";
  for (const CommandOption& option : command.own) {
    out += "  --" + std::string(option.name) + (option.value.empty() ? "" : " ") + std::string(option.value) +
           "\n";
    out += wrapped(std::string(option.help), indent, kColumns - indent.size());
  }
  for (const std::string_view name : command.shared) out += help_entry(*find_option(Program::kHearthd, name));
  out += "  -h, --help\n" + indent + "Show this help and exit.\n\nExamples:\n";
  for (const std::string_view example : command.examples) out += "  " + std::string(example) + "\n";
  return out + "\nExit codes: 0 done, 1 failed, 2 refused, 128 + N ended by signal N.\n";
}

std::string render_sample_toml() {
  std::string out =
      "# Every option of hearthd, each at its default. Use it with: hearthd --config hearth.toml\n"
      "# Remove the '#' of a line to change it. " +
      std::string(kPrecedence) +
      "\n"
      "# Unknown keys are refused. Written by: hearthd --help-toml\n";
  for_each_grouped([&out](std::string_view group) { out += "\n# ---- " + std::string(group) + " ----\n"; },
                   [&out](const OptionSpec& spec) {
                     if (spec.sources != Sources::kAll) return;
                     out += '\n';
                     out += wrapped(help_text(spec), "# ", kColumns - 2);
                     out.append("#").append(spec.name).append(" = ").append(toml_value(spec)).append("\n");
                   });
  return out;
}

std::string render_markdown() {
  std::string out =
      "# Configuration\n"
      "\n"
      "This page, which `hearthd --help-markdown` prints, lists every option of `hearthd`.\n" +
      std::string(kPrecedence) +
      "\n"
      "Unknown flags and keys of the file are refused. If a value is bad, `hearthd` ends with exit code 2\n"
      "and a sentence that names its source. An empty variable counts as absent. In a variable, commas\n"
      "separate the items of a list; in the file, a list is written `[\"a\", \"b\"]`. `config/hearth.toml`\n"
      "is a complete sample.\n";
  for_each_grouped(
      [&out](std::string_view group) {
        out += "\n## " + std::string(group) + "\n\n| option | takes | default | |\n|---|---|---|---|\n";
      },
      [&out](const OptionSpec& spec) {
        const bool is_flag = spec.sources != Sources::kEnvironmentOnly;
        const std::string environment = "`" + environment_name(spec.name) + "`";
        out +=
            "| " + (is_flag ? "`--" + std::string(spec.name) + "`<br>" + environment : environment + " only");
        out +=
            " | " + expectation(spec) + " | " + default_text(spec) + " | " + std::string(spec.help) + " |\n";
      });
  out += "\n## Instead of serving\n\n| flag | |\n|---|---|\n";
  for (const ActionSpec& spec : action_table()) {
    if (!spec.help.empty())
      out += "| `--" + std::string(spec.name) + "` | " + std::string(spec.help) + " |\n";
  }
  const auto cell = [](const std::string& text) {  // escapes bars, which would end the cell
    std::string escaped;
    for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
    return escaped;
  };
  out +=
      "\n## Commands\n\n`hearthd COMMAND --help` says more. Options that the server has too may also come\n"
      "from the environment and the file.\n\n| command | |\n|---|---|\n";
  for (const CommandSpec& command : command_table()) {
    out += "| `hearthd " + cell(usage_words(command)) + "` | " + cell(std::string(command.help)) + " |\n";
    for (const CommandOption& option : command.own) {
      out += "| `--" + std::string(option.name) + (option.value.empty() ? "" : " ") +
             std::string(option.value) + "` | " + std::string(option.help) + " |\n";
    }
  }
  return out;
}

}  // namespace hearth
