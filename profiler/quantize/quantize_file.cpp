// Declares the tensors, then reads, encodes and writes them piece by piece.
#include "profiler/quantize/quantize_file.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "engine/model/gguf/lost_pages.h"
#include "engine/model/gguf/mapped_file.h"
#include "engine/model/gguf/writer.h"
#include "kernels/base/file_error.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/quantize.h"
#include "kernels/quant/quantize_fitted.h"

namespace hearth {
namespace {

/// The number of weights that are encoded between two writes. One thread encodes them in a few tenths of a
/// second, which is also the longest delay before Ctrl-C takes effect.
constexpr int64_t kPieceElements = int64_t{1} << 22;
/// Bytes that are copied between two progress reports.
constexpr size_t kPieceBytes = size_t{32} << 20;
/// The largest F16 value. No weight may exceed it, because the scale of a block, an F16 number, can be as
/// large as the block's largest weight.
constexpr float kLargestWeight = 65504.0f;

int64_t rows_of(const TensorInfo& tensor) { return tensor.shape[1] * tensor.shape[2] * tensor.shape[3]; }

void copy_keys(gguf::Writer& writer, const ModelFile& model, uint32_t file_type) {
  constexpr uint32_t kQuantizationVersion = 2;  // ggml's block formats since 2023
  for (const std::string_view key : model.keys()) {
    const bool of_this_file = key.starts_with("split.") || key == "general.alignment" ||
                              key == "general.file_type" || key == "general.quantization_version";
    if (!of_this_file) writer.key(key, *model.find_value(key));
  }
  writer.key("general.file_type", file_type);
  writer.key("general.quantization_version", kQuantizationVersion);
}

class Encoder {
 public:
  Encoder(gguf::Writer& writer, const Importance& importance, int n_threads,
          const std::function<void(int64_t)>& done)
      : writer_(writer), importance_(importance), pool_(n_threads), done_(done) {}

  void copy(const TensorInfo& tensor) {
    std::span<const std::byte> rest(tensor.data, tensor.bytes);
    while (!rest.empty()) {
      const std::span<const std::byte> piece = rest.first(std::min(kPieceBytes, rest.size()));
      rest = rest.subspan(piece.size());
      write(piece, piece);
    }
  }

  void encode(const TensorInfo& tensor, DType type) {
    const int64_t n_cols = tensor.shape[0], n_rows = rows_of(tensor), piece = kPieceElements / n_cols + 1;
    const size_t stride = row_bytes(tensor.dtype, n_cols), new_stride = row_bytes(type, n_cols);
    scratch_.resize(static_cast<size_t>(pool_.n_threads()) * static_cast<size_t>(n_cols));
    for (int64_t first = 0; first < n_rows; first += piece) {
      const int64_t n = std::min(piece, n_rows - first);
      encoded_.resize(static_cast<size_t>(n) * new_stride);
      pool_.for_each_piece(n, kRowsAtOnce, [&](int64_t begin, int64_t end, int thread) {
        float* values = scratch_.data() + thread * n_cols;
        for (int64_t i = begin; i < end; ++i) {
          encode_row(tensor, type, first + i, values, encoded_.data() + static_cast<size_t>(i) * new_stride);
        }
      });
      if (const int64_t bad = bad_row_.load(); bad != kNoRow) refuse(tensor, bad);
      const std::byte* source = tensor.data + static_cast<size_t>(first) * stride;
      write(encoded_, {source, static_cast<size_t>(n) * stride});
    }
  }

 private:
  static constexpr int64_t kRowsAtOnce = 4, kNoRow = std::numeric_limits<int64_t>::max();

  static bool holds(float value) { return std::fabs(value) <= kLargestWeight; }  // false for NaN

