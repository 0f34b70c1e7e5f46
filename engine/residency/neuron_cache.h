// The device rows behind a layer's hot neurons, and which of the cold neurons are worth having there.
//
// Bookkeeping only: no device, no clock, no thread of its own (the Prefetcher's thread uses it). The same
// calls give the same answers. A device row goes round
//   free -> arriving -> resident -> emptied -> free
// by bring(), arrived(), let_go() and freed(). The neuron of an emptied row has left or is about to, but work
// that reads the row may still be under way.
//
// How often a neuron is wanted is a sum over visits of the layer that fades by half in kHalfLife of them. All
// sums fade alike, so instead of them the weight of a visit grows, and nothing is touched but what was wanted
// (as in Chaff's and MiniSat's variable activities).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/neuron_traffic.h"

namespace hearth {

class NeuronCache {
 public:
  /// Visits, that is tokens of a decoding sequence, after which a want counts half. A guess: long enough that
  /// a sentence's neurons stay, short enough that a new subject's come.
  static constexpr double kHalfLife = 64;

  /// For a layer of n_neurons, of which the device always has those in `hot`. The cache's device rows are
  /// [first_row, end_row); all are free.
  NeuronCache(int64_t n_neurons, std::span<const int32_t> hot, int64_t first_row, int64_t end_row,
              double half_life = kHalfLife);

  size_t words() const { return had_.size(); }  // of a set of the layer's neurons, one bit each
  int64_t n_device_rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t n_free() const { return n_free_; }

  /// A step of the layer wanted these.
  void visit(std::span<const uint64_t> wanted);

  /// How many of these are neither hot nor have a device row in any state.
  int64_t missing(std::span<const uint64_t> predicted) const;

  /// Of these, those that are missing, at most n and at most as many as rows are free: the most often wanted
  /// first, of equals the lower number. Replaces `out` by them with their device rows, both ascending, so
  /// that neighbours move together. They are arriving from now on.
  void bring(std::span<const uint64_t> predicted, int64_t n, std::vector<RowChange>& out);

  /// The device row's neuron is on the device. REQUIRES: it was arriving.
  void arrived(int32_t device_row);

  /// Empties device rows until n of them are free or emptied: of resident neurons that are not in `predicted`
  /// the least often wanted first, of equals the lower number. Replaces `out` by them with their device rows.
  /// Fewer than n, if no more may go.
  void let_go(std::span<const uint64_t> predicted, int64_t n, std::vector<RowChange>& out);

  /// Nothing reads the device row any more. REQUIRES: it was emptied.
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

  const double growth_;  // of a visit's weight over the one before
  const int32_t first_row_;
  std::vector<Row> rows_;
  int64_t n_free_, n_emptied_ = 0;
  std::vector<uint64_t> had_;    // [words] hot, or with a device row
  std::vector<double> wanted_;   // [n_neurons] sum of the weights of visits that wanted it
  double weight_ = 1;            // of the next visit
  std::vector<int32_t> choice_;  // scratch of bring() and let_go(): neurons, or places in rows_
};

}  // namespace hearth
