// The job's shared file and the exposed memory in it.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <cstdio>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "fabric/shm/arena.h"
#include "fabric/system_memory.h"
#include "job/limits.h"
#include "job/presence.h"
#include "job/processor_quota.h"
#include "job/segment.h"
#include "test/check.h"
#include "test/mappings.h"
#include "test/random.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using namespace nbc::job;
using shm::Arena;

constexpr size_t kGiB = size_t{1} << 30;
const size_t kPage = system_page();
const size_t kArena = 64 * kPage;

// Memory that a file takes.
size_t used_by(int fd) {
  struct stat status;
  CHECK_EQ(fstat(fd, &status), 0);
  return static_cast<size_t>(status.st_blocks) * 512;
}

struct SharedFile {
  explicit SharedFile(Rank size, size_t arena = kArena) : fd(Segment::create(size, arena)), segment(Segment::map(fd)) {}
  ~SharedFile() { close(fd); }
  size_t used() const { return used_by(fd); }
  int fd;
  std::shared_ptr<Segment> segment;
};

bool all_zero(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (at[i] != std::byte{0}) return false;
  }
  return true;
}

template <typename Make>
std::string refusal(Make&& make) {
  try {
    make();
  } catch (const FabricError& error) {
    return error.message;
  }
  return {};
}

// --- the file --------------------------------------------------------------------------------------------------------

TEST(a_job_has_1_to_4096_ranks) {
  CHECK(!refusal([] { Segment::create(0); }).empty());
  CHECK(!refusal([] { Segment::create(kMaxRanks + 1); }).empty());
  // The mailboxes of 4096 ranks are 1 TiB of address space. Some systems have less. ThreadSanitizer leaves 1.5 TiB for
  // mappings, and often not 1 TiB in one piece.
  const bool narrow = kThreadSanitizer || address_space_width() <= 1024 * kGiB;
  const Rank most = narrow ? 1024 : kMaxRanks;
  const int fd = Segment::create(most, kPage);
  CHECK_EQ(Segment::map(fd)->size(), most);
  close(fd);
}

TEST(only_a_jobs_file_is_mapped) {
  CHECK(!refusal([] { Segment::map(-1); }).empty());
  int pipes[2];
  CHECK_EQ(pipe(pipes), 0);
  CHECK(!refusal([&] { Segment::map(pipes[0]); }).empty());
  close(pipes[0]);
  close(pipes[1]);
  const int empty = memfd_create("empty", MFD_CLOEXEC);
  CHECK(!refusal([&] { Segment::map(empty); }).empty());
  close(empty);
  const auto damaged = [](size_t offset, uint32_t value) {
    const int fd = Segment::create(3, kArena);
    CHECK_EQ(pwrite(fd, &value, sizeof value, static_cast<off_t>(offset)), static_cast<ssize_t>(sizeof value));
    const std::string why = refusal([&] { Segment::map(fd); });
    close(fd);
    return why;
  };
  CHECK(!damaged(offsetof(JobHeader, magic), 1).empty());
  CHECK(damaged(offsetof(JobHeader, version), kLayoutVersion + 1).find("version") != std::string::npos);
  CHECK(!damaged(offsetof(JobHeader, places), 0).empty());
  CHECK(!damaged(offsetof(JobHeader, places), 4).empty());
  CHECK(!damaged(offsetof(JobHeader, places), UINT32_MAX).empty());
  CHECK(!damaged(offsetof(JobHeader, size), 2).empty());
  CHECK(!damaged(offsetof(JobHeader, size), UINT32_MAX).empty());
  const size_t skipped = Layout(3, kArena, system_page()).skipped;
  CHECK(!damaged(skipped, 1).empty());  // twice rank 1
  CHECK(!damaged(skipped + 2 * sizeof(uint32_t), 1).empty());
  CHECK(!damaged(skipped + 2 * sizeof(uint32_t), UINT32_MAX).empty());
  CHECK(!damaged(offsetof(JobHeader, arena_bytes), 1).empty());
  CHECK(!damaged(offsetof(JobHeader, arena_bytes) + 4, UINT32_MAX).empty());
  const int fd = Segment::create(3, kArena);
  CHECK_EQ(ftruncate(fd, 100), 0);
  CHECK(!refusal([&] { Segment::map(fd); }).empty());
  close(fd);
}

