// Identifies the model that a file of measurements belongs to, by the weights themselves instead of a path.
//
// Used as the key of everything that is measured once and kept, such as activity. Any thread.
#pragma once

#include <string>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/base/sha256.h"

namespace hearth {

struct ModelIdentity {
  std::string name;        // for people; not part of the comparison
  std::string activation;  // of the FFN: it determines which neurons are active
  int n_layers = 0, d_model = 0, d_ff = 0;
  int n_experts = 0;  // per layer; 0: no mixture
  Sha256 content{};

  /// Number of units per layer whose activity is counted: experts or neurons.
  int n_units() const { return n_experts > 0 ? n_experts : d_ff; }

  bool same_model(const ModelIdentity& other) const {
    return activation == other.activation && n_layers == other.n_layers && d_model == other.d_model &&
           d_ff == other.d_ff && n_experts == other.n_experts && content == other.content;
  }
};

/// SHA-256 over the list of tensors (names, types, shapes, in the file's order) and kSampledBytes from the
/// middle of each. A fine-tune changes nearly every weight, so it changes the hash, and a few hundred small
/// reads take a moment where hashing a large file would take minutes. Other bytes and the keys are not read,
/// so another chat template does not make another model. Split and whole files have equal hashes, wherever
/// they are. Weights edited by hand between the samples do not change the hash: it names a model but proves
/// nothing.
Sha256 content_hash(const ModelFile& file);
inline constexpr size_t kSampledBytes = 256;

/// The name is the file's general.name, else its file name.
ModelIdentity identify(const ModelFile& file, const ModelSpec& spec);

/// "relu-5m-0f3a…": a file name of letters, digits, '-', '_' and '.' for data kept about the model, without a
/// suffix. Different models have different names.
std::string file_stem(const ModelIdentity& model);

}  // namespace hearth
