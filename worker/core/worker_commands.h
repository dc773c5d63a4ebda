// Commands of the agent core to its shell, with field lists so that replays can be compared. Plain
// structs, to be executed in order. The core creates no secrets: the shell fills in tickets, keys,
// tokens, and seeds.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "protocol/messages/agent_control.h"
#include "protocol/messages/local_control.h"
#include "protocol/messages/peer_control.h"
#include "worker/core/objects/spill_records.h"
#include "worker/core/transfers/bulk_command.h"
#include "worker/core/worker_events.h"

namespace mobula::internal::worker {

struct SendToHead {
  AgentToHead message;
  MOBULA_FIELDS(message);
  friend bool operator==(const SendToHead&, const SendToHead&) = default;
};

struct SendToPeer {
  AgentAddress to;
  PeerFrame frame;
  MOBULA_FIELDS(to, frame);
  friend bool operator==(const SendToPeer&, const SendToPeer&) = default;
};

// `slab`, if not empty: its descriptor travels with the message, writable for its writer and
// read-only for others. The shell seals it against further writers before the first reader receives
// it. A message whose slab failed (SlabFailed) is not sent.
struct SendToProcess {
  LinkId link = 0;
  AgentToProcess message;
  SlabId slab;
  MOBULA_FIELDS(link, message, slab);
  friend bool operator==(const SendToProcess&, const SendToProcess&) = default;
};

// Sends `reply` with a ticket for this principal, process and bus key, signed by this agent.
struct WelcomeDriver {
  LinkId link = 0;
  Principal principal;
  ProcessId process;
  std::string curve_key;
  DriverAttached reply;
  MOBULA_FIELDS(link, principal, process, curve_key, reply);
  friend bool operator==(const WelcomeDriver&, const WelcomeDriver&) = default;
};

struct CloseProcess {
  LinkId link = 0;
  MOBULA_FIELDS(link);
  friend bool operator==(const CloseProcess&, const CloseProcess&) = default;
};

// Ticket and key with which the shell signs tickets from now on.
struct UseIdentity {
  std::string ticket;
  std::string head_signing_key;
  std::vector<std::string> warnings;  // warnings of the head, for the log
  MOBULA_FIELDS(ticket, head_signing_key, warnings);
  friend bool operator==(const UseIdentity&, const UseIdentity&) = default;
};

// Rejects agents that were admitted with these keys.
struct CutKeys {
  std::vector<std::string> keys;  // newly revoked keys; see RevocationList
  MOBULA_FIELDS(keys);
  friend bool operator==(const CutKeys&, const CutKeys&) = default;
};

// Stores the files of the program of a local driver, so that other nodes can pull them.
struct AddProgram {
  std::int64_t pid = 0;  // process id of the driver
  ProgramRecord program;
  MOBULA_FIELDS(pid, program);
  friend bool operator==(const AddProgram&, const AddProgram&) = default;
};

// Prepares the program: its fork server, or the files for exec. ProgramPrepared is the reply.
struct PrepareProgram {
  ProgramRecord program;
  MOBULA_FIELDS(program);
  friend bool operator==(const PrepareProgram&, const PrepareProgram&) = default;
};

// No slot and no driver of this node uses the program.
struct ForgetProgram {
  ProgramId program;
  MOBULA_FIELDS(program);
  friend bool operator==(const ForgetProgram&, const ForgetProgram&) = default;
};

// No process of the job starts here unless a later command names it: its fork servers may exit.
struct ForgetJob {
  JobId job;
  MOBULA_FIELDS(job);
  friend bool operator==(const ForgetJob&, const ForgetJob&) = default;
};

// Starts a process of the program with the device masks of `assign.allocation` and the arguments
// and working directory of the job's driver. Its environment is that of the agent plus `job_env`
// plus `assign.demand_class.env`. Its first message is `assign`, with ticket, bus keys, local
// endpoint, resource ids, accelerator environment, and seed filled in. The reply is ExecutorStarted
// or ExecutorStartFailed. If `assign.actor` has an entry point, that command runs instead, without
// a link.
struct StartExecutor {
  SlotId slot;
  std::uint32_t generation = 0;
  ProgramId program;
  std::vector<std::string> arguments;
  std::string working_dir;
  Environment job_env;
  AssignExecutor assign;
  MOBULA_FIELDS(slot, generation, program, arguments, working_dir, job_env, assign);
  friend bool operator==(const StartExecutor&, const StartExecutor&) = default;
};

// Signals the process. ExecutorExited follows.
struct KillExecutor {
  SlotId slot;
  std::uint32_t generation = 0;
  std::string why;
  Duration grace{};  // time after SIGTERM; 0: SIGKILL at once
  MOBULA_FIELDS(slot, generation, why, grace);
  friend bool operator==(const KillExecutor&, const KillExecutor&) = default;
};

// The head has declared this incarnation dead: terminate all its processes, then start a new
// incarnation with a new core.
struct Fence {
  std::string why;
  MOBULA_FIELDS(why);
  friend bool operator==(const Fence&, const Fence&) = default;
};

// The agent exits.
struct Exit {
  int code = 0;
  std::string why;
  MOBULA_FIELDS(code, why);
  friend bool operator==(const Exit&, const Exit&) = default;
};

// A warning in the agent's log.
struct LogWarning {
  std::string text;
  MOBULA_FIELDS(text);
  friend bool operator==(const LogWarning&, const LogWarning&) = default;
};

using Command =
    std::variant<SendToHead, SendToPeer, SendToProcess, WelcomeDriver, CloseProcess, UseIdentity,
                 AddProgram, PrepareProgram, ForgetProgram, StartExecutor, KillExecutor, CreateSlab,
                 DropSlab, FetchBulk, StartFilePull, CancelBulk, OfferObject, OfferFile,
                 WithdrawBulk, Fence, Exit, ForgetJob, StartSpill, StartRestore, DropSpillFile,
                 FinishFilePull, DropFilePull, LogWarning, ReadJobLogRequest, CutKeys, LogsRequest,
                 ReadLogRequest, UsageRequest, SpansReply>;

}  // namespace mobula::internal::worker
