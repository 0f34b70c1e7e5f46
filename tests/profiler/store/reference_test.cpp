// Names of models: what each form means, and what is refused.
#include "profiler/store/reference.h"

#include "profiler/store/known_models.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

HubReference hub(std::string_view text) { return std::get<HubReference>(parse_model_reference(text)); }

std::string reference_refusal(std::string_view text) {
  try {
    parse_model_reference(text);
  } catch (const ReferenceError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("references: hf: names a repository, and a revision, a quantization or a file of it") {
  CHECK(hub("hf:a/b").id() == "a/b");
  CHECK(hub("hf:a/b:q4_k_m").quant == "q4_k_m");
  CHECK(hub("hf:a/b:sub/x-Q4_K_M.gguf").file == "sub/x-Q4_K_M.gguf");
  CHECK(hub("hf:a/b:X.GGUF").file == "X.GGUF");
  const HubReference all = hub("hf:TheOrg/Model-1.5_x@refs/pr/3:Q8_0");
  CHECK(all.id() == "TheOrg/Model-1.5_x");
  CHECK(all.revision == "refs/pr/3");
  CHECK(all.quant == "Q8_0");
}

TEST_CASE("references: pages of the hub that are copied from a browser are hub references") {
  CHECK(hub("https://huggingface.co/a/b").id() == "a/b");
  CHECK(hub("https://hf.co/a/b/tree/main").revision.empty());
  const HubReference file = hub("https://huggingface.co/a/b/resolve/main/x%20y-Q4_0.gguf?download=true");
  CHECK(file.file == "x y-Q4_0.gguf");
  CHECK(hub("https://huggingface.co/a/b/blob/v2/x.gguf").revision == "v2");
  CHECK(hub("hf.co/a/b:Q4_K_M").quant == "Q4_K_M");
  CHECK(hub("huggingface.co/a/b").id() == "a/b");
  CHECK(std::holds_alternative<PathReference>(parse_model_reference("models/hf.co/a/b.gguf")));
}

TEST_CASE("references: URLs keep their query and get a folder named after their host") {
  const auto url = std::get<UrlReference>(parse_model_reference("http://127.0.0.1:8000/m/x.gguf?key=1#part"));
  CHECK(url.url == "http://127.0.0.1:8000/m/x.gguf?key=1");
  CHECK(url.host == "127.0.0.1_8000");
  CHECK(url.file_name == "x.gguf");
}

TEST_CASE("references: plain words are names, the rest are paths") {
  CHECK(std::get<NameReference>(parse_model_reference("smollm3-3b")).name == "smollm3-3b");
  for (const std::string_view path : {"model.gguf", "./x", "a/b", "/models/x.gguf", "..", "", "x y"})
    CHECK(std::holds_alternative<PathReference>(parse_model_reference(path)));
}

TEST_CASE("references: known models have Ollama's names too") {
  CHECK(std::get<NameReference>(parse_model_reference("llama3.2:1b")).name == "llama3.2:1b");
  CHECK(std::holds_alternative<PathReference>(parse_model_reference("./llama3.2:1b")));
  CHECK(std::holds_alternative<PathReference>(parse_model_reference("a:b:c")));
  CHECK(std::holds_alternative<PathReference>(parse_model_reference("a:b.gguf")));
  for (const KnownModel& model : known_models()) CHECK(find_known_model(model.name) == &model);
  CHECK(find_known_model("llama3.2:1b") == find_known_model("llama-3.2-1b"));
  CHECK(find_known_model("Gemma3:4B") == find_known_model("gemma-3-4b"));
  CHECK(find_known_model("gemma") == nullptr);
  CHECK(find_known_model(":") == nullptr);
  CHECK(similar_models("gemma", {}) == "; did you mean gemma-3-4b, gemma-4-e4b or gemma-4-26b-a4b?");
  CHECK(similar_models("llama3.2", {}) == "; did you mean llama-3.2-1b?");
  CHECK(similar_models("gemma-3-4b-it", {}) == "; did you mean gemma-3-4b?");
  CHECK(similar_models("my-mode", {"my-model"}) == "; did you mean my-model?");
  CHECK(similar_models("something else", {}).empty());
  CHECK(similar_models("", {}).empty());
}

TEST_CASE("known models: the recommended one fits, and grows with the memory") {
  constexpr uint64_t kGb = 1'000'000'000;
  CHECK(recommended_model(2 * kGb) == nullptr);
  double before = 0;
  for (const uint64_t gb : {4, 8, 16, 24, 32, 64, 512}) {
    const KnownModel* const model = recommended_model(gb * kGb);
    REQUIRE(model);
    INFO(gb << " GB: " << model->name);
    CHECK(model->gigabytes < static_cast<double>(gb));
    CHECK(model->gigabytes >= before);
    before = model->gigabytes;
  }
  for (const KnownModel& model : known_models()) CHECK(model.read_gigabytes <= model.gigabytes);
}

TEST_CASE("known models: only users of a demonstration model get a suggestion") {
  constexpr uint64_t kGb = 1'000'000'000;
  CHECK(suggested_model(96'000'000, 8 * kGb) == recommended_model(8 * kGb)->name);
  CHECK(suggested_model(96'000'000, 2 * kGb).empty());
  CHECK(suggested_model(810'000'000, 8 * kGb).empty());
}

TEST_CASE("references: no reference leads out of the store's folder") {
  for (const std::string_view bad : {"hf:",
                                     "hf:a",
                                     "hf:/b",
                                     "hf:a/",
                                     "hf:../b",
                                     "hf:a/..",
                                     "hf:.a/b",
                                     "hf:a/b/c",
                                     "hf:a/b:../x.gguf",
                                     "hf:a/b:/x.gguf",
                                     "hf:a/b:x/../y.gguf",
                                     "hf:a/b:.x.gguf",
                                     "hf:a/b:x\n.gguf",
                                     "hf:a/b@../..",
                                     "hf:a/b@",
                                     "hf:a/b:",
                                     "hf:a b/c",
                                     "https://example.org/x.txt",
                                     "https://example.org/",
                                     "https:///x.gguf",
                                     "https://user:pw@example.org/x.gguf",
                                     "https://example.org/%2e%2e%2fx.gguf",
                                     "https://example.org/..gguf",
                                     "https://huggingface.co/a",
                                     "https://example.org/x y.gguf"}) {
    INFO(bad);
    CHECK(reference_refusal(bad) != "");
    CHECK(reference_refusal(bad).find('\n') == std::string::npos);
  }
  CHECK_THAT(reference_refusal("https://user:secret@example.org/x.gguf"), !ContainsSubstring("secret"));
}

TEST_CASE("references: parts of URLs are encoded") {
  CHECK(url_encoded("a b/ä?#%.gguf", true) == "a%20b/%C3%A4%3F%23%25.gguf");
  CHECK(url_encoded("refs/pr/1", false) == "refs%2Fpr%2F1");
}

TEST_CASE("references: paths from the hub are safe for a terminal and a file system") {
  const auto folder_and_file = [](size_t n_folder, size_t n_file) {
    std::string path(n_folder, 'a');
    path.push_back('/');
    path.append(n_file, 'b');
    return path;
  };
  CHECK(is_safe_path("a/b c-\xc3\xbc.gguf"));
  CHECK(is_safe_path(folder_and_file(200, 200)));
  CHECK_FALSE(is_safe_path(folder_and_file(201, 1)));  // .NAME.origin and NAME.state.new would be too long
  CHECK_FALSE(is_safe_path(folder_and_file(1, 201)));
  CHECK_FALSE(
      is_safe_path("a\xc2\x9b"
                   "2J.gguf"));  // CSI as one character, which a terminal obeys
  CHECK_FALSE(is_safe_path("a\xff.gguf"));
  CHECK_FALSE(is_safe_path("a\x1b[2J.gguf"));
}
