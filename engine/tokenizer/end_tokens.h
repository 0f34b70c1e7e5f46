// Determines the tokens that end a generation: those named by the file's keys, and those known by their text,
// because files often omit theirs.
//
// Called once when a vocabulary is read. Throws ModelFileError for an id outside the vocabulary.
#pragma once

#include "engine/model/model_file.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

/// Fills vocabulary.end_tokens, and makes those known by text control tokens. REQUIRES: texts, types and eos
/// are read.
void find_end_tokens(const ModelFile& file, Vocabulary& vocabulary);

}  // namespace hearth
