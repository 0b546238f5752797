// How fast does the engine add float32 numbers that are in the cache, beside memcpy? Prints both as JSON, in bytes of
// input per second: those of both operands of the sum, and those that are copied. Argument: repetitions.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/reduce.h"

namespace {

constexpr size_t kBytes = 64 * 1024;
constexpr int kBatch = 200;  // some 0.5 ms

alignas(64) std::byte target[kBytes], source[kBytes];

template <typename Work>
double seconds_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kBatch; ++i) {
    work();
    asm volatile("" ::: "memory");  // each of them is done
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kBatch;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = std::max(1, argc > 1 ? std::atoi(argv[1]) : 500);
  const nbc::ReduceKernel sum = nbc::reduce_kernel(nbc::Operator::sum, nbc::ElementType::float32);
  std::vector<double> sums, copies;
  // In turns: whatever the machine does meanwhile hits both.
  for (int i = 0; i < repetitions; ++i) {
    sums.push_back(seconds_of([&] { sum(target, source, target, kBytes); }));
    copies.push_back(seconds_of([&] { std::memcpy(target, source, kBytes); }));
  }
  std::printf("{\"sum\": %.0f, \"memcpy\": %.0f}\n", 2 * kBytes / median(sums), kBytes / median(copies));
}
