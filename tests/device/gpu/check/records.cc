#include "device/gpu/check/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>

namespace mobula::internal::gpu_check {
namespace {

const Json* record_of(const std::vector<Json>& records, const std::string& key) {
  const auto at =
      std::ranges::find_if(records, [&](const Json& each) { return each.contains(key); });
  return at == records.end() ? nullptr : &*at;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.dump();
}

// Text for one line of a table.
std::string cell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  constexpr std::size_t most = 200;
  if (text.size() > most) text = text.substr(0, most) + " …";
  return text;
}

std::string fact(const std::vector<Json>& records, const std::string& what) {
  for (const Json& each : records) {
    if (each.value("stage", "") == "facts" && each.value("what", "") == what)
      return text_of(each["value"]);
  }
  return "unknown";
}

// The verdict of a stage in one run; null if the run has none.
const Json* verdict_of(const std::vector<Json>& records, std::string_view stage) {
  const auto at = std::ranges::find_if(records, [&](const Json& each) {
    return each.value("stage", "") == stage && each.contains("status");
  });
  return at == records.end() ? nullptr : &*at;
}

void add_stage(std::string& page, const std::vector<Json>& records, const Stage& stage) {
  const Json* const verdict = verdict_of(records, stage.name);
  std::string state = "not run", reason;
  if (verdict != nullptr) {
    reason = cell(verdict->value("reason", ""));
    state = verdict->at("status").get<std::string>();
    if (state != "skipped")
      state += fmt::format(", {:.1f} s of {}", verdict->value("seconds", 0.0), stage.limit_s);
  }
  page += fmt::format("\n## {}\n\n{}: **{}**{}.\n", stage.name, stage.shows, state,
                      reason.empty() ? "" : " (" + reason + ")");
  std::string rows;
  for (const Json& each : records) {
    if (each.value("stage", "") != stage.name) continue;
    if (each.contains("cannot"))
      rows += fmt::format("| not tried | {} |\n", cell(text_of(each["cannot"])));
    if (!each.contains("what") || each["what"] == "probe") continue;
    std::string seen;
    if (each.contains("holds")) {
      seen = std::string(each["holds"].get<bool>() ? "holds" : "**does not hold**") +
             (each.contains("seen") ? ": " + each["seen"].get<std::string>() : "");
    } else {
      seen = text_of(each["value"]) +
             (each.contains("unit") ? " " + each["unit"].get<std::string>() : "");
    }
    rows += fmt::format("| {} | {} |\n", cell(each["what"].get<std::string>()), cell(seen));
  }
  if (!rows.empty()) page += "\n| finding | result |\n| --- | --- |\n" + rows;
}

constexpr const char* beyond_one_gpu =
    "\nOne GPU cannot show NVLink copies between devices, the bandwidth of NCCL between GPUs, "
    "InfiniBand, GPUDirect, fabric handles, or MIG.\n";

Json about(const std::vector<Json>& records) {
  const Json* const run = record_of(records, "run");
  return run == nullptr ? Json::object() : run->at("run");
}

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

struct Answer {
  std::string call;  // with its special conditions and repetition number
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
    // Facts that belong to a machine, such as its name and sizes, are expected to differ. The kind
    // of a descriptor differs, too: the simulation uses files, which stay open on exec.
    for (const char* const fact :
         {"bytes came", "the same bytes", "attributes", "reaches itself"}) {
      if (line.value("fact", "") == fact)
        answers.push_back({fmt::format("{} ({})", fact, ++times[fact]), line["value"].dump()});
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
  const Json run = about(records);
  const bool simulated = run.value("simulated", false);
  std::string page = fmt::format(
      "# {}, {}\n\nThe record of one run of [deploy/gpu-check](../../deploy/gpu-check/README.md). ",
      or_unknown(run.value("device", "")), or_unknown(run.value("date", "")).substr(0, 10));
  if (simulated)
    page +=
        "**These are simulated devices**: the figures show that the run works, and nothing else. ";
  page += fmt::format("Run of {}{}.\n\n| | |\n| --- | --- |\n", or_unknown(run.value("date", "")),
                      run.value("brief", false) ? ", in its short form" : "");
  const std::vector<std::pair<const char*, std::string>> rows{
      {"device", run.value("device", "")},           {"driver", run.value("driver", "")},
      {"CUDA driver", fact(records, "cuda driver")}, {"NCCL", fact(records, "nccl")},
      {"kernel", fact(records, "kernel")},           {"commit", run.value("commit", "")}};
  for (const auto& [name, text] : rows)
    page += fmt::format("| {} | {} |\n", name, or_unknown(text));
  for (const Stage& stage : stages()) add_stage(page, records, stage);
  return page + beyond_one_gpu;
}

std::vector<RunRecord> read_runs(const std::string& directory) {
  std::vector<RunRecord> runs;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->path().extension() != ".jsonl") continue;
    if (auto records = read_records(at->path()))
      runs.push_back({at->path().stem(), std::move(*records)});
  }
  std::ranges::sort(runs, {}, &RunRecord::name);
  return runs;
}

