#include "collective/member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "collective/core/reduction.h"

namespace mobula::internal::collective {
namespace {

// A member is at most one operation ahead; what comes beyond that is nonsense.
constexpr std::size_t most_heard = 8;
constexpr Duration look_every = 50ms;
constexpr std::size_t kept_scratch = 16u << 20;

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

bool goes_with_words(const Operation& operation, std::uint32_t members) {
  const bool kind = operation.kind == OperationKind::all_reduce || operation.kind == OperationKind::reduce ||
                    operation.kind == OperationKind::broadcast || operation.kind == OperationKind::all_gather;
  return kind && static_cast<std::size_t>(operation.bytes()) <= inline_limit(members);
}

}  // namespace

Member::Member(Door& door, Membership group, PlanOptions plans, std::optional<DeviceSide> device)
    : door_(door),
      group_(std::move(group)),
      plans_(plans),
      wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      device_(std::move(device)),
      peers_(group_.size()),
      open_(!device_) {
  if (device_) {
    communicator_ = std::make_shared<Communicator>(
        *device_->thread, Communicator::Terms{.nccl = device_->nccl, .context = device_->context, .rank = group_.rank,
                                              .ranks = group_.size(), .patience = device_->patience, .lost = device_->lost,
                                              .wake = waker()});
  }
  door_.expect(group_, wakes_.get(), [this](std::uint32_t rank, const Door::LetIn& let_in) {
    // Who has been let in finds the group whole when this is the last who was missing.
    const std::lock_guard lock(mutex_);
    // Each comes once, and only those of lower rank do.
    if (rank >= group_.rank || peers_[rank].link.words) return;
    auto link = let_in();
    if (!link) return;
    peers_[rank].link = std::move(*link);
    ++connected_;
  });
}

Member::~Member() {
  leave();
  door_.close(group_.id);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
}

Result<void> Member::connect(std::vector<Meeting> meetings, Time deadline) {
  if (meetings.size() != size()) return failure(ErrorCode::invalid_argument, "not every member says where it is");
  group_.meetings = std::move(meetings);
  if (!wakes_) return failure(ErrorCode::resource_exhausted, "no descriptor is left");
  for (std::uint32_t rank = group_.rank + 1; rank < size(); ++rank) {
    auto link = door_.connect(group_, rank, wakes_.get(), deadline);
    if (!link) {
      return failure(link.error().code, fmt::format("{} cannot be reached: {}", group_.member(rank), link.error().text));
    }
    const std::lock_guard lock(mutex_);
    peers_[rank].link = std::move(*link);
    ++connected_;
  }
  return {};
}

bool Member::complete() const {
  const std::lock_guard lock(mutex_);
  return connected_ + 1 == group_.size() && open_;
}

bool Member::over() {
  const std::lock_guard lock(mutex_);
  if (busy_ || connected_ + 1 != size()) return false;
  bool moved = false;
  if (!over_) (void)talk(moved);
  return over_.has_value();
}

bool Member::shares_memory_with(std::uint32_t rank) const {
  const std::lock_guard lock(mutex_);
  return rank < peers_.size() && peers_[rank].link.shares_memory;
}

std::vector<std::string> Member::paths() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    const Link& link = peers_[rank].link;
    paths.emplace_back(rank == group_.rank ? "" : carrier_ ? std::string(carrier_->name()) : link.shares_memory ? "shm" : link.sealed ? "tcp, sealed" : "tcp");
  }
  return paths;
}

Passage Member::passage() const { return {sent_.load(), received_.load(), staged_.load(), operations_.load()}; }