TEST(all_ranks_of_a_file_read_the_same_number_of_processors) {
  // The maker's, even if a rank that reads it is bound to one.
  cpu_set_t all;
  CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const int made = Segment::create(3, kArena);
  const int told = Segment::create(kMaxRanks, kArena, system_page(), {1, 3}, 77);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  CHECK_EQ(Segment::sharing(made).processors, std::min(static_cast<uint32_t>(CPU_COUNT(&all)), processor_quota()));
  CHECK_EQ(Segment::sharing(told).processors, 77u);
  CHECK_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  close(made);
  close(told);
  CHECK(!refusal([&] { Segment::sharing(made); }).empty());
}

TEST(a_file_is_for_the_ranks_of_one_host) {
  const std::vector<Rank> members{2, 5, 6, 4000};
  const int fd = Segment::create(kMaxRanks, kArena, system_page(), members);
  const auto segment = Segment::map(fd);
  const auto other = Segment::map(fd);
  close(fd);
  CHECK_EQ(segment->size(), kMaxRanks);
  CHECK(segment->members() == members);
  // As much address space as a job of four ranks takes, not one of 4096.
  CHECK_EQ(segment->pair(4000, 4000) + kPairBytes - segment->pair(2, 2), static_cast<ptrdiff_t>(16 * kPairBytes));
  uint8_t value = 0;
  for (const Rank owner : members) {
    segment->line(owner).pid = static_cast<int32_t>(owner);
    for (const Rank writer : members) fill(segment->pair(owner, writer), kPairBytes, ++value);
    *segment->card(owner, 5) = std::byte{value};
    *segment->map_arena(owner) = std::byte{value};
  }
  value = 0;
  for (const Rank owner : members) {
    CHECK_EQ(other->line(owner).pid, static_cast<int32_t>(owner));
    for (const Rank writer : members)
      CHECK_EQ(first_difference(other->pair(owner, writer), kPairBytes, ++value), kPairBytes);
    CHECK(*other->card(owner, 5) == std::byte{value});
    CHECK(*other->map_arena(owner) == std::byte{value});
  }
  // Those of other hosts are absent.
  for (Rank rank = 0; rank < segment->size(); ++rank) {
    if (std::find(members.begin(), members.end(), rank) != members.end()) continue;
    CHECK(!has_opened(*segment, rank) && !has_closed(*segment, rank) && segment->line(rank).pid == 0);
  }
  for (const std::vector<Rank>& wrong : {std::vector<Rank>{1, 1}, {2, 1}, {4}})
    CHECK(!refusal([&] { Segment::create(4, kArena, system_page(), wrong); }).empty());
}

TEST(mailboxes_lie_apart_and_are_shared_between_mappings) {
  const SharedFile job(3);
  const auto other = Segment::map(job.fd);
  CHECK(other->pair(0, 0) != job.segment->pair(0, 0));
  for (Rank owner = 0; owner < 3; ++owner) {
    for (Rank writer = 0; writer < 3; ++writer) {
      CHECK_EQ(reinterpret_cast<uintptr_t>(job.segment->pair(owner, writer)) % kPage, 0u);
      fill(job.segment->pair(owner, writer), kPairBytes, owner * 3 + writer);
    }
    job.segment->line(owner).pid = static_cast<int32_t>(owner) + 100;
  }
  for (Rank owner = 0; owner < 3; ++owner) {
    for (Rank writer = 0; writer < 3; ++writer)
      CHECK_EQ(first_difference(other->pair(owner, writer), kPairBytes, owner * 3 + writer), kPairBytes);
    CHECK_EQ(other->line(owner).pid, static_cast<int32_t>(owner) + 100);
    CHECK_EQ(reinterpret_cast<uintptr_t>(&other->line(owner)) % kLine, 0u);
  }
}

