// Converts the tokenizer's files of a checkpoint to the keys tokenizer.*: tokens, types, scores, merges, the
// roles of single tokens, the chat template.
//
// Reads tokenizer.model, tokenizer.json or vocab.txt, and tokenizer_config.json, added_tokens.json,
// special_tokens_map.json, generation_config.json, chat_template.jinja. All are untrusted.
#pragma once

#include <cstdint>
#include <string>

#include "profiler/convert/checkpoint.h"
#include "profiler/convert/config.h"
#include "profiler/convert/family.h"

namespace hearth::convert {

/// n_vocab: rows of the embedding; a smaller vocabulary is filled up with unused tokens. pre: the
/// pre-tokenizer's name, or empty to find it. Throws std::runtime_error (one sentence) if the folder has no
/// tokenizer that the engine runs.
void add_vocabulary_keys(const Checkpoint& checkpoint, const Config& config, const Family& family,
                         int64_t n_vocab, const std::string& pre, KeyList& keys);

}  // namespace hearth::convert
