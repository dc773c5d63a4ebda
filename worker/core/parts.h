// The parts of the agent core and their connections. Private to WorkerCore.
// Thread: owner (WorkerCore).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/tickets/revocation_list.h"
#include "protocol/version.h"
#include "worker/core/head_session.h"
#include "worker/core/objects/objects.h"
#include "worker/core/outbox.h"
#include "worker/core/peers.h"
#include "worker/core/processes.h"
#include "worker/core/programs.h"
#include "worker/core/slots/slots.h"
#include "worker/core/transfers/transfers.h"
#include "worker/core/worker_core.h"

namespace mobula::internal::worker {

struct WorkerCore::Parts {
  enum class Phase : unsigned char { created, running, stopping, ended };
  enum class LastWords : unsigned char { none, due, said };
  static constexpr std::uint64_t max_last_words = 1024;  // transfers in the last report before exit

  explicit Parts(WorkerOptions options);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // ---- events -----------------------------------------------------------------------------------
  void on(Started& event);
  void on(HeadLink& event) { head.link(event.connected); }
  void on(ReceivedFromHead& event);
  void on(ProcessConnected& event);
  void on(ReceivedFromProcess& event);
  void on(ProcessLinkLost& event);
  void on(ReceivedFromPeer& event);
  void on(PeerLink& event);
  void on(ExecutorStarted& event) { slots.started(event); }
  void on(ExecutorStartFailed& event) { slots.start_failed(event); }
  void on(ExecutorExited& event) { slots.exited(event); }
  void on(ExecutorPrinted& event);
  void on(ProgramPrepared& event);
  void on(SlabFailed& event) { objects->slab_failed(event); }
  void on(ChunkFetched& event) { transfers.fetched(event); }
  void on(PullFinished& event) { transfers.finished(event); }
  void on(BulkOffered& event) { transfers.offered(event); }
  void on(BulkServed& event) { transfers.served(event.offer); }
  void on(SpillFinished& event) { objects->spilled(event); }
  void on(RestoreFinished& event) { objects->restored(event); }
  void on(Paused& event);
  void on(Stop& event);
  void on(Tick& event);
  void on(MemorySampled& event);
  void on(GpuMemorySampled& event) { slots.sampled(event); }
  void on(ReadJobLogReply& event) { head.tell(std::move(event)); }
  void on(LogsReply& event) { head.tell(std::move(event)); }
  void on(ReadLogReply& event) { head.tell(std::move(event)); }
  void on(UsageReply& event);
  void on(SpansReply& event);

  // ---- messages of the head ---------------------------------------------------------------------
  void admitted(RegisterReply& registered);
  // States all facts that the head may have missed in this session.
  void state_facts();
  void restate();
  void refused(const RegisterRejected& refused);
  void on(StartSlot& message) { slots.start(std::move(message)); }
  void on(StopSlot& message) { slots.stop(message); }
  void on(ToProcess& message);
  void on(JobEnded& message);
  void on(PeersChanged& message);
  void on(KeysRevoked& message) { trust({}, message.keys); }
  // Adopts the agent's new ticket, if not empty, and adds `revoked_keys` to the revocation list.
  void trust(const std::string& own_ticket, const std::vector<std::string>& revoked_keys);
  void on(LocateObjectReply& message) { objects->located(message); }
  void on(JobOutputLines& message);
  void on(JobFinished& message);
  void on(ObjectsRequest& message);
  void on(FactsRequest&) { state_facts(); }
  void on(ReadJobLogRequest& message) { outbox.emit(std::move(message)); }
  void on(LogsRequest& message) { outbox.emit(std::move(message)); }
  void on(ReadLogRequest& message) { outbox.emit(std::move(message)); }
  void on(UsageRequest& message) { outbox.emit(std::move(message)); }
  void on(TransfersRequest& message);
  TransfersReply transfers_reply(const TransfersRequest& query) const;
  void on(SpansRequest& message);
  void send_spans(const SpansRequest& query);
  void node_died(NodeId node);
  // Sends to the attached drivers of the job.
  void notify_drivers(JobId job, const AgentToProcess& message);

  // ---- messages of processes --------------------------------------------------------------------
  void attach(ProcessRow& row, AttachDriver& message);
  void on(ProcessRow& row, AttachDriver& message);
  void on(ProcessRow& row, ExecutorReady& message);
  void on(ProcessRow& row, ForHead& message);
  void on(ProcessRow& row, ReserveObjectRequest& message);
  void on(ProcessRow& row, SealObjectRequest& message);
  void on(ProcessRow& row, ExportObject& message);
  void on(ProcessRow& row, HoldObjectRequest& message);
  void on(ProcessRow& row, ReleaseObject& message);
  void on(ProcessRow& row, ReaderMoved& message) { objects->reader_moved(row.process, message); }
  void on(ProcessRow& row, FetchObjectRequest& message);
  void on(ProcessRow& row, CancelFetch& message);
  void on(ProcessRow& row, UnpinReply& message) { objects->unpinned(row.process, message); }
  void on(ProcessRow& row, ExecutorBlocked& message);
  void on(ProcessRow& row, ExecutorRetires& message);
  void on(ProcessRow& row, ExecutorResident& message);
  void on(ProcessRow& row, ConstructorFinished& message);
  void on(ProcessRow& row, RunningNow& message);
  void on(ProcessRow& row, UnmapSlabReply& message);
  // Rings belong to the shell and carry the same messages as sockets.
  void on(ProcessRow&, OpenRingRequest&) {}
  void on(ProcessRow&, RingClosed&) {}

  // ---- parts of a step --------------------------------------------------------------------------
  void process_began(ProcessId process, const Principal& principal);
  void process_gone(ProcessId process, const EndCause& cause);
  void report_end(ProcessEnded ended);
  void finish_step();
  void end_if_stopped();
  void end_drain_if_due();
  bool gives_time_to_others();
  bool has_last_words();
  void report_head_status();
  void greet(ProcessId process);
  Facts facts() const;
  std::optional<Time> fence_at() const;
  std::optional<Time> next_deadline() const;

  WorkerOptions options;
  Outbox outbox;
  HeadSession head;
  Processes processes;
  Peers peers;
  Transfers transfers;
  Programs programs;
  Slots slots;
  std::optional<Objects> objects;  // present from Started on
  Phase phase = Phase::created;
  std::vector<std::pair<LinkId, AttachDriver>> waiting_drivers;  // wait for the first registration
  RevocationList revoked_keys;
  std::size_t visited = 0;  // rows, by the last step, to find the next deadline
  bool reported_connected = false;
  std::uint64_t reported_epoch = 0;
  std::optional<Time> farewell_by;
  LastWords last_words = LastWords::none;
  std::optional<Time> drain_until;         // stopping: deadline for the head to move the work away
  std::optional<Time> others_notified_by;  // stopping: deadline for the head to notify all nodes
  bool others_copy = false;                // stopping: other nodes copy objects off this node
  Time search_others_at;
  std::uint64_t output_dropped = 0;  // output lines dropped since the last report
};

}  // namespace mobula::internal::worker
