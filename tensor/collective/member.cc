#include "tensor/collective/member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/logging/log.h"
#include "base/mutex.h"
#include "tensor/collective/core/reduction.h"
#include "tensor/collective/member_task.h"

namespace mobula::internal::collective {
namespace {

constexpr Duration check_interval = 50ms;
constexpr std::size_t kept_scratch = 16u << 20;

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

MemberTerms core_terms(const Membership& group, const DeviceTerms& devices) {
  MemberTerms terms;
  terms.rank = group.rank;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank)
    terms.names.push_back(group.member(rank));
  terms.communication = devices.communication;
  terms.communicated_from = devices.communicated_from;
  return terms;
}

MemberLocations locations_of(const Membership& group) {
  MemberLocations locations;
  const MemberEndpoint& first = group.endpoints[0];
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    const MemberEndpoint& each = group.endpoints[rank];
    locations.processes.push_back(each.process);
    locations.hosts.push_back(each.nccl_host);
    const bool near = !each.machine.empty() && each.machine == first.machine;
    const bool trusted = !each.fabric.empty() && each.fabric == first.fabric;
    if (near || trusted || !locations.no_communicator.empty()) continue;
    locations.no_communicator = fmt::format(
        "nccl: fabric not trusted: {} is on another machine than rank 0", group.member(rank));
  }
  return locations;
}

}  // namespace

Member::Member(Acceptor& acceptor, Membership group, PlanOptions plans, DeviceTerms devices)
    : acceptor_(acceptor),
      group_(std::move(group)),
      plans_(plans),
      devices_(std::move(devices)),
      wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      peers_(group_.size()),
      open_(devices_.communication != Communication::always),
      core_(core_terms(group_, devices_)) {
  if (devices_.side) device_ = devices_.side->device_ordinal;
  acceptor_.expect(group_, wakes_.get(), [this](std::uint32_t rank, const Acceptor::LetIn& let_in) {
    // The last member to connect must find the group complete.
    const MutexLock lock(mutex_);
    // Each member connects once, and only members of lower rank connect.
    if (rank >= group_.rank || peers_[rank].link.words) return;
    auto link = let_in();
    if (!link) return;
    peers_[rank].link = std::move(*link);
    peers_[rank].talks = true;
    ++connected_;
  });
}

Member::~Member() {
  leave();
  acceptor_.close(group_.id);
  MutexLock lock(mutex_);
  while (busy_) changed_.wait(lock);
}

Result<void> Member::connect(std::vector<MemberEndpoint> endpoints, Time deadline) {
  if (endpoints.size() != size())
    return failure(ErrorCode::invalid_argument, "some members gave no endpoint");
  if (!wakes_) return failure(ErrorCode::resource_exhausted, "no descriptor is left");
  group_.endpoints = std::move(endpoints);
  core_.connected(locations_of(group_));
  {
    const MutexLock lock(mutex_);
    met_ = true;
  }
  for (std::uint32_t rank = group_.rank + 1; rank < size(); ++rank) {
    auto link = acceptor_.connect(group_, rank, wakes_.get(), deadline);
    if (!link) {
      return failure(link.error().code, fmt::format("{} cannot be reached: {}", group_.member(rank),
                                                    link.error().text));
    }
    const MutexLock lock(mutex_);
    peers_[rank].link = std::move(*link);
    peers_[rank].talks = true;
    ++connected_;
  }
  return {};
}

bool Member::complete() const {
  const MutexLock lock(mutex_);
  return connected() && open_;
}

std::optional<std::size_t> Member::communicated_from() const {
  if (devices_.communication != Communication::useful) return std::nullopt;
  return devices_.communicated_from;
}

std::optional<std::uint32_t> Member::device() const {
  const MutexLock lock(mutex_);
  return device_;
}

std::string Member::device_name() const {
  const MutexLock lock(mutex_);
  return device_name_;
}

std::string Member::no_communicator() const {
  const MutexLock lock(mutex_);
  return no_communicator_;
}

