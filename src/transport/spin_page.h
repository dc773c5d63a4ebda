// How many threads of a node may look at a doorbell for a while before they sleep. Looking pays only
// where a processor has nothing else to do, and no process knows what the others of its node do: so the
// agent gives all of them one page. In it stand how much room there is, and a *ticket* for each thread
// that looks, with the process that has it, so that the tickets of a process that was killed can be taken
// away. Any thread.
//
// Who writes nonsense into the page can make others look in vain or not at all; they can do them no other
// harm.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/shared_memory.h"

namespace mobula::internal {

// What the tickets of a process go by; never 0.
inline std::uint64_t spin_number(ProcessId process) { return std::max<std::uint64_t>(1, process.bits().low); }

class SpinPage {
 public:
  static constexpr std::size_t max_tickets = 62;
  static constexpr Duration longest_allowed = 1ms;

  // A right to look that goes back when it is destroyed. Empty: there is none.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept : holder_(other.holder_) { other.holder_ = nullptr; }
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (holder_ != nullptr) holder_->store(0, std::memory_order_release);
    }
    explicit operator bool() const { return holder_ != nullptr; }

   private:
    friend class SpinPage;
    explicit Ticket(std::atomic<std::uint64_t>& holder) : holder_(&holder) {}
    std::atomic<std::uint64_t>* holder_ = nullptr;
  };

  // A page with room for nobody.
  static Result<Fd> create_file();
  static Result<SpinPage> open(int fd);

  // ---- a process --------------------------------------------------------------------------------
  // For the process with this number, which is not 0. Takes no lock and never waits.
  Ticket take(std::uint64_t process) const;
  // How long to look; 0: not at all.
  Duration longest() const;

  // ---- the agent --------------------------------------------------------------------------------
  void set_room(std::size_t tickets) const;
  void set_longest(Duration longest) const;
  std::size_t room() const;
  std::size_t taken() const;
  // Whether somebody has asked for one since the last time, and got it or not.
  bool take_asked() const;
  // The process has ended.
  void take_away(std::uint64_t process) const;

 private:
  struct alignas(64) Place {
    std::atomic<std::uint64_t> holder;
  };
  struct Page {
    alignas(64) std::atomic<std::uint32_t> room;
    std::atomic<std::uint32_t> longest_us;
    std::atomic<std::uint32_t> asked;
    Place places[max_tickets];
  };
  static constexpr std::size_t page_bytes = 4096;
  static_assert(sizeof(Page) <= page_bytes);

  explicit SpinPage(SharedMemory memory) : memory_(std::move(memory)) {}
  Page& page() const { return *reinterpret_cast<Page*>(memory_.data()); }

  SharedMemory memory_;
};

}  // namespace mobula::internal
