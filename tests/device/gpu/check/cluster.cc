#include "device/gpu/check/cluster.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>

namespace mobula::internal::gpu_check {

namespace fs = std::filesystem;

std::string tail_of(const std::string& text) {
  constexpr std::size_t most = 300;
  return text.size() > most ? text.substr(text.size() - most) : text;
}

Cluster::Cluster(Findings& findings)
    : findings_(findings), programs_(fs::read_symlink("/proc/self/exe").parent_path()) {
  char pattern[] = "/tmp/gpu-check-c-XXXXXX";
  if (::mkdtemp(pattern) != nullptr) directory_ = pattern;
  fs::create_directories(directory_ + "/run");
}

Cluster::~Cluster() {
  if (started_) (void)run("mobula", {"stop", "--grace", "2"}, 5s);
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

bool Cluster::start(const Words& flags) {
  Words words{"start",
              "--head",
              "--num-cpus",
              "8",
              "--gpu-watch-period",
              findings_.brief() ? "100" : "500"};
  words.insert(words.end(), flags.begin(), flags.end());
  const Time begin = monotonic_now();
  const CommandEnd end = mobula(words);
  started_ = true;
  std::ifstream file(directory_ + "/state/default/head/head.json");
  const auto head = Json::parse(file, nullptr, false);
  address_ = head.is_object() ? head.value("address", "") : "";
  std::string what = "mobula start --head";
  for (const auto& each : flags) what += " " + each;
  findings_.holds(what + " succeeds", end.code == 0 && !address_.empty(), tail_of(end.out));
  if (flags.empty())
    findings_.value("time of mobula start --head",
                    std::chrono::duration<double>(monotonic_now() - begin).count(), "s");
  return end.code == 0 && !address_.empty();
}

Json Cluster::json_of(Words words) {
  words.insert(words.end(), {"-o", "json"});
  return Json::parse(mobula(std::move(words)).out, nullptr, false);
}

void Cluster::scenario(const std::string& name,
                       const std::function<void(const std::string&)>& on_finding) {
  if (limit() < 3s) return findings_.cannot(name + ": no time");
  Words words{name};
  if (findings_.brief()) words.emplace_back("brief");
  int found = 0;
  const CommandEnd end =
      run("gpu_check_driver", std::move(words), limit(), [&](const std::string& line) {
        const auto json = Json::parse(line, nullptr, false);
        if (!json.is_object() || !json.contains("what")) return;
        ++found;
        if (json.contains("holds"))
          findings_.holds(json["what"], json["holds"].get<bool>(), json.value("seen", ""));
        if (json.contains("value"))
          findings_.value(json["what"], json["value"], json.value("unit", ""));
        if (on_finding) on_finding(json["what"]);
      });
  const bool ran = found > 0 && (end.code == 0 || end.code == 1);
  if (!ran)
    findings_.holds(name + " ran to its end", false,
                    fmt::format("exit code {}: {}", end.code, tail_of(end.out)));
}

void Cluster::example(const std::string& name, bool own) {
  if (limit() < 3s) return findings_.cannot(name + ": no time");
  auto variables = environment();
  if (own) {
    variables["MOBULA_ADDRESS"] = "";
    // A node that finds real devices offers no logical ones.
    variables["CUDA_VISIBLE_DEVICES"] = "";
    variables["MOBULA_NVML_LIBRARY"] = variables["MOBULA_CUDA_LIBRARY"] = "libno-gpu.so";
  }
  const CommandEnd end = run_command({(programs_ / name).string()}, variables, limit());
  // An example that finds too few GPUs prints "skipped" and exits with 0 or 77: it counts as not
  // tried.
  const bool tried =
      end.code != Findings::skipped && end.out.find("skipped, ") == std::string::npos;
  if (!tried) return findings_.cannot(name + ": " + tail_of(end.out));
  findings_.holds(name + (own ? " on its own logical devices" : " on the device"), end.code == 0,
                  end.code == 0 ? "" : fmt::format("exit code {}: {}", end.code, tail_of(end.out)));
}

std::map<std::string, std::string> Cluster::environment() const {
  std::map<std::string, std::string> all{{"MOBULA_STATE_DIR", directory_ + "/state"},
                                         {"XDG_RUNTIME_DIR", directory_ + "/run"},
                                         {"MOBULA_ADDRESS", address_},
                                         {"MOBULA_TOKEN", ""},
                                         {"MOBULA_TOKEN_FILE", ""},
                                         {"MOBULA_KEY_FILE", ""},
                                         {"MOBULA_CLUSTER", ""}};
  all.insert(variables_.begin(), variables_.end());
  return all;
}

// One command that hangs leaves time for the others and for the end of the cluster.
Duration Cluster::limit() const {
  return std::clamp(findings_.left() - 7s, Duration(1s), Duration(40s));
}

CommandEnd Cluster::run(const std::string& program, Words words, Duration limit,
                        const std::function<void(const std::string&)>& on_line) {
  words.insert(words.begin(), (programs_ / program).string());
  return run_command(words, environment(), limit, on_line);
}

}  // namespace mobula::internal::gpu_check
