// Selects the processes and agents that a query is sent to, and writes warnings about those that do
// not reply. Drivers and executors answer for themselves, agents for the stores of their nodes.
// Thread: owner (one HeadCore).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"

namespace mobula::internal::head {

struct HeadTables;

using QueryTargets = std::map<ProcessId, std::string>;  // each with a human-readable name

struct ProcessFilter {
  JobId job{};                 // empty: all jobs
  NodeId node{};               // empty: all nodes
  bool active_owners = false;  // leaves out processes that owned no task when last queried
};

// Returns the processes that match, up to a limit. `warnings` name the others that are left out.
QueryTargets processes_to_query(const HeadTables& tables, const ProcessFilter& filter,
                                std::vector<std::string>& warnings);
// Adds the agents that know the transfers into the stores of their nodes, by their incarnations.
void add_agents(const HeadTables& tables, QueryTargets& targets, std::vector<std::string>& warnings,
                NodeId only = {});
// Sends the request to a process or an agent.
template <class Request>
void send_to(HeadTables& tables, ProcessId target, const Request& request);
// Warns that these did not reply in time, so that `unknown` ("what it owns") is not known.
void warn_of_silent(const HeadTables& tables, const QueryTargets& silent,
                    const std::string& unknown, std::vector<std::string>& warnings);

}  // namespace mobula::internal::head
