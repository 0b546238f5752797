#include "engine/reduce.h"

#define NBC_KERNELS portable
#include "engine/reduce_kernels.h"

namespace nbc {
#if defined(__x86_64__)
namespace avx2 {
ReduceKernel kernel(Operator op, ElementType type);
}
#endif

ReduceKernel reduce_kernel(Operator op, ElementType type) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return avx2::kernel(op, type);
#endif
  return portable::kernel(op, type);
}

ReduceKernel numbered_kernel(uint32_t number, size_t bytes) {
  if (number == 0 || number > kOperators * kElementTypes) return nullptr;
  const auto op = static_cast<Operator>((number - 1) / kElementTypes);
  const auto type = static_cast<ElementType>((number - 1) % kElementTypes);
  return bytes % reduce_unit(op, type) == 0 ? reduce_kernel(op, type) : nullptr;
}

}  // namespace nbc
