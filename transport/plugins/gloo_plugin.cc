// Gloo as a carrier of messages (mobula/transport_plugin.h). Each link has a context of two ranks,
// a reader thread, and a writer thread, because Gloo offers only blocking waits. Two processes
// connect through a socket of this plugin and exchange the addresses of their pairs.
//
// Properties of Gloo that shape this code: A wait that times out poisons its pair. Therefore waits
// have no timeout here and are aborted when the link is dropped, and an aborted pair is never
// reused. A message longer than its posted buffer terminates the process, so each message is
// preceded by its length, which is checked. Writes raise SIGPIPE, which all threads here block.
// Exceptions are caught at the top of each thread.
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "mobula/transport_plugin.h"
#include "transport/plugins/carrier_parts.h"

namespace {

using namespace mobula::plugins;  // NOLINT: a separate library
using Clock = std::chrono::steady_clock;
namespace tcp = ::gloo::transport::tcp;

constexpr std::uint64_t max_message = (1u << 20) + 4096;
constexpr std::size_t max_waiting = 64;  // messages per link, in each direction
constexpr std::size_t max_links = 128;
constexpr std::size_t max_address = 512;
constexpr std::chrono::milliseconds send_timeout{10'000};
constexpr std::chrono::milliseconds for_ever{std::chrono::hours(50)};
// Gloo multiplies this by five for a connection.
constexpr std::chrono::milliseconds connect_fifth{1'000};
constexpr int meet_limit_ms = 3'000;
constexpr auto end_timeout = std::chrono::seconds(8);

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

// While this object exists, started threads block SIGPIPE.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~WithoutPipeSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutPipeSignal(const WithoutPipeSignal&) = delete;
  WithoutPipeSignal& operator=(const WithoutPipeSignal&) = delete;

 private:
  sigset_t before_{};
};

// I/O on a socket with timeouts.
void write_all(int socket, const void* from, std::size_t size) {
  const char* at = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t count = ::send(socket, at, size, MSG_NOSIGNAL);
    if (count <= 0) fail("meet the other process");
    at += count;
    size -= static_cast<std::size_t>(count);
  }
}
void read_all(int socket, void* to, std::size_t size) {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t count = ::recv(socket, at, size, 0);
    if (count == 0) throw std::runtime_error("the other process closed the meeting");
    if (count < 0) fail("meet the other process");
    at += count;
    size -= static_cast<std::size_t>(count);
  }
}
void write_address(int socket, const Bytes& address) {
  const auto size = static_cast<std::uint32_t>(address.size());
  write_all(socket, &size, sizeof size);
  write_all(socket, address.data(), address.size());
}
Bytes read_address(int socket) {
  std::uint32_t size = 0;
  read_all(socket, &size, sizeof size);
  if (size == 0 || size > max_address)
    throw std::runtime_error("the other process gives no address");
  Bytes address(size);
  read_all(socket, address.data(), size);
  return address;
}
void limit_waits(int socket) {
  const timeval limit{meet_limit_ms / 1000, meet_limit_ms % 1000 * 1000};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

struct Where {
  std::string host;
  std::uint16_t port = 0;
  Secret secret{};
};

Handle connect_to(const Where& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found) != 0) {
    throw std::runtime_error("no machine is named " + where.host);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  Handle socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) fail("connect");
  limit_waits(socket.get());
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) {
    fail("connect to " + where.host + ":" + std::to_string(where.port));
  }
  return socket;
}

class Link {
 public:
  Link(std::uint64_t number, const std::shared_ptr<::gloo::transport::Device>& device, int rank,
       std::shared_ptr<Inbox> inbox)
      : number_(number),
        other_(1 - rank),
        inbox_(std::move(inbox)),
        context_(device->createContext(rank, 2)),
        in_(max_message) {
    context_->setTimeout(connect_fifth);
    pair_ = context_->createPair(other_).get();
    in_length_buffer_ = context_->createUnboundBuffer(&in_length_, sizeof in_length_);
    in_buffer_ = context_->createUnboundBuffer(in_.data(), in_.size());
    out_length_buffer_ = context_->createUnboundBuffer(&out_length_, sizeof out_length_);
  }
  Bytes address() const { return pair_->address().bytes(); }

