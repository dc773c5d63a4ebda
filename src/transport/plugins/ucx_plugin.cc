// UCX as a carrier of messages (mobula/transport_plugin.h): one worker on a thread of its own, and two
// endpoints for each link, one each way, so that both sides hear of the other's end.
//
// What UCX does to those who use it, and what is done about it: without error handling by peer it waits
// for ever for a process that is gone, so all endpoints have it, which leaves TCP on one machine;
// rendezvous may write into memory after a failure, so everything goes eagerly, out of buffers of this
// plug-in and into those of UCX; a peer that is stopped is silent, so what is not sent for ten seconds
// breaks its link here; a connection over a dead network holds the worker up for minutes, so the host's
// thread never waits for it; its handlers for fatal signals are taken away again.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mobula/transport_plugin.h"
#include "transport/plugins/carrier_parts.h"

namespace {

using namespace mobula::plugins;  // NOLINT: a library of its own
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t max_message = (1u << 20) + 4096;
constexpr std::size_t max_waiting = 64;   // messages of one link
constexpr std::size_t max_untaken = 512;  // messages that the host has not taken: no more are read
constexpr std::size_t max_links = 1'024;
constexpr std::size_t max_address = 1'900;
constexpr auto send_limit = std::chrono::seconds(10);
constexpr auto bye_limit = std::chrono::seconds(1);
constexpr auto close_limit = std::chrono::seconds(3);  // of what is on its way at the end
constexpr auto end_limit = std::chrono::seconds(8);
constexpr int max_turns = 256;  // before orders are looked at
constexpr int look_every_ms = 50;
constexpr unsigned message_id = 1;

enum class Kind : std::uint64_t {
  hello = 1,    // peer: the sender's link; bytes: secret, the sender's address
  welcome = 2,  // link: the receiver's; peer: the sender's
  message = 3,  // link: the receiver's
  bye = 4,      // link: the receiver's, which is of no more use
};
struct Header {
  Kind kind{};
  std::uint64_t link = 0;
  std::uint64_t peer = 0;
};

// UCX ends the process where it finds no descriptor for a connection.
bool descriptors_are_left() {
  std::array<int, 16> tried{};
  for (int& each : tried) each = ::eventfd(0, EFD_CLOEXEC);
  for (const int each : tried) {
    if (each >= 0) ::close(each);
  }
  return tried.back() >= 0;
}

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK)
    throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

struct Sending {
  std::uint64_t link = 0;
  Header header;
  Bytes bytes;
  Clock::time_point since;
  bool done = false;
  bool failed = false;
};

struct Link {
  ucp_ep_h endpoint = nullptr;
  std::uint64_t peer = 0;     // its number there; 0: not known yet
  std::deque<Bytes> waiting;  // for that number
  Clock::time_point since;    // of the connection
};

// What the host's thread wants of the worker's.
struct Order {
  enum class What { connect, send, drop };
  What what{};
  std::uint64_t link = 0;
  Bytes bytes;  // an endpoint, or a message
};

// The worker and the thread that turns it. Made by the host's thread, which then only orders; shared
// with the thread, which may have to be left behind.
class Engine {
 public:
  explicit Engine(std::shared_ptr<Inbox> inbox);
  ~Engine() { close(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread.
  std::string endpoint() const { return std::string(secret_.data(), secret_.size()) + address_; }
  std::uint64_t next_link() { return next_link_++; }
  // False when the link has as many messages that wait as it may.
  bool order(Order order);
  void stop();
  // Whether run() has come to its end by then.
  bool ends_by(Clock::time_point deadline);

  // The engine's own thread, from here on.
  void run();

 private:
  struct Arrival {
    Header header;
    Bytes bytes;
  };
  void open();
  void close();
  void wake();
  void wait();
  void turn();
  void obey(Order order);
  void connect(std::uint64_t number, const Bytes& endpoint);
  ucp_ep_h open_endpoint(const std::string& address);
  void post(std::uint64_t number, Link& link, Header header, Bytes bytes);
  void on_arrival(Arrival arrival);
  void on_hello(const Arrival& arrival);
  void clear_sendings();
  void break_link(std::uint64_t number, const std::string& why);
  void drop(std::uint64_t number);
  void close_those_who_left();
  void close_endpoint(ucp_ep_h endpoint);
  void sent(std::uint64_t number);

  const std::shared_ptr<Inbox> inbox_;
  const Secret secret_ = random_secret();
  std::string address_;
  std::atomic<std::uint64_t> next_link_{1};
  Handle ready_, own_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::map<std::uint64_t, Link> links_;
  std::list<Sending> sendings_;
  struct Leaving {
    std::uint64_t number = 0;
    ucp_ep_h endpoint = nullptr;
    Clock::time_point until;
  };
  std::vector<Leaving> leaving_;  // links that were dropped, and say so
  std::vector<void*> closing_;    // requests
  // Filled while UCX turns, and looked at afterwards.
  std::deque<Arrival> arrivals_;
  std::vector<std::pair<std::uint64_t, std::string>> broken_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Order> orders_;
  std::map<std::uint64_t, std::size_t> unsent_;  // by link
  bool stopping_ = false;
  bool ended_ = false;
};

Engine::Engine(std::shared_ptr<Inbox> inbox) : inbox_(std::move(inbox)) {
  try {
    open();
  } catch (...) {
    close();
    throw;
  }
}

bool Engine::order(Order order) {
  {
    const std::scoped_lock lock(mutex_);
    if (order.what == Order::What::send && ++unsent_[order.link] > max_waiting) {
      --unsent_[order.link];
      return false;
    }
    orders_.push_back(std::move(order));
  }
  wake();
  return true;
}

void Engine::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake();
}

bool Engine::ends_by(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return ended_; });
}

