#include "job/rank_pipe.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nbc::job {
namespace {

// The pipe that the line tells of. Nothing that is not that pipe is opened for writing.
Descriptor open_pipe(const RankLine& line, uint32_t number) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%u", static_cast<int>(line.pid), number);
  const Descriptor found(::open(path, O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!found || ::fstat(found.get(), &status) != 0 || !S_ISFIFO(status.st_mode) || status.st_ino != line.loop_inode ||
      status.st_dev != line.loop_device)
    return {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", found.get());
  // Also for reading: so a write never raises SIGPIPE, and there is always somebody who could read.
  return Descriptor(::open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

bool write_to(int pipe) {
  const char nothing = 0;
  // A full pipe has something to read already.
  return ::write(pipe, &nothing, 1) == 1 || errno == EAGAIN;
}

}  // namespace

bool RankPipe::open(const Segment& segment, Rank rank) {
  if (number_ >= 0) return true;
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return false;
  Descriptor read(ends[0]);
  Descriptor write(ends[1]);
  struct stat status {};
  if (::fstat(write.get(), &status) != 0) return false;
  RankLine& line = segment.line(rank);
  line.loop_inode = status.st_ino;
  line.loop_device = status.st_dev;
  number_ = read.get();
  const auto told = static_cast<uint32_t>(write.get()) + 1;
  if (segment.is_here(rank)) {
    segment.keep_pipe(rank, std::move(read), std::move(write));
  } else {
    read_ = std::move(read);
    write_ = std::move(write);
  }
  // release: the two words above; pairs with the acquire in PipeCaller::call()
  line.loop_pipe.store(told, std::memory_order_release);
  return true;
}

bool PipeCaller::call(const Segment& segment, Rank rank) {
  if (segment.is_here(rank)) {
    // acquire: pairs with RankPipe::open()
    const uint32_t number = segment.line(rank).loop_pipe.load(std::memory_order_acquire);
    return number != 0 && write_to(static_cast<int>(number - 1));
  }
  if (pipes_.size() <= rank) pipes_.resize(segment.size());
  Pipe& pipe = pipes_[rank];
  if (!pipe.tried) {
    const RankLine& line = segment.line(rank);
    const uint32_t number = line.loop_pipe.load(std::memory_order_acquire);  // pairs with RankPipe::open()
    if (number == 0 || opened_ == kMost) return false;
    pipe.tried = true;
    pipe.write = open_pipe(line, number - 1);
    if (pipe.write) ++opened_;
  }
  return pipe.write && write_to(pipe.write.get());
}

}  // namespace nbc::job
