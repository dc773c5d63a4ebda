#include "deploy/yaml_value.h"

#include <set>

namespace mobula::internal::deploy {
namespace {

// Calls visit(name, value, key); `key` has the path of the value and the position of its name,
// because the value may be empty.
template <class Visit>
void for_each_key(const YamlValue& value, Visit&& visit) {
  if (value.node.IsNull() && value.empty_allowed) return;
  if (!value.node.IsMap()) value.wrong("is not a mapping of names to values");
  std::set<std::string> seen;
  for (const auto& each : value.node) {
    if (!each.first.IsScalar()) {
      YamlValue{each.first, value.path}.wrong("has a name that is not text");
    }
    const std::string name = each.first.Scalar();
    const YamlValue key{each.first, value.path.empty() ? name : value.path + "." + name};
    if (!seen.insert(name).second) key.wrong("is given twice");
    if (each.second.IsNull() && !value.empty_allowed) key.wrong("has no value");
    visit(name, YamlValue{each.second, key.path, value.empty_allowed}, key);
  }
}

}  // namespace

void YamlValue::wrong(const std::string& rule) const {
  throw YamlFault{node.Mark().line + 1, path.empty() ? rule : path + ": " + rule};
}

std::string YamlValue::text() const {
  if (!node.IsScalar()) wrong("is not a single value");
  return node.Scalar();
}

void for_each_member(const YamlValue& value,
                     const std::function<void(const std::string&, const YamlValue&)>& visit) {
  for_each_key(value, [&](const std::string& name, const YamlValue& member, const YamlValue&) {
    visit(name, member);
  });
}

void read_members(const YamlValue& value, const MemberReaders& readers) {
  for_each_key(value, [&](const std::string& name, const YamlValue& member, const YamlValue& key) {
    const auto reader = readers.find(name);
    if (reader == readers.end()) {
      std::string known;
      for (const auto& [each, unused] : readers) known += (known.empty() ? "" : ", ") + each;
      key.wrong("is unknown; give one of " + known);
    }
    reader->second(member);
  });
}

}  // namespace mobula::internal::deploy
