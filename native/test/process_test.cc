// Ranks as processes, as they are in life: each maps the job's file for itself and reaches the others' private memory
// through the kernel, or, where that is forbidden, not at all. And their ends: nothing may be left of a job.
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "job/presence.h"
#include "job/watch.h"
#include "test/mix.h"
#include "test/ranks.h"
#include "test/seccomp.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using std::chrono::milliseconds;

// Memory that the processes of a test share beside the job, to talk about it.
template <typename T>
class Beside {
 public:
  template <typename... Arguments>
  explicit Beside(Arguments&&... arguments) {
    void* at = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    value_ = new (at) T(std::forward<Arguments>(arguments)...);
  }
  ~Beside() { munmap(value_, sizeof(T)); }
  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

struct Child {
  pid_t pid;
  int report;  // what it has to say, if it fails
};

// Runs the body in a process of its own, which ends with this one.
Child spawn(const std::function<void()>& body) {
  int pipes[2];
  CHECK_EQ(pipe(pipes), 0);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid > 0) {
    close(pipes[1]);
    return {pid, pipes[0]};
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  close(pipes[0]);
  std::string why;
  try {
    body();
    _exit(0);
  } catch (const Failure& failure) {
    why = failure.why;
  } catch (const FabricError& error) {
    why = error.message;
  }
  if (write(pipes[1], why.data(), why.size()) < 0) _exit(3);
  _exit(1);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) CHECK_EQ(errno, EINTR);
  return status;
}

std::string report_of(const Child& child) {
  char text[1000];
  const ssize_t length = read(child.report, text, sizeof text);
  close(child.report);
  return std::string(text, length > 0 ? static_cast<size_t>(length) : 0);
}

