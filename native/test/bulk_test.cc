// Large transfers below the engine: two Bulks over one shared mapping.
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

#include "fabric/shm/bulk.h"
#include "fabric/shm/shm_fabric.h"
#include "test/bulk_side.h"
#include "test/check.h"
#include "test/cross_memory.h"
#include "test/random.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using namespace nbc::shm;

// Announcements are numbered with 32 bits; a day's job passes 2^32 of them.
TEST(announcements_wrap) {
  need_cross_memory();
  for (const uint32_t first : {0u, static_cast<uint32_t>(-24), (1u << 31) - 24}) {
    const auto segment = two_ranks();
    Side a(segment, 0), b(segment, 1);
    for (Side* side : {&a, &b}) {
      Link& link = side->bulk.open(side->peer, true);
      link.announced = link.received = first;
    }
    b.bulk.expect(0, true);
    std::vector<std::byte> from(4000), to(4000);
    for (uint32_t i = 0; i < 48; ++i) {
      b.poll(Effort::helping);
      CHECK(b.arrived.empty());  // nothing arrives before it was sent
      fill(from.data(), from.size(), i);
      a.put(from.data(), to.data(), from.size(), 100 + i);
      while (a.sent < i + 1) a.poll(Effort::pass);
      b.poll(Effort::pass);
      CHECK_EQ(b.arrived.size(), 1u);
      CHECK_EQ(b.arrived.front().immediate, 100 + i);
      CHECK_EQ(b.arrived.front().bytes, from.size());
      CHECK(b.arrived.front().error == Error::none);
      b.arrived.pop_front();
      CHECK_EQ(first_difference(to.data(), to.size(), i), to.size());
    }
  }
}

TEST(puts_wait_for_slots_and_keep_their_order) {
  need_cross_memory();
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
  constexpr uint32_t kCount = 3 * kBulkSlots + 5;
  std::vector<std::byte> from(100), to(100 * kCount);
  fill(from.data(), from.size(), 1);
  for (uint32_t i = 0; i < kCount; ++i) a.put(from.data(), to.data() + 100 * i, 100, i);
  for (int i = 0; i < 20; ++i) a.poll(Effort::pass);
  CHECK_EQ(a.sent, kBulkSlots);
  CHECK_EQ(a.bulk.work(1), 0u);  // nothing that it could do alone: it may sleep, and will be rung
  b.poll(Effort::pass);
  CHECK(b.arrived.empty());  // it expects nothing
  b.bulk.expect(0, true);
  while (b.arrived.size() < kCount) {
    b.poll(Effort::pass);
    a.poll(Effort::pass);
  }
  CHECK(b.rings > 0);
  for (uint32_t i = 0; i < kCount; ++i) {
    CHECK_EQ(b.arrived[i].immediate, i);
    CHECK_EQ(first_difference(to.data() + 100 * i, 100, 1), 100u);
  }
  CHECK_EQ(a.sent, kCount);
}

// The sender takes one piece, the receiver the next: the one that finishes the last piece rings.
TEST(pieces_are_shared) {
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
  b.bulk.expect(0, true);
  constexpr size_t kBytes = 1 << 20;
  auto* from = static_cast<std::byte*>(a.arena->allocate(kBytes));
  auto* to = static_cast<std::byte*>(b.arena->allocate(kBytes));
  fill(from, kBytes, 9);
  a.put(from, to, kBytes, 7, b.arena.get());
  a.poll(Effort::look);  // announced, nothing copied
  CHECK_EQ(a.bulk.counters().mapped_bytes, 0u);
  CHECK(a.bulk.work(UINT64_MAX) >= kBytes);
  CHECK(a.bulk.work(1) > 0);
  b.poll(Effort::pass);  // may help, but has other things to do
  CHECK_EQ(b.bulk.counters().helped_pieces, 0u);
  while (b.arrived.empty()) {
    a.poll(Effort::pass);
    b.poll(Effort::helping);
  }
  while (a.sent == 0) a.poll(Effort::pass);
  CHECK(b.bulk.counters().helped_pieces > 0);
  CHECK(a.bulk.counters().mapped_bytes > 0);
  CHECK_EQ(a.bulk.counters().mapped_bytes + b.bulk.counters().mapped_bytes, kBytes);
  CHECK_EQ(a.rings + b.rings, 1u);
  CHECK_EQ(first_difference(to, kBytes, 9), kBytes);
  a.arena->release(from);
  b.arena->release(to);
}

