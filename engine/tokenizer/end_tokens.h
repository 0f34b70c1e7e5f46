// Which tokens end a generation: those that the file's keys name, and those known by name, because files often forget
// theirs.
//
// Called once when a vocabulary is read. Throws ModelFileError for an id outside the vocabulary.
#pragma once

#include "engine/model/model_file.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

/// Fills vocabulary.end_tokens, and makes those known by name control tokens. REQUIRES: texts, types and eos are read.
void find_end_tokens(const ModelFile& file, Vocabulary& vocabulary);

}  // namespace hearth
