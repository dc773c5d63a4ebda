// NIXL as a carrier of messages (mobula/transport_plugin.h), through its UCX backend or the one in
// MOBULA_NIXL_BACKEND. One agent runs on its own thread, and messages are NIXL notifications. It is
// built only if the headers of NIXL are found. Reasons: decision 28.
//
// Properties of NIXL that shape this code: Remote reads and writes cannot be revoked when a peer
// stops, so none are used and no memory is registered. Notifications have no acknowledgment, so the
// receiver acknowledges each one, and a link accepts at most 64 unacknowledged messages. Only the
// next send reports a lost peer, so idle links send probes. An agent has no descriptor, so its
// thread polls: continuously while it is active, otherwise every millisecond. A connection over a
// dead network may block the agent for long, so the host's thread never waits for it.
#include <dlfcn.h>
#include <nixl.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/plugins/engine_carrier.h"

namespace {

using namespace mobula::plugins;  // NOLINT: a separate library
using Clock = std::chrono::steady_clock;

// Limit of messages not taken by the host. Above it, no more are polled.
constexpr std::size_t max_untaken = 512;
constexpr std::size_t max_links = 1'024;
constexpr auto send_timeout = std::chrono::seconds(10);
constexpr auto probe_interval = std::chrono::milliseconds(500);
constexpr auto bye_timeout = std::chrono::seconds(1);
constexpr auto eager_for = std::chrono::milliseconds(2);  // after any traffic

enum class Kind : std::uint64_t {
  hello = 1,    // peer: link of the sender; bytes: secret, metadata of the sender
  welcome = 2,  // link: of the receiver; peer: of the sender
  message = 3,  // link: of the receiver, as in the following kinds
  taken = 4,    // peer: count of messages received since the last acknowledgment
  bye = 5,      // the link is closed
  probe = 6,    // probe; the result of sending shows whether the peer exists
};
struct Header {
  Kind kind{};
  std::uint64_t link = 0;
  std::uint64_t peer = 0;
};

void check(nixl_status_t status, const char* what) {
  if (status < 0)
    throw std::runtime_error(std::string(what) + ": " + nixlEnumStrings::statusStr(status));
}

// NIXL's Python packages contain copies of libnl, whose symbols UCX makes global. If the system's
// libibverbs is loaded later, its libnl binds to the copy, and the process crashes in exit(). If it
// is loaded first, it binds to its own.
void load_system_libibverbs() { ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL); }

struct Link {
  std::string agent;
  std::uint64_t peer = 0;     // number of the link in the peer; 0: not known yet
  std::deque<Bytes> waiting;  // until `peer` is known
  std::size_t on_the_way = 0;
  std::uint64_t taken = 0;  // received messages, not yet acknowledged
  Clock::time_point moved;  // last receipt, or last time without a pending message
  Clock::time_point probed;
};

// The agent and the thread that drives it. The host's thread creates it and then only queues
// orders. Shared with the thread, which may have to be abandoned.
class Engine {
 public:
  static constexpr const char* library = "NIXL";
  static constexpr std::uint64_t max_message = MOBULA_TRANSPORT_LEAST_MESSAGE;
  static constexpr std::size_t max_endpoint = 2'048;

  Engine(std::shared_ptr<Inbox> inbox, std::shared_ptr<Orders> orders);

  // Any thread.
  const std::string& endpoint() const { return endpoint_; }
  std::uint64_t next_link() { return next_link_++; }

  // The engine's thread, for run() and all private functions.
  void run();

 private:
  bool obey();
  void connect(std::uint64_t number, const Bytes& endpoint);
  void drop(std::uint64_t number);
  void send(std::uint64_t number, Bytes message);
  void post(std::uint64_t number, const Header& header, const char* bytes, std::size_t size);
  bool poll();
  void on_arrival(const std::string& agent, const std::string& text);
  void on_hello(const Header& header, const std::string& text);
  void break_link(std::uint64_t number, const std::string& why);
  void forget(std::uint64_t number, const Link& link);
  void watch_time();
  void end_what_broke();
  std::string load(const std::string& metadata);
  void let_go(const std::string& agent);

  const std::shared_ptr<Inbox> inbox_;    // shared with the carrier
  const std::shared_ptr<Orders> orders_;  // shared with the carrier
  const Secret secret_ = random_secret();
  std::string endpoint_;
  std::string metadata_;
  std::atomic<std::uint64_t> next_link_{1};
  std::unique_ptr<nixlAgent> agent_;
  std::map<std::uint64_t, Link> links_;
  std::map<std::string, std::size_t> agents_;  // loaded agents: number of their links
  // Agents without links, with the time to unload them after the last message was sent.
  std::map<std::string, Clock::time_point> leaving_;
  std::vector<std::pair<std::uint64_t, std::string>> broken_;  // links, with reason
  std::map<std::string, std::string> dead_;                    // unreachable agents, with reason
};

