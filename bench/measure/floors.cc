#include "bench/measure/floors.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <system_error>

#include "bench/measure/child.h"
#include "bench/measure/measure.h"
#include "bench/measure/pinning.h"

namespace mobula::bench {
namespace {

class SharedPage {
 public:
  SharedPage()
      : at_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) refused("mmap");
  }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  ~SharedPage() { ::munmap(at_, size); }
  void* get() const { return at_; }

 private:
  static constexpr std::size_t size = 4096;
  void* at_;
};

// Microseconds per `turn`, as the median of several rounds of `turns`.
double microseconds_per_turn(int rounds, int turns, const std::function<void()>& turn) {
  std::vector<double> each;
  for (int round = 0; round < rounds; ++round) {
    const double seconds = seconds_of([&] {
      for (int i = 0; i < turns; ++i) turn();
    });
    each.push_back(seconds * 1e6 / turns);
  }
  return median(std::move(each));
}

// An unnamed file, mapped shared, like the memory of objects.
class MappedFile {
 public:
  explicit MappedFile(std::size_t size) : size_(size), fd_(::memfd_create("floor", MFD_CLOEXEC)) {
    if (fd_ < 0) refused("memfd_create");
    if (::ftruncate(fd_, static_cast<off_t>(size)) == 0) {
      at_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    }
    if (at_ == MAP_FAILED) {
      const int why = errno;
      ::close(fd_);
      errno = why;
      refused("mmap of a memfd");
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    ::munmap(at_, size_);
    ::close(fd_);
  }
  char* get() const { return static_cast<char*>(at_); }

 private:
  std::size_t size_;
  int fd_;
  void* at_ = MAP_FAILED;
};

}  // namespace

Floor spinning_round_trip() {
  struct Words {
    alignas(64) std::atomic<std::uint32_t> ping{0};
    alignas(64) std::atomic<std::uint32_t> pong{0};
  };
  constexpr std::uint32_t last = ~0u;
  const SharedPage page;
  auto* words = new (page.get()) Words;
  const Child child([&] {
    for (std::uint32_t seen = 0;;) {
      const std::uint32_t ping = words->ping.load(std::memory_order_acquire);
      if (ping == last) return;
      if (ping != seen) words->pong.store(seen = ping, std::memory_order_release);
    }
  });
  std::uint32_t number = 0;
  const double microseconds = microseconds_per_turn(9, 20'000, [&] {
    words->ping.store(++number, std::memory_order_release);
    while (words->pong.load(std::memory_order_acquire) != number) {
    }
  });
  words->ping.store(last, std::memory_order_release);
  return {"round trip of two spinning processes", microseconds, "us"};
}

Floor futex_round_trip(int here, int there) {
  // An even value: this side's turn.
  const SharedPage page;
  auto* word = new (page.get()) std::atomic<std::uint32_t>(0);
  constexpr std::uint32_t last = ~0u;
  static_assert(last % 2 == 1);
  const auto wait_while = [word](std::uint32_t seen) {
    ::syscall(SYS_futex, word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  };
  const auto say = [word](std::uint32_t next) {
    word->store(next, std::memory_order_release);
    ::syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  };
  const Child child([&] {
    const Pinned bound(there);
    for (;;) {
      const std::uint32_t seen = word->load(std::memory_order_acquire);
      if (seen == last) return;
      if (seen % 2 == 1) {
        say(seen + 1);
      } else {
        wait_while(seen);
      }
    }
  });
  double microseconds = 0;
  {
    const Pinned bound(here);
    microseconds = microseconds_per_turn(9, 2'000, [&] {
      const std::uint32_t sent = word->load(std::memory_order_relaxed) + 1;
      say(sent);
      while (word->load(std::memory_order_acquire) == sent) wait_while(sent);
    });
  }
  say(last);
  return {
      here == there ? "futex round trip on one processor" : "futex round trip between processors",
      microseconds, "us"};
}

Floor socket_round_trip() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) refused("socketpair");
  double microseconds = 0;
  {
    const Child child([&] {
      ::close(ends[0]);
      std::array<char, 64> bytes{};
      while (::read(ends[1], bytes.data(), bytes.size()) > 0) {
        if (::write(ends[1], bytes.data(), bytes.size()) < 0) return;
      }
    });
    ::close(ends[1]);
    std::array<char, 64> bytes{};
    microseconds = microseconds_per_turn(9, 1'000, [&] {
      if (::write(ends[0], bytes.data(), bytes.size()) < 0) refused("write");
      if (::read(ends[0], bytes.data(), bytes.size()) < 0) refused("read");
    });
    ::close(ends[0]);
  }
  return {"round trip of two processes over sockets", microseconds, "us"};
}

Floor fork_and_exit() {
  const double microseconds = microseconds_per_turn(9, 50, [] { const Child child([] {}); });
  return {"fork, exit, wait", microseconds, "us"};
}

Floor warm_memcpy_to_memfd() {
  constexpr std::size_t size = std::size_t{64} << 20;
  const auto from = std::make_unique<char[]>(size);
  const MappedFile to(size);
  std::memset(from.get(), 1, size);
  std::memset(to.get(), 2, size);
  // Reads through a volatile, so that the compiler keeps the copy.
  volatile char seen = 0;
  const double microseconds = microseconds_per_turn(9, 4, [&] {
    std::memcpy(to.get(), from.get(), size);
    seen = to.get()[size / 2];
    from[size / 3] = static_cast<char>(seen + 1);
  });
  return {"memcpy to a warm memfd", static_cast<double>(size) / microseconds / 1e3, "GB/s"};
}

Floor memcpy_to_fresh_pages() {
  constexpr std::size_t size = std::size_t{128} << 20;
  const auto from = std::make_unique<char[]>(size);
  std::memset(from.get(), 1, size);
  volatile char seen = 0;
  const double microseconds = microseconds_per_turn(5, 2, [&] {
    void* const to =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (to == MAP_FAILED) refused("mmap");
    ::madvise(to, size, MADV_HUGEPAGE);
    std::memcpy(to, from.get(), size);
    seen = static_cast<const char*>(to)[size / 2];
    from[size / 3] = static_cast<char>(seen + 1);
    ::munmap(to, size);
  });
  return {"memcpy into fresh huge pages", static_cast<double>(size) / microseconds / 1e3, "GB/s"};
}

}  // namespace mobula::bench
