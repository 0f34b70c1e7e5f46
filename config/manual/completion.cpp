// Generates the scripts for three shells from one description.
#include "config/manual/completion.h"

#include <algorithm>
#include <string_view>

namespace hearth {
namespace {

/// Returns the options that have a flag.
std::vector<DescribedOption> flags_of(const std::vector<DescribedGroup>& groups) {
  std::vector<DescribedOption> flags;
  for (const DescribedGroup& group : groups) {
    for (const DescribedOption& option : group.options) {
      if (!option.name.empty()) flags.push_back(option);
    }
  }
  return flags;
}

/// Returns the first sentence without its period, for display beside a name.
std::string brief(const std::string& help) {
  size_t end = std::min(help.find('\n'), help.size());
  for (size_t dot = help.find(". "); dot < end; dot = help.find(". ", dot + 1)) {
    if (dot >= 3 && help.compare(dot - 3, 3, "e.g") != 0) end = dot;
  }
  std::string text = help.substr(0, end);
  if (!text.empty() && (text.back() == '.' || text.back() == ':')) text.pop_back();
  return text;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(between)) + word;
  return text;
}

/// Returns the text in single quotes, escaped for bash and zsh.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string identifier(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<std::string> spellings(const DescribedOption& option) {
  std::vector<std::string> names = {"--" + option.name};
  if (option.letter != 0) names.push_back(std::string("-") + option.letter);
  return names;
}

// ---- bash ----

/// Generates the `case` branch of one command. After an option that takes a value, the branch completes this
/// value. Everywhere else, it completes flags and words.
std::string bash_case(const std::string& command, const std::vector<DescribedOption>& options,
                      const std::vector<std::string>& words, const std::string& arguments) {
  std::string out = "    " + (command.empty() ? "''" : command) + ")\n      case \"$prev\" in\n";
  std::vector<std::string> files, folders, free_text, all = words;
  for (const DescribedOption& option : options) {
    for (const std::string& name : spellings(option)) {
      all.push_back(name);
      if (option.value.empty()) continue;
      if (!option.words.empty()) {
        out += "        " + name + ") offer=" + quoted(joined(option.words, " ")) + " ;;\n";
      } else {
        (names_file(option.value) ? files : names_folder(option.value) ? folders : free_text).push_back(name);
      }
    }
  }
  if (!files.empty()) out += "        " + joined(files, " | ") + ") kind=file ;;\n";
  if (!folders.empty()) out += "        " + joined(folders, " | ") + ") kind=directory ;;\n";
  if (!free_text.empty()) out += "        " + joined(free_text, " | ") + ") return ;;\n";
  out += "        *)\n          offer=" + quoted(joined(all, " ")) + "\n";
  if (names_file(arguments)) out += "          [[ $cur == -* ]] || kind=file\n";
  if (names_folder(arguments)) out += "          [[ $cur == -* ]] || kind=directory\n";
  return out + "          ;;\n      esac\n      ;;\n";
}

std::string bash_completion(const DescribedProgram& program) {
  std::vector<std::string> names;
  for (const DescribedCommand& command : program.commands) names.push_back(command.name);
  const std::string function = "_" + identifier(program.name);
  std::string out = function +
                    "() {\n"
                    "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD - 1]}\"\n"
                    "  local command='' offer='' kind='' word\n"
                    "  # bash takes --flag=value for three words.\n"
                    "  if [[ $cur == = ]]; then\n"
                    "    cur=''\n"
                    "  elif [[ $prev == = ]]; then\n"
                    "    prev=\"${COMP_WORDS[COMP_CWORD - 2]}\"\n"
                    "  fi\n";
  if (!names.empty()) {
    out += "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD - 1}\"; do\n    case \"$word\" in\n      " +
           joined(names, " | ") + ") command=\"$word\"; break ;;\n    esac\n  done\n";
  }
  out += "  case \"$command\" in\n" + bash_case("", flags_of(program.groups), names, "");
  for (const DescribedCommand& command : program.commands)
    out += bash_case(command.name, flags_of(command.groups), {}, command.arguments);
  return out +
         "  esac\n"
         "  COMPREPLY=()\n"
         "  if [[ -n $kind ]]; then\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    mapfile -t COMPREPLY < <(compgen -A \"$kind\" -- \"$cur\")\n"
         "  else\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$offer\" -- \"$cur\")\n"
         "  fi\n"
         "}\n"
         "complete -F " +
         function + " " + program.name + "\n";
}

// ---- zsh ----

/// Returns the first sentence of the help, escaped so that it can be written between the brackets of zsh's
/// option specification, "--flag[description]".
std::string zsh_description(const std::string& help) {
  std::string out;
  for (const char c : brief(help)) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const DescribedOption& option) {
  if (!option.words.empty()) return "(" + joined(option.words, " ") + ")";
  return names_file(option.value) ? "_files" : names_folder(option.value) ? "_files -/" : "";
}

