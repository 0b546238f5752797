#include "job.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <vector>

#include "ends.h"

namespace nbc::patterns {
namespace {

// Beyond the phases themselves: devices are opened and closed, in an emulator too.
constexpr uint64_t kSlackNs = 60'000'000'000;

template <typename T>
class SharedMapping {
 public:
  explicit SharedMapping(size_t more = 0) : bytes_(sizeof(T) + 64 + more) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw FabricError{std::string("mapping shared memory: ") + std::strerror(errno)};
    value = new (at) T{};
  }
  ~SharedMapping() { munmap(value, bytes_); }
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  // What follows, from a cache line of its own on.
  std::byte* rest() const { return reinterpret_cast<std::byte*>(value) + (sizeof(T) + 63) / 64 * 64; }
  T* value;

 private:
  size_t bytes_;
};

// Children that end with their parent, and that are ended with the case.
class Children {
 public:
  ~Children() {
    for (const pid_t child : running_) kill(child, SIGKILL);
    for (const pid_t child : running_) waitpid(child, nullptr, 0);
  }
  // What the child throws goes into `error`, if nothing stands there yet.
  template <typename Function>
  void start(std::atomic<uint32_t>& failed, char* error, size_t room, Function&& function) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) throw FabricError{std::string("fork: ") + std::strerror(errno)};
    if (child > 0) {
      running_.push_back(child);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it ended before we asked
    try {
      function();
    } catch (const FabricError& thrown) {
      if (failed.fetch_add(1) == 0) std::snprintf(error, room, "%s", thrown.message.c_str());
      _exit(1);
    } catch (const std::exception& thrown) {
      if (failed.fetch_add(1) == 0) std::snprintf(error, room, "%s", thrown.what());
      _exit(1);
    }
    _exit(0);
  }
  // Takes those that have ended. False: one of them has failed, now or before.
  bool well() {
    for (size_t i = 0; i < running_.size();) {
      int status = 0;
      if (waitpid(running_[i], &status, WNOHANG) == 0) {
        ++i;
        continue;
      }
      running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) well_ = false;
    }
    return well_;
  }
  bool ended() const { return running_.empty(); }

 private:
  std::vector<pid_t> running_;
  bool well_ = true;
};

// Waits until `done`, a child fails, or the time is up; the last two are thrown.
template <typename Done>
void wait_for(Children& children, const char* error, uint64_t deadline, Done&& done) {
  while (!done()) {
    if (!children.well()) throw FabricError{error[0] != 0 ? error : "a process of the case ended unexpectedly"};
    if (now_ns() > deadline) throw FabricError{"the case did not end in time"};
    usleep(1000);
  }
}

bool all_have(const Case& c, const Control& control, uint32_t requests) {
  for (uint32_t i = 0; i < c.clients; ++i) {
    if (control.figures[i].requests.load(std::memory_order_relaxed) < requests) return false;
  }
  return true;
}

template <typename... Values>
std::string format(const char* text, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, text, values...);
  return line;
}

