// The agent of one machine, from its options to its end: takes the agent's folder, ends what an
// earlier agent left behind, says who it is, registers with the head and runs until it is told to
// stop. Blocks; call once, on the main thread, before any other thread is started. It neither goes
// into the background nor starts a keeper: that is its caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "device/probe.h"
#include "protocol/cluster_files.h"
#include "protocol/recorder.h"

namespace mobula::internal::worker {

struct WorkerMainOptions {
  std::string head_address;  // NAME:PORT, V4:PORT or [V6]:PORT
  std::string key_file;      // path of a KeyFile; empty: without keys, on this machine alone
  std::string folder;        // <state>/<cluster>; the agent's own files are in <folder>/agent
  std::string cluster;       // its name, for people
  std::string release{};     // of Mobula, for people

  NodeRequest node{};  // what was asked for; the environment and the address are added to it
  std::optional<std::uint64_t> object_store_bytes{};  // nothing: 30 % of what is free

  double memory_threshold = 0.95;  // of the node's memory: beyond it executors are ended; 0: never
  std::optional<std::int64_t> executor_memory_bytes{};  // that they may use together
  // What happens to executors that have more of a GPU than their share; none: nobody looks.
  Reacts gpu_reacts = Reacts::error;
  Duration gpu_watch_period = 1s;
  std::vector<std::string> warden{};       // program and first words of the process above a job's command
  std::vector<std::string> job_starter{};  // brings the files of a job and becomes its program (cli/job_start.h)
  std::vector<std::string> gpu_libraries{};  // a program that prints their versions (gpu/library_versions.h); empty: none
  std::vector<std::string> gpu_trial{};  // a program that holds a context (gpu/context_trial.h); empty: no trial
  std::string spill_folder{};  // for spilled objects; "none": nothing is; empty: the agent's own
  int spill_above_percent = 80;
  std::size_t bulk_connections = 0;  // to one other node, a thread each; 0: by its cores
  Duration longest_spin = 50us;  // of who waits for a call of this node, before it sleeps

  std::string bind_host{};       // empty: where the route to the head leaves this machine
  std::string advertise_host{};  // what others are told; empty: the same
  std::string fabric{};          // trusted network that the node is on: a name, or a network; empty: none
  std::string runtime_folder{};  // short, for sockets; empty: default_runtime_folder()
  bool driver_agent = false;     // holds its driver's objects, offers nothing
  bool waits_for_head = true;    // else it ends with the reason where there is no way to it

  LogLevel log_level = LogLevel::info;
  std::string log_file{};       // empty: stderr
  Duration drain_within = 30s;  // for running calls after SIGTERM
  RecordOptions record{};       // of what its core, and those of its executors, are told

  // Called once, on this thread, when the head has registered the node and drivers may attach.
  std::function<void(const AgentFile&)> on_ready{};
  // Before that, on this thread: why there is no way to the head; again only when that changes.
  std::function<void(const std::string& why)> on_waiting{};
  // Stops, as SIGINT does, when this reads end of file; not closed. -1: none.
  int life_fd = -1;
  // Called once with the reason when the exit code will not be 0.
  std::function<void(const std::string& why)> on_failed{};
};

// The exit code: 0 after an orderly end, 1 for what failed (the log says what), 3 where there is no
// way to the head and it is not waited for, 4 where the head refuses this machine's key. SIGTERM lets
// running calls finish, SIGINT does not, and a second one ends at once.
int run_worker(const WorkerMainOptions& options);

// Removes what agents that were killed left in the file system, for whoever outlives them.
void remove_remains_of_dead_agents();

}  // namespace mobula::internal::worker
