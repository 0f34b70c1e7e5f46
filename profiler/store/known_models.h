// Short names for models that are known to work well. Other GGUF models can also be downloaded if
// docs/models.md lists their architecture.
//
// The data is copied from the files' pages on the hub, to which docs/quickstart.md links. The size informs
// users; downloads use the size and checksum that the hub reports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

struct KnownModel {
  std::string_view name;       // for example "smollm3-3b"
  std::string_view reference;  // has the form "hf:OWNER/REPO:FILE.gguf"
  double gigabytes;            // approximate size of the file
  double read_gigabytes;       // approximate bytes that one token reads; 0: the model generates no text
  std::string_view architecture;
  std::string_view about;  // a short description
};

std::span<const KnownModel> known_models();
/// Returns the model with this name, or null. Compares letters without their case, and digits, so that
/// Ollama's "llama3.2:1b" is "llama-3.2-1b".
const KnownModel* find_known_model(std::string_view name);

/// Returns a model to recommend for a machine with this much memory: of those that fit and that a processor
/// runs at a reading pace, the largest. Null if none fits.
const KnownModel* recommended_model(uint64_t memory_bytes);

/// Returns the name of the model to recommend to users of a model whose weights have these bytes. Empty if
/// that model is more than a demonstration, or if no known model fits.
std::string suggested_model(uint64_t weight_bytes, uint64_t memory_bytes);

/// Returns a clause such as "; did you mean gemma-3-4b or gemma-4-e4b?", or an empty text if no known model
/// and none of `others` has a similar name.
std::string similar_models(std::string_view name, std::vector<std::string> others);

}  // namespace hearth
