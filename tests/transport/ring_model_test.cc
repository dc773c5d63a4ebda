// Rings and doorbells as they are compiled into the product, on a machine that tries all that can
// happen between the processes at them (model/machine.h): whatever order their operations take and
// whichever stores their loads see, no record is lost, doubled or torn, nobody who is to hear of one
// sleeps for ever, and one that is killed at any moment leaves the other unharmed. What surrounds the
// code, who sleeps when, is written here as in client/process_engine_rings.cc and client/ring_links.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "transport/doorbell_protocol.h"
#include "transport/model/machine.h"
#include "transport/ring_defined.h"

namespace mobula::internal::model {
namespace {

constexpr std::size_t data_bytes = 32;  // of one ring
std::byte plain_memory[2 * data_bytes];  // an address, no memory: what lies there is the machine's

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

// A process that has a doorbell.
struct Side {
  BasicDoorbellPage<ModelMemory> page;
  model::Atomic<bool> self;
  std::uint8_t event = 0;

  struct Kernel {
    std::uint8_t event;
    void wake_word(model::Atomic<std::uint32_t>& word) const { perform({Act::wake_word, word.place}); }
    void wake_event() const { perform({Act::wake_event, event}); }
  };
  void ring(std::size_t index) { ring_doorbell(page, index, Kernel{event}); }
  bool ring_softly(std::size_t index) { return internal::ring_softly(page, index, Kernel{event}); }
  void wake_up() { end_nap(page, Kernel{event}); }
  void ring_self() {
    self.store(true, std::memory_order_seq_cst);
    wake_sleeper(page, Kernel{event});
  }
  bool rung() const { return doorbell_rung(page) || self.load(std::memory_order_seq_cst); }
};

// A ring from `from` to `to`, and where each finds it in its doorbell.
struct RingModel {
  BasicRingHeader<ModelMemory> header;
  std::byte* data = nullptr;
  Side* from = nullptr;
  Side* to = nullptr;
  std::size_t index_at_from = 0, index_at_to = 0;
};

enum class Lead { by_word, by_event, naps };  // naps: first, and then by the word if nothing has come

// What the parts of a history are: everything but the threads themselves.
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
  bool looks_again = true;  // after it has announced its sleep
  bool rings_softly = false;
  bool takes_sleep_for_nap = false;  // a deliberate fault
  std::set<std::uint8_t> written, taken, hungry, sleep, groups;

