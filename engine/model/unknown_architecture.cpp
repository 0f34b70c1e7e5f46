// Known architectures that do not run, with the reason for each. See the header.
#include "engine/model/unknown_architecture.h"

#include <algorithm>
#include <array>
#include <span>

namespace hearth {
namespace {

constexpr auto kRecurrent =
    std::to_array<std::string_view>({"arwkv7", "bailingmoe3", "glm5-next", "jamba", "kimi-k3", "mamba",
                                     "plamo2", "plamo3", "rwkv6", "rwkv6qwen2", "rwkv7"});
constexpr auto kLightning = std::to_array<std::string_view>({"minimax-01"});
constexpr auto kStreams = std::to_array<std::string_view>({"deepseek4", "qwen4exp"});
constexpr auto kIndexed = std::to_array<std::string_view>({"minimax-m3"});
constexpr auto kEncoderDecoders = std::to_array<std::string_view>({"t5", "t5encoder"});
constexpr auto kSensors = std::to_array<std::string_view>({"clip", "wavtokenizer-dec"});
constexpr auto kAxes = std::to_array<std::string_view>({"qwen2vl", "paddleocr"});
constexpr auto kSlopes = std::to_array<std::string_view>({"bloom", "jais", "mpt", "refact"});
constexpr auto kOtherEncoders =
    std::to_array<std::string_view>({"llama-embed", "neo-bert", "nomic-bert-moe"});
constexpr auto kDiffusion = std::to_array<std::string_view>({"dream", "llada", "llada-moe", "rnd1"});
constexpr auto kLatent = std::to_array<std::string_view>({"minicpm3", "plm"});

constexpr auto kAssistants = std::to_array<std::string_view>({"gemma4-assistant"});

struct Reason {
  std::span<const std::string_view> names;
  std::string_view why;
};
constexpr auto kReasons = std::to_array<Reason>({
    {kRecurrent,
     "its recurrent layers are neither gated delta nets nor Mamba-2 nor short convolutions, or differ from "
     "those of other models"},
    {kLightning,
     "most of its layers are lightning attention, and its residual stream continues from the norms' outputs"},
    {kStreams, "its residual stream consists of several streams that layers mix"},
    {kIndexed, "its attention sees only blocks of positions that an indexer chooses"},
    {kEncoderDecoders, "it has an encoder and a decoder"},
    {kSensors, "it is for images or sound and not a language model; give the language model's own file"},
    {kAxes, "it encodes positions along several axes, for images and video"},
    {kSlopes, "it encodes positions by ALiBi"},
    {kOtherEncoders,
     "it is an encoder other than bert, nomic-bert, jina-bert-v2, jina-bert-v3, modern-bert, eurobert and "
     "gemma-embedding"},
    {kDiffusion, "it generates by diffusion instead of token by token"},
    {kAssistants, "it only drafts for a Gemma 4 model; give that model, and this file with --draft-model"},
    {kLatent, "its latent attention differs from deepseek2's"},
});

}  // namespace

std::string_view why_not_run(std::string_view architecture) {
  for (const Reason& reason : kReasons) {
    if (std::ranges::find(reason.names, architecture) != reason.names.end()) return reason.why;
  }
  return {};
}

}  // namespace hearth
