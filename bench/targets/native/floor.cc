// What does a machine take for two things that figures of bench:targets contain, whatever library is measured? Prints
// medians in microseconds, as JSON. Arguments: repetitions, and the folder of a gate (peers/gate.h).
//
// copies: the copies, and sums of float64, that an operation on blocks of 1 MiB consists of. Two threads share them
//         equally, on a processor each. As in nbcbench both have written their send buffers just before.
// gate:   sixteen threads, or processes, sleep at a start gate. From its opening until the last one has passed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "peers/gate.h"

namespace {

constexpr size_t kBlock = 1 << 20;
constexpr int kSleepers = 16;

double now() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// When each of some threads or processes began and ended, by repetition; all can write it.
class Times {
 public:
  Times(int parties, int repetitions) : parties_(parties), repetitions_(repetitions) {
    void* shared = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    at_ = static_cast<double*>(shared);
  }
  ~Times() { munmap(at_, bytes()); }
  double& began(int party, int repetition) { return at_[2 * (party * repetitions_ + repetition)]; }
  double& ended(int party, int repetition) { return at_[2 * (party * repetitions_ + repetition) + 1]; }
  // From the first beginning to the last end.
  double typical() {
    std::vector<double> lasted;
    for (int i = 0; i < repetitions_; ++i) {
      double first = began(0, i), last = ended(0, i);
      for (int party = 1; party < parties_; ++party) {
        first = std::min(first, began(party, i));
        last = std::max(last, ended(party, i));
      }
      lasted.push_back(last - first);
    }
    return median(std::move(lasted));
  }

 private:
  size_t bytes() const { return 2 * sizeof(double) * static_cast<size_t>(parties_ * repetitions_); }
  int parties_, repetitions_;
  double* at_;
};

// --- copies ----------------------------------------------------------------------------------------------------------

struct Copy {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
  const std::byte* other = nullptr;  // a sum with this instead
  bool after_both = false;           // after what both threads have done before
};

#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default"), optimize("O3")))
#endif
void add(double* to, const double* one, const double* other, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = one[i] + other[i];
}

void carry_out(const Copy& copy) {
  if (copy.other == nullptr) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  } else {
    const auto words = [](const std::byte* at) { return reinterpret_cast<const double*>(at); };
    add(reinterpret_cast<double*>(copy.to), words(copy.from), words(copy.other), copy.bytes / sizeof(double));
  }
}

struct Buffers {
  std::vector<std::byte> sends = std::vector<std::byte>(2 * kBlock);
  std::vector<std::byte> receives = std::vector<std::byte>(2 * kBlock);
};

// Two threads spin until both are there.
class Meeting {
 public:
  void pass(int& passed) {
    ++passed;
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    while (arrived_.load(std::memory_order_acquire) < 2 * passed) {
    }
  }

 private:
  std::atomic<int> arrived_{0};
};

using Shares = std::vector<Copy>[2];

double microseconds_of(Buffers (&ranks)[2], const Shares& shares, int repetitions) {
  Times times(2, repetitions);
  Meeting meeting;
  const auto work = [&](int party) {
    cpu_set_t processor;
    CPU_ZERO(&processor);
    CPU_SET(party, &processor);
    sched_setaffinity(0, sizeof processor, &processor);  // where that is refused, wherever it is
    int passed = 0;
    for (int i = 0; i < repetitions; ++i) {
      std::fill(ranks[party].sends.begin(), ranks[party].sends.end(), static_cast<std::byte>(i));
      meeting.pass(passed);
      times.began(party, i) = now();
      for (const Copy& copy : shares[party]) {
        if (copy.after_both) meeting.pass(passed);
        carry_out(copy);
      }
      times.ended(party, i) = now();
      meeting.pass(passed);
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  return times.typical();
}

void print_copies(int repetitions) {
  constexpr size_t kHalf = kBlock / 2;
  Buffers ranks[2];
  const auto block = [&](int to, size_t there, int from, size_t here) {
    return Copy{ranks[to].receives.data() + there * kBlock, ranks[from].sends.data() + here * kBlock, kBlock};
  };
  const auto half = [&](size_t which) {
    const Copy whole = block(1, 0, 0, 0);
    return Copy{whole.to + which * kHalf, whole.from + which * kHalf, kHalf};
  };
  // Of the sum of both contributions, by rank `to` into its own memory.
  const auto sum = [&](int to, size_t which) {
    const auto at = [&](int rank) { return ranks[rank].sends.data() + which * kHalf; };
    return Copy{ranks[to].receives.data() + which * kHalf, at(to), kHalf, at(1 - to)};
  };
  const auto fetch = [&](int to, size_t which) {
    const auto at = [&](int rank) { return ranks[rank].receives.data() + which * kHalf; };
    return Copy{at(to), at(1 - to), kHalf, nullptr, true};
  };
  const struct {
    const char* name;
    Shares shares;
  } operations[] = {
      {"ibcast", {{half(0)}, {half(1)}}},
      {"igather", {{block(0, 0, 0, 0)}, {block(0, 1, 1, 0)}}},
      {"iscatter", {{block(0, 0, 0, 0)}, {block(1, 0, 0, 1)}}},
      {"iallgather", {{block(0, 0, 0, 0), block(0, 1, 1, 0)}, {block(1, 0, 0, 0), block(1, 1, 1, 0)}}},
      {"ialltoall", {{block(0, 0, 0, 0), block(0, 1, 1, 0)}, {block(1, 0, 0, 1), block(1, 1, 1, 1)}}},
      {"ireduce", {{sum(0, 0)}, {sum(0, 1)}}},
      {"iallreduce", {{sum(0, 0), fetch(0, 1)}, {sum(1, 1), fetch(1, 0)}}},
  };
  std::printf("\"copies\": {");
  for (const auto& operation : operations) {
    std::printf("%s\"%s\": %.1f", &operation == operations ? "" : ", ", operation.name,
                microseconds_of(ranks, operation.shares, repetitions));
  }
  std::printf("}");
}

// --- gate ------------------------------------------------------------------------------------------------------------

void pass_gates(const char* folder, int party, int repetitions, Times& times) {
  gate start{};
  if (!gate_open(&start, folder, party, kSleepers)) std::abort();
  for (int i = 0; i < repetitions; ++i) {
    times.began(party, i) = gate_pass(&start);
    times.ended(party, i) = now();
  }
}

double microseconds_of_threads(const char* folder, int repetitions) {
  Times times(kSleepers, repetitions);
  std::vector<std::thread> all;
  for (int party = 0; party < kSleepers; ++party)
    all.emplace_back([&, party] { pass_gates(folder, party, repetitions, times); });
  for (std::thread& one : all) one.join();
  return times.typical();
}

double microseconds_of_processes(const char* folder, int repetitions) {
  Times times(kSleepers, repetitions);
  for (int party = 0; party < kSleepers; ++party) {
    if (fork() != 0) continue;
    pass_gates(folder, party, repetitions, times);
    _exit(0);
  }
  while (wait(nullptr) > 0) {
  }
  return times.typical();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int repetitions = std::max(1, std::atoi(argv[1]));
  const char* folder = argv[2];
  std::printf("{");
  print_copies(repetitions);
  const double processes = microseconds_of_processes(folder, repetitions);
  std::printf(", \"gate\": {\"processes\": %.1f, \"threads\": %.1f}}\n", processes,
              microseconds_of_threads(folder, repetitions));
}
