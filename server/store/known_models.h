// Known good models under short names. They are suggestions: any GGUF model of docs/models.md can be pulled.
//
// The facts are copied from the files' pages on the hub, which docs/models.md lists. The size tells a user
// what to expect; a pull uses the size and checksum that the hub reports at that time.
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
/// The model with this name, ignoring case; null if there is none.
const KnownModel* find_known_model(std::string_view name);

}  // namespace hearth
