// How far one member has come with its plan: what it may send to whom and receive from whom now. What needs
// nobody else (copies, reductions) it does itself, in the memory that it was given. Its owner moves bytes and
// says how many. Pure, for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collective/core/plan.h"

namespace mobula::internal::collective {

struct Memory {
  std::span<const std::byte> input;
  std::span<std::byte> output;
  std::span<std::byte> scratch;
  std::shared_ptr<const void> owner = nullptr;  // keeps it for who goes on using it when the call has ended
};

class Progress {
 public:
  // `plan` and the memory stay until the end.
  Progress(const Operation& operation, const Plan& plan, std::uint32_t rank, std::uint32_t members, Memory memory);

  bool done() const { return left_ == 0; }
  // Empty where nothing can go to, or come from, that rank now.
  std::span<const std::byte> to_send(std::uint32_t peer);
  std::span<std::byte> to_receive(std::uint32_t peer);
  void sent(std::uint32_t peer, std::size_t bytes);
  void received(std::uint32_t peer, std::size_t bytes);
  // Whether something is still to come from, or go to, that rank.
  bool waits_for(std::uint32_t peer) const;

 private:
  struct Line {
    std::vector<std::uint32_t> steps;
    std::size_t next = 0;
    std::size_t moved = 0;  // bytes of the next
  };
  bool may_start(std::uint32_t step);
  void finish(std::uint32_t step);
  void work();
  void carry_out(const Step& step);
  const std::byte* at(const Place& place) const;
  std::byte* writable(const Place& place);
  const Step* front(const Line& line) const;

  const Operation& operation_;
  const Plan& plan_;
  const std::uint32_t rank_;
  const std::uint32_t members_;
  const Memory memory_;
  std::vector<Line> sends_;     // by rank
  std::vector<Line> receives_;  // by rank
  std::vector<std::uint32_t> own_;  // steps that need nobody else, in order
  std::size_t own_next_ = 0;        // those before are done
  std::vector<bool> done_;
  std::vector<std::uint32_t> checked_;  // by step: how many of those before it are known to be done
  std::size_t left_ = 0;
  bool fresh_ = true;  // something was done since work() looked
};

}  // namespace mobula::internal::collective
