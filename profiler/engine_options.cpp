// Converts each option of the user to the engine's option.
#include "profiler/engine_options.h"

namespace hearth {
namespace {

DeviceChoice engine_device(Options::Device device) {
  switch (device) {
    case Options::Device::kCpu:
      return DeviceChoice::kCpu;
    case Options::Device::kCuda:
      return DeviceChoice::kCuda;
    case Options::Device::kAuto:
      break;
  }
  return DeviceChoice::kAuto;
}

}  // namespace

std::optional<Isa> engine_isa(Options::Isa isa) {
  switch (isa) {
    case Options::Isa::kScalar:
      return Isa::kScalar;
    case Options::Isa::kAvx2:
      return Isa::kAvx2;
    case Options::Isa::kAvxVnni:
      return Isa::kAvxVnni;
    case Options::Isa::kAvx512Vnni:
      return Isa::kAvx512Vnni;
    case Options::Isa::kAmx:
      return Isa::kAmx;
    case Options::Isa::kNeon:
      return Isa::kNeon;
    case Options::Isa::kNeonDotprod:
      return Isa::kNeonDotprod;
    case Options::Isa::kNeonI8mm:
      return Isa::kNeonI8mm;
    case Options::Isa::kAuto:
      break;
  }
  return std::nullopt;
}

ActivationBits engine_activation_bits(Options::ActivationBits bits) {
  return bits == Options::ActivationBits::k8 ? ActivationBits::k8 : ActivationBits::k15;
}

KvType engine_kv_type(Options::KvType type) {
  return type == Options::KvType::kQ8 ? KvType::kQ8 : KvType::kF16;
}

std::string engine_sparsity(Options::Sparsity sparsity) {
  switch (sparsity) {
    case Options::Sparsity::kExact:
      return std::string(sparsity_name(Sparsity::kExact));
    case Options::Sparsity::kPredicted:
      return std::string(sparsity_name(Sparsity::kPredicted));
    case Options::Sparsity::kCalibrated:
      return std::string(sparsity_name(Sparsity::kCalibrated));
    case Options::Sparsity::kDense:
      return std::string(sparsity_name(Sparsity::kDense));
    case Options::Sparsity::kAuto:
      break;
  }
  return "auto";
}

Options::Sparsity sparsity_option(Sparsity mode) {
  switch (mode) {
    case Sparsity::kExact:
      return Options::Sparsity::kExact;
    case Sparsity::kPredicted:
      return Options::Sparsity::kPredicted;
    case Sparsity::kCalibrated:
      return Options::Sparsity::kCalibrated;
    case Sparsity::kDense:
      break;
  }
  return Options::Sparsity::kDense;
}

uint64_t bytes_of_gib(double gib) { return static_cast<uint64_t>(gib * (1 << 30)); }

DeviceSplit engine_split(Options::Split split) {
  switch (split) {
    case Options::Split::kNeurons:
      return DeviceSplit::kNeurons;
    case Options::Split::kLayers:
      return DeviceSplit::kLayers;
    case Options::Split::kAuto:
      break;
  }
  return DeviceSplit::kAuto;
}

int engine_kv_contexts(int asked) { return asked > 0 ? asked : kKvContextsDecided; }

LoadOptions host_options(const Options& options) {
  LoadOptions load;
  load.n_threads = options.threads;
  load.isa = engine_isa(options.isa);
  load.activation_bits = engine_activation_bits(options.activation_bits);
  load.spread_memory = options.numa == Options::Numa::kInterleave;
  load.prefill_chunk = options.prefill_chunk;
  if (options.ram_budget_gib) load.memory_limit_bytes = bytes_of_gib(*options.ram_budget_gib);
  return load;
}

LoadOptions engine_options(const Options& options) {
  LoadOptions load = host_options(options);
  load.path = options.model;
  load.n_slots = options.slots;
  load.n_kv_contexts = engine_kv_contexts(options.kv_contexts);
  load.context_tokens = options.context;
  load.kv_type = engine_kv_type(options.kv_type);
  load.ffn_activation = options.ffn_activation;
  load.sparsity = {.mode = engine_sparsity(options.sparsity),
                   .predictor_threshold = options.predictor_threshold,
                   .verify_predictor = options.verify_predictor};
  load.device = engine_device(options.device);
  if (options.vram_budget_gib) load.vram_budget_bytes = bytes_of_gib(*options.vram_budget_gib);
  load.split = engine_split(options.split);
  load.fast_prompts = options.prompt_products == Options::PromptProducts::kFast;
  load.verify = options.verify == Options::Verify::kOn;
  load.prefetch = !options.no_prefetch;
  load.prefetch_way = options.prefetch_by == Options::PrefetchBy::kDma ? CopyWay::kDma : CopyWay::kGather;
  load.cpu_share = !options.no_cpu_share;
  load.graphs = !options.no_graphs;
  return load;
}

}  // namespace hearth
