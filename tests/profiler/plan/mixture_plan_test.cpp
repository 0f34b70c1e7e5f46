// The formula for mixtures: bytes compared with a file's, terms computed by hand, and models that do not fit.
#include "profiler/plan/mixture_plan.h"

#include <algorithm>
#include <filesystem>

#include "engine/placement/cost_model.h"
#include "engine/placement/host_costs.h"
#include "engine/placement/kernel_costs.h"
#include "profiler/machine/shipped_machines.h"
#include "profiler/synthesis/planted_choice.h"
#include "profiler/synthesis/synth_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

PlanQuestion question_of(const PlannedModel& model, bool gpu) {
  PlanQuestion question{.model = model,
                        .machine = machine_named("rtx4090"),
                        .vram_bytes = std::nullopt,
                        .ram_bytes = std::nullopt,
                        .load = {.context_tokens = 1024, .n_slots = 1, .prefill_chunk = 64, .experts = false},
                        .modes = {},
                        .activity = std::nullopt,
                        .active = std::nullopt,
                        .assumptions = {}};
  if (!gpu) question.machine.gpu.reset();
  return question;
}

double part(const MixturePlan& plan, std::string_view what) {
  for (const MixtureBytes& one : plan.parts) {
    if (one.what == what) return one.read;
  }
  return -1;
}

TEST_CASE("mixture plan: a shape has the bytes of its file, and a token reads what the engine reports") {
  const char* name = GENERATE("tiny-moe", "tiny-moe-relu");
  INFO(name);
  const TempFolder folder;
  SynthOptions options;
  options.shape = *find_shape(name);
  options.n_threads = 2;
  write_synth_file(folder / "m.gguf", SynthKind::kPlain, options, make_synth_model(options, {}), false,
                   [](uint64_t) {});
  const PlannedModel file = model_of_file(folder / "m.gguf", "");
  const PlannedModel shape = model_of_shape(*find_shape(name), DType::kQ4_0, "");
  CHECK(file.weight_bytes() == shape.weight_bytes());
  CHECK(shape.modes() == std::vector{Sparsity::kDense});
  for (const auto norm : {&LayerWeights::q_norm, &LayerWeights::k_norm})
    CHECK((file.weights.layers[0].*norm != nullptr) == (shape.weights.layers[0].*norm != nullptr));
  const PlanQuestion of_file = question_of(file, false), of_shape = question_of(shape, false);
  const MixturePlan plan = plan_mixture(of_file, nullptr);
  CHECK(plan.decode.seconds() == Approx(plan_mixture(of_shape, nullptr).decode.seconds()));
  CHECK(plan.token_bytes() - part(plan, "KV cache") ==
        Approx(static_cast<double>(file.weights.bytes_per_token(file.spec))));
  // Without a GPU a token takes all its bytes over the bandwidth, plus the time to start threads.
  CHECK(plan.decode.seconds() == Approx(plan.token_bytes() / of_file.machine.ram_read_bytes_per_s() +
                                        4 * HostCosts().mixture_layer_s())
                                     .epsilon(1e-6));
  CHECK(plan.decode.hand_overs + plan.decode.kernels + plan.decode.device_whole == 0);
  CHECK(plan.vram_bytes() == 0);
}

