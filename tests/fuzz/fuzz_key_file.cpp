// Reads any bytes as a file of API keys. They must give keys whose names are safe to log, or one
// KeyFileError.
//
// One thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/gate/key_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  try {
    for (const hearth::ApiKey& key :
         hearth::parse_key_file({reinterpret_cast<const char*>(data), size}, "fuzz")) {
      const bool good_name = !key.name.empty() && key.name.find_first_not_of(kPlain) == std::string::npos;
      if (!good_name || key.roles == 0) std::abort();
    }
  } catch (const hearth::KeyFileError& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
