#include "cli/doctor/cluster_checks.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <map>
#include <memory>
#include <set>

#include "base/model/labels/node_labels.h"
#include "cli/exit_code.h"
#include "cli/find_cluster.h"
#include "cli/tool_client.h"
#include "transport/loop/event_loop.h"
#include "transport/net/address.h"
#include "transport/net/port_probe.h"

namespace mobula::internal::cli::doctor {
namespace {

using Json = nlohmann::json;

constexpr Duration port_timeout = 3s;
constexpr std::size_t most_ports = 512;  // limit of tried ports
constexpr std::size_t most_named = 8;    // names per fault
constexpr std::int64_t tolerable_skew_ms = 2'000;
constexpr std::int64_t wrong_skew_ms = 60'000;  // tickets and tokens allow 5 minutes
constexpr const char* no_library = "no usable library";

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string utc(std::int64_t ms) {
  const auto at = std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", std::chrono::floor<std::chrono::seconds>(at));
}

std::string own_host() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string port_of(const std::string& address) { return address.substr(address.rfind(':') + 1); }
std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool leads_to_itself(const std::string& address) {
  const auto parsed = Address::parse(address);
  const auto numeric = parsed ? parsed->numeric() : std::nullopt;
  return numeric ? numeric->loopback() : address.starts_with("localhost:");
}

Finding unreachable(Finding finding) {
  finding.verdict = Verdict::unreachable;
  return finding;
}

// Joins several names in one sentence.
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most_named) text += fmt::format(" and {} more", names.size() - most_named);
  return text;
}

std::string node_name(const Json& item) {
  return fmt::format("{} ({})", item.value("node_id", std::string()).substr(0, 8),
                     item.value("host", std::string()));
}

bool has_slots(const Json& item) {
  return item.contains("resources") && !item["resources"].empty();
}

class ClusterProbe {
 public:
  explicit ClusterProbe(const CommandLine& line) : line_(line) {}

  ClusterSnapshot run() {
    auto cluster = find_cluster(line_);
    if (!cluster) {
      no_cluster(cluster.error());
      return std::move(snapshot_);
    }
    cluster_ = std::move(cluster).value();
    if (!head_port()) return std::move(snapshot_);
    auto client = ToolClient::open(cluster_);
    if (!client) {
      add(must_fix("cluster", client.error().text, "mobula status"));
      return std::move(snapshot_);
    }
    if (!ping(*client)) return std::move(snapshot_);
    snapshot_.reached = true;
    version(*client);
    nodes(*client);
    return std::move(snapshot_);
  }

 private:
  void add(Finding finding) { snapshot_.findings.push_back(std::move(finding)); }

  void no_cluster(const Failure& why) {
    const bool several =
        line_.key_file.empty() && line_.token.empty() && clusters_of(line_.state_dir).size() > 1;
    if (exit_code_of(why) == exit_refused ||
        (why.code == ErrorCode::invalid_argument && !several)) {
      return add(
          must_fix("key", why.text,
                   "give the key file of the cluster with --key, or a token with MOBULA_TOKEN"));
    }
    add(note("cluster", why.text,
             "mobula start --head, or give --address HOST:PORT and --key FILE"));
  }

  bool head_port() {
    const auto seen = try_ports({{.what = "head", .address = cluster_.address}}, port_timeout);
    auto found = check_ports("head port", seen);
    const bool open = found.front().verdict == Verdict::ok;
    for (auto& each : found) add(open ? std::move(each) : unreachable(std::move(each)));
    return open;
  }

