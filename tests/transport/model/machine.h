// A model of a machine that tries all interleavings of a few threads. Memory: atomic words with the
// C++ orders relaxed, acquire, release, and seq_cst, including release sequences; plain bytes,
// where a race is an error; the waits of the kernel. A thread is a function of its reads, so a
// state is the memory and the reads of each thread. Equal states are explored once.
// Thread: owner. Not: fences; relaxed loads that see later stores (no code under test reads
// relaxed).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mobula::internal::model {

using Word = std::uint64_t;

enum class Act : std::uint8_t {
  load,
  store,
  exchange,
  fetch_or,
  wait_word,    // blocks while the word has this value; 1: another thread died
  wake_word,    // wakes all threads blocked on the word
  wait_event,   // blocks until the counter is not 0; 1: another thread died
  wake_event,   // increments the counter
  clear_event,  // sets it to 0
  nothing,
};

struct Operation {
  Act act = Act::load;
  std::uint8_t location = 0;  // index of a word or an event
  Word value = 0;
  std::memory_order order = std::memory_order_seq_cst;
};

// A deliberate fault: an operation of a thread on a word uses another order or is omitted.
struct Fault {
  std::string name;
  Act act = Act::load;
  std::set<std::uint8_t> locations;
  std::optional<std::memory_order> order;      // nullopt: omitted
  std::optional<Word> only_of{};               // only if it stores this value
  std::optional<std::memory_order> only_as{};  // only if it has this order
};

inline void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

struct Program {
  std::vector<std::string> words;  // names; all are 0 at first
  std::vector<std::string> events;
  std::size_t bytes = 0;  // plain memory, in whole words of 8 bytes
  std::vector<std::pair<std::string, std::function<void()>>> threads;
  std::set<std::uint8_t> of_one_thread;  // words used by only one thread
  std::set<std::size_t> mortal;          // one of these may be killed at any time
  // Prefix of the history: these threads alone, in sequence, each with a number of operations.
  std::vector<std::pair<std::size_t, std::size_t>> begins;
  std::optional<Fault> fault;
};

struct Outcome {
  std::string violation;           // empty: no violation
  std::vector<std::string> trace;  // leads to the violation
  std::size_t states = 0;          // distinct states
  std::size_t ends = 0;            // final states, without any possible operation
  bool complete = true;            // all states were explored
  std::string why;                 // reason if not complete
};

// Tries all interleavings. Violations: a call of wrong(), a race, a thread that blocks forever,
// never ends, or is left waiting.
Outcome explore(const Program& program, std::size_t max_states = 4'000'000);

// ---- for threads -------------------------------------------------------------------------------

Word perform(Operation operation);
void write_plain(std::size_t at, std::span<const std::byte> bytes);  // whole words
void read_plain(std::size_t at, std::span<std::byte> bytes);
// Reports a wrong observation of the thread.
[[noreturn]] void wrong(std::string what);

template <class T>
class Atomic {
 public:
  T load(std::memory_order order) const {
    return static_cast<T>(perform({Act::load, location, 0, order}));
  }
  void store(T value, std::memory_order order) { perform({Act::store, location, value, order}); }
  T exchange(T value, std::memory_order order) {
    return static_cast<T>(perform({Act::exchange, location, value, order}));
  }
  T fetch_or(T value, std::memory_order order) {
    return static_cast<T>(perform({Act::fetch_or, location, value, order}));
  }

  std::uint8_t location = 255;  // index of the word in the machine
};

}  // namespace mobula::internal::model