std::string zsh_options(const std::vector<DescribedOption>& options, const std::string& indent) {
  std::string out;
  for (const DescribedOption& option : options) {
    std::string value = option.value;
    std::erase_if(value, [](char c) { return c == ':' || c == '[' || c == ']'; });
    const std::string rest = "[" + zsh_description(option.help) + "]" +
                             (option.value.empty() ? std::string() : ":" + value + ":" + zsh_action(option));
    const std::vector<std::string> names = spellings(option);
    for (const std::string& name : names) {
      const std::string before = option.repeats     ? "*"
                                 : names.size() > 1 ? "(" + joined(names, " ") + ")"
                                                    : "";
      const std::string equals = !option.value.empty() && name.size() > 2 ? "=" : "";
      out += " \\\n" + indent + quoted(before + name + equals + rest);
    }
  }
  return out;
}

std::string zsh_completion(const DescribedProgram& program) {
  const std::string function = "_" + identifier(program.name);
  std::string out = function + "() {\n";
  if (program.commands.empty()) {
    return "#compdef " + program.name + "\n" + out + "  _arguments -S" +
           zsh_options(flags_of(program.groups), "    ") + "\n}\n" + function + " \"$@\"\n";
  }
  out += "  local state line\n  _arguments -S -C" + zsh_options(flags_of(program.groups), "    ") +
         " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n"
         "  case $state in\n    command)\n      local -a commands=(\n";
  for (const DescribedCommand& command : program.commands)
    out += "        " + quoted(command.name + ":" + brief(command.help)) + "\n";
  out +=
      "      )\n      _describe -t commands command commands\n      ;;\n    argument)\n      case $line[1] "
      "in\n";
  for (const DescribedCommand& command : program.commands) {
    out += "        " + command.name + ")\n          _arguments -S" +
           zsh_options(flags_of(command.groups), "            ");
    if (names_file(command.arguments)) out += " \\\n            '*:file:_files'";
    if (names_folder(command.arguments)) out += " \\\n            '*:folder:_files -/'";
    out += "\n          ;;\n";
  }
  return "#compdef " + program.name + "\n" + out + "      esac\n      ;;\n  esac\n}\n" + function +
         " \"$@\"\n";
}

// ---- fish ----

/// Returns the text in single quotes, escaped for fish.
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish_options(const std::string& begin, const std::vector<DescribedOption>& options) {
  std::string out;
  for (const DescribedOption& option : options) {
    out += begin;
    if (option.letter != 0) out += std::string(" -s ") + option.letter;
    out += " -l " + option.name;
    if (!option.words.empty()) {
      out += " -x -a " + fish_quoted(joined(option.words, " "));
    } else if (names_file(option.value)) {
      out += " -r -F";
    } else if (names_folder(option.value)) {
      out += " -x -a '(__fish_complete_directories)'";
    } else if (!option.value.empty()) {
      out += " -x";
    }
    out += " -d " + fish_quoted(brief(option.help)) + "\n";
  }
  return out;
}

std::string fish_completion(const DescribedProgram& program) {
  const std::string complete = "complete -c " + program.name;
  std::string out = complete + " -f\n";  // offers files only where an option or a command takes one
  if (program.commands.empty()) return out + fish_options(complete, flags_of(program.groups));
  std::vector<std::string> names;
  for (const DescribedCommand& command : program.commands) names.push_back(command.name);
  // Offer the program's own flags until a subcommand has been typed. The function __fish_use_subcommand is
  // not suitable, because it mistakes a flag's value for a subcommand.
  out +=
      fish_options(complete + " -n " + fish_quoted("not __fish_seen_subcommand_from " + joined(names, " ")),
                   flags_of(program.groups));
  for (const DescribedCommand& command : program.commands) {
    out += complete + " -n __fish_use_subcommand -a " + command.name + " -d " +
           fish_quoted(brief(command.help)) + "\n";
  }
  for (const DescribedCommand& command : program.commands) {
    const std::string seen = complete + " -n " + fish_quoted("__fish_seen_subcommand_from " + command.name);
    if (names_file(command.arguments) || names_folder(command.arguments)) out += seen + " -F\n";
    out += fish_options(seen, flags_of(command.groups));
  }
  return out;
}

}  // namespace

std::string render_completion(const DescribedProgram& program, Shell shell) {
  const std::string origin = "# Completion of " + program.name + ", written by the program itself.\n";
  switch (shell) {
    case Shell::kBash:
      return origin + bash_completion(program);
    case Shell::kZsh: {
      const std::string script = zsh_completion(program);  // zsh requires #compdef in the first line
      const size_t line = script.find('\n') + 1;
      return script.substr(0, line) + origin + script.substr(line);
    }
    case Shell::kFish:
      return origin + fish_completion(program);
  }
  return origin;
}

}  // namespace hearth
