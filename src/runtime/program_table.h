// The functions and classes that this program names, as a console sees them: found by what people write of
// their names, described in words. Reads the registry; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "mobula/detail/registry.h"
#include "runtime/json_values.h"

namespace mobula::internal::runtime::console {

struct Callable {
  const detail::Entry* entry = nullptr;
  std::string name;  // of a method without its class
  std::vector<const detail::TypeDescription*> parameters;
  const detail::TypeDescription* result = nullptr;  // of a constructor: null
};

class ProgramTable {
 public:
  ProgramTable();

  // {"functions": [{"name", "parameters": [text], "result", "note"?}], "actors": [{"name", "constructors",
  // "methods"}]}, in the order of the names.
  Json document() const;

  // By the whole name or what follows its last "::". not_found says which name is nearest; invalid_argument
  // where several are meant.
  Result<const Callable*> function(const std::string& name) const;
  // The constructor with so many parameters.
  Result<const Callable*> constructor(const std::string& class_name, std::size_t arguments) const;
  // Of the class that the constructor makes.
  Result<const Callable*> method(const Callable& constructor, const std::string& name) const;

 private:
  std::vector<Callable> functions_;
  std::vector<Callable> constructors_;
  std::vector<Callable> methods_;
};

}  // namespace mobula::internal::runtime::console
