// Applies the family's rules to the names and rows of a checkpoint's tensors.
#include "profiler/convert/tensor_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>

#include "kernels/base/file_error.h"
#include "profiler/convert/delta_heads.h"
#include "profiler/convert/family_keys.h"

namespace hearth::convert {
namespace {

constexpr int64_t kMxfp4Block = 32;

/// A stored tensor's name, taken apart.
struct Name {
  int64_t layer = -1;  // -1: an outer tensor
  std::string stem;    // within the layer, without the suffix
  std::string suffix;  // "weight" or "bias"
};

std::optional<int64_t> number_of(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || text.size() > 6 || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return n;
}

Name split_name(std::string_view full) {
  // Remove the prefixes of wrapper classes: models with images, and classes with an output head of their own.
  std::string text(full);
  for (const std::string_view wrapper :
       {"model.language_model.", "language_model.model.", "language_model."}) {
    if (!text.starts_with(wrapper)) continue;
    const std::string rest = text.substr(wrapper.size());
    text = wrapper == "language_model." || rest.starts_with("lm_head") ? rest : "model." + rest;
    break;
  }
  for (const std::string_view wrapper : {"bert.", "roberta."}) {
    if (text.starts_with(wrapper)) text = text.substr(wrapper.size());
  }
  Name name;
  constexpr std::string_view kLists[] = {"layers.", "h.", "layer."};
  for (const std::string_view list : kLists) {
    const size_t at = text.starts_with(list) ? 0 : text.find("." + std::string(list));
    if (at == std::string::npos) continue;
    const size_t begin = at + list.size() + (at == 0 ? 0 : 1);
    const size_t end = std::min(text.find('.', begin), text.size());
    const auto layer = number_of(std::string_view(text).substr(begin, end - begin));
    if (!layer || end == text.size()) continue;
    name.layer = *layer;
    text = text.substr(end + 1);
    break;
  }
  const size_t dot = text.rfind('.');
  const std::string last = dot == std::string::npos ? "" : text.substr(dot + 1);
  const bool has_suffix = last == "weight" || last == "bias" || last == "gamma" || last == "beta";
  name.stem = has_suffix ? text.substr(0, dot) : text;
  name.suffix = last == "bias" || last == "beta" ? "bias" : "weight";
  return name;
}

/// Returns whether `stem` matches `pattern`. A '#' in the pattern matches a number, which is stored in
/// `part`.
bool matches(std::string_view pattern, std::string_view stem, int64_t& part) {
  const size_t at = pattern.find('#');
  if (at == std::string_view::npos) return pattern == stem;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + 1);
  if (stem.size() <= before.size() + after.size() || !stem.starts_with(before) || !stem.ends_with(after))
    return false;
  const auto n = number_of(stem.substr(before.size(), stem.size() - before.size() - after.size()));
  if (n) part = *n;
  return n.has_value();
}

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const Config& config, const Family& family, DType type)
      : checkpoint_(checkpoint), config_(config), family_(family), type_(type), n_layers_(config.n_layers()) {
    const nlohmann::json& quantized = config.field({"quantization_config"});
    if (quantized.is_object() && quantized.contains("weight_block_size")) {
      const nlohmann::json& size = quantized["weight_block_size"];
      if (!size.is_array() || size.size() != 2 || !size[0].is_number_unsigned() ||
          !size[1].is_number_unsigned() || size[0] == 0 || size[1] == 0) {
        config.fail("weight_block_size is " + file_error::quoted(size.dump()) +
                    ", expected two sizes; the file is damaged.");
      }
      scale_rows_ = size[0].get<int64_t>();
      scale_cols_ = size[1].get<int64_t>();
    }
  }

  std::vector<PlannedTensor> plan() {
    for (const StoredTensor& tensor : checkpoint_.tensors()) add(tensor);
    std::vector<PlannedTensor> out;
    for (Collected& collected : collected_) out.push_back(finish(collected));
    std::stable_sort(out.begin(), out.end(), [](const PlannedTensor& a, const PlannedTensor& b) {
      return layer_of(a.name) < layer_of(b.name);
    });
    if (family_.rope_factors) add_rope_factors(out);
    add_long_factors(out);
    return out;
  }

 private:
  struct Collected {
    std::string name;
    std::map<int64_t, RowView> parts;  // by index
    std::vector<int64_t> shape;        // the shape of one part, in GGUF's order
    bool stacked = false;  // parts are whole matrices, which are stacked along an additional dimension
  };

  static int64_t layer_of(std::string_view name) {
    if (!name.starts_with("blk.")) return -1;
    const size_t end = name.find('.', 4);
    return number_of(name.substr(4, end - 4)).value_or(-1);
  }

  [[noreturn]] void refuse(const StoredTensor& tensor, const std::string& sentence) const {
    checkpoint_.fail("tensor " + file_error::quoted(tensor.name) + " " + sentence);
  }

  /// Returns whether a tensor belongs to a part of the model that Hearth does not run, such as images or
  /// sound.
  bool is_of_other_senses(const std::string& name) const {
    constexpr std::string_view kParts[] = {"vision_tower.", "vision_model.", "multi_modal_projector.",
                                           "visual.",       "audio_tower.",  "embed_vision.",
                                           "embed_audio."};
    return std::any_of(std::begin(kParts), std::end(kParts),
                       [&](std::string_view part) { return name.find(part) != std::string::npos; });
  }

  /// Takes a name apart. Qwen3.5 names the layers that predict further tokens "mtp.layers.N"; their numbers
  /// follow those of the other layers. Tensors "mtp.X" belong to the first of these layers.
  Name name_of(const std::string& full) const {
    Name name = split_name(full);
    if (full.starts_with("mtp.")) name.layer = n_layers_ + std::max<int64_t>(name.layer, 0);
    return name;
  }

  const Rule* find_rule(const Name& name, int64_t& part) const {
    for (const std::span<const Rule> rules : {family_.rules, family_.shared}) {
      for (const Rule& rule : rules) {
        // In each table, a rule whose name includes the suffix, such as "lm_head.bias", precedes the rule
        // without the suffix, so it is found first.
        if (matches(rule.from, name.stem, part) ||
            (name.layer < 0 && rule.from == name.stem + "." + name.suffix))
          return &rule;
      }
    }
    return nullptr;
  }

  void add(const StoredTensor& tensor) {
    if (is_of_other_senses(tensor.name)) return;
    const Name name = name_of(tensor.name);
    if (name.layer >= n_layers_ && !family_.keeps_next_layers) return;
    if (name.stem == "lm_head" && config_.find_bool("tie_word_embeddings").value_or(false)) return;
    if (is_scale(tensor)) return;
    int64_t part = -1;
    const Rule* rule = find_rule(name, part);
    if (rule == nullptr) {
      refuse(tensor, "has no place in files of " + std::string(family_.architecture) +
                         ": the model differs from the others of its family and does not run yet");
    }
    if (rule->how == Rearrange::kSkip || rule->how == Rearrange::kNumber) return;
    if (rule->part >= 0) part = rule->part;
    place(tensor, name, *rule, part);
  }

  /// Returns whether a tensor holds the scales of FP8 weights, which are stored as separate tensors.
  bool is_scale(const StoredTensor& tensor) const {
    for (const std::string_view end : {"_scale_inv", "_scale"}) {
      if (tensor.name.ends_with(end) &&
          checkpoint_.find(tensor.name.substr(0, tensor.name.size() - end.size())) != nullptr) {
        return true;
      }
    }
    return false;
  }

  const StoredTensor* scales_of(const StoredTensor& tensor) const {
    if (tensor.type != ElementType::kF8E4M3) return nullptr;
    for (const char* end : {"_scale_inv", "_scale"}) {
      if (const StoredTensor* scales = checkpoint_.find(tensor.name + end)) return scales;
    }
    refuse(tensor,
           "is FP8 without scales, expected a tensor of its name with _scale_inv; other such models do not "
           "convert");
  }

  RowView view_of(const StoredTensor& tensor, int64_t n_rows, int64_t n_cols,
                  std::function<int64_t(int64_t)> first_at) const {
    if (tensor.type == ElementType::kOther || tensor.type == ElementType::kU8) {
      refuse(tensor, "is " + tensor.type_name +
                         ", expected F32, F16, BF16, F64 or F8_E4M3: it is quantized in another way; "
                         "convert the unquantized model");
    }
    RowView view;
    view.source = &tensor;
    view.scales = scales_of(tensor);
    view.n_rows = n_rows;
    view.n_cols = n_cols;
    view.first_at = std::move(first_at);
    if (view.scales != nullptr) check_scales(tensor, view);
    return view;
  }

  void check_scales(const StoredTensor& tensor, RowView& view) const {
    const int64_t n = view.scales->n_elements();
    const ElementType type = view.scales->type;
    if (type != ElementType::kF32 && type != ElementType::kBF16 && type != ElementType::kF16) {
      refuse(*view.scales, "is " + view.scales->type_name + ", expected scales in F32 or BF16");
    }
    if (n == 1) return;
    const std::vector<int64_t>& shape = tensor.shape;
    const int64_t rows = shape.size() == 2 ? shape[0] : 0, cols = shape.size() == 2 ? shape[1] : 0;
    view.scale_rows = scale_rows_ > 0 ? scale_rows_ : 1;
    view.scale_cols = scale_rows_ > 0 ? scale_cols_ : cols;  // without a block size, one scale per row
    const auto blocks = [](int64_t length, int64_t size) {
      return size == 0 ? 0 : (length + size - 1) / size;
    };
    if (rows == 0 || n != blocks(rows, view.scale_rows) * blocks(cols, view.scale_cols)) {
      refuse(*view.scales, "has " + std::to_string(n) +
                               " scales, expected one for each block of the weight; "
                               "such models do not convert yet");
    }
  }

  // ---- shapes ----
  static int64_t columns(const StoredTensor& tensor) {
    return tensor.shape.empty() ? 1 : tensor.shape.back();
  }
  static int64_t rows(const StoredTensor& tensor) {
    const int64_t n = columns(tensor);
    return n == 0 ? 0 : tensor.n_elements() / n;
  }

  void place(const StoredTensor& tensor, const Name& name, const Rule& rule, int64_t part) {
    if (tensor.shape.empty()) refuse(tensor, "is a single number, unlike that of other models of its family");
    if (tensor.n_elements() == 0) refuse(tensor, "is empty; download the file again");
    if (tensor.shape.size() > 4)
      refuse(tensor, "has more than 4 dimensions, unlike that of other models of its family");
    const size_t bar = rule.to.find('|');
    const std::string_view one = rule.to.substr(0, bar);
    const std::string_view two = bar == std::string_view::npos ? std::string_view() : rule.to.substr(bar + 1);
    const auto full = [&](std::string_view to) {
      std::string text = name.layer < 0 ? "" : "blk." + std::to_string(name.layer) + ".";
      text += to.ends_with('.') ? to.substr(0, to.size() - 1) : to;
      const bool is_stem = to.find('.') == std::string_view::npos || to.starts_with("nextn.") ||
                           to.starts_with("cls.") || to.starts_with("indexer.");
      return is_stem ? text + "." + name.suffix : text;
    };
    const int64_t n = columns(tensor), m = rows(tensor);
    const auto plain = [&, n](std::function<int64_t(int64_t)> order) {
      return view_of(tensor, m, n, [n, order = std::move(order)](int64_t row) { return order(row) * n; });
    };
    const std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    switch (rule.how) {
      case Rearrange::kNone:
      case Rearrange::kPairs: {
        const bool paired = family_.pairs && (rule.to == "attn_q" || rule.to == "attn_k");
        if (paired) return collect(full(one), -1, paired_view(tensor, rule.to == "attn_q"), shape);
        return collect(full(one), -1, plain([](int64_t row) { return row; }), shape);
      }
      case Rearrange::kPart:
        return collect(full(one), part, plain([](int64_t row) { return row; }), shape, rule.part < 0);
      case Rearrange::kTurn:
        return turn(tensor, full(one), shape);
      case Rearrange::kSplit:
        return split(tensor, full(one), full(two), shape);
      case Rearrange::kSplitTurned:
        return split_turned(tensor, full(one), full(two), true);
      case Rearrange::kSplitBeside:
        if (inputs_are_columns(tensor, true)) return split(tensor, full(one), full(two), shape);
        return split_turned(tensor, full(one), full(two), false);
      case Rearrange::kTurnDown:
        if (!inputs_are_columns(tensor, false)) return turn(tensor, full(one), shape);
        return collect(full(one), -1, plain([](int64_t row) { return row; }), shape);
      case Rearrange::kSplitColumns:
        return split_columns(tensor, full(one), full(two), shape);
      case Rearrange::kGroupsToParts:
        return collect(full(one), -1, ungrouped(tensor, falcon_kv_heads(config_), true), shape);
      case Rearrange::kHeadsToParts:
        return collect(full(one), -1, ungrouped(tensor, config_.n_heads(), false), shape);
      case Rearrange::kLatentParts:
        return latent_parts(tensor, full(one), full(two));
      case Rearrange::kMxfp4:
        return mxfp4(tensor, full(one), 0, 1);
      case Rearrange::kMxfp4Split:
        mxfp4(tensor, full(one), 0, 2);
        return mxfp4(tensor, full(two), 1, 2);
      case Rearrange::kFromPosition: {
        const int64_t skipped = first_position_row(config_);
        if (m <= skipped) refuse(tensor, "has no row for a position; download the file again");
        RowView view =
            view_of(tensor, m - skipped, n, [n, skipped](int64_t row) { return (row + skipped) * n; });
        return collect(full(one), -1, std::move(view), {n, m - skipped});
      }
      case Rearrange::kTaps:
      case Rearrange::kKeptTaps: {
        std::vector<int64_t> taps = filters(tensor);
        if (rule.how == Rearrange::kKeptTaps) taps = {taps[0], 1, taps[1], 1};
        return collect(full(one), -1, plain([](int64_t row) { return row; }), taps);
      }
      case Rearrange::kColumn:
        return collect(full(one), -1, view_of(tensor, n, 1, [](int64_t row) { return row; }), {1, n});
      case Rearrange::kGroups: {
        const int64_t n_groups = config_.get_int({"mamba_n_groups", "n_groups"});
        if (tensor.shape.size() != 1 || n_groups < 1 || n % n_groups != 0)
          refuse(tensor, "does not divide into " + std::to_string(n_groups) + " groups of heads");
        return collect(full(one), -1, plain([](int64_t row) { return row; }), {n / n_groups, n_groups});
      }
      case Rearrange::kValueHeads:
        return value_heads(tensor, full(one));
      case Rearrange::kValueColumns:
        return value_columns(tensor, full(one));
      case Rearrange::kKeyGroups:
        return key_groups(tensor, full(one), full(two));
      case Rearrange::kSkip:
      case Rearrange::kNumber:
        return;
    }
  }

  /// Returns a view that interleaves the two halves of each head's rows: row j of the first half is followed
  /// by row j of the second half.
  RowView paired_view(const StoredTensor& tensor, bool is_q) const {
    const bool vector = tensor.shape.size() == 1;
    const int64_t n_rows = tensor.shape[0], n_cols = vector ? 1 : columns(tensor);
    const int64_t n_heads = is_q ? config_.n_heads() : config_.n_kv_heads();
    if (n_heads < 1 || n_rows % (2 * n_heads) != 0 || tensor.shape.size() > 2) {
      refuse(tensor, "has " + std::to_string(n_rows) + " rows, expected an even number for each of " +
                         std::to_string(n_heads) + " heads");
    }
    const int64_t half = n_rows / n_heads / 2;
    const auto order = [half](int64_t row) {
      const int64_t head = row / (2 * half), in_head = row % (2 * half);
      return head * 2 * half + in_head % 2 * half + in_head / 2;
    };
    return view_of(tensor, n_rows, n_cols, [order, n_cols](int64_t row) { return order(row) * n_cols; });
  }

  void turn(const StoredTensor& tensor, const std::string& to, std::vector<int64_t> shape) {
    const int64_t n = columns(tensor), m = rows(tensor);
    if (tensor.shape.size() < 2)
      return collect(to, -1, view_of(tensor, m, n, [n](int64_t row) { return row * n; }), shape);
    const int64_t in = tensor.shape[tensor.shape.size() - 2];
    RowView view =
        view_of(tensor, m / in * n, in, [n, in](int64_t row) { return row / n * in * n + row % n; });
    view.stride = n;
    std::swap(shape[0], shape[1]);
    collect(to, -1, std::move(view), shape);
  }

  /// Whether a stack of experts' matrices [outputs, inputs] or [inputs, outputs] has the inputs as columns.
  /// reads_model: whether the number of inputs, not of outputs, equals the model's width. If both do, returns
  /// false, because published models have the form [inputs, outputs].
  bool inputs_are_columns(const StoredTensor& tensor, bool reads_model) const {
    if (tensor.shape.size() != 3) return false;
    const size_t if_columns = reads_model ? 2 : 1, if_rows = reads_model ? 1 : 2;
    return tensor.shape[if_columns] == config_.d_model() && tensor.shape[if_rows] != config_.d_model();
  }

  void split(const StoredTensor& tensor, const std::string& one, const std::string& two,
             std::vector<int64_t> shape) {
    if (tensor.shape.size() < 2 || tensor.shape[tensor.shape.size() - 2] % 2 != 0) {
      refuse(tensor, "cannot be halved, unlike that of other models of its family");
    }
    const int64_t n = columns(tensor), m = rows(tensor), half = tensor.shape[tensor.shape.size() - 2] / 2;
    shape[1] = half;
    for (const int64_t which : {0, 1}) {
      const auto first = [n, half, which](int64_t row) {
        return (row / half * 2 * half + which * half + row % half) * n;
      };
      collect(which == 0 ? one : two, -1, view_of(tensor, m / 2, n, first), shape);
    }
  }

  void split_turned(const StoredTensor& tensor, const std::string& one, const std::string& two,
                    bool alternating) {
    if (tensor.shape.size() != 3 || tensor.shape[2] % 2 != 0) {
      refuse(tensor, std::string("is not a stack of matrices with gates and ups ") +
                         (alternating ? "in alternating columns" : "beside each other"));
    }
    const int64_t n_experts = tensor.shape[0], in = tensor.shape[1], both = tensor.shape[2], out = both / 2;
    for (const int64_t which : {0, 1}) {
      const int64_t step = alternating ? 2 : 1, first = alternating ? which : which * out;
      RowView view = view_of(tensor, n_experts * out, in, [in, both, out, step, first](int64_t row) {
        return row / out * in * both + row % out * step + first;
      });
      view.stride = both;
      collect(which == 0 ? one : two, -1, std::move(view), {in, out, n_experts});
    }
  }

  void split_columns(const StoredTensor& tensor, const std::string& one, const std::string& two,
                     std::vector<int64_t> shape) {
    const int64_t n = columns(tensor), m = rows(tensor);
    if (n % 2 != 0) refuse(tensor, "has an odd number of gates and ups");
    shape[0] = n / 2;
    for (const int64_t which : {0, 1}) {
      RowView view = view_of(tensor, m, n / 2, [n, which](int64_t row) { return row * n + which; });
      view.stride = 2;
      collect(which == 0 ? one : two, -1, std::move(view), shape);
    }
  }

  /// Returns a view in which all rows of q come first, then all rows of k, then all rows of v. In the stored
  /// tensor, heads form groups. A group has the rows of one q head (or of several, if many_q is set), then
  /// those of one k head and of one v head.
  RowView ungrouped(const StoredTensor& tensor, int64_t n_groups, bool many_q) const {
    const bool vector = tensor.shape.size() == 1;
    const int64_t n_rows = tensor.shape[0], n_cols = vector ? 1 : columns(tensor),
                  n_heads = config_.n_heads();
    const int64_t per_group = many_q && n_groups > 0 ? n_heads / n_groups : 1;
    if (n_groups < 1 || n_rows % (n_groups * (per_group + 2)) != 0 || tensor.shape.size() > 2) {
      refuse(tensor, "has " + std::to_string(n_rows) + " rows, which are not the q, k and v of " +
                         std::to_string(n_groups) + " groups of heads");
    }
    const int64_t d = n_rows / (n_groups * (per_group + 2));
    const auto order = [n_groups, per_group, d](int64_t row) {
      const int64_t head = row / d, n_q = n_groups * per_group;
      const int64_t group = head < n_q ? head / per_group : (head - n_q) % n_groups;
      const int64_t place = head < n_q ? head % per_group : per_group + (head - n_q) / n_groups;
      return (group * (per_group + 2) + place) * d + row % d;
    };
    return view_of(tensor, n_rows, n_cols, [order, n_cols](int64_t row) { return order(row) * n_cols; });
  }

  /// Splits the stored tensor kv_b [heads * (nope + value), rank] into keys, transposed to [heads, rank,
  /// nope], and values [heads, value, rank].
  void latent_parts(const StoredTensor& tensor, const std::string& keys, const std::string& values) {
    const int64_t n_heads = config_.n_heads(), nope = config_.get_int({"qk_nope_head_dim"}),
                  value = config_.get_int({"v_head_dim"});
    const int64_t rank = columns(tensor), both = nope + value;
    if (nope < 1 || value < 1 || n_heads < 1 || tensor.shape.size() != 2 || tensor.shape[0] % n_heads != 0 ||
        tensor.shape[0] / n_heads != both) {
      refuse(tensor, "has " + std::to_string(tensor.shape[0]) + " rows, expected keys and values of " +
                         std::to_string(n_heads) + " heads");
    }
    RowView k = view_of(tensor, n_heads * rank, nope,
                        [rank, both](int64_t row) { return row / rank * both * rank + row % rank; });
    k.stride = rank;
    collect(keys, -1, std::move(k), {nope, rank, n_heads});
    RowView v = view_of(tensor, n_heads * value, rank, [rank, both, nope, value](int64_t row) {
      return (row / value * both + nope + row % value) * rank;
    });
    collect(values, -1, std::move(v), {rank, value, n_heads});
  }

  /// The shape of a convolution's filters in the file. Other tensors keep their shapes.
  static std::vector<int64_t> filters(const StoredTensor& tensor) {
    std::vector<int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    if (shape.size() == 3 && shape[1] == 1) shape.erase(shape.begin() + 1);
    return shape;
  }

  void value_heads(const StoredTensor& tensor, const std::string& to) {
    const DeltaHeads heads(config_);
    const bool vector = tensor.shape.size() == 1;
    const int64_t n_rows = tensor.shape[0], n_cols = vector ? 1 : tensor.n_elements() / n_rows;
    if (!heads.stored_row(0, n_rows)) refuse_heads(tensor, n_rows, "rows");
    const auto first_at = [heads, n_rows, n_cols](int64_t row) {
      return *heads.stored_row(row, n_rows) * n_cols;
    };
    collect(to, -1, view_of(tensor, n_rows, n_cols, first_at), filters(tensor));
  }

  void value_columns(const StoredTensor& tensor, const std::string& to) {
    const DeltaHeads heads(config_);
    const int64_t n = columns(tensor);
    if (tensor.shape.size() != 2 || n != heads.value_rows()) refuse_heads(tensor, n, "columns");
    RowView view = view_of(tensor, rows(tensor), n, [n](int64_t row) { return row * n; });
    for (int64_t h = 0; h < heads.n_v; ++h) view.segments.push_back(heads.stored_head(h) * heads.d_v);
    collect(to, -1, std::move(view), {n, rows(tensor)});
  }

  void key_groups(const StoredTensor& tensor, const std::string& qkv, const std::string& gates) {
    const DeltaHeads heads(config_);
    const int64_t n = columns(tensor), n_qkv = heads.key_rows() + heads.value_rows();
    if (tensor.shape.size() != 2 || tensor.shape[0] != n_qkv + heads.value_rows())
      refuse_heads(tensor, tensor.shape[0], "rows");
    const auto of = [&tensor, this, heads, n](int64_t first, int64_t n_rows) {
      return view_of(tensor, n_rows, n,
                     [heads, n, first](int64_t row) { return heads.grouped_row(first + row) * n; });
    };
    collect(qkv, -1, of(0, n_qkv), {n, n_qkv});
    collect(gates, -1, of(n_qkv, heads.value_rows()), {n, heads.value_rows()});
  }

  [[noreturn]] void refuse_heads(const StoredTensor& tensor, int64_t found, const char* what) const {
    refuse(tensor, "has " + std::to_string(found) + " " + what +
                       ", which do not fit the key and value heads of config.json");
  }

  /// Plans a tensor of the file from an MXFP4 tensor of the checkpoint: bytes [experts, rows, weight blocks,
  /// 16], whose scales [experts, rows, weight blocks] are in another tensor. If `of` is 2, the rows of two
  /// tensors of the file alternate in the stored tensor, and `which` (0 or 1) selects one of them.
  void mxfp4(const StoredTensor& tensor, const std::string& to, int64_t which, int64_t of) {
    std::string beside = tensor.name;
    beside.replace(beside.rfind("_blocks"), 7, "_scales");
    const StoredTensor* scales = checkpoint_.find(beside);
    if (tensor.shape.size() != 4 || tensor.shape[3] != 16 || tensor.type != ElementType::kU8 ||
        tensor.shape[1] % of != 0 || scales == nullptr || scales->type != ElementType::kU8 ||
        scales->shape != std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end() - 1)) {
      refuse(tensor, "is not an MXFP4 tensor with its scales beside it; download the files again");
    }
    RowView view;
    view.source = &tensor;
    view.scales = scales;
    view.mxfp4 = true;
    const int64_t n_rows = tensor.shape[1] / of;
    view.n_rows = tensor.shape[0] * n_rows;
    view.n_cols = tensor.shape[2] * kMxfp4Block;
    view.first_at = [which, of](int64_t row) { return row * of + which; };
    const int64_t n_cols = view.n_cols;
    collect(to, -1, std::move(view), {n_cols, n_rows, tensor.shape[0]});
  }

  void collect(const std::string& name, int64_t part, RowView view, std::vector<int64_t> shape,
               bool stacked = false) {
    const auto known = by_name_.find(name);
    const size_t at = known == by_name_.end() ? collected_.size() : known->second;
    if (known == by_name_.end()) {
      by_name_.emplace(name, at);
      collected_.push_back({.name = name, .parts = {}, .shape = shape, .stacked = stacked});
    }
    Collected& into = collected_[at];
    const StoredTensor& tensor = *view.source;
    const bool same = stacked ? into.shape == shape
                              : into.shape.front() == shape.front() && into.shape.size() == shape.size();
    if (!same) refuse(tensor, "has another shape than the part before it");
    if (!into.parts.emplace(part, std::move(view)).second) {
      refuse(tensor, "is one of two that would be " + name + ", expected one");
    }
  }

  PlannedTensor finish(Collected& collected) const {
    PlannedTensor tensor;
    tensor.name = collected.name;
    tensor.shape = collected.shape;
    const int64_t n = static_cast<int64_t>(collected.parts.size());
    const bool whole = collected.parts.begin()->first == -1;
    if (whole ? n != 1 : (collected.parts.begin()->first != 0 || collected.parts.rbegin()->first != n - 1)) {
      checkpoint_.fail(tensor.name + " lacks some of its parts: there are " + std::to_string(n) +
                       ", the last has number " + std::to_string(collected.parts.rbegin()->first) +
                       "; download all files of the model");
    }
    if (!whole && collected.stacked) {
      tensor.shape.push_back(n);
      if (tensor.shape.size() > 4) checkpoint_.fail(tensor.name + " would have more than 4 dimensions");
    } else if (!whole && tensor.shape.size() == 1) {  // vectors are concatenated
      tensor.shape[0] = 0;
      for (const auto& [part, view] : collected.parts) tensor.shape[0] += view.n_cols * view.n_rows;
    } else if (!whole) {
      tensor.shape[1] = 0;
      for (const auto& [part, view] : collected.parts) tensor.shape[1] += view.n_rows;
    }
    for (auto& [part, view] : collected.parts) tensor.parts.push_back(std::move(view));
    const bool norm = tensor.name.ends_with("norm.weight") && !tensor.name.ends_with(".ssm_norm.weight");
    tensor.change = tensor.name.ends_with(".ssm_a")  ? Change::kMinusExp
                    : family_.norms_plus_one && norm ? Change::kPlusOne
                                                     : Change::kNone;
    tensor.type = type_of(tensor);
    if (family_.factors != nullptr) tensor.factors = family_.factors(config_, stem_of(tensor.name));
    return tensor;
  }

  /// A tensor's name without "blk.N." and without ".weight" or ".bias".
  static std::string_view stem_of(std::string_view name) {
    if (layer_of(name) >= 0) name.remove_prefix(name.find('.', 4) + 1);
    return name.substr(0, name.rfind('.'));
  }

  DType type_of(const PlannedTensor& tensor) const {
    constexpr std::string_view kSingle[] = {
        "_norm.weight",        "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight",
        "token_types.weight",  "ssm_conv1d.weight",   "shortconv.conv.weight",     "ssm_conv1d_q.weight",
        "ssm_conv1d_k.weight", "ssm_conv1d_v.weight"};
    if (tensor.parts.front().mxfp4) return DType::kMXFP4;
    if (tensor.shape.size() <= 1 || !tensor.name.ends_with(".weight")) return DType::kF32;
    const bool single = std::any_of(std::begin(kSingle), std::end(kSingle),
                                    [&](std::string_view end) { return tensor.name.ends_with(end); });
    if (single) return DType::kF32;
    return tensor.shape[0] % dtype_info(type_).block_elems == 0 ? type_ : DType::kF16;
  }

  /// Adds a tensor with the divisors of RoPE's frequencies: those of Llama 3's scaling, or ("proportional",
  /// Gemma 4) divisors that stop the pairs that do not turn.
  void add_rope_factors(std::vector<PlannedTensor>& out) const {
    const nlohmann::json& rope = config_.rope();
    if (!rope.contains("rope_type")) return;
    if (rope["rope_type"] == "proportional") return add_stopped_pairs(out);
    if (rope["rope_type"] != "llama3") return;
    const double base = config_.rope_number("rope_theta", 10000.0),
                 factor = config_.rope_number("factor", 8.0);
    const double low = config_.rope_number("low_freq_factor", 1.0),
                 high = config_.rope_number("high_freq_factor", 4.0);
    const double context = config_.rope_number("original_max_position_embeddings", 8192.0);
    const int64_t n = config_.head_dim();
    PlannedTensor tensor{
        .name = "rope_freqs.weight", .type = DType::kF32, .shape = {n / 2}, .parts = {}, .values = {}};
    for (int64_t i = 0; i < n / 2; ++i) {
      const double wave =
          2.0 * std::numbers::pi * std::pow(base, 2.0 * static_cast<double>(i) / static_cast<double>(n));
      const double smooth = (context / wave - low) / (high - low);
      const double divisor = wave < context / high  ? 1.0
                             : wave > context / low ? factor
                                                    : 1.0 / ((1.0 - smooth) / factor + smooth);
      tensor.values.push_back(static_cast<float>(divisor));
    }
    out.insert(out.begin(), std::move(tensor));
  }

  void add_stopped_pairs(std::vector<PlannedTensor>& out) const {
    constexpr float kStops = 1e30f;  // as in llama.cpp's files
    const int64_t n = config_.of_full_layers("global_head_dim", "head_dim", config_.head_dim());
    const double share = config_.rope_number("partial_rotary_factor", 1.0);
    if (!(share >= 0.0 && share <= 1.0))
      config_.fail("partial_rotary_factor is not from 0 to 1; the file is damaged.");
    const auto n_turned = static_cast<int64_t>(static_cast<double>(n) * share / 2.0);
    PlannedTensor tensor{
        .name = "rope_freqs.weight", .type = DType::kF32, .shape = {n / 2}, .parts = {}, .values = {}};
    for (int64_t i = 0; i < n / 2; ++i) tensor.values.push_back(i < n_turned ? 1.0f : kStops);
    out.insert(out.begin(), std::move(tensor));
  }

  /// Adds Phi 3's RoPE factors, one tensor for short and one for long texts.
  void add_long_factors(std::vector<PlannedTensor>& out) const {
    for (const char* which : {"long", "short"}) {
      const nlohmann::json& rope = config_.rope();
      const std::string field = std::string(which) + "_factor";
      if (!rope.contains(field) || !rope[field].is_array() || rope[field].empty()) continue;
      PlannedTensor tensor{.name = "rope_factors_" + std::string(which) + ".weight",
                           .type = DType::kF32,
                           .shape = {},
                           .parts = {},
                           .values = {}};
      for (const nlohmann::json& number : rope[field]) {
        if (!number.is_number())
          config_.fail(field + " holds something else than numbers; download the file again.");
        tensor.values.push_back(number.get<float>());
      }
      if (static_cast<int64_t>(tensor.values.size()) != config_.n_rot() / 2) {
        config_.fail(field + " has " + std::to_string(tensor.values.size()) + " numbers, expected " +
                     std::to_string(config_.n_rot() / 2) + ", one for each turned pair.");
      }
      tensor.shape = {static_cast<int64_t>(tensor.values.size())};
      out.insert(out.begin(), std::move(tensor));
    }
  }

  const Checkpoint& checkpoint_;
  const Config& config_;
  const Family& family_;
  DType type_;
  int64_t n_layers_;
  int64_t scale_rows_ = 0, scale_cols_ = 0;
  std::vector<Collected> collected_;
  std::map<std::string, size_t> by_name_;
};

}  // namespace

std::vector<PlannedTensor> plan_tensors(const Checkpoint& checkpoint, const Config& config,
                                        const Family& family, DType type) {
  return Planner(checkpoint, config, family, type).plan();
}

uint64_t planned_elements(const std::vector<PlannedTensor>& plan) {
  uint64_t n = 0;
  for (const PlannedTensor& tensor : plan) {
    uint64_t product = 1;
    for (const int64_t dimension : tensor.shape) product *= static_cast<uint64_t>(dimension);
    n += product;
  }
  return n;
}

}  // namespace hearth::convert
