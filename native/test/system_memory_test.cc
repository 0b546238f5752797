// Memory of the system, and exposed memory that is nothing else: large blocks lie in huge pages.
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "fabric/plain_memory.h"
#include "fabric/system_memory.h"
#include "job/page.h"
#include "test/check.h"
#include "test/mappings.h"

namespace {

using namespace nbc;
using namespace nbc::check;

const size_t kPage = job::system_page();

size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * kPage;
}

// Empty: this process can have huge pages.
std::string why_no_huge_pages() {
  const std::string name = "/sys/kernel/mm/transparent_hugepage/enabled";
  std::string all;
  std::getline(std::ifstream(name) >> std::ws, all);
  if (all.find("[never]") != std::string::npos) return name + " says 'never'";
  return why_they_do_not_fit(kHugePage);
}

TEST(large_blocks_begin_at_a_huge_page) {
  PlainMemory memory;
  std::vector<void*> blocks;
  size_t used = 0;
  for (const size_t bytes : {size_t{1}, kHugePage - kPage, kHugePage, kHugePage + 1, kHugePage + 3 * kPage,
                             5 * kHugePage, 7 * kHugePage - kPage}) {
    auto* const block = static_cast<std::byte*>(memory.allocate(bytes));
    CHECK(block != nullptr);
    CHECK_EQ(number_of(block) % (bytes < kHugePage ? kPage : kHugePage), 0u);
    const size_t length = (bytes + kPage - 1) / kPage * kPage;
    used += length;
    CHECK_EQ(memory.used(), used);
    for (size_t at = 0; at < length; at += kPage) {
      CHECK(block[at] == std::byte{0} && block[at + kPage - 1] == std::byte{0});
      block[at] = block[at + kPage - 1] = std::byte{1};
    }
    blocks.push_back(block);
  }
  for (void* block : blocks) memory.release(block);
  CHECK_EQ(memory.used(), 0u);
}

TEST(large_blocks_take_no_more_addresses_than_they_need) {
  constexpr size_t kBlocks = 100, kOther = 32 << 20;
  const size_t before = address_space();
  {
    PlainMemory memory;
    for (size_t i = 0; i < kBlocks; ++i) CHECK(memory.allocate(kHugePage + kPage) != nullptr);
    CHECK(address_space() - before < kBlocks * (kHugePage + kPage) + kOther);
  }
  CHECK(address_space() < before + kOther);
}

TEST(where_there_is_no_more_it_says_how_much_and_what_to_do) {
  PlainMemory memory;
  CHECK(memory.allocate(kPage) != nullptr);
  rlimit before{};
  CHECK_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit set{address_space() + (size_t{64} << 20), before.rlim_max};
  CHECK_EQ(setrlimit(RLIMIT_AS, &set), 0);
  void* const none = memory.allocate(size_t{1} << 30);
  const std::string why = memory.why();
  CHECK_EQ(setrlimit(RLIMIT_AS, &before), 0);
  CHECK(none == nullptr);
  const std::string limit = std::to_string(set.rlim_cur) + " bytes (ulimit -v)";
  for (const std::string& part : {limit, "exposes " + std::to_string(kPage) + " bytes", std::string("smaller buffers")})
    CHECK(why.find(part) != std::string::npos);
}

TEST(large_blocks_lie_in_huge_pages) {
  PlainMemory memory;
  constexpr size_t kBytes = 8 * kHugePage;
  auto* const block = static_cast<std::byte*>(memory.allocate(kBytes));
  if (const std::string why = why_no_huge_pages(); !why.empty()) throw Skip{why};
  CHECK_EQ(mapping_has(block, "THPeligible"), 1);
  std::memset(block, 1, kBytes);
  const int64_t kilobytes = mapping_has(block, "AnonHugePages");
  std::printf("  %" PRId64 " KiB of %zu in huge pages\n", kilobytes, kBytes / 1024);
  if (kilobytes == 0) SKIP("the system has no huge page left");
}

}  // namespace

TEST_MAIN(30)
