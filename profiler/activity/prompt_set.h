// The prompts that are built into the program: what activity is counted on where nobody gives a text.
//
// They are profiler/activity/prompts/*.txt, of the kinds of text that models are given: chat, prose, code, lists,
// tables, several languages. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// The files as they are, in the order of their names.
std::span<const std::string_view> prompt_files();

/// The file of prompts on which nothing is counted, so that what was counted can be judged on them.
std::string_view held_out_file();

/// Texts parted by lines of "%%", without the line break before those and at the end; empty ones are left
/// out.
std::vector<std::string> split_prompts(std::string_view file);

/// All prompts, in turn one of each file, so that the first few are a fair sample already.
std::vector<std::string> built_in_prompts();
/// Those of the held-out file.
std::vector<std::string> held_out_prompts();

}  // namespace hearth
