// See the header.
#include "server/api/api_context.h"

#include <algorithm>
#include <random>
#include <utility>

#include "server/api/chat_dialect.h"
#include "server/api/constraint_compiler.h"
#include "server/api/request/generation_fields.h"
#include "server/api/request/prompt_tokens.h"
#include "server/api/responses/background.h"
#include "server/api/responses/response_store.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

ApiError unknown_model(const ServedModel& model, std::string_view name) {
  std::vector<std::string> names = model.names;
  if (model.embedder) names.insert(names.end(), model.embedder->names.begin(), model.embedder->names.end());
  return no_such_model(names, name);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ApiError no_such_model(const std::vector<std::string>& names, std::string_view asked) {
  std::string served;
  for (const std::string& known : names) {
    served += served.empty() ? "'" : ", '";
    served += known;
    served += "'";
  }
  constexpr size_t kShownBytes = 100;  // enough to recognize the name
  std::string message = "The request names no model; this server has ";
  if (!asked.empty()) {
    message = "The model '";
    message.append(asked.substr(0, kShownBytes)).append(asked.size() > kShownBytes ? "..." : "");
    message += "' does not exist here; this server has ";
  }
  message.append(served).append(".");
  return {.status = 404, .message = std::move(message), .param = "model", .code = "model_not_found"};
}

ApiWorld ApiWorld::real() {
  return {
      .unix_seconds =
          [] {
            const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
            return static_cast<int64_t>(
                std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count());
          },
      .now = [] { return std::chrono::steady_clock::now(); },
      .random_bits =
          [] {
            // The system seeds each thread's generator, because ids must not repeat in another thread or
            // after a restart.
            thread_local std::mt19937_64 generator{[] {
              std::random_device device;
              return (static_cast<uint64_t>(device()) << 32) | device();
            }()};
            return generator();
          },
  };
}

ApiContext::ApiContext(ServedModel model, ApiWorld world)
    : model_(std::move(model)),
      world_(std::move(world)),
      dialect_(std::make_unique<const ChatDialect>(model_.chat_template, *model_.tokenizer,
                                                   model_.reasoning_budget)),
      constraints_(
          std::make_unique<const ConstraintCompiler>(*model_.tokenizer, dialect_->syntax().control_tokens)),
      responses_(std::make_unique<ResponseStore>(world_.now)),
      background_(std::make_unique<BackgroundAnswers>()) {
  model_.longest_token_bytes = hearth::longest_token_bytes(*model_.tokenizer);
  if (model_.embedder) {
    model_.embedder->longest_token_bytes = hearth::longest_token_bytes(*model_.embedder->tokenizer);
  }
}

ApiContext::~ApiContext() = default;

RequestLimits ApiContext::limits() const {
  return {.n_vocab = model_.tokenizer->n_vocab(),
          .tokenizer = model_.tokenizer,
          .sampling = model_.sampling ? &*model_.sampling : nullptr};
}

std::string ApiContext::model_name(const Json& body, std::string_view path_model) const {
  const std::string named = read_model_name(RequestFields(body));
  return served_name(named.empty() ? std::string(path_model) : named);
}

std::string ApiContext::served_name(const std::string& asked) const {
  if (asked.empty()) return model_.names.front();
  if (contains(model_.names, asked)) return asked;
  if (model_.embedder && contains(model_.embedder->names, asked)) {
    refuse_param("model",
                 "The model '" + asked +
                     (model_.embedder->ranks()
                          ? "' ranks texts and does nothing else; send it to /v1/rerank, and "
                          : "' embeds texts and does nothing else; send it to /v1/embeddings, and ") +
                     "this request to '" + model_.names.front() + "'.");
  }
  if (!model_.any_name) throw RequestError(unknown_model(model_, asked));
  return asked;
}

std::pair<const EmbeddingTarget*, std::string> ApiContext::embedding_target(
    const Json& body, std::string_view path_model) const {
  return target_of(body, path_model, /*ranks=*/false);
}

std::pair<const EmbeddingTarget*, std::string> ApiContext::rank_target(const Json& body,
                                                                       std::string_view path_model) const {
  return target_of(body, path_model, /*ranks=*/true);
}

std::pair<const EmbeddingTarget*, std::string> ApiContext::target_of(const Json& body,
                                                                     std::string_view path_model,
                                                                     bool ranks) const {
  std::string asked = read_model_name(RequestFields(body));
  if (asked.empty()) asked = path_model;
  const bool takes_embedder =
      model_.embedder && (model_.embedder->ranks() == ranks || model_.ranks() != ranks);
  const EmbeddingTarget* preferred = takes_embedder ? &*model_.embedder : &model_;
  if (asked.empty()) return {preferred, preferred->names.front()};
  if (contains(preferred->names, asked)) return {preferred, asked};
  for (const EmbeddingTarget* target : targets())
    if (contains(target->names, asked)) return {target, asked};
  if (!model_.any_name) throw RequestError(unknown_model(model_, asked));
  return {preferred, asked};
}

std::vector<const EmbeddingTarget*> ApiContext::targets() const {
  std::vector<const EmbeddingTarget*> all = {&model_};
  if (model_.embedder) all.push_back(&*model_.embedder);
  return all;
}

std::string ApiContext::new_id(std::string_view prefix) const {
  constexpr char kHex[] = "0123456789abcdef";
  std::string id(prefix);
  for (int word = 0; word < 2; ++word) {
    for (uint64_t bits = world_.random_bits(), digit = 0; digit < 16; ++digit, bits >>= 4)
      id += kHex[bits & 15];
  }
  return id;
}

}  // namespace hearth
