#include "job/segment.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "job/limits.h"
#include "job/presence.h"
#include "job/processor_quota.h"
#include "processor_set.h"

namespace nbc::job {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGiB = size_t{1} << 30;

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

[[noreturn]] void fail(const char* what) { throw system_failure(what, errno); }

const char* const kNoJobsMemory =
    " (NBC_JOB_FD) is not the memory of a job. If a rank started this process, start it "
    "without NBC_JOB_FD, NBC_RANK and NBC_SIZE in its environment: it is a job of its "
    "own then, of one rank";

// The header of the file behind `fd`, if it is the file of a job.
JobHeader read_header(int fd) {
  const std::string advice = "descriptor " + std::to_string(fd) + kNoJobsMemory;
  struct stat status;
  if (fstat(fd, &status) != 0) throw FabricError{advice};
  JobHeader header{};
  const ssize_t got = S_ISREG(status.st_mode) ? pread(fd, &header, sizeof header, 0) : 0;
  if (got != static_cast<ssize_t>(sizeof header) || header.magic != kMagic) throw FabricError{advice};
  if (header.version != kLayoutVersion)
    throw FabricError{"the launcher and this rank run different versions of node-nbc"};
  if (header.places == 0 || header.places > header.size || header.size > kMaxRanks || header.page == 0 ||
      header.page % system_page() != 0)
    throw FabricError{"the job's header is damaged"};
  if (header.arena_bytes % header.page != 0 ||
      static_cast<size_t>(status.st_size) != Layout(header.places, header.arena_bytes, header.page).end)
    throw FabricError{"the job's shared file has the wrong length"};
  return header;
}

// Those that the calling thread may run on, and keep busy. Where the system does not say, very many.
uint32_t allowed_processors() {
  const size_t count = ProcessorSet::allowed().count();
  return std::min(count > 0 ? static_cast<uint32_t>(count) : UINT32_MAX, processor_quota());
}

}  // namespace

Layout::Layout(Rank places, size_t arena_bytes, size_t page) {
  const size_t pairs = static_cast<size_t>(places) * places;
  lines = round_up(sizeof(JobHeader), page);
  skipped = lines + (places + 1) * sizeof(RankLine);
  mailboxes = round_up(skipped + places * sizeof(uint32_t), page);
  cards = mailboxes + round_up(pairs * kPairBytes, page);
  arenas = cards + round_up(pairs * kCardBytes, page);
  end = arenas + places * arena_bytes;
}

// Half of what is left stays free for the program. A part that is too small to be of use is not reserved: then the
// error says what is missing.
size_t default_arena_bytes(Rank places, size_t memory, size_t limit, size_t in_use, size_t page) {
  const size_t wanted = round_up(memory, kGiB);
  if (limit == SIZE_MAX) return wanted;
  const size_t others = in_use + Layout(places, 0, page).end;
  const size_t left = limit > others ? limit - others : 0;
  return std::clamp(left / 2 / places / page * page, 64 * kMiB, wanted);
}