TEST_CASE("mixture plan: every term of the closed form is right with a GPU") {
  const PlannedModel model = model_of_shape(*find_shape("qwen3-30b-a3b"), DType::kQ4_0, "");
  const PlanQuestion question = question_of(model, true);
  const GpuProfile& gpu = *question.machine.gpu;
  const MixturePlan plan = plan_mixture(question, nullptr);
  CHECK(plan.n_device_layers == 48);
  const double experts = 48 * 8.0 * 3 * 2048 * 768 * 18 / 32;
  CHECK(part(plan, "experts") == Approx(experts));
  CHECK(plan.decode.host_experts == Approx(experts / question.machine.ram_read_bytes_per_s()));
  CHECK(plan.decode.device_experts == 0);
  const CostModel cost(question.machine);
  const double kv = part(plan, "KV cache");
  const double attention_s = std::max(
      cost.gpu_read(kv, cuda::KernelClass::kAttention),
      48 * cost.gpu_instructions(cuda::attention_instructions(512, 32, 128), cuda::KernelClass::kAttention));
  CHECK(plan.decode.device_whole ==
        Approx(cost.gpu_read(plan.token_bytes() - experts - kv, cuda::KernelClass::kProduct) + attention_s));
  const double begin = HostCosts().experts_s();
  // The first hand-over brings the embedding.
  CHECK(plan.decode.hand_overs - cost.round_trip(4.0 * 2048, 4.0 * 2048) ==
        Approx(48 * (begin + hand_over_s(gpu) + 4.0 * (2048 + 128) / gpu.from_device_pinned_bytes_per_s +
                     4.0 * 2048 / gpu.to_device_pinned_bytes_per_s)));
  // Norms of queries and keys; no FFN's three kernels, but the router's, and two for the hand-over.
  KernelCounts kernels = layer_kernels(Sparsity::kDense, false);
  kernels[static_cast<size_t>(cuda::KernelClass::kNorm)] += 2;
  kernels[static_cast<size_t>(cuda::KernelClass::kProduct)] += 1 - 2;
  kernels[static_cast<size_t>(cuda::KernelClass::kSimple)] += 1 - 1;
  kernels[static_cast<size_t>(cuda::KernelClass::kHandOver)] += 1;
  CHECK(plan.decode.kernels == Approx(48 * cost.kernels(kernels)));
  CHECK(plan.decode.step == cost.step());
  CHECK(plan.decode.host_whole == 0);
  CHECK(mixture_bound(plan.decode) == "experts on the CPU");
  CHECK(plan.experts_per_step == mean_experts_chosen(model.spec, 64));

  // Half the layers fit a small budget, and none fits a smaller one.
  PlanQuestion small = question;
  small.vram_bytes = static_cast<int64_t>(plan.vram_bytes() / 2);
  const MixturePlan half = plan_mixture(small, nullptr);
  CHECK(half.n_device_layers > 10);
  CHECK(half.n_device_layers < 25);
  CHECK(half.vram_bytes() <= static_cast<double>(*small.vram_bytes));
  CHECK(half.decode.seconds() > plan.decode.seconds());
  CHECK(half.ram_bytes() + half.vram_bytes() == Approx(plan.ram_bytes() + plan.vram_bytes()).epsilon(1e-3));
  small.vram_bytes = 1 << 20;
  CHECK_THROWS_WITH(plan_mixture(small, nullptr), ContainsSubstring("holds nothing of qwen3-30b-a3b"));
  small.vram_bytes.reset();
  small.ram_bytes = int64_t{8} << 30;
  CHECK_THROWS_WITH(plan_mixture(small, nullptr), ContainsSubstring("does not hold qwen3-30b-a3b"));
}

TEST_CASE("mixture plan: a layer that drafts has its experts on the GPU if the whole model is there") {
  const PlannedModel model =
      model_of_file(std::filesystem::path(testing::source_dir()) / "tests/data/arch/glm4moe.gguf", "");
  REQUIRE(model.nextn);
  PlanQuestion question = question_of(model, true);
  question.load.experts = true;
  question.load.context_tokens = 64;
  double experts = 0;
  for (const Expert& one : model.nextn->mixture().experts) experts += static_cast<double>(expert_bytes(one));
  const auto drafting = [](const MixturePlan& plan) {
    const auto found = std::ranges::find(plan.parts, "layers that predict later tokens", &MixtureBytes::what);
    REQUIRE(found != plan.parts.end());
    return *found;
  };
  const MixturePlan whole = plan_mixture(question, nullptr);
  CHECK(whole.is_complete(model.spec));
  CHECK(drafting(whole).in_ram == 0);
  CHECK(drafting(whole).on_gpu > experts);
  CHECK(drafting(whole).read == 0);
  // With a byte less, the experts of the layer stay in RAM before any of the model's do.
  question.vram_bytes = static_cast<int64_t>(whole.vram_bytes()) - 1;
  const MixturePlan part = plan_mixture(question, nullptr);
  CHECK(part.is_complete(model.spec));
  CHECK(drafting(part).in_ram == experts);
  CHECK(drafting(part).on_gpu == drafting(whole).on_gpu - experts);
  const MixturePlan on_cpu = plan_mixture(question_of(model, false), nullptr);
  CHECK(drafting(on_cpu).on_gpu == 0);
  CHECK(drafting(on_cpu).in_ram > experts);
}

