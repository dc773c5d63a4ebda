// The agent of one machine, from options to exit: locks the agent's directory, terminates the
// processes of an earlier agent, registers with the head, and runs until it is stopped. Blocks;
// call once.
// Thread: the main thread, before any other thread starts. Errors: the exit code, and `on_failed`
// with the reason.
// Not: running in the background, starting the agent shim (the caller does both).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/logging/log.h"
#include "base/time.h"
#include "device/detection/probe.h"
#include "protocol/program/cluster_files.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::worker {

struct WorkerMainOptions {
  std::string head_address;  // NAME:PORT, V4:PORT or [V6]:PORT
  std::string key_file;      // path of a KeyFile; empty: no keys, this machine only
  std::string directory;     // <state>/<cluster>; the agent's own files are in `agent` below it
  std::string cluster;       // human-readable name of the cluster
  std::string release{};     // release of Mobula, human-readable

  NodeRequest node{};  // requested resources; environment and address are added
  std::optional<std::uint64_t> object_store_bytes{};  // empty: 30 % of the free memory

  double memory_threshold = 0.95;  // share in use that ends executors; 0: no limit
  std::optional<std::int64_t> executor_memory_bytes{};  // for all executors together
  // Reaction to executors that exceed their share of a GPU; none: no monitoring.
  Reacts gpu_reacts = Reacts::error;
  Duration gpu_watch_period = 1s;
  std::vector<std::string> job_shim{};       // program and first arguments of the job shim
  std::vector<std::string> job_starter{};    // stages a job's files, then runs it (cli/job_start.h)
  std::vector<std::string> gpu_libraries{};  // prints library versions (gpu/library_versions.h)
  std::vector<std::string> gpu_trial{};      // holds a context (gpu/context_trial.h); may be empty
  std::string spill_dir{};  // for spilled objects; "none": no spilling; empty: the agent's own
  int spill_above_percent = 80;
  std::size_t bulk_connections = 0;  // to each other node, a thread each; 0: by the number of cores
  Duration longest_spin = 50us;      // longest spin of a thread that waits for a local call

  std::string bind_host{};       // empty: the local address of the route to the head
  std::string advertise_host{};  // address that other nodes receive; empty: `bind_host`
  std::string fabric{};          // trusted fabric of the node, a name or a network; empty: none
  std::string runtime_dir{};     // short path, for sockets; empty: default_runtime_dir()
  bool driver_agent = false;     // stores objects of its driver, offers no resources
  bool waits_for_head = true;    // false: exits with the reason if the head is unreachable

  LogLevel log_level = LogLevel::info;
  std::string log_file{};        // empty: stderr
  Duration drain_timeout = 30s;  // for running calls after SIGTERM
  RecordOptions record{};        // recordings of the cores of the agent and its executors

  // Called once, on this thread, when the head has registered the node and drivers can attach.
  std::function<void(const AgentFile&)> on_ready{};
  // Called before `on_ready`, on this thread, with the reason why the head is unreachable, and
  // again when the reason changes.
  std::function<void(const std::string& why)> on_waiting{};
  // The agent stops, as on SIGINT, when this descriptor reads end of file; not closed. -1: none.
  int life_fd = -1;
  // Called once with the reason when the exit code is not 0.
  std::function<void(const std::string& why)> on_failed{};
};

// Returns the exit code: 0 after an orderly stop, 1 after a failure (the log has the reason). The
// code is 3 if the head is unreachable and `waits_for_head` is false, and 4 if the head rejects
// this machine's key. SIGTERM lets running calls finish, SIGINT does not, and a second signal ends
// the agent at once.
int run_worker(const WorkerMainOptions& options);

// Removes files of killed agents. For programs that outlive an agent.
void remove_remains_of_dead_agents();

}  // namespace mobula::internal::worker
