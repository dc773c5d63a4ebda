#include "transport/model/machine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

namespace mobula::internal::model {
namespace {

constexpr std::size_t max_words = 20;
constexpr std::size_t max_threads = 4;
constexpr std::size_t max_messages = 20;  // per word, still readable by some thread
constexpr std::size_t max_plain = 8;
constexpr std::size_t max_operations = 600;  // per thread

// Knowledge of a thread, or of the reader of a message: per word the oldest readable store, per
// thread the number of operations that happened before.
struct View {
  std::array<std::uint8_t, max_words> stores{};
  std::array<std::uint16_t, max_threads> clocks{};

  void join(const View& other) {
    for (std::size_t i = 0; i < max_words; ++i) stores[i] = std::max(stores[i], other.stores[i]);
    for (std::size_t i = 0; i < max_threads; ++i) clocks[i] = std::max(clocks[i], other.clocks[i]);
  }
};

// A store, in the modification order of the word.
struct Message {
  Word value = 0;
  View view{};         // acquired by its readers
  bool glued = false;  // written atomically after its predecessor (read-modify-write)
};

struct Plain {
  Word value = 0;
  std::uint8_t writer = 0;
  std::uint16_t written = 0;                      // clock of the writer; 0: never written
  std::array<std::uint16_t, max_threads> read{};  // clock of each thread at its last read
};

enum class Status : std::uint8_t { ready, asleep, woken, over, killed };

struct Thread {
  std::vector<Word> history;  // all values that it has read
  View view{};
  Status status = Status::ready;
  Operation next{};
};

// The stores of one word, in modification order.
struct Messages {
  std::array<Message, max_messages> all{};
  std::size_t count = 1;

  Message* begin() { return all.data(); }
  Message* end() { return all.data() + count; }
  const Message* begin() const { return all.data(); }
  const Message* end() const { return all.data() + count; }
  std::size_t size() const { return count; }
  const Message& back() const { return all[count - 1]; }
  Message& operator[](std::size_t at) { return all[at]; }
  const Message& operator[](std::size_t at) const { return all[at]; }
  void insert(std::size_t at, const Message& message) {
    std::copy_backward(begin() + at, end(), end() + 1);
    all[at] = message;
    ++count;
  }
  void erase_first(std::size_t how_many) {
    std::copy(begin() + how_many, end(), begin());
    count -= how_many;
  }
};

struct State {
  std::vector<Messages> words;
  std::array<std::uint8_t, max_words> seen_in_order{};  // by seq_cst operations
  std::array<Word, max_threads> events{};
  std::array<Plain, max_plain> plain{};
  std::vector<Thread> threads;
  bool died = false;
};

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

struct Violation {
  std::string text;
};
struct TooLarge {
  std::string text;
};
struct Reached {
  Operation operation;
};

// The running thread: it replays from its start all recorded reads, and then runs its next
// operation.
struct Run {
  State* state = nullptr;
  std::size_t thread = 0;
  std::size_t at = 0;  // position in its history
  const Program* program = nullptr;

  Thread& self() const { return state->threads[thread]; }
};
Run* current = nullptr;

std::string name_of(const Program& program, const Operation& operation) {
  static constexpr const char* names[] = {"load",        "store",     "exchange",   "fetch_or",
                                          "wait_word",   "wake_word", "wait_event", "wake_event",
                                          "clear_event", "nothing"};
  const bool of_event = operation.act >= Act::wait_event && operation.act <= Act::clear_event;
  const auto& locations = of_event ? program.events : program.words;
  std::string text = names[static_cast<std::size_t>(operation.act)];
  if (operation.act != Act::nothing) text += " " + locations.at(operation.location);
  if (operation.act == Act::store || operation.act == Act::exchange ||
      operation.act == Act::fetch_or) {
    text += " " + std::to_string(operation.value);
  }
  return text;
}

// One choice for an operation: the store that it reads, or the position at which it stores.
struct Choice {
  std::size_t thread = 0;
  bool kill = false;
  std::size_t position = 0;
};

class Explorer {
 public:
  explicit Explorer(const Program& program, std::size_t max_states)
      : program_(program), max_states_(max_states) {}