 private:
  std::uint8_t word(const std::string& name) {
    program.words.push_back(name);
    return static_cast<std::uint8_t>(program.words.size() - 1);
  }
  // Words of sides that take no part are left out by whoever does not use them: a name costs nothing.
  void add(Side& side) {
    const std::string of = &side == &reads ? "reader's " : "writer's ";
    side.page.sleep.place = word(of + "sleep");
    side.page.groups.place = word(of + "groups");
    side.page.ready[0].place = word(of + "ready[0]");
    if (&side == &reads) {
      side.page.ready[1].place = word(of + "ready[1]");
      side.self.place = word(of + "self");
    }
    program.events.push_back(of + "event");
    side.event = static_cast<std::uint8_t>(program.events.size() - 1);
    sleep.insert(side.page.sleep.place);
    groups.insert(side.page.groups.place);
  }
  void add(RingModel& ring) {
    written.insert(ring.header.written.place = word("written"));
    taken.insert(ring.header.taken.place = word("taken"));
    hungry.insert(ring.header.hungry.place = word("hungry"));
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

using Lengths = std::vector<std::size_t>;  // of records, in words of 8 bytes

// False: told that the other has died.
bool sleep_on_word(World& world, Side& own) {
  announce_sleep(own.page, DoorbellSleep::on_word);
  if (world.looks_again && doorbell_rung(own.page)) return true;
  return perform({Act::wait_word, own.page.sleep.place, static_cast<Word>(DoorbellSleep::on_word)}) == 0;
}

// A process that sends, and waits for room for what has not left: as RingLinks does, by a thread that
// waits for nothing else.
class Sender {
 public:
  Sender(World& world, std::size_t which, Lengths lengths)
      : world_(world), which_(which), ring_(world.rings[which]), writer_(&ring_.header, ring_.data),
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
    if (napping_) ring_.to->wake_up();  // it waits for what becomes of it
  }

 private:
  // What did not go as a whole wakes the reader in any case.
  void tell_reader() {
    if (world_.takes_sleep_for_nap) {
      mark_rung(ring_.to->page, ring_.index_at_to);
    } else if (world_.rings_softly && sent_ == record_.size()) {
      napping_ = ring_.to->ring_softly(ring_.index_at_to) || napping_;
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
      if (sent_ < record_.size() && (writer_.broken() || !writer_.ask_for_room())) break;
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
  bool napping_ = false;
};

// As ProcessEngine::lead and lead_by_loop, until all has come that is to come.
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
      if (own.self.exchange(false, std::memory_order_seq_cst)) told_ = true;
      collect_rung(own.page, [this](std::size_t index) { take(index == 3 ? 0 : 1); });
      if (over() && (told_ || !until_self)) return;
      if (!sleeps()) {  // what the dead one has written is heard before its death
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
    if (lead_ == Lead::naps && !std::exchange(has_napped_, true)) {
      announce_sleep(own.page, DoorbellSleep::nap);
      return true;  // a nap may end whenever it likes
    }
    if (lead_ != Lead::by_event) {
      has_napped_ = false;
      announce_sleep(own.page, DoorbellSleep::on_word);
      if (world_.looks_again && own.rung()) return true;
      return perform({Act::wait_word, own.page.sleep.place, static_cast<Word>(DoorbellSleep::on_word)}) == 0;
    }
    announce_sleep(own.page, DoorbellSleep::on_event);
    if (world_.looks_again && own.rung()) return true;
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
      if (record != record_of(which, number, due_[which][number])) wrong("a record that nobody wrote");
    }
    RingModel& ring = world_.rings[which];
    if (readers_[which].take_hunger()) ring.from->ring(ring.index_at_from);
  }

  World& world_;
  const Lead lead_;
  const std::vector<Lengths> due_;
  std::vector<Reader> readers_;
  std::vector<std::size_t> came_;
  bool told_ = false;  // by its own process
  bool has_napped_ = false;
};

// The histories that are tried.
struct Case {
  std::string name;
  Lead lead = Lead::by_word;
  std::vector<Lengths> due{};
  bool rings_itself = false;         // another thread of the reader's does
  bool has_begun = false;            // the first record of the first writer is there
  std::set<std::size_t> mortal = {};  // 0 is the reader
  bool many_states = has_begun;       // a million
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

Outcome all_of(const Case& each, const std::optional<Fault>& fault = std::nullopt,
               bool looks_again = true) {
  World world;
  world.looks_again = looks_again;
  world.rings_softly = each.lead == Lead::naps;
  world.program.fault = fault;
  world.program.mortal = each.mortal;
  world.program.threads.emplace_back("reader", [&] {
    Taker(world, each.lead, each.due).run(each.rings_itself);
  });
  for (std::size_t i = 0; i < each.due.size(); ++i) {
    world.program.threads.emplace_back("writer " + std::to_string(i),
                                       [&, i] { Sender(world, i, each.due[i]).run(); });
  }
  if (!each.rings_itself) world.program.of_one_thread.insert(world.reads.self.place);
  if (each.rings_itself) world.program.threads.emplace_back("other", [&] { world.reads.ring_self(); });
  // It was published, and the bell was rung by two bits and a look at who sleeps.
  if (each.has_begun) world.program.begins.emplace_back(1, 4);
  return explore(world.program);
}

std::string text_of(const Outcome& outcome) {
  std::string text = outcome.violation + "\n";
  for (const auto& line : outcome.trace) text += "  " + line + "\n";
  return text;
}

// A ring holds two records of one word, each with its length before it. One of two words does not fit
// beside one of them, so that there can be room, and too little.
std::vector<Case> cases() {
  return {
      {"two records", Lead::by_word, {{1, 1}}},
      {"two records by event", Lead::by_event, {{1, 1}}},
      {"a ring that fills up", Lead::by_word, {{1, 2}}},
      {"room and too little of it", Lead::by_event, {{1, 1, 2}}, false, true},
      {"a record longer than the ring", Lead::by_event, {{5}}},
      {"two writers", Lead::by_word, {{1}, {1}}},
      {"two writers by event", Lead::by_event, {{1}, {1}}},
      {"a reader that naps", Lead::naps, {{1, 1}}},
      {"a reader that naps while the ring fills up", Lead::naps, {{1, 2}}, false, false, {}, true},
      {"two writers to one that naps", Lead::naps, {{1}, {1}}},
      {"beside its own bell", Lead::by_word, {{1}}, true},
      {"beside its own bell by event", Lead::by_event, {{1}}, true},
  };
}

class RingModelTest : public testing::TestWithParam<Case> {};

// A million states: a second for each hundred thousand, and much more under a sanitizer, which has
// nothing to find in a machine of one thread that the smaller cases do not show.
bool too_large_here(const Case& each) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return each.many_states;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return each.many_states;
#endif
#endif
  static_cast<void>(each);
  return false;
}

TEST_P(RingModelTest, NothingIsLostTornOrSleptThroughWhateverHappens) {
  if (too_large_here(GetParam())) GTEST_SKIP();
  const Outcome outcome = all_of(GetParam());
  EXPECT_EQ(outcome.violation, "") << text_of(outcome);
  EXPECT_TRUE(outcome.complete) << outcome.why;
  EXPECT_GT(outcome.ends, 0u);
  std::cout << outcome.states << " states, " << outcome.ends << " ends\n";
}

TEST_P(RingModelTest, OneThatIsKilledAtAnyMomentLeavesTheOtherUnharmed) {
  Case each = GetParam();
  if (each.many_states) GTEST_SKIP() << "too many states; a ring that fills up has the same operations";
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

// ---- what the model can see --------------------------------------------------------------------

// `large`: in the one case of a million states; else in some other.
std::string found_in_some_case(const std::optional<Fault>& fault, bool large, bool looks_again = true) {
  for (const Case& each : cases()) {
    if (each.has_begun != large) continue;
    const Outcome outcome = all_of(each, fault, looks_again);
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
      {"the writer looks for room without acquire", Act::load, world.taken, relaxed},
      {"the writer looks for room before its wish is seen", Act::load, world.taken, acquire},
      {"the wish for room comes late", Act::store, world.hungry, release, 1},
      {"what was taken is told late", Act::store, world.taken, release, {}, in_order},
      {"the wish for room is looked for early", Act::load, world.hungry, acquire},
      {"the announcement of sleep comes late", Act::store, world.sleep, release},
      {"the sleeper looks again too early", Act::load, world.groups, acquire},
      {"the ringer looks for a sleeper too early", Act::load, world.sleep, acquire},
      {"the bell is rung late", Act::fetch_or, world.groups, both},
      {"nobody is woken at the word", Act::wake_word, world.sleep, std::nullopt},
      {"nobody is woken at the event", Act::wake_event, {0, 1, 2}, std::nullopt},
      {"nothing is published", Act::store, world.written, std::nullopt},
      {"no room is given back", Act::store, world.taken, std::nullopt},
      {"no wish for room is left", Act::store, world.hungry, std::nullopt, 1},
  };
}

class RingModelFaultTest : public testing::TestWithParam<Fault> {};

// Some show only where there is room and too little of it.
bool needs_the_large_case(const Fault& fault) {
  return std::string("the writer looks for room before its wish is seen, the wish for room comes late, what was "
                     "taken is told late, the wish for room is looked for early")
             .find(fault.name) != std::string::npos;
}

TEST_P(RingModelFaultTest, IsFound) {
  const bool large = needs_the_large_case(GetParam());
  if (large && too_large_here({.name = "", .has_begun = true})) GTEST_SKIP();
  EXPECT_NE(found_in_some_case(GetParam(), large), "");
}

INSTANTIATE_TEST_SUITE_P(Ring, RingModelFaultTest, testing::ValuesIn(faults()),
                         [](const auto& each) { return named(each.param.name); });

TEST(RingModelFault, ASleeperThatIsTakenForOneThatNapsIsFound) {
  World world;
  world.takes_sleep_for_nap = true;
  const std::vector<Lengths> due = {{1}};
  world.program.of_one_thread.insert(world.reads.self.place);
  world.program.threads.emplace_back("reader", [&] { Taker(world, Lead::naps, due).run(false); });
  world.program.threads.emplace_back("writer", [&] { Sender(world, 0, due[0]).run(); });
  EXPECT_NE(explore(world.program).violation, "");
}

TEST(RingModelFault, ASleeperThatDoesNotLookAgainIsFound) {
  EXPECT_NE(found_in_some_case(std::nullopt, false, false), "");
}

}  // namespace
}  // namespace mobula::internal::model
