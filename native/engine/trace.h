// What happens in an engine, event by event, for the option `trace`. src/trace/events.ts has the same layout of events.
//
// An operation of 8 bytes takes a microsecond and has ten events, so an event must cost some nanoseconds:
// - Events that belong together are one record, to which the later ones add their times: an operation has its first
//   round, the call that has started it, the call that has waited for it, and its end; a message, unless it needs a
//   rendezvous, its begin and its end.
// - What follows from something else is not written. Where the first round of a collective is an *exchange*, a send, a
//   receive or one of both, its plan tells what they are. So the record of the operation adds when the message came.
// - A record lies in memory that was touched before, and takes few instructions: the program, V8 and the engine take
//   turns in the processor's instruction cache, and what comes once in a turn is paid for by its lines of code.
// - What happens in one go shares a reading of the clock: what a call starts has the time at which the call began, and
//   what follows from a message has the time at which it came. Only what a message's arrow ends at has its own.
// - What can be written while a message is on its way is written then.
//
// Threads: the calling thread alone writes the list of calls and the durations of calls, and has the clock's anchors.
// The owner of the engine writes all others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/plan.h"
#include "engine/ticks.h"
#include "libof/libof.h"

namespace nbc {

class Trace final : public libof::Observer {
 public:
  enum class Kind : uint32_t {
    call,       // duration, which call, how many without a pause between them, number of the operation that it started
    operation,  // number, name
    round,      // number of the operation, of the round from 1 on
    end,        // number of the operation, error
    driving,    // duration: the progress thread had the engine
    message,    // + libof::State: id while it lives or kNoId, peer, context, tag, sequence, bytes
  };
  enum class Call : uint32_t { start, test, wait, look, startall };
  // Of a message whose states follow each other in the list.
  static constexpr double kNoId = -1;
  // As read. Times are microseconds of CLOCK_MONOTONIC; what has a duration has the time of its beginning.
  struct Event {
    double kind;
    double time;
    double words[6];
  };
  struct Lists {
    std::vector<Event> calls;        // in the order of their times
    std::vector<Event> events;       // of each operation, and of each message, in the order in which they happened
    std::vector<std::string> names;  // of operations: events have their places in this list
    uint64_t left_out = 0;           // records for which there was no room
  };
  struct OperationWords {
    uint64_t lasted;  // or kGoesOn
    uint64_t waited;  // time from its beginning to the wait for it, or 0
    uint64_t came;    // time to the message of its exchange, or kGoesOn
    uint64_t context;
    uint32_t tag, repetition;
    uint32_t source;
    uint32_t call;  // duration of its start, or 0. The calling thread writes it, the owner of the engine all others
  };
  struct alignas(64) Record {
    uint64_t time;  // ticks
    uint32_t head;  // its kind, and a call, an error or a state
    uint32_t number;
    union {
      uint64_t words[6];
      OperationWords operation;
    };
  };
  static_assert(sizeof(Record) == 64);

  // `most`: records of each list. Takes the memory of all of them.
  explicit Trace(size_t most);

  uint64_t ticks() const { return clock_.ticks(); }

  // By the calling thread, when a call begins that may last: the record, to which ended() adds the end.
  Record& call(Call which, uint64_t began) {
    Record& record = calls_.add();
    record.time = began;
    record.head = head_of(Entry::call, which);
    record.number = 1;
    return record;
  }
  void ended(Record& call, uint64_t ended) {
    clock_.anchor_if_due(ended);
    call.words[0] = ended - call.time;
  }
  // By the calling thread, at the end of a call that has started no operation. A test right behind another one makes
  // that one longer.
  void call(Call which, uint64_t began, uint64_t ended);
  // By the calling thread, at the end of a call that has started this operation; null: it has no record.
  void started(Record* operation, uint64_t began, uint64_t ended);

  // By the calling thread, as the owner of the engine: a call waits for this operation alone. False: it has to be in a
  // record of its own.
  bool waits(Record* operation, uint64_t began) {
    if (operation == nullptr || operation->operation.waited != 0) return false;
    operation->operation.waited = began - operation->time;
    return true;
  }
  // The call ends. True: with the operation, so that nothing is to be added. False: without it, as if it had not been.
  bool waited(Record& operation) {
    if (operation.operation.lasted != kGoesOn) return true;
    operation.operation.waited = 0;
    return false;
  }

  // By the owner of the engine. What is noted from now on happens at this time, until a message comes or time_passes().
  void happens_at(uint64_t ticks) { stamp_ = ticks; }
  void time_passes() { stamp_ = 0; }
  // Of the last event, if no time has passed since, or now.
  uint64_t stamp() {
    if (stamp_ == 0) stamp_ = ticks();
    return stamp_;
  }

