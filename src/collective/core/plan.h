// What one member does with its bytes in an operation that all have agreed on: sends, receives and
// reductions, and which of them wait for which. Between two members bytes go in the order of their plans
// and carry no names, so both plans are made from the same words. Pure; values.
//
// Algorithms. Large reductions of numbers of 32 bits and more: rings, reduced in the order of the ring.
// Smaller ones, and all of 16-bit floats: every member gets its part from all others and reduces it in the
// order of ranks, 16-bit floats with an accumulator of 32 bits that is rounded once. Broadcast: a chain of
// chunks where it is long, else a binomial tree. Gather, scatter and all_to_all: straight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/core/operation.h"

namespace mobula::internal::collective {

// Whose memory: `input` is only read, `output` is what the member gets, `scratch` lives for the operation.
enum class Area : std::uint8_t { input, output, scratch };

struct Place {
  Area area = Area::input;
  std::size_t offset = 0;  // bytes
};

enum class StepKind : std::uint8_t {
  send,     // `length` bytes at `from`, to `peer`
  receive,  // `length` bytes from `peer`, to `to`
  copy,     // `length` bytes at `from` to `to`
  combine,  // `to` becomes `with` op `from`
  fold,     // `to` becomes the reduction of all members' in the order of ranks: this one's at `from`, the
            // others' in slots of `stride` bytes at `with`, by rank without this one
};

struct Step {
  StepKind kind = StepKind::copy;
  std::uint32_t peer = 0;
  Place from = {};
  Place to = {};
  Place with = {};
  std::size_t length = 0;  // bytes
  std::size_t stride = 0;
  std::uint32_t after = 0;  // the steps [after, after + after_count) are done before
  std::uint32_t after_count = 0;
  bool whole = false;  // what a reduction leaves is whole: an average is divided then
};

struct Plan {
  std::vector<Step> steps;          // sends to a peer, and receives from one, in the order of their bytes
  std::size_t scratch_bytes = 0;
  double scale = 1;               // of what is whole
};

struct PlanOptions {
  std::size_t ring_from = 256 * 1024;     // bytes from which reductions and all_gather go round a ring
  std::size_t chain_from = 512 * 1024;    // bytes from which a broadcast goes along a chain
  std::size_t chunk_bytes = 256 * 1024;
  std::size_t most_scratch = 8 * 1024 * 1024;  // of reductions from all
};

// `input` and `output` have the sizes of input_bytes and output_bytes.
Plan make_plan(const Operation& operation, std::uint32_t rank, std::uint32_t members, const PlanOptions& options = {});

// Of the whole memory that a member gives and gets; the parts of all ranks follow each other.
std::size_t input_bytes(const Operation& operation, std::uint32_t rank, std::uint32_t members);
std::size_t output_bytes(const Operation& operation, std::uint32_t rank, std::uint32_t members);

}  // namespace mobula::internal::collective