void Member::leave() {
  left_.store(true);
  const std::uint64_t one = 1;
  while (::write(wakes_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);
  if (!busy_) say_that_it_left();  // or who is busy with it does
}

// Others may be waiting in the middle of an operation: they are told that nothing comes any more.
void Member::say_that_it_left() {
  if (!over_) (void)give_up({Refusal::Kind::destroyed, {group_.rank}, "the group was destroyed"});
}

// ---- ends --------------------------------------------------------------------------------------

std::string Member::names(const std::vector<std::uint32_t>& ranks) const {
  std::vector<std::string> each;
  for (const auto rank : ranks) each.push_back(group_.member(rank));
  return fmt::format("{}", fmt::join(each, ", "));
}

// Nothing more is done: the others hear why, and then the end of what this member says.
Refusal Member::give_up(Refusal why) {
  if (communicator_) communicator_->take_down(failure(ErrorCode::unavailable, why.text));
  // The operation before this number is whole as far as this member goes.
  Word word{.kind = WordKind::broken, .number = number_ + (together_ ? 0 : 1), .operation = {}, .operand = {},
            .ranks = why.ranks, .text = why.text};
  for (Peer& peer : peers_) {
    if (!peer.link.words) continue;
    (void)peer.link.words->say(word);
    peer.link.words->finish();
    peer.link.wire.reset();
  }
  over_ = why;
  // Who asks again did not run out of time himself.
  if (over_->kind == Refusal::Kind::timed_out || over_->kind == Refusal::Kind::cancelled) over_->kind = Refusal::Kind::broken;
  return why;
}

Refusal Member::lost(std::uint32_t rank, const Failure& why) {
  return give_up({Refusal::Kind::broken, {rank}, fmt::format("{} is gone: {}", group_.member(rank), why.text)});
}

// ---- turns -------------------------------------------------------------------------------------

std::optional<Refusal> Member::take(std::uint32_t rank, Word word) {
  Peer& peer = peers_[rank];
  if (word.kind == WordKind::broken) {
    if (word.text.empty()) word.text = fmt::format("{} has given up", group_.member(rank));
    peer.gave_up = std::move(word);
    return heard_of_an_end();
  }
  if (word.kind == WordKind::accept) {
    peer.accepted = true;
    return std::nullopt;
  }
  if (peer.heard.size() >= most_heard) {
    return lost(rank, failure(ErrorCode::corrupt, "it is further ahead than a member can be"));
  }
  peer.heard.push_back(std::move(word));
  return std::nullopt;
}

// What others gave up after the operation under way does not end this one.
std::optional<Refusal> Member::heard_of_an_end() {
  for (const Peer& peer : peers_) {
    if (!peer.gave_up || (together_ && peer.gave_up->number > number_)) continue;
    return give_up({Refusal::Kind::broken, peer.gave_up->ranks, peer.gave_up->text});
  }
  return std::nullopt;
}

std::optional<Refusal> Member::talk(bool& moved) {
  if (auto refused = heard_of_an_end()) return refused;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    Peer& peer = peers_[rank];
    while (peer.talks()) {
      auto word = peer.link.words->hear();
      if (!word) return lost(rank, word.error());
      if (!word->has_value()) break;
      moved = true;
      if (auto refused = take(rank, std::move(**word))) return refused;
    }
    if (!peer.talks()) continue;
    if (auto flushed = peer.link.words->flush(); !flushed) {
      // What it has said last may tell more than that it is gone.
      auto word = peer.link.words->hear();
      if (word && word->has_value()) {
        if (auto refused = take(rank, std::move(**word))) return refused;
      }
      return lost(rank, flushed.error());
    }
  }
  return std::nullopt;
}

std::optional<Refusal> Member::expired(const Missing& missing) {
  if (left_.load()) return give_up({Refusal::Kind::destroyed, {group_.rank}, "the group was destroyed"});
  const Time now = monotonic_now();
  if (limits_.cancelled && limits_.cancelled()) {
    return give_up({Refusal::Kind::cancelled, {group_.rank},
                    fmt::format("the call of {} was cancelled in {}", group_.member(group_.rank), doing_.text)});
  }
  if (limits_.deadline && now >= *limits_.deadline) {
    const auto ranks = missing();
    return give_up({Refusal::Kind::timed_out, ranks,
                    fmt::format("{} waited {:.3g} s in {} for {}", group_.member(group_.rank),
                                seconds(now - doing_.began), doing_.text, names(ranks))});
  }
  return std::nullopt;
}