TEST_CASE("mixture plan: a shared expert costs its time beyond the others', a dense layer what it reads") {
  ModelShape shape = *find_shape("glm-4.5-air");
  const auto decode_of = [&](int d_shared) {
    shape.d_shared = d_shared;
    const PlannedModel model = model_of_shape(shape, DType::kQ4_0, "");
    PlanQuestion question = question_of(model, true);
    for (ReadRate& rate : question.machine.host.ram_read)
      rate.bytes_per_s *= 20;  // makes it possible that the GPU is the slower one
    return plan_mixture(question, nullptr);
  };
  const MachineProfile machine = machine_named("rtx4090");
  const MixturePlan none = decode_of(0), hidden = decode_of(1408), large = decode_of(16 * 1408);
  const double row = 3.0 * 4096 * 18 / 32;
  CHECK(hidden.decode.seconds() == Approx(none.decode.seconds()).epsilon(1e-9));
  CHECK(hidden.prefill.seconds() == Approx(none.prefill.seconds()).epsilon(1e-9));
  CHECK(hidden.vram_bytes() - none.vram_bytes() == Approx(45 * 1408 * row).epsilon(0.01));
  const CostModel cost(machine);
  KernelCounts three = {};
  three[static_cast<size_t>(cuda::KernelClass::kProduct)] = 2;
  three[static_cast<size_t>(cuda::KernelClass::kSimple)] = 1;
  CHECK(large.decode.device_experts ==
        Approx(45 * (cost.gpu_read(16 * 1408 * row, cuda::KernelClass::kProduct) + cost.kernels(three) -
                     HostCosts().experts_s())));
  CHECK(large.decode.kernels == Approx(none.decode.kernels));
  // One of the 46 layers hands nothing over.
  CHECK(none.decode.hand_overs - cost.round_trip(4.0 * 4096, 4.0 * 4096) ==
        Approx(45 * (HostCosts().experts_s() + hand_over_s(*machine.gpu) +
                     4.0 * (4096 + 128) / machine.gpu->from_device_pinned_bytes_per_s +
                     4.0 * 4096 / machine.gpu->to_device_pinned_bytes_per_s)));
}

TEST_CASE("mixture plan: contexts are decided by the engine's rule") {
  const PlannedModel model = model_of_shape(*find_shape("qwen3-30b-a3b"), DType::kQ4_0, "");
  PlanQuestion question = question_of(model, true);
  question.load.n_slots = 4;
  const auto contexts = [&](int asked) {
    question.load.n_kv_contexts = asked;
    return plan_mixture(question, nullptr);
  };
  const MixturePlan one = contexts(1), four = contexts(0);
  const double kv = (four.vram_bytes() - one.vram_bytes()) / 3;
  CHECK(kv == Approx(2.0 * 2 * 4 * 128 * 48 * 1024));
  CHECK(contexts(kKvContextsDecided).n_kv_contexts == 4);
  CHECK(contexts(kKvContextsDecided).vram_bytes() == Approx(four.vram_bytes()));
  question.vram_bytes = static_cast<int64_t>(four.vram_bytes()) - (1 << 20);
  CHECK(contexts(kKvContextsDecided).n_kv_contexts == 3);
  question.vram_bytes = static_cast<int64_t>(one.vram_bytes()) - (1 << 20);  // one layer does not fit
  CHECK(contexts(kKvContextsDecided).n_kv_contexts == 1);
  CHECK(contexts(9).n_kv_contexts == 4);
  // RAM alone gets the contexts of half the slots, if they fit.
  question.machine.gpu.reset();
  question.vram_bytes.reset();
  question.load.n_slots = 5;
  const MixturePlan three = contexts(kKvContextsDecided);
  CHECK(three.n_kv_contexts == 3);
  CHECK(three.ram_bytes() == Approx(contexts(1).ram_bytes() + 2 * kv));
  question.ram_bytes = static_cast<int64_t>(three.ram_bytes()) - 1;
  CHECK(contexts(kKvContextsDecided).n_kv_contexts == 2);
}

