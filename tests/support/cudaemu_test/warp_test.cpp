// Warps of emulated CUDA: shuffles of every width, votes, matches, reductions, lanes that have returned,
// warps that diverge.
#include <functional>
#include <random>

#include "kernels/cuda/runtime/gpu.h"
#include "tests/support/cudaemu_test/emulated.h"

namespace hearth::cudaemu {
namespace {

using cuda::gpu_kernel;
using cuda::gpu_launch;
using test::DeviceArray;
using test::TestStream;

struct Shuffled {
  int from, up, down, exchanged;
};

__global__ void shuffle_kernel(int width, int argument, Shuffled* out) {
  const int mine = static_cast<int>(threadIdx.x) * 3;
  Shuffled& result = out[threadIdx.x];
  result.from = __shfl_sync(0xffffffffu, mine, argument, width);
  result.up = __shfl_up_sync(0xffffffffu, mine, static_cast<unsigned>(argument), width);
  result.down = __shfl_down_sync(0xffffffffu, mine, static_cast<unsigned>(argument), width);
  result.exchanged = __shfl_xor_sync(0xffffffffu, mine, argument, width);
}

TEST_CASE("emulated: shuffles of every width read the lanes CUDA's guide has them read") {
  Emulated emulated;
  config().schedule = GENERATE(Schedule::kForward, Schedule::kReverse, Schedule::kRandom);
  const TestStream stream;
  const DeviceArray<Shuffled> out(64);
  for (const int width : {1, 2, 4, 8, 16, 32})
    for (const int argument : {0, 1, 2, 3, 5, 8, 15, 16, 31}) {
      REQUIRE(gpu_launch(no_work, gpu_kernel<shuffle_kernel>, 1, 64, 0, stream, width, argument,
                         out.data()) == cudaSuccess);
      const std::vector<Shuffled> result = out.read(stream);
      for (int thread = 0; thread < 64; ++thread) {
        const int lane = thread % 32, group = lane / width * width, warp = thread - lane;
        // A lane that would read beyond its group keeps its own value; an exchange may reach into lower
        // groups.
        const int up = lane - argument < group ? lane : lane - argument;
        const int down = lane + argument >= group + width ? lane : lane + argument;
        const int exchanged = (lane ^ argument) >= group + width ? lane : lane ^ argument;
        const Shuffled& got = result[static_cast<size_t>(thread)];
        CAPTURE(width, argument, thread);
        REQUIRE(got.from == (warp + group + argument % width) * 3);
        REQUIRE(got.up == (warp + up) * 3);
        REQUIRE(got.down == (warp + down) * 3);
        REQUIRE(got.exchanged == (warp + exchanged) * 3);
      }
    }
}

struct Voted {
  unsigned ballot, same;
  int any, all, none_all, sum, least, greatest;
};

/// Lanes from n on return at once; the others vote.
__global__ void vote_kernel(int n, Voted* out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= n) return;
  Voted& voted = out[lane];
  voted.ballot = __ballot_sync(0xffffffffu, lane % 3 == 0);
  voted.any = __any_sync(0xffffffffu, lane == 2);
  voted.all = __all_sync(0xffffffffu, lane < n);
  voted.none_all = __all_sync(0xffffffffu, lane != 0);
  voted.same = __match_any_sync(0xffffffffu, lane % 2);
  voted.sum = __reduce_add_sync(0xffffffffu, lane);
  voted.least = __reduce_min_sync(0xffffffffu, 5 - lane);
  voted.greatest = __reduce_max_sync(0xffffffffu, 5 - lane);
}

TEST_CASE("emulated: votes, matches and reductions cover the lanes that have not returned") {
  Emulated emulated;
  config().schedule = GENERATE(Schedule::kForward, Schedule::kReverse, Schedule::kRandom);
  const TestStream stream;
  for (const int n : {1, 2, 3, 31, 32}) {
    const DeviceArray<Voted> out(32);
    REQUIRE(gpu_launch(no_work, gpu_kernel<vote_kernel>, 1, 32, 0, stream, n, out.data()) == cudaSuccess);
    const std::vector<Voted> result = out.read(stream);
    const unsigned present = n == 32 ? ~0u : (1u << n) - 1;
    for (int lane = 0; lane < n; ++lane) {
      const Voted& voted = result[static_cast<size_t>(lane)];
      CAPTURE(n, lane);
      REQUIRE(voted.ballot == (0x49249249u & present));
      REQUIRE(voted.any == (n > 2));
      REQUIRE(voted.all == 1);
      REQUIRE(voted.none_all == 0);
      REQUIRE(voted.same == ((lane % 2 ? 0xaaaaaaaau : 0x55555555u) & present));
      REQUIRE(voted.sum == n * (n - 1) / 2);
      REQUIRE(voted.least == 6 - n);
      REQUIRE(voted.greatest == 5);
    }
  }
}

/// Both halves of a warp do the same number of operations on different lines, under their own masks.
__global__ void parted_kernel(int* out) {
  const unsigned lane = threadIdx.x;
  int value = static_cast<int>(lane);
  if (lane < 16) {
    for (int offset = 8; offset > 0; offset /= 2) value += __shfl_xor_sync(0x0000ffffu, value, offset);
  } else {
    for (int offset = 8; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffff0000u, value, offset);
  }
  __syncwarp();
  out[lane] = value;
}

TEST_CASE("emulated: parts of a warp diverge and meet again") {
  Emulated emulated;
  config().schedule = GENERATE(Schedule::kForward, Schedule::kReverse, Schedule::kRandom);
  const TestStream stream;
  const DeviceArray<int> out(32);
  REQUIRE(gpu_launch(no_work, gpu_kernel<parted_kernel>, 1, 32, 0, stream, out.data()) == cudaSuccess);
  const std::vector<int> result = out.read(stream);
  for (size_t i = 0; i < 32; ++i) REQUIRE(result[i] == (i < 16 ? 15 * 16 / 2 : 16 * 16 + 15 * 16 / 2));
}

/// The upper half has returned, and lane 0 reads from it.
__global__ void absent_kernel(unsigned* out) {
  if (threadIdx.x >= 16) return;
  const unsigned got = __shfl_sync(0xffffffffu, threadIdx.x, 20);
  if (threadIdx.x == 0) *out = got;
}

TEST_CASE("emulated: a lane that reads from a returned lane does not get its value") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<unsigned> out(1);
  REQUIRE(gpu_launch(no_work, gpu_kernel<absent_kernel>, 1, 32, 0, stream, out.data()) == cudaSuccess);
  CHECK(out.read(stream)[0] == 0xffffffffu);
}

