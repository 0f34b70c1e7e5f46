// Methods that turn the hidden states of a text's tokens into one vector, the text's embedding.
//
// The model file specifies the default (ModelSpec), and a request may choose another
// (engine/serving/request.h).
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth {

enum class Pooling : uint8_t {
  kMean,   // the mean of all tokens
  kFirst,  // the first token (files call it "cls")
  kLast,   // the last token; if attention only looks back, no other token sees the whole text
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
