// The table itself; see the header.
#include "config/command_table.h"

namespace hearth {

std::span<const CommandSpec> command_table() {
  static const std::vector<CommandSpec> table = {
      {.name = "pull",
       .arguments = "[MODEL]",
       .min_arguments = 0,
       .max_arguments = 1,
       .help =
           "Fetch a model: hf:OWNER/REPO[:QUANT|:FILE], a URL of a GGUF file, or a name of 'list --known'.",
       .details =
           "Without MODEL the known names are shown. A download that was stopped goes on where it ended when "
           "it is asked for again. Nothing is in place before it is whole, its checksum is right and it can "
           "be read as a model. A model that is there is fetched anew only if the hub has another one. "
           "Without QUANT a file of about 4 bits is chosen, Q4_K_M first. hf:OWNER/REPO@REVISION names a "
           "revision. A token for the hub is taken from --token-file, HF_TOKEN, or where Hugging Face's "
           "programs keep it.",
       .shared = {"models", "endpoint", "config"},
       .own =
           {{"sha256", "HEX", "The SHA-256 that the file must have; for a URL, which names none itself."},
            {"retries", "N",
             "How often in a row a request may fail before the pull is given up; 8 if not given. What is "
             "there is kept."},
            {"token-file", "FILE", "File that holds the hub's access token, and nothing else."},
            {"if-missing", "",
             "Ask nobody if a model of that name is here, whether or not the hub has another one by now: for "
             "starts that must not depend on the network."},
            {"any-architecture", "", "Fetch a model that the hub says is of a kind Hearth cannot run."}},
       .examples = {"hearthd pull smollm3-3b", "hearthd pull hf:OWNER/REPO:Q4_K_M",
                    "hearthd pull https://example.org/model.gguf --sha256 HEX"}},
      {.name = "list",
       .arguments = "",
       .min_arguments = 0,
       .max_arguments = 0,
       .help = "Show the models that were pulled, and where they are.",
       .details = "",
       .shared = {"models", "config"},
       .own = {{"known", "", "Show the models that can be pulled by a short name instead, with their sizes."},
               {"json", "", "Print one JSON array."}},
       .examples = {"hearthd list", "hearthd list --known"}},
      {.name = "rm",
       .arguments = "NAME...",
       .min_arguments = 1,
       .max_arguments = 64,
       .help = "Delete pulled models, or what is there of unfinished ones.",
       .details = "A model that a running hearthd serves is refused.",
       .shared = {"models", "config"},
       .own = {{"force", "",
                "Also delete a model that is being served: it goes on until it is loaded again."}},
       .examples = {"hearthd rm SmolLM3-3B-Q4_K_M"}},
      {.name = "show",
       .arguments = "FILE|NAME",
       .min_arguments = 1,
       .max_arguments = 1,
       .help = "Say what a model is, what it needs, and how fast it would be on this machine.",
       .details =
           "The speed is predicted, not measured: hearthd measures this machine once for it, in some "
           "seconds, and reads only the head of the model. 'hearth-profiler plan' asks for more: other "
           "machines, budgets and modes.",
       .shared = {"models", "context", "slots", "kv-type", "vram-budget", "ram-budget", "config"},
       .own = {{"no-plan", "", "Only say what the model is; nothing is measured."},
               {"json", "", "Print one JSON object."}},
       .examples = {"hearthd show SmolLM3-3B-Q4_K_M", "hearthd show model.gguf --json"}},
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
