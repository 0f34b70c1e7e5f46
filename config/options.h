// All options of hearthd and hearth-profiler about a model, a machine and a server, as one plain struct whose
// initializers are the defaults.
//
// Filled once at start: for hearthd by read_invocation(), for each subcommand of hearth-profiler by
// add_options(). Constant after that; main reads it and passes parts of it on. Only option_table.cpp has the
// name, range, words and help of each field. This file includes nothing of the engine;
// profiler/engine_options.h maps these enums to the engine's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

struct Options {
  // Values that are words. Enumerators stand in the order of the words in option_table.cpp.
  enum class Isa : uint8_t {
    kAuto,
    kScalar,
    kAvx2,
    kAvxVnni,
    kAvx512Vnni,
    kAmx,
    kNeon,
    kNeonDotprod,
    kNeonI8mm
  };
  enum class ActivationBits : uint8_t { k15, k8 };
  enum class KvType : uint8_t { kF16, kQ8 };
  enum class Numa : uint8_t { kInterleave, kOff };
  enum class Device : uint8_t { kAuto, kCpu, kCuda };
  enum class Sparsity : uint8_t { kAuto, kExact, kPredicted, kCalibrated, kDense };
  enum class Profile : uint8_t { kAuto, kOnline, kOff };
  enum class Speculate : uint8_t { kOff, kAuto };
  enum class Page : uint8_t { kOff, kOn };
  enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };
  enum class LogFormat : uint8_t { kText, kJson };
  enum class Sandbox : uint8_t { kAuto, kOn, kOff };
  enum class Split : uint8_t { kAuto, kNeurons, kLayers };
  enum class Placement : uint8_t { kNeutral, kSolved };
  enum class PrefetchBy : uint8_t { kGather, kDma };
  enum class PromptProducts : uint8_t { kExact, kFast };

  // Model
  std::string model;  // path of a GGUF file, or a name of one (server/models/); empty: none given
  std::vector<std::string> alias;  // names the model answers to besides its own; "*": any
  std::string chat_template_file;  // empty: the model's own template
  int context = 0;             // tokens of one request, prompt and answer; 0: the model's own, at most 8192
  std::string ffn_activation;  // the FFN's activation, if the file does not name it; empty: the file's
  std::string models;          // folder of pulled models; empty: models in the cache folder
  std::string endpoint;        // URL of the hub that models are pulled from; empty: Hugging Face

  // Embeddings
  std::string embedding_model;               // path of a second GGUF file; empty: the model embeds
  std::vector<std::string> embedding_alias;  // names it answers to besides its own
  int embedding_context = 0;                 // tokens of one text; 0: the model's own, at most 8192

  // Server
  std::string host = "127.0.0.1";
  int port = 8080;                       // 0: any free one
  int metrics_port = 0;                  // a second port for /metrics and health checks; 0: none
  std::vector<std::string> cors_origin;  // empty: pages served from this machine
  int max_body_mib = 16;                 // MiB of one request's body
  Page page = Page::kOn;
  int keepalive_seconds = 0;  // seconds of silence until an unstreamed answer gets a blank line; 0: never

  // Access
  std::string api_key_file;                // empty: no file
  std::string api_key;                     // secret, from the environment only; empty: none
  std::vector<std::string> allowed_host;   // empty: names of this machine, if the server listens on loopback
  std::vector<std::string> trusted_proxy;  // addresses and networks whose X-Forwarded-For is believed

  // Engine
  int slots = 4;               // sequences that run at once
  int kv_contexts = 0;         // contexts whose keys and values are in memory at once; 0: decided at load
  int queue = 512;             // requests that may wait for a slot
  int max_tokens_default = 0;  // limit for chat requests that set none; 0: what the context leaves
  int prefill_chunk = 0;       // prompt tokens of one step; 0: chosen for model and machine
  Speculate speculate = Speculate::kAuto;
  int draft_tokens = 32;    // most tokens of one draft
  std::string draft_model;  // path of a second GGUF file; empty: none
  int threads = 0;          // 0: one per physical core
  Isa isa = Isa::kAuto;
  ActivationBits activation_bits = ActivationBits::k15;
  KvType kv_type = KvType::kF16;
  Numa numa = Numa::kInterleave;

  // Device
  Device device = Device::kAuto;
  std::optional<double> vram_budget_gib;  // not given: the memory that is free
  PromptProducts prompt_products = PromptProducts::kExact;
  std::string plan_file;                 // empty: none
  std::optional<double> ram_budget_gib;  // not given: what this machine allows

  // Sparsity
  Sparsity sparsity = Sparsity::kExact;
  std::optional<double> predictor_threshold;  // not given: the model file's
  Profile profile = Profile::kAuto;

  // Running
  std::optional<double>
      idle_unload_minutes;  // minutes without a request after which the model is unloaded; not given: never
  int drain_seconds = 30;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  std::string log_file;  // empty: standard error
  Sandbox sandbox = Sandbox::kAuto;
  std::string trace;   // path of a timeline, written at the end; empty: none
  std::string config;  // path of the TOML file; empty: none

  // Only hearth-profiler has these. They switch parts of the GPU's work on and off, to measure how much each
  // part gains.
  bool verify_predictor = false;
  Split split = Split::kAuto;
  Placement placement = Placement::kNeutral;
  PrefetchBy prefetch_by = PrefetchBy::kGather;
  bool no_prefetch = false, no_cpu_share = false, no_graphs = false;
};

}  // namespace hearth
