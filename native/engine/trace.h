// What happens in an engine, event by event, for the option `trace`. src/trace/events.ts has the same layout.
//
// An operation of 8 bytes takes a microsecond and has eight events, so an event must cost some nanoseconds:
// - A record is short, and lies in memory that was touched before.
// - What happens in one go shares a reading of the clock: what a call starts has the time at which the call began, and
//   what follows from a message has the time at which it came. Only what a message's arrow ends at has its own.
//
// Threads: the calling thread alone writes the list of calls, and has the clock's anchors. The owner of the engine
// writes all others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/ticks.h"
#include "libof/request.h"

namespace nbc {

class Trace {
 public:
  enum class Kind : uint32_t {
    call,       // duration, which call, how many without a pause between them, number of the operation that it started
    operation,  // number, name, the round that begins with it or 0
    round,      // number of the operation, of the round from 1 on
    end,        // number of the operation, error
    driving,    // duration: the progress thread had the engine
    at_once,    // a message without a request: its first state, peer, context, tag, sequence, bytes
    message,    // + libof::State: id while it lives, peer, context, tag, sequence, bytes
  };
  enum class Call : uint32_t { start, test, wait, look, startall };
  // As read. Times are microseconds of CLOCK_MONOTONIC; what has a duration has the time of its beginning.
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

  // `most`: events of each list. Takes the memory of all of them.
  explicit Trace(size_t most);

  uint64_t ticks() const { return clock_.ticks(); }

  // By the calling thread, at the end of a call. A test right behind another one makes that one longer.
  void call(Call which, uint64_t began, uint64_t ended, uint64_t operation);

  // By the owner of the engine. What is noted from now on happens at this time, until a message comes or time_passes().
  void happens_at(uint64_t ticks) { stamp_ = ticks; }
  void time_passes() { stamp_ = 0; }
  // Of the last event, if no time has passed since, or now.
  uint64_t stamp() { return stamp_ != 0 ? stamp_ : stamp_ = ticks(); }

  // By the owner of the engine.
  static constexpr uint32_t kSendName = 0, kReceiveName = 1;  // of single messages
  uint32_t number_of(const std::string& name);
  void operation(uint64_t number, uint32_t name);
  void round(uint64_t number, uint32_t round);
  void end(uint64_t number, Error error);
  void driving(uint64_t began);
  void moved(const libof::Request& request, libof::State state);
  void at_once(const libof::MessageKey& key, Rank peer, size_t bytes, libof::State first);

  // By the calling thread, as the owner of the engine.
  Lists read();

 private:
  // Of a message, `head` has its state, the number of its context, and the bits of its bytes from 32 on; `last` has its
  // sequence and the rest of its bytes. Of others, `head` may have a call, and `last` a duration.
  struct Record {
    uint64_t time;  // ticks
    uint32_t head;  // the kind, and see above
    uint32_t words[3];
    uint64_t last;
  };
  static_assert(sizeof(Record) == 32);

  class Records {
   public:
    explicit Records(size_t most);
    ~Records();
    Records(const Records&) = delete;
    Records& operator=(const Records&) = delete;
    // The next one; one that nobody reads if there is no room.
    Record& add() {
      if (next_ == end_) {
        ++left_out_;
        return scrap_;
      }
      // A store that misses the caches delays all that follow it, also the message that a peer waits for.
      __builtin_prefetch(next_ + kAhead, 1);
      return *next_++;
    }
    const Record* begin() const { return first_; }
    const Record* end() const { return next_; }
    Record* last() { return next_ == first_ ? nullptr : next_ - 1; }
    uint64_t left_out() const { return left_out_; }
    void leave_out() { ++left_out_; }

   private:
    static constexpr size_t kAhead = 16;
    size_t bytes_;
    Record* first_;
    Record* next_;
    Record* end_;
    uint64_t left_out_ = 0;
    Record scrap_{};
  };

  void message(uint32_t head, uint64_t time, uint32_t id, Rank peer, const libof::MessageKey& key, uint64_t bytes);
  uint32_t number_of(uint64_t context);
  Event read(const Record& record) const;

  TickClock clock_;
  uint64_t pause_;
  Records calls_;
  Records events_;
  uint64_t stamp_ = 0;  // 0: none
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> numbers_;  // of names
  std::vector<uint64_t> contexts_;
  std::unordered_map<uint64_t, uint32_t> context_numbers_;
  uint64_t last_context_ = 0;  // and its number: messages of a context come in series
  uint32_t last_context_number_ = 0;
};

}  // namespace nbc
