// Predictors and whole models: what is recorded of a model, that proposing in a dense pass equals the
// predicted mode with the written files, and that the files preserve the model.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "engine/model/predictor_file.h"
#include "engine/model_runtime.h"
#include "kernels/base/whole_file.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/bench/perplexity.h"
#include "profiler/predictors/layer_training.h"
#include "profiler/predictors/observing.h"
#include "profiler/predictors/predictor_writer.h"
#include "profiler/predictors/recording.h"
#include "profiler/predictors/threshold_choice.h"
#include "profiler/predictors/trained_predictor.h"
#include "profiler/synthesis/normal_stream.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

constexpr int kContext = 16;

TinyShape shape() {
  TinyShape shape;
  shape.d_ff = 64;
  return shape;
}

std::vector<int32_t> some_tokens() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 4 * kContext; ++i) tokens.push_back((i * i * 17 + i * 5 + 3) % 259);
  return tokens;
}

struct OnDisk {
  explicit OnDisk(const std::string& architecture) : path(folder / "model.gguf") {
    TinyModel(architecture, shape()).key("hearth.ffn_activation", "relu").write(path);
  }
  std::unique_ptr<ModelRuntime> load(const std::string& mode, std::filesystem::path file = {}) const {
    LoadOptions options;
    options.path = file.empty() ? path : file;
    options.n_threads = 1;
    options.n_slots = 1;
    options.context_tokens = kContext;
    options.prefill_chunk = kContext;
    options.sparsity.mode = mode;
    return ModelRuntime::load(options);
  }
  TempFolder folder;
  std::filesystem::path path;
};

std::vector<float> logits(ModelRuntime& model) {
  const std::vector<int32_t> tokens = some_tokens();
  SequenceRun run(model);
  std::vector<float> out;
  for (size_t at = 0; at < tokens.size(); at += kContext) {
    run.clear();
    run.score(std::span(tokens).subspan(at, kContext), 0, kContext,
              [&](size_t, std::span<const float> row) { out.insert(out.end(), row.begin(), row.end()); });
  }
  return out;
}

/// The distance of the second's values from the first's: root mean square.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
  return std::sqrt(sum / static_cast<double>(a.size()));
}

/// Predictors with random weights, and their sources.
struct RandomPredictors {
  explicit RandomPredictors(const ModelSpec& spec) {
    for (int l = 0; l < spec.n_layers; ++l) {
      PredictorNet net = empty_net(spec.d_model, spec.d_ff);
      add_units(net, 32 + 32 * l, static_cast<uint64_t>(l));
      NormalStream(static_cast<uint64_t>(50 + l)).fill(net.out, 0.3f);
      nets.push_back(std::move(net));
    }
    for (const PredictorNet& net : nets) {
      predictors.push_back({.net = net, .unit = std::vector<float>(static_cast<size_t>(net.rank), 0.0f)});
    }
  }
  PredictorSource source() const {
    PredictorSource source;
    for (const PredictorNet& net : nets) source.ranks.push_back(net.rank);
    source.make = [this](int layer) { return shifted(predictors[static_cast<size_t>(layer)], 0); };
    return source;
  }
  std::vector<PredictorNet> nets;
  std::vector<TrainedPredictor> predictors;
};

/// Records the inputs that it observes. If takes_all, sets every neuron's value to zero.
class Watcher final : public NeuronObserver {
 public:
  explicit Watcher(bool takes_all) : takes_all_(takes_all) {}
  void input(int layer, const float* x, int n_tokens) override {
    CHECK(layer == n_inputs++ % 2);
    first_input.push_back(x[0]);
    tokens = n_tokens;
  }
  void values(int layer, float* values, int n_tokens) override {
    CHECK(layer == n_values++ % 2);
    CHECK(n_inputs == n_values);  // each comes after its layer's input
    if (takes_all_) std::fill_n(values, n_tokens * shape().d_ff, 0.0f);
  }
  int n_inputs = 0, n_values = 0, tokens = 0;
  std::vector<float> first_input;

 private:
  bool takes_all_;
};

std::string bytes_of(const std::filesystem::path& path) { return read_whole_file(path, 1 << 24); }

}  // namespace

