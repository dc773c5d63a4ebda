// The product code of the rings of collective groups on a machine that tries all interleavings
// (transport/model/machine.h). No byte is lost, duplicated, or torn, and no member blocks forever
// while its peer has bytes or space for it. The wait of a member is rewritten here after
// tensor/collective/member.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tensor/collective/stream_ring.h"
#include "transport/model/machine.h"

namespace mobula::internal::collective::ring_model {
namespace {

using model::Act;
using model::Fault;
using model::Outcome;

constexpr std::size_t word = 8;
constexpr std::size_t capacity = 3 * word;  // per ring
std::byte plain_memory[2 * capacity];       // only an address: the machine has the content

struct ModelMemory {
  template <class T>
  using Atomic = model::Atomic<T>;
  static constexpr std::size_t stream_capacity = capacity;
  static constexpr std::size_t worth_waking = 2 * word;
  static void write(std::byte* to, std::span<const std::byte> bytes) {
    model::write_plain(static_cast<std::size_t>(to - plain_memory), bytes);
  }
  static void read(const std::byte* from, std::span<std::byte> bytes) {
    model::read_plain(static_cast<std::size_t>(from - plain_memory), bytes);
  }
};

using Ring = BasicStreamRing<ModelMemory>;
using Locations = std::set<std::uint8_t>;

// The memory of a pair of members.
struct Pair {
  Pair() {
    for (Ring& ring : rings) {
      written.insert(ring.written.location = add("written"));
      read.insert(ring.read.location = add("read"));
      writer_sleeps.insert(ring.writer_sleeps.location = add("writer_sleeps"));
      reader_sleeps.insert(ring.reader_sleeps.location = add("reader_sleeps"));
    }
    program.events = {"event of member 0", "event of member 1"};
    program.bytes = sizeof plain_memory;
  }
  std::uint8_t add(const std::string& name) {
    program.words.push_back(name);
    return static_cast<std::uint8_t>(program.words.size() - 1);
  }

  model::Program program;
  Ring rings[2];
  Locations written, read, writer_sleeps, reader_sleeps;
};

// One step of a plan: words to send to the peer, and words to receive from it.
struct Work {
  std::size_t sends = 0, receives = 0;
  std::size_t buffer = 3;  // words per call of `read`
};

enum class Mistake { none, skips_recheck };

class Member {
 public:
  Member(Pair& pair, std::uint8_t self, Work work, Mistake mistake)
      : self_(self),
        work_(work),
        mistake_(mistake),
        out_(&pair.rings[self], plain_memory + self * capacity),
        in_(&pair.rings[1 - self], plain_memory + (1 - self) * capacity) {
    for (std::size_t i = 0; i < work.sends; ++i) append(to_send_, word_of(self, i));
  }

  void run() {
    while (sent_ < to_send_.size() || received_ < work_.receives * word) {
      if (!move() && !pause()) return;  // the peer died
    }
  }

 private:
  static std::uint64_t word_of(std::size_t member, std::size_t number) {
    return (member + 1) * 1000 + number;
  }
  static void append(std::vector<std::byte>& to, std::uint64_t value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    to.insert(to.end(), bytes.begin(), bytes.end());
  }

  // As Member::move_by_plan.
  bool move() {
    bool moved = false;
    const auto wake = [this] {
      model::perform({Act::wake_event, static_cast<std::uint8_t>(1 - self_)});
    };
    while (received_ < work_.receives * word) {
      std::vector<std::byte> into(std::min(work_.buffer * word, work_.receives * word - received_));
      const auto some = in_.read(into, wake);
      if (!some) model::wrong(some.error().text);
      if (*some == 0) break;
      check(std::span(into).first(*some));
      received_ += *some;
      moved = true;
    }
    while (sent_ < to_send_.size()) {
      const auto some = out_.write(std::span(to_send_).subspan(sent_), wake);
      if (!some) model::wrong(some.error().text);
      if (*some == 0) break;
      sent_ += *some;
      moved = true;
    }
    return moved;
  }

  void check(std::span<const std::byte> bytes) const {
    std::vector<std::byte> expected;
    for (std::size_t at = 0; at < bytes.size(); at += word)
      append(expected, word_of(1 - self_, (received_ + at) / word));
    if (!std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()))
      model::wrong("the reader has bytes that no member wrote");
  }

  // As Member::pause, without its time limit. False: the peer died.
  bool pause() {
    const bool has_input = received_ < work_.receives * word && in_.prepare_sleep();
    const bool has_space = sent_ < to_send_.size() && out_.prepare_sleep();
    if (mistake_ != Mistake::skips_recheck && (has_input || has_space)) return true;
    if (model::perform({Act::wait_event, self_}) != 0) return false;
    model::perform({Act::clear_event, self_});
    return true;
  }