void Engine::run() {
  for (;;) {
    std::deque<Order> orders;
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) break;
      orders.swap(orders_);
    }
    for (Order& each : orders) obey(std::move(each));
    if (inbox_->size() < max_untaken) turn();
    wait();
  }
  while (!links_.empty()) drop(links_.begin()->first);
  const auto deadline = Clock::now() + close_limit;
  while (Clock::now() < deadline &&
         (!leaving_.empty() || !closing_.empty() || !sendings_.empty())) {
    ucp_worker_progress(worker_);
    clear_sendings();
    close_those_who_left();
  }
  close();
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Engine::wait() {
  if (ucp_worker_arm(worker_) == UCS_ERR_BUSY && inbox_->size() < max_untaken) return;
  epoll_event event{};
  ::epoll_wait(ready_.get(), &event, 1, look_every_ms);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(own_.get(), &count, sizeof count);
}

void Engine::obey(Order order) {
  if (order.what == Order::What::connect) return connect(order.link, order.bytes);
  if (order.what == Order::What::drop) {
    drop(order.link);
    return inbox_->put({order.link, News::What::dropped, {}});
  }
  const auto at = links_.find(order.link);
  if (at == links_.end()) return sent(order.link);
  if (at->second.peer == 0) {
    at->second.waiting.push_back(std::move(order.bytes));
  } else {
    post(order.link, at->second, {Kind::message, at->second.peer, 0}, std::move(order.bytes));
  }
}

void Engine::sent(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  const auto at = unsent_.find(number);
  if (at != unsent_.end() && --at->second == 0) unsent_.erase(at);
}

void Engine::open() {
  for (const int each : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(each);
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "read the configuration of UCX");
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> owned(config,
                                                                           &ucp_config_release);
  // What users say in UCX's own variables stands.
  if (std::getenv("UCX_TLS") == nullptr) check(ucp_config_modify(config, "TLS", "tcp"), "set TLS");
  check(ucp_config_modify(config, "RNDV_THRESH", "inf"), "set RNDV_THRESH");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  check(ucp_init(&params, config, &context_), "open UCX");
  ucp_worker_params_t of_worker{};
  of_worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  of_worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check(ucp_worker_create(context_, &of_worker, &worker_), "open a worker of UCX");
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = message_id;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.arg = this;
  handler.cb = [](void* self, const void* header, std::size_t header_size, void* data,
                  std::size_t size, const ucp_am_recv_param_t* how) {
    Arrival arrival;
    const bool eager = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
    if (!eager || header_size != sizeof arrival.header || size > max_message) return UCS_OK;
    std::memcpy(&arrival.header, header, header_size);
    const char* const from = static_cast<const char*>(data);
    arrival.bytes.assign(from, from + size);
    static_cast<Engine*>(self)->arrivals_.push_back(std::move(arrival));
    return UCS_OK;
  };
  check(ucp_worker_set_am_recv_handler(worker_, &handler), "receive with UCX");
  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  check(ucp_worker_get_address(worker_, &address, &size), "name a worker of UCX");
  address_.assign(reinterpret_cast<const char*>(address), size);
  ucp_worker_release_address(worker_, address);
  if (size > max_address) throw std::runtime_error("UCX names its worker by too many bytes");
  int of_ucx = -1;
  check(ucp_worker_get_efd(worker_, &of_ucx), "wait for UCX");
  ready_ = Handle(::epoll_create1(EPOLL_CLOEXEC));
  own_ = Handle(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  for (const int each : {of_ucx, own_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, each, &event) != 0) {
      throw std::runtime_error("no descriptors are left");
    }
  }
}

