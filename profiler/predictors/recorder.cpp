// An observer that appends to the layers' files. See the header.
#include "profiler/predictors/recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>

#include "engine/residency/bytes_text.h"
#include "kernels/quant/dequantize.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/predictors/observing.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

class Recorder final : public NeuronObserver {
 public:
  Recorder(const ModelRuntime& model, const fs::path& folder, int64_t n_rows)
      : d_model_(model.spec().d_model), d_ff_(model.spec().d_ff), codes_(static_cast<size_t>(d_ff_)) {
    for (int l = 0; l < model.spec().n_layers; ++l) {
      files_.emplace_back(record_path(folder, l), record_shape(model.spec(), l), n_rows);
      norms_.push_back(down_norms(model.file(), model.spec(), l));
    }
  }

  void input(int /*layer*/, const float* x, int n_tokens) override {
    x_.assign(x, x + int64_t{n_tokens} * d_model_);
  }

  void values(int layer, float* values, int n_tokens) override {
    const std::vector<float>& norms = norms_[static_cast<size_t>(layer)];
    for (int t = 0; t < n_tokens; ++t) {
      const float* x = x_.data() + int64_t{t} * d_model_;
      double squares = 0;
      for (int e = 0; e < d_model_; ++e) squares += double{x[e]} * double{x[e]};
      const float unit = static_cast<float>(std::max(std::sqrt(squares / d_model_), 1e-30));
      for (size_t j = 0; j < codes_.size(); ++j) {
        const float value = values[int64_t{t} * d_ff_ + static_cast<int64_t>(j)];
        codes_[j] = value == 0 ? uint8_t{0} : contribution_code(std::fabs(value) * norms[j] / unit);
      }
      files_[static_cast<size_t>(layer)].append(x, codes_);
    }
  }

  void flush() {
    for (RecordWriter& file : files_) file.flush();
  }

 private:
  int d_model_, d_ff_;
  std::vector<RecordWriter> files_;        // [n_layers]
  std::vector<std::vector<float>> norms_;  // [n_layers][d_ff]
  std::vector<float> x_;                   // [n_tokens, d_model] of the layer that runs
  std::vector<uint8_t> codes_;             // [d_ff]
};

/// Whole windows that all layers have.
int64_t windows_recorded(const ModelSpec& spec, const RecordInputs& in) {
  int64_t n_rows = std::numeric_limits<int64_t>::max();
  for (int l = 0; l < spec.n_layers; ++l) {
    n_rows = std::min(n_rows, recorded_rows(record_path(in.folder, l), record_shape(spec, l)));
  }
  return std::min(n_rows, static_cast<int64_t>(in.text.size())) / in.n_context;
}

void require_room(const ModelSpec& spec, const RecordInputs& in, int64_t n_rows) {
  std::error_code error;
  const fs::space_info room = fs::space(in.folder, error);
  const uint64_t bytes = record_bytes(spec, n_rows);
  if (error || room.available >= bytes) return;
  throw std::runtime_error(in.folder.string() + ": recording " + std::to_string(n_rows) + " tokens takes " +
                           bytes_text(static_cast<double>(bytes)) + " there, and its disk has " +
                           bytes_text(static_cast<double>(room.available)) +
                           " free; take fewer --tokens or another --work folder.");
}

}  // namespace

RecordShape record_shape(const ModelSpec& spec, int layer) { return {layer, spec.d_model, spec.d_ff}; }

uint64_t record_bytes(const ModelSpec& spec, int64_t n_rows) {
  return static_cast<uint64_t>(spec.n_layers) * static_cast<uint64_t>(n_rows) *
         record_shape(spec, 0).row_bytes();
}

std::vector<float> down_norms(const ModelFile& file, const ModelSpec& spec, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const bool turned = spec.powerinfer;  // one row per neuron
  const TensorInfo& down = *file.find_tensor(prefix + (turned ? "ffn_down_t.weight" : "ffn_down.weight"));
  const int64_t n_cols = down.shape[0], n_rows = down.shape[1];
  std::vector<float> row(static_cast<size_t>(n_cols));
  std::vector<double> squares(static_cast<size_t>(spec.d_ff), 0.0);
  for (int64_t r = 0; r < n_rows; ++r) {
    dequantize_row(down.dtype, down.data + static_cast<size_t>(r) * row_bytes(down.dtype, n_cols), n_cols,
                   row.data());
    for (size_t c = 0; c < row.size(); ++c) {
      squares[turned ? static_cast<size_t>(r) : c] += double{row[c]} * double{row[c]};
    }
  }
  std::vector<float> norms;
  for (const double sum : squares) norms.push_back(static_cast<float>(std::sqrt(sum)));
  return norms;
}

int64_t record_activity(ModelRuntime& model, const RecordInputs& in,
                        const std::function<void(double)>& progress) {
  const int64_t n_windows = static_cast<int64_t>(in.text.size()) / in.n_context;
  const int64_t n_done = windows_recorded(model.spec(), in);
  require_room(model.spec(), in, (n_windows - n_done) * in.n_context);
  Recorder recorder(model, in.folder, n_done * in.n_context);
  const Observing observing(model, recorder);
  SequenceRun run(model);
  for (int64_t w = n_done; w < n_windows; ++w) {
    run.clear();
    run.feed(in.text.subspan(static_cast<size_t>(w * in.n_context), static_cast<size_t>(in.n_context)),
             model.limits().max_tokens);
    recorder.flush();
    if (progress) progress(static_cast<double>(w + 1) / static_cast<double>(n_windows));
  }
  return n_windows * in.n_context;
}

}  // namespace hearth
