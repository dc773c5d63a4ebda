// The stage with the probe: answers of the driver and of NCCL, and their differences from the
// simulation.
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "device/gpu/check/records.h"

namespace mobula::internal::gpu_check {

void run_probe(Findings& findings) {
  const auto directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  FILE* const out =
      ::popen(("'" + (directory / "gpu_probe_program").string() + "' 2>&1").c_str(), "r");
  if (out == nullptr) return findings.cannot("the probe does not start");
  std::vector<Json> seen;
  int calls = 0, unexpected = 0;
  char* line = nullptr;
  std::size_t capacity = 0;
  while (::getline(&line, &capacity, out) > 0) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("call")) {
      ++calls;
      unexpected += json.value("same", false) ? 0 : 1;
    }
    seen.push_back({{"what", "probe"}, {"value", json}});
    findings.value("probe", json);
  }
  std::free(line);
  const int status = ::pclose(out);
  if (calls == 0) return findings.cannot("the probe has found no driver");
  findings.value("calls", calls);
  // The probe exists to find these, so they do not fail the stage.
  findings.value("answers that Mobula does not expect", unexpected);
  findings.holds("the probe ran to its end", WIFEXITED(status) && WEXITSTATUS(status) <= 1,
                 fmt::format("wait status {}", status));
  const auto simulated = read_records(directory.parent_path() / "simulated.jsonl");
  if (!simulated)
    return findings.value("differences from the simulation",
                          "not compared: the bundle has no record of it");
  const auto lines = differences(*simulated, seen);
  findings.value("differences from the simulation", lines.size());
  for (const auto& each : lines) findings.value("simulation and device", each);
}

}  // namespace mobula::internal::gpu_check
