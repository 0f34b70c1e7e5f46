// See the header.
#include "engine/activity/expert_trace.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/activity/measurement_bytes.h"
#include "engine/model/gguf/mapped_file.h"
#include "kernels/base/file_error.h"
#include "kernels/base/whole_file.h"

namespace hearth {
namespace {

using file_error::with_commas;

constexpr uint32_t kTraceVersion = 1;
constexpr MeasurementFile kTraceFile{
    .magic = "HTRC",
    .what = "a trace of experts",
    .first_version = kTraceVersion,
    .last_version = kTraceVersion,
    .remedy = "; record it again (hearth-profiler count --trace or hearthd --expert-trace)"};
constexpr uint64_t kMaxExpertBytes = uint64_t{1} << 40;  // far above any model's
constexpr uint8_t kGeneratedBit = 1, kBeginsBit = 2;

/// Number of bytes that an expert's number takes in the file.
size_t number_bytes(int n_experts) { return n_experts <= 256 ? 1 : 2; }

/// Reads the number of experts per token and the list of layers with experts.
void read_layers(MeasurementReader& reader, ExpertTrace& trace) {
  reader.enter("list of layers");
  const auto n_experts = static_cast<uint64_t>(trace.model.n_experts);
  trace.n_used = static_cast<int>(reader.number(n_experts, "experts of a token"));
  const auto n_layers = static_cast<uint64_t>(trace.model.n_layers);
  const uint64_t n = reader.number(n_layers, "layers with experts");
  if (trace.n_used == 0 || n == 0) reader.fail("says 0 experts of a token or 0 layers, expected 1 or more");
  for (uint64_t i = 0; i < n; ++i) {
    TracedLayer layer;
    layer.number = static_cast<int>(reader.number(n_layers - 1, "as a layer's number"));
    if (i > 0 && layer.number <= trace.layers.back().number) {
      reader.fail("is not in ascending order: the file was made wrong");
    }
    layer.expert_bytes = reader.number(kMaxExpertBytes, "bytes of an expert");
    trace.layers.push_back(layer);
  }
}

/// Checks the experts that a run chose and appends them to the trace. A choice is the set of experts of one
/// token in one layer. n_choices_ counts the choices read so far. With it, check() finds an expert that
/// occurs twice in one choice.
class ChoiceReader {
 public:
  ChoiceReader(MeasurementReader& reader, ExpertTrace& trace)
      : reader_(reader), trace_(trace), last_choice_(static_cast<size_t>(trace.model.n_experts)) {}

  void read(uint64_t n_tokens) {
    const size_t width = number_bytes(trace_.model.n_experts);
    const std::span<const std::byte> bytes =
        reader_.take(n_tokens * uint64_t{trace_.token_experts()} * uint64_t{width});
    const auto n_used = static_cast<size_t>(trace_.n_used);
    for (size_t i = 0; i < bytes.size() / width; ++i) {
      if (i % n_used == 0) ++n_choices_;
      uint16_t expert = 0;
      std::memcpy(&expert, bytes.data() + i * width, width);
      check(expert);
      trace_.experts.push_back(expert);
    }
  }

 private:
  void check(uint16_t expert) {
    if (expert >= last_choice_.size()) {
      reader_.fail("names expert " + with_commas(expert) + ", and a layer has " +
                   with_commas(last_choice_.size()) + ": the file was made wrong");
    }
    if (std::exchange(last_choice_[expert], n_choices_) == n_choices_) {
      reader_.fail("names expert " + with_commas(expert) +
                   " twice for a token of a layer: the file was made wrong");
    }
  }

  MeasurementReader& reader_;
  ExpertTrace& trace_;
  uint64_t n_choices_ = 0;             // number of choices begun so far
  std::vector<uint64_t> last_choice_;  // [n_experts] number of the last choice that contained the expert
};

void read_runs(MeasurementReader& reader, ExpertTrace& trace) {
  reader.enter("list of runs");
  const uint64_t token_bytes = uint64_t{trace.token_experts()} * number_bytes(trace.model.n_experts);
  // Limit the number before allocating memory: a run takes at least one byte for its kind and one for its
  // length.
  const uint64_t n = reader.number(reader.remaining() / 2, "runs");
  ChoiceReader choices(reader, trace);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t kind = reader.number(kGeneratedBit | kBeginsBit, "as a run's kind");
    const TraceRun run{
        .text = (kind & kGeneratedBit) != 0 ? TraceText::kGenerated : TraceText::kPrompt,
        .begins_sequence = (kind & kBeginsBit) != 0,
        .n_tokens = static_cast<uint32_t>(reader.number(
            std::min<uint64_t>(reader.remaining() / token_bytes, UINT32_MAX), "tokens of a run"))};
    if (run.n_tokens == 0) reader.fail("has a run of 0 tokens: the file was made wrong");
    if (i == 0 && !run.begins_sequence) {
      reader.fail("begins in the middle of a sequence: the file was made wrong");
    }
    trace.runs.push_back(run);
    choices.read(run.n_tokens);
  }
}

}  // namespace

