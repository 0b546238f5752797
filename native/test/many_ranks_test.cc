// Many ranks in one process, each with an engine of its own: every rank sends to every other. What JavaScript adds is
// test/many-ranks.test.ts.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "test/ranks.h"

namespace {

using namespace nbc;
using namespace nbc::check;

constexpr uint64_t kBlock = 8;

// 1024 take 10 GiB: a look at that is not for every machine.
Rank ranks() {
  const char* given = std::getenv("NBC_TEST_MANY_RANKS");
  return given == nullptr ? 128 : static_cast<Rank>(std::atoi(given));
}

// Resident memory of this process, with what is shared, in MiB.
size_t resident() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  size_t in_memory = 0;
  file >> pages >> in_memory;
  return in_memory * job::system_page() >> 20;
}

TEST(many_ranks_send_to_one_another) {
  const Rank count = ranks();
  const size_t before = resident();
  run_ranks(count, mode(false), [&](TestRank& me, Meeting& meeting) {
    const auto plan = me.load(alltoall(me.rank, count, kBlock));
    const Pinned send = me.plain(kBlock * count);
    const Pinned receive = me.plain(kBlock * count);
    auto* const out = reinterpret_cast<uint64_t*>(send.data);
    const auto* const in = reinterpret_cast<const uint64_t*>(receive.data);
    for (Rank peer = 0; peer < count; ++peer) out[peer] = uint64_t{me.rank} << 32 | peer;
    me.wait(me.start(plan, send, receive));
    for (Rank peer = 0; peer < count; ++peer) CHECK_EQ(in[peer], uint64_t{peer} << 32 | me.rank);
    meeting.meet();
    if (me.rank == 0) std::printf("  %u ranks: %zu MiB\n", count, resident() - before);
  });
}

}  // namespace

TEST_MAIN(120)
