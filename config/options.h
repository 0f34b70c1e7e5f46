// All options of hearthd and hearth-profiler about a model, a machine and a server, in one plain struct. Its
// initializers are the defaults.
//
// The struct is filled once at start: for hearthd by read_invocation(), for each subcommand of
// hearth-profiler by add_options(). It does not change after that. main reads it and passes parts of it on.
// The name, range, words and help of each field are only in option_table.cpp. This file does not include any
// file of the engine; profiler/engine_options.h converts these enums to the engine's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hearth {

struct Options {
  // Options whose values are words. The enumerators are in the order of the words in option_table.cpp.
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
  enum class Speculate : uint8_t { kOff, kText, kAuto };
  enum class Page : uint8_t { kOff, kOn };
  enum class Verify : uint8_t { kOff, kOn };
  enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };
  enum class LogFormat : uint8_t { kText, kJson };
  enum class Sandbox : uint8_t { kAuto, kOn, kOff };
  enum class Split : uint8_t { kAuto, kNeurons, kLayers };
  enum class Placement : uint8_t { kNeutral, kSolved };
  enum class PrefetchBy : uint8_t { kGather, kDma };
  enum class PromptProducts : uint8_t { kExact, kFast };

  // Model
  std::string model;  // path of a GGUF file, or a model's name (server/models/); empty if not given
  std::vector<std::string> more_models;  // the other models, if --model was given several times
  std::string models_folder;             // folder whose models are all served; empty: none
  std::vector<std::string> pin;          // names of models that stay loaded when others need memory
  std::vector<std::string> alias;        // additional names for the first model; "*" accepts any name
  std::string chat_template_file;        // empty: the template in the model file
  int context = 0;  // maximum tokens per request, prompt + answer; 0: the model's limit, at most 8192
  std::string ffn_activation;  // activation of the FFN; empty: the one that belongs to the model file
  std::string models;          // folder of pulled models; empty: `models` in the cache folder
  std::string endpoint;        // URL of the hub from which models are pulled; empty: Hugging Face

  // Embeddings
  std::string embedding_model;               // path of a GGUF file; empty: the served model embeds texts
  std::vector<std::string> embedding_alias;  // additional names for the embedding model
  int embedding_context = 0;                 // maximum tokens of one text; 0: the model's limit, at most 8192

  // Server
  std::string host = "127.0.0.1";
  int port = 8080;                       // 0: any free port
  std::string tls_cert, tls_key;         // PEM files of both ports; empty: HTTP without TLS
  int metrics_port = 0;                  // a second port for /metrics and health checks; 0: no second port
  std::vector<std::string> cors_origin;  // empty: pages served from this machine
  int max_body_mib = 16;                 // MiB of one request's body
  Page page = Page::kOn;
  int keepalive_seconds = 0;  // silence after which an unstreamed answer gets a blank line; 0: never

  // Access
  std::string api_key_file;                // empty: no file
  std::string api_key;                     // secret, from the environment only; empty: no key
  std::vector<std::string> allowed_host;   // empty: any name, but on loopback only this machine's names
  std::vector<std::string> trusted_proxy;  // addresses and networks whose X-Forwarded-For header is trusted

  // Engine
  int slots = 4;               // sequences that run at once
  int kv_contexts = 0;         // contexts whose keys and values are in memory at once; 0: chosen at load
  int queue = 512;             // requests that may wait for a slot
  int max_tokens_default = 0;  // default for the maximum tokens of a chat answer; 0: the rest of the context
  int reasoning_budget = -1;   // tokens of thinking of chats that set no limit; -1: no limit
  int prefill_chunk = 0;       // prompt tokens of one step; 0: chosen for the model and the machine
  Speculate speculate = Speculate::kAuto;
  int draft_tokens = 32;    // longest draft in tokens
  std::string draft_model;  // path of the draft model's GGUF file; empty: no draft model
  int threads = 0;          // 0: one thread per physical core
  Isa isa = Isa::kAuto;
  ActivationBits activation_bits = ActivationBits::k15;
  KvType kv_type = KvType::kF16;
  std::optional<double> cache_gib;  // limit for prefixes on disk; not given or 0: none are kept there
  std::string cache_dir;            // folder of these prefixes; empty: `prefixes` in the cache folder
  Numa numa = Numa::kInterleave;

  // Device
  Device device = Device::kAuto;
  std::optional<double> vram_budget_gib;  // not given: the free memory
  PromptProducts prompt_products = PromptProducts::kExact;
  std::string plan_file;  // empty: no plan
  Verify verify = Verify::kOff;
  std::optional<double> ram_budget_gib;  // not given: the limit of this machine

  // Sparsity
  Sparsity sparsity = Sparsity::kExact;
  std::optional<double> predictor_threshold;  // not given: the value in the model file
  Profile profile = Profile::kAuto;

  // Running
  std::optional<double> idle_unload_minutes;  // time until an idle model is unloaded; not given: never
  int drain_seconds = 30;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  std::string log_file;  // empty: standard error
  Sandbox sandbox = Sandbox::kAuto;
  std::string trace;         // path of the timeline that is written at the end; empty: no timeline
  std::string expert_trace;  // path of the trace of served tokens' experts; empty: no trace
  std::string config;        // path of the TOML file; empty: no file

  // Only hearth-profiler has these options. They switch parts of the GPU's work on and off, to measure how
  // much speed each part gains.
  bool verify_predictor = false;
  Split split = Split::kAuto;
  Placement placement = Placement::kNeutral;
  PrefetchBy prefetch_by = PrefetchBy::kGather;
  bool no_prefetch = false, no_cpu_share = false, no_graphs = false;
};

}  // namespace hearth
