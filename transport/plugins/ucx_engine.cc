#include "transport/plugins/ucx_engine.h"

#include <sys/epoll.h>
#include <ucs/debug/debug.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>

namespace mobula::plugins::of_ucx {
namespace {

// Limit of messages not taken by the host. Above it, no more are read.
constexpr std::size_t max_untaken = 512;
constexpr std::size_t max_links = 1'024;
constexpr auto send_timeout = std::chrono::seconds(10);
constexpr auto hello_timeout = std::chrono::seconds(2);  // then the hello is repeated
constexpr auto forget_delay = std::chrono::minutes(10);
constexpr auto keep_for = std::chrono::seconds(3);       // an endpoint without links
constexpr auto close_timeout = std::chrono::seconds(3);  // for pending messages at the end
constexpr int max_turns = 256;                           // limit before orders are processed
constexpr int poll_interval_ms = 50;
constexpr unsigned message_id = 1;

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK)
    throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

}  // namespace

Engine::Engine(std::shared_ptr<Inbox> inbox, std::shared_ptr<Orders> orders)
    : inbox_(std::move(inbox)), orders_(std::move(orders)) {
  try {
    open();
  } catch (...) {
    close();
    throw;
  }
}

void Engine::run() {
  while (!orders_->stopping()) {
    for (Order& each : orders_->take()) obey(std::move(each));
    if (inbox_->size() < max_untaken) turn();
    wait();
  }
  while (!links_.empty()) drop(links_.begin()->first);
  const auto deadline = Clock::now() + close_timeout;
  while (Clock::now() < deadline && !sendings_.empty()) {
    ucp_worker_progress(worker_);
    clear_sendings();
  }
  close_the_idle(Clock::duration::zero());
  while (Clock::now() < deadline && !closing_.empty()) {
    ucp_worker_progress(worker_);
    clear_sendings();
  }
  close();
  orders_->end();
}

void Engine::wait() {
  if (ucp_worker_arm(worker_) == UCS_ERR_BUSY && inbox_->size() < max_untaken) return;
  epoll_event event{};
  ::epoll_wait(ready_.get(), &event, 1, poll_interval_ms);
  orders_->quiet();
}

void Engine::obey(Order order) {
  if (order.what == Order::What::connect) return connect(order.link, order.bytes);
  if (order.what == Order::What::drop) {
    drop(order.link);
    return inbox_->put({order.link, News::What::dropped, {}});
  }
  const auto at = links_.find(order.link);
  if (at == links_.end()) return orders_->sent(order.link);
  if (at->second.peer == 0) {
    at->second.waiting.push_back(std::move(order.bytes));
  } else {
    post(order.link, at->second, {Kind::message, at->second.peer, 0}, std::move(order.bytes));
  }
}

void Engine::open() {
  for (const int each : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(each);
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "read the configuration of UCX");
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> owned(config,
                                                                           &ucp_config_release);
  // Values in UCX's own environment variables have priority.
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
  if (Secret().size() + size > max_endpoint)
    throw std::runtime_error("UCX names its worker by too many bytes");
  int of_ucx = -1;
  check(ucp_worker_get_efd(worker_, &of_ucx), "wait for UCX");
  ready_ = Handle(::epoll_create1(EPOLL_CLOEXEC));
  for (const int each : {of_ucx, orders_->descriptor()}) {
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

ucp_ep_h Engine::open_endpoint(const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* self, ucp_ep_h endpoint, ucs_status_t status) {
    static_cast<Engine*>(self)->lost_.emplace_back(endpoint, ucs_status_string(status));
  };
  params.err_handler.arg = this;
  if (!descriptors_are_left()) close_the_idle(Clock::duration::zero());
  if (!descriptors_are_left())
    throw std::runtime_error("no descriptors are left for a connection by UCX");
  ucp_ep_h made = nullptr;
  check(ucp_ep_create(worker_, &params, &made), "connect by UCX");
  return made;
}

Other& Engine::reach(const std::string& address) {
  Other& other = others_[address];
  ++other.links;  // excludes it from the idle endpoints, which may be closed for a descriptor
  try {
    if (other.endpoint == nullptr) {
      other.endpoint = open_endpoint(address);
      ++other.generation;
      other.theirs = 0;
    }
  } catch (...) {
    let_go(address);
    throw;
  }
  return other;
}

void Engine::let_go(const std::string& address) {
  Other& other = others_.at(address);
  if (--other.links == 0) other.idle_since = Clock::now();
}

void Engine::connect(std::uint64_t number, const Bytes& endpoint) {
  Link link;
  link.since = Clock::now();
  std::uint64_t generation = 0;
  const auto of_address = endpoint.begin() + static_cast<std::ptrdiff_t>(secret_.size());
  try {
    if (links_.size() >= max_links) throw std::runtime_error("too many links of UCX are open");
    link.other = std::string(of_address, endpoint.end());
    generation = reach(link.other).generation;
  } catch (const std::exception& thrown) {
    const std::string why = thrown.what();
    return inbox_->put({number, News::What::broken, Bytes(why.begin(), why.end())});
  }
  Bytes hello(endpoint.begin(), of_address);
  hello.insert(hello.end(), address_.begin(), address_.end());
  link.hello = hello;
  Link& kept = links_.emplace(number, std::move(link)).first->second;
  post(number, kept, {Kind::hello, generation, number}, std::move(hello));
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
    auto* const completed = static_cast<Sending*>(which);
    completed->done = true;
    completed->failed = status != UCS_OK;
    ucp_request_free(request);
  };
  void* const request =
      ucp_am_send_nbx(others_.at(link.other).endpoint, message_id, &sending.header,
                      sizeof sending.header, sending.bytes.data(), sending.bytes.size(), &params);
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
    const bool late = !at->done && now - at->since > send_timeout;
    if (link != links_.end() && (at->failed || late)) {
      broken_.emplace_back(at->link,
                           late ? "nothing could be sent for ten seconds" : "sending failed");
    }
    if (at->done && at->header.kind == Kind::message) orders_->sent(at->link);
    at = at->done ? sendings_.erase(at) : std::next(at);
  }
}

