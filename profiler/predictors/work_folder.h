// The folder in which a training run keeps what it has done so far: recordings, checkpoints, whose they are.
//
// A run that was stopped, in whatever way, goes on from here with the same command. Files are whole or not
// there: written beside, brought to the disk, renamed; each ends with a hash of its bytes. One thread; a
// second program that wants the folder is refused.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/model/gguf/mapped_file.h"
#include "profiler/predictors/layer_training.h"

namespace hearth {

/// A trained net in its file, of which the system holds in memory what it has room for: the nets of a model
/// of 70B are tens of gigabytes. Moving it keeps the net's addresses; the file may be removed meanwhile.
struct MappedNet {
  gguf::MappedFile file;
  PredictorView net;
};

class WorkFolder {
 public:
  /// Makes the folder, or takes one that a run with the same `identity` (lines of text: model, texts,
  /// options) left. restart: whatever training left there is removed first. Throws std::runtime_error (one
  /// sentence): another run's folder, or one that is no such folder and not empty; it cannot be written;
  /// another program works in it.
  WorkFolder(std::filesystem::path folder, const std::string& identity, bool restart);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }

  /// A layer's training as last saved; nullopt: never. Throws std::runtime_error (one sentence) if the file
  /// is damaged.
  std::optional<LayerTraining> load(int layer, int d_model, int d_ff) const;
  /// The net of a layer that was saved. Throws std::runtime_error (one sentence) if the file is damaged.
  MappedNet map(int layer, int d_model, int d_ff) const;
  /// Throws std::runtime_error (one sentence); the checkpoint before it is untouched then.
  void save(int layer, const LayerTraining& training) const;

  /// Removes the folder with what training put there, when all is done.
  void remove();

 private:
  std::filesystem::path checkpoint_path(int layer) const;
  void clear() const;

  std::filesystem::path folder_;
  int lock_ = -1;
};

/// The bytes of a checkpoint, and back. parse: nullopt if they are none, or damaged, or of another shape.
std::string checkpoint_bytes(const LayerTraining& training);
std::optional<LayerTraining> parse_checkpoint(std::string_view bytes, int d_model, int d_ff);

}  // namespace hearth
