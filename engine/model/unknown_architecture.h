// Explains why models of architectures outside the table (architecture.h) do not run, for the sentence that
// refuses a file. Used while a file's keys are read, on the loading thread.
#pragma once

#include <string_view>

namespace hearth {

/// Returns the feature of the architecture that Hearth lacks, as a clause that follows "because"; empty for
/// an unknown name.
std::string_view why_not_run(std::string_view architecture);

}  // namespace hearth