// What pages a system has is not ours to choose, so the arithmetic is tested for all three.
TEST(every_part_begins_at_a_page_of_4_16_or_64_KiB) {
  for (const size_t page : {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10}) {
    for (const Rank size : {1u, 2u, 3u, 7u, 64u, 1000u, kMaxRanks}) {
      const size_t arena = 5 * page;
      const Layout layout(size, arena, page);
      const size_t pairs = size_t{size} * size;
      for (const size_t part : {layout.lines, layout.mailboxes, layout.cards, layout.arenas, layout.end})
        CHECK_EQ(part % page, 0u);
      CHECK(layout.lines >= sizeof(JobHeader));
      CHECK(layout.mailboxes >= layout.lines + size * sizeof(RankLine));
      CHECK(layout.cards >= layout.mailboxes + pairs * kPairBytes);
      CHECK(layout.arenas >= layout.cards + pairs * kCardBytes);
      CHECK_EQ(layout.end, layout.arenas + size * arena);
    }
  }
}

// Larger pages than the system's do for this system, too.
TEST(arenas_are_handed_out_in_the_pages_of_the_file) {
  for (const size_t page : {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10}) {
    if (page % system_page() != 0) continue;
    const int fd = Segment::create(3, 5 * page + 1, page);
    const auto segment = Segment::map(fd);
    close(fd);
    CHECK_EQ(segment->page(), page);
    CHECK_EQ(segment->arena_bytes(), 6 * page);
    for (Rank rank = 0; rank < 3; ++rank) {
      Arena arena(segment, rank);
      for (size_t block = 0; block < 6; ++block) {
        void* at = arena.allocate(1);
        CHECK(at != nullptr);
        CHECK_EQ(arena.offset_of(at), block * page);
        fill(static_cast<std::byte*>(at), page, rank);
      }
      CHECK(arena.allocate(1) == nullptr);
    }
  }
}

TEST(a_header_with_pages_that_the_system_does_not_have_is_refused) {
  for (const uint32_t page : {0u, 512u, static_cast<uint32_t>(system_page()) + 1}) {
    const int fd = Segment::create(3, kArena);
    CHECK_EQ(pwrite(fd, &page, sizeof page, offsetof(JobHeader, page)), static_cast<ssize_t>(sizeof page));
    CHECK(!refusal([&] { Segment::map(fd); }).empty());
    close(fd);
  }
}

// --- address space ---------------------------------------------------------------------------------------------------

TEST(arenas_have_the_machines_memory_or_what_a_limit_leaves) {
  CHECK_EQ(default_arena_bytes(4, 23 * kGiB + 1, SIZE_MAX, kGiB, kPage), 24 * kGiB);
  for (const Rank size : {1u, 4u, 64u}) {
    const size_t bytes = default_arena_bytes(size, 23 * kGiB, 20 * kGiB, 2 * kGiB, kPage);
    CHECK_EQ(bytes % kPage, 0u);
    CHECK(bytes >= kGiB / 16);
    // A rank maps the arenas of all, and half of the rest stays for the program.
    CHECK(size * bytes <= 9 * kGiB);
    CHECK(size == 1 ? bytes > 8 * kGiB : bytes < 3 * kGiB);
  }
  // Never more than without a limit, and never nothing.
  CHECK_EQ(default_arena_bytes(1, kGiB, 1000 * kGiB, 0, kPage), kGiB);
  CHECK_EQ(default_arena_bytes(1, kGiB, kGiB, 2 * kGiB, kPage), kGiB / 16);
}

// Mappings lie in it, and none of its halves has them all; what lies above is the kernel's.
TEST(the_width_of_addresses_is_known) {
  const size_t width = address_space_width();
  size_t last = 0;
  for_each_mapping([&](uintptr_t, uintptr_t end) {
    if (end <= SIZE_MAX / 2) last = std::max(last, end);
  });
  CHECK_EQ(std::bit_ceil(last), width);
}