  // By the owner of the engine.
  static constexpr uint32_t kSends = 0, kReceives = 2;  // sources of single messages
  // `plan`: whose first round may be an exchange; null: none is. A new source with each call, as long as there is room.
  uint32_t source_of(const std::string& name, const Plan* plan);
  // `context`, `tag` and `repetition` give its messages their keys. Null: there is no room.
  Record* operation(uint64_t number, uint32_t source, uint64_t context, uint32_t tag, uint32_t repetition) {
    Record* const record = events_.next();
    if (record == nullptr) return nullptr;
    record->time = stamp();
    record->head = head_of(Entry::operation);
    record->number = static_cast<uint32_t>(number);
    // One by one: put together elsewhere and copied as one, they took 1 % of an operation of 8 bytes more.
    OperationWords& words = record->operation;
    words.lasted = words.came = kGoesOn;
    words.waited = 0;
    words.context = context;
    words.tag = tag;
    words.repetition = repetition;
    words.source = source;
    words.call = 0;
    return record;
  }
  // For the operation's `noted`: its first round is an exchange, and the record has it. Null: it is none.
  static Record* exchange(Record* operation) {
    if (operation == nullptr || (operation->operation.source & kExchange) == 0) return nullptr;
    operation->head |= kExchanges;
    return operation;
  }
  void round(Record* operation, uint32_t round) {
    if (operation == nullptr) return;
    if (round == 1) {
      operation->head |= kHasRounds;  // of which the first begins with its operation
    } else {
      add(stamp(), head_of(Entry::round), operation->number).words[0] = round;
    }
  }
  void end(Record* operation, Error error) {
    if (operation == nullptr) return;
    operation->head |= static_cast<uint32_t>(error) << kWhich;
    operation->operation.lasted = stamp() - operation->time;
  }
  void driving(uint64_t began) { add(began, head_of(Entry::driving)).words[0] = ticks() - began; }
  void moved(libof::Request& request, libof::State state) override;
  void at_once(const libof::RequestOwner& owner, const libof::MessageInfo& message, libof::State first) override;

  // By the calling thread, as the owner of the engine.
  Lists read();

 private:
  // Kinds of records. The number, and words, are:
  enum class Entry : uint32_t {
    call,       // how many; its duration
    operation,  // number; OperationWords
    round,      // number of the operation; of the round
    driving,    // its duration
    at_once,    // a message without a request, with its first state: 0; MessageInfo
    received,   // one that an eager message completes: how long it took, or kWaits; MessageInfo
    message,    // a state of one: 0; MessageInfo
  };

  // Bits of a record's head.
  static constexpr uint32_t kEntry = (1 << 3) - 1;
  static constexpr uint32_t kWhich = 3, kWhichMask = (1 << 5) - 1;
  static constexpr uint32_t kHasRounds = 1 << 8;
  static constexpr uint32_t kExchanges = 1 << 9;                            // with its first round, apart from:
  static constexpr uint32_t kSendApart = 1 << 10, kReceiveApart = 1 << 11;  // its message has records of its own
  static constexpr uint32_t kCameBefore = 1 << 12;                          // the message was there before the receive
  static constexpr uint64_t kGoesOn = UINT64_MAX;
  static constexpr uint32_t kWaits = UINT32_MAX;
  static constexpr uint32_t kIdByOperation = 1u << 31;  // no request has so large an id

  static constexpr uint32_t head_of(Entry entry, uint32_t which = 0) {
    return static_cast<uint32_t>(entry) | which << kWhich;
  }
  template <typename Which>
  static constexpr uint32_t head_of(Entry entry, Which which) {
    return head_of(entry, static_cast<uint32_t>(which));
  }

  // What the messages of an exchange have, but for their keys.
  struct Source {
    uint32_t name;
    std::optional<Transfer> send, receive;
  };
  // A source is its place in the list, and in the last bit whether its first round is an exchange.
  static constexpr uint32_t kExchange = 1;

  class Records {
   public:
    explicit Records(size_t most);
    ~Records();
    Records(const Records&) = delete;
    Records& operator=(const Records&) = delete;
    bool has_room() const { return next_ != end_; }
    // Null: there is no room.
    Record* next() {
      if (next_ == end_) [[unlikely]] {
        ++left_out_;
        return nullptr;
      }
      // A store that misses the caches delays all that follow it, also the message that a peer waits for.
      __builtin_prefetch(next_ + kAhead, 1);
      return next_++;
    }
    // The next one; one that nobody reads if there is no room.
    Record& add() {
      Record* const record = next();
      return record != nullptr ? *record : scrap_;
    }
    const Record* begin() const { return first_; }
    const Record* end() const { return next_; }
    Record* last() { return next_ == first_ ? nullptr : next_ - 1; }
    uint64_t left_out() const { return left_out_; }

   private:
    static constexpr size_t kAhead = 16;
    size_t bytes_;
    Record* first_;
    Record* next_;
    Record* end_;
    uint64_t left_out_ = 0;
    Record scrap_{};
  };

  Record& add(uint64_t time, uint32_t head, uint32_t number = 0) {
    Record& record = events_.add();
    record.time = time;
    record.head = head;
    record.number = number;
    return record;
  }
  Record& message(uint64_t time, uint32_t head, uint32_t number, const libof::MessageInfo& message) {
    Record& record = add(time, head, number);
    write(record, message);
    return record;
  }
  // Word by word: what was written so a moment ago is not read together without a stall.
  static void write(Record& record, const libof::MessageInfo& message) {
    record.words[0] = message.key.context;
    record.words[1] = uint64_t{message.key.sequence} << 32 | message.key.tag;
    record.words[2] = message.bytes;
    record.words[3] = uint64_t{message.id} << 32 | message.peer;
  }
  [[gnu::cold]] void leaves_exchange(const libof::Request& request, libof::State state);
  double after(const Record& record, uint64_t ticks) const { return clock_.microseconds(record.time + ticks); }
  void read_call(const Record& record, Lists& lists) const;
  void read_operation(const Record& record, Lists& lists, std::vector<Event>& ends) const;
  void read_exchange(const Record& record, Lists& lists) const;
  void read_message(const Record& record, uint64_t lasted, Lists& lists) const;
  uint32_t number_of(const std::string& name);

  TickClock clock_;
  uint64_t pause_;
  Records calls_;
  Records events_;
  uint64_t stamp_ = 0;  // 0: none
  std::vector<Source> sources_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> numbers_;  // of names
};

}  // namespace nbc
