// The exception for errors that keep hearthd from starting. Its text is one sentence for the person who
// started hearthd. main prints the text and exits with code 2.
#pragma once

#include <stdexcept>

namespace hearth {

class StartError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hearth
