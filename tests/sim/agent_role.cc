#include "sim/agent_role.h"

#include "protocol/codec/messages.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {

worker::WorkerOptions agent_options(const World& world) {
  worker::WorkerOptions options;
  options.bulk_chunk_bytes = std::uint64_t{32} << 10;  // a large value has seven chunks
  options.bulk_bytes_in_flight = std::uint64_t{192} << 10;
  options.bulk_chunks_per_source = 4;
  if (world.plan().store_bytes == 0) return options;
  options.store_bytes = world.plan().store_bytes;
  options.idle_store_bytes = options.store_bytes / 8;
  options.idle_store_delay = 100ms;
  options.first_slab_bytes = options.max_slab_bytes = std::uint64_t{512} << 10;
  options.spill_file_objects = 4;
  return options;
}

Agent::Agent(World& world, Node& node)
    : Role(world, "agent" + std::to_string(node.index) + "." + std::to_string(node.incarnations),
           node.index),
      node_(node),
      core_(agent_options(world)) {
  address_.node = node.id;
  address_.incarnation = ProcessId(
      Hash128{0x41474e54, static_cast<std::uint64_t>(node.index) * 1000 + node.incarnations});
  address_.control = name() + ":1";
  address_.bulk = name() + ":2";
  address_.public_key = name();
}

void Agent::start() {
  worker::Started started;
  started.address = address_;
  started.host = "host" + std::to_string(node_.index);
  started.shape = node_.plan.shape;
  started.delegated_key = "delegated";
  started.bind_host = "host" + std::to_string(node_.index);
  world().log(*this, [] { return std::string("starts"); });
  step(std::move(started));
  dial();
  if (node_.plan.memory_mib > 0) sample_memory();
}

void Agent::crash(const std::string& why) {
  if (!alive()) return;
  world().log(*this, [&] { return "ends: " + why; });
  end();
  world().checkers().agent_ended(*this);
  if (head_ && head_->open) {
    const auto connection = std::exchange(head_, nullptr);
    world().transmit(connection->up, [&world = world(), connection] {
      if (Head* head = world.head(); head != nullptr && connection->open)
        head->link_lost(connection->link);
      connection->open = false;
    });
  }
  for (auto& [link, connection] : links_) {
    connection->open = false;
    world().transmit(connection->down,
                     [connection = connection] { connection->process->agent_lost(connection); });
  }
  for (Process* executor : std::vector<Process*>(node_.executors)) {
    EndCause cause;
    cause.kind = EndKind::killed;
    cause.text = "its agent ended";
    executor->die(cause);
  }
  world().agent_ended(*this);
}

// ---- the head ----------------------------------------------------------------------------------

void Agent::dial() {
  if (!alive() || head_) return;
  const bool reachable =
      world().head() != nullptr && !world().blocked(0, host()) && !world().blocked(host(), 0);
  if (!reachable) {
    world().kernel().after(world().user_chance().between(Duration(50ms), Duration(400ms)),
                           [this] { dial(); });
    return;
  }
  auto connection = std::make_shared<HeadConnection>();
  connection->link = world().next_link();
  connection->agent = this;
  connection->up = world().open_pipe(host(), 0, true);
  connection->down = world().open_pipe(0, host(), true);
  head_ = connection;
  world().head()->accepted(connection);
  receive([this, connection] {
    if (head_ != connection) return;
    world().trace().fold(world().now(), number(), "head link", connection->link);
    step(worker::HeadLink{true});
  });
}

void Agent::head_link_lost(const std::shared_ptr<HeadConnection>& connection) {
  if (head_ != connection) return;
  head_.reset();
  world().kernel().after(world().latency(host(), 0), [this] {
    receive([this] { step(worker::HeadLink{false}); });
    dial();
  });
}

void Agent::reset_head_link() {
  const auto connection = head_;
  if (!connection) return;
  connection->open = false;
  world().break_pipe(connection->up);
  world().break_pipe(connection->down);
  if (Head* head = world().head()) head->link_lost(connection->link);
  head_link_lost(connection);
}

