// The worker of UCX and the thread that turns it, of the plug-in for UCX (ucx_plugin.cc): links to other workers, by
// orders of the host's thread, with news in its inbox. It outlives the plug-in's carrier where UCX does not end.
//
// What UCX does to those who use it, and what is done about it: without error handling by peer it waits for ever
// for a process that is gone, so all endpoints have it, which leaves TCP on one machine; rendezvous may write into
// memory after a failure, so everything goes eagerly, out of buffers of this plug-in and into those of UCX; the
// endpoints that two workers have of each other are joined by their number, also to one that is being closed, and
// then carry nothing without a word: so there is one at a time, kept for a while when its last link is gone, and
// both sides count which one it is; a peer that is stopped is silent, so what is not sent for ten seconds breaks
// its link here; a connection over a dead network holds the worker up for minutes, so the host's thread never
// waits for it; its handlers for fatal signals are taken away again.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/plugins/engine_carrier.h"

namespace mobula::plugins::of_ucx {

using Clock = std::chrono::steady_clock;

enum class Kind : std::uint64_t {
  hello = 1,    // link: which of the sender's endpoints; peer: its link; bytes: secret, its address
  welcome = 2,  // link: the receiver's; peer: the sender's
  message = 3,  // link: the receiver's
  bye = 4,      // link: the receiver's, which is of no more use
};
struct Header {
  Kind kind{};
  std::uint64_t link = 0;
  std::uint64_t peer = 0;
};

struct Sending {
  std::uint64_t link = 0;
  Header header;
  Bytes bytes;
  Clock::time_point since;
  bool done = false;
  bool failed = false;
};

// Another worker, as its address names it.
struct Other {
  ucp_ep_h endpoint = nullptr;
  std::uint64_t generation = 0;  // of the endpoint: how many there have been
  std::uint64_t theirs = 0;      // of the endpoint that the other has of this one; 0: not known
  std::size_t links = 0;
  Clock::time_point idle_since;
};

struct Link {
  std::string other;
  std::uint64_t peer = 0;     // its number there; 0: not known yet
  std::deque<Bytes> waiting;  // for that number
  Clock::time_point since;    // of the connection
  Bytes hello;                // until it is answered
  bool said_again = false;
};

// The worker and the thread that turns it. Made by the host's thread, which then only orders; shared
// with the thread, which may have to be left behind.
class Engine {
 public:
  static constexpr const char* library = "UCX";
  static constexpr std::uint64_t max_message = (1u << 20) + 4096;
  static constexpr std::size_t max_endpoint = Secret().size() + 1'900;

  Engine(std::shared_ptr<Inbox> inbox, std::shared_ptr<Orders> orders);
  ~Engine() { close(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread.
  std::string endpoint() const { return std::string(secret_.data(), secret_.size()) + address_; }
  std::uint64_t next_link() { return next_link_++; }

  // The engine's own thread, from here on.
  void run();

 private:
  struct Arrival {
    Header header;
    Bytes bytes;
  };
  void open();
  void close();
  void wait();
  void turn();
  void obey(Order order);
  void connect(std::uint64_t number, const Bytes& endpoint);
  // The other worker with an endpoint, and a link more.
  Other& reach(const std::string& address);
  void let_go(const std::string& address);
  ucp_ep_h open_endpoint(const std::string& address);
  void post(std::uint64_t number, Link& link, Header header, Bytes bytes);
  void on_arrival(Arrival arrival);
  void on_hello(const Arrival& arrival);
  void clear_sendings();
  void break_link(std::uint64_t number, const std::string& why);
  void drop(std::uint64_t number);
  void close_the_idle(Clock::duration after);
  void close_endpoint(ucp_ep_h endpoint);
  void lose(const std::string& address, const std::string& why);
  void greet_again(const std::string& address);

  const std::shared_ptr<Inbox> inbox_;
  const std::shared_ptr<Orders> orders_;
  const Secret secret_ = random_secret();
  std::string address_;
  std::atomic<std::uint64_t> next_link_{1};
  Handle ready_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::map<std::uint64_t, Link> links_;
  std::list<Sending> sendings_;
  std::map<std::string, Other> others_;
  std::vector<void*> closing_;    // requests
  // Filled while UCX turns, and looked at afterwards.
  std::deque<Arrival> arrivals_;
  std::vector<std::pair<std::uint64_t, std::string>> broken_;  // links
  std::vector<std::pair<ucp_ep_h, std::string>> lost_;         // endpoints
};

}  // namespace mobula::plugins::of_ucx