uint64_t ExpertTrace::n_sequences() const {
  return static_cast<uint64_t>(std::ranges::count_if(runs, &TraceRun::begins_sequence));
}

void ExpertTrace::add_run(TraceText text, bool begins_sequence, std::span<const uint16_t> chosen) {
  assert(!chosen.empty() && chosen.size() % token_experts() == 0 && (begins_sequence || !runs.empty()));
  runs.push_back({text, begins_sequence, static_cast<uint32_t>(chosen.size() / token_experts())});
  experts.insert(experts.end(), chosen.begin(), chosen.end());
}

std::vector<TracedLayer> traced_layers(const ModelSpec& spec, const Weights& weights) {
  std::vector<TracedLayer> layers;
  for (int i = 0; i < spec.n_layers; ++i) {
    const MixtureWeights& mixture = weights.layers[static_cast<size_t>(i)].mixture;
    if (mixture.experts.empty()) continue;
    layers.push_back({i, uint64_t{experts_bytes(mixture)} / mixture.experts.size()});
  }
  return layers;
}

ExpertTrace parse_expert_trace(std::span<const std::byte> bytes, const std::string& file) {
  MeasurementReader reader(bytes, file, kTraceFile);
  ExpertTrace trace;
  trace.model = reader.model(/*of_experts=*/true);
  read_layers(reader, trace);
  read_runs(reader, trace);
  reader.end();
  return trace;
}

ExpertTrace read_expert_trace(const std::filesystem::path& path) {
  const gguf::MappedFile mapped = gguf::MappedFile::open(path, "a trace of experts");
  return parse_expert_trace(mapped.bytes(), file_error::file_label(path.string()));
}

void require_same_model(const ExpertTrace& trace, const ModelIdentity& model, const std::string& file) {
  const std::string why = other_model(trace.model, model);
  if (!why.empty()) file_error::fail(file, why + std::string(kTraceFile.remedy));
}

std::vector<std::byte> expert_trace_bytes(const ExpertTrace& trace) {
  MeasurementWriter bytes(kTraceFile, kTraceVersion);
  bytes.model(trace.model);
  bytes.number(static_cast<uint64_t>(trace.n_used));
  bytes.number(trace.layers.size());
  for (const TracedLayer& layer : trace.layers) {
    bytes.number(static_cast<uint64_t>(layer.number));
    bytes.number(layer.expert_bytes);
  }
  bytes.number(trace.runs.size());
  const size_t width = number_bytes(trace.model.n_experts);
  size_t at = 0;
  for (const TraceRun& run : trace.runs) {
    bytes.number((run.text == TraceText::kGenerated ? uint64_t{kGeneratedBit} : 0) |
                 (run.begins_sequence ? uint64_t{kBeginsBit} : 0));
    bytes.number(run.n_tokens);
    const size_t end = at + run.n_tokens * trace.token_experts();
    assert(end <= trace.experts.size());
    for (; at < end; ++at) {
      bytes.raw(&trace.experts[at], width);
    }
  }
  return std::move(bytes).finish();
}

ExpertTraceWriter::ExpertTraceWriter(const ModelIdentity& model, int n_used, std::vector<TracedLayer> layers,
                                     uint64_t max_tokens)
    : trace_{.model = model, .n_used = n_used, .layers = std::move(layers), .runs = {}, .experts = {}},
      max_tokens_(max_tokens) {
  assert(model.n_experts > 0 && n_used > 0 && !trace_.layers.empty() && max_tokens > 0);
}

void ExpertTraceWriter::add(TraceText text, bool begins_sequence, std::span<const uint16_t> experts) {
  const uint64_t room = (max_tokens_ - trace_.n_tokens()) * trace_.token_experts();
  if (experts.size() > room) {
    full_ = true;
    experts = experts.first(room);
  }
  if (!experts.empty()) trace_.add_run(text, begins_sequence, experts);
}

void ExpertTraceWriter::write(const std::filesystem::path& path) const {
  write_whole_file(path, expert_trace_bytes(trace_), Readers::kOwner);
}

}  // namespace hearth
