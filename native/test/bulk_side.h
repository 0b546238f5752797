// Two Bulks over one shared mapping, in one process.
#pragma once
#include <deque>
#include <memory>
#include <unistd.h>

#include "engine/reduce.h"
#include "fabric/shm/bulk.h"
#include "test/check.h"

namespace nbc::shm {

// A rank as far as Bulk needs it.
struct Side {
  Side(std::shared_ptr<Segment> segment, Rank rank)
      : probe(std::make_unique<uint64_t>(0x1234567890abcdefu + rank)),
        arena(std::make_shared<Arena>(segment, rank)),
        bulk(segment, arena, rank, numbered_kernel),
        peer(1 - rank) {
    RankLine& line = segment->line(rank);
    line.pid = getpid();
    line.attaches = 1;
    line.probe_address = reinterpret_cast<uintptr_t>(probe.get());
    line.probe_value = *probe;
  }
  void put(const std::byte* from, std::byte* to, size_t bytes, uint32_t immediate, const Arena* in = nullptr) {
    Put put{};
    put.peer = peer;
    put.to = in != nullptr ? ExposedBuffer{in->offset_of(to), 1} : ExposedBuffer{reinterpret_cast<uintptr_t>(to), 0};
    put.from = from;
    put.bytes = bytes;
    put.immediate = immediate;
    put.error = Error::none;
    put.cookie = this;
    bulk.put(put);
  }
  // Polls once; keeps what was completed.
  void poll(Effort effort) {
    Completion out[16];
    const unsigned count = bulk.poll(out, 16, effort, [this](Rank) { ++rings; });
    for (unsigned i = 0; i < count; ++i) {
      if (out[i].kind == Completion::Kind::immediate) {
        arrived.push_back(out[i]);
      } else {
        CHECK(out[i].cookie == this);
        ++sent;
        last_error = out[i].error;
        last_told = out[i].bytes;
      }
    }
  }

  // The receiver of a slot of one piece, caught between claiming it and reporting it.
  void begin_to_copy() { CHECK_EQ(bulk.link(peer).in[0].next.fetch_add(1), 0u); }
  void end_the_copy() { bulk.link(peer).in[0].done.fetch_add(1); }

  std::unique_ptr<uint64_t> probe;
  std::shared_ptr<Arena> arena;
  Bulk bulk;
  Rank peer;
  uint32_t rings = 0;
  uint32_t sent = 0;
  Error last_error = Error::none;
  uint64_t last_told = 0;
  std::deque<Completion> arrived;
};

inline std::shared_ptr<Segment> two_ranks() {
  const int fd = Segment::create(2, size_t{16} << 20);
  auto segment = Segment::map(fd);
  close(fd);
  return segment;
}

}  // namespace nbc::shm
