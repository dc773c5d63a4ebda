// Plan of one member for the bytes of an agreed operation: sends, receives, and reductions, and
// their order. Bytes between two members carry no names, so both plans are computed from the same
// handshake.
// Thread: any (pure).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/collective/core/operation.h"

namespace mobula::internal::collective {

// `input` is read-only, `output` receives the result, `scratch` exists for the duration of the
// operation.
enum class Area : std::uint8_t { input, output, scratch };

struct BufferPosition {
  Area area = Area::input;
  std::size_t offset = 0;  // bytes
};

enum class StepKind : std::uint8_t {
  send,     // `length` bytes at `from`, to `peer`
  receive,  // `length` bytes from `peer`, to `to`
  copy,     // `length` bytes at `from` to `to`
  combine,  // `to` = `with` op `from`
  // `to` = reduction over all members in rank order: this member's operand at `from`, the others by
  // rank in slots of `stride` bytes at `with`
  fold,
};

struct Step {
  StepKind kind = StepKind::copy;
  std::uint32_t peer = 0;
  BufferPosition from = {};
  BufferPosition to = {};
  BufferPosition with = {};
  std::size_t length = 0;  // bytes
  std::size_t stride = 0;
  std::uint32_t after = 0;  // steps [after, after + after_count) must precede this one
  std::uint32_t after_count = 0;
  bool whole = false;  // the step completes a reduction; an average is divided here
};

struct Plan {
  std::vector<Step> steps;  // sends to one peer, and receives from one peer, are in stream order
  std::size_t scratch_bytes = 0;
  double scale = 1;  // factor for complete reductions
};

struct PlanOptions {
  std::size_t ring_from = 256 * 1024;   // bytes from which reductions and all_gather use a ring
  std::size_t chain_from = 512 * 1024;  // bytes from which a broadcast uses a chain
  std::size_t chunk_bytes = 256 * 1024;
  std::size_t most_scratch = 8 * 1024 * 1024;  // bytes for reductions from all members
};

// `input` and `output` have the sizes `input_bytes` and `output_bytes`. Algorithms:
//
// Reductions of at least `ring_from` bytes of elements with 32 bits or more use rings, in ring
// order. Other reductions collect the operands of one part from all members and reduce them in rank
// order. 16-bit floats use a 32-bit accumulator and are rounded once. A long broadcast is a chain
// of chunks, a short one a binomial tree. gather, scatter, and all_to_all send directly.
Plan make_plan(const Operation& operation, std::uint32_t rank, std::uint32_t members,
               const PlanOptions& options = {});

// Total bytes that a member provides and receives; the parts of all ranks are consecutive.
std::size_t input_bytes(const Operation& operation, std::uint32_t rank, std::uint32_t members);
std::size_t output_bytes(const Operation& operation, std::uint32_t rank, std::uint32_t members);

}  // namespace mobula::internal::collective
