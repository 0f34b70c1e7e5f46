// Fuzzes the template interpreter: renders any bytes as a template, with a fixed conversation and small
// limits. Only TemplateError may be thrown.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "server/jinja/template.h"
#include "tests/support/frozen_clock.h"

namespace {

using Json = nlohmann::ordered_json;

const Json& context() {
  static const Json json = Json::parse(R"({
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true,
    "messages": [
      {"role": "system", "content": "Be kind. \u00e9\u65e5\ud83d\ude42"},
      {"role": "user", "content": [{"type": "text", "text": "parts"}]},
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "abcde1234", "type": "function", "function": {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]},
      {"role": "tool", "content": "{}"},
      {"role": "user", "content": " spaces \n"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object",
      "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}}}]
  })");
  return json;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The limits are small, because the fuzzer looks for crashes rather than for merely slow templates.
  hearth::jinja::Limits limits;
  limits.max_steps = 200'000;
  limits.max_bytes = std::size_t{8} << 20;
  try {
    const hearth::jinja::Template parsed(std::string_view(reinterpret_cast<const char*>(data), size));
    hearth::jinja::Variables variables;
    for (auto at = context().begin(); at != context().end(); ++at)
      variables.emplace_back(at.key(), &at.value());
    parsed.render(variables, limits, hearth::tests::frozen_clock);
  } catch (const hearth::jinja::TemplateError&) {
    return 0;
  }
  return 0;
}
