// The texts made from the option table, and the two committed files that must match it.
#include "config/render.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/invocation.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

std::string read(const std::string& path) {
  std::ifstream in(hearth::testing::source_dir() + "/" + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the text of --help all shows every option within 80 columns") {
  const std::string help = render_help();
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    CHECK_THAT(help, ContainsSubstring(environment_name(spec.name)));
    if (spec.sources != Sources::kEnvironmentOnly) {
      const std::string letter = spec.letter == 0 ? "" : std::string("-") + spec.letter + ", ";
      CHECK_THAT(help, ContainsSubstring("\n  " + letter + "--" + std::string(spec.name) + " "));
    }
  }
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
}

TEST_CASE("the text of --help is a screen of 25 lines") {
  std::istringstream lines(render_short_help());
  int n_lines = 0;
  for (std::string line; std::getline(lines, line); ++n_lines) {
    INFO(line);
    CHECK(line.size() <= 80);
  }
  CHECK(n_lines <= 25);
}

TEST_CASE("config/hearth.toml matches the table: run tests/regenerate.sh") {
  CHECK(read("config/hearth.toml") == render_sample_toml());
}

TEST_CASE("docs/configuration.md matches the table: run tests/regenerate.sh") {
  CHECK(read("docs/configuration.md") == render_markdown());
}

TEST_CASE("the sample file is accepted as it is, and with its keys uncommented changes nothing") {
  const std::string sample = hearth::testing::source_dir() + "/config/hearth.toml";
  for (const Setting& setting : read_invocation({"--config", sample}, {}).settings) {
    if (setting.name != "config") CHECK(setting.source == "default");
  }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("hearth-sample-" + std::to_string(::getpid()))).string();
  {
    std::istringstream lines(read("config/hearth.toml"));
    std::ofstream out(path);
    for (std::string line; std::getline(lines, line);) {
      const bool is_key = line.size() > 1 && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z';
      const bool is_empty =
          line.find("= \"\"") != std::string::npos || line.find("= []") != std::string::npos;
      out << (is_key && !is_empty ? line.substr(1) : line) << "\n";
    }
  }
  const Invocation invocation = read_invocation({"--config", path}, {});
  std::filesystem::remove(path);
  int from_file = 0;
  for (const Setting& setting : invocation.settings) {
    from_file += setting.source == "file " + path;
    if (setting.name != "config")
      CHECK(setting.value == value_text(*find_option(Program::kHearthd, setting.name), Options{}));
  }
  CHECK(from_file >= 10);
}
