#include "tensor/collective/core/plan_progress.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/collective/core/reduction.h"

namespace mobula::internal::collective {
namespace {

constexpr std::size_t work_window = 64;  // steps that are examined

}  // namespace

Progress::Progress(const Operation& operation, const Plan& plan, std::uint32_t rank,
                   std::uint32_t members, Memory memory)
    : operation_(operation),
      plan_(plan),
      rank_(rank),
      members_(members),
      memory_(memory),
      sends_(members),
      receives_(members),
      done_(plan.steps.size(), false),
      checked_(plan.steps.size(), 0),
      left_(plan.steps.size()) {
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (step.kind == StepKind::send) {
      sends_[step.peer].steps.push_back(i);
    } else if (step.kind == StepKind::receive) {
      receives_[step.peer].steps.push_back(i);
    } else {
      own_.push_back(i);
    }
  }
  work();
}

bool Progress::may_start(std::uint32_t index) {
  const Step& step = plan_.steps[index];
  std::uint32_t& checked = checked_[index];
  while (checked < step.after_count && done_[step.after + checked]) ++checked;
  return checked == step.after_count;
}

void Progress::finish(std::uint32_t index) {
  done_[index] = true;
  --left_;
  fresh_ = true;
}

// Runs local steps in plan order. Only a window of steps is examined, because later steps depend on
// earlier ones.
void Progress::work() {
  while (fresh_) {
    fresh_ = false;
    const std::size_t end = std::min(own_.size(), own_next_ + work_window);
    for (std::size_t i = own_next_; i < end; ++i) {
      const std::uint32_t index = own_[i];
      if (done_[index] || !may_start(index)) continue;
      carry_out(plan_.steps[index]);
      finish(index);
    }
    while (own_next_ < own_.size() && done_[own_[own_next_]]) ++own_next_;
  }
}

const std::byte* Progress::at(const BufferPosition& position) const {
  switch (position.area) {
    case Area::input: return memory_.input.data() + position.offset;
    case Area::output: return memory_.output.data() + position.offset;
    case Area::scratch: return memory_.scratch.data() + position.offset;
  }
  return nullptr;
}

std::byte* Progress::writable(const BufferPosition& position) {
  MOBULA_CHECK(position.area != Area::input, "a plan does not write to its input");
  return (position.area == Area::output ? memory_.output : memory_.scratch).data() +
         position.offset;
}

void Progress::carry_out(const Step& step) {
  if (step.length == 0) return;
  std::byte* const to = writable(step.to);
  if (step.kind == StepKind::copy) {
    if (to != at(step.from)) std::memmove(to, at(step.from), step.length);
    return;
  }
  if (step.kind == StepKind::combine) {
    combine(operation_.dtype, operation_.reduce, step.length, at(step.from), at(step.with), to);
    if (step.whole && plan_.scale != 1) scale(operation_.dtype, step.length, plan_.scale, to);
    return;
  }
  std::vector<const std::byte*> operands;
  operands.reserve(members_);
  for (std::uint32_t rank = 0; rank < members_; ++rank) {
    const std::size_t slot = rank < rank_ ? rank : rank - 1;
    operands.push_back(rank == rank_ ? at(step.from) : at(step.with) + slot * step.stride);
  }
  fold(operation_.dtype, operation_.reduce, step.length, operands, plan_.scale, to);
}

const Step* Progress::front(const Line& line) const {
  return line.next == line.steps.size() ? nullptr : &plan_.steps[line.steps[line.next]];
}

std::span<const std::byte> Progress::to_send(std::uint32_t peer) {
  Line& line = sends_[peer];
  const Step* step = front(line);
  if (step == nullptr || !may_start(line.steps[line.next])) return {};
  return {at(step->from) + line.moved, step->length - line.moved};
}

std::span<std::byte> Progress::to_receive(std::uint32_t peer) {
  Line& line = receives_[peer];
  const Step* step = front(line);
  if (step == nullptr || !may_start(line.steps[line.next])) return {};
  return {writable(step->to) + line.moved, step->length - line.moved};
}

void Progress::sent(std::uint32_t peer, std::size_t bytes) {
  Line& line = sends_[peer];
  line.moved += bytes;
  const Step* step = front(line);
  MOBULA_CHECK(step != nullptr && line.moved <= step->length, "no more is sent than there is");
  if (line.moved < step->length) return;
  line.moved = 0;
  finish(line.steps[line.next++]);
  work();
}

void Progress::received(std::uint32_t peer, std::size_t bytes) {
  Line& line = receives_[peer];
  line.moved += bytes;
  const Step* step = front(line);
  MOBULA_CHECK(step != nullptr && line.moved <= step->length,
               "no more is received than the step has space for");
  if (line.moved < step->length) return;
  line.moved = 0;
  finish(line.steps[line.next++]);
  work();
}

bool Progress::waits_for(std::uint32_t peer) const {
  return front(sends_[peer]) != nullptr || front(receives_[peer]) != nullptr;
}

}  // namespace mobula::internal::collective
