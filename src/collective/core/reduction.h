// Elements of two or more members become one. Integers wrap, booleans are joined by "or" (sum, max) and "and"
// (product, min); a min or max with a NaN is a NaN. What is not reduced (collective/core/operation.h: check)
// does not come here. Memory need not be aligned. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "collective/core/operation.h"

namespace mobula::internal::collective {

// `to` = `left` op `right`, element by element; all have `bytes`. `to` may be one of them.
void combine(DType dtype, ReduceKind kind, std::size_t bytes, const std::byte* left, const std::byte* right,
             std::byte* to);

// `to` = ((operands[0] op operands[1]) op …) scaled. 16-bit floats are reduced and scaled in 32 bits and rounded
// once, to even. `to` may be one of the operands.
void fold(DType dtype, ReduceKind kind, std::size_t bytes, std::span<const std::byte* const> operands, double scale,
          std::byte* to);

// Floating point and complex numbers times `by`.
void scale(DType dtype, std::size_t bytes, double by, std::byte* elements);

}  // namespace mobula::internal::collective
