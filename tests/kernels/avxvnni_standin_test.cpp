// The program with this file runs the loops for AVX-VNNI with AVX-512's encoding of the same instructions, so
// that they are tested on processors that have only AVX-512. Its other files compare all ISAs.
#include <algorithm>

#include "kernels/cpu/isa/isa.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace hearth {

TEST_CASE("AVX-VNNI's loops are right when run with AVX-512's instructions", "[isa]") {
  const std::vector<Isa> here = supported_isas();
  const auto has = [&](Isa isa) { return std::find(here.begin(), here.end(), isa) != here.end(); };
  if (!has(Isa::kAvx512Vnni)) return testing::skip("this processor lacks avx512-vnni");
  CHECK(has(Isa::kAvxVnni));
}

}  // namespace hearth
