// The kernels of reductions: included once for each instruction set that they are compiled for, in a namespace of its
// own, NBC_KERNELS. No includes here: they would be compiled for that instruction set, too. See reduce.cc.

namespace nbc::NBC_KERNELS {
namespace {

// A value at any address. The compiler vectorises over these as over aligned ones.
template <typename T>
struct At {
  using Type __attribute__((aligned(1), may_alias)) = T;
};

// --- float16 and bfloat16 as float32 ---------------------------------------------------------------------------------

inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }

// Without a branch, which would keep the compiler from vectorising the loops: every case is computed, and one selected.
inline uint32_t select(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

struct Half {
  static float load(uint16_t half) {
    const uint32_t shifted = static_cast<uint32_t>(half & 0x7fff) << 13;
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t normal = shifted + (112u << 23);
    const uint32_t special = normal + (112u << 23);  // infinity and NaN
    const uint32_t quiet = special | select(shifted > (0x1fu << 23), 0x400000, 0);
    // A subnormal half is a multiple of 2^-24: as the low bits of a float whose last bit counts 2^-24.
    const uint32_t subnormal = bits_of(float_of(shifted + (113u << 23)) - float_of(113u << 23));
    const uint32_t small = select(shifted < (1u << 23), subnormal, normal);
    return float_of(select(shifted >= (0x1fu << 23), quiet, small) | sign);
  }
  // To the nearest, to even in the middle; too large becomes infinity.
  static uint16_t store(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t sign = (bits >> 16) & 0x8000;
    const uint32_t rest = bits & 0x7fffffff;
    const uint32_t odd = (rest >> 13) & 1;
    const uint32_t normal = (rest - (112u << 23) + 0xfff + odd) >> 13;
    const uint32_t subnormal = bits_of(float_of(rest) + float_of(126u << 23)) - (126u << 23);
    const uint32_t nan = 0x7e00 | ((rest >> 13) & 0x3ff);
    const uint32_t finite = select(rest < (113u << 23), subnormal, normal);
    const uint32_t large = select(rest > (255u << 23), nan, 0x7c00);
    return static_cast<uint16_t>(select(rest >= (143u << 23), large, finite) | sign);
  }
};

struct Brain {
  static float load(uint16_t brain) { return float_of(static_cast<uint32_t>(brain) << 16); }
  static uint16_t store(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40;
    return static_cast<uint16_t>(select((bits & 0x7fffffff) > (255u << 23), nan, rounded));
  }
};

// --- operators -------------------------------------------------------------------------------------------------------

template <typename T>
constexpr bool kIsFloat = T(0.5) != T(0);

// An unsigned number of at least 32 bits and at least the size of T. Sums and products of integers wrap, so they are
// computed in it; shorter numbers would become int.
template <size_t kBytes>
struct Unsigned {
  using Type = uint32_t;
};
template <>
struct Unsigned<8> {
  using Type = uint64_t;
};
template <typename T>
using BitsOf = typename Unsigned<sizeof(T)>::Type;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) {
      return a + b;
    } else {
      return static_cast<T>(static_cast<BitsOf<T>>(a) + static_cast<BitsOf<T>>(b));
    }
  }
};

struct Product {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) {
      return a * b;
    } else {
      return static_cast<T>(static_cast<BitsOf<T>>(a) * static_cast<BitsOf<T>>(b));
    }
  }
};

// Of floats: NaN if either is NaN, and -0 is less than 0. Numbers that are equal differ at most in the sign. All bits
// of a NaN and of anything else together are those of a NaN.
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) {
      const T either = __builtin_bit_cast(T, __builtin_bit_cast(BitsOf<T>, a) | __builtin_bit_cast(BitsOf<T>, b));
      const T greater = b < a ? b : either;
      return a < b ? a : greater;
    } else {
      return a < b ? a : b;
    }
  }
};

struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) {
      const BitsOf<T> x = __builtin_bit_cast(BitsOf<T>, a);
      const BitsOf<T> y = __builtin_bit_cast(BitsOf<T>, b);
      const T either = __builtin_bit_cast(T, a == b ? x & y : x | y);
      const T less = b > a ? b : either;
      return a > b ? a : less;
    } else {
      return a > b ? a : b;
    }
  }
};

