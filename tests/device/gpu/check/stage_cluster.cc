// The stage about the product: the `mobula` program of the bundle starts a head and an agent on the
// machine's GPU, and gpu_check_driver and the examples run on them.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "device/detection/nvml.h"
#include "device/gpu/check/command.h"
#include "device/gpu/check/peers.h"

namespace mobula::internal::gpu_check {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string tail_of(const std::string& text) {
  constexpr std::size_t most = 300;
  return text.size() > most ? text.substr(text.size() - most) : text;
}

// One cluster with its own state directory. The destructor stops it.
class Cluster {
 public:
  explicit Cluster(Findings& findings)
      : findings_(findings), programs_(fs::read_symlink("/proc/self/exe").parent_path()) {
    char pattern[] = "/tmp/gpu-check-c-XXXXXX";
    if (::mkdtemp(pattern) != nullptr) directory_ = pattern;
    fs::create_directories(directory_ + "/run");
  }
  ~Cluster() {
    if (started_) (void)run("mobula", {"stop", "--grace", "2"}, 5s);
    std::error_code ignored;
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  bool start(const Words& flags) {
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

  CommandEnd mobula(Words words) { return run("mobula", std::move(words), limit()); }
  Json json_of(Words words) {
    words.insert(words.end(), {"-o", "json"});
    return Json::parse(mobula(std::move(words)).out, nullptr, false);
  }

  // Runs a scenario of gpu_check_driver and records its findings. `on_finding` is called with the
  // text of each, while the scenario runs.
  void scenario(const std::string& name,
                const std::function<void(const std::string&)>& on_finding = {}) {
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

  // `own`: the example starts its own cluster with logical devices, as its text says.
  void example(const std::string& name, bool own) {
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
    findings_.holds(
        name + (own ? " on its own logical devices" : " on the device"), end.code == 0,
        end.code == 0 ? "" : fmt::format("exit code {}: {}", end.code, tail_of(end.out)));
  }
  const fs::path& programs() const { return programs_; }

 private:
  std::map<std::string, std::string> environment() const {
    return {{"MOBULA_STATE_DIR", directory_ + "/state"},
            {"XDG_RUNTIME_DIR", directory_ + "/run"},
            {"MOBULA_ADDRESS", address_},
            {"MOBULA_TOKEN", ""},
            {"MOBULA_TOKEN_FILE", ""},
            {"MOBULA_KEY_FILE", ""},
            {"MOBULA_CLUSTER", ""}};
  }
  // One command that hangs leaves time for the others and for the end of the cluster.
  Duration limit() const { return std::clamp(findings_.left() - 7s, Duration(1s), Duration(40s)); }
  CommandEnd run(const std::string& program, Words words, Duration limit,
                 const std::function<void(const std::string&)>& on_line = {}) {
    words.insert(words.begin(), (programs_ / program).string());
    return run_command(words, environment(), limit, on_line);
  }

  Findings& findings_;
  fs::path programs_;
  std::string directory_, address_;
  bool started_ = false;
};

// Description of the only node; null if the list has another length.
Json only_node(Cluster& cluster) {
  const Json list = cluster.json_of({"list", "nodes"});
  return list.is_object() && list.contains("items") && list["items"].size() == 1 ? list["items"][0]
                                                                                 : Json();
}

void discovery(Findings& findings, const Json& node, const NvmlDevice& device) {
  const Json devices = node.value("devices", Json::object()).value("GPU", Json::array());
  findings.holds("the node offers one GPU",
                 devices.size() == 1 && node["resources"]["GPU"]["total"] == 1, devices.dump());
  if (devices.size() != 1) return;
  const Json& offered = devices[0];
  findings.holds("its UUID is the one that NVML reports", offered.value("uuid", "") == device.uuid,
                 offered.value("uuid", ""));
  findings.holds("its memory is the amount that NVML reports",
                 offered.value("memory_bytes", std::uint64_t{0}) == device.memory_bytes,
                 std::to_string(device.memory_bytes));
  findings.value("context reserve of the node", offered.value("context_bytes", std::uint64_t{0}),
                 "bytes");
  findings.value("isolation of the device",
                 offered.value("isolation", Json::object()).value("summary", ""));
  const Json labels = node.value("labels", Json::object());
  const std::string type = labels.value("mobula.io/accelerator-type", "");
  findings.holds("the accelerator type has a label and a resource",
                 !type.empty() && node["resources"].contains("accelerator_type:" + type), type);
  // The name of the product may have further words between those of the type.
  std::istringstream words(type);
  bool all_words = !type.empty();
  for (std::string word; std::getline(words, word, '-');) {
    all_words = all_words && device.name.find(word) != std::string::npos;
  }
  findings.holds("the words of the type are in the name of the device", all_words,
                 type + " of " + device.name);
  for (const char* const label : {"mobula.io/nvidia-driver", "mobula.io/nvidia-cuda"}) {
    findings.holds(fmt::format("the label {} exists", label), labels.contains(label),
                   labels.value(label, ""));
  }
  findings.value("label mobula.io/nvidia-nccl", labels.value("mobula.io/nvidia-nccl", "none"));
}

void doctor(Findings& findings, Cluster& cluster) {
  const CommandEnd end = cluster.mobula({"doctor", "-o", "json"});
  const Json seen = Json::parse(end.out, nullptr, false);
  std::string problems;
  bool driver_ok = false;
  for (const Json& each : seen.is_object() ? seen.value("items", Json::array()) : Json::array()) {
    driver_ok =
        driver_ok || (each.value("name", "") == "CUDA driver" && each.value("result", "") == "ok");
    if (each.value("result", "") != "ok" && each.value("result", "") != "note")
      problems += each.value("name", "") + ": " + each.value("text", "") + "; ";
  }
  findings.holds("mobula doctor finds the CUDA driver", driver_ok,
                 driver_ok ? "" : tail_of(end.out));
  // The limits of a container may be a problem of the machine, so the exit code has to fit the
  // findings.
  findings.holds("the exit code of mobula doctor fits its findings",
                 end.code == (problems.empty() ? 0 : 1), fmt::format("exit code {}", end.code));
  findings.value("problems that mobula doctor finds", problems.empty() ? "none" : problems);
}

// The use of the GPU that `mobula top` shows while a task keeps the GPU at work.
void reported_use(Findings& findings, Cluster& cluster) {
  cluster.scenario("busy", [&](const std::string& what) {
    if (what != "a task keeps the GPU at work") return;
    const Json top = cluster.json_of({"top", "--once"});
    const Json nodes = top.is_object() ? top.value("nodes", Json::array()) : Json::array();
    const Json gpus = nodes.size() == 1 ? nodes[0].value("gpus", Json::array()) : Json::array();
    const Json gpu = gpus.size() == 1 ? gpus[0] : Json::object();
    const auto figure = [&](const char* name) {
      const auto found = gpu.find(name);
      return found != gpu.end() && found->is_number() ? found->get<double>() : -1.0;
    };
    const double least_busy = findings.brief() ? 1 : 50;
    const double least_used = (findings.brief() ? 64.0 : 2048.0) * (1 << 20);
    findings.holds("mobula top shows the GPU busy", figure("busy_percent") >= least_busy,
                   fmt::format("{} percent", figure("busy_percent")));
    findings.holds("mobula top counts the memory of the task", figure("used_bytes") >= least_used,
                   fmt::format("{} bytes in use", figure("used_bytes")));
  });
}

bool counts_by_process(const Json& node) {
  const Json devices = node.value("devices", Json::object()).value("GPU", Json::array());
  return devices.size() == 1 &&
         devices[0].value("isolation", Json::object()).value("detects", "") == "per process";
}

void examples(Cluster& cluster) {
  cluster.example("example_device_tensors", false);
  cluster.example("example_tune_wait_for_gpu", false);
  std::vector<std::string> cuda;  // programs with kernels, if the bundle has them
  for (const auto& each : fs::directory_iterator(cluster.programs())) {
    const std::string name = each.path().filename();
    if (name.starts_with("example_cuda_")) cuda.push_back(name);
  }
  std::ranges::sort(cuda);
  for (const auto& name : cuda) cluster.example(name, false);
  // These examples ask for devices that the machine does not have and name them themselves.
  for (const char* const name : {"example_gpu_ids", "example_fractions", "example_device_memory",
                                 "example_accelerator_types"}) {
    cluster.example(name, true);
  }
  cluster.example("example_direct_nccl", false);
}

}  // namespace

void run_cluster(Findings& findings) {
  findings.scope("one head and one agent on the device, by the mobula program of this bundle");
  const auto nvml = Nvml::open(Nvml::library_name());
  const auto devices = nvml ? nvml->devices() : Result<std::vector<NvmlDevice>>(nvml.error());
  if (!devices || devices->empty())
    return findings.cannot("no GPU by NVML: " + (devices ? "an empty list" : devices.error().text));
  // A driver that gives no context makes every scenario wait for its timeout.
  if (auto context = opened(findings); !context) return;
  bool by_process = false;
  {
    Cluster cluster(findings);
    if (!cluster.start({})) return;
    const Json node = only_node(cluster);
    findings.holds("the node is alive", node.is_object() && node.value("state", "") == "ALIVE");
    if (!node.is_object()) return;
    by_process = counts_by_process(node);
    discovery(findings, node, devices->front());
    cluster.scenario("masks");
    cluster.scenario("accelerator-type");
    cluster.scenario("fractions");
    reported_use(findings, cluster);
    cluster.scenario("killed-executor");
    cluster.scenario("fresh-processes");
    cluster.scenario("direct-tensors");
    if (by_process) cluster.scenario("over-share-error");
    doctor(findings, cluster);
    examples(cluster);
  }
  if (!by_process)
    return findings.cannot(
        "overuse: NVML does not show the memory of each process on this machine");
  if (findings.left() < 15s) return findings.cannot("--gpu-over-share kill: no time");
  Cluster cluster(findings);
  if (cluster.start({"--gpu-over-share", "kill"})) cluster.scenario("over-share-kill");
}

}  // namespace mobula::internal::gpu_check
