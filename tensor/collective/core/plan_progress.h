// Progress of one member through its plan: returns the bytes that it may send and receive now. The
// owner moves them and reports their number. Copies and reductions run inside this class.
// Thread: owner (pure).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/collective/core/plan.h"

namespace mobula::internal::collective {

struct Memory {
  std::span<const std::byte> input;
  std::span<std::byte> output;
  std::span<std::byte> scratch;
  // keeps the memory alive after the call, for a library that still uses it
  std::shared_ptr<const void> owner = nullptr;
};

class Progress {
 public:
  // `plan` and the memory must outlive this object.
  Progress(const Operation& operation, const Plan& plan, std::uint32_t rank, std::uint32_t members,
           Memory memory);

  bool done() const { return left_ == 0; }
  // Return the bytes to send to that rank, and the memory to receive from it. Empty if the next
  // step with that rank must wait.
  std::span<const std::byte> to_send(std::uint32_t peer);
  std::span<std::byte> to_receive(std::uint32_t peer);
  void sent(std::uint32_t peer, std::size_t bytes);
  void received(std::uint32_t peer, std::size_t bytes);
  // Returns true if bytes to or from that rank are outstanding.
  bool waits_for(std::uint32_t peer) const;

 private:
  struct Line {
    std::vector<std::uint32_t> steps;
    std::size_t next = 0;
    std::size_t moved = 0;  // bytes of step `next`
  };
  bool may_start(std::uint32_t step);
  void finish(std::uint32_t step);
  void work();
  void carry_out(const Step& step);
  const std::byte* at(const BufferPosition& position) const;
  std::byte* writable(const BufferPosition& position);
  const Step* front(const Line& line) const;

  const Operation& operation_;
  const Plan& plan_;
  const std::uint32_t rank_;
  const std::uint32_t members_;
  const Memory memory_;
  std::vector<Line> sends_;         // by rank
  std::vector<Line> receives_;      // by rank
  std::vector<std::uint32_t> own_;  // local steps, in order
  std::size_t own_next_ = 0;        // index of the first local step that may be incomplete
  std::vector<bool> done_;
  std::vector<std::uint32_t> checked_;  // by step: number of its predecessors known to be complete
  std::size_t left_ = 0;
  bool fresh_ = true;  // a step has completed since the last `work`
};

}  // namespace mobula::internal::collective
