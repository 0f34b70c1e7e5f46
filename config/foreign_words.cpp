// See the header.
#include "config/foreign_words.h"

#include <array>
#include <span>

namespace hearth {
namespace {

struct Advice {
  std::string_view word, text;
};

constexpr std::string_view kContext = "the number of tokens of a request is --context N (-c N)";
constexpr std::string_view kPlacement =
    "hearthd decides by itself what lies in VRAM; --vram-budget GIB limits it, and --device cpu uses no GPU";
constexpr std::string_view kBatch = "the prompt tokens of a step are --prefill-chunk N";
constexpr std::string_view kSlots = "the number of requests that run at once is --slots N";
constexpr std::string_view kSampling = "each request sets its own sampling, as in {\"temperature\": 0.7}";
constexpr std::string_view kKvType = "the type of the KV cache is --kv-type f16 or --kv-type q8_0";
constexpr std::string_view kAlways = "hearthd always does this, so leave the flag out";
constexpr std::string_view kPulled = "a model of the hub is --model hf:OWNER/REPO[:QUANT]";
constexpr std::string_view kDraft = "the draft model is --draft-model FILE";
constexpr std::string_view kDraftTokens = "the longest draft is --draft-tokens N";
constexpr std::string_view kNoLora =
    "hearthd does not apply adapters; merge the adapter into the model first";
constexpr std::string_view kNoImages = "hearthd does not read images yet";
constexpr std::string_view kPages = "model files are always mapped into memory";
constexpr std::string_view kOneGpu = "hearthd uses one GPU";
constexpr std::string_view kAlias = "another name for the model is --alias NAME";
constexpr std::string_view kPlain = "the page at / is switched off by --page off";
constexpr std::string_view kThinking =
    "requests choose whether the model thinks; --reasoning-budget N limits it for all";

constexpr auto kFlags = std::to_array<Advice>({
    {"--ctx-size", kContext},
    {"--n-ctx", kContext},
    {"--max-model-len", kContext},
    {"-ngl", kPlacement},
    {"--gpu-layers", kPlacement},
    {"--n-gpu-layers", kPlacement},
    {"--num-gpu", kPlacement},
    {"-ncmoe", kPlacement},
    {"--n-cpu-moe", kPlacement},
    {"-cmoe", kPlacement},
    {"--cpu-moe", kPlacement},
    {"-ot", kPlacement},
    {"--override-tensor", kPlacement},
    {"--fit", kPlacement},
    {"--gpu-memory-utilization", kPlacement},
    {"-ts", kOneGpu},
    {"--tensor-split", kOneGpu},
    {"-mg", kOneGpu},
    {"--main-gpu", kOneGpu},
    {"-sm", kOneGpu},
    {"--split-mode", kOneGpu},
    {"--tensor-parallel-size", kOneGpu},
    {"-b", kBatch},
    {"--batch-size", kBatch},
    {"-ub", kBatch},
    {"--ubatch-size", kBatch},
    {"-np", kSlots},
    {"--parallel", kSlots},
    {"--max-num-seqs", kSlots},
    {"-tb", "one number of threads serves prompts and answers: --threads N (-t N)"},
    {"--threads-batch", "one number of threads serves prompts and answers: --threads N (-t N)"},
    {"-n", "the default length of an answer is --max-tokens-default N"},
    {"--predict", "the default length of an answer is --max-tokens-default N"},
    {"--n-predict", "the default length of an answer is --max-tokens-default N"},
    {"-fa", kAlways},
    {"--flash-attn", kAlways},
    {"--jinja", kAlways},
    {"-cb", kAlways},
    {"--cont-batching", kAlways},
    {"--metrics", "metrics are always at /metrics"},
    {"--props", kAlways},
    {"--embedding", "embeddings are always at /v1/embeddings"},
    {"--embeddings", "embeddings are always at /v1/embeddings"},
    {"--rerank", "a reranking model answers at /v1/rerank without a flag"},
    {"--reranking", "a reranking model answers at /v1/rerank without a flag"},
    {"--warmup", kAlways},
    {"-hf", kPulled},
    {"-hfr", kPulled},
    {"--hf-repo", kPulled},
    {"-mu", "the URL of a GGUF file goes after --model"},
    {"--model-url", "the URL of a GGUF file goes after --model"},
    {"--models-dir", "the folder of the models that are served is --models-folder FOLDER"},
    {"--models-max", "the memory of all models is limited by --ram-budget GIB"},
    {"-ctk", kKvType},
    {"-ctv", kKvType},
    {"--cache-type-k", kKvType},
    {"--cache-type-v", kKvType},
    {"--kv-cache-dtype", kKvType},
    {"--cache-ram", "prefixes on disk are --cache-gib GIB; those in memory need no flag"},
    {"--cache-reuse", kAlways},
    {"--enable-prefix-caching", kAlways},
    {"--slot-save-path", "prefixes on disk are --cache-gib GIB and --cache-dir FOLDER"},
    {"--mlock", kPages},
    {"--mmap", kPages},
    {"--no-mmap", kPages},
    {"-md", kDraft},
    {"--model-draft", kDraft},
    {"--draft", kDraftTokens},
    {"--draft-max", kDraftTokens},
    {"--draft-n", kDraftTokens},
    {"-a", kAlias},
    {"--served-model-name", kAlias},
    {"--no-webui", kPlain},
    {"--no-ui", kPlain},
    {"--ssl-cert-file", "the certificate is --tls-cert FILE"},
    {"--ssl-key-file", "the certificate's key is --tls-key FILE"},
    {"--sleep-idle-seconds", "an idle model is unloaded after --idle-unload MINUTES"},
    {"--reasoning", kThinking},
    {"--reasoning-format", kThinking},
    {"-rea", kThinking},
    {"--lora", kNoLora},
    {"--lora-scaled", kNoLora},
    {"-mm", kNoImages},
    {"--mmproj", kNoImages},
    {"--temp", kSampling},
    {"--temperature", kSampling},
    {"--top-k", kSampling},
    {"--top-p", kSampling},
    {"--min-p", kSampling},
    {"--repeat-penalty", kSampling},
    {"-s", kSampling},
    {"--seed", kSampling},
    {"-v", "more lines of the log are --log-level debug"},
    {"--verbose", "more lines of the log are --log-level debug"},
    {"-lv", "more lines of the log are --log-level debug"},
    {"--log-disable", "fewer lines of the log are --log-level error"},
    {"-V", "the version is --version"},
});

constexpr auto kCommands = std::to_array<Advice>({
    {"ls", "the models on this machine are 'hearthd list'"},
    {"ps", "the models that a server has loaded are at /v1/models"},
    {"start", "a model is served by 'hearthd MODEL'"},
    {"server", "a model is served by 'hearthd MODEL'"},
    {"chat", "a chat in the terminal is 'hearthd run MODEL'"},
    {"cli", "a chat in the terminal is 'hearthd run MODEL'"},
    {"stop", "Ctrl-C or SIGTERM ends a server, and --idle-unload MINUTES unloads an idle model"},
    {"create", "a GGUF file needs no import: 'hearthd FILE.gguf' serves it"},
    {"import", "a GGUF file needs no import: 'hearthd FILE.gguf' serves it"},
    {"push", "hearthd uploads nothing"},
    {"cp", "another name for a model is --alias NAME"},
    {"delete", "'hearthd rm NAME' deletes a model"},
    {"remove", "'hearthd rm NAME' deletes a model"},
    {"download", "'hearthd pull MODEL' downloads a model"},
    {"get", "'hearthd pull MODEL' downloads a model"},
    {"search", "'hearthd list --known' shows models to pull"},
    {"launch", "'hearthd connect claude-code' prints the configuration of an agent"},
    {"bench", "'hearth-profiler bench --model MODEL' measures a model"},
    {"quantize", "'hearth-profiler quantize' does this"},
    {"convert", "'hearth-profiler convert' does this"},
    {"help", "'hearthd --help' shows the options"},
    {"version", "the version is 'hearthd --version'"},
});

std::string_view find(std::span<const Advice> table, std::string_view word) {
  for (const Advice& advice : table) {
    if (advice.word == word) return advice.text;
  }
  return {};
}

}  // namespace

std::string_view advice_for_flag(std::string_view flag) { return find(kFlags, flag); }

std::string_view advice_for_command(std::string_view word) { return find(kCommands, word); }

std::vector<std::string_view> all_advice() {
  std::vector<std::string_view> all;
  for (const Advice& advice : kFlags) all.push_back(advice.text);
  for (const Advice& advice : kCommands) all.push_back(advice.text);
  return all;
}

}  // namespace hearth
