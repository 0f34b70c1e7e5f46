// See the header.
#include "server/api/responses/compaction.h"

#include <algorithm>
#include <utility>

#include "server/api/request/thinking_switch.h"
#include "server/api/responses/input_items.h"
#include "server/api/responses/response_object.h"

namespace hearth {
namespace {

constexpr const char* kSummaryWish =
    "Write a summary of our conversation for an assistant that will continue it without seeing it. Say what "
    "was asked for and why, what has been done and found out so far (names of files, commands, results, "
    "decisions), what is still open, and what should be done next. Write only the summary.";

/// A summary is worth its tokens only if it is much shorter than the context.
constexpr int kMostSummaryTokens = 4096;

}  // namespace

void ask_for_summary(ChatRequest& chat, int context_tokens) {
  Json& last = chat.messages.back();
  if (last["role"] == "user" && last["content"].is_string()) {
    last["content"].get_ref<std::string&>().append("\n\n").append(kSummaryWish);
  } else {
    chat.messages.push_back({{"role", "user"}, {"content", kSummaryWish}});
  }
  chat.choice = {};
  chat.generation.format = {};
  chat.generation.stream = false;
  chat.logprobs = false;
  set_thinking(chat.template_arguments, false);
  chat.thinking_budget = 0;
  if (!chat.max_tokens) chat.max_tokens = std::clamp(context_tokens / 4, 1, kMostSummaryTokens);
}

std::string CompactionShape::whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) {
  Json output = std::move(users_);
  output.push_back(
      {{"id", api_.new_id("cmp_")},
       {"type", "compaction"},
       {"encrypted_content", sealed_summary(joined(choices.front().said, SaidItem::Kind::kText))}});
  return json_text({{"id", api_.new_id("resp_")},
                    {"object", "response.compaction"},
                    {"created_at", api_.world().unix_seconds()},
                    {"output", std::move(output)},
                    {"usage", response_usage(totals.usage)}});
}

}  // namespace hearth
