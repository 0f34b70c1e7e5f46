// The folder in which a training run keeps its work: recordings, checkpoints, and the identity of the run.
//
// A stopped run continues from here with the same command. A file is complete or does not exist: it is
// written under another name, flushed to disk and renamed; each ends with a hash of its bytes. One thread; a
// second program that wants the folder is refused.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/model/gguf/mapped_file.h"
#include "profiler/predictors/layer_training.h"

namespace hearth {

/// A trained net in its mapped file. The nets of a 70B model take tens of gigabytes, and the system keeps as
/// much in memory as fits. Moving it keeps the net's addresses; the file may be removed while it is mapped.
struct MappedNet {
  gguf::MappedFile file;
  PredictorView net;
};

class WorkFolder {
 public:
  /// Creates the folder, or takes over the folder of an earlier run with the same `identity` (lines of text:
  /// model, texts, options). restart: first removes everything that training left there. Throws
  /// std::runtime_error (one sentence) if the folder belongs to another run, is neither a work folder nor
  /// empty, cannot be written, or is in use by another program.
  WorkFolder(std::filesystem::path folder, const std::string& identity, bool restart);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }

  /// A layer's training as last saved, or nullopt if it was never saved. Throws std::runtime_error (one
  /// sentence) if the file is damaged.
  std::optional<LayerTraining> load(int layer, int d_model, int d_ff) const;
  /// The net of a layer that was saved. Throws std::runtime_error (one sentence) if the file is damaged.
  MappedNet map(int layer, int d_model, int d_ff) const;
  /// Saves a layer's training. Throws std::runtime_error (one sentence) and leaves the previous checkpoint
  /// unchanged if it fails.
  void save(int layer, const LayerTraining& training) const;

  /// Removes the folder with everything that training put there. Call it when training is finished.
  void remove();

 private:
  std::filesystem::path checkpoint_path(int layer) const;
  void clear() const;

  std::filesystem::path folder_;
  int lock_ = -1;
};

/// Makes a checkpoint's bytes, and parses them. parse_checkpoint() returns nullopt if they are not a
/// checkpoint, damaged, or have another shape.
std::string checkpoint_bytes(const LayerTraining& training);
std::optional<LayerTraining> parse_checkpoint(std::string_view bytes, int d_model, int d_ff);

}  // namespace hearth
