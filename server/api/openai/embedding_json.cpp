// See the header.
#include "server/api/openai/embedding_json.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "kernels/base/base64.h"
#include "server/json/json.h"

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are sent as they lie in memory");

/// Appends the shortest text from which the same float can be read.
void append_number(std::string& out, float value) {
  std::array<char, 32> text;
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
}

}  // namespace

void append_vector(std::string& out, std::span<const float> values, bool base64) {
  if (base64) {
    out.append("\"").append(base64_of(values)).append("\"");
    return;
  }
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, values[i]);
  }
  out += ']';
}

std::string base64_of(std::span<const float> values) { return base64_of(std::as_bytes(values)); }

std::vector<float> shortened(std::vector<float> values, size_t n) {
  if (values.size() <= n) return values;
  values.resize(n);
  double squares = 0;
  for (const float value : values) squares += double{value} * double{value};
  if (squares == 0) return values;
  const double length = std::sqrt(squares);
  for (float& value : values) value = static_cast<float>(double{value} / length);
  return values;
}

std::string embeddings_json(std::vector<std::vector<float>> vectors, const EmbeddingFormat& format,
                            std::string_view model, int64_t n_prompt_tokens) {
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < vectors.size(); ++i) {
    std::vector<float> values = std::move(vectors[i]);
    if (format.n_dimensions > 0) values = shortened(std::move(values), format.n_dimensions);
    out.append(i > 0 ? "," : "").append(R"({"object":"embedding","index":)").append(std::to_string(i));
    out.append(R"(,"embedding":)");
    append_vector(out, values, format.base64);
    out += '}';
  }
  const std::string n = std::to_string(n_prompt_tokens);
  out.append(R"(],"model":)").append(json_text(Json(model)));
  out.append(R"(,"usage":{"prompt_tokens":)").append(n).append(R"(,"total_tokens":)").append(n).append("}}");
  return out;
}

}  // namespace hearth
