// Explains why some architectures that are not in the table (architecture.h) do not run, for the message that
// refuses a file. Used on the loading thread while a file's keys are read.
#pragma once

#include <string_view>

namespace hearth {

/// Returns the feature of the architecture that Hearth lacks, as a clause that follows "because". Returns an
/// empty text for an unknown architecture.
std::string_view why_not_run(std::string_view architecture);

}  // namespace hearth