int Segment::create(Rank size, size_t arena_bytes, size_t page, const std::vector<Rank>& members, uint32_t processors) {
  if (size == 0 || size > kMaxRanks) throw FabricError{"a job has 1 to 4096 ranks"};
  std::vector<uint32_t> skipped;
  for (const Rank rank : members) {
    if (rank >= size || (!skipped.empty() && rank <= members[skipped.size() - 1]))
      throw FabricError{"the ranks that share memory: not ascending, or not of the job"};
    skipped.push_back(rank - static_cast<Rank>(skipped.size()));
  }
  const Rank places = members.empty() ? size : static_cast<Rank>(members.size());
  if (arena_bytes == 0) {
    const size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * system_page();
    const size_t addresses = std::min(address_space_limit(), address_space_width());
    arena_bytes = default_arena_bytes(places, memory, addresses, address_space_in_use(), page);
    arena_bytes = std::min(arena_bytes, default_arena_bytes(places, memory, file_size_limit(), 0, page));
  }
  arena_bytes = round_up(arena_bytes, page);
  Descriptor fd(memfd_create("nbc-job", MFD_CLOEXEC));
  if (!fd) throw no_anonymous_file();
  const Layout layout(places, arena_bytes, page);
  // The kernel would send SIGXFSZ besides.
  if (layout.end > file_size_limit()) throw no_file_size(layout.end);
  if (ftruncate(fd.get(), static_cast<off_t>(layout.end)) != 0) fail("ftruncate of the job's shared file");
  const JobHeader header{kMagic,
                         kLayoutVersion,
                         places,
                         static_cast<uint32_t>(page),
                         arena_bytes,
                         size,
                         processors == 0 ? allowed_processors() : processors};
  const size_t bytes = skipped.size() * sizeof(uint32_t);
  if (pwrite(fd.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      pwrite(fd.get(), skipped.data(), bytes, static_cast<off_t>(layout.skipped)) != static_cast<ssize_t>(bytes))
    fail("writing the job's header");
  return fd.release();
}

Segment::Sharing Segment::sharing(int fd) {
  const JobHeader header = read_header(fd);
  return {header.processors, header.arena_bytes};
}

// What the ranks of this process share beside the file.
struct Segment::Here {
  explicit Here(Rank size) : present(size), pipes(size), arenas(size) {}
  // Stored once by the rank, before its state says that it is open (release); read after an acquire load of that.
  std::vector<std::atomic<bool>> present;
  std::vector<std::pair<Descriptor, Descriptor>> pipes;  // each rank stores its own; nobody reads
  std::mutex mutex;                                      // guards the rest
  std::vector<std::byte*> arenas;
  std::vector<std::shared_ptr<void>> kept;
  Rank count = 0;  // ranks that have entered and not left
};

Segment::Segment(const JobHeader& header, const Layout& layout)
    : layout_(layout), arena_bytes_(header.arena_bytes), page_(header.page), members_(header.places) {}

std::shared_ptr<Segment> Segment::map(int fd, Part part) {
  const JobHeader header = read_header(fd);
  const Layout layout(header.places, header.arena_bytes, header.page);
  std::shared_ptr<Segment> segment(new Segment(header, layout));
  segment->fd_ = Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 10));
  if (!segment->fd_) fail("duplicating the job's descriptor");
  segment->scarce_ = pages_may_run_out(segment->fd_.get());
  const size_t bytes = part == Part::all ? layout.arenas : layout.mailboxes;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment->fd_.get(), 0);
  if (base == MAP_FAILED) throw no_address_space("the mailboxes of the job", bytes);
  segment->mapped_ = bytes;
  segment->base_ = static_cast<std::byte*>(base);
  // Zero pages are valid RankLines; std::launder only tells the compiler so.
  segment->lines_ = std::launder(reinterpret_cast<RankLine*>(segment->base_ + layout.lines));
  segment->read_members(header.size);
  return segment;
}

void Segment::read_members(Rank size) {
  const auto* skipped = reinterpret_cast<const uint32_t*>(base_ + layout_.skipped);
  const auto places = static_cast<uint32_t>(members_.size());
  place_.assign(size, places);
  for (uint32_t place = 0; place < places; ++place) {
    const uint64_t rank = uint64_t{place} + skipped[place];
    if (rank >= size || (place > 0 && rank <= members_[place - 1])) throw FabricError{"the job's file is damaged"};
    members_[place] = static_cast<Rank>(rank);
    place_[rank] = place;
  }
}

