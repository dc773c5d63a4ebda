#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::note: return "note";
    case Verdict::fix:
    case Verdict::unreachable: break;
  }
  return "fix";
}

nlohmann::ordered_json to_json(const Finding& finding) {
  nlohmann::ordered_json json = {
      {"name", finding.name}, {"result", text_of(finding.verdict)}, {"text", finding.seen}};
  if (!finding.fix.empty()) json["fix"] = finding.fix;
  return json;
}

Finding finding_of(const nlohmann::ordered_json& json) {
  const std::string result = json.value("result", std::string());
  const Verdict verdict = result == "ok"     ? Verdict::ok
                          : result == "note" ? Verdict::note
                                             : Verdict::fix;
  return {json.value("name", std::string()), verdict, json.value("text", std::string()),
          json.value("fix", std::string())};
}

}  // namespace mobula::internal::cli::doctor
