// The provider `slurm`: an instance is a job of one node with the name of the instance, submitted
// from a template. The agent joins with a ticket from a file in a directory that all nodes share.
// One squeue serves all instances.
// Thread: main. Errors: in the reply.
#pragma once

#include <string>
#include <vector>

#include "deploy/fleet/provider_contract.h"

namespace mobula::internal::provider {

// Settings: `directory` (of tickets and logs, shared by all nodes; required), `template` (a batch
// script like deploy/slurm/joined.sbatch), `arguments` of sbatch, `backlog` (4 pending jobs at
// most), `warning_s` (120: SIGTERM this long before the time limit), `mobula` (the program on the
// nodes). `config` of a node type: `arguments` of sbatch, and `flags` of `mobula start`.
fleet::ProviderReply answer_slurm(const fleet::ProviderRequest& request, const std::string& mobula);

struct SlurmJobs {
  std::vector<fleet::InstanceReply> jobs;
  bool complete = true;
};
// Parses the output of `squeue -o '%i|%j|%T|%e|%k|%r'` with times in seconds since 1970. Returns
// the jobs of this cluster; `complete` is false if a line has another form.
SlurmJobs parse_squeue(const std::string& text, const std::string& cluster_id);

// Removes all but one job of each name and returns their ids. A launch that was repeated while the
// controller still accepted its job makes a second one. A running job takes precedence over a
// pending one, and an earlier over a later one.
std::vector<std::string> take_duplicates(std::vector<fleet::InstanceReply>& jobs);

// The kind of failure that this standard error of sbatch or squeue states.
fleet::FailureKind kind_of_slurm_error(const std::string& text);

}  // namespace mobula::internal::provider