void Engine::close() {
  if (worker_ != nullptr) ucp_worker_destroy(std::exchange(worker_, nullptr));
  if (context_ != nullptr) ucp_cleanup(std::exchange(context_, nullptr));
}

void Engine::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(own_.get(), &one, sizeof one);
}

ucp_ep_h Engine::open_endpoint(const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* self, ucp_ep_h endpoint, ucs_status_t status) {
    auto* const engine = static_cast<Engine*>(self);
    for (const auto& [number, each] : engine->links_) {
      if (each.endpoint == endpoint)
        engine->broken_.emplace_back(number, ucs_status_string(status));
    }
  };
  params.err_handler.arg = this;
  if (!descriptors_are_left())
    throw std::runtime_error("no descriptors are left for a connection by UCX");
  ucp_ep_h made = nullptr;
  check(ucp_ep_create(worker_, &params, &made), "connect by UCX");
  return made;
}

void Engine::connect(std::uint64_t number, const Bytes& endpoint) {
  Link link;
  link.since = Clock::now();
  const auto of_address = endpoint.begin() + static_cast<std::ptrdiff_t>(secret_.size());
  try {
    if (links_.size() >= max_links) throw std::runtime_error("too many links of UCX are open");
    link.endpoint = open_endpoint(std::string(of_address, endpoint.end()));
  } catch (const std::exception& thrown) {
    const std::string why = thrown.what();
    return inbox_->put({number, News::What::broken, Bytes(why.begin(), why.end())});
  }
  Bytes hello(endpoint.begin(), of_address);
  hello.insert(hello.end(), address_.begin(), address_.end());
  Link& kept = links_.emplace(number, std::move(link)).first->second;
  post(number, kept, {Kind::hello, 0, number}, std::move(hello));
}

void Engine::post(std::uint64_t number, Link& link, Header header, Bytes bytes) {
  sendings_.push_back({number, header, std::move(bytes), Clock::now()});
  Sending& sending = sendings_.back();
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_AM_SEND_FLAG_EAGER;
  params.user_data = &sending;
  params.cb.send = [](void* request, ucs_status_t status, void* which) {
    auto* const told = static_cast<Sending*>(which);
    told->done = true;
    told->failed = status != UCS_OK;
    ucp_request_free(request);
  };
  void* const request =
      ucp_am_send_nbx(link.endpoint, message_id, &sending.header, sizeof sending.header,
                      sending.bytes.data(), sending.bytes.size(), &params);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    sending.done = true;
    sending.failed = request != nullptr;
  }
}

void Engine::clear_sendings() {
  std::erase_if(closing_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
  const auto now = Clock::now();
  for (auto at = sendings_.begin(); at != sendings_.end();) {
    const auto link = links_.find(at->link);
    const bool late = !at->done && now - at->since > send_limit;
    if (link != links_.end() && (at->failed || late)) {
      broken_.emplace_back(at->link,
                           late ? "nothing could be sent for ten seconds" : "sending failed");
    }
    if (at->done && at->header.kind == Kind::message) sent(at->link);
    at = at->done ? sendings_.erase(at) : std::next(at);
  }
}

// The other end is told, because UCX would not tell it for long.
void Engine::drop(std::uint64_t number) {
  auto node = links_.extract(number);
  if (node.empty()) return;
  Link& link = node.mapped();
  for (std::size_t i = 0; i < link.waiting.size(); ++i) sent(number);
  if (link.peer != 0) post(number, link, {Kind::bye, link.peer, 0}, {});
  leaving_.push_back(
      {number, link.endpoint, Clock::now() + (link.peer != 0 ? bye_limit : Clock::duration{})});
}

void Engine::close_those_who_left() {
  const auto now = Clock::now();
  std::erase_if(leaving_, [&](const Leaving& each) {
    const bool sends = std::any_of(sendings_.begin(), sendings_.end(), [&](const Sending& sending) {
      return sending.link == each.number;
    });
    if (sends && now < each.until) return false;
    close_endpoint(each.endpoint);
    return true;
  });
}

void Engine::close_endpoint(ucp_ep_h endpoint) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = ucp_ep_close_nbx(endpoint, &params);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) closing_.push_back(request);
}

void Engine::break_link(std::uint64_t number, const std::string& why) {
  const auto node = links_.extract(number);
  if (node.empty()) return;
  for (std::size_t i = 0; i < node.mapped().waiting.size(); ++i) sent(number);
  close_endpoint(node.mapped().endpoint);
  inbox_->put({number, News::What::broken, Bytes(why.begin(), why.end())});
}

