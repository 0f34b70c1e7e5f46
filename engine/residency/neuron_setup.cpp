// See the header.
#include "engine/residency/neuron_setup.h"

#include <algorithm>

#include "engine/activity/activity_profile.h"
#include "engine/forward/streamed_layers.h"
#include "engine/model/gguf/mapped_file.h"
#include "engine/residency/memory_limit.h"
#include "engine/residency/sparsity_choice.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

/// Returns the neurons of every layer in order of falling activity, if there is an activity file; empty
/// otherwise.
NeuronLayout::Order find_order(const NeuronSetupInputs& in, std::vector<std::string>& notes) {
  NeuronLayout::Order order;
  if (!in.weights.has_down_rows()) return order;  // in a plain file, scales belong to groups of neurons
  const ActivitySearch search{.file = in.activity, .model = [&in] { return identify(in.file, in.spec); }};
  FoundActivity found = find_activity(in.file.path(), in.spec.n_layers, in.spec.d_ff, search);
  if (!found.sentence.empty()) notes.push_back(found.sentence);
  if (!found.profile) return order;
  for (int i = 0; i < in.spec.n_layers; ++i) order.push_back(found.profile->hottest_first(i));
  return order;
}

/// Releases the file pages of a matrix, which may be null.
void release_rows(const Matrix& in_file) {
  if (in_file) gguf::release({in_file.data, in_file.bytes()});
}

/// Releases the file pages of the layer's matrices that `layout` has copied.
void release_copied(const NeuronSetupInputs& in, const NeuronLayout& layout, int layer) {
  const auto release = [](const Matrix& in_file, const Matrix& used) {
    if (in_file.data != used.data) release_rows(in_file);
  };
  const LayerWeights& file = in.weights.layers[static_cast<size_t>(layer)];
  const NeuronLayer& laid_out = layout.layer(layer);
  const FfnNeurons& used = laid_out.ffn;
  release(in.spec.gated ? file.gate.weight : file.up.weight, used.gate);
  if (in.spec.gated) release(file.up.weight, used.up);
  release(file.down.weight, used.down.rows);
  release(file.down_rows.weight, used.down.rows);
  if (laid_out.predictor_out) release(file.predictor_out, laid_out.predictor_out);
}

}  // namespace

NeuronSetup::NeuronSetup(const SparsityChoice& choice, const NeuronSetupInputs& inputs)
    : in_(inputs), choice_(choice), layout_(NeuronLayout::in_file(in_.spec, in_.weights)) {
  report_.mode = choice.mode;
  report_.reason = choice.reason;
  report_.predictor_threshold = choice.predictor_threshold;
  report_.notes = choice.notes;
}

/// Allocates bundles if there is enough memory. Otherwise neurons are read from the file; choose_sparsity()
/// has checked that this is possible.
void NeuronSetup::lay_out() {
  // On the CPU, a dense run reads the rows in the file. With a device, neurons may be shared, and shared
  // neurons need bundles. Mixtures of experts need no bundles, because a device holds whole experts only.
  if (in_.spec.has_experts()) return copy_experts();
  if (choice_.mode == Sparsity::kDense && !in_.has_device) return;
  order_ = find_order(in_, report_.notes);
  // In exact mode, assume that the device has all gate rows and finds the active neurons, so that the CPU's
  // bundles need no gate rows. If this turns out to be wrong, fit_layout() changes the bundles.
  const bool gates_apart = !in_.has_device || choice_.mode == Sparsity::kExact;
  parts_ = bundle_parts(choice_.mode, gates_apart);
  const double bytes = NeuronLayout::bundle_bytes(in_.spec, in_.weights, parts_, order_);
  if (bytes <= in_.free_memory_bytes || in_.has_device) {
    layout_ = NeuronLayout::in_bundles(in_.spec, in_.weights, parts_, order_, in_.cpu);
    bundled_ = true;
    return;
  }
  report_.notes.push_back("neurons keep the file's order: grouping them in memory would take " +
                          bytes_text(bytes) + ", and " + bytes_text(std::max(in_.free_memory_bytes, 0.0)) +
                          " are free");
}

/// In exact mode, copies the experts' down projections, one row per neuron. In all other modes, experts are
/// read from the file.
void NeuronSetup::copy_experts() {
  if (choice_.mode != Sparsity::kExact) return;
  experts_ = ExpertLayout(in_.weights, in_.cpu);
  report_.notes.push_back("the experts' down projections were copied, a row for each neuron: " +
                          bytes_text(static_cast<double>(experts_.bytes())) +
                          "; the copies are used instead of the file");
}