  // `meet` returns the address of the peer and runs on the reader thread. Throws if no thread can
  // start.
  void start(std::function<Bytes()> meet) {
    running_ = 2;
    writer_ = std::thread([this] { run([&] { write(); }); });
    try {
      reader_ = std::thread([this, meet = std::move(meet)] { run([&] { read(meet); }); });
    } catch (...) {
      abort();
      writer_.join();
      throw;
    }
  }
  bool put(Bytes message) {
    const MutexLock lock(mutex_);
    if (out_.size() >= max_waiting) return false;
    out_.push_back(std::move(message));
    changed_.notify_all();
    return true;
  }
  // The host has taken a message.
  void taken() {
    const MutexLock lock(mutex_);
    --untaken_;
    changed_.notify_all();
  }
  // Must be repeated until the link has ended, because an abort may precede the wait that it should
  // abort.
  void abort() {
    {
      const MutexLock lock(mutex_);
      closing_ = true;
      changed_.notify_all();
      if (out_buffer_) out_buffer_->abortWaitSend();
    }
    in_length_buffer_->abortWaitRecv();
    in_buffer_->abortWaitRecv();
    out_length_buffer_->abortWaitSend();
  }
  bool ended() const { return running_ == 0; }
  void join() {
    reader_.join();
    writer_.join();
  }
  // Abandons threads that do not end.
  void forsake() {
    reader_.detach();
    writer_.detach();
  }

 private:
  template <class Body>
  void run(const Body& body) {
    std::string why = "the link was closed";
    try {
      body();
    } catch (const std::exception& thrown) {
      why = thrown.what();
    } catch (...) {
      why = "Gloo threw an object that is not a std::exception";
    }
    bool first = false;
    {
      const MutexLock lock(mutex_);
      first = !std::exchange(closing_, true);
      changed_.notify_all();
    }
    if (first) inbox_->put({number_, News::What::broken, Bytes(why.begin(), why.end())});
    if (--running_ == 0) inbox_->ring();
  }
  void read(const std::function<Bytes()>& meet) {
    pair_->connect(meet());
    {
      const MutexLock lock(mutex_);
      connected_ = true;
      changed_.notify_all();
    }
    for (std::uint64_t slot = 0;; slot += 2) {
      in_length_buffer_->recv(other_, slot);
      if (!in_length_buffer_->waitRecv(nullptr, for_ever)) return;
      if (in_length_ == 0 || in_length_ > max_message)
        throw std::runtime_error("a message of a wrong length");
      in_buffer_->recv(other_, slot + 1, 0, in_length_);
      if (!in_buffer_->waitRecv(nullptr, for_ever)) return;
      MutexLock lock(mutex_);
      while (!closing_ && untaken_ >= max_waiting) changed_.wait(lock);
      if (closing_) return;
      ++untaken_;
      lock.unlock();
      inbox_->put({number_, News::What::message,
                   Bytes(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(in_length_))});
    }
  }
  void write() {
    for (std::uint64_t slot = 0;; slot += 2) {
      MutexLock lock(mutex_);
      while (!closing_ && (!connected_ || out_.empty())) changed_.wait(lock);
      if (closing_) return;
      // The buffer is destroyed before its bytes, because its destructor waits for their reader.
      out_buffer_.reset();
      out_message_ = std::move(out_.front());
      out_.pop_front();
      out_buffer_ = context_->createUnboundBuffer(out_message_.data(), out_message_.size());
      ::gloo::transport::UnboundBuffer& body = *out_buffer_;
      lock.unlock();
      out_length_ = out_message_.size();
      out_length_buffer_->send(other_, slot);
      if (!out_length_buffer_->waitSend(nullptr, send_timeout)) return;
      body.send(other_, slot + 1);
      if (!body.waitSend(nullptr, send_timeout)) return;
    }
  }