  bool ping(ToolClient& client) {
    const auto first = client.request("ping");  // includes the connection; the next query is timed
    if (!first) {
      const auto& why = first.error();
      if (why.code == ErrorCode::corrupt) {
        add(must_fix("version", why.text,
                     "install the same release on both machines: mobula up CLUSTER.yaml"));
        snapshot_.reached = true;
      } else if (exit_code_of(why) == exit_refused) {
        add(must_fix(
            "key", why.text,
            cluster_.key
                ? "copy the key file again from the head's <state>/<cluster>/ (mode 0600); a token "
                  "that "
                  "was revoked is replaced by `mobula token create`"
                : "give the key file of the cluster with --key, or a token with MOBULA_TOKEN"));
        snapshot_.reached = true;
      } else {
        add(unreachable(
            must_fix("cluster", why.text, "on the head's machine: mobula logs head --tail 50")));
      }
      return false;
    }
    const auto before = now_ms();
    const auto pong = client.request("ping");
    const auto after = now_ms();
    add(ok("cluster",
           fmt::format("the head at {} replies within {} ms", cluster_.address, after - before)));
    const auto json = pong ? Json::parse(*pong, nullptr, false) : Json();
    if (json.is_object() && json.contains("time_ms"))
      add(check_clock(before, json.value("time_ms", std::int64_t{0}), after));
    return true;
  }

  void version(ToolClient& client) {
    const auto status = client.request("status");
    const auto json = status ? Json::parse(*status, nullptr, false) : Json();
    if (!json.is_object()) return;
    const std::string head = json.value("version", std::string());
    if (head.empty() || head == MOBULA_VERSION) return add(ok("version", MOBULA_VERSION));
    add(note("version", fmt::format("this program is {}, the head {}", MOBULA_VERSION, head),
             "install the same release on both, or mobula up CLUSTER.yaml for all machines"));
  }

  void nodes(ToolClient& client) {
    const auto answer = client.request("list", "nodes");
    const auto json = answer ? Json::parse(*answer, nullptr, false) : Json();
    if (!json.is_object() || !json.contains("items")) {
      // The role has no permission.
      if (!answer && answer.error().code == ErrorCode::permission_denied) return;
      return add(must_fix(
          "nodes",
          answer ? "read the head's list of nodes: not a JSON object" : answer.error().text,
          "mobula list nodes"));
    }
    std::vector<PortSeen> ports;
    Json alive = Json::array();
    for (const auto& item : json["items"]) {
      const std::string state = item.value("state", std::string());
      if (state != "ALIVE" && state != "DRAINING") continue;
      alive.push_back(item);
      for (const auto& [member, what] :
           {std::pair{"address", "agent"}, std::pair{"bulk_address", "bytes"}}) {
        const std::string address = item.value(member, std::string());
        if (!address.empty() && ports.size() < most_ports)
          ports.push_back(
              {.what = fmt::format("{} of node {}", what, node_name(item)), .address = address});
      }
    }
    const bool here = leads_to_itself(cluster_.address);
    // Addresses that only their own machine can use cannot be tried from another one.
    if (!here)
      std::erase_if(ports, [](const PortSeen& each) { return leads_to_itself(each.address); });
    for (auto& each : check_ports("node ports", try_ports(std::move(ports), port_timeout)))
      add(std::move(each));
    for (auto& each : check_nodes(alive, own_host())) add(std::move(each));
    const auto usage = client.request("usage");
    const auto clocks = usage ? Json::parse(*usage, nullptr, false) : Json();
    if (clocks.is_object() && clocks.contains("nodes") && !clocks["nodes"].empty())
      add(check_node_clocks(clocks["nodes"]));
  }

  const CommandLine& line_;
  ClusterAddress cluster_;
  ClusterSnapshot snapshot_;
};

}  // namespace

ClusterSnapshot check_cluster(const CommandLine& line) { return ClusterProbe(line).run(); }

std::vector<PortSeen> try_ports(std::vector<PortSeen> ports, Duration limit) {
  const auto loop = EventLoop::create();
  if (!loop) {
    for (auto& each : ports) {
      each.answer = PortAnswer::unknown;
      each.why = loop.error().text;
    }
    return ports;
  }
  std::vector<std::unique_ptr<PortProbe>> probes;
  std::size_t open = 0;
  for (auto& each : ports) {
    const auto address = Address::parse(each.address);
    const auto numeric = address ? address->resolve() : Result<SocketAddress>(address.error());
    if (!numeric) {
      each.answer = PortAnswer::unknown;
      each.why = numeric.error().text;
      continue;
    }
    ++open;
    probes.push_back(
        std::make_unique<PortProbe>(**loop, *numeric, limit, [&each, &open](ProbeOutcome seen) {
          each.answer = seen == ProbeOutcome::open      ? PortAnswer::open
                        : seen == ProbeOutcome::refused ? PortAnswer::refused
                                                        : PortAnswer::silent;
          --open;
        }));
  }
  const Time deadline = monotonic_now() + limit + 1s;
  while (open > 0 && monotonic_now() < deadline) (*loop)->turn(100ms);
  return ports;
}