void Agent::head_said(const std::shared_ptr<HeadConnection>& connection, const Bytes& bytes) {
  receive([this, connection, bytes] {
    if (head_ != connection) return;
    auto message = decode<HeadToAgent>(bytes);
    if (!message) return world().violation("codec", name() + ": " + message.error().text);
    world().trace().fold(world().now(), number(), "head", bytes);
    world().log(*this, [&] { return "<- head " + describe(*message); });
    world().checkers().agent_hears(*this, *message);
    const auto* frame = std::get_if<HeadFrame>(&*message);
    const auto* deaths = frame != nullptr && frame->frame.message
                             ? std::get_if<PeersChanged>(&**frame->frame.message)
                             : nullptr;
    if (deaths != nullptr) world().streams().deaths_reach(address_.incarnation, *deaths);
    step(worker::ReceivedFromHead{std::move(*message)});
  });
}

// No real link loses messages this way. The fault stands for a bug that loses slot messages, which
// facts must repair.
bool Agent::news_is_lost(const AgentToHead& message) {
  const auto* frame = std::get_if<AgentFrame>(&message);
  if (world().weather().news_lost == 0 || frame == nullptr || !frame->frame.message) return false;
  const auto& news = *frame->frame.message;
  const bool of_slots =
      std::holds_alternative<SlotStarted>(news) || std::holds_alternative<SlotGone>(news);
  return of_slots && world().bulk_chance().chance(400);
}

void Agent::send_head(const AgentToHead& message) {
  world().checkers().from_agent(*this, message);  // counts even if the message is lost
  if (news_is_lost(message)) {
    AgentToHead other = message;
    std::get<AgentFrame>(other).frame.message = ObjectCopies{};
    return send_head(other);
  }
  const auto connection = head_;
  if (!connection) return;
  world().log(*this, [&] { return "-> head " + describe(message); });
  world().transmit(connection->up, [&world = world(), connection, bytes = encode(message)] {
    if (Head* head = world.head(); head != nullptr && connection->open)
      head->on_bytes(connection, bytes);
  });
}

// ---- processes ---------------------------------------------------------------------------------

std::shared_ptr<LocalConnection> Agent::connect(Process& process) {
  auto connection = std::make_shared<LocalConnection>();
  connection->link = world().next_link();
  connection->agent = this;
  connection->process = &process;
  connection->up = world().open_pipe(host(), host(), false);
  connection->down = world().open_pipe(host(), host(), false);
  links_.emplace(connection->link, connection);
  return connection;
}

void Agent::process_said(const std::shared_ptr<LocalConnection>& connection,
                         const ProcessToAgent& message) {
  world().transmit(connection->up, [this, connection, bytes = encode(message)] {
    receive([this, connection, bytes] {
      auto decoded = decode<ProcessToAgent>(bytes);
      if (!decoded) return world().violation("codec", name() + ": " + decoded.error().text);
      world().trace().fold(world().now(), number(), "process", bytes);
      world().log(*this,
                  [&] { return "<- " + connection->process->name() + " " + describe(*decoded); });
      if (const auto* moved = std::get_if<ReaderMoved>(&*decoded))
        world().streams().report_reaches(address_.incarnation, connection->process->id(), *moved);
      step(worker::ReceivedFromProcess{connection->link, std::move(*decoded)});
    });
  });
}

// After a process exits, its sent messages still arrive, then the end of the connection.
void Agent::process_gone(const std::shared_ptr<LocalConnection>& connection) {
  world().transmit(connection->up, [this, connection] {
    receive([this, connection] {
      if (links_.erase(connection->link) == 0) return;
      world().trace().fold(world().now(), number(), "eof", connection->link);
      step(worker::ProcessLinkLost{connection->link});
    });
  });
}

void Agent::executor_exited(SlotId slot, std::uint32_t generation, const EndCause& cause) {
  receive([this, slot, generation, cause] {
    world().trace().fold(world().now(), number(), "exited", generation);
    world().log(*this, [&] {
      return "executor of slot " + slot.brief() + "." + std::to_string(generation) + " " +
             to_string(cause);
    });
    step(worker::ExecutorExited{slot, generation, cause});
  });
}

