// Many ranks in one process, each with an engine of its own, run one operation after another. What each pair of ranks
// takes is printed after each: it counts with the square of their number. What JavaScript adds is
// test/many-ranks.test.ts.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "job/page.h"
#include "test/ranks.h"

namespace {

using namespace nbc;
using namespace nbc::check;

using Words = std::vector<uint64_t>;

constexpr uint64_t kWord = sizeof(uint64_t);
constexpr uint32_t kEagerLimit = 4096;  // the default of JavaScript
// Of a block: in a body of a mailbox; above the limit.
constexpr uint64_t kMiddle = 1024;
constexpr uint64_t kLarge = kEagerLimit + 64;
constexpr uint64_t kBroadcast = 64 * 1024;
// Peers of a round of large blocks: buffers for all at once would take more memory than their mailboxes.
constexpr Rank kPeers = 16;
// A pair may have no more: one page of its mailbox and what one rank knows of the other, then a body or two and the
// page for large messages; and a part of what each of 128 ranks has by itself.
constexpr size_t kMostSmall = 10 * 1024;
constexpr size_t kMostOfAll = 18 * 1024;

// 1024 take 15 GiB: a look at that is not for every machine.
Rank ranks() {
  const char* given = std::getenv("NBC_TEST_MANY_RANKS");
  return given == nullptr ? 128 : static_cast<Rank>(std::atoi(given));
}

// Resident memory of this process, with what is shared, in bytes.
size_t resident() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  size_t in_memory = 0;
  file >> pages >> in_memory;
  return in_memory * job::system_page();
}

// What one rank does in an operation: the words that it gives, the schedule, and the words that it must get.
struct Part {
  Words send;
  Schedule schedule;
  Words expected;
};

// Of the word that `from` has for `to`.
uint64_t word(Rank from, Rank to, uint64_t number = 0) { return uint64_t{from} << 40 | uint64_t{to} << 20 | number; }

Words block_of(Rank from, Rank to, uint64_t bytes) {
  Words block(bytes / kWord);
  for (size_t i = 0; i < block.size(); ++i) block[i] = word(from, to, i);
  return block;
}

// --- trees -----------------------------------------------------------------------------------------------------------

// Of the binomial tree with root 0: the lowest bit of a rank leads to its parent.
Rank span(Rank rank, Rank size) { return rank == 0 ? std::bit_ceil(size) : rank & -rank; }

void down(Schedule& schedule, Rank rank, Rank size, uint64_t bytes) {
  if (rank > 0) schedule.round().receive(rank - span(rank, size), Role::receive, 0, bytes);
  schedule.round();
  for (Rank step = span(rank, size) / 2; step > 0; step /= 2) {
    if (rank + step < size) schedule.send(rank + step, Role::receive, 0, bytes);
  }
}

void up(Schedule& schedule, Rank rank, Rank size, uint64_t bytes) {
  schedule.round().copy(Role::send, 0, Role::receive, 0, bytes);
  for (Rank step = 1; step < span(rank, size) && rank + step < size; step *= 2) {
    schedule.round().receive(rank + step, Role::temporary, 0, bytes);
    schedule.round().reduce(Operator::sum, ElementType::uint64, Role::temporary, 0, Role::receive, 0, bytes);
  }
  if (rank > 0) schedule.round().send(rank - span(rank, size), Role::receive, 0, bytes);
}

Words sums(Rank size, uint64_t bytes) {
  Words all(bytes / kWord);
  for (Rank rank = 0; rank < size; ++rank) {
    for (size_t i = 0; i < all.size(); ++i) all[i] += word(rank, 0, i);
  }
  return all;
}

// --- operations ------------------------------------------------------------------------------------------------------

Part barrier(Rank rank, Rank size) {
  Schedule schedule(0, 0);
  for (Rank step = 1; step < size; step *= 2)
    schedule.round()
        .send((rank + step) % size, Role::send, 0, 0)
        .receive((rank + size - step) % size, Role::receive, 0, 0);
  return {{}, schedule, {}};
}

