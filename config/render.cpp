// Three renderings of one table; see the header.
#include "config/render.h"

#include <string_view>

#include "config/option_table.h"
#include "config/wrapped_lines.h"

namespace hearth {
namespace {

constexpr size_t kColumns = 80;  // what a plain terminal shows

/// Words of text in lines of at most `width` columns, each line after `prefix`.
std::string wrapped(const std::string& text, const std::string& prefix, size_t width) {
  std::string out;
  for (const std::string& line : wrapped_lines(text, width)) out += prefix + line + "\n";
  return out;
}

std::string default_text(const OptionSpec& spec) {
  const std::string text = value_text(spec, Options{});
  return text.empty() ? "not given" : text;
}

std::string help_entry(const OptionSpec& spec) {
  const std::string indent(8, ' ');
  const bool is_flag = spec.sources != Sources::kEnvironmentOnly;
  const std::string environment = environment_name(spec.name);
  std::string out = is_flag
                        ? "  --" + std::string(spec.name) + " " + std::string(spec.value)
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

/// Calls on_group before the first option of each group, on_option for each.
template <typename OnGroup, typename OnOption>
void for_each_grouped(OnGroup on_group, OnOption on_option) {
  std::string_view group;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.group != group) on_group(group = spec.group);
    on_option(spec);
  }
}

constexpr std::string_view kPrecedence =
    "A flag wins over the environment, the environment over the file, the file over the default.";

}  // namespace

std::string render_help() {
  std::string out =
      "Usage: hearthd --model FILE [options]\n"
      "\n"
      "Serves a language model over an OpenAI-compatible HTTP API.\n";
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
      "Every option of `hearthd`. " +
      std::string(kPrecedence) +
      "\nUnknown flags and unknown keys of the file are refused by name; a bad value ends the start with one "
      "sentence "
      "that says\nwhere it came from, and exit code 2. A variable that is set but empty counts as absent; "
      "lists are "
      "separated by commas\nin a variable and written `[\"a\", \"b\"]` in the file. `config/hearth.toml` is "
      "a complete "
      "sample.\n\n"
      "This page is written by `hearthd --help-markdown`; a test keeps it in step.\n";
  for_each_grouped(
      [&out](std::string_view group) {
        out += "\n## " + std::string(group) +
               "\n\n| flag and key | environment | takes | default | |\n|---|---|---|---|---|\n";
      },
      [&out](const OptionSpec& spec) {
        const bool is_flag = spec.sources != Sources::kEnvironmentOnly;
        out += "| " + (is_flag ? "`--" + std::string(spec.name) + "`" : std::string("(environment only)"));
        out += " | `" + environment_name(spec.name) + "` | " + expectation(spec) + " | " +
               default_text(spec) + " | " + std::string(spec.help) + " |\n";
      });
  out += "\n## Instead of serving\n\n| flag | |\n|---|---|\n";
  for (const ActionSpec& spec : action_table()) {
    if (!spec.help.empty())
      out += "| `--" + std::string(spec.name) + "` | " + std::string(spec.help) + " |\n";
  }
  return out;
}

}  // namespace hearth
