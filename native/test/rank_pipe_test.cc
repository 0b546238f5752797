// The pipes by which event loops are woken: who opens which.
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "fabric/descriptor.h"
#include "job/presence.h"
#include "job/rank_pipe.h"
#include "test/check.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using job::PipeCaller;
using job::RankPipe;
using job::Segment;

std::shared_ptr<Segment> make_segment(Rank size) {
  const Descriptor file(Segment::create(size, 1u << 20));
  std::shared_ptr<Segment> segment = Segment::map(file.get());
  for (Rank rank = 0; rank < size; ++rank) {
    job::claim(*segment, rank, 0, job::kBySharedMemory);
    job::announce_open(*segment, rank);
  }
  return segment;
}

// Bytes that can be read now.
int bytes_in(const RankPipe& pipe) {
  char some[64];
  const ssize_t got = ::read(pipe.descriptor(), some, sizeof some);
  return got < 0 ? 0 : static_cast<int>(got);
}

TEST(another_process_writes_to_the_pipe) {
  const auto segment = make_segment(2);
  RankPipe pipe;
  CHECK(pipe.open(*segment, 0));
  const pid_t child = ::fork();
  if (child == 0) {
    PipeCaller caller;
    ::_exit(caller.call(*segment, 0) && caller.call(*segment, 0) ? 0 : 1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(bytes_in(pipe) == 2);
}

TEST(a_rank_without_a_pipe_is_not_called_until_it_has_one) {
  const auto segment = make_segment(2);
  PipeCaller caller;
  CHECK(!caller.call(*segment, 0));
  RankPipe pipe;
  CHECK(pipe.open(*segment, 0));
  CHECK(caller.call(*segment, 0));
  CHECK(bytes_in(pipe) == 1);
}

TEST(a_full_pipe_has_something_to_read) {
  const auto segment = make_segment(1);
  RankPipe pipe;
  CHECK(pipe.open(*segment, 0));
  CHECK(::fcntl(pipe.descriptor(), F_SETPIPE_SZ, 4096) > 0);
  PipeCaller caller;
  for (int i = 0; i < 3 * 4096; ++i) CHECK(caller.call(*segment, 0));
  CHECK(bytes_in(pipe) > 0);
}

// The rank has ended; its numbers belong to a file, and to another pipe.
TEST(nothing_but_the_pipe_of_the_rank_is_opened_for_writing) {
  const auto segment = make_segment(2);
  auto pipe = std::make_unique<RankPipe>();
  CHECK(pipe->open(*segment, 0));
  const int number = static_cast<int>(segment->line(0).loop_pipe.load()) - 1;
  pipe.reset();
  char name[] = "/tmp/nbc-rank-pipe-XXXXXX";
  const Descriptor file(::mkstemp(name));
  CHECK(file && ::unlink(name) == 0);
  const Descriptor there(::dup3(file.get(), number, O_CLOEXEC));
  PipeCaller caller;
  CHECK(!caller.call(*segment, 0));
  struct stat status {};
  CHECK(::fstat(file.get(), &status) == 0 && status.st_size == 0);

  int ends[2];
  CHECK(::pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
  const Descriptor read(ends[0]);
  const Descriptor write(ends[1]);
  CHECK(::dup3(write.get(), number, O_CLOEXEC) == number);
  PipeCaller another;
  CHECK(!another.call(*segment, 0));
  char some;
  CHECK(::read(read.get(), &some, 1) < 0);
}

// A write to a pipe that nobody reads would end the process by SIGPIPE.
TEST(a_rank_that_has_gone_harms_nobody) {
  const auto segment = make_segment(1);
  auto pipe = std::make_unique<RankPipe>();
  CHECK(pipe->open(*segment, 0));
  PipeCaller caller;
  CHECK(caller.call(*segment, 0));
  pipe.reset();
  CHECK(caller.call(*segment, 0));
}

TEST(no_more_descriptors_are_taken_than_a_bound) {
  constexpr Rank kRanks = 150;
  const auto segment = make_segment(kRanks);
  rlimit limit{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= 1024);
  limit.rlim_cur = 1024;
  CHECK(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  std::vector<RankPipe> pipes(kRanks);
  PipeCaller caller;
  int called = 0;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    CHECK(pipes[rank].open(*segment, rank));
    if (caller.call(*segment, rank)) ++called;
  }
  CHECK(called == 128);
  // Those that were called go on being called, the others not.
  CHECK(caller.call(*segment, 0));
  CHECK(!caller.call(*segment, kRanks - 1));
}

}  // namespace

TEST_MAIN(30)
