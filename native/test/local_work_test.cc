// Local elements in pieces, and the memory that operations keep between their rounds.
#include <map>
#include <memory>
#include <vector>

#include "engine/local_work.h"
#include "engine/temporary.h"
#include "test/check.h"
#include "test/random.h"
#include "test/schedule.h"

namespace {

using namespace nbc;
using namespace nbc::check;

Plan compile(const Schedule& schedule) {
  return compile_schedule(schedule.words.data(), schedule.words.size(), {0, 1}, 0);
}

// A task of the first round of a plan, with buffers of its own.
struct Task : LocalTask {
  explicit Task(Plan given, uint64_t seed) : owned(std::move(given)) {
    plan = &owned;
    last = owned.rounds.at(0).local_last;
    for (uint32_t role = 0; role < kRoles; ++role) {
      buffers[role].resize(owned.role_bytes[role]);
      fill(buffers[role].data(), buffers[role].size(), seed + role);
      base[role] = buffers[role].data();
    }
  }
  uint64_t cost() const { return owned.rounds[0].local_cost; }

  Plan owned;
  std::vector<std::byte> buffers[kRoles];
};

// The same, one byte after the other.
void copy_bytes(Task& task) {
  for (const Local& local : task.owned.locals) {
    const auto d = [&](uint32_t i) -> Dimension {
      const uint32_t at = local.dimension_first + i;
      return at < local.dimension_last ? task.owned.dimensions[at] : Dimension{1, 0, 0};
    };
    const uint64_t block = local.strided() ? local.block : local.bytes;
    for (uint64_t i = 0; i < d(0).count; ++i) {
      for (uint64_t j = 0; j < d(1).count; ++j) {
        for (uint64_t k = 0; k < d(2).count; ++k) {
          const uint64_t from = local.from_offset + i * d(0).from_stride + j * d(1).from_stride + k * d(2).from_stride;
          const uint64_t to = local.to_offset + i * d(0).to_stride + j * d(1).to_stride + k * d(2).to_stride;
          for (uint64_t byte = 0; byte < block; ++byte)
            task.base[static_cast<size_t>(local.to)][to + byte] =
                task.base[static_cast<size_t>(local.from)][from + byte];
        }
      }
    }
  }
}

Schedule random_copies(Random& random) {
  Schedule schedule(4000, 4000, 4000);
  schedule.round();
  for (uint32_t element = 0; element < 4; ++element) {
    const uint64_t block = 1 + random.below(20);
    const uint64_t k = 1 + random.below(5);
    const uint64_t j = 1 + random.below(4);
    const uint64_t i = 1 + random.below(3);
    const uint64_t row = block + random.below(5);
    const uint64_t plane = k * row + random.below(5);
    const uint64_t all = j * plane + random.below(5);
    const Dimension dimensions[] = {
        {i, random.below(300), all}, {j, random.below(100), plane}, {k, random.below(30), row}};
    schedule.strided(Role::send, random.below(100), element % 2 == 0 ? Role::receive : Role::temporary,
                     random.below(100), block, {dimensions, dimensions + 3});
    schedule.copy(Role::receive, random.below(1000), Role::temporary, random.below(1000), random.below(1000));
  }
  return schedule;
}

TEST(copies_in_pieces_of_any_size_are_the_copies) {
  Random random(3);
  for (uint32_t i = 0; i < repetitions(3000, 300); ++i) {
    const Schedule schedule = random_copies(random);
    Task pieces(compile(schedule), i);
    Task whole(compile(schedule), i);
    copy_bytes(whole);
    uint64_t cost = 0;
    while (pieces.element < pieces.last) {
      const uint64_t most = random.below(400);
      const uint64_t done = work_on_element(pieces, most);
      CHECK(done > 0);
      // The end of a block and of an element cost what they cost.
      CHECK(done <= std::max<uint64_t>(most, 1) + 2 * 64);
      cost += done;
    }
    CHECK_EQ(cost, pieces.cost());
    for (uint32_t role = 0; role < kRoles; ++role) CHECK(pieces.buffers[role] == whole.buffers[role]);
  }
}

TEST(reductions_in_pieces_are_of_whole_elements) {
  for (const Operator op : {Operator::sum, Operator::minloc}) {
    constexpr uint64_t kBytes = 16 * 1000;
    Schedule schedule(kBytes, kBytes);
    schedule.round().reduce(op, ElementType::float64, Role::send, 0, Role::receive, 0, kBytes);
    Task pieces(compile(schedule), 0);
    Task whole(compile(schedule), 0);
    for (Task* task : {&pieces, &whole}) {
      for (uint32_t role = 0; role < 2; ++role) {
        for (uint64_t i = 0; i < kBytes / 8; ++i)
          reinterpret_cast<double*>(task->base[role])[i] = static_cast<double>((i * (role + 7)) % 1000);
      }
    }
    reduce_kernel(op, ElementType::float64)(whole.base[1], whole.base[0], whole.base[1], kBytes);
    Random random(1);
    while (pieces.element < pieces.last) work_on_element(pieces, random.below(500));
    CHECK(pieces.buffers[1] == whole.buffers[1]);
  }
}

// However many tasks there are and however large they are, one piece is short, and every task gets its turn.
TEST(a_piece_is_short_and_tasks_take_turns) {
  std::vector<std::unique_ptr<Task>> tasks;
  LocalWork work;
  for (uint32_t i = 0; i < 5; ++i) {
    Schedule schedule(1 << 20, 1 << 20);
    schedule.round().copy(Role::send, 0, Role::receive, 0, 1 << 20);
    tasks.push_back(std::make_unique<Task>(compile(schedule), i));
    work.add(*tasks.back(), tasks.back()->cost());
  }
  uint64_t left = work.cost();
  uint32_t complete = 0;
  for (uint32_t piece = 0; work.cost() > 0; ++piece) {
    const uint64_t before = tasks[piece % 5]->written;
    LocalTask* const done = work.piece();
    complete += done != nullptr;
    CHECK(left - work.cost() <= LocalWork::kPiece + 64);
    CHECK(tasks[piece % 5]->written != before);
    left = work.cost();
  }
  CHECK_EQ(complete, 5u);
  for (const auto& task : tasks) CHECK(task->buffers[0] == task->buffers[1]);
}

// --- temporary memory ------------------------------------------------------------------------------------------------

// Counts what is allocated; gives nothing beyond a limit.
class Counted final : public ExposedMemory {
 public:
  void* allocate(size_t bytes) override {
    if (held + bytes > limit) return nullptr;
    void* block = std::malloc(1);
    sizes[block] = bytes;
    held += bytes;
    ++allocations;
    return block;
  }
  void release(void* block) override {
    CHECK_EQ(sizes.count(block), 1u);
    held -= sizes[block];
    sizes.erase(block);
    std::free(block);
  }
  void discard(void* /*part*/, size_t bytes) override {
    CHECK(bytes > 0);
    CHECK(bytes <= TemporaryPool::kPiece);
    discarded += bytes;
  }
  size_t used() const override { return held; }
  std::string why() const override { return "no memory"; }

