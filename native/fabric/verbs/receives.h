// The queue of receives that all connections of a rank share, and the buffers behind them. Each connection adds a share
// of both, so there is a receive for every message that a peer has a credit for (credits.h). The queue itself has a
// place of some 32 bytes for each receive that there may ever be, because mlx5, the driver of ConnectX cards, cannot
// enlarge it.
//
// A buffer goes back to the queue when its message has been copied out: a chain of them at a time. The queue has that
// many receives more than its shares, so credits may be paid before their receives are back.
//
// Threads: the owner of the engine.
#pragma once
#include <memory>
#include <vector>

#include "fabric/verbs/counters.h"
#include "fabric/verbs/device.h"

namespace nbc::verbs {

class SharedReceives {
 public:
  static constexpr uint32_t kChain = 32;

  // `most`: as large as the shares may become together; `longest`: bytes of a message. Throws FabricError.
  SharedReceives(std::shared_ptr<Device> device, uint32_t most, size_t longest, VerbsCounters& counters);
  ~SharedReceives();
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;

  // How many receives there can be on a device.
  static uint32_t most(const ibv_device_attr& attributes);

  ibv_srq* queue() const { return queue_; }
  // More receives, with buffers of their own. Throws FabricError.
  void add(uint32_t count);
  const std::byte* buffer(uint32_t number) const { return buffers_[number].at; }
  // Its message has been dealt with.
  void release(uint32_t number) { used_.push_back(number); }
  // Puts back whole chains of what was released. What the device refuses is tried again next time.
  void refill();

 private:
  struct Slab {
    std::byte* base;
    size_t bytes;
    ibv_mr* mr;
  };
  struct Buffer {
    std::byte* at;
    uint32_t key;
  };
  bool post();
  void free();

  std::shared_ptr<Device> device_;
  size_t longest_;
  VerbsCounters& counters_;
  ibv_srq* queue_ = nullptr;
  std::vector<Slab> slabs_;
  std::vector<Buffer> buffers_;  // by number
  std::vector<uint32_t> used_;   // not in the queue
};

}  // namespace nbc::verbs
