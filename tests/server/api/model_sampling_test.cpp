// Recommended sampling parameters: from the file, from the family, and in place of absent parameters.
#include "server/api/model_sampling.h"

#include "server/api/ollama/ollama_fields.h"
#include "server/api/openai/completion_request.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

SamplingParams few_and_cold() {
  SamplingParams sampling;
  sampling.temperature = 0.25F;
  sampling.top_k = 5;
  sampling.top_p = 0.5F;
  return sampling;
}

TEST_CASE("a file's recommended sampling parameters count") {
  const auto sampling = model_sampling({{"general.sampling.temp", 0.3},
                                        {"general.sampling.top_k", 7},
                                        {"general.sampling.penalty_repeat", 1.05},
                                        {"general.basename", "Qwen3"}});
  REQUIRE(sampling);
  CHECK(sampling->temperature == 0.3F);
  CHECK(sampling->top_k == 7);
  CHECK(sampling->top_p == 1);
  CHECK(sampling->repetition_penalty == 1.05F);
}

TEST_CASE("values of a wrong type or out of range are ignored") {
  CHECK_FALSE(model_sampling({{"general.sampling.temp", "hot"},
                              {"general.sampling.top_p", 7},
                              {"general.sampling.top_k", -4},
                              {"general.sampling.min_p", nullptr},
                              {"general.basename", 3}}));
  CHECK_FALSE(model_sampling(Json::object()));
}

TEST_CASE("well-known families have their authors' parameters") {
  CHECK(model_sampling({{"general.basename", "smollm2"}})->temperature == 0.2F);
  CHECK(model_sampling({{"general.basename", "smollm2"}})->repetition_penalty == 1.1F);
  CHECK(model_sampling({{"general.basename", "Qwen3"}})->repetition_penalty == 1);
  CHECK(model_sampling({{"general.name", "Meta Llama 3.1 8B Instruct"}})->top_p == 0.9F);
  CHECK(model_sampling({{"general.basename", "Qwen3-Coder"}})->temperature == 0.7F);
  CHECK(model_sampling({{"general.basename", "Qwen3"}})->top_k == 20);
  CHECK(model_sampling({{"general.basename", "my model"}, {"general.name", "gemma-3-4b-it"}})->top_k == 64);
  CHECK_FALSE(model_sampling({{"general.basename", "TinyStories"}, {"general.name", "my qwen3"}}));
}

TEST_CASE("recommended parameters take the place of absent ones") {
  const SamplingParams recommended = few_and_cold();
  const RequestLimits limits{.n_vocab = 100, .sampling = &recommended};
  const SamplingParams absent =
      parse_completion_request(parse_json_body(R"({"min_p": 0.1, "top_p": null})"), limits)
          .generation.sampling;
  CHECK(absent.temperature == 0.25F);
  CHECK(absent.top_k == 5);
  CHECK(absent.top_p == 0.5F);
  CHECK(absent.min_p == 0.1F);
  const SamplingParams given =
      parse_completion_request(parse_json_body(R"({"temperature": 1, "top_k": 0, "top_p": 1})"), limits)
          .generation.sampling;
  CHECK(given.temperature == 1);
  CHECK(given.top_k == 0);
  CHECK(given.top_p == 1);
}

TEST_CASE("Ollama's defaults give way to recommended parameters") {
  const SamplingParams recommended = few_and_cold();
  const Json body = Json::object();
  const auto sampling = [&body](const RequestLimits& limits) {
    return read_ollama_fields(RequestFields(body), limits).generation.sampling;
  };
  CHECK(sampling({.n_vocab = 100, .sampling = &recommended}).temperature == 0.25F);
  CHECK(sampling({.n_vocab = 100, .sampling = &recommended}).repetition_penalty == 1.1F);
  CHECK(sampling({.n_vocab = 100}).temperature == 0.8F);
  CHECK(sampling({.n_vocab = 100}).top_k == 40);
}

}  // namespace
}  // namespace hearth
