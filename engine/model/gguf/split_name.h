// File names of split models: NAME-00001-of-00003.gguf.
//
// Used by ModelFile::open to find the other parts from any one of them. Pure; any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace hearth::gguf {

struct SplitName {
  std::filesystem::path folder;
  std::string stem;  // NAME
  int number = 0;    // 1-based
  int count = 0;
};

/// nullopt if the name is not of that form, or number or count are 0, or number exceeds count.
std::optional<SplitName> parse_split_name(const std::filesystem::path& path);

/// The path of part `number` (1-based) of the same model.
std::filesystem::path split_path(const SplitName& name, int number);

}  // namespace hearth::gguf
