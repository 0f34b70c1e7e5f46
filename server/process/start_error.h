// Why hearthd could not start: one sentence for whoever started it. main prints it and ends with exit code 2.
#pragma once

#include <stdexcept>

namespace hearth {

class StartError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hearth
