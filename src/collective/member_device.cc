// The part of a member whose bytes a library moves. Most of it is of a communicator: begun with the group, and used
// under the turns of devices.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "collective/member.h"

namespace mobula::internal::collective {
namespace {

// How long the words of who has ended may take behind what the library says of it.
constexpr Duration words_within = 500ms;

// Shared by who is told, perhaps late, and who waits.
struct Turn {
  std::atomic<bool> taken{false};
};

}  // namespace

std::vector<std::uint32_t> Member::all_ranks() const {
  std::vector<std::uint32_t> ranks(size());
  for (std::uint32_t rank = 0; rank < size(); ++rank) ranks[rank] = rank;
  return ranks;
}

// Wakes this member's thread, also when the member is gone by then.
std::function<void()> Member::waker() const {
  const auto own = std::make_shared<Fd>(::fcntl(wakes_.get(), F_DUPFD_CLOEXEC, 0));
  return [own] {
    const std::uint64_t one = 1;
    while (::write(own->get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  };
}

// ---- turns -------------------------------------------------------------------------------------

// In the order of the processes' ids, as any two of them take theirs for a transfer: so nobody waits in a circle.
std::optional<Refusal> Member::take_turn(const std::vector<std::uint32_t>& ranks, std::uint64_t& claim) {
  const auto own = static_cast<std::size_t>(std::ranges::find(ranks, group_.rank) - ranks.begin());
  if (own > 0) {
    Peer& before = peers_[ranks[own - 1]];
    const auto said = [&] { return std::ranges::find(before.heard, WordKind::turn, &Word::kind); };
    const auto missing = [&] { return std::vector<std::uint32_t>{ranks[own - 1]}; };
    if (auto refused = until([&] { return said() != before.heard.end(); }, missing)) return refused;
    before.heard.erase(said());
  }
  const auto turn = std::make_shared<Turn>();
  auto claimed = device_->turns.claim(device_->lane, [turn, wake = waker()] {
    turn->taken = true;
    wake();
  });
  if (!claimed) return lost(group_.rank, claimed.error());
  claim = *claimed;
  if (auto refused = until([&] { return turn->taken.load(); }, [&] { return std::vector<std::uint32_t>{group_.rank}; })) return refused;
  if (own + 1 < ranks.size()) {
    const std::uint32_t next = ranks[own + 1];
    const Word word{.kind = WordKind::turn, .number = number_, .operation = {}, .operand = {}, .ranks = {}, .text = {}};
    if (auto said = peers_[next].link.words->say(word); !said) return lost(next, said.error());
  }
  return std::nullopt;
}

std::optional<Refusal> Member::in_turn(std::vector<std::uint32_t> ranks, const Body& body) {
  std::ranges::sort(ranks, {}, [&](std::uint32_t rank) { return group_.meetings[rank].process; });
  std::uint64_t claim = 0;
  auto refused = take_turn(ranks, claim);
  if (!refused) refused = body();
  // What others do on the device comes after what the library still does there.
  if (refused && over_) wait_until_quiet();
  if (claim != 0) device_->turns.give_back(claim);
  return refused;
}

// ---- what goes on under them ---------------------------------------------------------------------

std::optional<Refusal> Member::communicated(const std::vector<std::uint32_t>& ranks) {
  std::optional<Result<void>> done;
  const auto others = [&] {
    std::vector<std::uint32_t> left = ranks;
    std::erase(left, group_.rank);
    return left;
  };
  const auto over = [&] {
    if (!done) done = communicator_->done();
    return done.has_value();
  };
  if (auto refused = until(over, others)) return refused;
  if (*done) return std::nullopt;
  // The library knows that something broke; the words say who.
  const Time until_then = monotonic_now() + words_within;
  const auto late = [&] { return monotonic_now() >= until_then; };
  if (auto refused = until(late, others)) return refused;
  return give_up({Refusal::Kind::broken, {group_.rank}, group_.member(group_.rank) + ": " + done->error().text});
}

std::optional<Refusal> Member::move_on_device(const Operation& agreed, const Memory& memory, std::vector<std::uint32_t> ranks,
                                              std::uint32_t peer) {
  auto calls = calls_for(agreed, group_.rank, size(), memory, peer);
  if (calls.empty()) return std::nullopt;
  return in_turn(ranks, [&]() -> std::optional<Refusal> {
    // The deadline is this member's own, who then says so.
    communicator_->move(std::move(calls), std::chrono::hours(24 * 365), memory.owner);
    auto refused = communicated(ranks);
    if (!refused) {
      sent_ += memory.input.size();
      received_ += memory.output.size();
    }
    return refused;
  });
}

// Bounded: where the library never lets go, that is said, and the process replaced.
void Member::wait_until_quiet() {
  const Time limit = monotonic_now() + 3 * device_->patience;
  while (!communicator_->quiet() && monotonic_now() < limit) {
    pollfd one{wakes_.get(), POLLIN, 0};
    (void)::poll(&one, 1, 20);
    std::uint64_t count = 0;
    while (::read(wakes_.get(), &count, sizeof count) < 0 && errno == EINTR) {
    }
  }
}

std::optional<Refusal> Member::begin_together(Time deadline) {
  nccl_abi::UniqueId id{};
  if (group_.rank == 0) {
    const auto made = communicator_->make_id();
    if (!made) return give_up({Refusal::Kind::broken, {0}, group_.member(0) + ": " + made.error().text});
    id = *made;
    Word word{.kind = WordKind::begin, .number = 0, .operation = {}, .operand = {}, .ranks = {}, .text = {}};
    const auto bytes = std::as_bytes(std::span(id.bytes));
    word.operand.assign(bytes.begin(), bytes.end());
    for (std::uint32_t rank = 1; rank < size(); ++rank) {
      if (auto said = peers_[rank].link.words->say(word); !said) return lost(rank, said.error());
    }
  } else {
    const auto said = [&] { return std::ranges::find(peers_[0].heard, WordKind::begin, &Word::kind); };
    const auto first = [] { return std::vector<std::uint32_t>{0}; };
    if (auto refused = until([&] { return said() != peers_[0].heard.end(); }, first)) return refused;
    const Word word = *said();
    peers_[0].heard.erase(said());
    if (word.operand.size() != sizeof id.bytes) return lost(0, failure(ErrorCode::corrupt, "it says what no communicator begins with"));
    std::memcpy(id.bytes, word.operand.data(), sizeof id.bytes);
  }
  return in_turn(all_ranks(), [&]() -> std::optional<Refusal> {
    communicator_->begin(id, deadline);
    return communicated(all_ranks());
  });
}

Result<std::string> Member::carry_by(const mobula_transport_plugin& plugin, const std::string& listen) {
  auto opened = Carrier::open(plugin, listen, group_, waker());
  if (!opened) return opened.error();
  const std::lock_guard lock(mutex_);
  carrier_ = std::move(*opened);
  open_ = false;
  return carrier_->endpoint();
}

// Those of lower rank connect to those of higher; bytes then go there, and not by the connections.
std::optional<Refusal> Member::meet_in_carrier() {
  for (std::uint32_t rank = group_.rank + 1; rank < size(); ++rank) carrier_->connect(rank, group_.meetings[rank].carrier);
  std::vector<std::uint32_t> absent;
  std::optional<std::pair<std::uint32_t, Failure>> broken;
  const auto met = [&] {
    absent.clear();
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      if (rank == group_.rank) continue;
      const auto linked = carrier_->linked(rank);
      if (!linked) broken.emplace(rank, linked.error());
      if (!linked || !*linked) absent.push_back(rank);
    }
    return absent.empty() || broken.has_value();
  };
  if (auto refused = until(met, [&] { return absent; })) return refused;
  if (broken) return lost(broken->first, broken->second);
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank != group_.rank) peers_[rank].link.wire = carrier_->wire(rank);
  }
  return std::nullopt;
}

std::optional<Refusal> Member::open(Time deadline) {
  if (!communicator_ && !carrier_) return std::nullopt;
  return alone({.deadline = deadline, .cancelled = nullptr}, "the beginning of the group's library",
               [&]() -> std::optional<Refusal> {
                 auto refused = carrier_ ? meet_in_carrier() : begin_together(deadline);
                 const std::lock_guard lock(mutex_);
                 open_ = !refused;
                 return refused;
               },
               true);
}

}  // namespace mobula::internal::collective
