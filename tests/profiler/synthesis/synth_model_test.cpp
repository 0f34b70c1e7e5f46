// Synthetic models as files: what Hearth reads from them, their activity after quantization, their
// vocabulary.
#include "profiler/synthesis/synth_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "engine/model/ffn_activation.h"
#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/quant/dequantize.h"
#include "profiler/synthesis/synth_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

SynthOptions tiny(DType dtype = DType::kQ4_0) {
  SynthOptions options;
  options.shape = *find_shape("tiny");
  options.shape.n_vocab = 600;
  options.dtype = dtype;
  options.sparse = true;
  options.n_threads = 2;
  return options;
}

const SynthTensor& tensor_of(const std::vector<SynthTensor>& tensors, std::string_view name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const SynthTensor& t) { return t.name == name; });
}

struct Floats {
  std::vector<float> values;
  size_t n_rows = 0, n_cols = 0;
  const float* row(size_t i) const { return values.data() + i * n_cols; }
};

Floats floats_of(const SynthTensor& tensor) {
  Floats out;
  out.n_cols = static_cast<size_t>(tensor.shape[0]);
  out.n_rows = static_cast<size_t>(tensor.shape[1]);
  out.values.resize(out.n_rows * out.n_cols);
  const size_t stride = row_bytes(tensor.dtype, tensor.shape[0]);
  REQUIRE(tensor.bytes.size() == stride * out.n_rows);
  for (size_t i = 0; i < out.n_rows; ++i) {
    dequantize_row(tensor.dtype, tensor.bytes.data() + i * stride, tensor.shape[0],
                   out.values.data() + i * out.n_cols);
  }
  return out;
}

/// y = relu(m x) if `clip`, otherwise m x.
std::vector<float> product(const Floats& m, const float* x, bool clip = false) {
  std::vector<float> y(m.n_rows);
  for (size_t i = 0; i < m.n_rows; ++i) {
    float sum = 0.0f;
    for (size_t j = 0; j < m.n_cols; ++j) sum += m.row(i)[j] * x[j];
    y[i] = clip ? std::max(0.0f, sum) : sum;
  }
  return y;
}

TEST_CASE("quantized gates fire as planted on the model's own embeddings, and predictors find them") {
  for (const DType dtype : {DType::kQ4_0, DType::kF16}) {
    for (const double active : {0.05, 0.18, 0.5}) {
      CAPTURE(dtype_info(dtype).name, active);
      SynthOptions options = tiny(dtype);
      options.active = active;
      const SynthModel model = make_synth_model(options, {});
      const Floats embedding = floats_of(tensor_of(model.before, "token_embd.weight"));
      for (const std::vector<SynthTensor>& layer : model.layers) {
        const Floats gate = floats_of(tensor_of(layer, "ffn_gate.weight"));
        const Floats fc1 = floats_of(tensor_of(layer, "fc1.weight")),
                     fc2 = floats_of(tensor_of(layer, "fc2.weight"));
        double n_active = 0, n_found = 0, n_proposed = 0, n = 0;
        for (size_t token = 0; token < 200; ++token) {
          const std::vector<float> gates = product(gate, embedding.row(token));
          const std::vector<float> logits = product(fc2, product(fc1, embedding.row(token), true).data());
          for (size_t i = 0; i < gates.size(); ++i) {
            n += 1;
            n_active += gates[i] > 0 ? 1 : 0;
            n_proposed += logits[i] >= 0 ? 1 : 0;
            n_found += gates[i] > 0 && logits[i] >= 0 ? 1 : 0;
          }
        }
        CHECK(std::fabs(n_active / n - active) < 0.01);
        // Rounding moves neurons that are near their threshold; with 256 columns more than in larger shapes.
        CHECK(n_found / n_active > (dtype == DType::kF16 ? 0.99 : 0.9));
        CHECK(n_found / n_proposed > (dtype == DType::kF16 ? 0.99 : 0.9));
      }
    }
  }
}

