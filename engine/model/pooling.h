// How a model turns the hidden states of a text's tokens into one vector, its embedding.
//
// A fact of the model file (ModelSpec), and a field of requests (engine/serving/request.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth {

enum class Pooling : uint8_t {
  kMean,   // the mean of all tokens
  kFirst,  // the first token (files call it "cls")
  kLast,   // the last token, the only one that sees the whole text if attention only looks back
};

constexpr std::string_view pooling_name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kFirst:
      return "first";
    case Pooling::kLast:
      break;
  }
  return "last";
}

}  // namespace hearth
