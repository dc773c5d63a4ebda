#include "sim/head_role.h"

#include "protocol/codec/messages.h"
#include "sim/agent_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {
namespace {

void write(World& world, const head::Persist& batch) {
  for (const auto& change : batch.changes) {
    const std::pair key{change.table, change.key};
    if (!change.erase) {
      world.disk()[key] = change.value;
    } else if (world.disk().erase(key) > 0) {
      world.checkers().row_erased(change.table, change.key);
    }
  }
}

}  // namespace

namespace {

constexpr Duration status_interval = 1s;
constexpr std::uint64_t status_request = ~std::uint64_t{0};

head::HeadOptions options_of(const World& world) {
  head::HeadOptions options;
  options.preempt_delay = world.plan().preempt_delay;
  options.driver_absence = 15s;  // histories end within limits of virtual time
  options.settings.trusted_fabric = world.plan().trusted_fabric;
  return options;
}

}  // namespace

Head::Head(World& world, std::uint64_t life)
    : Role(world, "head", 0), core_(options_of(world)), life_(life) {}

void Head::start() {
  head::Started started;
  for (const auto& [key, value] : world().disk()) {
    started.rows.push_back({key.first, key.second, value});
  }
  started.epoch_id = Hash128{0x48454144, life_};
  world().log(*this,
              [&] { return "starts with " + std::to_string(started.rows.size()) + " rows"; });
  step(std::move(started));
  read_status();
}

// Reads the status like a tool, at regular intervals.
void Head::read_status() {
  world().kernel().after(status_interval, [this] {
    if (!alive() || world().over()) return;
    receive([this] {
      ToolRequest request;
      request.request = status_request;
      request.verb = "status";
      step(head::ReceivedFromTool{0, Principal{internal::Role::operator_, "tool", {}},
                                  std::move(request)});
    });
    read_status();
  });
}

void Head::crash() {
  world().log(*this, [] { return std::string("crashes"); });
  end();
  // A write in progress may or may not have reached the disk.
  if (committing_ && !to_commit_.empty() && world().disk_chance().chance(500)) {
    write(world(), to_commit_.front());
  }
  world().checkers().head_crashed();
  for (auto& [link, connection] : links_) {
    world().break_pipe(connection->up);
    world().break_pipe(connection->down);
    connection->open = false;
    connection->agent->head_link_lost(connection);
  }
  world().head_ended();
}

void Head::accepted(const std::shared_ptr<HeadConnection>& connection) {
  links_.emplace(connection->link, connection);
}

void Head::on_bytes(const std::shared_ptr<HeadConnection>& connection, const Bytes& bytes) {
  receive([this, connection, bytes] {
    if (!links_.contains(connection->link)) return;
    auto message = decode<AgentToHead>(bytes);
    if (!message) return world().violation("codec", "head: " + message.error().text);
    world().trace().fold(world().now(), number(), "agent", bytes);
    world().log(*this,
                [&] { return "<- " + connection->agent->name() + " " + describe(*message); });
    Principal principal{internal::Role::agent, connection->agent->name(), {}};
    world().checkers().head_hears(*message);
    world().reports().head_received(*message);
    world().use().head_received(*message);
    step(head::ReceivedFromAgent{connection->link, principal, std::move(*message)});
  });
}

void Head::drain(NodeId node, ProcessId incarnation) { order("drain", node, {incarnation, false}); }
void Head::undrain(NodeId node, ProcessId incarnation) {
  order("undrain", node, {incarnation, true});
}

void Head::order(const char* verb, NodeId node, Order order) {
  receive([this, verb, node, order] {
    ToolRequest request;
    request.request = orders_.size() + 1;
    request.verb = verb;
    request.argument = node.hex();
    orders_[request.request] = order;
    // A late reply to an earlier order no longer carries information.
    for (auto& [number, before] : orders_) {
      if (before.back != order.back && before.incarnation == order.incarnation)
        before.incarnation = {};
    }
    world().checkers().drain_ordered(order.incarnation);
    world().trace().fold(world().now(), number(), verb, node.bits().low);
    world().log(*this, [&] { return std::string("<- ") + verb + " " + node.brief(); });
    step(head::ReceivedFromTool{0, Principal{internal::Role::operator_, "tool", {}},
                                std::move(request)});
  });
}

void Head::link_lost(head::LinkId link) {
  receive([this, link] {
    if (links_.erase(link) == 0) return;
    world().trace().fold(world().now(), number(), "link lost", link);
    step(head::AgentLinkLost{link});
  });
}

