// Determines the tokens that end a generation: the tokens named by the file's keys, and tokens with known
// texts, because files often omit keys.
//
// Called once when a vocabulary is read. Throws ModelFileError for an id outside the vocabulary.
#pragma once

#include "engine/model/model_file.h"
#include "engine/tokenizer/vocabulary.h"

namespace hearth {

/// Fills vocabulary.end_tokens. Also sets a token's type to kControl if its text always ends a generation.
/// REQUIRES: vocabulary has its texts, types and eos.
void find_end_tokens(const ModelFile& file, Vocabulary& vocabulary);

}  // namespace hearth
