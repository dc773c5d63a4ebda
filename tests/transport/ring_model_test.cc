// The product code of rings and doorbells on a machine that tries all interleavings
// (model/machine.h). For every order of operations and every visible store: no record is lost,
// duplicated, or torn, no process blocks forever while a record is pending, and a death at any time
// does not harm the other process. The code around it (the waits) is rewritten here after
// client/process_engine_rings.cc and client/ring_links.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "sanitizers.h"
#include "transport/model/machine.h"
#include "transport/ring/doorbell_states.h"
#include "transport/ring/ring_defined.h"

namespace mobula::internal::model {
namespace {

constexpr std::size_t data_bytes = 32;   // per ring
std::byte plain_memory[2 * data_bytes];  // only an address: the machine has the content

struct ModelMemory {
  template <class T>
  using Atomic = model::Atomic<T>;
  static constexpr std::size_t ring_capacity = data_bytes;
  static constexpr std::size_t least_piece = 16;
  static void write(std::byte* to, std::span<const std::byte> bytes) {
    write_plain(static_cast<std::size_t>(to - plain_memory), bytes);
  }
  static void read(const std::byte* from, std::span<std::byte> bytes) {
    read_plain(static_cast<std::size_t>(from - plain_memory), bytes);
  }
};

using Writer = BasicRingWriter<ModelMemory>;
using Reader = BasicRingReader<ModelMemory>;

// A process with a doorbell.
struct Side {
  BasicDoorbellPage<ModelMemory> page;
  model::Atomic<bool> self;
  std::uint8_t event = 0;

  struct Kernel {
    std::uint8_t event;
    void wake_word(model::Atomic<std::uint32_t>& word) const {
      perform({Act::wake_word, word.location});
    }
    void wake_event() const { perform({Act::wake_event, event}); }
  };
  void ring(std::size_t index) { ring_doorbell(page, index, Kernel{event}); }
  bool ring_deferred(std::size_t index) {
    return internal::ring_deferred(page, index, Kernel{event});
  }
  void wake_up() { end_timed_sleep(page, Kernel{event}); }
  void ring_self() {
    self.store(true, std::memory_order_seq_cst);
    wake_sleeper(page, Kernel{event});
  }
  bool rung() const { return doorbell_rung(page) || self.load(std::memory_order_seq_cst); }
};

// A ring from `from` to `to`, and its index in the doorbell of each.
struct RingModel {
  BasicRingHeader<ModelMemory> header;
  std::byte* data = nullptr;
  Side* from = nullptr;
  Side* to = nullptr;
  std::size_t index_at_from = 0, index_at_to = 0;
};

// `coalesces`: first a timed wait, then `by_word` if no record arrived.
enum class Lead { by_word, by_event, coalesces };

// The parts of a history, except its threads.
class World {
 public:
  World() {
    for (Side* side : {&reads, &writes[0], &writes[1]}) add(*side);
    for (std::size_t i = 0; i < 2; ++i) {
      rings[i].data = plain_memory + i * data_bytes;
      rings[i].from = &writes[i];
      rings[i].to = &reads;
      rings[i].index_at_from = 0;
      add(rings[i]);
    }
    rings[0].index_at_to = 3;
    rings[1].index_at_to = 64;  // another group
    program.bytes = 2 * data_bytes;
  }

  Program program;
  Side reads, writes[2];
  RingModel rings[2];
  bool checks_again = true;  // checks again after it announced its wait
  bool rings_softly = false;
  bool takes_park_for_timed_sleep = false;  // a deliberate fault
  std::set<std::uint8_t> written, taken, hungry, sleep, groups;

