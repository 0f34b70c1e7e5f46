// A model's tokenizer on standard input and output, so that Python's tokenizers can be compared with it.
//
// usage: tokenize_tool MODEL.gguf
// Each line of input is a request, and gets one line as answer. Bytes are hexadecimal ("-" for none), flags 0
// or 1:
//   encode ADD_SPECIAL PARSE_SPECIAL BYTES   -> ids with spaces between
//   decode WITH_SPECIAL ID...                -> bytes
//   stream WITH_SPECIAL ID...                -> the bytes that each token, and then the end, completes
//   ends                                     -> the ids that end a generation
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/tokenizer/tokenizer.h"

namespace {

std::string to_hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return hex.empty() ? "-" : hex;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  if (hex == "-") return bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string join(const std::vector<int32_t>& ids) {
  std::string line;
  for (const int32_t id : ids) line.append(line.empty() ? "" : " ").append(std::to_string(id));
  return line;
}

std::vector<int32_t> read_ids(std::istream& in, const hearth::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; in >> id;) {
    if (id < 0 || id >= tokenizer.n_vocab()) throw std::out_of_range("no token " + std::to_string(id));
    ids.push_back(id);
  }
  return ids;
}

std::string stream(const hearth::Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool with_special) {
  hearth::Detokenizer detokenizer(tokenizer, true, with_special);
  std::string line;
  for (const int32_t id : ids) line += to_hex(detokenizer.push(id)) + " ";
  return line + to_hex(detokenizer.finish());
}

std::string answer(const hearth::Tokenizer& tokenizer, const std::string& question) {
  std::istringstream in(question);
  std::string verb;
  bool first = false;
  in >> verb;
  if (verb == "ends") return join(tokenizer.end_tokens());
  in >> first;
  if (verb == "encode") {
    bool parse_special = false;
    std::string hex;
    in >> parse_special >> hex;
    return join(tokenizer.encode(from_hex(hex), first, parse_special));
  }
  if (verb == "decode") return to_hex(tokenizer.decode(read_ids(in, tokenizer), first));
  if (verb == "stream") return stream(tokenizer, read_ids(in, tokenizer), first);
  throw std::invalid_argument("unknown question '" + verb + "'");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize_tool MODEL.gguf\n";
    return 2;
  }
  try {
    const hearth::ModelFile file = hearth::ModelFile::open(argv[1]);
    const auto tokenizer = hearth::Tokenizer::from_model(file);
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(*tokenizer, line) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
