// Reductions against a reference that computes one value at a time, by other means: integers in 128 bits, float16 and
// bfloat16 through double. Both instruction sets, at every alignment, in pieces of odd sizes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "engine/reduce.h"
#include "test/check.h"
#include "test/random.h"

namespace nbc::portable {
ReduceKernel kernel(Operator op, ElementType type);
}

namespace {

using namespace nbc;
using namespace nbc::check;
using Wide = __int128;

// --- the reference ---------------------------------------------------------------------------------------------------

// A short floating-point format: `fraction` bits after the point, exponents from -`bias` + 1.
struct Format {
  int fraction;
  int bias;
};
constexpr Format kHalf{10, 15};
constexpr Format kBrain{7, 127};

double value_of(Format format, uint16_t bits) {
  const int exponents = 2 * format.bias + 1;
  const int exponent = (bits & 0x7fff) >> format.fraction;
  const int fraction = bits & ((1 << format.fraction) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == exponents) return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias - format.fraction);
  return sign * std::ldexp((1 << format.fraction) + fraction, exponent - format.bias - format.fraction);
}

// By search among all numbers of the format, which are in the order of their bits.
uint16_t bits_of(Format format, double value) {
  const auto infinity = static_cast<uint16_t>((2 * format.bias + 1) << format.fraction);
  if (std::isnan(value)) return infinity | static_cast<uint16_t>(1 << (format.fraction - 1));
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double size = std::fabs(value);
  uint16_t low = 0;
  uint16_t high = infinity;
  while (low < high) {  // the first number that is not below `size`
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    if (value_of(format, middle) >= size) high = middle;
    if (value_of(format, middle) < size) low = static_cast<uint16_t>(middle + 1);
  }
  if (low == 0) return sign;
  // Infinity counts as the number that would follow the largest one.
  const double above = low == infinity ? std::ldexp(1, format.bias + 1) : value_of(format, low);
  const double below = value_of(format, static_cast<uint16_t>(low - 1));
  const bool down = size - below < above - size || (size - below == above - size && (low & 1) != 0);
  return static_cast<uint16_t>(sign | (down ? low - 1 : low));
}

template <typename T>
T combined(Operator op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case Operator::sum:
        return a + b;
      case Operator::prod:
        return a * b;
      default:
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
        if (a == b) return (op == Operator::min) == std::signbit(a) ? a : b;
        return (op == Operator::min) == (a < b) ? a : b;
    }
  } else {
    const Wide x = a;
    const Wide y = b;
    switch (op) {
      case Operator::sum:
        return static_cast<T>(x + y);
      case Operator::prod:
        return static_cast<T>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y));
      case Operator::min:
        return static_cast<T>(x < y ? x : y);
      case Operator::max:
        return static_cast<T>(x > y ? x : y);
      case Operator::land:
        return static_cast<T>(x != 0 && y != 0 ? 1 : 0);
      case Operator::lor:
        return static_cast<T>(x != 0 || y != 0 ? 1 : 0);
      case Operator::lxor:
        return static_cast<T>((x != 0) != (y != 0) ? 1 : 0);
      case Operator::band:
        return static_cast<T>(x & y);
      case Operator::bor:
        return static_cast<T>(x | y);
      default:
        return static_cast<T>(x ^ y);
    }
  }
}

// Whether pair a goes before pair b.
template <typename V>
bool first_of(Operator op, V a, V b, V index_a, V index_b) {
  if ((a != a) != (b != b)) return a != a;
  if (a == a && a != b) return (op == Operator::minloc) == (a < b);
  return index_a < index_b;
}

// How a type is loaded, stored and compared by the reference. `same`: equal bits, or both NaN.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T load(T stored) { return stored; }
  static T store(T value) { return value; }
  static bool same(T a, T b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }
};
template <const Format& kFormat>
struct Short {
  using Stored = uint16_t;
  using Value = float;
  static float load(uint16_t stored) { return static_cast<float>(value_of(kFormat, stored)); }
  static uint16_t store(float value) { return bits_of(kFormat, value); }
  static bool same(uint16_t a, uint16_t b) {
    return a == b || (std::isnan(value_of(kFormat, a)) && std::isnan(value_of(kFormat, b)));
  }
};

