// See the header.
#include "server/api/responses/truncation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/api/chat_dialect.h"

namespace hearth {
namespace {

/// Returns the index of each message's turn. It is -1 for system messages, which belong to no turn.
std::vector<int> turns_of(const Json& messages) {
  std::vector<int> turns;
  int n_users = 0;
  for (const Json& message : messages) {
    if (message["role"] == "user") ++n_users;
    turns.push_back(message["role"] == "system" ? -1 : std::max(0, n_users - 1));
  }
  return turns;
}

Json without_turns(const Json& messages, const std::vector<int>& turns, int n_dropped) {
  Json kept = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (turns[i] < 0 || turns[i] >= n_dropped) kept.push_back(messages[i]);
  }
  return kept;
}

/// Returns a lower bound on the number of turns to drop. The bound is computed from bytes of text, so that a
/// conversation that is megabytes too long is not rendered in full.
int hopeless_turns(const Json& messages, const std::vector<int>& turns, size_t max_bytes) {
  size_t bytes = 0;
  for (size_t i = messages.size(); i-- > 0;) {
    const Json& content = messages[i]["content"];
    bytes += content.is_string() ? content.get_ref<const std::string&>().size() : 0;
    if (bytes > max_bytes && turns[i] >= 0) return turns[i] + 1;
  }
  return 0;
}

}  // namespace

void drop_oldest_turns(const ApiContext& api, ChatRequest& request) {
  const auto context = static_cast<size_t>(api.model().context_tokens);
  const size_t most_room = std::max<size_t>(1, context / 4);
  const size_t room =
      std::min<size_t>(most_room, static_cast<size_t>(request.max_tokens.value_or(INT64_MAX)));
  const size_t max_bytes = context * api.longest_token_bytes();
  const Json all = std::move(request.messages);
  const std::vector<int> turns = turns_of(all);
  const int last = std::max(0, *std::ranges::max_element(turns));
  const auto fits = [&](int n_dropped) {
    request.messages = without_turns(all, turns, n_dropped);
    const std::string rendered = api.dialect().render(request).prompt;
    return rendered.size() <= max_bytes &&
           api.tokenizer().encode(rendered, false, true).size() + room <= context;
  };
  // A prompt with fewer turns is shorter. Binary search therefore finds the smallest number of turns to drop.
  int least = std::min(last, hopeless_turns(all, turns, max_bytes)), most = last;
  while (least < most) {
    const int middle = least + (most - least) / 2;
    if (fits(middle)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  request.messages = without_turns(all, turns, least);
}

}  // namespace hearth
