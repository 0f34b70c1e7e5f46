// A processor of which Hearth knows no vector instructions: the portable loops alone.
#include "kernels/cpu/processor_runs.h"

namespace hearth {

bool processor_runs(Isa isa) { return isa == Isa::kScalar; }

}  // namespace hearth
