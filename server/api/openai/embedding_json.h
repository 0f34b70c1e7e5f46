// The JSON of /v1/embeddings, according to OpenAI's specification.
//
// It is written directly as text: a request may ask for millions of numbers, and a JSON tree of them would
// take about ten times the memory. Pure functions of plain data, called on the HTTP thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Returns the base64 form (RFC 4648, with padding) of the floats' bytes, little-endian.
std::string base64_of(std::span<const float> values);

/// Appends the values as a JSON array, or as base64 in quotes.
void append_vector(std::string& out, std::span<const float> values, bool base64);

/// Returns the first n values, rescaled to length 1, or all values unchanged if there are at most n.
std::vector<float> shortened(std::vector<float> values, size_t n);

/// How to write the vectors.
struct EmbeddingFormat {
  bool base64 = false;
  size_t n_dimensions = 0;  // 0: all
};

/// {"object":"list","data":[{"object":"embedding","index":i,"embedding":...}],"model":...,"usage":{...}}
std::string embeddings_json(std::vector<std::vector<float>> vectors, const EmbeddingFormat& format,
                            std::string_view model, int64_t n_prompt_tokens);

}  // namespace hearth
