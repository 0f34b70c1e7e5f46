// Contains the table of commands.
#include "config/command_table.h"

namespace hearth {

std::span<const CommandSpec> command_table() {
  static const std::vector<CommandSpec> table = {
      {.name = "run",
       .arguments = "[FILE|NAME [TEXT]]",
       .min_arguments = 0,
       .max_arguments = 2,
       .brief = "Chat with a model in this terminal",
       .help = "Chat with a model in this terminal.",
       .details = "With FILE or NAME, starts a server for this chat, and pulls the model if it is not here. "
                  "Without, uses the server that --host and --port describe. Ctrl-C stops an answer, Ctrl-D "
                  "ends the chat. With TEXT, or if the standard input is not a terminal, answers once.",
       .shared = {"context", "threads", "device", "vram-budget", "models", "endpoint", "host", "port",
                  "config"},
       .own = {{"system", "TEXT", "The system prompt."}, {"url", "URL", "The address of a running server."}},
       .examples = {"hearthd run smollm3-3b", "hearthd run model.gguf 'Why is the sky blue?'"}},
      {.name = "pull",
       .arguments = "[MODEL]",
       .min_arguments = 0,
       .max_arguments = 1,
       .brief = "Download a model",
       .help =
           "Pull a model: hf:OWNER/REPO[:QUANT|:FILE], the URL of a GGUF file, or a name of 'list --known'.",
       .details = "Without MODEL, shows the known names. A download that was stopped continues at the next "
                  "pull of the same model. A model gets its name only when it is complete, its checksum is "
                  "right and it can be read as a model. A model that is already there is pulled again only "
                  "if the hub has a different one. Without QUANT, a file of about 4 bits is chosen, Q4_K_M "
                  "first. hf:OWNER/REPO@REVISION names a revision. The hub's token comes from --token-file, "
                  "HF_TOKEN, or the files of Hugging Face's programs.",
       .shared = {"models", "endpoint", "config"},
       .own = {{"sha256", "HEX", "The SHA-256 that the file at a URL must have."},
               {"retries", "N",
                "How often in a row a request may fail before the pull ends with an error; 8 if not given. "
                "The downloaded part is kept."},
               {"token-file", "FILE", "File that contains the hub's access token and nothing else."},
               {"if-missing", "",
                "Do not use the network if a model of that name is here, even if the hub has a newer one. "
                "For starts that must not depend on the network."},
               {"any-architecture", "",
                "Pull the model even if the hub names an architecture that Hearth does not run."}},
       .examples = {"hearthd pull smollm3-3b", "hearthd pull hf:OWNER/REPO:Q4_K_M",
                    "hearthd pull https://example.org/model.gguf --sha256 HEX"}},
      {.name = "list",
       .arguments = "",
       .min_arguments = 0,
       .max_arguments = 0,
       .brief = "Show the models on this machine",
       .help = "Show the pulled models and their paths.",
       .details = "",
       .shared = {"models", "config"},
       .own = {{"known", "", "Show the models that have a short name for pulling, with their sizes."},
               {"json", "", "Print one JSON array."}},
       .examples = {"hearthd list", "hearthd list --known"}},
      {.name = "rm",
       .arguments = "NAME...",
       .min_arguments = 1,
       .max_arguments = 64,
       .brief = "Delete models",
       .help = "Delete pulled models, or the parts of unfinished ones.",
       .details = "Refuses a model that a running hearthd serves.",
       .shared = {"models", "config"},
       .own = {{"force", "",
                "Also delete a model that is being served. The server keeps using it until it loads a model "
                "again."}},
       .examples = {"hearthd rm SmolLM3-3B-Q4_K_M"}},
      {.name = "show",
       .arguments = "FILE|NAME",
       .min_arguments = 1,
       .max_arguments = 1,
       .brief = "Describe a model and predict its speed",
       .help = "Describe a model, its requirements, and its expected speed on this machine.",
       .details = "The speed is predicted, not measured with the model. hearthd measures this machine once "
                  "for the prediction, in some seconds, and reads only the header of the model. "
                  "'hearth-profiler plan' predicts more: other machines, budgets and modes.",
       .shared = {"models", "context", "slots", "kv-type", "vram-budget", "ram-budget", "config"},
       .own = {{"no-plan", "", "Only describe the model, without measuring the machine."},
               {"json", "", "Print one JSON object."}},
       .examples = {"hearthd show SmolLM3-3B-Q4_K_M", "hearthd show model.gguf --json"}},
      {.name = "connect",
       .arguments = "claude-code|codex|opencode",
       .min_arguments = 1,
       .max_arguments = 1,
       .brief = "Configure Claude Code, Codex or OpenCode",
       .help = "Print the configuration with which a coding agent uses the running server.",
       .details = "Asks the server for its model and context. The configuration goes to the standard output, "
                  "and where it belongs to the standard error. If the server requires an API key, set "
                  "HEARTH_API_KEY; the configuration names this variable and never contains the key.",
       .shared = {"host", "port", "config"},
       .own = {{"url", "URL", "The server's address. Not given: that of --host and --port."}},
       .examples = {"hearthd connect claude-code", "hearthd connect codex > ~/.codex/hearth.config.toml"}},
  };
  return table;
}

const CommandSpec* find_command(std::string_view name) {
  for (const CommandSpec& spec : command_table()) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

}  // namespace hearth