  std::map<void*, size_t> sizes;
  size_t held = 0;
  size_t limit = SIZE_MAX;
  uint32_t allocations = 0;
  uint64_t discarded = 0;
};

void release_surplus(TemporaryPool& pool) {
  while (pool.surplus() > 0) pool.release_piece();
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 256 shapes of an operation, one after the other.
TEST(many_shapes_keep_no_more_than_the_bound) {
  const auto memory = std::make_shared<Counted>();
  {
    TemporaryPool pool(memory);
    for (uint64_t shape = 0; shape < 256; ++shape) {
      pool.give_back(pool.take(8 * kMiB + shape * 100'000));
      release_surplus(pool);
      CHECK(pool.kept_bytes() <= TemporaryPool::kKeptBytes);
      // The oldest block may be there in part.
      CHECK(memory->held - pool.kept_bytes() < 34 * kMiB);
    }
    for (uint64_t small = 1; small < 1000; ++small) {
      pool.give_back(pool.take(small * 70'000));
      release_surplus(pool);
      CHECK(memory->sizes.size() <= TemporaryPool::kKeptBlocks);
    }
  }
  CHECK_EQ(memory->held, 0u);
}

// Nothing that a call does for the system's memory is long: what is too much goes in pieces, and is used until then.
TEST(a_large_block_goes_back_in_pieces) {
  const auto memory = std::make_shared<Counted>();
  TemporaryPool pool(memory);
  TemporaryPool::Block blocks[3];
  for (auto& block : blocks) block = pool.take(30 * kMiB);
  for (auto& block : blocks) pool.give_back(block);
  CHECK_EQ(pool.surplus(), 26 * kMiB);
  uint64_t pieces = 0;
  for (; pool.surplus() > 0; ++pieces) pool.release_piece();
  CHECK_EQ(pieces, 26 * kMiB / TemporaryPool::kPiece);
  CHECK_EQ(memory->discarded, 26 * kMiB);
  CHECK_EQ(pool.kept_bytes(), TemporaryPool::kKeptBytes);
  // The block that has gone in part is taken as a whole block, with fresh pages.
  CHECK_EQ(memory->sizes.size(), 3u);
  for (auto& block : blocks) block = pool.take(30 * kMiB);
  CHECK_EQ(memory->allocations, 3u);
  CHECK_EQ(pool.kept_bytes(), 0u);
  for (const auto& block : blocks) CHECK_EQ(block.bytes, 30 * kMiB);
  pool.give_back(blocks[0]);
  CHECK_EQ(pool.kept_bytes(), 30 * kMiB);
  pool.give_back(pool.take(200 * kMiB));
  pool.give_back(pool.take(500 * kMiB));
  CHECK_EQ(pool.surplus(), 166 * kMiB);
  release_surplus(pool);
  pool.give_back(blocks[1]);
  pool.give_back(blocks[2]);
  CHECK_EQ(memory->allocations, 5u);
}

TEST(a_repeated_operation_allocates_once) {
  const auto memory = std::make_shared<Counted>();
  TemporaryPool pool(memory);
  for (const uint64_t bytes : {uint64_t{100}, kMiB, 64 * kMiB, 1000 * kMiB}) {
    const uint32_t before = memory->allocations;
    for (uint32_t i = 0; i < 100; ++i) {
      const auto block = pool.take(bytes);
      CHECK(block.data != nullptr);
      pool.give_back(block);
    }
    CHECK_EQ(memory->allocations, before + 1);
  }
  // A large operation and small ones in turns.
  const uint32_t before = memory->allocations;
  for (uint32_t i = 0; i < 100; ++i) {
    pool.give_back(pool.take(1000 * kMiB));
    pool.give_back(pool.take(5 * kMiB));
  }
  CHECK_EQ(memory->allocations, before + 1);
  release_surplus(pool);
  CHECK(pool.kept_bytes() <= 1000 * kMiB + TemporaryPool::kKeptBytes);
}

TEST(operations_at_the_same_time_have_memory_each) {
  const auto memory = std::make_shared<Counted>();
  TemporaryPool pool(memory);
  for (uint32_t round = 0; round < 3; ++round) {
    TemporaryPool::Block blocks[10];
    for (auto& block : blocks) block = pool.take(kMiB);
    for (size_t a = 0; a < 10; ++a) {
      for (size_t b = a + 1; b < 10; ++b) CHECK(blocks[a].data != blocks[b].data);
    }
    for (auto& block : blocks) pool.give_back(block);
  }
  CHECK_EQ(memory->allocations, 10u);
  // A block is not used for much less than it holds.
  pool.give_back(pool.take(100 * 1024));
  CHECK_EQ(memory->allocations, 11u);
}

TEST(what_is_kept_is_given_up_when_memory_runs_out) {
  const auto memory = std::make_shared<Counted>();
  TemporaryPool pool(memory);
  memory->limit = 40 * kMiB;
  pool.give_back(pool.take(10 * kMiB));
  pool.give_back(pool.take(20 * kMiB));
  const auto block = pool.take(35 * kMiB);
  CHECK(block.data != nullptr);
  CHECK(pool.take(10 * kMiB).data == nullptr);
  pool.give_back({});
  pool.give_back(block);
  CHECK_EQ(memory->held, 35 * kMiB);
}

}  // namespace

TEST_MAIN(60)
