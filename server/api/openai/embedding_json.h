// The JSON of /v1/embeddings, according to OpenAI's specification.
//
// The JSON is written directly as text. A request may ask for millions of numbers, and a tree of JSON values
// would use about ten times the memory of the text. Pure functions, called on the HTTP thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Returns the base64 encoding (RFC 4648, with padding) of the floats as little-endian bytes.
std::string base64_of(std::span<const float> values);

/// Appends the values as a JSON array, or as a base64 string in quotes.
void append_vector(std::string& out, std::span<const float> values, bool base64);

/// Returns the first n values, rescaled to length 1. If there are at most n values, returns all of them
/// unchanged.
std::vector<float> shortened(std::vector<float> values, size_t n);

/// The format of the vectors in an answer.
struct EmbeddingFormat {
  bool base64 = false;
  size_t n_dimensions = 0;  // 0: all dimensions
};

/// Returns
/// {"object":"list","data":[{"object":"embedding","index":i,"embedding":...}],"model":...,"usage":{...}}.
std::string embeddings_json(std::vector<std::vector<float>> vectors, const EmbeddingFormat& format,
                            std::string_view model, int64_t n_prompt_tokens);

}  // namespace hearth
