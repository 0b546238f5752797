// Large messages of reductions that both ends combine: Recipe in fabric/shm/bulk.h.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/encoding.h"
#include "engine/reduce.h"
#include "test/bulk_side.h"
#include "test/check.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using namespace nbc::shm;

constexpr size_t kWords = 128 * 1024;
constexpr size_t kBytes = kWords * sizeof(uint64_t);
constexpr uint32_t kSum = reduce_number(Operator::sum, ElementType::uint64);

uint64_t value(uint64_t seed, size_t i) { return (seed + 1) * 0x9e3779b97f4a7c15u + i; }

void fill_words(std::byte* at, uint64_t seed) {
  for (size_t i = 0; i < kWords; ++i) reinterpret_cast<uint64_t*>(at)[i] = value(seed, i);
}

// The first word that is not the sum of these two, or kWords.
size_t first_not_sum(const std::byte* at, uint64_t seed, uint64_t other) {
  size_t i = 0;
  while (i < kWords && reinterpret_cast<const uint64_t*>(at)[i] == value(seed, i) + value(other, i)) ++i;
  return i;
}

// Rank 0 sends, rank 1 combines. `here`: they are threads of one process, and buffers are plain.
struct Pair {
  explicit Pair(bool here = false)
      : segment(here ? of_threads() : two_ranks()), a(segment, 0), b(segment, 1), here(here) {
    a.bulk.open(1, true);
    b.bulk.open(0, true);
    b.bulk.expect(0, true);
  }
  ~Pair() {
    for (int i = 0; i < 2; ++i) segment->leave();
  }
  static std::shared_ptr<Segment> of_threads() {
    const int fd = Segment::create(2, size_t{16} << 20);
    auto segment = Segment::share(fd);
    close(fd);
    for (const Rank rank : {0u, 1u}) segment->enter(rank);
    return segment;
  }

  std::byte* memory(Side& of) {
    if (!here) return static_cast<std::byte*>(of.arena->allocate(kBytes));
    plain.emplace_back(kBytes);
    return plain.back().data();
  }
  std::byte* filled(Side& of, uint64_t seed) {
    std::byte* const at = memory(of);
    fill_words(at, seed);
    return at;
  }
  // As ShmFabric::expose_combining() does for rank 1.
  ExposedBuffer expose(std::byte* target, const std::byte* other, std::byte* buffer = nullptr) {
    if (buffer == nullptr) buffer = target;
    const bool in_arena = b.arena->contains(buffer);
    ExposedBuffer exposed;
    exposed.address = in_arena ? b.arena->offset_of(buffer) : reinterpret_cast<uintptr_t>(buffer);
    exposed.key = key_of(b.bulk.revocations(0), in_arena);
    b.bulk.take(0, exposed, kBytes, {reduce_kernel(Operator::sum, ElementType::uint64), target, other, false, kSum});
    return exposed;
  }
  void put(const std::byte* from, const ExposedBuffer& to, uint32_t immediate = 0) {
    Put put{};
    put.peer = 1;
    put.to = to;
    put.from = from;
    put.bytes = put.told = kBytes;
    put.immediate = immediate;
    put.cookie = &a;
    a.bulk.put(put);
  }
  void finish(Effort of_receiver = Effort::helping) {
    while (b.arrived.empty() || a.sent == 0) {
      a.poll(Effort::pass);
      b.poll(of_receiver);
    }
    CHECK(b.arrived.front().error == Error::none);
    b.arrived.pop_front();
    --a.sent;
  }
  const BulkSlot& slot() { return b.bulk.link(0).in[0]; }
  uint64_t by_sender() const { return a.bulk.counters().combined_bytes; }
  uint64_t by_receiver() const { return b.bulk.counters().combined_bytes; }

  std::shared_ptr<Segment> segment;
  Side a, b;
  bool here;
  std::deque<std::vector<std::byte>> plain;
};