TEST_CASE("mixture plan: counts determine how many experts a prompt's step reads") {
  const PlannedModel model = model_of_shape(*find_shape("tiny-moe"), DType::kQ4_0, "");
  const PlanQuestion question = question_of(model, false);
  ActivityCounts counts(4, 16, true);
  counts.n_tokens = 10;
  for (int layer = 0; layer < 4; ++layer) {
    for (int e = 0; e < 4; ++e) counts.active[counts.index(layer, e)] = 10;  // always the same experts
  }
  const MixturePlan plan = plan_mixture(question, &counts);
  CHECK(plan.experts_per_step == 4);
  CHECK(plan.experts_source == "as counted");
  CHECK(plan.prefill.seconds() <= plan_mixture(question, nullptr).prefill.seconds());
  CHECK_THAT(mixture_text(question, plan), ContainsSubstring("4 of 16 experts a layer"));
}

TEST_CASE("mixture plan: experts on the GPU are read there, and the slower of both counts") {
  const PlannedModel model = model_of_shape(*find_shape("qwen3-30b-a3b"), DType::kQ4_0, "");
  PlanQuestion question = question_of(model, true);
  const MixturePlan none = plan_mixture(question, nullptr);
  question.load.experts = true;
  question.vram_bytes = int64_t{10} << 30;
  const MixturePlan plan = plan_mixture(question, nullptr);
  CHECK(plan.vram_bytes() <= static_cast<double>(*question.vram_bytes));
  CHECK(plan.n_device_layers == 48);
  CHECK(plan.n_experts == 48 * 128);
  const double share = static_cast<double>(plan.n_resident) / 6144;
  CHECK(share > 0.5);
  CHECK(share < 0.7);
  // Exchanges give a layer's device the most chosen experts.
  const ModelActivity exchanged = exchanged_expert_activity(model.spec);
  CHECK(plan.chosen_on_gpu == Approx(exchanged.of(0).caught(plan.n_resident / 48)).epsilon(0.01));
  CHECK(plan.chosen_on_gpu > share + 0.15);
  CHECK(plan.decode.host_experts ==
        Approx((1 - plan.chosen_on_gpu) * none.decode.host_experts).epsilon(0.05));
  CHECK(plan.decode.seconds() < 0.6 * none.decode.seconds());
  CHECK(plan.prefill.seconds() < 0.6 * none.prefill.seconds());
  CHECK(plan.decode.hand_overs < 1.05 * none.decode.hand_overs);  // rows come back instead of a sum
  CHECK(plan.token_bytes() == Approx(none.token_bytes()));
  // Experts are exchanged, so RAM has all of them.
  CHECK(plan.exchanges);
  CHECK_FALSE(none.exchanges);
  CHECK(plan.ram_bytes() == Approx(none.ram_bytes()).epsilon(1e-3));
  CHECK(plan.copied_bytes() == Approx(share * 6144 * 3 * 2048 * 768 * 18 / 32));
  CHECK_THAT(mixture_text(question, plan), ContainsSubstring("experts on the GPU and the CPU"));
  CHECK_THAT(mixture_text(question, plan), ContainsSubstring("of it are copies"));
  // A mixture that fits wholly leaves nothing to the CPU.
  question.vram_bytes.reset();
  const MixturePlan whole = plan_mixture(question, nullptr);
  CHECK(whole.n_resident == whole.n_experts);
  CHECK_FALSE(whole.exchanges);
  CHECK(whole.ram_bytes() < 0.05 * none.ram_bytes());
  CHECK(whole.decode.host_experts == 0);
  CHECK(whole.prefill.host_experts == 0);
  CHECK(whole.decode.hand_overs < 1e-4);
  CHECK_THAT(mixture_text(question, whole), ContainsSubstring("experts on the GPU, each"));
}

