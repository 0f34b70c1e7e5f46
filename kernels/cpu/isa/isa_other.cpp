// For processors whose vector instructions Hearth does not support: only the portable loops.
#include "kernels/cpu/isa/processor_runs.h"

namespace hearth {

bool processor_runs(Isa isa) { return isa == Isa::kScalar; }

}  // namespace hearth