Findings check_ports(const std::string& name, const std::vector<PortSeen>& seen) {
  std::map<std::string, std::vector<std::string>> wrong;  // "refused", "silent", "unknown"
  std::set<std::string> ports;
  std::set<std::string> hosts;
  for (const auto& each : seen) {
    if (each.answer == PortAnswer::open) continue;
    const auto label = each.address + " (" + each.what + ")";
    if (each.answer == PortAnswer::unknown) {
      wrong["unknown"].push_back(each.why + " (" + each.what + ")");
    } else if (each.answer == PortAnswer::refused) {
      wrong["refused"].push_back(label);
    } else {
      wrong["silent"].push_back(label);
      ports.insert(port_of(each.address));
      hosts.insert(host_of(each.address));
    }
  }
  Findings found;
  if (const auto refused = wrong.find("refused"); refused != wrong.end()) {
    found.push_back(must_fix(
        name, "connection refused at " + some_of(refused->second),
        name == "head port"
            ? "start the head there: mobula start --head; if it runs, find its "
              "port: mobula status"
            : "on that machine: mobula doctor, and mobula start --address … if no agent runs"));
  }
  if (const auto silent = wrong.find("silent"); silent != wrong.end()) {
    found.push_back(must_fix(
        name,
        fmt::format("no reply within {} s from {}: a firewall drops packets, or the machine is "
                    "off or has no route",
                    port_timeout / 1s, some_of(silent->second)),
        fmt::format(
            "allow TCP to port {} at {}: nft add rule inet filter input tcp dport {} accept, or "
            "the cloud's rules; ping {}",
            some_of({ports.begin(), ports.end()}), some_of({hosts.begin(), hosts.end()}),
            *ports.begin(), *hosts.begin())));
  }
  if (const auto unknown = wrong.find("unknown"); unknown != wrong.end()) {
    found.push_back(must_fix(
        name, some_of(unknown->second),
        "advertise addresses that other machines can resolve: mobula start --advertise ADDRESS"));
  }
  if (found.empty()) {
    found.push_back(ok(name, seen.size() == 1 ? seen.front().address + " accepts connections"
                                              : fmt::format("{} of {} accept connections",
                                                            seen.size(), seen.size())));
  }
  return found;
}

Finding check_clock(std::int64_t before_ms, std::int64_t head_ms, std::int64_t after_ms) {
  // The head reads its clock between the two readings.
  const std::int64_t skew = head_ms < before_ms  ? head_ms - before_ms
                            : head_ms > after_ms ? head_ms - after_ms
                                                 : 0;
  const std::int64_t size = std::abs(skew);
  const std::string what =
      fmt::format("clock of this machine: {}, of the head: {}", utc(after_ms), utc(head_ms));
  if (size <= tolerable_skew_ms) return ok("clock", what);
  const std::string differs = fmt::format("{}: {:.1f} s {}", what, static_cast<double>(size) / 1e3,
                                          skew > 0 ? "behind the head" : "ahead of the head");
  const char* const fix =
      "timedatectl set-ntp true, or chronyc makestep, on the wrong machine; a head reads its "
      "clock at its start, so restart it if its clock was wrong";
  if (size < wrong_skew_ms) return note("clock", differs, fix);
  return must_fix("clock", differs + "; tickets and tokens allow 5 minutes", fix);
}