std::string row(const Case& c, const Control& control) {
  Histogram latency;
  SendCounters sends = control.responder_sends;
  uint64_t torn = control.responder_polls.torn;
  double per_second = 0;
  uint64_t fewest = UINT64_MAX;
  for (uint32_t i = 0; i < c.clients; ++i) {
    const ClientFigures& figures = control.figures[i];
    const uint64_t requests = figures.latency.count();
    latency.add(figures.latency);
    sends.add(figures.sends);
    torn += figures.polls.torn;
    fewest = requests < fewest ? requests : fewest;
    // Each over its own time: one that was in the middle of a request at either end of the phase is not charged for
    // that.
    if (requests > 0)
      per_second += static_cast<double>(requests) * 1e9 / static_cast<double>(figures.end_ns - figures.begin_ns);
  }
  const PollCounters& polls = control.responder_polls;
  const bool verbs = c.transport == Transport::verbs;
  const auto only = [](bool has, uint64_t value) { return has ? std::to_string(value) : std::string("null"); };
  std::string text = format(
      R"({"transport":"%s","request":"%s","response":"%s","design":"%s","clients":%u,"workers":%s,"processors":"%s",)",
      name_of(c.transport), name_of(c.request), name_of(c.response), name_of(c.design), c.clients,
      only(c.dispatched(), c.workers).c_str(), name_of(c.processors));
  text += format(R"("request_bytes":%u,"response_bytes":%u,"empty_pct":%u,"mailboxes":%s,)", c.request_bytes,
                 c.response_bytes, c.empty_pct, only(c.request == Verb::write, c.mailboxes()).c_str());
  text += format(R"("inline_bytes":%s,"signal_every":%s,)", only(verbs, c.inline_bytes).c_str(),
                 only(verbs, c.signal_every).c_str());
  text += format(R"("requests":%llu,"requests_least":%llu,"requests_per_s":%.1f,"median_us":%.3f,"p99_us":%.3f,)",
                 static_cast<unsigned long long>(latency.count()), static_cast<unsigned long long>(fewest), per_second,
                 latency.percentile(0.5), latency.percentile(0.99));
  text += format(R"("looks":%llu,"empty_looks_pct":%.2f,"torn":%llu,)", static_cast<unsigned long long>(polls.looks),
                 polls.looks == 0 ? 0.0 : 100.0 * static_cast<double>(polls.empty) / static_cast<double>(polls.looks),
                 static_cast<unsigned long long>(torn));
  text += format(R"("work_requests":%s,"inlined":%s,"signalled":%s})", only(verbs, sends.work_requests).c_str(),
                 only(verbs, sends.inlined).c_str(), only(verbs, sends.signalled).c_str());
  return text;
}

}  // namespace

std::string measure(const Case& c) {
  if (c.transport == Transport::verbs) load_verbs();
  const SharedMapping<Control> shared{shared_mailbox_bytes(c)};
  Control& control = *shared.value;
  std::byte* mailboxes = shared.rest();
  Children children;
  const auto start = [&](auto&& function) {
    children.start(control.failed, control.error, sizeof control.error, function);
  };
  const bool verbs = c.transport == Transport::verbs;
  const Places places{c};
  start([&] {
    places.take(0);
    verbs ? verbs_responder(c, places, control) : shm_responder(c, places, control, mailboxes);
  });
  for (uint32_t i = 0; i < c.clients; ++i) {
    start([&, i] {
      places.take(1 + i);
      verbs ? verbs_client(c, control, i) : shm_client(c, control, mailboxes, i);
    });
  }

  const auto until = [&](uint64_t ns, auto&& done) { wait_for(children, control.error, now_ns() + ns, done); };
  until(kSlackNs, [&] { return control.met[connected].load(std::memory_order_acquire) == c.clients + 1; });
  // Phases are announced with release: a process that reads one sees what all processes prepared.
  const auto stay = [&](Phase phase, uint32_t ms, uint32_t requests) {
    control.phase.store(phase, std::memory_order_release);
    const uint64_t end = now_ns() + uint64_t{ms} * 1'000'000;
    until(uint64_t{ms} * 1'000'000 + kSlackNs, [&] { return now_ns() >= end && all_have(c, control, requests); });
  };
  stay(Phase::warm_up, c.warmup_ms, 0);
  stay(Phase::measure, c.measure_ms, c.least_requests);
  control.phase.store(Phase::stop, std::memory_order_release);
  until(kSlackNs, [&] { return children.well() && children.ended(); });
  return row(c, control);
}

std::string apart(const std::function<std::string()>& function) {
  struct Answer {
    std::atomic<uint32_t> failed{0};
    char error[512] = {};
    char text[512] = {};
  };
  const SharedMapping<Answer> shared;
  Answer& answer = *shared.value;
  Children children;
  children.start(answer.failed, answer.error, sizeof answer.error,
                 [&] { std::snprintf(answer.text, sizeof answer.text, "%s", function().c_str()); });
  wait_for(children, answer.error, now_ns() + kSlackNs, [&] { return children.well() && children.ended(); });
  return answer.text;
}

}  // namespace nbc::patterns