// Sleeps until something may be there.
std::optional<Refusal> Member::pause(const Missing& missing, Progress* moving) {
  if (auto refused = expired(missing)) return refused;
  std::vector<pollfd> fds{{wakes_.get(), POLLIN, 0}};
  bool ready = false;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.link.words) continue;
    if (peer.talks()) {
      fds.push_back({peer.link.words->descriptor(), static_cast<short>(POLLIN | (peer.link.words->flushed() ? 0 : POLLOUT)), 0});
    }
    const bool to_send = moving != nullptr && !moving->to_send(rank).empty();
    const bool to_receive = moving != nullptr && !moving->to_receive(rank).empty();
    if (peer.link.wire->prepare_sleep(to_send, to_receive)) ready = true;
    const short events = peer.link.wire->events(to_send, to_receive);
    if (peer.link.wire->descriptor() >= 0 && events != 0) fds.push_back({peer.link.wire->descriptor(), events, 0});
  }
  if (ready) return std::nullopt;
  Duration wait = look_every;
  if (limits_.deadline) wait = std::min(wait, *limits_.deadline - monotonic_now());
  const timespec span{0, static_cast<long>(std::max(wait, Duration(1)).count())};
  (void)::ppoll(fds.data(), fds.size(), &span, nullptr);
  std::uint64_t count = 0;
  while (::read(wakes_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
  return std::nullopt;
}

std::optional<Refusal> Member::until(const std::function<bool()>& ready, const Missing& missing) {
  for (;;) {
    bool moved = false;
    if (auto refused = talk(moved)) return refused;
    if (ready()) return std::nullopt;
    if (moved) continue;
    if (auto refused = pause(missing, nullptr)) return refused;
  }
}

std::optional<Refusal> Member::move(Progress& progress) {
  const auto missing = [&] {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      if (rank != group_.rank && (progress.waits_for(rank) || !peers_[rank].link.wire->flushed())) ranks.push_back(rank);
    }
    return ranks;
  };
  for (;;) {
    bool moved = false;
    bool flushed = true;
    for (std::uint32_t distance = 1; distance < size(); ++distance) {
      const std::uint32_t rank = (group_.rank + distance) % size();
      Peer& peer = peers_[rank];
      if (!peer.link.wire) continue;
      for (auto room = progress.to_receive(rank); !room.empty(); room = progress.to_receive(rank)) {
        const auto some = peer.link.wire->receive(room);
        if (!some) {
          bool heard = false;
          if (auto refused = talk(heard)) return refused;
          return lost(rank, some.error());
        }
        if (*some == 0) break;
        progress.received(rank, *some);
        received_ += *some;
        moved = true;
      }
      for (auto bytes = progress.to_send(rank); !bytes.empty(); bytes = progress.to_send(rank)) {
        const auto some = peer.link.wire->send(bytes);
        if (!some) {
          bool heard = false;
          if (auto refused = talk(heard)) return refused;
          return lost(rank, some.error());
        }
        if (*some == 0) break;
        progress.sent(rank, *some);
        sent_ += *some;
        moved = true;
      }
      if (!peer.link.wire->flushed()) {
        const auto some = peer.link.wire->send({});
        if (!some) return lost(rank, some.error());
        flushed = flushed && peer.link.wire->flushed();
      }
    }
    if (progress.done() && flushed) return std::nullopt;
    if (moved) {
      if (auto refused = expired(missing)) return refused;
      continue;
    }
    if (auto refused = talk(moved)) return refused;
    if (moved) continue;
    if (auto refused = pause(missing, &progress)) return refused;
  }
}

// ---- operations --------------------------------------------------------------------------------

// One at a time; what a body refuses has been told to the others.
std::optional<Refusal> Member::alone(const Limits& limits, const std::string& what, const Body& body, bool opens) {
  {
    std::unique_lock lock(mutex_);
    const Time began = monotonic_now();
    while (busy_) {
      changed_.wait_for(lock, look_every);
      const bool late = limits.deadline && monotonic_now() >= *limits.deadline;
      if (busy_ && late) {
        return Refusal{Refusal::Kind::invalid, {group_.rank},
                       fmt::format("{} waited {:.3g} s for another operation of the same actor and group to end", what,
                                   seconds(monotonic_now() - began))};
      }
    }
    if (left_.load()) return Refusal{Refusal::Kind::destroyed, {group_.rank}, "the group was destroyed"};
    if (connected_ + 1 != size() || (!open_ && !opens)) {
      return Refusal{Refusal::Kind::invalid, {group_.rank}, "the group is still being created; wait for create_collective_group"};
    }
    busy_ = true;
  }
  limits_ = limits;
  doing_ = {what, monotonic_now()};
  std::optional<Refusal> refused = over_;
  try {
    if (!refused) refused = body();
    if (!refused) ++operations_;
  } catch (const std::bad_alloc&) {
    refused = give_up({Refusal::Kind::broken, {group_.rank},
                       fmt::format("{} has no memory for {}", group_.member(group_.rank), what)});
  }
  // Nothing of the operands is read or written any more.
  if (refused && over_ && communicator_) wait_until_quiet();
  limits_ = {};
  if (scratch_.size() > kept_scratch) scratch_ = {};
  const std::lock_guard lock(mutex_);
  together_ = false;
  if (left_.load()) say_that_it_left();
  busy_ = false;
  changed_.notify_all();
  return refused;
}

