// Reads the environment from `environ`.
#include "config/environment.h"

#include <unistd.h>

#include <string_view>

namespace hearth {

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string environment_value(const Environment& environment, const std::string& name) {
  const Environment::const_iterator found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace hearth
