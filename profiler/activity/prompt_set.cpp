// See the header.
#include "profiler/activity/prompt_set.h"

#include <algorithm>
#include <utility>

namespace hearth {

std::vector<std::string> split_prompts(std::string_view file) {
  constexpr std::string_view kParting = "\n%%\n";
  std::vector<std::string> prompts;
  while (!file.empty()) {
    const size_t end = std::min(file.find(kParting), file.size());
    std::string_view prompt = file.substr(0, end);
    file.remove_prefix(std::min(end + kParting.size(), file.size()));
    while (prompt.ends_with('\n')) prompt.remove_suffix(1);
    if (!prompt.empty()) prompts.emplace_back(prompt);
  }
  return prompts;
}

std::vector<std::string> built_in_prompts() {
  std::vector<std::vector<std::string>> files;
  for (const std::string_view file : prompt_files()) files.push_back(split_prompts(file));
  std::vector<std::string> prompts;
  for (size_t turn = 0, n_left = files.size(); n_left > 0; ++turn) {
    n_left = 0;
    for (std::vector<std::string>& file : files) {
      if (turn >= file.size()) continue;
      prompts.push_back(std::move(file[turn]));
      ++n_left;
    }
  }
  return prompts;
}

std::vector<std::string> held_out_prompts() { return split_prompts(held_out_file()); }

}  // namespace hearth
