// A result of `mobula doctor`: the check, its verdict, the observation, and the fix.
// Thread: owner (plain values).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mobula::internal::cli::doctor {

enum class Verdict {
  ok,
  note,         // information
  fix,          // must be fixed
  unreachable,  // must be fixed, and the cluster is unreachable until then
};

struct Finding {
  std::string name;
  Verdict verdict = Verdict::ok;
  std::string seen;
  std::string fix{};  // command, or sentence that ends with a command; empty if none is known
};
using Findings = std::vector<Finding>;

inline Finding ok(std::string name, std::string seen) {
  return {std::move(name), Verdict::ok, std::move(seen)};
}
inline Finding note(std::string name, std::string seen, std::string fix = {}) {
  return {std::move(name), Verdict::note, std::move(seen), std::move(fix)};
}
inline Finding must_fix(std::string name, std::string seen, std::string fix) {
  return {std::move(name), Verdict::fix, std::move(seen), std::move(fix)};
}

// Returns "ok", "note", or "fix".
const char* text_of(Verdict verdict);
// Converts to and from {"name", "result", "text", "fix"}, for findings of another process.
nlohmann::ordered_json to_json(const Finding& finding);
Finding finding_of(const nlohmann::ordered_json& json);

}  // namespace mobula::internal::cli::doctor
