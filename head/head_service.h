// Shell around HeadCore: the encrypted bus for agents and tools, the journal, port probes, and the
// clock. Converts input to events of the core and executes the commands of the core.
// Thread: owner (the thread of its event loop). The journal has its own thread.
// Not: decisions. The role of a connection follows from its key, never from the content of its
// messages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "head/core/head_core.h"
#include "head/core/records/rejection_log.h"
#include "head/heap_trim.h"
#include "head/journal/disk_journal.h"
#include "head/package_cache.h"
#include "head/service_metrics.h"
#include "protocol/recording/recorder.h"
#include "protocol/tickets/ticket.h"
#include "transport/bus/bus.h"
#include "transport/loop/event_loop.h"
#include "transport/net/name_resolver.h"
#include "transport/net/port_probe.h"

namespace mobula::internal::head {

// Returns the user id of a key in the AllowTable: "role:name". User ids of tokens come from the
// core.
std::string user_id_of(Role role, const std::string& name);
// Returns role `unproven` if the text names no role.
Principal principal_of_user(const std::string& user_id);

struct HeadServiceOptions {
  HeadOptions core;
  std::optional<CurveKeys> keys;  // none: no encryption, and the bus accepts this machine only
  AllowTable* allow = nullptr;    // required with keys; outlives the service
  // Public keys of the cluster's key files, which no token may use.
  std::set<std::string> own_keys{};
  SigningKeys signing;
  std::string journal_path;
  std::string use_ring_path{};  // database of recorded class use; empty: none
  // Directory for the files of submitted jobs; created by the first upload.
  std::string packages_dir;
  RecordOptions record;                                      // recording of the core's inputs
  std::function<std::int64_t()> wall_clock = wall_clock_ms;  // milliseconds since 1970
  std::string log_file{};  // log file of this process, for tools; empty: none
};

struct HeadServiceCallbacks {
  // The epoch is durable: the head answers agents from now on.
  std::function<void()> on_serving;
  // An attempt to make the epoch durable failed. Further attempts follow automatically.
  std::function<void(const std::string& why)> on_not_durable;
};

struct HeadCounters {
  std::uint64_t undecodable = 0;  // dropped messages that no decoder accepts
  std::uint64_t out_of_role = 0;  // dropped messages that the role of the connection may not send
};

class HeadService {
 public:
  // Opens the journal. The loop calls `callbacks`.
  static Result<std::unique_ptr<HeadService>> create(EventLoop& loop, HeadServiceOptions options,
                                                     HeadServiceCallbacks callbacks);
  // Closes the connections, then writes all queued batches of the core.
  ~HeadService();
  HeadService(const HeadService&) = delete;
  HeadService& operator=(const HeadService&) = delete;

  // Accepts connections at `address` and returns the address with its port. Errors are those of
  // Bus::bind.
  Result<std::string> bind(const std::string& address);
  // Sets the address of the head that `status` shows. Call it before start().
  void set_address(const std::string& address) { options_.core.address = address; }
  // Reads the journal, starts the core, and starts the recording if one is configured.
  Result<void> start();

  // Handles a query that arrived by another path than the bus, for example an HTTP page. `user_id`
  // is the user id of its key in the AllowTable. `callback` is called once, immediately or later,
  // unless the service ends first.
  using ReplyCallback = std::function<void(const ToolReply&)>;
  void query(const std::string& user_id, const std::string& public_key, ToolRequest request,
             ReplyCallback callback);
  // The epoch is durable: agents and tools receive replies.
  bool serving() const { return serving_; }

  const HeadCore& core() const { return *core_; }
  const HeadCounters& counters() const { return counters_; }

 private:
  HeadService(EventLoop& loop, HeadServiceOptions options, HeadServiceCallbacks callbacks);
  Result<void> open();

  void step(Event event);
  void follow_clock();
  void carry_out(std::vector<Command>& commands);
  void take_message(PeerHandle from, const PeerOrigin& origin, std::span<const std::byte> bytes);
  void take_turn(const Turn& turn);
  void set_deadline();
  Result<Principal> principal_of(const std::string& user_id, const std::string& public_key) const;
  void send_refused(PeerHandle to, const AgentToHead& message, const std::string& why);
  bool refuse(PeerHandle to, const std::string& source, std::span<const std::byte> bytes,
              const Failure& why);
  void note_refusal(const std::string& source, const std::string& what,
                    const char* kind = "MESSAGE_DROPPED");

  void carry_out(SendToAgent& command);
  void carry_out(Admit& command);
  void carry_out(RenewTicket& command);
  std::string ticket_of(const Principal& principal, const AgentAddress& address,
                        const std::string& delegated_key, const std::string& admitted_as,
                        std::int64_t expires_ms) const;
  void carry_out(ReplyToTool& command);
  void carry_out(Persist& command);
  void carry_out(ProbeNode& command);
  void carry_out(WriteLog& command);
  void carry_out(CloseLink&) {}
  // Adds the metrics of this process to a reply with those of the core.
  ReplyCallback with_own_metrics(ReplyCallback callback);
  ToolReply own_log(const ToolRequest& request) const;
  void answer_about_packages(PeerHandle from, const Principal& principal,
                             const ToolRequest& request);
  void carry_out(AdmitKey& command);
  void record_use(const AgentToHead& message);
  void send(LinkId link, std::span<const std::byte> bytes);
  void begin_probe(ProcessId incarnation, const SocketAddress& address);
  void probed(ProcessId incarnation, bool refused);
  void durable(std::uint64_t upto);
  void not_durable(std::uint64_t upto, const std::string& why);

  EventLoop& loop_;
  HeadServiceOptions options_;
  const HeadServiceCallbacks callbacks_;
  std::unique_ptr<HeadCore> core_;
  std::unique_ptr<Recorder> recorder_;
  bool serving_ = false;
  // Messages of agents before the epoch is durable, at most `max_early`. Agents resend the others.
  std::vector<ReceivedFromAgent> early_;
  HeadCounters counters_;
  RejectionLog refusals_;
  HeapTrim heap_trim_;
  ServiceMetrics metrics_;
  std::uint64_t keys_refused_ = 0;                // number of rejected keys at the last log line
  std::map<LinkId, ReplyCallback> open_queries_;  // open queries by their synthetic links
  LinkId last_query_ = LinkId{1} << 63;           // above all links of the bus
  Timer deadline_;
  NameResolver resolver_;
  std::map<ProcessId, std::unique_ptr<PortProbe>> probes_;
  PackageCache packages_;
  std::unique_ptr<Bus> bus_;
  // Shared with functions that the journal thread has posted: they may outlive the service.
  std::shared_ptr<HeadService*> self_;
  std::unique_ptr<DiskJournal> journal_;
  std::unique_ptr<UseRing> use_ring_;  // null: none
};

}  // namespace mobula::internal::head
