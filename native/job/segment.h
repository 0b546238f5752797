// The anonymous shared file of a job, and how it is laid out. One file holds everything that ranks share; it has no
// name, is inherited by descriptor, and is gone with its last process, however that ended. It is sparse: only touched
// pages cost memory.
//
//   offset
//   0                    JobHeader                                                        (one page)
//   4096                 RankLine[size]            who is there; its doorbell             (7 cache lines each)
//   mailboxes            Pair[owner][writer]       size × size × 64 KiB, sparse
//   cards                card[from][to]            size × size × 128 B, sparse: what networks need to connect
//                                                  (verbs/bootstrap.h)
//   arenas               arena of rank 0, rank 1 … arena_bytes each, sparse
//
//   Pair: what `writer` writes into memory of `owner`
//   0      control   LibOF: acknowledgements, RTR array       written by the writer
//   3072   bulk      BulkSlot[16] of this fabric (bulk.h)      written by both, see there
//   4096   slots     LibOF: eager slots                        written by the writer
//   65536
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fabric/fabric.h"

namespace nbc::shm {

constexpr uint32_t kMagic = 0x6e626331;  // "nbc1"
constexpr uint32_t kLayoutVersion = 3;
constexpr uint32_t kProcessorWords = 16;  // 1024 processors, as many as the C library's masks have
constexpr size_t kPage = 4096;
constexpr size_t kLine = 64;
constexpr uint32_t kMaxRanks = 4096;
constexpr size_t kPairBytes = 64 * 1024;
constexpr size_t kCardBytes = 128;
constexpr size_t kHostBytes = 128;  // name of a host, with its end
constexpr size_t kBulkBytes = 1024;
static_assert(kControlBytes + kBulkBytes + kSlotBytes == kPairBytes);

struct JobHeader {
  uint32_t magic;
  uint32_t version;
  uint32_t size;
  uint32_t reserved;
  uint64_t arena_bytes;
};

// never: closed without having opened, so nothing else in its line holds.
enum class RankState : uint32_t { absent = 0, open = 1, closed = 2, never = 3 };

// How a rank can be reached; bits of RankLine::ways. See way_between() in presence.h.
constexpr uint32_t kNearWay = 1;     // by shared memory
constexpr uint32_t kFarWay = 2;      // by a network
constexpr uint32_t kNearByHost = 4;  // by shared memory only from ranks of the same host

// The doorbell of a rank. `armed` and `need`: stored by the owner, taken down by the writers that ring; see doorbell.h.
struct alignas(kLine) DoorbellLine {
  std::atomic<uint32_t> armed{0};
  std::atomic<int32_t> need{0};
  std::atomic<uint32_t> rung_caller{0};  // futex words: count the rings
  std::atomic<uint32_t> rung_progress{0};
};

struct alignas(kLine) RankLine {
  // Written by the owner before `state` is stored with release; read by peers after an acquire load of it.
  std::atomic<RankState> state{RankState::absent};
  int32_t pid;
  uint32_t eager_limit;
  uint32_t attaches;                     // 1 if the owner may use cross-memory attach, by its options and its kernel
  uint64_t probe_address;                // an eight-byte word in the owner's private memory that holds probe_value,
  uint64_t probe_value;                  // so that a peer can find out whether cross-memory attach is allowed
  uint64_t processors[kProcessorWords];  // where the rank may run, a bit for each
  char host[kHostBytes];                 // ranks with equal names are on one host; empty: the machine
  uint32_t ways;
  DoorbellLine bell;
  alignas(kLine) std::atomic<uint32_t> calls;  // counted up, with release, by whoever left a card or closed
  // The processor that the rank's calling thread ran on last, and 1; 0: unknown. Stored (relaxed) by the owner, read
  // (relaxed) by peers that wait for it: a hint, nothing depends on when it is seen.
  std::atomic<uint32_t> processor;
};
static_assert(sizeof(RankLine) == 7 * kLine);

// One mapping of the shared file. Ranks that are threads of one process may share it.
class Segment {
 public:
  // Creates the file for a job of `size` ranks; returns its descriptor. Throws FabricError.
  static int create(Rank size, size_t arena_bytes = 0);
  // Maps the file behind `fd` (which is duplicated). Throws FabricError if it is not a job's file.
  static std::shared_ptr<Segment> map(int fd);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Rank size() const { return size_; }
  size_t arena_bytes() const { return arena_bytes_; }
  RankLine& line(Rank rank) const { return lines_[rank]; }
  std::byte* pair(Rank owner, Rank writer) const {
    return base_ + mailboxes_ + (static_cast<size_t>(owner) * size_ + writer) * kPairBytes;
  }
  std::byte* card(Rank from, Rank to) const {
    return base_ + cards_ + (static_cast<size_t>(from) * size_ + to) * kCardBytes;
  }
  // A number that no other job on this machine has as long as this one's file exists.
  uint64_t identity() const { return identity_; }
  // Maps the arena of one rank; the caller unmaps it (arena_bytes()). nullptr with errno on failure.
  std::byte* map_arena(Rank rank) const;
  // Gives the pages of a part of an arena back to the system; it reads as zeros from then on.
  void punch(Rank rank, size_t offset, size_t bytes) const;

 private:
  Segment() = default;
  int fd_ = -1;
  std::byte* base_ = nullptr;
  size_t mapped_ = 0;
  size_t mailboxes_ = 0;
  size_t cards_ = 0;
  uint64_t identity_ = 0;
  size_t arenas_ = 0;
  size_t arena_bytes_ = 0;
  Rank size_ = 0;
  RankLine* lines_ = nullptr;
};

}  // namespace nbc::shm