Finding check_node_clocks(const Json& nodes) {
  std::vector<std::string> wrong, noted;
  std::size_t compared = 0;
  for (const auto& node : nodes) {
    if (!node.value("clock_ms", Json()).is_number()) continue;  // an agent of an earlier release
    ++compared;
    const auto head_ms = node.value("head_clock_ms", std::int64_t{0});
    const auto node_ms = node.value("clock_ms", std::int64_t{0});
    const std::int64_t size = std::abs(node_ms - head_ms);
    if (size <= tolerable_skew_ms) continue;
    (size < wrong_skew_ms ? noted : wrong)
        .push_back(fmt::format("node {}: its clock says {}, the head's {}: {:.1f} s {} the head",
                               node_name(node), utc(node_ms), utc(head_ms),
                               static_cast<double>(size) / 1e3,
                               node_ms < head_ms ? "behind" : "ahead of"));
  }
  const std::string fix = "timedatectl set-ntp true, or chronyc makestep, on these machines";
  if (!wrong.empty()) {
    wrong.insert(wrong.end(), noted.begin(), noted.end());
    return must_fix("node clocks", some_of(wrong) + "; tickets and tokens allow 5 minutes", fix);
  }
  if (!noted.empty()) return note("node clocks", some_of(noted), fix);
  return ok("node clocks",
            fmt::format("{} of {} nodes compared, at most {} s from the clock of the head",
                        compared, nodes.size(), tolerable_skew_ms / 1000));
}

namespace {

using NodesByVersion = std::map<std::string, std::vector<std::string>>;

struct NodeVersions {
  NodesByVersion drivers, cudas, nccls, releases;
  std::vector<std::string> hidden;  // nodes whose address leads other machines to themselves
};

NodeVersions versions_of(const Json& items, const std::string& own_host) {
  NodeVersions nodes;
  for (const auto& item : items) {
    if (!has_slots(item)) continue;  // the agent of a driver
    const auto labels = item.value("labels", Json::object());
    if (labels.contains(nvidia_driver_label))
      nodes.drivers[labels.value(nvidia_driver_label, std::string())].push_back(node_name(item));
    if (labels.contains(nvidia_cuda_label))
      nodes.cudas[labels.value(nvidia_cuda_label, std::string())].push_back(node_name(item));
    // An agent that probed one library has probed the other.
    if (labels.contains(nvidia_cuda_label) || labels.contains(nvidia_nccl_label)) {
      nodes.nccls[labels.value(nvidia_nccl_label, std::string(no_library))].push_back(
          node_name(item));
    }
    if (const auto release = item.value("version", std::string()); !release.empty())
      nodes.releases[release].push_back(node_name(item));
    const bool elsewhere = item.value("host", std::string()) != own_host;
    if (elsewhere && leads_to_itself(item.value("address", std::string())))
      nodes.hidden.push_back(node_name(item));
  }
  return nodes;
}

std::string described(const NodesByVersion& rows) {
  std::string text;
  for (const auto& [version, names] : rows)
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", version, some_of(names));
  return text;
}

}  // namespace

Findings check_nodes(const Json& items, const std::string& own_host) {
  const auto [drivers, cudas, nccls, releases, hidden] = versions_of(items, own_host);
  Findings found;
  if (drivers.size() > 1) {
    found.push_back(
        must_fix("GPU drivers of nodes", described(drivers),
                 "install one driver version on all nodes: NCCL between nodes, and CUDA "
                 "programs for the newer "
                 "driver, fail on the older one"));
  }
  // Another driver has another CUDA version, which the finding above reports.
  if (cudas.size() > 1 && drivers.size() < 2) {
    found.push_back(note("CUDA drivers of nodes", described(cudas),
                         "install one version on all nodes (with the driver, or as cuda-compat): "
                         "programs for the newer "
                         "version fail on the older one"));
  }
  if (nccls.size() > 1) {
    found.push_back(must_fix("NCCL of nodes", described(nccls),
                             "install one version on all nodes (libnccl2), or set "
                             "MOBULA_NCCL_LIBRARY=PATH for each agent "
                             "and restart it; NCCL groups between such nodes fail or hang"));
  }
  if (releases.size() > 1) {
    found.push_back(note("releases of nodes", described(releases),
                         "mobula up CLUSTER.yaml installs one release on all machines"));
  }
  if (!hidden.empty()) {
    found.push_back(
        must_fix("node addresses",
                 fmt::format("{} advertise a loopback address, which other machines cannot reach",
                             some_of(hidden)),
                 "restart those agents with --bind or --advertise ADDRESS"));
  }
  return found;
}

}  // namespace mobula::internal::cli::doctor
