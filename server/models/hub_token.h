// Finds the access token for the hub where Hugging Face's programs store it, so that `hf auth login` is
// sufficient.
#pragma once

#include <string>

#include "config/environment.h"

namespace hearth {

/// Returns the token from the first of these places that has one: the file `token_file`, HF_TOKEN, the file
/// named by HF_TOKEN_PATH, `token` in HF_HOME, ~/.cache/huggingface/token. If `token_file` is given, it must
/// contain a token. Returns an empty text if no place has a token. Throws PullError, which never quotes a
/// token, if a named file cannot be read or does not contain exactly one token.
std::string hub_token(const std::string& token_file, const Environment& environment);

}  // namespace hearth
