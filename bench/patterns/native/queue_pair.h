// What verbs give, held by objects: registered memory, completion queues, shared receive queues, reliable-connected
// queue pairs.
#pragma once
#include "control.h"
#include "fabric/verbs/device.h"

namespace nbc::patterns {

using verbs::Device;

// Zeroed memory that the card reads and peers write.
class Registered {
 public:
  Registered(Device& device, size_t bytes);
  ~Registered();
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  std::byte* base = nullptr;
  ibv_mr* mr = nullptr;

 private:
  Device& device_;
  size_t bytes_;
};

class CompletionQueue {
 public:
  CompletionQueue(Device& device, uint32_t entries);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  // At most `most` successful completions; throws FabricError at one that failed.
  int poll(ibv_wc* found, int most);
  ibv_cq* get() { return queue_; }

 private:
  Device& device_;
  ibv_cq* queue_;
};

// Receives that all connections of a responder take from.
class SharedReceiveQueue {
 public:
  SharedReceiveQueue(Device& device, uint32_t entries);
  ~SharedReceiveQueue();
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;
  ibv_srq* get() { return queue_; }

 private:
  Device& device_;
  ibv_srq* queue_;
};

class QueuePair {
 public:
  struct Depths {
    uint32_t sends;
    uint32_t receives;  // 0 with a shared receive queue
    uint32_t inline_bytes;
  };
  QueuePair(Device& device, CompletionQueue& sends, CompletionQueue& receives, ibv_srq* shared, const Depths& depths);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  // Without its mailbox.
  Card card() const;
  void connect(const Card& theirs);
  ibv_qp* get() { return pair_; }

 private:
  Device& device_;
  const verbs::Attachment attachment_ = device_.attachment();
  ibv_qp* pair_;
};

}  // namespace nbc::patterns