bool Member::with_words(const Operation& operation) const { return !device_ && goes_with_words(operation, size()); }

std::optional<Refusal> Member::meet(const Operation& own, std::span<const std::byte> operand, std::vector<Word>& words) {
  together_ = true;
  Word word{.kind = WordKind::meeting, .number = ++number_, .operation = own, .operand = {}, .ranks = {}, .text = {}};
  if (!own.open && with_words(own) && (own.kind != OperationKind::broadcast || own.root == group_.rank)) {
    word.operand.assign(operand.begin(), operand.end());
  }
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank == group_.rank) continue;
    if (auto said = peers_[rank].link.words->say(word); !said) {
      bool heard = false;
      if (auto refused = talk(heard)) return refused;
      return lost(rank, said.error());
    }
  }
  words.assign(size(), {});
  words[group_.rank] = std::move(word);
  const auto next_of = [](Peer& peer) {
    return std::ranges::find(peer.heard, WordKind::meeting, &Word::kind);
  };
  const auto missing = [&] {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      if (rank != group_.rank && next_of(peers_[rank]) == peers_[rank].heard.end()) ranks.push_back(rank);
    }
    return ranks;
  };
  if (auto refused = until([&] { return missing().empty(); }, missing)) return refused;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank == group_.rank) continue;
    const auto at = next_of(peers_[rank]);
    words[rank] = std::move(*at);
    peers_[rank].heard.erase(at);
    if (words[rank].number != number_) {
      return lost(rank, failure(ErrorCode::corrupt, "it counts its operations otherwise"));
    }
  }
  return std::nullopt;
}

// What has come with the words is joined here, without another trip.
std::optional<Refusal> Member::join_small(const Operation& agreed, const std::vector<Word>& words,
                                          std::span<const std::byte> operand, const Memory& memory) {
  const auto bytes = static_cast<std::size_t>(agreed.bytes());
  std::vector<const std::byte*> operands;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    const bool gives = agreed.kind != OperationKind::broadcast || rank == agreed.root;
    if (rank != group_.rank && gives && words[rank].operand.size() != bytes) {
      return lost(rank, failure(ErrorCode::corrupt, "what came with its word is not what it is said to be"));
    }
    operands.push_back(rank == group_.rank ? operand.data() : words[rank].operand.data());
  }
  if (bytes == 0 || memory.output.empty()) return std::nullopt;
  if (agreed.kind == OperationKind::broadcast) {
    if (memory.output.data() != operands[agreed.root]) std::memmove(memory.output.data(), operands[agreed.root], bytes);
  } else if (agreed.kind == OperationKind::all_gather) {
    for (std::uint32_t rank = 0; rank < size(); ++rank) std::memcpy(memory.output.data() + rank * bytes, operands[rank], bytes);
  } else {
    const double by = agreed.reduce == ReduceKind::average ? 1.0 / size() : 1;
    fold(agreed.dtype, agreed.reduce, bytes, operands, by, memory.output.data());
  }
  return std::nullopt;
}

std::optional<Refusal> Member::run(const Operation& own, std::span<const std::byte> operand, const Prepare& prepare,
                                   const Limits& limits) {
  auto sound = check(own, size());
  if (sound && device_ && !own.open) sound = check_for_nccl(own);
  if (!sound) return Refusal{Refusal::Kind::invalid, {group_.rank}, sound.error().text};
  return alone(limits, own.text(), [&]() -> std::optional<Refusal> {
    std::vector<Word> words;
    if (auto refused = meet(own, operand, words)) return refused;
    std::vector<Operation> said;
    for (const Word& word : words) said.push_back(word.operation);
    if (auto found = difference(said)) {
      std::string text = found->text + ": nothing was done, and the group is as it was";
      return Refusal{Refusal::Kind::mismatch, std::move(found->ranks), std::move(text)};
    }
    const Operation agreed = collective::agreed(said);
    const auto memory = prepare(agreed);
    if (!memory) {
      return give_up({Refusal::Kind::broken, {group_.rank},
                      fmt::format("{} has no memory for {}: {}", group_.member(group_.rank), agreed.text(), memory.error().text)});
    }
    if (device_) return move_on_device(agreed, *memory, all_ranks(), 0);
    if (with_words(agreed)) return join_small(agreed, words, operand, *memory);
    const Plan plan = make_plan(agreed, group_.rank, size(), plans_);
    if (scratch_.size() < plan.scratch_bytes) scratch_.resize(plan.scratch_bytes);
    Progress progress(agreed, plan, group_.rank, size(), {memory->input, memory->output, scratch_});
    return move(progress);
  });
}

