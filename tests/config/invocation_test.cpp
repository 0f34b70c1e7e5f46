// read_invocation: precedence of the sources, and one message for every mistake.
#include "config/invocation.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "config/command_table.h"
#include "config/foreign_words.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

/// A configuration file that is removed at the end of the test.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_((std::filesystem::temp_directory_path() /
               ("hearth-config-" + std::to_string(::getpid()) + ".toml"))
                  .string()) {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string refusal(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  try {
    read_invocation(arguments, environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_of_file(const std::string& text) {
  const ConfigFile file(text);
  const std::string message = refusal({"--config", file.path()});
  if (message == "accepted") return message;
  REQUIRE(message.rfind(file.path() + ": ", 0) == 0);  // the message begins with the file
  return message.substr(file.path().size() + 2);
}

std::string source_of(const Invocation& invocation, const std::string& name) {
  for (const Setting& setting : invocation.settings) {
    if (setting.name == name) return setting.source;
  }
  return "missing";
}

}  // namespace

TEST_CASE("without any source the defaults stand") {
  const Invocation invocation = read_invocation({}, {});
  CHECK(invocation.action == Action::kServe);
  CHECK(invocation.options.port == 8080);
  CHECK(invocation.options.host == "127.0.0.1");
  CHECK(invocation.options.slots == 4);
  CHECK(source_of(invocation, "port") == "default");
  CHECK(invocation.settings.size() == option_table(Program::kHearthd).size());
  CHECK(invocation.warnings.empty());
}

TEST_CASE("a flag overrides the environment, which overrides the file, which overrides the default") {
  const ConfigFile file("port = 1001\nslots = 7\nqueue = 9\n");
  const Environment environment = {
      {"HEARTH_PORT", "1002"}, {"HEARTH_SLOTS", "8"}, {"HEARTH_CONFIG", file.path()}};
  const Invocation invocation = read_invocation({"--port", "1003"}, environment);
  CHECK(invocation.options.port == 1003);
  CHECK(invocation.options.slots == 8);
  CHECK(invocation.options.queue == 9);
  CHECK(invocation.options.drain_seconds == 30);
  CHECK(source_of(invocation, "port") == "flag");
  CHECK(source_of(invocation, "slots") == "environment");
  CHECK(source_of(invocation, "queue") == "file " + file.path());
  CHECK(source_of(invocation, "drain-seconds") == "default");
}

TEST_CASE("every option is read from every source that is allowed to set it") {
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    if (spec.name == "config") continue;
    std::string value = "text";
    if (const IntField* f = std::get_if<IntField>(&spec.field)) value = std::to_string(f->max);
    if (const NumberField* f = std::get_if<NumberField>(&spec.field)) value = f->min < 0 ? "-1.5" : "1.5";
    if (const ChoiceField* f = std::get_if<ChoiceField>(&spec.field)) value = f->words.back();
    const std::string name(spec.name);
    INFO(name);
    const bool secret = spec.sources == Sources::kEnvironmentOnly;
    CHECK(value_text(spec, read_invocation({}, {{environment_name(name), value}}).options) ==
          (secret ? "(set)" : value));
    if (secret) continue;
    CHECK(value_text(spec, read_invocation({"--" + name, value}, {}).options) == value);
    CHECK(value_text(spec, read_invocation({"--" + name + "=" + value}, {}).options) == value);
    const bool number =
        std::holds_alternative<IntField>(spec.field) || std::holds_alternative<NumberField>(spec.field);
    const ConfigFile file(name + " = " + (number ? value : "\"" + value + "\"") + "\n");
    CHECK(value_text(spec, read_invocation({"--config", file.path()}, {}).options) == value);
  }
}

TEST_CASE("lists repeat as flags, are split at commas in the environment, and are arrays in the file") {
  const std::vector<std::string> both = {"a", "b c"};
  CHECK(read_invocation({"--alias", "a", "--alias", "b c"}, {}).options.alias == both);
  CHECK(read_invocation({}, {{"HEARTH_ALIAS", "a,b c"}}).options.alias == both);
  const ConfigFile file("alias = [\"a\", \"b c\"]\n");
  CHECK(read_invocation({"--config", file.path()}, {}).options.alias == both);
  CHECK(read_invocation({"--config", file.path(), "--alias=x"}, {}).options.alias ==
        std::vector<std::string>{"x"});
}

TEST_CASE("a flag given twice counts the last time, and values may hold any sign") {
  CHECK(read_invocation({"--port", "1", "--port", "2"}, {}).options.port == 2);
  CHECK(read_invocation({"--model", "/m/a b,c=d#e[1].gguf"}, {}).options.model == "/m/a b,c=d#e[1].gguf");
  CHECK(read_invocation({"--alias", "*"}, {}).options.alias == std::vector<std::string>{"*"});
  const ConfigFile file("# comment\n\n  model = \"/m/a b, c.gguf\"   # the model\nlog-level = 'warn'\n");
  const Options options = read_invocation({"--config", file.path()}, {}).options;
  CHECK(options.model == "/m/a b, c.gguf");
  CHECK(options.log_level == Options::LogLevel::kWarn);
}

TEST_CASE("a number option may take the word auto, which leaves it unset") {
  CHECK(read_invocation({"--vram-budget", "7.5"}, {}).options.vram_budget_gib == 7.5);
  CHECK_FALSE(
      read_invocation({"--vram-budget", "auto"}, {{"HEARTH_VRAM_BUDGET", "6"}}).options.vram_budget_gib);
  const ConfigFile file("ram-budget = \"auto\"\nvram-budget = 6\n");
  const Options options = read_invocation({"--config", file.path()}, {{"HEARTH_RAM_BUDGET", ""}}).options;
  CHECK_FALSE(options.ram_budget_gib);
  CHECK(options.vram_budget_gib == 6);
  CHECK(value_text(*find_option(Program::kHearthd, "ram-budget"), options) == "auto");
  CHECK(value_text(*find_option(Program::kHearthd, "ram-budget"),
                   read_invocation({"--ram-budget", "2.5e-4"}, {}).options) == "0.00025");
  CHECK(value_text(*find_option(Program::kHearthd, "predictor-threshold"), options).empty());
  for (const char* bad : {"0", "-1", "6GiB", "nan", "inf", "AUTO", "1e9"}) {
    CHECK(refusal({"--vram-budget", bad}) ==
          "--vram-budget '" + std::string(bad) + "': expected auto, or a number from 0.0001 to 1048576");
  }
  CHECK_THAT(refusal({"--predictor-threshold", "auto"}), ContainsSubstring("expected a number from"));
}

TEST_CASE("a whole-number option may take the word auto, which is decided later") {
  CHECK(read_invocation({}, {}).options.prefill_chunk == 0);
  CHECK(read_invocation({"--prefill-chunk", "256"}, {}).options.prefill_chunk == 256);
  CHECK(
      read_invocation({"--prefill-chunk", "auto"}, {{"HEARTH_PREFILL_CHUNK", "64"}}).options.prefill_chunk ==
      0);
  for (const auto& [text, number] : {std::pair("\"auto\"", 0), std::pair("32", 32)}) {
    const ConfigFile file(std::string("prefill-chunk = ") + text + "\n");
    CHECK(read_invocation({"--config", file.path()}, {}).options.prefill_chunk == number);
  }
  const OptionSpec& spec = *find_option(Program::kHearthd, "prefill-chunk");
  CHECK(value_text(spec, Options{}) == "auto");
  CHECK(value_text(spec, read_invocation({"--prefill-chunk", "7"}, {}).options) == "7");
  for (const char* bad : {"0", "8193", "AUTO", "1.5"}) {
    CHECK(refusal({"--prefill-chunk", bad}) ==
          "--prefill-chunk '" + std::string(bad) + "': expected auto, or a whole number from 1 to 8192");
  }
}

TEST_CASE("a bad value is one sentence that names its source") {
  CHECK(refusal({"--port", "99999"}) == "--port '99999': expected a whole number from 0 to 65535");
  CHECK(refusal({"--predictor-threshold", "nan"}) ==
        "--predictor-threshold 'nan': expected a number from -1000 to 1000");
  CHECK(refusal({"--predictor-threshold", "1.5x"}) ==
        "--predictor-threshold '1.5x': expected a number from -1000 to 1000");
  CHECK(refusal({"--port", "80x"}) == "--port '80x': expected a whole number from 0 to 65535");
  CHECK(refusal({"--port=-1"}) == "--port '-1': expected a whole number from 0 to 65535");
  CHECK(refusal({"--port", "-1"}) == "--port '-1': expected a whole number from 0 to 65535");
  CHECK(refusal({"--slots", "99999999999999999999"}) ==
        "--slots '99999999999999999999': expected a whole number from 1 to 256");
  CHECK(refusal({}, {{"HEARTH_SLOTS", "0"}}) == "HEARTH_SLOTS='0': expected a whole number from 1 to 256");
  CHECK(refusal({"--isa", "sse2"}) ==
        "--isa 'sse2': expected one of auto, scalar, avx2, avx-vnni, avx512-vnni, amx, neon, "
        "neon-dotprod, neon-i8mm");
  CHECK(refusal_of_file("log-format = \"xml\"\n") == "log-format = 'xml': expected one of text, json");
  CHECK(refusal_of_file("port = [1, 2]\n") == "port = '1, 2': expected a whole number from 0 to 65535");
}

TEST_CASE("unknown flags, words and keys are refused with a suggestion") {
  CHECK(refusal({"--prot", "1"}) == "unknown flag '--prot'; did you mean --port?");
  CHECK(refusal({"--slot=1"}) == "unknown flag '--slot'; did you mean --slots?");
  CHECK(refusal({"--color"}) == "unknown flag '--color'; see hearthd --help");
  CHECK(refusal({"-x"}) == "unknown flag '-x'; see hearthd --help");
  CHECK_THAT(refusal({"--port"}), ContainsSubstring("--port needs a value"));
  CHECK_THAT(refusal({"-p"}), ContainsSubstring("-p needs a value"));
  CHECK_THAT(refusal({"--api-key=secret"}), ContainsSubstring("HEARTH_API_KEY"));
  CHECK_THAT(refusal({"--api-key=secret"}), !ContainsSubstring("secret"));
  CHECK(refusal_of_file("prot = 1\n") == "unknown key 'prot'; did you mean port?");
  CHECK_THAT(refusal_of_file("port 8080\n"), ContainsSubstring("unknown key 'port 8080'"));
  CHECK_THAT(refusal_of_file("[server]\nport = 1\n"), ContainsSubstring("sections are not supported"));
  CHECK_THAT(refusal_of_file("[server]\n"), ContainsSubstring("sections are not supported"));
  CHECK_THAT(refusal_of_file("api-key = \"x\"\n"), ContainsSubstring("api-key-file"));
  CHECK_THAT(refusal_of_file("config = \"x\"\n"), ContainsSubstring("unknown key"));
  CHECK_THAT(refusal_of_file("port = 1\nslots = 2\nport = 3\n"), ContainsSubstring("port"));
}

TEST_CASE("an argument that is not a flag is a model") {
  const auto models = [](const std::vector<std::string>& arguments) {
    const Options options = read_invocation(arguments, {}).options;
    std::vector<std::string> all = {options.model};
    all.insert(all.end(), options.more_models.begin(), options.more_models.end());
    return all;
  };
  using Models = std::vector<std::string>;
  CHECK(models({"m.gguf"}) == Models{"m.gguf"});
  CHECK(models({"--port", "1", "smollm3-3b", "--slots", "2"}) == Models{"smollm3-3b"});
  CHECK(models({"gemma"}) == Models{"gemma"});
  CHECK(models({"--model", "a.gguf", "b.gguf"}) == Models{"a.gguf", "b.gguf"});
  CHECK(models({"--", "-odd.gguf"}) == Models{"-odd.gguf"});
  CHECK(models({"-m", "a.gguf", "-c", "64", "-t", "2", "-p", "9"}) == Models{"a.gguf"});
  CHECK(read_invocation({"-c", "64", "-p", "9"}, {}).options.context == 64);
  CHECK(read_invocation({"-c", "64", "-p", "9"}, {}).options.port == 9);
  CHECK_THAT(refusal({""}), ContainsSubstring("--model"));
}

TEST_CASE("words of other programs are answered with hearthd's own") {
  CHECK_THAT(refusal({"pul"}), ContainsSubstring("did you mean pull?"));
  CHECK_THAT(refusal({"ls"}), ContainsSubstring("'hearthd list'"));
  CHECK_THAT(refusal({"chat"}), ContainsSubstring("'hearthd run MODEL'"));
  CHECK_THAT(refusal({"--ctx-size", "4096"}), ContainsSubstring("--context N"));
  CHECK_THAT(refusal({"-ngl", "99"}), ContainsSubstring("--vram-budget GIB"));
  CHECK_THAT(refusal({"--temp=0.7"}), ContainsSubstring("temperature"));
}

TEST_CASE("advice for words of other programs names only options that hearthd has") {
  std::vector<std::string> flags;
  for (const OptionSpec& spec : option_table(Program::kHearthd)) {
    CHECK(advice_for_flag("--" + std::string(spec.name)).empty());
    flags.push_back("--" + std::string(spec.name));
  }
  for (const ActionSpec& spec : action_table()) flags.push_back("--" + std::string(spec.name));
  for (const CommandSpec& command : command_table()) {
    CHECK(advice_for_command(command.name).empty());
    for (const CommandOption& option : command.own) flags.push_back("--" + std::string(option.name));
  }
  for (const std::string_view advice : all_advice()) {
    for (size_t at = advice.find("--"); at != std::string_view::npos; at = advice.find("--", at + 2)) {
      const std::string_view flag = advice.substr(at, advice.find_first_of(" ;,'", at) - at);
      INFO(advice);
      CHECK(std::ranges::find(flags, flag) != flags.end());
    }
  }
}

TEST_CASE("a configuration file that is missing, not a plain file or too large is refused") {
  CHECK(refusal({"--config", "/nonexistent/h.toml"}) ==
        "/nonexistent/h.toml: there is no such configuration file");
  CHECK_THAT(refusal({"--config", "/tmp"}), ContainsSubstring("plain file"));
  CHECK_THAT(refusal({"--config", "/dev/zero"}), ContainsSubstring("plain file"));
  CHECK_THAT(refusal_of_file(std::string((1 << 20) + 1, '#')), ContainsSubstring("too large"));
}

TEST_CASE(
    "the environment: empty means absent, a container runtime's address is ignored, typos are reported") {
  CHECK(read_invocation({}, {{"HEARTH_PORT", ""}}).options.port == 8080);
  const Invocation linked =
      read_invocation({}, {{"HEARTH_PORT", "tcp://10.0.0.7:8080"}, {"HEARTH_PORT_8080_TCP", "x"}});
  CHECK(linked.options.port == 8080);
  REQUIRE(linked.warnings.size() == 1);
  CHECK_THAT(linked.warnings[0], ContainsSubstring("HEARTH_PORT=tcp://10.0.0.7:8080"));
  const Invocation slip =
      read_invocation({}, {{"HEARTH_SLOT", "8"}, {"HEARTH_BUILD_DIR", "/b"}, {"OTHER", "1"}});
  REQUIRE(slip.warnings.size() == 1);
  CHECK_THAT(slip.warnings[0], ContainsSubstring("did you mean HEARTH_SLOTS?"));
}

TEST_CASE("the secret never shows in the settings") {
  for (const Setting& setting : read_invocation({}, {{"HEARTH_API_KEY", "swordfish"}}).settings) {
    CHECK(setting.value != "swordfish");
    if (setting.name == "api-key") CHECK(setting.value == "(set)");
  }
}

TEST_CASE("nothing else is read with --help or --version") {
  CHECK(read_invocation({"--help"}, {{"HEARTH_PORT", "x"}}).action == Action::kHelp);
  CHECK(read_invocation({"--port", "x", "-h"}, {}).action == Action::kHelp);
  CHECK(read_invocation({"--help", "all"}, {}).action == Action::kHelpAll);
  CHECK(read_invocation({"--help-all"}, {}).action == Action::kHelpAll);
  CHECK(read_invocation({"--version"}, {{"HEARTH_CONFIG", "/nonexistent"}}).action == Action::kVersion);
  CHECK(read_invocation({"--healthcheck", "--port", "12"}, {}).action == Action::kHealthcheck);
  CHECK(read_invocation({"--healthcheck", "--port", "12"}, {}).options.port == 12);
}
