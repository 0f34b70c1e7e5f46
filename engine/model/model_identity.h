// Identifies the model that a file of measurements belongs to, by the weights themselves instead of a file
// path.
//
// Used as the key under which measurements of a model are stored, such as its activity. Any thread.
#pragma once

#include <string>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/base/sha256.h"

namespace hearth {

struct ModelIdentity {
  std::string name;        // shown to people; not compared
  std::string activation;  // name of the FFN's activation, which decides what neurons are active
  int n_layers = 0, d_model = 0, d_ff = 0;
  int n_experts = 0;  // per layer; 0: no mixture
  Sha256 content{};

  /// Returns the number of units per layer whose activity is counted; units are experts or neurons.
  int n_units() const { return n_experts > 0 ? n_experts : d_ff; }

  bool same_model(const ModelIdentity& other) const {
    return activation == other.activation && n_layers == other.n_layers && d_model == other.d_model &&
           d_ff == other.d_ff && n_experts == other.n_experts && content == other.content;
  }
};

/// Returns a SHA-256 hash over the list of tensors (names, types and shapes, in the file's order) and
/// kSampledBytes from the middle of each tensor. A fine-tuned model has a hash that differs from the
/// original's, because fine-tuning changes nearly every weight. A few hundred small reads take a moment,
/// while hashing a large file would take minutes. The keys are not read, so changing a model's chat template
/// does not change its hash. Split and whole files have equal hashes, wherever they are stored. The hash
/// identifies a model but proves nothing, because it does not change if only weights outside the samples
/// change.
Sha256 content_hash(const ModelFile& file);
inline constexpr size_t kSampledBytes = 256;

/// Returns the identity of the model in `file`. Its name is the key general.name, or else the file name.
ModelIdentity identify(const ModelFile& file, const ModelSpec& spec);

/// Returns a file name without a suffix for data stored about the model, such as "relu-5m-0f3a…". It has
/// letters, digits, '-', '_' and '.' only. Different models have different names.
std::string file_stem(const ModelIdentity& model);

}  // namespace hearth
