// Short names for models that are known to work well. Other GGUF models can also be downloaded if
// docs/models.md lists their architecture.
//
// The data is copied from the files' pages on the hub, to which docs/quickstart.md links. The size informs
// users; downloads use the size and checksum that the hub reports.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hearth {

struct KnownModel {
  std::string_view name;       // for example "smollm3-3b"
  std::string_view reference;  // has the form "hf:OWNER/REPO:FILE.gguf"
  double gigabytes;            // approximate size of the file
  std::string_view architecture;
  std::string_view about;  // a short description
};

std::span<const KnownModel> known_models();
/// Returns the model with this name, or null. Ignores case.
const KnownModel* find_known_model(std::string_view name);

}  // namespace hearth
