// The anonymous shared file of a job, and how it is laid out. One file holds everything that ranks share; it has no
// name, is inherited by descriptor, and is gone with its last process, however that ended. It is sparse: only touched
// pages cost memory.
//
//   offset
//   0            JobHeader                                                        (one page)
//   one page     RankLine[places + 1]      who is there; its doorbell             (7 cache lines each)
//   skipped      uint32[places]            which rank has each place, see below
//   mailboxes    Pair[owner][writer]       places × places × 64 KiB, sparse
//   cards        card[from][to]            places × places × 2 KiB, sparse: what networks need to connect
//                                          (cards/host_bootstrap.h)
//   arenas       arena of each place       arena_bytes each, sparse
//
// The ranks that share the file, its members, are those of one host; each has a place, in the order of their ranks. The
// rank at place p is p + skipped[p]: so many ranks of other hosts come before it. All functions here take ranks of the
// job. A rank of another host has no place; it has the last line, which stays absent, and nothing else.
//
//   Pair: what `writer` writes into memory of `owner`
//   0      control   LibOF: acknowledgements, RTR array       written by the writer
//   3072   bulk      BulkSlot[16] of this fabric (bulk.h)      written by both, see there
//   4096   slots     LibOF: eager slots                        written by the writer
//   65536
//
// Each part begins at a page of the system, which has 4, 16 or 64 KiB: arenas are mapped one by one.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/descriptor.h"
#include "fabric/fabric.h"
#include "job/page.h"

namespace nbc::job {

constexpr uint32_t kMagic = 0x6e626331;  // "nbc1"
constexpr uint32_t kLayoutVersion = 12;
constexpr uint32_t kProcessorWords = 16;  // 1024 processors, as many as the C library's masks have
constexpr size_t kLine = 64;
constexpr uint32_t kMaxRanks = 4096;
constexpr size_t kPairBytes = 64 * 1024;
constexpr size_t kCardBytes = 2048;
constexpr size_t kHostBytes = 128;  // name of a host, with its end
constexpr size_t kKeyBytes = 16;
constexpr size_t kBulkBytes = 1024;
static_assert(kControlBytes + kBulkBytes + kSlotBytes == kPairBytes);

struct JobHeader {
  uint32_t magic;
  uint32_t version;
  uint32_t places;
  uint32_t page;  // bytes of a page, to which all parts are aligned
  uint64_t arena_bytes;
  uint32_t size;        // ranks of the job
  uint32_t processors;  // for those that share the file, as the one who made it knew: all of them read the same
};

// Where the parts of the file lie. Offsets in bytes.
struct Layout {
  // `arena_bytes`: a multiple of `page`, which is a power of two.
  Layout(Rank places, size_t arena_bytes, size_t page);
  size_t lines;
  size_t skipped;
  size_t mailboxes;
  size_t cards;
  size_t arenas;
  size_t end;
};

// What each rank can expose where nobody says otherwise: as much as the machine has memory, or what fits in the address
// space of a process, by its limit and the width of addresses, beside the arenas of all peers and what the process maps
// already. The limit and what is in use of it are in bytes; limit SIZE_MAX: none.
size_t default_arena_bytes(Rank places, size_t memory, size_t limit, size_t in_use, size_t page);

// claimed: a process has taken the rank and is filling its line. elsewhere: the rank is reached without this file.
// never: closed without having opened. lost: a peer has given it up, because it did not answer (pulse.h). Only in a
// line that is open, closed or lost anything else holds.
enum class RankState : uint32_t { absent = 0, open = 1, closed = 2, never = 3, claimed = 4, elsewhere = 5, lost = 6 };

// How a rank can be reached; bits of RankLine::reach. See route_between() in presence.h.
constexpr uint32_t kBySharedMemory = 1;
constexpr uint32_t kByNetwork = 2;
constexpr uint32_t kOnSameHostOnly = 4;  // by shared memory only from ranks of the same host

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
  uint32_t reach;
  uint8_t key[kKeyBytes];  // random, part of the names of this rank's sockets (rank_socket.h)
  DoorbellLine bell;
  alignas(kLine) std::atomic<uint32_t> calls;  // counted up, with release, by the rank that left a card or closed
  // The processor that the rank's calling thread ran on last, and 1; 0: unknown. Stored (relaxed) by the owner, read
  // (relaxed) by peers that wait for it: a hint, nothing depends on when it is seen.
  std::atomic<uint32_t> processor;
  // Counted up, with release, by peers that have written what the rank should see although it may expect nothing from
  // them; read by the owner.
  std::atomic<uint32_t> alarms;
  // The pipe of the rank's event loop (rank_pipe.h): the descriptor of its end for writing, and 1; 0: there is none.
  // Stored by the owner, once, with release, after its device and inode; read by those who ring, with acquire.
  std::atomic<uint32_t> loop_pipe;
  uint64_t loop_device;
  uint64_t loop_inode;
  // Counted up by the owner's pulse, at least once in so many milliseconds (pulse.h); both 0 until the first beat. Both
  // are relaxed: peers compare the count with the one that they saw before, and nothing depends on when it is seen.
  std::atomic<uint32_t> beats;
  std::atomic<uint32_t> beat_milliseconds;
};
static_assert(sizeof(RankLine) == 7 * kLine);

