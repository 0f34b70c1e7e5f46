// A layer's cache on the device: the device rows after the rows of the hot neurons, and the choice of the
// cold neurons that these rows hold.
//
// This class does bookkeeping only: it uses no device, clock or thread (the Prefetcher's thread calls it).
// Equal calls give equal answers. A device row passes through these states
//   free -> arriving -> resident -> emptied -> free
// by bring(), arrived(), let_go() and freed(). In the state emptied, the row's neuron has left or is about to
// leave, but the device may still be reading the row.
//
// A visit is one step of the layer, recorded by visit(). A neuron's demand is the sum of the weights of the
// visits that wanted the neuron. Relative to the newest visit, a visit's weight halves with every kHalfLife
// further visits. This is done by giving each new visit a larger weight than the previous one, not by
// shrinking all sums. So a visit changes only the sums of the neurons that it wanted (as Chaff and MiniSat do
// for the activity of variables).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/row_prefetcher.h"

namespace hearth {

class NeuronCache {
 public:
  /// Number of further visits after which a visit counts half. If one sequence decodes, each token is a
  /// visit. The number is a guess: long enough to keep the neurons of a sentence, short enough to bring the
  /// neurons of a new topic.
  static constexpr double kHalfLife = 64;

  /// Creates the cache of a layer with n_neurons neurons. The device permanently holds the neurons in `hot`.
  /// The cache owns the device rows [first_row, end_row). The first of them hold the neurons in `cached`; the
  /// others are free.
  NeuronCache(int64_t n_neurons, std::span<const int32_t> hot, int64_t first_row, int64_t end_row,
              std::span<const int32_t> cached = {}, double half_life = kHalfLife);

  size_t words() const { return had_.size(); }  // words of a bit set of the layer's neurons
  int64_t n_device_rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t n_free() const { return n_free_; }

  /// Records that a step of the layer wanted these neurons.
  void visit(std::span<const uint64_t> wanted);

  /// Returns how many of these neurons are not hot and have no device row in any state.
  int64_t missing(std::span<const uint64_t> predicted) const;

  /// Picks neurons of `predicted` that have no device row, to be copied to free device rows. Picks at most n,
  /// and at most as many as rows are free. Neurons with the highest demand are picked first; ties go to the
  /// lower number. Sets `out` to the neurons and their device rows, both ascending, so that neighbors are
  /// copied together. The state of the rows becomes arriving.
  void bring(std::span<const uint64_t> predicted, int64_t n, std::vector<RowChange>& out);

  /// Reports that the neuron of this device row has been copied. REQUIRES: the row was arriving.
  void arrived(int32_t device_row);

  /// Empties device rows until n rows are free or emptied. Evicts resident neurons that are not in
  /// `predicted`, beginning with the lowest demand; ties go to the lower number. Sets `out` to these neurons
  /// and their device rows. Empties fewer rows if there are too few such neurons.
  void let_go(std::span<const uint64_t> predicted, int64_t n, std::vector<RowChange>& out);

  /// Reports that nothing reads the device row anymore. REQUIRES: the row was emptied.
  void freed(int32_t device_row);

 private:
  enum class State : uint8_t { kFree, kArriving, kResident, kEmptied };
  struct Row {
    State state = State::kFree;
    int32_t neuron = -1;
  };
  Row& row_at(int32_t device_row) { return rows_[static_cast<size_t>(device_row - first_row_)]; }
  bool wanted_more(int32_t a, int32_t b) const;
  void fade();

  const double growth_;  // ratio of a visit's weight to the previous visit's weight
  const int32_t first_row_;
  std::vector<Row> rows_;
  int64_t n_free_, n_emptied_ = 0;
  std::vector<uint64_t> had_;    // [words] neurons that are hot or have a device row
  std::vector<double> wanted_;   // [n_neurons] sum of the weights of the visits that wanted the neuron
  double weight_ = 1;            // weight of the next visit
  std::vector<int32_t> choice_;  // scratch memory of bring() and let_go(): neurons, or indices into rows_
};

}  // namespace hearth
