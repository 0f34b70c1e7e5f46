// Argument matching for built-ins.
#include "server/jinja/callable.h"

#include <algorithm>

#include "server/jinja/error.h"
#include "server/jinja/operators.h"

namespace hearth::jinja {

const Value* Args::find(std::string_view name) const {
  for (const auto& [given, value] : named) {
    if (given == name) return &value;
  }
  return nullptr;
}

Params::Params(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
               std::size_t n_required)
    : function_(function), names_(names), found_(names.size(), nullptr) {
  const std::string who(function);
  if (args.positional.size() > names_.size()) {
    throw Failure(who + " takes at most " + std::to_string(names_.size()) + " arguments, " +
                  std::to_string(args.positional.size()) + " were given");
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) found_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) throw Failure(who + " has no parameter '" + std::string(name) + "'");
    const std::size_t i = static_cast<std::size_t>(at - names_.begin());
    if (found_[i]) throw Failure(who + " got two values for '" + std::string(name) + "'");
    found_[i] = &value;
  }
  for (std::size_t i = 0; i < n_required; ++i) {
    if (!found_[i]) throw Failure(who + " needs the argument '" + std::string(names_[i]) + "'");
  }
}

const std::string& Params::text(std::size_t i, const std::string& otherwise) const {
  if (!found_[i]) return otherwise;
  if (!found_[i]->is_text()) {
    throw Failure(std::string(function_) + ": '" + std::string(names_[i]) + "' must be a string, it is " +
                  found_[i]->type_name());
  }
  return found_[i]->text();
}

std::int64_t Params::integer(std::size_t i, std::int64_t otherwise) const {
  if (!found_[i]) return otherwise;
  if (!found_[i]->is_integral()) {
    throw Failure(std::string(function_) + ": '" + std::string(names_[i]) + "' must be an integer, it is " +
                  found_[i]->type_name());
  }
  return found_[i]->integral();
}

bool Params::flag(std::size_t i, bool otherwise) const { return found_[i] ? truthy(*found_[i]) : otherwise; }

}  // namespace hearth::jinja
