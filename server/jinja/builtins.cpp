// Lookup over the families of built-ins.
#include "server/jinja/builtins.h"

namespace hearth::jinja {
namespace {

Native find_in(std::initializer_list<const NativeTable*> tables, std::string_view name) {
  for (const NativeTable* table : tables) {
    const auto at = table->find(name);
    if (at != table->end()) return at->second;
  }
  return nullptr;
}

}  // namespace

Native find_filter(std::string_view name) {
  return find_in({&text_filters(), &number_filters(), &sequence_filters(), &selection_filters()}, name);
}

Native find_test(std::string_view name) { return find_in({&tests()}, name); }

Native find_method(const Value& object, std::string_view name) {
  if (object.is_text()) return find_in({&text_methods(), &split_methods()}, name);
  if (object.dict()) return find_in({&dict_methods()}, name);
  if (object.loop()) return find_in({&loop_methods()}, name);
  const Sequence* s = object.sequence();
  return s && s->indexable() ? find_in({&list_methods()}, name) : nullptr;
}

}  // namespace hearth::jinja
