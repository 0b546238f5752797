// A random program for ranks, checked byte by byte.
#pragma once
#include <functional>
#include <vector>

#include "test/ranks.h"

namespace nbc::check {

// The same steps on all ranks, from the same seed: collectives and messages overlap. Each rank awaits them in an order
// of its own, with tests in between.
inline void random_mix(TestRank& me, uint64_t seed, uint32_t steps) {
  const Rank size = me.size;
  Random shared(seed);
  Random own(seed * 100 + me.rank);
  struct Running {
    uint32_t request;
    std::function<void()> check;
  };
  std::vector<Running> running;
  const auto end_one = [&] {
    const size_t i = own.below(static_cast<uint32_t>(running.size()));
    if (own.one_in(2)) {
      while (!me.test(running[i].request)) sched_yield();
      me.finish(running[i].request);
    } else {
      me.wait(running[i].request);
    }
    running[i].check();
    running[i] = std::move(running.back());
    running.pop_back();
  };
  for (uint32_t step = 0; step < steps; ++step) {
    const uint32_t kind = shared.below(4);
    const size_t bytes = shared.one_in(8)       ? 50'000 + shared.below(200'000)
                         : shared.below(2) == 0 ? shared.below(256)
                                                : 256 + shared.below(5000);
    const bool in_arena = shared.one_in(3);
    const Rank first = shared.below(size), second = shared.below(size);
    const uint64_t stamp = uint64_t{step} << 20;
    if (kind < 2) {
      const uint32_t tag = shared.below(3);
      // Both ends may be the same rank.
      if (me.rank == second) {
        const Pinned in = me.memory(bytes, in_arena);
        running.push_back({me.irecv(in, first, tag), [in, stamp] { check_data(in, stamp); }});
      }
      if (me.rank == first) running.push_back({me.isend(me.filled(bytes, own.one_in(3), stamp), second, tag), [] {}});
    } else if (kind == 2) {
      const Pinned out = me.memory(bytes * size, in_arena);
      for (Rank to = 0; to < size; ++to) fill(out.data + to * bytes, bytes, stamp + me.rank * 16 + to);
      const Pinned in = me.memory(bytes * size, own.one_in(2));
      running.push_back(
          {me.start(me.load(alltoall(me.rank, size, bytes)), out, in), [in, stamp, bytes, size, rank = me.rank] {
             for (Rank from = 0; from < size; ++from)
               CHECK_EQ(first_difference(in.data + from * bytes, bytes, stamp + from * 16 + rank), bytes);
           }});
    } else {
      const Pinned all = me.memory(bytes * size, in_arena);
      running.push_back({me.start(me.load(ring_allgather(me.rank, size, bytes)),
                                  me.filled(bytes, own.one_in(2), stamp + me.rank), all),
                         [all, stamp, bytes, size] {
                           for (Rank from = 0; from < size; ++from)
                             CHECK_EQ(first_difference(all.data + from * bytes, bytes, stamp + from), bytes);
                         }});
    }
    if (own.one_in(3)) me.engine->test();
    while (running.size() > 12) end_one();
  }
  while (!running.empty()) end_one();
  CHECK(me.arena->used() < (32u << 20));
}

}  // namespace nbc::check
