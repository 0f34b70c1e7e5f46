// Texts with a gap, and truncated prompts: which tokens reach the engine.
#include "server/api/request/fill_in_middle_prompt.h"

#include "server/api/llamacpp/native_completions.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;
using Tokens = std::vector<int32_t>;

constexpr int32_t kPre = 260, kSuf = 261, kMid = 262, kRepo = 263, kFile = 264;
constexpr FimTokens kFim{.prefix = kPre, .suffix = kSuf, .middle = kMid, .repo = kRepo, .file = kFile};

/// A bench whose model can fill in middles.
struct FimBench : ApiBench {
  explicit FimBench(const FimTokens& fim = kFim, bool adds_bos = false)
      : ApiBench({"<PRE>", "<SUF>", "<MID>", "<REPO>", "<FILE>"}, adds_bos) {
    vocabulary.set_fim(fim);
  }
  Answered infill(const std::string& body) { return call(hearth::infill, body); }
  const SequenceRequest& last() const { return engine.requests.back().sequences.at(0); }
};

json bad_request_of(const HttpResponse& response) {
  CHECK(response.status == 400);
  return error_of(response);
}

TEST_CASE("a completion with a suffix gets prefix, suffix and middle, and fill-in tokens end its text") {
  FimBench bench(kFim, true);
  CHECK(bench.completions(R"({"prompt": "ab", "suffix": "cd", "stop_token_ids": [65]})").status == 200);
  CHECK(bench.last().prompt == Tokens{ApiVocabulary::kBos, kPre, 'a', 'b', kSuf, 'c', 'd', kMid});
  CHECK(bench.last().end_tokens == Tokens{ApiVocabulary::kEos, 65, kPre, kSuf, kMid, kRepo, kFile});
  bench.completions(R"({"prompt": "ab", "suffix": "cd", "ignore_eos": true})");
  CHECK(bench.last().end_tokens.empty());
}

TEST_CASE("an empty suffix counts as none") {
  FimBench bench;
  bench.completions(R"({"prompt": "ab", "suffix": ""})");
  CHECK(bench.last().prompt == Tokens{'a', 'b'});
}

TEST_CASE("a model that wants the suffix first gets it first") {
  FimBench bench({.prefix = kPre, .suffix = kSuf, .suffix_first = true});
  bench.completions(R"({"prompt": "ab", "suffix": "cd"})");
  CHECK(bench.last().prompt == Tokens{kSuf, 'c', 'd', kPre, 'a', 'b'});
}

TEST_CASE("control tokens written out in the texts around a gap stay text") {
  FimBench bench;
  bench.completions(R"({"prompt": "<s>", "suffix": "x"})");
  CHECK(bench.last().prompt == Tokens{kPre, '<', 's', '>', kSuf, 'x', kMid});
}

TEST_CASE("a gap that cannot be filled in is refused with the reason") {
  ApiBench plain;
  CHECK(bad_request_of(plain.completions(R"({"prompt": "a", "suffix": "b"})"))["param"] == "suffix");
  FimBench bench;
  CHECK(bad_request_of(bench.completions(R"({"prompt": [97], "suffix": "b"})"))["param"] == "suffix");
  CHECK(bad_request_of(bench.completions(R"({"prompt": "a", "suffix": "b", "echo": true})"))["param"] ==
        "echo");
  CHECK(bad_request_of(
            bench.completions(R"({"prompt": "a", "suffix": "b", "truncate_prompt_tokens": 2})"))["param"] ==
        "truncate_prompt_tokens");
  CHECK(bad_request_of(bench.infill(R"({"input_prefix": "a", "truncate_prompt_tokens": 2})"))["param"] ==
        "truncate_prompt_tokens");
  const std::string file = R"({"input_prefix": "a", "input_extra": [{"filename": "f", "text": "t"}]})";
  FimBench no_files({.prefix = kPre, .suffix = kSuf, .middle = kMid});
  CHECK(bad_request_of(no_files.infill(file))["param"] == "input_extra");
  CHECK(bad_request_of(bench.infill(R"({"input_extra": ["text"]})"))["param"] == "input_extra[0]");
  CHECK(bad_request_of(plain.completions(R"({"prompt": "a", "suffix": ")" + std::string(5000, 'b') +
                                         "\"}"))["param"] == "suffix");
}

TEST_CASE("/infill takes a begun middle, other files, and either order") {
  FimBench bench;
  CHECK(bench.infill(R"({"input_prefix": "a", "prompt": "b", "input_suffix": "c", "n_predict": 3})").status ==
        200);
  CHECK(bench.last().prompt == Tokens{kPre, 'a', 'b', kSuf, 'c', kMid});
  CHECK(bench.last().max_tokens == 3);
  bench.infill(R"({"input_prefix": "a", "prompt": "b", "input_suffix": "c", "spm_infill": true})");
  CHECK(bench.last().prompt == Tokens{kSuf, 'c', kPre, 'a', 'b', kMid});

  bench.infill(R"({"input_prefix": "a", "input_extra": [{"filename": "f", "text": "t"}]})");
  const Tokens& prompt = bench.last().prompt;
  const std::string project = "project\n", head = "f\nt", here = "file\n";
  Tokens expected = {kRepo};
  expected.insert(expected.end(), project.begin(), project.end());
  expected.push_back(kFile);
  expected.insert(expected.end(), head.begin(), head.end());
  expected.push_back(kFile);
  expected.insert(expected.end(), here.begin(), here.end());
  for (const int32_t token : {kPre, int32_t{'a'}, kSuf, kMid}) expected.push_back(token);
  CHECK(prompt == expected);
}

TEST_CASE("truncate_prompt_tokens keeps the last tokens of a prompt, and what is echoed") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kLength); };
  const json cut = whole_body(bench.completions(
      R"({"prompt": "abcdef", "truncate_prompt_tokens": 2, "echo": true, "max_tokens": 0})"));
  CHECK(bench.engine.requests.back().sequences.at(0).prompt == Tokens{'e', 'f'});
  CHECK(cut["choices"][0]["text"] == "ef");
  CHECK(cut["usage"]["prompt_tokens"] == 2);
  bench.completions(R"({"prompt": "ab", "truncate_prompt_tokens": 5})");
  CHECK(bench.engine.requests.back().sequences.at(0).prompt == Tokens{'a', 'b'});
  CHECK(bad_request_of(bench.completions(R"({"truncate_prompt_tokens": 0})"))["param"] ==
        "truncate_prompt_tokens");
  CHECK(bad_request_of(bench.completions(R"({"truncate_prompt_tokens": -2})"))["param"] ==
        "truncate_prompt_tokens");
}

TEST_CASE("truncate_prompt_tokens -1 keeps what leaves room for the answer, however long the prompt is") {
  ApiBench bench;
  const std::string text(100'000, 'a');
  CHECK(bench.completions(R"({"truncate_prompt_tokens": -1, "max_tokens": 10, "prompt": ")" + text + "\"}")
            .status == 200);
  CHECK(bench.engine.requests.back().sequences.at(0).prompt.size() == 54);
  CHECK(bench
            .chat(R"({"truncate_prompt_tokens": -1, "messages": [{"role": "user", "content": ")" + text +
                  "\"}]}")
            .status == 200);
  CHECK(bench.engine.requests.back().sequences.at(0).prompt.size() == 48);
  CHECK(bench.engine.requests.back().sequences.at(0).max_tokens == 16);
}

}  // namespace
}  // namespace hearth
