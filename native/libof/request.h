// The state machine of one message, in the order in which it is lived through (paper section III, shared with the table
// in docs/architecture/protocol.md), and the lists that requests wait in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/fabric.h"
#include "libof/mailbox.h"

namespace nbc::libof {

enum class State : uint8_t {
  eager_send_init,     // waits for a slot in the peer's mailbox
  eager_sending,       // written; waits for local completion
  recv_waiting_eager,  // waits for the message in our mailbox
  rndv_recv_init,      // waits for a slot in the sender's RTR array
  recv_sending_rtr,    // waits for two events: the RTR's local completion and the data's immediate value
  send_waiting_rtr,    // waits for the receiver's RTR
  send_sending_data,   // data on its way; waits for local completion
  done,
};

// What a request completes: an operation counts its outstanding requests here.
struct RequestOwner {
  int32_t outstanding = 0;
  uint32_t waiting_rtr = 0;  // of these, sends in send_waiting_rtr: what wait-on-send and startall wait for
  Error error = Error::none;
  // About the first error, for its text.
  Rank error_peer = 0;
  uint64_t error_expected = 0;
  uint64_t error_got = 0;
  uint64_t received = 0;    // bytes of the last message that it received
  bool combined = false;    // a message has been combined where irecv() was asked to; its owner resets it
  Signature signature = 0;  // of the call that its messages belong to
  bool sized = false;       // the call has a size, in which all ranks agree
  // Where its failure began: what a peer has told, or set before an operation is cancelled whose failure travels along
  // its messages.
  Poison poison = 0;
  // The two buffers of the user that its messages come from or go to, if they do; others are in exposed memory.
  const Pinned* pins = nullptr;
  void* noted = nullptr;  // the observer's own: see Observer
  RequestOwner* next_ready = nullptr;
  bool is_ready = false;   // is in LibOF's list of ready owners
  bool cancelled = false;  // see LibOF::cancel()
  // A peer that does not answer may still read or write its buffers: they must stay allocated, and not be used again.
  bool buffers_in_use = false;
};

// Which messages a receive takes: those that are as long as its buffer, or shorter ones, too.
enum class Length : uint8_t { exact, at_most };

// What an observer keeps of a message.
struct MessageInfo {
  MessageKey key;
  uint64_t bytes = 0;
  Rank peer = 0;
  uint32_t id = 0;  // of its request: index in the pool
};

struct Request : MessageInfo {
  Request* previous = nullptr;
  Request* next = nullptr;
  RequestOwner* owner = nullptr;
  std::byte* buffer = nullptr;  // of a send: only read
  uint32_t generation = 0;      // tells a late immediate from one for this use of the entry
  State state = State::done;
  bool announced = false;  // an RTS was written for this send
  bool rtr_asked = false;  // an RTR was queued or written for this receive
  bool rtr_written = false;
  bool rtr_local = false;    // first event of recv_sending_rtr: the RTR's local completion
  bool data_here = false;    // second event: the data's immediate value (or an eager message instead)
  bool given_up = false;     // its owner was cancelled
  bool discard = false;      // a receive that was given up: what comes for it is dropped
  bool exposes = false;      // the peer was told of `exposed`
  bool owns_buffer = false;  // `buffer` is a copy of ours
  Length length = Length::exact;
  Error error = Error::none;  // what the second event said
  uint64_t got = 0;           // bytes that arrived
  Poison poison = 0;          // of a receive that was given up: tells its sender; else what the peer has told
  ExposedBuffer exposed;      // rtr_written: where the peer may write
  void* noted = nullptr;      // the observer's own; null when a request begins
  bool combines = false;      // and the fabric combines what comes there
  Combining combining;        // kernel is null: nothing is to be combined

  bool takes(uint64_t message) const { return length == Length::exact ? message == bytes : message <= bytes; }
};

// A first-in first-out list with removal in the middle.
template <typename Node>
struct List {
  Node* head = nullptr;
  Node* tail = nullptr;
  bool empty() const { return head == nullptr; }
  void push(Node* node) {
    node->previous = tail;
    node->next = nullptr;
    (tail != nullptr ? tail->next : head) = node;
    tail = node;
  }
  void remove(Node* node) {
    (node->previous != nullptr ? node->previous->next : head) = node->next;
    (node->next != nullptr ? node->next->previous : tail) = node->previous;
  }
};

// Lists by key, in buckets. With more than kLoad nodes per bucket, the number of buckets doubles. So a search compares
// a few keys on average, however many nodes there are and in whatever order they come.
template <typename Node>
struct KeyedLists {
  static constexpr uint32_t kFewest = 16;
  static constexpr uint32_t kLoad = 4;
  // Apart, and made when first needed: most lists are empty most of the time, and to see that costs no cache line of
  // its own.
  std::unique_ptr<List<Node>[]> buckets;
  uint32_t count = 0;
  uint32_t mask = 0;                 // number of buckets (a power of two) - 1
  mutable uint64_t comparisons = 0;  // for tests

  // Neighbours stay neighbours in the small case, and all bits count in the large one.
  size_t bucket_of(const MessageKey& key) const {
    uint64_t mixed = (key.context << 32 ^ key.context >> 32) + key.tag + uint64_t{key.sequence} * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 32;
    return static_cast<size_t>(mixed) & mask;
  }
  void push(Node* node) {
    if (buckets == nullptr) {
      buckets = std::make_unique<List<Node>[]>(kFewest);
      mask = kFewest - 1;
    } else if (count / kLoad > mask) {
      grow();
    }
    buckets[bucket_of(node->key)].push(node);
    ++count;
  }
  void remove(Node* node) {
    buckets[bucket_of(node->key)].remove(node);
    --count;
  }
  Node* find(const MessageKey& key) const {
    if (count == 0) return nullptr;
    for (Node* node = buckets[bucket_of(key)].head; node != nullptr; node = node->next) {
      ++comparisons;
      if (node->key == key) return node;
    }
    return nullptr;
  }
  template <typename Visit>
  void each(Visit&& visit) {
    if (count == 0) return;
    const uint32_t last = mask;
    for (uint32_t b = 0; b <= last; ++b) {
      for (Node *node = buckets[b].head, *next = nullptr; node != nullptr; node = next) {
        next = node->next;
        visit(node);
      }
    }
  }

 private:
  // Nodes with equal keys keep their order: they come from one bucket.
  void grow() {
    const uint32_t old_mask = mask;
    const auto old = std::move(buckets);
    mask = mask * 2 + 1;
    buckets = std::make_unique<List<Node>[]>(mask + 1);
    for (uint32_t b = 0; b <= old_mask; ++b) {
      for (Node *node = old[b].head, *next = nullptr; node != nullptr; node = next) {
        next = node->next;
        buckets[bucket_of(node->key)].push(node);
      }
    }
  }
};

}  // namespace nbc::libof
