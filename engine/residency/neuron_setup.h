// The neurons of a model while it is loaded: decide how its FFN is run, lay its neurons out for that, give a
// device its share, measure what is saved.
//
// The stages are called in order by ModelRuntime::load on the loading thread, each once.
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
  /// 1. What was asked for, as far as the model can do it. Throws ModelFileError or std::invalid_argument
  /// (one sentence).
  NeuronSetup(const SparsityRequest& request, const NeuronSetupInputs& inputs);

  /// 2. "auto": measured on the neurons as they lie in the file. Does nothing for other requests, or where a
  /// device computes (exact is taken then).
  void choose(ForwardPass& pass);

  /// 3. Where neurons will be read from: finds their order, makes places for bundles. Throws ModelFileError
  /// where bundles must be and do not fit, std::bad_alloc.
  void lay_out();

  /// 4. Fills the bundles and gives the device what the plan says (null: there is none). Throws
  /// std::bad_alloc, and what progress throws.
  void place(const Devices& devices, const Plan* plan, const std::function<void(double)>& progress);

  /// 5. Sets the pass to it, and measures what it saves on a short text.
  void use(ForwardPass& pass);

  Sparsity mode() const { return report_.mode; }
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
  Sparsity choose_by_bytes(ForwardPass& pass);
  void fit_layout(const Plan& plan, std::vector<LayerPlacement>& placements);
  void share_layer(int layer, const LayerPlacement& placement, ComputeDevice& device);

  const NeuronSetupInputs in_;
  const bool verify_asked_;
  bool compare_ = false;
  bool bundled_ = false;  // layout_ is bundles, in order_
  BundleParts parts_;
  FfnMode mode_;
  NeuronLayout layout_;  // in host memory
  NeuronLayout placed_;  // what the pass reads
  std::vector<LayerPlacement> placements_;
  NeuronLayout::Order order_, no_order_;
  SparsityReport report_;
  std::vector<std::string> notes_;
  size_t unpinned_bytes_ = 0;
};

}  // namespace hearth
