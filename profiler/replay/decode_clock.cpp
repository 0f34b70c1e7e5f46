// See the header.
#include "profiler/replay/decode_clock.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

namespace hearth {
namespace {

// The link cannot take all of RAM's bandwidth from the CPU.
constexpr double kLeastCpuShare = 0.1;
// Prefetches begin earlier by this part of their duration, so that rounding makes none late.
constexpr double kRounding = 1e-6;

/// The facts of the question's model, with experts of the sizes that the trace has.
ModelFacts traced_facts(const PlanQuestion& question, const PlanBasis& basis, const ModelActivity& activity,
                        const ExpertTrace& trace) {
  ModelFacts facts = model_facts(basis.inputs(), activity, false, question.assumptions);
  for (const TracedLayer& traced : trace.layers) {
    if (const std::string why = why_not_experts(basis.inputs(), traced.number); !why.empty())
      throw std::runtime_error(question.model.name + ": its experts stay in RAM: " + why + ".");
    LayerFacts& layer = facts.layers[static_cast<size_t>(traced.number)];
    layer.expert = static_cast<double>(traced.expert_bytes);
    layer.experts_read = layer.expert * trace.n_used;
  }
  return facts;
}

}  // namespace

DecodeCosts decode_costs(const PlanQuestion& question, const ExpertTrace& trace) {
  const PlanBasis basis(question.model, Sparsity::kDense, question.load);
  const ModelActivity activity = even_expert_activity(question.model.spec);
  const ModelFacts facts = traced_facts(question, basis, activity, trace);
  const CostModel cost(question.machine);
  DecodeCosts costs;
  costs.other_s = cost.gpu_read(facts.output_read, cuda::product_class(facts.output_type)) + cost.step();
  costs.other_bytes = static_cast<double>(facts.vram_fixed + facts.vram_experts);
  auto traced = trace.layers.begin();
  for (int i = 0; i < question.model.spec.n_layers; ++i) {
    const LayerOptions layer(facts, i, cost, false);
    const LayerFacts& bytes = facts.layers[static_cast<size_t>(i)];
    costs.other_bytes += static_cast<double>(bytes.vram_shared + bytes.vram_expert_tables);
    if (traced == trace.layers.end() || traced->number != i) {
      costs.other_s += layer.work({.on_device = true}).seconds();
      continue;
    }
    ++traced;
    std::array<DecodeCosts::Layer, 3>& by_held = costs.layers.emplace_back();
    for (const Held held : {Held::kNone, Held::kSome, Held::kAll}) {
      for (int n = 0; n <= trace.n_used; ++n) {
        const double own = static_cast<double>(n) / trace.n_used;
        by_held[static_cast<size_t>(held)].push_back(layer.mixture_seconds(held, own));
      }
    }
  }
  costs.link_bytes_per_s = question.machine.gpu->to_device_pinned_bytes_per_s;
  costs.cpu_share =
      std::max(kLeastCpuShare, 1 - costs.link_bytes_per_s / question.machine.ram_read_bytes_per_s());
  return costs;
}

/// Begins the next copy if the link is free.
void DecodeClock::begin_copies() {
  if (copy_) return;
  copy_ = policy_.next_copy();
  if (copy_) copy_end_ = now_ + static_cast<double>(copy_->bytes) / costs_.link_bytes_per_s;
}

/// Moves the time to `until`. Completes the copies that end before, and begins the next ones.
void DecodeClock::advance(double until) {
  assert(until >= now_);
  begin_copies();
  while (copy_ && copy_end_ <= until) {
    now_ = copy_end_;
    copied_bytes_ += copy_->bytes;
    ++n_copied_;
    policy_.arrived(*copy_);
    copy_.reset();
    begin_copies();
  }
  now_ = until;
}

/// Returns the time at which the CPU has done `work` seconds of work that it starts at `begin`. Moves the
/// time on past all copies that end while the CPU works.
double DecodeClock::cpu_end(double begin, double work) {
  advance(begin);
  while (copy_) {
    const double beside = (copy_end_ - now_) * costs_.cpu_share;  // done while the copy is under way
    if (beside >= work) return now_ + work / costs_.cpu_share;
    work -= beside;
    advance(copy_end_);
  }
  return now_ + work;
}

/// Like cpu_end(), but begins to prefetch the next layer's experts while the CPU works. Begins so late that
/// they arrive just when the next layer's router chooses.
double DecodeClock::cpu_end_with_prefetch(size_t layer, double begin, double work) {
  const CachePolicy::Prefetch prefetch = policy_.to_prefetch();
  if (prefetch.n_experts == 0) return cpu_end(begin, work);
  const double copy_s = static_cast<double>(prefetch.bytes) / costs_.link_bytes_per_s;
  const double idle = costs_.attention_seconds(layer + 1, held_);
  const double before = std::max(0.0, prefetch.n_experts * copy_s * (1 + kRounding) - idle);
  const double beside = std::min(work, before * costs_.cpu_share);
  begin = cpu_end(begin, work - beside);
  advance(begin);
  // Copies that would arrive late because the link is busy are useless.
  const double time = beside / costs_.cpu_share + idle - (copy_ ? copy_end_ - now_ : 0);
  policy_.begin_prefetch(static_cast<int>(std::max(0.0, time / copy_s)));
  return cpu_end(begin, beside);
}

int DecodeClock::run_layer(size_t layer, std::span<const uint16_t> chosen) {
  const DecodeCosts::Layer& of_layer = costs_.layer(layer, held_);
  int n_resident = policy_.n_resident(layer, chosen);
  const double begin = now_ + costs_.attention_seconds(layer, held_);
  if (held_ == Held::kAll) {
    advance(begin + of_layer[static_cast<size_t>(n_resident)].device);
    return n_resident;
  }
  advance(begin);
  n_resident += policy_.take_prefetched(layer, chosen);
  const MixtureSeconds& costs = of_layer[static_cast<size_t>(n_resident)];
  const double handed_over = begin + costs.hand_over;
  const double cpu = cpu_end_with_prefetch(layer, handed_over, costs.host);
  advance(std::max(cpu, handed_over - costs.begin + costs.device));
  return n_resident;
}

double DecodeClock::end_token() {
  advance(now_ + costs_.other_s);
  const double seconds = now_ - token_begin_;
  token_begin_ = now_;
  return seconds;
}

}  // namespace hearth
