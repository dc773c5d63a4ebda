#include "head/head_service.h"

#include <fmt/format.h>

#include <utility>

#include "base/logging/log.h"
#include "base/logging/rotated_log.h"
#include "base/random.h"
#include "base/slow_step.h"
#include "head/core/message_dispatch.h"
#include "protocol/codec/messages.h"
#include "protocol/messages/core_records.h"
#include "protocol/tickets/roles.h"
#include "protocol/tickets/verbs.h"
#include "transport/net/address.h"

namespace mobula::internal::head {
namespace {

constexpr std::int64_t clock_tolerance_ms = 1000;
constexpr Duration probe_timeout = 1s;
constexpr Duration farewell_timeout = 100ms;  // for replies in flight when the head stops

constexpr std::size_t max_targets = 1024;
constexpr std::string_view token_prefix_of_users = "token:";

constexpr std::size_t max_early = 10'000;

constexpr Role key_roles[] = {Role::agent, Role::driver_agent, Role::observer, Role::metrics,
                              Role::operator_};

// The key of a driver also admits the agent of that driver, which has no slots.
Principal as_agent(Principal principal) {
  if (principal.role == Role::driver) principal.role = Role::driver_agent;
  return principal;
}

}  // namespace

std::string user_id_of(Role role, const std::string& name) {
  return std::string(to_string(role)) + ":" + name;
}

Principal principal_of_user(const std::string& user_id) {
  const auto colon = user_id.find(':');
  if (colon == std::string::npos) return {};
  for (const Role role : key_roles) {
    if (user_id.compare(0, colon, to_string(role)) == 0) {
      return Principal{role, user_id.substr(colon + 1), {}};
    }
  }
  return {};
}

HeadService::HeadService(EventLoop& loop, HeadServiceOptions options,
                         HeadServiceCallbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      metrics_(options_.wall_clock()),
      deadline_(loop, [this] { step(Tick{}); }),
      resolver_(loop),
      packages_(options_.packages_dir,
                [this](const std::string& name) { return !core_ || core_->needs_files(name); }),
      self_(std::make_shared<HeadService*>(this)) {}

Result<std::unique_ptr<HeadService>> HeadService::create(EventLoop& loop,
                                                         HeadServiceOptions options,
                                                         HeadServiceCallbacks callbacks) {
  std::unique_ptr<HeadService> service(
      new HeadService(loop, std::move(options), std::move(callbacks)));
  if (auto opened = service->open(); !opened) return opened.error();
  return service;
}

Result<void> HeadService::open() {
  // The journal thread posts its results to the loop. `self` is empty after the service has ended.
  const auto hand_over = [&loop = loop_, self = self_](auto answer) {
    const auto posted = loop.post([self, answer] {
      if (*self != nullptr) answer(**self);
    });
    if (!posted) log_error("a reply of the journal is lost: {}", posted.error().text);
  };
  JournalCallbacks callbacks;
  callbacks.persisted = [hand_over](std::uint64_t upto) {
    hand_over([upto](HeadService& service) { service.durable(upto); });
  };
  callbacks.failed = [hand_over](std::uint64_t upto, const std::string& why) {
    hand_over([upto, why](HeadService& service) { service.not_durable(upto, why); });
  };
  auto journal = DiskJournal::open(options_.journal_path, std::move(callbacks));
  if (!journal) return journal.error();
  journal_ = std::move(journal).value();

  if (!options_.use_ring_path.empty()) {
    auto ring = UseRing::open(options_.use_ring_path, {});
    if (!ring) {
      log_warn("class use is not recorded: {}", ring.error().text);
    } else {
      use_ring_ = std::move(ring).value();
    }
  }

  BusOptions bus_options;
  bus_options.keys = options_.keys;
  bus_options.allow = options_.allow;
  BusCallbacks bus_callbacks;
  bus_callbacks.on_message = [this](PeerHandle from, const PeerOrigin& origin,
                                    std::span<const std::byte> bytes) {
    take_message(from, origin, bytes);
  };
  bus_callbacks.on_gone = [this](PeerHandle peer, const Failure&) {
    step(AgentLinkLost{peer.value});
  };
  bus_callbacks.on_closed = [this](const std::string& source, const std::string& why) {
    note_refusal(source, "connection closed: " + why, "CONNECTION_REFUSED");
  };
  auto bus = Bus::create(loop_, std::move(bus_options), std::move(bus_callbacks));
  if (!bus) return bus.error();
  bus_ = std::move(bus).value();
  return {};
}

HeadService::~HeadService() {
  loop_.set_turn_observer({});
  if (bus_) bus_->close(farewell_timeout);
  journal_.reset();
  *self_ = nullptr;
}

Result<std::string> HeadService::bind(const std::string& address) { return bus_->bind(address); }

Result<void> HeadService::start() {
  auto rows = journal_->rows();
  if (!rows) return rows.error();
  if (options_.allow != nullptr) keys_refused_ = options_.allow->refused();
  const Hash128 epoch_id = random_bits();
  RecordingHeader header;
  header.core = header.role = "head";
  header.incarnation = epoch_id;
  header.options = CoreRecords<HeadCore>::encode_options(options_.core);
  auto recorder = Recorder::start(options_.record, std::move(header));
  if (!recorder) return recorder.error();
  recorder_ = std::move(*recorder);
  core_ = std::make_unique<HeadCore>(options_.core);
  loop_.set_turn_observer([this](const Turn& turn) { take_turn(turn); });
  step(Started{std::move(rows).value(), epoch_id, options_.wall_clock()});
  return {};
}

// ---- events ------------------------------------------------------------------------------------

void HeadService::step(Event event) {
  if (!core_) return;  // not started: no reply is due
  if (!std::holds_alternative<Started>(event)) follow_clock();
  std::vector<Command> commands;
  const EventKind kind(event);
  const Time began = monotonic_now();
  step_recorded(*core_, recorder_.get(), began, std::move(event), commands);
  if (const auto line = slow_step_line("head", kind, monotonic_now() - began))
    log_warn("{}", *line);
  carry_out(commands);
  heap_trim_.maybe(began);
}

void HeadService::carry_out(std::vector<Command>& commands) {
  for (auto& command : commands) {
    std::visit([this](auto& each) { carry_out(each); }, command);
  }
  set_deadline();
}

// The clock of the core stops while the machine sleeps, but the expiry of tokens is a date.
void HeadService::follow_clock() {
  const Time now = monotonic_now();
  const std::int64_t wall_ms = options_.wall_clock();
  if (std::abs(wall_ms - core_->wall_ms(now)) <= clock_tolerance_ms) return;
  std::vector<Command> commands;
  step_recorded(*core_, recorder_.get(), now, ClockMoved{wall_ms}, commands);
  carry_out(commands);
}

void HeadService::set_deadline() {
  if (const auto due = core_->next_deadline()) {
    deadline_.arm(*due);
  } else {
    deadline_.disarm();
  }
}

void HeadService::take_turn(const Turn& turn) {
  metrics_.turn(turn.gap);
  if (turn.gap > peer_gap_threshold) step(Paused{turn.gap});
  if (core_) follow_clock();
  if (options_.allow == nullptr) return;
  // A connection that its handshake rejects never reaches this class.
  if (const auto refused = options_.allow->refused(); refused != keys_refused_) {
    keys_refused_ = refused;
    note_refusal("handshake",
                 fmt::format("{} keys that are not admitted, the last one {}", refused,
                             options_.allow->counters().last_refused),
                 "CONNECTION_REFUSED");
  }
}

Result<Principal> HeadService::principal_of(const std::string& user_id,
                                            const std::string& public_key) const {
  if (user_id.starts_with(token_prefix_of_users)) {
    return core_->principal_of(public_key, monotonic_now());
  }
  return principal_of_user(user_id);
}

// Without keys, all peers are on this machine and their claims are accepted.
void HeadService::take_message(PeerHandle from, const PeerOrigin& origin,
                               std::span<const std::byte> bytes) {
  if (!origin.accepted || !core_) return;
  follow_clock();
  const bool keyless = !options_.keys.has_value();
  const auto known = keyless ? Result<Principal>(Principal{Role::agent, "local", {}})
                             : principal_of(origin.user_id, origin.public_key);
  if (!known) {
    if (!refuse(from, origin.user_id, bytes, known.error())) ++counters_.undecodable;
    return;
  }
  if (auto message = decode<AgentToHead>(bytes)) {
    ReceivedFromAgent said{from.value, as_agent(*known), std::move(*message),
                           keyless ? "local" : origin.user_id};
    if (!may_send(said.principal.role, said.message)) {
      ++counters_.out_of_role;
      // Replies immediately: otherwise the program would wait for a reply until its timeout.
      if (std::holds_alternative<RegisterRequest>(said.message)) {
        send_refused(
            from, said.message,
            fmt::format("a key of role {} brings no program and no machine in: a program needs the "
                        "cluster's key file <state directory>/<cluster>/<cluster>.key, or a token "
                        "of `mobula token create --role driver`",
                        to_string(known->role)));
      }
      return note_refusal(origin.user_id, "only agents may send that message");
    }
    record_use(said.message);
    if (serving_) return step(std::move(said));
    if (early_.size() < max_early) early_.push_back(std::move(said));
    return;
  }
  if (auto request = decode<ToolRequest>(bytes)) {
    Principal principal = *known;
    if (keyless) principal.role = Role::operator_;
    if (speaks_with(request->version, request->oldest) && request->verb == "head_log" &&
        may_use(principal.role, request->verb)) {
      return send(from.value, encode(own_log(*request)));
    }
    if (speaks_with(request->version, request->oldest) &&
        PackageCache::is_about_packages(request->verb)) {
      return answer_about_packages(from, principal, *request);
    }
    return step(ReceivedFromTool{from.value, std::move(principal), std::move(*request),
                                 keyless ? "local" : origin.user_id});
  }
  ++counters_.undecodable;
  note_refusal(origin.user_id,
               fmt::format("a message of {} bytes does not belong to this protocol", bytes.size()));
}

// Reports of owners are totals, so a repeated frame changes nothing.
void HeadService::record_use(const AgentToHead& message) {
  const auto* const frame = std::get_if<AgentFrame>(&message);
  if (!use_ring_ || frame == nullptr || !frame->frame.message) return;
  const AgentMessage& content = *frame->frame.message;
  const auto* const report = std::get_if<FromProcess>(&content);
  const auto* const use = report ? std::get_if<ClassUse>(&report->message) : nullptr;
  if (use == nullptr) return;
  use_ring_->add({options_.wall_clock(), report->process, report->principal.job, *use});
}

void HeadService::send_refused(PeerHandle to, const AgentToHead& message, const std::string& why) {
  const ProcessId incarnation = std::visit(
      []<class Each>(const Each& each) {
        if constexpr (std::is_same_v<Each, RegisterRequest>)
          return each.address.incarnation;
        else
          return each.incarnation;
      },
      message);
  send(to.value, encode(HeadToAgent(
                     RegisterRejected{core_->epoch(), incarnation, RefusalCode::permission, why})));
}

// Sends the state of its token to a rejected peer. Returns false if its message cannot be decoded.
bool HeadService::refuse(PeerHandle to, const std::string& source, std::span<const std::byte> bytes,
                         const Failure& why) {
  note_refusal(source, why.text);
  if (const auto message = decode<AgentToHead>(bytes)) {
    send_refused(to, *message, why.text);
    return true;
  }
  const auto request = decode<ToolRequest>(bytes);
  if (!request) return false;
  ToolReply reply;
  reply.request = request->request;
  reply.ok = false;
  reply.code = why.code;
  reply.text = why.text;
  send(to.value, encode(reply));
  return true;
}

void HeadService::note_refusal(const std::string& source, const std::string& what,
                               const char* kind) {
  if (const auto unsaid = refusals_.refused(monotonic_now(), source)) {
    log_warn("refused '{}': {}; {} refused since the line before, {} in all", source, what, *unsaid,
             refusals_.count());
    if (core_) step(Noticed{kind, source, what});
  }
}

void HeadService::query(const std::string& user_id, const std::string& public_key,
                        ToolRequest request, ReplyCallback callback) {
  ToolReply refusal;
  refusal.ok = false;
  if (core_) follow_clock();
  const auto principal =
      core_ ? principal_of(user_id, public_key)
            : Result<Principal>(failure(ErrorCode::unavailable, "the head is starting"));
  if (!principal || open_queries_.size() >= max_targets) {
    refusal.code = principal ? ErrorCode::resource_exhausted : principal.error().code;
    refusal.text = principal ? fmt::format("{} questions are open; try again", max_targets)
                             : principal.error().text;
    return callback(refusal);
  }
  if (request.verb == "head_log" && may_use(principal->role, request.verb))
    return callback(own_log(request));
  const LinkId link = ++last_query_;
  request.version = own_protocol.newest;
  request.oldest = own_protocol.oldest;
  if (request.verb == "metrics") callback = with_own_metrics(std::move(callback));
  open_queries_.emplace(link, std::move(callback));
  step(ReceivedFromTool{link, *principal, std::move(request), user_id});
}

HeadService::ReplyCallback HeadService::with_own_metrics(ReplyCallback callback) {
  return [this, callback = std::move(callback)](const ToolReply& reply) {
    if (!reply.ok) return callback(reply);
    const RejectedCounts core = core_->rejected();
    ToolReply whole = reply;
    whole.json += metrics_.text({.undecodable = counters_.undecodable,
                                 .out_of_role = counters_.out_of_role + core.requests,
                                 .class_use = core.class_use_rows},
                                use_ring_ ? use_ring_->state() : UseRingState());
    callback(whole);
  };
}

// Replies directly, because the core does not need these bytes. Nodes read the files that
// submitters upload.
void HeadService::answer_about_packages(PeerHandle from, const Principal& principal,
                                        const ToolRequest& request) {
  if (may_use(principal.role, request.verb))
    return send(from.value, encode(packages_.answer(request)));
  ToolReply reply;
  reply.request = request.request;
  reply.ok = false;
  reply.code = ErrorCode::permission_denied;
  reply.text = may_not(request.verb, principal);
  note_refusal(principal.name, reply.text);
  send(from.value, encode(reply));
}

// Returns a chunk of the head's log. The core does not know this log.
ToolReply HeadService::own_log(const ToolRequest& request) const {
  constexpr std::uint64_t log_chunk_bytes = 128u << 10;
  ToolReply reply;
  reply.request = request.request;
  const auto refuse = [&](ErrorCode code, std::string why) {
    reply.ok = false;
    reply.code = code;
    reply.text = std::move(why);
    return reply;
  };
  const auto position = parse_log_position(request.kind);
  if (!position) return refuse(ErrorCode::invalid_argument, "head_log: " + position.error().text);
  const std::string& path = options_.log_file;
  if (path.empty())
    return refuse(ErrorCode::not_found,
                  "the head writes its log to its stderr: it was started with --block");
  const auto read = read_log({path, rotated_log_path(path)}, *position, log_chunk_bytes);
  if (!read) return refuse(read.error().code, "head_log: " + read.error().text);
  reply.json = fmt::format(
      R"({{"apiVersion":"mobula/v1","kind":"ReadLogReply","next":"{}","left":{},"lost":{},"open":true}})",
      to_string(read->next), read->left, read->lost);
  reply.bytes = Payload(read->bytes);
  return reply;
}

// ---- commands ----------------------------------------------------------------------------------

// A message that cannot be queued counts as lost in transit: the session resends it.
void HeadService::send(LinkId link, std::span<const std::byte> bytes) {
  if (auto sent = bus_->send(PeerHandle{link}, bytes); !sent) {
    log_debug("not sent over link {}: {}", link, sent.error().text);
  }
}

void HeadService::carry_out(SendToAgent& command) { send(command.link, encode(command.message)); }

std::string HeadService::ticket_of(const Principal& principal, const AgentAddress& address,
                                   const std::string& delegated_key, const std::string& admitted_as,
                                   std::int64_t expires_ms) const {
  Ticket ticket;
  ticket.principal = principal;
  ticket.process = address.incarnation;
  ticket.node = address.node;
  ticket.curve_key = address.public_key;
  ticket.delegated_key = delegated_key;
  ticket.expires_ms = expires_ms;
  ticket.admitted_as = admitted_as;
  return sign_ticket(ticket, options_.signing);
}

void HeadService::carry_out(Admit& command) {
  command.registered.ticket = ticket_of(command.principal, command.address, command.delegated_key,
                                        command.admitted_as, command.expires_ms);
  command.registered.head_signing_key = options_.signing.public_key;
  log_info("node {} has registered from {}", command.address.node.hex(), command.address.control);
  for (const auto& warning : command.registered.warnings) {
    log_warn("node {}: {}", command.address.node.hex(), warning);
  }
  send(command.link, encode(HeadToAgent(std::move(command.registered))));
}

void HeadService::carry_out(RenewTicket& command) {
  send(command.link, encode(HeadToAgent(TicketRenewed{
                         command.epoch, command.address.incarnation,
                         ticket_of(command.principal, command.address, command.delegated_key,
                                   command.admitted_as, command.expires_ms)})));
}

void HeadService::carry_out(ReplyToTool& command) {
  const auto found = open_queries_.find(command.link);
  if (found == open_queries_.end()) return send(command.link, encode(command.reply));
  const ReplyCallback callback = std::move(found->second);
  open_queries_.erase(found);
  callback(command.reply);
}

void HeadService::carry_out(AdmitKey& command) {
  if (options_.allow == nullptr) return;  // without keys all connections are accepted
  if (options_.own_keys.contains(command.public_key))
    return log_warn("a token names a key of the cluster itself; nothing is changed");
  if (command.user_id.empty()) {
    options_.allow->remove(command.public_key);
  } else if (auto done = options_.allow->allow(command.public_key, command.user_id); !done) {
    log_warn("{}", done.error().text);
  }
}

void HeadService::carry_out(Persist& command) {
  metrics_.commit_began(command.n, monotonic_now());
  journal_->write(std::move(command));
}

void HeadService::carry_out(ProbeNode& command) {
  const ProcessId incarnation = command.incarnation;
  const auto address = Address::parse(command.address);
  if (!address) return probed(incarnation, false);
  if (const auto numeric = address->numeric()) return begin_probe(incarnation, *numeric);
  const auto found = resolver_.resolve(*address, [this, incarnation](Result<SocketAddress> found) {
    if (found) {
      begin_probe(incarnation, *found);
    } else {
      probed(incarnation, false);
    }
  });
  if (!found) probed(incarnation, false);
}

void HeadService::carry_out(WriteLog& command) { log_info("{}", command.text); }

void HeadService::begin_probe(ProcessId incarnation, const SocketAddress& address) {
  probes_[incarnation] =
      std::make_unique<PortProbe>(loop_, address, probe_timeout, [this, incarnation](auto outcome) {
        probes_.erase(incarnation);
        probed(incarnation, outcome == ProbeOutcome::refused);
      });
}

// Posts the result, because a probe may end within the step that requested it.
void HeadService::probed(ProcessId incarnation, bool refused) {
  const auto posted = loop_.post([self = self_, incarnation, refused] {
    if (*self != nullptr) (*self)->step(NodeProbed{incarnation, refused});
  });
  if (!posted) log_warn("the reply of a probe is lost: {}", posted.error().text);
}

// ---- results of the journal ---------------------------------------------------------------------

void HeadService::durable(std::uint64_t upto) {
  metrics_.committed(upto, monotonic_now());
  step(Persisted{upto});
  if (serving_) return;
  serving_ = true;  // the first batch is the epoch
  for (auto& said : std::exchange(early_, {})) step(std::move(said));
  if (callbacks_.on_serving) callbacks_.on_serving();
}

void HeadService::not_durable(std::uint64_t upto, const std::string& why) {
  log_error("{}", why);
  metrics_.commit_failed(upto);
  step(PersistFailed{upto, why});
  if (!serving_ && callbacks_.on_not_durable) callbacks_.on_not_durable(why);
}

}  // namespace mobula::internal::head
