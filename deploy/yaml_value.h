// Values of a YAML file with their paths, for readers that report the line of a fault.
// Thread: any (values).
// Errors: a fault is thrown as YamlFault, which the reader of a file catches in its own source.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <string>

namespace mobula::internal::deploy {

struct YamlFault {
  int line = 0;      // from 1; 0: unknown
  std::string text;  // "PATH: rule"
};

// A value with its path, such as "head.num_cpus".
struct YamlValue {
  YAML::Node node;
  std::string path;
  // An empty value is a mapping without members; otherwise it is a fault.
  bool empty_allowed = false;

  [[noreturn]] void wrong(const std::string& rule) const;
  std::string text() const;
};

// Calls visit(name, value) for each member of a mapping. Duplicate names are a fault.
void for_each_member(const YamlValue& value,
                     const std::function<void(const std::string&, const YamlValue&)>& visit);

// Readers of the known members, by name.
using MemberReaders = std::map<std::string, std::function<void(const YamlValue&)>>;
// Calls the reader of each member. Unknown members are a fault, which lists the known ones.
void read_members(const YamlValue& value, const MemberReaders& readers);

}  // namespace mobula::internal::deploy
