// What a rank does and waits for, for the reports of a job that is stuck.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "counters.h"
#include "engine/meter.h"

namespace nbc {

struct Status {
  enum class Caller : uint8_t { program, waits, awaits };  // in the program, in wait(), or in the event loop
  struct Message {
    uint32_t peer;  // rank of the world
    uint64_t bytes;
    uint32_t tag;
    const char* state;
  };
  struct Operation {
    std::string title;  // "ibcast (binomial), collective 3, round 1 of 2"
    uint32_t slot = 0;
    int32_t outstanding = 0;   // what it waits for: messages, and its local work
    bool function = false;     // that of its operator is one of them
    int64_t milliseconds = 0;  // since its start
    std::vector<Message> messages;
  };
  static constexpr size_t kMost = 16;  // operations, and messages of each, that are described

  Caller caller = Caller::program;
  uint64_t pending = 0;               // operations
  std::vector<Operation> operations;  // the oldest first
  std::vector<uint32_t> peers;        // of all messages that are described: ascending
  uint64_t steps = 0;                 // rounds and operations that this rank has started so far
  std::vector<std::pair<Counter, double>> counters;
  Metered metered;

  // Several lines, of which the last ends with a newline.
  std::string text() const;
  // The members of an object of JSON, on one line, which nbcrun reads (src/cli/nbcrun/report.ts).
  std::string members_for_nbcrun() const;
  // The same, which nbctop reads (src/cli/nbctop/sample.ts).
  std::string members_for_nbctop() const;
};

}  // namespace nbc
