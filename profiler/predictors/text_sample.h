// As much of a text file as training can use: of a large one, stretches from all over it.
//
// A file of any size takes so much memory and time to read. Used by train_command.cpp; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "profiler/predictors/training_text.h"

namespace hearth {

/// A stretch is long beside a window of tokens, so that little is lost where it is cut.
inline constexpr size_t kStretchBytes = size_t{1} << 16;

/// The whole file if it has no more than max_bytes or a stretch; else as many stretches as fit max_bytes, in
/// order and spread evenly, each cut where a line or a word ends and ended by a line break. What is no plain
/// file, a pipe say, is read from its beginning, to max_bytes. Throws std::runtime_error (one sentence): it
/// cannot be read, is empty or no text; `option` names it there.
NamedText sample_text(const std::string& path, size_t max_bytes, std::string_view option);

}  // namespace hearth