void NeuronSetup::place(const Devices& devices, const Plan* plan,
                        const std::function<void(double)>& progress) {
  // 1. Lay the neurons out as planned: as in the file, or in bundles that may include the gates.
  if (plan != nullptr) {
    placements_ = plan->layers;
    fit_layout(*plan, placements_);
  }
  // 2. Fill bundles layer by layer, and copy each layer to the device as soon as it is filled. Bundles of
  //    neurons that the device holds permanently are freed before the next layers are filled.
  const auto placed = [&](int layer) {
    const NeuronLayer& host = layout_.layer(layer);
    if (!devices.on_device(layer)) {
      placed_.add(host);
    } else if (in_.spec.has_experts() || !host.ffn.gate || (!bundled_ && host.dense_down.weight)) {
      placed_.add_whole(host, devices.device()->backend());
    } else {
      share_layer(layer, placements_[static_cast<size_t>(layer)], *devices.device());
    }
    if (bundled_) release_copied(in_, layout_, layer);
  };
  if (bundled_) {
    layout_.fill(in_.spec, in_.weights, parts_, order_, in_.n_threads, progress, placed);
  } else {
    for (int i = 0; i < in_.spec.n_layers; ++i) placed(i);
  }
  if (!experts_.empty()) experts_.fill(in_.n_threads, progress);
  if (devices.device() != nullptr) copy_resident_experts(*devices.device(), progress);
  if (!resident_.empty() && plan->stream_bytes > 0) pin_missing_experts(*devices.device());
  if (unpinned_bytes_ > 0) {
    notes_.push_back(
        bytes_text(static_cast<double>(unpinned_bytes_)) +
        " of cold neurons could not be page-locked (a container's memlock limit, or too little "
        "memory), so they are copied to the GPU through a smaller buffer: prompts and prefetching "
        "are slower. Raise the limit (ulimit -l unlimited; in Compose, ulimits: memlock: -1)");
  }
}

/// Chooses between bundles and views of the file for the neurons of the device's layers. Uses views if a
/// dense run shares no layer, or if host memory is too small for the neurons that the device does not hold.
void NeuronSetup::fit_layout(const Plan& plan, std::vector<LayerPlacement>& placements) {
  if (takes_file_views(choice_.mode, plan.shares)) {
    layout_ = NeuronLayout::in_file(in_.spec, in_.weights);
    bundled_ = false;
    return;
  }
  if (choice_.mode == Sparsity::kCalibrated && !plan.shares) {
    // If no layer is shared, matrix products read the gate and up rows from the file, so bundles do not need
    // them.
    parts_ = bundle_parts(choice_.mode);
    layout_ = NeuronLayout::in_bundles(in_.spec, in_.weights, parts_, order_, in_.cpu);
  }
  const bool gates_on_device =
      std::ranges::all_of(placements, [](const LayerPlacement& layer) { return layer.all_gates; });
  if (choice_.mode == Sparsity::kExact && plan.shares && !gates_on_device) {
    parts_ = bundle_parts(choice_.mode, /*gates_apart=*/false);
    layout_ = NeuronLayout::in_bundles(in_.spec, in_.weights, parts_, order_, in_.cpu);
  }
  double needed = 0;
  for (int i = 0; i < in_.spec.n_layers; ++i) {
    const double hot = static_cast<double>(placements[static_cast<size_t>(i)].hot.size()) / in_.spec.d_ff;
    needed += (1 - hot) * static_cast<double>(layout_.kept(i).size());
  }
  if (needed <= in_.free_memory_bytes) return;
  const std::string why =
      bytes_text(needed) + ", and " + bytes_text(std::max(in_.free_memory_bytes, 0.0)) + " are free";
  if (!in_.weights.has_down_rows() || choice_.mode == Sparsity::kCalibrated) {
    file_error::fail(
        file_error::file_label(in_.file.path().string()),
        "the neurons that the GPU does not hold need " + why +
            "; give the GPU more (--vram-budget), take a smaller context or fewer contexts (--kv-contexts), "
            "or run on the CPU (--device cpu --sparsity dense), which reads the file in place");
  }
  notes_.push_back("cold neurons are read from the file when they are needed: in memory they would take " +
                   why);
  for (size_t i = 0; i < placements.size() && !order_.empty(); ++i) {
    for (std::vector<int32_t>* list : {&placements[i].hot, &placements[i].cached}) {
      for (int32_t& neuron : *list) neuron = order_[i][static_cast<size_t>(neuron)];
      std::ranges::sort(*list);
    }
  }
  layout_ = NeuronLayout::in_file(in_.spec, in_.weights);
  bundled_ = false;
}

