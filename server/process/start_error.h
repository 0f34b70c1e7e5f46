// Thrown if hearthd cannot start. The text is one sentence for the user. main prints it and exits with code
// 2.
#pragma once

#include <stdexcept>

namespace hearth {

class StartError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hearth