  Outcome explore() {
    struct Level {
      State state;
      std::vector<Choice> choices;
      std::size_t next = 0;
    };
    std::vector<Level> levels;
    try {
      State first = beginning();
      for (const auto& [thread, operations] : program_.begins) go_ahead(first, thread, operations);
      seen_.insert(hash_of(first));
      auto choices = choices_of(first);
      levels.push_back({std::move(first), std::move(choices)});
      while (!levels.empty()) {
        Level& level = levels.back();
        if (level.next == level.choices.size()) {
          levels.pop_back();
          continue;
        }
        const Choice choice = level.choices[level.next++];
        State state = level.state;
        apply(state, choice);
        if (!seen_.insert(hash_of(state)).second) continue;
        if (seen_.size() > max_states_) {
          throw TooLarge{"more states than the limit"};
        }
        auto next = choices_of(state);
        if (next.empty()) at_end(state);
        levels.push_back({std::move(state), std::move(next)});
      }
    } catch (const Violation& violation) {
      outcome_.violation = violation.text;
      for (const Level& level : levels) {
        if (level.next > 0)
          outcome_.trace.push_back(text_of(level.state, level.choices[level.next - 1]));
      }
    } catch (const TooLarge& large) {
      outcome_.complete = false;
      outcome_.why = large.text;
    }
    outcome_.states = seen_.size();
    return outcome_;
  }

 private:
  State beginning() {
    State state;
    if (program_.words.size() > max_words || program_.threads.size() > max_threads ||
        program_.events.size() > max_threads || program_.bytes > 8 * max_plain) {
      throw TooLarge{"the program is too large for the machine"};
    }
    state.words.resize(program_.words.size());
    state.threads.resize(program_.threads.size());
    for (std::size_t i = 0; i < state.threads.size(); ++i) {
      state.threads[i].view.clocks[i] = 1;
      run(state, i);
    }
    return state;
  }

  // Runs one thread alone. It always reads the latest store.
  void go_ahead(State& state, std::size_t thread, std::size_t operations) {
    for (std::size_t done = 0; done < operations; ++done) {
      const Operation& next = state.threads[thread].next;
      apply(state,
            {thread, false, next.act <= Act::fetch_or ? state.words[next.location].size() - 1 : 0});
    }
  }

  // Runs from the start of the thread to its next operation or its end.
  void run(State& state, std::size_t thread) {
    Run running{&state, thread, 0, &program_};
    Thread& self = state.threads[thread];
    if (self.history.size() > max_operations) {
      throw Violation{program_.threads[thread].first + " goes round and round"};
    }
    current = &running;
    try {
      program_.threads[thread].second();
      self.status = Status::over;
    } catch (const Reached& reached) {
      self.next = faulty(reached.operation);
      self.status = Status::ready;
    }
    current = nullptr;
  }

  Operation faulty(Operation operation) const {
    if (!program_.fault) return operation;
    const Fault& fault = *program_.fault;
    if (operation.act != fault.act || !fault.locations.contains(operation.location))
      return operation;
    if (fault.only_of && operation.value != *fault.only_of) return operation;
    if (fault.only_as && operation.order != *fault.only_as) return operation;
    if (fault.order) {
      operation.order = *fault.order;
    } else {
      operation.act = Act::nothing;
    }
    return operation;
  }

  std::size_t oldest_readable(const State& state, const Thread& self,
                              const Operation& operation) const {
    std::size_t oldest = self.view.stores[operation.location];
    if (operation.order == std::memory_order_seq_cst) {
      oldest = std::max<std::size_t>(oldest, state.seen_in_order[operation.location]);
    }
    return oldest;
  }

  // An operation on a thread-private word is invisible to others, so it runs first.
  bool is_of_one(const Operation& operation) const {
    return operation.act <= Act::fetch_or && program_.of_one_thread.contains(operation.location);
  }

  std::vector<Choice> choices_of(const State& state) const {
    std::vector<Choice> choices;
    for (std::size_t i = 0; i < state.threads.size(); ++i) {
      const Thread& self = state.threads[i];
      if (self.status == Status::over || self.status == Status::killed) continue;
      if (self.status == Status::ready && is_of_one(self.next))
        return {{i, false, oldest_readable(state, self, self.next)}};
      if (!state.died && program_.mortal.contains(i)) choices.push_back({i, true, 0});
      if (self.status == Status::asleep) {
        if (state.died) choices.push_back({i, false, 0});
        continue;
      }
      const Operation& operation = self.next;
      switch (operation.act) {
        case Act::load:
          for (std::size_t at = oldest_readable(state, self, operation);
               at < state.words[operation.location].size(); ++at) {
            choices.push_back({i, false, at});
          }
          break;
        case Act::store:  // directly after each possible predecessor
        case Act::exchange:
        case Act::fetch_or: {
          const auto& messages = state.words[operation.location];
          for (std::size_t at = oldest_readable(state, self, operation); at < messages.size();
               ++at) {
            if (at + 1 == messages.size() || !messages[at + 1].glued)
              choices.push_back({i, false, at});
          }
          break;
        }
        case Act::wait_event:
          if (state.events[operation.location] != 0 || state.died) choices.push_back({i, false, 0});
          break;
        default: choices.push_back({i, false, 0});
      }
    }
    return choices;
  }

