// A machine on which all that can happen between a few threads is tried: they share atomic words, in
// which each store stays readable for those who may not know of a later one (the orders are C++'s:
// relaxed, acquire, release, seq_cst, with release sequences), plain bytes, of which any race is an
// error, and the kernel's waits. Threads are functions of what they read, so a state of the machine is
// what lies in its memory and what each thread has read; equal states are gone on from once.
//
// Not modelled: relaxed loads that see stores made later (no code here reads relaxed), fences.
// One thread of the real machine.
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
  load, store, exchange, fetch_or,
  wait_word,    // sleeps while the word has this value; 1: told that another has died
  wake_word,    // all that sleep there
  wait_event,   // sleeps until the counter is not 0; 1: told that another has died
  wake_event,   // counts one up
  clear_event,  // to 0
  nothing,
};

struct Operation {
  Act act = Act::load;
  std::uint8_t place = 0;  // a word, or an event
  Word value = 0;
  std::memory_order order = std::memory_order_seq_cst;
};

// A deliberate fault: what a thread does to a word is done in another order, or not at all.
struct Fault {
  std::string name;
  Act act = Act::load;
  std::set<std::uint8_t> places;
  std::optional<std::memory_order> order;      // nothing: not done
  std::optional<Word> only_of{};               // if it stores this
  std::optional<std::memory_order> only_as{};  // if it is done in this order
};

inline void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

struct Program {
  std::vector<std::string> words;   // their names; all are 0 at first
  std::vector<std::string> events;
  std::size_t bytes = 0;            // plain memory, in whole words of 8
  std::vector<std::pair<std::string, std::function<void()>>> threads;
  std::set<std::uint8_t> of_one_thread;  // words that only one of them uses
  std::set<std::size_t> mortal;     // one of these may be killed, at any moment
  // What has happened before: these threads alone, one after the other, each so many operations.
  std::vector<std::pair<std::size_t, std::size_t>> begins;
  std::optional<Fault> fault;
};

struct Outcome {
  std::string violation;           // empty: there is none
  std::vector<std::string> trace;  // that leads to it
  std::size_t states = 0;          // different ones
  std::size_t ends = 0;            // in which nobody can do anything more
  bool complete = true;            // all were seen
  std::string why;                 // not all
};

// Tries all that can happen. A violation: what a thread says is wrong, a race, a thread that sleeps for
// ever, one that never ends, or one that is left waiting.
Outcome explore(const Program& program, std::size_t max_states = 4'000'000);

// ---- for threads -------------------------------------------------------------------------------

Word perform(Operation operation);
void write_plain(std::size_t at, std::span<const std::byte> bytes);  // whole words
void read_plain(std::size_t at, std::span<std::byte> bytes);
// The thread has seen what must not be.
[[noreturn]] void wrong(std::string what);

template <class T>
class Atomic {
 public:
  T load(std::memory_order order) const {
    return static_cast<T>(perform({Act::load, place, 0, order}));
  }
  void store(T value, std::memory_order order) { perform({Act::store, place, value, order}); }
  T exchange(T value, std::memory_order order) {
    return static_cast<T>(perform({Act::exchange, place, value, order}));
  }
  T fetch_or(T value, std::memory_order order) {
    return static_cast<T>(perform({Act::fetch_or, place, value, order}));
  }

  std::uint8_t place = 255;  // which word of the machine it is
};

}  // namespace mobula::internal::model
