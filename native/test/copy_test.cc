// Copies of data: whatever places they go from and to.
#include "copy.h"

#include <vector>

#include "test/check.h"
#include "test/random.h"

namespace {

using namespace nbc;
using namespace nbc::check;

constexpr size_t kMost = 10'000;
constexpr size_t kPage = 4096;

// Where the first page begins.
size_t page_in(const std::vector<std::byte>& memory) {
  return (kPage - reinterpret_cast<uintptr_t>(memory.data()) % kPage) % kPage;
}

// From one page to another, with all distances between the two within a page that matter, and lengths around the
// length of a piece.
TEST(a_copy_is_right_wherever_it_begins) {
  std::vector<std::byte> from(kMost + 2 * kPage), to(kMost + 2 * kPage);
  fill(from.data(), from.size(), 1);
  const size_t first = page_in(from), place = page_in(to);
  for (const size_t bytes : {size_t{1}, size_t{2047}, size_t{2048}, size_t{2049}, size_t{4096}, size_t{4097}, kMost}) {
    for (size_t ahead = 0; ahead < 40; ++ahead) {
      fill(to.data(), to.size(), 2);
      std::vector<std::byte> expected = to;
      for (size_t i = 0; i < bytes; ++i) expected[place + ahead + i] = from[first + i];
      copy_bytes(to.data() + place + ahead, from.data() + first, bytes);
      CHECK(to == expected);
      // As it is done where the processor has the slow case.
      fill(to.data() + place + ahead, bytes, 3);
      copy_in_pieces(to.data() + place + ahead, from.data() + first, bytes);
      CHECK(to == expected);
    }
  }
}

TEST(ranges_that_overlap_are_moved) {
  for (const size_t bytes : {size_t{100}, size_t{2049}, kMost}) {
    for (const ptrdiff_t distance : {-4097, -4080, -100, -16, -1, 0, 1, 16, 31, 32, 100, 4096, 4112}) {
      std::vector<std::byte> memory(kMost + 4 * kPage);
      fill(memory.data(), memory.size(), 1);
      const std::vector<std::byte> before = memory;
      std::byte* const begin = memory.data() + 2 * kPage;
      move_bytes(begin + distance, begin, bytes);
      for (size_t i = 0; i < bytes; ++i) CHECK(begin[distance + static_cast<ptrdiff_t>(i)] == before[2 * kPage + i]);
    }
  }
}

}  // namespace

TEST_MAIN(60)