// Notifies the peer, because UCX would do so only after a long time.
void Engine::drop(std::uint64_t number) {
  auto node = links_.extract(number);
  if (node.empty()) return;
  Link& link = node.mapped();
  for (std::size_t i = 0; i < link.waiting.size(); ++i) orders_->sent(number);
  if (link.peer != 0 && others_.at(link.other).endpoint != nullptr)
    post(number, link, {Kind::bye, link.peer, 0}, {});
  let_go(link.other);
}

// A peer is forgotten only when its generation is certainly unused at the other end.
void Engine::close_the_idle(Clock::duration after) {
  const auto now = Clock::now();
  for (auto at = others_.begin(); at != others_.end();) {
    Other& other = at->second;
    const bool idle = other.links == 0 && now - other.idle_since >= after;
    if (idle && other.endpoint != nullptr) close_endpoint(std::exchange(other.endpoint, nullptr));
    at = idle && now - other.idle_since > forget_delay ? others_.erase(at) : std::next(at);
  }
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
  for (std::size_t i = 0; i < node.mapped().waiting.size(); ++i) orders_->sent(number);
  let_go(node.mapped().other);
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
  link.hello.clear();
  for (Bytes& each : std::exchange(link.waiting, {})) {
    post(at->first, link, {Kind::message, link.peer, 0}, std::move(each));
  }
}

void Engine::on_hello(const Arrival& arrival) {
  const Bytes& bytes = arrival.bytes;
  const bool knows = bytes.size() > secret_.size() && bytes.size() <= max_endpoint &&
                     std::equal(secret_.begin(), secret_.end(), bytes.begin());
  if (!knows || arrival.header.peer == 0 || links_.size() >= max_links) return;
  const std::uint64_t number = next_link_++;
  Link link;
  link.other =
      std::string(bytes.begin() + static_cast<std::ptrdiff_t>(secret_.size()), bytes.end());
  const std::uint64_t theirs = arrival.header.link;
  // The peer restarted its endpoint, so the one joined to the old generation is unusable.
  if (const auto at = others_.find(link.other);
      at != others_.end() && at->second.endpoint != nullptr && at->second.theirs != 0 &&
      at->second.theirs != theirs) {
    lose(link.other, "the other process has begun again");
  }
  try {
    reach(link.other).theirs = theirs;
  } catch (const std::exception&) {
    return;  // the sender detects the failure by itself
  }
  link.peer = arrival.header.peer;
  link.since = Clock::now();
  Link& kept = links_.emplace(number, std::move(link)).first->second;
  post(number, kept, {Kind::welcome, kept.peer, number}, {});
}

// Closes the endpoint of the peer and breaks its links.
void Engine::lose(const std::string& address, const std::string& why) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, link] : links_) {
    if (link.other == address) numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) break_link(number, why);
  close_endpoint(std::exchange(others_.at(address).endpoint, nullptr));
}

// The peer may have closed the endpoint joined to this one. If no link has a reply, a new endpoint
// is opened.
void Engine::greet_again(const std::string& address) {
  std::vector<std::uint64_t> numbers;
  bool answered = false;
  for (auto& [number, link] : links_) {
    if (link.other != address) continue;
    numbers.push_back(number);
    answered = answered || link.peer != 0;
    link.said_again = true;
  }
  if (answered) return;
  Other& other = others_.at(address);
  try {
    ucp_ep_h const made = open_endpoint(address);
    close_endpoint(std::exchange(other.endpoint, made));
  } catch (const std::exception&) {
    return;  // the links keep waiting for their replies
  }
  ++other.generation;
  other.theirs = 0;
  for (const std::uint64_t number : numbers) {
    Link& link = links_.at(number);
    post(number, link, {Kind::hello, other.generation, number}, link.hello);
  }
}

void Engine::turn() {
  for (int i = 0; i < max_turns && ucp_worker_progress(worker_) != 0; ++i) {
  }
  clear_sendings();
  for (const auto& lost : std::exchange(lost_, {})) {
    const auto at = std::find_if(others_.begin(), others_.end(), [&](const auto& each) {
      return each.second.endpoint == lost.first;
    });
    if (at != others_.end()) lose(at->first, lost.second);
  }
  close_the_idle(keep_for);
  for (Arrival& each : std::exchange(arrivals_, {})) on_arrival(std::move(each));
  const auto now = Clock::now();
  std::set<std::string> silent;
  for (const auto& [number, link] : links_) {
    if (link.peer != 0) continue;
    if (now - link.since > send_timeout)
      broken_.emplace_back(number, "the other process does not reply");
    if (now - link.since > hello_timeout && !link.said_again) silent.insert(link.other);
  }
  for (const std::string& address : silent) greet_again(address);
  for (const auto& [number, why] : std::exchange(broken_, {})) break_link(number, why);
}

}  // namespace mobula::plugins::of_ucx