  static void shift(View& view, std::size_t word, std::size_t inserted) {
    if (view.stores[word] >= inserted) ++view.stores[word];
  }

  static void insert(State& state, std::size_t word, std::size_t at, Message message) {
    auto& messages = state.words[word];
    if (messages.size() == max_messages) throw TooLarge{"more stores than the machine remembers"};
    for (auto& others : state.words) {
      for (auto& each : others) shift(each.view, word, at);
    }
    for (auto& thread : state.threads) shift(thread.view, word, at);
    if (state.seen_in_order[word] >= at) ++state.seen_in_order[word];
    message.view.stores[word] = static_cast<std::uint8_t>(at);
    messages.insert(at, message);
  }

  // Returns the value that the operation reads.
  Word carry_out(State& state, std::size_t thread, const Operation& operation,
                 std::size_t at) const {
    Thread& self = state.threads[thread];
    const std::size_t word = operation.location;
    const bool in_order = operation.order == std::memory_order_seq_cst;
    if (operation.act == Act::load) {
      const Message message = state.words[word][at];
      self.view.stores[word] = std::max(self.view.stores[word], static_cast<std::uint8_t>(at));
      if (acquires(operation.order)) self.view.join(message.view);
      if (in_order)
        state.seen_in_order[word] =
            std::max(state.seen_in_order[word], static_cast<std::uint8_t>(at));
      return message.value;
    }
    const bool reads = operation.act != Act::store;
    const Message before = state.words[word][at];
    if (reads) {
      self.view.stores[word] = std::max(self.view.stores[word], static_cast<std::uint8_t>(at));
      if (acquires(operation.order)) self.view.join(before.view);
    }
    Message own;
    own.value = operation.act == Act::fetch_or ? (before.value | operation.value) : operation.value;
    own.glued = reads;
    const auto position = static_cast<std::uint8_t>(at + 1);
    insert(state, word, position, own);
    self.view.stores[word] = position;
    Message& placed = state.words[word][position];
    if (releases(operation.order)) placed.view = self.view;
    if (reads) placed.view.join(state.words[word][at].view);  // continues its release sequence
    placed.view.stores[word] = position;
    if (in_order) state.seen_in_order[word] = std::max(state.seen_in_order[word], position);
    return before.value;
  }

  void apply(State& state, const Choice& choice) {
    Thread& self = state.threads[choice.thread];
    if (choice.kill) {
      state.died = true;
      self.status = Status::killed;
      return;
    }
    const Operation operation = self.next;
    Word read = 0;
    switch (operation.act) {
      case Act::wait_word:
        // A wake-up or the report of a death ends the wait. The kernel sees the latest store.
        if (self.status == Status::woken || state.died) {
          read = state.died ? 1 : 0;
        } else if (state.words[operation.location].back().value == operation.value) {
          self.status = Status::asleep;
          return;
        }
        break;
      case Act::wake_word:
        for (auto& other : state.threads) {
          const bool there = other.status == Status::asleep && other.next.act == Act::wait_word &&
                             other.next.location == operation.location;
          if (there) other.status = Status::woken;
        }
        break;
      case Act::wait_event: read = state.died ? 1 : 0; break;
      case Act::wake_event: state.events[operation.location] = 1; break;
      case Act::clear_event: state.events[operation.location] = 0; break;
      case Act::nothing: break;
      default: read = carry_out(state, choice.thread, operation, choice.position);
    }
    ++self.view.clocks[choice.thread];
    self.history.push_back(read);
    run(state, choice.thread);
    forget_unreadable(state);
  }

  // Removes unreadable stores, which cannot distinguish states.
  static void forget_unreadable(State& state) {
    for (std::size_t word = 0; word < state.words.size(); ++word) {
      std::uint8_t oldest = 255;
      for (const auto& thread : state.threads) {
        const bool reads = thread.status != Status::over && thread.status != Status::killed;
        if (reads) oldest = std::min(oldest, thread.view.stores[word]);
      }
      auto& messages = state.words[word];
      const std::size_t gone = std::min<std::size_t>(oldest, messages.size() - 1);
      if (gone == 0) continue;
      messages.erase_first(gone);
      messages[0].glued = false;
      const auto back = [&](std::uint8_t& position) {
        position = static_cast<std::uint8_t>(position - std::min<std::size_t>(position, gone));
      };
      for (auto& all : state.words) {
        for (auto& message : all) back(message.view.stores[word]);
      }
      for (auto& thread : state.threads) back(thread.view.stores[word]);
      back(state.seen_in_order[word]);
    }
  }