void Agent::send_process(worker::LinkId link, const AgentToProcess& message) {
  const auto at = links_.find(link);
  if (at == links_.end()) return;
  const auto connection = at->second;
  world().log(*this, [&] { return "-> " + connection->process->name() + " " + describe(message); });
  world().transmit(connection->down, [connection, bytes = encode(message)] {
    if (connection->open) connection->process->on_agent_message(connection, bytes);
  });
}

// ---- other agents ------------------------------------------------------------------------------

void Agent::send_peer(const worker::SendToPeer& command) {
  Agent* peer = world().agent_of(command.to.incarnation);
  if (peer == nullptr || !peer->alive()) return;
  auto& pipe = peers_[command.to.incarnation];
  if (!pipe) pipe = world().open_pipe(host(), peer->host(), true);
  world().log(*this, [&] { return "-> " + peer->name() + " " + describe(command.frame); });
  world().transmit(pipe, [peer, bytes = encode(command.frame), from = address_.incarnation] {
    peer->on_peer_message(from, bytes);
  });
}

void Agent::on_peer_message(ProcessId, const Bytes& bytes) {
  receive([this, bytes] {
    auto frame = decode<PeerFrame>(bytes);
    if (!frame) return world().violation("codec", name() + ": " + frame.error().text);
    world().trace().fold(world().now(), number(), "peer", bytes);
    world().log(*this, [&] { return "<- peer " + describe(*frame); });
    const auto& message = frame->frame.message;
    const auto* moved = message ? std::get_if<NodeReaderMoved>(&*message) : nullptr;
    if (moved != nullptr)
      world().streams().readers_reach(frame->from, address_.incarnation, *moved);
    step(worker::ReceivedFromPeer{std::move(*frame)});
  });
}

void Agent::peer_link(ProcessId incarnation, bool connected) {
  if (!connected) world().break_pipe(peers_[incarnation]);
  receive([this, incarnation, connected] { step(worker::PeerLink{incarnation, connected}); });
}

// ---- the core ----------------------------------------------------------------------------------

void Agent::take(worker::Event event) {
  receive([this, event = std::move(event)] {
    world().trace().fold(world().now(), number(), "outcome", event.index());
    step(event);
  });
}

void Agent::step(worker::Event event) {
  auto events = world().hooks().agent.taken(std::move(event));
  for (std::size_t i = 0; i < events.size(); ++i) {
    std::vector<worker::Command> commands;
    const bool of_memory = std::holds_alternative<worker::MemorySampled>(events[i]);
    core_.step(world().now(), std::move(events[i]), commands);
    for (const auto& command : commands) {
      const auto* kill = std::get_if<worker::KillExecutor>(&command);
      if (of_memory && kill != nullptr) world().checkers().ended_for_memory(*this, *kill);
      note_readers(command);
    }
    for (auto& echo : world().hooks().agent.leave(commands)) events.push_back(std::move(echo));
    for (auto& command : commands) {
      if (alive()) carry_out(command);
    }
    if (world().over() || !alive()) return;
    world().checkers().agent_stepped(*this);
  }
  arm();
}

// The agent reports readers of a stream to the home, or to the owner.
void Agent::note_readers(const worker::Command& command) {
  if (const auto* sent = std::get_if<worker::SendToProcess>(&command)) {
    if (const auto* moved = std::get_if<ReadersMoved>(&sent->message))
      world().streams().readers_sent(address_.incarnation, moved->stream, moved->taken);
  } else if (const auto* peer = std::get_if<worker::SendToPeer>(&command)) {
    const auto& message = peer->frame.frame.message;
    const auto* moved = message ? std::get_if<NodeReaderMoved>(&*message) : nullptr;
    if (moved != nullptr)
      world().streams().readers_sent(address_.incarnation, moved->stream, moved->taken);
  }
}

// Drops messages about memory that could not be allocated.
bool Agent::in_failed_slab(const worker::SendToProcess& command) const {
  const auto* reserved = std::get_if<ReserveObjectReply>(&command.message);
  const auto* readable = std::get_if<FetchObjectReply>(&command.message);
  const auto slab = reserved && !reserved->failure   ? reserved->location.slab
                    : readable && !readable->failure ? readable->location.slab
                                                     : 0;
  return slab != 0 && failed_slabs_.contains(slab);
}