// One mapping of the shared file. Ranks that are threads of one process may have one together; with share() they also
// know of each other that they are, and what follows from that.
class Segment {
 public:
  // What a process needs of the file.
  enum class Part {
    all,
    presence,  // only who is there: the lines. A launcher needs no more
  };
  // Creates the file for a job of `size` ranks; returns its descriptor. `arena_bytes`: what each rank can expose, or 0
  // for default_arena_bytes(); rounded up to pages. `members`: the ranks that share it, ascending; empty: all.
  // `processors`: how many the members have; 0: those of the calling thread. Throws FabricError.
  static int create(Rank size, size_t arena_bytes = 0, size_t page = system_page(),
                    const std::vector<Rank>& members = {}, uint32_t processors = 0);
  // What the ranks have that share a file, the same for all of them.
  struct Sharing {
    uint32_t processors;  // of all together
    size_t arena_bytes;   // of each
  };
  // Throws FabricError if it is not a job's file.
  static Sharing sharing(int fd);
  // Maps the file behind `fd` (which is duplicated). Throws FabricError if it is not a job's file.
  static std::shared_ptr<Segment> map(int fd, Part part = Part::all);
  // The same object for all ranks of this process that open the file, as long as one of them has it. Any thread.
  static std::shared_ptr<Segment> share(int fd);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Ranks of the job.
  Rank size() const { return static_cast<Rank>(place_.size()); }
  // Those that share the file, ascending.
  const std::vector<Rank>& members() const { return members_; }
  size_t arena_bytes() const { return arena_bytes_; }
  size_t page() const { return page_; }
  RankLine& line(Rank rank) const { return lines_[place_[rank]]; }
  std::byte* pair(Rank owner, Rank writer) const { return base_ + layout_.mailboxes + at(owner, writer) * kPairBytes; }
  std::byte* card(Rank from, Rank to) const { return base_ + layout_.cards + at(from, to) * kCardBytes; }
  // Maps the arena of one rank; the caller unmaps it (arena_bytes()). nullptr with errno on failure.
  std::byte* map_arena(Rank rank) const { return map_arena(rank, arena_bytes_); }
  // The first `bytes` of this rank's own, without which it cannot open. Throws FabricError.
  std::byte* map_own_arena(Rank rank, size_t bytes) const;
  // --- Ranks that are threads of this process, of a segment of share(); without it there are none.
  // A rank is here from enter() on, which it calls before it announces that it is open; who has seen it open knows.
  void enter(Rank rank) const;
  // It touches nothing of its peers any more. With the last one, what was kept for them is released.
  void leave() const;
  bool is_here(Rank rank) const;
  // Keeps this while a rank is here. False: no rank can be, or ranks of other processes may touch it, of which nobody
  // can say when they have learned of the end.
  bool keep(std::vector<std::shared_ptr<void>>& keepers) const;
  // The arena of a rank, mapped once for all of this process, and as long as this. nullptr with errno on failure.
  std::byte* arena(Rank rank) const;
  // The ends of the pipe of a rank that is here (rank_pipe.h). They stay open as long as this: a peer may write to a
  // rank that has just gone, and then the number must not be of something else, nor the pipe be without a reader
  // (SIGPIPE). Once for each rank, by itself.
  void keep_pipe(Rank rank, Descriptor&& read, Descriptor&& write) const;

  // --- Where pages can run out (limits.h), a touch of a page that the system cannot give ends the process (SIGBUS). So
  // they are taken before. Elsewhere these do nothing: memory is taken when it is touched.
  bool scarce() const { return scarce_; }
  // The pages of a part of an arena; false with errno if there are none.
  bool reserve(Rank rank, size_t offset, size_t bytes) const;
  // What peers write for `rank`, and the lines of all. Throws FabricError.
  void reserve_mailboxes(Rank rank) const;

  // Gives the pages of a part of an arena back to the system; it reads as zeros from then on.
  void punch(Rank rank, size_t offset, size_t bytes) const;

 private:
  struct Here;
  Segment(const JobHeader& header, const Layout& layout);
  void read_members(Rank size);
  size_t at(Rank row, Rank column) const { return size_t{place_[row]} * members_.size() + place_[column]; }
  size_t arena_offset(Rank rank) const { return layout_.arenas + place_[rank] * arena_bytes_; }
  std::byte* map_arena(Rank rank, size_t bytes) const;

  Descriptor fd_;
  std::byte* base_ = nullptr;
  size_t mapped_ = 0;
  bool scarce_ = false;  // set by map(), before anybody else has this
  Layout layout_;
  size_t arena_bytes_;
  size_t page_;
  std::vector<Rank> members_;    // by place
  std::vector<uint32_t> place_;  // by rank; of another host: the number of places
  RankLine* lines_ = nullptr;
  std::unique_ptr<Here> here_;  // null: made by map()
};

}  // namespace nbc::job