  const std::uint8_t self_;
  const Work work_;
  const Mistake mistake_;
  BasicStreamWriter<ModelMemory> out_;
  BasicStreamReader<ModelMemory> in_;
  std::vector<std::byte> to_send_;
  std::size_t sent_ = 0, received_ = 0;
};

struct Case {
  std::string name;
  Work of_first, of_second;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

std::vector<Case> cases() {
  return {
      {"fits", {2, 0}, {0, 2}},
      {"fills_up", {4, 0}, {0, 4}},
      {"small_reads_wake_late", {4, 0}, {0, 4, 1}},
      {"both_directions", {1, 1}, {1, 1}},
      {"wraps_around", {5, 0}, {0, 5, 2}},
  };
}

Outcome all_of(const Case& each, const std::optional<Fault>& fault = std::nullopt,
               Mistake mistake = Mistake::none, bool mortal = false) {
  Pair pair;
  pair.program.fault = fault;
  if (mortal) pair.program.mortal = {0, 1};
  pair.program.threads.emplace_back("member 0",
                                    [&] { Member(pair, 0, each.of_first, mistake).run(); });
  pair.program.threads.emplace_back("member 1",
                                    [&] { Member(pair, 1, each.of_second, mistake).run(); });
  return explore(pair.program);
}

std::string text_of(const Outcome& outcome) {
  std::string text = outcome.violation + "\n";
  for (const auto& line : outcome.trace) text += "  " + line + "\n";
  return text;
}

class StreamRingModel : public testing::TestWithParam<Case> {};

TEST_P(StreamRingModel, DeliversEachByteInOrder) {
  const Outcome outcome = all_of(GetParam());
  EXPECT_EQ(outcome.violation, "") << text_of(outcome);
  EXPECT_TRUE(outcome.complete) << outcome.why;
  EXPECT_GT(outcome.ends, 0u);
  std::cout << outcome.states << " states, " << outcome.ends << " ends\n";
}

TEST_P(StreamRingModel, OneMemberKilled_LeavesOtherUnharmed) {
  const Outcome outcome = all_of(GetParam(), std::nullopt, Mistake::none, true);
  EXPECT_EQ(outcome.violation, "") << text_of(outcome);
  EXPECT_TRUE(outcome.complete) << outcome.why;
}

INSTANTIATE_TEST_SUITE_P(Stream, StreamRingModel, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

// ---- faults that the model must detect ---------------------------------------------------------

std::string violation_in_some_case(const std::optional<Fault>& fault,
                                   Mistake mistake = Mistake::none) {
  for (const Case& each : cases()) {
    const Outcome outcome = all_of(each, fault, mistake);
    if (!outcome.violation.empty()) {
      std::cout << each.name << ": " << outcome.violation << " (" << outcome.states << " states)\n";
      return outcome.violation;
    }
  }
  return {};
}

std::vector<Fault> faults() {
  constexpr auto relaxed = std::memory_order_relaxed;
  constexpr auto acquire = std::memory_order_acquire;
  constexpr auto release = std::memory_order_release;
  constexpr auto in_order = std::memory_order_seq_cst;
  const Pair pair;
  return {
      {"bytes_published_without_release", Act::store, pair.written, relaxed},
      {"bytes_read_without_acquire", Act::load, pair.written, relaxed, {}, acquire},
      {"space_returned_without_release", Act::store, pair.read, relaxed},
      {"space_used_without_acquire", Act::load, pair.read, relaxed, {}, acquire},
      {"position_published_late", Act::store, pair.written, release},
      {"space_published_late", Act::store, pair.read, release},
      {"reader_announces_sleep_late", Act::store, pair.reader_sleeps, release},
      {"writer_announces_sleep_late", Act::store, pair.writer_sleeps, release},
      {"reader_rechecks_early", Act::load, pair.written, acquire, {}, in_order},
      {"writer_rechecks_early", Act::load, pair.read, acquire, {}, in_order},
      {"writer_checks_for_sleeper_early", Act::load, pair.reader_sleeps, acquire},
      {"reader_checks_for_sleeper_early", Act::load, pair.writer_sleeps, acquire},
      {"no_announcement_of_the_reader", Act::store, pair.reader_sleeps, std::nullopt},
      {"no_announcement_of_the_writer", Act::store, pair.writer_sleeps, std::nullopt},
      {"event_wakes_no_member", Act::wake_event, {0, 1}, std::nullopt},
  };
}

class StreamRingFault : public testing::TestWithParam<Fault> {};

TEST_P(StreamRingFault, DetectsMutation) { EXPECT_NE(violation_in_some_case(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(Stream, StreamRingFault, testing::ValuesIn(faults()),
                         [](const auto& each) { return each.param.name; });

TEST(StreamRingModelFault, DetectsSleeperThatSkipsRecheck) {
  EXPECT_NE(violation_in_some_case(std::nullopt, Mistake::skips_recheck), "");
}

}  // namespace
}  // namespace mobula::internal::collective::ring_model