bool Member::over() {
  const MutexLock lock(mutex_);
  if (busy_ || !connected()) return false;
  (void)hear();
  return core_.over().has_value();
}

bool Member::shares_memory_with(std::uint32_t rank) const {
  const MutexLock lock(mutex_);
  return rank < peers_.size() && peers_[rank].link.shares_memory;
}

std::vector<std::string> Member::paths() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> paths;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    const Link& link = peers_[rank].link;
    paths.emplace_back(rank == group_.rank  ? ""
                       : carrier_           ? std::string(carrier_->name())
                       : link.shares_memory ? "shm"
                       : link.sealed        ? "tcp, sealed"
                                            : "tcp");
  }
  return paths;
}

Passage Member::passage() const {
  return {sent_.load(), received_.load(), staged_.load(), operations_.load()};
}

void Member::leave() {
  left_.store(true);
  const std::uint64_t one = 1;
  while (::write(wakes_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  const MutexLock lock(mutex_);
  if (busy_) return;  // the thread of the operation sends it
  // Notifies members that may be waiting in an operation.
  MemberCore::Commands out;
  core_.left(monotonic_now(), out);
  say(out);
}

// ---- control channel ----------------------------------------------------------------------------

void Member::say(const MemberCore::Commands& commands) {
  for (const auto& command : commands) {
    if (std::holds_alternative<CloseConnections>(command)) {
      if (communicator_)
        communicator_->take_down(failure(ErrorCode::unavailable, core_.over()->text));
      for (Peer& peer : peers_) {
        if (!peer.link.words) continue;
        peer.link.words->finish();
        peer.link.wire.reset();
        peer.talks = false;
      }
      continue;
    }
    const auto& said = std::get<SendControl>(command);
    for (std::uint32_t rank = said.to.value_or(0); rank < (said.to ? *said.to + 1 : size());
         ++rank) {
      Peer& peer = peers_[rank];
      if (!peer.link.words || peer.deaf) continue;
      if (auto done = peer.link.words->say(said.message); !done) peer.deaf = done.error().text;
    }
  }
}

// A peer that no longer reads may still have sent the reason.
void Member::hear(std::uint32_t rank, bool& something) {
  Peer& peer = peers_[rank];
  while (peer.talks) {
    auto message = peer.link.words->hear();
    if (!message) return cut_off(rank, message.error().text);
    if (!message->has_value()) break;
    something = true;
    if ((*message)->kind == ControlKind::broken) peer.talks = false;
    MemberCore::Commands out;
    core_.on(monotonic_now(), rank, std::move(**message), out);
    say(out);
  }
  if (!peer.talks) return;
  if (!peer.deaf) {
    if (auto flushed = peer.link.words->flush(); !flushed) peer.deaf = flushed.error().text;
  }
  if (!peer.deaf) return;
  const auto last = peer.link.words->hear();
  if (last && last->has_value() && (*last)->kind == ControlKind::broken) {
    something = true;
    peer.talks = false;
    MemberCore::Commands out;
    core_.on(monotonic_now(), rank, **last, out);
    return say(out);
  }
  cut_off(rank, *peer.deaf);
}

bool Member::hear() {
  bool something = false;
  for (std::uint32_t rank = 0; rank < size() && !core_.over(); ++rank) hear(rank, something);
  return something || core_.over();
}

void Member::cut_off(std::uint32_t rank, const std::string& why) {
  peers_[rank].talks = false;
  MemberCore::Commands out;
  core_.cut_off(monotonic_now(), rank, why, out);
  say(out);
}

// ---- execution of an operation ------------------------------------------------------------------

void Member::check_limits(const Task& task) {
  MemberCore::Commands out;
  const Time now = monotonic_now();
  const auto due = core_.next_deadline();
  if (left_.load()) {
    core_.left(now, out);
  } else if (limits_.cancelled && limits_.cancelled()) {
    core_.cancelled(now, out);
  } else if (due && now >= *due) {
    core_.tick(now, moves_with(task), out);
  }
  say(out);
}

std::vector<std::uint32_t> Member::moves_with(const Task& task) const {
  if (!task.progress) return task.absent;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank != group_.rank &&
        (task.progress->waits_for(rank) || !peers_[rank].link.wire->flushed()))
      ranks.push_back(rank);
  }
  return ranks;
}

