// The shell around the head's core: one encrypted bus for agents and tools, the journal, probes of
// ports and the clock. Turns what happens into events of HeadCore, and carries out its commands.
// What a connection may say follows from the role of its key, never from what it says. Decides
// nothing.
//
// For the thread of its loop alone; the journal has a thread of its own.
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
#include "head/core/refusal_log.h"
#include "head/journal.h"
#include "head/package_shelf.h"
#include "protocol/recorder.h"
#include "protocol/ticket.h"
#include "transport/bus.h"
#include "transport/event_loop.h"
#include "transport/name_resolver.h"
#include "transport/port_probe.h"

namespace mobula::internal::head {

// The AllowTable's user id for a key: "role:name"; keys of tokens are known to the core.
std::string user_id_of(Role role, const std::string& name);
// Unproven for a text that names no role.
Principal principal_of_user(const std::string& user_id);

struct HeadServiceOptions {
  HeadOptions core;
  std::optional<CurveKeys> keys;  // none: no encryption; the bus then stays on this machine
  AllowTable* allow = nullptr;    // needed with keys; outlives the service
  std::set<std::string> own_keys{};  // public ones of the cluster's key files, which no token takes over
  SigningKeys signing;
  std::string journal_path;
  std::string packages_folder;  // of the files of submitted jobs; made when the first come
  RecordOptions record;  // of what the core is told
  std::function<std::int64_t()> wall_clock = wall_clock_ms;  // milliseconds since 1970
  std::string log_file{};  // that this process writes, for tools; empty: none
};

struct HeadServiceCallbacks {
  // The epoch is durable: agents are answered from now on.
  std::function<void()> on_serving;
  // The epoch could not be made durable at the first attempt; further ones follow by themselves.
  std::function<void(const std::string& why)> on_not_durable;
};

struct HeadCounters {
  std::uint64_t undecodable = 0;  // messages that are none; dropped
  std::uint64_t out_of_role = 0;  // messages that the connection's role may not send; dropped
};

class HeadService {
 public:
  // Opens the journal. `callbacks` come from the loop.
  static Result<std::unique_ptr<HeadService>> create(EventLoop& loop, HeadServiceOptions options,
                                                     HeadServiceCallbacks callbacks);
  // Ends connections; what the core wanted durable is written before.
  ~HeadService();
  HeadService(const HeadService&) = delete;
  HeadService& operator=(const HeadService&) = delete;

  // Takes connections at `address` and returns it with its port. Failures as of Bus::bind.
  Result<std::string> bind(const std::string& address);
  // What `status` shows as the head's address. Before start().
  void set_address(const std::string& address) { options_.core.address = address; }
  // Reads the journal and begins to work, and to record if it is to.
  Result<void> start();

  // A question of somebody who has come by another way than the bus, such as a page of HTTP, and whose
  // key the table of keys knows as `user_id`. `told` is called once, now or later, unless the service
  // ends before.
  using Told = std::function<void(const ToolReply&)>;
  void ask(const std::string& user_id, const std::string& public_key, ToolRequest request, Told told);
  // The epoch is durable: agents and tools are answered.
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
  void note_refusal(const std::string& source, const std::string& what, const char* kind = "MESSAGE_DROPPED");

  void carry_out(SendAgent& command);
  void carry_out(Admit& command);
  void carry_out(RenewTicket& command);
  std::string ticket_of(const Principal& principal, const AgentAddress& address, const std::string& delegated_key,
                        const std::string& admitted_as, std::int64_t expires_ms) const;
  void carry_out(ReplyTool& command);
  void carry_out(Persist& command);
  void carry_out(ProbeNode& command);
  void carry_out(WriteLog& command);
  void carry_out(CloseLink&) {}
  ToolReply own_log(const ToolRequest& request) const;
  void answer_about_packages(PeerHandle from, const Principal& principal, const ToolRequest& request);
  void carry_out(AdmitKey& command);
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
  // From agents before the epoch is durable, so that they need not ask again; beyond max_early they
  // do.
  std::vector<AgentSaid> early_;
  HeadCounters counters_;
  RefusalLog refusals_;
  std::uint64_t keys_refused_ = 0;  // those of which the log knows
  std::map<LinkId, Told> asked_;  // by the links that were made up for them
  LinkId last_asked_ = LinkId{1} << 63;  // above all of the bus
  Timer deadline_;
  NameResolver resolver_;
  std::map<ProcessId, std::unique_ptr<PortProbe>> probes_;
  PackageShelf packages_;
  std::unique_ptr<Bus> bus_;
  // Functions that the journal's thread has posted may outlive the service.
  std::shared_ptr<HeadService*> self_;
  std::unique_ptr<DiskJournal> journal_;
};

}  // namespace mobula::internal::head