struct Multiplied {
  int of_32[4], of_first_16[4];
};

/// a [16, 32] and b [8, 32], rows of bytes.
__global__ void matrix_kernel(const uint4* a, const uint4* b, Multiplied* out) {
  __shared__ uint4 a_rows[16][2], b_rows[8][2];
  const int lane = static_cast<int>(threadIdx.x);
  a_rows[lane / 2][lane % 2] = a[lane];
  if (lane < 16) b_rows[lane / 2][lane % 2] = b[lane];
  __syncwarp();
  unsigned a_words[4], b_words[4];
  cuda::gpu_load_matrices(a_words, &a_rows[lane % 16][lane / 16]);
  cuda::gpu_load_matrices(b_words, &b_rows[lane % 8][lane / 8 % 2]);
  cuda::gpu_multiply_32(out[lane].of_32, a_words, b_words[0], b_words[1], 1000);
  cuda::gpu_multiply_16(out[lane].of_first_16, a_words[0], a_words[1], b_words[0], -1000);
}

TEST_CASE("emulated: tensor cores multiply matrices of bytes laid out as PTX says") {
  Emulated emulated;
  config().schedule = GENERATE(Schedule::kForward, Schedule::kReverse, Schedule::kRandom);
  const TestStream stream;
  std::mt19937 rng(3);
  std::vector<int8_t> a(16 * 32), b(8 * 32);
  for (std::vector<int8_t>* bytes : {&a, &b})
    for (int8_t& byte : *bytes) byte = static_cast<int8_t>(rng());
  a[0] = b[0] = -128;
  const DeviceArray<int8_t> a_there(a), b_there(b);
  const DeviceArray<Multiplied> out(32);
  REQUIRE(gpu_launch(no_work, gpu_kernel<matrix_kernel>, 1, 32, 0, stream,
                     reinterpret_cast<const uint4*>(a_there.data()),
                     reinterpret_cast<const uint4*>(b_there.data()), out.data()) == cudaSuccess);
  const std::vector<Multiplied> result = out.read(stream);
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      int of_32 = 1000, of_first_16 = -1000;
      for (size_t k = 0; k < 32; ++k) {
        const int product = a[row * 32 + k] * b[column * 32 + k];
        of_32 += product;
        if (k < 16) of_first_16 += product;
      }
      const Multiplied& lane = result[row % 8 * 4 + column / 2];
      const size_t i = row / 8 * 2 + column % 2;
      CAPTURE(row, column);
      REQUIRE(lane.of_32[i] == of_32);
      REQUIRE(lane.of_first_16[i] == of_first_16);
    }
  }
}

