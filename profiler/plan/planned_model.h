// Describes a model as far as placement needs it: its facts, the sizes of its tensors, and the bytes that it
// would take on a device. No weights are read, so a plan takes only a moment, and is possible for models that
// are not on this machine.
//
// A shape without a file is converted to the structures of a file (ModelSpec, Weights), with weights that
// read as zeros. Therefore the engine's own code can count the bytes of a shape as it does for a file
// (engine/residency/plan.h). Plain values; any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/model/nextn_weights.h"
#include "engine/neurons/neuron_layout.h"
#include "engine/prompt_step.h"
#include "engine/residency/plan.h"
#include "engine/resolved_load.h"
#include "profiler/synthesis/shapes.h"

namespace hearth {

struct PlannedModel {
  std::string name;               // name of the file or the shape, for people
  std::optional<ModelFile> file;  // the mapped file, if there is one
  ModelSpec spec;
  Weights weights;
  std::optional<ModelFile> predictors = {};  // the file of predictors beside the model's file
  Buffer zeros = {};                         // for a shape: the memory of its weights, which reads as zeros
  /// The layer that drafts; null if the file has none, or for a shape.
  std::shared_ptr<const NextnWeights> nextn = nullptr;

  /// The modes in which plans consider the model: exact if its activation has zeros, predicted if it has
  /// predictors, and dense. For a mixture of experts, only dense.
  std::vector<Sparsity> modes() const;
  /// The bytes of all its matrices.
  double weight_bytes() const;
  /// The type of most of its weights.
  DType main_type() const;
  /// Returns a type that the model's matrices have and that GPUs cannot multiply
  /// (kernels/cuda/ops/device_types.h), or nullopt if there is none. With such a type, the model cannot run
  /// on a GPU. Ignores the experts' matrices, because the CPU can compute experts.
  std::optional<DType> cpu_only_type() const;
};

/// Opens a model file, and the predictors beside it (engine/model/predictor_file.h) if its activation has
/// zeros to skip. Throws ModelFileError, or std::invalid_argument for an unknown activation.
PlannedModel model_of_file(const std::filesystem::path& path, std::string_view ffn_activation);

/// Returns a model of this shape whose matrices all have type `type`. If PowerInfer published files for the
/// shape, the model is laid out as in those files, with predictors if the activation has zeros.
/// ffn_activation: if empty, the activation of synthetic models is used. Throws std::invalid_argument if rows
/// of the shape are not whole weight blocks of the type, the activation is unknown, or no GPU can compute the
/// shape's layers (ModelSpec::cpu_only_kind()).
PlannedModel model_of_shape(const ModelShape& shape, DType type, std::string_view ffn_activation);

/// Returns a copy of the model as if it were quantized to `type`, or nullopt if its rows do not consist of
/// whole weight blocks of this type.
std::optional<PlannedModel> model_of_type(const PlannedModel& model, DType type);

/// Returns the type with this name in upper or lower case ("q4_k", "Q4_K"), or nullopt if there is none.
std::optional<DType> dtype_of_name(std::string_view name);
std::vector<std::string> dtype_names();

/// The load that a plan is made for.
struct PlanLoad {
  int context_tokens = 4096;  // context of one sequence
  int n_slots = 1;
  int n_kv_contexts = 0;                 // as LoadOptions::n_kv_contexts
  int prefill_chunk = kCpuPrefillChunk;  // prompt tokens of a step
  KvType kv_type = KvType::kF16;
  // library: whether a matrix library computes the products of prompt tokens. library_decodes: whether the
  // library also computes products with quantized matrices, which are dequantized first. See PassBounds.
  bool library = false, library_decodes = false;
  bool experts = true;  // a GPU may hold experts; see PlanInputs

  /// The engine's bounds of a step.
  PassBounds bounds() const;

  /// The number of contexts with which planning for a GPU starts; add_contexts() may add more.
  int contexts_to_plan() const { return hearth::contexts_to_plan(n_kv_contexts, n_slots); }
  bool decides_contexts() const { return n_kv_contexts == kKvContextsDecided; }
};

/// The numbers of KV blocks that n_contexts contexts need.
KvBlockCounts kv_block_counts(const ModelSpec& spec, const PlanLoad& load, int n_contexts);

/// The inputs from which the engine would make its plan if it loaded the model in this sparsity mode. The
/// model must outlive a PlanBasis.
class PlanBasis {
 public:
  /// nextn_share: the device's part of the layers that draft, if the model has any. nullopt: all of them, but
  /// no experts.
  PlanBasis(const PlannedModel& model, Sparsity mode, const PlanLoad& load,
            std::optional<NextnShare> nextn_share = {});
  const PlanInputs& inputs() const { return *inputs_; }

 private:
  std::unique_ptr<NeuronLayout> host_;
  std::unique_ptr<PlanInputs> inputs_;
};

}  // namespace hearth