TEST(both_ends_combine_pieces) {
  for (const bool here : {false, true}) {
    Pair pair(here);
    std::byte* const from = pair.filled(pair.a, 1);
    std::byte* const target = pair.memory(pair.b);
    std::byte* const other = pair.filled(pair.b, 2);
    const ExposedBuffer exposed = pair.expose(target, other);
    pair.put(from, exposed);
    pair.finish();
    CHECK_EQ(first_not_sum(target, 1, 2), kWords);
    CHECK(pair.by_sender() > 0);
    CHECK(pair.by_receiver() > 0);
    CHECK_EQ(pair.by_sender() + pair.by_receiver(), kBytes);
    pair.b.bulk.conceal(0, exposed);
  }
}

// In place: what was combined already must not be combined again.
TEST(both_ends_combine_into_an_operand_while_they_race) {
  Pair pair;
  std::byte* const from = pair.filled(pair.a, 1);
  std::byte* const target = pair.memory(pair.b);
  std::byte* const scratch = pair.memory(pair.b);
  const uint32_t count = repetitions(300, 60);
  std::atomic<uint32_t> allowed{0};
  std::atomic<uint32_t> finished{0};
  ExposedBuffer exposed;
  std::thread sender([&] {
    for (uint32_t i = 0; i < count; ++i) {
      while (allowed.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      pair.put(from, exposed, i);
      while (pair.a.sent <= i) pair.a.poll(Effort::pass);
      finished.store(i + 1, std::memory_order_release);
    }
  });
  size_t wrong = 0;
  for (uint32_t i = 0; i < count; ++i) {
    fill_words(target, i);
    exposed = pair.expose(target, target, scratch);
    allowed.store(i + 1, std::memory_order_release);
    while (pair.b.arrived.empty()) pair.b.poll(Effort::helping);
    pair.b.arrived.pop_front();
    wrong += first_not_sum(target, 1, i) != kWords;
    pair.b.bulk.conceal(0, exposed);
    while (finished.load(std::memory_order_acquire) <= i) std::this_thread::yield();
  }
  sender.join();
  CHECK_EQ(wrong, 0u);
  CHECK(pair.by_sender() > 0);
}

// A receiver that computes does nothing for it.
TEST(the_sender_alone_combines_if_the_receiver_computes) {
  Pair pair;
  std::byte* const from = pair.filled(pair.a, 1);
  std::byte* const target = pair.filled(pair.b, 2);
  pair.put(from, pair.expose(target, target));
  pair.finish(Effort::look);
  CHECK_EQ(first_not_sum(target, 1, 2), kWords);
  CHECK_EQ(pair.by_sender(), kBytes);
}

// Ranks that send to each other, messages beyond the recipes, and buffers that one of them cannot reach.
TEST(the_receiver_alone_combines_where_both_cannot_or_need_not) {
  Pair pair;
  std::byte* const from = pair.filled(pair.a, 1);
  ExposedBuffer exposed[kRecipes + 1];
  std::byte* targets[kRecipes + 1];
  for (uint32_t i = 0; i <= kRecipes; ++i) {
    targets[i] = pair.memory(pair.b);
    fill_words(targets[i], 2 + i);
    exposed[i] = pair.expose(targets[i], targets[i]);
    CHECK_EQ(recipe_of(exposed[i].key), i < kRecipes ? i + 1 : 0);
  }
  for (uint32_t i = 0; i <= kRecipes; ++i) {
    pair.put(from, exposed[i]);
    pair.finish(i < kRecipes ? Effort::look : Effort::helping);
    CHECK_EQ(first_not_sum(targets[i], 1, 2 + i), kWords);
    CHECK_EQ(pair.by_sender(), std::min(i + 1, kRecipes) * kBytes);
  }
  for (const ExposedBuffer& one : exposed) pair.b.bulk.conceal(0, one);
  // What is concealed gives its recipe back.
  fill_words(targets[0], 2);
  exposed[0] = pair.expose(targets[0], targets[0]);
  CHECK_EQ(recipe_of(exposed[0].key), 1u);
  // A sender that is sent to, too.
  const uint64_t before = pair.by_sender();
  pair.a.bulk.expect(1, true);
  pair.put(from, exposed[0]);
  pair.finish();
  CHECK_EQ(pair.by_sender(), before);
  CHECK_EQ(first_not_sum(targets[0], 1, 2), kWords);
  pair.a.bulk.expect(1, false);
  pair.b.bulk.conceal(0, exposed[0]);
  // The result, or what is sent, in private memory.
  std::vector<std::byte> plain(kBytes);
  fill_words(plain.data(), 3);
  const ExposedBuffer in_private = pair.expose(plain.data(), plain.data());
  CHECK_EQ(recipe_of(in_private.key), 0u);
  pair.b.bulk.conceal(0, in_private);
  fill_words(targets[0], 2);
  pair.put(plain.data(), pair.expose(targets[0], targets[0]));
  pair.finish();
  CHECK_EQ(pair.by_sender(), before);
  CHECK_EQ(first_not_sum(targets[0], 3, 2), kWords);
}

TEST(a_recipe_that_ranks_do_not_write_is_not_followed) {
  constexpr uint32_t kPairs = reduce_number(Operator::minloc, ElementType::float64);
  CHECK(numbered_kernel(kPairs, 32) != nullptr);
  CHECK(numbered_kernel(kPairs, 24) == nullptr);  // one and a half
  for (int wrong = 0; wrong < 4; ++wrong) {
    Pair pair;
    std::byte* const from = pair.filled(pair.a, 1);
    std::byte* const target = pair.filled(pair.b, 2);
    ExposedBuffer exposed = pair.expose(target, target);
    Recipe& recipe = pair.b.bulk.link(0).gate_in->recipes[0];
    if (wrong == 0) recipe.kernel = 12345;
    if (wrong == 1) recipe.target = pair.segment->arena_bytes() - kBytes + 8;
    if (wrong == 2) recipe.other = UINT64_MAX - 8;
    if (wrong == 3) exposed.key |= 3u << kRecipeShift;
    pair.put(from, exposed);
    pair.a.poll(Effort::helping);
    CHECK_EQ(pair.by_sender(), 0u);
    CHECK((pair.slot().flags & kReceiverCopies) != 0);
    if (wrong == 3) continue;  // the receiver does not know that key
    pair.finish();
    CHECK_EQ(first_not_sum(target, 1, 2), kWords);
  }
}

// As what is copied: see bulk_test.
TEST(what_is_revoked_amid_its_pieces_is_not_combined_any_more) {
  Pair pair;
  std::byte* const from = pair.filled(pair.a, 1);
  std::byte* const target = pair.filled(pair.b, 2);
  std::byte* const scratch = pair.memory(pair.b);
  const ExposedBuffer exposed = pair.expose(target, target, scratch);
  pair.put(from, exposed);
  pair.a.poll(Effort::pass);
  BulkSlot& slot = pair.b.bulk.link(0).in[0];
  const uint32_t done = slot.done.load();
  CHECK(done > 0);
  CHECK(done < pieces_of(slot));
  CHECK_EQ(slot.next.fetch_add(1), done);  // the sender begins the next one
  const auto revoke = [&] { return pair.b.bulk.revoke(0, exposed, kBytes, Error::abandoned, 77, [](Rank) {}); };
  CHECK(!revoke());
  slot.done.fetch_add(1);  // and ends it
  CHECK(revoke());
  fill_words(target, 3);
  for (int i = 0; i < 100 && (pair.a.sent == 0 || pair.b.arrived.empty()); ++i) {
    pair.a.poll(Effort::helping);
    pair.b.poll(Effort::helping);
  }
  CHECK_EQ(pair.a.sent, 1u);
  CHECK_EQ(pair.b.arrived.size(), 1u);
  CHECK(pair.b.arrived.front().error == Error::abandoned);
  // An RTR from before: the sender stays outside.
  const uint64_t before = pair.by_sender();
  pair.put(from, exposed);
  pair.a.poll(Effort::helping);
  CHECK_EQ(pair.by_sender(), before);
  size_t i = 0;
  while (i < kWords && reinterpret_cast<const uint64_t*>(target)[i] == value(3, i)) ++i;
  CHECK_EQ(i, kWords);
}

}  // namespace

TEST_MAIN(60)
