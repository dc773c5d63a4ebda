#include "worker/process/poll_set.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace mobula::internal::worker {
namespace {

constexpr int source_bits = 8;

std::uint64_t label_of(std::uint64_t owner, PollSet::Source source) {
  return owner << source_bits | static_cast<std::uint64_t>(source);
}

}  // namespace

Result<PollSet> PollSet::create() {
  PollSet set(Fd(::epoll_create1(EPOLL_CLOEXEC)),
              Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
  if (!set.epoll_ || !set.timer_) return errno_failure("make an epoll set with a timer", errno);
  if (auto added = set.add(set.timer_.get(), 0, Source::deadline); !added) return added.error();
  return set;
}

Result<void> PollSet::add(int fd, std::uint64_t owner, Source source) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = label_of(owner, source);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return errno_failure("watch an fd", errno);
}

void PollSet::remove(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void PollSet::set_deadline(std::optional<Time> when) {
  itimerspec at{};
  if (when) {
    // An absolute time of 0 would disarm the timer. A past time makes it ready at once.
    const std::int64_t ns = std::max<std::int64_t>(when->ns(), 1);
    at.it_value.tv_sec = ns / 1'000'000'000;
    at.it_value.tv_nsec = ns % 1'000'000'000;
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

std::vector<PollSet::Ready> PollSet::take_ready() {
  std::array<epoll_event, 128> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  std::vector<Ready> ready;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t label = events[static_cast<std::size_t>(i)].data.u64;
    ready.push_back({label >> source_bits, static_cast<Source>(label & ((1u << source_bits) - 1))});
  }
  if (std::any_of(ready.begin(), ready.end(),
                  [](const Ready& one) { return one.source == Source::deadline; })) {
    std::uint64_t expirations = 0;
    (void)!::read(timer_.get(), &expirations, sizeof expirations);
  }
  return ready;
}

}  // namespace mobula::internal::worker
