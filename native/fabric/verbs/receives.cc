#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/receives.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

#include "fabric/verbs/connection.h"
#include "fabric/verbs/locked_memory.h"

namespace nbc::verbs {
namespace {

[[noreturn]] void fail(const Device& device, const char* what) {
  throw device_refusal(std::string(what) + " of " + device.name + ", for verbs.eager 'send'");
}

}  // namespace

uint32_t SharedReceives::most(const ibv_device_attr& attributes) {
  return static_cast<uint32_t>(std::max(attributes.max_srq_wr, 0));
}

SharedReceives::SharedReceives(std::shared_ptr<Device> device, uint32_t most, size_t longest, VerbsCounters& counters)
    : device_(std::move(device)), longest_((longest + 63) / 64 * 64), counters_(counters) {
  ibv_srq_init_attr init{};
  init.attr.max_wr = most + kChain;
  init.attr.max_sge = 1;
  queue_ = device_->lib.create_srq(device_->pd, &init);
  if (queue_ == nullptr) fail(*device_, "creating a shared receive queue");
  try {
    add(kChain);
  } catch (const FabricError&) {
    free();
    throw;
  }
}

SharedReceives::~SharedReceives() { free(); }

void SharedReceives::free() {
  device_->lib.destroy_srq(queue_);
  for (const Slab& slab : slabs_) {
    device_->lib.dereg_mr(slab.mr);
    munmap(slab.base, slab.bytes);
  }
}

void SharedReceives::add(uint32_t count) {
  const size_t bytes = count * longest_;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw FabricError{"no memory for receives"};
  auto* const base = static_cast<std::byte*>(at);
  ibv_mr* mr = device_->lib.reg_mr(device_->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (mr == nullptr) {
    const int error = errno;
    munmap(at, bytes);
    throw FabricError{registration_failure(bytes, error)};
  }
  slabs_.push_back({base, bytes, mr});
  for (uint32_t i = 0; i < count; ++i) {
    used_.push_back(static_cast<uint32_t>(buffers_.size()));
    buffers_.push_back({base + i * longest_, mr->lkey});
  }
  while (!used_.empty()) {
    if (!post()) fail(*device_, "filling the shared receive queue");
  }
}

void SharedReceives::refill() {
  while (used_.size() >= kChain && post()) {
  }
}

// One chain. False: the device refused (errno).
bool SharedReceives::post() {
  ibv_recv_wr requests[kChain];
  ibv_sge parts[kChain];
  const auto count = static_cast<uint32_t>(std::min<size_t>(used_.size(), kChain));
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = used_[used_.size() - 1 - i];
    parts[i] = {reinterpret_cast<uintptr_t>(buffers_[number].at), static_cast<uint32_t>(longest_),
                buffers_[number].key};
    requests[i] = {shared_receive_id(number), i + 1 < count ? &requests[i + 1] : nullptr, &parts[i], 1};
  }
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_srq_recv(queue_, requests, &refused);
  const auto taken = error == 0 ? count : static_cast<uint32_t>(refused - requests);
  used_.resize(used_.size() - taken);
  counters_.receives_refilled += taken;
  errno = error;
  return error == 0;
}

}  // namespace nbc::verbs
#endif
