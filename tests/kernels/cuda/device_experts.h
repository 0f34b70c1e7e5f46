// Choices of experts and groups of pairs in device memory, for tests.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/ops/expert_ops.h"
#include "tests/kernels/cuda/device_array.h"

namespace hearth::test {

/// A choice on the host, with the fields of DeviceChoice.
struct HostChoice {
  int n_tokens = 0, n_used = 0;
  std::vector<int32_t> experts;
  std::vector<float> weights;
  std::vector<int32_t> slots;

  size_t n_pairs() const { return static_cast<size_t>(n_tokens) * static_cast<size_t>(n_used); }
};

class DeviceChoiceArrays {
 public:
  DeviceChoiceArrays(int n_tokens, int n_used)
      : DeviceChoiceArrays(HostChoice{n_tokens, n_used, filled<int32_t>(n_tokens * n_used, -7),
                                      filled<float>(n_tokens * n_used, -7.0f),
                                      filled<int32_t>(n_tokens * n_used, -7)}) {}
  explicit DeviceChoiceArrays(const HostChoice& choice)
      : n_tokens_(choice.n_tokens),
        n_used_(choice.n_used),
        experts_(choice.experts),
        weights_(choice.weights),
        slots_(choice.slots) {}

  cuda::DeviceChoice view() const {
    return {n_tokens_, n_used_, experts_.data(), weights_.data(), slots_.data()};
  }
  HostChoice read(const TestStream& stream) const {
    return {n_tokens_, n_used_, experts_.read(stream), weights_.read(stream), slots_.read(stream)};
  }

 private:
  template <class T>
  static std::vector<T> filled(int n, T value) {
    return std::vector<T>(static_cast<size_t>(n), value);
  }

  int n_tokens_, n_used_;
  DeviceArray<int32_t> experts_;
  DeviceArray<float> weights_;
  DeviceArray<int32_t> slots_;
};

/// The arrays of ExpertGroups on the host.
struct HostGroups {
  std::vector<int32_t> row_of_pair, token_of_row;
  std::vector<cuda::ExpertTile> tiles;
};

class DeviceGroups {
 public:
  DeviceGroups(int n_tokens, int n_used, int n_experts, int n_slots)
      : memory_(cuda::expert_groups_bytes(n_tokens, n_used)),
        groups_(cuda::groups_in(memory_.data(), n_tokens, n_used, n_experts, n_slots)) {}

  const cuda::ExpertGroups& view() const { return groups_; }
  HostGroups read(const TestStream& stream) const {
    const auto n_pairs = static_cast<size_t>(groups_.n_pairs);
    if (n_pairs == 0) return {};
    const std::vector<int32_t> counts = copied(stream, groups_.counts, 2);
    return {copied(stream, groups_.row_of_pair, n_pairs),
            copied(stream, groups_.token_of_row, static_cast<size_t>(counts[1])),
            copied(stream, groups_.tiles, static_cast<size_t>(counts[0]))};
  }

 private:
  template <class T>
  static std::vector<T> copied(const TestStream& stream, const T* from, size_t n) {
    stream.wait();
    std::vector<T> values(n);
    if (n > 0) cuda::check(cudaMemcpy(values.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost), "copying");
    return values;
  }

  DeviceArray<std::byte> memory_;
  cuda::ExpertGroups groups_;
};

/// Returns the groups that group_pairs() must give, computed by a plain stable sort.
inline HostGroups sorted_groups(const HostChoice& choice, int tile_rows) {
  HostGroups groups;
  std::vector<size_t> order;
  for (size_t pair = 0; pair < choice.n_pairs(); ++pair) {
    if (choice.slots[pair] >= 0) order.push_back(pair);
  }
  std::ranges::stable_sort(order, {}, [&](size_t pair) { return choice.slots[pair]; });
  groups.row_of_pair.assign(choice.n_pairs(), -1);
  for (size_t row = 0; row < order.size(); ++row) {
    const size_t pair = order[row];
    groups.row_of_pair[pair] = static_cast<int32_t>(row);
    groups.token_of_row.push_back(static_cast<int32_t>(pair / static_cast<size_t>(choice.n_used)));
    cuda::ExpertTile* last = groups.tiles.empty() ? nullptr : &groups.tiles.back();
    if (last != nullptr && last->slot == choice.slots[pair] && last->n_rows < tile_rows) {
      ++last->n_rows;
    } else {
      groups.tiles.push_back({choice.slots[pair], choice.experts[pair], static_cast<int32_t>(row), 1});
    }
  }
  return groups;
}

/// Returns whether the groups are equal.
inline bool same_groups(const HostGroups& a, const HostGroups& b) {
  return a.row_of_pair == b.row_of_pair && a.token_of_row == b.token_of_row &&
         std::ranges::equal(a.tiles, b.tiles, [](const cuda::ExpertTile& x, const cuda::ExpertTile& y) {
           return x.slot == y.slot && x.expert == y.expert && x.first_row == y.first_row &&
                  x.n_rows == y.n_rows;
         });
}

}  // namespace hearth::test
