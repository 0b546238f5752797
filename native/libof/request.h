// The state machine of one message, in the order in which it is lived through (paper section III, shared with the table
// in docs/architecture/protocol.md), and the lists that requests wait in.
#pragma once
#include <array>
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
  // The two buffers of the user that its messages come from or go to, if they do; others are in exposed memory.
  const Pinned* pins = nullptr;
  RequestOwner* next_ready = nullptr;
  bool is_ready = false;  // is in LibOF's list of ready owners
};

struct Request {
  MessageKey key;
  Request* previous = nullptr;
  Request* next = nullptr;
  RequestOwner* owner = nullptr;
  std::byte* buffer = nullptr;  // of a send: only read
  size_t bytes = 0;
  Rank peer = 0;
  uint32_t id = 0;          // index in the pool
  uint32_t generation = 0;  // tells a late immediate from one for this use of the entry
  State state = State::done;
  bool announced = false;  // an RTS was written for this send
  bool rtr_asked = false;  // an RTR was queued or written for this receive
  bool rtr_written = false;
  bool rtr_local = false;     // first event of recv_sending_rtr: the RTR's local completion
  bool data_here = false;     // second event: the data's immediate value (or an eager message instead)
  Error error = Error::none;  // what the second event said
  uint64_t got = 0;           // bytes that arrived
  ExposedBuffer exposed;      // rtr_written: where the peer may write
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

// Lists by key. Matching is by equality, and what matches is nearly always at the front of its bucket.
template <typename Node>
struct KeyedLists {
  static constexpr size_t kBuckets = 16;
  // Apart, and made when first needed: most lists are empty most of the time, and to see that costs no cache line of
  // its own.
  std::unique_ptr<std::array<List<Node>, kBuckets>> buckets;
  uint32_t count = 0;

  static size_t bucket_of(const MessageKey& key) {
    return (key.tag ^ (key.sequence * 5) ^ static_cast<uint32_t>(key.context)) % kBuckets;
  }
  void push(Node* node) {
    if (buckets == nullptr) buckets = std::make_unique<std::array<List<Node>, kBuckets>>();
    (*buckets)[bucket_of(node->key)].push(node);
    ++count;
  }
  void remove(Node* node) {
    (*buckets)[bucket_of(node->key)].remove(node);
    --count;
  }
  Node* find(const MessageKey& key) const {
    if (count == 0) return nullptr;
    for (Node* node = (*buckets)[bucket_of(key)].head; node != nullptr; node = node->next) {
      if (node->key == key) return node;
    }
    return nullptr;
  }
  template <typename Visit>
  void each(Visit&& visit) {
    if (count == 0) return;
    for (auto& bucket : *buckets) {
      for (Node *node = bucket.head, *next = nullptr; node != nullptr; node = next) {
        next = node->next;
        visit(node);
      }
    }
  }
};

}  // namespace nbc::libof
