// Importance matrices of llama.cpp's older kind: the values that are read, and that damaged files are
// refused. test_quantize.py uses whole files.
#include "profiler/quantize/importance.h"

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"

namespace hearth::test {
namespace {

void append_entry(Bytes& out, const std::string& name, int32_t n_runs, const std::vector<float>& sums) {
  append_number(out, static_cast<int32_t>(name.size()));
  append_bytes(out, name.data(), name.size());
  append_number(out, n_runs);
  append_number(out, static_cast<int32_t>(sums.size()));
  for (const float sum : sums) append_number(out, sum);
}

Bytes two_tensors() {
  Bytes out;
  append_number(out, int32_t{2});
  append_entry(out, "a.weight", 4, {4.0f, 8.0f, 0.0f});
  append_entry(out, "b.weight", 0, {1.0f});  // counted in no run, so the sums stay as they are
  return out;
}

TEST_CASE("an old importance matrix is read as means") {
  const auto columns = read_old_importance(two_tensors(), "i.dat");
  REQUIRE(columns.size() == 2);
  CHECK(columns.at("a.weight") == std::vector<float>{1.0f, 2.0f, 0.0f});
  CHECK(columns.at("b.weight") == std::vector<float>{1.0f});
}

TEST_CASE("a cut importance matrix is refused, wherever it is cut") {
  const Bytes whole = two_tensors();
  for (size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_THROWS_AS(read_old_importance(std::span(whole).first(n), "i.dat"), ModelFileError);
  }
}

TEST_CASE("an importance matrix that claims more than it has is refused") {
  const Bytes whole = two_tensors();
  for (const size_t at : {0, 4, 16, 20}) {  // entries, bytes of the name, runs, values
    for (const int32_t claim : {-1, 2147483647, -2147483647}) {
      if (at == 16 && claim > 0) continue;  // any number of runs is possible
      CAPTURE(at, claim);
      Bytes changed = whole;
      std::memcpy(changed.data() + at, &claim, sizeof(claim));
      CHECK_THROWS_AS(read_old_importance(changed, "i.dat"), ModelFileError);
    }
  }
}

}  // namespace
}  // namespace hearth::test
