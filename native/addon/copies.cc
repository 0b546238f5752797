#include "addon/copies.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "addon/buffer_pin.h"

namespace nbc::addon {
namespace {

// Most pieces are equal, or different in all bytes.
constexpr size_t kPiece = 256;

void write_changes(std::byte* to, const std::byte* now, const std::byte* before, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kPiece) {
    const size_t piece = std::min(kPiece, bytes - at);
    if (std::memcmp(now + at, before + at, piece) == 0) continue;
    for (size_t i = at; i < at + piece; ++i) {
      if (now[i] != before[i]) to[i] = now[i];
    }
  }
}

}  // namespace

bool Copies::add(uint32_t slot, napi_value view, const Pinned& pinned, bool receives, bool persistent) {
  if (!(receives || persistent)) return true;
  Copy copy{nullptr, pinned, nullptr, persistent};
  if (receives) {
    copy.before.reset(new (std::nothrow) std::byte[pinned.bytes]);
    if (copy.before == nullptr) return false;
    std::memcpy(copy.before.get(), pinned.data, pinned.bytes);
  }
  if (napi_create_reference(env_, view, 1, &copy.view) != napi_ok) return false;
  by_slot_[slot].push_back(std::move(copy));
  return true;
}

// False: the buffer is detached, or something else is not as it was.
bool Copies::find_memory(const Copy& copy, std::byte*& out) const {
  napi_value view = nullptr;
  Pinned seen;
  if (napi_get_reference_value(env_, copy.view, &view) != napi_ok || view == nullptr) return false;
  if (look_at(env_, view, seen) != PinResult::ok || seen.bytes != copy.pinned.bytes) return false;
  out = seen.data;
  return true;
}

bool Copies::refresh(uint32_t slot) {
  const auto found = by_slot_.find(slot);
  if (found == by_slot_.end()) return true;
  for (Copy& copy : found->second) {
    std::byte* memory;
    if (!find_memory(copy, memory)) return false;
    std::memcpy(copy.pinned.data, memory, copy.pinned.bytes);
    if (copy.before != nullptr) std::memcpy(copy.before.get(), memory, copy.pinned.bytes);
  }
  return true;
}

bool Copies::collect(uint32_t slot) {
  const auto found = by_slot_.find(slot);
  if (found == by_slot_.end()) return true;
  bool complete = true;
  bool persistent = false;
  for (Copy& copy : found->second) {
    persistent = copy.persistent;
    if (copy.before == nullptr) continue;
    std::byte* memory;
    if (find_memory(copy, memory)) {
      write_changes(memory, copy.pinned.data, copy.before.get(), copy.pinned.bytes);
    } else {
      complete = false;
    }
  }
  if (!persistent) drop(slot);
  return complete;
}

void Copies::drop(uint32_t slot) {
  const auto found = by_slot_.find(slot);
  if (found == by_slot_.end()) return;
  for (const Copy& copy : found->second) napi_delete_reference(env_, copy.view);
  by_slot_.erase(found);
}

void Copies::drop_all(bool environment_ends) {
  if (environment_ends) by_slot_.clear();
  while (!by_slot_.empty()) {
    const uint32_t slot = by_slot_.begin()->first;
    collect(slot);
    drop(slot);
  }
}

}  // namespace nbc::addon
