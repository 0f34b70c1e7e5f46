// quantize_tool GGUF_TYPE N: reads N floats from standard input and writes them as one row of the type to
// standard output, both as raw bytes. test_quantize_oracle.py compares it with Python's gguf package.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/quant/quantize.h"
#include "kernels/quant/quantize_fitted.h"

int main(int argc, char** argv) {
  using namespace hearth;
  if (argc != 3) {
    std::fputs("usage: quantize_tool GGUF_TYPE N < floats > row\n", stderr);
    return 1;
  }
  const auto type = dtype_from_gguf(static_cast<uint32_t>(std::atoi(argv[1])));
  const int64_t n = std::atoll(argv[2]);
  if (!type || !(can_quantize(*type) || can_fit(*type)) || n < 0 || n % dtype_info(*type).block_elems != 0) {
    std::fputs("quantize_tool: no such type to quantize to, or N is not a multiple of its block\n", stderr);
    return 1;
  }
  std::vector<float> x(static_cast<size_t>(n));
  if (std::fread(x.data(), sizeof(float), x.size(), stdin) != x.size()) {
    std::fputs("quantize_tool: standard input is shorter than N floats\n", stderr);
    return 1;
  }
  std::vector<std::byte> row(row_bytes(*type, n));
  if (can_quantize(*type)) {
    quantize_row(*type, x.data(), n, row.data());
  } else {
    quantize_row_fitted(*type, x.data(), nullptr, n, row.data());
  }
  return std::fwrite(row.data(), 1, row.size(), stdout) == row.size() ? 0 : 1;
}
