// The neurons of a model while it is placed: lay them out for the mode that was chosen, give a device its share,
// measure what is saved.
//
// ModelRuntime calls the stages in order on the loading thread, each once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/forward/devices.h"
#include "engine/forward/forward_pass.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/residency/neuron_layout.h"
#include "engine/residency/plan.h"
#include "engine/residency/sparsity.h"
#include "engine/residency/sparsity_choice.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

/// What the setup works on; all of it outlives the pass.
struct NeuronSetupInputs {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
  const Tokenizer& tokenizer;
  const std::filesystem::path& activity;  // LoadOptions::activity
  Backend& cpu;
  bool has_device = false;  // a device computes some or all layers
  int n_threads = 1;
  int max_tokens = 1;            // of one step of the pass
  int context_tokens = 1;        // positions the pass can take
  double free_memory_bytes = 0;  // of the host, that bundles may take
};

class NeuronSetup {
 public:
  /// The choice outlives the setup.
  NeuronSetup(const SparsityChoice& choice, const NeuronSetupInputs& inputs);

  /// 1. Finds the neurons' order and allocates bundles for them, if they fit. Throws std::bad_alloc.
  void lay_out();

  /// 2. Fills the bundles and gives the device what the plan says (null: there is no device). Throws
  /// ModelFileError if the host has no memory for neurons that must be in bundles, std::bad_alloc, and what
  /// progress throws.
  void place(const Devices& devices, const Plan* plan, const std::function<void(double)>& progress);

  /// 3. Sets the pass to the mode and these neurons, and measures on a short text what that saves.
  void use(ForwardPass& pass);

  const NeuronLayout& host() const { return layout_; }
  /// Where neurons lie in another order than the file's: that order; else empty.
  const NeuronLayout::Order& order() const { return bundled_ ? order_ : no_order_; }
  size_t host_bytes() const { return layout_.bytes(); }
  const SparsityReport& report() const { return report_; }
  /// Sentences about memory that was not granted, and what that costs.
  const std::vector<std::string>& notes() const { return notes_; }
  const NeuronLayout& placed() const { return placed_; }
  /// What the device has got of each layer [n_layers], its neurons as placed() numbers them; empty: no
  /// device.
  const std::vector<LayerPlacement>& placements() const { return placements_; }

 private:
  void fit_layout(const Plan& plan, std::vector<LayerPlacement>& placements);
  void share_layer(int layer, const LayerPlacement& placement, ComputeDevice& device);

  const NeuronSetupInputs in_;
  const SparsityChoice& choice_;
  bool bundled_ = false;  // layout_ is bundles, in order_
  BundleParts parts_;
  NeuronLayout layout_;  // in host memory
  NeuronLayout placed_;  // what the pass reads
  std::vector<LayerPlacement> placements_;
  NeuronLayout::Order order_, no_order_;
  SparsityReport report_;
  std::vector<std::string> notes_;
  size_t unpinned_bytes_ = 0;
};

}  // namespace hearth