void Engine::on_arrival(Arrival arrival) {
  if (arrival.header.kind == Kind::hello) return on_hello(arrival);
  const auto at = links_.find(arrival.header.link);
  if (at == links_.end()) return;
  if (arrival.header.kind == Kind::message) {
    return inbox_->put({at->first, News::What::message, std::move(arrival.bytes)});
  }
  if (arrival.header.kind == Kind::bye)
    return break_link(at->first, "the other process has closed the link");
  if (arrival.header.kind != Kind::welcome || at->second.peer != 0) return;
  Link& link = at->second;
  link.peer = arrival.header.peer;
  for (Bytes& each : std::exchange(link.waiting, {})) {
    post(at->first, link, {Kind::message, link.peer, 0}, std::move(each));
  }
}

void Engine::on_hello(const Arrival& arrival) {
  const Bytes& bytes = arrival.bytes;
  const bool knows = bytes.size() > secret_.size() &&
                     bytes.size() <= secret_.size() + max_address &&
                     std::equal(secret_.begin(), secret_.end(), bytes.begin());
  if (!knows || arrival.header.peer == 0 || links_.size() >= max_links) return;
  const std::uint64_t number = next_link_++;
  Link link;
  try {
    link.endpoint = open_endpoint(
        std::string(bytes.begin() + static_cast<std::ptrdiff_t>(secret_.size()), bytes.end()));
  } catch (const std::exception&) {
    return;  // who said hello finds out by itself
  }
  link.peer = arrival.header.peer;
  link.since = Clock::now();
  Link& kept = links_.emplace(number, std::move(link)).first->second;
  post(number, kept, {Kind::welcome, kept.peer, number}, {});
}

void Engine::turn() {
  for (int i = 0; i < max_turns && ucp_worker_progress(worker_) != 0; ++i) {
  }
  clear_sendings();
  close_those_who_left();
  for (Arrival& each : std::exchange(arrivals_, {})) on_arrival(std::move(each));
  const auto now = Clock::now();
  for (const auto& [number, link] : links_) {
    if (link.peer == 0 && now - link.since > send_limit) {
      broken_.emplace_back(number, "the other process does not answer");
    }
  }
  for (const auto& [number, why] : std::exchange(broken_, {})) break_link(number, why);
}

}  // namespace

struct mobula_carrier {
 public:
  mobula_carrier(const mobula_carrier_host& host, const std::string& /*listen*/)
      : host_(host), engine_(std::make_shared<Engine>(inbox_)) {
    thread_ = std::thread([engine = engine_] { engine->run(); });
  }
  ~mobula_carrier() {
    engine_->stop();
    if (engine_->ends_by(Clock::now() + end_limit)) {
      thread_.join();
      return;
    }
    std::fprintf(stderr, "mobula: UCX does not end; its thread and memory are left behind\n");
    thread_.detach();
  }
  mobula_carrier(const mobula_carrier&) = delete;
  mobula_carrier& operator=(const mobula_carrier&) = delete;

  int descriptor() const { return inbox_->descriptor(); }
  std::string endpoint() const { return engine_->endpoint(); }
  std::uint64_t connect(const std::string& endpoint) {
    if (endpoint.size() <= Secret().size())
      throw std::runtime_error("an endpoint of UCX is longer");
    const std::uint64_t number = engine_->next_link();
    engine_->order({Order::What::connect, number, Bytes(endpoint.begin(), endpoint.end())});
    return number;
  }
  bool send(std::uint64_t link, const mobula_carrier_bytes* parts, std::size_t count) {
    Bytes message = joined(parts, count);
    if (message.empty() || message.size() > max_message) return false;
    return engine_->order({Order::What::send, link, std::move(message)});
  }
  void drop(std::uint64_t link) {
    if (dropped_.insert(link).second) engine_->order({Order::What::drop, link, {}});
  }
  void poll() {
    for (const News& each : inbox_->take()) {
      if (each.what == News::What::dropped) {
        dropped_.erase(each.link);
      } else if (dropped_.contains(each.link)) {
        continue;
      } else if (each.what == News::What::message) {
        host_.on_message(host_.host, each.link, each.bytes.data(), each.bytes.size());
      } else {
        host_.on_broken(host_.host, each.link,
                        std::string(each.bytes.begin(), each.bytes.end()).c_str());
      }
    }
  }

 private:
  const mobula_carrier_host host_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  const std::shared_ptr<Engine> engine_;  // shared with its thread
  std::thread thread_;
  std::set<std::uint64_t> dropped_;  // by the host, and not yet by the engine
};

namespace {

constexpr mobula_transport_plugin table = table_of("ucx", max_message);

}  // namespace

const mobula_transport_plugin* mobula_open_transport_plugin(void) { return &table; }
