// A test's own folder below the system's temporary folder, removed with the object.
#pragma once

#include <filesystem>
#include <string_view>

namespace hearth::test {

class TempFolder {
 public:
  /// Throws std::runtime_error if the folder cannot be created.
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace hearth::test
