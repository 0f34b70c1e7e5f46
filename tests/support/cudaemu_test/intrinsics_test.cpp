// Intrinsics of emulated CUDA against their definitions in CUDA's math documentation.
#include <cmath>
#include <limits>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/catch.h"

namespace {

TEST_CASE("emulated: __dp4a multiplies bytes and wraps around") {
  CHECK(__dp4a(0x01020304, 0x05060708, 10) == 1 * 5 + 2 * 6 + 3 * 7 + 4 * 8 + 10);
  CHECK(__dp4a(static_cast<int>(0x80808080u), static_cast<int>(0x80808080u), 0) == 4 * 128 * 128);
  CHECK(__dp4a(static_cast<int>(0x80ff7f01u), 0x7f02037f, 0) == -128 * 127 - 2 + 127 * 3 + 127);
  CHECK(__dp4a(0x01010101, 0x01010101, std::numeric_limits<int>::max()) ==
        std::numeric_limits<int>::min() + 3);
  CHECK(__dp4a(0xffffffffu, 0xffffffffu, 1u) == 4u * 255 * 255 + 1);
}

TEST_CASE("emulated: __byte_perm selects bytes of two words, and their signs") {
  CHECK(__byte_perm(0x33221100, 0x77665544, 0x3210) == 0x33221100u);
  CHECK(__byte_perm(0x33221100, 0x77665544, 0x0246) == 0x00224466u);
  CHECK(__byte_perm(0x80000000, 0x7f, 0xbc4b) == 0xff007fffu);
}

TEST_CASE("emulated: bits are counted and found") {
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__popcll(~0ull) == 64);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__ffs(0x50) == 5);
  CHECK(__ffs(0) == 0);
}

TEST_CASE("emulated: floats become integers as on a device, even at and beyond the limits") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  CHECK(__float2int_rn(2.5f) == 2);
  CHECK(__float2int_rn(3.5f) == 4);
  CHECK(__float2int_rn(-2.5f) == -2);
  CHECK(__float2int_rz(-2.9f) == -2);
  CHECK(__float2int_rn(2147483520.0f) == 2147483520);
  CHECK(__float2int_rn(2147483648.0f) == std::numeric_limits<int>::max());
  CHECK(__float2int_rn(-inf) == std::numeric_limits<int>::min());
  CHECK(__float2int_rn(nan) == 0);
  CHECK(__float2ll_rn(inf) == std::numeric_limits<long long>::max());
  CHECK(__float2ll_rn(-inf) == std::numeric_limits<long long>::min());
  CHECK(__float2ll_rn(nan) == std::numeric_limits<long long>::min());
  CHECK(__float2ll_rn(0.5f) == 0);
  CHECK(__ll2float_rn((1ll << 24) + 1) == 0x1p24f);
  CHECK(__ll2float_rn((1ll << 24) + 3) == 0x1p24f + 4);
}

TEST_CASE("emulated: __fmaf_rn rounds once, a product and a sum twice") {
  const float a = 1 + 0x1p-12f;
  CHECK(__fmaf_rn(a, a, -1.0f) == 0x1p-11f + 0x1p-24f);
  CHECK(__fadd_rn(__fmul_rn(a, a), -1.0f) == 0x1p-11f);
}

}  // namespace
