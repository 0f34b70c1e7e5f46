// See the header.
#include "server/page/live_json.h"

namespace hearth {

std::string level_digits(const Levels& levels) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(levels.size());
  for (const uint8_t level : levels) text += kDigits[level & 15];
  return text;
}

Json model_event(const std::string& model, const std::string& device, const LivePlacement& placement) {
  Json map = {{"units", placement.experts ? "experts" : "neurons"},
              {"layers", placement.n_layers},
              {"per_layer", placement.n_units},
              {"buckets", placement.n_buckets}};
  if (!placement.why_nothing.empty()) map["reason"] = placement.why_nothing;
  if (!placement.hot.empty()) {
    map["hot"] = level_digits(placement.hot);
    map["cache"] = placement.has_cache;
  }
  const MemoryByPlace& memory = placement.memory;
  return {{"model", model},
          {"device", device},
          {"map", std::move(map)},
          {"memory", {{"vram", memory.vram}, {"ram", memory.ram}, {"file", memory.file}}}};
}

Json frame_event(double seconds, const EngineStatus& status, const EngineFigures& figures,
                 double tokens_per_second, const LivePlacement& placement) {
  const uint64_t kv = placement.memory.kv;
  const double used = figures.kv_tokens == 0 ? 0
                                             : static_cast<double>(figures.kv_used_tokens) /
                                                   static_cast<double>(figures.kv_tokens);
  return {{"seconds", seconds},
          {"slots", {{"total", status.n_slots}, {"running", status.n_running}}},
          {"waiting", status.n_waiting},
          {"steps", status.n_steps},
          {"prompt_tokens", status.n_prompt_tokens},
          {"generated_tokens", status.n_generated_tokens},
          {"tokens_per_second", tokens_per_second},
          {"kv", {{"used", static_cast<uint64_t>(used * static_cast<double>(kv))}, {"total", kv}}}};
}

Json fired_json(const LiveStep& step) {
  return {{"step", step.number},
          {"tokens", step.n_tokens},
          {"active", step.active},
          {"levels", level_digits(step.levels)}};
}

double TokenRate::add(double seconds, uint64_t n_tokens) {
  points_.push_back({seconds, n_tokens});
  // Keep one point that is at least kSeconds old, so that the rate covers the whole window.
  while (points_.size() > 2 && points_[1].seconds <= seconds - kSeconds) points_.pop_front();
  const double elapsed = seconds - points_.front().seconds;
  return elapsed <= 0 ? 0 : static_cast<double>(n_tokens - points_.front().n_tokens) / elapsed;
}

}  // namespace hearth
