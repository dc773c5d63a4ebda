#include "head/core/query/query_targets.h"

#include <fmt/format.h>

#include "head/core/head_tables.h"
#include "protocol/version.h"

namespace mobula::internal::head {
namespace {

constexpr std::size_t max_asked = 4096;  // per query
constexpr std::size_t max_named = 8;     // silent processes that are named in warnings

std::string name_of(const HeadTables& parts, ProcessId process) {
  const Process& row = *parts.processes.find(process);
  return fmt::format("{} {} of job {} on node {}",
                     row.principal.role == Role::driver ? "the driver" : "executor",
                     process.brief(), row.principal.job.brief(), row.node.brief());
}

}  // namespace

// Drivers precede executors, because they own most tasks.
QueryTargets processes_to_ask(const HeadTables& parts, JobId job,
                              std::vector<std::string>& warnings, NodeId only) {
  QueryTargets asked;
  std::uint64_t passed_over = 0;
  for (const Role role : {Role::driver, Role::executor}) {
    for (const auto& [process, row] : parts.processes.rows()) {
      if (row.principal.role != role || (!job.empty() && row.principal.job != job)) continue;
      if (!only.empty() && row.node != only) continue;
      const Node* node = parts.nodes.find(row.node);
      if (node == nullptr || !node->registered()) {
        warnings.push_back(name_of(parts, process) + " cannot be asked: its node is not connected");
      } else if (asked.size() >= max_asked) {
        ++passed_over;
      } else {
        asked.emplace(process, name_of(parts, process));
      }
    }
  }
  if (passed_over > 0) {
    warnings.push_back(fmt::format("{} more executors are not asked: {} processes are at a time",
                                   passed_over, max_asked));
  }
  return asked;
}

void add_agents(const HeadTables& parts, QueryTargets& asked, std::vector<std::string>& warnings,
                NodeId only) {
  std::uint64_t older = 0, passed_over = 0;
  for (const auto& [id, node] : parts.nodes.rows()) {
    if (!node.registered() || (!only.empty() && id != only)) continue;
    if (node.protocol < version_with_stored_transfers) {
      ++older;
    } else if (asked.size() >= max_asked) {
      ++passed_over;
    } else {
      asked.emplace(node.address.incarnation, fmt::format("the agent of node {}", id.brief()));
    }
  }
  if (older > 0)
    warnings.push_back(fmt::format(
        "{} nodes have an older Mobula, which does not know which objects came to them", older));
  if (passed_over > 0) {
    warnings.push_back(fmt::format(
        "the agents of {} nodes are not asked which objects came to them: {} are asked at a time",
        passed_over, max_asked));
  }
}

template <class Request>
void send_to(HeadTables& parts, ProcessId target, const Request& request) {
  if (const auto node = parts.nodes.of_incarnation(target); !node.empty()) {
    parts.nodes.send(node, request);
  } else {
    parts.processes.tell(target, request);
  }
}
template void send_to(HeadTables&, ProcessId, const TransfersRequest&);
template void send_to(HeadTables&, ProcessId, const SpansRequest&);

void warn_of_silent(const HeadTables& parts, const QueryTargets& silent, const std::string& unknown,
                    std::vector<std::string>& warnings) {
  std::size_t named = 0;
  for (const auto& [process, name] : silent) {
    if (named == max_named) {
      warnings.push_back(
          fmt::format("{} more processes have not answered either", silent.size() - named));
      return;
    }
    ++named;
    warnings.push_back(fmt::format("{} has not answered within {} ms; {} is not known", name,
                                   parts.options.list_timeout / 1ms, unknown));
  }
}

}  // namespace mobula::internal::head