// Blocks until a descriptor may be ready.
void Member::pause(Task& task) {
  check_limits(task);
  if (core_.stage() == MemberCore::Stage::idle) return;
  std::vector<pollfd> fds{{wakes_.get(), POLLIN, 0}};
  bool ready = false;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.link.words) continue;
    if (peer.talks) {
      fds.push_back({peer.link.words->descriptor(),
                     static_cast<short>(POLLIN | (peer.link.words->flushed() ? 0 : POLLOUT)), 0});
    }
    const bool to_send = task.progress && !task.progress->to_send(rank).empty();
    const bool to_receive = task.progress && !task.progress->to_receive(rank).empty();
    if (peer.link.wire->prepare_sleep(to_send, to_receive)) ready = true;
    const short events = peer.link.wire->events(to_send, to_receive);
    if (peer.link.wire->descriptor() >= 0 && events != 0)
      fds.push_back({peer.link.wire->descriptor(), events, 0});
  }
  if (ready) return;
  Duration wait = check_interval;
  if (const auto due = core_.next_deadline()) wait = std::min(wait, *due - monotonic_now());
  const timespec span{0, static_cast<long>(std::max(wait, Duration(1)).count())};
  (void)::ppoll(fds.data(), fds.size(), &span, nullptr);
  std::uint64_t count = 0;
  while (::read(wakes_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

void Member::carry_out(Task& task) {
  while (core_.stage() != MemberCore::Stage::idle) {
    if (task.stage != core_.stage()) {
      task.stage = core_.stage();
      task.begun = false;
    }
    if (act(task)) {
      if (task.progress) check_limits(task);
    } else if (!hear()) {
      pause(task);
    }
    if (claim_ != 0 && !core_.needs_turn() && !core_.over()) return_turn_of_device();
  }
}

bool Member::act(Task& task) {
  switch (core_.stage()) {
    case MemberCore::Stage::idle:
    case MemberCore::Stage::hearing:
    case MemberCore::Stage::explaining: return false;
    case MemberCore::Stage::preparing: return prepare(task);
    case MemberCore::Stage::beginning: return make_beginning(task);
    case MemberCore::Stage::claiming: return claim(task);
    case MemberCore::Stage::opening:
      return carrier_ ? meet_in_carrier(task) : begin_communicator(task);
    case MemberCore::Stage::closing: return close_communicator(task);
    case MemberCore::Stage::moving: return move(task);
  }
  return false;
}

// Waits for the end of another operation, and checks that this one may run.
std::optional<Refusal> Member::enter(const Limits& limits, const std::string& what,
                                     const Task& task, Time began) {
  MutexLock lock(mutex_);
  while (busy_) {
    changed_.wait_for(lock, check_interval);
    const bool late = limits.deadline && monotonic_now() >= *limits.deadline;
    if (busy_ && late) {
      return Refusal{
          Refusal::Kind::invalid,
          {group_.rank},
          fmt::format("{} waited {:.3g} s for another operation of the same actor and group to end",
                      what, seconds(monotonic_now() - began))};
    }
  }
  if (left_.load())
    return Refusal{Refusal::Kind::destroyed, {group_.rank}, "the group was destroyed"};
  if (!connected() || (!open_ && !task.opens)) {
    return Refusal{Refusal::Kind::invalid,
                   {group_.rank},
                   "the group is still being created; wait for create_collective_group"};
  }
  busy_ = true;
  return std::nullopt;
}

// Runs one operation at a time.
std::optional<Refusal> Member::alone(const Limits& limits, const std::string& what,
                                     const Begin& begin, Task& task) {
  const Time began = monotonic_now();
  if (auto rejected = enter(limits, what, task, began)) return rejected;
  limits_ = limits;
  task.before = passage();
  task.moves_since = began;
  MemberCore::Commands out;
  try {
    begin(monotonic_now(), out);
    say(out);
    carry_out(task);
  } catch (const std::bad_alloc&) {
    out.clear();
    core_.failed(monotonic_now(), "no memory for " + what, out);
    say(out);
  }
  const auto refused = core_.refused();
  if (!refused) ++operations_;
  // The library must no longer access the operands before another process gets the turn of the
  // device.
  if (core_.over() && communicator_) wait_until_quiet();
  return_turn_of_device();
  if (task.journey != nullptr) tell(task, began);
  limits_ = {};
  if (scratch_.size() > kept_scratch) scratch_ = {};
  if (core_.communicator_failed() && !std::exchange(staging_reported_, true)) {
    log_warn("collective group {}: tensors on GPUs go through host memory from now on: {}",
             group_.name, core_.no_communicator());
  }
  const MutexLock lock(mutex_);
  if (core_.has_communicator() && !core_.devices().empty()) {
    device_ = side_->device_ordinal;
    device_name_ = core_.devices()[group_.rank];
  } else if (core_.communicator_failed()) {
    device_.reset();
    device_name_.clear();
  }
  no_communicator_ = core_.no_communicator();
  if (!refused && task.opens) open_ = true;
  if (left_.load()) {
    out.clear();
    core_.left(monotonic_now(), out);
    say(out);
  }
  busy_ = false;
  changed_.notify_all();
  return refused;
}

void Member::tell(const Task& task, Time began) const {
  Journey& report = *task.journey;
  const Passage after = passage();
  report.way = core_.way();
  report.bytes_sent = after.bytes_sent - task.before.bytes_sent;
  report.bytes_received = after.bytes_received - task.before.bytes_received;
  report.queued = task.moves_since - began;
  report.moved = monotonic_now() - task.moves_since;
  report.no_communicator = core_.no_communicator();
  std::vector<std::uint32_t> ranks;
  bool near = true, sealed = true;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank == group_.rank || (core_.other() && *core_.other() != rank)) continue;
    ranks.push_back(rank);
    const Link& link = peers_[rank].link;
    near = near && link.shares_memory;
    sealed = sealed && (link.shares_memory || link.sealed);
  }
  if (carrier_) {
    report.path = carrier_->name() == "gloo" ? DirectPath::gloo : DirectPath::ucx;
  } else {
    report.path = near ? DirectPath::shm : DirectPath::tcp;
  }
  report.encrypted = !carrier_ && !near && sealed && report.way != MemberCore::Way::device;
  constexpr std::size_t most_named = 8;
  report.others = ranks.size() > most_named ? fmt::format("{} members", ranks.size())
                                            : fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                                                          fmt::join(ranks, ", "));
}

