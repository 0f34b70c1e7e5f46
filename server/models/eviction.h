// Chooses which models leave memory to make room for another.
//
// Pure function, called by ModelPool on main's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

/// A loaded model.
struct Resident {
  uint64_t bytes = 0;     // memory that is free when the model has left
  bool may_leave = true;  // false for a pinned model, and for one whose waiting requests have not begun
  bool is_busy = false;   // answers are running; the model leaves when they have ended
  std::chrono::steady_clock::time_point last_used;
};

/// Returns the positions of models that together free at least `missing` bytes, or nullopt if there are no
/// such models. Chooses idle models before busy ones, and in both groups the least recently used first.
/// Leaves out chosen models that turn out to be unnecessary. missing: above 0.
std::optional<std::vector<size_t>> choose_leaving(std::span<const Resident> residents, uint64_t missing);

}  // namespace hearth