// ---- of two ------------------------------------------------------------------------------------

std::optional<Refusal> Member::send(std::uint32_t to, const Operation& operation, const Memory& memory,
                                    const Limits& limits) {
  const auto bytes = memory.input;
  const std::string what = fmt::format("send to {}", group_.member(to));
  if (to >= size() || to == group_.rank) {
    return Refusal{Refusal::Kind::invalid, {group_.rank}, fmt::format("{}: the other members are 0 to {}, without {}", what, size() - 1, group_.rank)};
  }
  return alone(limits, what, [&]() -> std::optional<Refusal> {
    Peer& peer = peers_[to];
    peer.accepted = false;
    Word offer{.kind = WordKind::offer, .number = 0, .operation = operation, .operand = {}, .ranks = {}, .text = {}};
    if (auto said = peer.link.words->say(offer); !said) return lost(to, said.error());
    const auto crossing = [&] { return std::ranges::find(peer.heard, WordKind::offer, &Word::kind); };
    const auto missing = [&] { return std::vector<std::uint32_t>{to}; };
    if (auto refused = until([&] { return peer.accepted || crossing() != peer.heard.end(); }, missing)) return refused;
    if (!peer.accepted) {
      // Both wait for the other to receive: both see it, and forget both offers.
      peer.heard.erase(crossing());
      return Refusal{Refusal::Kind::mismatch, {group_.rank, to},
                     fmt::format("{} and {} send to each other and neither receives; let one of them receive first",
                                 group_.member(group_.rank), group_.member(to))};
    }
    if (device_) return move_on_device(operation, memory, {group_.rank, to}, to);
    Plan plan;
    if (!bytes.empty()) plan.steps.push_back({.kind = StepKind::send, .peer = to, .length = bytes.size()});
    Progress progress(operation, plan, group_.rank, size(), memory);
    return move(progress);
  });
}

std::optional<Refusal> Member::receive(std::uint32_t from, const Prepare& prepare, const Limits& limits) {
  const std::string what = fmt::format("receive from {}", group_.member(from));
  if (from >= size() || from == group_.rank) {
    return Refusal{Refusal::Kind::invalid, {group_.rank}, fmt::format("{}: the other members are 0 to {}, without {}", what, size() - 1, group_.rank)};
  }
  return alone(limits, what, [&]() -> std::optional<Refusal> {
    Peer& peer = peers_[from];
    const auto offer = [&] { return std::ranges::find(peer.heard, WordKind::offer, &Word::kind); };
    const auto missing = [&] { return std::vector<std::uint32_t>{from}; };
    if (auto refused = until([&] { return offer() != peer.heard.end(); }, missing)) return refused;
    const Operation operation = offer()->operation;
    peer.heard.erase(offer());
    const auto memory = prepare(operation);
    if (!memory) {
      return give_up({Refusal::Kind::broken, {group_.rank},
                      fmt::format("{} has no memory for what {} sends: {}", group_.member(group_.rank),
                                  group_.member(from), memory.error().text)});
    }
    Word accept{.kind = WordKind::accept, .number = 0, .operation = {}, .operand = {}, .ranks = {}, .text = {}};
    if (auto said = peer.link.words->say(accept); !said) return lost(from, said.error());
    if (device_) {
      Operation half = operation;
      half.kind = OperationKind::receive;
      return move_on_device(half, *memory, {group_.rank, from}, from);
    }
    Plan plan;
    if (!memory->output.empty()) {
      plan.steps.push_back({.kind = StepKind::receive, .peer = from, .to = {Area::output, 0}, .length = memory->output.size()});
    }
    Progress progress(operation, plan, group_.rank, size(), *memory);
    return move(progress);
  });
}

}  // namespace mobula::internal::collective
