// The folder in which a training run keeps its work: recordings, checkpoints, and the identity of the run.
//
// After a stop, the same command continues the run from this folder. A checkpoint is complete or does not
// exist: it is written under another name, flushed to disk and renamed, and it ends with a hash of its bytes.
// One thread; a second program cannot use the folder at the same time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/model/gguf/mapped_file.h"
#include "profiler/predictors/layer_training.h"

namespace hearth {

/// A trained net in its mapped file. The nets of a 70B model take tens of gigabytes, and the system keeps the
/// parts in memory that fit. Moving a MappedNet keeps the addresses of its weights. The file may be removed
/// while it is mapped.
struct MappedNet {
  gguf::MappedFile file;
  PredictorView net;
};

class WorkFolder {
 public:
  /// Creates the folder, or takes over the folder of an earlier run with the same `identity` (lines of text:
  /// model, texts, options). restart: whether to first remove everything that earlier training left in the
  /// folder. Throws std::runtime_error (one sentence) if the folder belongs to another run, is neither a work
  /// folder nor empty, cannot be written, or is in use by another program.
  WorkFolder(std::filesystem::path folder, const std::string& identity, bool restart);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }

  /// Returns a layer's training as last saved, or nullopt if it was never saved. Throws std::runtime_error
  /// (one sentence) if the checkpoint is damaged.
  std::optional<LayerTraining> load(int layer, int d_model, int d_ff) const;
  /// Maps the net of a layer whose training was saved. Throws std::runtime_error (one sentence) if the
  /// checkpoint is damaged.
  MappedNet map(int layer, int d_model, int d_ff) const;
  /// Saves a layer's training. If that fails, leaves the previous checkpoint unchanged and throws
  /// std::runtime_error (one sentence).
  void save(int layer, const LayerTraining& training) const;

  /// Removes all files that training created, and the folder. Call it when training is finished.
  void remove();

 private:
  std::filesystem::path checkpoint_path(int layer) const;
  void clear() const;

  std::filesystem::path folder_;
  int lock_ = -1;
};

/// Converts a layer's training to the bytes of a checkpoint, and back. parse_checkpoint() returns nullopt if
/// the bytes are damaged, are not a checkpoint, or have another shape.
std::string checkpoint_bytes(const LayerTraining& training);
std::optional<LayerTraining> parse_checkpoint(std::string_view bytes, int d_model, int d_ff);

}  // namespace hearth
