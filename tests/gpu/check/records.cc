#include "gpu/check/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace mobula::internal::gpu_check {
namespace {

const Json* record_of(const std::vector<Json>& records, const std::string& key) {
  const auto at = std::ranges::find_if(records, [&](const Json& each) { return each.contains(key); });
  return at == records.end() ? nullptr : &*at;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.dump();
}

// What has to be on one line of a table.
std::string cell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  constexpr std::size_t most = 200;
  if (text.size() > most) text = text.substr(0, most) + " …";
  return text;
}

std::string fact(const std::vector<Json>& records, const std::string& what) {
  for (const Json& each : records) {
    if (each.value("stage", "") == "facts" && each.value("what", "") == what) return text_of(each["value"]);
  }
  return "not known";
}

void add_stage(std::string& page, const std::vector<Json>& records, const Stage& stage) {
  std::string state = "not measured";
  std::string why = stage.run == nullptr ? "needs " + std::string(stage.missing) : "";
  for (const Json& each : records) {
    if (each.value("stage", "") != stage.name || !each.contains("status")) continue;
    state = fmt::format("{}, {:.1f} s of {}", each["status"].get<std::string>(), each.value("seconds", 0.0), stage.limit_s);
    why = each.value("reason", "");
    if (each["status"] == "not built" || each["status"] == "skipped") state = "not measured";
  }
  page += fmt::format("\n## {}\n\n{}: **{}**{}.\n", stage.name, stage.shows, state, why.empty() ? "" : " (" + why + ")");
  std::string rows;
  for (const Json& each : records) {
    if (each.value("stage", "") != stage.name || !each.contains("what") || each["what"] == "probe") continue;
    std::string seen;
    if (each.contains("holds")) {
      seen = std::string(each["holds"].get<bool>() ? "holds" : "**does not hold**") + (each.contains("seen") ? ": " + each["seen"].get<std::string>() : "");
    } else {
      seen = text_of(each["value"]) + (each.contains("unit") ? " " + each["unit"].get<std::string>() : "");
    }
    rows += fmt::format("| {} | {} |\n", cell(each["what"].get<std::string>()), cell(seen));
  }
  if (!rows.empty()) page += "\n| what | seen |\n| --- | --- |\n" + rows;
}

struct Answer {
  std::string call;  // and what is special about it, and for which time
  std::string status;
};

std::vector<Answer> answers_of(const std::vector<Json>& records) {
  std::vector<Answer> answers;
  std::map<std::string, int> times;
  for (const Json& each : records) {
    if (each.value("what", "") != "probe") continue;
    const Json& line = each["value"];
    if (line.contains("call")) {
      const std::string what = line.value("what", "");
      const std::string call = line["call"].get<std::string>() + (what.empty() ? "" : ", " + what);
      answers.push_back({fmt::format("{} ({})", call, ++times[call]), line["status"].dump()});
    }
    // Facts that belong to a machine, such as its name and sizes, differ for good reason.
    for (const char* const fact : {"bytes came", "closed on exec", "kind of descriptor", "the same bytes", "attributes", "reaches itself"}) {
      if (line.value("fact", "") == fact) answers.push_back({fmt::format("{} ({})", fact, ++times[fact]), line["value"].dump()});
    }
  }
  return answers;
}

}  // namespace

Result<std::vector<Json>> read_records(const std::string& path) {
  std::ifstream file(path);
  if (!file) return failure(ErrorCode::not_found, "cannot read " + path);
  std::vector<Json> records;
  for (std::string line; std::getline(file, line);) {
    auto json = Json::parse(line, nullptr, false);
    if (json.is_object()) records.push_back(std::move(json));
  }
  return records;
}

std::string page_of(const std::vector<Json>& records) {
  std::string page = "# On a GPU\n\nWhat the run of [deploy/gpu-check](../deploy/gpu-check/README.md) has found, as it wrote it down. ";
  const Json* run = record_of(records, "run");
  if (run == nullptr) {
    page += "**There was no run yet**: nothing on this page, and nothing of Mobula that uses CUDA or NCCL, has been measured on hardware.\n"
            "All of it runs on simulated libraries in the tests, which are no evidence about CUDA.\n";
  } else {
    const Json& about = (*run)["run"];
    const bool simulated = about.value("simulated", false);
    page += fmt::format("{}Run of {}{}.\n\n| | |\n| --- | --- |\n| device | {} |\n| driver | {} |\n| CUDA driver | {} |\n| NCCL | {} |\n| kernel | {} |\n",
                        simulated ? "**These are simulated devices**: the figures show that the run works, and nothing else. " : "",
                        about.value("date", "an unknown day"), about.value("brief", false) ? ", in its short form" : "", fact(records, "device"),
                        fact(records, "driver"), fact(records, "cuda driver"), fact(records, "nccl"), fact(records, "kernel"));
  }
  for (const Stage& stage : stages()) add_stage(page, records, stage);
  page += "\nNot to be tested with one GPU, and so not measured: NVLink copies between devices, NCCL's bandwidth between GPUs, InfiniBand, GPUDirect, fabric\n"
          "handles, MIG.\n";
  return page;
}

std::vector<std::string> differences(const std::vector<Json>& first, const std::vector<Json>& second) {
  const auto ours = answers_of(first), theirs = answers_of(second);
  std::map<std::string, std::string> there;
  for (const auto& each : theirs) there.emplace(each.call, each.status);
  std::vector<std::string> lines;
  for (const auto& each : ours) {
    const auto at = there.find(each.call);
    if (at == there.end()) {
      lines.push_back(fmt::format("{}: {} and not asked", each.call, each.status));
    } else if (at->second != each.status) {
      lines.push_back(fmt::format("{}: {} and {}", each.call, each.status, at->second));
    }
    if (at != there.end()) there.erase(at);
  }
  for (const auto& each : theirs) {
    if (there.contains(each.call)) lines.push_back(fmt::format("{}: not asked and {}", each.call, each.status));
  }
  return lines;
}

}  // namespace mobula::internal::gpu_check
