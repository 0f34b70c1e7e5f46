// dequantize_tool GGUF_TYPE N: reads one row of N elements from standard input and writes its floats to
// standard output, both as raw bytes. test_quant_oracle.py compares it with Python's gguf package.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/quant/dequantize.h"

int main(int argc, char** argv) {
  using namespace hearth;
  if (argc != 3) {
    std::fputs("usage: dequantize_tool GGUF_TYPE N < row > floats\n", stderr);
    return 1;
  }
  const auto type = dtype_from_gguf(static_cast<uint32_t>(std::atoi(argv[1])));
  const int64_t n = std::atoll(argv[2]);
  if (!type || n < 0 || n % dtype_info(*type).block_elems != 0) {
    std::fputs("dequantize_tool: unknown type, or N is no multiple of its block\n", stderr);
    return 1;
  }
  std::vector<std::byte> row(row_bytes(*type, n));
  std::vector<float> out(static_cast<size_t>(n));
  if (std::fread(row.data(), 1, row.size(), stdin) != row.size()) {
    std::fputs("dequantize_tool: standard input is shorter than the row\n", stderr);
    return 1;
  }
  dequantize_row(*type, row.data(), n, out.data());
  return std::fwrite(out.data(), sizeof(float), out.size(), stdout) == out.size() ? 0 : 1;
}
