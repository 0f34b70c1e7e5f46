// Why models of an architecture that is not in the table (architecture.h) do not run, for the sentence that refuses a
// file. Used while a file's keys are read, on the loading thread.
#pragma once

#include <string_view>

namespace hearth {

/// What the architecture has that Hearth does not, as what follows "because" in a sentence; empty for a name that Hearth
/// does not know.
std::string_view why_not_run(std::string_view architecture);

}  // namespace hearth
