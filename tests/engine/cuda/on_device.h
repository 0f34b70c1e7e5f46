// Small models that run on the device, and their inputs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_runtime.h"
#include "tests/engine/placement/placement_machine.h"
#include "tests/support/changed_model.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::testing {

/// Returns options that load a file of tests/data on the device, with one thread, for a sequence of 64 tokens
/// with at most 32 in a step.
inline LoadOptions device_options(const std::filesystem::path& file, std::string_view mode = "exact") {
  LoadOptions options;
  options.path = std::filesystem::path(source_dir()) / "tests/data" / file;
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 64;
  options.prefill_chunk = 32;
  options.sparsity.mode = mode;
  options.device = DeviceChoice::kCuda;
  options.placement.machine = slow_desktop();
  options.split = DeviceSplit::kNeurons;  // in every mode, so that all of them are tested on shared layers
  return options;
}

/// A model of tests/data/arch with a window of 8 positions and a context of 256, so that the layers with the
/// window have KV blocks of their own.
struct WindowModel {
  explicit WindowModel(const std::string& name) {
    write_changed(std::filesystem::path(source_dir()) / "tests/data/arch" / (name + ".gguf"), path,
                  {{".context_length", kContext}});
  }
  LoadOptions options() const {
    LoadOptions options = device_options(path, "dense");
    options.context_tokens = kContext;
    return options;
  }

  static constexpr int kContext = 256;
  test::TempFolder folder;
  std::filesystem::path path = folder / "model.gguf";
};

/// Returns tokens from all parts of a vocabulary.
inline std::vector<int32_t> spread_tokens(int n, int n_vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((7 + 31 * i) % n_vocab);
  return tokens;
}

}  // namespace hearth::testing
