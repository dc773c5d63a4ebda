// The stage about the product: the `mobula` program of the bundle starts a head and an agent on the
// machine's GPU, and gpu_check_driver and the examples run on them.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "device/detection/nvml.h"
#include "device/gpu/check/cluster.h"
#include "device/gpu/check/peers.h"

namespace mobula::internal::gpu_check {
namespace {

namespace fs = std::filesystem;

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