 private:
  std::uint8_t word(const std::string& name) {
    program.words.push_back(name);
    return static_cast<std::uint8_t>(program.words.size() - 1);
  }
  // Tests ignore the words of sides that take no part: an unused name costs nothing.
  void add(Side& side) {
    const std::string of = &side == &reads ? "reader's " : "writer's ";
    side.page.sleep.location = word(of + "sleep");
    side.page.groups.location = word(of + "groups");
    side.page.ready[0].location = word(of + "ready[0]");
    if (&side == &reads) {
      side.page.ready[1].location = word(of + "ready[1]");
      side.self.location = word(of + "self");
    }
    program.events.push_back(of + "event");
    side.event = static_cast<std::uint8_t>(program.events.size() - 1);
    sleep.insert(side.page.sleep.location);
    groups.insert(side.page.groups.location);
  }
  void add(RingModel& ring) {
    written.insert(ring.header.written.location = word("written"));
    taken.insert(ring.header.taken.location = word("taken"));
    hungry.insert(ring.header.hungry.location = word("hungry"));
  }
};

std::vector<std::byte> record_of(std::size_t ring, std::size_t number, std::size_t words) {
  std::vector<std::byte> bytes(words * 8);
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t value = (ring + 1) * 1000 + number * 10 + i;
    std::memcpy(bytes.data() + i * 8, &value, 8);
  }
  return bytes;
}

using Lengths = std::vector<std::size_t>;  // lengths of records, in words of 8 bytes

// Returns false if the other process died.
bool sleep_on_word(World& world, Side& own) {
  announce_sleep(own.page, DoorbellSleep::on_word);
  if (world.checks_again && doorbell_rung(own.page)) return true;
  return perform({Act::wait_word, own.page.sleep.location,
                  static_cast<Word>(DoorbellSleep::on_word)}) == 0;
}

// A sender that waits for space for the rest of a record: as RingLinks does, with a thread that
// waits for nothing else.
class Sender {
 public:
  Sender(World& world, std::size_t which, Lengths lengths)
      : world_(world),
        which_(which),
        ring_(world.rings[which]),
        writer_(&ring_.header, ring_.data),
        lengths_(std::move(lengths)) {}

  void run() {
    for (std::size_t number = 0; number < lengths_.size(); ++number) {
      record_ = record_of(which_, number, lengths_[number]);
      sent_ = writer_.write(record_);
      if (sent_ < record_.size()) send_waiting();
      tell_reader();
      while (sent_ < record_.size()) {
        announce_sleep(ring_.from->page, DoorbellSleep::awake);
        collect_rung(ring_.from->page, [this](std::size_t) { send_waiting(); });
        if (sent_ < record_.size() && !sleep_on_word(world_, *ring_.from)) return;
      }
    }
    if (writer_.broken()) wrong("the writer takes the ring for broken");
    if (coalescing_) ring_.to->wake_up();  // the sender waits for the result
  }

 private:
  // An incomplete record always wakes the reader.
  void tell_reader() {
    if (world_.takes_park_for_timed_sleep) {
      mark_rung(ring_.to->page, ring_.index_at_to);
    } else if (world_.rings_softly && sent_ == record_.size()) {
      coalescing_ = ring_.to->ring_deferred(ring_.index_at_to) || coalescing_;
    } else {
      ring_.to->ring(ring_.index_at_to);
    }
  }

  void send_waiting() {
    bool wrote = false;
    while (sent_ < record_.size()) {
      const std::size_t before = sent_;
      sent_ = writer_.write(record_, before);
      wrote = wrote || sent_ != before;
      if (sent_ < record_.size() && (writer_.broken() || !writer_.request_space())) break;
    }
    if (writer_.broken()) wrong("the writer takes the ring for broken");
    if (wrote) ring_.to->ring(ring_.index_at_to);
  }

  World& world_;
  const std::size_t which_;
  RingModel& ring_;
  Writer writer_;
  const Lengths lengths_;
  std::vector<std::byte> record_;
  std::size_t sent_ = 0;
  bool coalescing_ = false;
};

// As ProcessEngine::lead and lead_by_loop, until all expected records arrived.
class Taker {
 public:
  Taker(World& world, Lead lead, std::vector<Lengths> due)
      : world_(world), lead_(lead), due_(std::move(due)), came_(due_.size(), 0) {
    for (std::size_t i = 0; i < due_.size(); ++i) {
      readers_.emplace_back(&world.rings[i].header, world.rings[i].data, 1024);
    }
  }

  void run(bool until_self) {
    Side& own = world_.reads;
    for (;;) {
      announce_sleep(own.page, DoorbellSleep::awake);
      if (own.self.exchange(false, std::memory_order_seq_cst)) notified_ = true;
      collect_rung(own.page, [this](std::size_t index) { take(index == 3 ? 0 : 1); });
      if (over() && (notified_ || !until_self)) return;
      if (!sleeps()) {  // records of the dead process are read before its death is reported
        for (std::size_t i = 0; i < readers_.size(); ++i) take(i);
        return;
      }
    }
  }

 private:
  bool over() const {
    for (std::size_t i = 0; i < due_.size(); ++i) {
      if (came_[i] < due_[i].size()) return false;
    }
    return true;
  }

