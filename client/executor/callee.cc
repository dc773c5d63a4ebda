#include "client/executor/callee.h"

#include <fmt/format.h>

#include <vector>

#include "client/api/untyped/call_signature.h"
#include "client/engine/conversion.h"

namespace mobula::internal::executor {

using detail::Entry;

std::vector<const Entry*> methods_of(const void* class_tag) {
  std::vector<const Entry*> methods;
  for (const Entry* each : detail::Registry::instance().entries()) {
    if (each->kind() == detail::EntryKind::method && each->class_tag() == class_tag)
      methods.push_back(each);
  }
  return methods;
}

std::string declarations_of(const std::vector<const Entry*>& methods) {
  std::string text;
  for (const Entry* each : methods) text += (text.empty() ? "" : ", ") + declaration_of(*each);
  return text.empty() ? "nothing; define a mobula::Service with its methods" : text;
}

namespace {

Callee failed_callee(detail::ErrorKind kind, std::string text) {
  return {nullptr, client::make_error(kind, std::move(text))};
}

}  // namespace

Callee callee_of(const CallForm& form, const void* class_tag) {
  auto& registry = detail::Registry::instance();
  const detail::FunctionKey key{client::raw(form.function.program.bits()), form.function.offset};
  if (const Entry* entry = registry.find(key)) return {entry, {}};
  if (form.kind != CallKind::actor_call || form.method.empty() || class_tag == nullptr) {
    return failed_callee(detail::ErrorKind::invalid_request,
                         "this program has no function " + form.name +
                             "; do driver and executors run the same build?");
  }
  const auto methods = methods_of(class_tag);
  std::string difference;
  for (const Entry* each : methods) {
    if (common_name(each->name()) != form.method) continue;
    difference = difference_of(form.types, types_of(*each));
    if (!difference.empty()) continue;
    registry.add_key(key, *each);
    return {each, {}};
  }
  if (!difference.empty()) {
    return failed_callee(detail::ErrorKind::invalid_request,
                         fmt::format("{}: {}; the caller's program is {}", form.method, difference,
                                     form.function.program.brief()));
  }
  return failed_callee(
      detail::ErrorKind::not_found,
      fmt::format("the program of this actor has no method {}; other programs can call: {}",
                  form.method, declarations_of(methods)));
}

}  // namespace mobula::internal::executor
