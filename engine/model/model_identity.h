// Which model a file of measurements belongs to: identified by the weights themselves, not by a path.
//
// Used as the key of everything that is measured once and kept, such as activity. Any thread.
#pragma once

#include <string>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "kernels/base/sha256.h"

namespace hearth {

struct ModelIdentity {
  std::string name;        // for people; says nothing about whether two are the same
  std::string activation;  // of the FFN: it decides which neurons are active
  int n_layers = 0, d_model = 0, d_ff = 0;
  int n_experts = 0;  // of a layer; 0: no mixture
  Sha256 content{};

  /// What activity is counted of, in each layer: experts, or neurons.
  int n_units() const { return n_experts > 0 ? n_experts : d_ff; }

  bool same_model(const ModelIdentity& other) const {
    return activation == other.activation && n_layers == other.n_layers && d_model == other.d_model &&
           d_ff == other.d_ff && n_experts == other.n_experts && content == other.content;
  }
};

/// SHA-256 over the list of tensors (names, types, shapes, in the file's order) and kSampledBytes from the
/// middle of each: a fine-tune changes nearly every weight, so it shows, and a few hundred small reads take
/// a moment where hashing a large file would take minutes. Not read: the other bytes, and the keys, so that
/// another chat template makes no other model. The same for split and whole files, wherever they lie. A
/// file whose weights were changed by hand between the samples has the same hash: it names a model, it
/// proves nothing.
Sha256 content_hash(const ModelFile& file);
inline constexpr size_t kSampledBytes = 256;

/// The name is the file's general.name, else its file name.
ModelIdentity identify(const ModelFile& file, const ModelSpec& spec);

/// "relu-5m-0f3a…": a file name of letters, digits, '-', '_' and '.' for what is kept of the model, without
/// a suffix. Two models have two names.
std::string file_stem(const ModelIdentity& model);

}  // namespace hearth