TEST_CASE("an observed dense pass shows every layer, and removed neurons add nothing") {
  for (const char* architecture : {"llama", "opt", "falcon"}) {
    OnDisk disk(architecture);
    const auto model = disk.load("dense");
    const std::vector<float> before = logits(*model);
    Watcher watcher(false), taker(true);
    model->observation().observe_neurons(&watcher);
    CHECK(logits(*model) == before);
    CHECK(watcher.n_values == 2 * 4);
    CHECK(watcher.tokens == kContext);
    model->observation().observe_neurons(&taker);
    const std::vector<float> without = logits(*model);
    model->observation().observe_neurons(nullptr);
    CHECK(logits(*model) == before);

    TinyModel empty(architecture, shape());
    empty.key("hearth.ffn_activation", "relu");
    for (const char* name : {"blk.0.ffn_down.weight", "blk.1.ffn_down.weight"}) {
      empty.random_tensor(name, {shape().d_ff, shape().d_model}, 0, 0);
    }
    empty.write(disk.folder / "empty.gguf");
    INFO(architecture);
    CHECK(distance(logits(*disk.load("dense", disk.folder / "empty.gguf")), without) < 1e-6);
  }
}

TEST_CASE("recording: an interrupted and resumed run has the same bytes; contributions are the neurons'") {
  OnDisk disk("llama");
  const auto model = disk.load("dense");
  const std::vector<int32_t> text = some_tokens();
  const std::filesystem::path whole = disk.folder / "whole", parts = disk.folder / "parts";
  std::filesystem::create_directory(whole);
  std::filesystem::create_directory(parts);
  CHECK(record_activity(*model, {whole, text, kContext}, {}) == 4 * kContext);
  struct Stop {};
  for (int stops = 0; stops < 3; ++stops) {
    CHECK_THROWS_AS(record_activity(*model, {parts, text, kContext}, [](double) { throw Stop{}; }), Stop);
  }
  double last = 0;
  CHECK(record_activity(*model, {parts, text, kContext}, [&](double share) { last = share; }) ==
        4 * kContext);
  CHECK(last == 1);
  for (int layer = 0; layer < 2; ++layer) {
    CHECK(bytes_of(record_path(whole, layer)) == bytes_of(record_path(parts, layer)));
  }

  // A layer's contributions are large where removing its neurons changes much: measured by the norms of its
  // columns.
  const std::vector<float> norms = down_norms(model->facts().file, model->facts().spec, 1);
  const TensorInfo& down = *model->facts().file.find_tensor("blk.1.ffn_down.weight");
  const float* values = reinterpret_cast<const float*>(down.data);
  for (const int j : {0, 17, 63}) {
    double squares = 0;
    for (int r = 0; r < shape().d_model; ++r) {
      const double v = values[r * shape().d_ff + j];
      squares += v * v;
    }
    CHECK(norms[static_cast<size_t>(j)] == Approx(std::sqrt(squares)));
  }
  int64_t n_active = 0, n_all = 0;
  for (int layer = 0; layer < 2; ++layer) {
    const RecordFile record(record_path(whole, layer), record_shape(model->facts().spec, layer),
                            4 * kContext);
    for (int64_t row = 0; row < record.n_rows(); ++row) {
      for (int j = 0; j < shape().d_ff; ++j) n_active += record.codes(row)[j] > 0;
      n_all += shape().d_ff;
      CHECK(record.scale(row) > 0);
    }
  }
  const double share = static_cast<double>(n_active) / static_cast<double>(n_all);
  const auto exact = disk.load("exact");
  exact->observation().reset_activity();
  logits(*exact);
  CHECK(share == Approx(exact->observation().activity().active).margin(0.002));
}

TEST_CASE("recording: a PowerInfer file has the down norms of its plain file") {
  OnDisk disk("llama");
  const auto plain = disk.load("dense");
  const RandomPredictors random(plain->facts().spec);
  write_powerinfer_file(disk.folder / "p.gguf", plain->facts().file, plain->facts().spec, random.source(),
                        DType::kF32, false, {});
  const auto turned = disk.load("dense", disk.folder / "p.gguf");
  for (int layer = 0; layer < 2; ++layer) {
    const std::vector<float> a = down_norms(plain->facts().file, plain->facts().spec, layer);
    const std::vector<float> b = down_norms(turned->facts().file, turned->facts().spec, layer);
    CHECK(distance(a, b) < 1e-6);
  }
}

