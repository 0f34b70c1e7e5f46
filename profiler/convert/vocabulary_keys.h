// Converts a checkpoint's tokenizer files to the GGUF keys tokenizer.*: tokens, types, scores, merges, tokens
// with special roles, and the chat template.
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

/// Adds the tokenizer's keys to `keys`. n_vocab: the number of rows of the embedding matrix; a smaller
/// vocabulary is padded with unused tokens. pre: the pre-tokenizer's name, or empty to find it from the
/// files. Throws std::runtime_error (one sentence) if the folder has no tokenizer that the engine can run.
void add_vocabulary_keys(const Checkpoint& checkpoint, const Config& config, const Family& family,
                         int64_t n_vocab, const std::string& pre, KeyList& keys);

}  // namespace hearth::convert
