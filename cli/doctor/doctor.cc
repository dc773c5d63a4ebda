#include "cli/doctor/doctor.h"
#include "base/text/json_writer.h"
#include "cli/build_kind.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ranges>

#include "base/fd.h"
#include "cli/child.h"
#include "cli/doctor/cluster_checks.h"
#include "cli/doctor/gpu_checks.h"
#include "cli/doctor/machine_checks.h"
#include "cli/doctor/state_checks.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/head_query.h"
#include "cli/output/log_lines.h"
#include "cli/output/output.h"
#include "cli/output/pager.h"
#include "cli/tool_client.h"
#include "device/detection/pci.h"
#include "device/detection/probe.h"
#include "protocol/process_identity.h"

namespace mobula::internal::cli::doctor {
namespace {

using Document = nlohmann::ordered_json;

constexpr int vendor_patience_ms = 20'000;
constexpr Duration probe_timeout = 3s;

void append(Findings& to, Findings more) { std::ranges::move(more, std::back_inserter(to)); }

// Returns the CPUs and interfaces near each GPU; nothing if hwloc does not know them.
Findings beside_gpus(const MachineFacts& machine) {
  const auto gpus = machine.devices.find(Vendor::nvidia);
  if (gpus == machine.devices.end()) return {};
  std::vector<std::string> bus_ids;
  for (const AcceleratorDevice& each : gpus->second) {
    if (!each.pci_bus_id.empty() && !each.slice) bus_ids.push_back(each.pci_bus_id);
  }
  const auto locality = locality_of(bus_ids);
  if (!locality) return {note("near GPUs", locality.error().text)};
  Findings found;
  for (const std::string& bus_id : bus_ids) {
    std::string text;
    if (const auto near = locality->cpus_of.find(bus_id); near != locality->cpus_of.end())
      text = "CPUs " + to_text(near->second);
    for (const auto& [interface, distances] : locality->interfaces) {
      const auto at = distances.find(bus_id);
      if (at != distances.end() && at->second != Nearness::elsewhere)
        text += (text.empty() ? "" : ", ") + interface;
    }
    if (!text.empty()) found.push_back(note("near " + bus_id, text));
  }
  return found;
}

// Probes the GPUs and the node's shape: vendor code runs, which may hang or crash with a broken
// driver.
Document inspect_devices() {
  Document report = Document::array();
  const auto add = [&](const Finding& finding) { report.push_back(to_json(finding)); };
  for (const auto& each : check_gpus()) add(each);
  const auto machine = probe_machine();
  add(note("CPUs", fmt::format("{} usable", machine.cpus.usable())));
  add(note("memory", fmt::format("{} MiB usable", machine.memory.usable_bytes() >> 20)));
  const auto shape = node_shape(machine, {});
  add(shape
          ? note("GPUs to offer", shape->total(resource::gpu).to_string())
          : must_fix("GPUs to offer", shape.error().text, "fix that variable, or give --num-gpus"));
  for (const auto& [vendor, devices] : machine.devices) {
    const VendorRow& row = row_of(vendor);
    add(note("devices", fmt::format("{} of {}, as {} by {}", devices.size(), row.name, row.resource,
                                    row.variable)));
  }
  for (const auto& each : beside_gpus(machine)) add(each);
  for (const auto& each : machine.notes) add(note("machine", each));
  return report;
}

Findings check_devices() {
  auto child = Child::start([](const Child::Notify& notify) {
    notify(json_text(inspect_devices()), true);
    return exit_done;
  });
  if (!child) return {note("devices", child.error().text)};
  pollfd item{child->report_fd(), POLLIN, 0};
  const int count = ::poll(&item, 1, vendor_patience_ms);
  const auto report = count > 0 ? child->next_message() : std::nullopt;
  const auto json = report ? Document::parse(*report, nullptr, false) : Document();
  if (json.is_array()) {
    Findings found;
    for (const auto& each : json) found.push_back(finding_of(each));
    return found;
  }
  const std::string what =
      count == 0 ? fmt::format("did not reply within {} s", vendor_patience_ms / 1000)
                 : fmt::format("terminated the probing process with code {}", child->wait());
  return {must_fix("GPU libraries", "vendor libraries " + what,
                   "nvidia-smi shows whether the driver still answers; "
                   "dmesg | grep -i -e nvrm -e xid shows its errors")};
}

Document document_of(const Findings& findings) {
  Document items = Document::array();
  for (const auto& each : findings) items.push_back(to_json(each));
  return {{"apiVersion", "mobula/v1"},
          {"kind", "CheckList"},
          {"items", items},
          {"warnings", Document::array()}};
}

void show(const Findings& findings, const CommandLine& line) {
  const OutputFormat output = line.output;
  std::string text =
      format_document(document_of(findings), output, "checks", style_of(line), 0).value();
  bool begun = false;
  for (const auto& each : findings) {
    const bool prompts = !each.fix.empty() && each.verdict != Verdict::ok &&
                         (each.verdict != Verdict::note || output != OutputFormat::table);
    if (!prompts || !for_people(line)) continue;
    text += fmt::format("{}  {}: {}\n", begun ? "" : "\nto fix:\n", each.name, printable(each.fix));
    begun = true;
  }
  (void)print_page(text, line);
}

Finding debug_build_finding() {
  return note("build",
              "debug build: calls take 10 to 16 times the processor time of a release build",
              "./dev install PREFIX builds and installs a release build");
}

// Checks the agent's lock, which is released with its process, whatever happened to its files.
bool agent_lives(const std::string& directory) {
  const Fd lock(::open((directory + "/agent/lock").c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
         load_agent_file(directory + "/agent/agent.json").ok();
}

}  // namespace

int examine(const CommandLine& line) {
  if (line.doctor.probe) return probe(line);
  Findings found = check_devices();  // in a child process, before any thread starts
  const Measures seen = measure();
  if (is_debug_build) found.push_back(debug_build_finding());
  append(found, check_limits(seen));
  append(found, check_memory(seen));
  append(found, check_names(seen, advertised_host(line.state_dir, line.cluster)));
  append(found, check_kernel(seen));
  append(found, check_state(line.state_dir, line.cluster));
  append(found, check_runtime_dir(default_runtime_dir()));
  if (!line.key_file.empty()) append(found, check_key_file(line.key_file));
  const char* const path = std::getenv("PATH");
  for (const auto& way : line.doctor.ways)
    append(found, check_programs(way, path == nullptr ? "" : path));
  auto cluster = check_cluster(line);
  append(found, std::move(cluster.findings));
  std::ranges::stable_sort(found, {}, [](const Finding& each) {
    return each.verdict == Verdict::ok ? 1 : each.verdict == Verdict::note ? 2 : 0;
  });
  show(found, line);
  if (std::ranges::any_of(found, [](const Finding& each) { return each.verdict == Verdict::fix; }))
    return exit_failed;
  return cluster.reached ? exit_done : exit_unreachable;
}

int probe(const CommandLine& line) {
  bool any = false;
  for (const auto& name : clusters_of(line.state_dir)) {
    if (!line.cluster.empty() && name != line.cluster) continue;
    const std::string directory = line.state_dir + "/" + name;
    if (const auto head = load_head_file(directory + "/head/head.json")) {
      any = true;
      if (!runs(*head))
        return complain(failure(ErrorCode::unavailable,
                                fmt::format("probe cluster '{}': the head, process {}, has died",
                                            name, head->pid)),
                        exit_failed);
      ClusterAddress cluster{head->address, std::nullopt, directory + "/head/operator.key"};
      if (auto key = load_key_file(cluster.key_path)) cluster.key = std::move(key).value();
      auto client = ToolClient::open(cluster);
      const auto pong = client ? client->request("ping", {}, {}, probe_timeout) : client.error();
      if (!pong) return complain(pong.error(), exit_failed);
    }
    if (load_agent_file(directory + "/agent/agent.json")) {
      any = true;
      // The head is not queried, because an agent waits for an absent head.
      if (!agent_lives(directory))
        return complain(failure(ErrorCode::unavailable,
                                fmt::format("probe cluster '{}': the agent has died", name)),
                        exit_failed);
    }
  }
  if (any) return exit_done;
  return complain(failure(ErrorCode::unavailable,
                          "probe: neither a head nor an agent runs from " + line.state_dir),
                  exit_unreachable);
}

}  // namespace mobula::internal::cli::doctor
