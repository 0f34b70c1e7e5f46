// See the header.
#include "server/check_config.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/assistant_weights.h"
#include "engine/model/model_spec.h"
#include "server/chat/chat_template.h"
#include "server/gate/key_file.h"
#include "server/gate/trusted_proxies.h"
#include "server/http/connection/listen_socket.h"
#include "server/http/connection/tls_identity.h"
#include "server/model_pool.h"
#include "server/models/folder_models.h"
#include "server/process/start_error.h"
#include "server/serving_model.h"

namespace hearth {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

std::string model_line(const std::string& what, const ModelFile& file, const std::string& ffn_activation,
                       const std::vector<std::string>& names) {
  const ModelSpec spec = read_model_spec(file, ffn_activation);
  return what + ": " + joined(names) + " (" + std::string(spec.arch.name) + ", " +
         std::to_string(spec.n_layers) + " layers, " + std::to_string(file.total_bytes() / 1'000'000) +
         " MB, trained for " + std::to_string(spec.context_train) + " tokens)\n";
}

/// Only parses the template. Rendering needs the tokenizer, which is not loaded.
std::string template_line(const Options& options, const ModelFile& file) {
  if (!options.chat_template_file.empty()) {
    try {
      ChatTemplate::parse(read_template_file(options.chat_template_file), "", "");
    } catch (const TemplateError& error) {
      throw StartError(options.chat_template_file + ": " + error.what());
    }
    return "chat template: " + options.chat_template_file + "\n";
  }
  const std::optional<std::string_view> source = file.find_string("tokenizer.chat_template");
  if (!source) return "chat template: none, so chat is refused; --chat-template-file gives the model one\n";
  try {
    ChatTemplate::parse(*source, "", "");
  } catch (const TemplateError& error) {
    return std::string("chat template: the model's cannot be used, so chat is refused: ") + error.what() +
           "\n";
  }
  return "chat template: the model's\n";
}

std::string key_lines(const Options& options) {
  const std::vector<ApiKey> keys = read_all_keys(options.api_key_file, options.api_key);
  if (keys.empty()) {
    return is_loopback(options.host)
               ? "API keys: none; clients on this machine need none\n"
               : "API keys: none; anyone who can reach " + options.host + " may use this server\n";
  }
  std::string lines = "API keys: " + std::to_string(keys.size()) + "\n";
  if (!options.api_key_file.empty() && is_readable_by_all(options.api_key_file))
    lines +=
        "warning: every user of this machine may read " + options.api_key_file + "; run chmod 600 on it\n";
  for (const ApiKey& key : keys) {
    std::vector<std::string> roles;
    for (const Role role : {Role::kUse, Role::kMetrics, Role::kAdmin}) {
      if (key.has(role)) roles.emplace_back(role_name(role));
    }
    lines += "  " + key.name + ": " + joined(roles) + "\n";
  }
  return lines;
}

std::string tls_lines(const Options& options) {
  const std::unique_ptr<TlsIdentity> tls =
      open_tls({.certificate = options.tls_cert, .key = options.tls_key});
  if (tls == nullptr) return "";
  const TlsFacts facts = tls->facts();
  std::string lines = "TLS: " + describe(facts) + "\n";
  if (is_readable_by_all(options.tls_key))
    lines += "warning: every user of this machine may read " + options.tls_key + "; run chmod 600 on it\n";
  const std::string warning = date_warning(facts, options.tls_cert);
  return warning.empty() ? lines : lines + "warning: " + warning + "\n";
}

/// Describes the only model, and those that belong to it.
std::string model_lines(const Options& options) {
  const ModelFiles files = open_checked(options);
  check_expert_trace(options, files);
  std::string text = model_line("model", *files.model, options.ffn_activation, model_names(options));
  if (files.embedding)
    text += model_line("embedding model", *files.embedding, {}, embedding_model_names(options));
  if (files.draft && is_assistant(*files.draft)) {
    text += "draft model: " + options.draft_model + " (an assistant of the model)\n";
  } else if (files.draft) {
    text += model_line("draft model", *files.draft, {}, {options.draft_model});
  }
  if (read_model_spec(*files.model, options.ffn_activation).arch.has_output)
    text += template_line(options, *files.model);
  return text;
}

/// Describes several models. A file of the folder that cannot be served is no error.
std::string several_lines(Options options) {
  check_options_of_several(options);
  std::vector<std::string> paths = std::exchange(options.more_models, {});
  if (!options.model.empty()) paths.insert(paths.begin(), options.model);
  std::string text;
  for (const std::string& path : paths) {
    options.model = path;
    const ModelFiles files = open_checked(options);
    text += model_line("model", *files.model, options.ffn_activation, model_names(options));
    options.alias.clear();
  }
  if (options.models_folder.empty()) return text;
  const FolderScan scan = scan_models_folder(options.models_folder);
  for (const FolderModel& model : scan.models)
    text += "model: " + model.name + (model.facts ? "\n" : " (the file cannot be read as a model)\n");
  for (const std::string& sentence : scan.left_out) text += "warning: " + sentence + "\n";
  return text;
}

}  // namespace

std::string check_config(const Invocation& invocation) {
  const Options& options = invocation.options;
  std::string text = "address: " + local_url(options.host, options.port, !options.tls_cert.empty()) + "\n" +
                     tls_lines(options);
  text += names_several(options) ? several_lines(options) : model_lines(options);
  text += key_lines(options);
  const TrustedProxies checked(options.trusted_proxy);
  for (const std::string& warning : invocation.warnings) text += "warning: " + warning + "\n";
  return text + "the configuration is good\n";
}

}  // namespace hearth