TEST(a_process_has_addresses_for_what_all_ranks_expose_by_default) {
  const Rank size = kThreadSanitizer ? 1 : 64;
  const int fd = Segment::create(size);
  const auto segment = Segment::map(fd);
  close(fd);
  std::vector<std::byte*> arenas;
  for (Rank rank = 0; rank < size; ++rank) arenas.push_back(segment->map_arena(rank));
  CHECK(std::count(arenas.begin(), arenas.end(), nullptr) == 0);
  for (std::byte* arena : arenas) munmap(arena, segment->arena_bytes());
}

TEST(a_rank_exposes_no_more_than_it_was_told_to) {
  const SharedFile job(2);
  Arena arena(job.segment, 0, 2 * kPage + 1);
  for (uint32_t page = 0; page < 3; ++page) CHECK(arena.allocate(1) != nullptr);
  CHECK(arena.allocate(1) == nullptr);
  Arena all(job.segment, 1, 2 * kArena);
  CHECK(all.allocate(kArena) != nullptr);
}

size_t address_space() {
  unsigned long long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  CHECK(file != nullptr);
  CHECK_EQ(std::fscanf(file, "%llu", &pages), 1);
  std::fclose(file);
  return static_cast<size_t>(pages) * system_page();
}

// In a process of its own: a limit stays.
TEST(a_limit_of_address_space_is_kept_to_or_named) {
  constexpr int kNotKept = 5;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const size_t limit = address_space() + 2 * kGiB;
    const rlimit set{limit, limit};
    if (setrlimit(RLIMIT_AS, &set) != 0) _exit(1);
    if (mmap(nullptr, 4 * kGiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) _exit(kNotKept);
    const int fits = Segment::create(2);
    if (!refusal([&] { Arena(Segment::map(fits), 0); }).empty()) _exit(2);
    FabricError error{};
    try {
      Arena(Segment::map(Segment::create(2, 8 * kGiB)), 0);
    } catch (const FabricError& thrown) {
      error = thrown;
    }
    for (const char* part : {"8.0 GiB", "ulimit -v", "NBC_EXPOSED_BYTES", "are in use"}) {
      if (error.message.find(part) == std::string::npos) _exit(3);
    }
    _exit(error.code != nullptr && std::string(error.code) == "ERR_NBC_NO_MEMORY" ? 0 : 4);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotKept) SKIP("this system does not keep to RLIMIT_AS");
  CHECK_EQ(WEXITSTATUS(status), 0);
}

// In a process of its own: a limit stays. Without care the kernel ends it with SIGXFSZ.
TEST(a_limit_of_the_size_of_files_is_kept_to_or_named) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const rlimit set{kGiB, kGiB};
    if (setrlimit(RLIMIT_FSIZE, &set) != 0) _exit(1);
    const int fits = Segment::create(4);
    if (!refusal([&] { Arena(Segment::map(fits), 0); }).empty()) _exit(2);
    const std::string why = refusal([] { Segment::create(2, kGiB); });
    for (const char* part : {"2.0 GiB", "1.0 GiB (ulimit -f)", "NBC_EXPOSED_BYTES"}) {
      if (why.find(part) == std::string::npos) _exit(3);
    }
    _exit(0);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
}