  const std::uint64_t number_;
  const int other_;
  const std::shared_ptr<Inbox> inbox_;                         // shared with the carrier
  const std::shared_ptr<::gloo::transport::Context> context_;  // shared by the interface of Gloo
  ::gloo::transport::Pair* pair_ = nullptr;                    // owned by the context
  std::uint64_t in_length_ = 0, out_length_ = 0;
  Bytes in_;
  std::unique_ptr<::gloo::transport::UnboundBuffer> in_length_buffer_, in_buffer_,
      out_length_buffer_;
  std::atomic<int> running_{0};
  std::thread reader_, writer_;

  Mutex mutex_;
  CondVar changed_;
  bool connected_ MOBULA_GUARDED_BY(mutex_) = false;
  bool closing_ MOBULA_GUARDED_BY(mutex_) = false;
  std::size_t untaken_ MOBULA_GUARDED_BY(mutex_) = 0;
  std::deque<Bytes> out_ MOBULA_GUARDED_BY(mutex_);
  Bytes out_message_;  // message in transit; writer thread only
  std::unique_ptr<::gloo::transport::UnboundBuffer> out_buffer_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace

struct mobula_carrier {
 public:
  mobula_carrier(const mobula_carrier_host& host, const std::string& listen);
  ~mobula_carrier();
  mobula_carrier(const mobula_carrier&) = delete;
  mobula_carrier& operator=(const mobula_carrier&) = delete;

  int descriptor() const { return inbox_->descriptor(); }
  void poll();
  std::string endpoint() const { return endpoint_; }
  std::uint64_t connect(const std::string& endpoint);
  bool send(std::uint64_t link, const mobula_carrier_bytes* parts, std::size_t count);
  void drop(std::uint64_t link);

 private:
  void serve_door();
  void let_in(const Handle& socket);
  void reap();

  const mobula_carrier_host host_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::shared_ptr<::gloo::transport::Device> device_;  // shared with the links
  const Secret secret_ = random_secret();
  std::string endpoint_;
  std::map<std::uint64_t, std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Link>> ending_;