// Two threads copy pieces of the same transfers. The buffers are plain, in one process, so every byte is checked on
// arrival.
TEST(sender_and_receiver_race_for_pieces) {
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
  b.bulk.expect(0, true);
  constexpr size_t kBytes = 300'000;
  constexpr uint32_t kBuffers = 4;
  const uint32_t count = repetitions(600, 100);
  std::byte* from[kBuffers];
  for (auto& buffer : from) buffer = static_cast<std::byte*>(a.arena->allocate(kBytes));
  std::vector<std::byte> to(kBytes * kBuffers);
  std::atomic<uint32_t> taken{0};
  std::thread sender([&] {
    uint32_t put = 0;
    while (a.sent < count) {
      if (put < count && put - taken.load(std::memory_order_acquire) < kBuffers) {
        fill(from[put % kBuffers], kBytes, put);
        a.put(from[put % kBuffers], to.data() + put % kBuffers * kBytes, kBytes, put);
        ++put;
      }
      a.poll(Effort::pass);
    }
  });
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < count; ++i) {
    while (b.arrived.empty()) b.poll(Effort::helping);
    wrong +=
        b.arrived.front().immediate != i || first_difference(to.data() + i % kBuffers * kBytes, kBytes, i) != kBytes;
    b.arrived.pop_front();
    taken.fetch_add(1, std::memory_order_release);
  }
  sender.join();
  CHECK_EQ(wrong, 0u);
}

// A large put goes in portions where its receiver copies. It is retracted when no slot is free for the one that says
// so, and what it has announced is taken: it ends when that slot is, and not before.
TEST(a_put_that_is_retracted_between_its_portions_ends_once) {
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  a.bulk.open(1, false);
  b.bulk.open(0, true);
  b.bulk.expect(0, true);
  std::vector<std::byte> small(8), received(8), large(5 * kStagingBytes), to(5 * kStagingBytes);
  for (uint32_t i = 0; i + 2 < kBulkSlots; ++i) a.put(small.data(), received.data(), 8, i);
  a.poll(Effort::helping);
  a.put(large.data(), to.data(), large.size(), 100);
  a.poll(Effort::helping);
  CHECK_EQ(a.bulk.link(1).announced, kBulkSlots);
  a.bulk.retract(1, &a, Error::abandoned, 77, [](Rank) {});
  for (int i = 0; i < 100; ++i) {
    b.poll(Effort::helping);
    a.poll(Effort::helping);
  }
  CHECK_EQ(a.sent, kBulkSlots - 1);
  CHECK(a.last_error == Error::abandoned);
  CHECK_EQ(a.last_told, 77u);
  CHECK_EQ(b.arrived.size(), size_t{kBulkSlots} - 1);
  CHECK_EQ(b.arrived.back().immediate, 100u);
  CHECK(b.arrived.back().error == Error::abandoned);
}