std::string text_of(const Secret& secret) {
  std::string text;
  for (const char each : secret) {
    constexpr const char* digits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(each);
    text += {digits[value >> 4], digits[value & 15]};
  }
  return text;
}

// Peers send to the name of an agent, so it must be unique.
Engine::Engine(std::shared_ptr<Inbox> inbox, std::shared_ptr<Orders> orders)
    : inbox_(std::move(inbox)), orders_(std::move(orders)) {
  load_system_libibverbs();
  agent_ = std::make_unique<nixlAgent>("mobula-" + text_of(random_secret()), nixlAgentConfig());
  const char* const named = std::getenv("MOBULA_NIXL_BACKEND");
  const nixl_backend_t type = named == nullptr ? "UCX" : named;
  nixl_mem_list_t kinds;
  nixl_b_params_t parameters;
  check(agent_->getPluginParams(type, kinds, parameters), ("NIXL's back end " + type).c_str());
  nixlBackendH* backend = nullptr;
  check(agent_->createBackend(type, parameters, backend), ("open NIXL's back end " + type).c_str());
  // Connection data only, no memory.
  check(agent_->getLocalPartialMD(nixl_reg_dlist_t(DRAM_SEG), metadata_), "name an agent of NIXL");
  endpoint_.assign(secret_.data(), secret_.size());
  endpoint_ += metadata_;
  if (endpoint_.size() > max_endpoint)
    throw std::runtime_error("NIXL names its agent by too many bytes");
}

void Engine::run() {
  auto eager_until = Clock::now();
  auto next_watch = Clock::now();
  while (!orders_->stopping()) {
    const bool obeyed = obey();
    const bool did = poll() || obeyed;
    const auto now = Clock::now();
    if (did) eager_until = now + eager_for;
    if (now >= next_watch) {
      watch_time();
      next_watch = now + std::chrono::milliseconds(20);
    }
    end_what_broke();
    if (now < eager_until) {
      std::this_thread::yield();
      continue;
    }
    pollfd wake{orders_->descriptor(), POLLIN, 0};
    ::poll(&wake, 1, 1);
    orders_->quiet();
  }
  while (!links_.empty()) drop(links_.begin()->first);
  const auto deadline = Clock::now() + std::chrono::milliseconds(50);
  while (Clock::now() < deadline) poll();
  agent_.reset();
  orders_->end();
}

bool Engine::obey() {
  std::deque<Order> orders = orders_->take();
  for (Order& each : orders) {
    if (each.what == Order::What::connect) connect(each.link, each.bytes);
    if (each.what == Order::What::send) send(each.link, std::move(each.bytes));
    if (each.what == Order::What::drop) {
      drop(each.link);
      inbox_->put({each.link, News::What::dropped, {}});
    }
  }
  return !orders.empty();
}

std::string Engine::load(const std::string& metadata) {
  std::string agent;
  check(agent_->loadRemoteMD(metadata, agent), "read an endpoint of NIXL");
  ++agents_[agent];
  leaving_.erase(agent);
  return agent;
}

void Engine::let_go(const std::string& agent) {
  const auto at = agents_.find(agent);
  if (at == agents_.end() || --at->second > 0) return;
  agents_.erase(at);
  leaving_[agent] = Clock::now() + bye_timeout;
}

void Engine::connect(std::uint64_t number, const Bytes& endpoint) {
  try {
    if (links_.size() >= max_links) throw std::runtime_error("too many links of NIXL are open");
    if (!descriptors_are_left())
      throw std::runtime_error("no descriptors are left for a connection by NIXL");
    Link link;
    link.agent = load(std::string(endpoint.begin() + static_cast<std::ptrdiff_t>(secret_.size()),
                                  endpoint.end()));
    link.moved = link.probed = Clock::now();
    links_.emplace(number, std::move(link));
  } catch (const std::exception& thrown) {
    const std::string why = thrown.what();
    return inbox_->put({number, News::What::broken, Bytes(why.begin(), why.end())});
  }
  Bytes hello(endpoint.begin(), endpoint.begin() + static_cast<std::ptrdiff_t>(secret_.size()));
  hello.insert(hello.end(), metadata_.begin(), metadata_.end());
  post(number, {Kind::hello, 0, number}, hello.data(), hello.size());
}

void Engine::post(std::uint64_t number, const Header& header, const char* bytes, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text.append(bytes, size);
  Link& link = links_.at(number);
  link.probed = Clock::now();
  const nixl_status_t status = agent_->genNotif(link.agent, text);
  if (status < 0) dead_.emplace(link.agent, "NIXL: " + nixlEnumStrings::statusStr(status));
}

void Engine::send(std::uint64_t number, Bytes message) {
  const auto at = links_.find(number);
  if (at == links_.end()) return orders_->sent(number);
  Link& link = at->second;
  if (link.peer == 0) return link.waiting.push_back(std::move(message));
  if (link.on_the_way == 0) link.moved = Clock::now();
  ++link.on_the_way;
  post(number, {Kind::message, link.peer, 0}, message.data(), message.size());
}

