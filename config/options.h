// What hearthd can be told: one plain struct, whose initialisers are the defaults.
//
// Filled once at start by load_options(); const after that, read by main and handed on in parts. What each
// field is called outside, its range and its help stand in option_table.cpp and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hearth {

struct Options {
  // Model
  std::string model;               // path of a GGUF file; empty: none given
  std::vector<std::string> alias;  // names the model answers to besides its own; "*": any
  std::string chat_template_file;  // empty: the model's own template
  int context = 0;             // tokens of one request, prompt and answer; 0: the model's own, at most 8192
  std::string ffn_activation;  // of a model whose file does not say it; empty: as the file says

  // Server
  std::string host = "127.0.0.1";
  int port = 8080;                       // 0: any free one
  std::vector<std::string> cors_origin;  // empty: pages served from this machine
  int max_body_mib = 16;                 // MiB of one request's body

  // Access
  std::string api_key_file;  // empty: no file
  std::string api_key;       // secret, from the environment only; empty: none

  // Engine
  int slots = 4;            // sequences that run at once
  int queue = 64;           // requests that wait
  int prefill_chunk = 128;  // prompt tokens of one step
  int threads = 0;          // 0: one per physical core
  std::string isa = "auto";

  // Device
  std::string device = "auto";
  std::optional<double> vram_budget_gib;  // not given: what is free
  std::string plan_file;                  // empty: none
  std::optional<double> ram_budget_gib;   // not given: what this machine allows

  // Sparsity
  std::string sparsity = "exact";
  std::optional<double> predictor_threshold;  // not given: the model file's
  std::string profile = "auto";

  // Running
  int drain_seconds = 30;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string trace;   // path of a timeline, written at the end; empty: none
  std::string config;  // path of the TOML file; empty: none
};

}  // namespace hearth
