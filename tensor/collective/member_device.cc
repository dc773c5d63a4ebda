// Member operations whose payload a library moves, mostly those of an NCCL communicator: it is
// begun and used under device turns as the core decides.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/mutex.h"
#include "tensor/collective/member.h"
#include "tensor/collective/member_task.h"

namespace mobula::internal::collective {
namespace {

// Time limit to begin a communicator within an operation; after it, the operation uses the host.
constexpr Duration begin_timeout = 30s;

}  // namespace

// Wakes the thread of this member. The function stays valid after the member is destroyed.
std::function<void()> Member::waker() const {
  const auto own = std::make_shared<Fd>(::fcntl(wakes_.get(), F_DUPFD_CLOEXEC, 0));
  return [own] {
    const std::uint64_t one = 1;
    while (::write(own->get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  };
}

Result<DeviceSide*> Member::side() {
  if (!side_) {
    side_ = devices_.side;
    if (!side_) {
      auto found = devices_.find(device_ordinal_);
      if (!found) return found.error();
      side_ = std::move(*found);
    }
  }
  if (!communicator_) {
    communicator_ = std::make_shared<Communicator>(
        *side_->thread, Communicator::Terms{.nccl = side_->nccl,
                                            .context = side_->context,
                                            .rank = group_.rank,
                                            .ranks = group_.size(),
                                            .shutdown_timeout = side_->shutdown_timeout,
                                            .lost = side_->lost,
                                            .wake = waker()});
  }
  return &*side_;
}

bool Member::make_beginning(Task&) {
  const auto id = [&]() -> Result<std::vector<std::byte>> {
    if (auto found = side(); !found) return found.error();
    const auto made = communicator_->make_id();
    if (!made) return made.error();
    const auto bytes = std::as_bytes(std::span(made->bytes));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  MemberCore::Commands out;
  core_.begun(monotonic_now(), id(), out);
  say(out);
  return true;
}

bool Member::claim(Task& task) {
  MemberCore::Commands out;
  if (!std::exchange(task.begun, true)) {
    const auto found = side();
    task.turn = std::make_shared<Task::Turn>();
    Result<std::uint64_t> claimed = found
                                        ? (*found)->turns.claim((*found)->device_ordinal,
                                                                [turn = task.turn, wake = waker()] {
                                                                  turn->taken = true;
                                                                  wake();
                                                                })
                                        : Result<std::uint64_t>(found.error());
    if (claimed) {
      claim_ = *claimed;
    } else {
      core_.turn_taken(monotonic_now(), claimed.error(), out);
    }
  } else if (task.turn->taken.load()) {
    core_.turn_taken(monotonic_now(), std::nullopt, out);
  } else {
    return false;
  }
  say(out);
  return true;
}

void Member::return_turn_of_device() {
  if (claim_ != 0) side_->turns.give_back(std::exchange(claim_, 0));
}

bool Member::begin_communicator(Task& task) {
  MemberCore::Commands out;
  if (!std::exchange(task.begun, true)) {
    nccl_abi::UniqueId id{};
    if (core_.beginning().size() == sizeof id.bytes) {
      std::memcpy(id.bytes, core_.beginning().data(), sizeof id.bytes);
      const Time now = monotonic_now();
      Time deadline = now + begin_timeout;
      if (limits_.deadline)
        deadline = task.opens ? *limits_.deadline
                              : std::min(deadline, now + (*limits_.deadline - now) / 2);
      communicator_->begin(id, deadline);
    } else {
      core_.opened(monotonic_now(),
                   failure(ErrorCode::corrupt, "rank 0 sent an invalid id of a communicator"), out);
    }
  } else if (const auto done = communicator_->done()) {
    core_.opened(monotonic_now(), *done ? std::nullopt : std::optional(done->error()), out);
  } else {
    return false;
  }
  say(out);
  return true;
}

bool Member::close_communicator(Task& task) {
  const Time now = monotonic_now();
  if (!std::exchange(task.begun, true)) {
    communicator_->take_down(failure(ErrorCode::unavailable, core_.no_communicator().empty()
                                                                 ? "it could not be begun"
                                                                 : core_.no_communicator()));
    task.closes_since = now;
  }
  const bool late = now > task.closes_since + 3 * side_->shutdown_timeout;
  if (!communicator_->quiet() && !late) return false;
  const bool lost = communicator_->lost() || late;
  MemberCore::Commands out;
  core_.closed(now,
               lost ? std::optional(failure(
                          ErrorCode::unavailable,
                          "the communicator cannot be ended, and its process must be replaced"))
                    : std::nullopt,
               out);
  say(out);
  communicator_.reset();
  return true;
}

bool Member::move_by_device(Task& task) {
  MemberCore::Commands out;
  if (!std::exchange(task.begun, true)) {
    Operation own = core_.agreed();
    if (core_.other() && task.memory.input.empty()) own.kind = OperationKind::receive;
    auto calls = calls_for(own, group_.rank, size(), task.memory, core_.other().value_or(0));
    if (calls.empty()) {
      core_.moved(monotonic_now(), std::nullopt, out);
    } else {
      // Only this member's own deadline applies, and it reports the timeout. With a fallback, half
      // of the time is reserved for it.
      Duration limit = std::chrono::hours(24 * 365);
      if (devices_.communication == Communication::useful && limits_.deadline)
        limit = (*limits_.deadline - monotonic_now()) / 2;
      communicator_->move(std::move(calls), limit, task.memory.owner);
    }
  } else if (const auto done = communicator_->done()) {
    if (*done) {
      sent_ += task.memory.input.size();
      received_ += task.memory.output.size();
    }
    core_.moved(monotonic_now(), *done ? std::nullopt : std::optional(done->error()), out);
  } else if (communicator_->lost()) {
    core_.moved(monotonic_now(),
                failure(ErrorCode::unavailable, "the communicator cannot be ended"), out);
  } else {
    return false;
  }
  say(out);
  return true;
}

// Bounded wait: if the library never releases the memory, the process is replaced.
void Member::wait_until_quiet() {
  const Time limit = monotonic_now() + 3 * side_->shutdown_timeout;
  while (!communicator_->quiet() && monotonic_now() < limit) {
    pollfd one{wakes_.get(), POLLIN, 0};
    (void)::poll(&one, 1, 20);
    std::uint64_t count = 0;
    while (::read(wakes_.get(), &count, sizeof count) < 0 && errno == EINTR) {
    }
  }
}

Result<std::string> Member::carry_by(const mobula_transport_plugin& plugin,
                                     const std::string& listen) {
  auto opened = Carrier::open(plugin, listen, group_, waker());
  if (!opened) return opened.error();
  const MutexLock lock(mutex_);
  carrier_ = std::move(*opened);
  open_ = false;
  return carrier_->endpoint();
}

// Members of lower rank connect to those of higher rank; payload then uses the plugin instead of
// the connections.
bool Member::meet_in_carrier(Task& task) {
  if (!std::exchange(task.begun, true)) {
    for (std::uint32_t rank = group_.rank + 1; rank < size(); ++rank)
      carrier_->connect(rank, group_.endpoints[rank].carrier);
  }
  task.absent.clear();
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank == group_.rank) continue;
    const auto linked = carrier_->linked(rank);
    if (!linked) {
      core_.wire_failed(monotonic_now(), rank, linked.error().text);
      return true;
    }
    if (!*linked) task.absent.push_back(rank);
  }
  if (!task.absent.empty()) return false;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank != group_.rank) peers_[rank].link.wire = carrier_->wire(rank);
  }
  MemberCore::Commands out;
  core_.opened(monotonic_now(), std::nullopt, out);
  say(out);
  return true;
}

std::optional<Refusal> Member::open(Time deadline) {
  if (devices_.communication != Communication::always && !carrier_) return std::nullopt;
  Task task;
  task.opens = true;
  return alone(
      {.deadline = deadline, .cancelled = nullptr}, "the beginning of the group's library",
      [&](Time now, MemberCore::Commands& out) { core_.open(now, deadline, out); }, task);
}

}  // namespace mobula::internal::collective
