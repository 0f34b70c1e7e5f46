// SHA-256 as in section 6.2 of FIPS 180-4, with the variable names of the standard.
#include "kernels/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace hearth {
namespace {

using State = std::array<uint32_t, 8>;

/// The first n primes.
template <size_t n>
constexpr std::array<uint32_t, n> primes() {
  std::array<uint32_t, n> found{};
  size_t n_found = 0;
  for (uint32_t candidate = 2; n_found < n; ++candidate) {
    bool prime = true;
    for (size_t i = 0; i < n_found; ++i) prime = prime && candidate % found[i] != 0;
    if (prime) found[n_found++] = candidate;
  }
  return found;
}

/// The first 32 bits of the fractional part of a root. A double holds 53 bits, and the integer part of these
/// roots takes at most 5 of them.
uint32_t fraction_bits(double root) {
  return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0);
}

/// Section 4.2.2: the fraction bits of the cube roots of the first 64 primes.
std::array<uint32_t, 64> round_constants() {
  std::array<uint32_t, 64> k{};
  for (size_t i = 0; i < k.size(); ++i) k[i] = fraction_bits(std::cbrt(primes<64>()[i]));
  return k;
}

/// Section 5.3.3: the fraction bits of the square roots of the first 8 primes.
State first_state() {
  State h{};
  for (size_t i = 0; i < h.size(); ++i) h[i] = fraction_bits(std::sqrt(primes<8>()[i]));
  return h;
}

void take_block(const unsigned char* block, State& state) {
  static const std::array<uint32_t, 64> kK = round_constants();
  std::array<uint32_t, 64> w{};
  for (size_t t = 0; t < 16; ++t) {
    w[t] = uint32_t{block[4 * t]} << 24 | uint32_t{block[4 * t + 1]} << 16 | uint32_t{block[4 * t + 2]} << 8 |
           block[4 * t + 3];
  }
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = s1 + w[t - 7] + s0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kK[t] + w[t];
    const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State add{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += add[i];
}

}  // namespace

Sha256Stream::Sha256Stream() : state_(first_state()) {}

void Sha256Stream::add(std::span<const std::byte> bytes) {
  const unsigned char* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t n = bytes.size();
  n_bytes_ += n;
  if (n_rest_ > 0) {
    const size_t more = std::min(n, kBlock - n_rest_);
    std::copy_n(data, more, rest_.data() + n_rest_);
    n_rest_ += more, data += more, n -= more;
    if (n_rest_ < kBlock) return;
    take_block(rest_.data(), state_);
    n_rest_ = 0;
  }
  for (; n >= kBlock; data += kBlock, n -= kBlock) take_block(data, state_);
  std::copy_n(data, n, rest_.data());
  n_rest_ = n;
}

Sha256 Sha256Stream::finish() {
  // Padding: the remaining bytes, a one bit, zeros, and the length in bits.
  std::fill(rest_.begin() + static_cast<ptrdiff_t>(n_rest_), rest_.end(), static_cast<unsigned char>(0));
  rest_[n_rest_] = 0x80;
  const size_t tail_bytes = n_rest_ + 9 <= kBlock ? kBlock : 2 * kBlock;
  const uint64_t n_bits = n_bytes_ * 8;
  for (size_t i = 0; i < 8; ++i) rest_[tail_bytes - 1 - i] = static_cast<unsigned char>(n_bits >> (8 * i));
  for (size_t at = 0; at < tail_bytes; at += kBlock) take_block(rest_.data() + at, state_);

  Sha256 hash{};
  for (size_t i = 0; i < hash.size(); ++i) hash[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - i % 4 * 8));
  return hash;
}

Sha256 sha256(std::span<const std::byte> bytes) {
  Sha256Stream stream;
  stream.add(bytes);
  return stream.finish();
}

Sha256 sha256(std::string_view bytes) { return sha256(std::as_bytes(std::span(bytes))); }

std::string hex_text(const Sha256& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : hash) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string sha256_hex(std::string_view bytes) { return hex_text(sha256(bytes)); }

}  // namespace hearth