Part broadcast(Rank rank, Rank size, uint64_t bytes) {
  Schedule schedule(bytes, bytes);
  if (rank == 0) schedule.round().copy(Role::send, 0, Role::receive, 0, bytes);
  down(schedule, rank, size, bytes);
  return {block_of(rank, 0, bytes), schedule, block_of(0, 0, bytes)};
}

Part scatter(Rank rank, Rank size) {
  const bool root = rank == 0;
  Schedule schedule(root ? size * kWord : 0, kWord);
  schedule.round();
  if (root) {
    schedule.copy(Role::send, 0, Role::receive, 0, kWord);
    for (Rank peer = 1; peer < size; ++peer) schedule.send(peer, Role::send, peer * kWord, kWord);
  } else {
    schedule.receive(0, Role::receive, 0, kWord);
  }
  Words send;
  for (Rank peer = 0; root && peer < size; ++peer) send.push_back(word(0, peer));
  return {send, schedule, {word(0, rank)}};
}

Part gather(Rank rank, Rank size) {
  const bool root = rank == 0;
  Schedule schedule(kWord, root ? size * kWord : 0);
  schedule.round();
  if (root) {
    schedule.copy(Role::send, 0, Role::receive, 0, kWord);
    for (Rank peer = 1; peer < size; ++peer) schedule.receive(peer, Role::receive, peer * kWord, kWord);
  } else {
    schedule.send(0, Role::send, 0, kWord);
  }
  Words expected;
  for (Rank peer = 0; root && peer < size; ++peer) expected.push_back(word(peer, 0));
  return {{word(rank, 0)}, schedule, expected};
}

Part allgather(Rank rank, Rank size) {
  Words expected;
  for (Rank peer = 0; peer < size; ++peer) expected.push_back(word(peer, 0));
  return {{word(rank, 0)}, ring_allgather(rank, size, kWord), expected};
}

Part reduce(Rank rank, Rank size, uint64_t bytes) {
  Schedule schedule(bytes, bytes, bytes);
  up(schedule, rank, size, bytes);
  return {block_of(rank, 0, bytes), schedule, rank == 0 ? sums(size, bytes) : Words{}};
}

Part allreduce(Rank rank, Rank size, uint64_t bytes) {
  Schedule schedule(bytes, bytes, bytes);
  up(schedule, rank, size, bytes);
  down(schedule, rank, size, bytes);
  return {block_of(rank, 0, bytes), schedule, sums(size, bytes)};
}

// Each adds what it gets from further and further below.
Part scan(Rank rank, Rank size) {
  Schedule schedule(kWord, kWord, kWord);
  schedule.round().copy(Role::send, 0, Role::receive, 0, kWord);
  for (Rank step = 1; step < size; step *= 2) {
    schedule.round();
    if (rank + step < size) schedule.send(rank + step, Role::receive, 0, kWord);
    if (rank < step) continue;
    schedule.receive(rank - step, Role::temporary, 0, kWord);
    schedule.round().reduce(Operator::sum, ElementType::uint64, Role::temporary, 0, Role::receive, 0, kWord);
  }
  return {{word(rank, 0)}, schedule, sums(rank + 1, kWord)};
}

Part neighbours(Rank rank, Rank size) {
  const Rank left = (rank + size - 1) % size;
  const Rank right = (rank + 1) % size;
  Schedule schedule(2 * kWord, 2 * kWord);
  schedule.round()
      .receive(left, Role::receive, 0, kWord)
      .receive(right, Role::receive, kWord, kWord)
      .send(right, Role::send, kWord, kWord)
      .send(left, Role::send, 0, kWord);
  return {{word(rank, left), word(rank, right)}, schedule, {word(left, rank), word(right, rank)}};
}

Part all_to_all(Rank rank, Rank size) {
  Part part{{}, alltoall(rank, size, kWord), {}};
  for (Rank peer = 0; peer < size; ++peer) {
    part.send.push_back(word(rank, peer));
    part.expected.push_back(word(peer, rank));
  }
  return part;
}

