#include "base/model/jobs/start_identity.h"

#include <span>
#include <string>

#include "base/hash.h"

namespace mobula::internal {

ProgramId start_identity(ProgramId program, const Environment& env) {
  if (env.empty()) return program;
  std::string text;
  for (const auto& [name, value] : env) {
    text += std::to_string(name.size()) + ":" + name + std::to_string(value.size()) + ":" + value;
  }
  return ProgramId(siphash128(program.bits(), std::as_bytes(std::span(text))));
}

}  // namespace mobula::internal