TEST_CASE("both kinds of file open, with the tensors and keys of their kind") {
  const TempFolder folder;
  const SynthOptions options = tiny();
  const SynthModel model = make_synth_model(options, {});
  uint64_t n_written = 0;
  const auto count = [&](uint64_t bytes) { n_written = bytes; };
  write_synth_file(folder / "a.gguf", SynthKind::kPlain, options, model, false, count);
  const ModelFile plain = ModelFile::open(folder / "a.gguf");
  const ModelSpec spec = read_model_spec(plain);
  CHECK(spec.d_model == 256);
  CHECK(spec.d_ff == 1024);
  CHECK(spec.n_layers == 4);
  CHECK(spec.n_heads == 8);
  CHECK(spec.n_kv_heads == 4);
  CHECK(spec.n_vocab == 600);
  CHECK(spec.name == "synthetic-tiny");
  CHECK(decide_ffn_activation(plain, spec.arch, "").kind == Activation::kRelu);
  CHECK_FALSE(plain.has_key("powerinfer.sparse_threshold"));
  CHECK(plain.find_tensor("blk.3.ffn_down.weight") != nullptr);
  CHECK(plain.find_tensor("blk.3.ffn_down_t.weight") == nullptr);
  CHECK(plain.find_tensor("blk.3.fc1.weight") == nullptr);
  CHECK(n_written > 0);
  CHECK(n_written < plain.total_bytes());
  const SynthSizes sizes = synth_sizes(options);
  const double plain_bytes = static_cast<double>(plain.total_bytes());
  CHECK(static_cast<double>(sizes.plain_bytes) == Approx(plain_bytes).epsilon(0.03));

  write_synth_file(folder / "b.gguf", SynthKind::kSparse, options, model, false, count);
  const ModelFile sparse = ModelFile::open(folder / "b.gguf");
  CHECK(decide_ffn_activation(sparse, spec.arch, "").kind == Activation::kRelu);
  CHECK(sparse.find_float("powerinfer.sparse_threshold") == 0.0);
  CHECK_FALSE(sparse.has_key("hearth.ffn_activation"));
  CHECK(sparse.find_tensor("blk.3.ffn_down.weight") == nullptr);
  CHECK(sparse.find_tensor("blk.3.ffn_down_t.weight") != nullptr);
  CHECK(sparse.tensors().back().name == "blk.3.fc2.weight");
  const double sparse_bytes = static_cast<double>(sparse.total_bytes());
  CHECK(static_cast<double>(sizes.sparse_bytes) == Approx(sparse_bytes).epsilon(0.03));
  // Layers alternate: 0 and 2 are equal, 0 and 1 are not.
  const auto bytes_of = [&](const char* name) { return plain.find_tensor(name)->data; };
  const size_t n = plain.find_tensor("blk.0.ffn_gate.weight")->bytes;
  CHECK(std::memcmp(bytes_of("blk.0.ffn_gate.weight"), bytes_of("blk.2.ffn_gate.weight"), n) == 0);
  CHECK(std::memcmp(bytes_of("blk.0.ffn_gate.weight"), bytes_of("blk.1.ffn_gate.weight"), n) != 0);
}

TEST_CASE("ffn_down_t is ffn_down transposed") {
  const SynthModel model = make_synth_model(tiny(DType::kF32), {});
  const Floats down = floats_of(tensor_of(model.layers[0], "ffn_down.weight"));
  const Floats down_t = floats_of(tensor_of(model.layers[0], "ffn_down_t.weight"));
  REQUIRE(down.n_rows == down_t.n_cols);
  size_t n_wrong = 0;
  for (size_t i = 0; i < down.n_rows; ++i) {
    for (size_t j = 0; j < down.n_cols; ++j) n_wrong += down.row(i)[j] != down_t.row(j)[i] ? 1 : 0;
  }
  CHECK(n_wrong == 0);
}

TEST_CASE("any number of threads makes the same bytes, and another seed different ones") {
  SynthOptions options = tiny();
  options.n_threads = 1;
  const SynthModel one = make_synth_model(options, {});
  options.n_threads = 3;
  double last = 0.0;
  const SynthModel three = make_synth_model(options, [&](double fraction) {
    CHECK(fraction >= last);
    last = fraction;
  });
  CHECK(last == Approx(1.0));
  options.seed = 2;
  const SynthModel other = make_synth_model(options, {});
  for (size_t i = 0; i < one.layers[0].size(); ++i) {
    CAPTURE(one.layers[0][i].name);
    CHECK(one.layers[0][i].bytes == three.layers[0][i].bytes);
    if (one.layers[0][i].shape.size() == 2) CHECK(one.layers[0][i].bytes != other.layers[0][i].bytes);
  }
  CHECK(one.before[0].bytes == three.before[0].bytes);
}

TEST_CASE("a made-up vocabulary can have any size and has no piece twice") {
  for (const int n : {kMinSynthVocabulary, 600, 32000, 130'000}) {
    const SynthVocabulary vocabulary = make_synth_vocabulary(n);
    CAPTURE(n);
    CHECK(vocabulary.pieces.size() == static_cast<size_t>(n));
    CHECK(vocabulary.scores.size() == static_cast<size_t>(n));
    CHECK(vocabulary.types.size() == static_cast<size_t>(n));
    CHECK(std::set<std::string>(vocabulary.pieces.begin(), vocabulary.pieces.end()).size() ==
          static_cast<size_t>(n));
  }
}

TEST_CASE("a synthetic model's tokenizer takes any text and gives it back") {
  const TempFolder folder;
  SynthOptions options = tiny();
  options.shape.n_vocab = 12'000;
  const SynthModel model = make_synth_model(options, {});
  write_synth_file(folder / "a.gguf", SynthKind::kPlain, options, model, false, [](uint64_t) {});
  const ModelFile file = ModelFile::open(folder / "a.gguf");
  const std::unique_ptr<const Tokenizer> tokenizer = Tokenizer::from_model(file);
  for (const std::string& text :
       std::vector<std::string>{"Hello, world!", "bakema rutipo", "h\xc3\xa9 \xe2\x98\x83 \xf0\x9f\x98\x80",
                                "tab\tline\nend", "  two  spaces"}) {
    CAPTURE(text);
    const std::vector<int32_t> tokens = tokenizer->encode(text, false, false);
    CHECK(std::count(tokens.begin(), tokens.end(), kSynthUnknown) == 0);
    CHECK(tokenizer->decode(tokens, false) == text);
  }
  // Words made of known syllables are single tokens.
  CHECK(tokenizer->encode("bakema", false, false).size() <= 2);
}

}  // namespace
}  // namespace hearth::test
