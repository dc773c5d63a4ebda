// The stage about interception: pointers of cuGetProcAddress, a preloaded libcuda.so.1 that
// enforces a limit, PyTorch on top of it, and ratios of call rates.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "device/gpu/check/peers.h"
#include "device/gpu/check/python/python_check.h"

namespace mobula::internal::gpu_check {
namespace {

namespace fs = std::filesystem;

// A directory with the preloaded library and the real driver under the name that the library
// depends on.
class Preload {
 public:
  explicit Preload(const std::string& driver) {
    char pattern[] = "/tmp/gpu-check-preload-XXXXXX";
    if (::mkdtemp(pattern) == nullptr) return;
    directory_ = pattern;
    std::error_code failed;
    fs::create_symlink(
        fs::read_symlink("/proc/self/exe").parent_path() / "libmobula_intercept_probe.so",
        library(), failed);
    fs::create_symlink(driver, directory_ + "/real_libcuda.so", failed);
  }
  ~Preload() {
    std::error_code ignored;
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
  }
  Preload(const Preload&) = delete;
  Preload& operator=(const Preload&) = delete;

  std::string library() const { return directory_ + "/libcuda_probe.so"; }
  std::string report() const { return directory_ + "/report.jsonl"; }
  // `limit`: bytes; 0: none. The driver is found by the name that programs use, so that the
  // loader's answer counts.
  std::map<std::string, std::string> variables(std::uint64_t limit) const {
    std::map<std::string, std::string> made{{"LD_PRELOAD", library()},
                                            {"MOBULA_CUDA_LIBRARY", "libcuda.so.1"},
                                            {"MOBULA_INTERCEPT_REPORT", report()}};
    if (limit > 0) made["MOBULA_INTERCEPT_LIMIT"] = std::to_string(limit);
    return made;
  }
  // The last report of a process that has exited.
  Json last_report() const {
    std::ifstream file(report());
    Json last;
    for (std::string line; std::getline(file, line);) last = Json::parse(line, nullptr, false);
    return last;
  }

 private:
  std::string directory_;
};

void pointers(Findings& findings) {
  Peer peer;
  const Message seen = peer.execute({{"do", "pointers"}});
  if (const auto error = error_of(seen); !error.empty())
    return findings.cannot("no pointers: " + error);
  findings.holds("pointers of cuGetProcAddress equal those of dlsym",
                 seen.json["equal"] == seen.json["compared"],
                 fmt::format("{} of {} are equal", seen.json["equal"].get<int>(),
                             seen.json["compared"].get<int>()));
  if (!seen.json["differ"].empty())
    findings.value("name, version and flags with another pointer", seen.json["differ"]);
  if (!seen.json["absent"].empty())
    findings.value("names that this driver does not have", seen.json["absent"]);
}

void limited_process(Findings& findings, const Preload& preload) {
  const std::uint64_t limit = std::uint64_t{256} << 20;
  {
    auto peer = opened(findings, preload.variables(limit));
    if (!peer) return;
    const Message memory = peer->execute({{"do", "memory"}});
    findings.holds("cuMemGetInfo reports the share",
                   memory.json.value("total_bytes", std::uint64_t{0}) == limit, memory.json.dump());
    const Message arena = peer->execute({{"do", "make"}, {"bytes", limit / 2}, {"value", 1}});
    findings.holds("cuMemCreate within the share succeeds", error_of(arena).empty(),
                   error_of(arena));
    const Message fits = peer->execute({{"do", "allocate"}, {"bytes", limit / 4}}),
                  beyond = peer->execute({{"do", "allocate"}, {"bytes", limit / 2}});
    findings.holds("cuMemAlloc within the share succeeds", fits.json.value("allocated", false),
                   fits.json.dump());
    findings.holds("cuMemAlloc beyond the share fails",
                   beyond.json.value("allocated", true) == false, beyond.json.dump());
    const Message created = peer->execute({{"do", "make"}, {"bytes", limit}, {"value", 1}});
    findings.holds("cuMemCreate beyond the share fails", !error_of(created).empty(),
                   error_of(created));
    findings.holds("the process exits by itself", peer->exits(Duration(10s)));
  }
  const Json report = preload.last_report();
  if (!report.is_object()) return findings.holds("the preloaded library writes a report", false);
  findings.holds("no function escapes the preloaded library", report["escaped"].empty(),
                 report["escaped"].dump());
  findings.value("the preloaded library in this program", report);
}

void call_rates(Findings& findings, const Preload& preload) {
  const int rounds = findings.brief() ? 1 : 3;
  std::map<std::string, std::vector<double>> plain, preloaded;
  for (int i = 0; i < rounds; ++i) {
    for (const bool with : {false, true}) {
      auto peer = opened(findings, with ? preload.variables(std::uint64_t{8} << 30)
                                        : std::map<std::string, std::string>());
      if (!peer) return;
      auto& rates = with ? preloaded : plain;
      for (const auto& [order, count] :
           {std::pair{"launch rate", findings.brief() ? 200 : 100'000},
            std::pair{"allocation rate", findings.brief() ? 20 : 1'000}}) {
        const Message ran = peer->execute({{"do", order}, {"count", count}, {"bytes", 2u << 20}},
                                          {}, Duration(20s));
        if (error_of(ran).empty()) rates[order].push_back(ran.json["per_second"].get<double>());
      }
    }
  }
  for (auto& [order, rates] : plain) {
    auto& others = preloaded[order];
    if (others.empty()) continue;
    std::ranges::sort(rates);
    std::ranges::sort(others);
    findings.value(order + " without the library", rates[rates.size() / 2], "per second");
    findings.value(order + " with the library, divided by that",
                   others[others.size() / 2] / rates[rates.size() / 2]);
  }
}

void torch_under_limit(Findings& findings, const Preload& preload) {
  const std::uint64_t limit = std::uint64_t{4} << 30;
  constexpr Duration needed = 6s;  // PyTorch alone takes several seconds to load
  const std::vector<std::pair<std::string, std::string>> parts{
      {"memory", ""},
      {"segments", "expandable_segments:True"},
      {"async", "backend:cudaMallocAsync"},
      {"graphs", ""},
      {"triton", ""},
      {"others", ""}};
  for (const auto& [part, allocator] : parts) {
    if (findings.left() < needed) {
      findings.cannot("PyTorch: " + part + ": no time");
      continue;
    }
    auto variables = preload.variables(limit);
    // The second name is the one of PyTorch 2.9 and newer.
    if (!allocator.empty())
      variables["PYTORCH_CUDA_ALLOC_CONF"] = variables["PYTORCH_ALLOC_CONF"] = allocator;
    if (run_python(findings, {"intercept_check.py", part}, variables) == PythonEnd::cannot) return;
    if (const Json report = preload.last_report(); part == "memory" && report.is_object()) {
      findings.holds("no function escapes the preloaded library in PyTorch",
                     report["escaped"].empty(), report["escaped"].dump());
      findings.value("the preloaded library in PyTorch", report);
    }
  }
}

}  // namespace

void inspect_interception(Findings& findings) {
  pointers(findings);
  Peer peer;
  const Message found = peer.execute({{"do", "library path"}});
  if (const auto error = error_of(found); !error.empty())
    return findings.cannot("no CUDA driver: " + error);
  findings.value("file of the CUDA driver", found.json["path"]);
  const Preload preload(found.json["path"]);
  limited_process(findings, preload);
  call_rates(findings, preload);
  torch_under_limit(findings, preload);
}

}  // namespace mobula::internal::gpu_check