// Notifies the peer, because NIXL would not.
void Engine::drop(std::uint64_t number) {
  const auto at = links_.find(number);
  if (at == links_.end()) return;
  if (at->second.peer != 0) post(number, {Kind::bye, at->second.peer, 0}, nullptr, 0);
  const auto node = links_.extract(at);
  forget(number, node.mapped());
}

void Engine::forget(std::uint64_t number, const Link& link) {
  orders_->forget(number);
  let_go(link.agent);
}

void Engine::break_link(std::uint64_t number, const std::string& why) {
  const auto node = links_.extract(number);
  if (node.empty()) return;
  forget(number, node.mapped());
  inbox_->put({number, News::What::broken, Bytes(why.begin(), why.end())});
}

bool Engine::poll() {
  if (inbox_->size() >= max_untaken) return false;
  nixl_notifs_t arrived;
  if (agent_->getNotifs(arrived) < 0) return false;
  for (const auto& [agent, texts] : arrived) {
    for (const std::string& each : texts) on_arrival(agent, each);
  }
  for (auto& [number, link] : links_) {
    if (link.taken == 0 || link.peer == 0) continue;
    post(number, {Kind::taken, link.peer, std::exchange(link.taken, 0)}, nullptr, 0);
  }
  return !arrived.empty();
}

void Engine::on_arrival(const std::string& agent, const std::string& text) {
  Header header;
  if (text.size() < sizeof header || text.size() - sizeof header > max_message) return;
  std::memcpy(&header, text.data(), sizeof header);
  if (header.kind == Kind::hello) return on_hello(header, text.substr(sizeof header));
  const auto at = links_.find(header.link);
  if (at == links_.end() || at->second.agent != agent) return;
  Link& link = at->second;
  link.moved = Clock::now();
  switch (header.kind) {
    case Kind::message:
      ++link.taken;
      return inbox_->put(
          {at->first, News::What::message,
           Bytes(text.begin() + static_cast<std::ptrdiff_t>(sizeof header), text.end())});
    case Kind::taken:
      for (std::uint64_t i = 0; i < header.peer && link.on_the_way > 0; ++i, --link.on_the_way)
        orders_->sent(at->first);
      return;
    case Kind::bye: return break_link(at->first, "the other process has closed the link");
    case Kind::welcome:
      if (link.peer != 0) return;
      link.peer = header.peer;
      for (Bytes& each : std::exchange(link.waiting, {})) send(at->first, std::move(each));
      return;
    default: return;
  }
}

void Engine::on_hello(const Header& header, const std::string& text) {
  const bool knows = text.size() > secret_.size() && text.size() <= max_endpoint &&
                     std::equal(secret_.begin(), secret_.end(), text.begin());
  if (!knows || header.peer == 0 || links_.size() >= max_links || !descriptors_are_left()) return;
  Link link;
  try {
    link.agent = load(text.substr(secret_.size()));
  } catch (const std::exception&) {
    return;  // the sender detects the failure by itself
  }
  const std::uint64_t number = next_link_++;
  link.peer = header.peer;
  link.moved = link.probed = Clock::now();
  links_.emplace(number, std::move(link));
  post(number, {Kind::welcome, header.peer, number}, nullptr, 0);
}

// A broken connection breaks all links to that agent. The next link opens a new connection.
void Engine::end_what_broke() {
  for (const auto& [agent, why] : dead_) {
    for (const auto& [number, link] : links_) {
      if (link.agent == agent) broken_.emplace_back(number, why);
    }
  }
  for (const auto& [number, why] : std::exchange(broken_, {})) break_link(number, why);
  for (const auto& [agent, why] : std::exchange(dead_, {})) {
    if (leaving_.erase(agent) > 0) agent_->invalidateRemoteMD(agent);
  }
}

void Engine::watch_time() {
  const auto now = Clock::now();
  for (auto& [number, link] : links_) {
    if (link.peer == 0 && now - link.moved > send_timeout) {
      broken_.emplace_back(number, "the other process does not reply");
    } else if (link.on_the_way > 0 && now - link.moved > send_timeout) {
      broken_.emplace_back(number, "nothing could be sent for ten seconds");
    } else if (link.peer != 0 && now - link.probed > probe_interval) {
      post(number, {Kind::probe, link.peer, 0}, nullptr, 0);
    }
  }
  for (auto at = leaving_.begin(); at != leaving_.end();) {
    if (now >= at->second) agent_->invalidateRemoteMD(at->first);
    at = now >= at->second ? leaving_.erase(at) : std::next(at);
  }
}

}  // namespace

struct mobula_carrier : EngineCarrier<Engine> {
  using EngineCarrier::EngineCarrier;
};

namespace {

constexpr mobula_transport_plugin table = table_of("nixl", Engine::max_message);

}  // namespace

const mobula_transport_plugin* mobula_open_transport_plugin(void) { return &table; }
