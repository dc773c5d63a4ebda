// The shell of one agent incarnation: owns the core, the sockets and the processes of a node,
// converts messages into events of the core, and executes the core's commands in order.
// Thread: the agent's loop, on the main thread of the process. Not: decisions about tasks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/model/accelerator_vendor.h"
#include "device/detection/gpu_probe.h"
#include "protocol/program/cluster_files.h"
#include "protocol/recording/recorder.h"
#include "transport/loop/event_loop.h"
#include "worker/core/worker_core.h"
#include "worker/head_connection.h"
#include "worker/process/watch/gpu_watch.h"
#include "worker/process/watch/usage_watch.h"
#include "worker/process_links.h"
#include "worker/program_store.h"
#include "worker/ring_table.h"
#include "worker/signer.h"
#include "worker/slot_processes.h"
#include "worker/transfers/bulk_transfers.h"
#include "worker/transfers/mapped_file.h"
#include "worker/transfers/peer_connections.h"
#include "worker/transfers/slab_files.h"
#include "worker/transfers/spill_disk.h"

namespace mobula::internal::worker {

struct ServiceOptions {
  std::string head_address;
  std::optional<KeyFile> keys;  // empty: a local head without keys
  std::string directory;        // directory of the agent, locked by the caller
  std::string runtime_dir;      // short path; sockets are created in a directory below it
  std::string cluster;
  NodeId node;
  std::string host;       // human-readable host name
  std::string release{};  // release of Mobula, human-readable
  Role role = Role::agent;
  NodeShape shape;
  std::vector<Vendor> vendors_present;  // vendors of the machine's devices, offered or not
  GpuPeers gpu_peers;                   // peer access between the GPUs
  std::string bind_host;                // address of this machine; IPv6 in brackets
  std::string advertise_host;           // address that other nodes receive instead; may be empty
  WorkerOptions core;
  PoolOptions pool;                      // environment and limits of executors
  Duration prestart_idle_timeout = 30s;  // idle time after which a prestarted executor ends
  std::size_t max_reserves = 8;  // for all programs together; beyond it the longest unused one ends
  std::size_t bulk_connections = 0;  // to each other node, a thread each; 0: by the number of cores
  Duration longest_spin = 50us;   // longest spin of a thread that waits for a local call; 0: none
  std::size_t max_rings = 1'000;  // per process, to others of its job here; 0: none
  std::optional<std::int64_t> executor_memory;  // limit for all executors together, in bytes
  std::vector<WatchedGpu> watched_gpus;         // monitored GPUs; empty: none
  std::string nvml_library;
  Duration gpu_watch_period = 1s;
  HostPaths host_paths;   // files with the machine's memory use
  std::string spill_dir;  // directory of spilled objects; empty: in `directory`
  int spill_disk_cap_percent = 95;
  std::vector<std::string> job_starter;  // program that stages a job's files; empty: none
  bool waits_for_head =
      true;  // false: ends with the reason if the head is unreachable or its handshake fails
  RecordOptions record;  // recording of the core; executors read the setting from their environment
  // Called once, when the head has registered this incarnation.
  std::function<void(const AgentFile&)> on_registered;
  // Called until then with the reason why the head is unreachable, and again when the reason
  // changes.
  std::function<void(const std::string& why)> on_waiting{};
};

// The end of an incarnation. `fenced`: start again as a new incarnation.
struct ServiceEnd {
  bool fenced = false;
  int code = 0;
  std::string why;
};

class WorkerService {
 public:
  static Result<std::unique_ptr<WorkerService>> create(EventLoop& loop, ServiceOptions options);
  // Kills the remaining processes and waits for their exit.
  ~WorkerService();
  WorkerService(const WorkerService&) = delete;
  WorkerService& operator=(const WorkerService&) = delete;

  // Begins to stop; with `drain`, running calls may finish. A second call without `drain` stops at
  // once.
  void stop(bool drain);
  bool stopping() const { return stopping_; }
  // Set when the service has ended and can be destroyed.
  const std::optional<ServiceEnd>& end() const { return end_; }

  // ---- views ------------------------------------------------------------------------------------
  const WorkerCore& core() const { return core_; }
  ProcessId incarnation() const { return incarnation_; }
  const std::string& socket_path() const { return socket_path_; }
  const AgentAddress& address() const { return address_; }

 private:
  WorkerService(EventLoop& loop, ServiceOptions options);
  Result<void> open();
  Result<void> open_sockets();
  void head_unreachable(const Failure& why);
  void waits_since(const std::string& why);
  Result<void> open_recording();
  AgentFile agent_file() const;

