// The slots behind a layer's hot neurons, and which of the cold neurons are worth having there.
//
// Bookkeeping only: no device, no clock, no thread of its own (the Prefetcher's thread uses it). The same
// calls give the same answers. A slot goes round
//   free -> arriving -> resident -> emptied -> free
// by bring(), arrived(), let_go() and freed(): an emptied slot's neuron has left, or is about to, but work
// that reads it may still be under way.
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

  /// Of a layer of n_neurons, those in `hot` always on the device. Slots [first_slot, end_slot), all free.
  NeuronCache(int64_t n_neurons, std::span<const int32_t> hot, int64_t first_slot, int64_t end_slot,
              double half_life = kHalfLife);

  size_t words() const { return had_.size(); }  // of a set of the layer's neurons, one bit each
  int64_t n_slots() const { return static_cast<int64_t>(slots_.size()); }
  int64_t n_free() const { return n_free_; }

  /// A step of the layer wanted these.
  void visit(std::span<const uint64_t> wanted);

  /// How many of these are neither hot nor have a slot in any state.
  int64_t missing(std::span<const uint64_t> predicted) const;

  /// Of these, those that are missing, at most n and as many as there are free slots: the most often wanted
  /// first, of equals the lower number. Replaces `out` by them with their slots, both ascending, so that
  /// neighbours move together. They are arriving from now on.
  void bring(std::span<const uint64_t> predicted, int64_t n, std::vector<SlotChange>& out);

  /// The slot's neuron is on the device. REQUIRES: it was arriving.
  void arrived(int32_t slot);

  /// Empties slots until n of them are free or emptied: of resident neurons that are not in `predicted` the
  /// least often wanted first, of equals the lower number. Replaces `out` by them with their slots. Fewer
  /// than n, if no more may go.
  void let_go(std::span<const uint64_t> predicted, int64_t n, std::vector<SlotChange>& out);

  /// Nothing reads the slot any more. REQUIRES: it was emptied.
  void freed(int32_t slot);

 private:
  enum class State : uint8_t { kFree, kArriving, kResident, kEmptied };
  struct Slot {
    State state = State::kFree;
    int32_t neuron = -1;
  };
  Slot& slot_at(int32_t slot) { return slots_[static_cast<size_t>(slot - first_slot_)]; }
  bool wanted_more(int32_t a, int32_t b) const;
  void fade();

  const double growth_;  // of a visit's weight over the one before
  const int32_t first_slot_;
  std::vector<Slot> slots_;
  int64_t n_free_, n_emptied_ = 0;
  std::vector<uint64_t> had_;    // [words] hot, or with a slot
  std::vector<double> wanted_;   // [n_neurons] sum of the weights of visits that wanted it
  double weight_ = 1;            // of the next visit
  std::vector<int32_t> choice_;  // scratch of bring() and let_go(): neurons, or places in slots_
};

}  // namespace hearth
