#include "head/core/query/query_targets.h"

#include <fmt/format.h>

#include "head/core/head_tables.h"
#include "protocol/version.h"

namespace mobula::internal::head {
namespace {

constexpr std::size_t max_targets = 4096;  // per query
constexpr std::size_t max_named = 8;       // silent processes that are named in warnings

std::string name_of(const HeadTables& tables, ProcessId process) {
  const Process& row = *tables.processes.find(process);
  return fmt::format("{} {} of job {} on node {}",
                     row.principal.role == Role::driver ? "the driver" : "executor",
                     process.brief(), row.principal.job.brief(), row.node.brief());
}

}  // namespace

// Drivers precede executors, because they own most tasks.
QueryTargets processes_to_query(const HeadTables& tables, const ProcessFilter& filter,
                                std::vector<std::string>& warnings) {
  QueryTargets targets;
  std::uint64_t passed_over = 0;
  for (const Role role : {Role::driver, Role::executor}) {
    for (const auto& [process, row] : tables.processes.rows()) {
      if (row.principal.role != role) continue;
      if (!filter.job.empty() && row.principal.job != filter.job) continue;
      if (!filter.node.empty() && row.node != filter.node) continue;
      if (filter.active_owners && tables.now < row.idle_until) continue;
      const Node* node = tables.nodes.find(row.node);
      if (node == nullptr || !node->registered()) {
        warnings.push_back(name_of(tables, process) +
                           " cannot be queried: its node is not connected");
      } else if (targets.size() >= max_targets) {
        ++passed_over;
      } else {
        targets.emplace(process, name_of(tables, process));
      }
    }
  }
  if (passed_over > 0) {
    warnings.push_back(
        fmt::format("{} more executors are not queried: at most {} processes per query",
                    passed_over, max_targets));
  }
  return targets;
}

void add_agents(const HeadTables& tables, QueryTargets& targets, std::vector<std::string>& warnings,
                NodeId only) {
  std::uint64_t older = 0, passed_over = 0;
  for (const auto& [id, node] : tables.nodes.rows()) {
    if (!node.registered() || (!only.empty() && id != only)) continue;
    if (node.protocol < version_with_stored_transfers) {
      ++older;
    } else if (targets.size() >= max_targets) {
      ++passed_over;
    } else {
      targets.emplace(node.address.incarnation, fmt::format("the agent of node {}", id.brief()));
    }
  }
  if (older > 0)
    warnings.push_back(
        fmt::format("{} nodes run an older Mobula, which does not report received objects", older));
  if (passed_over > 0) {
    warnings.push_back(fmt::format(
        "the agents of {} nodes are not queried about received objects: at most {} agents per "
        "query",
        passed_over, max_targets));
  }
}

template <class Request>
void send_to(HeadTables& tables, ProcessId target, const Request& request) {
  if (const auto node = tables.nodes.of_incarnation(target); !node.empty()) {
    tables.nodes.send(node, request);
  } else {
    tables.processes.send(target, request);
  }
}
template void send_to(HeadTables&, ProcessId, const TransfersRequest&);
template void send_to(HeadTables&, ProcessId, const SpansRequest&);

void warn_of_silent(const HeadTables& tables, const QueryTargets& silent,
                    const std::string& unknown, std::vector<std::string>& warnings) {
  std::size_t named = 0;
  for (const auto& [process, name] : silent) {
    if (named == max_named) {
      warnings.push_back(
          fmt::format("{} more processes have not replied either", silent.size() - named));
      return;
    }
    ++named;
    warnings.push_back(fmt::format("{} has not replied within {} ms; {} is not known", name,
                                   tables.options.list_timeout / 1ms, unknown));
  }
}

}  // namespace mobula::internal::head
