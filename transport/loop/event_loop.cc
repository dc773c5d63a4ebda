#include "transport/loop/event_loop.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

constexpr std::uint64_t wake_id = 0;
constexpr Duration forever = Duration::max();

std::uint32_t epoll_bits(Interest interest) {
  const auto bits = static_cast<unsigned>(interest);
  return ((bits & 1U) != 0 ? std::uint32_t{EPOLLIN | EPOLLRDHUP} : 0U) |
         ((bits & 2U) != 0 ? std::uint32_t{EPOLLOUT} : 0U);
}

// Rounded up, because a wait that ends just before a timer would cost an extra iteration.
int wait_ms(Duration wait) {
  if (wait == forever) return -1;
  const auto ms = (std::max(wait, Duration(0)) + 1ms - 1ns) / 1ms;
  return static_cast<int>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max()));
}

}  // namespace

Watch::Watch(Watch&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), id_(std::exchange(other.id_, 0)) {}

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    id_ = std::exchange(other.id_, 0);
  }
  return *this;
}

void Watch::reset() {
  if (loop_ != nullptr) std::exchange(loop_, nullptr)->remove(id_);
}

void Watch::set_interest(Interest interest) {
  MOBULA_CHECK(loop_ != nullptr, "interest of a watch that has ended");
  loop_->set_interest(id_, interest);
}

void Watch::mark_ready() {
  if (loop_ != nullptr) loop_->mark(id_);
}

Timer::Timer(EventLoop& loop, std::function<void()> callback)
    : loop_(loop), callback_(std::make_shared<const std::function<void()>>(std::move(callback))) {}

void Timer::arm(Time when) {
  disarm();
  key_ = {when, loop_.next_arming_++};
  loop_.timers_.emplace(key_, this);
  armed_ = true;
}

void Timer::disarm() {
  if (armed_) loop_.timers_.erase(key_);
  armed_ = false;
}

Result<std::unique_ptr<EventLoop>> EventLoop::create(EventLoopOptions options) {
  std::unique_ptr<EventLoop> loop(new EventLoop(options));
  loop->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_) return errno_failure("create the epoll set of an event loop", errno);
  loop->wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_) return errno_failure("create the wake descriptor of an event loop", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = wake_id;
  if (::epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wake_.get(), &event) != 0) {
    return errno_failure("watch the wake descriptor of an event loop", errno);
  }
  loop->turn_began_ = monotonic_now();
  return loop;
}

EventLoop::~EventLoop() {
  MOBULA_CHECK(sources_.empty() && timers_.empty(),
               fmt::format("an event loop ends with {} watches and {} armed timers",
                           sources_.size(), timers_.size()));
}

Result<Watch> EventLoop::watch(int fd, Interest interest, FdCallback callback) {
  if (id_of_fd_.contains(fd)) {
    return failure(ErrorCode::already_exists, fmt::format("descriptor {} is watched already", fd));
  }
  const std::uint64_t id = next_id_++;
  auto source = std::make_shared<Source>();
  source->fd = fd;
  source->callback = std::move(callback);
  // Always added and, without interest, removed again, so that epoll rejects a bad descriptor here.
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return errno_failure(fmt::format("watch descriptor {}", fd), errno);
  }
  source->interest = interest;
  source->polled = true;
  sources_.emplace(id, std::move(source));
  id_of_fd_.emplace(fd, id);
  if (interest == Interest::none) set_interest(id, interest);
  return Watch(this, id);
}

void EventLoop::set_turn_observer(std::function<void(const Turn&)> observer) {
  observer_ = observer
                  ? std::make_shared<const std::function<void(const Turn&)>>(std::move(observer))
                  : nullptr;
}

// A descriptor without interest leaves the set, because epoll would report its hang-up forever.
void EventLoop::set_interest(std::uint64_t id, Interest interest) {
  Source& source = *sources_.at(id);
  if (source.interest == interest && source.polled == (interest != Interest::none)) return;
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = id;
  const bool polled = interest != Interest::none;
  const int action = !polled ? EPOLL_CTL_DEL : source.polled ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  const int rc = ::epoll_ctl(epoll_.get(), action, source.fd, &event);
  MOBULA_CHECK(rc == 0, fmt::format("descriptor {} was closed under its watch", source.fd));
  source.interest = interest;
  source.polled = polled;
}

void EventLoop::mark(std::uint64_t id) {
  Source& source = *sources_.at(id);
  if (source.marked) return;
  source.marked = true;
  marked_.push_back(id);
}