// --- the checks ------------------------------------------------------------------------------------------------------

template <typename T>
T interesting(Random& random) {
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    constexpr T kValues[] = {0,
                             -T(0),
                             1,
                             -1,
                             T(0.1),
                             Limits::infinity(),
                             -Limits::infinity(),
                             Limits::quiet_NaN(),
                             Limits::max(),
                             Limits::lowest(),
                             Limits::min(),
                             Limits::denorm_min(),
                             3,
                             -2};
    if (random.one_in(2)) return kValues[random.below(std::size(kValues))];
    return static_cast<T>(static_cast<double>(random.next()) / 1e15 - 9000);
  } else {
    constexpr T kValues[] = {0, 1, 2, static_cast<T>(-1), std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
    return random.one_in(2) ? kValues[random.below(std::size(kValues))] : static_cast<T>(random.next());
  }
}

template <typename Rules>
void check(Operator op, ReduceKernel kernel, Random& random, size_t count, size_t align_to, size_t align_from) {
  using Stored = typename Rules::Stored;
  const bool paired = op == Operator::minloc || op == Operator::maxloc;
  if (paired) count &= ~size_t{1};
  std::vector<Stored> target(count), source(count), expected;
  for (size_t i = 0; i < count; ++i) {
    target[i] = interesting<Stored>(random);
    source[i] = random.one_in(4) ? target[i] : interesting<Stored>(random);
  }
  expected = target;
  for (size_t i = 0; i < count; i += paired ? 2 : 1) {
    const auto a = Rules::load(source[i]);
    const auto b = Rules::load(target[i]);
    if (!paired) {
      expected[i] = Rules::store(combined(op, a, b));
    } else if (first_of(op, a, b, Rules::load(source[i + 1]), Rules::load(target[i + 1]))) {
      expected[i] = source[i];
      expected[i + 1] = source[i + 1];
    }
  }
  // Memory that ends where the elements end.
  const size_t bytes = count * sizeof(Stored);
  const std::unique_ptr<std::byte[]> to(new std::byte[bytes + align_to]);
  const std::unique_ptr<std::byte[]> from(new std::byte[bytes + align_from]);
  // Not memcpy: vectors of no elements have no address.
  const auto copy = [bytes](const auto* source_bytes, auto* target_bytes) {
    std::copy_n(reinterpret_cast<const std::byte*>(source_bytes), bytes, reinterpret_cast<std::byte*>(target_bytes));
  };
  copy(target.data(), to.get() + align_to);
  copy(source.data(), from.get() + align_from);
  // Into a place of its own, into that of the left operand, and into that of the right one.
  const std::unique_ptr<std::byte[]> apart(new std::byte[bytes + align_from]);
  const auto check_result = [&](const std::byte* result) {
    std::vector<Stored> found(count);
    copy(result, found.data());
    for (size_t i = 0; i < count; ++i) CHECK(Rules::same(found[i], expected[i]));
  };
  std::byte* const left = from.get() + align_from;
  std::byte* const right = to.get() + align_to;
  const auto is_kept = [bytes](const std::vector<Stored>& before, const std::byte* now) {
    const auto* kept = reinterpret_cast<const std::byte*>(before.data());
    return std::equal(kept, kept + bytes, now);
  };
  kernel(apart.get() + align_from, left, right, bytes);
  check_result(apart.get() + align_from);
  CHECK(is_kept(source, left) && is_kept(target, right));
  kernel(right, left, right, bytes);
  check_result(right);
  CHECK(is_kept(source, left));
  copy(target.data(), right);
  kernel(left, left, right, bytes);
  check_result(left);
  CHECK(is_kept(target, right));
}

