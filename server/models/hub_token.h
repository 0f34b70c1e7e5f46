// Finds the access token for the hub where Hugging Face's programs keep it, so that `hf auth login` works
// here too.
#pragma once

#include <string>

#include "config/environment.h"

namespace hearth {

/// The token of the first of these that has one: the file `token_file` (if given, it must have one),
/// HF_TOKEN, the file named by HF_TOKEN_PATH, `token` in HF_HOME, ~/.cache/huggingface/token. Empty if none
/// has. Throws PullError, which never quotes a token, if a named file is unreadable or holds anything but one
/// token.
std::string hub_token(const std::string& token_file, const Environment& environment);

}  // namespace hearth
