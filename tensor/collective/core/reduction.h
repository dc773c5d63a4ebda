// Element-wise reductions. Integers wrap; booleans use "or" (sum, max) and "and" (product, min);
// min and max of a NaN are NaN. Memory need not be aligned.
// Thread: any (pure).
// Not: validation. Types that are not reduced are rejected by `check` in `operation.h`.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/collective/core/operation.h"

namespace mobula::internal::collective {

// `to` = `left` op `right`, element by element, over `bytes` bytes. `to` may be one of the
// operands.
void combine(DType dtype, ReduceKind kind, std::size_t bytes, const std::byte* left,
             const std::byte* right, std::byte* to);

// `to` = ((operands[0] op operands[1]) op …) times `scale`. 16-bit floats are reduced and scaled in
// 32 bits and rounded once, ties to even. `to` may be one of the operands.
void fold(DType dtype, ReduceKind kind, std::size_t bytes,
          std::span<const std::byte* const> operands, double scale, std::byte* to);

// Multiplies floating-point or complex numbers by `by`.
void scale(DType dtype, std::size_t bytes, double by, std::byte* elements);

}  // namespace mobula::internal::collective