  Handle listener_, stop_;
  std::thread door_;
  std::atomic<std::uint64_t> next_link_{1};
  std::atomic<std::size_t> link_count_{0};  // links that have not ended
  Mutex mutex_;
  std::vector<std::pair<std::uint64_t, std::unique_ptr<Link>>> arrived_ MOBULA_GUARDED_BY(mutex_);
};

mobula_carrier::mobula_carrier(const mobula_carrier_host& host, const std::string& listen)
    : host_(host), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const WithoutPipeSignal blocked;
  tcp::attr attributes;
  attributes.hostname = listen;
  device_ = tcp::CreateDevice(attributes);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(listen.c_str(), "0", &hints, &found) != 0) {
    throw std::runtime_error("this machine has no address " + listen);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  listener_ = Handle(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (stop_.get() < 0 || listener_.get() < 0 ||
      ::bind(listener_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    fail("listen at " + listen);
  }
  // The port has the same offset in both address families.
  std::uint16_t port = 0;
  std::memcpy(&port, reinterpret_cast<const char*>(&bound) + offsetof(sockaddr_in, sin_port),
              sizeof port);
  endpoint_.assign(secret_.data(), secret_.size());
  endpoint_.append(reinterpret_cast<const char*>(&port), sizeof port);
  endpoint_ += listen;
  door_ = std::thread([this] { serve_door(); });
}

mobula_carrier::~mobula_carrier() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
  door_.join();
  for (auto& [number, link] : arrived_) ending_.push_back(std::move(link));
  for (auto& [number, link] : links_) ending_.push_back(std::move(link));
  const auto deadline = Clock::now() + end_timeout;
  for (reap(); !ending_.empty() && Clock::now() < deadline; reap()) {
    pollfd news{inbox_->descriptor(), POLLIN, 0};
    ::poll(&news, 1, 20);
    inbox_->take();
  }
  for (auto& link : ending_) {
    std::fprintf(stderr,
                 "mobula: a link of Gloo does not end; its threads and memory are left behind\n");
    link->forsake();
    static_cast<void>(link.release());
  }
}

void mobula_carrier::serve_door() {
  for (;;) {
    std::array<pollfd, 2> waits{{{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) return;
    const Handle socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) {
      // Probably out of descriptors: pause instead of spinning.
      pollfd stop{stop_.get(), POLLIN, 0};
      ::poll(&stop, 1, 50);
      continue;
    }
    try {
      let_in(socket);
    } catch (const std::exception&) {
      // The peer detects the failure by itself.
    }
  }
}

void mobula_carrier::let_in(const Handle& socket) {
  limit_waits(socket.get());
  Secret secret{};
  read_all(socket.get(), secret.data(), secret.size());
  if (secret != secret_ || link_count_ >= max_links) return;
  Bytes theirs = read_address(socket.get());
  const std::uint64_t number = next_link_++;
  auto link = std::make_unique<Link>(number, device_, 1, inbox_);
  if (theirs.size() != link->address().size()) return;
  write_address(socket.get(), link->address());
  // Under the lock, so that poll() does not see reports of a link that is not in the table yet.
  const MutexLock lock(mutex_);
  link->start([theirs] { return theirs; });
  ++link_count_;
  arrived_.emplace_back(number, std::move(link));
}

std::uint64_t mobula_carrier::connect(const std::string& endpoint) {
  Where where;
  if (endpoint.size() <= where.secret.size() + sizeof where.port) {
    throw std::runtime_error("an endpoint of Gloo is longer");
  }
  if (link_count_ >= max_links) {
    throw std::runtime_error(std::to_string(max_links) +
                             " links of Gloo are open, which is the limit");
  }
  std::memcpy(where.secret.data(), endpoint.data(), where.secret.size());
  std::memcpy(&where.port, endpoint.data() + where.secret.size(), sizeof where.port);
  where.port = ntohs(where.port);
  where.host = endpoint.substr(where.secret.size() + sizeof where.port);
  const std::uint64_t number = next_link_++;
  const WithoutPipeSignal blocked;
  auto link = std::make_unique<Link>(number, device_, 0, inbox_);
  link->start([where, own = link->address()] {
    const Handle socket = connect_to(where);
    write_all(socket.get(), where.secret.data(), where.secret.size());
    write_address(socket.get(), own);
    Bytes theirs = read_address(socket.get());
    if (theirs.size() != own.size())
      throw std::runtime_error("the other process has another kind of address");
    return theirs;
  });
  ++link_count_;
  links_.emplace(number, std::move(link));
  return number;
}

bool mobula_carrier::send(std::uint64_t link, const mobula_carrier_bytes* parts,
                          std::size_t count) {
  const auto at = links_.find(link);
  if (at == links_.end()) return false;
  Bytes message = joined(parts, count);
  if (message.empty() || message.size() > max_message) return false;
  return at->second->put(std::move(message));
}

void mobula_carrier::drop(std::uint64_t link) {
  auto node = links_.extract(link);
  if (node.empty()) return;
  node.mapped()->abort();
  ending_.push_back(std::move(node.mapped()));
}

void mobula_carrier::poll() {
  auto news = inbox_->take();
  {
    const MutexLock lock(mutex_);
    for (auto& [number, link] : arrived_) links_.emplace(number, std::move(link));
    arrived_.clear();
  }
  for (const News& each : news) {
    const auto at = links_.find(each.link);
    if (at == links_.end()) continue;
    if (each.what == News::What::broken) {
      drop(each.link);
      host_.on_broken(host_.host, each.link,
                      std::string(each.bytes.begin(), each.bytes.end()).c_str());
    } else {
      at->second->taken();
      host_.on_message(host_.host, each.link, each.bytes.data(), each.bytes.size());
    }
  }
  reap();
}

void mobula_carrier::reap() {
  for (auto& link : ending_) {
    link->abort();
    if (!link->ended()) continue;
    link->join();
    link.reset();
    --link_count_;
  }
  std::erase(ending_, nullptr);
}

namespace {

constexpr mobula_transport_plugin table = table_of("gloo", max_message);

}  // namespace

const mobula_transport_plugin* mobula_open_transport_plugin(void) { return &table; }