void Head::break_link(std::uint64_t which) {
  if (links_.empty()) return;
  auto at = links_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(which % links_.size()));
  const auto connection = at->second;
  world().log(*this, [&] { return "link to " + connection->agent->name() + " breaks"; });
  world().break_pipe(connection->up);
  world().break_pipe(connection->down);
  connection->open = false;
  connection->agent->head_link_lost(connection);
  world().kernel().after(world().latency(0, 0),
                         [this, link = connection->link] { link_lost(link); });
}

void Head::step(head::Event event) {
  auto events = world().hooks().head.taken(std::move(event));
  for (std::size_t i = 0; i < events.size(); ++i) {
    std::vector<head::Command> commands;
    core_.step(world().now(), std::move(events[i]), commands);
    for (auto& echo : world().hooks().head.leave(commands)) events.push_back(std::move(echo));
    for (auto& command : commands) carry_out(command);
    world().checkers().head_stepped(*this, ++steps_);
    world().reports().head_stepped();
    if (world().over() || !alive()) return;
  }
  arm();
}

void Head::carry_out(head::Command& command) {
  if (auto* message = std::get_if<head::SendToAgent>(&command)) {
    send(message->link, message->message);
  } else if (auto* admit = std::get_if<head::Admit>(&command)) {
    admit->registered.ticket = "ticket";
    admit->registered.head_signing_key = "key";
    send(admit->link, std::move(admit->registered));
  } else if (auto* batch = std::get_if<head::Persist>(&command)) {
    persist(std::move(*batch));
  } else if (auto* probe = std::get_if<head::ProbeNode>(&command)) {
    Agent* agent = world().agent_of(probe->incarnation);
    const int host = agent == nullptr ? 0 : agent->host();
    const bool silent = world().blocked(0, host) || world().blocked(host, 0);
    const Duration wait = silent ? Duration(1s) : world().latency(0, host) * 2;
    world().kernel().after(wait, [this, silent, agent, incarnation = probe->incarnation] {
      const bool refused = !silent && (agent == nullptr || !agent->alive());
      receive([this, incarnation, refused] {
        world().trace().fold(world().now(), number(), "probed", refused);
        step(head::NodeProbed{incarnation, refused});
      });
    });
  } else if (const auto* reply = std::get_if<head::ReplyToTool>(&command)) {
    // Before the epoch is durable, the head asks tools to wait.
    if (reply->reply.request == status_request) {
      if (reply->reply.ok) world().reports().status_read(reply->reply.json);
      return;
    }
    world().log(*this, [&] {
      return std::string("-> tool ") + (reply->reply.ok ? "done" : reply->reply.text);
    });
    const Order& order = orders_.at(reply->reply.request);
    if (reply->reply.ok && !order.incarnation.empty())
      world().checkers().drain_answered(order.incarnation, order.back);
  } else if (auto* close = std::get_if<head::CloseLink>(&command)) {
    const auto at = links_.find(close->link);
    if (at == links_.end()) return;
    const auto connection = at->second;
    links_.erase(at);
    world().transmit(connection->down, [connection] {
      connection->open = false;
      connection->agent->head_link_lost(connection);
    });
  }
}

void Head::send(head::LinkId link, const HeadToAgent& message) {
  const auto at = links_.find(link);
  world().checkers().from_head(message, at == links_.end() ? nullptr : at->second->agent);
  world().reports().head_sends(message);
  if (at == links_.end()) return;
  const auto connection = at->second;
  world().log(*this, [&] { return "-> " + connection->agent->name() + " " + describe(message); });
  world().transmit(connection->down, [connection, bytes = encode(message)] {
    if (connection->open) connection->agent->head_said(connection, bytes);
  });
}

void Head::persist(head::Persist batch) {
  to_commit_.push_back(std::move(batch));
  if (!committing_) commit_next();
}

void Head::commit_next() {
  if (to_commit_.empty()) return;
  committing_ = true;
  Random& disk = world().disk_chance();
  const bool slow = world().weather().disk_slow > 0;
  const Duration wait = slow ? disk.between(Duration(50ms), Duration(800ms))
                             : disk.between(Duration(200us), Duration(4ms));
  world().kernel().after(wait, [this] {
    if (!alive()) return;
    committing_ = false;
    if (world().weather().disk_fails > 0 && world().disk_chance().chance(700)) {
      const std::uint64_t upto = to_commit_.back().n;
      to_commit_.clear();
      world().log(*this, [] { return std::string("disk fails"); });
      return receive([this, upto] { step(head::PersistFailed{upto, "simulated disk failure"}); });
    }
    const head::Persist batch = std::move(to_commit_.front());
    to_commit_.pop_front();
    write(world(), batch);
    commit_next();
    receive([this, n = batch.n] {
      world().trace().fold(world().now(), number(), "persisted", n);
      step(head::Persisted{n});
    });
  });
}

}  // namespace mobula::internal::sim
