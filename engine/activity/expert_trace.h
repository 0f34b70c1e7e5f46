// A trace of a mixture's experts: the experts that each token of some texts chose, layer by layer and in
// order. Counts (engine/activity/activity_file.h) contain only how often an expert is chosen. A trace also
// contains the order, so that caches of experts can be compared by replaying it (hearth-profiler replay).
//
// Its contents are, in this order:
//   "HTRC", version (uint32), the model as in an activity file of a mixture;
//   the number of experts per token; the number of layers with experts, then for each of these layers,
//     ascending, its number and the bytes of one of its experts (gate, up and down);
//   the number of runs, then for each run: a byte, which is 0 for prompt tokens or 1 for generated tokens,
//     plus 2 if the run begins a sequence; the run's number of tokens, not 0; the experts [n_tokens, layers
//     with experts, experts per token], the best first, as uint8, or as uint16 if a layer has more than 256
//     experts;
//   SHA-256 of all bytes before it.
// Little-endian. Numbers without a stated width are LEB128. A run is a part of a sequence with tokens of only
// one kind. It continues the sequence of the previous run unless its first byte marks the beginning of a
// sequence. Written by hearthd, and by hearth-profiler count and synth. A trace contains no text, but it
// reveals something about the texts, so it needs the same protection as they do. Bytes are not trusted. Plain
// data; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/model/model_identity.h"
#include "engine/model/model_spec.h"
#include "engine/model/weights.h"

namespace hearth {

/// A layer with experts.
struct TracedLayer {
  int number = 0;             // index of the layer in the model
  uint64_t expert_bytes = 0;  // bytes of one expert: the mean over the layer's experts
  bool operator==(const TracedLayer&) const = default;
};

enum class TraceText : uint8_t { kPrompt, kGenerated };

struct TraceRun {
  TraceText text = TraceText::kPrompt;
  bool begins_sequence = true;  // false: it continues the previous run's sequence
  uint32_t n_tokens = 0;        // not 0
  bool operator==(const TraceRun&) const = default;
};

struct ExpertTrace {
  ModelIdentity model;  // model of the mixture
  int n_used = 0;       // experts of a token in a layer
  std::vector<TracedLayer> layers;
  std::vector<TraceRun> runs;  // runs; the first run begins a sequence
  // [tokens of all runs, layers, n_used] the experts of each token, the best first, without duplicates.
  std::vector<uint16_t> experts;

  /// Number of experts that a token chooses in all layers together.
  size_t token_experts() const { return layers.size() * static_cast<size_t>(n_used); }
  uint64_t n_tokens() const { return token_experts() == 0 ? 0 : experts.size() / token_experts(); }
  uint64_t n_sequences() const;
  /// Returns the experts [n_used] that a token chose in the layer layers[layer]. token: index among the
  /// tokens of all runs.
  std::span<const uint16_t> chosen(uint64_t token, size_t layer) const {
    const auto n = static_cast<size_t>(n_used);
    return std::span(experts).subspan((token * layers.size() + layer) * n, n);
  }

  /// Appends a run of n tokens with the experts [n, layers, n_used]. REQUIRES: n > 0.
  void add_run(TraceText text, bool begins_sequence, std::span<const uint16_t> chosen);
};

/// A model's layers with experts, and the sizes of these experts.
std::vector<TracedLayer> traced_layers(const ModelSpec& spec, const Weights& weights);

/// Parses `bytes`, a whole file. file: its name for messages (file_error::file_label()). Throws
/// ModelFileError if the bytes are not a trace, are damaged, or have another version.
ExpertTrace parse_expert_trace(std::span<const std::byte> bytes, const std::string& file);
ExpertTrace read_expert_trace(const std::filesystem::path& path);

/// Throws ModelFileError if the trace belongs to another model. file: the trace file's name for messages
/// (file_error::file_label()).
void require_same_model(const ExpertTrace& trace, const ModelIdentity& model, const std::string& file);

/// Returns the bytes of the trace's file. REQUIRES: trace.experts contains the tokens of all trace.runs.
std::vector<std::byte> expert_trace_bytes(const ExpertTrace& trace);

/// Appends runs to a trace up to a given number of tokens, so that its memory is bounded. One thread.
class ExpertTraceWriter {
 public:
  /// max_tokens: not 0.
  ExpertTraceWriter(const ModelIdentity& model, int n_used, std::vector<TracedLayer> layers,
                    uint64_t max_tokens);

  /// Appends a run of n tokens with these experts [n, layers, n_used]; does nothing if n is 0. Omits tokens
  /// beyond the limit; then full() returns true.
  void add(TraceText text, bool begins_sequence, std::span<const uint16_t> experts);

  /// Whether tokens were left out.
  bool full() const { return full_; }
  uint64_t max_tokens() const { return max_tokens_; }
  const ExpertTrace& trace() const { return trace_; }
  /// Writes the file, which only its owner may read; throws like write_whole_file.
  void write(const std::filesystem::path& path) const;

 private:
  ExpertTrace trace_;
  const uint64_t max_tokens_;
  bool full_ = false;
};

}  // namespace hearth
