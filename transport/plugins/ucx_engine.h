// The UCX worker of the UCX plugin (ucx_plugin.cc) and the thread that drives it: links to other
// workers, with orders from the host's thread and reports to its inbox.
// Thread: the engine's thread, except endpoint() and next_link(), which are for any.
// Owner: shared with its thread; it may outlive the carrier if UCX does not end.
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
  // `link`: generation of the sender's endpoint; `peer`: its link; `bytes`: secret, its address
  hello = 1,
  welcome = 2,  // link: of the receiver; peer: of the sender
  message = 3,  // link: of the receiver
  bye = 4,      // link: of the receiver, which is closed
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

// Another worker, identified by its address.
struct Other {
  ucp_ep_h endpoint = nullptr;
  std::uint64_t generation = 0;  // count of endpoints to this worker, with `endpoint`
  std::uint64_t theirs = 0;      // generation of the peer's endpoint to this worker; 0: not known
  std::size_t links = 0;
  Clock::time_point idle_since;
};

struct Link {
  std::string other;
  std::uint64_t peer = 0;     // number of the link in the peer; 0: not known yet
  std::deque<Bytes> waiting;  // until `peer` is known
  Clock::time_point since;    // start of the connection
  Bytes hello;                // kept until the reply
  bool said_again = false;
};

// The worker and the thread that drives it. The host's thread creates it and then only queues
// orders. Shared with the thread, which may have to be abandoned.
//
// Properties of UCX that shape this code: Without peer error handling, UCX waits forever for a lost
// process. Therefore all endpoints enable it, which leaves only TCP within a machine. Rendezvous
// may write into memory after a failure. Therefore all messages are eager and use buffers of this
// plugin and of UCX. UCX joins the endpoints of two workers by number, even to a closing endpoint,
// and then silently carries nothing. Therefore each peer has one endpoint, which is kept for a
// while after its last link, and both sides count its generations. A stopped peer is silent, so a
// message that is not sent within ten seconds breaks its link. A connection over a dead network
// blocks the worker for minutes, so the host's thread never waits for it. UCX installs handlers for
// fatal signals, which are removed.
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

  // The engine's thread, for run() and all private functions.
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
  // Returns the other worker with an open endpoint, and counts one more link.
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

  const std::shared_ptr<Inbox> inbox_;    // shared with the carrier
  const std::shared_ptr<Orders> orders_;  // shared with the carrier
  const Secret secret_ = random_secret();
  std::string address_;
  std::atomic<std::uint64_t> next_link_{1};
  Handle ready_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::map<std::uint64_t, Link> links_;
  std::list<Sending> sendings_;
  std::map<std::string, Other> others_;
  std::vector<void*> closing_;  // requests
  // Filled by callbacks of UCX, and processed afterwards.
  std::deque<Arrival> arrivals_;
  std::vector<std::pair<std::uint64_t, std::string>> broken_;  // links
  std::vector<std::pair<ucp_ep_h, std::string>> lost_;         // endpoints
};

}  // namespace mobula::plugins::of_ucx
