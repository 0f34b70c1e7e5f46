// See the header.
#include "kernels/trace.h"

#include <algorithm>
#include <cstdio>

namespace hearth {

void Trace::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() < max_spans_) spans_.push_back(span);
}

std::vector<Trace::Span> Trace::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

}  // namespace hearth
