// Checks the input items of a response and converts them to the form in which they are stored and sent.
//
// Pure functions, called on the HTTP thread.
#pragma once

#include <optional>
#include <string>

#include "server/json/json.h"

namespace hearth {

/// Reads `input`, which is a text or an array of items. Throws RequestError, which names the faulty member
/// (for example input[2].content[0].type). Returns an array of items of the types below. Each item has the
/// client's `id`, if any:
///   message               role (user, assistant, system, developer); status; content: an array of
///                         input_text parts, or for the assistant of output_text and refusal parts
///   function_call         call_id, name, arguments (text), status
///   function_call_output  call_id; output: a text, or an array of parts with a text; status
///   custom_tool_call      call_id, name, input (text), status
///   custom_tool_call_output  like function_call_output
///   reasoning             summary and content, arrays of parts with a text
///   compaction            encrypted_content: from sealed_summary()
///   item_reference        id: that of a stored item
/// A call may have a `namespace`. Items of all other types stay as sent; Conversation decides whether they
/// are kept as text or ignored.
Json read_input_items(const Json& input);

/// Returns the tools in items of the type additional_tools, with which agents send tools in the input.
Json additional_tools(const Json& items);

/// Return the encrypted_content of a compaction item for a summary, and the summary in it: nullopt if another
/// server made it.
std::string sealed_summary(const std::string& summary);
std::optional<std::string> summary_of(const std::string& sealed);

/// Returns the texts of an array of parts, joined by newlines. Returns a plain text unchanged.
std::string text_of_parts(const Json& parts);

}  // namespace hearth
