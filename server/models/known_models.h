// Models that are known to be good, under short names. They are suggestions: any GGUF model of docs/models.md can be pulled.
//
// Facts of files are copied from their pages on the hub; docs/models.md says from which. The size tells a user what to expect;
// what is really loaded is what the hub says when the model is pulled, with its checksum.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hearth {

struct KnownModel {
  std::string_view name;       // "smollm3-3b"
  std::string_view reference;  // "hf:OWNER/REPO:FILE.gguf"
  double gigabytes;            // about, of the file
  std::string_view architecture;
  std::string_view about;  // a few words
};

std::span<const KnownModel> known_models();
/// The model of this name, in any case; null: it is not known.
const KnownModel* find_known_model(std::string_view name);

}  // namespace hearth
