// What happens in an engine, event by event, for the option `trace`. src/trace/events.ts has the same layout.
//
// Threads: the calling thread alone writes the list of calls. The owner of the engine writes all others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <unordered_map>
#include <vector>

#include "libof/request.h"

namespace nbc {

class Trace {
 public:
  enum class Kind : uint32_t {
    call,       // duration, which call, how many without a pause between them, number of the operation that it started
    operation,  // number, name
    round,      // number of the operation, of the round from 1 on
    end,        // number of the operation, error
    driving,    // duration: the progress thread had the engine
    message,    // + libof::State: id while it lives, peer, context, tag, sequence, bytes
  };
  enum class Call : uint32_t { start, test, wait, look, startall };
  // Times are microseconds of CLOCK_MONOTONIC; what has a duration has the time of its beginning.
  struct Event {
    double kind;
    double time;
    double words[6];
  };
  struct Lists {
    std::vector<Event> calls;
    std::vector<Event> events;
    std::vector<std::string> names;  // of operations: events have their places in this list
    uint64_t left_out = 0;           // events for which there was no room
  };

  // `most`: events of each list.
  explicit Trace(size_t most);

  static double now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
  }

  // By the calling thread, at the end of a call. A test right behind another one makes that one longer.
  void call(Call which, double began, uint64_t operation);

  // By the owner of the engine.
  void operation(uint64_t number, const std::string& name);
  void round(uint64_t number, uint32_t round);
  void end(uint64_t number, Error error);
  void driving(double began);
  static void message(void* trace, const libof::Request& request, libof::State state);  // a LibOF::Trace

  // By the calling thread, as the owner of the engine.
  const Lists& lists();

 private:
  void add(const Event& event);

  const size_t most_;
  Lists lists_;
  uint64_t calls_left_out_ = 0;  // of the calling thread; lists() adds it
  std::unordered_map<std::string, uint32_t> names_;
};

}  // namespace nbc