  void step(Event event);
  void arm();
  void sample_memory();
  void sample_gpus();
  void watch_memory_soon();  // an executor starts
  void executor_event(Event event);
  void take(LinkId link, ProcessToAgent message);
  std::string advertised(const std::string& bound) const;

  void carry_out(SendToHead& command);
  void carry_out(SendToPeer& command);
  void carry_out(SendToProcess& command);
  void carry_out(WelcomeDriver& command);
  void carry_out(CloseProcess& command);
  void carry_out(UseIdentity& command);
  void carry_out(CutKeys& command) { peers_->cut(command.keys); }
  void carry_out(AddProgram& command);
  void carry_out(PrepareProgram& command);
  void carry_out(ForgetProgram& command);
  void carry_out(ForgetJob& command);
  void carry_out(StartExecutor& command);
  void carry_out(KillExecutor& command);
  void carry_out(CreateSlab& command);
  void carry_out(DropSlab& command);
  void carry_out(FetchBulk& command);
  void carry_out(StartFilePull& command);
  void carry_out(CancelBulk& command);
  void carry_out(FinishFilePull& command);
  void carry_out(DropFilePull& command);
  void carry_out(OfferObject& command);
  void carry_out(OfferFile& command);
  void carry_out(WithdrawBulk& command);
  void carry_out(StartSpill& command);
  void carry_out(StartRestore& command);
  void carry_out(DropSpillFile& command);
  void carry_out(Fence& command);
  void carry_out(Exit& command);
  void carry_out(LogWarning& command);
  void carry_out(ReadJobLogRequest& command);
  void carry_out(LogsRequest& command);
  void carry_out(ReadLogRequest& command);
  void carry_out(UsageRequest& command);
  void carry_out(SpansReply& command);

  void add_thread_variables(const Allocation& allocation, Environment& environment) const;
  void run_entry(StartExecutor& command);
  void start_with_files(std::string hash, Environment& environment, CommandSlot& slot) const;

  std::vector<LeasedGpu> gpus_of(const AssignExecutor& assign) const;
  void complete(AssignExecutor& assign, const Environment& job_env) const;
  // Device masks of a slot with `allocation`.
  Environment masks_of(const Allocation& allocation, const Environment& call_env,
                       const Environment& job_env) const;
  ForkServerKey fork_server_key(const RunnableProgram& program, const StartExecutor& command) const;
  Result<BulkSource> bytes_at(SlabId id, std::uint64_t offset, std::uint64_t size);
  Result<BulkSpace> space_for(const FetchBulk& command);
  bool speaks_of_no_slab(const AgentToProcess& message) const;
  std::optional<Fd> slab_for(SendToProcess& command, bool& failed);

  EventLoop& loop_;
  const ServiceOptions options_;
  const ProcessId incarnation_;
  WorkerCore core_;
  std::unique_ptr<Recorder> recorder_;
  Signer signer_;
  AgentAddress address_;
  std::string sockets_dir_;
  std::string socket_path_;

  ProcessLinks links_;
  std::unique_ptr<SpinGovernor> spin_limit_;
  RingTable rings_;
  SlabFiles slabs_;
  std::unique_ptr<ProgramStore> programs_;
  std::unique_ptr<HeadConnection> head_;
  std::unique_ptr<PeerConnections> peers_;
  std::unique_ptr<BulkTransfers> bulk_;
  std::unique_ptr<SpillDisk> disk_;
  std::unique_ptr<SlotProcesses> slots_;
  Timer timer_;
  std::optional<MemoryWatch> memory_;  // present if executors are terminated under memory pressure
  Timer memory_timer_;
  Time next_memory_sample_;
  UsageWatch usage_;
  std::unique_ptr<GpuWatch> gpu_watch_;  // present if GPUs are monitored
  Timer gpu_timer_;

  // Slabs of which a process has a read-only descriptor, by their numbers in messages.
  std::map<LinkId, std::set<std::uint64_t>> readable_;

  // Program files that are being pulled, by pull.
  struct IncomingFile {
    std::string path;
    Hash128 hash;
    Result<std::shared_ptr<const MappedFile>> file;
  };
  std::map<std::uint64_t, IncomingFile> incoming_;

  std::deque<Event> events_;
  bool stepping_ = false;
  bool stopping_ = false;
  bool registered_ = false;
  std::string waits_since_;           // last reported reason
  std::int64_t failed_attempts_ = 0;  // failed attempts to reach the head since the last connection
  std::optional<ServiceEnd> end_;
};

}  // namespace mobula::internal::worker
