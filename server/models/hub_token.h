// Finds the hub's access token where Hugging Face's programs store it, so that `hf auth login` suffices.
#pragma once

#include <string>

#include "config/environment.h"

namespace hearth {

/// Returns the hub's access token, or an empty text if there is none. If `token_file` is given, it must
/// contain the token. Otherwise, the token is HF_TOKEN, or is read from one file: the file in HF_TOKEN_PATH,
/// else `token` in HF_HOME, else $XDG_CACHE_HOME/huggingface/token if it exists, else
/// ~/.cache/huggingface/token. Throws PullError if the file cannot be read or does not contain exactly one
/// token. Errors never quote a token.
std::string hub_token(const std::string& token_file, const Environment& environment);

}  // namespace hearth