struct Wide {
  double value;
  int tag, more[3];
};

__global__ void wide_kernel(Wide* out) {
  const int i = static_cast<int>(threadIdx.x);
  const Wide mine{i + 0.25, i, {i, i, -i}};
  out[i] = __shfl_xor_sync(0xffffffffu, mine, 1);
}

TEST_CASE("emulated: shuffles carry values of up to 32 bytes") {
  Emulated emulated;
  const TestStream stream;
  const DeviceArray<Wide> out(32);
  REQUIRE(gpu_launch(no_work, gpu_kernel<wide_kernel>, 1, 32, 0, stream, out.data()) == cudaSuccess);
  const std::vector<Wide> result = out.read(stream);
  for (int i = 0; i < 32; ++i) {
    CHECK(result[static_cast<size_t>(i)].value == (i ^ 1) + 0.25);
    CHECK(result[static_cast<size_t>(i)].more[2] == -(i ^ 1));
  }
}

/// Lacks the __syncwarp between the write and the read.
HEARTH_RACES __global__ void racing_warp_kernel(int* out) {
  __shared__ int shared[32];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = shared[threadIdx.x / 4];
}
__global__ void right_warp_kernel(int* out) {
  __shared__ int shared[32];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x / 4];
}

TEST_CASE("emulated: the reverse schedule shows a missing __syncwarp") {
  Emulated emulated;
  std::vector<int> want(32);
  for (int i = 0; i < 32; ++i) want[static_cast<size_t>(i)] = i / 4;
  const auto run = [&](const cuda::GpuKernel<void(int*)>& kernel, Schedule schedule) {
    config().schedule = schedule;
    const TestStream stream;  // each stream has shared memory of its own, initially 0
    const DeviceArray<int> out(32);
    REQUIRE(gpu_launch(no_work, kernel, 1, 32, 0, stream, out.data()) == cudaSuccess);
    return out.read(stream);
  };
  CHECK(run(gpu_kernel<right_warp_kernel>, Schedule::kForward) == want);
  CHECK(run(gpu_kernel<right_warp_kernel>, Schedule::kReverse) == want);
  CHECK(run(gpu_kernel<racing_warp_kernel>, Schedule::kForward) == want);
  CHECK(run(gpu_kernel<racing_warp_kernel>, Schedule::kReverse) != want);
}

}  // namespace
}  // namespace hearth::cudaemu
