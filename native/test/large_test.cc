// Beyond 4 GiB: offsets, strides and lengths of more than 32 bits, and more than 2^31 elements. JavaScript has such
// views from Node.js 22 on. The memory is sparse, or the same few pages again and again: no test needs 4 GiB.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "test/ranks.h"
#include "test/tcp_job.h"

namespace {

using namespace nbc;
using namespace nbc::check;

constexpr uint64_t k4GiB = uint64_t{1} << 32;

// --- memory ----------------------------------------------------------------------------------------------------------

// Address space. A page of it takes memory when it is written.
Pinned sparse(uint64_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) SKIP("there is no address space for " + std::to_string(bytes) + " bytes");
  return {static_cast<std::byte*>(at), bytes, std::shared_ptr<void>(at, [bytes](void* data) { munmap(data, bytes); })};
}

constexpr uint64_t kMirror = 16u << 20;
constexpr uint64_t kOwn = 64 * 1024;

// All of it can be written: it is the same 16 MiB again and again, apart from the pages at own_places().
Pinned mirrored(uint64_t bytes) {
  Pinned memory = sparse(bytes);
  const int fd = memfd_create("mirror", MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, kMirror) == 0);
  for (uint64_t at = 0; at < bytes; at += kMirror)
    CHECK(mmap(memory.data + at, std::min(kMirror, bytes - at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
               0) != MAP_FAILED);
  close(fd);
  return memory;
}

// Where a length or an offset that lost its upper bits would show: at the begin, around 4 GiB, and at the end of a
// message. Each has kOwn bytes of its own.
std::vector<uint64_t> own_places(uint64_t bytes) { return {0, k4GiB - kOwn, (bytes - kOwn) / kOwn * kOwn}; }

