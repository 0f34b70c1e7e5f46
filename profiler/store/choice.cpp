// See the header.
#include "profiler/store/choice.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "engine/model/gguf/part.h"
#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr size_t kMostListed = 40;

std::string upper_case(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return upper;
}

/// Whether a word in capitals is a quantization, such as Q4_K_M, IQ3_XXS, TQ1_0, BF16 or MXFP4.
bool is_quant(std::string_view word) {
  for (const std::string_view whole : {"F16", "F32", "BF16", "FP16", "FP32", "NVFP4", "MXFP4", "MXFP4_MOE"})
    if (word == whole) return true;
  if (word.starts_with('I') || word.starts_with('T')) word.remove_prefix(1);
  return word.size() >= 2 && word[0] == 'Q' && word[1] >= '1' && word[1] <= '8' &&
         (word.size() == 2 || word[2] == '_');
}

/// Returns the quantization at the end of a word in capitals, such as "Q4_K_M" or "MODEL_Q4_K_M". Returns an
/// empty text if there is none.
std::string_view quant_at_end(std::string_view word) {
  for (size_t at = 0; at < word.size(); ++at) {
    if ((at == 0 || word[at - 1] == '_') && is_quant(word.substr(at))) return word.substr(at);
  }
  return {};
}

bool is_model_file(const HubFile& file) {
  const std::string lower = lower_case(file.path);
  const std::string name = lower.substr(lower.rfind('/') + 1);
  if (!name.ends_with(".gguf")) return false;
  for (const std::string_view other : {"mmproj", "imatrix", "lora"})
    if (name.find(other) != std::string::npos) return false;
  return true;
}

[[noreturn]] void refuse(const HubReference& reference, const std::string& why) {
  throw PullError("hf:" + reference.id() + ": " + why);
}

const ModelFilesOnHub& the_one(std::vector<const ModelFilesOnHub*> found, const HubReference& reference,
                               const std::string& what, const std::vector<ModelFilesOnHub>& models) {
  if (found.empty()) refuse(reference, "there is no " + what + "; there is " + models_text(models));
  if (found.size() > 1) {
    std::string names;
    for (const ModelFilesOnHub* model : found)
      names += (names.empty() ? "" : ", ") + model->parts.front().path;
    refuse(reference, what + " is the name of " + std::to_string(found.size()) +
                          " models; choose one by its file, hf:OWNER/REPO:FILE.gguf: " + names);
  }
  return *found.front();
}

const ModelFilesOnHub& by_file(const std::vector<ModelFilesOnHub>& models, const HubReference& reference) {
  std::vector<const ModelFilesOnHub*> found;
  for (const ModelFilesOnHub& model : models) {
    for (const HubFile& part : model.parts) {
      const std::string_view path = part.path;
      if (path == reference.file || path.substr(path.rfind('/') + 1) == reference.file) {
        found.push_back(&model);
        break;
      }
    }
  }
  return the_one(std::move(found), reference, file_error::quoted(reference.file), models);
}

const ModelFilesOnHub& by_quant(const std::vector<ModelFilesOnHub>& models, const HubReference& reference) {
  const std::string wanted = upper_case(reference.quant);
  std::vector<const ModelFilesOnHub*> found, alike;
  for (const ModelFilesOnHub& model : models) {
    if (model.quant == wanted) found.push_back(&model);
    if (model.quant == "UD-" + wanted) alike.push_back(&model);
  }
  return the_one(found.empty() ? std::move(alike) : std::move(found), reference, wanted, models);
}

const ModelFilesOnHub& by_preference(const std::vector<ModelFilesOnHub>& models,
                                     const HubReference& reference) {
  for (const std::string_view quant : preferred_quants()) {
    std::vector<const ModelFilesOnHub*> found;
    for (const ModelFilesOnHub& model : models)
      if (model.quant == quant) found.push_back(&model);
    if (!found.empty()) return the_one(std::move(found), reference, std::string(quant), models);
  }
  if (models.size() == 1) return models.front();
  refuse(reference, "no file name contains a quantization; choose a file, hf:OWNER/REPO:FILE.gguf: " +
                        models_text(models));
}

}  // namespace