  bool sleeps() {
    Side& own = world_.reads;
    if (lead_ == Lead::coalesces && !std::exchange(has_coalesced_, true)) {
      announce_sleep(own.page, DoorbellSleep::coalesced);
      return true;  // a timed wait may end at any time
    }
    if (lead_ != Lead::by_event) {
      has_coalesced_ = false;
      announce_sleep(own.page, DoorbellSleep::on_word);
      if (world_.checks_again && own.rung()) return true;
      return perform({Act::wait_word, own.page.sleep.location,
                      static_cast<Word>(DoorbellSleep::on_word)}) == 0;
    }
    announce_sleep(own.page, DoorbellSleep::on_event);
    if (world_.checks_again && own.rung()) return true;
    if (perform({Act::wait_event, own.event}) != 0) return false;
    perform({Act::clear_event, own.event});
    return true;
  }

  void take(std::size_t which) {
    std::vector<std::byte> record;
    for (;;) {
      const auto read = readers_[which].read(record);
      if (!read.ok()) wrong("the reader takes the ring for broken: " + read.error().text);
      if (!*read) break;
      const std::size_t number = came_[which]++;
      if (number >= due_[which].size()) wrong("a record more than was written");
      if (record != record_of(which, number, due_[which][number]))
        wrong("a record that no writer wrote");
    }
    RingModel& ring = world_.rings[which];
    if (readers_[which].take_hunger()) ring.from->ring(ring.index_at_from);
  }

