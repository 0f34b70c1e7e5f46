// The access token for the hub: where Hugging Face's own programs keep it, so that `hf auth login` serves here too.
#pragma once

#include <string>

#include "config/environment.h"

namespace hearth {

/// The token of the first of these that has one: the file `token_file` (if it is named, it must have one), HF_TOKEN, the file of
/// HF_TOKEN_PATH, token in HF_HOME, ~/.cache/huggingface/token. Empty: none has. Throws PullError, which never quotes a
/// token, if a named file cannot be read or holds anything but one token.
std::string hub_token(const std::string& token_file, const Environment& environment);

}  // namespace hearth
