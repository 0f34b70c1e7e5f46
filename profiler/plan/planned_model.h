// A model as a placement sees it: its facts, and the sizes of its tensors and of what loading would take of a
// device. No weight is read, so a plan can be made in a moment, and for models that are not at hand.
//
// A shape becomes the same structures as a file (ModelSpec, Weights), its matrices lying nowhere: bytes are
// then counted by the engine's own code, whichever it is (engine/residency/plan.h). Plain values; any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/residency/neuron_layout.h"
#include "engine/residency/plan.h"
#include "profiler/synthesis/shapes.h"

namespace hearth {

struct PlannedModel {
  std::string name;               // of the file or the shape, for people
  std::optional<ModelFile> file;  // its mapping, where there is one
  ModelSpec spec;
  Weights weights;                           // matrices of a shape must not be read: they point nowhere
  std::optional<ModelFile> predictors = {};  // a file of them beside the model's

  /// The modes that it can run in: exact where its activation has zeros, predicted where it has predictors.
  std::vector<Sparsity> modes() const;
  /// Bytes of all its matrices.
  double weight_bytes() const;
};

/// With the predictors that lie beside the file (engine/model/predictor_file.h), if it has zeros to skip. Throws
/// ModelFileError, std::invalid_argument for an activation that there is none of.
PlannedModel model_of_file(const std::filesystem::path& path, std::string_view ffn_activation);

/// All matrices of type `type`, laid out as PowerInfer's files are, with predictors if the activation has
/// zeros. ffn_activation: empty: ReLU's, as synthetic models have it. Throws std::invalid_argument where rows
/// of the shape are no whole blocks of the type, or the activation is unknown.
PlannedModel model_of_shape(const ModelShape& shape, DType type, std::string_view ffn_activation);

/// The same model, had it been quantised to `type`; nullopt: its rows are no whole blocks of it.
std::optional<PlannedModel> model_of_type(const PlannedModel& model, DType type);

/// The type whose name is that, in any case ("q4_k", "Q4_K"); nullopt: none.
std::optional<DType> dtype_of_name(std::string_view name);
std::vector<std::string> dtype_names();

/// How much is to run at once.
struct PlanLoad {
  int context_tokens = 4096;  // of one sequence
  int n_slots = 1;
  int prefill_chunk = 128;  // prompt tokens of a step
};

/// What the engine would make its plan from, had it loaded the model in this mode. Refers to the model.
class PlanBasis {
 public:
  PlanBasis(const PlannedModel& model, Sparsity mode, const PlanLoad& load);
  const PlanInputs& inputs() const { return *inputs_; }

 private:
  std::unique_ptr<NeuronLayout> host_;
  std::unique_ptr<PlanInputs> inputs_;
};

}  // namespace hearth
