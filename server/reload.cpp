// See the header.
#include "server/reload.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiler/store/reference.h"
#include "server/models/local_model.h"
#include "server/process/logging.h"

namespace hearth {
namespace {

/// Reads the options and arguments again, as a start would read them. If a start would fail, logs the error
/// and returns nullopt.
std::optional<Invocation> read_again(const Invocation& started, const Environment& environment) try {
  Invocation now = read_invocation(started.arguments, environment);
  use_local_models(now.options, environment);
  return now;
} catch (const ReferenceError& error) {
  log_error(std::string("SIGHUP: ") + error.what() + "; every option keeps its value");
  return std::nullopt;
} catch (const ConfigError& error) {
  log_error(std::string("SIGHUP: ") + error.what() + "; every option keeps its value");
  return std::nullopt;
}

void take_log_level(const Invocation& started, const Invocation& now) {
  set_log_level(now.options.log_level);
  std::string others;
  for (size_t i = 0; i < now.settings.size(); ++i) {
    const Setting& setting = now.settings[i];
    if (setting.value == started.settings[i].value || setting.name == "log-level" ||
        setting.name == "model") {
      continue;
    }
    others += (others.empty() ? "" : ", ") + setting.name;
  }
  if (!others.empty())
    log_warning("SIGHUP: changed options other than log-level and model take effect at the next start",
                {{"options", others}});
}

void take_keys(const Options& options, const Auth& auth) try {
  if (options.api_key_file.empty()) return;
  std::vector<ApiKey> keys = read_all_keys(options.api_key_file, options.api_key);
  const size_t n_keys = keys.size();
  auth.replace(std::move(keys));
  log_info("SIGHUP: the API keys were read again", {{"keys", n_keys}});
} catch (const KeyFileError& error) {
  log_error(std::string("SIGHUP: ") + error.what() + "; the previous keys stay in effect");
}

void take_certificate(TlsIdentity* tls) try {
  if (tls == nullptr) return;
  tls->read_again();
  const TlsFacts facts = tls->facts();
  log_info("SIGHUP: the TLS certificate was read again: " + describe(facts));
  const std::string warning = date_warning(facts, tls->files().certificate);
  if (!warning.empty()) log_warning("SIGHUP: " + warning);
} catch (const TlsError& error) {
  log_error(std::string("SIGHUP: ") + error.what() + "; the previous certificate stays in effect");
}

}  // namespace

std::optional<Options> reload(const Invocation& started, const Environment& environment, const Auth& auth,
                              TlsIdentity* tls) {
  if (const std::optional<std::string> why = reopen_log()) log_error("SIGHUP: " + *why);
  const std::optional<Invocation> now = read_again(started, environment);
  if (now) take_log_level(started, *now);
  take_keys(started.options, auth);
  take_certificate(tls);
  log_info("SIGHUP: reloaded");
  return now ? std::optional(now->options) : std::nullopt;
}

}  // namespace hearth