bool Member::prepare(Task& task) {
  const bool on_device = core_.way() == MemberCore::Way::device;
  // Discards the counts of the first attempt.
  if (std::exchange(task.is_prepared, true)) task.before = passage();
  auto memory = (*task.prepare)(core_.agreed(), on_device);
  MemberCore::Commands out;
  core_.prepared(monotonic_now(), memory ? std::nullopt : std::optional(memory.error()), out);
  if (memory) task.memory = std::move(*memory);
  say(out);
  return true;
}

bool Member::move(Task& task) {
  if (!task.begun) task.moves_since = monotonic_now();
  switch (core_.way()) {
    case MemberCore::Way::words: return move_by_words(task);
    case MemberCore::Way::plan: return move_by_plan(task);
    case MemberCore::Way::device: return move_by_device(task);
  }
  return false;
}

// Combines the operands that arrived with the control messages; no further messages are needed.
bool Member::move_by_words(Task& task) {
  const Operation& agreed = core_.agreed();
  const auto bytes = static_cast<std::size_t>(agreed.bytes());
  const auto output = task.memory.output;
  std::vector<const std::byte*> operands;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    operands.push_back(rank == group_.rank ? task.operand.data()
                                           : core_.said()[rank].operand.data());
  }
  if (bytes == 0 || output.empty()) {
    // No output on this member.
  } else if (agreed.kind == OperationKind::broadcast) {
    if (output.data() != operands[agreed.root])
      std::memmove(output.data(), operands[agreed.root], bytes);
  } else if (agreed.kind == OperationKind::all_gather) {
    for (std::uint32_t rank = 0; rank < size(); ++rank)
      std::memcpy(output.data() + rank * bytes, operands[rank], bytes);
  } else {
    const double by = agreed.reduce == ReduceKind::average ? 1.0 / size() : 1;
    fold(agreed.dtype, agreed.reduce, bytes, operands, by, output.data());
  }
  const bool gives = agreed.kind != OperationKind::broadcast || agreed.root == group_.rank;
  if (gives) sent_ += bytes * (size() - 1);
  if (agreed.kind != OperationKind::broadcast) received_ += bytes * (size() - 1);
  if (agreed.kind == OperationKind::broadcast && !gives) received_ += bytes;
  MemberCore::Commands out;
  core_.moved(monotonic_now(), std::nullopt, out);
  say(out);
  return true;
}

