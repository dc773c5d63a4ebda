// State of one operation of a member while its thread executes it.
// Thread: owner (the thread of the operation).
// Not: for other files than `member*.cc`.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensor/collective/member.h"

namespace mobula::internal::collective {

struct Member::Task {
  // Shared by the late notification and the waiting thread.
  struct Turn {
    std::atomic<bool> taken{false};
  };

  const Prepare* prepare = nullptr;
  std::span<const std::byte> operand = {};
  Journey* journey = nullptr;
  bool opens = false;  // the operation opens the library of the group

  MemberCore::Stage stage = MemberCore::Stage::idle;
  bool begun = false;  // the action of the current stage has started
  Memory memory = {};
  Plan plan = {};
  std::optional<Progress> progress = {};
  bool is_prepared = false;
  std::shared_ptr<Turn> turn = nullptr;
  std::vector<std::uint32_t> absent = {};  // members without a link in the carrier
  Passage before = {};
  Time moves_since = {};
  Time closes_since = {};

  // Plans the bytes that this member sends and receives, in host memory.
  void make_plan(const MemberCore& core, std::uint32_t rank, std::uint32_t size,
                 const PlanOptions& options, std::vector<std::byte>& scratch) {
    if (!core.other()) {
      plan = collective::make_plan(core.agreed(), rank, size, options);
      if (scratch.size() < plan.scratch_bytes) scratch.resize(plan.scratch_bytes);
    } else if (!memory.input.empty()) {
      plan.steps.push_back(
          {.kind = StepKind::send, .peer = *core.other(), .length = memory.input.size()});
    } else if (!memory.output.empty()) {
      plan.steps.push_back({.kind = StepKind::receive,
                            .peer = *core.other(),
                            .to = {Area::output, 0},
                            .length = memory.output.size()});
    }
    progress.emplace(core.agreed(), plan, rank, size, Memory{memory.input, memory.output, scratch});
  }
};

}  // namespace mobula::internal::collective
