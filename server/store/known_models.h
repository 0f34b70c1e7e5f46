// Short names for models that are known to work well. They are suggestions: any GGUF model that
// docs/models.md supports can be pulled.
//
// The data is copied from the files' pages on the hub, which docs/models.md lists. The size tells users what
// to expect; a pull uses the size and checksum that the hub reports at that time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hearth {

struct KnownModel {
  std::string_view name;       // "smollm3-3b"
  std::string_view reference;  // "hf:OWNER/REPO:FILE.gguf"
  double gigabytes;            // approximate file size
  std::string_view architecture;
  std::string_view about;  // a few words
};

std::span<const KnownModel> known_models();
/// Returns the model with this name, ignoring case, or null if there is none.
const KnownModel* find_known_model(std::string_view name);

}  // namespace hearth