// A job's file on a tmpfs with these options, in a mount namespace of this process; it has no name any more.
int file_on_disk(Rank size, size_t arena, const std::string& options) {
  if (geteuid() != 0) SKIP("only root can mount a file system with chosen options");
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", "/dev/shm", "tmpfs", 0, options.c_str()) != 0)
    SKIP("this system lets not even root mount a file system");
  const int disk = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  CHECK(disk >= 0);
  CHECK_EQ(umount2("/dev/shm", MNT_DETACH), 0);
  const int model = Segment::create(size, arena);
  struct stat status {};
  CHECK_EQ(fstat(model, &status), 0);
  CHECK_EQ(ftruncate(disk, status.st_size), 0);
  JobHeader header{};
  CHECK_EQ(pread(model, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  CHECK_EQ(pwrite(disk, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  close(model);
  return disk;
}

TEST(where_pages_can_run_out_what_is_handed_out_is_there) {
  constexpr size_t kBlock = 64 * 1024;
  const int disk = file_on_disk(2, kGiB, "size=1048576");
  const auto segment = Segment::map(disk);
  close(disk);
  CHECK(segment->scarce());
  segment->reserve_mailboxes(0);
  fill(segment->pair(0, 1), kPairBytes, 1);
  Arena arena(segment, 0);
  CHECK(arena.allocate(2 * kGiB) == nullptr);
  CHECK(arena.why().find("large enough") != std::string::npos);
  std::vector<std::byte*> blocks;
  while (auto* block = static_cast<std::byte*>(arena.allocate(kBlock))) {
    CHECK(all_zero(block, kBlock));
    fill(block, kBlock, 2);
    blocks.push_back(block);
  }
  CHECK(blocks.size() > 4 && blocks.size() < 16);
  const std::string why = arena.why();
  for (const char* part : {"64 KiB", "No space left", "more memory"}) CHECK(why.find(part) != std::string::npos);
  // A rank that comes too late is told so, too. What is given back can be had again, and is touched.
  const std::string late = refusal([&] { segment->reserve_mailboxes(1); });
  CHECK(late.find("mailboxes") != std::string::npos);
  arena.discard(blocks[0], kBlock);
  CHECK(arena.allocate(kBlock) == nullptr);
  fill(blocks[0], kBlock, 3);
  arena.release(blocks[0]);
  auto* again = static_cast<std::byte*>(arena.allocate(kBlock));
  CHECK(again == blocks[0] && all_zero(again, kBlock));
}

// As where shmem_enabled says 'advise', which is not a test's to change. Then what is given back has no pages left, but
// for the huge pages of which it had only a part.
TEST(large_blocks_lie_in_huge_pages_where_shared_memory_can_have_them) {
  if (const std::string why = why_they_do_not_fit(kHugePage); !why.empty()) throw Skip{why};
  constexpr size_t kBytes = 8 * kHugePage;
  const Descriptor disk(file_on_disk(2, kGiB, "size=0,huge=advise"));
  const auto segment = Segment::map(disk.get());
  if (segment->scarce()) SKIP("this kernel counts memory strictly (vm.overcommit_memory=2)");
  Arena arena(segment, 1);
  std::byte* const seen = segment->map_arena(1);
  CHECK(seen != nullptr);
  const size_t before = used_by(disk.get());
  auto* const block = static_cast<std::byte*>(arena.allocate(kBytes));
  fill(block, kBytes, 1);
  CHECK_EQ(first_difference(seen + arena.offset_of(block), kBytes, 1), kBytes);
  for (const std::byte* at : {arena.at(0), seen}) {
    CHECK_EQ(mapping_has(at, "THPeligible"), 1);
    const int64_t kilobytes = mapping_has(at, "ShmemPmdMapped");
    std::printf("  %" PRId64 " KiB of %zu in huge pages\n", kilobytes, kBytes / 1024);
    if (kilobytes == 0) SKIP("the system has no huge page left");
  }
  arena.release(block);
  CHECK(used_by(disk.get()) <= before + 2 * kHugePage);
  CHECK(all_zero(static_cast<std::byte*>(arena.allocate(kBytes)), kBytes));
  munmap(seen, segment->arena_bytes());
}

TEST(a_file_without_a_name_takes_no_pages_before_they_are_touched) {
  const SharedFile job(2);
  if (job.segment->scarce()) SKIP("this kernel counts memory strictly (vm.overcommit_memory=2)");
  const size_t before = job.used();
  Arena arena(job.segment, 0);
  CHECK(arena.allocate(kArena) != nullptr);
  job.segment->reserve_mailboxes(0);
  CHECK_EQ(job.used(), before);
}

// --- memory ----------------------------------------------------------------------------------------------------------

TEST(memory_is_taken_only_when_it_is_touched) {
  const SharedFile job(64, size_t{1} << 30);
  CHECK(job.used() <= 2 * kPage);
  job.segment->pair(5, 6)[100] = std::byte{1};
  CHECK(job.used() <= 3 * kPage);
}

// --- the arena -------------------------------------------------------------------------------------------------------

TEST(blocks_are_aligned_zeroed_and_apart) {
  const SharedFile job(2);
  Arena arena(job.segment, 0);
  const size_t sizes[] = {0, 1, kPage - 1, kPage, kPage + 1, 5 * kPage};
  std::vector<std::byte*> blocks;
  for (const size_t bytes : sizes) {
    auto* block = static_cast<std::byte*>(arena.allocate(bytes));
    CHECK(block != nullptr);
    CHECK_EQ(reinterpret_cast<uintptr_t>(block) % kPage, 0u);
    CHECK(arena.contains(block) && arena.at(arena.offset_of(block)) == block);
    CHECK(all_zero(block, bytes));
    fill(block, bytes, blocks.size());
    blocks.push_back(block);
  }
  CHECK_EQ(arena.used(), (1 + 1 + 1 + 1 + 2 + 5) * kPage);
  for (size_t i = 0; i < blocks.size(); ++i) CHECK_EQ(first_difference(blocks[i], sizes[i], i), sizes[i]);
  for (std::byte* block : blocks) arena.release(block);
  CHECK_EQ(arena.used(), 0u);
}

TEST(an_exhausted_arena_says_so_and_recovers) {
  const SharedFile job(1);
  Arena arena(job.segment, 0);
  CHECK(arena.allocate(kArena + 1) == nullptr);
  CHECK(arena.allocate(SIZE_MAX) == nullptr);
  CHECK(arena.allocate(SIZE_MAX - kPage) == nullptr);
  void* all = arena.allocate(kArena);
  CHECK(all != nullptr);
  CHECK(arena.allocate(0) == nullptr);
  CHECK(arena.allocate(1) == nullptr);
  arena.release(all);
  CHECK(arena.allocate(1) != nullptr);
}

TEST(neighbours_are_joined_again) {
  for (uint32_t order = 0; order < 6; ++order) {
    const SharedFile job(1);
    Arena arena(job.segment, 0);
    void* blocks[3] = {arena.allocate(kArena / 4), arena.allocate(kArena / 4), arena.allocate(kArena / 2)};
    const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (const uint32_t i : orders[order]) arena.release(blocks[i]);
    CHECK(arena.allocate(kArena) != nullptr);
  }
}

TEST(low_addresses_are_used_first) {
  const SharedFile job(1);
  Arena arena(job.segment, 0);
  void* first = arena.allocate(kPage);
  void* second = arena.allocate(kPage);
  arena.release(first);
  CHECK(arena.allocate(2 * kPage) > second);
  CHECK(arena.allocate(kPage) == first);
}

TEST(releasing_what_is_not_a_block_does_nothing) {
  const SharedFile job(1);
  Arena arena(job.segment, 0);
  auto* block = static_cast<std::byte*>(arena.allocate(3 * kPage));
  int elsewhere = 0;
  arena.release(block + kPage);
  arena.release(&elsewhere);
  CHECK_EQ(arena.used(), 3 * kPage);
  arena.release(block);
  arena.release(block);  // twice
  CHECK_EQ(arena.used(), 0u);
  CHECK(arena.allocate(kArena) != nullptr);
}

TEST(released_memory_goes_back_to_the_system) {
  const SharedFile job(2);
  const size_t before = job.used();
  Arena arena(job.segment, 1);
  auto* block = static_cast<std::byte*>(arena.allocate(32 * kPage));
  fill(block, 32 * kPage, 1);
  CHECK(job.used() >= before + 32 * kPage);
  arena.release(block);
  CHECK(job.used() <= before + kPage);
  auto* again = static_cast<std::byte*>(arena.allocate(32 * kPage));
  CHECK(again == block);
  CHECK(all_zero(again, 32 * kPage));
}

TEST(an_arena_gives_everything_back_when_it_ends) {
  const SharedFile job(2);
  const size_t before = job.used();
  {
    Arena arena(job.segment, 1);
    fill(static_cast<std::byte*>(arena.allocate(20 * kPage)), 20 * kPage, 1);
  }
  CHECK(job.used() <= before + kPage);
}

TEST(peers_see_the_same_memory) {
  const SharedFile job(2);
  Arena mine(job.segment, 0);
  Arena theirs(job.segment, 1);
  const auto other = Segment::map(job.fd);
  std::byte* seen = other->map_arena(0);
  CHECK(seen != nullptr);
  auto* block = static_cast<std::byte*>(mine.allocate(3 * kPage));
  fill(block, 3 * kPage, 4);
  fill(static_cast<std::byte*>(theirs.allocate(3 * kPage)), 3 * kPage, 5);  // not the same memory
  CHECK_EQ(first_difference(seen + mine.offset_of(block), 3 * kPage, 4), 3 * kPage);
  fill(seen + mine.offset_of(block), 3 * kPage, 6);
  CHECK_EQ(first_difference(block, 3 * kPage, 6), 3 * kPage);
  munmap(seen, other->arena_bytes());
}

// Against a model: what is handed out never overlaps, always fits, and nothing gets lost.
TEST(random_allocations) {
  const SharedFile job(1);
  Arena arena(job.segment, 0);
  Random random(1);
  std::map<std::byte*, size_t> blocks;
  size_t pages = 0;
  uint32_t refused = 0;
  for (uint32_t i = 0; i < repetitions(20'000, 5'000); ++i) {
    if (blocks.empty() || random.one_in(2)) {
      const size_t bytes = random.one_in(3) ? random.below(20 * kPage) : random.below(2 * kPage);
      auto* block = static_cast<std::byte*>(arena.allocate(bytes));
      if (block == nullptr) {
        ++refused;
      } else {
        const size_t length = std::max<size_t>(1, (bytes + kPage - 1) / kPage) * kPage;
        const auto after = blocks.lower_bound(block);
        CHECK(after == blocks.end() || block + length <= after->first);
        CHECK(after == blocks.begin() || std::prev(after)->first + std::prev(after)->second <= block);
        CHECK(arena.contains(block) && arena.offset_of(block) + length <= kArena);
        CHECK(block[0] == std::byte{0} && block[length - 1] == std::byte{0});
        block[0] = block[length - 1] = std::byte{1};
        blocks.emplace(block, length);
        pages += length;
      }
    } else {
      auto it = blocks.begin();
      std::advance(it, random.below(static_cast<uint32_t>(blocks.size())));
      arena.release(it->first);
      pages -= it->second;
      blocks.erase(it);
    }
    CHECK_EQ(arena.used(), pages);
  }
  CHECK(refused > 0);
  for (const auto& [block, length] : blocks) arena.release(block);
  CHECK(arena.allocate(kArena) != nullptr);
}

// Buffers are freed by garbage collection, on threads of its own.
TEST(allocation_and_release_on_several_threads) {
  const SharedFile job(1, 4096 * kPage);
  Arena arena(job.segment, 0);
  std::vector<std::thread> threads;
  std::atomic<uint32_t> wrong{0};
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      for (uint32_t i = 0; i < repetitions(5'000, 1'000); ++i) {
        const size_t bytes = 1 + random.below(3 * kPage);
        auto* block = static_cast<std::byte*>(arena.allocate(bytes));
        if (block == nullptr || block[0] != std::byte{0} || block[bytes - 1] != std::byte{0}) {
          wrong.fetch_add(1);
          continue;
        }
        block[0] = block[bytes - 1] = std::byte{1};
        arena.release(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0u);
  CHECK_EQ(arena.used(), 0u);
}

}  // namespace

TEST_MAIN(60)
