// The model files that the options name, and the names that requests may give the models.
//
// Called by main, by ModelHost before each load, and by --check-config; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "config/options.h"
#include "engine/model/model_file.h"
#include "kernels/cuda/runtime/device.h"

namespace hearth {

/// The open model files.
struct ModelFiles {
  std::shared_ptr<const ModelFile> model;
  std::shared_ptr<const ModelFile> embedding;  // of --embedding-model; null: none
  std::shared_ptr<const ModelFile> draft;      // of --draft-model; null: none

  uint64_t bytes() const {
    return model->total_bytes() + (embedding ? embedding->total_bytes() : 0) +
           (draft ? draft->total_bytes() : 0);
  }
};

/// Opens the model files, only once for the whole start. Throws StartError at once for mistakes that would
/// otherwise show only during the load: no model is given, a path is not a readable, complete GGUF file, the
/// chat template file is unreadable, this machine lacks the ISA or the GPU, no name is left for the embedding
/// model, or the draft model's vocabulary is not the served model's.
ModelFiles open_checked(const Options& options);

/// Returns the GPU, or the reason why none is used. Throws StartError if the options request a GPU and there
/// is none.
std::variant<cuda::Device, std::string> find_device(const Options& options);

/// The text of --chat-template-file. Throws StartError if it is not a plain file, is too large or is not
/// readable.
std::string read_template_file(const std::string& path);

/// The served model's names, the default first: --alias in its order (without '*'), then the file's name
/// without ".gguf" and without a split's "-00001-of-00002".
std::vector<std::string> model_names(const Options& options);

/// The embedding model's names: --embedding-alias, then the file's name, except names that the served model
/// has. Empty if no name is left.
std::vector<std::string> embedding_model_names(const Options& options);

}  // namespace hearth
