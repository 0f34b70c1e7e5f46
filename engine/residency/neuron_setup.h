// Sets up the neurons of a model when the model is placed: lays them out for the chosen mode, gives a device
// its share, and measures how many bytes the mode saves.
//
// ModelRuntime calls the stages in order on the loading thread, once each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/forward_pass.h"
#include "engine/model/devices.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "engine/neurons/expert_layout.h"
#include "engine/neurons/expert_slabs.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/neurons/sparsity.h"
#include "engine/residency/expert_exchanger.h"
#include "engine/residency/plan.h"
#include "engine/residency/sparsity_choice.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

/// The inputs of the setup. Everything they refer to must outlive the forward pass.
struct NeuronSetupInputs {
  const ModelFile& file;
  const ModelSpec& spec;
  const Weights& weights;
  const Tokenizer& tokenizer;
  const std::filesystem::path& activity;  // LoadOptions::activity
  Backend& cpu;
  bool has_device = false;  // a device computes some or all layers
  // A device may exchange its experts for others, whose file pages then stay in memory.
  bool exchanges_experts = false;
  int n_threads = 1;
  int max_tokens = 1;            // maximum number of tokens in a step
  int context_tokens = 1;        // positions that the pass supports
  double free_memory_bytes = 0;  // host memory that bundles may use
};

class NeuronSetup {
 public:
  /// The choice must outlive the setup.
  NeuronSetup(const SparsityChoice& choice, const NeuronSetupInputs& inputs);

  /// 1. Determines the neuron order and allocates bundles if they fit in memory. Throws std::bad_alloc.
  void lay_out();

  /// 2. Fills the bundles and gives the device its planned share. plan: null if there is no device. Throws
  ///    ModelFileError if host memory is too small for neurons that must be in bundles, std::bad_alloc, and
  ///    whatever `progress` throws.
  void place(const Devices& devices, const Plan* plan, const std::function<void(double)>& progress);

  /// 3. Sets the pass to the mode and these neurons, and measures the savings on a short text.
  void use(ForwardPass& pass);

  const NeuronLayout& host() const { return layout_; }
  /// The neuron order; empty if the neurons keep the file's order.
  const NeuronLayout::Order& order() const { return bundled_ ? order_ : no_order_; }
  size_t host_bytes() const { return layout_.bytes() + experts_.bytes(); }
  const SparsityReport& report() const { return report_; }
  /// Sentences for the log: which memory was not granted, and the consequences.
  const std::vector<std::string>& notes() const { return notes_; }
  const NeuronLayout& placed() const { return placed_; }
  /// The device's share of each layer [n_layers]. Neurons are numbered in the order of placed(). Empty if
  /// there is no device.
  const std::vector<LayerPlacement>& placements() const { return placements_; }
  /// [n_layers] The experts that the device holds; empty if it holds none.
  std::span<const DeviceExperts> resident_experts() const { return resident_; }
  /// The layers whose experts a device may exchange (see exchangeable_layers() in expert_exchanger.h); none
  /// if exchanges are off, or if the experts in host memory are not page-locked. The returned layers refer to
  /// this object.
  std::vector<ExpertExchanger::Layer> exchangeable_layers(const KnownExpertUse& use);

 private:
  void copy_experts();
  void fit_layout(const Plan& plan, std::vector<LayerPlacement>& placements);
  void share_layer(int layer, const LayerPlacement& placement, ComputeDevice& device);
  std::span<const Expert> host_experts(int layer) const;
  void pin_missing_experts(ComputeDevice& device);
  void copy_resident_experts(ComputeDevice& device, const std::function<void(double)>& progress);

  const NeuronSetupInputs in_;
  const SparsityChoice& choice_;
  bool bundled_ = false;  // layout_ holds the neurons in bundles, in the order order_
  BundleParts parts_;
  NeuronLayout layout_;                  // in host memory
  NeuronLayout placed_;                  // the layout that the pass reads
  ExpertLayout experts_;                 // the experts of a mixture in exact mode; otherwise empty
  std::vector<ExpertSlabs> slabs_;       // [n_layers], or empty
  std::vector<DeviceExperts> resident_;  // views of slabs_
  std::vector<LayerPlacement> placements_;
  NeuronLayout::Order order_, no_order_;
  SparsityReport report_;
  std::vector<std::string> notes_;
  bool experts_pinned_ = false;  // the experts of partly resident layers are page-locked
  size_t unpinned_bytes_ = 0;
};

}  // namespace hearth