void Agent::carry_out(worker::Command& command) {
  using namespace worker;
  if (auto* to_head = std::get_if<SendToHead>(&command)) return send_head(to_head->message);
  if (auto* to_peer = std::get_if<SendToPeer>(&command)) return send_peer(*to_peer);
  if (auto* to_process = std::get_if<SendToProcess>(&command)) {
    if (in_failed_slab(*to_process)) return;
    return send_process(to_process->link, to_process->message);
  }
  if (auto* welcome = std::get_if<WelcomeDriver>(&command)) {
    welcome->reply.ticket = "ticket";
    return send_process(welcome->link, welcome->reply);
  }
  if (auto* close = std::get_if<CloseProcess>(&command)) {
    const auto at = links_.find(close->link);
    if (at == links_.end()) return;
    const auto connection = at->second;
    links_.erase(at);
    connection->open = false;
    world().kernel().after(
        Duration(0), [this, link = connection->link] { take(worker::ProcessLinkLost{link}); });
    return world().transmit(connection->down, [connection = connection] {
      connection->process->agent_lost(connection);
    });
  }
  if (auto* add = std::get_if<AddProgram>(&command)) {
    for (const auto& file : add->program.files) node_.files.insert(file.hash);
  } else if (auto* ready = std::get_if<PrepareProgram>(&command)) {
    prepare(ready->program);
  } else if (auto* forget = std::get_if<ForgetProgram>(&command)) {
    programs_.erase(forget->program);
  } else if (auto* start = std::get_if<StartExecutor>(&command)) {
    fork_executor(*start);
  } else if (auto* kill = std::get_if<KillExecutor>(&command)) {
    kill_executor(*kill);
  } else if (auto* slab = std::get_if<CreateSlab>(&command)) {
    if (world().weather().slab_fails > 0 && world().bulk_chance().chance(300)) {
      failed_slabs_.insert(slab->slab.bits().low);
      const SlabFailed failed{slab->slab,
                              failure(ErrorCode::resource_exhausted, "simulated: no memory")};
      return world().kernel().after(Duration(50us), [this, failed] { take(failed); });
    }
    slabs_.insert(slab->slab);
  } else if (auto* drop = std::get_if<DropSlab>(&command)) {
    slabs_.erase(drop->slab);
    std::erase_if(arriving_,
                  [&](const auto& each) { return each.first.first == drop->slab.bits().low; });
  } else if (auto* object = std::get_if<OfferObject>(&command)) {
    offer(*object);
  } else if (auto* file = std::get_if<OfferFile>(&command)) {
    offer(*file);
  } else if (auto* bytes = std::get_if<FetchBulk>(&command)) {
    fetch(*bytes);
  } else if (auto* cancel = std::get_if<CancelBulk>(&command)) {
    chunk_ended(cancel->chunk, failure(ErrorCode::cancelled, "cancelled"));
  } else if (auto* begun = std::get_if<StartFilePull>(&command)) {
    files_[begun->pull].file = begun->file;
  } else if (auto* whole = std::get_if<FinishFilePull>(&command)) {
    finish_file(whole->pull);
  } else if (auto* unwanted = std::get_if<DropFilePull>(&command)) {
    files_.erase(unwanted->pull);
  } else if (auto* over = std::get_if<WithdrawBulk>(&command)) {
    withdraw(over->offer);
  } else if (auto* spill = std::get_if<StartSpill>(&command)) {
    write_spilled(*spill);
  } else if (auto* restore = std::get_if<StartRestore>(&command)) {
    read_spilled(*restore);
  } else if (auto* unneeded = std::get_if<DropSpillFile>(&command)) {
    node_.spilled.erase(unneeded->file);
  } else if (auto* spans = std::get_if<SpansReply>(&command)) {
    spans->wall_us = world().now().ns() / 1000;
    world().kernel().after(Duration(0), [this, report = *spans] { take(report); });
  } else if (auto* fence = std::get_if<Fence>(&command)) {
    crash("fenced: " + fence->why);
  } else if (auto* exit = std::get_if<Exit>(&command)) {
    world().violation("exit", name() + " wants to exit: " + exit->why);
  }
}

}  // namespace mobula::internal::sim