void own_pages(const Pinned& memory, uint64_t bytes) {
  for (const uint64_t at : own_places(bytes))
    CHECK(mmap(memory.data + at, std::min(2 * kOwn, memory.bytes - at), PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

void fill_own_places(const Pinned& memory, uint64_t bytes, uint64_t seed) {
  for (const uint64_t at : own_places(bytes)) fill(memory.data + at, std::min(kOwn, bytes - at), seed + at);
}

void check_own_places(const Pinned& memory, uint64_t bytes, uint64_t seed) {
  for (const uint64_t at : own_places(bytes)) {
    const uint64_t length = std::min(kOwn, bytes - at);
    CHECK_EQ(first_difference(memory.data + at, length, seed + at), length);
  }
}

void check_zero(const std::byte* from, size_t bytes) {
  CHECK(std::all_of(from, from + bytes, [](std::byte b) { return b == std::byte{0}; }));
}

// --- jobs ------------------------------------------------------------------------------------------------------------

void over_shm(bool cross_memory, const RankBody& body) {
  RankOptions options = mode(true);
  options.cross_memory = cross_memory;
  run_ranks(2, options, body);
}

void over_tcp(const RankBody& body) {
  TcpJob job(2);
  run_ranks_over(
      2, mode(true), [&](Rank rank) { return job.fabric(rank); }, body);
}

void over_all(const RankBody& body) {
  over_shm(true, body);
  over_shm(false, body);
  over_tcp(body);
}

// --- offsets ---------------------------------------------------------------------------------------------------------

// Small, large, and in several pieces.
constexpr uint64_t kLengths[] = {100, 5000, 700'001};
constexpr uint64_t kSendAt = k4GiB + 12'345;
constexpr uint64_t kReceiveAt = 2 * k4GiB + 777'777;

TEST(messages_of_collectives_at_offsets_beyond_4_gib) {
  over_all([](TestRank& me, Meeting&) {
    for (const uint64_t length : kLengths) {
      const Rank peer = 1 - me.rank;
      const Pinned out = sparse(kSendAt + length);
      const Pinned in = sparse(kReceiveAt + length);
      fill(out.data + kSendAt, length, length + me.rank);
      Schedule schedule(out.bytes, in.bytes);
      schedule.round().receive(peer, Role::receive, kReceiveAt, length).send(peer, Role::send, kSendAt, length);
      me.wait(me.start(me.load(schedule), out, in));
      CHECK_EQ(first_difference(in.data + kReceiveAt, length, length + peer), length);
      check_zero(in.data + kReceiveAt % k4GiB, length);
    }
  });
}

// Blocks of a column, 1.5 GiB apart on one side and 2.5 GiB on the other.
TEST(local_elements_at_offsets_beyond_4_gib) {
  static constexpr uint64_t kFrom = 3 * (k4GiB / 8), kTo = 5 * (k4GiB / 8);
  static constexpr uint64_t kCount = 4, kBlock = 3000;
  run_ranks(1, mode(true), [](TestRank& me, Meeting&) {
    const Pinned out = sparse(kSendAt + kCount * kFrom);
    const Pinned in = sparse(kReceiveAt + kCount * kTo);
    for (uint64_t i = 0; i < kCount; ++i) fill(out.data + kSendAt + i * kFrom, kBlock, i);
    Schedule schedule(out.bytes, in.bytes);
    schedule.round().strided(Role::send, kSendAt, Role::receive, kReceiveAt, kBlock, {{kCount, kFrom, kTo}});
    schedule.round().reduce(Operator::bxor, ElementType::uint8, Role::send, kSendAt + kFrom, Role::receive, kReceiveAt,
                            kBlock);
    schedule.round().copy(Role::send, kSendAt + 2 * kFrom, Role::receive, 5, kBlock);
    me.wait(me.start(me.load(schedule), out, in));
    for (uint64_t i = 1; i < kCount; ++i) CHECK_EQ(first_difference(in.data + kReceiveAt + i * kTo, kBlock, i), kBlock);
    CHECK_EQ(first_difference(in.data + 5, kBlock, 2), kBlock);
    for (uint64_t i = 0; i < kBlock; ++i)
      CHECK(in.data[kReceiveAt + i] == (out.data[kSendAt + i] ^ out.data[kSendAt + kFrom + i]));
    check_zero(in.data + kReceiveAt % k4GiB, kBlock);
  });
}

size_t refused_at(const Schedule& schedule) {
  try {
    compile_schedule(schedule.words.data(), schedule.words.size(), {0, 1}, 0);
    return 0;
  } catch (const ScheduleError& error) {
    return error.word;
  }
}

TEST(ranges_that_meet_only_modulo_4_gib_are_apart) {
  const auto two_receives = [](uint64_t second) {
    Schedule schedule(0, 4 * k4GiB);
    schedule.round().receive(1, Role::receive, 64, 100).receive(1, Role::receive, second, 100);
    return refused_at(schedule);
  };
  CHECK_EQ(two_receives(64 + k4GiB), 0u);
  CHECK_EQ(two_receives(64 + 2 * k4GiB + 50), 0u);
  CHECK(two_receives(163) > 0);

  const auto reach = [](uint64_t bytes) {
    Schedule schedule(0, k4GiB + 100);
    schedule.round().receive(1, Role::receive, 100, bytes);
    return refused_at(schedule);
  };
  CHECK_EQ(reach(k4GiB), 0u);
  CHECK(reach(k4GiB + 1) > 0);
}

// --- lengths ---------------------------------------------------------------------------------------------------------

// A length of which only the lower 32 bits counted would be that of the other side.
TEST(sizes_that_are_equal_only_modulo_4_gib_are_refused) {
  over_all([](TestRank& me, Meeting&) {
    constexpr uint64_t kShort = 100'000;
    uint32_t request;
    if (me.rank == 0) {
      request = me.isend(sparse(k4GiB + kShort), 1, 1);
    } else {
      request = me.irecv(sparse(kShort), 0, 1);
    }
    CHECK(me.engine->wait(&request, 1, true, -1));
    CHECK_EQ(me.error(request), Error::truncated);
    const RequestFailure failure = me.engine->failure(request);
    const uint64_t sizes[] = {k4GiB + kShort, kShort};
    CHECK_EQ(failure.bytes_here, sizes[me.rank]);
    CHECK_EQ(failure.bytes_there, sizes[1 - me.rank]);
  });
}

constexpr uint64_t kLarge = k4GiB + 3 * kOwn + 4321;

void message_of_more_than_4_gib(TestRank& me, Meeting&) {
  if (me.rank == 0) {
    const Pinned out = mirrored(kLarge);
    own_pages(out, kLarge);
    fill_own_places(out, kLarge, 1);
    me.send(out, 1, 1);
    return;
  }
  const Pinned in = mirrored(kLarge + kMirror);
  own_pages(in, kLarge);
  const uint32_t request = me.irecv(in, 0, 1);
  me.wait(request);
  CHECK_EQ(me.length(request), kLarge);
  check_own_places(in, kLarge, 1);
}

// Gigabytes of memory for the sanitizers' own notes about these.
void skip_under_sanitizers() {
  if (kThreadSanitizer || kAddressSanitizer) SKIP("a sanitizer needs gigabytes to follow it");
}

TEST(messages_of_more_than_4_gib_over_shared_memory) {
  skip_under_sanitizers();
  over_shm(true, message_of_more_than_4_gib);
}

TEST(messages_of_more_than_4_gib_through_staging_buffers) {
  skip_under_sanitizers();
  over_shm(false, message_of_more_than_4_gib);
}

TEST(messages_of_more_than_4_gib_over_tcp) {
  skip_under_sanitizers();
  over_tcp(message_of_more_than_4_gib);
}

TEST(copies_and_reductions_of_more_than_4_gib) {
  skip_under_sanitizers();
  run_ranks(1, mode(true), [](TestRank& me, Meeting&) {
    const Pinned out = mirrored(kLarge);
    const Pinned in = mirrored(kLarge);
    own_pages(out, kLarge);
    own_pages(in, kLarge);
    fill_own_places(out, kLarge, 2);
    Schedule copy(kLarge, kLarge);
    copy.round().copy(Role::send, 0, Role::receive, 0, kLarge);
    me.wait(me.start(me.load(copy), out, in));
    check_own_places(in, kLarge, 2);
    // More than 2^32 elements. What is combined with itself is 0.
    Schedule reduce(kLarge, kLarge);
    reduce.round().reduce(Operator::bxor, ElementType::uint8, Role::send, 0, Role::receive, 0, kLarge);
    me.wait(me.start(me.load(reduce), out, in));
    for (const uint64_t at : own_places(kLarge)) check_zero(in.data + at, std::min(kOwn, kLarge - at));
  });
}

}  // namespace

TEST_MAIN(180)
