// The table, and the functions that parse a row's value, return its environment variable, and print its
// value.
#include "config/option_table.h"

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>

namespace hearth {
namespace {

template <auto kMember>
ChoiceField choice(std::vector<std::string_view> words) {
  return {std::move(words), [](const Options& options) { return static_cast<size_t>(options.*kMember); },
          [](Options& options, size_t word) {
            options.*kMember = static_cast<std::remove_reference_t<decltype(options.*kMember)>>(word);
          }};
}

// Memory budgets range from 100 KB, for the small models in tests, to more than any machine has.
constexpr double kMinBudgetGib = 0.0001, kMaxBudgetGib = 1 << 20;

std::vector<OptionSpec> make_table() {
  using O = Options;
  return {
      {"model", "Model", "FILE",
       "The model: a GGUF file, or any part of a split model. hearthd also takes hf:OWNER/REPO[:QUANT] and "
       "the names that 'hearthd list' shows, and pulls a missing model at start. If it is given "
       "several times, requests choose a model by name.",
       TextField{&O::model}, Sources::kAll, Program::kBoth, 'm', &O::more_models,
       "The model; the same as FILE|NAME above"},
      {"models-folder", "Model", "FOLDER", "Also serve all models of this folder.",
       TextField{&O::models_folder}},
      {"pin", "Model", "NAME", "A model that stays loaded when others need memory.", ListField{&O::pin}},
      {"alias", "Model", "NAME",
       "Another name for the first model. Repeatable. '*': any name that a client sends.",
       ListField{&O::alias}},
      {"chat-template-file", "Model", "FILE", "Jinja chat template to use instead of the model's own.",
       TextField{&O::chat_template_file}},
      {"context", "Model", "N",
       "Maximum number of tokens in one request, prompt and answer together. 0: the context that the model "
       "was trained for, at most 8192.",
       IntField{&O::context, 0, 1 << 24}, Sources::kAll, Program::kBoth, 'c', nullptr,
       "Most tokens of a request, prompt and answer"},
      {"ffn-activation", "Model", "NAME",
       "Activation of the model's FFN, for files of ReLU-family models that do not state it: relu, drelu, "
       "fatrelu:T (zero up to T), relu2, silu, gelu or swiglu-oai. Not given: the file's "
       "hearth.ffn_activation; without that key, relu for PowerInfer's files and the architecture's "
       "activation for others.",
       TextField{&O::ffn_activation}, Sources::kAll, Program::kBoth},
      {"models", "Model", "FOLDER",
       "Folder of the models that hearthd pulls. Not given: hearth/models in $XDG_CACHE_HOME or ~/.cache.",
       TextField{&O::models}},
      {"endpoint", "Model", "URL",
       "The hub that hf: models are pulled from: Hugging Face, or a mirror with the same paths. Not given: "
       "HF_ENDPOINT, or https://huggingface.co if that is not set.",
       TextField{&O::endpoint}},

      {"embedding-model", "Embeddings", "FILE",
       "A second, small model for /v1/embeddings: a GGUF file. It runs on the CPU and has its own queue. Not "
       "given: the main model embeds texts.",
       TextField{&O::embedding_model}},
      {"embedding-alias", "Embeddings", "NAME",
       "Another name for the embedding model. May be given several times.", ListField{&O::embedding_alias}},
      {"embedding-context", "Embeddings", "N",
       "Maximum number of tokens in one text for the embedding model. Memory for one text of this length is "
       "reserved at start; shorter texts share it. 0: the context that the model was trained for, at most "
       "8192.",
       IntField{&O::embedding_context, 0, 1 << 24}},

      {"host", "Server", "ADDRESS",
       "Address to listen on. 0.0.0.0 or :: opens the server to the network; then set an API key.",
       TextField{&O::host}, Sources::kAll, Program::kHearthd, 0, nullptr,
       "Address to listen on; 0.0.0.0 is all"},
      {"port", "Server", "PORT", "TCP port. 0: any free port, which is printed at start.",
       IntField{&O::port, 0, 65535}, Sources::kAll, Program::kHearthd, 'p', nullptr, "Port to listen on"},
      {"tls-cert", "Server", "FILE",
       "Serve HTTPS with this certificate: a PEM file, in which the certificates of intermediate authorities "
       "follow the server's own. Needs --tls-key. SIGHUP reads both files again.",
       TextField{&O::tls_cert}},
      {"tls-key", "Server", "FILE", "The private key of --tls-cert: a PEM file that is not encrypted.",
       TextField{&O::tls_key}},
      {"metrics-port", "Server", "PORT",
       "A second TCP port, only for /metrics and health checks, which needs no API key. With --tls-cert it "
       "speaks HTTPS too. 0: none.",
       IntField{&O::metrics_port, 0, 65535}},
      {"cors-origin", "Server", "ORIGIN",
       "Origin of web pages that may call the server, such as https://chat.example.org. Repeatable. '*': any "
       "page; 'none': no page. Not given: pages served from this machine "
       "(localhost), and frontends of desktop programs and editors on it.",
       ListField{&O::cors_origin}},
      {"max-body-mib", "Server", "N", "Largest request body, in MiB. Larger ones are answered with 413.",
       IntField{&O::max_body_mib, 1, 1024}},
      {"page", "Server", "MODE",
       "on: GET / is a page for chatting with the model and watching it work. off: GET / is a line of text, "
       "and /page/events does not exist.",
       choice<&O::page>({"off", "on"})},
      {"keepalive-seconds", "Server", "N",
       "If an unstreamed answer takes longer than N seconds, the server sends the headers and a blank line, "
       "and another blank line every N seconds. For proxies that cut silent connections. 0: never.",
       IntField{&O::keepalive_seconds, 0, 3600}},

      {"api-key-file", "Access", "FILE",
       "File of API keys, one per line: the key, or 'name=NAME role=use,metrics,admin key=KEY', where KEY "
       "may be a hash that --hash-key prints. SIGHUP "
       "reads the file again. Without a key, anyone who reaches the port may use the model.",
       TextField{&O::api_key_file}, Sources::kAll, Program::kHearthd, 0, nullptr,
       "Require one of the keys in this file"},
      {"api-key", "Access", "KEY",
       "One API key, or one line of a key file, in addition to those of --api-key-file.",
       TextField{&O::api_key}, Sources::kEnvironmentOnly},
      {"allowed-host", "Access", "NAME",
       "Host name that requests may use for the server (their Host header), such as chat.example.org. "
       "Other names are refused, against DNS rebinding. May "
       "be given several times. '*': any name. Not given: names of this machine if the server listens on "
       "loopback, otherwise any name.",
       ListField{&O::allowed_host}},
      {"trusted-proxy", "Access", "ADDRESS",
       "Address or network (10.0.0.0/8) of a proxy in front of the server. Its X-Forwarded-For then gives "
       "clients' addresses, to share slots and for the log. This does "
       "not affect who may use the server. May be given several times. Not given: all requests of a proxy "
       "count as one client's.",
       ListField{&O::trusted_proxy}},

      {"slots", "Engine", "N", "Number of sequences that are generated at the same time.",
       IntField{&O::slots, 1, 256}, Sources::kAll, Program::kBoth, 0, nullptr,
       "Requests that run at the same time"},
      {"kv-contexts", "Engine", "N",
       "Number of requests, each as long as --context, for which the KV cache has room at once. All "
       "requests share it; one that does not fit waits. At most --slots. 0: as many as the free "
       "memory allows, at least 1.",
       IntField{&O::kv_contexts, 0, 256}, Sources::kAll, Program::kBoth},
      {"queue", "Engine", "N",
       "Number of requests that may wait for a slot. Further ones are answered with 429.",
       IntField{&O::queue, 0, 4096}},
      {"max-tokens-default", "Engine", "N",
       "Maximum number of tokens in a chat answer if the request sets no limit. 0: the rest of the context.",
       IntField{&O::max_tokens_default, 0, 10'000'000}},
      {"reasoning-budget", "Engine", "N",
       "Maximum number of tokens of thinking if the request sets no limit. 0: no thinking. -1: no limit.",
       IntField{&O::reasoning_budget, -1, 10'000'000}},
      {"prefill-chunk", "Engine", "N",
       "Maximum number of prompt tokens that one step computes. With a smaller value, running streams wait "
       "less; with a larger one, prompts are read faster. auto: 128 on the CPU. With a GPU, up to 1024, "
       "and fewer while streams run.",
       IntField{&O::prefill_chunk, 1, 8192, "auto"}, Sources::kAll, Program::kBoth},
      {"threads", "Engine", "N",
       "CPU threads that compute. 0: one for each physical core that is at least half as fast as the "
       "fastest, and no more than a container's CPU quota can use.",
       IntField{&O::threads, 0, 1024}, Sources::kAll, Program::kBoth, 't', nullptr, "Threads of the CPU"},
      {"isa", "Engine", "NAME",
       "Instruction set of the CPU kernels. auto: the best one that the processor has, except amx, which "
       "has not run on a processor yet.",
       choice<&O::isa>(
           {"auto", "scalar", "avx2", "avx-vnni", "avx512-vnni", "amx", "neon", "neon-dotprod", "neon-i8mm"}),
       Sources::kAll, Program::kBoth},
      {"activation-bits", "Engine", "N",
       "Bits to which activations are rounded for products with quantized weights. 15: next to no error. 8: "
       "prompts are read up to 1.5 times as fast, but sometimes another token becomes the most likely one. "
       "Only on the CPU.",
       choice<&O::activation_bits>({"15", "8"}), Sources::kAll, Program::kBoth},
      {"kv-type", "Engine", "NAME",
       "Type of the KV cache. f16: half floats. q8_0: 8 bits and a shared scale, 53 % of "
       "the memory; answers change a little. A draft model and an embedding model keep f16.",
       choice<&O::kv_type>({"f16", "q8_0"}), Sources::kAll, Program::kBoth},
      {"numa", "Engine", "NAME",
       "Placement of memory on a machine with several NUMA nodes. interleave: on all nodes in turn. off: the "
       "system decides.",
       choice<&O::numa>({"interleave", "off"}), Sources::kAll, Program::kBoth},

      {"cache-gib", "Prefix cache", "GIB",
       "Keep up to this many GiB of the KV cache on disk, to reuse prompts after a restart. The files "
       "reveal texts. Only on the CPU.",
       NumberField{&O::cache_gib, 0, kMaxBudgetGib, "off"}},
      {"cache-dir", "Prefix cache", "FOLDER",
       "Folder for --cache-gib. Not given: hearth/prefixes in $XDG_CACHE_HOME or ~/.cache. For systemd, "
       "see docs/running.md.",
       TextField{&O::cache_dir}},

      {"speculate", "Speculation", "MODE",
       "Speculative decoding: one step checks several guessed tokens, if measured times promise more speed. "
       "Answers do not change. text: guesses what followed the last tokens earlier in the prompt or the "
       "answer. auto: also by the model's own layer for this, on the CPU.",
       choice<&O::speculate>({"off", "text", "auto"}), Sources::kAll, Program::kBoth},
      {"draft-tokens", "Speculation", "N", "Maximum number of tokens guessed ahead for one sequence.",
       IntField{&O::draft_tokens, 1, 63}, Sources::kAll, Program::kBoth},
      {"draft-model", "Speculation", "FILE",
       "A second, small model with the same vocabulary that also guesses tokens, instead of the model's own "
       "layer: a GGUF file. It runs on the CPU, if that promises more speed.",
       TextField{&O::draft_model}, Sources::kAll, Program::kBoth},

      {"device", "Device", "NAME",
       "Device that computes. auto: the GPU together with the CPU if there is a usable GPU, otherwise the "
       "CPU. cuda: the GPU; the start fails without one. cpu: the CPU alone.",
       choice<&O::device>({"auto", "cpu", "cuda"}), Sources::kAll, Program::kBoth, 0, nullptr,
       "auto, cpu or cuda"},
      {"vram-budget", "Device", "GIB",
       "GPU memory to use, in GiB, such as 6 or 7.5. It is allocated at start and never exceeded. auto: all "
       "free GPU memory except a reserve.",
       NumberField{&O::vram_budget_gib, kMinBudgetGib, kMaxBudgetGib, "auto"}, Sources::kAll, Program::kBoth,
       0, nullptr, "GPU memory to use"},
      {"ram-budget", "Device", "GIB",
       "Maximum memory to reserve at start, in GiB, in addition to the model file's own pages. auto: the "
       "memory of the machine or the container. With several models: for all of them, with their files; "
       "auto: nine tenths of the available memory.",
       NumberField{&O::ram_budget_gib, kMinBudgetGib, kMaxBudgetGib, "auto"}, Sources::kAll, Program::kBoth},
      {"split", "Device", "NAME",
       "The part of the model that goes to a GPU without room for the whole model. neurons: some neurons of "
       "every layer. layers: whole layers. auto: whichever is faster.",
       choice<&O::split>({"auto", "neurons", "layers"}), Sources::kAll, Program::kBoth},
      {"prompt-products", "Device", "NAME",
       "Kernels that multiply a prompt's tokens on the GPU. exact: Hearth's own, whose results equal the "
       "CPU's bit for bit. fast: NVIDIA's cuBLASLt, if it is installed and the GPU shares no layer's "
       "neurons with the CPU. Answers differ from those of exact, but are the same in any batch.",
       choice<&O::prompt_products>({"exact", "fast"}), Sources::kAll, Program::kBoth},
      {"plan-file", "Device", "FILE",
       "Write the plan to this file as JSON once the model is loaded: which parts of the model are where, "
       "and their bytes.",
       TextField{&O::plan_file}},
      {"verify", "Device", "MODE",
       "on: in one of 64 steps, the CPU recomputes experts that a GPU computes, and /metrics counts "
       "differences. For new GPUs and drivers.",
       choice<&O::verify>({"off", "on"})},

      {"sparsity", "Sparsity", "MODE",
       "Which FFN neurons are computed. exact: those that are not zero, without loss; a model whose "
       "activation has no zeros runs dense. predicted: those that the model's predictors propose. auto: "
       "exact or predicted, whichever reads less; for mixtures of experts exact, or dense if many of their "
       "neurons are active. calibrated: for SwiGLU and GeGLU models, those above the thresholds that "
       "hearth-profiler calibrate found. dense: all.",
       choice<&O::sparsity>({"auto", "exact", "predicted", "calibrated", "dense"}), Sources::kAll,
       Program::kBoth},
      {"predictor-threshold", "Sparsity", "X",
       "Predicted mode: a neuron is proposed if its predictor's logit is at least this. A lower value is "
       "closer to exact, and slower. Not given: the model file's value.",
       NumberField{&O::predictor_threshold, -1000, 1000}, Sources::kAll, Program::kBoth},
      {"profile", "Sparsity", "MODE",
       "Measurements that decide where neurons are placed, kept in the cache folder. auto: if a GPU runs a "
       "ReLU-family model, hearthd measures the machine and counts active neurons once, in some tens of "
       "seconds without requests, then places the model again. online: also counts a sample of generated "
       "tokens, for the next start. off: uses what is known. SIGUSR1 ends the measuring.",
       choice<&O::profile>({"auto", "online", "off"})},

      {"idle-unload", "Running", "MINUTES",
       "Minutes without a request after which the model is unloaded. The next request loads it again.",
       NumberField{&O::idle_unload_minutes, 0.001, 1e6, "never"}},
      {"drain-seconds", "Running", "N",
       "Seconds that running answers have to finish after SIGTERM or SIGINT before they are cut off.",
       IntField{&O::drain_seconds, 0, 86400}},
      {"log-level", "Running", "LEVEL", "Lowest level of messages to log.",
       choice<&O::log_level>({"debug", "info", "warn", "error"})},
      {"log-format", "Running", "FORMAT",
       "Log lines for people (text) or for machines (json, one object a line).",
       choice<&O::log_format>({"text", "json"})},
      {"log-file", "Running", "FILE",
       "Append the log to this file instead of standard error. SIGHUP opens it again, as logrotate "
       "needs.",
       TextField{&O::log_file}},
      {"sandbox", "Running", "MODE",
       "Give up rights that serving does not need, with Landlock and seccomp. auto: as far as "
       "the kernel supports it; with a GPU, only system calls are "
       "restricted. on: refuse to start if a part is not supported.",
       choice<&O::sandbox>({"auto", "on", "off"})},
      {"trace", "Running", "FILE",
       "Write a timeline of all steps to this file when the program ends, for Perfetto or chrome://tracing. "
       "Keeps the first million entries (50 MB).",
       TextField{&O::trace}, Sources::kAll, Program::kBoth},
      {"expert-trace", "Running", "FILE",
       "Write to this file which experts the served tokens choose, for hearth-profiler replay. Only for "
       "mixtures of experts.",
       TextField{&O::expert_trace}},
      {"config", "Running", "FILE",
       "TOML file of options: lines 'key = value', where the key is a flag's name without dashes.",
       TextField{&O::config}, Sources::kNotFile},

      {"verify-predictor", "Sparsity", "",
       "Predicted mode: compute every gate too, to report recall and false positives.",
       FlagField{&O::verify_predictor}, Sources::kAll, Program::kProfiler},
      {"placement", "Device", "NAME",
       "Place neurons by the rates of a typical machine (neutral) or of this one (solved).",
       choice<&O::placement>({"neutral", "solved"}), Sources::kAll, Program::kProfiler},
      {"no-prefetch", "Device", "", "Copy no neurons to the GPU ahead of their use, and exchange no experts.",
       FlagField{&O::no_prefetch}, Sources::kAll, Program::kProfiler},
      {"prefetch-by", "Device", "NAME",
       "How neurons are copied ahead: by a kernel that gathers them from memory, or by the copy engine "
       "(dma).",
       choice<&O::prefetch_by>({"gather", "dma"}), Sources::kAll, Program::kProfiler},
      {"no-cpu-share", "Device", "",
       "The CPU computes no neurons of the GPU's layers; they are streamed to the GPU instead.",
       FlagField{&O::no_cpu_share}, Sources::kAll, Program::kProfiler},
      {"no-graphs", "Device", "", "Do not record the GPU's steps and play them back.",
       FlagField{&O::no_graphs}, Sources::kAll, Program::kProfiler},
  };
}

bool parse_int(const std::string& text, const IntField& field, int& out) {
  if (!field.zero.empty() && text == field.zero) {
    out = 0;
    return true;
  }
  int value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < field.min || value > field.max) return false;
  out = value;
  return true;
}

bool parse_number(const std::string& text, const NumberField& field, std::optional<double>& out) {
  if (!field.absent.empty() && text == field.absent) {
    out.reset();
    return true;
  }
  double value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  // The negated comparison also refuses NaN.
  if (result.ec != std::errc() || result.ptr != end || !(value >= field.min && value <= field.max))
    return false;
  out = value;
  return true;
}

/// Returns the shortest text without an exponent that parses to this number.
std::string number_text(double value) {
  char text[400];  // the longest text has a sign, a point and about 330 digits
  const std::to_chars_result result =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed);
  return {text, result.ptr};
}

}  // namespace