// The same block to everybody, a few peers in a round, and the sum of all that come.
Part all_to_all_summed(Rank rank, Rank size, uint64_t block) {
  Schedule schedule(block, block, kPeers * block);
  schedule.round().copy(Role::send, 0, Role::receive, 0, block);
  for (Rank first = 1; first < size; first += kPeers) {
    const Rank count = std::min(kPeers, size - first);
    schedule.round();
    for (Rank i = 0; i < count; ++i)
      schedule.receive((rank + size - first - i) % size, Role::temporary, i * block, block)
          .send((rank + first + i) % size, Role::send, 0, block);
    for (Rank i = 0; i < count; ++i)
      schedule.round().reduce(Operator::sum, ElementType::uint64, Role::temporary, i * block, Role::receive, 0, block);
  }
  return {block_of(rank, 0, block), schedule, sums(size, block)};
}

// --- the test --------------------------------------------------------------------------------------------------------

void run(TestRank& me, const Part& part, uint64_t receive_bytes) {
  const auto plan = me.load(part.schedule);
  const Pinned send = me.plain(part.send.size() * kWord);
  const Pinned receive = me.plain(receive_bytes);
  if (!part.send.empty()) std::memcpy(send.data, part.send.data(), send.bytes);
  me.wait(me.start(plan, send, receive));
  if (!part.expected.empty()) CHECK(std::memcmp(receive.data, part.expected.data(), part.expected.size() * kWord) == 0);
}

TEST(many_ranks_run_every_operation) {
  const Rank count = ranks();
  RankOptions options = mode(false);
  options.eager_limit = kEagerLimit;
  // Of few ranks, what each has by itself hides the rest; sanitizers take memory of their own.
  const bool counts = count >= 128 && !kThreadSanitizer && !kAddressSanitizer;
  size_t before = 0;  // of ranks that have not named each other
  const auto each_pair = [&] { return (std::max(resident(), before) - before) / count / count; };
  // Shared: a process has not as many mappings as pairs.
  const auto segment = make_shared_segment(count);
  const auto make = [&](Rank rank) { return shm_fabric(segment, rank, options); };
  run_ranks_over(count, options, make, [&](TestRank& me, Meeting& meeting) {
    meeting.meet();
    if (me.rank == 0) before = resident();
    meeting.meet();
    const auto then = [&](std::string_view what, const Part& part) {
      const auto begin = std::chrono::steady_clock::now();
      const auto* const header = reinterpret_cast<const uint32_t*>(part.schedule.words.data());
      run(me, part, header[4] | uint64_t{header[5]} << 32);
      meeting.meet();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (me.rank == 0)
        std::printf("  %-22.*s %5.1f s, %6.1f KiB for each pair of %u\n", static_cast<int>(what.size()), what.data(),
                    took.count(), static_cast<double>(each_pair()) / 1024, count);
    };
    const Rank rank = me.rank;
    then("barrier", barrier(rank, count));
    then("bcast", broadcast(rank, count, kWord));
    then("bcast, large", broadcast(rank, count, kBroadcast));
    then("scatter", scatter(rank, count));
    then("gather", gather(rank, count));
    then("allgather", allgather(rank, count));
    then("reduce", reduce(rank, count, kWord));
    then("reduce, large", reduce(rank, count, kBroadcast));
    then("allreduce", allreduce(rank, count, kWord));
    then("allreduce, large", allreduce(rank, count, kBroadcast));
    then("scan", scan(rank, count));
    then("neighbours", neighbours(rank, count));
    for (int i = 0; i < 3; ++i) then("alltoall", all_to_all(rank, count));
    if (rank == 0 && counts) CHECK(each_pair() <= kMostSmall);
    for (int i = 0; i < 3; ++i) then("alltoall, middle", all_to_all_summed(rank, count, kMiddle));
    then("alltoall, large", all_to_all_summed(rank, count, kLarge));
    if (rank == 0 && counts) CHECK(each_pair() <= kMostOfAll);
  });
}

}  // namespace

TEST_MAIN(600)