void EventLoop::remove(std::uint64_t id) {
  const auto at = sources_.find(id);
  MOBULA_CHECK(at != sources_.end(), "a watch ends once");
  if (at->second->polled) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at->second->fd, nullptr);
  id_of_fd_.erase(at->second->fd);
  sources_.erase(at);
}

void EventLoop::run() {
  while (!stop_.load(std::memory_order_acquire)) turn(forever);
  stop_.store(false, std::memory_order_release);
}

Duration EventLoop::wait_before(Duration max_wait) const {
  if (!marked_.empty() || stop_.load(std::memory_order_acquire)) return Duration(0);
  if (timers_.empty()) return max_wait;
  const Duration until = timers_.begin()->first.first - monotonic_now();
  return std::min({max_wait, std::max(until, Duration(0)), options_.longest_wait});
}

void EventLoop::turn(Duration max_wait) {
  const bool judges = !timers_.empty();
  const Time waits = monotonic_now();
  Duration wait = wait_before(max_wait);
  Time began = waits;
  for (int round = 0; round < options_.max_rounds; ++round) {
    const bool read = read_round(wait);
    if (round == 0) began = turn_.now;
    if (!read && marked_.empty()) break;
    wait = Duration(0);
  }
  // Without a timer the wait had no limit, so its length proves nothing.
  turn_.gap = (judges ? began : waits) - turn_began_;
  turn_began_ = began;
  turn_.now = monotonic_now();
  if (const auto observer = observer_) (*observer)(turn_);
  fire_timers(monotonic_now());
}

// Serves every ready descriptor once. Returns true if a descriptor was ready.
bool EventLoop::read_round(Duration wait) {
  events_.resize(sources_.size() + 1);
  const int count =
      ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), wait_ms(wait));
  turn_.now = monotonic_now();
  MOBULA_CHECK(count >= 0 || errno == EINTR, "waiting on a loop's own epoll set");
  for (int i = 0; i < count; ++i) {
    const epoll_event event = events_[static_cast<std::size_t>(i)];
    if (event.data.u64 == wake_id) {
      run_posted();
      continue;
    }
    const bool broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    call(event.data.u64, {.readable = broken || (event.events & (EPOLLIN | EPOLLRDHUP)) != 0,
                          .writable = broken || (event.events & EPOLLOUT) != 0});
  }
  run_marked();
  return count > 0;
}

void EventLoop::run_marked() {
  std::vector<std::uint64_t> marked;
  marked.swap(marked_);
  for (const std::uint64_t id : marked) {
    const auto at = sources_.find(id);
    if (at == sources_.end()) continue;
    at->second->marked = false;
    call(id, {.readable = true, .writable = false});
  }
}

void EventLoop::call(std::uint64_t id, Readiness readiness) {
  const auto at = sources_.find(id);
  if (at == sources_.end()) return;  // ended by a callback of this round
  const std::shared_ptr<Source> source = at->second;
  source->callback(readiness);
}

void EventLoop::run_posted() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(wake_.get(), &count, sizeof(count));
  std::vector<Task> tasks = std::exchange(run_, {});
  {
    const MutexLock lock(mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) {
    task();
    task = nullptr;  // destroys the captures in order
  }
  tasks.clear();
  if (tasks.capacity() <= most_kept) run_ = std::move(tasks);
}

// A timer armed by a callback of this phase waits for the next iteration, regardless of its time.
void EventLoop::fire_timers(Time now) {
  const std::uint64_t fresh = next_arming_;
  for (auto at = timers_.begin(); at != timers_.end() && at->first.first <= now;) {
    if (at->first.second >= fresh) {
      ++at;
      continue;
    }
    Timer* const timer = at->second;
    const auto callback = timer->callback_;
    timer->disarm();
    (*callback)();
    at = timers_.begin();
  }
}

Result<void> EventLoop::post(Task task) {
  {
    const MutexLock lock(mutex_);
    if (posted_.size() >= options_.max_posted) {
      return failure(ErrorCode::resource_exhausted,
                     fmt::format("post to an event loop: {} functions wait already, which is the "
                                 "limit; its thread is blocked or overloaded",
                                 posted_.size()));
    }
    posted_.push_back(std::move(task));
    if (posted_.size() > 1) return {};
  }
  wake();
  return {};
}

void EventLoop::stop() {
  stop_.store(true, std::memory_order_release);
  wake();
}

void EventLoop::wake() {
  const int saved = errno;
  const std::uint64_t one = 1;
  // A full counter means that a wake-up is pending.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
  errno = saved;
}

}  // namespace mobula::internal
