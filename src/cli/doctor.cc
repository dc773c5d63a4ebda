#include "cli/doctor.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/fd.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/tool_client.h"
#include "device/pci.h"
#include "device/probe.h"
#include "transport/curve.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

// A connection to each of many peers, and a descriptor for each executor.
constexpr rlim_t wanted_files = 4096;
constexpr std::uint64_t wanted_shared_bytes = 64u << 20;
// A socket's path has 107 bytes; the agent adds "/<8 digits>/agent.sock" and the like.
constexpr std::size_t longest_runtime_path = 70;

class Examination {
 public:
  void check(const char* name, bool well, const std::string& text) {
    items_.push_back({{"name", name}, {"result", well ? "ok" : "mend"}, {"text", text}});
    all_well_ = all_well_ && well;
  }
  void note(const char* name, const std::string& text) {
    items_.push_back({{"name", name}, {"result", "note"}, {"text", text}});
  }
  bool all_well() const { return all_well_; }
  Json document() const {
    return {{"apiVersion", "mobula/v1"},
            {"kind", "CheckList"},
            {"items", items_},
            {"warnings", Json::array()}};
  }

 private:
  Json items_ = Json::array();
  bool all_well_ = true;
};

void check_folders(const CommandLine& line, Examination& found) {
  // The first folder above that exists must let this user make the others.
  std::filesystem::path at = line.state_folder;
  std::error_code code;
  while (at.has_parent_path() && at != at.parent_path() && !std::filesystem::exists(at, code)) {
    at = at.parent_path();
  }
  const bool writable = ::access(at.c_str(), W_OK | X_OK) == 0;
  found.check("state folder", writable,
              writable ? line.state_folder
                       : fmt::format("user {} may not write to {}; set MOBULA_STATE_DIR",
                                     ::geteuid(), at.string()));
  const std::string runtime = default_runtime_folder();
  const bool short_enough = runtime.size() <= longest_runtime_path;
  found.check("runtime folder", short_enough,
              short_enough ? runtime : runtime + " is too long for sockets; set XDG_RUNTIME_DIR");
}

void check_system(Examination& found) {
  const bool curve = curve_available();
  found.check(
      "encryption", curve,
      curve ? "this libzmq has CURVE" : "this libzmq lacks CURVE: nothing may leave this machine");
  struct statvfs shared {};
  const bool has_shared = ::statvfs("/dev/shm", &shared) == 0;
  const auto free_bytes = has_shared ? std::uint64_t{shared.f_bavail} * shared.f_frsize : 0;
  found.check(
      "shared memory", free_bytes >= wanted_shared_bytes,
      fmt::format("{} MiB are free in /dev/shm{}", free_bytes >> 20,
                  free_bytes >= wanted_shared_bytes ? "" : "; objects need more: enlarge it"));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  found.check("open files", files.rlim_max >= wanted_files,
              fmt::format("at most {} per process{}", files.rlim_max,
                          files.rlim_max >= wanted_files ? "" : "; raise it with ulimit -n"));
  const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U)));
  found.check("pidfd", static_cast<bool>(self),
              self ? "the kernel has it"
                   : "the kernel lacks pidfd_open; Linux 5.3 is the oldest that has it");
}

// Which CPUs and interfaces the tensors of each GPU have near; nothing where hwloc knows of nothing.
void look_beside_gpus(const MachineFacts& machine, Examination& found) {
  const auto gpus = machine.devices.find(Vendor::nvidia);
  if (gpus == machine.devices.end()) return;
  std::vector<std::string> bus_ids;
  for (const AcceleratorDevice& each : gpus->second) {
    if (!each.pci_bus_id.empty() && !each.slice) bus_ids.push_back(each.pci_bus_id);
  }
  const auto locality = locality_of(bus_ids);
  if (!locality) return found.note("near GPUs", locality.error().text);
  for (const std::string& bus_id : bus_ids) {
    std::string text;
    if (const auto near = locality->cpus_of.find(bus_id); near != locality->cpus_of.end()) text = "CPUs " + to_text(near->second);
    for (const auto& [interface, distances] : locality->interfaces) {
      const auto at = distances.find(bus_id);
      if (at != distances.end() && at->second != Nearness::elsewhere) text += (text.empty() ? "" : ", ") + interface;
    }
    if (!text.empty()) found.note("near a GPU", bus_id + ": " + text);
  }
}

void look_at_machine(Examination& found) {
  const auto machine = probe_machine();
  found.note("CPUs", fmt::format("{} usable", machine.cpus.usable()));
  found.note("memory", fmt::format("{} MiB usable", machine.memory.usable_bytes() >> 20));
  const auto shape = node_shape(machine, {});
  found.note("GPUs", shape ? shape->total(resource::gpu).to_string() : shape.error().text);
  for (const auto& [vendor, devices] : machine.devices) {
    const VendorRow& row = row_of(vendor);
    found.note("devices", fmt::format("{} of {}, as {} by {}", devices.size(), row.name,
                                      row.resource, row.variable));
  }
  look_beside_gpus(machine, found);
  for (const auto& note : machine.notes) found.note("machine", note);
}

// What the environment says about the ways of tensors.
void look_at_transports(Examination& found) {
  const char* const plugins = std::getenv("MOBULA_TRANSPORT_PLUGINS");
  found.note("transport plug-ins", plugins == nullptr ? "none are named" : plugins);
  const char* const separate = std::getenv("MOBULA_TEST_SEPARATE_HOSTS");
  if (separate == nullptr || std::string_view(separate) != "1") return;
  found.check("hosts", false,
              "MOBULA_TEST_SEPARATE_HOSTS is set, so that nodes of one machine share no memory: it is for tests alone");
}

// Whether a cluster answers.
bool look_at_cluster(const CommandLine& line, Examination& found) {
  const auto cluster = find_cluster(line);
  if (!cluster) {
    found.note("cluster", cluster.error().text);
    return false;
  }
  auto client = ToolClient::open(*cluster);
  const auto pong = client ? client->ask("ping") : client.error();
  if (!pong) {
    found.note("cluster", pong.error().text);
    return false;
  }
  found.check("cluster", true, "the head at " + cluster->address + " answers");
  return true;
}

}  // namespace

int examine(const CommandLine& line) {
  Examination found;
  check_folders(line, found);
  check_system(found);
  look_at_machine(found);
  look_at_transports(found);
  const bool cluster = look_at_cluster(line, found);
  std::fputs(format_document(found.document(), line.output, "checks").c_str(), stdout);
  if (!found.all_well()) return exit_failed;
  return cluster ? exit_done : exit_unreachable;
}

}  // namespace mobula::internal::cli
