// Opens the model files that the options name, and determines the models' names in the API.
//
// Called by main, by ModelHost before each load, and by --check-config. Any thread may call these functions.
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
  std::shared_ptr<const ModelFile> embedding;  // of --embedding-model, or null
  std::shared_ptr<const ModelFile> draft;      // of --draft-model, or null

  uint64_t bytes() const {
    return model->total_bytes() + (embedding ? embedding->total_bytes() : 0) +
           (draft ? draft->total_bytes() : 0);
  }
};

/// Opens the model files once for the whole start. Throws StartError for errors that the load would detect
/// only later: no model is given, a path is not a readable and complete GGUF file, the chat template file is
/// not readable, the machine lacks the requested ISA or GPU, all names of the embedding model are also names
/// of the served model, or the draft model's vocabulary differs from the served model's.
ModelFiles open_checked(const Options& options);

/// Throws StartError if --expert-trace is given and the served model has no experts.
void check_expert_trace(const Options& options, const ModelFiles& files);

/// Returns the GPU, or the reason why no GPU is used. Throws StartError if the options request a GPU and
/// there is none.
std::variant<cuda::Device, std::string> find_device(const Options& options);

/// Returns the contents of --chat-template-file. Throws StartError if the file is not a regular file, is too
/// large or is not readable.
std::string read_template_file(const std::string& path);

/// Returns the served model's names. The first one is the default. The names are those of --alias (without
/// '*') and the file's name without ".gguf" and without "-00001-of-00002" of a split file.
std::vector<std::string> model_names(const Options& options);

/// Returns the embedding model's names: those of --embedding-alias and the file's name, except names of the
/// served model. Empty if no name is left.
std::vector<std::string> embedding_model_names(const Options& options);

}  // namespace hearth