TEST_CASE("written predictors run as they were judged, in PowerInfer's file and beside the model") {
  for (const char* architecture : {"llama", "opt", "falcon"}) {
    INFO(architecture);
    OnDisk disk(architecture);
    const auto dense = disk.load("dense");
    const RandomPredictors random(dense->facts().spec);
    ThreadPool pool(1);
    FloatProducts products(pool, supported_isas().front());
    ProposingObserver observer(products, random.predictors);
    observer.use(std::vector<float>{0, 0});
    dense->observation().observe_neurons(&observer);
    const std::vector<float> judged = logits(*dense);
    dense->observation().observe_neurons(nullptr);
    ProposalCounts counts = observer.counts()[0];
    counts.add(observer.counts()[1]);
    CHECK(counts.proposed() > 0.2);
    CHECK(counts.proposed() < 0.8);
    CHECK(distance(judged, logits(*dense)) > 0.1);  // something was left out

    const std::filesystem::path sparse = disk.folder / "sparse.gguf";
    write_powerinfer_file(sparse, dense->facts().file, dense->facts().spec, random.source(), DType::kF32,
                          false, {});
    const auto predicted = disk.load("predicted", sparse);
    predicted->observation().reset_activity();
    const std::vector<float> served = logits(*predicted);
    CHECK(distance(judged, served) < 0.01);
    CHECK(predicted->observation().activity().proposed == Approx(counts.proposed()).margin(0.002));
    CHECK(distance(logits(*disk.load("exact", sparse)), logits(*dense)) < 0.01);

    CHECK_THROWS_AS(disk.load("predicted"), ModelFileError);
    write_predictor_file(dense->facts().file, dense->facts().spec, random.source(), DType::kF32);
    const auto beside = disk.load("predicted");
    CHECK(distance(logits(*beside), served) < 0.01);
    CHECK(beside->placed().sparsity.mode == Sparsity::kPredicted);
    CHECK(distance(logits(*disk.load("exact")), logits(*dense)) < 0.01);
  }
}

TEST_CASE("thresholds: the granted loss is kept with its margin, and a larger one proposes fewer neurons") {
  OnDisk disk("llama");
  const auto model = disk.load("dense");
  const std::vector<int32_t> text = some_tokens();
  CHECK(record_activity(*model, {disk.folder.path(), text, kContext}, {}) == 4 * kContext);
  ThreadPool pool(1);
  FloatProducts products(pool, supported_isas().front());
  std::vector<LayerTraining> trained(2);
  std::vector<TrainedPredictor> predictors;
  std::vector<LogitCurve> curves;
  for (int layer = 0; layer < 2; ++layer) {
    const RecordFile record(record_path(disk.folder.path(), layer), record_shape(model->facts().spec, layer),
                            4 * kContext);
    LayerTraining& training = trained[static_cast<size_t>(layer)];
    const LayerTrainingOptions options{.n_train = 48, .n_judge = 16, .epochs = 1000};
    train_layer(products, record, options, training, [](double) { return true; });
    predictors.push_back(with_unit(products, training.net, record, 4 * kContext));
    std::vector<float> hidden;
    const auto logits_of = [&](const float* x, int64_t n, std::vector<float>& logits) {
      predict_over_unit(products, predictors.back(), x, n, hidden, logits);
    };
    curves.push_back(judge(logits_of, record, record, 0, 4 * kContext));
  }
  const double exact = measure_perplexity(*model, text, kContext, -1, {}).perplexity;
  ProposingObserver observer(products, predictors);
  const Observing observing(*model, observer);
  double proposed_before = 1.01;
  for (const double max_rise : {0.001, 0.05, 0.5}) {
    double done = 0;
    const ThresholdChoice choice = choose_thresholds(
        *model, observer, curves, {.text = text, .n_context = kContext, .bos = -1, .max_rise = max_rise},
        [&](double share) {
          CHECK(share >= done);
          done = share;
        });
    INFO(max_rise);
    CHECK(choice.kept);
    CHECK(choice.exact_perplexity == Approx(exact).epsilon(1e-4));
    const double rise = std::log(choice.perplexity / choice.exact_perplexity);
    CHECK(std::max(rise, choice.divergence) + choice.margin <= std::log1p(max_rise) + 1e-9);
    CHECK(choice.margin >= 0);
    // The thresholds are those that were evaluated last.
    observer.use(choice.thresholds);
    CHECK(measure_perplexity(*model, text, kContext, -1, {}).perplexity ==
          Approx(choice.perplexity).epsilon(1e-4));
    ProposalCounts counts = observer.counts()[0];
    counts.add(observer.counts()[1]);
    CHECK(counts.proposed() < proposed_before);
    proposed_before = counts.proposed();
  }
}