std::shared_ptr<Segment> Segment::share(int fd) {
  using File = std::pair<dev_t, ino_t>;
  static std::mutex& mutex = *new std::mutex();
  static auto& shared = *new std::map<File, std::weak_ptr<Segment>>();  // guarded by mutex
  struct stat status {};
  if (fstat(fd, &status) != 0) throw FabricError{"descriptor " + std::to_string(fd) + kNoJobsMemory};
  const std::lock_guard<std::mutex> guard(mutex);
  std::erase_if(shared, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Segment>& known = shared[{status.st_dev, status.st_ino}];
  auto segment = known.lock();
  if (segment == nullptr) {
    segment = map(fd);
    segment->here_ = std::make_unique<Here>(segment->size());
    known = segment;
  }
  return segment;
}

Segment::~Segment() {
  if (here_ != nullptr) {
    for (std::byte* arena : here_->arenas) {
      if (arena != nullptr) munmap(arena, arena_bytes_);
    }
  }
  if (base_ != nullptr) munmap(base_, mapped_);
}

void Segment::enter(Rank rank) const {
  if (here_ == nullptr) return;
  here_->present[rank].store(true, std::memory_order_relaxed);
  const std::lock_guard<std::mutex> guard(here_->mutex);
  ++here_->count;
}

void Segment::leave() const {
  if (here_ == nullptr) return;
  std::vector<std::shared_ptr<void>> released;  // without the lock
  const std::lock_guard<std::mutex> guard(here_->mutex);
  if (--here_->count == 0) released.swap(here_->kept);
}

bool Segment::is_here(Rank rank) const {
  return here_ != nullptr && here_->present[rank].load(std::memory_order_relaxed);
}

bool Segment::keep(std::vector<std::shared_ptr<void>>& keepers) const {
  if (here_ == nullptr) return false;
  for (const Rank rank : members_) {
    if (has_opened(*this, rank) && !is_here(rank)) return false;
  }
  const std::lock_guard<std::mutex> guard(here_->mutex);
  std::move(keepers.begin(), keepers.end(), std::back_inserter(here_->kept));
  keepers.clear();
  return true;
}

std::byte* Segment::arena(Rank rank) const {
  const std::lock_guard<std::mutex> guard(here_->mutex);
  std::byte*& at = here_->arenas[rank];
  if (at == nullptr) at = map_arena(rank);
  return at;
}

void Segment::keep_pipe(Rank rank, Descriptor&& read, Descriptor&& write) const {
  here_->pipes[rank] = {std::move(read), std::move(write)};
}

std::byte* Segment::map_arena(Rank rank, size_t bytes) const {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(),
                  static_cast<off_t>(arena_offset(rank)));
  if (at == MAP_FAILED) return nullptr;
  madvise(at, bytes, MADV_DONTDUMP);
  // Where shared memory can have them. The kernel then maps the file so that they fit.
  madvise(at, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(at);
}

std::byte* Segment::map_own_arena(Rank rank, size_t bytes) const {
  std::byte* at = map_arena(rank, bytes);
  if (at == nullptr) throw no_address_space("the memory that a rank can expose", bytes);
  return at;
}

bool Segment::reserve(Rank rank, size_t offset, size_t bytes) const {
  return !scarce_ || reserve_pages(fd_.get(), arena_offset(rank) + offset, bytes);
}

void Segment::reserve_mailboxes(Rank rank) const {
  if (!scarce_) return;
  const size_t row = members_.size() * kPairBytes;
  const size_t cards = members_.size() * kCardBytes;
  if (!reserve_pages(fd_.get(), 0, layout_.mailboxes) ||
      !reserve_pages(fd_.get(), layout_.mailboxes + place_[rank] * row, row) ||
      !reserve_pages(fd_.get(), layout_.cards + place_[rank] * cards, cards))
    throw FabricError{"the mailboxes of this rank: " + why_no_pages(row + cards), errno, "ERR_NBC_NO_MEMORY"};
}

void Segment::punch(Rank rank, size_t offset, size_t bytes) const {
  fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(arena_offset(rank) + offset),
            static_cast<off_t>(bytes));
}

}  // namespace nbc::job
