// What `mobula doctor` has found: a check by name, how it went, what was seen and what to type. Plain values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mobula::internal::cli::doctor {

enum class Verdict {
  ok,
  note,         // worth knowing
  mend,         // something is to be done here
  unreachable,  // likewise, and the cluster cannot be reached before
};

struct Finding {
  std::string name;
  Verdict verdict = Verdict::ok;
  std::string seen;
  std::string fix{};  // a command, or a sentence that ends in one; empty where there is nothing to do
};
using Findings = std::vector<Finding>;

inline Finding ok(std::string name, std::string seen) { return {std::move(name), Verdict::ok, std::move(seen)}; }
inline Finding note(std::string name, std::string seen, std::string fix = {}) {
  return {std::move(name), Verdict::note, std::move(seen), std::move(fix)};
}
inline Finding mend(std::string name, std::string seen, std::string fix) {
  return {std::move(name), Verdict::mend, std::move(seen), std::move(fix)};
}

// "ok", "note", "mend".
const char* text_of(Verdict verdict);
// {"name", "result", "text", "fix"}; and back, for findings of another process.
nlohmann::ordered_json to_json(const Finding& finding);
Finding finding_of(const nlohmann::ordered_json& json);

}  // namespace mobula::internal::cli::doctor