uint64_t ModelFilesOnHub::bytes() const {
  uint64_t sum = 0;
  for (const HubFile& part : parts) sum += part.size;
  return sum;
}

SplitName split_name(std::string_view path) {
  if (const std::optional<gguf::SplitName> split = gguf::parse_split_name(path))
    return {(split->folder / split->stem).generic_string(), split->number, split->count};
  if (lower_case(path).ends_with(".gguf")) path.remove_suffix(5);
  return {std::string(path)};
}

std::string quant_of(std::string_view path) {
  const std::string stem = upper_case(split_name(path).stem);
  std::string_view rest = std::string_view(stem).substr(stem.rfind('/') + 1);
  while (!rest.empty()) {
    const size_t cut = rest.find_last_of("-.");
    const std::string_view word = cut == std::string_view::npos ? rest : rest.substr(cut + 1);
    rest = cut == std::string_view::npos ? std::string_view() : rest.substr(0, cut);
    const std::string_view quant = quant_at_end(word);
    if (quant.empty()) continue;
    const bool dynamic = rest == "UD" || rest.ends_with("-UD") || rest.ends_with(".UD");
    return (dynamic ? "UD-" : "") + std::string(quant);
  }
  return {};
}

std::vector<ModelFilesOnHub> models_in(std::span<const HubFile> files) {
  std::map<std::string, std::map<int, HubFile>> parts;  // key: name and number of parts
  for (const HubFile& file : files) {
    if (!is_model_file(file)) continue;
    const SplitName name = split_name(file.path);
    parts[name.stem + "\n" + std::to_string(name.n_parts)][name.part] = file;
  }
  std::vector<ModelFilesOnHub> models;
  for (auto& [key, numbered] : parts) {
    ModelFilesOnHub model;
    model.name = key.substr(0, key.find('\n'));
    model.quant = quant_of(model.name);
    model.complete = static_cast<int>(numbered.size()) == split_name(numbered.begin()->second.path).n_parts;
    for (auto& [number, file] : numbered) model.parts.push_back(std::move(file));
    models.push_back(std::move(model));
  }
  return models;
}

std::span<const std::string_view> preferred_quants() {
  static constexpr std::array<std::string_view, 29> kOrder = {
      "Q4_K_M", "UD-Q4_K_XL", "Q4_K_L",    "Q4_K_S",     "Q4_K",   "Q4_0",       "Q4_1",   "IQ4_NL",
      "IQ4_XS", "MXFP4",      "MXFP4_MOE", "NVFP4",      "Q5_K_M", "UD-Q5_K_XL", "Q5_K_S", "Q5_K",
      "Q5_0",   "Q5_1",       "Q6_K",      "UD-Q6_K_XL", "Q3_K_L", "Q3_K_M",     "Q3_K_S", "IQ3_M",
      "Q2_K",   "Q8_0",       "BF16",      "F16",        "F32"};
  return kOrder;
}

std::string models_text(std::span<const ModelFilesOnHub> models) {
  if (models.empty()) return "no GGUF model in it";
  std::string text;
  for (size_t i = 0; i < std::min(models.size(), kMostListed); ++i) {
    const ModelFilesOnHub& model = models[i];
    text += (text.empty() ? "" : ", ") + (model.quant.empty() ? model.parts.front().path : model.quant);
    if (model.bytes() > 0) text += " (" + bytes_text(static_cast<double>(model.bytes())) + ")";
  }
  if (models.size() > kMostListed) text += " and " + std::to_string(models.size() - kMostListed) + " more";
  return text;
}

ModelFilesOnHub chosen_model(const std::vector<ModelFilesOnHub>& models, const HubReference& reference) {
  if (models.empty()) {
    refuse(reference,
           "there is no GGUF file in this repository; look for one whose name ends in -GGUF, or convert this "
           "one");
  }
  const ModelFilesOnHub& model = !reference.file.empty()    ? by_file(models, reference)
                                 : !reference.quant.empty() ? by_quant(models, reference)
                                                            : by_preference(models, reference);
  if (!model.complete) {
    refuse(reference, "of " + model.name + " only " + std::to_string(model.parts.size()) + " of " +
                          std::to_string(split_name(model.parts.front().path).n_parts) +
                          " parts are in the repository");
  }
  return model;
}

}  // namespace hearth
