// Error values of the core. They are data, not exceptions: the values are also what a request's slot in the state table
// holds. Sentences about them are made in TypeScript (src/native-errors.ts).
#pragma once
#include <cstdint>
#include <string>

namespace nbc {

enum class Error : uint32_t {
  none = 0,
  // 1 is "done" in the state table, so errors start at 2. code_of() in addon/errors.cc names them.
  truncated = 2,           // a message was longer than the buffer posted for it
  closed = 3,              // the world was closed while the request was pending
  peer_closed = 4,         // the peer closed its world while the request still depended on it
  mismatch = 5,            // the peer runs with other settings
  system = 6,              // a system call on the data path failed
  unreachable = 7,         // the connection to the peer broke: it does not answer, or a network card gave up
  memory = 8,              // memory could not be registered with the network card
  abandoned = 9,           // the peer gave this message up, because another message of its operation had failed
  too_many_requests = 10,  // more messages pending than can be told apart
  operator_failed = 11,    // the function of an operator of the user's threw
  calls_differ = 12,       // two ranks of the communicator have called different collectives
  revoked = 13,            // a rank has revoked the communicator
  counted_lost = 14,       // the peer has given this rank up, because it did not answer
  descriptors = 15,        // this rank has no descriptor for a connection to the peer
};
constexpr uint32_t kFirstError = static_cast<uint32_t>(Error::truncated);
constexpr uint32_t kLastError = static_cast<uint32_t>(Error::descriptors);

// Packed by TypeScript (src/signatures.ts): what the ranks that call a collective together have to agree in. Native
// code compares it, and knows nothing of what is in it but the last bit, which it sets itself. 0: nothing is compared.
using Signature = uint32_t;
// The call is an Init of a persistent collective.
constexpr Signature kPersistentCall = 1u << 31;
// In a signature with a size, a bit of the hash of that. Hashes may be equal where sizes are not. The signature of a
// call that is found to have another size, in a message, is told with this bit inverted.
constexpr Signature kAnotherSize = 1u << 30;

// What one rank is known to have called.
struct KnownCall {
  Signature signature = 0;
  uint32_t size_hash = 0;  // another hash of a size in which all ranks agree; 0: there is none, or it is not known
  bool waits = false;      // it says that it has waited there for a while

  // The signature of another rank's call that differs from this one. 0: as far as is known, they are equal.
  Signature other_than(const KnownCall& theirs) const {
    if (signature == 0 || theirs.signature == 0) return 0;
    if (signature != theirs.signature) return theirs.signature;
    const bool sizes_differ = size_hash != 0 && theirs.size_hash != 0 && size_hash != theirs.size_hash;
    return sizes_differ ? theirs.signature ^ kAnotherSize : 0;
  }
};

// Two calls of one communicator that should be the same and are not: the first that some rank has found. When it is
// closed, also a call that the second rank has not made (its call is 0), or whose message it has not received (the
// calls are equal); where the first rank waits in such a call, that is told. Or no calls, and both are 0: the first
// rank has revoked the communicator. Each that is told ends it.
struct Mismatch {
  uint64_t context = 0;  // of the messages
  uint32_t tag = 0;
  uint32_t ranks[2] = {0, 0};  // in the world
  Signature calls[2] = {0, 0};
  uint64_t bytes = kUnknownBytes;  // of the first of the two calls
  static constexpr uint64_t kUnknownBytes = UINT64_MAX;
  bool revoked() const { return calls[0] == 0 && calls[1] == 0; }
  Error error() const { return revoked() ? Error::revoked : Error::calls_differ; }
};

// What is known about a request that failed.
struct RequestFailure {
  Error error = Error::none;
  uint32_t peer = 0;        // world rank of the other side; revoked: of the one that has called it
  uint64_t bytes_here = 0;  // truncated: the size of the message on this rank, and on the peer
  uint64_t bytes_there = 0;
  // mismatch, unreachable, descriptors, memory, system: the reason that the fabric gives; operator_failed: that of the
  // function's thread
  std::string detail;
  // abandoned: where the failure began, as a world rank, and as what; none: the peer did not say.
  uint32_t origin = 0;
  Error cause = Error::none;
  bool buffers_in_use = false;  // a peer that does not answer may still read or write the request's buffers
  Mismatch mismatch;            // calls_differ
};

}  // namespace nbc