TEST_CASE("predictors beside a model: another model's and damaged ones are refused") {
  OnDisk disk("llama");
  const auto model = disk.load("dense");
  const RandomPredictors random(model->facts().spec);
  write_predictor_file(model->facts().file, model->facts().spec, random.source(), DType::kF16);
  const std::filesystem::path side = predictor_file_path(disk.path);
  CHECK(side.filename() == "model.gguf.predictors.gguf");
  const std::string bytes = bytes_of(side);

  OnDisk other("opt");
  std::filesystem::copy_file(side, predictor_file_path(other.path));
  CHECK_THROWS_AS(other.load("predicted"), ModelFileError);
  CHECK_NOTHROW(other.load("exact"));  // this mode does not use them

  for (const size_t length : {size_t{0}, size_t{3}, size_t{40}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(side, std::ios::binary | std::ios::trunc) << bytes.substr(0, length);
    CHECK_THROWS_AS(disk.load("predicted"), ModelFileError);
  }
  std::filesystem::copy_file(disk.path, side, std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_AS(disk.load("predicted"), ModelFileError);
  std::ofstream(side, std::ios::binary | std::ios::trunc) << bytes;
  CHECK_NOTHROW(disk.load("predicted"));
}

TEST_CASE("a PowerInfer file keeps the contents of the model's, and replaces older predictors") {
  OnDisk disk("llama");
  TinyModel("llama", shape()).powerinfer().key("powerinfer.sparse_threshold", -0.5f).write(disk.path);
  const auto model = disk.load("dense");
  const RandomPredictors random(model->facts().spec);
  const std::filesystem::path path = disk.folder / "new.gguf";
  write_powerinfer_file(path, model->facts().file, model->facts().spec, random.source(), DType::kQ8_0, false,
                        {});
  CHECK_THROWS_AS(write_powerinfer_file(path, model->facts().file, model->facts().spec, random.source(),
                                        DType::kQ8_0, false, {}),
                  std::runtime_error);
  const ModelFile written = ModelFile::open(path);
  CHECK(written.is_powerinfer());
  CHECK(written.get_float("powerinfer.sparse_threshold") == 0);
  CHECK(written.get_string("hearth.ffn_activation") == "relu");
  for (const std::string_view key : model->facts().file.keys()) CHECK(written.has_key(key));
  for (const TensorInfo& tensor : model->facts().file.tensors()) {
    const TensorInfo* found = written.find_tensor(tensor.name);
    REQUIRE(found != nullptr);
    if (tensor.name.find(".fc") != std::string_view::npos) continue;
    CHECK(found->dtype == tensor.dtype);
    CHECK(std::equal(tensor.data, tensor.data + tensor.bytes, found->data, found->data + found->bytes));
  }
  CHECK(written.tensors().back().name == "blk.1.fc2.weight");
  CHECK(written.find_tensor("blk.1.fc1.weight")->shape[1] == 64);
  CHECK(written.find_tensor("blk.1.fc1.weight")->dtype == DType::kQ8_0);
}

TEST_CASE("no PowerInfer file is made of a model that PowerInfer cannot run") {
  OnDisk disk("llama");
  CHECK(why_no_powerinfer_file(disk.load("dense")->facts().spec).empty());
  TinyModel("llama", shape()).key("hearth.ffn_activation", "relu2").write(disk.path);
  CHECK(why_no_powerinfer_file(disk.load("dense")->facts().spec).find("relu2") != std::string::npos);
  TinyModel("qwen2", shape()).key("hearth.ffn_activation", "relu").write(disk.path);
  CHECK(why_no_powerinfer_file(disk.load("dense")->facts().spec).find("qwen2") != std::string::npos);
}

}  // namespace hearth::test