std::string index_of(const std::vector<RunRecord>& runs) {
  std::string page =
      "# On a GPU\n\nResults of the runs of [deploy/gpu-check](../../deploy/gpu-check/README.md), "
      "one page and one record per device and date.\n";
  if (runs.empty()) {
    page +=
        "\n**No run has taken place yet**: nothing of Mobula that uses CUDA or NCCL has been "
        "measured on hardware.\n"
        "In the tests this code runs on simulated libraries, which are no evidence about CUDA.\n";
  } else {
    page +=
        "\n| run | device | driver | commit | passed | failed | skipped |\n| --- | --- | --- | --- "
        "| --- | --- | --- |\n";
    for (const RunRecord& each : runs) {
      const Json run = about(each.records);
      std::map<std::string, int> counts;
      for (const Stage& stage : stages()) {
        const Json* const verdict = verdict_of(each.records, stage.name);
        if (verdict != nullptr) ++counts[verdict->at("status")];
      }
      page += fmt::format("| [{}]({}.md) | {} | {} | {} | {} | {} | {} |\n",
                          or_unknown(run.value("date", "")), each.name,
                          or_unknown(run.value("device", "")), or_unknown(run.value("driver", "")),
                          or_unknown(run.value("commit", "")).substr(0, 12), counts["passed"],
                          counts["failed"], counts["skipped"]);
    }
  }
  page += "\n| stage | shows | passed in |\n| --- | --- | --- |\n";
  for (const Stage& stage : stages()) {
    std::string passed;
    for (const RunRecord& each : runs) {
      const Json* const verdict = verdict_of(each.records, stage.name);
      if (verdict != nullptr && verdict->at("status") == "passed")
        passed += fmt::format("{}[{}]({}.md)", passed.empty() ? "" : ", ", each.name, each.name);
    }
    page += fmt::format("| {} | {} | {} |\n", stage.name, stage.shows,
                        passed.empty() ? "not measured" : passed);
  }
  return page + beyond_one_gpu;
}

std::string result_name(const std::string& device, const std::string& date) {
  std::string name;
  for (const char each : device.empty() ? std::string("no-gpu") : device) {
    const auto byte = static_cast<unsigned char>(each);
    const bool plain = std::isalnum(byte) != 0 || each == '.';
    if (plain) name += static_cast<char>(std::tolower(byte));
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name + "-" + date;
}

bool write_page(const std::string& path, const std::string& page) {
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << page;
    file.flush();
    if (!file) return false;
  }
  std::error_code failed;
  std::filesystem::rename(temporary, path, failed);
  return !failed;
}

std::vector<std::string> differences(const std::vector<Json>& first,
                                     const std::vector<Json>& second) {
  const auto ours = answers_of(first), theirs = answers_of(second);
  std::map<std::string, std::string> there;
  for (const auto& each : theirs) there.emplace(each.call, each.status);
  std::vector<std::string> lines;
  for (const auto& each : ours) {
    const auto at = there.find(each.call);
    if (at == there.end()) {
      lines.push_back(fmt::format("{}: {} and not called", each.call, each.status));
    } else if (at->second != each.status) {
      lines.push_back(fmt::format("{}: {} and {}", each.call, each.status, at->second));
    }
    if (at != there.end()) there.erase(at);
  }
  for (const auto& each : theirs) {
    if (there.contains(each.call))
      lines.push_back(fmt::format("{}: not called and {}", each.call, each.status));
  }
  return lines;
}

}  // namespace mobula::internal::gpu_check
