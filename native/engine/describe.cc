// What a hanging process says of itself: the operations and messages that are pending.
#include <algorithm>
#include <string>

#include "engine/engine.h"

namespace nbc {

namespace {

const char* name_of(libof::State state) {
  switch (state) {
    case libof::State::eager_send_init:
      return "eager_send_init";
    case libof::State::eager_sending:
      return "eager_sending";
    case libof::State::recv_waiting_eager:
      return "recv_waiting_eager";
    case libof::State::rndv_recv_init:
      return "rndv_recv_init";
    case libof::State::recv_sending_rtr:
      return "recv_sending_rtr";
    case libof::State::send_waiting_rtr:
      return "send_waiting_rtr";
    case libof::State::send_sending_data:
      return "send_sending_data";
    case libof::State::done:
      return "done";
  }
  return "?";
}

constexpr int64_t kPatience = 200;  // ms: a thread that hangs with the lock does not give it up

}  // namespace

Awaited Engine::awaited(uint32_t slot) {
  Awaited found;
  enter();
  if (const Operation* operation = by_slot_[slot];
      operation != nullptr && slots_->get(slot) == static_cast<int32_t>(SlotState::pending)) {
    if (operation->loaded != nullptr && !operation->loaded->messages) {
      found.round = static_cast<uint32_t>(operation->round);
      found.rounds = static_cast<uint32_t>(operation->loaded->plan.rounds.size());
    }
    found.function = operation->ticket != 0;
    libof_.visit_requests(*operation, [&](const libof::Request& request) { found.peers.push_back(request.peer); });
    std::sort(found.peers.begin(), found.peers.end());
    found.peers.erase(std::unique(found.peers.begin(), found.peers.end()), found.peers.end());
  }
  leave();
  return found;
}

std::string Engine::describe_pending() {
  const bool locked = lock_.lock_within(kPatience);
  std::string text = locked ? "pending:" : "pending, while a thread holds the engine:";
  text += active_.head == nullptr ? " nothing\n" : "\n";
  for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    text += "request " + std::to_string(operation->slot);
    if (operation->loaded == nullptr) {
      text += ", a message";
    } else if (operation->loaded->messages) {
      text += ", messages";
    } else {
      if (!operation->loaded->name.empty()) text += ", " + operation->loaded->name;
      text += ", collective " + std::to_string(operation->tag) + ", round " + std::to_string(operation->round) +
              " of " + std::to_string(operation->loaded->plan.rounds.size());
    }
    text += ", waits for " + std::to_string(operation->outstanding);
    if (operation->ticket != 0) text += ", one of them the function of its operator";
    text += "\n";
    libof_.visit_requests(*operation, [&](const libof::Request& request) {
      text += "  rank " + std::to_string(request.peer) + ", " + std::to_string(request.bytes) + " bytes, tag " +
              std::to_string(request.key.tag) + ", " + name_of(request.state) + "\n";
    });
  }
  if (locked) lock_.unlock();
  return text;
}

}  // namespace nbc
