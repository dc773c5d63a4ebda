// Which processes are asked where drivers and executors answer for themselves, and agents for their nodes'
// stores; and what is said of those that do not. Part of HeadCore.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/id.h"

namespace mobula::internal::head {

struct Parts;

using AskedProcesses = std::map<ProcessId, std::string>;  // and what each is, for people

// All of the job, or of all jobs; a bounded number. `warnings` say who is not asked. With `only` those of that node.
AskedProcesses processes_to_ask(const Parts& parts, JobId job, std::vector<std::string>& warnings, NodeId only = {});
// Besides, the agents that know what has come to their nodes' stores, by their incarnations.
void add_agents(const Parts& parts, AskedProcesses& asked, std::vector<std::string>& warnings, NodeId only = {});
// To each of them, process or agent.
template <class Question>
void ask_each(Parts& parts, const std::vector<ProcessId>& asked, const Question& question);
// These have not answered in time: so `unknown` ("what it owns") is not known.
void warn_of_silent(const Parts& parts, const AskedProcesses& silent, const std::string& unknown,
                    std::vector<std::string>& warnings);

}  // namespace mobula::internal::head