void NeuronSetup::share_layer(int layer, const LayerPlacement& placement, ComputeDevice& device) {
  NeuronLayer host = layout_.layer(layer);
  if (choice_.mode != Sparsity::kPredicted) host.predictor_out = {};
  placed_.add_shared(host, placement, device.backend());
  HybridLayer* hybrid = placed_.hybrid(layer);
  if (!bundled_) return;
  // The host does not need the first neurons of a layer if the device holds them.
  int64_t n_first = 0;
  while (n_first < static_cast<int64_t>(placement.hot.size()) &&
         placement.hot[static_cast<size_t>(n_first)] == n_first) {
    ++n_first;
  }
  layout_.give_back(layer, n_first);
  if (hybrid == nullptr) return;
  hybrid->first_on_host = n_first;
  const std::span<const std::byte> kept = layout_.kept(layer);
  hybrid->host_pinned = device.hybrid_ffn().pin(kept.data(), kept.size());
  if (!hybrid->host_pinned) unpinned_bytes_ += kept.size();
}

/// Copies the experts that the plan gives to the device, and releases their file pages.
void NeuronSetup::copy_resident_experts(ComputeDevice& device, const std::function<void(double)>& progress) {
  const auto mixture_of = [&](size_t layer) -> const MixtureWeights& {
    return in_.weights.layers[layer].mixture;
  };
  size_t all = 0, copied = 0;
  for (size_t i = 0; i < placements_.size(); ++i) {
    const size_t n = placements_[i].experts.size();
    if (n > 0) all += n * slot_bytes(mixture_of(i), choice_.mode);
  }
  if (all == 0) return;
  const auto advance = [&](size_t bytes) {
    copied += bytes;
    if (progress) progress(static_cast<double>(copied) / static_cast<double>(all));
  };
  for (size_t i = 0; i < placements_.size(); ++i) {
    const std::vector<int32_t>& experts = placements_[i].experts;
    slabs_.emplace_back(mixture_of(i), experts, static_cast<int>(experts.size()), device.backend(),
                        choice_.mode);
    slabs_.back().fill(host_experts(static_cast<int>(i)), device, advance);
    resident_.push_back(slabs_.back().view());
    if (in_.exchanges_experts && experts.size() < mixture_of(i).experts.size()) continue;
    for (const int32_t e : experts) {
      const Expert& expert = mixture_of(i).experts[static_cast<size_t>(e)];
      for (const Matrix& matrix : {expert.gate, expert.up, expert.down}) release_rows(matrix);
    }
  }
}

/// The layer's experts as the CPU reads them.
std::span<const Expert> NeuronSetup::host_experts(int layer) const {
  if (!experts_.empty()) return experts_.experts(layer);
  return in_.weights.layers[static_cast<size_t>(layer)].mixture.experts;
}

std::vector<ExpertExchanger::Layer> NeuronSetup::exchangeable_layers(const KnownExpertUse& use) {
  if (!in_.exchanges_experts || !experts_pinned_) return {};
  return hearth::exchangeable_layers([this](int layer) { return host_experts(layer); }, slabs_, use);
}

/// Page-locks the experts in host memory that the device copies.
void NeuronSetup::pin_missing_experts(ComputeDevice& device) {
  std::vector<std::span<const Expert>> layers;
  for (const ExpertExchanger::Layer& layer :
       hearth::exchangeable_layers([this](int i) { return host_experts(i); }, slabs_, {}))
    layers.push_back(layer.host);
  experts_pinned_ = pin_experts(device, layers);
  if (experts_pinned_) return;
  notes_.push_back(
      "the experts in host memory could not be page-locked (a container's memlock limit, or too little "
      "memory), so they are copied to the GPU through a smaller buffer: prompts are slower, and the GPU "
      "keeps the experts that it has now. Raise the limit (ulimit -l unlimited; in Compose, ulimits: "
      "memlock: -1)");
}

void NeuronSetup::use(ForwardPass& pass) {
  pass.ffn().use({.sparsity = choice_.mode,
                  .predictor_threshold = choice_.predictor_threshold,
                  .verify_predictor = choice_.verify_predictor,
                  .thresholds = choice_.thresholds},
                 placed_, &experts_);
  if (!resident_.empty()) pass.ffn().share_experts(resident_, experts_pinned_);
  if (choice_.mode != Sparsity::kDense) {
    const std::vector<int32_t> tokens = probe_tokens(in_.tokenizer, in_.spec, in_.context_tokens);
    report_.activity = probe_activity(pass, in_.spec, tokens, in_.max_tokens);
  }
  report_.bytes_per_token = bytes_per_token(in_.spec, in_.weights, choice_.mode, report_.activity);
  report_.dense_bytes_per_token = bytes_per_token(in_.spec, in_.weights, Sparsity::kDense, {});
}

}  // namespace hearth
