// Real processes with real rings. One of them is killed, or stopped briefly, at each of its
// operations on shared memory, and at random times. The other one reads exactly the published
// records, does not hang, and leaks no descriptor or mapping.
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "sanitizers.h"
#include "transport/local/shared_memory.h"
#include "transport/ring/doorbell.h"
#include "transport/ring/ring_defined.h"

namespace mobula::internal::ring_kill {
namespace {

// ---- memory that signals its user
// ----------------------------------------------------------------

struct Hit {
  int signal = 0;
  int at = 0;  // index of the operation, from 0; it has not happened yet
  int done = 0;
};
Hit hit;  // this process only

void operates() {
  if (hit.signal != 0 && hit.done++ == hit.at) ::kill(::getpid(), hit.signal);
}

template <class T>
class HitAtomic {
 public:
  T load(std::memory_order order) const {
    operates();
    return word_.load(order);
  }
  void store(T value, std::memory_order order) {
    operates();
    word_.store(value, order);
  }
  T exchange(T value, std::memory_order order) {
    operates();
    return word_.exchange(value, order);
  }
  T fetch_or(T value, std::memory_order order) {
    operates();
    return word_.fetch_or(value, order);
  }

 private:
  std::atomic<T> word_;
};

// As ProcessMemory, with signals. Bytes are written and read in two halves, which count separately.
struct HitMemory : ProcessMemory {
  template <class T>
  using Atomic = HitAtomic<T>;
  static void write(std::byte* to, std::span<const std::byte> bytes) {
    operates();
    const std::size_t half = bytes.size() / 2;
    ProcessMemory::write(to, bytes.first(half));
    operates();
    ProcessMemory::write(to + half, bytes.subspan(half));
  }
  static void read(const std::byte* from, std::span<std::byte> bytes) {
    operates();
    ProcessMemory::read(from, bytes);
  }
};
static_assert(sizeof(BasicRingHeader<HitMemory>) == sizeof(RingHeader));
static_assert(sizeof(BasicDoorbellPage<HitMemory>) == sizeof(DoorbellPage));

long futex(void* word, int operation, std::uint32_t value, const timespec* at_most) {
  return ::syscall(SYS_futex, word, operation, value, at_most, nullptr, 0);
}

// ---- two processes ------------------------------------------------------------------------------

struct Kernel {
  template <class Word>
  void wake_word(Word& word) const {
    operates();
    futex(&word, FUTEX_WAKE, INT_MAX, nullptr);
  }
  void wake_event() const {}
};

// Shared by both processes: a ring from the writer to the reader, and one doorbell each.
struct Shared {
  SharedMemory make(std::size_t bytes) {
    return SharedMemory::map(SharedMemory::create_file(bytes, "ring-kill").value().get(), bytes)
        .value();
  }
  SharedMemory ring = make(ring_memory_bytes);
  // The writer's doorbell, then the reader's doorbell.
  SharedMemory bells[2] = {make(doorbell_page_bytes), make(doorbell_page_bytes)};
};

template <class Memory>
BasicDoorbellPage<Memory>& page_of(const SharedMemory& memory) {
  return *reinterpret_cast<BasicDoorbellPage<Memory>*>(memory.data());
}

std::vector<std::byte> record_of(std::uint64_t number) {
  std::mt19937_64 draw(number);
  const std::size_t longest = number % 5 == 4 ? 100'000 : 300;
  std::vector<std::byte> bytes(8 + draw() % longest);
  std::memset(bytes.data(), static_cast<int>(draw() % 256), bytes.size());
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// Blocks until a ring, at most `at_most` if given. Returns false if no ring was seen.
template <class Memory>
bool sleeps(const SharedMemory& own, std::optional<Duration> at_most) {
  auto& page = page_of<Memory>(own);
  announce_sleep(page, DoorbellSleep::on_word);
  if (!doorbell_rung(page)) {
    operates();
    timespec limit{0, at_most ? static_cast<long>(at_most->count()) : 0};
    futex(&page.sleep, FUTEX_WAIT, static_cast<std::uint32_t>(DoorbellSleep::on_word),
          at_most ? &limit : nullptr);
  }
  announce_sleep(page, DoorbellSleep::awake);
  bool rung = false;
  collect_rung(page, [&](std::size_t) { rung = true; });
  return rung;
}

// Returns true if the other process has ended. Called when no ring was seen for a while.
using Gone = std::function<bool()>;

// Returns the number of completely published records.
template <class Memory>
std::uint64_t write_all(Shared& shared, std::uint64_t due, const Gone& gone) {
  BasicRingWriter<Memory> writer(shared.ring.data());
  const auto ring = [&] { ring_doorbell(page_of<Memory>(shared.bells[1]), 0, Kernel{}); };
  const auto at_most = gone ? std::optional<Duration>(2ms) : std::nullopt;
  for (std::uint64_t number = 0; number < due; ++number) {
    const auto record = record_of(number);
    std::size_t at = 0;
    while ((at = writer.write(record, at)) < record.size()) {
      if (writer.broken()) return UINT64_MAX;
      ring();
      while (!writer.request_space()) {
        if (!sleeps<Memory>(shared.bells[0], at_most) && gone && gone()) return number;
      }
    }
    ring();
  }
  return due;
}

// Returns the number of records read, or UINT64_MAX if one differs from the written record.
template <class Memory>
std::uint64_t read_all(Shared& shared, std::uint64_t due, const Gone& gone) {
  BasicRingReader<Memory> reader(shared.ring.data(), 1u << 20);
  const auto at_most = gone ? std::optional<Duration>(2ms) : std::nullopt;
  std::vector<std::byte> record;
  bool last = false;  // all records before the end are read first
  for (std::uint64_t number = 0;;) {
    const auto read = reader.read(record);
    if (!read.ok()) return UINT64_MAX;
    if (*read) {
      if (record != record_of(number)) return UINT64_MAX;
      if (++number == due) return number;
      continue;
    }
    if (reader.take_hunger()) ring_doorbell(page_of<Memory>(shared.bells[0]), 0, Kernel{});
    if (last) return number;
    if (!sleeps<Memory>(shared.bells[1], at_most)) last = gone && gone();
  }
}

enum class Side { writes, reads };

// Records; every fifth is long, so that the ring fills up. Each side has about `steps` operations.
constexpr std::uint64_t count = 30;
constexpr int steps = 250;
// With a sanitizer a fork takes much longer, so only every tenth step is tried.
constexpr int every = sanitized ? 10 : 1;

template <class Memory>
std::uint64_t play(Side side, Shared& shared, std::uint64_t due, const Gone& gone = {}) {
  return side == Side::writes ? write_all<Memory>(shared, due, gone)
                              : read_all<Memory>(shared, due, gone);
}

// Starts a process that runs one side and receives the signal.
pid_t start(Side side, Shared& shared, std::uint64_t due, Hit given) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  hit = given;
  ::_exit(play<HitMemory>(side, shared, due) == due ? 0 : 1);
}

Side other(Side side) { return side == Side::writes ? Side::reads : Side::writes; }

std::size_t lines_of(const char* path) {
  std::ifstream file(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.find("ring-kill") != line.npos;
  return lines;
}
std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

class RingKillTest : public testing::TestWithParam<Side> {
 protected:
  RingKillTest() : descriptors_(descriptors()) { ::alarm(100); }
  ~RingKillTest() override {
    ::alarm(0);
    EXPECT_EQ(descriptors(), descriptors_);
    EXPECT_EQ(lines_of("/proc/self/maps"), 0u);
  }

  // Runs the other side of `side`, which ends by a signal, by itself, or not at all. Returns the
  // number of its records.
  static std::uint64_t survive(Side side, Shared& shared, pid_t child, int& status) {
    bool ended = false;
    const auto gone = [&] { return ended = ended || ::waitpid(child, &status, WNOHANG) == child; };
    const std::uint64_t done = play<ProcessMemory>(other(side), shared, count, gone);
    if (!ended) {
      EXPECT_EQ(::waitpid(child, &status, 0), child);
    }
    return done;
  }

 private:
  const std::size_t descriptors_;
};

TEST_P(RingKillTest, KilledAtEachStep_LeavesOtherUnharmed) {
  int killed = 0;
  for (int at = 0; at < steps; at += every) {
    Shared shared;
    int status = 0;
    const pid_t child = start(GetParam(), shared, count, {SIGKILL, at});
    ASSERT_GT(child, 0);
    const std::uint64_t done = survive(GetParam(), shared, child, status);
    ASSERT_LE(done, count) << "killed at step " << at;
    if (WIFEXITED(status)) {  // it had fewer steps this time
      ASSERT_EQ(WEXITSTATUS(status), 0) << "at step " << at;
      ASSERT_EQ(done, count);
      continue;
    }
    ASSERT_EQ(WTERMSIG(status), SIGKILL);
    ++killed;
  }
  EXPECT_GT(killed, steps / 4 / every);
  std::cout << killed << " times\n";
}

TEST_P(RingKillTest, KilledAnytime_LeavesOtherUnharmed) {
  std::mt19937_64 draw(7);
  int killed = 0;
  for (int round = 0; round < 1'000 / every; ++round) {
    Shared shared;
    constexpr std::uint64_t many = 400;
    const pid_t child = start(GetParam(), shared, many, {});
    ASSERT_GT(child, 0);
    std::thread killer([child, after = draw() % 1'500] {
      std::this_thread::sleep_for(std::chrono::microseconds(after));
      ::kill(child, SIGKILL);
    });
    int status = 0;
    bool ended = false;
    siginfo_t seen{};
    // Reaped only after the killer has ended, so that the pid is not reused before.
    const auto gone = [&] {
      return ended = ended || (::waitid(P_PID, static_cast<id_t>(child), &seen,
                                        WEXITED | WNOHANG | WNOWAIT) == 0 &&
                               seen.si_pid == child);
    };
    const std::uint64_t done = play<ProcessMemory>(other(GetParam()), shared, many, gone);
    killer.join();
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_LE(done, many) << "round " << round;
    killed += WIFSIGNALED(status) ? 1 : 0;
  }
  EXPECT_GT(killed, 100 / every);
  std::cout << killed << " times\n";
}

// No timeouts are used here, so a lost wake-up hangs the test.
TEST_P(RingKillTest, StoppedAtEachStep_LosesNothing) {
  int stops = 0;
  for (int at = 0; at < steps; at += every) {
    Shared shared;
    int status = 0;
    const pid_t child = start(GetParam(), shared, count, {SIGSTOP, at});
    ASSERT_GT(child, 0);
    std::thread waker([&] {
      while (::waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) {
        ++stops;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        ::kill(child, SIGCONT);
      }
    });
    const std::uint64_t done = play<ProcessMemory>(other(GetParam()), shared, count);
    waker.join();
    ASSERT_EQ(done, count) << "stopped at step " << at;
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "stopped at step " << at;
  }
  EXPECT_GT(stops, steps / 4 / every);
  std::cout << stops << " times\n";
}

INSTANTIATE_TEST_SUITE_P(Of, RingKillTest, testing::Values(Side::writes, Side::reads),
                         [](const auto& side) {
                           return side.param == Side::writes ? "TheWriter" : "TheReader";
                         });

}  // namespace
}  // namespace mobula::internal::ring_kill