// The receiver takes memory back while the sender is in the middle of a piece: it waits for that piece and stops the
// rest.
TEST(what_is_revoked_amid_its_pieces_is_not_written_any_more) {
  constexpr size_t kBytes = 1 << 20;
  for (const bool in_arena : {false, true}) {
    const auto segment = two_ranks();
    Side a(segment, 0), b(segment, 1);
    for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
    b.bulk.expect(0, true);
    std::vector<std::byte> from(kBytes), plain(kBytes);
    fill(from.data(), kBytes, 9);
    std::byte* to = in_arena ? static_cast<std::byte*>(b.arena->allocate(kBytes)) : plain.data();
    const ExposedBuffer exposed = in_arena ? ExposedBuffer{b.arena->offset_of(to), kInArena, nullptr}
                                           : ExposedBuffer{reinterpret_cast<uintptr_t>(to), 0, nullptr};
    a.put(from.data(), to, kBytes, 7, in_arena ? b.arena.get() : nullptr);
    a.poll(Effort::pass);
    BulkSlot& slot = b.bulk.link(0).in[0];
    const uint32_t copied = slot.done.load();
    CHECK(copied < pieces_of(slot));
    CHECK_EQ(slot.next.fetch_add(1), copied);  // the sender begins the next one
    const auto revoke = [&] { return b.bulk.revoke(0, exposed, kBytes, Error::abandoned, 77, [](Rank) {}); };
    CHECK(!revoke());
    CHECK(!revoke());
    slot.done.fetch_add(1);  // and ends it
    CHECK(revoke());
    fill(to, kBytes, 3);
    for (int i = 0; i < 100 && (a.sent == 0 || b.arrived.empty()); ++i) {
      a.poll(Effort::helping);
      b.poll(Effort::helping);
    }
    CHECK_EQ(a.sent, 1u);
    CHECK(a.last_error == Error::abandoned);
    CHECK_EQ(a.last_told, 77u);
    CHECK_EQ(b.arrived.size(), 1u);
    CHECK(b.arrived.front().error == Error::abandoned);
    CHECK_EQ(first_difference(to, kBytes, 3), kBytes);
    // A put for an RTR from before: the sender does not write, and the receiver drops the data.
    a.put(from.data(), to, kBytes, 8, in_arena ? b.arena.get() : nullptr);
    for (int i = 0; i < 1000 && (a.sent < 2 || b.arrived.size() < 2); ++i) {
      a.poll(Effort::pass);
      b.poll(Effort::pass);
    }
    CHECK_EQ(b.arrived.size(), 2u);
    CHECK(b.arrived.back().error == Error::abandoned);
    CHECK_EQ(first_difference(to, kBytes, 3), kBytes);
    // The memory can be exposed again, under the key of now: its owner may use it before the RTR is answered for which
    // it was taken back, and afterwards.
    for (const bool concealed : {false, true}) {
      if (concealed) b.bulk.conceal(0, exposed);
      fill(to, kBytes, 3);
      Put again{};
      again.peer = 1;
      again.to = {exposed.address, key_of(b.bulk.revocations(0), in_arena), nullptr};
      again.from = from.data();
      again.bytes = again.told = kBytes;
      again.error = Error::none;
      again.cookie = &a;
      a.bulk.put(again);
      const uint32_t puts = concealed ? 4 : 3;
      while (a.sent < puts || b.arrived.size() < puts) {
        a.poll(Effort::helping);
        b.poll(Effort::helping);
      }
      CHECK(b.arrived.back().error == Error::none);
      CHECK_EQ(first_difference(to, kBytes, 9), kBytes);
    }
  }
}

