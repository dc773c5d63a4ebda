#include "client/console/program_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text/edit_distance.h"
#include "client/console/type_text.h"

namespace mobula::internal::runtime::console {
namespace {

using detail::Entry;
using detail::EntryKind;

// The part after the last "::" outside angle brackets and parentheses.
std::string last_part(const std::string& name) {
  int depth = 0;
  for (std::size_t at = name.size(); at-- > 0;) {
    if (name[at] == '>' || name[at] == ')') ++depth;
    if (name[at] == '<' || name[at] == '(') --depth;
    if (depth == 0 && at > 0 && name[at] == ':' && name[at - 1] == ':') return name.substr(at + 1);
  }
  return name;
}

// A suggestion such as ", did you mean 'add'?", or a hint at the list of names.
std::string nearest(const std::string& wanted, const std::vector<std::string>& names) {
  if (names.empty()) return "; the program names none";
  const auto best = std::ranges::min_element(
      names, {}, [&](const std::string& name) { return edit_distance(wanted, last_part(name)); });
  if (edit_distance(wanted, last_part(*best)) * 2 <= wanted.size() + 1)
    return fmt::format("; did you mean '{}'?", *best);
  return "; \\d lists what there is";
}

Callable callable_of(const Entry& entry) {
  Callable call;
  call.entry = &entry;
  call.name =
      std::string(entry.kind() == EntryKind::constructor ? entry.class_name() : entry.name());
  if (entry.kind() == EntryKind::method) call.name = last_part(call.name);
  entry.description()->add_parameters(call.parameters);
  if (entry.description()->result != nullptr) call.result = &entry.description()->result();
  return call;
}

Json parameters_json(const Callable& call) {
  Json json = Json::array();
  for (const auto* parameter : call.parameters) json.push_back(type_text(*parameter));
  return json;
}

Json callable_json(const Callable& call) {
  Json json = {{"name", call.name}, {"parameters", parameters_json(call)}};
  if (call.result != nullptr) json["result"] = type_text(*call.result);
  std::string note;
  for (const auto* parameter : call.parameters) {
    if (note.empty()) note = why_no_json(*parameter);
  }
  if (!note.empty()) json["note"] = note;
  return json;
}

bool is_named(const Callable& call, const std::string& name) {
  return call.name == name || last_part(call.name) == name;
}

Result<const Callable*> only(const std::vector<const Callable*>& found, const char* what,
                             const std::string& name, const std::vector<std::string>& names) {
  if (found.empty()) {
    return failure(ErrorCode::not_found,
                   fmt::format("the program has no {} '{}'{}", what, name, nearest(name, names)));
  }
  if (found.size() == 1) return found.front();
  std::string all;
  for (const auto* each : found) all += (all.empty() ? "" : ", ") + each->name;
  return failure(ErrorCode::invalid_argument,
                 fmt::format("'{}' may be any of {}; write the whole name", name, all));
}

}  // namespace

ProgramTable::ProgramTable() {
  for (const Entry* entry : detail::Registry::instance().entries()) {
    if (entry->description() == nullptr ||
        (entry->kind() != EntryKind::constructor && entry->description()->result == nullptr)) {
      continue;
    }
    // internal functions of the library
    if (entry->name().starts_with("mobula::detail::")) continue;
    auto& into = entry->kind() == EntryKind::task     ? functions_
                 : entry->kind() == EntryKind::method ? methods_
                                                      : constructors_;
    into.push_back(callable_of(*entry));
  }
  for (auto* calls : {&functions_, &constructors_, &methods_}) {
    std::ranges::sort(*calls, [](const Callable& a, const Callable& b) {
      return std::pair(a.name, a.parameters.size()) < std::pair(b.name, b.parameters.size());
    });
  }
}

Json ProgramTable::document() const {
  Json functions = Json::array();
  for (const auto& each : functions_) functions.push_back(callable_json(each));
  std::map<std::string, Json> actors;
  const auto row = [&actors](const std::string& name) -> Json& {
    Json& json = actors[name];
    if (json.is_null())
      json = {{"name", name}, {"constructors", Json::array()}, {"methods", Json::array()}};
    return json;
  };
  for (const auto& each : constructors_)
    row(each.name)["constructors"].push_back(parameters_json(each));
  for (const auto& each : methods_)
    row(std::string(each.entry->class_name()))["methods"].push_back(callable_json(each));
  Json classes = Json::array();
  for (auto& [name, json] : actors) classes.push_back(std::move(json));
  return {{"functions", std::move(functions)}, {"actors", std::move(classes)}};
}

Result<const Callable*> ProgramTable::function(const std::string& name) const {
  std::vector<const Callable*> found;
  std::vector<std::string> names;
  for (const auto& each : functions_) {
    names.push_back(each.name);
    if (each.name == name) return &each;
    if (is_named(each, name)) found.push_back(&each);
  }
  return only(found, "function", name, names);
}

Result<const Callable*> ProgramTable::constructor(const std::string& class_name,
                                                  std::size_t arguments) const {
  std::vector<const Callable*> found;
  std::vector<std::string> names;
  std::string counts;
  for (const auto& each : constructors_) {
    names.push_back(each.name);
    if (!is_named(each, class_name)) continue;
    if (each.parameters.size() == arguments) {
      found.push_back(&each);
    } else {
      counts += (counts.empty() ? "" : " or ") + std::to_string(each.parameters.size());
    }
  }
  if (found.empty() && !counts.empty()) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("{} is made with {} argument{}, and {} are given; \\d shows their types",
                    class_name, counts, counts == "1" ? "" : "s", arguments));
  }
  return only(found, "class of actors", class_name, names);
}

Result<const Callable*> ProgramTable::method(const Callable& constructor,
                                             const std::string& name) const {
  std::vector<const Callable*> found;
  std::vector<std::string> names;
  for (const auto& each : methods_) {
    if (each.entry->class_tag() != constructor.entry->class_tag()) continue;
    names.push_back(each.name);
    if (is_named(each, name)) found.push_back(&each);
  }
  return only(found, "method", name, names);
}

}  // namespace mobula::internal::runtime::console