bool Member::move_by_plan(Task& task) {
  if (!std::exchange(task.begun, true)) {
    task.make_plan(core_, group_.rank, size(), plans_, scratch_);
  }
  Progress& progress = *task.progress;
  bool moved = false;
  bool flushed = true;
  for (std::uint32_t distance = 1; distance < size(); ++distance) {
    const std::uint32_t rank = (group_.rank + distance) % size();
    ByteStream* const wire = peers_[rank].link.wire.get();
    const auto broken = [&](const Failure& why) {
      task.progress.reset();
      core_.wire_failed(monotonic_now(), rank, why.text);
      return true;
    };
    for (auto buffer = progress.to_receive(rank); !buffer.empty();
         buffer = progress.to_receive(rank)) {
      const auto some = wire->receive(buffer);
      if (!some) return broken(some.error());
      if (*some == 0) break;
      progress.received(rank, *some);
      received_ += *some;
      moved = true;
    }
    for (auto bytes = progress.to_send(rank); !bytes.empty(); bytes = progress.to_send(rank)) {
      const auto some = wire->send(bytes);
      if (!some) return broken(some.error());
      if (*some == 0) break;
      progress.sent(rank, *some);
      sent_ += *some;
      moved = true;
    }
    if (!wire->flushed()) {
      const auto some = wire->send({});
      if (!some) return broken(some.error());
      flushed = flushed && wire->flushed();
    }
  }
  if (!progress.done() || !flushed) return moved;
  task.progress.reset();
  MemberCore::Commands out;
  core_.moved(monotonic_now(), std::nullopt, out);
  say(out);
  return true;
}

std::optional<Refusal> Member::run(const Operation& own, const Given& given, const Prepare& prepare,
                                   const Limits& limits, Journey* journey) {
  Task task;
  task.prepare = &prepare;
  task.operand = given.operand;
  task.journey = journey;
  return alone(
      limits, own.text(),
      [&](Time now, MemberCore::Commands& out) {
        device_ordinal_ = given.device_ordinal;
        core_.meet(now, own, given.operand, limits.deadline, out);
      },
      task);
}

std::optional<Refusal> Member::send(std::uint32_t to, const Operation& operation,
                                    const Prepare& prepare, const Limits& limits,
                                    Journey* journey) {
  Task task;
  task.prepare = &prepare;
  task.journey = journey;
  return alone(
      limits, "send",
      [&](Time now, MemberCore::Commands& out) {
        core_.send(now, to, operation, limits.deadline, out);
      },
      task);
}

std::optional<Refusal> Member::receive(std::uint32_t from, const Prepare& prepare,
                                       const Limits& limits, Journey* journey) {
  Task task;
  task.prepare = &prepare;
  task.journey = journey;
  return alone(
      limits, "receive",
      [&](Time now, MemberCore::Commands& out) { core_.receive(now, from, limits.deadline, out); },
      task);
}

}  // namespace mobula::internal::collective
