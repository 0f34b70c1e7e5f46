// Atomic operations of kernels, in the device's relaxed order.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace hearth::cudaemu {

/// Replaces *p by f(*p, value) and returns its old value.
template <class T, class U, class F>
T modify(T* p, U value, F f) {
  std::atomic_ref<T> target(*p);
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, f(old, T(value)), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace hearth::cudaemu

template <class T, class U>
T atomicAdd(T* p, U value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return std::atomic_ref<T>(*p).fetch_add(T(value), std::memory_order_relaxed);
  } else {  // half and bfloat16, one or two
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    return std::bit_cast<T>(hearth::cudaemu::modify(reinterpret_cast<Bits*>(p), Bits{0}, [&](Bits old, Bits) {
      return std::bit_cast<Bits>(T(std::bit_cast<T>(old) + T(value)));
    }));
  }
}
template <class T, class U>
T atomicSub(T* p, U value) {
  return hearth::cudaemu::modify(p, value, [](T a, T b) { return T(a - b); });
}
template <class T, class U>
T atomicMax(T* p, U value) {
  return hearth::cudaemu::modify(p, value, [](T a, T b) { return a > b ? a : b; });
}
template <class T, class U>
T atomicMin(T* p, U value) {
  return hearth::cudaemu::modify(p, value, [](T a, T b) { return a < b ? a : b; });
}
template <class T, class U>
T atomicOr(T* p, U value) {
  return hearth::cudaemu::modify(p, value, [](T a, T b) { return T(a | b); });
}
template <class T, class U>
T atomicAnd(T* p, U value) {
  return hearth::cudaemu::modify(p, value, [](T a, T b) { return T(a & b); });
}
template <class T, class U>
T atomicXor(T* p, U value) {
  return hearth::cudaemu::modify(p, value, [](T a, T b) { return T(a ^ b); });
}
/// Increments *p; `limit` wraps to 0.
inline unsigned atomicInc(unsigned* p, unsigned limit) {
  return hearth::cudaemu::modify(p, limit, [](unsigned a, unsigned b) { return a >= b ? 0 : a + 1; });
}
template <class T, class U>
T atomicExch(T* p, U value) {
  return std::atomic_ref<T>(*p).exchange(T(value), std::memory_order_relaxed);
}
template <class T, class U, class V>
T atomicCAS(T* p, U expected, V value) {
  T old = T(expected);
  std::atomic_ref<T>(*p).compare_exchange_strong(old, T(value), std::memory_order_relaxed);
  return old;
}
