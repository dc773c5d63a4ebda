#include "transport/tensor/link_proxy.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/time.h"
#include "transport/net/address.h"
#include "transport/net/tcp.h"

namespace mobula::internal::direct_test {
namespace {

constexpr std::size_t held_bytes = 256u << 10;  // in transit, per direction
constexpr std::size_t trickled_bytes = 48u << 10;
constexpr Duration trickle_every = 20ms;
constexpr Duration one_way_delay = 15ms;

struct Held {
  Time due;
  std::vector<std::byte> bytes;
  std::size_t sent = 0;
};

// One direction of a connection.
struct Stream {
  int from = -1, to = -1;
  bool to_client = false;
  bool over = false;
  Time not_before;  // for a trickle
  std::deque<Held> held;
  std::size_t size = 0;
};

struct Pair {
  Fd client, server;
  std::array<Stream, 2> ways;
};

}  // namespace

struct LinkControl {
  std::atomic<LinkFault> fault{LinkFault::none};
  std::atomic<std::uint64_t> left{0};  // bytes until the fault begins
  std::atomic<bool> met{false};

  bool is(LinkFault which) const { return fault == which && left == 0; }
};

namespace {

class Proxy {
 public:
  Proxy(Fd listener, SocketAddress target, LinkControl& control)
      : listener_(std::move(listener)), target_(target), control_(control) {}
  [[noreturn]] void run();

 private:
  void accept();
  void turn(Pair& pair, Time now);
  void read(Stream& way, Time now);
  void write(Stream& way, Time now);
  // Applies the fault to bytes towards the client.
  void spoil(std::span<std::byte> bytes);

  const Fd listener_;
  const SocketAddress target_;
  LinkControl& control_;
  std::vector<std::unique_ptr<Pair>> pairs_;
};

void Proxy::run() {
  for (;;) {
    std::vector<pollfd> waits{{listener_.get(), POLLIN, 0}};
    const bool stalled = control_.is(LinkFault::stall);
    for (const auto& pair : pairs_) {
      for (const Stream& way : pair->ways) {
        if (!stalled && way.size < held_bytes) waits.push_back({way.from, POLLIN, 0});
      }
    }
    // Short timeout: held bytes and settings of the test are polled.
    ::poll(waits.data(), waits.size(), 1);
    accept();
    if (stalled) {
      control_.met = true;
      continue;
    }
    for (const auto& pair : pairs_) turn(*pair, monotonic_now());
    const bool cut = control_.is(LinkFault::cut), reset = control_.is(LinkFault::reset);
    for (const auto& pair : pairs_) {
      if (!reset) break;
      const linger at_once{1, 0};
      ::setsockopt(pair->client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      ::setsockopt(pair->server.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    if (cut || reset) control_.met = true;
    std::erase_if(pairs_, [&](const auto& pair) {
      return cut || reset || pair->ways[0].over || pair->ways[1].over;
    });
  }
}

void Proxy::accept() {
  while (auto client = accept_from(listener_)) {
    if (!*client) return;
    auto pair = std::make_unique<Pair>();
    pair->client = std::move(client).value();
    pair->server = begin_connect(target_).value();
    pollfd waited{pair->server.get(), POLLOUT, 0};
    ::poll(&waited, 1, 5'000);
    pair->ways[0] = {
        .from = pair->client.get(), .to = pair->server.get(), .not_before = {}, .held = {}};
    pair->ways[1] = {.from = pair->server.get(),
                     .to = pair->client.get(),
                     .to_client = true,
                     .not_before = {},
                     .held = {}};
    pairs_.push_back(std::move(pair));
  }
}

void Proxy::turn(Pair& pair, Time now) {
  for (Stream& way : pair.ways) {
    read(way, now);
    write(way, now);
  }
}

void Proxy::read(Stream& way, Time now) {
  const bool trickles = control_.is(LinkFault::trickle);
  if (way.size >= held_bytes || way.over || (trickles && now < way.not_before)) return;
  std::vector<std::byte> bytes(trickles ? trickled_bytes : held_bytes - way.size);
  // Reads at most up to the start of the fault.
  const std::uint64_t left = control_.left;
  if (way.to_client && left > 0) bytes.resize(std::min<std::uint64_t>(bytes.size(), left));
  const ssize_t count = ::recv(way.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // The end of the stream is forwarded after all bytes before it.
  if (count <= 0) way.over = count < 0 || way.held.empty();
  if (count <= 0) return;
  bytes.resize(static_cast<std::size_t>(count));
  if (trickles) way.not_before = now + trickle_every;
  if (trickles || control_.is(LinkFault::delay)) control_.met = true;
  if (way.to_client) spoil(bytes);
  way.size += bytes.size();
  way.held.push_back({control_.is(LinkFault::delay) ? now + one_way_delay : now, std::move(bytes)});
}

void Proxy::spoil(std::span<std::byte> bytes) {
  if (control_.is(LinkFault::corrupt) && !control_.met) {
    bytes.front() ^= std::byte{0x10};
    control_.met = true;
  }
  const std::uint64_t left = control_.left;
  control_.left = left - std::min<std::uint64_t>(left, bytes.size());
}

void Proxy::write(Stream& way, Time now) {
  while (!way.held.empty() && way.held.front().due <= now) {
    Held& first = way.held.front();
    const auto rest = std::span(first.bytes).subspan(first.sent);
    const ssize_t count = ::send(way.to, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
      way.over = errno != EAGAIN && errno != EINTR;
      return;
    }
    first.sent += static_cast<std::size_t>(count);
    way.size -= static_cast<std::size_t>(count);
    if (first.sent == first.bytes.size()) way.held.pop_front();
  }
}

}  // namespace

LinkProxy::LinkProxy(const std::string& target) {
  Fd listener = listen_at("127.0.0.1:0").value();
  address_ = local_address_of(listener.get())->text();
  void* const page = ::mmap(nullptr, sizeof(LinkControl), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  MOBULA_CHECK(page != MAP_FAILED, "a page for a test");
  control_ = new (page) LinkControl;
  const SocketAddress where = *Address::parse(target)->numeric();
  pid_ = ::fork();
  if (pid_ == 0) Proxy(std::move(listener), where, *control_).run();
}

LinkProxy::~LinkProxy() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::munmap(control_, sizeof(LinkControl));
}

void LinkProxy::set(LinkFault fault, std::uint64_t after) {
  control_->fault = LinkFault::none;
  control_->met = false;
  control_->left = after;
  control_->fault = fault;
}

bool LinkProxy::met() const { return control_->met; }

}  // namespace mobula::internal::direct_test