// Sixteen puts are in flight: a poll copies some of them, and says that there is work left.
TEST(a_poll_copies_a_bounded_number_of_bytes) {
  constexpr size_t kLongest = std::max(kShareFrom, kStagingBytes);  // what is copied at once
  const auto copied = [](const Side& side) {
    const BulkCounters& counters = side.bulk.counters();
    return counters.mapped_bytes + counters.cross_memory_bytes + counters.staged_bytes;
  };
  for (const bool attaches : {true, false}) {
    for (const size_t bytes : {size_t{90'000}, size_t{4} << 20}) {
      const auto segment = two_ranks();
      Side a(segment, 0), b(segment, 1);
      for (Side* side : {&a, &b}) side->bulk.open(side->peer, attaches);
      b.bulk.expect(0, true);
      std::vector<std::vector<std::byte>> from, to;
      for (uint32_t i = 0; i < kBulkSlots; ++i) {
        from.emplace_back(bytes);
        to.emplace_back(bytes);
        fill(from[i].data(), bytes, i);
        a.put(from[i].data(), to[i].data(), bytes, i);
      }
      uint64_t before = 0;
      a.poll(Effort::look);
      CHECK(copied(a) <= room_of(Effort::look) + kLongest);
      CHECK(a.bulk.work(1) > 0);
      before = copied(a);
      a.poll(Effort::pass);
      CHECK(copied(a) > before);
      CHECK(copied(a) - before <= room_of(Effort::pass) + kLongest);
      while (b.arrived.size() < kBulkSlots) {
        before = copied(a) + copied(b);
        b.poll(Effort::pass);
        CHECK(copied(a) + copied(b) - before <= room_of(Effort::pass) + kLongest);
        before = copied(a) + copied(b);
        a.poll(Effort::pass);
        CHECK(copied(a) + copied(b) - before <= room_of(Effort::pass) + kLongest);
      }
      for (uint32_t i = 0; i < kBulkSlots; ++i) CHECK_EQ(first_difference(to[i].data(), bytes, i), bytes);
    }
  }
}

TEST(abandoned_peers_end_puts_that_need_them) {
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  a.bulk.open(1, false);  // so the receiver must copy
  std::vector<std::byte> from(1 << 20), to(1 << 20);
  a.put(from.data(), to.data(), from.size(), 1);
  a.put(from.data(), to.data(), from.size(), 2);
  for (int i = 0; i < 5; ++i) a.poll(Effort::pass);
  CHECK_EQ(a.sent, 0u);
  a.bulk.abandon(1);
  for (int i = 0; i < 5; ++i) a.poll(Effort::pass);
  CHECK_EQ(a.sent, 2u);
  CHECK(a.last_error == Error::peer_closed);
  CHECK_EQ(a.bulk.work(1), 0u);
}

// --- short puts to private memory ------------------------------------------------------------------------------------

// Done before the receiver has looked, and told once; the buffer may change then.
TEST(short_puts_are_done_before_they_are_copied) {
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
  b.bulk.expect(0, true);
  for (const size_t bytes : {size_t{1}, size_t{5000}, kBufferedTo}) {
    std::vector<std::byte> from(bytes), to(bytes);
    fill(from.data(), bytes, 1);
    const uint32_t sent = a.sent;
    a.put(from.data(), to.data(), bytes, 7);
    for (int i = 0; i < 3; ++i) a.poll(Effort::pass);
    CHECK_EQ(a.sent, sent + 1);
    CHECK(a.last_error == Error::none);
    CHECK_EQ(a.last_told, bytes);
    CHECK(a.bulk.is_read());
    CHECK_EQ(a.bulk.work(1), 0u);  // it may sleep
    fill(from.data(), bytes, 2);
    a.bulk.retract(1, &a, Error::abandoned, 0, [](Rank) {});  // too late, as for a put whose completion is on its way
    b.poll(Effort::look);
    CHECK(b.arrived.empty());
    CHECK(b.bulk.work(1) > 0);
    b.poll(Effort::pass);
    CHECK_EQ(b.arrived.size(), 1u);
    CHECK(b.arrived.front().error == Error::none);
    CHECK_EQ(b.arrived.front().bytes, bytes);
    CHECK_EQ(first_difference(to.data(), bytes, 1), bytes);
    CHECK_EQ(b.rings, 0u);  // nobody waits for that
    b.arrived.clear();
    CHECK(!a.bulk.is_read());
    a.poll(Effort::pass);
    CHECK_EQ(a.sent, sent + 1);
  }
  CHECK_EQ(a.bulk.counters().cross_memory_bytes + b.bulk.counters().cross_memory_bytes, 0u);
  CHECK_EQ(a.arena->used(), kStagingBytes);  // the same buffer each time
}

// They take an eighth of the exposed memory at most. What finds no buffer goes as long puts do.
TEST(short_puts_without_a_buffer_go_directly) {
  need_cross_memory();
  for (const bool full : {false, true}) {
    const auto segment = two_ranks();
    Side a(segment, 0), b(segment, 1);
    for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
    b.bulk.expect(0, true);
    if (full) CHECK(a.arena->allocate(segment->arena_bytes()) != nullptr);
    constexpr size_t kBytes = 10'000;
    std::vector<std::byte> from(kBytes), to(kBytes);
    fill(from.data(), kBytes, 1);
    const size_t most = full ? 0 : segment->arena_bytes() / kShareOfBuffers / kStagingBytes;
    for (uint32_t i = 0; i < kBulkSlots + 4; ++i) a.put(from.data(), to.data(), kBytes, i);
    for (int i = 0; i < 200; ++i) a.poll(Effort::pass);
    CHECK_EQ(a.sent, kBulkSlots);
    const size_t buffered = std::min<size_t>(most, kBulkSlots);
    CHECK_EQ(a.bulk.counters().staged_bytes, buffered * kBytes);
    CHECK_EQ(a.bulk.counters().cross_memory_bytes, (kBulkSlots - buffered) * kBytes);
    for (int i = 0; i < 200; ++i) {
      b.poll(Effort::pass);
      a.poll(Effort::pass);
    }
    CHECK_EQ(b.arrived.size(), kBulkSlots + 4);
    for (uint32_t i = 0; i < b.arrived.size(); ++i) CHECK_EQ(b.arrived[i].immediate, i);
    CHECK_EQ(a.sent, kBulkSlots + 4);
    CHECK_EQ(a.bulk.work(1), 0u);
    CHECK_EQ(first_difference(to.data(), kBytes, 1), kBytes);
  }
}

// A receiver that is given up may copy from a staging buffer that is in use again: its receive fails then.
TEST(short_puts_to_abandoned_peers_give_their_buffers_back) {
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
  b.bulk.expect(0, true);
  std::vector<std::byte> from(5000), to(5000);
  a.put(from.data(), to.data(), from.size(), 1);
  a.poll(Effort::pass);
  CHECK_EQ(a.sent, 1u);
  a.bulk.abandon(1);
  CHECK(!a.bulk.is_read());
  b.begin_to_copy();
  for (int i = 0; i < 3; ++i) a.poll(Effort::pass);
  CHECK_EQ(a.sent, 1u);
  CHECK(a.last_error == Error::none);
  b.end_the_copy();
  b.poll(Effort::pass);
  CHECK_EQ(b.arrived.size(), 1u);
  CHECK(b.arrived.front().error == Error::peer_closed);
}

// Nothing to stage in, because the program took all exposed memory: an error on both sides, and no waiting for what
// cannot come.
TEST(no_memory_for_staging_is_an_error) {
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  a.bulk.open(1, false);
  b.bulk.open(0, true);
  b.bulk.expect(0, true);
  void* all = a.arena->allocate(segment->arena_bytes());
  CHECK(all != nullptr);
  std::vector<std::byte> from(1 << 20), to(1 << 20);
  a.put(from.data(), to.data(), from.size(), 1);
  for (int i = 0; i < 5; ++i) a.poll(Effort::pass);
  CHECK_EQ(a.sent, 1u);
  CHECK(a.last_error == Error::system);
  CHECK_EQ(a.bulk.work(1), 0u);
  b.poll(Effort::pass);
  CHECK_EQ(b.arrived.size(), 1u);
  CHECK(b.arrived.front().error == Error::system);
  for (const char* part : {"131072 bytes", "option exposedBytes", "process_vm_readv"})
    CHECK(a.bulk.why_not_moved(1).find(part) != std::string::npos);
  CHECK(b.bulk.why_not_moved(0).empty());
  // One buffer is enough for everything: who finds it in use waits for it.
  a.arena->release(all);
  a.arena->allocate(segment->arena_bytes() - kStagingBytes);
  fill(from.data(), from.size(), 5);
  for (uint32_t i = 0; i < 2; ++i) a.put(from.data(), to.data(), from.size(), 2 + i);
  for (int i = 0; i < 200; ++i) {
    a.poll(Effort::pass);
    b.poll(Effort::pass);
  }
  CHECK_EQ(a.sent, 3u);
  CHECK(a.last_error == Error::none);
  CHECK_EQ(b.arrived.size(), 3u);
  CHECK_EQ(first_difference(to.data(), to.size(), 5), to.size());
}

// Memory of the peer that is not there: an error on both sides, not a crash. What is buffered the peer copies itself.
TEST(addresses_that_do_not_exist_are_an_error) {
  need_cross_memory();
  const auto segment = two_ranks();
  Side a(segment, 0), b(segment, 1);
  for (Side* side : {&a, &b}) side->bulk.open(side->peer, true);
  b.bulk.expect(0, true);
  std::vector<std::byte> from(1 << 20);
  for (const size_t bytes : {kBufferedTo + 1, size_t{1} << 20}) {
    a.put(from.data(), reinterpret_cast<std::byte*>(uintptr_t{4096}), bytes, 3);
    const uint32_t before = a.sent;
    while (a.sent == before) a.poll(Effort::pass);
    CHECK(a.last_error == Error::system);
    CHECK(a.bulk.why_not_moved(1).starts_with("process_vm_writev of "));
    CHECK(a.bulk.why_not_moved(1).ends_with(" bytes: Bad address"));
    while (b.arrived.empty()) b.poll(Effort::pass);
    CHECK(b.arrived.front().error == Error::system);
    b.arrived.pop_front();
  }
}

}  // namespace

TEST_MAIN(60)
