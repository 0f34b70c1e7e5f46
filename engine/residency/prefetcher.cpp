// See the header.
#include "engine/residency/prefetcher.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <exception>
#include <utility>

namespace hearth {
namespace {

// Maximum number of neurons that are copied for one step of a layer. It is half of the changes that the
// backend accepts in a step, so that as many neurons can be evicted.
constexpr int64_t kMostMoves = RowPrefetcher::kMaxChanges / 2;

// A layer's neurons are copied in at most kPieces pieces, so that the first pieces may arrive in time even if
// the last piece does not. A piece has at least kLeastPiece neurons, because starting a copy takes
// microseconds.
constexpr int64_t kPieces = 4, kLeastPiece = 64;

// After a copy that came too late, fewer neurons are copied; then the number slowly rises again.
constexpr double kFewer = 0.95, kMore = 1.005, kFewest = 0.2;

// Time to start a copy of any size. It is excluded from the link's rate. Otherwise small copies would seem
// slow, so fewer and fewer neurons would be copied, down to none.
constexpr double kStartSeconds = 8e-6;

// Bundles that the CPU computes per second, until this rate has been measured. Only its ratio to the link's
// rate matters.
constexpr double kCpuAtFirst = 1e6;
// Layers per second of time in which the CPU computes no neurons. This value is used until the rate has been
// measured. The value is large, so that few copies are planned for that time at first.
constexpr double kLayersAtFirst = 1e5;

uint64_t bit(int32_t neuron) { return uint64_t{1} << (neuron % 64); }
uint64_t& word(std::vector<uint64_t>& bits, int32_t neuron) { return bits[static_cast<size_t>(neuron / 64)]; }

/// Clears the bits in `among` that are set in `of`. Returns how many bits it cleared.
int64_t take_common(std::vector<uint64_t>& among, std::span<const uint64_t> of) {
  int64_t n = 0;
  for (size_t w = 0; w < among.size(); ++w) {
    n += std::popcount(among[w] & of[w]);
    among[w] &= ~of[w];
  }
  return n;
}

}  // namespace

void Prefetcher::Rate::add(double amount, double seconds) {
  if (!(amount > 0 && seconds > 0)) return;
  // The last sixteen or so measurements count, which are roughly the layers of one token.
  constexpr double kFade = 1 - 1.0 / 16;
  amount_ = amount_ * kFade + amount;
  seconds_ = seconds_ * kFade + seconds;
}

Prefetcher::LayerState::LayerState(const PrefetchLayer& of)
    : layer(of.layer),
      cache(of.n_neurons, of.hot, of.n_hot, of.n_device_rows, of.cached),
      any(cache.words()),
      proposed(cache.words()) {}

Prefetcher::Prefetcher(std::span<const PrefetchLayer> layers, std::unique_ptr<RowCopier> copier,
                       PrefetchOptions options)
    : options_(std::move(options)),
      copier_(std::move(copier)),
      exchanges_(layers.size()),
      link_(kCpuAtFirst * options_.link_over_cpu),
      cpu_(kCpuAtFirst),
      layers_(kLayersAtFirst) {
  computed_ = Clock::now();
  changes_.reserve(kMaxChanges);
  moves_.reserve(kMaxChanges);
  states_.reserve(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto number = static_cast<size_t>(layers[i].layer);
    if (index_of_.size() <= number) index_of_.resize(number + 1);
    index_of_[number] = i;
    LayerState& state = states_.emplace_back(layers[i]);
    Exchange& exchange = exchanges_[i];
    for (auto* bits : {&exchange.any, &exchange.proposed, &exchange.hot, &exchange.coming, &exchange.unused,
                       &exchange.cached}) {
      bits->resize(state.cache.words());
    }
    for (const int32_t neuron : layers[i].hot) word(exchange.hot, neuron) |= bit(neuron);
    for (const int32_t neuron : layers[i].cached) word(exchange.cached, neuron) |= bit(neuron);
    const auto n_device_rows = static_cast<size_t>(state.cache.n_device_rows());
    for (auto* list : {&exchange.arrived, &exchange.leaving}) list->reserve(n_device_rows);
    for (auto* list : {&exchange.told, &exchange.freed, &exchange.emptied}) list->reserve(n_device_rows);
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Prefetcher::~Prefetcher() {
  thread_.request_stop();
  thread_.join();
}

// ---- engine thread ---------------------------------------------------------------------------------------

std::span<const RowChange> Prefetcher::changes(int layer) {
  Exchange& exchange = exchanges_[index_of(layer)];
  const Clock::time_point now = Clock::now();
  changes_.clear();
  const MutexLock lock(mutex_);
  exchange.reached = now;
  ++exchange.n_begun;
  while (!exchange.arrived.empty() && changes_.size() < kMaxChanges) {
    const RowChange change = exchange.arrived.back();
    exchange.arrived.pop_back();
    changes_.push_back(change);
    exchange.told.push_back(change.device_row);
    word(exchange.coming, change.neuron) &= ~bit(change.neuron);
    word(exchange.unused, change.neuron) |= bit(change.neuron);
    word(exchange.cached, change.neuron) |= bit(change.neuron);
  }
  while (!exchange.leaving.empty() && changes_.size() < kMaxChanges) {
    const RowChange change = exchange.leaving.back();
    exchange.leaving.pop_back();
    changes_.push_back({change.neuron, -1});
    exchange.emptied.push_back(change.device_row);
    ++counters_.evicted;
    uint64_t& unused = word(exchange.unused, change.neuron);
    if ((unused & bit(change.neuron)) != 0) ++counters_.evicted_unused;
    unused &= ~bit(change.neuron);
    word(exchange.cached, change.neuron) &= ~bit(change.neuron);
  }
  return changes_;
}

void Prefetcher::enqueued(int layer, void* stream) {
  Exchange& exchange = exchanges_[index_of(layer)];
  if (exchange.emptied.empty()) return;
  try {
    copier_->gate(layer, stream);
  } catch (const std::exception& error) {
    // The device rows stay empty, because without gate() nothing reports when they may be overwritten.
    exchange.emptied.clear();
    return stop_for(error.what());
  }
  const MutexLock lock(mutex_);
  exchange.freed.insert(exchange.freed.end(), exchange.emptied.begin(), exchange.emptied.end());
  exchange.emptied.clear();
}

void Prefetcher::wanted(int layer, std::span<const uint64_t> any, std::span<const uint64_t> cold) {
  const size_t index = index_of(layer);
  Exchange& exchange = exchanges_[index];
  n_cold_ = 0;
  int64_t n_wanted = 0, n_hot = 0;
  for (const uint64_t word : cold) n_cold_ += std::popcount(word);
  for (size_t i = 0; i < any.size(); ++i) {
    n_wanted += std::popcount(any[i]);
    n_hot += std::popcount(any[i] & exchange.hot[i]);
  }
  {
    const MutexLock lock(mutex_);
    counters_.hot += n_hot;
    counters_.cached += n_wanted - n_hot - n_cold_;
    counters_.cold += n_cold_;
    std::ranges::copy(any, exchange.any.begin());
    exchange.visited = true;
    exchange.has_proposal = false;
    exchange.next_step = exchange.n_begun;
    counters_.used += take_common(exchange.unused, any);
    counters_.late += take_common(exchange.coming, any);
    latest_ = index;
    news_ = true;
  }
  news_come_.notify_all();
}

void Prefetcher::proposed(int layer, std::span<const uint64_t> any) {
  const size_t index = index_of(layer);
  {
    const MutexLock lock(mutex_);
    Exchange& exchange = exchanges_[index];
    std::ranges::copy(any, exchange.proposed.begin());
    exchange.has_proposal = proposals_ = true;
    exchange.next_step = exchange.n_begun;
    newest_proposal_ = index;
    news_ = true;
  }
  news_come_.notify_all();
}

void Prefetcher::computed(int /*layer*/, double seconds) {
  const Clock::time_point now = Clock::now();
  const double all_seconds = std::chrono::duration<double>(now - std::exchange(computed_, now)).count();
  const MutexLock lock(mutex_);
  cpu_.add(static_cast<double>(n_cold_), seconds);
  layers_.add(1, all_seconds - seconds);
}

void Prefetcher::begin_step() {
  computed_ = Clock::now();
  const MutexLock lock(mutex_);
  step_ = (step_ + 1) % steps_.size();
  steps_[step_] = {Clock::now(), Clock::time_point::max()};
}

void Prefetcher::end_step() {
  const MutexLock lock(mutex_);
  steps_[step_].end = Clock::now();
}

// ---- any thread ------------------------------------------------------------------------------------------

PrefetchCounters Prefetcher::counters() const {
  const MutexLock lock(mutex_);
  return counters_;
}

std::string Prefetcher::why_stopped() const {
  const MutexLock lock(mutex_);
  return why_stopped_;
}

bool Prefetcher::cached(int layer, std::span<uint64_t> bits) const {
  const auto number = static_cast<size_t>(layer);
  // index_of_ is 0 for layer numbers that the Prefetcher does not serve.
  if (number >= index_of_.size() || states_[index_of_[number]].layer != layer) return false;
  const MutexLock lock(mutex_);
  std::ranges::copy(exchanges_[index_of_[number]].cached, bits.begin());
  return true;
}

void Prefetcher::settle() const {
  MutexLock lock(mutex_);
  idle_now_.wait(lock.for_wait(),
                 [&]() HEARTH_REQUIRES(mutex_) { return (idle_ && !news_) || !why_stopped_.empty(); });
}

/// Stops prefetch. Neurons that are already in the cache stay in use.
void Prefetcher::stop_for(const char* why) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  const std::string sentence =
      "Neurons are no longer prefetched to the GPU's cache after this error: " + std::string(why) +
      " The model runs on with the neurons that the GPU has.";
  if (options_.stopped) options_.stopped(sentence);
  {
    const MutexLock lock(mutex_);
    why_stopped_ = sentence;
  }
  news_come_.notify_all();
  idle_now_.notify_all();
}

// ---- the Prefetcher's thread -----------------------------------------------------------------------------

void Prefetcher::run(const std::stop_token& stop) {
  try {
    while (true) {
      size_t latest, n_ahead;
      std::optional<size_t> proposal;
      {
        MutexLock lock(mutex_);
        if (!news_) {
          idle_ = true;
          idle_now_.notify_all();
        }
        if (!news_come_.wait(lock.for_wait(), stop,
                             [&]() HEARTH_REQUIRES(mutex_) { return news_ || !why_stopped_.empty(); }))
          return;
        if (!why_stopped_.empty()) return;
        idle_ = news_ = false;
        latest = latest_;
        proposal = std::exchange(newest_proposal_, std::nullopt);
        n_ahead =
            std::min(proposals_ ? size_t{1} : static_cast<size_t>(options_.layers_ahead), exchanges_.size());
        take_news();
      }
      for (LayerState& state : states_) {
        if (!std::exchange(state.visited, false)) continue;
        state.cache.visit(state.any);
        state.n_started = 0;
      }
      if (proposal && !serve(*proposal)) continue;
      for (size_t ahead = 1; ahead <= n_ahead; ++ahead) {
        const size_t index = (latest + ahead) % states_.size();
        if (states_[index].has_proposal) continue;  // already served
        // If newer reports have arrived, start over, because they show better which neurons are needed now.
        if (!serve(index)) break;
      }
      if (stop.stop_requested()) return;
    }
  } catch (const std::exception& error) {
    stop_for(error.what());
  }
}

/// Moves the engine thread's reports from the exchanges to the layers' states.
void Prefetcher::take_news() {
  for (size_t i = 0; i < states_.size(); ++i) {
    Exchange& exchange = exchanges_[i];
    LayerState& state = states_[i];
    for (const int32_t device_row : exchange.told) state.cache.arrived(device_row);
    for (const int32_t device_row : exchange.freed) state.cache.freed(device_row);
    exchange.told.clear();
    exchange.freed.clear();
    if (exchange.visited) {
      std::swap(state.any, exchange.any);
      state.visited = true;
      exchange.visited = false;
    }
    state.step = exchange.next_step;
    state.has_proposal = exchange.has_proposal;
    if (state.has_proposal) state.proposed = exchange.proposed;
  }
}

/// Copies neurons for the layer's next step, and empties device rows for the step after that. Returns true if
/// no newer reports have arrived.
bool Prefetcher::serve(size_t index) {
  LayerState& state = states_[index];
  const std::span<const uint64_t> predicted = state.has_proposal ? state.proposed : state.any;
  int64_t n = number_to_bring(state, predicted);
  const int64_t piece = std::max(kLeastPiece, (n + kPieces - 1) / kPieces);
  bool emptied = false, in_time = true;
  while (n > 0 && in_time) {
    state.cache.bring(predicted, std::min(n, piece), moves_);
    if (!std::exchange(emptied, true)) {
      // Empty as many rows as the neurons of one step need, but at most a quarter of the rows: the others
      // keep neurons that are needed often.
      const int64_t most_free = std::max<int64_t>(1, state.cache.n_device_rows() / 4);
      // copies into rows that are already free
      const int64_t to_come = n - static_cast<int64_t>(moves_.size());
      state.cache.let_go(predicted, std::min(n + state.n_started, most_free) + to_come, leaving_);
    } else {
      leaving_.clear();
    }
    if (moves_.empty()) n = 0;
    n -= static_cast<int64_t>(moves_.size());
    state.n_started += static_cast<int64_t>(moves_.size());
    in_time = move(index);
  }
  part_ = in_time ? std::min(1.0, part_ * kMore) : std::max(kFewest, part_ * kFewer);
  const MutexLock lock(mutex_);
  return !news_;
}

/// Returns how many of the missing neurons the link should copy: as many as it can copy during one layer
/// while the CPU computes the other missing neurons.
int64_t Prefetcher::number_to_bring(const LayerState& state, std::span<const uint64_t> predicted) const {
  const int64_t all = state.cache.missing(predicted) + state.n_started;
  double ratio, besides;
  {
    const MutexLock lock(mutex_);
    ratio = link_.per_second() / cpu_.per_second();
    besides = link_.per_second() / layers_.per_second();
  }
  const double n = static_cast<double>(all), fair = std::min(n, (n * ratio + besides) / (1 + ratio));
  return std::min(static_cast<int64_t>(std::ceil(part_ * fair)), kMostMoves) - state.n_started;
}

/// Reports to the engine thread which neurons are leaving and coming, copies moves_, and then reports them as
/// arrived. Returns whether there is still time for more copies before the layer's next step.
bool Prefetcher::move(size_t index) {
  Exchange& exchange = exchanges_[index];
  {
    const MutexLock lock(mutex_);
    exchange.leaving.insert(exchange.leaving.end(), leaving_.begin(), leaving_.end());
    for (const RowChange& change : moves_) word(exchange.coming, change.neuron) |= bit(change.neuron);
  }
  if (moves_.empty()) return true;
  copier_->start(states_[index].layer, moves_);
  const RowCopier::Copied copied = copier_->wait();
  const Clock::time_point end = Clock::now();
  const MutexLock lock(mutex_);
  exchange.arrived.insert(exchange.arrived.end(), moves_.begin(), moves_.end());
  const auto n_moved = static_cast<int64_t>(moves_.size());
  counters_.moved += n_moved;
  counters_.bytes += copied.bytes;
  counters_.copy_seconds += copied.seconds;
  counters_.hidden_seconds += hidden_seconds(exchange, copied.seconds, end);
  link_.add(static_cast<double>(n_moved), std::max(copied.seconds - kStartSeconds, copied.seconds / 8));
  return exchange.n_begun == states_[index].step;
}

/// Returns how many of the copy's `seconds`, which ended at `end`, were hidden. Copy time is hidden if a step
/// runs that has not yet reached this layer, because then the copy does not delay the step.
double Prefetcher::hidden_seconds(const Exchange& exchange, double seconds, Clock::time_point end) const {
  const Clock::time_point begin =
      end - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  const Clock::time_point in_time = exchange.reached > begin ? std::min(end, exchange.reached) : end;
  Clock::duration hidden{};
  for (const StepSpan& step : steps_) {
    const Clock::time_point from = std::max(begin, step.begin), to = std::min(in_time, step.end);
    if (from < to) hidden += to - from;
  }
  return std::min(seconds, std::chrono::duration<double>(hidden).count());
}

}  // namespace hearth