std::span<const OptionSpec> option_table(Program program) {
  const auto of = [](Program wanted) {
    std::vector<OptionSpec> rows;
    for (OptionSpec& spec : make_table()) {
      if (spec.program == wanted || spec.program == Program::kBoth) rows.push_back(std::move(spec));
    }
    return rows;
  };
  static const std::vector<OptionSpec> hearthd = of(Program::kHearthd), profiler = of(Program::kProfiler),
                                       both = of(Program::kBoth);
  return program == Program::kHearthd ? hearthd : program == Program::kProfiler ? profiler : both;
}

const OptionSpec* find_option(Program program, std::string_view name) {
  for (const OptionSpec& spec : option_table(program)) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string flag_names(const OptionSpec& spec) {
  const std::string name = "--" + std::string(spec.name);
  return spec.letter == 0 ? name : name + ",-" + spec.letter;
}

std::string environment_name(std::string_view option_name) {
  std::string name = "HEARTH_";
  for (char c : option_name)
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::string expectation(const OptionSpec& spec) {
  if (const IntField* f = std::get_if<IntField>(&spec.field)) {
    return (f->zero.empty() ? "" : std::string(f->zero) + ", or ") + "a whole number from " +
           std::to_string(f->min) + " to " + std::to_string(f->max);
  }
  if (const NumberField* f = std::get_if<NumberField>(&spec.field)) {
    return (f->absent.empty() ? "" : std::string(f->absent) + ", or ") + "a number from " +
           number_text(f->min) + " to " + number_text(f->max);
  }
  if (const ChoiceField* f = std::get_if<ChoiceField>(&spec.field)) {
    std::string text = "one of";
    for (std::string_view choice : f->words) text += (text == "one of" ? " " : ", ") + std::string(choice);
    return text;
  }
  if (std::holds_alternative<ListField>(spec.field)) return "non-empty texts";
  return "a non-empty text";
}

std::string help_text(const OptionSpec& spec) {
  const bool words = std::holds_alternative<ChoiceField>(spec.field);
  return std::string(spec.help) + (words ? " Takes " + expectation(spec) + "." : "");
}

bool assign(const OptionSpec& spec, const std::vector<std::string>& values, Options& options) {
  for (const std::string& value : values) {
    // Refuse a NUL: if the value is a path, a system call would use only the part before the NUL.
    if (value.empty() || value.find('\0') != std::string::npos) return false;
  }
  if (const ListField* f = std::get_if<ListField>(&spec.field)) {
    options.*f->member = values;
    return true;
  }
  if (spec.more != nullptr && !values.empty()) {
    options.*std::get<TextField>(spec.field).member = values.front();
    options.*spec.more = {values.begin() + 1, values.end()};
    return true;
  }
  if (values.size() != 1) return false;
  const std::string& value = values.front();
  if (const IntField* f = std::get_if<IntField>(&spec.field)) return parse_int(value, *f, options.*f->member);
  if (const NumberField* f = std::get_if<NumberField>(&spec.field)) {
    return parse_number(value, *f, options.*f->member);
  }
  if (const ChoiceField* f = std::get_if<ChoiceField>(&spec.field)) {
    const auto word = std::ranges::find(f->words, value);
    if (word == f->words.end()) return false;
    f->set(options, static_cast<size_t>(word - f->words.begin()));
    return true;
  }
  if (const FlagField* f = std::get_if<FlagField>(&spec.field)) {
    if (value != "true" && value != "false") return false;
    options.*f->member = value == "true";
    return true;
  }
  options.*std::get<TextField>(spec.field).member = value;
  return true;
}

std::string value_text(const OptionSpec& spec, const Options& options) {
  if (const IntField* f = std::get_if<IntField>(&spec.field)) {
    const int number = options.*f->member;
    return number == 0 && !f->zero.empty() ? std::string(f->zero) : std::to_string(number);
  }
  if (const NumberField* f = std::get_if<NumberField>(&spec.field)) {
    const std::optional<double>& number = options.*f->member;
    return number ? number_text(*number) : std::string(f->absent);
  }
  if (const ChoiceField* f = std::get_if<ChoiceField>(&spec.field))
    return std::string(f->words[f->get(options)]);
  if (const FlagField* f = std::get_if<FlagField>(&spec.field)) return options.*f->member ? "true" : "false";
  if (const TextField* f = std::get_if<TextField>(&spec.field)) {
    std::string text = options.*f->member;
    if (spec.more != nullptr)
      for (const std::string& value : options.*spec.more) text += ", " + value;
    return spec.sources == Sources::kEnvironmentOnly && !text.empty() ? "(set)" : text;
  }
  std::string joined;
  for (const std::string& value : options.*std::get<ListField>(spec.field).member) {
    joined += (joined.empty() ? "" : ", ") + value;
  }
  return joined;
}

std::span<const ActionSpec> action_table() {
  static const std::vector<ActionSpec> table = {
      {"help", "Show the main options; --help all shows all.", Action::kHelp},
      {"help-all", "", Action::kHelpAll},
      {"version", "Show the version and build of this program, and exit.", Action::kVersion},
      {"healthcheck", "Exit with 0 if the running server is healthy, otherwise with 1. For containers.",
       Action::kHealthcheck},
      {"check-config",
       "Check the options, the key file, the chat template and the header of the model, and print what would "
       "be served. Exit with 0, or with 2 and a sentence about the error. Opens no port and loads no "
       "weights.",
       Action::kCheckConfig},
      {"has-model",
       "Exit with 1 and a sentence if the configuration names no model, otherwise with 0. For start "
       "conditions of service managers.",
       Action::kHasModel},
      {"hash-key",
       "Read an API key from standard input, and print a line for --api-key-file that contains the key's "
       "hash.",
       Action::kHashKey},
      {"help-markdown", "", Action::kHelpMarkdown},
      {"help-toml", "", Action::kHelpToml},
      {"help-man", "", Action::kHelpMan},
      {"help-man-toml", "", Action::kHelpManToml},
      {"help-completion-bash", "", Action::kHelpCompletionBash},
      {"help-completion-zsh", "", Action::kHelpCompletionZsh},
      {"help-completion-fish", "", Action::kHelpCompletionFish},
  };
  return table;
}

}  // namespace hearth
