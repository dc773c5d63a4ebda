// The registered functions and classes of this program, for a console: lookup by name, and
// descriptions.
// Thread: any; reads the registry.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/console/json_values.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::runtime::console {

struct Callable {
  const detail::Entry* entry = nullptr;
  std::string name;  // for a method: without its class
  std::vector<const detail::TypeDescription*> parameters;
  const detail::TypeDescription* result = nullptr;  // null for a constructor
};

class ProgramTable {
 public:
  ProgramTable();

  // {"functions": [{"name", "parameters": [text], "result", "note"?}], "actors": [{"name",
  // "constructors", "methods"}]}, sorted by name.
  Json document() const;

  // Finds by the full name, or by the part after its last "::".
  // Errors: not_found with the nearest name, invalid_argument if the name is ambiguous.
  Result<const Callable*> function(const std::string& name) const;
  // The constructor with `arguments` parameters.
  Result<const Callable*> constructor(const std::string& class_name, std::size_t arguments) const;
  // A method of the class that the constructor makes.
  Result<const Callable*> method(const Callable& constructor, const std::string& name) const;

 private:
  std::vector<Callable> functions_;
  std::vector<Callable> constructors_;
  std::vector<Callable> methods_;
};

}  // namespace mobula::internal::runtime::console
