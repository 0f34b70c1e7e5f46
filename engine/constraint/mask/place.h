// A text's position in a constraint. MaskCache computes it, and ConstraintState stores it.
#pragma once

#include <cstdint>

namespace hearth {

struct ConstraintPlace {
  int32_t set = 0;        // StackSets::Set; StackSets::kDead if the text is not allowed
  bool may_end = false;   // the text is in the language
  bool must_end = false;  // the text is complete and nothing can follow it
};

}  // namespace hearth