template <typename Rules>
void check_type(ElementType type) {
  Random random(static_cast<uint64_t>(type) + 1);
  for (uint32_t op = 0; op < kOperators; ++op) {
    const auto which = static_cast<Operator>(op);
    for (ReduceKernel kernel : {reduce_kernel(which, type), portable::kernel(which, type)}) {
      if (kernel == nullptr) continue;
      for (size_t count = 0; count < 70; ++count)
        check<Rules>(which, kernel, random, count, random.below(9), random.below(9));
      for (uint32_t i = 0; i < repetitions(30, 5); ++i)
        check<Rules>(which, kernel, random, random.below(1000), random.below(65), random.below(65));
    }
  }
}

TEST(integers_of_8_bits) {
  check_type<Plain<int8_t>>(ElementType::int8);
  check_type<Plain<uint8_t>>(ElementType::uint8);
}
TEST(integers_of_16_bits) {
  check_type<Plain<int16_t>>(ElementType::int16);
  check_type<Plain<uint16_t>>(ElementType::uint16);
}
TEST(integers_of_32_bits) {
  check_type<Plain<int32_t>>(ElementType::int32);
  check_type<Plain<uint32_t>>(ElementType::uint32);
}
TEST(integers_of_64_bits) {
  check_type<Plain<int64_t>>(ElementType::int64);
  check_type<Plain<uint64_t>>(ElementType::uint64);
}
TEST(floats) {
  check_type<Plain<float>>(ElementType::float32);
  check_type<Plain<double>>(ElementType::float64);
}
TEST(short_floats) {
  check_type<Short<kHalf>>(ElementType::float16);
  check_type<Short<kBrain>>(ElementType::bfloat16);
}

// Every value of a short format, combined with a few: loading and rounding are complete.
template <typename Rules>
void check_all_values(ElementType type) {
  std::vector<uint16_t> all(65536), target(65536);
  for (uint32_t i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
  for (const Operator op : {Operator::sum, Operator::prod}) {
    for (const uint16_t other : {0x0000, 0x8000, 0x0001, 0x3c00, 0x3c01, 0x3f80, 0x3f81, 0x0401, 0x7bff, 0x7c00}) {
      for (ReduceKernel kernel : {reduce_kernel(op, type), portable::kernel(op, type)}) {
        std::fill(target.begin(), target.end(), other);
        auto* const to = reinterpret_cast<std::byte*>(target.data());
        kernel(to, reinterpret_cast<const std::byte*>(all.data()), to, 131072);
        for (uint32_t i = 0; i < 65536; i += repetitions(1, 7))
          CHECK(Rules::same(target[i], Rules::store(combined(op, Rules::load(all[i]), Rules::load(other)))));
      }
    }
  }
}

TEST(every_half_rounds_as_it_must) { check_all_values<Short<kHalf>>(ElementType::float16); }
TEST(every_bfloat16_rounds_as_it_must) { check_all_values<Short<kBrain>>(ElementType::bfloat16); }

TEST(both_instruction_sets_compute_the_same_bits) {
  Random random(99);
  std::vector<std::byte> source(4096), first(4096), second(4096);
  for (uint32_t type = 0; type < kElementTypes; ++type) {
    for (uint32_t op = 0; op < kOperators; ++op) {
      const auto kind = static_cast<ElementType>(type);
      const ReduceKernel fast = reduce_kernel(static_cast<Operator>(op), kind);
      const ReduceKernel portable = portable::kernel(static_cast<Operator>(op), kind);
      CHECK_EQ(fast == nullptr, portable == nullptr);
      if (fast == nullptr) continue;
      for (std::byte& byte : source) byte = static_cast<std::byte>(random.next());
      for (std::byte& byte : first) byte = static_cast<std::byte>(random.next());
      second = first;
      fast(first.data(), source.data(), first.data(), first.size());
      portable(second.data(), source.data(), second.data(), second.size());
      // Which NaN a sum of two NaN is depends on the order in which the compiler puts the operands.
      if (kind == ElementType::float32 || kind == ElementType::float64 || kind == ElementType::float16 ||
          kind == ElementType::bfloat16)
        continue;
      CHECK(first == second);
    }
  }
}

}  // namespace

TEST_MAIN(120)
