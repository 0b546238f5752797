// Reductions of arrays, element by element.
#pragma once
#include <cstddef>

#include "engine/encoding.h"
#include "fabric/fabric.h"

namespace nbc {

// target[i] = left[i] op right[i] for `bytes` bytes, a multiple of reduce_unit(). Any alignment; the target is one of
// the operands, or overlaps neither. Integers wrap. All operators commute, so the order of the operands does not
// matter.
using ReduceKernel = CombineKernel;

// Null where the operator is not defined for the type: logical and bitwise operators are for integers.
ReduceKernel reduce_kernel(Operator op, ElementType type);

// What ranks call a kernel among one another; never 0.
constexpr uint32_t reduce_number(Operator op, ElementType type) {
  return 1 + static_cast<uint32_t>(op) * kElementTypes + static_cast<uint32_t>(type);
}
// For so many bytes, both of a peer, which is not believed. Null: there is none.
ReduceKernel numbered_kernel(uint32_t number, size_t bytes);

// Bytes of what is combined as a whole: an element, or a pair (value, index) of MINLOC and MAXLOC.
inline uint32_t reduce_unit(Operator op, ElementType type) {
  const bool paired = op == Operator::minloc || op == Operator::maxloc;
  return kTypeBytes[static_cast<uint32_t>(type)] * (paired ? 2u : 1u);
}

}  // namespace nbc
