// Command lines of hearthd's commands, and the table that they come from.
#include "config/command_invocation.h"

#include <sstream>

#include "config/option_table.h"
#include "config/render.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

std::string command_refusal(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  try {
    read_command(arguments, environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("commands: the table names shared options that hearthd has, and help fits a terminal") {
  for (const CommandSpec& command : command_table()) {
    INFO(command.name);
    CHECK(find_command(command.name) == &command);
    for (const std::string_view name : command.shared) CHECK(find_option(Program::kHearthd, name) != nullptr);
    for (const CommandOption& option : command.own)
      CHECK(find_option(Program::kHearthd, option.name) == nullptr);  // it would have two meanings
    CHECK(!command.examples.empty());
    std::istringstream lines(render_command_help(command));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.size() <= 80);
    }
  }
  CHECK(find_command("serve") == nullptr);
}

TEST_CASE("commands: the first word is a command if the table has it") {
  CHECK(is_command({"pull"}));
  CHECK_FALSE(is_command({"model.gguf"}));
  CHECK_FALSE(is_command({"--help", "pull"}));
  CHECK_FALSE(is_command({}));
  CHECK_FALSE(is_command({""}));
}

TEST_CASE("commands: arguments, flags and shared options in any order") {
  const CommandInvocation read =
      read_command({"pull", "--sha256=ab", "hf:a/b", "--models", "/m", "--retries", "3"},
                   {{"HEARTH_ENDPOINT", "https://e"}});
  CHECK(read.command->name == "pull");
  CHECK(read.arguments == std::vector<std::string>{"hf:a/b"});
  CHECK(read.value("sha256") == "ab");
  CHECK(read.number("retries", 8, 0, 100) == 3);
  CHECK(read_command({"pull", "x"}, {}).number("retries", 8, 0, 100) == 8);
  CHECK_FALSE(read.has("any-architecture"));
  CHECK(read.options.models == "/m");
  CHECK(read.options.endpoint == "https://e");
  CHECK(read_command({"pull", "--models", "a", "--models", "b"}, {{"HEARTH_MODELS", "c"}}).options.models ==
        "b");
  CHECK(read_command({"list"}, {{"HEARTH_MODELS", "c"}}).options.models == "c");
  CHECK(read_command({"rm", "--", "-x"}, {}).arguments == std::vector<std::string>{"-x"});
  CHECK(read_command({"rm", "--help"}, {}).help);
}

TEST_CASE("commands: a mistake is reported in one sentence") {
  CHECK_THAT(command_refusal({"rm"}), ContainsSubstring("needs NAME"));
  CHECK_THAT(command_refusal({"list", "x"}), ContainsSubstring("unexpected argument 'x'"));
  CHECK_THAT(command_refusal({"pull", "--retrie", "2"}), ContainsSubstring("did you mean --retries"));
  CHECK_THAT(command_refusal({"pull", "x", "--sha256"}), ContainsSubstring("needs a value"));
  CHECK_THAT(command_refusal({"pull", "x", "--port", "1"}), ContainsSubstring("unknown flag '--port'"));
  CHECK_THAT(command_refusal({"pull", ""}), ContainsSubstring("empty"));
  CHECK_THAT(command_refusal({"show", "x", "--slots", "none"}), ContainsSubstring("--slots 'none'"));
  const CommandInvocation read = read_command({"pull", "x", "--retries", "101"}, {});
  CHECK_THROWS_AS(read.number("retries", 8, 0, 100), ConfigError);
}

TEST_CASE("commands: a superfluous or missing value is refused") {
  CHECK_THAT(command_refusal({"list", "--json=maybe"}), ContainsSubstring("--json takes no value"));
  CHECK_THAT(command_refusal({"list", "--json=false"}), ContainsSubstring("--json takes no value"));
  CHECK_THAT(command_refusal({"pull", "--retries", "--sha256", "ab", "x"}),
             ContainsSubstring("--retries needs a value, and --sha256 follows"));
  CHECK_THAT(command_refusal({"pull", "--models", "--sha256=ab", "x"}),
             ContainsSubstring("--models needs a value, and --sha256=ab follows"));
}
