// Shared budget of spinning threads of a node. Spinning on a doorbell is useful only on an idle
// processor, and no process knows the load of the others. Therefore the agent maps one page into
// all of them. The page has the number of permits, and for each spinning thread the process that
// holds its permit, so that the agent can reclaim the permits of a killed process.
// Thread: any. Errors: a faulty writer can only cause needless or missing spins.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/local/shared_memory.h"

namespace mobula::internal {

// The number that identifies a process in the page; never 0.
inline std::uint64_t spin_number(ProcessId process) {
  return std::max<std::uint64_t>(1, process.bits().low);
}

class SpinBudget {
 public:
  static constexpr std::size_t max_tickets = 62;
  static constexpr Duration longest_allowed = 1ms;

  // A permit to spin, returned by its destructor. Empty if no permit was free.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept : holder_(other.holder_) { other.holder_ = nullptr; }
    Permit& operator=(Permit&&) = delete;
    ~Permit() {
      if (holder_ != nullptr) holder_->store(0, std::memory_order_release);
    }
    explicit operator bool() const { return holder_ != nullptr; }

   private:
    friend class SpinBudget;
    explicit Permit(std::atomic<std::uint64_t>& holder) : holder_(&holder) {}
    std::atomic<std::uint64_t>* holder_ = nullptr;
  };

  // Creates a page without permits.
  static Result<Fd> create_file();
  static Result<SpinBudget> open(int fd);

  // ---- a process --------------------------------------------------------------------------------
  // Takes a permit for the process with this number, which is not 0. Takes no lock and never
  // blocks.
  Permit take(std::uint64_t process) const;
  // Maximum time of one spin; 0: no spinning.
  Duration longest() const;

  // ---- the agent --------------------------------------------------------------------------------
  void set_permits(std::size_t tickets) const;
  void set_longest(Duration longest) const;
  std::size_t permits() const;
  std::size_t taken() const;
  // Returns true if a process requested a permit since the last call, successfully or not.
  bool take_requested() const;
  // Reclaims the permits of an ended process.
  void take_away(std::uint64_t process) const;

 private:
  struct alignas(64) Permitted {
    std::atomic<std::uint64_t> holder;
  };
  struct Page {
    alignas(64) std::atomic<std::uint32_t> permits;
    std::atomic<std::uint32_t> longest_us;
    std::atomic<std::uint32_t> requested;
    Permitted entries[max_tickets];
  };
  static constexpr std::size_t page_bytes = 4096;
  static_assert(sizeof(Page) <= page_bytes);

  explicit SpinBudget(SharedMemory memory) : memory_(std::move(memory)) {}
  Page& page() const { return *reinterpret_cast<Page*>(memory_.data()); }

  SharedMemory memory_;
};

}  // namespace mobula::internal
