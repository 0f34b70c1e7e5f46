// Writes and maps the files of recordings, and runs the model to record.
#include "profiler/predictors/recording.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>

#include "engine/residency/memory_limit.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/half.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/predictors/observing.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[8] = {'H', 'R', 'T', 'H', 'R', 'E', 'C', '1'};
  int32_t layer = 0, d_model = 0, d_ff = 0, reserved = 0;
  uint64_t padding[5] = {};

  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == 64);

Header header_of(const RecordShape& shape) {
  Header header;
  header.layer = shape.layer;
  header.d_model = shape.d_model;
  header.d_ff = shape.d_ff;
  return header;
}

[[noreturn]] void fail(const fs::path& path, const std::string& sentence) {
  throw std::runtime_error(path.string() + ": " + sentence + ".");
}

[[noreturn]] void fail_foreign(const fs::path& path) {
  fail(path, "is not a recording of this model's activity, or is damaged; start over with --restart");
}

std::array<float, 256> contributions() {
  std::array<float, 256> values{};
  for (int code = 1; code < 256; ++code) {
    values[static_cast<size_t>(code)] = std::exp2(static_cast<float>(code - 128) / 8);
  }
  return values;
}

}  // namespace

uint8_t contribution_code(float contribution) {
  if (!(contribution > 0)) return 0;
  const float step = 128.0f + 8.0f * std::log2(std::min(contribution, 65536.0f));
  return static_cast<uint8_t>(std::lround(std::clamp(step, 1.0f, 255.0f)));
}

float contribution_of(uint8_t code) {
  static const std::array<float, 256> values = contributions();
  return values[code];
}

size_t RecordShape::row_bytes() const {
  const size_t bytes =
      sizeof(float) + static_cast<size_t>(d_model) * sizeof(uint16_t) + static_cast<size_t>(d_ff);
  return (bytes + 7) / 8 * 8;
}

fs::path record_path(const fs::path& folder, int layer) {
  char name[32];
  std::snprintf(name, sizeof(name), "layer-%03d.record", layer);
  return folder / name;
}

RecordWriter::RecordWriter(const fs::path& path, const RecordShape& shape, int64_t n_rows)
    : path_(path), shape_(shape), row_(shape.row_bytes()) {
  if (n_rows > 0) {
    if (recorded_rows(path, shape) < n_rows) fail_foreign(path);
    std::error_code error;
    fs::resize_file(path, sizeof(Header) + static_cast<uint64_t>(n_rows) * row_.size(), error);
    if (error) fail(path, "cannot be written: " + error.message());
    out_.open(path, std::ios::binary | std::ios::app);
  } else {
    out_.open(path, std::ios::binary | std::ios::trunc);
    const Header header = header_of(shape);
    out_.write(reinterpret_cast<const char*>(&header), sizeof(header));
  }
  if (!out_) fail(path, "cannot be written: " + std::string(std::strerror(errno)));
}

void RecordWriter::append(const float* x, std::span<const uint8_t> codes) {
  assert(codes.size() == static_cast<size_t>(shape_.d_ff));
  double squares = 0;
  for (int i = 0; i < shape_.d_model; ++i) squares += double{x[i]} * double{x[i]};
  const float scale = static_cast<float>(std::sqrt(squares / shape_.d_model));
  const float factor = scale > 0 ? 1.0f / scale : 0.0f;
  std::byte* at = row_.data();
  std::memcpy(at, &scale, sizeof(scale));
  at += sizeof(scale);
  for (int i = 0; i < shape_.d_model; ++i) {
    const uint16_t half = half_from_float(x[i] * factor);
    std::memcpy(at, &half, sizeof(half));
    at += sizeof(half);
  }
  std::memcpy(at, codes.data(), codes.size());
  out_.write(reinterpret_cast<const char*>(row_.data()), static_cast<std::streamsize>(row_.size()));
}

void RecordWriter::flush() {
  if (!out_.flush()) {
    fail(path_, "the recording could not be written: " + std::string(std::strerror(errno)) +
                    "; make room, take fewer --tokens or another --work folder");
  }
}

RecordFile::RecordFile(const fs::path& path, const RecordShape& shape, int64_t n_rows)
    : file_(gguf::MappedFile::open(path, "a recording of a model's activity")),
      shape_(shape),
      n_rows_(n_rows) {
  const Header expected = header_of(shape);
  const std::span<const std::byte> bytes = file_.bytes();
  const uint64_t needed = sizeof(Header) + static_cast<uint64_t>(n_rows) * shape.row_bytes();
  if (bytes.size() < needed || std::memcmp(bytes.data(), &expected, sizeof(expected)) != 0) {
    fail_foreign(path);
  }
}

const std::byte* RecordFile::row(int64_t i) const {
  return file_.bytes().data() + sizeof(Header) + static_cast<size_t>(i) * shape_.row_bytes();
}

float RecordFile::scale(int64_t i) const {
  float scale = 0;
  std::memcpy(&scale, row(i), sizeof(scale));
  return scale;
}

void RecordFile::input(int64_t i, float* x) const {
  const std::byte* at = row(i) + sizeof(float);
  for (int e = 0; e < shape_.d_model; ++e) {
    uint16_t half = 0;
    std::memcpy(&half, at + static_cast<size_t>(e) * sizeof(half), sizeof(half));
    x[e] = float_from_half(half);
  }
}

const uint8_t* RecordFile::codes(int64_t i) const {
  return reinterpret_cast<const uint8_t*>(row(i) + sizeof(float) +
                                          static_cast<size_t>(shape_.d_model) * sizeof(uint16_t));
}

int64_t recorded_rows(const fs::path& path, const RecordShape& shape) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error || bytes < sizeof(Header)) return 0;
  Header found;
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(&found), sizeof(found));
  if (!in || !(found == header_of(shape))) fail_foreign(path);
  return static_cast<int64_t>((bytes - sizeof(Header)) / shape.row_bytes());
}

namespace {

namespace fs = std::filesystem;

class Recorder final : public NeuronObserver {
 public:
  Recorder(const ModelRuntime& model, const fs::path& folder, int64_t n_rows)
      : d_model_(model.facts().spec.d_model),
        d_ff_(model.facts().spec.d_ff),
        codes_(static_cast<size_t>(d_ff_)) {
    for (int l = 0; l < model.facts().spec.n_layers; ++l) {
      files_.emplace_back(record_path(folder, l), record_shape(model.facts().spec, l), n_rows);
      norms_.push_back(down_norms(model.facts().file, model.facts().spec, l));
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
  std::vector<float> x_;                   // [n_tokens, d_model] for the layer that runs
  std::vector<uint8_t> codes_;             // [d_ff]
};

/// Returns the number of complete windows that the files of all layers contain.
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
  const int64_t n_done = windows_recorded(model.facts().spec, in);
  require_room(model.facts().spec, in, (n_windows - n_done) * in.n_context);
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