struct LogicalAnd {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) & (b != 0));
  }
};
struct LogicalOr {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) | (b != 0));
  }
};
struct LogicalXor {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) ^ (b != 0));
  }
};
struct BitAnd {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// --- loops -----------------------------------------------------------------------------------------------------------

// What one element becomes depends on no other one, so the compiler may take several at once, although the target may
// be one of the operands.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // without optimisation, or with a sanitizer, it does not
#define NBC_ELEMENTS _Pragma("clang loop vectorize(assume_safety)")
#else
#define NBC_ELEMENTS _Pragma("GCC ivdep")
#endif

template <typename Op, typename T>
void combine(std::byte* target, const std::byte* left, const std::byte* right, size_t bytes) {
  auto* to = reinterpret_cast<typename At<T>::Type*>(target);
  const auto* a = reinterpret_cast<const typename At<T>::Type*>(left);
  const auto* b = reinterpret_cast<const typename At<T>::Type*>(right);
  const size_t count = bytes / sizeof(T);
  NBC_ELEMENTS
  for (size_t i = 0; i < count; ++i) to[i] = Op::template apply<T>(a[i], b[i]);
}

template <typename Op, typename Format>
void combine_16(std::byte* target, const std::byte* left, const std::byte* right, size_t bytes) {
  auto* to = reinterpret_cast<At<uint16_t>::Type*>(target);
  const auto* a = reinterpret_cast<const At<uint16_t>::Type*>(left);
  const auto* b = reinterpret_cast<const At<uint16_t>::Type*>(right);
  const size_t count = bytes / sizeof(uint16_t);
  NBC_ELEMENTS
  for (size_t i = 0; i < count; ++i)
    to[i] = Format::store(Op::template apply<float>(Format::load(a[i]), Format::load(b[i])));
}

struct Same {
  template <typename T>
  static T load(T value) {
    return value;
  }
};

// Pairs (value, index). NaN wins over every number; of equal values the pair with the lower index wins.
template <bool kLeast, typename T, typename Format>
void combine_pairs(std::byte* target, const std::byte* left, const std::byte* right, size_t bytes) {
  auto* to = reinterpret_cast<typename At<T>::Type*>(target);
  const auto* one = reinterpret_cast<const typename At<T>::Type*>(left);
  const auto* other = reinterpret_cast<const typename At<T>::Type*>(right);
  const size_t count = bytes / sizeof(T);
  NBC_ELEMENTS
  for (size_t i = 0; i < count; i += 2) {
    const auto a = Format::load(one[i]);
    const auto b = Format::load(other[i]);
    const bool before = (kLeast ? a < b : a > b) | ((a != a) & (b == b));
    const bool after = (kLeast ? b < a : b > a) | ((b != b) & (a == a));
    const bool lower = Format::load(one[i + 1]) < Format::load(other[i + 1]);
    const bool takes = before | (!after & lower);
    to[i] = takes ? one[i] : other[i];
    to[i + 1] = takes ? one[i + 1] : other[i + 1];
  }
}

// --- the table -------------------------------------------------------------------------------------------------------

template <typename T>
ReduceKernel arithmetic(Operator op) {
  switch (op) {
    case Operator::sum:
      return combine<Sum, T>;
    case Operator::prod:
      return combine<Product, T>;
    case Operator::min:
      return combine<Minimum, T>;
    case Operator::max:
      return combine<Maximum, T>;
    case Operator::minloc:
      return combine_pairs<true, T, Same>;
    case Operator::maxloc:
      return combine_pairs<false, T, Same>;
    default:
      return nullptr;
  }
}

template <typename T>
ReduceKernel integer(Operator op) {
  switch (op) {
    case Operator::land:
      return combine<LogicalAnd, T>;
    case Operator::lor:
      return combine<LogicalOr, T>;
    case Operator::lxor:
      return combine<LogicalXor, T>;
    case Operator::band:
      return combine<BitAnd, T>;
    case Operator::bor:
      return combine<BitOr, T>;
    case Operator::bxor:
      return combine<BitXor, T>;
    default:
      return arithmetic<T>(op);
  }
}

template <typename Format>
ReduceKernel short_float(Operator op) {
  switch (op) {
    case Operator::sum:
      return combine_16<Sum, Format>;
    case Operator::prod:
      return combine_16<Product, Format>;
    case Operator::min:
      return combine_16<Minimum, Format>;
    case Operator::max:
      return combine_16<Maximum, Format>;
    case Operator::minloc:
      return combine_pairs<true, uint16_t, Format>;
    case Operator::maxloc:
      return combine_pairs<false, uint16_t, Format>;
    default:
      return nullptr;
  }
}

}  // namespace

ReduceKernel kernel(Operator op, ElementType type) {
  switch (type) {
    case ElementType::int8:
      return integer<int8_t>(op);
    case ElementType::uint8:
      return integer<uint8_t>(op);
    case ElementType::int16:
      return integer<int16_t>(op);
    case ElementType::uint16:
      return integer<uint16_t>(op);
    case ElementType::int32:
      return integer<int32_t>(op);
    case ElementType::uint32:
      return integer<uint32_t>(op);
    case ElementType::int64:
      return integer<int64_t>(op);
    case ElementType::uint64:
      return integer<uint64_t>(op);
    case ElementType::float16:
      return short_float<Half>(op);
    case ElementType::bfloat16:
      return short_float<Brain>(op);
    case ElementType::float32:
      return arithmetic<float>(op);
    case ElementType::float64:
      return arithmetic<double>(op);
  }
  return nullptr;
}

}  // namespace nbc::NBC_KERNELS
