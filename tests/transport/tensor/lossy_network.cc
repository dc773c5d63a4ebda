#include "transport/tensor/lossy_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/time.h"

namespace mobula::internal::direct_test {

struct NetworkControl {
  std::atomic<std::uint32_t> lost_per_mille{0}, delay_us{0};
  std::atomic<bool> cut{false};
  std::atomic<std::uint64_t> lost{0}, passed{0};
};

namespace {

constexpr std::size_t max_packet = 65'536;
constexpr std::size_t max_waiting = 4'096;  // packets per direction; excess packets are lost
constexpr const char* tunnel_name = "tunnel";

struct Packet {
  Time due;
  std::vector<char> bytes;
};

// Packets in one direction.
class Direction {
 public:
  Direction(int from, int to, std::uint64_t seed, NetworkControl& control)
      : from_(from), to_(to), random_(seed), control_(control) {}

  void take() {
    for (std::vector<char> bytes(max_packet);;) {
      const ssize_t size = ::read(from_, bytes.data(), bytes.size());
      if (size <= 0) return;
      const bool is_lost =
          control_.cut || waiting_.size() >= max_waiting || random_.chance(control_.lost_per_mille);
      ++(is_lost ? control_.lost : control_.passed);
      if (is_lost) continue;
      waiting_.push_back({monotonic_now() + std::chrono::microseconds(control_.delay_us),
                          std::vector<char>(bytes.begin(), bytes.begin() + size)});
    }
  }
  // Forwards the packets that are due. Returns the milliseconds until the next one.
  int give() {
    const Time now = monotonic_now();
    for (; !waiting_.empty() && waiting_.front().due <= now; waiting_.pop_front()) {
      const auto& bytes = waiting_.front().bytes;
      if (::write(to_, bytes.data(), bytes.size()) < 0) ++control_.lost;
    }
    return waiting_.empty() ? 1'000 : 1;
  }

 private:
  int from_, to_;
  Random random_;
  NetworkControl& control_;
  std::deque<Packet> waiting_;
};

[[noreturn]] void pass_on(int a, int b, NetworkControl& control) {
  Direction there(a, b, 1, control), back(b, a, 2, control);
  for (;;) {
    const int wait_timeout = std::min(there.give(), back.give());
    std::array<pollfd, 2> ends{{{a, POLLIN, 0}, {b, POLLIN, 0}}};
    ::poll(ends.data(), ends.size(), wait_timeout);
    there.take();
    back.take();
  }
}

bool set_up(int tunnel, const std::string& address) {
  ifreq request{};
  std::strcpy(request.ifr_name, tunnel_name);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(tunnel, TUNSETIFF, &request) != 0) return false;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in of{};
  of.sin_family = AF_INET;
  const auto put = [&](const char* text, unsigned long what) {
    ::inet_pton(AF_INET, text, &of.sin_addr);
    std::memcpy(&request.ifr_addr, &of, sizeof of);
    return ::ioctl(socket.get(), what, &request) == 0;
  };
  if (!put(address.c_str(), SIOCSIFADDR) || !put("255.255.255.0", SIOCSIFNETMASK)) return false;
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

}  // namespace

LossyNetwork::LossyNetwork() : before_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
  const bool both = before_ && make_host(0) && make_host(1);
  leave();
  if (!both) return;
  void* const page = ::mmap(nullptr, sizeof(NetworkControl), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  MOBULA_CHECK(page != MAP_FAILED, "a page");
  control_ = new (page) NetworkControl;
  pid_ = ::fork();
  if (pid_ == 0) pass_on(tunnels_[0].get(), tunnels_[1].get(), *control_);
}

LossyNetwork::~LossyNetwork() {
  leave();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (control_ != nullptr) ::munmap(control_, sizeof(NetworkControl));
}

// Without a loopback interface: packets can pass only through the tunnel.
bool LossyNetwork::make_host(std::size_t host) {
  if (::unshare(CLONE_NEWNET) != 0) return false;
  hosts_[host] = Fd(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  tunnels_[host] = Fd(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  return tunnels_[host] && set_up(tunnels_[host].get(), address(static_cast<int>(host)));
}

void LossyNetwork::enter(int host) {
  MOBULA_CHECK(::setns(hosts_.at(static_cast<std::size_t>(host)).get(), CLONE_NEWNET) == 0,
               "to a host");
}

void LossyNetwork::see_own_devices() {
  // Otherwise libraries use shared memory, because both hosts are one machine.
  ::setenv("UCX_TLS", "tcp", 1);
  MOBULA_CHECK(::unshare(CLONE_NEWNS) == 0 &&
                   ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                   ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0,
               "the devices of a host");
}

void LossyNetwork::leave() {
  if (before_) MOBULA_CHECK(::setns(before_.get(), CLONE_NEWNET) == 0, "back to the network");
}

void LossyNetwork::set(const Weather& weather) {
  control_->lost_per_mille = weather.lost_per_mille;
  control_->delay_us = weather.delay_us;
  control_->cut = weather.cut;
}

std::uint64_t LossyNetwork::lost() const { return control_->lost; }
std::uint64_t LossyNetwork::passed() const { return control_->passed; }

}  // namespace mobula::internal::direct_test