TEST_CASE("mixture plan: counted experts are on the GPU before others") {
  const PlannedModel model = model_of_shape(*find_shape("qwen3-30b-a3b"), DType::kQ4_0, "");
  PlanQuestion question = question_of(model, true);
  question.load.experts = true;
  question.vram_bytes = int64_t{6} << 30;
  ActivityCounts counts(48, 128, true);
  counts.n_tokens = 1000;
  for (int layer = 0; layer < 48; ++layer) {
    for (int e = 0; e < 128; ++e) counts.active[counts.index(layer, e)] = e < 32 ? 200 : 17;
  }
  const MixturePlan usual = plan_mixture(question, nullptr), counted = plan_mixture(question, &counts);
  CHECK(counted.chosen_on_gpu > usual.chosen_on_gpu + 0.2);
  CHECK(counted.decode.seconds() < 0.9 * usual.decode.seconds());
  // If RAM does not hold the whole file, no experts are exchanged.
  question.ram_bytes = static_cast<int64_t>(0.9 * static_cast<double>(model.weight_bytes()));
  const MixturePlan fixed = plan_mixture(question, nullptr);
  CHECK(fixed.chosen_on_gpu == Approx(static_cast<double>(fixed.n_resident) / 6144).epsilon(0.02));
  CHECK(counted.exchanges);
  CHECK_FALSE(fixed.exchanges);
  CHECK(fixed.copied_bytes() == 0);
  CHECK(fixed.ram_bytes() < counted.ram_bytes() - 0.9 * counted.copied_bytes());
  // A budget that holds the file, but not the copies beside a large work space.
  question.load.prefill_chunk = 16384;
  question.vram_bytes = int64_t{10} << 30;
  question.ram_bytes.reset();
  CHECK(plan_mixture(question, nullptr).exchanges);
  question.ram_bytes = static_cast<int64_t>(model.weight_bytes()) + 1;
  const MixturePlan tight = plan_mixture(question, nullptr);
  CHECK(tight.n_resident > 0);
  CHECK(tight.n_resident < tight.n_experts);
  CHECK_FALSE(tight.exchanges);
  CHECK(tight.copied_bytes() == 0);
  CHECK(tight.ram_bytes() <= static_cast<double>(*question.ram_bytes));
}

TEST_CASE("mixture plan: experts come before further contexts") {
  const PlannedModel model = model_of_shape(*find_shape("qwen3-30b-a3b"), DType::kQ4_0, "");
  PlanQuestion question = question_of(model, true);
  question.load = {.context_tokens = 1024,
                   .n_slots = 4,
                   .n_kv_contexts = kKvContextsDecided,
                   .prefill_chunk = 64,
                   .experts = true};
  question.vram_bytes = int64_t{15} << 30;
  const MixturePlan part = plan_mixture(question, nullptr);
  CHECK(part.n_resident < part.n_experts);
  CHECK(part.n_kv_contexts == 1);
  question.vram_bytes = int64_t{20} << 30;
  const MixturePlan whole = plan_mixture(question, nullptr);
  CHECK(whole.n_resident == whole.n_experts);
  CHECK(whole.n_kv_contexts == 4);
}

}  // namespace
}  // namespace hearth::test