void join(const std::vector<Child>& children) {
  std::string first;
  for (const Child& child : children) {
    const int status = wait_for(child.pid);
    std::string why = report_of(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (why.empty())
      why = WIFSIGNALED(status) ? "a rank was ended by signal " + std::to_string(WTERMSIG(status))
                                : "a rank ended with status " + std::to_string(WEXITSTATUS(status));
    // Others fail because one did.
    if (first.empty() || first == "another rank failed") first = std::move(why);
  }
  if (!first.empty()) throw Failure{first};
}

struct JobFile {
  explicit JobFile(Rank size) : size(size), fd(job::Segment::create(size, kTestArena)) {}
  ~JobFile() { close(fd); }
  const Rank size;
  const int fd;
};

using Options = std::function<RankOptions(Rank)>;

void run_processes(Rank count, const Options& options, const std::function<void(TestRank&, Meeting&)>& body) {
  const JobFile job(count);
  const Beside<Meeting> meeting(count);
  std::vector<Child> children;
  for (Rank rank = 0; rank < count; ++rank) {
    children.push_back(spawn([&] {
      const RankOptions mine = options(rank);
      TestRank me(job::Segment::map(job.fd), rank, mine);
      try {
        body(me, *meeting);
        meeting->meet();
      } catch (const Failure&) {
        meeting->give_up();
        throw;
      }
    }));
  }
  join(children);
}

Options same(const RankOptions& options) {
  return [options](Rank) { return options; };
}

RankOptions mode(bool progress_thread, bool cross_memory) {
  RankOptions options;
  options.progress_thread = progress_thread;
  options.cross_memory = cross_memory;
  return options;
}

// --- data ------------------------------------------------------------------------------------------------------------

void exchange_every_size(TestRank& me) {
  uint64_t seed = 1;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{65'535}, size_t{65'536},
                             size_t{300'001}, size_t{3} << 20}) {
    for (const bool from_arena : {false, true}) {
      for (const bool to_arena : {false, true}) {
        ++seed;
        const Rank to = (me.rank + 1) % me.size;
        const Rank from = (me.rank + me.size - 1) % me.size;
        const Pinned in = me.memory(bytes, to_arena);
        const uint32_t receive = me.irecv(in, from, 1);
        me.wait(me.isend(me.filled(bytes, from_arena, seed * 100 + me.rank), to, 1));
        me.wait(receive);
        check_data(in, seed * 100 + from);
      }
    }
  }
}

TEST(messages_between_processes) {
  for (const bool progress_thread : {true, false}) {
    for (const bool cross_memory : {true, false}) {
      for (const Rank size : {2u, 3u})
        run_processes(size, same(mode(progress_thread, cross_memory)),
                      [](TestRank& me, Meeting&) { exchange_every_size(me); });
    }
  }
}

TEST(random_mixes_between_processes) {
  uint64_t seed = 1;
  for (const bool progress_thread : {true, false}) {
    for (const bool cross_memory : {true, false}) {
      for (const Rank size : {2u, 5u, 8u}) {
        const uint64_t mine = seed++;
        run_processes(size, same(mode(progress_thread, cross_memory)),
                      [mine](TestRank& me, Meeting&) { random_mix(me, mine, repetitions(200, 60)); });
      }
    }
  }
}

TEST(operations_land_while_processes_compute) {
  for (const bool cross_memory : {true, false}) {
    bool landed = false;
    for (int time = 10; time < 10'000 && !landed; time *= 4) {
      const Beside<std::atomic<uint32_t>> done(0u);
      run_processes(2, same(mode(true, cross_memory)), [&](TestRank& me, Meeting& meeting) {
        constexpr size_t kBlock = 2u << 20;
        const auto plan = me.load(alltoall(me.rank, me.size, kBlock));
        const Pinned in = me.plain(kBlock * 2);
        const Pinned out = me.filled(kBlock * 2, false, me.rank);
        meeting.meet();
        const uint32_t request = me.start(plan, out, in);
        compute(milliseconds(time));
        if (me.test(request)) done->fetch_add(1);
        meeting.meet();
        me.wait(request);
      });
      landed = done->load() == 2;
    }
    CHECK(landed);
  }
}

// Many small messages, all of them awaited asleep: processes that ring each other.
TEST(no_wake_up_is_lost_between_processes) {
  for (const bool progress_thread : {true, false}) {
    run_processes(3, same(mode(progress_thread, true)), [&](TestRank& me, Meeting&) {
      const Rank to = (me.rank + 1) % me.size;
      const Rank from = (me.rank + me.size - 1) % me.size;
      for (uint32_t i = 0; i < repetitions(8'000, 1'000); ++i) {
        const Pinned in = me.plain(16);
        const uint32_t receive = me.irecv(in, from, 0);
        me.send(me.filled(16, false, i), to, 0);
        if (progress_thread && i % 2 == 0 && receive != kNoRequest) {
          me.watch(receive);
          while (!me.done(receive)) sched_yield();
        }
        me.wait(receive);
        check_data(in, i);
      }
    });
  }
}

// --- where cross-memory attach is forbidden --------------------------------------------------------------------------

void require_filter() {
  const Child child = spawn([] {
    if (!forbid_cross_memory()) _exit(125);
  });
  close(child.report);
  const int status = wait_for(child.pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 125) SKIP("this kernel takes no system call filter");
}

// Options that forbid it by the kernel's hand, in the process that asks for them.
Options filtered(bool progress_thread, const std::function<bool(Rank)>& which) {
  return [=](Rank rank) {
    if (which(rank)) CHECK(forbid_cross_memory());
    return mode(progress_thread, true);
  };
}

TEST(without_cross_memory_attach_messages_are_staged) {
  require_filter();
  for (const bool progress_thread : {true, false}) {
    run_processes(3, filtered(progress_thread, [](Rank) { return true; }), [](TestRank& me, Meeting& meeting) {
      exchange_every_size(me);
      meeting.meet();
      CHECK_EQ(me.counter("crossMemoryBytes"), 0.0);
      CHECK(me.counter("stagedBytes") > 0);
      random_mix(me, 5, repetitions(100, 40));
    });
  }
}

TEST(one_rank_without_cross_memory_attach) {
  require_filter();
  for (const bool progress_thread : {true, false}) {
    run_processes(3, filtered(progress_thread, [](Rank rank) { return rank == 1; }),
                  [](TestRank& me, Meeting& meeting) {
                    exchange_every_size(me);
                    meeting.meet();
                    if (me.rank == 1) CHECK_EQ(me.counter("crossMemoryBytes"), 0.0);
                    // Several large messages at once to a rank that waits for all of them.
                    constexpr size_t kBlock = 600'000;
                    const auto plan = me.load(alltoall(me.rank, me.size, kBlock));
                    for (int repeat = 0; repeat < 5; ++repeat) {
                      const Pinned in = me.plain(kBlock * me.size);
                      if (me.rank == 1) compute(milliseconds(1));
                      me.wait(me.start(plan, me.filled(kBlock * me.size, false, me.rank), in));
                    }
                    random_mix(me, 6, repetitions(100, 40));
                  });
  }
}

// --- ends ------------------------------------------------------------------------------------------------------------

TEST(a_sender_that_ends_in_the_middle) {
  for (const bool cross_memory : {true, false}) {
    for (const bool helping : {false, true}) {
      const JobFile job(2);
      const Beside<Meeting> meeting(2u);
      std::vector<Child> children;
      constexpr size_t kBytes = 8u << 20;
      children.push_back(spawn([&] {
        TestRank me(job::Segment::map(job.fd), 0, mode(false, cross_memory));
        const uint32_t request = me.isend(me.filled(kBytes, false, 6), 1, 0);
        CHECK(request != kNoRequest);
        meeting->meet();
        me.engine->test();  // announced, and a piece of it copied
        if (!helping) meeting->meet();
      }));  // closes its world, and ends
      const pid_t sender = children.front().pid;
      children.push_back(spawn([&] {
        TestRank me(job::Segment::map(job.fd), 1, mode(false, cross_memory));
        const Pinned in = me.plain(kBytes);
        const uint32_t request = me.irecv(in, 0, 0);
        meeting->meet();
        if (!helping) {
          meeting->meet();
          while (kill(sender, 0) == 0) sched_yield();  // until it is gone and its parent has taken note
        }
        const Error outcome = me.failure(request);
        // A receiver that helps may have copied all the rest before the sender was gone: then everything is there.
        const bool complete = helping && cross_memory && outcome == Error::none;
        if (complete) CHECK_EQ(first_difference(in.data, kBytes, 6), kBytes);
        CHECK(complete || outcome == Error::peer_closed);
      }));
      join(children);
    }
  }
}

TEST(a_peer_that_ends_is_an_error_for_all_that_need_it) {
  for (const bool progress_thread : {true, false}) {
    run_processes(4, same(mode(progress_thread, true)), [](TestRank& me, Meeting& meeting) {
      const Pinned in = me.plain(4000);
      const uint32_t request =
          me.rank == 0 ? kNoRequest : me.start(me.load(alltoall(me.rank, me.size, 1000)), me.plain(4000), in);
      meeting.meet();
      if (me.rank == 0) {
        me.close();
      } else {
        // Another rank may have heard first, and have given up what it had for this one.
        const Error outcome = me.failure(request);
        CHECK(outcome == Error::peer_closed || outcome == Error::abandoned);
      }
    });
  }
}

// Rank 1 waits for rank 0, asleep, and nobody but its watch can tell that this one will never come. Rank 0 may not even
// have opened.
TEST(a_killed_process_is_noticed_by_its_watchers) {
  for (uint32_t variant = 0; variant < 8; ++variant) {
    const bool progress_thread = (variant & 1) != 0;
    const bool before = (variant & 2) != 0;
    const bool opens = (variant & 4) != 0;
    const JobFile job(2);
    const Beside<Meeting> meeting(2u);
    const Child killed = spawn([&] {
      std::unique_ptr<TestRank> me;
      if (opens) me = std::make_unique<TestRank>(job::Segment::map(job.fd), 0, mode(progress_thread, true));
      if (before) raise(SIGKILL);
      meeting->meet();
      for (;;) pause();
    });
    close(killed.report);
    if (before) CHECK(WIFSIGNALED(wait_for(killed.pid)));  // it is gone, and its number is free
    const Child waits = spawn([&] {
      TestRank me(job::Segment::map(job.fd), 1, mode(progress_thread, true));
      const job::Watch watch(job::Segment::map(job.fd),
                             {static_cast<uint32_t>(killed.pid), static_cast<uint32_t>(getpid())});
      const Pinned in = me.plain(100'000);
      const uint32_t request = me.irecv(in, 0, 0);
      if (!before) {
        meeting->meet();
        CHECK_EQ(kill(killed.pid, SIGKILL), 0);
      }
      CHECK_EQ(me.failure(request), Error::peer_closed);
    });
    join({waits});
    if (!before) CHECK(WIFSIGNALED(wait_for(killed.pid)));
  }
}

// Two processes that are started as the same rank: at most one gets it, also while the other has not opened yet.
TEST(a_rank_is_claimed_once) {
  const JobFile job(1);
  const auto segment = job::Segment::map(job.fd);
  job::claim(*segment, 0, 255, job::kBySharedMemory);
  CHECK(!job::has_opened(*segment, 0));
  bool refused = false;
  try {
    job::claim(*segment, 0, 255, job::kBySharedMemory);
  } catch (const FabricError& error) {
    refused = error.message.find("rank 0 of this job has already been opened") != std::string::npos;
  }
  CHECK(refused);
}

TEST(of_processes_that_claim_a_rank_at_once_one_gets_it) {
  constexpr Rank kAttempts = 500;
  const JobFile job(kAttempts);
  struct Tally {
    std::atomic<uint32_t> at[2] = {};
    std::atomic<uint32_t> claimed[kAttempts] = {};
  };
  const Beside<Tally> tally;
  std::vector<Child> children;
  for (uint32_t self = 0; self < 2; ++self) {
    children.push_back(spawn([&] {
      const auto segment = job::Segment::map(job.fd);
      for (Rank rank = 0; rank < kAttempts; ++rank) {
        tally->at[self].store(rank + 1);
        while (tally->at[1 - self].load() < rank + 1) sched_yield();
        try {
          job::claim(*segment, rank, 255, job::kBySharedMemory);
          tally->claimed[rank].fetch_add(1);
        } catch (const FabricError&) {
        }
      }
    }));
  }
  join(children);
  for (Rank rank = 0; rank < kAttempts; ++rank) CHECK_EQ(tally->claimed[rank].load(), 1u);
}

// A launcher that sees a rank end says so in the file, and ranks that wait for it fail at once, whether it had opened
// or not.
TEST(a_rank_whose_launcher_saw_it_end_is_not_waited_for) {
  for (const bool progress_thread : {true, false}) {
    const JobFile job(2);
    const Beside<Meeting> meeting(2u);
    const Child waits = spawn([&] {
      TestRank me(job::Segment::map(job.fd), 1, mode(progress_thread, true));
      const Pinned in = me.plain(100'000);
      const uint32_t request = me.irecv(in, 0, 0);
      meeting->meet();
      CHECK_EQ(me.failure(request), Error::peer_closed);
    });
    meeting->meet();
    const auto presence = job::Segment::map(job.fd, job::Segment::Part::presence);
    job::RankCaller caller;
    job::announce_closed(*presence, 0, caller);
    join({waits});
    CHECK(job::never_opens(*presence, 0));
  }
}

// A container may forbid to wait for processes by descriptor: then the watch looks for them.
TEST(a_killed_process_is_noticed_where_process_descriptors_are_forbidden) {
  const JobFile job(2);
  const Child killed = spawn([] {
    for (;;) pause();
  });
  close(killed.report);
  const Child waits = spawn([&] {
    if (!forbid_process_descriptors()) return;  // this kernel has no filters, so it forbids nothing
    TestRank me(job::Segment::map(job.fd), 1, mode(true, true));
    const job::Watch watch(job::Segment::map(job.fd),
                           {static_cast<uint32_t>(killed.pid), static_cast<uint32_t>(getpid())});
    const Pinned in = me.plain(100'000);
    const uint32_t request = me.irecv(in, 0, 0);
    CHECK_EQ(kill(killed.pid, SIGKILL), 0);
    CHECK_EQ(me.failure(request), Error::peer_closed);
  });
  join({waits});
  kill(killed.pid, SIGKILL);
  CHECK(WIFSIGNALED(wait_for(killed.pid)));
}

TEST(a_watch_without_descriptors_is_an_error_that_names_the_rank) {
  const JobFile job(2);
  const auto lives = static_cast<uint32_t>(getpid());
  for (const uint32_t left : {0u, 1u}) {
    join({spawn([&] {
      const auto segment = job::Segment::map(job.fd);
      std::vector<Descriptor> taken;
      const rlimit limit{200, 200};
      CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
      for (int fd; (fd = dup(2)) >= 0;) taken.emplace_back(fd);
      CHECK_EQ(errno, EMFILE);
      for (uint32_t i = 0; i < left; ++i) taken.pop_back();
      FabricError error{};
      try {
        const job::Watch watch(segment, {lives, 0});
      } catch (const FabricError& thrown) {
        error = thrown;
      }
      CHECK_EQ(error.system_errno, EMFILE);
      if (left > 0) CHECK(error.message.find("of rank 0") != std::string::npos);
    })});
  }
}

TEST(a_watch_ends_before_those_it_watches) {
  const JobFile job(2);
  const Child lives = spawn([] {
    for (;;) pause();
  });
  const auto segment = job::Segment::map(job.fd);
  for (int repeat = 0; repeat < 100; ++repeat) const job::Watch watch(segment, {static_cast<uint32_t>(lives.pid), 0});
  CHECK_EQ(kill(lives.pid, SIGKILL), 0);
  close(lives.report);
  CHECK(WIFSIGNALED(wait_for(lives.pid)));
}

TEST(a_late_process_is_waited_for) {
  run_processes(
      3,
      [](Rank rank) {
        if (rank == 2) compute(milliseconds(30));
        return RankOptions{};
      },
      [](TestRank& me, Meeting&) {
        const Pinned in = me.plain(3000);
        me.wait(me.start(me.load(ring_allgather(me.rank, me.size, 1000)), me.filled(1000, false, me.rank), in));
        for (Rank from = 0; from < 3; ++from) CHECK_EQ(first_difference(in.data + from * 1000, 1000, from), 1000u);
      });
}

// Processes that have the file open or mapped, as far as we may see.
unsigned users_of(ino_t inode) {
  unsigned users = 0;
  DIR* processes = opendir("/proc");
  CHECK(processes != nullptr);
  while (const dirent* process = readdir(processes)) {
    if (std::atoi(process->d_name) <= 0) continue;
    const std::string folder = std::string("/proc/") + process->d_name;
    bool uses = false;
    if (std::FILE* maps = std::fopen((folder + "/maps").c_str(), "r"); maps != nullptr) {
      char line[512];
      while (std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long number = 0;
        if (std::strstr(line, "/memfd:nbc-job") != nullptr && std::sscanf(line, "%*s %*s %*s %*s %lu", &number) == 1)
          uses |= number == inode;
      }
      std::fclose(maps);
    }
    if (DIR* descriptors = opendir((folder + "/fd").c_str()); descriptors != nullptr) {
      while (const dirent* descriptor = readdir(descriptors)) {
        const std::string path = folder + "/fd/" + descriptor->d_name;
        char target[64] = {};
        struct stat status;
        if (readlink(path.c_str(), target, sizeof target - 1) > 0 && std::strstr(target, "memfd:nbc-job") != nullptr &&
            stat(path.c_str(), &status) == 0)
          uses |= status.st_ino == inode;
      }
      closedir(descriptors);
    }
    users += uses;
  }
  closedir(processes);
  return users;
}

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  if (DIR* entries = opendir(folder); entries != nullptr) {
    while (const dirent* entry = readdir(entries)) names.insert(entry->d_name);
    closedir(entries);
  }
  return names;
}

TEST(killing_all_ranks_leaves_nothing) {
  for (uint32_t attempt = 0; attempt < 6; ++attempt) {
    const std::set<std::string> before = names_in("/dev/shm");
    ino_t inode;
    {
      const JobFile job(4);
      struct stat status;
      CHECK_EQ(fstat(job.fd, &status), 0);
      inode = status.st_ino;
      const Beside<std::atomic<uint32_t>> rounds(0u);
      std::vector<Child> children;
      for (Rank rank = 0; rank < 4; ++rank) {
        children.push_back(spawn([&] {
          TestRank me(job::Segment::map(job.fd), rank, mode(true, attempt % 2 == 0));
          const Pinned out = me.exposed(4 * 100'000), in = me.plain(4 * 100'000);
          const auto plan = me.load(alltoall(rank, 4, 100'000));
          for (;;) {
            me.wait(me.start(plan, out, in));
            rounds->fetch_add(1);
          }
        }));
      }
      while (rounds->load() < 20 + attempt * 7) sched_yield();
      CHECK_EQ(users_of(inode), 5u);  // the ranks, and this process
      // Stopped first, wherever they are: otherwise the last ones see the first ones go, and end by themselves.
      for (const int signal : {SIGSTOP, SIGKILL}) {
        for (const Child& child : children) CHECK_EQ(kill(child.pid, signal), 0);
      }
      for (const Child& child : children) {
        const int ended = wait_for(child.pid);
        const std::string why = report_of(child);
        if (!WIFSIGNALED(ended) || WTERMSIG(ended) != SIGKILL)
          throw Failure{"a rank ended before it was killed: " + why};
      }
    }
    // Nobody holds the file, which has no name: so it is gone, with all memory in it.
    CHECK_EQ(users_of(inode), 0u);
    for (const std::string& name : names_in("/dev/shm"))
      CHECK(before.count(name) > 0 || name.find("nbc") == std::string::npos);
  }
}

}  // namespace

TEST_MAIN(100)
