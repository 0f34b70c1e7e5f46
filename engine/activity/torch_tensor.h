// One tensor of one dimension as torch.save writes it (PyTorch 1.6 and later: a zip archive with a pickle and
// the elements), without PyTorch.
//
// Used for PowerInfer's activation counts. Element types: int32, int64, float16, bfloat16, float32, float64.
// A view into a larger tensor is read as the view. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hearth::activity {

/// The elements as doubles (integers beyond 2^53 are rounded). `bytes` is a whole file, `file` its
/// gguf::file_label. Throws ModelFileError; whether the numbers make sense is the caller's affair.
std::vector<double> read_torch_vector(std::span<const std::byte> bytes, const std::string& file);

}  // namespace hearth::activity