  void encode_row(const TensorInfo& tensor, DType type, int64_t row, float* values, std::byte* out) {
    const int64_t n_cols = tensor.shape[0];
    dequantize_row(tensor.dtype, tensor.data + static_cast<size_t>(row) * row_bytes(tensor.dtype, n_cols),
                   n_cols, values);
    if (!std::all_of(values, values + n_cols, holds)) {
      for (int64_t least = bad_row_.load(); row < least && !bad_row_.compare_exchange_weak(least, row);) {
      }
      return;
    }
    const std::span<const float> columns = importance_.of(tensor, row / tensor.shape[1]);
    if (can_fit(type) && (!columns.empty() || !can_quantize(type))) {
      quantize_row_fitted(type, values, columns.empty() ? nullptr : columns.data(), n_cols, out);
    } else {
      quantize_row(type, values, n_cols, out);
    }
  }

  [[noreturn]] void refuse(const TensorInfo& tensor, int64_t row) const {
    const int64_t n_cols = tensor.shape[0];
    std::vector<float> values(static_cast<size_t>(n_cols));
    dequantize_row(tensor.dtype, tensor.data + static_cast<size_t>(row) * row_bytes(tensor.dtype, n_cols),
                   n_cols, values.data());
    const auto bad = std::ranges::find_if_not(values, holds);
    const std::string found = std::isnan(*bad)   ? "no number (NaN)"
                              : std::isinf(*bad) ? "infinite"
                                                 : std::to_string(*bad);
    throw std::runtime_error(
        "tensor " + file_error::quoted(tensor.name) + ": the weight in row " +
        file_error::with_commas(static_cast<uint64_t>(row)) + ", column " +
        file_error::with_commas(static_cast<uint64_t>(bad - values.begin())) + " is " + found +
        ", expected one between -65,504 and 65,504: the model is damaged, or its training diverged; "
        "download it again.");
  }

  /// Writes bytes that were made from `source`, and releases the pages of `source`, which are not needed
  /// again.
  void write(std::span<const std::byte> bytes, std::span<const std::byte> source) {
    gguf::refuse_lost_file();  // `bytes` may come from pages that were lost; then this throws
    writer_.write(bytes);
    gguf::release(source);
    done_(static_cast<int64_t>(source.size()));
  }

  gguf::Writer& writer_;
  const Importance& importance_;
  ThreadPool pool_;
  const std::function<void(int64_t)>& done_;
  std::vector<float> scratch_;  // a row for each thread
  std::vector<std::byte> encoded_;
  std::atomic<int64_t> bad_row_{kNoRow};  // the first row found with a weight that F16 cannot hold
};

}  // namespace

uint64_t quantize_file(const std::filesystem::path& path, const ModelFile& model,
                       const std::vector<TensorChoice>& choices, const Importance& importance,
                       const QuantizeOptions& options, const std::function<void(double)>& progress) {
  // 1. Declare the file's contents, so that the writer can check whether the disk has room for them.
  gguf::Writer writer(path, {.magic = model.is_powerinfer() ? "PWRI" : "GGUF", .replace = options.replace});
  copy_keys(writer, model, options.file_type);
  int64_t cost = 0;
  // Encoding a byte takes about 20 times as long as copying it.
  const auto cost_of = [](bool copied, int64_t n_bytes) { return copied ? n_bytes : 20 * n_bytes; };
  for (const TensorChoice& choice : choices) {
    const TensorInfo& tensor = *choice.tensor;
    writer.tensor(tensor.name, choice.type, {tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims});
    cost += cost_of(choice.type == tensor.dtype, static_cast<int64_t>(tensor.bytes));
  }
  writer.begin_data();

  // 2. Encode and write the tensors, in the same order.
  int64_t cost_so_far = 0;
  bool copied = false;
  const std::function<void(int64_t)> done = [&](int64_t n_bytes) {
    cost_so_far += cost_of(copied, n_bytes);
    progress(static_cast<double>(cost_so_far) / static_cast<double>(cost));
  };
  Encoder encoder(writer, importance, options.n_threads, done);
  for (const TensorChoice& choice : choices) {
    copied = choice.type == choice.tensor->dtype;
    if (copied) {
      encoder.copy(*choice.tensor);
    } else {
      encoder.encode(*choice.tensor, choice.type);
    }
  }
  writer.commit();
  return writer.file_bytes();
}

}  // namespace hearth