  void at_end(const State& state) {
    ++outcome_.ends;
    for (std::size_t i = 0; i < state.threads.size(); ++i) {
      const Status status = state.threads[i].status;
      if (status == Status::over || status == Status::killed) continue;
      throw Violation{program_.threads[i].first + " sleeps forever"};
    }
  }

  using Hash = std::pair<std::uint64_t, std::uint64_t>;
  struct FirstOf {
    std::size_t operator()(const Hash& key) const { return key.first; }
  };

  static Hash hash_of(const State& state) {
    std::uint64_t a = 0xcbf29ce484222325ULL, b = 0x9e3779b97f4a7c15ULL;
    const auto add = [&](std::uint64_t value) {
      a = std::rotl((a ^ value) * 0xff51afd7ed558ccdULL, 31);
      b = std::rotl(b + value, 27) * 0xc4ceb9fe1a85ec53ULL;
    };
    static_assert(sizeof(View) == 28);
    const auto add_view = [&](const View& view) {
      std::array<std::uint64_t, 4> packed{};
      std::memcpy(packed.data(), &view, sizeof(View));
      for (const auto each : packed) add(each);
    };
    for (std::size_t i = 0; i < state.words.size(); ++i) {
      add(state.words[i].size());
      for (const auto& message : state.words[i]) {
        add(message.value * 2 + (message.glued ? 1 : 0));
        add_view(message.view);
      }
      add(state.seen_in_order[i]);
    }
    for (const Word event : state.events) add(event);
    for (const auto& plain : state.plain) {
      add(plain.value);
      add(plain.writer * 65536U + plain.written);
      for (const auto read : plain.read) add(read);
    }
    for (const auto& thread : state.threads) {
      add(static_cast<std::uint64_t>(thread.status));
      add(thread.history.size());
      for (const Word read : thread.history) add(read);
      add_view(thread.view);
    }
    add(state.died ? 1 : 0);
    return {a, b};
  }

  std::string text_of(const State& state, const Choice& choice) const {
    const Thread& self = state.threads[choice.thread];
    std::string text = program_.threads[choice.thread].first + ": ";
    if (choice.kill) return text + "is killed";
    text += name_of(program_, self.next);
    if (self.next.act == Act::load) {
      text += " -> " + std::to_string(state.words[self.next.location][choice.position].value);
      const auto later = state.words[self.next.location].size() - 1 - choice.position;
      if (later > 0) text += " (" + std::to_string(later) + " later)";
    }
    return text;
  }

  const Program& program_;
  const std::size_t max_states_;
  std::unordered_set<Hash, FirstOf> seen_;
  Outcome outcome_;
};

void check_race(const Thread& self, std::size_t thread, std::size_t other, std::uint16_t clock,
                const char* what) {
  if (clock == 0 || other == thread || self.view.clocks[other] >= clock) return;
  throw Violation{std::string("a race: ") + what};
}

}  // namespace

Outcome explore(const Program& program, std::size_t max_states) {
  return Explorer(program, max_states).explore();
}

Word perform(Operation operation) {
  Run& run = *current;
  const auto& history = run.self().history;
  if (run.at < history.size()) return history[run.at++];
  throw Reached{operation};
}

void write_plain(std::size_t at, std::span<const std::byte> bytes) {
  Run& run = *current;
  Thread& self = run.self();
  for (std::size_t done = 0; done < bytes.size(); done += 8) {
    if (run.at++ < self.history.size()) continue;
    Plain& plain = run.state->plain.at((at + done) / 8);
    check_race(self, run.thread, plain.writer, plain.written, "written while another writes");
    for (std::size_t other = 0; other < max_threads; ++other) {
      check_race(self, run.thread, other, plain.read[other], "written while another reads");
    }
    std::memcpy(&plain.value, bytes.data() + done, 8);
    plain.writer = static_cast<std::uint8_t>(run.thread);
    plain.written = self.view.clocks[run.thread];
    self.history.push_back(0);
  }
}

void read_plain(std::size_t at, std::span<std::byte> bytes) {
  Run& run = *current;
  Thread& self = run.self();
  for (std::size_t done = 0; done < bytes.size(); done += 8) {
    if (run.at == self.history.size()) {
      Plain& plain = run.state->plain.at((at + done) / 8);
      check_race(self, run.thread, plain.writer, plain.written, "read while another writes");
      plain.read[run.thread] = self.view.clocks[run.thread];
      self.history.push_back(plain.value);
    }
    std::memcpy(bytes.data() + done, &self.history[run.at++], 8);
  }
}

void wrong(std::string what) { throw Violation{std::move(what)}; }

}  // namespace mobula::internal::model
