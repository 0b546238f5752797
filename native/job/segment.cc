#include "job/segment.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nbc::shm {
namespace {

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

size_t mailboxes_offset(Rank size) { return kPage + round_up(size * sizeof(RankLine), kPage); }

size_t cards_offset(Rank size) { return mailboxes_offset(size) + static_cast<size_t>(size) * size * kPairBytes; }

size_t arenas_offset(Rank size) {
  return cards_offset(size) + round_up(static_cast<size_t>(size) * size * kCardBytes, kPage);
}

// An arena can hold what the machine can: address space is free, memory is only what is touched.
size_t default_arena_bytes() {
  const size_t pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  const size_t gib = size_t{1} << 30;
  return round_up(pages * kPage, gib);
}

[[noreturn]] void fail(const char* what) { throw system_failure(what); }

}  // namespace

int Segment::create(Rank size, size_t arena_bytes) {
  if (size == 0 || size > kMaxRanks) throw FabricError{"a job has 1 to 4096 ranks"};
  if (arena_bytes == 0) arena_bytes = default_arena_bytes();
  const int fd = memfd_create("nbc-job", MFD_CLOEXEC);
  if (fd < 0) fail("memfd_create");
  const size_t total = arenas_offset(size) + static_cast<size_t>(size) * arena_bytes;
  if (ftruncate(fd, static_cast<off_t>(total)) != 0) {
    const int saved = errno;
    ::close(fd);
    errno = saved;
    fail("ftruncate of the job's shared file");
  }
  const JobHeader header{kMagic, kLayoutVersion, size, 0, arena_bytes};
  if (pwrite(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
    const int saved = errno;
    ::close(fd);
    errno = saved;
    fail("writing the job's header");
  }
  return fd;
}

std::shared_ptr<Segment> Segment::map(int fd) {
  struct stat status;
  const std::string advice = "descriptor " + std::to_string(fd) +
                             " (NBC_JOB_FD) is not the memory of a job. If a rank started this process, start it "
                             "without NBC_JOB_FD, NBC_RANK and "
                             "NBC_SIZE in its environment: it is a job of its own then, of one rank";
  if (fstat(fd, &status) != 0) throw FabricError{advice};
  JobHeader header{};
  const ssize_t got = S_ISREG(status.st_mode) ? pread(fd, &header, sizeof header, 0) : 0;
  if (got != static_cast<ssize_t>(sizeof header) || header.magic != kMagic) throw FabricError{advice};
  if (header.version != kLayoutVersion)
    throw FabricError{"the launcher and this rank run different versions of node-nbc"};
  if (header.size == 0 || header.size > kMaxRanks) throw FabricError{"the job's header is damaged"};
  const size_t arenas = arenas_offset(header.size);
  if (header.arena_bytes % kPage != 0 ||
      static_cast<size_t>(status.st_size) != arenas + header.size * header.arena_bytes)
    throw FabricError{"the job's shared file has the wrong length"};

  std::shared_ptr<Segment> segment(new Segment());
  segment->fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  if (segment->fd_ < 0) fail("duplicating the job's descriptor");
  segment->size_ = header.size;
  segment->arena_bytes_ = header.arena_bytes;
  segment->mailboxes_ = mailboxes_offset(header.size);
  segment->cards_ = cards_offset(header.size);
  segment->identity_ = status.st_ino;
  segment->arenas_ = arenas;
  segment->mapped_ = arenas;
  void* base = mmap(nullptr, arenas, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment->fd_, 0);
  if (base == MAP_FAILED) fail("mapping the job's shared file");
  segment->base_ = static_cast<std::byte*>(base);
  // Zero pages are valid RankLines; std::launder only tells the compiler so.
  segment->lines_ = std::launder(reinterpret_cast<RankLine*>(segment->base_ + kPage));
  return segment;
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, mapped_);
  if (fd_ >= 0) ::close(fd_);
}

std::byte* Segment::map_arena(Rank rank) const {
  void* at = mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_,
                  static_cast<off_t>(arenas_ + rank * arena_bytes_));
  if (at == MAP_FAILED) return nullptr;
  madvise(at, arena_bytes_, MADV_DONTDUMP);
  return static_cast<std::byte*>(at);
}

void Segment::punch(Rank rank, size_t offset, size_t bytes) const {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(arenas_ + rank * arena_bytes_ + offset),
            static_cast<off_t>(bytes));
}

}  // namespace nbc::shm