  World& world_;
  const Lead lead_;
  const std::vector<Lengths> due_;
  std::vector<Reader> readers_;
  std::vector<std::size_t> came_;
  bool notified_ = false;  // by its own process
  bool has_coalesced_ = false;
};

// The tested histories.
struct Case {
  std::string name;
  Lead lead = Lead::by_word;
  std::vector<Lengths> due{};
  bool rings_itself = false;          // another thread of the reader rings the doorbell
  bool has_begun = false;             // the first record of the first writer is already published
  std::set<std::size_t> mortal = {};  // 0 is the reader
  bool many_states = has_begun;       // about a million
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

Outcome all_of(const Case& each, const std::optional<Fault>& fault = std::nullopt,
               bool checks_again = true) {
  World world;
  world.checks_again = checks_again;
  world.rings_softly = each.lead == Lead::coalesces;
  world.program.fault = fault;
  world.program.mortal = each.mortal;
  world.program.threads.emplace_back(
      "reader", [&] { Taker(world, each.lead, each.due).run(each.rings_itself); });
  for (std::size_t i = 0; i < each.due.size(); ++i) {
    world.program.threads.emplace_back("writer " + std::to_string(i),
                                       [&, i] { Sender(world, i, each.due[i]).run(); });
  }
  if (!each.rings_itself) world.program.of_one_thread.insert(world.reads.self.location);
  if (each.rings_itself)
    world.program.threads.emplace_back("other", [&] { world.reads.ring_self(); });
  // The record was published, and the ring was signaled by two bits and a check of the wait state.
  if (each.has_begun) world.program.begins.emplace_back(1, 4);
  return explore(world.program);
}

std::string text_of(const Outcome& outcome) {
  std::string text = outcome.violation + "\n";
  for (const auto& line : outcome.trace) text += "  " + line + "\n";
  return text;
}

// A ring has space for two records of one word, each with its length word. A record of two words
// does not fit next to one of them. Thus a ring can have some space but not enough.
std::vector<Case> cases() {
  return {
      {"two records", Lead::by_word, {{1, 1}}},
      {"two records by event", Lead::by_event, {{1, 1}}},
      {"a ring that fills up", Lead::by_word, {{1, 2}}},
      {"room and too little of it", Lead::by_event, {{1, 1, 2}}, false, true},
      {"a record longer than the ring", Lead::by_event, {{5}}},
      {"two writers", Lead::by_word, {{1}, {1}}},
      {"two writers by event", Lead::by_event, {{1}, {1}}},
      {"a coalescing reader", Lead::coalesces, {{1, 1}}},
      {"a coalescing reader of a ring that fills up",
       Lead::coalesces,
       {{1, 2}},
       false,
       false,
       {},
       true},
      {"two writers to a coalescing reader", Lead::coalesces, {{1}, {1}}},
      {"with another thread on its doorbell", Lead::by_word, {{1}}, true},
      {"with another thread on its doorbell by event", Lead::by_event, {{1}}, true},
  };
}

class RingModelTest : public testing::TestWithParam<Case> {};

// A million states take ten seconds, and much longer with a sanitizer. A sanitizer finds nothing in
// a machine of one thread that the smaller cases do not show.
bool too_large_here(const Case& each) { return sanitized && each.many_states; }

TEST_P(RingModelTest, LosesTearsAndOversleepsNothing) {
  if (too_large_here(GetParam())) GTEST_SKIP();
  const Outcome outcome = all_of(GetParam());
  EXPECT_EQ(outcome.violation, "") << text_of(outcome);
  EXPECT_TRUE(outcome.complete) << outcome.why;
  EXPECT_GT(outcome.ends, 0u);
  std::cout << outcome.states << " states, " << outcome.ends << " ends\n";
}

TEST_P(RingModelTest, OneSideKilled_LeavesOtherUnharmed) {
  Case each = GetParam();
  if (each.many_states)
    GTEST_SKIP() << "too many states; a ring that fills up has the same operations";
  each.mortal = {0, 1};
  const Outcome outcome = all_of(each);
  EXPECT_EQ(outcome.violation, "") << text_of(outcome);
  EXPECT_TRUE(outcome.complete) << outcome.why;
  std::cout << outcome.states << " states, " << outcome.ends << " ends\n";
}

std::string named(std::string name) {
  for (char& each : name) {
    if (each == ' ') each = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ring, RingModelTest, testing::ValuesIn(cases()),
                         [](const auto& each) { return named(each.param.name); });

// ---- faults that the model must detect ---------------------------------------------------------

// `large`: only the case with a million states, otherwise only the others.
std::string found_in_some_case(const std::optional<Fault>& fault, bool large,
                               bool checks_again = true) {
  for (const Case& each : cases()) {
    if (each.has_begun != large) continue;
    const Outcome outcome = all_of(each, fault, checks_again);
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
  constexpr auto both = std::memory_order_acq_rel;
  constexpr auto in_order = std::memory_order_seq_cst;
  const World world;
  return {
      {"the writer publishes without release", Act::store, world.written, relaxed},
      {"the reader looks without acquire", Act::load, world.written, relaxed},
      {"the reader gives room back without release", Act::store, world.taken, relaxed, {}, release},
      {"the writer checks for space without acquire", Act::load, world.taken, relaxed},
      {"the writer checks for space before its request is visible", Act::load, world.taken,
       acquire},
      {"the request for space comes late", Act::store, world.hungry, release, 1},
      {"the taken count is published late", Act::store, world.taken, release, {}, in_order},
      {"the request for space is read early", Act::load, world.hungry, acquire},
      {"the announcement of sleep comes late", Act::store, world.sleep, release},
      {"the sleeper checks again too early", Act::load, world.groups, acquire},
      {"the ringer looks for a sleeper too early", Act::load, world.sleep, acquire},
      {"the bell is rung late", Act::fetch_or, world.groups, both},
      {"the word wakes no thread", Act::wake_word, world.sleep, std::nullopt},
      {"the event wakes no thread", Act::wake_event, {0, 1, 2}, std::nullopt},
      {"nothing is published", Act::store, world.written, std::nullopt},
      {"no space is returned", Act::store, world.taken, std::nullopt},
      {"no request for space is left", Act::store, world.hungry, std::nullopt, 1},
  };
}

class RingModelFaultTest : public testing::TestWithParam<Fault> {};

// Some faults appear only if a ring has some space but not enough.
bool needs_the_large_case(const Fault& fault) {
  return std::string(
             "the writer checks for space before its request is visible, "
             "the request for space comes late, the taken count is published late, "
             "the request for space is read early")
             .find(fault.name) != std::string::npos;
}

TEST_P(RingModelFaultTest, DetectsMutation) {
  const bool large = needs_the_large_case(GetParam());
  if (large && too_large_here({.name = "", .has_begun = true})) GTEST_SKIP();
  EXPECT_NE(found_in_some_case(GetParam(), large), "");
}

INSTANTIATE_TEST_SUITE_P(Ring, RingModelFaultTest, testing::ValuesIn(faults()),
                         [](const auto& each) { return named(each.param.name); });

TEST(RingModelFault, DetectsSleeperTakenForCoalescing) {
  World world;
  world.takes_park_for_timed_sleep = true;
  const std::vector<Lengths> due = {{1}};
  world.program.of_one_thread.insert(world.reads.self.location);
  world.program.threads.emplace_back("reader",
                                     [&] { Taker(world, Lead::coalesces, due).run(false); });
  world.program.threads.emplace_back("writer", [&] { Sender(world, 0, due[0]).run(); });
  EXPECT_NE(explore(world.program).violation, "");
}

TEST(RingModelFault, DetectsSleeperThatSkipsRecheck) {
  EXPECT_NE(found_in_some_case(std::nullopt, false, false), "");
}

}  // namespace
}  // namespace mobula::internal::model
